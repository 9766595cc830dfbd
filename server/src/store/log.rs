//! What lies beneath the store: a log of entries in revision order, in memory or on disk.
//!
//! All meaning (conditions, history, expiry) is above this trait, in [`super::LogStore`],
//! once for every log.

use std::{sync::Arc, time::Duration};

use super::{Change, Key, Object, Progress, Revision, StoreError, TraceContext, replay::Request};

/// Where an entry stands in the log: its revision, and its place within the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot {
    pub(super) revision: Revision,
    pub(super) index: u32,
}

impl Slot {
    /// The first slot of a revision.
    pub(super) fn first(revision: Revision) -> Self {
        Self { revision, index: 0 }
    }

    /// Sorts after every slot of a revision.
    pub(super) fn after(revision: Revision) -> Self {
        Self {
            revision,
            index: u32::MAX,
        }
    }
}

/// One event, as the log keeps it. Of a deletion the object has no content: the version
/// before is still there for as long as anyone may ask for it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) slot: Slot,
    pub(super) change: Change,
    pub(super) object: Arc<Object>,
    pub(super) previous_revision: Option<Revision>,
    /// On the first entry of a commit that came with a request id.
    pub(super) request: Option<Arc<Request>>,
    /// On the first entry of a commit whose writer is being traced; not on disk.
    pub(super) trace: Option<Arc<TraceContext>>,
}

impl Entry {
    pub(super) fn is_deletion(&self) -> bool {
        matches!(self.change, Change::Deleted(_))
    }

    /// About what the entry takes in a log; the same for every log.
    pub(super) fn size(&self) -> u32 {
        const FIXED: usize = 96;
        let key = &self.object.key;
        let content = &self.object.content;
        let labels: usize = content
            .labels
            .iter()
            .map(|(k, v)| k.len() + v.len() + 8)
            .sum();
        let names = key.collection.as_str().len() + key.namespace().len() + key.name().len();
        let request = self.request.as_ref().map_or(0, |r| r.size());
        let all = FIXED + names + labels + content.content_type.len() + content.value.len();
        u32::try_from(all + request).unwrap_or(u32::MAX)
    }
}

/// An entry that compaction has let go of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dropped {
    pub(super) slot: Slot,
    pub(super) size: u32,
}

/// Whether there is room to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// For anything.
    Ample,
    /// For deletions only; says why.
    Deletions(String),
    /// Not even for those; says why.
    Nothing(String),
}

/// Why an append failed.
#[derive(Clone, Debug)]
pub(super) enum AppendError {
    /// Nothing was written.
    Refused(StoreError),
    /// It may or may not be found at the next opening.
    Uncertain(String),
}

/// Tells, of entries, which ones the index still refers to.
pub(super) type Live<'a> = dyn Fn(&[(&Key, Slot)]) -> Vec<bool> + Sync + 'a;

/// An append-only log. One thread appends; any number read meanwhile and never wait for it.
pub(super) trait Log: Send + Sync + 'static {
    /// Reads and writes wait for a disk, so they are kept off the async threads.
    const BLOCKING: bool;

    /// Appends entries, durably: when this returns, no crash takes them back. Returns how
    /// long the disk took to have them.
    fn append(&self, entries: &[Entry]) -> Result<Duration, AppendError>;

    /// After a failed append: makes the log usable again if it can be, and returns what
    /// turned out to be stored above a revision. `None`: all was well.
    fn heal(&self, above: Revision) -> Result<Option<Vec<Entry>>, StoreError>;

    /// One entry; `None` if it is not there, or no longer.
    fn read(&self, slot: Slot) -> Result<Option<Entry>, StoreError>;

    /// Entries after one revision up to and including another, in order, until `visit`
    /// returns false.
    fn scan(
        &self,
        after: Revision,
        to: Revision,
        visit: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), StoreError>;

    /// Makes the bounds of compaction durable, before anything goes.
    fn set_compacted(&self, progress: Progress) -> Result<(), StoreError>;

    /// The index no longer refers to these.
    fn discard(&self, dropped: &[Dropped]);

    /// Frees the room of what was discarded. Asks `live` again, since what was live at
    /// the call may be dropped meanwhile. Runs for long; one caller at a time.
    fn reclaim(&self, live: &Live<'_>) -> Result<(), StoreError>;

    /// Bytes taken.
    fn bytes(&self) -> u64;

    /// Whether there is room to write.
    fn room(&self) -> Room;

    /// Why no write is taken any more before the log is opened again, if so. Never waits.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Flushes and releases files.
    fn close(&self);
}
