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

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::{
        super::{Content, RequestId, Uid, replay::Outcome},
        *,
    };

    fn entry(key: [&str; 3], content: Content) -> Entry {
        let key = Key::new(key[0], key[1], key[2]).unwrap();
        let revision = Revision::new(1);
        let time = SystemTime::UNIX_EPOCH;
        Entry {
            slot: Slot::first(revision),
            change: Change::Created,
            object: Arc::new(Object::new(key, Uid(1), revision, revision, time, content)),
            previous_revision: None,
            request: None,
            trace: None,
        }
    }

    fn request(id: &str, outcomes: usize) -> Option<Arc<Request>> {
        let outcome = Outcome {
            uid: Uid(1),
            revision: Revision::new(1),
            create_revision: Revision::new(1),
        };
        let fingerprint = 1;
        Some(Arc::new(Request {
            id: RequestId {
                id: id.into(),
                fingerprint,
            },
            outcomes: vec![Some(outcome); outcomes],
        }))
    }

    /// Quotas, segments and pages are counted in these.
    #[test]
    fn an_entry_counts_every_byte_that_it_holds() {
        let bare = || entry(["c", "", "n"], Content::default());
        let base = bare().size();
        assert!(base > 0);
        let with = |change: &dyn Fn(&mut Content)| {
            let mut content = Content::default();
            change(&mut content);
            entry(["c", "", "n"], content).size() - base
        };
        let named = |key| entry(key, Content::default()).size() - base;
        assert_eq!(named(["c234", "", "n"]), 3);
        assert_eq!(named(["c", "ns", "n"]), 2);
        assert_eq!(named(["c", "", "n2345"]), 4);
        assert_eq!(with(&|c| c.content_type = "json".into()), 4);
        assert_eq!(with(&|c| c.value = vec![0; 1000].into()), 1000);
        let label = |c: &mut Content, k: &str, v: &str| c.labels.insert(k.into(), v.into());
        // Each with its lengths.
        assert_eq!(with(&|c| drop(label(c, "key", "value"))), 3 + 5 + 8);
        let two = |c: &mut Content| {
            label(c, "key", "value");
            label(c, "k", "");
        };
        assert_eq!(with(&two), 3 + 5 + 8 + 1 + 8);

        let asked = |id, outcomes| Entry {
            request: request(id, outcomes),
            ..bare()
        };
        let one = asked("x", 1).size();
        assert!(one > base);
        assert_eq!(asked("x234", 1).size() - one, 3);
        // A uid, two revisions, and their framing.
        assert_eq!(asked("x", 2).size() - one, 16 + 8 + 8 + 4);
        assert_eq!(asked("x", 4).size() - one, 3 * 36);
    }
}
