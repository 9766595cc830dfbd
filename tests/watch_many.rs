//! WatchMany: many watches on one stream, each with the promises of a Watch.

use std::collections::{BTreeMap, BTreeSet};

use listwatch::v1::{self, BookmarkKind, watch_many_request::Kind, watch_request::Start};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::harness::{Harness, PATIENCE, short, watch};

/// An open stream of many watches.
struct Many {
    requests: Option<mpsc::Sender<v1::WatchManyRequest>>,
    responses: Streaming<v1::WatchManyResponse>,
}

impl Many {
    async fn open(harness: &Harness) -> Self {
        let (requests, receiver) = mpsc::channel(1000);
        let mut raw = harness.raw.clone();
        let responses = raw.watch_many(ReceiverStream::new(receiver)).await;
        Self {
            requests: Some(requests),
            responses: responses.unwrap().into_inner(),
        }
    }

    async fn send(&self, watch_id: i64, kind: Kind) {
        let request = v1::WatchManyRequest {
            watch_id,
            kind: Some(kind),
        };
        self.requests.as_ref().unwrap().send(request).await.unwrap();
    }

    async fn watch(&self, id: i64, request: v1::WatchRequest) {
        self.send(id, Kind::Watch(request)).await;
    }

    async fn next(&mut self) -> Option<v1::WatchManyResponse> {
        let next = tokio::time::timeout(PATIENCE, self.responses.message()).await;
        next.expect("the stream is silent").unwrap()
    }

    /// Responses by watch until `done` says so of what has come so far.
    async fn until(&mut self, done: impl Fn(&Seen) -> bool) -> Seen {
        let mut seen = Seen::default();
        while !done(&seen) {
            let response = self.next().await.expect("the stream ended");
            seen.take(response);
        }
        seen
    }
}

/// What each watch got.
#[derive(Default)]
struct Seen {
    responses: BTreeMap<i64, Vec<v1::WatchResponse>>,
    ends: BTreeMap<i64, v1::WatchEnd>,
    /// Events on the wire, however many watches they were for.
    sent: usize,
}

impl Seen {
    fn take(&mut self, many: v1::WatchManyResponse) {
        let response = many.response.unwrap_or_default();
        self.sent += response.events.len();
        for id in many.watch_ids {
            self.responses.entry(id).or_default().push(response.clone());
            if let Some(end) = &many.end {
                self.ends.insert(id, end.clone());
            }
        }
    }

    fn through(&self, id: i64, revision: i64) -> bool {
        let responses = self.responses.get(&id).into_iter().flatten();
        let mut bookmarks = responses.filter_map(|r| r.bookmark.as_ref());
        bookmarks.any(|bookmark| bookmark.revision >= revision)
    }

    fn short(&self, id: i64) -> Vec<String> {
        short(self.responses.get(&id).map_or(&[][..], Vec::as_slice))
    }
}

#[tokio::test]
async fn each_watch_of_a_stream_gets_what_it_asked_for() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let mut many = Many::open(&harness).await;
    many.watch(7, watch("pods", None)).await;
    many.watch(8, watch("nodes", Some(Start::Now(true)))).await;
    let opened = |seen: &Seen| seen.responses.len() == 2 && seen.through(7, 1);
    let seen = many.until(opened).await;
    assert_eq!(seen.short(7), ["=a@1"]);
    harness.put("nodes", "n", "1").await;
    harness.put("pods", "b", "1").await;
    let seen = many
        .until(|seen| seen.through(7, 3) && seen.through(8, 2))
        .await;
    assert_eq!(seen.short(7), ["+b@3"]);
    assert_eq!(seen.short(8), ["+n@2"]);
}

#[tokio::test]
async fn an_event_that_several_watches_want_is_sent_once() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let mut many = Many::open(&harness).await;
    for id in 0..50 {
        many.watch(id, watch("pods", None)).await;
    }
    let all = |revision| move |seen: &Seen| (0..50).all(|id| seen.through(id, revision));
    many.until(all(1)).await;
    // Joined once they have caught up; a few events may still come apart.
    let mut sent = 0;
    for n in 2..=20 {
        harness.put("pods", "a", &n.to_string()).await;
        let seen = many.until(all(n)).await;
        for id in 0..50 {
            assert_eq!(seen.short(id), [format!("~a@{n}")]);
        }
        sent = seen.sent;
    }
    assert_eq!(sent, 1, "the last event was sent for each watch apart");
}

/// Those that want the same become one; whoever wants something else must not.
#[tokio::test]
async fn watches_that_want_different_things_never_become_one() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let mut many = Many::open(&harness).await;
    let plain = || watch("pods", None);
    let key_view = v1::WatchRequest {
        view: v1::View::Key.into(),
        ..plain()
    };
    let previous = v1::WatchRequest {
        send_previous: true,
        ..plain()
    };
    let mut one_name = plain();
    one_name.selector.as_mut().unwrap().name = "a".into();
    for (id, request) in [(1, plain()), (2, key_view), (3, previous), (4, one_name)] {
        many.watch(id, request.clone()).await;
        many.watch(id + 10, request).await;
    }
    let ids = [1, 2, 3, 4, 11, 12, 13, 14];
    let all = |revision| move |seen: &Seen| ids.iter().all(|id| seen.through(*id, revision));
    many.until(all(1)).await;
    for n in 2..=10 {
        harness.put("pods", "a", &n.to_string()).await;
        let seen = many.until(all(n)).await;
        for id in ids {
            assert_eq!(seen.short(id), [format!("~a@{n}")]);
            let events = seen.responses[&id].iter().flat_map(|r| &r.events);
            for event in events {
                let value = &event.resource.as_ref().unwrap().value;
                assert_eq!(value.is_empty(), id % 10 == 2, "watch {id}");
                assert_eq!(event.previous.is_some(), id % 10 == 3, "watch {id}");
            }
        }
    }
    // And nothing of what only one of them selects.
    harness.put("pods", "b", "1").await;
    let others = |seen: &Seen| [1, 2, 3].iter().all(|id| seen.through(*id, 11));
    let seen = many.until(others).await;
    assert!(seen.short(4).is_empty() && seen.short(14).is_empty());
}

#[tokio::test]
async fn a_cancelled_watch_ends_with_a_last_bookmark_and_the_others_go_on() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let mut many = Many::open(&harness).await;
    for id in [1, 2, 3] {
        many.watch(id, watch("pods", None)).await;
    }
    let all = |seen: &Seen| [1, 2, 3].iter().all(|id| seen.through(*id, 1));
    many.until(all).await;
    many.send(2, Kind::Cancel(v1::CancelWatch {})).await;
    let seen = many.until(|seen| seen.ends.contains_key(&2)).await;
    assert_eq!(seen.ends[&2].code, 0);
    let last = seen.responses[&2]
        .last()
        .unwrap()
        .bookmark
        .as_ref()
        .unwrap();
    assert_eq!(last.revision, 1);
    harness.put("pods", "b", "1").await;
    let seen = many
        .until(|seen| seen.through(1, 2) && seen.through(3, 2))
        .await;
    assert_eq!(seen.short(1), ["+b@2"]);
    assert!(!seen.responses.contains_key(&2));
    // The id is free again, and its token goes on where it was.
    let token = last.resume_token.clone();
    many.watch(2, watch("pods", Some(Start::ResumeToken(token))))
        .await;
    let seen = many.until(|seen| seen.through(2, 2)).await;
    assert_eq!(seen.short(2), ["+b@2"]);
}

#[tokio::test]
async fn one_watchs_error_is_not_the_streams() {
    let harness = Harness::start().await;
    for n in 0..10 {
        harness.put("pods", "a", &n.to_string()).await;
    }
    harness.compact(9).await;
    let mut many = Many::open(&harness).await;
    let mut compacted = watch("pods", Some(Start::AfterRevision(1)));
    compacted.catch_up = v1::CatchUp::Exact.into();
    many.watch(1, compacted).await;
    many.watch(2, watch("Not a collection", None)).await;
    many.watch(3, watch("pods", None)).await;
    let seen = many
        .until(|seen| seen.ends.len() == 2 && seen.through(3, 10))
        .await;
    let end = &seen.ends[&1];
    assert_eq!(end.code, tonic::Code::OutOfRange as i32);
    assert_eq!(end.reason(), v1::ErrorReason::RevisionCompacted);
    assert_eq!(end.metadata["compact_revision"], "9");
    assert_eq!(seen.ends[&2].reason(), v1::ErrorReason::FieldInvalid);
    assert_eq!(seen.short(3), ["=a@10"]);
}

#[tokio::test]
async fn a_bookmark_comes_when_it_is_asked_for() {
    let harness = Harness::start().await;
    let mut many = Many::open(&harness).await;
    many.watch(1, watch("pods", None)).await;
    many.until(|seen| seen.responses.get(&1).is_some_and(|r| r.len() >= 2))
        .await;
    harness.put("other", "x", "1").await;
    // Nothing matches and the interval is a minute: only asking brings it.
    many.send(1, Kind::Bookmark(v1::RequestBookmark {})).await;
    let seen = many.until(|seen| !seen.responses.is_empty()).await;
    let bookmark = seen.responses[&1][0].bookmark.as_ref().unwrap();
    assert_eq!(bookmark.kind(), BookmarkKind::Progress);
    assert_eq!(bookmark.revision, 1);
}

#[tokio::test]
async fn an_id_that_is_open_already_is_refused() {
    let harness = Harness::start().await;
    let mut many = Many::open(&harness).await;
    many.watch(1, watch("pods", None)).await;
    many.watch(1, watch("nodes", None)).await;
    loop {
        match tokio::time::timeout(PATIENCE, many.responses.message())
            .await
            .unwrap()
        {
            Ok(Some(_)) => {}
            Ok(None) => panic!("ended well"),
            Err(status) => {
                assert_eq!(status.code(), tonic::Code::InvalidArgument);
                assert!(status.message().contains("watch_id"), "{status}");
                return;
            }
        }
    }
}

#[tokio::test]
async fn a_stream_ends_when_its_requests_and_watches_have() {
    let harness = Harness::start().await;
    let mut many = Many::open(&harness).await;
    let only = v1::InitialState {
        only: true,
        ..v1::InitialState::default()
    };
    many.watch(1, watch("pods", Some(Start::InitialState(only))))
        .await;
    many.requests = None;
    let mut seen = Seen::default();
    while let Some(response) = many.next().await {
        seen.take(response);
    }
    assert_eq!(seen.ends[&1].code, 0);
}

#[tokio::test]
async fn every_watch_of_a_stream_is_told_when_the_server_goes_away() {
    let harness = Harness::start().await;
    let mut many = Many::open(&harness).await;
    for id in 0..5 {
        many.watch(id, watch("pods", None)).await;
    }
    many.until(|seen| (0..5).all(|id| seen.responses.get(&id).is_some_and(|r| r.len() >= 2)))
        .await;
    harness.server.drain();
    let mut told = BTreeSet::new();
    while let Some(response) = many.next().await {
        let bookmark = response.response.and_then(|r| r.bookmark);
        if bookmark.is_some_and(|b| b.kind() == BookmarkKind::GoingAway) {
            told.extend(response.watch_ids);
        }
    }
    assert_eq!(told, (0..5).collect());
}

#[tokio::test]
async fn watches_of_one_stream_get_what_single_watches_get() {
    let harness = Harness::start().await;
    let selectors = |id: i64| {
        let mut request = watch("pods", None);
        let selector = request.selector.as_mut().unwrap();
        match id % 4 {
            0 => {}
            1 => selector.name = format!("p{}", id % 7),
            2 => {
                selector.labels = vec![v1::LabelRequirement {
                    key: "app".into(),
                    operator: v1::LabelOperator::In.into(),
                    values: vec![format!("v{}", id % 3)],
                }];
            }
            _ => selector.name_prefix = "p1".into(),
        }
        request
    };
    let mut many = Many::open(&harness).await;
    let mut single = Vec::new();
    for id in 0..24 {
        many.watch(id, selectors(id)).await;
        single.push(harness.watch(selectors(id)).await.unwrap());
    }
    let mut last = 0;
    for n in 0..200usize {
        let (name, app) = (format!("p{}", n * 7 % 15), format!("v{}", n * 5 % 4));
        last = if n % 6 == 5 {
            let key = Some(crate::harness::key("pods", &name));
            let request = v1::DeleteRequest {
                key,
                allow_missing: true,
                ..v1::DeleteRequest::default()
            };
            harness.client.delete(request).await.unwrap();
            last
        } else {
            let written = harness
                .put_labelled("pods", &name, &n.to_string(), &[("app", &app)])
                .await;
            written.revision
        };
    }
    for id in 0..24 {
        many.send(id, Kind::Bookmark(v1::RequestBookmark {})).await;
    }
    // An object for every selector, so that each has something at the end.
    for n in 0..15 {
        for app in 0..4 {
            let name = format!("p{n}");
            let labels = [("app", format!("v{app}"))];
            let labels = [(labels[0].0, labels[0].1.as_str())];
            last = harness
                .put_labelled("pods", &name, "end", &labels)
                .await
                .revision;
        }
    }
    let floor = last - 60;
    let seen = many
        .until(|seen| (0..24).all(|id| seen.through(id, floor)))
        .await;
    for (id, watch) in (0..24).zip(&mut single) {
        let alone = watch.through(floor).await;
        let (alone, joined) = (short(&alone), seen.short(id));
        let common = alone.len().min(joined.len());
        assert!(common > 0);
        assert_eq!(alone[..common], joined[..common], "watch {id}");
    }
}
