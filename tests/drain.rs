//! A server that goes away: not ready, then watches that end one after the other, then the end.

use std::{collections::BTreeMap, time::Duration};

use listwatch::v1::{self, BookmarkKind, watch_many_request::Kind, watch_request::Start};
use listwatch_client::Client;
use listwatch_server::{Phase, RequestOptions, ServerOptions, limits::WATCH_DEPARTURE_SHARE};
use tokio::{sync::mpsc, time::Instant};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use crate::harness::{
    Harness,
    daemon::{Daemon, free_address},
    everything, token, watch,
};

const WATCHES: i64 = 2000;
const GRACE: Duration = Duration::from_secs(10);

fn options() -> ServerOptions {
    ServerOptions {
        shutdown_grace: GRACE,
        requests: RequestOptions {
            max_watches_per_client: Some(usize::MAX),
            ..RequestOptions::default()
        },
        ..ServerOptions::default()
    }
}

/// A watch that no other of its stream is like.
fn nth(number: i64, start: Option<Start>) -> v1::WatchRequest {
    let mut request = watch("pods", start);
    request.selector.as_mut().unwrap().labels = vec![v1::LabelRequirement {
        key: "app".into(),
        operator: v1::LabelOperator::NotIn.into(),
        values: vec![format!("other-{number}")],
    }];
    request
}

/// Opens watches 0 to `WATCHES` on one stream; returns when each has its initial state, or
/// has resumed.
async fn open_all(
    harness: &Harness,
    start: impl Fn(i64) -> Option<Start>,
) -> (
    mpsc::Sender<v1::WatchManyRequest>,
    Streaming<v1::WatchManyResponse>,
) {
    let (requests, receiver) = mpsc::channel(WATCHES as usize);
    for watch_id in 0..WATCHES {
        let kind = Some(Kind::Watch(nth(watch_id, start(watch_id))));
        let request = v1::WatchManyRequest { watch_id, kind };
        requests.send(request).await.unwrap();
    }
    let mut stubs = harness.raw.clone();
    let opened = stubs.watch_many(ReceiverStream::new(receiver));
    let mut stream = opened.await.unwrap().into_inner();
    let expected = match start(0) {
        None => BookmarkKind::InitialStateBegin,
        Some(_) => BookmarkKind::Progress,
    };
    let mut open = 0;
    while open < WATCHES {
        let response = stream.message().await.unwrap().unwrap();
        assert!(response.end.is_none(), "{response:?}");
        let bookmark = response.response.and_then(|r| r.bookmark).unwrap();
        match bookmark.kind() {
            BookmarkKind::InitialStateEnd | BookmarkKind::Resumed => open += 1,
            kind => assert_eq!(kind, expected),
        }
    }
    (requests, stream)
}

/// Kubernetes 114925.
#[tokio::test(start_paused = true)]
async fn kubernetes_114925_watches_end_one_after_the_other_and_resume_without_a_new_state() {
    let harness = Harness::with(options(), Default::default()).await;
    harness.put("pods", "before", "1").await;
    let (_requests, mut stream) = open_all(&harness, |_| None).await;
    harness.server.drain();
    let began = Instant::now();
    let mut left = BTreeMap::new();
    let mut by_tenth = [0; 10];
    while let Some(response) = stream.message().await.unwrap() {
        let Some(bookmark) = response.response.and_then(|r| r.bookmark) else {
            assert_eq!(response.end.map(|e| e.code), Some(0));
            continue;
        };
        if bookmark.kind() == BookmarkKind::GoingAway {
            let [id] = response.watch_ids[..] else {
                panic!("several at once: {:?}", response.watch_ids)
            };
            left.insert(id, bookmark.resume_token);
            let passed = began.elapsed().div_duration_f64(GRACE);
            by_tenth[(passed * 10.0) as usize] += 1;
        }
    }
    assert_eq!(left.len() as i64, WATCHES);
    // Evenly over the share of the grace that is theirs: the rate that they come back with
    // is at most a few more than that.
    let even = WATCHES as f64 / (WATCH_DEPARTURE_SHARE * 10.0);
    assert!(
        by_tenth
            .iter()
            .all(|count| f64::from(*count) <= even * 1.05),
        "{by_tenth:?}"
    );
    harness.server.join().await.unwrap();
    assert!(began.elapsed() <= GRACE);
    // Another server, and not one new initial state.
    let next = Harness::over(harness.store.clone(), options()).await;
    let resumed = |id: i64| Some(Start::ResumeToken(left[&id].clone()));
    let (_requests, mut stream) = open_all(&next, resumed).await;
    next.put("pods", "after", "1").await;
    let mut heard = 0;
    while heard < WATCHES {
        let response = stream.message().await.unwrap().unwrap();
        heard += response.response.unwrap().events.len() as i64;
    }
    assert_eq!(heard, WATCHES);
}

#[tokio::test(start_paused = true)]
async fn until_its_turn_comes_a_watch_goes_on() {
    let harness = Harness::with(options(), Default::default()).await;
    let (requests, mut stream) = open_all(&harness, |_| None).await;
    harness.server.drain();
    let (mut gone, mut heard, mut written) = (0, 0, false);
    let mut refused = None;
    while let Some(response) = stream.message().await.unwrap() {
        if let Some(end) = response.end {
            match response.watch_ids[..] {
                [id] if id >= WATCHES => refused = Some(end),
                _ => gone += 1,
            }
            continue;
        }
        let response = response.response.unwrap();
        heard += response.events.len() as i64;
        if gone == WATCHES / 2 && !written {
            written = true;
            harness.put_in_store("pods", "late").await;
            // New ones are not taken: the client has another server to ask.
            let kind = Some(Kind::Watch(watch("pods", None)));
            let watch_id = WATCHES;
            requests
                .send(v1::WatchManyRequest { watch_id, kind })
                .await
                .unwrap();
        }
    }
    assert_eq!(gone, WATCHES);
    // The other half; a few may have left between.
    assert!(
        heard > WATCHES / 3 && heard <= WATCHES / 2,
        "{heard} heard of it"
    );
    let refused = refused.expect("an answer");
    assert_eq!(refused.reason(), v1::ErrorReason::NotReady);
    assert!(refused.retry_after.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_server_with_few_watches_is_not_held_up() {
    let harness = Harness::with(options(), Default::default()).await;
    let mut held = harness.watch_all("pods").await;
    held.until(BookmarkKind::InitialStateEnd).await;
    let began = Instant::now();
    harness.server.drain();
    let last = held.until(BookmarkKind::GoingAway).await;
    assert!(!token(&last).is_empty());
    harness.server.join().await.unwrap();
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn what_outlives_the_grace_is_cut_off() {
    let harness = Harness::with(options(), Default::default()).await;
    // Its responses are never read, so it cannot be told either.
    let big = "x".repeat(200_000);
    let _stalled = harness.watch_all("pods").await;
    for n in 0..100 {
        harness.put("pods", &format!("p{n}"), &big).await;
    }
    let began = Instant::now();
    harness.server.drain();
    harness.server.join().await.unwrap();
    assert_eq!(began.elapsed().as_secs(), GRACE.as_secs());
}

#[tokio::test]
async fn a_server_that_is_cut_off_waits_for_no_one() {
    let mut unhurried = options();
    unhurried.shutdown_grace = Duration::from_secs(100_000);
    let harness = Harness::with(unhurried, Default::default()).await;
    let (_requests, mut stream) = open_all(&harness, |_| None).await;
    harness.server.drain();
    harness.server.cut_off();
    assert_eq!(harness.server.phase(), Phase::Closing);
    harness.server.drain();
    assert_eq!(
        harness.server.phase(),
        Phase::Closing,
        "phases never go back"
    );
    let mut told = 0;
    while let Ok(Some(response)) = stream.message().await {
        told += response.watch_ids.len() as i64;
    }
    assert!(told < WATCHES, "all were waited for");
    harness.server.join().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_process_at_once_and_well() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let flags = ["--shutdown-grace", "10h"];
    let mut daemon = Daemon::start(&data, &free_address(), &flags).await;
    let client = Client::connect(daemon.address.clone()).await.unwrap();
    // One by one, ten seconds would be taken for these.
    let mut watches = Vec::new();
    for _ in 0..1000 {
        let request = v1::WatchRequest {
            selector: Some(everything("pods")),
            ..v1::WatchRequest::default()
        };
        let mut watch = client.watch(request).await.unwrap();
        watch.message().await.unwrap();
        watches.push(watch);
    }
    daemon.signal_terminate();
    daemon.logs("going away").await;
    let status = daemon.terminate().await;
    assert!(status.success(), "{status}: {}", daemon.log());
    let mut cut_off = 0;
    for mut watch in watches {
        loop {
            match watch.message().await {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => {
                    cut_off += 1;
                    break;
                }
            }
        }
    }
    assert!(cut_off > 0, "all were waited for");
}
