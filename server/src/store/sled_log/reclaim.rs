//! Freeing room: what survives of old segments is copied into a new one, the manifest
//! names it in their place, and their folders go when their last reader has.
//!
//! A crash at any step leaves either manifest; segments that it does not name are removed
//! at opening. Deletions that are forgotten are still copied while an older segment holds
//! garbage: it may be the object they deleted, which the next opening would bring back.

use std::{
    ops::{Bound, Range},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use super::{
    SledLog, count_garbage,
    folder::io_error,
    record::{Part, Stored, encode_answer},
    segment::{self, Segment},
    worth::{self, Load},
};
use crate::{
    limits::{COPY_BATCH_RECORDS, REMOVAL_PAUSE, REMOVAL_STEP_BYTES},
    store::{
        Key, StoreError,
        log::{Live, Log, Room, Slot},
    },
};

/// Without an append for so long, nobody writes.
const WRITERS_GONE: Duration = Duration::from_millis(250);

impl SledLog {
    pub(super) fn free_garbage(&self, live: &Live<'_>) -> Result<(), StoreError> {
        let full = self.room() != Room::Ample;
        self.retire_active(full)?;
        // A thread of its own: a priority cannot be raised again, and threads that sled
        // starts inherit it, which those of the written segment must not.
        std::thread::scope(|scope| {
            std::thread::Builder::new()
                .name("store-copier".into())
                .spawn_scoped(scope, || {
                    give_way();
                    self.copy_survivors(full, live)
                })
                .map_err(|error| io_error("starting a thread for", &self.folder, &error))?
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn copy_survivors(&self, full: bool, live: &Live<'_>) -> Result<(), StoreError> {
        *self.discarded_meanwhile.lock() = Some(Vec::new());
        let mut done = Ok(());
        // Each run frees something, so this ends; a bound all the same.
        for _ in 0..10_000 {
            let segments = self.segments();
            let Some(run) = self.next_run(&segments, full) else {
                break;
            };
            // Where the new manifest may not last, the old segments are still needed.
            done = self
                .copy(&segments, &run, live)
                .and_then(|()| self.distrusted().map_or(Ok(()), Err));
            if done.is_err() {
                break;
            }
            let old = segments.get(run.clone()).unwrap_or_default().to_vec();
            drop(segments);
            for segment in old {
                self.remove(segment);
            }
        }
        *self.discarded_meanwhile.lock() = None;
        self.restore_ballast();
        done
    }

    /// Seals the written segment if copying it would be worth it.
    fn retire_active(&self, full: bool) -> Result<(), StoreError> {
        let _head = self.writing.lock();
        if self.closed.load(Ordering::Acquire) {
            return Err(StoreError::Closed);
        }
        if self.failed.lock().is_some() || self.distrusted().is_some() {
            return Ok(());
        }
        let segments = self.segments();
        let Some(active) = segments.last() else {
            return Ok(());
        };
        if worth::seals(Load::of(active), self.segment_bytes, full) {
            let newest = active.tally.lock().revision;
            self.rotate(crate::store::Revision::new(newest))?;
            self.step("sealed");
        }
        Ok(())
    }

    fn next_run(&self, segments: &[Arc<Segment>], full: bool) -> Option<Range<usize>> {
        let (_, sealed) = segments.split_last()?;
        let loads: Vec<Load> = sealed.iter().map(|segment| Load::of(segment)).collect();
        worth::next_run(&loads, self.segment_bytes, full)
    }

    /// Three times normally, so that writers keep their rate; less when garbage comes
    /// faster than it goes, else files would grow without end; nothing when the store is
    /// full and writes wait for the room.
    fn rest(&self, segments: &[Arc<Segment>]) -> u32 {
        if self.room() != Room::Ample {
            return 0;
        }
        let all: u64 = segments.iter().map(|segment| segment.bytes()).sum();
        let garbage = segments.iter().map(|s| s.garbage.load(Ordering::Relaxed));
        let garbage: u64 = garbage.sum();
        let live = all.saturating_sub(garbage);
        if garbage > 4 * (live + self.segment_bytes) {
            1
        } else {
            3
        }
    }

    fn copy(
        &self,
        segments: &[Arc<Segment>],
        run: &Range<usize>,
        live: &Live<'_>,
    ) -> Result<(), StoreError> {
        let old = segments.get(run.clone()).unwrap_or_default();
        let (Some(first), Some(last)) = (old.first(), old.last()) else {
            return Ok(());
        };
        let older_garbage = segments
            .iter()
            .take(run.start)
            .any(|segment| segment.garbage.load(Ordering::Relaxed) > 0);
        let number = {
            let mut bounds = self.bounds.lock();
            bounds.next_segment += 1;
            bounds.next_segment - 1
        };
        let size = segment::page_segment_bytes(self.segment_bytes);
        let new = Segment::create(&self.folder, number, first.first, size, &self.open)?;
        // Until the manifest names it, it is a leftover.
        new.doom();
        new.last
            .store(last.last.load(Ordering::Acquire), Ordering::Release);
        self.step("created");
        let mut copier = Copier {
            log: self,
            new: &new,
            live,
            older_garbage,
            rest: self.rest(segments),
            appends: (self.appends.load(Ordering::Relaxed), Instant::now()),
        };
        for segment in old {
            copier.segment(segment)?;
            self.rest_surplus(segments);
        }
        self.step("copied");
        new.finish()?;
        self.step("synced");
        let empty = new.tally.lock().records == 0;
        let new = (!empty).then(|| Arc::new(new));
        let replaced = {
            let mut bounds = self.bounds.lock();
            let now = self.segments();
            let mut all = now.to_vec();
            // Only the end of the list has changed since.
            all.splice(run.clone(), new.clone());
            let to = *bounds;
            self.replace(&mut bounds, to, all)
        };
        replaced?;
        if let Some(new) = new {
            new.keep();
            let mut meanwhile = self.discarded_meanwhile.lock();
            if let Some(meanwhile) = &mut *meanwhile {
                let range = new.first..=new.last.load(Ordering::Acquire);
                let (here, elsewhere) = meanwhile
                    .drain(..)
                    .partition(|dropped| range.contains(&dropped.slot.revision.get()));
                *meanwhile = elsewhere;
                count_garbage(&[new], &here);
            }
        }
        self.step("named");
        Ok(())
    }

    /// Removes a segment that the manifest no longer names; if it is being read, its last
    /// reader does. Beside writers the file goes step by step: a file system frees a large
    /// one under its journal's lock, for which every fdatasync waits.
    fn remove(&self, segment: Arc<Segment>) {
        segment.doom();
        let Some(segment) = Arc::into_inner(segment) else {
            return;
        };
        segment.close();
        let before = self.appends.load(Ordering::Relaxed);
        loop {
            let more = segment.shorten(REMOVAL_STEP_BYTES);
            self.step("shortened");
            if !more || self.closed.load(Ordering::Acquire) {
                break;
            }
            if self.appends.load(Ordering::Relaxed) != before && self.room() == Room::Ample {
                std::thread::sleep(REMOVAL_PAUSE);
            }
        }
    }

    /// For tests that kill the process at each step of a compaction.
    pub(super) fn step(&self, name: &str) {
        #[cfg(debug_assertions)]
        if std::env::var("LISTWATCH_TEST_ABORT_AT").is_ok_and(|at| at == name) {
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("aborts at {name}\n"),
            );
            std::process::abort();
        }
        let _ = name;
    }
}

struct Copier<'a> {
    log: &'a SledLog,
    new: &'a Segment,
    live: &'a Live<'a>,
    older_garbage: bool,
    /// How many times as long as it works it leaves disk and processor to others.
    rest: u32,
    /// Appends so far, and when there was last a new one.
    appends: (u64, Instant),
}

impl Copier<'_> {
    fn segment(&mut self, old: &Segment) -> Result<(), StoreError> {
        let mut from = Bound::Unbounded;
        loop {
            if self.log.closed.load(Ordering::Acquire) {
                return Err(StoreError::Closed);
            }
            let begun = Instant::now();
            let mut items = Vec::with_capacity(COPY_BATCH_RECORDS);
            let mut bad = None;
            old.scan((from, Bound::Unbounded), &mut |item| match item {
                Ok(item) => {
                    items.push(item);
                    items.len() < COPY_BATCH_RECORDS
                }
                Err(error) => {
                    bad = Some(error);
                    false
                }
            })?;
            if let Some(bad) = bad {
                return Err(bad);
            }
            let Some(last) = items.last().map(|(stored, _)| slot_of(stored)) else {
                return Ok(());
            };
            self.batch(items)?;
            from = Bound::Excluded(last);
            // Only where someone writes is there anyone to make way for.
            let appends = self.log.appends.load(Ordering::Relaxed);
            if appends != self.appends.0 {
                self.appends = (appends, Instant::now());
            }
            if self.appends.1.elapsed() < WRITERS_GONE {
                let rest = begun.elapsed() * self.rest;
                std::thread::sleep(rest.min(Duration::from_millis(50)));
            }
        }
    }

    fn batch(&mut self, items: Vec<(Stored, Vec<Part>)>) -> Result<(), StoreError> {
        let asked: Vec<(&Key, Slot)> = items
            .iter()
            .filter_map(|(stored, _)| match stored {
                Stored::Entry(entry) => Some((&entry.object.key, entry.slot)),
                Stored::Answer(..) => None,
            })
            .collect();
        let mut alive = (self.live)(&asked).into_iter();
        let now = self.log.clock.now();
        let recent = |time| {
            now.duration_since(time)
                .is_ok_and(|age| age <= self.log.request_window)
        };
        for (stored, parts) in &items {
            match stored {
                Stored::Entry(entry) => {
                    let time = entry.object.update_time;
                    if alive.next().unwrap_or(true) {
                        self.new.copy_in(parts)?;
                    } else if entry.is_deletion() && self.older_garbage {
                        let bytes = parts.iter().map(Part::bytes).sum::<u64>();
                        self.new.held.fetch_add(bytes, Ordering::Relaxed);
                        self.new.copy_in(parts)?;
                    } else if let Some(request) = &entry.request
                        && recent(time)
                    {
                        let size = self.new.part_bytes();
                        self.new
                            .copy_in(&encode_answer(entry.slot, request, time, size))?;
                    }
                }
                Stored::Answer(_, _, time) if recent(*time) => self.new.copy_in(parts)?,
                Stored::Answer(..) => {}
            }
        }
        Ok(())
    }
}

/// The calling thread runs when others leave it time: writers wait for the disk, and are
/// not to wait for a processor as well. Only Linux gives threads priorities of their own.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        let thread = rustix::thread::gettid();
        if let Err(error) = rustix::process::setpriority_process(Some(thread), 10) {
            tracing::debug!(%error, "compaction runs at normal priority");
        }
    }
}

fn slot_of(stored: &Stored) -> Slot {
    match stored {
        Stored::Entry(entry) => entry.slot,
        Stored::Answer(slot, ..) => *slot,
    }
}
