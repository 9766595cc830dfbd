//! sled's database of a segment, and what is known to keep it shut.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sled::Db;

use super::{contain::contain, folder, folder::io_error, segment::damaged};
use crate::{limits::LETTING_GO, store::StoreError};

/// See the module.
pub(super) struct Database {
    pub(super) tree: Db,
    /// Our own descriptor: sled's flush does not reach the disk, fdatasync on this does.
    pub(super) file: File,
}

impl Database {
    /// Opens sled's database after clearing what is known to keep it shut.
    pub(super) fn open(
        folder: &Path,
        page_segment_bytes: u64,
        cache: u64,
    ) -> Result<Self, StoreError> {
        let snapshots = |suffix: &str| -> Vec<PathBuf> {
            let names = folder::names(folder).unwrap_or_default();
            let names = names.into_iter();
            names
                .filter(|name| name.starts_with("snap.") && name.ends_with(suffix))
                .map(|name| folder.join(name))
                .collect()
        };
        // A kill while sled opens leaves this, and sled refuses every later opening.
        for unfinished in snapshots(".generating") {
            folder::remove_file(&unfinished)?;
        }
        let first = Self::try_open(folder, page_segment_bytes, cache);
        let Err(error) = first else { return first };
        // Snapshots only shorten the opening; without them sled reads its whole log.
        let snapshots = snapshots("");
        if snapshots.is_empty() || matches!(error, StoreError::Io { .. }) {
            return Err(error);
        }
        for snapshot in snapshots {
            let name = snapshot.file_name().unwrap_or_default();
            let aside = folder.join(format!("unreadable-{}", name.to_string_lossy()));
            fs::rename(&snapshot, &aside).map_err(|e| io_error("moving", &snapshot, &e))?;
        }
        Self::try_open(folder, page_segment_bytes, cache)
    }

    fn try_open(folder: &Path, page_segment_bytes: u64, cache: u64) -> Result<Self, StoreError> {
        let config = sled::Config::new()
            .path(folder)
            .cache_capacity(cache)
            .segment_size(usize::try_from(page_segment_bytes).unwrap_or(1 << 19))
            // sled collects its garbage only in this thread.
            .flush_every_ms(Some(500));
        let begun = Instant::now();
        let opened = loop {
            match contain(|| config.open()) {
                // Only we open it. sled's threads may hold what was just put away a little
                // longer, and its lock with it; the error has no kind of its own.
                Ok(Err(sled::Error::Io(error)))
                    if error.to_string().contains("could not acquire lock")
                        && begun.elapsed() < LETTING_GO =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                opened => break opened,
            }
        };
        let tree = match opened {
            Ok(Ok(tree)) => tree,
            Ok(Err(sled::Error::Io(error))) => return Err(io_error("opening", folder, &error)),
            Ok(Err(error)) => return Err(damaged(folder, &error.to_string())),
            Err(panic) => return Err(damaged(folder, &panic)),
        };
        let path = folder.join("db");
        let file = File::open(&path).map_err(|error| io_error("opening", &path, &error))?;
        Ok(Self { tree, file })
    }
}
