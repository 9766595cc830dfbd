//! sled's snapshots, kept safe from power cuts.
//!
//! sled writes a snapshot of where its pages are only while it opens: it reads its log on from the
//! last one, puts the new one in its place, and zeroes what of its file the new one does not need.
//! It syncs both files and never the folder. So a power cut could bring the old snapshot back
//! beside the zeroed file, and what sled then takes for a torn log it gives up, all of it.
//!
//! Here each snapshot is durable before sled opens with it. Where the log has grown since, a copy
//! of the file is opened first, in memory where there is such a thing, for the snapshot that comes
//! of it.

use std::{
    fs::{self, File},
    io,
    ops::Range,
    os::unix::fs::FileExt as _,
    path::Path,
};

use super::{
    contain::contain,
    database,
    folder::{self, io_error, sync_folder, write_synced},
};
use crate::{limits::SEALED_CACHE_BYTES, store::StoreError};

/// Of an unfinished one. After a kill sled refuses to open beside it.
const UNFINISHED: &str = ".generating";
/// Within the segment's folder, while the copy is open.
const COPY: &str = "copy";
/// sled's header of a part of its log: a checksum, its LSN, the stable LSN.
const HEADER_BYTES: u64 = 20;
const LSN_MASK: u64 = 0x7fff_ffff_ffff_ffff;

/// The snapshots in a segment's folder, oldest first. Their names end with their LSN.
pub(super) fn names(segment: &Path) -> Result<Vec<String>, StoreError> {
    let mut names = folder::names(segment)?;
    names.retain(|name| name.starts_with("snap."));
    Ok(names)
}

/// Before sled opens a segment: makes durable the snapshot that it will open with, and that no
/// opening has to replace. `part_bytes`: sled's own segments.
pub(super) fn prepare(segment: &Path, part_bytes: u64) -> Result<(), StoreError> {
    let copy = segment.join(COPY);
    if copy.exists() {
        fs::remove_dir_all(&copy).map_err(|error| io_error("removing", &copy, &error))?;
    }
    for name in names(segment)? {
        if name.ends_with(UNFINISHED) {
            folder::remove_file(&segment.join(name))?;
        }
    }
    let path = segment.join("db");
    if !path.exists() {
        return Ok(());
    }
    // Not while sled's threads still write what was put away just now.
    let file = folder::open_locked(&path).map_err(|e| io_error("opening", &path, &e))?;
    let newest = names(segment)?.pop();
    let current = is_current(&file, newest.as_deref(), part_bytes);
    if current.map_err(|error| io_error("reading", &path, &error))? {
        return sync_folder(segment);
    }
    // A snapshot is not to know of what the disk does not have.
    file.sync_all()
        .map_err(|error| io_error("syncing", &path, &error))?;
    fs::create_dir(&copy).map_err(|error| io_error("creating", &copy, &error))?;
    if let Some(name) = of_a_copy(segment, &copy, part_bytes)? {
        let snapshot = copy.join(&name);
        let bytes = fs::read(&snapshot).map_err(|e| io_error("reading", &snapshot, &e))?;
        let unfinished = segment.join(format!("{name}{UNFINISHED}"));
        write_synced(&unfinished, &bytes)?;
        fs::rename(&unfinished, segment.join(&name))
            .map_err(|error| io_error("renaming", &unfinished, &error))?;
        sync_folder(segment)?;
        for old in names(segment)?.iter().filter(|old| **old != name) {
            folder::remove_file(&segment.join(old))?;
        }
    }
    fs::remove_dir_all(&copy).map_err(|error| io_error("removing", &copy, &error))
}

/// Whether the log ends where its newest snapshot does, so that an opening makes no other.
fn is_current(file: &File, newest: Option<&str>, part_bytes: u64) -> io::Result<bool> {
    let lsn = newest.and_then(|name| u64::from_str_radix(name.strip_prefix("snap.")?, 16).ok());
    let Some(lsn) = lsn else { return Ok(false) };
    let (begin, within) = (lsn - lsn % part_bytes, lsn % part_bytes);
    let length = file.metadata()?.len();
    let mut last = None;
    let mut at = 0;
    while at + HEADER_BYTES <= length {
        let mut header = [0; HEADER_BYTES as usize];
        file.read_exact_at(&mut header, at)?;
        // Zeroed: it is not used.
        if header.iter().any(|byte| *byte != 0) {
            let mut lsn = [0; 8];
            lsn.copy_from_slice(&header[4..12]);
            match u64::from_le_bytes(lsn) ^ LSN_MASK {
                lsn if lsn > begin => return Ok(false),
                lsn if lsn == begin => last = Some(at),
                _ => {}
            }
        }
        at += part_bytes;
    }
    match last {
        None => Ok(within == 0),
        Some(_) if within == 0 => Ok(false),
        Some(at) => is_zero(file, at + within..length.min(at + part_bytes)),
    }
}

fn is_zero(file: &File, range: Range<u64>) -> io::Result<bool> {
    let mut bytes = vec![0; usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0)];
    file.read_exact_at(&mut bytes, range.start)?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

/// Opens a copy of a segment's file, and gives the name of the snapshot that sled makes of it;
/// `None` if it makes none.
fn of_a_copy(segment: &Path, copy: &Path, part_bytes: u64) -> Result<Option<String>, StoreError> {
    let copying = |error: io::Error| io_error("copying", segment, &error);
    let mut others = names(segment)?;
    others.push("conf".into());
    for name in others {
        let from = segment.join(&name);
        if from.exists() {
            let bytes = fs::read(&from).map_err(copying)?;
            fs::write(copy.join(&name), bytes).map_err(copying)?;
        }
    }
    let _held = copy_file(&segment.join("db"), &copy.join("db")).map_err(copying)?;
    match database::open_sled(copy, part_bytes, SEALED_CACHE_BYTES, None) {
        Ok(tree) => {
            let _ = contain(|| drop(tree));
        }
        Err(error) => {
            // What is wrong with it, the opening of the segment itself says.
            tracing::debug!(%error, segment = %segment.display(), "a copy does not open");
            return Ok(None);
        }
    }
    let mut made = names(copy)?;
    made.retain(|name| !name.ends_with(UNFINISHED));
    Ok(made.pop())
}

/// Copies a file; what is given back keeps the copy.
fn copy_file(from: &Path, to: &Path) -> io::Result<Option<File>> {
    #[cfg(target_os = "linux")]
    if let Ok(memory) = copy_to_memory(from, to) {
        return Ok(Some(memory));
    }
    let _ = fs::remove_file(to);
    fs::copy(from, to)?;
    Ok(None)
}

/// Without a write to the disk, which may be full.
#[cfg(target_os = "linux")]
fn copy_to_memory(from: &Path, to: &Path) -> io::Result<File> {
    use std::os::fd::AsRawFd as _;

    use rustix::fs::{MemfdFlags, memfd_create};

    let mut memory = File::from(memfd_create("listwatch-segment", MemfdFlags::CLOEXEC)?);
    io::copy(&mut File::open(from)?, &mut memory)?;
    std::os::unix::fs::symlink(format!("/proc/self/fd/{}", memory.as_raw_fd()), to)?;
    // Where there is no /proc, it leads nowhere.
    fs::metadata(to)?;
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::{super::database::Database, *};
    use crate::limits::MIN_PAGE_SEGMENT_BYTES as PART_BYTES;

    fn open(segment: &Path) -> Database {
        Database::open(segment, PART_BYTES, SEALED_CACHE_BYTES).unwrap()
    }

    fn current(segment: &Path) -> bool {
        let file = folder::open_locked(&segment.join("db")).unwrap();
        let newest = names(segment).unwrap().pop();
        is_current(&file, newest.as_deref(), PART_BYTES).unwrap()
    }

    /// Writes the same keys again and again, so that parts of the file are of no use any more.
    fn write(database: &Database, round: u8) {
        for value in 0..40 {
            for key in 0..20_u8 {
                database
                    .tree
                    .insert([key], vec![round ^ value; 1200])
                    .unwrap();
            }
            database.tree.flush().unwrap();
        }
        database.file.sync_all().unwrap();
    }

    #[test]
    fn no_opening_makes_a_snapshot_that_is_not_durable_before() {
        let folder = tempfile::tempdir().unwrap();
        let segment = folder.path();
        let mut unused = 0;
        for round in 0..6 {
            write(&open(segment), round);
            assert!(!current(segment), "the log has grown");
            prepare(segment, PART_BYTES).unwrap();
            let before = names(segment).unwrap();
            assert_eq!(before.len(), 1, "{before:?}");
            assert!(!segment.join(COPY).exists());
            for _ in 0..2 {
                let database = open(segment);
                assert_eq!(names(segment).unwrap(), before);
                let value = database.tree.get([7]).unwrap().unwrap();
                assert_eq!(value, [round ^ 39; 1200]);
                drop(database);
                assert!(current(segment), "nothing was written");
            }
            let parts = fs::read(segment.join("db")).unwrap();
            let parts = parts.chunks(PART_BYTES as usize);
            unused += parts.filter(|part| part.iter().all(|b| *b == 0)).count();
        }
        // Else sled had nothing to zero, and all of it would be for nothing.
        assert!(unused > 0);
    }

    #[test]
    fn what_a_kill_left_of_a_snapshot_or_a_copy_is_in_no_ones_way() {
        let folder = tempfile::tempdir().unwrap();
        let segment = folder.path();
        write(&open(segment), 1);
        let whole = names(segment).unwrap();
        fs::write(segment.join("snap.00000000FFFFFFFF.generating"), b"?").unwrap();
        fs::create_dir(segment.join(COPY)).unwrap();
        fs::write(segment.join(COPY).join("db"), b"?").unwrap();
        let database = open(segment);
        assert_eq!(database.tree.len(), 20);
        assert_ne!(names(segment).unwrap(), whole);
        assert!(!segment.join(COPY).exists());
    }

    #[test]
    fn the_snapshot_of_a_damaged_file_is_left_to_the_opening() {
        let folder = tempfile::tempdir().unwrap();
        let segment = folder.path();
        write(&open(segment), 1);
        fs::write(segment.join("conf"), b"no configuration of a sled").unwrap();
        prepare(segment, PART_BYTES).unwrap();
        assert!(!segment.join(COPY).exists());
        let error = Database::open(segment, PART_BYTES, SEALED_CACHE_BYTES).err();
        assert!(matches!(error, Some(StoreError::Damaged(_))), "{error:?}");
    }
}
