//! The RPCs: validate, then ask the hub or the store. No state of their own.

pub(crate) mod account;
mod admin;
mod berth;
mod body;
mod call;
mod connection;
mod deadline;
mod departure;
mod edge;
mod encoding;
mod frame;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod read;
mod request;
mod request_limit;
mod route;
mod status;
pub(crate) mod token;
mod watch;
mod watch_frames;
mod watch_limit;
mod watch_many;
mod watch_register;
mod wire;
mod write;

use std::{
    pin::Pin,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use futures::Stream;
use listwatch::v1::{self, list_watch_service_server::ListWatchService};
use tokio::sync::watch as signal;
use tonic::{Request, Response, Status, Streaming};

use self::watch_register::WatchRegister;
pub(crate) use self::{
    admin::Export,
    berth::Berth,
    connection::{Connection, LongStream},
    deadline::DeadlineLayer,
    departure::Departure,
    edge::EdgeLayer,
    request_limit::RequestLimitLayer,
    route::WatchRoute,
    watch_frames::{Next, Pulled, PulledFrames, closed_by},
    watch_limit::{Crowded, WatchLimit},
};
use crate::{
    clock::Clock, hub::Hub, limits, metrics::RpcFigures, refusals::Refusals,
    selector::SelectableFields, store::Store,
};

/// How the RPCs behave.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// The largest value of an object, in bytes.
    pub max_object_bytes: usize,
    /// Operations of one Batch.
    pub max_batch_operations: usize,
    /// The longest silence of a watch that asks for no interval of its own
    /// (`--watch-bookmark-frequency`).
    pub bookmark_interval: Duration,
    /// A watch ends at a random time between this and twice this, after a bookmark, so
    /// that clients spread over the servers again (`--min-request-timeout`).
    pub min_watch_life: Duration,
    /// The fields that selectors may name.
    pub fields: SelectableFields,
    /// Make spans of RPCs and deliveries, for an OpenTelemetry layer of the program's
    /// `tracing` subscriber that lets [`TRACE_TARGET`](crate::TRACE_TARGET) through
    /// (`--otlp-endpoint`).
    pub traces: bool,
    /// Time for deadlines.
    pub clock: Clock,
    /// What spreads watches over time comes from this seed (simulations); `None`: from the
    /// system.
    pub seed: Option<u64>,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            max_object_bytes: limits::DEFAULT_MAX_OBJECT_BYTES,
            max_batch_operations: limits::DEFAULT_MAX_BATCH_OPERATIONS,
            bookmark_interval: limits::DEFAULT_BOOKMARK_INTERVAL,
            min_watch_life: limits::DEFAULT_MIN_WATCH_LIFE,
            fields: SelectableFields::default(),
            traces: false,
            clock: Clock::system(),
            seed: None,
        }
    }
}

impl ServiceOptions {
    /// Bytes of one batch: a whole object fits, whatever its limit.
    fn max_batch_bytes(&self) -> usize {
        limits::MAX_BATCH_BYTES.max(self.max_object_bytes + limits::OBJECT_OVERHEAD_BYTES)
    }

    /// The largest request that is decoded; a larger one is refused unread.
    pub(crate) fn max_request_bytes(&self) -> usize {
        2 * self.max_batch_bytes()
    }
}

/// How much is answered at a time, and for how long. Every field has a flag of
/// `listwatchd`.
#[derive(Clone, Debug)]
pub struct RequestOptions {
    /// Reading calls (Get, List, GetStatus, ListWatches) that are answered at a time; more are refused
    /// with `TOO_MANY_REQUESTS` (`--max-requests-inflight`).
    pub max_requests_inflight: usize,
    /// The same for writing calls (Create, Update, Delete, Batch, Compact;
    /// `--max-mutating-requests-inflight`).
    pub max_mutating_requests_inflight: usize,
    /// A call that takes longer fails with `DEADLINE_EXCEEDED`; so does one that takes
    /// longer than its client's `grpc-timeout`. Streams are not calls (`--request-timeout`).
    pub request_timeout: Duration,
    /// Watches that are open at a time, each watch of a WatchMany counted; more are refused
    /// with `TOO_MANY_WATCHES` (`--max-watch-connections`).
    pub max_watches: usize,
    /// Those of one client (an IPv4 address, an IPv6 network of 64 bits); `None`: half of
    /// them. Clients in the same process have no share to stay within
    /// (`--max-watches-per-client`).
    pub max_watches_per_client: Option<usize>,
}

impl Default for RequestOptions {
    fn default() -> Self {
        Self {
            max_requests_inflight: limits::DEFAULT_MAX_REQUESTS_INFLIGHT,
            max_mutating_requests_inflight: limits::DEFAULT_MAX_MUTATING_REQUESTS_INFLIGHT,
            request_timeout: limits::DEFAULT_REQUEST_TIMEOUT,
            max_watches: limits::DEFAULT_MAX_WATCHES,
            max_watches_per_client: None,
        }
    }
}

impl RequestOptions {
    pub(crate) fn watch_limit(&self, refusals: Arc<Refusals>) -> WatchLimit {
        let share = self.max_watches_per_client;
        let share = share.unwrap_or(self.max_watches.div_ceil(2));
        WatchLimit::new(self.max_watches, share, refusals)
    }
}

/// Implements both services over a hub.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    hub: Arc<Hub>,
    options: Arc<ServiceOptions>,
    /// Set when the server is going away.
    departure: signal::Receiver<Option<Departure>>,
    watches: WatchLimit,
    /// The open ones.
    register: Arc<WatchRegister>,
    /// Where refusals within a stream are counted.
    rpcs: Arc<RpcFigures>,
    /// So far; each gets jitter of its own from the seed, and a place in the departure.
    watches_opened: Arc<AtomicU64>,
}

impl Service {
    pub(crate) fn new(
        hub: Arc<Hub>,
        options: ServiceOptions,
        departure: signal::Receiver<Option<Departure>>,
        watches: WatchLimit,
        rpcs: Arc<RpcFigures>,
    ) -> Self {
        Self {
            hub,
            options: Arc::new(options),
            departure,
            watches,
            register: Arc::default(),
            rpcs,
            watches_opened: Arc::default(),
        }
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(crate) fn options(&self) -> &ServiceOptions {
        &self.options
    }

    /// Who may open a watch.
    pub(crate) fn watch_limit(&self) -> &WatchLimit {
        &self.watches
    }

    /// The server takes no more watches.
    pub(crate) fn is_leaving(&self) -> bool {
        self.departure.borrow().is_some()
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.hub.store()
    }
}

/// The response stream of a server-streaming RPC.
type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ListWatchService for Service {
    type WatchStream = watch_frames::WatchFrames;
    type WatchManyStream = watch_many::ManyFrames;

    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<v1::GetResponse>, Status> {
        self.read_one(request.into_inner()).await.map(Response::new)
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        self.read_page(request.into_inner())
            .await
            .map(Response::new)
    }

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let connection = Connection::of(request.extensions());
        let seat = self.watches.seat(connection.peer())?;
        let opened = self.open_watch(request.into_inner(), connection).await?;
        Ok(Response::new(opened.seated(seat)))
    }

    async fn watch_many(
        &self,
        request: Request<Streaming<v1::WatchManyRequest>>,
    ) -> Result<Response<Self::WatchManyStream>, Status> {
        let connection = Connection::of(request.extensions());
        self.open_watches(request.into_inner(), connection)
            .map(Response::new)
    }

    async fn create(
        &self,
        request: Request<v1::CreateRequest>,
    ) -> Result<Response<v1::CreateResponse>, Status> {
        self.create_object(request.into_inner())
            .await
            .map(Response::new)
    }

    async fn update(
        &self,
        request: Request<v1::UpdateRequest>,
    ) -> Result<Response<v1::UpdateResponse>, Status> {
        self.update_object(request.into_inner())
            .await
            .map(Response::new)
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteRequest>,
    ) -> Result<Response<v1::DeleteResponse>, Status> {
        self.delete_object(request.into_inner())
            .await
            .map(Response::new)
    }

    async fn batch(
        &self,
        request: Request<v1::BatchRequest>,
    ) -> Result<Response<v1::BatchResponse>, Status> {
        self.write_batch(request.into_inner())
            .await
            .map(Response::new)
    }
}
