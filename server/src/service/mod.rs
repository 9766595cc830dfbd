//! The RPCs: validate, then ask the hub or the store. No state of their own.

mod account;
mod admin;
mod body;
mod edge;
mod frame;
mod read;
mod request;
mod route;
mod status;
mod token;
mod watch;
mod watch_many;
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

pub(crate) use self::{admin::Export, edge::EdgeLayer, route::WatchRoute};
use crate::{
    clock::Clock, hub::Hub, limits, metrics::RpcFigures, selector::SelectableFields, store::Store,
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

/// Implements both services over a hub.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    hub: Arc<Hub>,
    options: Arc<ServiceOptions>,
    /// Turns true when the server is going away.
    going_away: signal::Receiver<bool>,
    /// Where refusals within a stream are counted.
    rpcs: Arc<RpcFigures>,
    /// So far; each gets jitter of its own from the seed.
    watches_opened: Arc<AtomicU64>,
}

impl Service {
    pub(crate) fn new(
        hub: Arc<Hub>,
        options: ServiceOptions,
        going_away: signal::Receiver<bool>,
        rpcs: Arc<RpcFigures>,
    ) -> Self {
        Self {
            hub,
            options: Arc::new(options),
            going_away,
            rpcs,
            watches_opened: Arc::default(),
        }
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.hub.store()
    }
}

/// The response stream of a server-streaming RPC.
type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl ListWatchService for Service {
    type WatchStream = watch::WatchFrames;
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
        self.open_watch(request.into_inner())
            .await
            .map(Response::new)
    }

    async fn watch_many(
        &self,
        request: Request<Streaming<v1::WatchManyRequest>>,
    ) -> Result<Response<Self::WatchManyStream>, Status> {
        let frames = watch_many::ManyFrames::new(self.clone(), request.into_inner());
        Ok(Response::new(frames))
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
