//! Opening a store: everything that was written is looked at, and must be there.
//!
//! - each record's checksum is right, and no part of one is missing;
//! - each sealed segment holds as many records as the manifest says, of the same set hash;
//! - the written segment agrees with the summary that came with its last group;
//! - the newest revision is not below HEAD.

use std::{
    fs,
    ops::Bound,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::AtomicUsize,
        mpsc::{SyncSender, sync_channel},
    },
};

use parking_lot::{Mutex, RwLock};

use super::{
    Bounds, SledLog, SledStore,
    folder::{self, Ballast, io_error, remove_file, sync_folder, write_synced},
    head::{self, Head},
    manifest::{self, Manifest, SegmentEntry},
    manifest_of,
    record::Stored,
    repair, room,
    segment::{self, Segment, Tally},
};
use crate::store::{
    Progress, Revision, StoreError, StoreId, StoreOptions,
    core::{Core, State},
    log::Dropped,
    log_store::LogStore,
    plan::{new_store_id, random},
    replay::Replays,
};

/// A store is being made here; without a manifest, what is there may go.
pub(super) const CREATING: &str = "CREATING";
/// A backup is being imported here.
pub(super) const RESTORING: &str = "RESTORING";

/// Chunks read ahead of the index, and their size.
const CHUNKS_AHEAD: usize = 4;
const CHUNK_RECORDS: usize = 512;
const CHUNK_BYTES: usize = 1 << 20;

impl SledStore {
    /// Opens the store in a folder, and checks all of it; makes a new one if the folder is
    /// empty or absent. Blocks, for seconds if the store is large.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if not everything is there that was written,
    /// [`StoreError::Unusable`] if the folder is in use or holds something else,
    /// [`StoreError::Io`]. Each says what to do.
    pub fn open(path: impl AsRef<Path>, options: StoreOptions) -> Result<Self, StoreError> {
        let folder = path.as_ref();
        fs::create_dir_all(folder).map_err(|error| io_error("creating", folder, &error))?;
        let lock = folder::lock(folder)?;
        repair::check_finished(folder)?;
        make_room(folder, &options);
        let mut random = random(options.seed);
        let manifest = match Manifest::read(folder)? {
            Some(manifest) => {
                // A process that was killed may not have synced its name, and what only the one before
                // needs is about to go.
                sync_folder(folder)?;
                manifest
            }
            None => {
                check_creatable(folder)?;
                create(folder, new_store_id(&mut random), &options)?
            }
        };
        for marker in [CREATING, RESTORING, manifest::NEW_FILE] {
            remove_file(&folder.join(marker))?;
        }
        let replays = Replays::new(options.request_window, options.max_requests);
        let opened = load(folder, &manifest, lock, &options, replays)?;
        let Opened {
            log,
            state,
            replays,
        } = opened;
        let core = Core::new(manifest.id(), log, options, state);
        // What was let go of before, and is still on disk.
        core.prune(false);
        core.log.settle();
        LogStore::threaded(core, random, replays)
            .map(Self)
            .map_err(|error| io_error("starting threads for", folder, &error))
    }
}

/// Gives the ballast back where a full disk would let no segment be opened. It is set aside again
/// when there is room to spare.
pub(super) fn make_room(folder: &Path, options: &StoreOptions) {
    let step = segment::page_segment_bytes(options.segment_bytes);
    if folder::free_bytes(folder).is_some_and(|free| !room::opens_segment(free, step)) {
        Ballast::new(folder, options.ballast_bytes).release();
    }
}

/// Whether a folder without a manifest may become a store.
pub(super) fn check_creatable(folder: &Path) -> Result<(), StoreError> {
    let names = folder::names(folder)?;
    let has = |name: &str| names.iter().any(|n| n == name);
    if has(RESTORING) {
        return Err(StoreError::Unusable(format!(
            "an import into {} did not finish: empty the folder and run it again",
            folder.display()
        )));
    }
    let ours = |name: &str| name == head::FILE || segment::number_of(name).is_some();
    if has(CREATING) {
        return Ok(());
    }
    if names.iter().any(|name| ours(name)) {
        return Err(StoreError::Damaged(format!(
            "{} is missing from {}; run `listwatchd repair`, or import a backup into a new folder",
            manifest::FILE,
            folder.display()
        )));
    }
    if let Some(foreign) = names.iter().find(|name| folder::is_foreign(name)) {
        return Err(StoreError::Unusable(format!(
            "{} is no store and not empty (it has {foreign:?}): give another data folder",
            folder.display()
        )));
    }
    Ok(())
}

/// Makes an empty store. The manifest comes last: without it, it starts anew.
pub(super) fn create(
    folder: &Path,
    id: StoreId,
    options: &StoreOptions,
) -> Result<Manifest, StoreError> {
    folder::sync_name_of(folder)?;
    write_synced(&folder.join(CREATING), b"")?;
    sync_folder(folder)?;
    let size = segment::page_segment_bytes(options.segment_bytes);
    let first = Arc::new(Segment::create(folder, 1, 1, size, &Arc::default())?);
    Head::create(folder, id, Revision::ZERO)?;
    let bounds = Bounds {
        progress: Progress::default(),
        next_segment: 2,
    };
    let manifest = manifest_of(id, bounds, &[first]);
    manifest.write(folder)?;
    Ok(manifest)
}

struct Opened {
    log: SledLog,
    state: State,
    replays: Replays,
}

fn load(
    folder: &Path,
    manifest: &Manifest,
    lock: std::fs::File,
    options: &StoreOptions,
    mut replays: Replays,
) -> Result<Opened, StoreError> {
    let (mut head, acknowledged) = Head::open(folder, manifest.id())?;
    remove_leftovers(folder, manifest)?;
    let mut state = State {
        progress: manifest.progress(),
        ..State::default()
    };
    let open = Arc::default();
    let mut answers = Vec::new();
    // One thread reads and checks, this one builds the index.
    let segments = std::thread::scope(|scope| {
        let (send, chunks) = sync_channel(CHUNKS_AHEAD);
        let open = &open;
        let scanner = scope.spawn(move || scan_all(folder, manifest, acknowledged, open, &send));
        for stored in chunks.into_iter().flatten() {
            match stored {
                Stored::Entry(entry) => {
                    state.add(&entry);
                    if let Some(request) = &entry.request {
                        let time = entry.object.update_time;
                        replays.remember(request.clone(), entry.slot.revision, time);
                    }
                }
                Stored::Answer(slot, request, time) => {
                    replays.remember(request, slot.revision, time);
                    answers.push(slot);
                }
            }
        }
        let panicked = |_| StoreError::Damaged("reading it panicked".into());
        scanner.join().map_err(panicked)?
    })?;
    let revision = state.progress.revision;
    if revision < acknowledged {
        return Err(StoreError::Damaged(format!(
            "{} ends at revision {revision}, and revision {acknowledged} was acknowledged: the \
             newest writes are missing; run `listwatchd repair`, or import a backup into a new \
             folder",
            folder.display()
        )));
    }
    if revision > acknowledged {
        // It is on disk, and from now on it is seen: it may not go any more.
        head.set(revision)?;
    }
    let log = SledLog {
        folder: folder.to_owned(),
        id: manifest.id(),
        segment_bytes: options.segment_bytes,
        quota_bytes: options.quota_bytes,
        min_free_bytes: options.min_free_bytes,
        request_window: options.request_window,
        clock: options.clock.clone(),
        ballast: Ballast::new(folder, options.ballast_bytes),
        segments: RwLock::new(Arc::new(segments)),
        open,
        bounds: Mutex::new(Bounds {
            progress: state.progress,
            next_segment: manifest.next_segment,
        }),
        compacted: state.progress.compacted.get().into(),
        writing: Mutex::new(head),
        failed: Mutex::default(),
        distrust: OnceLock::new(),
        appends: 0.into(),
        sealed_bytes: 0.into(),
        rotated_at: 0.into(),
        discarded_meanwhile: Mutex::default(),
        closed: false.into(),
        lock: Mutex::new(Some(lock)),
    };
    let answers: Vec<Dropped> = answers
        .iter()
        .map(|slot| Dropped {
            slot: *slot,
            size: 64,
        })
        .collect();
    super::count_garbage(&log.segments(), &answers);
    Ok(Opened {
        log,
        state,
        replays,
    })
}

/// Opens and checks every segment, and sends on what is in it, oldest first.
fn scan_all(
    folder: &Path,
    manifest: &Manifest,
    acknowledged: Revision,
    open: &Arc<AtomicUsize>,
    send: &SyncSender<Vec<Stored>>,
) -> Result<Vec<Arc<Segment>>, StoreError> {
    let mut segments = Vec::with_capacity(manifest.segments.len());
    for entry in &manifest.segments {
        let segment = Segment::open(folder, entry, open)?;
        // A sealed one is known by its hash.
        if !entry.sealed
            && let Some(summary) = segment.summary()?
            && !summary.store_id.is_empty()
            && summary.store_id != manifest.store_id
        {
            return Err(segment.damaged("it is of another store"));
        }
        if !entry.sealed && segment.is_ahead_of(acknowledged)? {
            segment.write_again()?;
        }
        let mut chunk = Vec::new();
        let mut bytes = 0;
        let tally = check(&segment, Some(entry), &mut |stored| {
            if let Stored::Entry(entry) = &stored {
                bytes += entry.size() as usize;
            }
            chunk.push(stored);
            if chunk.len() >= CHUNK_RECORDS || bytes >= CHUNK_BYTES {
                bytes = 0;
                // Nobody listens only after a panic, which the other thread reports.
                let _ = send.send(std::mem::take(&mut chunk));
            }
        })?;
        let _ = send.send(chunk);
        *segment.tally.lock() = tally;
        if entry.sealed {
            segment.rest();
        }
        segments.push(Arc::new(segment));
    }
    Ok(segments)
}

impl SledLog {
    /// After opening: sizes, and the ballast.
    fn settle(&self) {
        let segments = self.segments();
        let sealed = segments.split_last().map_or(0, |(_, sealed)| {
            sealed.iter().map(|segment| segment.disk_bytes()).sum()
        });
        self.sealed_bytes
            .store(sealed, std::sync::atomic::Ordering::Relaxed);
        self.restore_ballast();
    }

    pub(super) fn restore_ballast(&self) {
        if let Some(free) = folder::free_bytes(&self.folder) {
            self.ballast.restore(free, self.min_free_bytes);
        }
    }
}

/// Folders of segments that the manifest does not name: a crash left them.
fn remove_leftovers(folder: &Path, manifest: &Manifest) -> Result<(), StoreError> {
    for name in folder::names(folder)? {
        let Some(number) = segment::number_of(&name) else {
            continue;
        };
        if !manifest.segments.iter().any(|s| s.number == number) {
            let path = folder.join(name);
            fs::remove_dir_all(&path).map_err(|error| io_error("removing", &path, &error))?;
        }
    }
    Ok(())
}

/// Reads a segment whole and compares it with what was written: with the manifest's entry
/// if it is sealed, else with its own summary, beyond which there is at most an unfinished
/// group, which goes.
pub(super) fn check(
    segment: &Segment,
    entry: Option<&SegmentEntry>,
    visit: &mut dyn FnMut(Stored),
) -> Result<Tally, StoreError> {
    let sealed = entry.filter(|entry| entry.sealed);
    if sealed.is_none() {
        segment.cut_unfinished()?;
        // A process that was killed may have left what no disk has yet, and what is read here
        // will be seen.
        segment.sync()?;
    }
    let mut tally = Tally::default();
    let mut bad = None;
    segment.scan((Bound::Unbounded, Bound::Unbounded), &mut |item| {
        match item {
            Ok((stored, parts)) => {
                for part in &parts {
                    tally.add(&part.key, part.value.len(), part.checksum);
                }
                visit(stored);
            }
            Err(error) => bad = Some(error),
        }
        bad.is_none()
    })?;
    if let Some(bad) = bad {
        return Err(bad);
    }
    let (records, hash) = match sealed {
        Some(entry) => (entry.records, entry.hash),
        None => segment
            .summary()?
            .map_or((0, 0), |summary| (summary.records, summary.hash)),
    };
    if tally.records != records {
        let found = tally.records;
        return Err(segment.damaged(&format!("{found} records are there of {records}")));
    }
    if tally.hash != hash {
        return Err(segment.damaged("its records are not those that were written"));
    }
    Ok(tally)
}
