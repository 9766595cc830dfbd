//! The flags that say how much is served at a time.

use std::time::Duration;

use clap::Args;
use listwatch_server::{ConnectionOptions, RequestOptions, hub::LagLimit};

use crate::flags::{duration, duration_or_zero, size};

#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// Open connections; more are closed at once. Never more than the limit on open files
    /// allows; 0: as many as that
    #[arg(
        long,
        env = "LISTWATCH_MAX_CONNECTIONS",
        default_value_t = 10_000,
        value_name = "COUNT"
    )]
    max_connections: usize,

    /// Open connections of one IPv4 address or one IPv6 network (/64); by default half of
    /// --max-connections; 0: no limit
    #[arg(long, env = "LISTWATCH_MAX_CONNECTIONS_PER_IP", value_name = "COUNT")]
    max_connections_per_ip: Option<usize>,

    /// A new connection must have begun to speak HTTP by then
    #[arg(long, env = "LISTWATCH_HANDSHAKE_TIMEOUT", default_value = "10s", value_parser = duration, value_name = "DURATION")]
    handshake_timeout: Duration,

    /// How often a quiet connection is pinged
    #[arg(long, env = "LISTWATCH_KEEPALIVE_INTERVAL", default_value = "10s", value_parser = duration, value_name = "DURATION")]
    keepalive_interval: Duration,

    /// How long the answer to a ping may take before the connection is closed
    #[arg(long, env = "LISTWATCH_KEEPALIVE_TIMEOUT", default_value = "20s", value_parser = duration, value_name = "DURATION")]
    keepalive_timeout: Duration,

    /// Tell connections of about this age to go, so that clients spread again; 0: never
    #[arg(long, env = "LISTWATCH_MAX_CONNECTION_AGE", default_value = "0", value_parser = duration_or_zero, value_name = "DURATION")]
    max_connection_age: Duration,

    /// Cut off what is left of such a connection after this
    #[arg(long, env = "LISTWATCH_MAX_CONNECTION_AGE_GRACE", default_value = "30s", value_parser = duration_or_zero, value_name = "DURATION")]
    max_connection_age_grace: Duration,

    /// Open watches, those of WatchMany counted one by one; 0: no limit
    #[arg(
        long,
        env = "LISTWATCH_MAX_WATCH_CONNECTIONS",
        default_value_t = 100_000,
        value_name = "COUNT"
    )]
    max_watch_connections: usize,

    /// Open watches of one client (an IPv4 address or an IPv6 /64); by default half of
    /// --max-watch-connections; 0: no limit
    #[arg(long, env = "LISTWATCH_MAX_WATCHES_PER_CLIENT", value_name = "COUNT")]
    max_watches_per_client: Option<usize>,

    /// End watches whose clients are further behind than this; from their last bookmark they
    /// catch up with the newest change of each object; 0: no limit
    #[arg(long, env = "LISTWATCH_MAX_WATCH_LAG", default_value = "0", value_parser = duration_or_zero, value_name = "DURATION")]
    max_watch_lag: Duration,

    /// The same for those that have more than this still to get; 0: no limit
    #[arg(long, env = "LISTWATCH_MAX_WATCH_BACKLOG", default_value = "1GiB", value_parser = size, value_name = "SIZE")]
    max_watch_backlog: u64,

    /// Reading calls (Get, List, GetStatus, ListWatches) that are answered at a time; 0: no limit
    #[arg(
        long,
        env = "LISTWATCH_MAX_REQUESTS_INFLIGHT",
        default_value_t = 400,
        value_name = "COUNT"
    )]
    max_requests_inflight: usize,

    /// Writing calls (Create, Update, Delete, Batch, Compact) that are answered at a time; 0:
    /// no limit
    #[arg(
        long,
        env = "LISTWATCH_MAX_MUTATING_REQUESTS_INFLIGHT",
        default_value_t = 200,
        value_name = "COUNT"
    )]
    max_mutating_requests_inflight: usize,

    /// How long a call may take; not streams, and not Compact
    #[arg(long, env = "LISTWATCH_REQUEST_TIMEOUT", default_value = "60s", value_parser = duration, value_name = "DURATION")]
    request_timeout: Duration,
}

impl Limits {
    pub(crate) fn connections(&self) -> ConnectionOptions {
        ConnectionOptions {
            max_connections: or_all(self.max_connections),
            max_connections_per_ip: self.max_connections_per_ip.map(or_all),
            handshake_timeout: self.handshake_timeout,
            keepalive_interval: self.keepalive_interval,
            keepalive_timeout: self.keepalive_timeout,
            max_age: (!self.max_connection_age.is_zero()).then_some(self.max_connection_age),
            max_age_grace: self.max_connection_age_grace,
        }
    }

    pub(crate) fn lag(&self) -> LagLimit {
        LagLimit {
            age: (!self.max_watch_lag.is_zero()).then_some(self.max_watch_lag),
            bytes: (self.max_watch_backlog > 0).then_some(self.max_watch_backlog),
        }
    }

    pub(crate) fn requests(&self) -> RequestOptions {
        RequestOptions {
            max_requests_inflight: or_all(self.max_requests_inflight),
            max_mutating_requests_inflight: or_all(self.max_mutating_requests_inflight),
            request_timeout: self.request_timeout,
            max_watches: or_all(self.max_watch_connections),
            max_watches_per_client: self.max_watches_per_client.map(or_all),
        }
    }
}

/// 0 stands for no limit.
fn or_all(count: usize) -> usize {
    match count {
        0 => usize::MAX,
        count => count,
    }
}
