//! A store that fails when it is told to.

use std::{
    sync::{Arc, Mutex},
    time::SystemTime,
};

use listwatch_server::store::{
    Collection, CommitError, Committed, Feed, Key, KeyRange, LogChunk, MemoryStore, Object, Page,
    PageLimit, Pin, Progress, Revision, Store, StoreError, StoreId, StoreOptions, StoreStatus,
    WriteBatch,
};

/// A memory store whose next commit or read can be made to fail.
pub(super) struct FaultyStore {
    store: MemoryStore,
    /// What commits fail with.
    pub(super) commits: Mutex<Option<CommitError>>,
    /// What reads of history and compactions fail with.
    pub(super) reads: Mutex<Option<StoreError>>,
}

impl FaultyStore {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            store: MemoryStore::new(StoreOptions::default()),
            commits: Mutex::new(None),
            reads: Mutex::new(None),
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
        self.store.subscribe()
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
