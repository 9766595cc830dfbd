//! A store that fails, or tells of its commits late, when it is told to.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use listwatch_server::store::{
    Collection, CommitError, Committed, Feed, Key, KeyRange, LogChunk, MemoryStore, Object, Page,
    PageLimit, Pin, Progress, Revision, Store, StoreError, StoreId, StoreOptions, StoreStatus,
    WriteBatch,
};

/// A memory store whose next commit or read can be made to fail.
pub struct FaultyStore {
    store: MemoryStore,
    /// What commits fail with.
    pub commits: Mutex<Option<CommitError>>,
    /// What reads of history and compactions fail with.
    pub reads: Mutex<Option<StoreError>>,
    /// How long after they are acknowledged the feed tells of commits.
    feed_delay: Option<Duration>,
}

impl FaultyStore {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            store: MemoryStore::new(StoreOptions::default()),
            commits: Mutex::new(None),
            reads: Mutex::new(None),
            feed_delay: None,
        })
    }

    /// One that works, and whose feed is late.
    pub fn late(feed_delay: Duration) -> Arc<Self> {
        Arc::new(Self {
            store: MemoryStore::new(StoreOptions::default()),
            commits: Mutex::new(None),
            reads: Mutex::new(None),
            feed_delay: Some(feed_delay),
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
        let Some(delay) = self.feed_delay else {
            return feed;
        };
        let (late, receiver) = tokio::sync::broadcast::channel(1000);
        tokio::spawn(async move {
            while let Ok(commits) = feed.recv().await {
                tokio::time::sleep(delay).await;
                if late.send(commits).is_err() {
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

    async fn close(&self) {
        self.store.close().await;
    }
}
