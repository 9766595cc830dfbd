//! Salvage: what is still readable of a damaged store becomes a new one, with a new
//! identity. The damaged files are kept. Never run implicitly.

use std::{
    collections::HashMap,
    fs,
    ops::Bound,
    path::{Path, PathBuf},
    sync::Arc,
    time::UNIX_EPOCH,
};

use super::{
    SledStore,
    folder::{self, io_error, remove_file, sync_folder, write_synced},
    head::{self, Head},
    manifest::{self, Manifest, SegmentEntry},
    opening,
    record::Stored,
    restore,
    segment::{self, Segment},
};
use crate::{
    limits::MAX_PAGE_SEGMENT_BYTES,
    store::{
        Key, Object, Revision, StoreError, StoreOptions,
        log::Slot,
        plan::{new_store_id, random},
    },
};

/// The new store is made here before it takes the damaged one's place.
const REPAIRING: &str = "repairing";
/// In it: it is complete, and only has to be moved.
const READY: &str = "READY";

/// What a repair found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Objects in the new store.
    pub objects: u64,
    /// The new store's revision.
    pub revision: Revision,
    /// Records that were readable.
    pub records_read: u64,
    /// What is lost or unknown, a sentence each. Empty: everything was there.
    pub losses: Vec<String>,
    /// Where the damaged files are now.
    pub kept: PathBuf,
}

impl SledStore {
    /// Makes a new store of what is readable in a damaged folder, in its place; the
    /// damaged files are moved to `damaged-<time>` within it. History is not kept: the
    /// objects are as of the newest revision that was found. Blocks.
    ///
    /// # Errors
    /// [`StoreError::Unusable`] if the folder is in use or holds no store;
    /// [`StoreError::Io`]. The damaged files are untouched then, and it can be run again.
    pub fn repair(
        path: impl AsRef<Path>,
        options: &StoreOptions,
    ) -> Result<RepairReport, StoreError> {
        let folder = path.as_ref();
        let _lock = folder::lock(folder)?;
        let repairing = folder.join(REPAIRING);
        opening::make_room(folder, options);
        let mut report = RepairReport::default();
        if repairing.join(READY).exists() {
            report = read_report(&repairing.join(READY))?;
            report
                .losses
                .push("an earlier repair was interrupted and is finished now".into());
        } else {
            if repairing.exists() {
                fs::remove_dir_all(&repairing)
                    .map_err(|error| io_error("removing", &repairing, &error))?;
            }
            let objects = salvage(folder, &mut report)?;
            fs::create_dir(&repairing).map_err(|error| io_error("creating", &repairing, &error))?;
            let id = new_store_id(&mut random(options.seed));
            let objects = objects.into_iter().map(Ok::<_, StoreError>);
            restore::write(&repairing, id, options, report.revision, objects)?;
            write_synced(&repairing.join(READY), &report_text(&report))?;
            sync_folder(&repairing)?;
            sync_folder(folder)?;
        }
        report.kept = swap(folder, &repairing, options)?;
        Ok(report)
    }
}

/// What was found, a line each: for the repair that finishes an interrupted one.
fn report_text(report: &RepairReport) -> Vec<u8> {
    let (objects, revision, read) = (report.objects, report.revision, report.records_read);
    let mut text = format!("{objects} {} {read}\n", revision.get());
    for loss in &report.losses {
        text.push_str(&loss.replace('\n', " "));
        text.push('\n');
    }
    text.into_bytes()
}

/// What it does not say is as if nothing had been found: the new store is there all the same.
fn read_report(path: &Path) -> Result<RepairReport, StoreError> {
    let text = fs::read(path).map_err(|error| io_error("reading", path, &error))?;
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines();
    let figures = lines.next().unwrap_or_default().split(' ');
    let mut figures = figures.map(|figure| figure.parse().unwrap_or_default());
    let mut next = || figures.next().unwrap_or_default();
    Ok(RepairReport {
        objects: next(),
        revision: Revision::new(next()),
        records_read: next(),
        losses: lines.map(str::to_owned).collect(),
        kept: PathBuf::new(),
    })
}

/// Whoever opens what a repair is about to replace would lose what is written from then on.
pub(super) fn check_finished(folder: &Path) -> Result<(), StoreError> {
    if folder.join(REPAIRING).join(READY).exists() {
        return Err(StoreError::Unusable(format!(
            "a repair of {} did not finish: run `listwatchd repair` again",
            folder.display()
        )));
    }
    Ok(())
}

/// Moves the damaged files aside and the new ones in. The manifest goes first and comes
/// last, so that in between there is no store to be opened.
fn swap(folder: &Path, new: &Path, options: &StoreOptions) -> Result<PathBuf, StoreError> {
    let now = options.clock.now().duration_since(UNIX_EPOCH);
    let kept = folder.join(format!("damaged-{}", now.unwrap_or_default().as_secs()));
    let rename = |from: PathBuf, to: PathBuf| {
        fs::rename(&from, &to).map_err(|error| io_error("moving", &from, &error))
    };
    let parts = |folder: &Path| -> Result<Vec<String>, StoreError> {
        let mut names = folder::names(folder)?;
        names.retain(|name| {
            name == head::FILE || name == manifest::FILE || segment::number_of(name).is_some()
        });
        // "MANIFEST" first.
        names.sort_by_key(|name| name != manifest::FILE);
        Ok(names)
    };
    // Once the first new file is in, what is there is new.
    let begun = !new.join(head::FILE).exists();
    fs::create_dir_all(&kept).map_err(|error| io_error("creating", &kept, &error))?;
    sync_folder(folder)?;
    if !begun {
        for name in parts(folder)? {
            rename(folder.join(&name), kept.join(&name))?;
        }
        sync_folder(&kept)?;
        sync_folder(folder)?;
        rename(new.join(head::FILE), folder.join(head::FILE))?;
        // Before anything new follows it, which would be taken for old.
        sync_folder(folder)?;
    }
    let mut incoming = parts(new)?;
    incoming.reverse();
    for name in incoming {
        if name == manifest::FILE {
            sync_folder(folder)?;
        }
        rename(new.join(&name), folder.join(&name))?;
    }
    sync_folder(folder)?;
    remove_file(&new.join(READY))?;
    fs::remove_dir_all(new).map_err(|error| io_error("removing", new, &error))?;
    sync_folder(folder)?;
    Ok(kept)
}

/// Reads whatever can be read: the newest version of each key.
fn salvage(folder: &Path, report: &mut RepairReport) -> Result<Vec<Object>, StoreError> {
    let manifest = match Manifest::read(folder) {
        Ok(manifest) => manifest,
        Err(StoreError::Damaged(why)) => {
            report.losses.push(why);
            None
        }
        Err(error) => return Err(error),
    };
    let found: Vec<u64> = folder::names(folder)?
        .iter()
        .filter_map(|name| segment::number_of(name))
        .collect();
    let named: Vec<SegmentEntry> = match &manifest {
        Some(manifest) => manifest.segments.clone(),
        None => guess(folder, &found),
    };
    if named.is_empty() {
        return Err(StoreError::Unusable(format!(
            "{} holds no store",
            folder.display()
        )));
    }
    let mut newest: HashMap<Key, Arc<crate::store::log::Entry>> = HashMap::new();
    let mut told = None;
    if let Some(manifest) = &manifest {
        report.revision = Revision::new(manifest.revision);
        if let Ok((_, revision)) = Head::open(folder, manifest.id()) {
            report.revision = report.revision.max(revision);
            told = Some(revision);
        } else {
            report
                .losses
                .push("HEAD is unreadable: whether the newest writes are there is unknown".into());
        }
    }
    let acknowledged = report.revision;
    let mut reached = Revision::ZERO;
    for entry in &named {
        let before = report.records_read;
        let read = salvage_segment(folder, entry, told, report, &mut |stored| {
            let Stored::Entry(entry) = stored else {
                return;
            };
            reached = reached.max(entry.slot.revision);
            let known = newest.get(&entry.object.key);
            if known.is_none_or(|known| known.slot < entry.slot) {
                newest.insert(entry.object.key.clone(), Arc::new(entry));
            }
        });
        let read_here = report.records_read - before;
        if let Err(error) = read {
            let number = entry.number;
            report.losses.push(format!(
                "segment {number}: {read_here} records were readable, then: {error}"
            ));
        }
    }
    report.revision = report.revision.max(reached);
    if reached < acknowledged && !report.losses.is_empty() {
        report.losses.push(format!(
            "the newest record found is of revision {reached}; {acknowledged} was acknowledged"
        ));
    }
    if !report.losses.is_empty() {
        report.losses.push(
            "objects whose newest version is lost are as an older one left them, or missing; \
             deleted ones may be back"
                .into(),
        );
    }
    let mut objects: Vec<Object> = newest
        .into_values()
        .filter(|entry| !entry.is_deletion())
        .map(|entry| {
            let object = &entry.object;
            Object::new(
                object.key.clone(),
                object.uid,
                object.revision,
                object.create_revision,
                object.update_time,
                object.content.clone(),
            )
        })
        .collect();
    objects.sort_by(|a, b| (a.revision, &a.key).cmp(&(b.revision, &b.key)));
    report.objects = objects.len() as u64;
    Ok(objects)
}

fn salvage_segment(
    folder: &Path,
    entry: &SegmentEntry,
    told: Option<Revision>,
    report: &mut RepairReport,
    visit: &mut dyn FnMut(Stored),
) -> Result<(), StoreError> {
    // sled writes to what it opens, so it opens a copy.
    let copy = folder.join(format!("{REPAIRING}-copy"));
    let aside = Aside::copy(&segment::folder_of(folder, entry.number), &copy)?;
    let segment = Segment::open(
        &aside.0,
        &SegmentEntry {
            number: 0,
            ..entry.clone()
        },
        &Arc::default(),
    )?;
    let before = report.records_read;
    let mut bad = 0u64;
    // What is above both the summary and HEAD is of a group that was cut short, and that nobody
    // was told of. HEAD alone may be behind, after a power failure.
    let finished = match (told, segment.summary()) {
        (Some(told), Ok(Some(summary))) if !entry.sealed => {
            Slot::after(told.max(Revision::new(summary.revision)))
        }
        _ => Slot::after(Revision::MAX),
    };
    let range = (Bound::Unbounded, Bound::Included(finished));
    segment.scan(range, &mut |item| {
        match item {
            Ok((stored, parts)) => {
                report.records_read += parts.len() as u64;
                visit(stored);
            }
            Err(error) => {
                bad += 1;
                if bad <= 3 {
                    report.losses.push(error.to_string());
                }
            }
        }
        true
    })?;
    if bad > 3 {
        let number = entry.number;
        report
            .losses
            .push(format!("segment {number}: {bad} events are unreadable"));
    }
    let there = report.records_read - before;
    if entry.sealed && there < entry.records {
        let number = entry.number;
        let of = entry.records;
        report.losses.push(format!(
            "segment {number}: records are missing, of {of} written"
        ));
    }
    Ok(())
}

/// A copy of a segment, removed when done.
struct Aside(PathBuf);

impl Aside {
    fn copy(from: &Path, to: &Path) -> Result<Self, StoreError> {
        let failed = |error: std::io::Error| io_error("copying", from, &error);
        if to.exists() {
            fs::remove_dir_all(to).map_err(failed)?;
        }
        let target = to.join("seg-0");
        fs::create_dir_all(&target).map_err(failed)?;
        let aside = Self(to.to_owned());
        for entry in fs::read_dir(from).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_type().map_err(failed)?.is_file() {
                fs::copy(entry.path(), target.join(entry.file_name())).map_err(failed)?;
            }
        }
        Ok(aside)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Without a manifest: all segments that are there. sled says its segment size itself.
fn guess(folder: &Path, numbers: &[u64]) -> Vec<SegmentEntry> {
    numbers
        .iter()
        .map(|number| {
            let conf = segment::folder_of(folder, *number).join("conf");
            // Text with a checksum after it.
            let size = fs::read(conf).ok().and_then(|bytes| {
                let text = String::from_utf8_lossy(&bytes);
                let line = text
                    .lines()
                    .find_map(|l| l.strip_prefix("segment_size: "))?;
                line.trim().parse().ok()
            });
            SegmentEntry {
                number: *number,
                page_segment_bytes: size.unwrap_or(MAX_PAGE_SEGMENT_BYTES),
                ..SegmentEntry::default()
            }
        })
        .collect()
}
