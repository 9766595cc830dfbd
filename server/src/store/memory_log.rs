//! A log in memory: for tests, simulations and `--ephemeral`. It starts no thread and
//! needs no runtime: a commit is done when the call returns.

use std::{collections::BTreeMap, ops::Bound, sync::Arc, time::Duration};

use super::{
    Object, Progress, Revision, StoreError, StoreOptions,
    core::{Core, State},
    log::{AppendError, Dropped, Entry, Live, Log, Room, Slot},
    log_store::{LogStore, impl_store},
    plan::{new_store_id, random},
    replay::Replays,
    restored::Restored,
};
use crate::{
    limits::DELETE_RESERVE_SHARE,
    sync::{
        RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// A store in memory. Two of the same seed and clock, given the same calls, answer the
/// same, uids included.
#[derive(Debug)]
pub struct MemoryStore(LogStore<MemoryLog>);

impl MemoryStore {
    /// An empty store.
    pub fn new(options: StoreOptions) -> Self {
        Self::of(options, State::default(), BTreeMap::new())
    }

    /// A new store, with a new identity: these objects, as of `revision`, as
    /// [`SledStore::restore`](super::SledStore::restore) makes it from a backup.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] if an object cannot be (a revision above `revision`, a key twice).
    pub fn restored(
        options: StoreOptions,
        revision: Revision,
        objects: impl IntoIterator<Item = Arc<Object>>,
    ) -> Result<Self, StoreError> {
        let mut restored = Restored::new(revision);
        let mut entries = BTreeMap::new();
        for object in objects {
            let entry = restored.entry(object)?;
            entries.insert(entry.slot, entry);
        }
        let mut state = State::default();
        for entry in entries.values() {
            state.add(entry);
        }
        state.progress = restored.progress();
        Ok(Self::of(options, state, entries))
    }

    fn of(options: StoreOptions, state: State, entries: BTreeMap<Slot, Entry>) -> Self {
        let mut random = random(options.seed);
        let id = new_store_id(&mut random);
        let replays = Replays::new(options.request_window, options.max_requests);
        let bytes: u64 = entries.values().map(|entry| u64::from(entry.size())).sum();
        let log = MemoryLog {
            entries: RwLock::new(entries),
            bytes: AtomicU64::new(bytes),
            quota: options.quota_bytes,
        };
        let core = Core::new(id, log, options, state);
        Self(LogStore::inline(core, random, replays))
    }
}

impl_store!(MemoryStore);

struct MemoryLog {
    entries: RwLock<BTreeMap<Slot, Entry>>,
    bytes: AtomicU64,
    quota: u64,
}

impl Log for MemoryLog {
    const BLOCKING: bool = false;

    fn append(&self, entries: &[Entry]) -> Result<Duration, AppendError> {
        let size: u64 = entries.iter().map(|e| u64::from(e.size())).sum();
        let mut log = self.entries.write();
        log.extend(entries.iter().map(|entry| (entry.slot, entry.clone())));
        self.bytes.fetch_add(size, Ordering::Relaxed);
        Ok(Duration::ZERO)
    }

    fn heal(&self, _above: Revision) -> Result<Option<Vec<Entry>>, StoreError> {
        Ok(None)
    }

    fn read(&self, slot: Slot) -> Result<Option<Entry>, StoreError> {
        Ok(self.entries.read().get(&slot).cloned())
    }

    fn scan(
        &self,
        after: Revision,
        to: Revision,
        visit: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), StoreError> {
        let range = (
            Bound::Excluded(Slot::after(after)),
            Bound::Included(Slot::after(to)),
        );
        for entry in self.entries.read().range(range).map(|(_, entry)| entry) {
            if !visit(entry.clone()) {
                break;
            }
        }
        Ok(())
    }

    fn set_compacted(&self, _progress: Progress) -> Result<(), StoreError> {
        Ok(())
    }

    fn discard(&self, dropped: &[Dropped]) {
        let mut log = self.entries.write();
        for dropped in dropped {
            if log.remove(&dropped.slot).is_some() {
                self.bytes
                    .fetch_sub(u64::from(dropped.size), Ordering::Relaxed);
            }
        }
    }

    fn reclaim(&self, _live: &Live<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn room(&self) -> Room {
        let (bytes, quota) = (self.bytes(), self.quota);
        if quota == 0 || bytes <= quota {
            return Room::Ample;
        }
        let why = format!("{bytes} bytes are used of a quota of {quota}");
        if bytes <= quota + quota / DELETE_RESERVE_SHARE {
            Room::Deletions(why)
        } else {
            Room::Nothing(why)
        }
    }

    fn close(&self) {}
}
