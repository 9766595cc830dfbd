//! Reading a state at one revision, page by page, however long the reader takes.

use std::{collections::VecDeque, ops::Bound, sync::Arc};

use tokio::time::Instant;

use super::{Hub, HubError, window::State, window::weight};
use crate::{
    limits::{MAX_SHELVED_SNAPSHOTS, SNAPSHOT_LIFE},
    selector::Selector,
    store::{Collection, Object, ObjectName, PageLimit, Revision},
    sync::Mutex,
};

/// Snapshots of recent lists, so that their next pages come from memory. A snapshot
/// shares what has not changed with the present state; what has, it keeps alive, which is
/// why they are few and short-lived. A page whose snapshot is gone is read from the store.
#[derive(Default)]
pub(super) struct SnapshotShelf(Mutex<VecDeque<Shelved>>);

struct Shelved {
    collection: Collection,
    revision: Revision,
    state: State,
    until: Instant,
}

impl SnapshotShelf {
    fn find(&self, collection: &Collection, revision: Revision) -> Option<State> {
        let mut shelf = self.0.lock();
        let now = Instant::now();
        shelf.retain(|s| s.until > now);
        shelf
            .iter()
            .find(|s| s.revision == revision && s.collection == *collection)
            .map(|s| s.state.clone())
    }

    fn put(&self, collection: &Collection, revision: Revision, state: &State) {
        let mut shelf = self.0.lock();
        let now = Instant::now();
        shelf.retain(|s| s.until > now);
        if shelf
            .iter()
            .any(|s| s.revision == revision && s.collection == *collection)
        {
            return;
        }
        if shelf.len() >= MAX_SHELVED_SNAPSHOTS {
            shelf.pop_front();
        }
        shelf.push_back(Shelved {
            collection: collection.clone(),
            revision,
            state: state.clone(),
            until: now + SNAPSHOT_LIFE,
        });
    }

    /// Lets go of what has expired; called now and then, so that an idle server does too.
    pub(super) fn sweep(&self) {
        let now = Instant::now();
        self.0.lock().retain(|s| s.until > now);
    }
}

/// Reads what a selector covers at one revision, in order.
///
/// It holds a snapshot for a bounded time; a slower reader is served from the store's
/// history, for as long as that is retained.
pub struct StateReader {
    selector: Arc<Selector>,
    revision: Revision,
    snapshot: Option<(State, Instant)>,
    /// `None`: at the end.
    after: Option<Bound<ObjectName>>,
}

/// Part of a state.
#[derive(Debug)]
pub struct StatePage {
    /// Matching objects, in order.
    pub objects: Vec<Arc<Object>>,
    /// The last name that was looked at; `None`: this was the last page.
    pub next: Option<ObjectName>,
}

impl StateReader {
    /// The revision that is being read.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Nothing is left.
    pub fn is_done(&self) -> bool {
        self.after.is_none()
    }

    /// The next page of matching objects. May be empty before the end, when much was
    /// looked at and nothing matched.
    ///
    /// # Errors
    /// [`crate::store::StoreError::Compacted`] if the reader took longer than history is retained.
    pub async fn next(&mut self, hub: &Hub, limit: PageLimit) -> Result<StatePage, HubError> {
        let Some(after) = self.after.clone() else {
            return Ok(StatePage {
                objects: Vec::new(),
                next: None,
            });
        };
        if self
            .snapshot
            .as_ref()
            .is_some_and(|(_, until)| *until <= Instant::now())
        {
            self.snapshot = None;
        }
        let page = match &self.snapshot {
            Some((state, _)) => self.page_of(state, after, limit),
            None => {
                let range = self.selector.range(after);
                let page = hub.store.list(&range, self.revision, limit).await?;
                let matching = |o: &Arc<Object>| self.selector.matches(o);
                let objects = page.objects.into_iter().filter(matching).collect();
                StatePage {
                    objects,
                    next: page.next,
                }
            }
        };
        self.after = page.next.clone().map(Bound::Excluded);
        Ok(page)
    }

    fn page_of(&self, state: &State, after: Bound<ObjectName>, limit: PageLimit) -> StatePage {
        let range = self.selector.range(after);
        let start = match (&range.after, &range.namespace) {
            (Bound::Unbounded, Some(ns)) => Bound::Included(ObjectName::bound(ns, "")),
            _ => range.after,
        };
        let mut objects = Vec::new();
        let (mut bytes, mut looked_at) = (0, 0);
        for (name, object) in state.range((start, Bound::Unbounded)) {
            if range
                .namespace
                .as_deref()
                .is_some_and(|ns| name.namespace() != ns)
            {
                break;
            }
            looked_at += 1;
            if self.selector.matches(object) {
                bytes += weight(object);
                objects.push(object.clone());
            }
            // The scan is bounded too: no call holds a worker for a million misses.
            if objects.len() >= limit.items || bytes >= limit.bytes || looked_at >= SCAN_OBJECTS {
                return StatePage {
                    objects,
                    next: Some(name.clone()),
                };
            }
        }
        StatePage {
            objects,
            next: None,
        }
    }

    /// How many objects are left, where that costs nothing: the selector covers the whole
    /// collection, and its size at this revision is known.
    pub fn remaining(&self, given: usize) -> Option<usize> {
        let (state, _) = self.snapshot.as_ref()?;
        self.selector
            .is_everything()
            .then(|| state.len().saturating_sub(given))
    }
}

/// Objects that one call of a reader looks at, at most.
const SCAN_OBJECTS: usize = 20_000;

impl Hub {
    /// A reader of the present state, at least at `revision` (which must have been applied).
    pub(crate) fn read_state(&self, selector: Arc<Selector>) -> StateReader {
        let applied = self.applied();
        let entry = self.existing(selector.collection());
        let cached = entry
            .as_ref()
            .and_then(|c| c.window.as_ref())
            .map(|window| {
                let window = window.read();
                (window.state().clone(), applied.max(window.revision()))
            });
        let unknown_is_empty = entry.is_none() && self.cache_size(selector.collection()) > 0;
        let (snapshot, revision) = match cached {
            Some((state, revision)) => (Some(state), revision),
            None if unknown_is_empty => (Some(State::new()), applied),
            None => (None, applied),
        };
        StateReader {
            selector,
            revision,
            snapshot: snapshot.map(|state| (state, Instant::now() + SNAPSHOT_LIFE)),
            after: Some(Bound::Unbounded),
        }
    }

    /// A reader of the state at exactly one revision, from `after` on.
    ///
    /// # Errors
    /// [`HubError`] if that revision is compacted or in the future.
    pub(crate) async fn read_state_at(
        &self,
        selector: Arc<Selector>,
        revision: Revision,
        after: Bound<ObjectName>,
    ) -> Result<StateReader, HubError> {
        self.wait_known(revision).await?;
        let now = self.read_state(selector.clone());
        let snapshot = match self.shelf.find(selector.collection(), revision) {
            Some(state) => Some((state, Instant::now() + SNAPSHOT_LIFE)),
            None if now.revision == revision => now.snapshot,
            None => None,
        };
        Ok(StateReader {
            selector,
            revision,
            snapshot,
            after: Some(after),
        })
    }

    /// Keeps a reader's snapshot for the next page of the same list.
    pub(crate) fn shelve(&self, reader: &StateReader) {
        if let Some((state, _)) = &reader.snapshot {
            self.shelf
                .put(reader.selector.collection(), reader.revision, state);
        }
    }

    /// Housekeeping that is due about every ten seconds.
    pub fn sweep(&self) {
        self.shelf.sweep();
    }
}
