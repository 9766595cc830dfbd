//! The way to the server that all commands share: one connection, deadlines, patience.

use std::time::Duration;

use listwatch::v1::{
    BatchRequest, BatchResponse, CompactRequest, CompactResponse, CreateRequest, DeleteRequest,
    ExportResponse, GetRequest, GetResponse, GetStatusResponse, ListRequest, ListResponse,
    ListWatchesRequest, ListWatchesResponse, Resource, UpdateRequest,
};
use rand::Rng as _;
use tokio::time::{Instant, sleep, timeout_at};

use super::exit::{CommandError, Exit};
use crate::{
    Client, ClientError, ResponseStream,
    backoff::{Backoff, BackoffOptions},
    connect::DEFAULT_REQUEST_TIMEOUT,
};

/// A server that does not even accept within this is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Long enough for a server to come back from a restart without being pestered.
const PATIENCE: BackoffOptions = BackoffOptions {
    initial: Duration::from_millis(250),
    factor: 2.0,
    max: Duration::from_secs(2),
};

/// Where the server is: commands connect after they have looked at their arguments, so
/// that a wrong command line is called wrong also when there is no server.
pub(super) struct Server {
    /// `HOST:PORT`.
    pub(super) address: String,
    /// What `--timeout` says, if it was given.
    pub(super) timeout: Option<Duration>,
}

/// A connection to one server.
pub(super) struct Session {
    client: Client,
    timeout: Option<Duration>,
}

impl Server {
    /// Connects now, so that a missing server is told apart from a failing call.
    pub(super) async fn connect(&self) -> Result<Session, CommandError> {
        let Self {
            address: server,
            timeout,
        } = self;
        let timeout = *timeout;
        let connected = Client::builder()
            .endpoint(server.as_str())
            .user_agent(concat!("listwatch-cli/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(timeout.map_or(CONNECT_TIMEOUT, |it| it.min(CONNECT_TIMEOUT)))
            .request_timeout(timeout.unwrap_or(DEFAULT_REQUEST_TIMEOUT))
            .connect()
            .await;
        match connected {
            Ok(client) => Ok(Session { client, timeout }),
            Err(ClientError::Endpoint { problem, .. }) => Err(CommandError::usage(format!(
                "--server {server:?}: {problem}: write HOST:PORT"
            ))),
            Err(error) => Err(CommandError::new(
                Exit::Unavailable,
                format!(
                    "{server}: {error} (is listwatchd running? --server or LISTWATCH_SERVER name another)"
                ),
            )),
        }
    }
}

impl Session {
    /// The library's client, for the commands that stream.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// What `--timeout` says, if it was given.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Reads one object.
    pub(super) async fn get(&self, request: GetRequest) -> Result<GetResponse, ClientError> {
        self.patiently(async || self.client.get(request.clone()).await)
            .await
    }

    /// Reads one page.
    pub(super) async fn list(&self, request: ListRequest) -> Result<ListResponse, ClientError> {
        self.patiently(async || self.client.list(request.clone()).await)
            .await
    }

    /// Writes a new object.
    pub(super) async fn create(&self, mut request: CreateRequest) -> Result<Resource, ClientError> {
        request.request_id = request_id();
        let answer = self.patiently(async || self.client.create(request.clone()).await);
        answer.await?.resource.ok_or(NO_RESOURCE)
    }

    /// Replaces an object.
    pub(super) async fn update(&self, mut request: UpdateRequest) -> Result<Resource, ClientError> {
        request.request_id = request_id();
        let answer = self.patiently(async || self.client.update(request.clone()).await);
        answer.await?.resource.ok_or(NO_RESOURCE)
    }

    /// Deletes an object. Nothing if it was not there and that was allowed.
    pub(super) async fn delete(
        &self,
        mut request: DeleteRequest,
    ) -> Result<Option<Resource>, ClientError> {
        request.request_id = request_id();
        let answer = self.patiently(async || self.client.delete(request.clone()).await);
        Ok(answer.await?.resource)
    }

    /// Applies several writes at one revision.
    pub(super) async fn batch(
        &self,
        mut request: BatchRequest,
    ) -> Result<BatchResponse, ClientError> {
        request.request_id = request_id();
        self.patiently(async || self.client.batch(request.clone()).await)
            .await
    }

    /// Drops history.
    pub(super) async fn compact(
        &self,
        request: CompactRequest,
    ) -> Result<CompactResponse, ClientError> {
        self.patiently(async || self.client.compact(request).await)
            .await
    }

    /// Reads the server's figures.
    pub(super) async fn status(&self) -> Result<GetStatusResponse, ClientError> {
        self.patiently(async || self.client.status().await).await
    }

    /// Reads a page of the open watches.
    pub(super) async fn watches(
        &self,
        request: ListWatchesRequest,
    ) -> Result<ListWatchesResponse, ClientError> {
        self.patiently(async || self.client.watches(request.clone()).await)
            .await
    }

    /// Streams every object. Ends when it ends: `--timeout` is the caller's.
    pub(super) async fn export(&self) -> Result<ResponseStream<ExportResponse>, ClientError> {
        self.client.export().await
    }

    /// The library gives a call up after a few attempts; a person at a terminal, or a
    /// script in the middle of a folder, would rather wait while the server restarts.
    /// Every call here can be repeated: writes keep their `request_id`.
    async fn patiently<A>(
        &self,
        attempt: impl AsyncFn() -> Result<A, ClientError>,
    ) -> Result<A, ClientError> {
        let deadline = Instant::now() + self.timeout.unwrap_or(DEFAULT_REQUEST_TIMEOUT);
        let mut backoff = Backoff::new(
            PATIENCE,
            std::sync::Arc::new(crate::backoff::thread_randomness),
        );
        let mut last = None;
        loop {
            // The last real answer says more than that the time is over.
            let error = match (timeout_at(deadline, attempt()).await, last.take()) {
                (Ok(Ok(answer)), _) => return Ok(answer),
                (Ok(Err(ClientError::Timeout(_))), Some(last)) | (Err(_), Some(last)) => {
                    return Err(last);
                }
                (Ok(Err(error)), _) => error,
                (Err(_), None) => {
                    return Err(
                        tonic::Status::deadline_exceeded("no answer from the server").into(),
                    );
                }
            };
            let wait = error.retry_after().unwrap_or_else(|| backoff.next_delay());
            let is_over = Instant::now() + wait >= deadline;
            if is_over || !error.is_retryable() || matches!(error, ClientError::Timeout(_)) {
                return Err(error);
            }
            last = Some(error);
            sleep(wait).await;
        }
    }
}

const NO_RESOURCE: ClientError = ClientError::Protocol("the answer to a write holds no resource");

/// Lets the server recognise a repeated write.
fn request_id() -> String {
    format!("{:032x}", rand::rng().random::<u128>())
}
