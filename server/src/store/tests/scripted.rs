//! Moments that a store meets only by chance: what comes between a read's look at the index
//! and its look at the log, and requests that share a group commit.

use std::collections::BTreeMap;

use super::{
    super::{
        core::{Answer, Core, Request},
        log::{AppendError, Dropped, Entry, Live, Log, Room, Slot},
        plan::{Planner, random},
        replay::Replays,
    },
    conformance::brief,
    *,
};
use crate::sync::Mutex;

type Meanwhile = Box<dyn FnOnce() + Send>;

/// A log in memory that lets a test in before its next read.
#[derive(Default)]
struct Scripted {
    entries: Mutex<BTreeMap<Slot, Entry>>,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl Log for Scripted {
    const BLOCKING: bool = false;

    fn append(&self, entries: &[Entry]) -> Result<Duration, AppendError> {
        let entries = entries.iter().map(|entry| (entry.slot, entry.clone()));
        self.entries.lock().extend(entries);
        Ok(Duration::ZERO)
    }

    fn heal(&self, _above: Revision) -> Result<Option<Vec<Entry>>, StoreError> {
        Ok(None)
    }

    fn read(&self, slot: Slot) -> Result<Option<Entry>, StoreError> {
        let meanwhile = self.meanwhile.lock().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        Ok(self.entries.lock().get(&slot).cloned())
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
        for (_, entry) in self.entries.lock().range(range) {
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
        let mut entries = self.entries.lock();
        for dropped in dropped {
            entries.remove(&dropped.slot);
        }
    }

    fn reclaim(&self, _live: &Live<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn room(&self) -> Room {
        Room::Ample
    }

    fn close(&self) {}
}

#[derive(Clone)]
struct Inside {
    core: Arc<Core<Scripted>>,
    planner: Arc<Mutex<Planner>>,
}

impl Inside {
    fn new() -> Self {
        let options = TestClock::new().options();
        let replays = Replays::new(options.request_window, options.max_requests);
        let planner = Planner::new(random(options.seed), UNIX_EPOCH, replays);
        let core = Core::new(StoreId(1), Scripted::default(), options, Default::default());
        Self {
            core: Arc::new(core),
            planner: Arc::new(Mutex::new(planner)),
        }
    }

    /// Writes all of them as one group.
    fn group(&self, batches: impl IntoIterator<Item = WriteBatch>) -> Vec<Answer> {
        let requests: Vec<_> = batches.into_iter().map(Request::Batch).collect();
        self.core.write(&mut self.planner.lock(), &requests)
    }

    fn write(&self, operation: Operation) -> Revision {
        let answer = self.group([batch([operation])]).pop().unwrap();
        answer.unwrap().revision
    }

    fn before_the_next_read(&self, meanwhile: impl FnOnce(&Self) + Send + 'static) {
        let store = self.clone();
        *self.core.log.meanwhile.lock() = Some(Box::new(move || meanwhile(&store)));
    }

    fn changes_since(&self, after: Revision) -> Result<LogChunk, StoreError> {
        self.core.changes_since(None, after, PAGE, true)
    }
}

#[test]
fn a_net_difference_that_compaction_overtakes_goes_on_with_what_came_instead() {
    let store = Inside::new();
    store.write(put("a", "1"));
    store.write(put("b", "2"));
    store.before_the_next_read(|store| {
        let at = store.write(put("a", "3"));
        assert_eq!(store.core.compact(at).unwrap(), r(3));
    });
    let chunk = store.changes_since(r(0)).unwrap();
    assert_eq!(brief(&chunk), [(2, "b".into(), '+')]);
    assert_eq!((chunk.scanned_to, chunk.head), (r(2), r(3)));
    let rest = store.changes_since(chunk.scanned_to).unwrap();
    assert_eq!(brief(&rest), [(3, "a".into(), '~')]);
    assert_eq!((rest.scanned_to, rest.head), (r(3), r(3)));
}

#[test]
fn a_net_difference_leaves_nothing_out_that_the_log_has_lost() {
    let store = Inside::new();
    store.write(put("a", "1"));
    store.write(put("b", "2"));
    store.core.log.entries.lock().remove(&Slot::first(r(1)));
    let damaged = store.changes_since(r(0)).unwrap_err();
    assert!(matches!(damaged, StoreError::Damaged(_)), "{damaged}");
    let others = store.changes_since(r(1)).unwrap();
    assert_eq!(brief(&others), [(2, "b".into(), '+')]);
}

#[test]
fn a_request_that_is_repeated_within_its_group_is_answered_and_not_done_again() {
    let store = Inside::new();
    let request = |id: &str, fingerprint, name| WriteBatch {
        request: Some(RequestId {
            id: id.into(),
            fingerprint,
        }),
        ..batch([put(name, "1")])
    };
    let answers = store.group([
        request("x", 1, "a"),
        request("y", 1, "b"),
        request("x", 1, "a"),
        request("x", 2, "c"),
        request("y", 1, "b"),
    ]);
    let brief: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.map(|done| (done.revision, done.replayed)))
        .collect();
    assert_eq!(
        brief,
        [
            Ok((r(1), false)),
            Ok((r(2), false)),
            Ok((r(1), true)),
            Err(CommitError::RequestIdReused),
            Ok((r(2), true)),
        ]
    );
    assert_eq!(store.core.progress().revision, r(2));
}

#[test]
fn the_feed_tells_a_groups_commits_one_by_one_each_whole() {
    let store = Inside::new();
    let mut feed = store.core.subscribe();
    store.group([
        batch([put("a", "1"), put("b", "1")]),
        batch([put("c", "1")]),
        batch([put("a", "2"), delete("b")]),
    ]);
    let group = feed.try_recv().unwrap();
    let told: Vec<_> = group
        .iter()
        .map(|commit| {
            let events = commit.events.iter();
            let names = events.map(|event| event.object.key.name().to_owned());
            (commit.revision, names.collect::<Vec<_>>())
        })
        .collect();
    let names = |names: &[&str]| names.iter().map(|&name| name.into()).collect();
    assert_eq!(
        told,
        [
            (r(1), names(&["a", "b"])),
            (r(2), names(&["c"])),
            (r(3), names(&["a", "b"])),
        ]
    );
    assert!(feed.try_recv().is_err());
}
