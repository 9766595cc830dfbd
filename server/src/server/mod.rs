//! The server as a whole: store, hub, services and listener put together.
//!
//! `listwatchd` is this with flags in front. What it can do, a program that embeds it can.

mod accept;
mod connection;
mod cors;
mod descriptors;
mod health;
mod maintenance;
mod outside;
mod preface;
mod probes;
mod web;

use std::{
    fmt, io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, Stream, StreamExt as _, future::BoxFuture, stream::BoxStream};
use listwatch::v1::{
    FILE_DESCRIPTOR_SET, admin_service_server::AdminServiceServer,
    list_watch_service_server::ListWatchServiceServer,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tower::Layer as _;

use self::{
    accept::Accepted, health::Health, outside::OutsideLayer, probes::Probes, web::WebLayer,
};
pub use self::{
    accept::{InMemoryConnector, Io},
    connection::ConnectionOptions,
    cors::Origin,
    descriptors::raise_descriptor_limit,
};
use crate::{
    gateway::{self, DeclarationError, DeclaredKind, Gateway, Kinds},
    hub::{Hub, HubOptions},
    limits::{
        DEFAULT_COMPACTION_INTERVAL, DEFAULT_HISTORY_RETENTION, DEFAULT_SHUTDOWN_GRACE,
        IN_MEMORY_BACKLOG,
    },
    metrics::{ConnectionFigures, Metrics, RpcFigures, RpcLayer},
    peer::Peer,
    refusals::{Load, Refusals},
    seats::Seats,
    service::{
        DeadlineLayer, Departure, EdgeLayer, RequestLimitLayer, RequestOptions, Service,
        ServiceOptions, WatchLimit, WatchRoute,
    },
    store::{MemoryStore, SledStore, Store, StoreError, StoreOptions},
    traces::TraceLayer,
};

/// The server could not be started, or ended with a failure.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The store could not be opened or read. Says what is wrong and what to do.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address could not be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// A kind of [`ServerOptions::kinds`] is wrong. Says which, and which fields of it.
    #[error(transparent)]
    Kind(#[from] DeclarationError),
    /// The gRPC reflection service did not accept the API's descriptors: a fault of the build.
    #[error("reflection: {0}")]
    Reflection(String),
    /// A task of the server panicked: a fault of the server.
    #[error("a task of the server failed: {0}")]
    Task(String),
}

/// How the server behaves. Every field has a flag of `listwatchd`.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Watch caches.
    pub hub: HubOptions,
    /// The RPCs.
    pub service: ServiceOptions,
    /// How many connections, and for how long.
    pub connections: ConnectionOptions,
    /// How many requests and watches, and for how long.
    pub requests: RequestOptions,
    /// How often history is compacted by itself; `None`: never.
    pub compaction_interval: Option<Duration>,
    /// How much history compaction by itself leaves.
    pub history_retention: Duration,
    /// How long open connections get to end when the server goes away; over most of it
    /// watches end one after the other, so that their clients do not come back together.
    pub shutdown_grace: Duration,
    /// Where web pages come from whose browsers may call this server; by default none
    /// (`--cors-allowed-origins`).
    pub cors_allowed_origins: Vec<Origin>,
    /// Kinds that are served over HTTP beside the built-in ones (`--kinds`). They stay for as
    /// long as the server runs: no CustomResourceDefinition can change or remove them.
    pub kinds: Vec<DeclaredKind>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            hub: HubOptions::default(),
            service: ServiceOptions::default(),
            connections: ConnectionOptions::default(),
            requests: RequestOptions::default(),
            compaction_interval: Some(DEFAULT_COMPACTION_INTERVAL),
            history_retention: DEFAULT_HISTORY_RETENTION,
            shutdown_grace: DEFAULT_SHUTDOWN_GRACE,
            cors_allowed_origins: Vec::new(),
            kinds: Vec::new(),
        }
    }
}

enum StoreChoice {
    Ready(Arc<dyn Store>),
    Folder(PathBuf, StoreOptions),
    Memory(StoreOptions),
}

enum ListenChoice {
    /// In-memory connections only.
    Nowhere,
    Address(String),
    Incoming(Option<SocketAddr>, BoxStream<'static, io::Result<Accepted>>),
}

/// Puts a server together; made by [`Server::builder`].
#[must_use]
pub struct ServerBuilder {
    store: StoreChoice,
    listen: ListenChoice,
    options: ServerOptions,
    shutdown: BoxFuture<'static, ()>,
    shutdown_now: BoxFuture<'static, ()>,
    metrics_listen: Option<String>,
}

/// The Listwatch server.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use listwatch_server::Server;
///
/// let server = Server::builder().listen("127.0.0.1:0").start().await?;
/// println!("listening on {:?}", server.local_addr());
/// server.drain();
/// server.join().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server(());

impl Server {
    /// A server that keeps everything in memory and that only in-memory connections
    /// reach, until told otherwise.
    pub fn builder() -> ServerBuilder {
        ServerBuilder {
            store: StoreChoice::Memory(StoreOptions::default()),
            listen: ListenChoice::Nowhere,
            options: ServerOptions::default(),
            shutdown: std::future::pending().boxed(),
            shutdown_now: std::future::pending().boxed(),
            metrics_listen: None,
        }
    }
}

impl ServerBuilder {
    /// Keeps the store in a folder, made if need be.
    pub fn data_dir(mut self, path: impl Into<PathBuf>, options: StoreOptions) -> Self {
        self.store = StoreChoice::Folder(path.into(), options);
        self
    }

    /// Keeps everything in memory: gone when the server ends.
    pub fn ephemeral(mut self, options: StoreOptions) -> Self {
        self.store = StoreChoice::Memory(options);
        self
    }

    /// Serves a store that the caller opened, and that stays open after the server.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = StoreChoice::Ready(store);
        self
    }

    /// Listens on an address such as `127.0.0.1:7450`; port 0 takes a free one.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = ListenChoice::Address(address.into());
        self
    }

    /// Serves a listener that the caller bound.
    pub fn listener(mut self, listener: TcpListener) -> Self {
        let address = listener.local_addr().ok();
        self.listen = ListenChoice::Incoming(address, accept::tcp(listener));
        self
    }

    /// Serves connections of any kind, as they come.
    pub fn incoming<S, T>(mut self, connections: S) -> Self
    where
        S: Stream<Item = io::Result<T>> + Send + 'static,
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let accepted = |io: T| Accepted {
            io: Box::new(io),
            peer: Peer::Unknown,
        };
        let connections = connections.map(move |c| c.map(accepted)).boxed();
        self.listen = ListenChoice::Incoming(None, connections);
        self
    }

    /// Also serves `/metrics`, `/livez` and `/readyz` at an address of their own, until the
    /// server has ended; on the server's own port they are there in any case, for as long
    /// as it takes connections.
    pub fn metrics_listen(mut self, address: impl Into<String>) -> Self {
        self.metrics_listen = Some(address.into());
        self
    }

    /// Sets limits, caches, intervals and kinds.
    pub fn options(mut self, options: ServerOptions) -> Self {
        self.options = options;
        self
    }

    /// Goes away when this completes, as with [`ServerHandle::drain`].
    pub fn shutdown(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = signal.boxed();
        self
    }

    /// Ends at once when this completes, as with [`ServerHandle::cut_off`].
    pub fn shutdown_now(mut self, signal: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown_now = signal.boxed();
        self
    }

    /// Opens the store, loads the caches, and serves. Returns when requests are answered.
    ///
    /// # Errors
    /// [`ServerError`] if a declared kind is wrong, the address is taken or the store cannot be
    /// opened.
    pub async fn start(self) -> Result<ServerHandle, ServerError> {
        let kinds = Kinds::with_declared(&self.options.kinds)?;
        // The address first: that it is taken shows at once, not after a minute of loading.
        let (address, connections) = match self.listen {
            ListenChoice::Nowhere => (None, futures::stream::pending().boxed()),
            ListenChoice::Incoming(address, connections) => (address, connections),
            ListenChoice::Address(address) => {
                let listener = bind(&address).await?;
                (listener.local_addr().ok(), accept::tcp(listener))
            }
        };
        let beside = match &self.metrics_listen {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let metrics_address = beside.as_ref().and_then(|b| b.local_addr().ok());
        let (store, owned) = open(self.store).await?;
        let mut options = self.options;
        gateway::declare_fields(&kinds, &mut options.service.fields);
        let hub = Hub::start(store.clone(), options.hub.clone()).await?;

        let (phase, _) = watch::channel(Phase::Serving);
        let (departure, departs) = watch::channel(None);
        let (health, health_service) = Health::serving().await;
        let descriptors = [FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET];
        let rpcs = Arc::new(RpcFigures::new(&descriptors));
        let limited = Limited::new(&options);
        let watches = limited.watches.clone();
        let service = Service::new(
            hub.clone(),
            options.service.clone(),
            departs,
            watches.clone(),
            rpcs.clone(),
        );
        let max_request_bytes = options.service.max_request_bytes();
        let list_watch = ListWatchServiceServer::new(service.clone())
            .max_decoding_message_size(max_request_bytes);
        let reflection = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let failed = |e: tonic_reflection::server::Error| ServerError::Reflection(e.to_string());
        let routes = tonic::service::Routes::new(list_watch)
            .add_service(
                AdminServiceServer::new(service.clone())
                    .max_decoding_message_size(max_request_bytes),
            )
            .add_service(health_service)
            .add_service(reflection().build_v1().map_err(failed)?)
            .add_service(reflection().build_v1alpha().map_err(failed)?)
            .prepare();
        let gateway = Gateway::new(
            service.clone(),
            limited.calls.clone(),
            options.requests.request_timeout,
            limited.refusals.clone(),
            kinds,
        );
        let watch_route = WatchRoute {
            service,
            max_request_bytes,
        };
        let deadline = DeadlineLayer {
            timeout: options.requests.request_timeout,
            refusals: limited.refusals.clone(),
        };
        let routes = limited
            .calls
            .layer(deadline.layer(watch_route.layer(routes)));
        let routes = EdgeLayer { max_request_bytes }.layer(routes);

        let connected = Arc::new(ConnectionFigures::new(limited.refusals.clone()));
        let leaving = Arc::new(AtomicBool::new(false));
        let outside = OutsideLayer {
            metrics: Metrics::new(&hub, rpcs.clone(), gateway.figures(), connected.clone()),
            probes: Probes::new(hub.clone(), leaving.clone()),
        };
        let traced = options.service.traces.then_some(TraceLayer);
        let routes = tower::util::option_layer(traced).layer(routes);
        let routes = gateway.layer(WebLayer.layer(RpcLayer(rpcs).layer(routes)));
        let cors = cors::layer(&options.cors_allowed_origins);
        let routes = tower::util::option_layer(cors).layer(outside.layer(routes));
        let beside = beside.map(|listener| tokio::spawn(accept::beside(listener, outside.alone())));

        let (dial, dialled) = mpsc::channel(IN_MEMORY_BACKLOG);
        let maintenance = maintenance::spawn(&hub, &options);
        let acceptor = accept::Acceptor {
            connections,
            dialled,
            options: options.connections,
            seats: limited.connections.clone(),
            refusals: limited.refusals.clone(),
            grace: options.shutdown_grace,
            drain: phase.subscribe(),
            figures: connected,
        };
        let (drain, told) = (phase.clone(), hub.clone());
        let (shutdown, shutdown_now) = (self.shutdown, self.shutdown_now);
        let grace = options.shutdown_grace;
        let task = tokio::spawn(async move {
            let asked = async {
                let mut phase = drain.subscribe();
                tokio::select! {
                    () = shutdown => {}
                    _ = phase.wait_for(|p| *p != Phase::Serving) => {}
                }
                // Not ready first, so that load balancers look elsewhere; then the
                // watches are told, then the connections end.
                leaving.store(true, Ordering::SeqCst);
                health.going_away().await;
                departure.send_replace(Some(Departure::new(watches.open(), grace)));
                told.wake_watches();
                advance(&drain, Phase::Draining);
            };
            let served = async { tokio::join!(asked, acceptor.run(routes)) };
            let cut_off = async {
                shutdown_now.await;
                advance(&drain, Phase::Closing);
                std::future::pending::<()>().await;
            };
            tokio::select! {
                _ = served => {}
                () = cut_off => {}
            }
            maintenance.abort();
            if owned {
                store.close().await;
            }
            if let Some(beside) = beside {
                beside.abort();
            }
            advance(&drain, Phase::Ended);
        });
        Ok(ServerHandle {
            address,
            metrics_address,
            hub,
            dial,
            phase,
            limited,
            task,
        })
    }
}

async fn bind(address: &str) -> Result<TcpListener, ServerError> {
    let failed = |source| ServerError::Listen {
        address: address.to_owned(),
        source,
    };
    TcpListener::bind(address).await.map_err(failed)
}

/// What is limited, and what was refused.
struct Limited {
    connections: Arc<Seats>,
    calls: RequestLimitLayer,
    watches: WatchLimit,
    refusals: Arc<Refusals>,
}

impl Limited {
    fn new(options: &ServerOptions) -> Self {
        let refusals = Arc::new(Refusals::default());
        let (connections, requests) = (&options.connections, &options.requests);
        let max = connections.max_connections;
        let max = max.min(descriptors::connections_allowed());
        let share = connections.max_connections_per_ip;
        Self {
            connections: Seats::new(max, share.unwrap_or(max.div_ceil(2))),
            calls: RequestLimitLayer::new(
                requests.max_requests_inflight,
                requests.max_mutating_requests_inflight,
                refusals.clone(),
            ),
            watches: requests.watch_limit(refusals.clone()),
            refusals,
        }
    }

    fn load(&self) -> Load {
        let (requests, mutating_requests) = self.calls.inflight();
        Load {
            connections: self.connections.taken(),
            watches: self.watches.open(),
            requests,
            mutating_requests,
        }
    }
}

async fn open(choice: StoreChoice) -> Result<(Arc<dyn Store>, bool), StoreError> {
    match choice {
        StoreChoice::Ready(store) => Ok((store, false)),
        StoreChoice::Memory(options) => Ok((Arc::new(MemoryStore::new(options)), true)),
        StoreChoice::Folder(path, options) => {
            let opened = tokio::task::spawn_blocking(move || SledStore::open(&path, options));
            let store = opened
                .await
                .map_err(|e| StoreError::Damaged(e.to_string()))??;
            Ok((Arc::new(store), true))
        }
    }
}

/// Where a server is in its life. Phases come in this order; the middle ones can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Requests are answered.
    Serving,
    /// No new connections or watches; open ones are ending.
    Draining,
    /// Connections are cut off.
    Closing,
    /// Nothing is served any more; the store is closed.
    Ended,
}

/// Goes on to a later phase; never back.
fn advance(phase: &watch::Sender<Phase>, to: Phase) {
    phase.send_if_modified(|now| {
        let later = *now < to;
        *now = to.max(*now);
        later
    });
}

/// A running server. Dropping it does not end the server.
pub struct ServerHandle {
    address: Option<SocketAddr>,
    metrics_address: Option<SocketAddr>,
    hub: Arc<Hub>,
    dial: mpsc::Sender<Io>,
    phase: watch::Sender<Phase>,
    limited: Limited,
    task: JoinHandle<()>,
}

impl ServerHandle {
    /// The address that is listened on, if it is a TCP address.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The address of [`ServerBuilder::metrics_listen`].
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Where the server is in its life.
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Requests are answered.
    pub fn is_ready(&self) -> bool {
        self.phase() == Phase::Serving
    }

    /// The hub, for programs that read state without going through the API.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// What was refused since the start.
    pub fn refusals(&self) -> &Arc<Refusals> {
        &self.limited.refusals
    }

    /// How much of what is limited is taken now.
    pub fn load(&self) -> Load {
        self.limited.load()
    }

    /// Connects within the process, over memory: for
    /// `tonic::transport::Endpoint::connect_with_connector`.
    pub fn in_memory(&self) -> InMemoryConnector {
        InMemoryConnector::new(self.dial.clone())
    }

    /// Asks the server to go away: health says so; watches end one after the other over most
    /// of [`ServerOptions::shutdown_grace`], each with a bookmark to resume from elsewhere, and
    /// go on until then; connections end within the grace. Returns at once; see
    /// [`ServerHandle::join`].
    pub fn drain(&self) {
        advance(&self.phase, Phase::Draining);
    }

    /// Ends the server at once: what is open is cut off. The store is closed in order all the
    /// same, and what was acknowledged is on disk. Returns at once; see
    /// [`ServerHandle::join`].
    pub fn cut_off(&self) {
        advance(&self.phase, Phase::Closing);
    }

    /// Waits until the server has ended.
    ///
    /// # Errors
    /// [`ServerError::Task`] if it ended by a fault.
    pub async fn join(self) -> Result<(), ServerError> {
        self.task
            .await
            .map_err(|error| ServerError::Task(error.to_string()))
    }
}

impl fmt::Debug for ServerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerHandle")
            .field("address", &self.address)
            .field("phase", &self.phase())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
