//! How far behind a watch may be, and what comes of one that is further.

use std::time::Duration;

use listwatch::v1::{self, BookmarkKind, watch_many_request::Kind, watch_request::Start};
use listwatch_server::{ServerOptions, hub::LagLimit};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::{
    error_reasons,
    harness::{
        Harness, Watching, events, everything, kinds, millis, narrow, options, short, token, watch,
    },
    validator::Copy,
};

const NAMES: usize = 5;
const WRITES: usize = 200;

fn limited(age: Option<Duration>, bytes: Option<u64>) -> ServerOptions {
    options(|o| {
        o.hub = narrow();
        o.hub.lag_limit = LagLimit { age, bytes };
    })
}

/// Far more than the transport holds for a stream that nobody reads.
async fn write_much(harness: &Harness) {
    let filler = "x".repeat(50_000);
    for n in 0..WRITES {
        let name = format!("p{}", n % NAMES);
        harness.put("pods", &name, &format!("{n}{filler}")).await;
    }
}

/// What a watch gives up to its end, which must be an error.
async fn ends(watch: &mut Watching) -> (Vec<v1::WatchResponse>, Status) {
    let mut responses = Vec::new();
    loop {
        match watch.next().await {
            Ok(response) => responses.push(response.expect("it ended well")),
            Err(status) => return (responses, status),
        }
    }
}

async fn state_of(harness: &Harness) -> Vec<v1::Resource> {
    harness.list("pods").await.resources
}

async fn in_step(harness: &Harness, request: v1::WatchRequest) -> (Watching, Copy) {
    let mut watch = harness.watch(request).await.unwrap();
    let mut copy = Copy::default();
    for response in watch.until(BookmarkKind::InitialStateEnd).await {
        copy.apply(&response);
    }
    // It has had everything, and knows.
    let written = harness.put("pods", "first", "1").await;
    for response in watch.through(written.revision).await {
        copy.apply(&response);
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    (watch, copy)
}

#[tokio::test]
async fn a_hopeless_watch_ends_with_a_bookmark_and_catches_up_with_less() {
    let harness = Harness::with(limited(None, Some(1_000_000)), Default::default()).await;
    let (mut slow, mut copy) = in_step(&harness, watch("pods", None)).await;
    write_much(&harness).await;
    let (responses, status) = ends(&mut slow).await;
    let said = error_reasons::expect(&status, v1::ErrorReason::WatchTooSlow);
    assert!(said[1].parse::<u64>().unwrap() > 1_000_000, "{said:?}");
    let got = events(&responses).len();
    assert!(got < WRITES / 2, "{got} events were sent all the same");
    responses.iter().for_each(|response| copy.apply(response));
    // Not every change again, which would be as hopeless, but one for each object.
    let mut resumed = harness.resume("pods", &token(&responses)).await;
    let caught_up = resumed.until(BookmarkKind::InitialStateEnd).await;
    assert_eq!(kinds(&caught_up)[0], BookmarkKind::NetBegin);
    assert_eq!(events(&caught_up).len(), NAMES);
    caught_up.iter().for_each(|response| copy.apply(response));
    let held: Vec<_> = copy.objects.into_values().collect();
    assert_eq!(held, state_of(&harness).await);
    let closed = harness.server.hub().figures().by_collection();
    let slow = |(name, count): (&str, u64)| (name == "slow").then_some(count);
    let slow = closed
        .iter()
        .flat_map(|(_, f)| f.closed().filter_map(slow).collect::<Vec<_>>());
    assert_eq!(slow.sum::<u64>(), 1);
}

#[tokio::test]
async fn a_watch_of_every_change_is_ended_once_and_then_gets_every_change() {
    let harness = Harness::with(limited(None, Some(1_000_000)), Default::default()).await;
    let exact = |start| v1::WatchRequest {
        catch_up: v1::CatchUp::Exact.into(),
        ..watch("pods", start)
    };
    let (mut slow, _) = in_step(&harness, exact(None)).await;
    write_much(&harness).await;
    let (responses, status) = ends(&mut slow).await;
    error_reasons::expect(&status, v1::ErrorReason::WatchTooSlow);
    let start = Some(Start::ResumeToken(token(&responses)));
    let mut resumed = harness.watch(exact(start)).await.unwrap();
    let rest = resumed.through(harness.revision()).await;
    assert_eq!(kinds(&rest)[0], BookmarkKind::Resumed);
    assert_eq!(events(&responses).len() + events(&rest).len(), WRITES);
}

#[tokio::test]
async fn a_watch_of_the_newest_changes_goes_on_with_less_instead_of_ending() {
    let harness = Harness::with(limited(None, Some(1_000_000)), Default::default()).await;
    let mut request = watch("pods", None);
    request.delivery_mode = v1::DeliveryMode::Latest.into();
    let (mut slow, mut copy) = in_step(&harness, request).await;
    write_much(&harness).await;
    let responses = slow.through(harness.revision()).await;
    assert!(
        kinds(&responses).contains(&BookmarkKind::NetBegin),
        "{:?}",
        kinds(&responses)
    );
    assert!(events(&responses).len() < WRITES / 2);
    responses.iter().for_each(|response| copy.apply(response));
    let held: Vec<_> = copy.objects.into_values().collect();
    assert_eq!(held, state_of(&harness).await);
}

#[tokio::test]
async fn a_watch_that_wants_nothing_of_what_is_written_is_not_behind() {
    let harness = Harness::with(limited(None, Some(1_000_000)), Default::default()).await;
    let mut request = watch("pods", None);
    request.selector = Some(v1::Selector {
        name: "first".into(),
        ..everything("pods")
    });
    let (mut quiet, _) = in_step(&harness, request).await;
    write_much(&harness).await;
    let written = harness.put("pods", "first", "2").await;
    let responses = quiet.through(written.revision).await;
    assert_eq!(short(&responses), [format!("~first@{}", written.revision)]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_hopeless_by_age() {
    let age = Duration::from_secs(600);
    let harness = Harness::with(limited(Some(age), None), Default::default()).await;
    let (mut slow, _) = in_step(&harness, watch("pods", None)).await;
    write_much(&harness).await;
    // As long as it is not, it gets everything.
    tokio::time::sleep(age / 2).await;
    let responses = slow.through(harness.revision()).await;
    assert_eq!(events(&responses).len(), WRITES);
    write_much(&harness).await;
    tokio::time::sleep(age + Duration::from_secs(10)).await;
    let (_, status) = ends(&mut slow).await;
    let said = error_reasons::expect(&status, v1::ErrorReason::WatchTooSlow);
    assert!(said[0].parse::<u64>().unwrap() >= age.as_secs());
}

#[tokio::test]
async fn one_hopeless_watch_of_a_stream_is_not_the_end_of_the_others() {
    let harness = Harness::with(limited(None, Some(1_000_000)), Default::default()).await;
    let (requests, receiver) = mpsc::channel(10);
    let mut stubs = harness.raw.clone();
    let opened = stubs.watch_many(ReceiverStream::new(receiver)).await;
    let mut stream = opened.unwrap().into_inner();
    // Two that differ; the second wants what is not written.
    let (mut busy, mut quiet) = (watch("pods", None), watch("others", None));
    for (watch_id, watch) in [(1, &mut busy), (2, &mut quiet)] {
        watch.bookmark_interval = millis(100);
        let kind = Some(Kind::Watch(watch.clone()));
        requests
            .send(v1::WatchManyRequest { watch_id, kind })
            .await
            .unwrap();
    }
    // Both have caught up.
    let mut bookmarks = [0, 0];
    while bookmarks.iter().any(|count| *count < 3) {
        let response = stream.message().await.unwrap().unwrap();
        response
            .watch_ids
            .iter()
            .for_each(|id| bookmarks[*id as usize - 1] += 1);
    }
    write_much(&harness).await;
    let end = loop {
        let response = stream.message().await.unwrap().unwrap();
        if let Some(end) = response.end {
            assert_eq!(response.watch_ids, [1]);
            break end;
        }
    };
    assert_eq!(end.reason(), v1::ErrorReason::WatchTooSlow);
    assert!(end.retry_after.is_some() && end.metadata.contains_key("backlog_bytes"));
    harness.put("others", "a", "1").await;
    loop {
        let response = stream.message().await.unwrap().unwrap();
        assert_eq!(response.watch_ids, [2]);
        if !response.response.unwrap().events.is_empty() {
            break;
        }
    }
}
