//! What a store measures of its own work, for whoever shows it.

use super::Change;
use crate::{
    measure::{Counter, Histogram, LONG_TIMES, NUMBERS, TIMES},
    store::DeleteCause,
};

/// Times and counts of one store since it was opened.
#[derive(Debug)]
pub struct StoreFigures {
    /// From the moment that a group of writes is taken up until it is visible.
    pub commit: Histogram,
    /// The part of it that waits for the disk.
    pub sync: Histogram,
    /// Batches of a group commit.
    pub group: Histogram,
    /// Freeing the room of what a compaction let go of.
    pub compaction: Histogram,
    /// Group commits that failed.
    pub failed: Counter,
    written: [Counter; 4],
}

impl StoreFigures {
    /// The kinds of change, as [`StoreFigures::written`] numbers them.
    pub const CHANGES: [&str; 4] = ["created", "updated", "deleted", "expired"];

    /// Changes written, in the order of [`StoreFigures::CHANGES`].
    pub fn written(&self) -> impl Iterator<Item = u64> + '_ {
        self.written.iter().map(Counter::get)
    }

    pub(super) fn count(&self, change: Change) {
        let kind = match change {
            Change::Created => 0,
            Change::Updated => 1,
            Change::Deleted(DeleteCause::Expired) => 3,
            Change::Deleted(_) => 2,
        };
        self.written[kind].inc();
    }
}

impl Default for StoreFigures {
    fn default() -> Self {
        Self {
            commit: Histogram::of_times(TIMES),
            sync: Histogram::of_times(TIMES),
            group: Histogram::of_numbers(NUMBERS),
            compaction: Histogram::of_times(LONG_TIMES),
            failed: Counter::default(),
            written: Default::default(),
        }
    }
}
