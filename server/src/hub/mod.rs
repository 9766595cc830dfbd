//! The hub: what stands between the store's one log and its many readers.
//!
//! One task takes commits from the store's feed, in order and after they are on disk, and
//! applies them to a watch cache per collection. Readers never wait for it: lists take a
//! snapshot, and a watch is a [`Cursor`] that reads the window, or the log when it is
//! behind. Nothing is queued per watcher.

mod backlog;
mod chunk;
mod cursor;
mod delivery;
mod figures;
mod ingest;
mod interest;
mod resume;
mod snapshot;
mod whereabouts;
mod window;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, atomic::AtomicBool},
    time::Duration,
};

use self::{
    backlog::Backlogs,
    figures::Standings,
    interest::Interest,
    snapshot::SnapshotShelf,
    window::{Sizing, Window},
};
pub use self::{
    backlog::{Backlog, LagLimit},
    cursor::{Begin, Cursor, DeliveryMode, Step},
    delivery::{Delivery, DeliveryKind},
    figures::{Closing, CollectionFigures, EVENT_TYPES, HubFigures, Opening, Standing},
    resume::{CatchUp, Position, ResumeStep, StartPoint},
    snapshot::StateReader,
    whereabouts::Whereabouts,
    window::ENCODINGS,
};
use crate::{
    limits,
    store::{Collection, Key, Object, PageLimit, Revision, Store, StoreError},
    sync::{
        RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
        spawn, watch,
    },
};

/// What a read or a watch can fail with, below the RPCs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// The store refused; see there for whether a retry helps.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The revision that was waited for did not come in time. A retry helps.
    #[error("revision {wanted} has not been reached in time; the newest is {latest}")]
    Behind {
        /// What was asked for.
        wanted: Revision,
        /// How far this server is.
        latest: Revision,
    },
    /// The hub has stopped taking commits, since the store failed or is closing. A retry
    /// helps once the server is up again.
    #[error("the server is not taking up changes")]
    Stopped,
}

/// How the watch caches are sized.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Events that a window holds at least (`--default-watch-cache-size`).
    pub default_cache_size: usize,
    /// The same for single collections (`--watch-cache-sizes`); 0: no cache at all, reads
    /// and watches go to the store.
    pub cache_sizes: HashMap<Collection, usize>,
    /// The time that a window should cover, growing and shrinking by itself.
    pub window_span: Duration,
    /// How long a read waits for a revision that this server has not reached.
    pub revision_wait: Duration,
    /// What a watch takes up at once, which is what a response holds. A commit is not
    /// split, so a response can be one commit that is larger.
    pub response: PageLimit,
    /// How far behind a watch may be.
    pub lag_limit: LagLimit,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            default_cache_size: 100,
            cache_sizes: HashMap::new(),
            window_span: limits::DEFAULT_WINDOW_SPAN,
            revision_wait: limits::DEFAULT_REVISION_WAIT,
            response: limits::RESPONSE_CHUNK,
            lag_limit: LagLimit::default(),
        }
    }
}

/// Watch caches of all collections, and how far the log has been taken up.
pub struct Hub {
    store: Arc<dyn Store>,
    options: HubOptions,
    collections: RwLock<HashMap<Collection, Arc<CollectionHub>>>,
    /// Every commit up to this is in the caches.
    applied: watch::Sender<Revision>,
    /// Nothing is taken up any more. Read within the lock of `applied`: never a place to wait.
    stopped: AtomicBool,
    shelf: SnapshotShelf,
    resumes: ResumeCounts,
    figures: HubFigures,
}

/// What the hub keeps of one collection.
pub(crate) struct CollectionHub {
    name: Collection,
    /// `None`: cache size 0.
    window: Option<RwLock<Window>>,
    /// Its watches, by what they want to hear of.
    interest: Interest,
    backlogs: Backlogs,
    watches: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
    standings: Standings,
    /// Set once it holds something; until then it has those of all others.
    figures: OnceLock<Arc<CollectionFigures>>,
}

/// How often each of the resuming steps served a watch.
#[derive(Debug, Default)]
pub struct ResumeCounts([AtomicU64; 5]);

impl ResumeCounts {
    fn count(&self, step: ResumeStep) {
        self.0[step as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often a step has served.
    pub fn of(&self, step: ResumeStep) -> u64 {
        self.0[step as usize].load(Ordering::Relaxed)
    }
}

/// A collection in numbers.
#[derive(Clone, Debug)]
pub struct CollectionCounts {
    /// The collection.
    pub collection: Collection,
    /// Open watches.
    pub watches: usize,
    /// The same by what they are at: see [`Standing::NAMES`].
    pub standings: [u64; Standing::NAMES.len()],
    /// Bytes of the cache, state and window, roughly.
    pub cache_bytes: usize,
    /// Events in the window.
    pub cache_events: usize,
    /// Events that the window can hold now; 0: no cache.
    pub cache_capacity: usize,
    /// A watch can start after this without reading the log.
    pub cache_oldest: Revision,
    /// Watch starts and reads that the window served.
    pub hits: u64,
    /// Such as had to read the log.
    pub misses: u64,
}

impl Hub {
    /// Loads the caches from the store and starts taking up commits on the current
    /// tokio runtime, until the store closes or the hub is dropped.
    ///
    /// # Errors
    /// [`StoreError`] if the state cannot be read.
    pub async fn start(
        store: Arc<dyn Store>,
        options: HubOptions,
    ) -> Result<Arc<Self>, StoreError> {
        // Subscribed before reading: what is committed meanwhile is in the feed.
        let feed = store.subscribe();
        let (applied, _) = watch::channel(Revision::ZERO);
        let hub = Arc::new(Self {
            store,
            options,
            collections: RwLock::default(),
            applied,
            stopped: AtomicBool::new(false),
            shelf: SnapshotShelf::default(),
            resumes: ResumeCounts::default(),
            figures: HubFigures::default(),
        });
        let mut start = hub.load().await?;
        if hub.store.progress().revision > start {
            // What was superseded meanwhile was not found: the state is not the one at `start`.
            start = hub.reload().await?;
        }
        hub.applied.send_replace(start);
        spawn(ingest::run(
            Arc::downgrade(&hub),
            hub.store.clone(),
            feed,
            start,
        ));
        Ok(hub)
    }

    /// The store beneath.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Every commit up to this is visible to reads and watches.
    pub fn applied(&self) -> Revision {
        *self.applied.borrow()
    }

    /// Ends the watches, and whoever waits for a revision, rather than leave them without news.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.applied.send_modify(|_| ());
        self.wake_watches();
    }

    /// Nothing is taken up any more: the store has failed or is closed.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// How often each resuming step served.
    pub fn resumes(&self) -> &ResumeCounts {
        &self.resumes
    }

    /// What it measures.
    pub fn figures(&self) -> &HubFigures {
        &self.figures
    }

    /// By how many revisions each watch is behind, by collection.
    pub fn lags(&self, mut visit: impl FnMut(&Collection, u64)) {
        let collections: Vec<_> = self.collections.read().values().cloned().collect();
        let applied = self.applied();
        for collection in collections {
            collection
                .interest
                .reached(|reached| visit(&collection.name, figures::lag(applied, reached)));
        }
    }

    /// Waits until the caches have taken up a revision.
    ///
    /// # Errors
    /// [`HubError::Behind`] after the configured wait; [`HubError::Stopped`].
    pub async fn wait_applied(&self, wanted: Revision) -> Result<(), HubError> {
        if self.applied() >= wanted {
            return Ok(());
        }
        let mut applied = self.applied.subscribe();
        let reached = applied.wait_for(|now| *now >= wanted || self.is_stopped());
        match tokio::time::timeout(self.options.revision_wait, reached).await {
            Ok(Ok(now)) if *now >= wanted => Ok(()),
            Ok(_) => Err(HubError::Stopped),
            Err(_) => Err(HubError::Behind {
                wanted,
                latest: self.applied(),
            }),
        }
    }

    /// Waits until the caches have taken up a revision that must exist already.
    ///
    /// # Errors
    /// [`StoreError::Future`] if it does not; else as [`Hub::wait_applied`].
    pub async fn wait_known(&self, revision: Revision) -> Result<(), HubError> {
        if revision > self.applied() {
            let latest = self.store.read_revision().await?;
            if revision > latest {
                return Err(StoreError::Future {
                    requested: revision,
                    latest,
                }
                .into());
            }
        }
        self.wait_applied(revision).await
    }

    /// A revision at which a read is linearizable, once the caches have taken it up.
    ///
    /// # Errors
    /// As [`Hub::wait_applied`], and the store's own.
    pub async fn settle(&self) -> Result<Revision, HubError> {
        let revision = self.store.read_revision().await?;
        self.wait_applied(revision).await?;
        Ok(revision.max(self.applied()))
    }

    /// The object now, from the cache or the store, and the revision at which it was read.
    ///
    /// # Errors
    /// The store's.
    pub async fn get(&self, key: &Key) -> Result<(Option<Arc<Object>>, Revision), HubError> {
        let applied = self.applied();
        let collection = self.existing(&key.collection);
        if let Some(window) = collection.as_ref().and_then(|c| c.window.as_ref()) {
            let window = window.read();
            let revision = applied.max(window.revision());
            return Ok((window.state().get(&key.object).cloned(), revision));
        }
        if collection.is_none() && self.cache_size(&key.collection) > 0 {
            // Nothing was ever loaded or applied for it: it is empty.
            return Ok((None, applied));
        }
        Ok((self.store.get(key, applied).await?, applied))
    }

    /// The newest revision that changed a collection, as far as the hub has it; `None`: it
    /// was never changed. Without a cache, the newest of all.
    pub(crate) fn collection_revision(&self, name: &Collection) -> Option<Revision> {
        let collection = self.existing(name)?;
        let window = collection.window.as_ref();
        Some(window.map_or_else(|| self.applied(), |window| window.read().revision()))
    }

    /// Wakes every watch, for a reason that is not an event.
    pub(crate) fn wake_watches(&self) {
        let collections: Vec<_> = self.collections.read().values().cloned().collect();
        for collection in collections {
            collection.interest.wake_all();
        }
    }

    /// Counts by collection, for status.
    pub fn counts(&self) -> Vec<CollectionCounts> {
        let collections: Vec<_> = self.collections.read().values().cloned().collect();
        let mut counts: Vec<_> = collections.iter().map(|c| c.counts()).collect();
        counts.sort_by(|a, b| a.collection.cmp(&b.collection));
        counts
    }

    fn cache_size(&self, collection: &Collection) -> usize {
        self.options
            .cache_sizes
            .get(collection)
            .copied()
            .unwrap_or(self.options.default_cache_size)
    }

    fn existing(&self, collection: &Collection) -> Option<Arc<CollectionHub>> {
        self.collections.read().get(collection).cloned()
    }

    /// Changes the collection's entry, made if need be, under the map's lock: so it cannot
    /// be one that `release` takes away at this moment. A new one starts empty at `floor`,
    /// which must be a revision up to which the collection is known to be as it is now: empty.
    fn change(
        &self,
        name: &Collection,
        floor: impl FnOnce() -> Revision,
        change: impl FnOnce(&CollectionHub),
    ) {
        let change = |entry: &CollectionHub| {
            entry.figures.get_or_init(|| self.figures.claim(name));
            change(entry);
        };
        if let Some(known) = self.collections.read().get(name) {
            return change(known);
        }
        let mut collections = self.collections.write();
        change(&self.entry_in(&mut collections, name, floor));
    }

    fn entry_in(
        &self,
        collections: &mut HashMap<Collection, Arc<CollectionHub>>,
        name: &Collection,
        floor: impl FnOnce() -> Revision,
    ) -> Arc<CollectionHub> {
        let make = || {
            let size = self.cache_size(name);
            let sizing = Sizing {
                minimum: size.max(1),
                span: self.options.window_span,
            };
            Arc::new(CollectionHub {
                name: name.clone(),
                window: (size > 0).then(|| RwLock::new(Window::new(sizing, floor()))),
                interest: Interest::default(),
                backlogs: Backlogs::default(),
                watches: AtomicUsize::new(0),
                hits: AtomicU64::new(0),
                misses: AtomicU64::new(0),
                standings: Standings::default(),
                figures: OnceLock::new(),
            })
        };
        collections.entry(name.clone()).or_insert_with(make).clone()
    }

    /// The entry, counted as watched. Counted under the map's lock, so that `release`
    /// never removes one that is being taken.
    fn hold(&self, name: &Collection) -> Arc<CollectionHub> {
        let mut collections = self.collections.write();
        let entry = self.entry_in(&mut collections, name, || self.applied());
        entry.watches.fetch_add(1, Ordering::AcqRel);
        entry
    }

    /// Drops the entry of a collection that holds nothing and that no one watches, so
    /// that watches of made-up names leave nothing behind.
    fn release(&self, collection: &Arc<CollectionHub>) {
        if collection.watches.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        if collection
            .window
            .as_ref()
            .is_some_and(|window| !window.read().is_untouched())
        {
            return;
        }
        let mut collections = self.collections.write();
        // Meanwhile another may have taken it away, and a third begun one of the same name.
        let entered = collections.get(&collection.name);
        let unused = entered.is_some_and(|entry| Arc::ptr_eq(entry, collection))
            && collection.watches.load(Ordering::Acquire) == 0
            && collection
                .window
                .as_ref()
                .is_none_or(|window| window.read().is_untouched());
        if unused {
            collections.remove(&collection.name);
        }
    }
}

impl CollectionHub {
    fn counts(&self) -> CollectionCounts {
        let sizes = self.window.as_ref().map(|window| {
            let window = window.read();
            (window.sizes(), window.floor())
        });
        let (sizes, oldest) = sizes.unwrap_or_default();
        CollectionCounts {
            collection: self.name.clone(),
            watches: self.watches.load(Ordering::Relaxed),
            standings: self.standings.read(),
            cache_bytes: sizes.bytes,
            cache_events: sizes.events,
            cache_capacity: sizes.capacity,
            cache_oldest: oldest,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("applied", &self.applied())
            .finish_non_exhaustive()
    }
}
