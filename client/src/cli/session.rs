//! The way to the server that all commands share: one connection, deadlines, retries.

use std::{future::Future, time::Duration};

use listwatch::v1::{
    BatchRequest, BatchResponse, CompactRequest, CompactResponse, CreateRequest, DeleteRequest,
    ExportRequest, ExportResponse, GetRequest, GetResponse, GetStatusRequest, GetStatusResponse,
    ListRequest, ListResponse, Resource, UpdateRequest, WatchRequest, WatchResponse,
    admin_service_client::AdminServiceClient, list_watch_service_client::ListWatchServiceClient,
};
use rand::Rng as _;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{
    Code, Request, Response, Status, Streaming,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;

use super::exit::{Exit, Failure};

/// Of one call, unless `--timeout` says otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that does not even accept within this is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The server decides how large its answers are; this only stops nonsense.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

type Answer<T> = Result<Response<T>, Status>;

/// A connection to one server.
#[derive(Clone)]
pub struct Session {
    objects: ListWatchServiceClient<Channel>,
    admin: AdminServiceClient<Channel>,
    timeout: Option<Duration>,
}

impl Session {
    /// Connects now, so that a missing server is told apart from a failing call.
    pub async fn connect(server: &str, timeout: Option<Duration>) -> Result<Self, Failure> {
        let address = match server.contains("://") {
            true => server.to_owned(),
            false => format!("http://{server}"),
        };
        let bad = |why: String| Failure::usage(format!("--server {server:?}: {why}"));
        if !address.starts_with("http://") {
            return Err(bad("write HOST:PORT or http://HOST:PORT".into()));
        }
        let endpoint = Endpoint::from_shared(address)
            .map_err(|error| bad(format!("{error}: write HOST:PORT")))?
            .connect_timeout(timeout.map_or(CONNECT_TIMEOUT, |it| it.min(CONNECT_TIMEOUT)))
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(30));
        let channel = endpoint.connect().await.map_err(|error| {
            let why = root_cause(&error);
            let advice = "is listwatchd running? --server or LISTWATCH_SERVER name another";
            Failure::new(Exit::Unavailable, format!("cannot reach {server}: {why} ({advice})"))
        })?;
        Ok(Self {
            objects: ListWatchServiceClient::new(channel.clone())
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            admin: AdminServiceClient::new(channel)
                .max_decoding_message_size(MAX_MESSAGE_BYTES),
            timeout,
        })
    }

    /// What `--timeout` says, if it was given.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Reads one object.
    pub async fn get(&self, request: GetRequest) -> Result<GetResponse, Status> {
        self.call(request, async |request| self.objects.clone().get(request).await).await
    }

    /// Reads one page.
    pub async fn list(&self, request: ListRequest) -> Result<ListResponse, Status> {
        self.call(request, async |request| self.objects.clone().list(request).await).await
    }

    /// Writes a new object.
    pub async fn create(&self, request: CreateRequest) -> Result<Resource, Status> {
        let request = CreateRequest { request_id: request_id(), ..request };
        let answer = self.call(request, async |request| self.objects.clone().create(request).await);
        answer.await?.resource.ok_or_else(no_resource)
    }

    /// Replaces an object.
    pub async fn update(&self, request: UpdateRequest) -> Result<Resource, Status> {
        let request = UpdateRequest { request_id: request_id(), ..request };
        let answer = self.call(request, async |request| self.objects.clone().update(request).await);
        answer.await?.resource.ok_or_else(no_resource)
    }

    /// Deletes an object. Nothing if it was not there and that was allowed.
    pub async fn delete(&self, request: DeleteRequest) -> Result<Option<Resource>, Status> {
        let request = DeleteRequest { request_id: request_id(), ..request };
        let answer = self.call(request, async |request| self.objects.clone().delete(request).await);
        Ok(answer.await?.resource)
    }

    /// Applies several writes at one revision.
    pub async fn batch(&self, request: BatchRequest) -> Result<BatchResponse, Status> {
        let request = BatchRequest { request_id: request_id(), ..request };
        self.call(request, async |request| self.objects.clone().batch(request).await).await
    }

    /// Drops history.
    pub async fn compact(&self, request: CompactRequest) -> Result<CompactResponse, Status> {
        self.call(request, async |request| self.admin.clone().compact(request).await).await
    }

    /// Reads the server's figures.
    pub async fn status(&self) -> Result<GetStatusResponse, Status> {
        let request = GetStatusRequest {};
        self.call(request, async |request| self.admin.clone().get_status(request).await).await
    }

    /// Streams every object. Ends when it ends: `--timeout` is the caller's.
    pub async fn export(&self) -> Result<Streaming<ExportResponse>, Status> {
        Ok(self.admin.clone().export(ExportRequest {}).await?.into_inner())
    }

    /// Opens one watch, as raw as the server sends it.
    pub async fn watch(&self, request: WatchRequest) -> Result<Streaming<WatchResponse>, Status> {
        Ok(self.objects.clone().watch(request).await?.into_inner())
    }

    /// Calls, and calls again while the server is away or asks for it, up to the timeout.
    /// Every call here can be repeated: writes carry a `request_id`.
    async fn call<Q: Clone, A>(
        &self,
        message: Q,
        attempt: impl AsyncFn(Request<Q>) -> Answer<A>,
    ) -> Result<A, Status> {
        let timeout = self.timeout.unwrap_or(CALL_TIMEOUT);
        let deadline = Instant::now() + timeout;
        let mut backoff = FIRST_BACKOFF;
        let mut last = None;
        loop {
            let mut request = Request::new(message.clone());
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
            let answer = within(deadline, attempt(request)).await;
            let status = match answer {
                Some(Ok(response)) => return Ok(response.into_inner()),
                Some(Err(status)) => status,
                None => {
                    let text = format!("no answer within {timeout:?}");
                    return Err(last.unwrap_or_else(|| Status::deadline_exceeded(text)));
                }
            };
            let Some(wait) = retry_after(&status, backoff) else { return Err(status) };
            if Instant::now() + wait >= deadline {
                return Err(status);
            }
            last = Some(status);
            sleep(wait).await;
            backoff = (backoff * 2).min(MAX_BACKOFF);
        }
    }
}

async fn within<T>(deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
    timeout_at(deadline, future).await.ok()
}

/// How long to wait before another attempt, or nothing if another would fail as well.
pub fn retry_after(status: &Status, backoff: Duration) -> Option<Duration> {
    match status.get_details_retry_info() {
        Some(info) => Some(info.retry_delay.unwrap_or(backoff)),
        None if status.code() == Code::Unavailable => {
            // Many clients of one server must not come back in step.
            Some(backoff.mul_f64(rand::rng().random_range(0.5..1.0)))
        }
        None => None,
    }
}

/// Lets the server recognise a repeated write.
fn request_id() -> String {
    format!("cli-{:032x}", rand::rng().random::<u128>())
}

fn no_resource() -> Status {
    Status::internal("the server's answer holds no resource")
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
