//! A segment of the log: one sled database in a folder of its own.

use std::{
    fs::{self, File, OpenOptions},
    ops::Bound,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock, RwLockWriteGuard};

use super::{
    contain::contain,
    database::Database,
    folder::{self, io_error, sync_folder},
    manifest::SegmentEntry,
    record::{self, Assembly, KEY_BYTES, Part, RecordError, SUMMARY_KEY, Stored, Summary, key_of},
};
use crate::{
    limits::{
        MAX_PAGE_SEGMENT_BYTES, MIN_PAGE_SEGMENT_BYTES, SEALED_CACHE_BYTES, SEGMENT_CACHE_BYTES,
    },
    store::{Revision, StoreError, StoreId, log::Slot},
};

/// How often a large write is synced for each of sled's own segments. When sled begins one it notes
/// in it what it takes for stable, without a sync: where a power cut leaves that and not the one
/// before, sled gives up its whole log. It writes up to four times what it is given.
const SYNCS_A_PART: u64 = 8;
/// The same for removals, whose bytes are not known.
const REMOVED_A_SYNC: usize = 64;

/// What a segment holds, as scanned or as written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) revision: u64,
    pub(super) records: u64,
    pub(super) hash: u64,
    pub(super) bytes: u64,
}

impl Tally {
    pub(super) fn add(&mut self, key: &[u8], length: usize, checksum: u64) {
        if let Some((slot, _)) = record::parse_key(key) {
            self.revision = self.revision.max(slot.revision.get());
        }
        self.records += 1;
        self.hash ^= checksum;
        self.bytes += (key.len() + length) as u64;
    }
}

/// See the module.
pub(super) struct Segment {
    pub(super) number: u64,
    folder: PathBuf,
    page_segment_bytes: u64,
    /// Written only to open or put away the database.
    database: RwLock<Access>,
    /// When it was last read or written, as a count of all of these.
    used: AtomicU64,
    /// How many segments of the store are open.
    open: Arc<AtomicUsize>,
    pub(super) first: u64,
    /// `u64::MAX` while it is written.
    pub(super) last: AtomicU64,
    pub(super) tally: Mutex<Tally>,
    /// Bytes that nobody will read any more.
    pub(super) garbage: AtomicU64,
    /// Bytes of deletions that are forgotten, and kept only because an older segment may
    /// hold what they deleted.
    pub(super) held: AtomicU64,
    /// Its folder goes when the last reader has.
    doomed: AtomicBool,
}

/// sled keeps whole segments in memory (its cache takes no notice of its capacity below
/// 16,384 pages), so those that are not read are put away.
enum Access {
    Open(Database),
    /// Opened again by the next read.
    Resting,
    /// For good.
    Closed,
}

/// Why a group was not written.
#[derive(Clone, Debug)]
pub(super) struct WriteFailure {
    pub(super) why: String,
    /// The disk failed, rather than being full: what it has of the file is not known, and a
    /// later sync that succeeds says nothing of what an earlier one did not write.
    pub(super) disk_failed: bool,
}

/// Whether the disk was only full.
fn is_lack_of_room(error: &sled::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error, sled::Error::Io(error) if matches!(error.kind(), StorageFull | QuotaExceeded))
}

/// Counts reads, to know which segment has not been read for longest.
static READS: AtomicU64 = AtomicU64::new(0);

/// How many reads there have been.
pub(super) fn reads() -> u64 {
    READS.load(Ordering::Relaxed)
}

/// A record met by a scan, with its parts as they are stored.
pub(super) type Scanned = Result<(Stored, Vec<Part>), StoreError>;

fn cache_bytes(sealed: bool) -> u64 {
    if sealed {
        SEALED_CACHE_BYTES
    } else {
        SEGMENT_CACHE_BYTES
    }
}

/// The folder of a segment.
pub(super) fn folder_of(store: &Path, number: u64) -> PathBuf {
    store.join(format!("seg-{number}"))
}

/// The number of a segment's folder.
pub(super) fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix("seg-")?.parse().ok()
}

/// sled's own segment size for segments of so many bytes: files grow by it.
pub(super) fn page_segment_bytes(segment_bytes: u64) -> u64 {
    (segment_bytes / 16)
        .next_power_of_two()
        .clamp(MIN_PAGE_SEGMENT_BYTES, MAX_PAGE_SEGMENT_BYTES)
}

impl Segment {
    /// Makes an empty one.
    pub(super) fn create(
        store: &Path,
        number: u64,
        first: u64,
        page_segment_bytes: u64,
        open: &Arc<AtomicUsize>,
    ) -> Result<Self, StoreError> {
        let folder = folder_of(store, number);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|e| io_error("removing", &folder, &e))?;
        }
        fs::create_dir(&folder).map_err(|e| io_error("creating", &folder, &e))?;
        let entry = SegmentEntry {
            number,
            first_revision: first,
            page_segment_bytes,
            ..SegmentEntry::default()
        };
        let segment = Self::open(store, &entry, open)?;
        segment.sync_names()?;
        sync_folder(store)?;
        Ok(segment)
    }

    /// Opens one; what it holds is not looked at yet.
    pub(super) fn open(
        store: &Path,
        entry: &SegmentEntry,
        open: &Arc<AtomicUsize>,
    ) -> Result<Self, StoreError> {
        let folder = folder_of(store, entry.number);
        if !folder.is_dir() {
            return Err(damaged(&folder, "the folder is missing"));
        }
        let page_segment_bytes = entry
            .page_segment_bytes
            .clamp(MIN_PAGE_SEGMENT_BYTES, MAX_PAGE_SEGMENT_BYTES);
        let database = Database::open(&folder, page_segment_bytes, cache_bytes(entry.sealed))?;
        open.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            number: entry.number,
            folder,
            page_segment_bytes,
            database: RwLock::new(Access::Open(database)),
            used: AtomicU64::new(READS.fetch_add(1, Ordering::Relaxed)),
            open: open.clone(),
            first: entry.first_revision,
            last: AtomicU64::new(if entry.sealed {
                entry.last_revision
            } else {
                u64::MAX
            }),
            tally: Mutex::default(),
            garbage: AtomicU64::new(0),
            held: AtomicU64::new(0),
            doomed: AtomicBool::new(false),
        })
    }

    /// After a failure: the database anew, from what is on disk.
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        let mut database = self.database.write();
        if matches!(*database, Access::Closed) {
            return Err(StoreError::Closed);
        }
        // The old one holds the file's lock.
        self.put_away(&mut database, Access::Resting);
        self.take_up(&mut database)
    }

    fn take_up(&self, database: &mut Access) -> Result<(), StoreError> {
        match database {
            Access::Open(_) => Ok(()),
            Access::Closed => Err(StoreError::Closed),
            Access::Resting => {
                let sealed = self.last.load(Ordering::Acquire) != u64::MAX;
                let opened =
                    Database::open(&self.folder, self.page_segment_bytes, cache_bytes(sealed))?;
                *database = Access::Open(opened);
                self.open.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    fn put_away(&self, database: &mut Access, to: Access) {
        if let Access::Open(old) = std::mem::replace(database, to) {
            self.open.fetch_sub(1, Ordering::Relaxed);
            let _ = contain(|| drop(old));
        }
    }

    /// Gives back the memory of a segment that is not written; the next read opens it.
    pub(super) fn rest(&self) {
        let mut database = self.database.write();
        if matches!(*database, Access::Open(_)) {
            self.put_away(&mut database, Access::Resting);
        }
    }

    /// When it was last read; `None` if it is not open.
    pub(super) fn last_used(&self) -> Option<u64> {
        let database = self.database.try_read()?;
        matches!(*database, Access::Open(_)).then(|| self.used.load(Ordering::Relaxed))
    }

    /// The most bytes of a part: sled keeps 16 of them in one page, and moves pages above
    /// a quarter of its segments into files that it never syncs.
    pub(super) fn part_bytes(&self) -> usize {
        usize::try_from(self.page_segment_bytes / 128).unwrap_or(usize::MAX)
    }

    fn with<T>(
        &self,
        doing: &str,
        work: impl FnOnce(&Database) -> sled::Result<T>,
    ) -> Result<T, StoreError> {
        self.used
            .store(READS.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let mut guard = self.database.read();
        if !matches!(*guard, Access::Open(_)) {
            drop(guard);
            let mut writing = self.database.write();
            self.take_up(&mut writing)?;
            guard = RwLockWriteGuard::downgrade(writing);
        }
        let Access::Open(database) = &*guard else {
            return Err(StoreError::Closed);
        };
        match contain(|| work(database)) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(error @ (sled::Error::Io(_) | sled::Error::Unsupported(_)))) => {
                Err(StoreError::Io {
                    context: format!("{doing} {}", self.folder.display()),
                    message: error.to_string(),
                })
            }
            Ok(Err(error)) => Err(damaged(&self.folder, &error.to_string())),
            Err(panic) => Err(damaged(&self.folder, &panic)),
        }
    }

    /// Writes parts and then the summary, and waits until the disk has them. Returns how long
    /// it waited.
    ///
    /// Without a batch of sled's, which would cost a second write with seven more threads woken,
    /// and holds up every read of the process. sled's log comes back as it was up to some point,
    /// so a group is there as a whole if its summary is; what is there of another is removed by
    /// [`Segment::cut_unfinished`].
    pub(super) fn append(
        &self,
        parts: &[Part],
        compacted: u64,
        store: StoreId,
    ) -> Result<Duration, WriteFailure> {
        let mut tally = *self.tally.lock();
        for part in parts {
            tally.add(&part.key, part.value.len(), part.checksum);
        }
        let summary = record::encode_summary(&Summary {
            revision: tally.revision,
            records: tally.records,
            hash: tally.hash,
            bytes: tally.bytes,
            compacted,
            store_id: store.0.to_be_bytes().to_vec(),
        });
        let mut disk_failed = false;
        let written = self.with("writing", |database| {
            let mut unsynced = 0;
            let write_all = || {
                for part in parts {
                    unsynced += part.value.len() as u64;
                    if unsynced > self.page_segment_bytes / SYNCS_A_PART {
                        database.tree.flush()?;
                        database
                            .file
                            .sync_data()
                            .inspect_err(|_| disk_failed = true)?;
                        unsynced = 0;
                    }
                    database.tree.insert(part.key, &part.value[..])?;
                }
                database.tree.insert(SUMMARY_KEY, summary)?;
                database.tree.flush()
            };
            let written = write_all();
            written.inspect_err(|error| disk_failed |= !is_lack_of_room(error))
        });
        let failed = |error: StoreError, disk_failed| WriteFailure {
            why: error.to_string(),
            disk_failed,
        };
        written.map_err(|error| failed(error, disk_failed))?;
        let begun = Instant::now();
        self.sync().map_err(|error| failed(error, true))?;
        *self.tally.lock() = tally;
        Ok(begun.elapsed())
    }

    /// Waits until the disk has what was written.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.with("syncing", |database| Ok(database.file.sync_data()?))
    }

    /// Whether there is more than was acknowledged, written whole or in part: then the last
    /// process was killed, or its disk failed.
    pub(super) fn is_ahead_of(&self, acknowledged: Revision) -> Result<bool, StoreError> {
        let last = self.last_whole()?;
        Ok(last > acknowledged || !self.unfinished(last)?.is_empty())
    }

    /// Writes the whole file once more, and waits until the disk has it. Where a sync has failed,
    /// the operating system calls clean what the disk does not have: no later sync writes it, while
    /// all can read it until its memory is needed for something else.
    pub(super) fn write_again(&self) -> Result<(), StoreError> {
        let mut database = self.database.write();
        self.put_away(&mut database, Access::Resting);
        folder::write_again(&self.folder.join("db"))
    }

    /// The revision of the last group that is there as a whole.
    fn last_whole(&self) -> Result<Revision, StoreError> {
        let summary = self.summary()?;
        Ok(summary.map_or(Revision::ZERO, |summary| Revision::new(summary.revision)))
    }

    /// The keys of what there is of a group after the last whole one.
    fn unfinished(&self, last: Revision) -> Result<Vec<sled::IVec>, StoreError> {
        let range = (
            Bound::Excluded(key_of(Slot::after(last), u16::MAX)),
            Bound::Included([0xfe; KEY_BYTES]),
        );
        self.with("reading", |database| {
            database.tree.range(range).keys().collect()
        })
    }

    /// Removes what a crash or a failed write left of a group: nobody was told of it, and nobody
    /// has seen it. Only for the written segment, before it is read. Returns whether there was
    /// any.
    pub(super) fn cut_unfinished(&self) -> Result<bool, StoreError> {
        let last = self.last_whole()?;
        let unfinished = self.unfinished(last)?;
        if unfinished.is_empty() {
            return Ok(false);
        }
        self.with("removing an unfinished write from", |database| {
            for some in unfinished.chunks(REMOVED_A_SYNC) {
                for key in some {
                    database.tree.remove(key)?;
                }
                database.tree.flush()?;
                database.file.sync_data()?;
            }
            Ok(())
        })?;
        let (folder, removed) = (self.folder.display(), unfinished.len());
        tracing::info!(%folder, removed, after = %last, "an unfinished write was removed");
        Ok(true)
    }

    /// Adds parts. They count only once [`Segment::finish`] is through.
    pub(super) fn copy_in(&self, parts: &[Part]) -> Result<(), StoreError> {
        self.with("copying to", |database| {
            for part in parts {
                database.tree.insert(part.key, &part.value[..])?;
            }
            Ok(())
        })?;
        let mut tally = self.tally.lock();
        for part in parts {
            tally.add(&part.key, part.value.len(), part.checksum);
        }
        Ok(())
    }

    /// Makes all that was copied in durable.
    pub(super) fn finish(&self) -> Result<(), StoreError> {
        self.with("syncing", |database| {
            database.tree.flush()?;
            database.file.sync_all()?;
            Ok(())
        })?;
        self.sync_names()
    }

    fn sync_names(&self) -> Result<(), StoreError> {
        for name in ["conf", "db"] {
            let path = self.folder.join(name);
            File::open(&path)
                .and_then(|file| file.sync_all())
                .map_err(|error| io_error("syncing", &path, &error))?;
        }
        sync_folder(&self.folder)
    }

    /// One record.
    pub(super) fn read(&self, slot: Slot) -> Result<Option<Stored>, StoreError> {
        let key = key_of(slot, 0);
        let Some(first) = self.with("reading", |d| d.tree.get(key))? else {
            return Ok(None);
        };
        let bad = |error: RecordError| bad_record(&self.folder, slot, &error);
        let (payload, _) = record::open(&key, &first).map_err(bad)?;
        let (parts, _) = record::first_part(payload).map_err(bad)?;
        let mut assembly = Assembly::default();
        let mut whole = assembly.take(slot, 0, payload).map_err(bad)?;
        for part in 1..parts {
            let key = key_of(slot, part);
            let Some(value) = self.with("reading", |d| d.tree.get(key))? else {
                return Err(bad(RecordError::Short));
            };
            let (payload, _) = record::open(&key, &value).map_err(bad)?;
            whole = assembly.take(slot, part, payload).map_err(bad)?;
        }
        let whole = whole.ok_or_else(|| bad(RecordError::Short))?;
        record::decode(slot, whole).map(Some).map_err(bad)
    }

    /// Records in order, within a range of slots, until `visit` returns false. An error ends the scan unless `visit` takes it.
    pub(super) fn scan(
        &self,
        range: (Bound<Slot>, Bound<Slot>),
        visit: &mut dyn FnMut(Scanned) -> bool,
    ) -> Result<(), StoreError> {
        let from = match range.0 {
            Bound::Included(slot) => Bound::Included(key_of(slot, 0)),
            Bound::Excluded(slot) => Bound::Excluded(key_of(slot, u16::MAX)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let to = match range.1 {
            Bound::Included(slot) => Bound::Included(key_of(slot, u16::MAX)),
            Bound::Excluded(slot) => Bound::Excluded(key_of(slot, 0)),
            // Up to the summary.
            Bound::Unbounded => Bound::Included([0xfe; KEY_BYTES]),
        };
        let mut assembly = Assembly::default();
        let mut parts = Vec::new();
        let mut lost = None;
        self.with("reading", |database| {
            for item in database.tree.range((from, to)) {
                let (key, value) = item?;
                let read = take_part(&mut assembly, &mut parts, &key, &value);
                let item = match read {
                    Ok(None) => continue,
                    Ok(Some(stored)) => Ok((stored, std::mem::take(&mut parts))),
                    Err((slot, error)) => {
                        assembly.abandon();
                        parts.clear();
                        // Its other parts say nothing more.
                        if slot.revision != Revision::MAX && lost.replace(slot) == Some(slot) {
                            continue;
                        }
                        Err(bad_record(&self.folder, slot, &error))
                    }
                };
                if !visit(item) {
                    return Ok(());
                }
            }
            if assembly.abandon() {
                let error = bad_record(
                    &self.folder,
                    Slot::after(Revision::MAX),
                    &RecordError::Short,
                );
                visit(Err(error));
            }
            Ok(())
        })
    }

    pub(super) fn summary(&self) -> Result<Option<Summary>, StoreError> {
        let value = self.with("reading", |database| database.tree.get(SUMMARY_KEY))?;
        value
            .map(|value| {
                record::decode_summary(&value)
                    .map_err(|error| damaged(&self.folder, &format!("its summary: {error}")))
            })
            .transpose()
    }

    /// As the manifest names it.
    pub(super) fn entry(&self) -> SegmentEntry {
        let tally = *self.tally.lock();
        let last = self.last.load(Ordering::Acquire);
        let sealed = last != u64::MAX;
        SegmentEntry {
            number: self.number,
            first_revision: self.first,
            last_revision: if sealed { last } else { 0 },
            sealed,
            records: if sealed { tally.records } else { 0 },
            hash: if sealed { tally.hash } else { 0 },
            bytes: if sealed { tally.bytes } else { 0 },
            page_segment_bytes: self.page_segment_bytes,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.tally.lock().bytes
    }

    /// What the segment takes on disk.
    pub(super) fn disk_bytes(&self) -> u64 {
        fs::metadata(self.folder.join("db")).map_or(0, |meta| meta.blocks() * 512)
    }

    /// The folder goes with the last reader.
    pub(super) fn doom(&self) {
        self.doomed.store(true, Ordering::Release);
    }

    /// Gives back some of the file's end; false once there is no more to give. Only for a
    /// doomed segment that is closed.
    pub(super) fn shorten(&self, bytes: u64) -> bool {
        let shortened = OpenOptions::new()
            .write(true)
            .open(self.folder.join("db"))
            .and_then(|file| {
                let left = file.metadata()?.len().saturating_sub(bytes);
                file.set_len(left)?;
                Ok(left > 0)
            });
        // What stays is removed whole.
        shortened.unwrap_or(false)
    }

    /// The manifest names it: its folder stays.
    pub(super) fn keep(&self) {
        self.doomed.store(false, Ordering::Release);
    }

    pub(super) fn damaged(&self, what: &str) -> StoreError {
        damaged(&self.folder, what)
    }

    /// Releases the files. Readers get [`StoreError::Closed`].
    pub(super) fn close(&self) {
        let mut database = self.database.write();
        self.put_away(&mut database, Access::Closed);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.close();
        if self.doomed.load(Ordering::Acquire)
            && let Err(error) = fs::remove_dir_all(&self.folder)
        {
            // The next opening removes it.
            tracing::warn!(folder = %self.folder.display(), %error, "not removed");
        }
    }
}

type PartError = (Slot, RecordError);

fn take_part(
    assembly: &mut Assembly,
    parts: &mut Vec<Part>,
    key: &[u8],
    value: &[u8],
) -> Result<Option<Stored>, PartError> {
    let unknown = Slot::after(Revision::MAX);
    let (slot, part) = record::parse_key(key)
        .ok_or_else(|| (unknown, RecordError::IllFormed("its key".into())))?;
    let (payload, checksum) = record::open(key, value).map_err(|e| (slot, e))?;
    let whole = assembly.take(slot, part, payload).map_err(|e| (slot, e))?;
    parts.push(Part {
        key: key_of(slot, part),
        value: value.to_vec(),
        checksum,
    });
    match whole {
        None => Ok(None),
        Some(bytes) => record::decode(slot, bytes).map(Some).map_err(|e| (slot, e)),
    }
}

pub(super) fn damaged(folder: &Path, what: &str) -> StoreError {
    let what = what.lines().next().unwrap_or_default();
    StoreError::Damaged(format!(
        "segment {}: {what}; run `listwatchd repair`, or import a backup into a new folder",
        folder.display()
    ))
}

fn bad_record(folder: &Path, slot: Slot, error: &RecordError) -> StoreError {
    if slot.revision == Revision::MAX {
        return damaged(folder, &format!("a record: {error}"));
    }
    let Slot { revision, index } = slot;
    damaged(
        folder,
        &format!("event {index} of revision {revision}: {error}"),
    )
}
