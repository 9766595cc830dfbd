//! The copy that events are applied to, before it is published.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use listwatch::v1::Resource;

use super::{
    codec::Codec,
    contents::{Contents, Entry},
    object::{Obj, ObjectKey, Undecodable, same_version},
    queue::KeyChange,
};
use crate::watcher::Event;

/// What events of a stream are applied to. Knows nothing of time, streams or readers.
pub(super) struct Copy<T> {
    codec: Codec<T>,
    /// Whether objects keep their encoded value.
    keep_encoded: bool,
    published: Contents<T>,
    /// Ahead of `published` by what happened to the keys of `touched`.
    current: Contents<T>,
    touched: HashSet<Arc<ObjectKey>>,
    /// The newest revision that was applied to `current` itself.
    newest: i64,
    stage: Stage<T>,
}

/// A state that is not consistent before it is complete. Thrown away if the stream breaks.
enum Stage<T> {
    None,
    /// What was named so far; what is not named is gone.
    Initial(Contents<T>),
    /// `current` with the changes so far, and the keys that they are about.
    Net(Contents<T>, Vec<Arc<ObjectKey>>),
    /// What was named so far, changed or not.
    Manifest(Contents<T>),
}

/// What applying an event came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    /// Nothing that matters here.
    Nothing,
    /// The current state changed.
    Changed,
    /// A stage is complete and has become the current state.
    Swapped,
    /// The server takes the copy for something that it is not: only a new initial state
    /// helps.
    Contradiction,
}

impl<T> Copy<T> {
    pub(super) fn new(codec: Codec<T>, keep_encoded: bool, empty: Contents<T>) -> Self {
        Self {
            codec,
            keep_encoded,
            published: empty.clone(),
            current: empty,
            touched: HashSet::new(),
            newest: 0,
            stage: Stage::None,
        }
    }

    /// Takes objects that were saved. Only for a copy that is empty.
    pub(super) fn restore(&mut self, resources: Vec<Resource>) {
        for resource in resources {
            if let Some(entry) = self.decode(resource, None) {
                self.touched.insert(entry.key().clone());
                self.current.put(entry);
            }
        }
    }

    /// Whether there is something to publish.
    pub(super) fn has_changes(&self) -> bool {
        !self.touched.is_empty()
    }

    pub(super) fn current(&self) -> &Contents<T> {
        &self.current
    }

    /// The newest revision of single changes since the state was last replaced as a whole.
    pub(super) fn newest_revision(&self) -> i64 {
        self.newest
    }

    /// Declares the current state published and says how it differs from the one before.
    pub(super) fn publish(&mut self) -> Vec<KeyChange<T>> {
        let mut changes = Vec::with_capacity(self.touched.len());
        for key in self.touched.drain() {
            let (old, new) = (self.published.visible(&key), self.current.visible(&key));
            let undecodable = self.current.undecodable.get(&key).filter(|now| {
                self.published
                    .undecodable
                    .get(&key)
                    .is_none_or(|old| !Arc::ptr_eq(old, now))
            });
            changes.push(KeyChange {
                undecodable: undecodable.cloned(),
                key,
                old,
                new,
            });
        }
        // Handlers see changes in an order that can be relied on in tests and logs.
        changes.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        self.published = self.current.clone();
        changes
    }

    pub(super) fn apply(&mut self, event: Event) -> Applied {
        match event {
            Event::InitBegin => {
                self.stage = Stage::Initial(Contents::new(self.current.indexes.clone()));
                Applied::Nothing
            }
            Event::NetBegin => {
                self.stage = Stage::Net(self.current.clone(), Vec::new());
                Applied::Nothing
            }
            Event::ManifestBegin => {
                self.stage = Stage::Manifest(Contents::new(self.current.indexes.clone()));
                Applied::Nothing
            }
            Event::InitApply(object) | Event::Apply { object, .. } => self.upsert(object),
            Event::Delete { object, .. } => self.delete(&object),
            Event::Unchanged(object) => self.unchanged(&object),
            Event::InitDone(_) | Event::CaughtUp(_) => self.swap(),
            Event::Disconnected { .. } => {
                self.stage = Stage::None;
                Applied::Nothing
            }
            _ => Applied::Nothing,
        }
    }

    fn upsert(&mut self, resource: Resource) -> Applied {
        let Some(key) = resource.key.clone().map(ObjectKey::from) else {
            return Applied::Nothing;
        };
        let held = match &self.stage {
            Stage::Net(next, _) => next.get(&key),
            Stage::None | Stage::Initial(_) | Stage::Manifest(_) => self.current.get(&key),
        };
        let same = held
            .as_ref()
            .is_some_and(|held| same_version(held.resource(), &resource));
        let entry = match held {
            // Unchanged objects stay the very same: nothing is decoded and no one is told.
            Some(held) if same => held,
            held => match self.decode(resource, held) {
                Some(entry) => entry,
                None => return Applied::Nothing,
            },
        };
        match &mut self.stage {
            Stage::Initial(next) | Stage::Manifest(next) => next.put(entry),
            Stage::Net(next, touched) if !same => {
                touched.push(entry.key().clone());
                next.put(entry);
            }
            Stage::None if !same => {
                self.touched.insert(entry.key().clone());
                self.newest = self.newest.max(entry.resource().revision);
                self.current.put(entry);
                return Applied::Changed;
            }
            Stage::Net(..) | Stage::None => {}
        }
        Applied::Nothing
    }

    fn delete(&mut self, resource: &Resource) -> Applied {
        let Some(key) = resource.key.clone().map(ObjectKey::from) else {
            return Applied::Nothing;
        };
        let next = match &mut self.stage {
            Stage::None => &mut self.current,
            Stage::Initial(next) | Stage::Manifest(next) | Stage::Net(next, _) => next,
        };
        let Some(held) = next.get(&key) else {
            return Applied::Nothing;
        };
        // The deletion of an earlier object of this name, told late.
        if held.resource().revision > resource.revision && resource.revision > 0 {
            return Applied::Nothing;
        }
        next.remove(&key);
        let key = held.key().clone();
        match &mut self.stage {
            Stage::None => {
                self.touched.insert(key);
                self.newest = self.newest.max(resource.revision);
                Applied::Changed
            }
            Stage::Net(_, touched) => {
                touched.push(key);
                Applied::Nothing
            }
            Stage::Initial(_) | Stage::Manifest(_) => Applied::Nothing,
        }
    }

    fn unchanged(&mut self, resource: &Resource) -> Applied {
        let Some(key) = resource.key.clone().map(ObjectKey::from) else {
            return Applied::Nothing;
        };
        let held = self.current.get(&key).filter(|held| {
            held.resource().uid == resource.uid && held.resource().revision == resource.revision
        });
        match (held, &mut self.stage) {
            (Some(held), Stage::Manifest(next)) => {
                next.put(held);
                Applied::Nothing
            }
            (Some(_), _) => Applied::Nothing,
            (None, _) => Applied::Contradiction,
        }
    }

    fn swap(&mut self) -> Applied {
        match std::mem::replace(&mut self.stage, Stage::None) {
            Stage::None => return Applied::Nothing,
            Stage::Net(next, touched) => {
                self.touched.extend(touched);
                self.current = next;
            }
            Stage::Initial(next) | Stage::Manifest(next) => {
                self.touched.clear();
                // Against what readers have: `current` may be ahead of it.
                for key in keys(&self.published) {
                    let (old, new) = (self.published.get(key), next.get(key));
                    if !is_same(old.as_ref(), new.as_ref()) {
                        self.touched.insert(key.clone());
                    }
                }
                for key in keys(&next) {
                    if self.published.get(key).is_none() {
                        self.touched.insert(key.clone());
                    }
                }
                self.current = next;
            }
        }
        self.newest = 0;
        Applied::Swapped
    }

    /// Decodes a version that succeeds `held`.
    fn decode(&self, mut resource: Resource, held: Option<Entry<T>>) -> Option<Entry<T>> {
        let key = ObjectKey::from(resource.key.take()?);
        let key = match &held {
            Some(held) => held.key().clone(),
            None => Arc::new(key),
        };
        if self.codec.keeps_bytes || self.keep_encoded {
            // As received, the value is a slice of the whole response: one small object
            // would keep all of it in memory.
            resource.value = Bytes::copy_from_slice(&resource.value);
        }
        Some(match self.codec.decode(&resource) {
            Ok(value) => {
                if !self.keep_encoded {
                    resource.value = Bytes::new();
                }
                Entry::Decoded(Arc::new(Obj {
                    key,
                    resource,
                    value,
                }))
            }
            Err(error) => {
                tracing::warn!(%key, revision = resource.revision, %error, "cannot decode object");
                resource.value = Bytes::copy_from_slice(&resource.value);
                let last = held
                    .and_then(|held| match held {
                        Entry::Decoded(object) => Some(object),
                        Entry::Undecodable(object) => object.last.clone(),
                    })
                    // Of another uid it is not the same object: that one has ended.
                    .filter(|last| last.uid() == resource.uid);
                Entry::Undecodable(Arc::new(Undecodable {
                    key,
                    resource,
                    error,
                    last,
                }))
            }
        })
    }
}

fn keys<T>(contents: &Contents<T>) -> impl Iterator<Item = &Arc<ObjectKey>> {
    contents.objects.keys().chain(contents.undecodable.keys())
}

fn is_same<T>(a: Option<&Entry<T>>, b: Option<&Entry<T>>) -> bool {
    match (a, b) {
        (Some(Entry::Decoded(a)), Some(Entry::Decoded(b))) => Arc::ptr_eq(a, b),
        (Some(Entry::Undecodable(a)), Some(Entry::Undecodable(b))) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}
