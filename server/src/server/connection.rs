//! One connection, from its first byte to its last.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tonic::body::Body;
use tower::{Service, ServiceExt as _};

use super::{
    Phase,
    accept::{Accepted, draining},
    preface::Listened,
};
use crate::{
    limits::{
        CONNECTION_AGE_JITTER, CONNECTION_WINDOW_BYTES, DEFAULT_HANDSHAKE_TIMEOUT,
        DEFAULT_KEEPALIVE_INTERVAL, DEFAULT_KEEPALIVE_TIMEOUT, DEFAULT_MAX_CONNECTION_AGE_GRACE,
        DEFAULT_MAX_CONNECTIONS, MAX_FRAME_BYTES, MAX_HEADER_LIST_BYTES, MAX_HTTP1_BUFFER_BYTES,
        MAX_SEND_BUFFER_BYTES, MAX_STREAMS_PER_CONNECTION, STREAM_WINDOW_BYTES,
    },
    refusals::{Refusal, Refusals},
    service::Connection,
};

/// How connections are treated. Every field has a flag of `listwatchd`.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// Connections that are open at a time; more are closed at once. Never more than the
    /// process may have descriptors, less some for the store. Those over memory are not
    /// counted (`--max-connections`).
    pub max_connections: usize,
    /// Those of one IPv4 address, or one IPv6 network of 64 bits; `None`: half of them
    /// (`--max-connections-per-ip`).
    pub max_connections_per_ip: Option<usize>,
    /// A new connection is closed when its peer has not begun to speak by then: the HTTP/2
    /// preface, or all headers of an HTTP/1 request (`--handshake-timeout`).
    pub handshake_timeout: Duration,
    /// How often a quiet HTTP/2 connection is pinged (`--keepalive-interval`).
    pub keepalive_interval: Duration,
    /// How long it may owe the answer before it is closed (`--keepalive-timeout`).
    pub keepalive_timeout: Duration,
    /// A connection of this age, give or take a tenth, is told to go: watches get a
    /// GOING_AWAY bookmark to resume from over another. Behind a balancer of connections
    /// this is what spreads clients again. `None`: never (`--max-connection-age`).
    pub max_age: Option<Duration>,
    /// What is left of such a connection after this is cut off
    /// (`--max-connection-age-grace`).
    pub max_age_grace: Duration,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            max_connections: DEFAULT_MAX_CONNECTIONS,
            max_connections_per_ip: None,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            keepalive_interval: DEFAULT_KEEPALIVE_INTERVAL,
            keepalive_timeout: DEFAULT_KEEPALIVE_TIMEOUT,
            max_age: None,
            max_age_grace: DEFAULT_MAX_CONNECTION_AGE_GRACE,
        }
    }
}

/// HTTP/1.1 and HTTP/2 over accepted connections.
pub(super) struct Http {
    builder: auto::Builder<TokioExecutor>,
    handshake_timeout: Duration,
    max_age: Option<Duration>,
    max_age_grace: Duration,
    refusals: Arc<Refusals>,
    drain: watch::Receiver<Phase>,
}

impl Http {
    pub(super) fn new(
        options: &ConnectionOptions,
        refusals: Arc<Refusals>,
        drain: watch::Receiver<Phase>,
    ) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(options.handshake_timeout)
            .max_buf_size(MAX_HTTP1_BUFFER_BYTES);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(options.keepalive_interval)
            .keep_alive_timeout(options.keepalive_timeout)
            .max_concurrent_streams(MAX_STREAMS_PER_CONNECTION)
            .max_header_list_size(MAX_HEADER_LIST_BYTES)
            .max_frame_size(MAX_FRAME_BYTES)
            .max_send_buf_size(MAX_SEND_BUFFER_BYTES)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        Self {
            builder,
            handshake_timeout: options.handshake_timeout,
            max_age: options.max_age,
            max_age_grace: options.max_age_grace,
            refusals,
            drain,
        }
    }

    /// Serves a connection until it ends, comes of age, or the server drains. TLS, when it
    /// comes, is spoken here first, under the same deadline.
    pub(super) fn serve<S>(
        &self,
        accepted: Accepted,
        service: S,
    ) -> impl Future<Output = ()> + Send + 'static
    where
        S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
            + Clone
            + Send
            + 'static,
        S::Future: Send,
    {
        let peer = accepted.peer;
        let connection = Connection::new(peer);
        let known = connection.clone();
        let service = service.map_request(move |request: Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(known.clone());
            request
        });
        let (io, spoken) = Listened::new(accepted.io);
        let service = TowerToHyperService::new(service);
        let http = self.builder.serve_connection(TokioIo::new(io), service);
        let http = http.into_owned();
        let (handshake_timeout, grace) = (self.handshake_timeout, self.max_age_grace);
        let age = self.max_age.map(jittered);
        let (refusals, mut drain) = (self.refusals.clone(), self.drain.clone());
        async move {
            let mut http = pin!(http);
            let mut unspoken = pin!(async {
                sleep(handshake_timeout).await;
                if spoken.yet() {
                    std::future::pending::<()>().await;
                }
            });
            let mut comes_of_age = pin!(async {
                match age {
                    Some(age) => sleep(age).await,
                    None => std::future::pending().await,
                }
            });
            let ended = tokio::select! {
                ended = http.as_mut() => ended,
                () = draining(&mut drain) => {
                    http.as_mut().graceful_shutdown();
                    http.await
                }
                () = unspoken.as_mut() => {
                    tracing::debug!(?peer, "closing a connection that does not speak");
                    refusals.add(Refusal::Handshake);
                    return;
                }
                () = comes_of_age.as_mut() => {
                    // GOAWAY goes first on the wire, so that whoever hears that its watch is
                    // ending opens the next one over another connection.
                    http.as_mut().graceful_shutdown();
                    connection.leave();
                    match timeout(grace, http).await {
                        Ok(ended) => ended,
                        Err(_elapsed) => {
                            tracing::debug!(?peer, "closing a connection that outlived its age");
                            return;
                        }
                    }
                }
            };
            if let Err(error) = ended {
                // Peers hang up and send rubbish as they please.
                tracing::debug!(?peer, %error, "a connection ended with an error");
            }
        }
    }
}

fn jittered(age: Duration) -> Duration {
    let spread = 2.0 * CONNECTION_AGE_JITTER;
    age.mul_f64(1.0 - CONNECTION_AGE_JITTER + spread * rand::random::<f64>())
}
