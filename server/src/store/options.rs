//! What a store can be told at its opening.

use std::time::Duration;

use crate::{
    clock::Clock,
    limits::{
        DEFAULT_BALLAST_BYTES, DEFAULT_MAX_TOMBSTONES, DEFAULT_MIN_FREE_BYTES,
        DEFAULT_SEGMENT_BYTES, DEFAULT_TOMBSTONE_RETENTION, MAX_REQUESTS_REMEMBERED,
        REQUEST_WINDOW,
    },
};

/// Settings of a store; the default ones suit a server.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Where stored times come from.
    pub clock: Clock,
    /// Uids and the store id come from this seed (simulations); `None`: from the system.
    pub seed: Option<u64>,
    /// How long deletions are remembered at least, unless there are too many.
    pub tombstone_retention: Duration,
    /// The most deletions that are remembered.
    pub max_tombstones: usize,
    /// How long a request id is remembered.
    pub request_window: Duration,
    /// The most request ids that are remembered.
    pub max_requests: usize,
    /// Puts are refused when the store takes more than this; 0: no quota.
    pub quota_bytes: u64,
    /// A new segment of the log is begun when the newest holds this much.
    pub segment_bytes: u64,
    /// Puts are refused when the disk has less room than this; 0: not looked at.
    pub min_free_bytes: u64,
    /// Size of the file that is given back to a full disk; 0: none.
    pub ballast_bytes: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            seed: None,
            tombstone_retention: DEFAULT_TOMBSTONE_RETENTION,
            max_tombstones: DEFAULT_MAX_TOMBSTONES,
            request_window: REQUEST_WINDOW,
            max_requests: MAX_REQUESTS_REMEMBERED,
            quota_bytes: 0,
            segment_bytes: DEFAULT_SEGMENT_BYTES,
            min_free_bytes: DEFAULT_MIN_FREE_BYTES,
            ballast_bytes: DEFAULT_BALLAST_BYTES,
        }
    }
}
