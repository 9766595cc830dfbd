//! What was refused, and how much is open: for metrics and for those who wonder.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why something was refused or cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// A connection above `--max-connections`.
    Connections,
    /// A connection above `--max-connections-per-ip`.
    ConnectionsPerIp,
    /// A connection whose peer did not begin to speak HTTP within `--handshake-timeout`.
    Handshake,
    /// A reading call above `--max-requests-inflight`.
    Requests,
    /// A writing call above `--max-mutating-requests-inflight`.
    MutatingRequests,
    /// A call that took longer than `--request-timeout`, or than its client wanted to wait.
    Deadline,
    /// A watch above `--max-watch-connections`.
    Watches,
    /// A watch above `--max-watches-per-client`.
    WatchesPerClient,
    /// A watch on a connection whose streams are all taken by watches.
    WatchesPerConnection,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Connections,
        Self::ConnectionsPerIp,
        Self::Handshake,
        Self::Requests,
        Self::MutatingRequests,
        Self::Deadline,
        Self::Watches,
        Self::WatchesPerClient,
        Self::WatchesPerConnection,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::ConnectionsPerIp => "connections_per_ip",
            Self::Handshake => "handshake",
            Self::Requests => "requests",
            Self::MutatingRequests => "mutating_requests",
            Self::Deadline => "deadline",
            Self::Watches => "watches",
            Self::WatchesPerClient => "watches_per_client",
            Self::WatchesPerConnection => "watches_per_connection",
        }
    }
}

/// How often each refusal happened.
#[derive(Debug, Default)]
pub struct Refusals {
    counts: [AtomicU64; Refusal::ALL.len()],
    failed_accepts: AtomicU64,
}

impl Refusals {
    /// How often since the server started.
    pub fn count(&self, refusal: Refusal) -> u64 {
        self.counts[refusal as usize].load(Ordering::Relaxed)
    }

    /// How often a connection could not be accepted, for want of descriptors as a rule.
    pub fn failed_accepts(&self) -> u64 {
        self.failed_accepts.load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, refusal: Refusal) {
        self.counts[refusal as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_failed_accept(&self) {
        self.failed_accepts.fetch_add(1, Ordering::Relaxed);
    }
}

/// How much of what is limited is taken at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Open connections; those over memory are not counted.
    pub connections: usize,
    /// Open watches.
    pub watches: usize,
    /// Reading calls that are being answered.
    pub requests: usize,
    /// Writing calls that are being answered.
    pub mutating_requests: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_a_count_of_its_own() {
        let refusals = Refusals::default();
        for (place, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(refusal as usize, place);
            refusals.add(refusal);
        }
        assert!(Refusal::ALL.iter().all(|r| refusals.count(*r) == 1));
    }
}
