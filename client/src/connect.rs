//! How a [`Client`] reaches its server.

use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

use crate::{client::Client, error::ClientError};

/// Largest response that is accepted. A watch response can hold a whole batch of large
/// objects (1.5 MiB each by default), far above gRPC's usual 4 MiB.
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;
/// How long a connection may take to come about.
pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a unary call may take in all, retries included.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two HTTP/2 pings while calls are open.
pub const DEFAULT_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// How long a ping may stay unanswered.
pub const DEFAULT_KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// What a stream may send before it is read.
const STREAM_WINDOW_BYTES: u32 = 512 * 1024;
/// What all streams of the connection may. Far above one stream's, since a watch whose
/// reader is stuck keeps its share: 128 such leave the others without a window.
const CONNECTION_WINDOW_BYTES: u32 = 64 * 1024 * 1024;

/// What a client's calls need to know; shared by its clones.
#[derive(Debug, Clone)]
pub(crate) struct CallSettings {
    pub(crate) request_timeout: Duration,
    pub(crate) max_message_bytes: usize,
}

impl Default for CallSettings {
    fn default() -> Self {
        Self {
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
        }
    }
}

/// Sets up a [`Client`]. Made by [`Client::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    endpoint: String,
    connect_timeout: Duration,
    keepalive: Option<(Duration, Duration)>,
    user_agent: String,
    calls: CallSettings,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            endpoint: "http://127.0.0.1:7450".into(),
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            keepalive: Some((DEFAULT_KEEPALIVE_INTERVAL, DEFAULT_KEEPALIVE_TIMEOUT)),
            user_agent: concat!("listwatch-client/", env!("CARGO_PKG_VERSION")).into(),
            calls: CallSettings::default(),
        }
    }
}

impl ClientBuilder {
    /// The server: `http://host:port` or `host:port`. Default: `http://127.0.0.1:7450`.
    pub fn endpoint(mut self, endpoint: impl Into<String>) -> Self {
        self.endpoint = endpoint.into();
        self
    }

    /// How long a connection may take to come about. Default: 10 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a unary call may take in all, its retries included. Default: 30 s. Streams
    /// have no such limit: a watcher has its own, in
    /// [`WatchOptions`](crate::WatchOptions).
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.calls.request_timeout = timeout;
        self
    }

    /// Pings the server every `interval` while calls are open, and gives the connection up
    /// when an answer takes longer than `timeout`. Default: 30 s and 20 s.
    pub fn keepalive(mut self, interval: Duration, timeout: Duration) -> Self {
        self.keepalive = Some((interval, timeout));
        self
    }

    /// Sends no pings, for servers that punish them. Watchers notice a dead connection by
    /// the silence anyway.
    pub fn no_keepalive(mut self) -> Self {
        self.keepalive = None;
        self
    }

    /// Goes before `tonic/<version>` in the `user-agent` header.
    pub fn user_agent(mut self, user_agent: impl Into<String>) -> Self {
        self.user_agent = user_agent.into();
        self
    }

    /// Largest response, in bytes, that is accepted. Default: 64 MiB.
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.calls.max_message_bytes = bytes;
        self
    }

    /// Connects now.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] if the endpoint is malformed, [`ClientError::Connect`] if
    /// the server cannot be reached.
    pub async fn connect(self) -> Result<Client, ClientError> {
        let channel = self
            .transport()?
            .connect()
            .await
            .map_err(ClientError::Connect)?;
        Ok(self.client(channel))
    }

    /// Connects with the first call.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] if the endpoint is malformed.
    pub fn connect_lazy(self) -> Result<Client, ClientError> {
        let channel = self.transport()?.connect_lazy();
        Ok(self.client(channel))
    }

    /// Calls over an existing channel, such as one over an in-memory transport
    /// ([`Endpoint::connect_with_connector`]). The settings of the connection itself
    /// (endpoint, connect timeout, keepalive, user agent) are the channel's own.
    pub fn client(self, channel: Channel) -> Client {
        Client::with_settings(channel, self.calls)
    }

    /// The endpoint with this builder's settings, to connect it by hand.
    ///
    /// # Errors
    /// [`ClientError::Endpoint`] if the endpoint is malformed.
    pub fn transport(&self) -> Result<Endpoint, ClientError> {
        let malformed = |problem: String| ClientError::Endpoint {
            endpoint: self.endpoint.clone(),
            problem,
        };
        let address = match self.endpoint.split_once("://") {
            None => format!("http://{}", self.endpoint),
            Some(("http", _)) => self.endpoint.clone(),
            Some((scheme, _)) => {
                return Err(malformed(format!("the scheme is http, not {scheme}")));
            }
        };
        let mut endpoint = Endpoint::from_shared(address)
            .and_then(|endpoint| endpoint.user_agent(self.user_agent.clone()))
            .map_err(|error| malformed(error.to_string()))?
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        if endpoint.uri().host().is_none_or(str::is_empty) {
            return Err(malformed("the host is missing".into()));
        }
        if let Some((interval, timeout)) = self.keepalive {
            endpoint = endpoint
                .http2_keep_alive_interval(interval)
                .keep_alive_timeout(timeout);
        }
        Ok(endpoint)
    }
}
