//! What a reflector holds.

use std::{collections::BTreeMap, fmt, sync::Arc};

use listwatch::v1::{Key, Resource};
use prost_types::Timestamp;

use super::codec::DecodeError;

/// The name of an object within its collection. Ordered as the server orders lists.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for objects outside any namespace.
    pub namespace: String,
    /// Unique within the namespace.
    pub name: String,
}

impl ObjectKey {
    /// A key of its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl From<Key> for ObjectKey {
    fn from(key: Key) -> Self {
        Self {
            namespace: key.namespace,
            name: key.name,
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One object: what the server says of it, and its decoded value.
#[derive(Debug, Clone)]
pub struct Obj<T> {
    pub(super) key: Arc<ObjectKey>,
    /// Without its key; with its value only if the reflector persists.
    pub(super) resource: Resource,
    pub(super) value: T,
}

impl<T> Obj<T> {
    /// Its name.
    #[must_use]
    pub fn key(&self) -> &Arc<ObjectKey> {
        &self.key
    }

    /// Of this life of the name: a new one each time it is created.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.resource.uid
    }

    /// The store revision of its last write: for `if_revision`.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.resource.revision
    }

    /// The store revision at which it was created.
    #[must_use]
    pub fn create_revision(&self) -> i64 {
        self.resource.create_revision
    }

    /// When it was last written, by the server's clock.
    #[must_use]
    pub fn update_time(&self) -> Option<Timestamp> {
        self.resource.update_time
    }

    /// When it expires by itself, by the server's clock.
    #[must_use]
    pub fn expire_time(&self) -> Option<Timestamp> {
        self.resource.expire_time
    }

    /// Its labels.
    #[must_use]
    pub fn labels(&self) -> &BTreeMap<String, String> {
        &self.resource.labels
    }

    /// What its value is encoded as.
    #[must_use]
    pub fn content_type(&self) -> &str {
        &self.resource.content_type
    }

    /// Its decoded value.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }
}

/// An object whose present value the codec refuses. It is not among the objects of the
/// snapshot, and handlers are *not* told that it is gone, since it is not.
#[derive(Debug)]
pub struct Undecodable<T> {
    pub(super) key: Arc<ObjectKey>,
    /// Without its key, with its value.
    pub(super) resource: Resource,
    pub(super) error: DecodeError,
    pub(super) last: Option<Arc<Obj<T>>>,
}

impl<T> Undecodable<T> {
    /// Its name.
    #[must_use]
    pub fn key(&self) -> &Arc<ObjectKey> {
        &self.key
    }

    /// The object as the server sent it, but for its key.
    #[must_use]
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// What the codec said.
    #[must_use]
    pub fn error(&self) -> &DecodeError {
        &self.error
    }

    /// The newest version of the same object that could be decoded, if one was held.
    #[must_use]
    pub fn last(&self) -> Option<&Arc<Obj<T>>> {
        self.last.as_ref()
    }
}

/// Whether two resources are the same version of the same object. The time is compared too:
/// a store that was restored from a backup gives revisions out a second time.
pub(super) fn same_version(a: &Resource, b: &Resource) -> bool {
    a.uid == b.uid && a.revision == b.revision && a.update_time == b.update_time
}
