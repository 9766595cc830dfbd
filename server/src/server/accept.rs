//! The accept loop: connections in, HTTP out, whatever they come over.

use std::{
    convert::Infallible,
    io,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{StreamExt as _, future::BoxFuture, stream::BoxStream};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tower::{Service, ServiceExt as _};

use super::Phase;
use crate::limits::{
    ACCEPT_PAUSE, CONNECTION_WINDOW_BYTES, IN_MEMORY_PIPE_BYTES, KEEPALIVE_INTERVAL,
    KEEPALIVE_TIMEOUT, MAX_HEADER_LIST_BYTES, MAX_METRICS_CONNECTIONS, MAX_SEND_BUFFER_BYTES,
    MAX_STREAMS_PER_CONNECTION, STREAM_WINDOW_BYTES,
};
use crate::metrics::ConnectionFigures;

/// What a connection comes over.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// A connection of any kind.
pub type Io = Box<dyn Transport>;

/// Connections of a TCP listener.
pub(super) fn tcp(listener: TcpListener) -> BoxStream<'static, io::Result<Io>> {
    TcpListenerStream::new(listener)
        .map(|connection| {
            let connection = connection?;
            // Events are small and wanted now.
            connection.set_nodelay(true)?;
            Ok(Box::new(connection) as Io)
        })
        .boxed()
}

/// Accepts connections until the server drains, and then sees them off.
pub(super) struct Acceptor {
    pub(super) connections: BoxStream<'static, io::Result<Io>>,
    pub(super) dialled: mpsc::Receiver<Io>,
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
        let mut open = JoinSet::new();
        let mut drain = self.drain.clone();
        let draining = draining(&mut drain);
        tokio::pin!(draining);
        loop {
            let io = tokio::select! {
                biased;
                () = &mut draining => break,
                Some(io) = self.dialled.recv() => io,
                Some(_) = open.join_next(), if !open.is_empty() => continue,
                accepted = self.connections.next() => match accepted {
                    Some(Ok(io)) => io,
                    Some(Err(error)) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        self.figures.not_accepted();
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                    // The caller's stream has ended; in-memory connections go on.
                    None => {
                        self.connections = futures::stream::pending().boxed();
                        continue;
                    }
                },
            };
            let counted = self.figures.opened();
            let served = serve(io, service.clone(), self.drain.clone());
            open.spawn(async move {
                served.await;
                drop(counted);
            });
        }
        drop(self.connections);
        drop(self.dialled);
        let ended = async { while open.join_next().await.is_some() {} };
        if tokio::time::timeout(self.grace, ended).await.is_err() {
            tracing::info!(
                connections = open.len(),
                "closing connections that outlived the grace"
            );
            open.shutdown().await;
        }
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
    let mut connections = tcp(listener);
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            Some(_) = open.join_next(), if !open.is_empty() => continue,
            accepted = connections.next() => accepted,
        };
        match accepted {
            // Who asks for metrics comes alone; more is a mistake, or worse.
            Some(Ok(_)) if open.len() >= MAX_METRICS_CONNECTIONS => {}
            Some(Ok(io)) => {
                open.spawn(serve(io, service.clone(), phase.clone()));
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
            None => return,
        }
    }
}

/// Completes when the server is going away.
async fn draining(phase: &mut watch::Receiver<Phase>) {
    // An error is the sender's end, which comes with the server's.
    let _ = phase
        .wait_for(|phase| *phase != Phase::Serving)
        .await
        .map(drop);
}

async fn serve<S>(io: Io, service: S, mut drain: watch::Receiver<Phase>)
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let service = service.map_request(|request: Request<Incoming>| request.map(Body::new));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(KEEPALIVE_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .max_concurrent_streams(MAX_STREAMS_PER_CONNECTION)
        .max_header_list_size(MAX_HEADER_LIST_BYTES)
        .max_send_buf_size(MAX_SEND_BUFFER_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let connection = builder.serve_connection(TokioIo::new(io), TowerToHyperService::new(service));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = draining(&mut drain) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Peers hang up and send rubbish as they please.
        tracing::debug!(%error, "a connection ended with an error");
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
