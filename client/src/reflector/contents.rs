//! Objects and indexes that change together. Persistent maps: a copy costs nothing and
//! shares what does not differ.

use std::{fmt, sync::Arc};

use imbl::{OrdMap, OrdSet};
use listwatch::v1::Resource;

use super::object::{Obj, ObjectKey, Undecodable};

type IndexFunction<T> = dyn Fn(&Obj<T>) -> Vec<String> + Send + Sync;

/// A named function from an object to the index keys under which it is found.
pub(super) struct Index<T> {
    pub(super) name: String,
    pub(super) function: Box<IndexFunction<T>>,
}

/// From an index key to the objects under it.
pub(super) type Postings = OrdMap<String, OrdSet<Arc<ObjectKey>>>;

/// One decoded version of an object, or why there is none.
pub(super) enum Entry<T> {
    Decoded(Arc<Obj<T>>),
    Undecodable(Arc<Undecodable<T>>),
}

impl<T> Entry<T> {
    pub(super) fn key(&self) -> &Arc<ObjectKey> {
        match self {
            Self::Decoded(object) => &object.key,
            Self::Undecodable(object) => &object.key,
        }
    }

    pub(super) fn resource(&self) -> &Resource {
        match self {
            Self::Decoded(object) => &object.resource,
            Self::Undecodable(object) => &object.resource,
        }
    }
}

pub(super) struct Contents<T> {
    pub(super) objects: OrdMap<Arc<ObjectKey>, Arc<Obj<T>>>,
    pub(super) undecodable: OrdMap<Arc<ObjectKey>, Arc<Undecodable<T>>>,
    pub(super) indexes: Arc<[Index<T>]>,
    /// One for each of `indexes`.
    pub(super) postings: Vec<Postings>,
}

impl<T> Clone for Contents<T> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            undecodable: self.undecodable.clone(),
            indexes: self.indexes.clone(),
            postings: self.postings.clone(),
        }
    }
}

impl<T> fmt::Debug for Contents<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contents")
            .field("objects", &self.objects.len())
            .field("undecodable", &self.undecodable.len())
            .finish_non_exhaustive()
    }
}

impl<T> Contents<T> {
    pub(super) fn new(indexes: Arc<[Index<T>]>) -> Self {
        let postings = indexes.iter().map(|_| Postings::new()).collect();
        Self {
            objects: OrdMap::new(),
            undecodable: OrdMap::new(),
            indexes,
            postings,
        }
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<Entry<T>> {
        if let Some(object) = self.objects.get(key) {
            return Some(Entry::Decoded(object.clone()));
        }
        self.undecodable
            .get(key)
            .map(|object| Entry::Undecodable(object.clone()))
    }

    /// What handlers have been told of this key: an undecodable version does not end the
    /// object, so it is the last one that could be decoded.
    pub(super) fn visible(&self, key: &ObjectKey) -> Option<Arc<Obj<T>>> {
        match self.objects.get(key) {
            Some(object) => Some(object.clone()),
            None => self.undecodable.get(key)?.last.clone(),
        }
    }

    pub(super) fn put(&mut self, entry: Entry<T>) {
        match entry {
            Entry::Decoded(object) => {
                self.undecodable.remove(&*object.key);
                let new = object.clone();
                let old = self.objects.insert(object.key.clone(), object);
                self.index(old.as_deref(), Some(&new));
            }
            Entry::Undecodable(object) => {
                let old = self.objects.remove(&*object.key);
                self.index(old.as_deref(), None);
                self.undecodable.insert(object.key.clone(), object);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &ObjectKey) {
        self.undecodable.remove(key);
        let old = self.objects.remove(key);
        self.index(old.as_deref(), None);
    }

    fn index(&mut self, old: Option<&Obj<T>>, new: Option<&Obj<T>>) {
        for (index, postings) in self.indexes.iter().zip(&mut self.postings) {
            let before = old
                .map(|object| (index.function)(object))
                .unwrap_or_default();
            let after = new
                .map(|object| (index.function)(object))
                .unwrap_or_default();
            if let Some(old) = old {
                for gone in before.iter().filter(|key| !after.contains(key)) {
                    let emptied = postings.get_mut(gone).is_some_and(|keys| {
                        keys.remove(&old.key);
                        keys.is_empty()
                    });
                    if emptied {
                        postings.remove(gone);
                    }
                }
            }
            if let Some(new) = new {
                for key in after {
                    // Also where `before` has it, so that old and new share the newer key.
                    postings.entry(key).or_default().insert(new.key.clone());
                }
            }
        }
    }
}
