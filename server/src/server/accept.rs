//! The accept loop: connections in, whatever they come over, as many as there is room for.

use std::{
    convert::Infallible,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{StreamExt as _, future::BoxFuture, stream::BoxStream};
use http::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Sleep, sleep},
};
use tonic::body::Body;
use tower::Service;

use super::{
    Phase,
    connection::{ConnectionOptions, Http},
};
use crate::{
    limits::{ACCEPT_PAUSE, IN_MEMORY_PIPE_BYTES, MAX_METRICS_CONNECTIONS},
    metrics::ConnectionFigures,
    peer::Peer,
    refusals::{Refusal, Refusals},
    seats::{Full, Seat, Seats},
};

/// What a connection comes over.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// A connection of any kind.
pub type Io = Box<dyn Transport>;

/// A connection, and from where.
pub(super) struct Accepted {
    pub(super) io: Io,
    pub(super) peer: Peer,
}

/// Connections of a TCP listener.
pub(super) fn tcp(listener: TcpListener) -> BoxStream<'static, io::Result<Accepted>> {
    let accept = async |listener: TcpListener| {
        let accepted = listener.accept().await.map(|(connection, address)| {
            // Events are small and wanted now. Where this fails the peer is gone already.
            let _ = connection.set_nodelay(true);
            Accepted {
                io: Box::new(connection),
                peer: Peer::Tcp(address),
            }
        });
        Some((accepted, listener))
    };
    futures::stream::unfold(listener, accept).boxed()
}

/// Accepts connections until the server drains, and then sees them off.
pub(super) struct Acceptor {
    pub(super) connections: BoxStream<'static, io::Result<Accepted>>,
    pub(super) dialled: mpsc::Receiver<Io>,
    pub(super) options: ConnectionOptions,
    pub(super) seats: Arc<Seats>,
    pub(super) refusals: Arc<Refusals>,
    pub(super) grace: Duration,
    pub(super) drain: watch::Receiver<Phase>,
    pub(super) figures: Arc<ConnectionFigures>,
}

impl Acceptor {
    pub(super) async fn run<S>(mut self, service: S)
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send,
    {
        let http = Http::new(&self.options, self.refusals.clone(), self.drain.clone());
        let mut open = JoinSet::new();
        let mut drain = self.drain.clone();
        let mut left = self.drain.clone();
        let draining = draining(&mut left);
        tokio::pin!(draining);
        let mut rest = Rest::default();
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut draining => break,
                Some(io) = self.dialled.recv() => Accepted { io, peer: Peer::InMemory },
                Some(_) = open.join_next(), if !open.is_empty() => continue,
                () = rest.over(), if rest.is_on() => continue,
                accepted = self.connections.next(), if !rest.is_on() => match accepted {
                    Some(Ok(accepted)) => {
                        rest.accepted();
                        accepted
                    }
                    Some(Err(error)) => {
                        self.refusals.add_failed_accept();
                        rest.failed(&error);
                        continue;
                    }
                    // The caller's stream has ended; in-memory connections go on.
                    None => {
                        self.connections = futures::stream::pending().boxed();
                        continue;
                    }
                },
            };
            // Dropped where there is no seat: the peer sees it closed at once.
            if let Ok(seat) = self.seat(accepted.peer) {
                let counted = self.figures.opened();
                let serving = http.serve(accepted, service.clone());
                open.spawn(async move {
                    serving.await;
                    drop((seat, counted));
                });
            }
        }
        drop(self.connections);
        drop(self.dialled);
        let ended = async { while open.join_next().await.is_some() {} };
        tokio::select! {
            () = ended => {}
            () = closing(&mut drain) => {}
            () = sleep(self.grace) => {}
        }
        if !open.is_empty() {
            tracing::info!(connections = open.len(), "cutting off what is still open");
            open.shutdown().await;
        }
    }

    /// A place among the open connections. One over memory needs none: it costs no descriptor,
    /// and the program that opens it is this one.
    fn seat(&self, peer: Peer) -> Result<Option<Seat>, Full> {
        if peer == Peer::InMemory {
            return Ok(None);
        }
        let seat = self.seats.take(peer.client());
        seat.map(Some).inspect_err(|full| {
            tracing::debug!(?peer, ?full, "a connection is refused");
            self.refusals.add(match full {
                Full::Altogether => Refusal::Connections,
                Full::ForClient => Refusal::ConnectionsPerIp,
            });
        })
    }
}

/// Serves pages until it is aborted: also while the server drains.
pub(super) async fn beside<S>(listener: TcpListener, service: S)
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let (_serving, phase) = watch::channel(Phase::Serving);
    // What is refused here is nobody's concern.
    let http = Http::new(&ConnectionOptions::default(), Arc::default(), phase);
    let mut rest = Rest::default();
    let mut connections = tcp(listener);
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            Some(_) = open.join_next(), if !open.is_empty() => continue,
            () = rest.over(), if rest.is_on() => continue,
            accepted = connections.next(), if !rest.is_on() => accepted,
        };
        match accepted {
            // Who asks for metrics comes alone; more is a mistake, or worse.
            Some(Ok(_)) if open.len() >= MAX_METRICS_CONNECTIONS => {}
            Some(Ok(accepted)) => {
                rest.accepted();
                open.spawn(http.serve(accepted, service.clone()));
            }
            Some(Err(error)) => rest.failed(&error),
            None => return,
        }
    }
}

/// Completes when the server is going away.
pub(super) async fn draining(phase: &mut watch::Receiver<Phase>) {
    // An error is the sender's end, which comes with the server's.
    let _ = phase
        .wait_for(|phase| *phase != Phase::Serving)
        .await
        .map(drop);
}

/// Completes when what is open is to be cut off.
async fn closing(phase: &mut watch::Receiver<Phase>) {
    let _ = phase
        .wait_for(|phase| *phase >= Phase::Closing)
        .await
        .map(drop);
}

/// The rest after connections that could not be accepted. Out of descriptors, the one that
/// waits would make the loop spin: it goes on waiting, and whoever is served already does
/// not notice.
#[derive(Default)]
struct Rest {
    until: Option<Pin<Box<Sleep>>>,
    failures: u64,
}

impl Rest {
    fn is_on(&self) -> bool {
        self.until.is_some()
    }

    async fn over(&mut self) {
        if let Some(until) = &mut self.until {
            until.await;
        }
        self.until = None;
    }

    fn failed(&mut self, error: &io::Error) {
        // The peer's own doing says nothing of the next one.
        if let io::ErrorKind::ConnectionAborted
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::Interrupted = error.kind()
        {
            return;
        }
        // A line at the beginning and one at the end, not twenty a second.
        if self.failures == 0 {
            tracing::warn!(%error, "cannot accept connections; those that are open go on");
        }
        self.failures += 1;
        self.until = Some(Box::pin(sleep(ACCEPT_PAUSE)));
    }

    fn accepted(&mut self) {
        if self.failures > 0 {
            tracing::info!(failures = self.failures, "accepting connections again");
            self.failures = 0;
        }
    }
}

/// Connects to a server of the same process over memory.
///
/// A tower service for `tonic::transport::Endpoint::connect_with_connector`; the URI does
/// not matter.
#[derive(Clone, Debug)]
pub struct InMemoryConnector(mpsc::Sender<Io>);

impl InMemoryConnector {
    pub(super) fn new(dial: mpsc::Sender<Io>) -> Self {
        Self(dial)
    }

    /// A new connection.
    ///
    /// # Errors
    /// `ConnectionRefused` when the server has ended.
    pub async fn connect(&self) -> io::Result<tokio::io::DuplexStream> {
        let (near, far) = tokio::io::duplex(IN_MEMORY_PIPE_BYTES);
        let refused = |_| io::Error::from(io::ErrorKind::ConnectionRefused);
        self.0.send(Box::new(far)).await.map_err(refused)?;
        Ok(near)
    }
}

impl Service<Uri> for InMemoryConnector {
    type Response = TokioIo<tokio::io::DuplexStream>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect().await.map(TokioIo::new) })
    }
}
