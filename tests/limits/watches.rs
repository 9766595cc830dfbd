use std::collections::BTreeSet;

use listwatch::v1::{self, BookmarkKind, watch_many_request::Kind};
use listwatch_server::{Refusal, RequestOptions, ServerOptions};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use super::{channel_from, held, listening, retry_after, stub_from, until};
use crate::harness::{Harness, PATIENCE, Watching, key, millis, reason, watch};

fn watches(max: usize) -> ServerOptions {
    let mut options = ServerOptions::default();
    options.requests.max_watches = max;
    options
}

async fn refused(harness: &Harness) -> Status {
    let opened = harness.watch(watch("pods", None)).await;
    opened.err().expect("it was opened")
}

/// Opens a watch as soon as there is a place.
async fn opened(harness: &Harness) -> Watching {
    until("a place", || harness.server.load().watches == 0).await;
    harness.watch_all("pods").await
}

#[tokio::test]
async fn a_watch_limit_holds_until_the_stream_ends_not_until_headers() {
    let harness = Harness::with(watches(1), Default::default()).await;
    let mut first = harness.watch_all("pods").await;
    first.until(BookmarkKind::InitialStateEnd).await;
    for _ in 0..3 {
        retry_after(&refused(&harness).await, "TOO_MANY_WATCHES");
    }
    harness.put("pods", "a", "1").await;
    first.through(1).await;
    retry_after(&refused(&harness).await, "TOO_MANY_WATCHES");
    // The client's going frees the place,
    drop(first);
    drop(opened(&harness).await);
    until("a place", || harness.server.load().watches == 0).await;
    // and so does the watch's own end,
    let mut request = watch("pods", None);
    request.start = Some(v1::watch_request::Start::InitialState(v1::InitialState {
        only: true,
        ..v1::InitialState::default()
    }));
    let mut ending = harness.watch(request).await.unwrap();
    while ending.next().await.unwrap().is_some() {}
    drop(opened(&harness).await);
    until("a place", || harness.server.load().watches == 0).await;
    // and a watch that never began.
    let mut wrong = watch("pods", None);
    wrong.bookmark_interval = millis(0);
    let error = harness.watch(wrong).await.err().expect("an error");
    assert_eq!(reason(&error), "FIELD_INVALID");
    opened(&harness).await;
}

#[tokio::test]
async fn a_refused_watch_is_told_when_to_retry_and_costs_no_slot() {
    let harness = Harness::with(watches(2), Default::default()).await;
    let held = [
        harness.watch_all("pods").await,
        harness.watch_all("pods").await,
    ];
    let mut delays = BTreeSet::new();
    for _ in 0..50 {
        delays.insert(retry_after(&refused(&harness).await, "TOO_MANY_WATCHES"));
    }
    assert!(delays.len() > 40, "they would all come back together");
    assert_eq!(harness.server.load().watches, 2);
    assert_eq!(harness.server.refusals().count(Refusal::Watches), 50);
    drop(held);
    opened(&harness).await;
}

/// A stream of many watches.
struct Many {
    requests: mpsc::Sender<v1::WatchManyRequest>,
    responses: Streaming<v1::WatchManyResponse>,
}

impl Many {
    async fn open(harness: &Harness) -> Self {
        let (requests, receiver) = mpsc::channel(100);
        let mut raw = harness.raw.clone();
        let responses = raw.watch_many(ReceiverStream::new(receiver)).await;
        Self {
            requests,
            responses: responses.unwrap().into_inner(),
        }
    }

    async fn ask(&self, watch_id: i64, kind: Kind) {
        let kind = Some(kind);
        let request = v1::WatchManyRequest { watch_id, kind };
        self.requests.send(request).await.unwrap();
    }

    async fn next(&mut self) -> v1::WatchManyResponse {
        let next = tokio::time::timeout(PATIENCE, self.responses.message()).await;
        next.expect("silent").unwrap().expect("the stream ended")
    }

    /// Waits for the end of a watch; returns its reason.
    async fn end_of(&mut self, id: i64) -> v1::WatchEnd {
        loop {
            let response = self.next().await;
            if response.watch_ids.contains(&id)
                && let Some(end) = response.end
            {
                return end;
            }
        }
    }
}

#[tokio::test]
async fn watches_on_one_stream_are_counted_one_by_one() {
    let harness = Harness::with(watches(3), Default::default()).await;
    let mut many = Many::open(&harness).await;
    for id in 1..=4 {
        many.ask(id, Kind::Watch(watch("pods", None))).await;
    }
    let end = many.end_of(4).await;
    assert_eq!(end.code, Code::ResourceExhausted as i32);
    assert_eq!(harness.server.refusals().count(Refusal::Watches), 1);
    // Three that want the same become one, and are three to the limit all the same.
    let written = harness.put("pods", "a", "1").await;
    let mut reached = BTreeSet::new();
    while reached.len() < 3 {
        let response = many.next().await;
        let bookmark = response.response.and_then(|r| r.bookmark);
        if bookmark.is_some_and(|b| b.revision >= written.revision) {
            reached.extend(response.watch_ids);
        }
    }
    assert_eq!(harness.server.load().watches, 3);
    retry_after(&refused(&harness).await, "TOO_MANY_WATCHES");
    many.ask(2, Kind::Cancel(v1::CancelWatch::default())).await;
    many.end_of(2).await;
    harness.watch_all("pods").await;
    drop(many);
    until("their places", || harness.server.load().watches == 0).await;
}

#[tokio::test]
async fn one_client_gets_its_share_of_the_watches_and_others_get_theirs() {
    let mut options = watches(10);
    options.requests.max_watches_per_client = Some(2);
    let server = listening(options).await;
    // Over two connections: the share is the client's.
    let (mut one, mut other) = (
        stub_from("127.0.0.1", &server).await,
        stub_from("127.0.0.1", &server).await,
    );
    let _held = (
        one.watch(watch("pods", None)).await.unwrap(),
        other.watch(watch("pods", None)).await.unwrap(),
    );
    for stub in [&mut one, &mut other] {
        let error = stub.watch(watch("pods", None)).await.unwrap_err();
        retry_after(&error, "TOO_MANY_WATCHES");
    }
    assert_eq!(server.refusals().count(Refusal::WatchesPerClient), 2);
    let mut neighbour = stub_from("127.0.0.2", &server).await;
    let _theirs = neighbour.watch(watch("pods", None)).await.unwrap();
    assert_eq!(server.load().watches, 3);
}

#[tokio::test]
async fn watches_never_starve_unary_calls() {
    let harness = Harness::start().await;
    let mut raw = harness.raw.clone();
    let mut held = Vec::new();
    // As many as the connection takes: there are streams left for calls.
    let error = loop {
        match raw.watch(watch("pods", None)).await {
            Ok(stream) => held.push(stream),
            Err(status) => break status,
        }
    };
    retry_after(&error, "TOO_MANY_WATCHES");
    assert!(held.len() >= 1000, "{}", held.len());
    let refused = Refusal::WatchesPerConnection;
    assert_eq!(harness.server.refusals().count(refused), 1);
    let calls = tokio::time::timeout(PATIENCE, async {
        harness.put("pods", "a", "1").await;
        harness.list("pods").await;
        harness.client.status().await.unwrap();
    });
    calls.await.expect("calls wait for the watches");
}

#[tokio::test]
async fn a_watch_whose_request_never_comes_is_given_up() {
    let mut options = watches(1);
    options.requests = RequestOptions {
        request_timeout: std::time::Duration::from_millis(100),
        ..options.requests
    };
    let server = listening(options).await;
    let channel = channel_from("127.0.0.1", &server).await.unwrap();
    let watch_of_nothing = held(&channel, "Watch");
    let ended = tokio::time::timeout(PATIENCE, watch_of_nothing).await;
    let status = ended.expect("it is waited for").unwrap().unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded);
    assert_eq!(server.load().watches, 0);
    // One that has come is not: the deadline is that of the opening.
    let mut stub = stub_from("127.0.0.1", &server).await;
    let mut request = watch("pods", None);
    request.bookmark_interval = millis(300);
    let mut stream = stub.watch(request).await.unwrap().into_inner();
    for _ in 0..3 {
        let next = tokio::time::timeout(PATIENCE, stream.message()).await;
        next.expect("silent").unwrap().expect("it ended");
    }
    let get = v1::GetRequest {
        key: Some(key("pods", "none")),
        ..v1::GetRequest::default()
    };
    assert_eq!(stub.get(get).await.unwrap_err().code(), Code::NotFound);
}
