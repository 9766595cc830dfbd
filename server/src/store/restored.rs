//! What a backup's objects are in the log of a store that is made from them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    Change, Key, Object, Progress, Revision, StoreError,
    log::{Entry, Slot},
};

/// Makes entries of objects, in whatever order they come, and refuses those that cannot be.
pub(super) struct Restored {
    revision: Revision,
    next_index: HashMap<Revision, u32>,
    keys: HashSet<Key>,
}

impl Restored {
    /// As of a revision.
    pub(super) fn new(revision: Revision) -> Self {
        Self {
            revision,
            next_index: HashMap::new(),
            keys: HashSet::new(),
        }
    }

    /// The history before the revision is compacted.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            revision: self.revision,
            compacted: self.revision,
            forgotten: self.revision,
        }
    }

    /// # Errors
    /// [`StoreError::Unusable`] if the object is of a later revision, of impossible ones, or
    /// of a key that there was.
    pub(super) fn entry(&mut self, object: Arc<Object>) -> Result<Entry, StoreError> {
        self.check(&object)?;
        let index = self.next_index.entry(object.revision).or_default();
        let slot = Slot {
            revision: object.revision,
            index: *index,
        };
        *index += 1;
        Ok(Entry {
            slot,
            change: if object.revision == object.create_revision {
                Change::Created
            } else {
                Change::Updated
            },
            previous_revision: None,
            request: None,
            trace: None,
            object,
        })
    }

    fn check(&mut self, object: &Object) -> Result<(), StoreError> {
        let wrong = if object.revision > self.revision {
            "is newer than the backup's revision"
        } else if object.revision == Revision::ZERO || object.create_revision > object.revision {
            "has impossible revisions"
        } else if !self.keys.insert(object.key.clone()) {
            "is there twice"
        } else {
            return Ok(());
        };
        Err(StoreError::Unusable(format!(
            "the backup is not usable: {} {wrong}",
            object.key
        )))
    }
}
