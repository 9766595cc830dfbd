//! How many descriptors the process may have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::limits::DESCRIPTOR_RESERVE;

/// Raises the soft limit on descriptors to the hard one. The soft one is kept low for programs
/// that call select(2), which this one is not; with it, 1,024 connections would be all.
/// Called by `listwatchd`; a program that embeds the server decides for itself.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
}

/// The connections that descriptors allow, with some left for the store.
pub(super) fn connections_allowed() -> usize {
    match getrlimit(Resource::Nofile).current {
        Some(limit) => {
            let left = limit.saturating_sub(DESCRIPTOR_RESERVE).max(limit / 2);
            usize::try_from(left).unwrap_or(usize::MAX)
        }
        None => usize::MAX,
    }
}
