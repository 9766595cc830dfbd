//! A store that fails, or tells of its commits late, when it is told to.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use listwatch_server::store::{
    Collection, CommitError, Committed, Feed, Key, KeyRange, LogChunk, MemoryStore, Object, Page,
    PageLimit, Pin, Progress, Revision, Store, StoreError, StoreFigures, StoreId, StoreOptions,
    StoreStatus, WriteBatch,
};
use tokio::sync::broadcast;

/// By how much the feed is late with the next commit, each time it is asked.
type Delays = Box<dyn FnMut() -> Duration + Send>;

/// A feed that is late: what comes while it holds a commit back waits behind it.
struct LateFeed {
    delays: Arc<Mutex<Delays>>,
    /// Groups of commits by which a subscriber may fall behind.
    capacity: usize,
}

/// A memory store whose next commit or read can be made to fail.
pub struct FaultyStore {
    store: Arc<MemoryStore>,
    /// What commits fail with.
    pub commits: Mutex<Option<CommitError>>,
    /// What reads of history and compactions fail with.
    pub reads: Mutex<Option<StoreError>>,
    /// The feed tells of commits later than they are acknowledged.
    late: Option<LateFeed>,
}

impl FaultyStore {
    pub fn new() -> Arc<Self> {
        let store = Arc::new(MemoryStore::new(StoreOptions::default()));
        Self::over(store, None)
    }

    /// One that works, and whose feed is late.
    pub fn late(feed_delay: Duration) -> Arc<Self> {
        let store = Arc::new(MemoryStore::new(StoreOptions::default()));
        Self::late_over(store, 1000, Box::new(move || feed_delay))
    }

    /// The same over a store that there is, each commit late by what `delays` says of it.
    pub fn late_over(store: Arc<MemoryStore>, capacity: usize, delays: Delays) -> Arc<Self> {
        let delays = Arc::new(Mutex::new(delays));
        Self::over(store, Some(LateFeed { delays, capacity }))
    }

    fn over(store: Arc<MemoryStore>, late: Option<LateFeed>) -> Arc<Self> {
        Arc::new(Self {
            store,
            commits: Mutex::new(None),
            reads: Mutex::new(None),
            late,
        })
    }

    fn read_fault(&self) -> Result<(), StoreError> {
        self.reads.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

#[tonic::async_trait]
impl Store for FaultyStore {
    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn progress(&self) -> Progress {
        self.store.progress()
    }

    async fn read_revision(&self) -> Result<Revision, StoreError> {
        self.read_fault()?;
        self.store.read_revision().await
    }

    async fn commit(&self, batch: WriteBatch) -> Result<Committed, CommitError> {
        let fault = self.commits.lock().unwrap().clone();
        match fault {
            Some(fault) => Err(fault),
            None => self.store.commit(batch).await,
        }
    }

    async fn get(&self, key: &Key, at: Revision) -> Result<Option<Arc<Object>>, StoreError> {
        self.read_fault()?;
        self.store.get(key, at).await
    }

    async fn list(
        &self,
        range: &KeyRange,
        at: Revision,
        limit: PageLimit,
    ) -> Result<Page, StoreError> {
        self.read_fault()?;
        self.store.list(range, at, limit).await
    }

    async fn read_log(
        &self,
        collection: Option<&Collection>,
        after: Revision,
        limit: PageLimit,
    ) -> Result<LogChunk, StoreError> {
        self.read_fault()?;
        self.store.read_log(collection, after, limit).await
    }

    async fn changes_since(
        &self,
        collection: Option<&Collection>,
        after: Revision,
        limit: PageLimit,
    ) -> Result<LogChunk, StoreError> {
        self.read_fault()?;
        self.store.changes_since(collection, after, limit).await
    }

    async fn live_since(
        &self,
        collection: Option<&Collection>,
        after: Revision,
        limit: PageLimit,
    ) -> Result<LogChunk, StoreError> {
        self.store.live_since(collection, after, limit).await
    }

    fn count_changes(
        &self,
        collection: &Collection,
        after: Revision,
        at_most: usize,
    ) -> (u64, u64) {
        self.store.count_changes(collection, after, at_most)
    }

    fn subscribe(&self) -> Feed {
        let mut feed = self.store.subscribe();
        let Some(late) = &self.late else {
            return feed;
        };
        let (sender, receiver) = broadcast::channel(late.capacity);
        let delays = late.delays.clone();
        // Ends with what it follows, and with who follows it, as the store's own feed does.
        tokio::spawn(async move {
            while let Ok(commits) = feed.recv().await {
                let delay = (*delays.lock().unwrap())();
                // Without a pause where there is none: also a sleep of nothing takes a while.
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                if sender.send(commits).is_err() {
                    return;
                }
            }
        });
        receiver
    }

    async fn compact(&self, at: Revision, wait: bool) -> Result<Revision, StoreError> {
        self.read_fault()?;
        self.store.compact(at, wait).await
    }

    fn revision_at(&self, time: SystemTime) -> Revision {
        self.store.revision_at(time)
    }

    async fn expire_due(&self) -> Result<Option<SystemTime>, StoreError> {
        self.store.expire_due().await
    }

    fn pin(&self, at: Revision) -> Result<Pin, StoreError> {
        self.store.pin(at)
    }

    fn status(&self) -> StoreStatus {
        self.store.status()
    }

    fn figures(&self) -> Option<Arc<StoreFigures>> {
        self.store.figures()
    }

    async fn close(&self) {
        self.store.close().await;
    }
}
