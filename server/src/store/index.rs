//! The index: which versions of which key are in the log, and where. Derived from the log
//! at opening, and kept in memory.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    ops::Bound,
    sync::Arc,
    time::SystemTime,
};

use super::{
    Collection, Key, KeyRange, ObjectName, Revision, Uid,
    log::{Dropped, Slot},
};

/// Marks a deletion in [`Version::place`].
const TOMBSTONE: u32 = 1 << 31;

/// One version of a key, in 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    revision: Revision,
    /// The place within the commit, and [`TOMBSTONE`].
    place: u32,
    size: u32,
}

impl Version {
    fn new(slot: Slot, size: u32, tombstone: bool) -> Self {
        Self {
            revision: slot.revision,
            place: slot.index | if tombstone { TOMBSTONE } else { 0 },
            size,
        }
    }

    pub(super) fn slot(&self) -> Slot {
        Slot {
            revision: self.revision,
            index: self.place & !TOMBSTONE,
        }
    }

    pub(super) fn is_tombstone(&self) -> bool {
        self.place & TOMBSTONE != 0
    }

    fn dropped(&self) -> Dropped {
        Dropped {
            slot: self.slot(),
            size: self.size,
        }
    }
}

/// What is known of one key.
#[derive(Debug)]
struct KeyVersions {
    /// Of the newest version.
    uid: Uid,
    create_revision: Revision,
    newest: Version,
    /// Superseded ones that may still be read, oldest first.
    older: Vec<Version>,
}

impl KeyVersions {
    fn at(&self, revision: Revision) -> Option<&Version> {
        if self.newest.revision <= revision {
            return Some(&self.newest);
        }
        let after = self.older.partition_point(|v| v.revision <= revision);
        after.checked_sub(1).and_then(|i| self.older.get(i))
    }

    fn holds(&self, slot: Slot) -> bool {
        self.newest.slot() == slot || self.older.binary_search_by(|v| v.slot().cmp(&slot)).is_ok()
    }
}

/// The object that a name stands for now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Current {
    pub(super) uid: Uid,
    pub(super) revision: Revision,
    pub(super) create_revision: Revision,
}

/// A new version, as the index takes it.
pub(super) struct NewVersion<'a> {
    pub(super) key: &'a Key,
    pub(super) slot: Slot,
    pub(super) uid: Uid,
    pub(super) create_revision: Revision,
    pub(super) size: u32,
    pub(super) tombstone: bool,
    pub(super) time: SystemTime,
}

#[derive(Debug, Default)]
struct CollectionIndex {
    keys: BTreeMap<ObjectName, KeyVersions>,
    /// The newest version of each key, tombstones too: what a net difference walks.
    newest: BTreeMap<Slot, ObjectName>,
    /// Every entry above the compacted revision: what an exact watch walks.
    history: VecDeque<Slot>,
    /// So that a million keys of one namespace hold its name once.
    namespaces: HashSet<Arc<str>>,
    live: u64,
}

/// The index of all collections.
#[derive(Debug, Default)]
pub(super) struct Index {
    collections: BTreeMap<Collection, CollectionIndex>,
    /// Newest versions that are deletions, with their time.
    tombstones: BTreeMap<Slot, (Key, SystemTime)>,
    live: u64,
}

/// Where a stretch of names ended.
pub(super) enum Names {
    /// There are no more.
    End,
    /// Looked at up to and including this one.
    Upto(ObjectName),
}

impl Index {
    /// Adds a version newer than every other of its key. Returns the one it supersedes.
    pub(super) fn add(&mut self, new: &NewVersion<'_>) -> Option<Slot> {
        let collection = self
            .collections
            .entry(new.key.collection.clone())
            .or_default();
        let version = Version::new(new.slot, new.size, new.tombstone);
        collection.history.push_back(new.slot);
        let superseded = match collection.keys.get_mut(&new.key.object) {
            Some(known) => {
                let before = std::mem::replace(&mut known.newest, version);
                known.older.push(before);
                known.uid = new.uid;
                known.create_revision = new.create_revision;
                let name = collection
                    .newest
                    .remove(&before.slot())
                    .unwrap_or_else(|| new.key.object.clone());
                collection.newest.insert(new.slot, name);
                if before.is_tombstone() {
                    self.tombstones.remove(&before.slot());
                } else {
                    collection.live -= 1;
                    self.live -= 1;
                }
                Some(before.slot())
            }
            None => {
                let namespace = new.key.object.shared_namespace();
                let shared = collection.namespaces.get(namespace).cloned();
                let shared = shared.unwrap_or_else(|| {
                    collection.namespaces.insert(namespace.clone());
                    namespace.clone()
                });
                let name = new.key.object.with_namespace(shared);
                collection.newest.insert(new.slot, name.clone());
                let versions = KeyVersions {
                    uid: new.uid,
                    create_revision: new.create_revision,
                    newest: version,
                    older: Vec::new(),
                };
                collection.keys.insert(name, versions);
                None
            }
        };
        if new.tombstone {
            self.tombstones
                .insert(new.slot, (new.key.clone(), new.time));
        } else {
            collection.live += 1;
            self.live += 1;
        }
        superseded
    }

    /// The object that has a name now.
    pub(super) fn current(&self, key: &Key) -> Option<Current> {
        let known = self.versions(key)?;
        (!known.newest.is_tombstone()).then_some(Current {
            uid: known.uid,
            revision: known.newest.revision,
            create_revision: known.create_revision,
        })
    }

    fn versions(&self, key: &Key) -> Option<&KeyVersions> {
        self.collections.get(&key.collection)?.keys.get(&key.object)
    }

    /// The version of a key as of a revision, deletions included.
    pub(super) fn version_at(&self, key: &Key, at: Revision) -> Option<Version> {
        self.versions(key)?.at(at).copied()
    }

    /// Whether the log's entry is one that may still be read.
    pub(super) fn holds(&self, key: &Key, slot: Slot) -> bool {
        self.versions(key).is_some_and(|known| known.holds(slot))
    }

    /// Whether the log's entry is its key's newest.
    pub(super) fn is_newest(&self, key: &Key, slot: Slot) -> bool {
        self.versions(key)
            .is_some_and(|known| known.newest.slot() == slot)
    }

    /// Names of a range that exist as of a revision, in order, until so many are found or
    /// so many were looked at.
    pub(super) fn names(
        &self,
        range: &KeyRange,
        after: &Bound<ObjectName>,
        at: Revision,
        found: usize,
        looked_at: usize,
    ) -> (Vec<(ObjectName, Slot)>, Names) {
        let mut names = Vec::new();
        let Some(collection) = self.collections.get(&range.collection) else {
            return (names, Names::End);
        };
        let prefix = &*range.name_prefix;
        let first = range
            .namespace
            .as_ref()
            .map(|namespace| ObjectName::bound(namespace, prefix));
        let start = match (after, first) {
            (Bound::Unbounded, None) => Bound::Unbounded,
            (Bound::Unbounded, Some(first)) => Bound::Included(first),
            (after, None) => after.clone(),
            (Bound::Included(name), Some(first)) => Bound::Included(name.clone().max(first)),
            (Bound::Excluded(name), Some(first)) => {
                if *name < first {
                    Bound::Included(first)
                } else {
                    Bound::Excluded(name.clone())
                }
            }
        };
        for (seen, (name, known)) in collection.keys.range((start, Bound::Unbounded)).enumerate() {
            // From the first name that can begin so on, those that do are together.
            if let Some(namespace) = &range.namespace
                && (name.namespace() != &**namespace || !name.name().starts_with(prefix))
            {
                return (names, Names::End);
            }
            if name.name().starts_with(prefix)
                && let Some(version) = known.at(at)
                && !version.is_tombstone()
            {
                names.push((name.clone(), version.slot()));
            }
            if names.len() >= found || seen + 1 >= looked_at {
                return (names, Names::Upto(name.clone()));
            }
        }
        (names, Names::End)
    }

    /// Newest versions after a revision, in revision order; whole revisions until there
    /// are at least so many. The second value: whether that was all.
    pub(super) fn newest_after(
        &self,
        only: Option<&Collection>,
        after: Revision,
        at_least: usize,
        tombstones: bool,
    ) -> (Vec<(Slot, Key)>, bool) {
        let mut found = Vec::new();
        let mut all = true;
        for (name, collection) in &self.collections {
            if only.is_some_and(|only| only != name) {
                continue;
            }
            let range = (Bound::Excluded(Slot::after(after)), Bound::Unbounded);
            let newest = collection
                .newest
                .range(range)
                .filter(|(slot, _)| tombstones || !self.tombstones.contains_key(*slot));
            let (taken, whole) = whole_revisions(newest, |(slot, _)| slot.revision, at_least);
            all &= whole;
            found.extend(taken.into_iter().map(|(slot, object)| {
                let key = Key {
                    collection: name.clone(),
                    object: object.clone(),
                };
                (*slot, key)
            }));
        }
        // What a collection has given ends before what it has left, so the first of all that
        // were given are the first of all.
        found.sort_unstable_by_key(|(slot, _)| *slot);
        let (found, whole) = whole_revisions(found, |(slot, _)| slot.revision, at_least);
        (found, all && whole)
    }

    /// How many newest versions are after a revision, counted up to a number, and how
    /// many objects exist.
    pub(super) fn count_after(
        &self,
        collection: &Collection,
        after: Revision,
        at_most: usize,
    ) -> (u64, u64) {
        self.collections.get(collection).map_or((0, 0), |c| {
            let range = (Bound::Excluded(Slot::after(after)), Bound::Unbounded);
            let changed = c.newest.range(range).take(at_most).count();
            (changed as u64, c.live)
        })
    }

    /// Entries of one collection after a revision, above the compacted one; whole
    /// revisions until there are at least so many.
    pub(super) fn history_after(
        &self,
        collection: &Collection,
        after: Revision,
        at_least: usize,
    ) -> (Vec<Slot>, bool) {
        let Some(collection) = self.collections.get(collection) else {
            return (Vec::new(), true);
        };
        let start = collection
            .history
            .partition_point(|slot| slot.revision <= after);
        let history = collection.history.range(start..).copied();
        whole_revisions(history, |slot| slot.revision, at_least)
    }

    /// The revision of the newest deletion to forget at a compaction: too old, or too
    /// many, in revision order; never the one at the compacted revision itself, which a
    /// watch from just before it still has to see.
    pub(super) fn horizon(
        &self,
        compacted: Revision,
        older_than: Option<SystemTime>,
        most: usize,
    ) -> Option<Revision> {
        let too_many = self.tombstones.len().saturating_sub(most);
        self.tombstones
            .iter()
            .take_while(|(slot, _)| slot.revision < compacted)
            .enumerate()
            .take_while(|(i, (_, (_, time)))| {
                *i < too_many || older_than.is_some_and(|limit| *time < limit)
            })
            .last()
            .map(|(_, (slot, _))| slot.revision)
    }

    /// Lets go of what compaction allows, a slice of keys at a time, from `cursor` on.
    /// Returns where to go on.
    pub(super) fn prune(
        &mut self,
        cursor: Option<&Key>,
        compacted: Revision,
        forgotten: Revision,
        most: usize,
        dropped: &mut Vec<Dropped>,
    ) -> Option<Key> {
        let first = match cursor {
            Some(key) => key.collection.clone(),
            None => self.collections.keys().next()?.clone(),
        };
        let index = self.collections.get_mut(&first);
        let mut reached = None;
        if let Some(index) = index {
            while index
                .history
                .front()
                .is_some_and(|s| s.revision <= compacted)
            {
                index.history.pop_front();
            }
            let start = match cursor {
                Some(key) => Bound::Included(key.object.clone()),
                None => Bound::Unbounded,
            };
            let mut gone = Vec::new();
            for (seen, (name, known)) in index.keys.range_mut((start, Bound::Unbounded)).enumerate()
            {
                if seen >= most {
                    reached = Some(name.clone());
                    break;
                }
                let newest_is_below = known.newest.revision <= compacted;
                let below = known.older.partition_point(|v| v.revision <= compacted);
                let mut drop = if newest_is_below {
                    below
                } else {
                    below.saturating_sub(1)
                };
                if !newest_is_below
                    && let Some(kept) = known.older.get(drop)
                    && kept.revision <= forgotten
                    && kept.is_tombstone()
                {
                    drop += 1;
                }
                dropped.extend(known.older.drain(..drop).map(|v| v.dropped()));
                if known.older.is_empty() {
                    known.older = Vec::new();
                }
                if newest_is_below
                    && known.newest.is_tombstone()
                    && known.newest.revision <= forgotten
                {
                    dropped.push(known.newest.dropped());
                    gone.push((name.clone(), known.newest.slot()));
                }
            }
            for (name, slot) in gone {
                index.keys.remove(&name);
                index.newest.remove(&slot);
                self.tombstones.remove(&slot);
            }
            if let Some(object) = reached {
                return Some(Key {
                    collection: first,
                    object,
                });
            }
            if index.keys.is_empty() && index.history.is_empty() {
                self.collections.remove(&first);
            }
        }
        let next = self
            .collections
            .range((Bound::Excluded(first), Bound::Unbounded))
            .next()?;
        Some(Key {
            collection: next.0.clone(),
            object: ObjectName::bound("", ""),
        })
    }

    pub(super) fn live(&self) -> u64 {
        self.live
    }

    pub(super) fn tombstones(&self) -> u64 {
        self.tombstones.len() as u64
    }

    /// Objects of each collection that has any.
    pub(super) fn collections(&self) -> Vec<(Collection, u64)> {
        self.collections
            .iter()
            .filter(|(_, index)| index.live > 0)
            .map(|(name, index)| (name.clone(), index.live))
            .collect()
    }
}

/// Takes from a sequence in revision order until there are at least so many, and all of the
/// last one's revision. The second value: whether that was all.
fn whole_revisions<T>(
    all: impl IntoIterator<Item = T>,
    revision: impl Fn(&T) -> Revision,
    at_least: usize,
) -> (Vec<T>, bool) {
    let mut taken: Vec<T> = Vec::new();
    for next in all {
        let begins = taken
            .last()
            .is_some_and(|last| revision(last) != revision(&next));
        if begins && taken.len() >= at_least {
            return (taken, false);
        }
        taken.push(next);
    }
    (taken, true)
}

#[cfg(test)]
mod tests;
