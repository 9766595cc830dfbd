//! HEAD: the newest acknowledged revision.
//!
//! sled goes back to an older consistent state, without a word, when the tail of its file
//! is damaged. So the revision is also kept here: written after each group is durable and
//! before it is acknowledged, in place and without a sync of its own. A store that opens
//! below its HEAD has lost records. A power failure may leave HEAD behind the store, which
//! is harmless.
//!
//! ```text
//! offset 0    | revision u64 BE | store id u128 BE | xxh3-64 of both u64 BE |   a slot
//! offset 512  | the same |                                        written in turn
//! ```

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::Path,
};

use xxhash_rust::xxh3::xxh3_64;

use super::folder::io_error;
use crate::store::{Revision, StoreError, StoreId};

pub(super) const FILE: &str = "HEAD";
const SLOT_BYTES: usize = 32;
const SLOT_OFFSETS: [u64; 2] = [0, 512];

/// See the module.
pub(super) struct Head {
    file: File,
    id: StoreId,
    turn: usize,
}

impl Head {
    /// Makes it anew.
    pub(super) fn create(
        folder: &Path,
        id: StoreId,
        revision: Revision,
    ) -> Result<Self, StoreError> {
        let path = folder.join(FILE);
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| io_error("creating", &path, &error))?;
        let mut head = Self { file, id, turn: 0 };
        for _ in SLOT_OFFSETS {
            head.set(revision)?;
        }
        head.file
            .sync_all()
            .map_err(|error| io_error("syncing", &path, &error))?;
        Ok(head)
    }

    /// Opens it; the revision is that of the newest slot that is whole.
    pub(super) fn open(folder: &Path, id: StoreId) -> Result<(Self, Revision), StoreError> {
        let path = folder.join(FILE);
        let unreadable = |why: &str| {
            StoreError::Damaged(format!(
                "{} {why}, so it is unknown whether the newest writes are all there; run \
                 `listwatchd repair` or import a backup",
                path.display()
            ))
        };
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(unreadable("is missing"));
            }
            Err(error) => return Err(io_error("opening", &path, &error)),
        };
        let newest = SLOT_OFFSETS
            .iter()
            .enumerate()
            .filter_map(|(i, offset)| Some((read_slot(&file, *offset, id)?, i)))
            .max();
        let (revision, slot) = newest.ok_or_else(|| unreadable("is not what was written"))?;
        let turn = (slot + 1) % SLOT_OFFSETS.len();
        Ok((Self { file, id, turn }, revision))
    }

    /// Notes the newest durable revision.
    pub(super) fn set(&mut self, revision: Revision) -> Result<(), StoreError> {
        let mut slot = Vec::with_capacity(SLOT_BYTES);
        slot.extend_from_slice(&revision.get().to_be_bytes());
        slot.extend_from_slice(&self.id.0.to_be_bytes());
        slot.extend_from_slice(&xxh3_64(&slot).to_be_bytes());
        let offset = SLOT_OFFSETS[self.turn % SLOT_OFFSETS.len()];
        self.file
            .write_all_at(&slot, offset)
            .map_err(|error| io_error("writing", Path::new(FILE), &error))?;
        self.turn = (self.turn + 1) % SLOT_OFFSETS.len();
        Ok(())
    }
}

fn read_slot(file: &File, offset: u64, id: StoreId) -> Option<Revision> {
    let mut slot = [0; SLOT_BYTES];
    file.read_exact_at(&mut slot, offset).ok()?;
    let (data, sum) = slot.split_last_chunk::<8>()?;
    let (revision, store) = data.split_first_chunk::<8>()?;
    let whole = u64::from_be_bytes(*sum) == xxh3_64(data) && *store == id.0.to_be_bytes();
    whole.then(|| Revision::new(u64::from_be_bytes(*revision)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: StoreId = StoreId(7);

    fn opened(folder: &Path) -> (Head, u64) {
        let (head, revision) = Head::open(folder, ID).unwrap();
        (head, revision.get())
    }

    /// As a crash in the middle of a write leaves it.
    fn tear(folder: &Path, slot: usize) {
        let file = OpenOptions::new().write(true).open(folder.join(FILE));
        let torn = file.unwrap().write_all_at(&[0xaa; 9], SLOT_OFFSETS[slot]);
        torn.unwrap();
    }

    #[test]
    fn a_torn_write_leaves_the_revision_before() {
        let folder = tempfile::tempdir().unwrap();
        let mut head = Head::create(folder.path(), ID, Revision::new(4)).unwrap();
        let mut turn = 0;
        // Also by one that was opened: it writes over the older of the two.
        for (round, reopened) in [false, true, true, false, true].into_iter().enumerate() {
            if reopened {
                head = opened(folder.path()).0;
            }
            let revision = 5 + round as u64;
            head.set(Revision::new(revision)).unwrap();
            assert_eq!(opened(folder.path()).1, revision);
            let newest = std::fs::read(folder.path().join(FILE)).unwrap();
            tear(folder.path(), turn);
            assert_eq!(opened(folder.path()).1, revision - 1);
            std::fs::write(folder.path().join(FILE), newest).unwrap();
            turn = 1 - turn;
        }
        tear(folder.path(), 0);
        tear(folder.path(), 1);
        assert!(matches!(
            Head::open(folder.path(), ID),
            Err(StoreError::Damaged(_))
        ));
    }

    #[test]
    fn the_head_of_another_store_or_none_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        Head::create(folder.path(), ID, Revision::new(4)).unwrap();
        let error = Head::open(folder.path(), StoreId(8)).err().unwrap();
        assert!(matches!(error, StoreError::Damaged(_)), "{error}");
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        let error = Head::open(folder.path(), ID).err().unwrap();
        assert!(error.to_string().contains("is missing"), "{error}");
        // What cannot be opened for another reason is not said to be missing.
        std::fs::create_dir(folder.path().join(FILE)).unwrap();
        let error = Head::open(folder.path(), ID).err().unwrap();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
    }
}
