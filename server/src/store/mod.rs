//! The versioned log and what reads it: one trait, so that the service and the hub do
//! not know what lies beneath.

mod compaction;
mod core;
mod deadlines;
mod error;
mod figures;
mod index;
mod key;
mod log;
mod log_store;
mod memory_log;
mod object;
mod options;
mod plan;
mod reading;
mod replay;
mod restored;
mod sled_log;
mod timeline;
mod trace;
mod writer;

#[cfg(any(test, fuzzing))]
pub(crate) use self::sled_log::fuzzing;
#[cfg(test)]
mod tests;

use std::{ops::Bound, sync::Arc, time::SystemTime};

use async_trait::async_trait;
use tokio::sync::broadcast;

pub use self::{
    error::{CommitError, StoreError},
    figures::StoreFigures,
    key::{Collection, Key, KeyError, ObjectName, check_namespace},
    memory_log::MemoryStore,
    object::{Change, Commit, Content, DeleteCause, Event, Object, Revision, Uid},
    options::StoreOptions,
    sled_log::{RepairReport, SledStore},
    trace::TraceContext,
};

/// Identity of a store's history. Changes when the store is made anew or restored from a
/// backup, so that no client silently goes back in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreId(pub u128);

impl std::fmt::Display for StoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// How far the store's history reaches. Read together: no part is newer than another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The newest revision, on disk.
    pub revision: Revision,
    /// History before this is gone; the state at it and all after it are readable.
    pub compacted: Revision,
    /// Deletions at or below this are forgotten: the tombstone horizon.
    pub forgotten: Revision,
}

/// A set of writes that takes one revision, all or none.
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    /// The operations; a key at most once (the service sees to it).
    pub operations: Vec<Operation>,
    /// For replay: the same id again gives the first answer.
    pub request: Option<RequestId>,
    /// The writer's span, if it is being recorded.
    pub trace: Option<Arc<TraceContext>>,
}

/// A caller's name for one request, with what it asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    /// Chosen by the caller.
    pub id: Arc<str>,
    /// Hash of the request: another request under the same id is refused.
    pub fingerprint: u64,
}

/// One operation of a batch.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Writes an object.
    Put {
        /// Where.
        key: Key,
        /// On what condition.
        condition: PutCondition,
        /// What.
        content: Content,
    },
    /// Deletes an object and leaves a tombstone.
    Delete {
        /// Which.
        key: Key,
        /// Only at this revision.
        if_revision: Option<Revision>,
        /// Only with this uid.
        if_uid: Option<Uid>,
        /// An absent object is no error (and writes nothing).
        allow_missing: bool,
        /// Why.
        cause: DeleteCause,
    },
    /// Writes nothing; fails the batch unless it holds.
    Check {
        /// Which.
        key: Key,
        /// The revision that the object must have; `None`: it must be absent.
        revision: Option<Revision>,
    },
}

impl Operation {
    /// Which object it is about.
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key, .. } | Self::Check { key, .. } => key,
        }
    }
}

/// On what condition a put is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutCondition {
    /// The name must be free.
    Absent,
    /// The object must exist.
    Present,
    /// The object must exist at this revision.
    At(Revision),
    /// None: create or replace.
    Any,
}

/// The answer to a commit.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The revision of the writes; where nothing was written, the newest one at which
    /// the checks held.
    pub revision: Revision,
    /// One for each operation, in order. `None`: an absent object that was allowed to be.
    /// A replayed answer and a check carry no value; a deletion carries key, uid,
    /// revisions only.
    pub objects: Vec<Option<Arc<Object>>>,
    /// The answer to an earlier commit of the same request. Where that version is still
    /// readable, reading it gives what the first answer showed to the letter.
    pub replayed: bool,
}

/// Part of a collection, in the order of (namespace, name).
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// The collection.
    pub collection: Collection,
    /// Only this namespace.
    pub namespace: Option<Arc<str>>,
    /// Only names that begin so.
    pub name_prefix: Arc<str>,
    /// Only after this one: where the last page ended.
    pub after: Bound<ObjectName>,
}

/// When a page or chunk is full. At least one item is always given.
#[derive(Clone, Copy, Debug)]
pub struct PageLimit {
    /// The most objects or events.
    pub items: usize,
    /// Full once values and names add up to this.
    pub bytes: usize,
}

/// One page of a state.
#[derive(Clone, Debug)]
pub struct Page {
    /// The objects, in order.
    pub objects: Vec<Arc<Object>>,
    /// Where the next page starts; `None`: this was the last.
    pub next: Option<ObjectName>,
}

/// A stretch of the log.
#[derive(Clone, Debug)]
pub struct LogChunk {
    /// Commits with at least one event asked for, in order, each whole.
    pub commits: Vec<Arc<Commit>>,
    /// Everything up to and including this revision has been looked at.
    pub scanned_to: Revision,
    /// The newest revision when this was read; `scanned_to == head`: nothing is left.
    pub head: Revision,
}

/// The feed of new commits, in order, each after it is on disk.
pub type Feed = broadcast::Receiver<Arc<[Arc<Commit>]>>;

/// Sizes, for status and metrics.
#[derive(Clone, Debug, Default)]
pub struct StoreStatus {
    /// Objects that exist now.
    pub object_count: u64,
    /// The same by collection.
    pub collections: Vec<(Collection, u64)>,
    /// Deletions still remembered.
    pub tombstone_count: u64,
    /// Bytes on disk (in memory, for a store that has none).
    pub database_bytes: u64,
    /// Writes are refused above this; 0: no quota.
    pub quota_bytes: u64,
    /// Writes are being refused for want of space.
    pub full: bool,
    /// Why writes are being refused until the store is opened again: the disk failed.
    pub failure: Option<String>,
}

/// Keeps history from being compacted while it lives; for work that reads one revision
/// for longer than history is retained (an export).
pub struct Pin(#[allow(dead_code)] pub(crate) Box<dyn Send + Sync>);

impl std::fmt::Debug for Pin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pin")
    }
}

/// A versioned store of objects: one log, ordered by revision.
///
/// What every implementation promises, and the conformance suite checks:
/// - a commit is answered, and given to the feed, only after it is durable;
/// - revisions grow by one with each commit that writes something, and never go back;
/// - a commit's events are never split;
/// - compaction keeps the newest version of each key at or below the compacted revision, and
///   tombstones above the horizon, the one at the compacted revision included;
/// - reads never wait for the disk writes of others.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Identity of this history.
    fn id(&self) -> StoreId;

    /// How far history reaches, without waiting.
    fn progress(&self) -> Progress;

    /// A revision at or above every commit that was acknowledged, by anyone, before the
    /// call: reading at it is linearizable.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot tell.
    async fn read_revision(&self) -> Result<Revision, StoreError>;

    /// Applies a batch at the next revision. Cancelling the future does not undo it.
    ///
    /// # Errors
    /// [`CommitError`]: which operation failed and why; nothing was written then, except
    /// where it says that the outcome is uncertain.
    async fn commit(&self, batch: WriteBatch) -> Result<Committed, CommitError>;

    /// The object as of a revision; `None` if it was absent.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] or [`StoreError::Future`] if that revision is not readable.
    async fn get(&self, key: &Key, at: Revision) -> Result<Option<Arc<Object>>, StoreError>;

    /// One page of the state as of a revision.
    ///
    /// # Errors
    /// As [`Store::get`].
    async fn list(
        &self,
        range: &KeyRange,
        at: Revision,
        limit: PageLimit,
    ) -> Result<Page, StoreError>;

    /// The log after a revision: every change, each with its previous version.
    /// `collection`: only its events.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] if `after` is below the compacted revision,
    /// [`StoreError::Future`] if it is above the newest.
    async fn read_log(
        &self,
        collection: Option<&Collection>,
        after: Revision,
        limit: PageLimit,
    ) -> Result<LogChunk, StoreError>;

    /// The net difference since a revision: of each key that changed, the newest version
    /// or the tombstone, in revision order, also across compacted history. What was
    /// superseded by the time of the call is left out. Events carry no previous version;
    /// a commit may be given in part.
    ///
    /// From revision zero with `forgotten` above it, tombstones are incomplete; so this is
    /// an error there, except for [`Store::live_since`].
    ///
    /// # Errors
    /// [`StoreError::Forgotten`] if `after` is below the tombstone horizon, checked again
    /// at every call; [`StoreError::Future`].
    async fn changes_since(
        &self,
        collection: Option<&Collection>,
        after: Revision,
        limit: PageLimit,
    ) -> Result<LogChunk, StoreError>;

    /// Objects that exist now and were last written after a revision, in revision order,
    /// as `Created` or `Updated` events without previous version; deletions are left out,
    /// so there is no horizon. Fills a cache at start.
    ///
    /// # Errors
    /// [`StoreError`] if the log cannot be read.
    async fn live_since(
        &self,
        collection: Option<&Collection>,
        after: Revision,
        limit: PageLimit,
    ) -> Result<LogChunk, StoreError>;

    /// How many of a collection's objects and tombstones changed after `after`, and how
    /// many objects it has now: `(changed, live)`. Decides whether a net difference is
    /// worth it. May stop counting at `at_most`.
    fn count_changes(&self, collection: &Collection, after: Revision, at_most: usize)
    -> (u64, u64);

    /// Every commit after the one that is newest at the time of the call. A receiver that
    /// falls behind gets `Lagged` and reads the log from where it stopped.
    fn subscribe(&self) -> Feed;

    /// Drops history below a revision. `wait`: return only when the space is free.
    /// At or below the present compaction, or held back by a [`Pin`], it compacts less.
    /// Returns the compacted revision.
    ///
    /// # Errors
    /// [`StoreError::Future`] above the newest revision.
    async fn compact(&self, at: Revision, wait: bool) -> Result<Revision, StoreError>;

    /// The newest revision that was committed at or before a time (to the second); what
    /// compaction by age compacts to.
    fn revision_at(&self, time: SystemTime) -> Revision;

    /// Deletes what is due (cause: expired), a bounded number a call, and returns when to
    /// call again: the next deadline, or `None` if nothing has one.
    ///
    /// # Errors
    /// [`StoreError`] if the deletions could not be committed.
    async fn expire_due(&self) -> Result<Option<SystemTime>, StoreError>;

    /// Keeps a revision readable until the pin is dropped.
    ///
    /// # Errors
    /// As [`Store::get`].
    fn pin(&self, at: Revision) -> Result<Pin, StoreError>;

    /// Sizes and counts.
    fn status(&self) -> StoreStatus;

    /// What the store measures of its work; `None`: it does not.
    fn figures(&self) -> Option<Arc<StoreFigures>> {
        None
    }

    /// Stops writing, flushes, and releases files. Later commits get [`StoreError::Closed`].
    async fn close(&self);
}
