//! The ErrorReason table of the API, reason by reason: its code, its metadata, and whether a
//! retry is announced.

use std::{collections::HashSet, time::Duration};

use listwatch::{
    ERROR_DOMAIN,
    v1::{self, ErrorReason, batch_operation::Kind, consistency::Kind as At, watch_request::Start},
};
use listwatch_server::{
    ServerOptions,
    hub::HubOptions,
    store::{CommitError, StoreError, StoreOptions},
};
use tonic::{Code, Status, transport::Endpoint};
use tonic_types::StatusExt as _;

use crate::harness::{
    Harness, PATIENCE, everything, faulty::FaultyStore, key, resource, token, watch,
};

struct Row {
    reason: ErrorReason,
    code: Code,
    metadata: &'static [&'static str],
    /// RetryInfo is there.
    retry: bool,
}

const fn row(
    reason: ErrorReason,
    code: Code,
    metadata: &'static [&'static str],
    retry: bool,
) -> Row {
    Row {
        reason,
        code,
        metadata,
        retry,
    }
}

const OBJECT: &[&str] = &["collection", "namespace", "name", "revision"];

/// The table as the comments of the .proto have it.
const TABLE: [Row; 21] = [
    row(
        ErrorReason::RevisionCompacted,
        Code::OutOfRange,
        &["compact_revision", "revision"],
        false,
    ),
    row(
        ErrorReason::RevisionInFuture,
        Code::OutOfRange,
        &["latest_revision"],
        true,
    ),
    row(
        ErrorReason::StoreChanged,
        Code::OutOfRange,
        &["store_id"],
        false,
    ),
    row(
        ErrorReason::TokenInvalid,
        Code::InvalidArgument,
        &["field"],
        false,
    ),
    row(
        ErrorReason::RevisionMismatch,
        Code::Aborted,
        &["revision"],
        false,
    ),
    row(
        ErrorReason::StorageFull,
        Code::ResourceExhausted,
        &[],
        false,
    ),
    row(ErrorReason::NotReady, Code::Unavailable, &[], true),
    row(
        ErrorReason::TooLarge,
        Code::InvalidArgument,
        &["field", "limit", "size"],
        false,
    ),
    row(
        ErrorReason::FieldInvalid,
        Code::InvalidArgument,
        &["field"],
        false,
    ),
    row(ErrorReason::ObjectNotFound, Code::NotFound, OBJECT, false),
    row(
        ErrorReason::ObjectExists,
        Code::AlreadyExists,
        OBJECT,
        false,
    ),
    row(ErrorReason::UidMismatch, Code::Aborted, &["uid"], false),
    row(
        ErrorReason::RequestIdReused,
        Code::InvalidArgument,
        &["field"],
        false,
    ),
    row(ErrorReason::StoreDamaged, Code::DataLoss, &[], false),
    row(ErrorReason::WriteUncertain, Code::Unavailable, &[], true),
    // A fault of the server cannot be had by a request: see `service/edge.rs`.
    row(ErrorReason::Internal, Code::Internal, &[], false),
    row(ErrorReason::Unsupported, Code::Unimplemented, &[], false),
    row(
        ErrorReason::TooManyRequests,
        Code::ResourceExhausted,
        &[],
        true,
    ),
    row(
        ErrorReason::TooManyWatches,
        Code::ResourceExhausted,
        &[],
        true,
    ),
    row(
        ErrorReason::DeadlineExceeded,
        Code::DeadlineExceeded,
        &[],
        false,
    ),
    row(
        ErrorReason::WatchTooSlow,
        Code::ResourceExhausted,
        &["lag_seconds", "backlog_bytes"],
        true,
    ),
];

/// The status is as the table says; returns the values of its metadata in that order.
#[track_caller]
pub fn expect(status: &Status, reason: ErrorReason) -> Vec<String> {
    let row = TABLE.iter().find(|row| row.reason == reason).unwrap();
    let name = reason.as_str_name().strip_prefix("ERROR_REASON_").unwrap();
    let details = status.get_error_details();
    let info = details.error_info().expect("an ErrorInfo");
    assert_eq!(
        (info.reason.as_str(), status.code()),
        (name, row.code),
        "{status:?}"
    );
    assert_eq!(info.domain, ERROR_DOMAIN);
    assert!(!status.message().is_empty());
    let retry = details.retry_info().and_then(|retry| retry.retry_delay);
    assert_eq!(retry.is_some(), row.retry, "RetryInfo of {name}");
    assert!(retry.is_none_or(|delay| delay > Duration::ZERO));
    let value = |key: &&str| {
        let value = info.metadata.get(*key);
        value
            .unwrap_or_else(|| panic!("{name} lacks {key}: {info:?}"))
            .clone()
    };
    row.metadata.iter().map(value).collect()
}

fn get(name: &str, at: Option<At>) -> v1::GetRequest {
    v1::GetRequest {
        key: Some(key("pods", name)),
        consistency: at.map(|kind| v1::Consistency { kind: Some(kind) }),
        ..v1::GetRequest::default()
    }
}

fn list(at: Option<At>) -> v1::ListRequest {
    v1::ListRequest {
        selector: Some(everything("pods")),
        consistency: at.map(|kind| v1::Consistency { kind: Some(kind) }),
        page_size: 1,
        ..v1::ListRequest::default()
    }
}

fn create(name: &str) -> v1::CreateRequest {
    v1::CreateRequest {
        resource: Some(resource("pods", name, "x", &[])),
        ..v1::CreateRequest::default()
    }
}

fn update(name: &str) -> v1::UpdateRequest {
    v1::UpdateRequest {
        resource: Some(resource("pods", name, "x", &[])),
        ..v1::UpdateRequest::default()
    }
}

fn delete(name: &str) -> v1::DeleteRequest {
    v1::DeleteRequest {
        key: Some(key("pods", name)),
        ..v1::DeleteRequest::default()
    }
}

fn batch(kinds: impl IntoIterator<Item = Kind>) -> v1::BatchRequest {
    let operation = |kind| v1::BatchOperation { kind: Some(kind) };
    v1::BatchRequest {
        operations: kinds.into_iter().map(operation).collect(),
        ..v1::BatchRequest::default()
    }
}

/// The status of a call that must fail.
async fn failed<T: std::fmt::Debug>(call: impl Future<Output = Result<T, Status>>) -> Status {
    let outcome = tokio::time::timeout(PATIENCE, call).await;
    outcome.expect("no answer").expect_err("it succeeded")
}

/// The status that a watch fails with, at once or with its first response.
async fn failed_watch(harness: &Harness, request: v1::WatchRequest) -> Status {
    match harness.watch(request).await {
        Err(status) => status,
        Ok(mut watching) => watching.next().await.expect_err("it succeeded"),
    }
}

fn exact(start: Start) -> v1::WatchRequest {
    v1::WatchRequest {
        catch_up: v1::CatchUp::Exact.into(),
        ..watch("pods", Some(start))
    }
}

#[test]
fn every_reason_is_in_the_table() {
    let known: HashSet<_> = TABLE.iter().map(|row| row.reason).collect();
    assert_eq!(known.len(), TABLE.len(), "a reason stands twice");
    for number in 1.. {
        let Ok(reason) = ErrorReason::try_from(number) else {
            assert_eq!(number as usize, known.len() + 1);
            return;
        };
        assert!(known.contains(&reason), "{reason:?}");
    }
}

#[tokio::test]
async fn revision_compacted() {
    let harness = Harness::start().await;
    let mut old = harness.watch_all("pods").await;
    let resume = token(&old.until(v1::BookmarkKind::InitialStateEnd).await);
    harness.put("pods", "a", "1").await;
    harness.put("pods", "b", "1").await;
    let mut raw = harness.raw.clone();
    let page = raw
        .list(list(None))
        .await
        .unwrap()
        .into_inner()
        .next_page_token;
    for n in 0..10 {
        harness.put("pods", "a", &n.to_string()).await;
    }
    harness.compact(8).await;
    let numbers = ["8".to_owned(), "12".to_owned()];
    let reason = ErrorReason::RevisionCompacted;
    let next_page = v1::ListRequest {
        page_token: page,
        ..list(None)
    };
    let statuses = [
        failed(raw.clone().get(get("a", Some(At::ExactRevision(7))))).await,
        failed(raw.clone().get(get("nobody", Some(At::ExactRevision(1))))).await,
        failed(raw.clone().list(list(Some(At::ExactRevision(7))))).await,
        failed(raw.list(next_page)).await,
        failed_watch(&harness, exact(Start::ResumeToken(resume))).await,
        failed_watch(&harness, exact(Start::AfterRevision(7))).await,
    ];
    for status in statuses {
        assert_eq!(expect(&status, reason), numbers);
    }
    // What is not compacted can be had.
    harness
        .raw
        .clone()
        .get(get("a", Some(At::ExactRevision(8))))
        .await
        .unwrap();
    let mut from = harness.watch(exact(Start::AfterRevision(8))).await.unwrap();
    from.through(12).await;
}

#[tokio::test]
async fn revision_in_future() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let raw = &harness.raw;
    let statuses = [
        failed(raw.clone().get(get("a", Some(At::ExactRevision(2))))).await,
        failed(raw.clone().list(list(Some(At::ExactRevision(2))))).await,
        failed_watch(&harness, watch("pods", Some(Start::AfterRevision(2)))).await,
        failed_watch(&harness, exact(Start::AfterRevision(i64::MAX))).await,
    ];
    for status in statuses {
        assert_eq!(expect(&status, ErrorReason::RevisionInFuture), ["1"]);
    }
}

#[tokio::test]
async fn store_changed() {
    let (harness, other) = (Harness::start().await, Harness::start().await);
    let mut theirs = other.watch_all("pods").await;
    let foreign = token(&theirs.until(v1::BookmarkKind::InitialStateEnd).await);
    for start in [exact, |start| watch("pods", Some(start))] {
        let status = failed_watch(&harness, start(Start::ResumeToken(foreign.clone()))).await;
        let id = harness.store.id().to_string();
        assert_eq!(expect(&status, ErrorReason::StoreChanged), [id]);
    }
}

#[tokio::test]
async fn token_invalid() {
    let harness = Harness::start().await;
    let mut nodes = harness.watch_all("nodes").await;
    let of_nodes = token(&nodes.until(v1::BookmarkKind::InitialStateEnd).await);
    for text in [of_nodes, "nonsense".to_owned()] {
        let status = failed_watch(&harness, exact(Start::ResumeToken(text))).await;
        let field = expect(&status, ErrorReason::TokenInvalid);
        assert_eq!(field, ["resume_token"]);
    }
}

#[tokio::test]
async fn revision_mismatch() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    harness.put("pods", "a", "2").await;
    let stale_update = v1::UpdateRequest {
        if_revision: Some(1),
        ..update("a")
    };
    let stale_delete = v1::DeleteRequest {
        if_revision: Some(1),
        ..delete("a")
    };
    let check = |name, revision| {
        Kind::Check(v1::CheckRevision {
            key: Some(key("pods", name)),
            revision,
        })
    };
    let raw = &harness.raw;
    let statuses = [
        failed(raw.clone().update(stale_update)).await,
        failed(raw.clone().delete(stale_delete)).await,
        failed(raw.clone().batch(batch([check("a", 1)]))).await,
    ];
    for status in statuses {
        assert_eq!(expect(&status, ErrorReason::RevisionMismatch), ["2"]);
    }
    // An absent object is at no revision.
    let status = failed(raw.clone().batch(batch([check("nobody", 1)]))).await;
    assert_eq!(expect(&status, ErrorReason::RevisionMismatch), ["0"]);
}

#[tokio::test]
async fn uid_mismatch() {
    let harness = Harness::start().await;
    let first = harness.put("pods", "a", "1").await;
    harness.delete("pods", "a").await;
    let second = harness.put("pods", "a", "2").await;
    assert_ne!(first.uid, second.uid);
    let of_the_first = v1::DeleteRequest {
        if_uid: Some(first.uid),
        ..delete("a")
    };
    let status = failed(harness.raw.clone().delete(of_the_first)).await;
    assert_eq!(expect(&status, ErrorReason::UidMismatch), [second.uid]);
}

#[tokio::test]
async fn object_not_found() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let raw = &harness.raw;
    let conditional = v1::UpdateRequest {
        if_revision: Some(1),
        ..update("b")
    };
    let statuses = [
        failed(raw.clone().get(get("b", None))).await,
        failed(raw.clone().get(get("b", Some(At::ExactRevision(1))))).await,
        failed(raw.clone().update(update("b"))).await,
        failed(raw.clone().update(conditional)).await,
        failed(raw.clone().delete(delete("b"))).await,
        failed(raw.clone().batch(batch([
            Kind::Update(update("a")),
            Kind::Delete(delete("b")),
        ])))
        .await,
    ];
    for status in statuses {
        let metadata = expect(&status, ErrorReason::ObjectNotFound);
        assert_eq!(metadata, ["pods", "default", "b", "1"]);
    }
}

#[tokio::test]
async fn object_exists() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    harness.put("pods", "a", "2").await;
    harness.put("pods", "b", "1").await;
    let raw = &harness.raw;
    let absent = Kind::Check(v1::CheckRevision {
        key: Some(key("pods", "a")),
        revision: 0,
    });
    let statuses = [
        failed(raw.clone().create(create("a"))).await,
        failed(raw.clone().batch(batch([
            Kind::Create(create("c")),
            Kind::Create(create("a")),
        ])))
        .await,
        failed(
            raw.clone()
                .batch(batch([Kind::Create(create("c")), absent])),
        )
        .await,
    ];
    for status in statuses {
        let metadata = expect(&status, ErrorReason::ObjectExists);
        assert_eq!(metadata, ["pods", "default", "a", "2"]);
    }
    // Of several operations, the one at fault is named.
    let two = batch([Kind::Create(create("c")), Kind::Create(create("a"))]);
    let status = failed(raw.clone().batch(two)).await;
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["operation"], "1");
}

#[tokio::test]
async fn request_id_reused() {
    let harness = Harness::start().await;
    let named = |name| v1::CreateRequest {
        request_id: "mine".into(),
        ..create(name)
    };
    harness.raw.clone().create(named("a")).await.unwrap();
    let status = failed(harness.raw.clone().create(named("b"))).await;
    assert_eq!(
        expect(&status, ErrorReason::RequestIdReused),
        ["request_id"]
    );
}

#[tokio::test]
async fn storage_full_refuses_writes_and_ends_when_there_is_room() {
    let store = StoreOptions {
        quota_bytes: 200_000,
        ..StoreOptions::default()
    };
    let harness = Harness::with(ServerOptions::default(), store).await;
    let raw = &harness.raw;
    let large = |name: String| v1::CreateRequest {
        resource: Some(resource("pods", &name, &"x".repeat(1000), &[])),
        ..v1::CreateRequest::default()
    };
    let mut written = 0;
    let status = loop {
        match raw.clone().create(large(format!("n{written}"))).await {
            Ok(_) => written += 1,
            Err(status) => break status,
        }
    };
    assert!(written > 5);
    expect(&status, ErrorReason::StorageFull);
    expect(
        &failed(raw.clone().update(update("n0"))).await,
        ErrorReason::StorageFull,
    );
    let mixed = batch([Kind::Delete(delete("n0")), Kind::Create(create("new"))]);
    expect(
        &failed(raw.clone().batch(mixed)).await,
        ErrorReason::StorageFull,
    );
    assert!(harness.client.status().await.unwrap().storage_full);
    // It still reads, deletes and compacts; then there is room again.
    assert_eq!(harness.list("pods").await.resources.len(), written);
    for n in 0..5 {
        harness.delete("pods", &format!("n{n}")).await;
    }
    let newest = harness.list("pods").await.revision;
    harness.compact(newest).await;
    raw.clone().create(create("new")).await.unwrap();
    assert!(!harness.client.status().await.unwrap().storage_full);
}

#[tokio::test]
async fn not_ready() {
    let hub = HubOptions {
        revision_wait: Duration::from_millis(1),
        ..HubOptions::default()
    };
    let options = ServerOptions {
        hub,
        ..ServerOptions::default()
    };
    let harness = Harness::with(options, StoreOptions::default()).await;
    harness.put("pods", "a", "1").await;
    let at_least = At::MinRevision(2);
    let initial = v1::InitialState {
        consistency: Some(v1::Consistency {
            kind: Some(at_least),
        }),
        only: false,
    };
    let raw = &harness.raw;
    let statuses = [
        failed(raw.clone().get(get("a", Some(at_least)))).await,
        failed(raw.clone().list(list(Some(at_least)))).await,
        failed_watch(&harness, watch("pods", Some(Start::InitialState(initial)))).await,
    ];
    for status in statuses {
        expect(&status, ErrorReason::NotReady);
    }
    // The store is closed under the server.
    harness.store.close().await;
    let status = failed(raw.clone().create(create("b"))).await;
    expect(&status, ErrorReason::NotReady);
}

#[tokio::test]
async fn a_read_that_waits_for_a_revision_gets_it_when_it_comes() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let mut raw = harness.raw.clone();
    let waiting = tokio::spawn(async move { raw.get(get("a", Some(At::MinRevision(2)))).await });
    harness.put("pods", "a", "2").await;
    let answer = tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(answer.unwrap().into_inner().resource.unwrap().value, "2");
}

#[tokio::test]
async fn a_field_that_is_invalid_or_too_large() {
    let harness = Harness::start().await;
    let raw = &harness.raw;
    let status = failed(raw.clone().get(v1::GetRequest::default())).await;
    assert_eq!(expect(&status, ErrorReason::FieldInvalid), ["key"]);
    let status = failed(raw.clone().get(get(&"n".repeat(300), None))).await;
    assert_eq!(
        expect(&status, ErrorReason::TooLarge),
        ["key.name", "253", "300"]
    );
}

#[tokio::test]
async fn store_damaged() {
    let store = FaultyStore::new();
    let harness = Harness::over(store.clone(), ServerOptions::default()).await;
    harness.put("pods", "a", "1").await;
    harness.put("pods", "a", "2").await;
    let damage = StoreError::Damaged("record 7 is not what was written".into());
    *store.reads.lock().unwrap() = Some(damage.clone());
    *store.commits.lock().unwrap() = Some(CommitError::Store(damage));
    let raw = &harness.raw;
    let statuses = [
        failed(raw.clone().get(get("a", Some(At::ExactRevision(1))))).await,
        failed(raw.clone().get(get("a", None))).await,
        failed(raw.clone().list(list(None))).await,
        failed_watch(&harness, watch("pods", None)).await,
        failed(raw.clone().create(create("b"))).await,
    ];
    for status in statuses {
        expect(&status, ErrorReason::StoreDamaged);
    }
}

#[tokio::test]
async fn write_uncertain() {
    let store = FaultyStore::new();
    let harness = Harness::over(store.clone(), ServerOptions::default()).await;
    let fault = CommitError::Uncertain("fdatasync: Input/output error".into());
    *store.commits.lock().unwrap() = Some(fault);
    let raw = &harness.raw;
    let statuses = [
        failed(raw.clone().create(create("a"))).await,
        failed(raw.clone().update(update("a"))).await,
        failed(raw.clone().delete(delete("a"))).await,
        failed(raw.clone().batch(batch([Kind::Create(create("a"))]))).await,
    ];
    for status in statuses {
        expect(&status, ErrorReason::WriteUncertain);
    }
}

#[tokio::test]
async fn unsupported() {
    let harness = Harness::start().await;
    let channel = Endpoint::from_static("http://in-memory")
        .connect_with_connector(harness.server.in_memory())
        .await
        .unwrap();
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/listwatch.v1.ListWatchService/NoSuch");
    let codec = tonic_prost::ProstCodec::<v1::GetRequest, v1::GetResponse>::default();
    let request = tonic::Request::new(v1::GetRequest::default());
    expect(
        &failed(grpc.unary(request, path, codec)).await,
        ErrorReason::Unsupported,
    );
}

#[tokio::test]
async fn too_many_requests() {
    let mut options = ServerOptions::default();
    options.requests.max_requests_inflight = 0;
    options.requests.max_mutating_requests_inflight = 0;
    let harness = Harness::with(options, StoreOptions::default()).await;
    let raw = &harness.raw;
    let statuses = [
        failed(raw.clone().get(get("a", None))).await,
        failed(raw.clone().list(list(None))).await,
        failed(raw.clone().create(create("a"))).await,
        failed(raw.clone().update(update("a"))).await,
        failed(raw.clone().delete(delete("a"))).await,
        failed(raw.clone().batch(batch([Kind::Create(create("a"))]))).await,
    ];
    for status in statuses {
        expect(&status, ErrorReason::TooManyRequests);
    }
}

#[tokio::test]
async fn too_many_watches() {
    let mut options = ServerOptions::default();
    options.requests.max_watches = 0;
    let harness = Harness::with(options, StoreOptions::default()).await;
    let status = failed_watch(&harness, watch("pods", None)).await;
    expect(&status, ErrorReason::TooManyWatches);
}

#[tokio::test]
async fn deadline_exceeded() {
    let mut options = ServerOptions::default();
    options.requests.request_timeout = Duration::from_millis(50);
    options.hub.revision_wait = 2 * PATIENCE;
    let harness = Harness::with(options, StoreOptions::default()).await;
    let status = failed(harness.raw.clone().get(get("a", Some(At::MinRevision(9))))).await;
    expect(&status, ErrorReason::DeadlineExceeded);
}
