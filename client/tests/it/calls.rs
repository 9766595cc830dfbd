//! Unary calls: errors that say what to do, retries that write once.

use std::time::Duration;

use listwatch_client::{
    Client, ClientError,
    v1::{BatchRequest, CreateRequest, DeleteRequest, ErrorReason, GetRequest, UpdateRequest},
};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::mock::{Mock, refusal};

#[tokio::test(start_paused = true)]
async fn errors_carry_reason_metadata_and_delay() {
    let mock = Mock::start().await;
    mock.fail_next([refusal(Code::OutOfRange, "REVISION_COMPACTED", None)]);
    let error = mock.client.get(GetRequest::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::Expired(_)), "{error:?}");
    assert_eq!(error.reason(), ErrorReason::RevisionCompacted);
    assert_eq!(error.failure().unwrap().number("compact_revision"), Some(7));
    assert!(!error.is_retryable());

    let delay = Duration::from_secs(60);
    mock.fail_next([refusal(
        Code::ResourceExhausted,
        "TOO_MANY_REQUESTS",
        Some(delay),
    )]);
    let error = mock.client.get(GetRequest::default()).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(delay));
    assert!(error.is_retryable());
}

#[tokio::test(start_paused = true)]
async fn a_reason_of_a_newer_server_can_be_read() {
    let mock = Mock::start().await;
    mock.fail_next([refusal(Code::Internal, "SOMETHING_NEW", None)]);
    let error = mock.client.get(GetRequest::default()).await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::Unspecified);
    assert_eq!(error.failure().unwrap().reason_name(), "SOMETHING_NEW");
}

#[tokio::test(start_paused = true)]
async fn every_code_has_the_variant_that_says_what_to_do() {
    let mock = Mock::start().await;
    let table = [
        (Code::NotFound, "OBJECT_NOT_FOUND", "NotFound", false),
        (Code::AlreadyExists, "OBJECT_EXISTS", "AlreadyExists", false),
        (Code::Aborted, "REVISION_MISMATCH", "Conflict", false),
        (Code::OutOfRange, "STORE_CHANGED", "Expired", false),
        (
            Code::OutOfRange,
            "REVISION_IN_FUTURE",
            "FutureRevision",
            true,
        ),
        (Code::InvalidArgument, "FIELD_INVALID", "Invalid", false),
        (Code::Unauthenticated, "", "Unauthenticated", false),
        (Code::PermissionDenied, "", "PermissionDenied", false),
        (Code::ResourceExhausted, "STORAGE_FULL", "Exhausted", false),
        (Code::Unimplemented, "UNSUPPORTED", "Unimplemented", false),
        (Code::DataLoss, "STORE_DAMAGED", "DataLoss", false),
        (Code::Internal, "INTERNAL", "Other", false),
        (Code::DeadlineExceeded, "", "Timeout", true),
    ];
    for (code, reason, variant, retryable) in table {
        mock.fail_next([refusal(code, reason, None)]);
        let error = mock.client.get(GetRequest::default()).await.unwrap_err();
        let shown = format!("{error:?}");
        assert!(shown.starts_with(variant), "{code:?}: {shown}");
        assert_eq!(error.is_retryable(), retryable, "{code:?}");
        assert_eq!(error.code(), code);
    }
    assert_eq!(mock.seen().len(), table.len(), "none of these is retried");
}

#[tokio::test(start_paused = true)]
async fn writes_are_retried_under_one_request_id() {
    let mock = Mock::start().await;
    let down = || Status::unavailable("down");
    mock.fail_next([down(), down()]);
    mock.client.create(CreateRequest::default()).await.unwrap();
    mock.fail_next([refusal(Code::Unavailable, "WRITE_UNCERTAIN", None)]);
    mock.client.update(UpdateRequest::default()).await.unwrap();
    mock.fail_next([down()]);
    mock.client.delete(DeleteRequest::default()).await.unwrap();
    mock.fail_next([down()]);
    mock.client.batch(BatchRequest::default()).await.unwrap();
    let seen = mock.seen();
    let ids = |call| -> Vec<&str> {
        seen.iter()
            .filter(|s| s.call == call)
            .map(|s| s.request_id.as_str())
            .collect()
    };
    assert_eq!(ids("create").len(), 3);
    for call in ["create", "update", "delete", "batch"] {
        let ids = ids(call);
        assert!(ids.len() > 1 && ids[0].len() == 32, "{call}: {ids:?}");
        assert!(ids.iter().all(|id| *id == ids[0]), "{call}: {ids:?}");
    }
    assert_ne!(ids("create")[0], ids("update")[0]);
}

#[tokio::test(start_paused = true)]
async fn a_given_request_id_is_kept() {
    let mock = Mock::start().await;
    let request = CreateRequest {
        request_id: "mine".into(),
        ..CreateRequest::default()
    };
    mock.client.create(request).await.unwrap();
    assert_eq!(mock.seen()[0].request_id, "mine");
}

#[tokio::test(start_paused = true)]
async fn retries_end() {
    let mock = Mock::start().await;
    mock.fail_next((0..10).map(|_| Status::unavailable("down")));
    let error = mock.client.get(GetRequest::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::Unavailable(_)));
    assert_eq!(mock.seen().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn retry_info_delays_the_retry() {
    let mock = Mock::start().await;
    let delay = Duration::from_secs(5);
    mock.fail_next([refusal(Code::Unavailable, "NOT_READY", Some(delay))]);
    let before = Instant::now();
    mock.client.get(GetRequest::default()).await.unwrap();
    assert!(before.elapsed() >= delay);
}

#[tokio::test(start_paused = true)]
async fn a_unary_call_has_a_deadline() {
    let mock = Mock::with(Client::builder().request_timeout(Duration::from_secs(3))).await;
    mock.fail_next([Status::unavailable("never")]);
    let before = Instant::now();
    let error = mock.client.get(GetRequest::default()).await.unwrap_err();
    assert!(matches!(error, ClientError::Timeout(_)), "{error:?}");
    assert_eq!(error.code(), Code::DeadlineExceeded);
    assert!(before.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn endpoints_are_host_and_port_with_or_without_scheme() {
    for good in [
        "127.0.0.1:7450",
        "http://127.0.0.1:7450",
        "localhost:1",
        "[::1]:7450",
    ] {
        assert!(
            Client::builder().endpoint(good).connect_lazy().is_ok(),
            "{good}"
        );
    }
    for bad in ["", "ftp://x:1", "http://", "a b:1", "https://x:1"] {
        let error = Client::builder().endpoint(bad).connect_lazy().unwrap_err();
        assert!(
            matches!(error, ClientError::Endpoint { .. }),
            "{bad}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_connect_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = Client::connect(address.to_string()).await.unwrap_err();
    assert!(matches!(error, ClientError::Connect(_)));
    assert!(error.is_retryable());
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_connection_that_breaks_is_unavailable_by_code_too() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let client = Client::builder().endpoint(address).connect_lazy().unwrap();
    let error = client.get(GetRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error:?}");
    assert!(error.is_retryable(), "{error:?}");
}
