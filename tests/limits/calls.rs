use std::{collections::BTreeSet, time::Duration};

use listwatch::v1::{self, BookmarkKind, list_watch_service_client::ListWatchServiceClient};
use listwatch_server::{
    Refusal, ServerOptions,
    store::{Content, Key, Operation, PutCondition, WriteBatch},
};
use tonic::Code;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::{channel_from, held, listening, retry_after, stub_from, until};
use crate::harness::{Harness, PATIENCE, everything, key, reason, resource, watch};

fn inflight(reading: usize, writing: usize) -> ServerOptions {
    let mut options = ServerOptions::default();
    options.requests.max_requests_inflight = reading;
    options.requests.max_mutating_requests_inflight = writing;
    options
}

fn list() -> v1::ListRequest {
    v1::ListRequest {
        selector: Some(everything("pods")),
        ..v1::ListRequest::default()
    }
}

fn create(name: &str) -> v1::CreateRequest {
    v1::CreateRequest {
        resource: Some(resource("pods", name, "1", &[])),
        ..v1::CreateRequest::default()
    }
}

#[tokio::test]
async fn a_refused_call_is_told_when_to_retry_and_costs_no_slot() {
    let server = listening(inflight(2, 1)).await;
    let channel = channel_from("127.0.0.1", &server).await.unwrap();
    let reading = [held(&channel, "List"), held(&channel, "Get")];
    until("two reads", || server.load().requests == 2).await;
    let mut stub = stub_from("127.0.0.1", &server).await;
    let mut delays = BTreeSet::new();
    for _ in 0..20 {
        let error = stub.list(list()).await.unwrap_err();
        delays.insert(retry_after(&error, "TOO_MANY_REQUESTS"));
    }
    assert!(delays.len() > 15, "they would all come back together");
    // Writes have places of their own,
    stub.create(create("a")).await.unwrap();
    let writing = held(&channel, "Batch");
    until("a write", || server.load().mutating_requests == 1).await;
    let error = stub.create(create("b")).await.unwrap_err();
    retry_after(&error, "TOO_MANY_REQUESTS");
    let counts = [Refusal::Requests, Refusal::MutatingRequests];
    assert_eq!(counts.map(|r| server.refusals().count(r)), [20, 1]);
    assert_eq!(server.load().requests, 2);
    // and whoever gives up makes room.
    reading.iter().for_each(|call| call.abort());
    writing.abort();
    let load = || server.load();
    until("room", || load().requests + load().mutating_requests == 0).await;
    stub.create(create("b")).await.unwrap();
    assert_eq!(
        stub.list(list())
            .await
            .unwrap()
            .into_inner()
            .resources
            .len(),
        2
    );
}

#[tokio::test]
async fn unary_calls_never_starve_watches() {
    let harness = Harness::with(inflight(1, 1), Default::default()).await;
    let channel = tonic::transport::Endpoint::from_static("http://in-memory")
        .connect_with_connector(harness.server.in_memory())
        .await
        .unwrap();
    let calls = [held(&channel, "Get"), held(&channel, "Update")];
    let load = || harness.server.load();
    until("calls", || load().requests + load().mutating_requests == 2).await;
    let error = harness.raw.clone().list(list()).await.unwrap_err();
    retry_after(&error, "TOO_MANY_REQUESTS");
    // A watch opens, and gets what is written: here, beside the API.
    let mut watching = harness.watch_all("pods").await;
    watching.until(BookmarkKind::InitialStateEnd).await;
    let operation = Operation::Put {
        key: Key::new("pods", "default", "a").unwrap(),
        content: Content::default(),
        condition: PutCondition::Any,
    };
    let batch = WriteBatch {
        operations: vec![operation],
        request: None,
        ..WriteBatch::default()
    };
    harness.store.commit(batch).await.unwrap();
    watching.through(1).await;
    // Health answers too: a busy server is not a dead one.
    let mut health = HealthClient::new(channel);
    health.check(HealthCheckRequest::default()).await.unwrap();
    calls.iter().for_each(|call| call.abort());
}

#[tokio::test]
async fn slow_readers_of_answers_keep_no_call_from_being_answered() {
    let server = listening(inflight(1, 1)).await;
    let mut stub = stub_from("127.0.0.1", &server).await;
    for n in 0..20 {
        let mut large = create(&format!("n{n}"));
        large.resource.as_mut().unwrap().value = vec![0; 100_000].into();
        stub.create(large).await.unwrap();
    }
    let narrow = tonic::transport::Endpoint::new(format!("http://{}", super::port_of(&server)))
        .unwrap()
        .initial_stream_window_size(1000)
        .initial_connection_window_size(1000);
    let mut slow = tonic::client::Grpc::new(narrow.connect().await.unwrap());
    slow.ready().await.unwrap();
    let path = "/listwatch.v1.ListWatchService/List".parse().unwrap();
    let codec = tonic_prost::ProstCodec::<v1::ListRequest, v1::ListResponse>::default();
    // The headers have come; the message is not read.
    let unread = slow.server_streaming(tonic::Request::new(list()), path, codec);
    let unread = unread.await.unwrap();
    until("its place", || server.load().requests == 0).await;
    assert_eq!(
        stub.list(list())
            .await
            .unwrap()
            .into_inner()
            .resources
            .len(),
        20
    );
    drop(unread);
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_ended_and_the_connection_goes_on() {
    let mut options = ServerOptions::default();
    options.hub.revision_wait = Duration::from_secs(24 * 3600);
    options.requests.request_timeout = Duration::from_millis(100);
    let harness = Harness::with(options, Default::default()).await;
    let mut raw = harness.raw.clone();
    let get = v1::GetRequest {
        key: Some(key("pods", "a")),
        consistency: Some(v1::Consistency {
            kind: Some(v1::consistency::Kind::MinRevision(1000)),
        }),
        ..v1::GetRequest::default()
    };
    let call = tokio::time::timeout(PATIENCE, raw.get(get)).await;
    let error = call.expect("no answer").unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error:?}");
    assert_eq!(reason(&error), "DEADLINE_EXCEEDED");
    assert_eq!(harness.server.refusals().count(Refusal::Deadline), 1);
    assert_eq!(harness.server.load().requests, 0);
    raw.create(create("a")).await.unwrap();
    let watching = raw.watch(watch("pods", None)).await;
    assert!(watching.is_ok());
}

#[tokio::test]
async fn however_much_is_refused_the_connection_goes_on() {
    let server = listening(inflight(0, 1)).await;
    let channel = channel_from("127.0.0.1", &server).await.unwrap();
    // Their messages are never sent, let alone read.
    for _ in 0..2000 {
        let refused = tokio::time::timeout(PATIENCE, held(&channel, "List")).await;
        let error = refused.expect("no answer").unwrap().unwrap_err();
        retry_after(&error, "TOO_MANY_REQUESTS");
    }
    let mut stub = ListWatchServiceClient::new(channel);
    stub.create(create("a")).await.unwrap();
    assert_eq!(server.load().connections, 1);
    assert_eq!(server.refusals().count(Refusal::Requests), 2000);
}
