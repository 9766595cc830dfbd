//! How a reflector is doing.

use std::{path::PathBuf, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::watcher::{Disconnect, WatcherError};

/// The state of the stream behind a reflector.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Connection {
    /// No stream has said anything yet.
    Connecting,
    /// An initial state, a net difference or a manifest is being received.
    Syncing,
    /// Changes come as they happen.
    Live,
    /// The stream is lost, and the next one has its time.
    Disconnected {
        /// Why.
        cause: Disconnect,
        /// When the next attempt is made.
        retry_at: Instant,
    },
    /// The reflector has ended: it was dropped or shut down, or (with an error) the server
    /// refuses the watch. What it held can still be read.
    Stopped(Option<Arc<WatcherError>>),
}

/// What became of the saved state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Restore {
    /// There was nothing to restore.
    #[default]
    Nothing,
    /// The reflector began with it.
    Restored {
        /// The revision that it shows.
        revision: i64,
        /// How many objects there were.
        objects: usize,
    },
    /// The file cannot be used: the reflector began anew and will overwrite it.
    Refused {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// How far a reflector is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// Between the snapshot and the newest revision that the server spoke of.
    pub revisions: i64,
    /// Since the server last said anything; `None` if it never did.
    pub age: Option<Duration>,
}

/// How a reflector is doing, at one moment.
#[derive(Debug, Clone)]
pub struct Status {
    /// The state of the stream.
    pub connection: Connection,
    /// Whether the reflector has ever been in step with the server since it was started.
    /// A restored state does not count.
    pub ready: bool,
    /// Since when the snapshot may miss changes that the server has made; `None` while
    /// the reflector is in step.
    pub stale_since: Option<Instant>,
    /// The revision that the snapshot shows.
    pub revision: i64,
    /// The newest revision that the server spoke of.
    pub latest_revision: i64,
    /// When the server last said anything.
    pub last_response: Option<Instant>,
    /// How many initial states were received to their end. One, unless history expired.
    pub initial_states: u64,
    /// How many objects cannot be decoded.
    pub undecodable: usize,
    /// What became of the saved state.
    pub restore: Restore,
    /// When state was last saved.
    pub last_save: Option<Instant>,
}

impl Status {
    pub(super) fn new() -> Self {
        Self {
            connection: Connection::Connecting,
            ready: false,
            stale_since: Some(Instant::now()),
            revision: 0,
            latest_revision: 0,
            last_response: None,
            initial_states: 0,
            undecodable: 0,
            restore: Restore::Nothing,
            last_save: None,
        }
    }

    /// Whether the snapshot may miss changes that the server has made.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale_since.is_some()
    }

    /// Whether the reflector has ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        matches!(self.connection, Connection::Stopped(_))
    }

    /// How far the snapshot is behind.
    #[must_use]
    pub fn lag(&self) -> Lag {
        Lag {
            revisions: (self.latest_revision - self.revision).max(0),
            age: self.last_response.map(|at| at.elapsed()),
        }
    }
}

/// Why waiting for a reflector was in vain.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The time is over. The reflector goes on, and a retry may succeed; `status` says what
    /// it was waiting for.
    #[error("not within {timeout:?}; the stream is {:?}", status.connection)]
    Timeout {
        /// What was given.
        timeout: Duration,
        /// How the reflector was doing at the end.
        status: Box<Status>,
    },
    /// The reflector has ended, by this error if there is one. A retry does not help.
    #[error("the reflector has stopped{}", .0.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
    Stopped(Option<Arc<WatcherError>>),
}
