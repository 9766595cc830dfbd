//! Where a watch is, as others see it while it runs.

use std::sync::Arc;

use super::{Backlog, CollectionHub, Hub, Standing, interest::Waiter};
use crate::store::Revision;

/// A view of a [`Cursor`](super::Cursor) from outside. Costs the cursor nothing.
#[derive(Clone)]
pub struct Whereabouts {
    pub(super) collection: Arc<CollectionHub>,
    pub(super) waiter: Arc<Waiter>,
}

impl Whereabouts {
    /// What it is at.
    pub fn standing(&self) -> Standing {
        self.waiter.standing()
    }

    /// Everything up to this has been delivered, or is nothing to it.
    pub fn reached(&self, hub: &Hub) -> Revision {
        // Read first: what is applied by now has been marked.
        let applied = hub.applied();
        self.waiter.reached().unwrap_or(applied).min(applied)
    }

    /// What it has still to get; nothing, where nothing waits for it.
    pub fn backlog(&self) -> Backlog {
        let behind = self.waiter.reached();
        behind.map_or_else(Backlog::default, |at| self.collection.backlogs.after(at))
    }
}

impl std::fmt::Debug for Whereabouts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Whereabouts")
            .field("standing", &self.standing())
            .finish_non_exhaustive()
    }
}
