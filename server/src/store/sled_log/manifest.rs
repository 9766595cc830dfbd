//! MANIFEST: which segments make up the store, and how far history reaches.
//!
//! ```text
//! | "LWMANIF1" | checksum u64 BE: xxh3-64 of what follows | the message `Manifest` below |
//! ```
//!
//! It is replaced as a whole: written beside as MANIFEST.new, synced, renamed, and the
//! folder synced. What a manifest does not name is a leftover, and removed at opening.

use std::{fs, io, path::Path};

use prost::Message;
use xxhash_rust::xxh3::xxh3_64;

use super::folder::{io_error, sync_folder, write_synced};
use crate::store::{Progress, Revision, StoreError, StoreId};

pub(super) const FILE: &str = "MANIFEST";
pub(super) const NEW_FILE: &str = "MANIFEST.new";
pub(super) const FORMAT: u32 = 1;
const MAGIC: &[u8; 8] = b"LWMANIF1";

/// See the module.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Manifest {
    /// 16 bytes, big endian.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) store_id: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(super) format: u32,
    /// The newest revision when this was written.
    #[prost(uint64, tag = "3")]
    pub(super) revision: u64,
    #[prost(uint64, tag = "4")]
    pub(super) compacted: u64,
    /// The tombstone horizon.
    #[prost(uint64, tag = "5")]
    pub(super) forgotten: u64,
    /// The number of the next segment to be made; numbers are never used again.
    #[prost(uint64, tag = "6")]
    pub(super) next_segment: u64,
    /// Oldest first; the last one is written.
    #[prost(message, repeated, tag = "7")]
    pub(super) segments: Vec<SegmentEntry>,
}

/// A segment, as the manifest knows it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct SegmentEntry {
    #[prost(uint64, tag = "1")]
    pub(super) number: u64,
    /// No record is older.
    #[prost(uint64, tag = "2")]
    pub(super) first_revision: u64,
    /// No record is newer; 0: still written.
    #[prost(uint64, tag = "3")]
    pub(super) last_revision: u64,
    /// Whether the next three are final.
    #[prost(bool, tag = "4")]
    pub(super) sealed: bool,
    /// Number of parts.
    #[prost(uint64, tag = "5")]
    pub(super) records: u64,
    /// Set hash of the parts.
    #[prost(fixed64, tag = "6")]
    pub(super) hash: u64,
    #[prost(uint64, tag = "7")]
    pub(super) bytes: u64,
    /// sled's own segment size, without which it does not open its files.
    #[prost(uint64, tag = "8")]
    pub(super) page_segment_bytes: u64,
}

/// Why a manifest was not replaced for certain.
#[derive(Debug)]
pub(super) enum NotReplaced {
    /// The old one holds.
    Before(StoreError),
    /// Whoever opens the folder finds the new one, unless the power goes before that.
    Unsynced(StoreError),
}

impl From<NotReplaced> for StoreError {
    fn from(not: NotReplaced) -> Self {
        match not {
            NotReplaced::Before(error) | NotReplaced::Unsynced(error) => error,
        }
    }
}

impl Manifest {
    pub(super) fn id(&self) -> StoreId {
        let bytes = <[u8; 16]>::try_from(&self.store_id[..]).unwrap_or_default();
        StoreId(u128::from_be_bytes(bytes))
    }

    pub(super) fn progress(&self) -> Progress {
        Progress {
            revision: Revision::new(self.revision),
            compacted: Revision::new(self.compacted),
            forgotten: Revision::new(self.forgotten),
        }
    }

    /// Reads it; `None` if there is none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, StoreError> {
        let path = folder.join(FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("reading", &path, &error)),
        };
        Self::parse(&bytes, folder).map(Some)
    }

    /// What a file of this folder says.
    pub(super) fn parse(bytes: &[u8], folder: &Path) -> Result<Self, StoreError> {
        let damaged = || {
            StoreError::Damaged(format!(
                "{} is not what was written; run `listwatchd repair` or import a backup",
                folder.join(FILE).display()
            ))
        };
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let (sum, payload) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        if u64::from_be_bytes(*sum) != xxh3_64(payload) {
            return Err(damaged());
        }
        let manifest = Self::decode(payload).map_err(|_| damaged())?;
        if manifest.format != FORMAT {
            return Err(StoreError::Unusable(format!(
                "{} is of format {}, and this listwatchd reads format {FORMAT}: export with the \
                 version that wrote it, and import here",
                folder.display(),
                manifest.format
            )));
        }
        if manifest.store_id.len() != 16 || manifest.segments.is_empty() {
            return Err(damaged());
        }
        Ok(manifest)
    }

    /// The file that says it.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        seal(&self.encode_to_vec())
    }

    /// Replaces it, durably.
    pub(super) fn write(&self, folder: &Path) -> Result<(), NotReplaced> {
        let new = folder.join(NEW_FILE);
        let path = folder.join(FILE);
        write_synced(&new, &self.to_bytes()).map_err(NotReplaced::Before)?;
        fs::rename(&new, &path)
            .map_err(|error| NotReplaced::Before(io_error("renaming", &new, &error)))?;
        sync_folder(folder).map_err(NotReplaced::Unsynced)
    }
}

/// A message as a file.
pub(super) fn seal(payload: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&xxh3_64(payload).to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_is_whole_and_cannot_be_right_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(folder.path()), Ok(None));
        let good = Manifest {
            store_id: vec![7; 16],
            format: FORMAT,
            revision: 9,
            compacted: 5,
            forgotten: 3,
            next_segment: 2,
            segments: vec![SegmentEntry::default()],
        };
        good.write(folder.path()).unwrap();
        assert_eq!(Manifest::read(folder.path()), Ok(Some(good.clone())));
        let short = Manifest {
            store_id: vec![7; 15],
            ..good.clone()
        };
        let empty = Manifest {
            segments: Vec::new(),
            ..good.clone()
        };
        for bad in [short, empty] {
            bad.write(folder.path()).unwrap();
            let read = Manifest::read(folder.path());
            assert!(matches!(read, Err(StoreError::Damaged(_))), "{bad:?}");
        }
        let newer = Manifest {
            format: FORMAT + 1,
            ..good
        };
        newer.write(folder.path()).unwrap();
        let read = Manifest::read(folder.path());
        assert!(matches!(read, Err(StoreError::Unusable(_))), "{read:?}");
        // A folder in its place is no sign that there is no store.
        fs::remove_file(folder.path().join(FILE)).unwrap();
        fs::create_dir(folder.path().join(FILE)).unwrap();
        let read = Manifest::read(folder.path());
        assert!(matches!(read, Err(StoreError::Io { .. })), "{read:?}");
    }
}
