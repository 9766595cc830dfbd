//! One handler's queue: for each key the newest state, however slow the handler is.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use futures::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::object::{Obj, ObjectKey, Undecodable, same_version};

/// What a handler is told.
///
/// The notices of one key are in order and fit together: `old` is the very object that the
/// handler was told of last. A slow handler misses versions in between, never the newest
/// one, and never the end of an object that it was told of.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<T> {
    /// An object that this handler does not know of.
    Added(Arc<Obj<T>>),
    /// An object that it knows has changed.
    Updated {
        /// As it was told last.
        old: Arc<Obj<T>>,
        /// As it is now.
        new: Arc<Obj<T>>,
    },
    /// An object that it knows is gone, or no longer selected: as it was told last. A new
    /// object of the same name comes as [`Notice::Added`] after this.
    Deleted(Arc<Obj<T>>),
    /// The newest version of an object cannot be decoded. The object still exists.
    Undecodable(Arc<Undecodable<T>>),
    /// Everything that existed when the reflector first was in step with the server has been
    /// told. Comes once.
    Synced,
}

impl<T> Clone for Notice<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Updated { old, new } => Self::Updated {
                old: old.clone(),
                new: new.clone(),
            },
            Self::Deleted(object) => Self::Deleted(object.clone()),
            Self::Undecodable(object) => Self::Undecodable(object.clone()),
            Self::Synced => Self::Synced,
        }
    }
}

/// What became of one key from one snapshot to the next.
pub(super) struct KeyChange<T> {
    pub(super) key: Arc<ObjectKey>,
    pub(super) old: Option<Arc<Obj<T>>>,
    pub(super) new: Option<Arc<Obj<T>>>,
    pub(super) undecodable: Option<Arc<Undecodable<T>>>,
}

pub(super) struct Queue<T> {
    pending: Mutex<Pending<T>>,
    changed: Notify,
}

/// Bounded by the objects that the handler was told of and those that exist: each key is in it
/// once, and one that came and went unseen leaves it.
struct Pending<T> {
    entries: HashMap<Arc<ObjectKey>, Waiting<T>>,
    /// Oldest first: a key that changes often does not push itself back.
    order: BTreeMap<u64, Arc<ObjectKey>>,
    next_place: u64,
    /// The place before which everything is part of the first state.
    synced_at: Option<u64>,
    synced_told: bool,
    /// What is left of an entry that makes more than one notice.
    rest: VecDeque<Notice<T>>,
    closed: bool,
}

struct Waiting<T> {
    place: u64,
    /// What the handler was told last.
    told: Option<Arc<Obj<T>>>,
    newest: Option<Arc<Obj<T>>>,
    undecodable: Option<Arc<Undecodable<T>>>,
}

fn same<T>(a: Option<&Arc<Obj<T>>>, b: Option<&Arc<Obj<T>>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || same_version(&a.resource, &b.resource),
        _ => false,
    }
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self {
            pending: Mutex::new(Pending {
                entries: HashMap::new(),
                order: BTreeMap::new(),
                next_place: 0,
                synced_at: None,
                synced_told: false,
                rest: VecDeque::new(),
                closed: false,
            }),
            changed: Notify::new(),
        }
    }

    pub(super) fn push<'a>(&self, changes: impl IntoIterator<Item = &'a KeyChange<T>>)
    where
        T: 'a,
    {
        let mut pending = self.pending.lock();
        for change in changes {
            pending.push(change);
        }
        drop(pending);
        self.changed.notify_one();
    }

    pub(super) fn mark_synced(&self) {
        let mut pending = self.pending.lock();
        let place = pending.next_place;
        pending.synced_at.get_or_insert(place);
        drop(pending);
        self.changed.notify_one();
    }

    pub(super) fn close(&self) {
        self.pending.lock().closed = true;
        self.changed.notify_one();
    }
}

impl<T> Pending<T> {
    fn push(&mut self, change: &KeyChange<T>) {
        let settled = |told: Option<&Arc<Obj<T>>>| {
            change.undecodable.is_none() && same(told, change.new.as_ref())
        };
        if let Some(waiting) = self.entries.get_mut(&change.key) {
            if settled(waiting.told.as_ref()) {
                let place = waiting.place;
                self.entries.remove(&change.key);
                self.order.remove(&place);
            } else {
                waiting.newest.clone_from(&change.new);
                waiting.undecodable.clone_from(&change.undecodable);
            }
        } else if !settled(change.old.as_ref()) {
            let place = self.next_place;
            self.next_place += 1;
            self.order.insert(place, change.key.clone());
            let waiting = Waiting {
                place,
                told: change.old.clone(),
                newest: change.new.clone(),
                undecodable: change.undecodable.clone(),
            };
            self.entries.insert(change.key.clone(), waiting);
        }
    }

    fn pop(&mut self) -> Option<Notice<T>> {
        loop {
            if let Some(notice) = self.rest.pop_front() {
                return Some(notice);
            }
            let first = self.order.first_key_value().map(|(place, _)| *place);
            if let Some(synced_at) = self.synced_at
                && !self.synced_told
                && first.is_none_or(|first| first >= synced_at)
            {
                self.synced_told = true;
                return Some(Notice::Synced);
            }
            let (_, key) = self.order.pop_first()?;
            let Some(waiting) = self.entries.remove(&key) else {
                continue;
            };
            let unchanged = same(waiting.told.as_ref(), waiting.newest.as_ref());
            match (waiting.told, waiting.newest) {
                _ if unchanged => {}
                (Some(old), Some(new)) if old.uid() == new.uid() => {
                    self.rest.push_back(Notice::Updated { old, new });
                }
                (old, new) => {
                    self.rest.extend(old.map(Notice::Deleted));
                    self.rest.extend(new.map(Notice::Added));
                }
            }
            self.rest
                .extend(waiting.undecodable.map(Notice::Undecodable));
        }
    }
}

/// One handler's view of a reflector's changes. Made by
/// [`Reader::subscribe`](super::Reader::subscribe); dropping it ends it.
#[must_use = "a subscription collects notices until it is read or dropped"]
pub struct Subscription<T> {
    pub(super) queue: Arc<Queue<T>>,
}

impl<T> Subscription<T> {
    /// The next notice; `None` when the reflector has stopped and all has been told. Safe
    /// to cancel.
    pub async fn next(&mut self) -> Option<Notice<T>> {
        loop {
            {
                let mut pending = self.queue.pending.lock();
                if let Some(notice) = pending.pop() {
                    return Some(notice);
                }
                if pending.closed {
                    return None;
                }
            }
            self.queue.changed.notified().await;
        }
    }

    /// How many keys wait to be told.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.pending.lock().entries.len()
    }

    /// The notices as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Notice<T>> {
        stream::unfold(
            self,
            |mut this| async move { Some((this.next().await?, this)) },
        )
    }
}

impl<T> fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("waiting", &self.waiting())
            .finish()
    }
}
