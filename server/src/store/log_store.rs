//! The [`super::Store`] over any log: who runs where. Meaning is in the modules that it
//! calls: `plan` (conditions), `core` (publication), `reading`, `compaction`.

use std::{
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::SystemTime,
};

use rand::rngs::StdRng;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::{
    Collection, CommitError, Committed, Feed, Key, KeyRange, LogChunk, Object, Page, PageLimit,
    Pin, Progress, Revision, StoreError, StoreFigures, StoreId, StoreStatus, WriteBatch,
    core::{Core, Request},
    log::{Log, Room},
    plan::Planner,
    replay::Replays,
    writer::Writer,
};
use crate::{
    limits::{COMPACTION_QUEUE, EXPIRE_BATCH_BYTES, EXPIRE_BATCH_OBJECTS, MAX_DISK_READS},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

type Freed = oneshot::Sender<Result<(), StoreError>>;

/// A store over a log.
pub(super) struct LogStore<L: Log> {
    core: Arc<Core<L>>,
    writer: Arc<Writer>,
    /// Disk reads under way.
    reads: Arc<Semaphore>,
    reclaimer: Mutex<Option<Reclaimer>>,
    closed: AtomicBool,
}

/// The thread that frees room after compactions.
struct Reclaimer {
    queue: mpsc::Sender<Option<Freed>>,
    thread: JoinHandle<()>,
}

impl<L: Log> std::fmt::Debug for LogStore<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore")
            .field("id", &self.core.id)
            .field("progress", &self.core.progress())
            .finish_non_exhaustive()
    }
}

impl<L: Log> LogStore<L> {
    /// A store over a log in memory: its callers do the work.
    pub(super) fn inline(core: Core<L>, random: StdRng, replays: Replays) -> Self {
        let planner = Planner::new(random, core.last_time(), replays);
        Self::new(Arc::new(core), Writer::inline(planner), None)
    }

    /// A store over a log on disk: threads of its own write and compact.
    ///
    /// # Errors
    /// The operating system gives no threads.
    pub(super) fn threaded(
        core: Core<L>,
        random: StdRng,
        replays: Replays,
    ) -> std::io::Result<Self> {
        let planner = Planner::new(random, core.last_time(), replays);
        let core = Arc::new(core);
        let reclaimer = Reclaimer::start(Arc::downgrade(&core))?;
        let writer = Writer::thread(core.clone(), planner)?;
        Ok(Self::new(core, writer, Some(reclaimer)))
    }

    fn new(core: Arc<Core<L>>, writer: Writer, reclaimer: Option<Reclaimer>) -> Self {
        Self {
            core,
            writer: Arc::new(writer),
            reads: Arc::new(Semaphore::new(MAX_DISK_READS)),
            reclaimer: Mutex::new(reclaimer),
            closed: AtomicBool::new(false),
        }
    }

    /// Runs a read, away from the async threads if it waits for a disk.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Core<L>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        if !L::BLOCKING {
            return read(&self.core);
        }
        let permit = self.reads.clone().acquire_owned().await;
        let core = self.core.clone();
        blocking(move || {
            let _permit = permit;
            read(&core)
        })
        .await?
    }

    #[cfg(test)]
    pub(super) fn log(&self) -> &L {
        &self.core.log
    }

    pub(super) fn id(&self) -> StoreId {
        self.core.id
    }

    pub(super) fn progress(&self) -> Progress {
        self.core.progress()
    }

    #[allow(clippy::unused_async)]
    pub(super) async fn read_revision(&self) -> Result<Revision, StoreError> {
        // Acknowledged means published here: one process owns the log.
        Ok(self.core.progress().revision)
    }

    pub(super) async fn commit(&self, batch: WriteBatch) -> Result<Committed, CommitError> {
        self.writer.write(&self.core, Request::Batch(batch)).await
    }

    pub(super) async fn get(
        &self,
        key: &Key,
        at: Revision,
    ) -> Result<Option<Arc<Object>>, StoreError> {
        let key = key.clone();
        self.read(move |core| core.get(&key, at)).await
    }

    pub(super) async fn list(
        &self,
        range: &KeyRange,
        at: Revision,
        limit: PageLimit,
    ) -> Result<Page, StoreError> {
        let range = range.clone();
        self.read(move |core| core.list(&range, at, limit)).await
    }

    pub(super) async fn read_log(
        &self,
        collection: Option<&Collection>,
        after: Revision,
        limit: PageLimit,
    ) -> Result<LogChunk, StoreError> {
        let collection = collection.cloned();
        self.read(move |core| core.read_log(collection.as_ref(), after, limit))
            .await
    }

    pub(super) async fn changes_since(
        &self,
        collection: Option<&Collection>,
        after: Revision,
        limit: PageLimit,
    ) -> Result<LogChunk, StoreError> {
        let collection = collection.cloned();
        self.read(move |core| core.changes_since(collection.as_ref(), after, limit, true))
            .await
    }

    pub(super) async fn live_since(
        &self,
        collection: Option<&Collection>,
        after: Revision,
        limit: PageLimit,
    ) -> Result<LogChunk, StoreError> {
        let collection = collection.cloned();
        self.read(move |core| core.changes_since(collection.as_ref(), after, limit, false))
            .await
    }

    pub(super) fn count_changes(
        &self,
        collection: &Collection,
        after: Revision,
        at_most: usize,
    ) -> (u64, u64) {
        let state = self.core.state.read();
        state.index.count_after(collection, after, at_most)
    }

    pub(super) fn subscribe(&self) -> Feed {
        self.core.subscribe()
    }

    pub(super) async fn compact(&self, at: Revision, wait: bool) -> Result<Revision, StoreError> {
        if !L::BLOCKING {
            let compacted = self.core.compact(at)?;
            self.core.reclaim()?;
            return Ok(compacted);
        }
        let core = self.core.clone();
        let compacted = blocking(move || core.compact(at)).await??;
        let (freed, done) = oneshot::channel();
        let queue = self.reclaimer.lock().as_ref().map(|r| r.queue.clone());
        queue
            .ok_or(StoreError::Closed)?
            .send(wait.then_some(freed))
            .await
            .map_err(|_| StoreError::Closed)?;
        if wait {
            done.await.map_err(|_| StoreError::Closed)??;
        }
        Ok(compacted)
    }

    pub(super) fn revision_at(&self, time: SystemTime) -> Revision {
        self.core.state.read().timeline.at(time)
    }

    pub(super) async fn expire_due(&self) -> Result<Option<SystemTime>, StoreError> {
        let now = self.core.options.clock.now();
        let due = {
            let state = self.core.state.read();
            state
                .deadlines
                .due(now, EXPIRE_BATCH_OBJECTS, EXPIRE_BATCH_BYTES)
        };
        if !due.is_empty() {
            let written = self.writer.write(&self.core, Request::Expire(due)).await;
            written.map_err(|error| match error {
                CommitError::Store(error) => error,
                other => StoreError::Io {
                    context: "deleting expired objects".into(),
                    message: other.to_string(),
                },
            })?;
        }
        Ok(self.core.state.read().deadlines.next())
    }

    pub(super) fn pin(&self, at: Revision) -> Result<Pin, StoreError> {
        self.core.pin(at)
    }

    pub(super) fn status(&self) -> StoreStatus {
        let state = self.core.state.read();
        StoreStatus {
            object_count: state.index.live(),
            collections: state.index.collections(),
            tombstone_count: state.index.tombstones(),
            database_bytes: self.core.log.bytes(),
            quota_bytes: self.core.options.quota_bytes,
            full: self.core.log.room() != Room::Ample,
            failure: self.core.log.failure(),
        }
    }

    pub(super) fn figures(&self) -> Arc<StoreFigures> {
        self.core.figures.clone()
    }

    pub(super) async fn close(&self) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        if !L::BLOCKING {
            self.writer.stop();
            return;
        }
        // Every read under way holds a permit.
        let all = u32::try_from(MAX_DISK_READS).unwrap_or(u32::MAX);
        let _reads = self.reads.acquire_many(all).await;
        let writer = self.writer.clone();
        let core = self.core.clone();
        let reclaimer = self.reclaimer.lock().take();
        // A stopping runtime refuses the task: then `Drop` does it.
        let _ = blocking(move || stop(&writer, &core, reclaimer)).await;
    }
}

impl<L: Log> Drop for LogStore<L> {
    fn drop(&mut self) {
        let reclaimer = self.reclaimer.lock().take();
        stop(&self.writer, &self.core, reclaimer);
    }
}

/// Stops the threads and releases the files. Blocks.
fn stop<L: Log>(writer: &Writer, core: &Core<L>, reclaimer: Option<Reclaimer>) {
    writer.stop();
    // A compaction under way ends early.
    core.log.close();
    if let Some(Reclaimer { queue, thread }) = reclaimer {
        drop(queue);
        if thread.join().is_err() {
            tracing::error!("the store's compaction thread panicked");
        }
    }
}

impl Reclaimer {
    fn start<L: Log>(core: Weak<Core<L>>) -> std::io::Result<Self> {
        let (queue, mut jobs) = mpsc::channel::<Option<Freed>>(COMPACTION_QUEUE);
        let thread = std::thread::Builder::new()
            .name("store-compaction".into())
            .spawn(move || {
                while let Some(first) = jobs.blocking_recv() {
                    // One run serves all who asked before it began.
                    let mut waiting = Vec::from_iter(first);
                    while let Ok(more) = jobs.try_recv() {
                        waiting.extend(more);
                    }
                    let Some(core) = core.upgrade() else { return };
                    let freed = core.reclaim();
                    if let Err(error) = &freed {
                        tracing::warn!(%error, "compaction could not free room");
                    }
                    for waiting in waiting {
                        let _ = waiting.send(freed.clone());
                    }
                }
            })?;
        Ok(Self { queue, thread })
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| StoreError::Io {
            context: "reading the store".into(),
            message: error.to_string(),
        })
}

/// Implements [`super::Store`] for a struct around a [`LogStore`], so that the log beneath
/// does not show in the type.
macro_rules! impl_store {
    ($store:ty) => {
        #[async_trait::async_trait]
        impl $crate::store::Store for $store {
            fn id(&self) -> $crate::store::StoreId {
                self.0.id()
            }
            fn progress(&self) -> $crate::store::Progress {
                self.0.progress()
            }
            async fn read_revision(
                &self,
            ) -> Result<$crate::store::Revision, $crate::store::StoreError> {
                self.0.read_revision().await
            }
            async fn commit(
                &self,
                batch: $crate::store::WriteBatch,
            ) -> Result<$crate::store::Committed, $crate::store::CommitError> {
                self.0.commit(batch).await
            }
            async fn get(
                &self,
                key: &$crate::store::Key,
                at: $crate::store::Revision,
            ) -> Result<Option<std::sync::Arc<$crate::store::Object>>, $crate::store::StoreError>
            {
                self.0.get(key, at).await
            }
            async fn list(
                &self,
                range: &$crate::store::KeyRange,
                at: $crate::store::Revision,
                limit: $crate::store::PageLimit,
            ) -> Result<$crate::store::Page, $crate::store::StoreError> {
                self.0.list(range, at, limit).await
            }
            async fn read_log(
                &self,
                collection: Option<&$crate::store::Collection>,
                after: $crate::store::Revision,
                limit: $crate::store::PageLimit,
            ) -> Result<$crate::store::LogChunk, $crate::store::StoreError> {
                self.0.read_log(collection, after, limit).await
            }
            async fn changes_since(
                &self,
                collection: Option<&$crate::store::Collection>,
                after: $crate::store::Revision,
                limit: $crate::store::PageLimit,
            ) -> Result<$crate::store::LogChunk, $crate::store::StoreError> {
                self.0.changes_since(collection, after, limit).await
            }
            async fn live_since(
                &self,
                collection: Option<&$crate::store::Collection>,
                after: $crate::store::Revision,
                limit: $crate::store::PageLimit,
            ) -> Result<$crate::store::LogChunk, $crate::store::StoreError> {
                self.0.live_since(collection, after, limit).await
            }
            fn count_changes(
                &self,
                collection: &$crate::store::Collection,
                after: $crate::store::Revision,
                at_most: usize,
            ) -> (u64, u64) {
                self.0.count_changes(collection, after, at_most)
            }
            fn subscribe(&self) -> $crate::store::Feed {
                self.0.subscribe()
            }
            async fn compact(
                &self,
                at: $crate::store::Revision,
                wait: bool,
            ) -> Result<$crate::store::Revision, $crate::store::StoreError> {
                self.0.compact(at, wait).await
            }
            fn revision_at(&self, time: std::time::SystemTime) -> $crate::store::Revision {
                self.0.revision_at(time)
            }
            async fn expire_due(
                &self,
            ) -> Result<Option<std::time::SystemTime>, $crate::store::StoreError> {
                self.0.expire_due().await
            }
            fn pin(
                &self,
                at: $crate::store::Revision,
            ) -> Result<$crate::store::Pin, $crate::store::StoreError> {
                self.0.pin(at)
            }
            fn status(&self) -> $crate::store::StoreStatus {
                self.0.status()
            }
            fn figures(&self) -> Option<std::sync::Arc<$crate::store::StoreFigures>> {
                Some(self.0.figures())
            }
            async fn close(&self) {
                self.0.close().await;
            }
        }
    };
}

pub(super) use impl_store;
