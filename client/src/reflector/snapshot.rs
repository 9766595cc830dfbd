//! A consistent state that never changes.

use std::sync::Arc;

use super::{
    contents::Contents,
    object::{Obj, ObjectKey, Undecodable},
};
use crate::watcher::ResumeToken;

/// The objects as of one revision: no revision's changes are in it by half, and the indexes
/// agree with the objects. It stays as it is for as long as it is held; ask the
/// [`Reader`](super::Reader) for a newer one.
#[derive(Debug)]
pub struct Snapshot<T> {
    pub(super) contents: Contents<T>,
    pub(super) revision: i64,
    pub(super) resume_token: Option<ResumeToken>,
}

impl<T> Snapshot<T> {
    /// The store revision that it shows; 0 before the first state came.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Starts a watch of the same selector after what this snapshot shows, or a little before
    /// it (then the watch repeats changes that are in the snapshot).
    #[must_use]
    pub fn resume_token(&self) -> Option<&ResumeToken> {
        self.resume_token.as_ref()
    }

    /// One object.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Obj<T>>> {
        self.contents.objects.get(key)
    }

    /// How many objects there are; undecodable ones are not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.contents.objects.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.contents.objects.is_empty()
    }

    /// All objects, ordered by (namespace, name).
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Obj<T>>> {
        self.contents.objects.values()
    }

    /// Those of one namespace, ordered by name.
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<Obj<T>>> {
        self.contents
            .objects
            .range(ObjectKey::new(namespace, "")..)
            .map(|(_, object)| object)
            .take_while(move |object| object.key.namespace == namespace)
    }

    /// Those that the function of the index called `index` puts under `value`, ordered by key.
    /// None if there is no such index.
    pub fn indexed(&self, index: &str, value: &str) -> impl Iterator<Item = &Arc<Obj<T>>> {
        let postings = self
            .postings(index)
            .and_then(|postings| postings.get(value));
        postings
            .into_iter()
            .flat_map(|keys| keys.iter())
            .filter_map(|key| self.contents.objects.get(key))
    }

    /// The values of the index called `index` under which there are objects, in order.
    pub fn index_values(&self, index: &str) -> impl Iterator<Item = &str> {
        self.postings(index)
            .into_iter()
            .flat_map(|postings| postings.keys().map(String::as_str))
    }

    fn postings(&self, index: &str) -> Option<&super::contents::Postings> {
        let at = self
            .contents
            .indexes
            .iter()
            .position(|known| known.name == index)?;
        self.contents.postings.get(at)
    }

    /// Objects that are there but cannot be decoded, ordered by key.
    pub fn undecodable(&self) -> impl Iterator<Item = &Arc<Undecodable<T>>> {
        self.contents.undecodable.values()
    }
}
