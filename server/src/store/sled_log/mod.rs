//! The log on disk: a sequence of segments, each its own sled database. Only the newest is
//! written; compaction copies what survives of older ones into a new one and removes them
//! whole, since sled never gives room back.
//!
//! What sled lacks is added around it: durability (`segment`), checks of everything that
//! was written (`record`, `manifest`, `head`, `opening`), and containment of its panics
//! (`contain`).

mod contain;
mod database;
mod folder;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod head;
mod manifest;
mod opening;
mod reclaim;
mod record;
mod repair;
mod restore;
mod room;
mod segment;
mod snapshot;
#[cfg(test)]
mod tests;
mod worth;

use std::{
    fs::File,
    ops::Bound,
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};

pub use self::repair::RepairReport;
use self::{
    folder::Ballast,
    head::Head,
    manifest::{FORMAT, Manifest, NotReplaced},
    record::Stored,
    segment::{Segment, WriteFailure},
};
use super::{
    Progress, Revision, StoreError, StoreId,
    log::{AppendError, Dropped, Entry, Live, Log, Room, Slot},
    log_store::{LogStore, impl_store},
};
use crate::limits::{HEAL_INTERVAL, MAX_OPEN_SEGMENTS};

/// The store on disk.
#[derive(Debug)]
pub struct SledStore(LogStore<SledLog>);

impl_store!(SledStore);

/// See the module.
struct SledLog {
    folder: PathBuf,
    id: StoreId,
    segment_bytes: u64,
    quota_bytes: u64,
    min_free_bytes: u64,
    request_window: Duration,
    clock: crate::clock::Clock,
    ballast: Ballast,
    /// Oldest first, the last one is written. Replaced as a whole: who reads an older list
    /// still finds everything, since a segment's files go with its last reader.
    segments: RwLock<Arc<Vec<Arc<Segment>>>>,
    /// How many segments are open.
    open: Arc<AtomicUsize>,
    /// What the manifest says; held while it is replaced.
    bounds: Mutex<Bounds>,
    /// The compacted revision, for the writer, which must not wait for the manifest.
    compacted: AtomicU64,
    /// Held while a group is appended or the written segment is changed for another.
    writing: Mutex<Head>,
    /// A write failed, and when the disk was last tried.
    failed: Mutex<Option<Failure>>,
    /// The disk failed, and how: only a new opening looks at what it really has.
    distrust: OnceLock<String>,
    /// Group commits so far: whether there are writers to make way for.
    appends: AtomicU64,
    /// Bytes on disk of all segments but the newest.
    sealed_bytes: AtomicU64,
    /// How many reads there had been when the newest segment was begun.
    rotated_at: AtomicU64,
    /// What was discarded while segments were being copied.
    discarded_meanwhile: Mutex<Option<Vec<Dropped>>>,
    closed: AtomicBool,
    /// Released by the operating system, also after a kill. `None`: closed.
    lock: Mutex<Option<File>>,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    progress: Progress,
    next_segment: u64,
}

#[derive(Clone, Debug)]
struct Failure {
    why: String,
    tried: Instant,
}

impl SledLog {
    fn segments(&self) -> Arc<Vec<Arc<Segment>>> {
        self.segments.read().clone()
    }

    /// Writes the manifest for these segments and bounds, and makes them the store's.
    fn replace(
        &self,
        bounds: &mut Bounds,
        to: Bounds,
        segments: Vec<Arc<Segment>>,
    ) -> Result<(), StoreError> {
        self.check_open()?;
        match manifest_of(self.id, to, &segments).write(&self.folder) {
            Err(NotReplaced::Before(error)) => return Err(error),
            // The folder is already that of the new manifest. Going on with the old segments
            // would leave one that it does not describe.
            Err(NotReplaced::Unsynced(error)) => self.distrust(error.to_string()),
            Ok(()) => {}
        }
        *bounds = to;
        let sealed = segments.split_last().map_or(0, |(_, sealed)| {
            sealed.iter().map(|segment| segment.disk_bytes()).sum()
        });
        *self.segments.write() = Arc::new(segments);
        self.sealed_bytes.store(sealed, Ordering::Relaxed);
        Ok(())
    }

    /// Begins a new segment after a revision. The caller holds `writing`.
    fn rotate(&self, revision: Revision) -> Result<(), StoreError> {
        let mut bounds = self.bounds.lock();
        let segments = self.segments();
        let Some(active) = segments.last() else {
            return Err(StoreError::Closed);
        };
        let number = bounds.next_segment;
        let size = segment::page_segment_bytes(self.segment_bytes);
        let next = Segment::create(
            &self.folder,
            number,
            revision.next().get(),
            size,
            &self.open,
        )?;
        active.last.store(revision.get(), Ordering::Release);
        let mut all = segments.to_vec();
        all.push(Arc::new(next));
        let mut to = *bounds;
        to.next_segment = number + 1;
        to.progress.revision = revision;
        let replaced = self.replace(&mut bounds, to, all);
        if replaced.is_err() {
            active.last.store(u64::MAX, Ordering::Release);
            return replaced;
        }
        self.rest_unread(&segments);
        Ok(())
    }

    /// Puts away the sealed segments that nobody has read since the last time: sled would keep
    /// all that was written to them in memory.
    fn rest_unread(&self, segments: &[Arc<Segment>]) {
        let since = self.rotated_at.swap(segment::reads(), Ordering::Relaxed);
        let unread = unread(segments, since);
        if unread.is_empty() {
            return;
        }
        // sled closes slowly, and the writer is waiting. Without a thread they stay.
        let _ = std::thread::Builder::new()
            .name("store-rest".into())
            .spawn(move || unread.iter().for_each(|segment| segment.rest()));
    }

    fn check_open(&self) -> Result<(), StoreError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        Ok(())
    }

    /// No write is taken any more before the store is opened again: the disk failed to keep
    /// something, and may forget it while it says that all is well (a sync that is tried again
    /// succeeds without writing what the first one could not).
    fn distrust(&self, why: String) {
        tracing::error!(
            why,
            "the disk failed: no write is taken any more until the server is started again"
        );
        // The first is the reason for those that follow.
        let _ = self.distrust.set(why);
    }

    /// Why writes are refused until the store is opened again, if they are.
    fn distrusted(&self) -> Option<StoreError> {
        self.distrust.get().map(|why| StoreError::Io {
            context: "the disk failed to keep what was written, and the store takes no more \
                      until the server is started again"
                .into(),
            message: why.clone(),
        })
    }

    /// Writes stop here. After an error sled may refuse to read as well, and it cannot be
    /// opened anew on a full disk: with the ballast's room it can, and reads go on.
    fn fail(&self, active: &Segment, failure: WriteFailure) -> AppendError {
        if self.makes_room()
            && let Err(error) = active.reopen()
        {
            // The next read tries again.
            tracing::warn!(%error, "the written segment does not open");
        }
        let WriteFailure { why, disk_failed } = failure;
        if disk_failed {
            self.distrust(why.clone());
        } else {
            *self.failed.lock() = Some(Failure {
                why: why.clone(),
                tried: Instant::now(),
            });
        }
        AppendError::Uncertain(why)
    }

    /// Whether the disk has the room that sled needs to open a segment, if need be the
    /// ballast's.
    fn makes_room(&self) -> bool {
        let step = segment::page_segment_bytes(self.segment_bytes);
        let enough = || {
            let free = folder::free_bytes(&self.folder);
            free.is_none_or(|free| room::opens_segment(free, step))
        };
        if enough() {
            return true;
        }
        self.ballast.release();
        enough()
    }

    /// Puts away the segments that have not been read for longest, if too many are open.
    fn rest_surplus(&self, segments: &[Arc<Segment>]) {
        if self.open.load(Ordering::Relaxed) <= MAX_OPEN_SEGMENTS {
            return;
        }
        let sealed = segments.split_last().map_or(segments, |(_, sealed)| sealed);
        let oldest = sealed
            .iter()
            .filter_map(|segment| Some((segment.last_used()?, segment)))
            .min_by_key(|(used, _)| *used);
        if let Some((_, segment)) = oldest {
            segment.rest();
        }
    }

    /// The segment that has a revision, if any.
    fn segment_of(segments: &[Arc<Segment>], revision: Revision) -> Option<&Arc<Segment>> {
        let after = segments.partition_point(|segment| segment.first <= revision.get());
        segments.get(after.checked_sub(1)?)
    }
}

/// The open ones that have not been read since there had been so many reads.
fn unread(segments: &[Arc<Segment>], since: u64) -> Vec<Arc<Segment>> {
    let unread = segments
        .iter()
        .filter(|segment| segment.last_used().is_some_and(|used| used < since));
    unread.cloned().collect()
}

fn manifest_of(id: StoreId, bounds: Bounds, segments: &[Arc<Segment>]) -> Manifest {
    Manifest {
        store_id: id.0.to_be_bytes().to_vec(),
        format: FORMAT,
        revision: bounds.progress.revision.get(),
        compacted: bounds.progress.compacted.get(),
        forgotten: bounds.progress.forgotten.get(),
        next_segment: bounds.next_segment,
        segments: segments.iter().map(|segment| segment.entry()).collect(),
    }
}

impl Log for SledLog {
    const BLOCKING: bool = true;

    fn append(&self, entries: &[Entry]) -> Result<Duration, AppendError> {
        let Some(last) = entries.last() else {
            return Ok(Duration::ZERO);
        };
        self.appends.fetch_add(1, Ordering::Relaxed);
        let mut head = self.writing.lock();
        let mut segments = self.segments();
        let refused = || AppendError::Refused(StoreError::Closed);
        if self.closed.load(Ordering::Acquire) {
            return Err(refused());
        }
        let mut active = segments.last().ok_or_else(refused)?;
        if active.bytes() >= self.segment_bytes {
            let before = entries.first().map_or(Revision::ZERO, |e| e.slot.revision);
            match self.rotate(before.previous()) {
                Ok(()) => segments = self.segments(),
                // A larger segment is no harm; the next group tries again.
                Err(error) => tracing::warn!(%error, "no new segment"),
            }
            if let Some(error) = self.distrusted() {
                return Err(AppendError::Refused(error));
            }
            active = segments.last().ok_or_else(refused)?;
        }
        let part_bytes = active.part_bytes();
        let parts: Vec<_> = entries
            .iter()
            .flat_map(|entry| record::encode(entry, part_bytes))
            .collect();
        let compacted = self.compacted.load(Ordering::Relaxed);
        active
            .append(&parts, compacted, self.id)
            .and_then(|synced| {
                let noted = head.set(last.slot.revision);
                noted.map(|()| synced).map_err(|error| WriteFailure {
                    why: error.to_string(),
                    disk_failed: false,
                })
            })
            .map_err(|failure| self.fail(active, failure))
    }

    fn heal(&self, above: Revision) -> Result<Option<Vec<Entry>>, StoreError> {
        if let Some(distrusted) = self.distrusted() {
            return Err(distrusted);
        }
        if self.failed.lock().is_none() {
            return Ok(None);
        }
        // Before `failed`, as everywhere.
        let mut head = self.writing.lock();
        let mut failed = self.failed.lock();
        let Some(failure) = &mut *failed else {
            return Ok(None);
        };
        if failure.tried.elapsed() < HEAL_INTERVAL || self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Io {
                context: "an earlier write failed, and the store takes no more until the disk does"
                    .into(),
                message: failure.why.clone(),
            });
        }
        failure.tried = Instant::now();
        let segments = self.segments();
        let Some(active) = segments.last() else {
            return Err(StoreError::Closed);
        };
        self.makes_room();
        active.reopen()?;
        if let Err(error) = active.sync() {
            self.distrust(error.to_string());
            return Err(error);
        }
        let mut entries = Vec::new();
        let checked = opening::check(active, None, &mut |stored| {
            if let Stored::Entry(entry) = stored
                && entry.slot.revision > above
            {
                entries.push(entry);
            }
        })?;
        let newest = checked.revision.max(active.first.saturating_sub(1));
        if newest < above.get() {
            return Err(active.damaged(&format!(
                "it ends at revision {newest}, and {above} was acknowledged"
            )));
        }
        *active.tally.lock() = checked;
        if let Some(last) = entries.last() {
            head.set(last.slot.revision)?;
        }
        *failed = None;
        Ok(Some(entries))
    }

    fn read(&self, slot: Slot) -> Result<Option<Entry>, StoreError> {
        let segments = self.segments();
        let Some(segment) = Self::segment_of(&segments, slot.revision) else {
            return Ok(None);
        };
        let read = segment.read(slot);
        self.rest_surplus(&segments);
        Ok(read?.and_then(|stored| match stored {
            Stored::Entry(entry) => Some(entry),
            Stored::Answer(..) => None,
        }))
    }

    fn scan(
        &self,
        after: Revision,
        to: Revision,
        visit: &mut dyn FnMut(Entry) -> bool,
    ) -> Result<(), StoreError> {
        let segments = self.segments();
        let range = (
            Bound::Excluded(Slot::after(after)),
            Bound::Included(Slot::after(to)),
        );
        let mut outcome = Ok(true);
        for segment in segments.iter() {
            if segment.last.load(Ordering::Acquire) <= after.get() || segment.first > to.get() {
                continue;
            }
            segment.scan(range, &mut |item| {
                match item {
                    Ok((Stored::Entry(entry), _)) => outcome = Ok(visit(entry)),
                    Ok((Stored::Answer(..), _)) => {}
                    Err(error) => outcome = Err(error),
                }
                matches!(outcome, Ok(true))
            })?;
            self.rest_surplus(&segments);
            if !matches!(outcome, Ok(true)) {
                break;
            }
        }
        outcome.map(|_| ())
    }

    fn set_compacted(&self, progress: Progress) -> Result<(), StoreError> {
        let mut bounds = self.bounds.lock();
        let segments = self.segments();
        let mut to = *bounds;
        to.progress.revision = to.progress.revision.max(progress.revision);
        to.progress.compacted = progress.compacted;
        to.progress.forgotten = progress.forgotten;
        self.check_open()?;
        if let Err(error) = manifest_of(self.id, to, &segments).write(&self.folder) {
            if matches!(error, NotReplaced::Unsynced(_)) {
                *bounds = to;
                let error = StoreError::from(error);
                self.distrust(error.to_string());
                return Err(error);
            }
            return Err(error.into());
        }
        *bounds = to;
        let compacted = progress.compacted.get();
        self.compacted.store(compacted, Ordering::Relaxed);
        self.step("bounded");
        Ok(())
    }

    fn discard(&self, dropped: &[Dropped]) {
        let mut meanwhile = self.discarded_meanwhile.lock();
        if let Some(meanwhile) = &mut *meanwhile {
            meanwhile.extend_from_slice(dropped);
        }
        count_garbage(&self.segments(), dropped);
    }

    fn reclaim(&self, live: &Live<'_>) -> Result<(), StoreError> {
        self.free_garbage(live)
    }

    fn bytes(&self) -> u64 {
        let active = self.segments().last().map_or(0, |s| s.disk_bytes());
        self.sealed_bytes.load(Ordering::Relaxed) + active
    }

    fn room(&self) -> Room {
        if self.quota_bytes > 0 {
            let (used, quota) = (self.bytes(), self.quota_bytes);
            let step = segment::page_segment_bytes(self.segment_bytes);
            let room = room::of_quota(used, quota, step)
                .room(|| format!("{used} bytes are used of a quota of {quota}"));
            if room != Room::Ample {
                return room;
            }
        }
        if self.min_free_bytes > 0
            && let Some(free) = folder::free_bytes(&self.folder)
        {
            let least = self.min_free_bytes;
            if room::takes_ballast(free, least) {
                self.ballast.release();
            }
            return room::of_disk(free, least)
                .room(|| format!("{free} bytes are free on the disk, and {least} are to stay so"));
        }
        Room::Ample
    }

    fn failure(&self) -> Option<String> {
        self.distrusted().map(|error| error.to_string())
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let _head = self.writing.lock();
        // Who replaces the manifest looks at `closed` under this.
        let _bounds = self.bounds.lock();
        for segment in self.segments().iter() {
            segment.close();
        }
        *self.lock.lock() = None;
    }
}

/// Counts what was discarded towards the segments that hold it.
fn count_garbage(segments: &[Arc<Segment>], dropped: &[Dropped]) {
    for dropped in dropped {
        if let Some(segment) = SledLog::segment_of(segments, dropped.slot.revision) {
            let size = u64::from(dropped.size);
            segment.garbage.fetch_add(size, Ordering::Relaxed);
        }
    }
}
