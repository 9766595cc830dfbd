//! Objects, and the events that change them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use bytes::Bytes;

use super::{Key, TraceContext};
use crate::selector::FieldValues;

/// A point in the store's history. One counter for the whole store: each committed batch
/// takes the next one, and all its events share it (as etcd's revision).
///
/// Revision 0 is the empty store, before the first write.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(u64);

impl Revision {
    /// The empty store.
    pub const ZERO: Self = Self(0);
    /// The largest revision that the wire's int64 holds.
    pub const MAX: Self = Self(i64::MAX as u64);

    /// A revision from its number; numbers above [`Revision::MAX`] become it.
    pub const fn new(number: u64) -> Self {
        if number > Self::MAX.0 {
            Self::MAX
        } else {
            Self(number)
        }
    }

    /// From the wire; `None` if negative.
    pub fn from_wire(number: i64) -> Option<Self> {
        u64::try_from(number).ok().map(Self)
    }

    /// For the wire.
    pub fn to_wire(self) -> i64 {
        // Never above MAX, by construction.
        self.0 as i64
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one that follows.
    pub const fn next(self) -> Self {
        Self::new(self.0.saturating_add(1))
    }

    /// The one before; of zero, zero.
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Debug for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Identity of an object: a new one each time its name is created. A random UUID on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(pub u128);

impl Uid {
    /// Reads the canonical hyphenated form; `None` if it is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 36 {
            return None;
        }
        let mut number = 0u128;
        for (i, byte) in bytes.iter().enumerate() {
            if matches!(i, 8 | 13 | 18 | 23) {
                if *byte != b'-' {
                    return None;
                }
                continue;
            }
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                _ => return None,
            };
            number = number << 4 | u128::from(digit);
        }
        Some(Self(number))
    }

    /// A version 4 UUID of these random bits.
    pub fn from_random(bits: u128) -> Self {
        let version = 0x4u128 << 76;
        let variant = 0x2u128 << 62;
        Self(bits & !(0xfu128 << 76) & !(0x3u128 << 62) | version | variant)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            n >> 96,
            n >> 80 & 0xffff,
            n >> 64 & 0xffff,
            n >> 48 & 0xffff,
            n & 0xffff_ffff_ffff
        )
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the caller decides of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Matched by label selectors.
    pub labels: BTreeMap<String, String>,
    /// Opaque bytes.
    pub value: Bytes,
    /// Media type or protobuf full name; empty: the collection's default.
    pub content_type: Arc<str>,
    /// When the object ends by itself.
    pub expire_time: Option<SystemTime>,
}

/// One version of an object. Immutable once committed, and shared.
#[derive(Debug)]
pub struct Object {
    /// Its name.
    pub key: Key,
    /// Its identity.
    pub uid: Uid,
    /// The revision of this version. Of a deleted object: the revision of the deletion.
    pub revision: Revision,
    /// The revision at which this uid was created.
    pub create_revision: Revision,
    /// When this version was written.
    pub update_time: SystemTime,
    /// What the caller wrote. Of a deleted object: the last state, or empty where only
    /// the tombstone is left.
    pub content: Content,
    /// Values of the collection's declared fields, extracted from a JSON value once, when
    /// a field selector first asks.
    pub(crate) fields: OnceLock<Box<FieldValues>>,
}

impl Object {
    /// A version of an object.
    pub fn new(
        key: Key,
        uid: Uid,
        revision: Revision,
        create_revision: Revision,
        update_time: SystemTime,
        content: Content,
    ) -> Self {
        let fields = OnceLock::new();
        Self {
            key,
            uid,
            revision,
            create_revision,
            update_time,
            content,
            fields,
        }
    }

    /// The last state of a deleted object, as its deletion shows it: this version with
    /// the deletion's revision and time.
    pub fn deleted_at(&self, revision: Revision, time: SystemTime) -> Self {
        Self::new(
            self.key.clone(),
            self.uid,
            revision,
            self.create_revision,
            time,
            self.content.clone(),
        )
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
            && self.uid == other.uid
            && self.revision == other.revision
            && self.create_revision == other.create_revision
            && self.update_time == other.update_time
            && self.content == other.content
    }
}

/// Why an object was deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeleteCause {
    /// Someone asked for it.
    Request,
    /// Its expiry time came.
    Expired,
}

/// How an event changed its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The name was free before.
    Created,
    /// A new version of the same uid.
    Updated,
    /// The name is free again.
    Deleted(DeleteCause),
}

/// One change of one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What happened.
    pub change: Change,
    /// After the change. Of a deletion: key, uid, create revision and the deletion's
    /// revision and time always; the content of the last state where it is known.
    pub object: Arc<Object>,
    /// The revision of the version that this one replaced or deleted.
    pub previous_revision: Option<Revision>,
    /// That version, where the giver had it at hand ([`super::Store::read_log`] always
    /// has: compaction keeps the newest version at or below it).
    pub previous: Option<Arc<Object>>,
}

impl Event {
    /// The object is gone after this.
    pub fn is_deletion(&self) -> bool {
        matches!(self.change, Change::Deleted(_))
    }
}

/// Everything that one revision changed. Never split, never reordered.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    /// The revision.
    pub revision: Revision,
    /// When it was committed.
    pub time: SystemTime,
    /// Its events, in the order of the batch's operations; at most one a key.
    pub events: Vec<Event>,
    /// The writer's span, if it was recorded and is still known.
    pub trace: Option<Arc<TraceContext>>,
}
