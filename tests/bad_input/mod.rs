//! Every kind of bad input is refused with its code, its reason, the field and the limit,
//! and changes nothing.

mod arbitrary;
mod batches;
mod keys;
mod resources;
mod revisions;
mod selectors;
mod shapes;
mod sizes;
mod tokens;
mod wire;

use listwatch::{
    ERROR_DOMAIN,
    v1::{
        self, admin_service_client::AdminServiceClient,
        list_watch_service_client::ListWatchServiceClient,
    },
};
use listwatch_server::store::Progress;
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use crate::harness::{Harness, PATIENCE};

/// Any request.
#[derive(Clone, Debug)]
enum Call {
    Get(v1::GetRequest),
    List(v1::ListRequest),
    Watch(v1::WatchRequest),
    Create(v1::CreateRequest),
    Update(v1::UpdateRequest),
    Delete(v1::DeleteRequest),
    Batch(v1::BatchRequest),
    Compact(v1::CompactRequest),
}

macro_rules! calls {
    ($($kind:ident $message:ident),* $(,)?) => {
        $(impl From<v1::$message> for Call {
            fn from(request: v1::$message) -> Self {
                Self::$kind(request)
            }
        })*
    };
}

calls! {
    Get GetRequest,
    List ListRequest,
    Watch WatchRequest,
    Create CreateRequest,
    Update UpdateRequest,
    Delete DeleteRequest,
    Batch BatchRequest,
    Compact CompactRequest,
}

/// What a refused request must leave as it was.
#[derive(Debug, PartialEq)]
struct State {
    progress: Progress,
    objects: u64,
    pods: Vec<v1::Resource>,
}

/// A server with some objects: `pods` a, b and c of the namespace `default` at
/// revisions 1 to 3, `a` once more at 4, `c` deleted at 5.
struct Bed {
    harness: Harness,
    channel: Channel,
    service: ListWatchServiceClient<Channel>,
    admin: AdminServiceClient<Channel>,
}

impl Bed {
    async fn new() -> Self {
        Self::on(Harness::start().await).await
    }

    async fn on(harness: Harness) -> Self {
        harness
            .put_labelled("pods", "a", "1", &[("app", "x")])
            .await;
        harness
            .put_labelled("pods", "b", "1", &[("app", "y")])
            .await;
        harness.put("pods", "c", "1").await;
        harness
            .put_labelled("pods", "a", "2", &[("app", "x")])
            .await;
        harness.delete("pods", "c").await;
        let channel = Endpoint::from_static("http://in-memory")
            .connect_with_connector(harness.server.in_memory())
            .await
            .unwrap();
        Self {
            service: ListWatchServiceClient::new(channel.clone())
                .max_decoding_message_size(64 << 20),
            admin: AdminServiceClient::new(channel.clone()),
            channel,
            harness,
        }
    }

    async fn state(&self) -> State {
        State {
            progress: self.harness.store.progress(),
            objects: self.harness.store.status().object_count,
            pods: self.harness.list("pods").await.resources,
        }
    }

    /// Sends a request and waits for its first answer.
    async fn send(&self, call: impl Into<Call>) -> Result<(), Status> {
        let (mut service, mut admin) = (self.service.clone(), self.admin.clone());
        let answer = async move {
            match call.into() {
                Call::Get(request) => service.get(request).await.map(drop),
                Call::List(request) => service.list(request).await.map(drop),
                Call::Watch(request) => {
                    let mut stream = service.watch(request).await?.into_inner();
                    stream.message().await.map(drop)
                }
                Call::Create(request) => service.create(request).await.map(drop),
                Call::Update(request) => service.update(request).await.map(drop),
                Call::Delete(request) => service.delete(request).await.map(drop),
                Call::Batch(request) => service.batch(request).await.map(drop),
                Call::Compact(request) => admin.compact(request).await.map(drop),
            }
        };
        tokio::time::timeout(PATIENCE, answer)
            .await
            .expect("the server does not answer")
    }

    async fn accepts(&self, call: impl Into<Call>) {
        let call = call.into();
        if let Err(status) = self.send(call.clone()).await {
            panic!("{call:.200?} was refused: {status:?}");
        }
    }

    /// The status of a request that must fail and change nothing.
    async fn fails(&self, call: impl Into<Call>) -> Status {
        let call = call.into();
        let before = self.state().await;
        let Err(status) = self.send(call.clone()).await else {
            panic!("{call:.300?} was accepted");
        };
        assert_eq!(self.state().await, before, "{call:.300?} changed the state");
        assert!(!status.message().is_empty(), "{call:.300?}");
        status
    }

    /// FIELD_INVALID for this field.
    async fn refuses(&self, call: impl Into<Call>, field: &str) {
        self.refuses_as("FIELD_INVALID", call, field).await;
    }

    /// TOKEN_INVALID for this field.
    async fn refuses_token(&self, call: impl Into<Call>, field: &str) {
        self.refuses_as("TOKEN_INVALID", call, field).await;
    }

    async fn refuses_as(&self, reason: &str, call: impl Into<Call>, field: &str) -> Status {
        let call = call.into();
        let status = self.fails(call.clone()).await;
        assert_invalid(&status, reason, field, &format!("{call:.300?}"));
        status
    }

    /// TOO_LARGE for this field, with the bound and what was given.
    async fn refuses_size(&self, call: impl Into<Call>, field: &str, limit: usize, size: usize) {
        let status = self.refuses_as("TOO_LARGE", call, field).await;
        assert_eq!(metadata(&status, "limit"), limit.to_string(), "{status:?}");
        assert_eq!(metadata(&status, "size"), size.to_string(), "{status:?}");
    }
}

/// INVALID_ARGUMENT as the API documents it: ErrorInfo with domain, reason and field, a
/// BadRequest that names the field too, no RetryInfo.
#[track_caller]
fn assert_invalid(status: &Status, reason: &str, field: &str, of: &str) {
    assert_eq!(status.code(), Code::InvalidArgument, "{of}: {status:?}");
    let details = status.get_error_details();
    let info = details.error_info().expect("an ErrorInfo");
    assert_eq!(info.domain, ERROR_DOMAIN, "{of}");
    assert_eq!(info.reason, reason, "{of}: {status:?}");
    assert_eq!(metadata(status, "field"), field, "{of}: {status:?}");
    let bad = details.bad_request().expect("a BadRequest");
    let fields: Vec<_> = bad
        .field_violations
        .iter()
        .map(|v| v.field.as_str())
        .collect();
    assert_eq!(fields, [field], "{of}");
    assert!(!bad.field_violations[0].description.is_empty(), "{of}");
    assert!(status.message().contains(field), "{of}: {status:?}");
    assert!(details.retry_info().is_none(), "{of}: no retry helps");
}

/// A value of `ErrorInfo.metadata`; empty if it is not there.
fn metadata(status: &Status, key: &str) -> String {
    let details = status.get_error_details();
    details
        .error_info()
        .and_then(|info| info.metadata.get(key).cloned())
        .unwrap_or_default()
}
