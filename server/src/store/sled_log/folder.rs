//! The data folder around the segments: the lock, the ballast, room on the disk.
//!
//! ```text
//! LOCK        held by the one process that uses the folder
//! MANIFEST    which segments make up the store
//! HEAD        the newest acknowledged revision
//! BALLAST     room to give back to a full disk
//! seg-<n>/    a segment: one sled database
//! CREATING, RESTORING, repairing/, damaged-<time>/   see `create` and `repair`
//! ```

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, statvfs};

use crate::{limits::LETTING_GO, store::StoreError};

const LOCK: &str = "LOCK";
const BALLAST: &str = "BALLAST";
const WRITE_AGAIN_BYTES: usize = 64 << 10;

/// An operating system's refusal, with what was being done.
pub(super) fn io_error(doing: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io {
        context: format!("{doing} {}", path.display()),
        message: error.to_string(),
    }
}

/// Takes the folder for this process; it is free again when the file is dropped, however
/// the process ends.
pub(super) fn lock(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|error| io_error("opening", &path, &error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::Unusable(format!(
            "{} is in use by another process: stop it, or give this one another data folder",
            folder.display()
        ))),
        Err(error) => Err(io_error("locking", &path, &error.into())),
    }
}

pub(super) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder)
        .and_then(|file| file.sync_all())
        .map_err(|error| io_error("syncing", folder, &error))
}

/// Makes the name of a folder durable, for one that may have been made just now: without it a power
/// cut takes all that was synced within.
pub(super) fn sync_name_of(folder: &Path) -> Result<(), StoreError> {
    let whole = fs::canonicalize(folder).map_err(|e| io_error("resolving", folder, &e))?;
    let mut above = whole.ancestors().skip(1);
    if let Some(parent) = above.next() {
        match File::open(parent).and_then(|parent| parent.sync_all()) {
            // One that may not be read was not made by us.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                return Err(io_error("syncing", parent, &error));
            }
            _ => {}
        }
    }
    // Where several levels were made at once. Those that were not may be of any file system.
    for folder in above {
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
    Ok(())
}

pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    File::create(path)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .map_err(|error| io_error("writing", path, &error))
}

/// Opens the file of a sled that is not open, with the lock that sled takes: its threads may hold it a
/// little longer.
pub(super) fn open_locked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let begun = Instant::now();
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK || begun.elapsed() > LETTING_GO {
            return Err(error.into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(file)
}

/// Writes what a file holds over itself, and waits until the disk has it. Never beside sled, which
/// holds a lock on its file.
pub(super) fn write_again(path: &Path) -> Result<(), StoreError> {
    let failed = |error: io::Error| io_error("writing again", path, &error);
    let file = open_locked(path).map_err(failed)?;
    let mut at = 0;
    let mut chunk = vec![0; WRITE_AGAIN_BYTES];
    loop {
        let read = file.read_at(&mut chunk, at).map_err(failed)?;
        if read == 0 {
            return file.sync_all().map_err(failed);
        }
        // What was never written stays a hole.
        if chunk[..read].iter().any(|byte| *byte != 0) {
            file.write_all_at(&chunk[..read], at).map_err(failed)?;
        }
        at += read as u64;
    }
}

/// Removes a file; that it is absent is no error.
pub(super) fn remove_file(path: &Path) -> Result<(), StoreError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("removing", path, &error))
        }
        _ => Ok(()),
    }
}

/// Names in a folder.
pub(super) fn names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let failed = |error: io::Error| io_error("listing", folder, &error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Whether a folder's file is neither ours nor the operating system's.
pub(super) fn is_foreign(name: &str) -> bool {
    let ours = [LOCK, BALLAST, super::manifest::NEW_FILE, "lost+found"];
    !ours.contains(&name) && !name.starts_with("damaged-")
}

/// Bytes free on the folder's disk; `None` if the operating system does not tell.
pub(super) fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = statvfs(folder).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Room set aside: see [`crate::store::StoreOptions::ballast_bytes`].
pub(super) struct Ballast {
    path: PathBuf,
    bytes: u64,
}

impl Ballast {
    pub(super) fn new(folder: &Path, bytes: u64) -> Self {
        Self {
            path: folder.join(BALLAST),
            bytes,
        }
    }

    /// Gives the room back to the disk.
    pub(super) fn release(&self) {
        if fs::remove_file(&self.path).is_ok() {
            tracing::warn!("the disk is nearly full: the ballast is released");
        }
    }

    /// Sets the room aside, if there is so much and more.
    pub(super) fn restore(&self, free: u64, keep_free: u64) {
        let there = fs::metadata(&self.path).is_ok_and(|meta| meta.len() == self.bytes);
        if self.bytes == 0 || there || free < keep_free.saturating_add(self.bytes * 2) {
            return;
        }
        let made = File::create(&self.path).and_then(|file| {
            fallocate(&file, FallocateFlags::empty(), 0, self.bytes).map_err(io::Error::from)
        });
        if let Err(error) = made {
            tracing::warn!(%error, "no ballast");
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_ballast_is_set_aside_where_there_is_twice_its_room_to_spare() {
        const BYTES: u64 = 1 << 20;
        const KEEP_FREE: u64 = 1000;
        const ENOUGH: u64 = KEEP_FREE + 2 * BYTES;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(BALLAST);
        let ballast = Ballast::new(folder.path(), BYTES);
        ballast.restore(ENOUGH - 1, KEEP_FREE);
        assert!(!path.exists());
        ballast.restore(ENOUGH, KEEP_FREE);
        let made = fs::metadata(&path).unwrap();
        assert_eq!(made.len(), BYTES);
        assert!(made.blocks() * 512 >= BYTES, "its room is taken");
        // One that is there is left alone; one of another size is made anew.
        let changed = || fs::metadata(&path).unwrap().ctime_nsec();
        let before = changed();
        ballast.restore(ENOUGH, KEEP_FREE);
        assert_eq!(changed(), before);
        fs::write(&path, b"less").unwrap();
        ballast.restore(ENOUGH - 1, KEEP_FREE);
        assert_eq!(fs::metadata(&path).unwrap().len(), 4);
        ballast.restore(ENOUGH, KEEP_FREE);
        assert_eq!(fs::metadata(&path).unwrap().len(), BYTES);
        ballast.release();
        assert!(!path.exists());
        Ballast::new(folder.path(), 0).restore(u64::MAX, 0);
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_removed_is_told_and_what_is_absent_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(remove_file(&path), Ok(()));
        fs::write(&path, b"").unwrap();
        assert_eq!(remove_file(&path), Ok(()));
        assert!(!path.exists());
        fs::create_dir(&path).unwrap();
        let error = remove_file(&path).unwrap_err();
        assert!(matches!(error, StoreError::Io { .. }), "{error}");
    }

    #[test]
    fn a_disk_says_how_much_is_free() {
        let free = free_bytes(Path::new("/")).unwrap();
        assert!(free > 1 << 20, "{free}");
        assert_eq!(free_bytes(Path::new("/none/such")), None);
    }

    #[test]
    fn only_what_we_or_the_operating_system_put_there_is_not_foreign() {
        for name in [
            "LOCK",
            "BALLAST",
            "MANIFEST.new",
            "lost+found",
            "damaged-17",
        ] {
            assert!(!is_foreign(name), "{name}");
        }
        for name in ["thesis.txt", "LOCKS", "lock", "undamaged-17"] {
            assert!(is_foreign(name), "{name}");
        }
    }
}
