//! sled's database of a segment, and what is known to keep it shut.

use std::{
    fs::{self, File},
    path::Path,
    time::{Duration, Instant},
};

use sled::Db;

use super::{contain::contain, folder::io_error, segment::damaged, snapshot};
use crate::{limits::LETTING_GO, store::StoreError};

/// See the module.
pub(super) struct Database {
    pub(super) tree: Db,
    /// Our own descriptor: sled's flush does not reach the disk, fdatasync on this does.
    pub(super) file: File,
}

impl Database {
    /// Opens sled's database, with a snapshot that no power cut takes back.
    pub(super) fn open(
        folder: &Path,
        page_segment_bytes: u64,
        cache: u64,
    ) -> Result<Self, StoreError> {
        snapshot::prepare(folder, page_segment_bytes)?;
        let first = Self::try_open(folder, page_segment_bytes, cache);
        let Err(error) = first else { return first };
        // Snapshots only shorten the opening; without them sled reads its whole log.
        let snapshots = snapshot::names(folder)?;
        if snapshots.is_empty() || matches!(error, StoreError::Io { .. }) {
            return Err(error);
        }
        for name in snapshots {
            let (snapshot, aside) = (folder.join(&name), format!("unreadable-{name}"));
            fs::rename(&snapshot, folder.join(aside))
                .map_err(|error| io_error("moving", &snapshot, &error))?;
        }
        Self::try_open(folder, page_segment_bytes, cache)
    }

    fn try_open(folder: &Path, page_segment_bytes: u64, cache: u64) -> Result<Self, StoreError> {
        // sled collects its garbage only in this thread.
        let tree = open_sled(folder, page_segment_bytes, cache, Some(500))?;
        let path = folder.join("db");
        let file = File::open(&path).map_err(|error| io_error("opening", &path, &error))?;
        Ok(Self { tree, file })
    }
}

/// Opens sled in a folder. `flush_every_ms`: how often a thread of its own writes and collects
/// garbage.
pub(super) fn open_sled(
    folder: &Path,
    page_segment_bytes: u64,
    cache: u64,
    flush_every_ms: Option<u64>,
) -> Result<Db, StoreError> {
    let config = sled::Config::new()
        .path(folder)
        .cache_capacity(cache)
        .segment_size(usize::try_from(page_segment_bytes).unwrap_or(1 << 19))
        .flush_every_ms(flush_every_ms);
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
    match opened {
        Ok(Ok(tree)) => Ok(tree),
        Ok(Err(sled::Error::Io(error))) => Err(io_error("opening", folder, &error)),
        Ok(Err(error)) => Err(damaged(folder, &error.to_string())),
        Err(panic) => Err(damaged(folder, &panic)),
    }
}
