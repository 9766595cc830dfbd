//! Compaction: what may go, decided here once for every log; the log frees the room.
//!
//! At a compacted revision C with the horizon H there survive, of each key, the newest
//! version at or below C unless it is a tombstone at or below H, and everything above C.
//! Tombstones go in revision order only. Both bounds are durable before anything goes.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use super::{Key, Pin, Progress, Revision, StoreError, core::Core, log::Log};
use crate::{limits::PRUNE_SLICE_KEYS, sync::Mutex};

/// Revisions that are kept readable.
#[derive(Debug, Default)]
pub(super) struct Pins {
    held: BTreeMap<Revision, usize>,
    /// A compaction up to here is decided, perhaps not yet visible: too late to pin below.
    decided: Revision,
}

struct Guard {
    pins: Arc<Mutex<Pins>>,
    at: Revision,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut pins = self.pins.lock();
        if let Some(count) = pins.held.get_mut(&self.at) {
            *count -= 1;
            if *count == 0 {
                pins.held.remove(&self.at);
            }
        }
    }
}

impl<L: Log> Core<L> {
    pub(super) fn pin(&self, at: Revision) -> Result<Pin, StoreError> {
        self.check_readable(at)?;
        let mut pins = self.pins.lock();
        if at < pins.decided {
            return Err(StoreError::Compacted {
                requested: at,
                compacted: pins.decided,
                revision: self.progress().revision,
            });
        }
        *pins.held.entry(at).or_default() += 1;
        Ok(Pin(Box::new(Guard {
            pins: self.pins.clone(),
            at,
        })))
    }

    /// Moves the bounds and lets go of what they allow. The room is freed by the log,
    /// later. Returns the compacted revision.
    pub(super) fn compact(&self, at: Revision) -> Result<Revision, StoreError> {
        let _one = self.deciding.lock();
        let before = self.progress();
        if at > before.revision {
            return Err(StoreError::Future {
                requested: at,
                latest: before.revision,
            });
        }
        let compacted = {
            let mut pins = self.pins.lock();
            let pinned = pins.held.keys().next().copied();
            let at = pinned.map_or(at, |pinned| at.min(pinned));
            pins.decided = at.max(before.compacted);
            pins.decided
        };
        let retention = self.options.tombstone_retention;
        let older_than = self.options.clock.now().checked_sub(retention);
        let horizon =
            self.state
                .read()
                .index
                .horizon(compacted, older_than, self.options.max_tombstones);
        let bounds = Progress {
            revision: before.revision,
            compacted,
            forgotten: horizon.map_or(before.forgotten, |h| h.max(before.forgotten)),
        };
        if (bounds.compacted, bounds.forgotten) == (before.compacted, before.forgotten) {
            return Ok(compacted);
        }
        if let Err(error) = self.log.set_compacted(bounds) {
            self.pins.lock().decided = before.compacted;
            return Err(error);
        }
        {
            let mut state = self.state.write();
            state.progress.compacted = bounds.compacted;
            state.progress.forgotten = bounds.forgotten;
            state.timeline.compact(bounds.compacted);
            *self.progress.lock() = state.progress;
        }
        self.prune(true);
        Ok(compacted)
    }

    /// Drops from the index what the bounds allow, in slices so that nobody waits long,
    /// and tells the log. `beside_writers`: leaves them as much time as it takes.
    pub(super) fn prune(&self, beside_writers: bool) {
        let mut cursor: Option<Key> = None;
        loop {
            let begun = Instant::now();
            let mut dropped = Vec::new();
            {
                let mut state = self.state.write();
                let Progress {
                    compacted,
                    forgotten,
                    ..
                } = state.progress;
                cursor = state.index.prune(
                    cursor.as_ref(),
                    compacted,
                    forgotten,
                    PRUNE_SLICE_KEYS,
                    &mut dropped,
                );
            }
            self.log.discard(&dropped);
            if cursor.is_none() {
                break;
            }
            if beside_writers {
                std::thread::sleep(begun.elapsed());
            }
        }
    }

    /// Frees the room of what was let go of. Blocks for long.
    pub(super) fn reclaim(&self) -> Result<(), StoreError> {
        let begun = Instant::now();
        let freed = self.log.reclaim(&|entries| {
            let state = self.state.read();
            entries
                .iter()
                .map(|(key, slot)| state.index.holds(key, *slot))
                .collect()
        });
        self.figures.compaction.observe_time(begun.elapsed());
        freed
    }
}
