//! Reads: positions from the index under its lock, then entries from the log without it.
//!
//! Compaction may overtake a read between the two. It moves its bound before anything
//! goes, so a read that misses an entry looks at the bound again: still above it, the log
//! is damaged; else the answer is `Compacted`.

use std::{ops::Bound, sync::Arc};

use super::{
    Collection, Commit, Event, Key, KeyRange, LogChunk, Object, ObjectName, Page, PageLimit,
    Revision, StoreError,
    core::{Core, event},
    index::Names,
    log::{Entry, Log, Slot},
};
use crate::limits::{INDEX_SCAN_NAMES, INDEX_SLICE_NAMES, MAX_SCAN_RECORDS};

/// What one object counts towards a page's bytes.
fn size(object: &Object) -> usize {
    let labels: usize = object
        .content
        .labels
        .iter()
        .map(|(k, v)| k.len() + v.len())
        .sum();
    object.key.namespace().len() + object.key.name().len() + labels + object.content.value.len()
}

impl<L: Log> Core<L> {
    /// Whether a state is readable.
    pub(super) fn check_readable(&self, at: Revision) -> Result<(), StoreError> {
        let progress = self.progress();
        if at > progress.revision {
            return Err(StoreError::Future {
                requested: at,
                latest: progress.revision,
            });
        }
        if at < progress.compacted {
            return Err(StoreError::Compacted {
                requested: at,
                compacted: progress.compacted,
                revision: progress.revision,
            });
        }
        Ok(())
    }

    fn missing(&self, at: Revision, slot: Slot) -> StoreError {
        match self.check_readable(at) {
            Err(compacted) => compacted,
            Ok(()) => damaged(slot),
        }
    }

    pub(super) fn get(&self, key: &Key, at: Revision) -> Result<Option<Arc<Object>>, StoreError> {
        self.check_readable(at)?;
        let version = self.state.read().index.version_at(key, at);
        let Some(version) = version.filter(|version| !version.is_tombstone()) else {
            // A compaction between the check and the look-up may have taken the version.
            self.check_readable(at)?;
            return Ok(None);
        };
        match self.log.read(version.slot())? {
            Some(entry) => Ok(Some(entry.object)),
            None => Err(self.missing(at, version.slot())),
        }
    }

    pub(super) fn list(
        &self,
        range: &KeyRange,
        at: Revision,
        limit: PageLimit,
    ) -> Result<Page, StoreError> {
        self.check_readable(at)?;
        let mut objects = Vec::new();
        let mut bytes = 0usize;
        let mut after = range.after.clone();
        let items = limit.items.max(1);
        loop {
            // One more than fits tells whether there is a next page.
            let left = items.saturating_sub(objects.len());
            let want = left.saturating_add(1).min(INDEX_SLICE_NAMES);
            let (names, end) =
                self.state
                    .read()
                    .index
                    .names(range, &after, at, want, INDEX_SCAN_NAMES);
            self.check_readable(at)?;
            for (name, slot) in names {
                if objects.len() >= items || (!objects.is_empty() && bytes >= limit.bytes) {
                    return Ok(Page {
                        next: objects
                            .last()
                            .map(|last: &Arc<Object>| last.key.object.clone()),
                        objects,
                    });
                }
                let Some(entry) = self.log.read(slot)? else {
                    return Err(self.missing(at, slot));
                };
                debug_assert_eq!(entry.object.key.object, name);
                bytes += size(&entry.object);
                objects.push(entry.object);
            }
            match end {
                Names::End => {
                    return Ok(Page {
                        objects,
                        next: None,
                    });
                }
                Names::Upto(name) => after = Bound::<ObjectName>::Excluded(name),
            }
        }
    }

    pub(super) fn read_log(
        &self,
        collection: Option<&Collection>,
        after: Revision,
        limit: PageLimit,
    ) -> Result<LogChunk, StoreError> {
        self.check_readable(after)?;
        let head = self.progress().revision;
        let (entries, scanned_to) = match collection {
            Some(collection) => self.entries_of(collection, after, head, limit)?,
            None => self.entries(after, head, limit)?,
        };
        let mut commits = Vec::new();
        for entries in entries.chunk_by(|a, b| a.slot.revision == b.slot.revision) {
            let Some(first) = entries.first() else {
                continue;
            };
            let events = entries
                .iter()
                .map(|entry| self.with_previous(entry, after))
                .collect::<Result<Vec<_>, _>>()?;
            commits.push(Arc::new(Commit {
                revision: first.slot.revision,
                time: first.object.update_time,
                events,
                trace: first.trace.clone(),
            }));
        }
        // What compaction took meanwhile was not seen.
        self.check_readable(after)?;
        Ok(LogChunk {
            commits,
            scanned_to,
            head,
        })
    }

    /// Entries of all collections, whole commits, up to the limit.
    fn entries(
        &self,
        after: Revision,
        head: Revision,
        limit: PageLimit,
    ) -> Result<(Vec<Entry>, Revision), StoreError> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut bytes = 0usize;
        let mut scanned_to = head;
        self.log.scan(after, head, &mut |entry| {
            if let Some(last) = entries.last()
                && last.slot.revision != entry.slot.revision
                && (entries.len() >= limit.items || bytes >= limit.bytes)
            {
                scanned_to = last.slot.revision;
                return false;
            }
            bytes += entry.size() as usize;
            entries.push(entry);
            true
        })?;
        Ok((entries, scanned_to))
    }

    /// Entries of one collection, whole commits, up to the limit.
    fn entries_of(
        &self,
        collection: &Collection,
        after: Revision,
        head: Revision,
        limit: PageLimit,
    ) -> Result<(Vec<Entry>, Revision), StoreError> {
        let at_least = limit.items.clamp(1, MAX_SCAN_RECORDS);
        let (slots, all) = self
            .state
            .read()
            .index
            .history_after(collection, after, at_least);
        let mut scanned_to = if all {
            head
        } else {
            slots.last().map_or(head, |slot| slot.revision)
        };
        let mut entries: Vec<Entry> = Vec::with_capacity(slots.len());
        let mut bytes = 0usize;
        for slot in slots.into_iter().take_while(|slot| slot.revision <= head) {
            if let Some(last) = entries.last()
                && last.slot.revision != slot.revision
                && bytes >= limit.bytes
            {
                scanned_to = last.slot.revision;
                break;
            }
            let Some(entry) = self.log.read(slot)? else {
                return Err(self.missing(after, slot));
            };
            bytes += entry.size() as usize;
            entries.push(entry);
        }
        Ok((entries, scanned_to.min(head)))
    }

    fn with_previous(&self, entry: &Entry, after: Revision) -> Result<Event, StoreError> {
        let mut event = event(entry);
        let Some(revision) = entry.previous_revision else {
            return Ok(event);
        };
        let version = self
            .state
            .read()
            .index
            .version_at(&entry.object.key, revision)
            .filter(|version| version.slot().revision == revision);
        let found = match version {
            Some(version) => self.log.read(version.slot())?,
            None => None,
        };
        let Some(before) = found else {
            return Err(self.missing(after, Slot::first(revision)));
        };
        if event.is_deletion() {
            let object = &entry.object;
            event.object = Arc::new(
                before
                    .object
                    .deleted_at(object.revision, object.update_time),
            );
        }
        event.previous = Some(before.object);
        Ok(event)
    }

    pub(super) fn changes_since(
        &self,
        collection: Option<&Collection>,
        after: Revision,
        limit: PageLimit,
        tombstones: bool,
    ) -> Result<LogChunk, StoreError> {
        let check = || {
            let progress = self.progress();
            if after > progress.revision {
                return Err(StoreError::Future {
                    requested: after,
                    latest: progress.revision,
                });
            }
            if tombstones && after < progress.forgotten {
                return Err(StoreError::Forgotten {
                    requested: after,
                    forgotten: progress.forgotten,
                });
            }
            Ok(progress)
        };
        check()?;
        let at_least = limit.items.clamp(1, MAX_SCAN_RECORDS);
        let (mut head, (slots, all)) = {
            let state = self.state.read();
            let newest = state
                .index
                .newest_after(collection, after, at_least, tombstones);
            (state.progress.revision, newest)
        };
        let mut scanned_to = if all {
            head
        } else {
            slots.last().map_or(head, |(slot, _)| slot.revision)
        };
        let mut entries: Vec<Entry> = Vec::with_capacity(slots.len());
        let mut bytes = 0usize;
        let mut reached = after;
        for (slot, key) in slots {
            if slot.revision != reached && !entries.is_empty() && bytes >= limit.bytes {
                scanned_to = reached;
                break;
            }
            reached = slot.revision;
            match self.log.read(slot)? {
                Some(entry) => {
                    bytes += entry.size() as usize;
                    entries.push(entry);
                }
                // Superseded and compacted since: its successor is further on than the
                // head of a moment ago, and nothing is whole before it.
                None if !self.state.read().index.is_newest(&key, slot) => {
                    head = head.max(self.progress().revision);
                }
                None => return Err(damaged(slot)),
            }
        }
        check()?;
        let commits = entries
            .chunk_by(|a, b| a.slot.revision == b.slot.revision)
            .filter_map(|entries| {
                let first = entries.first()?;
                let events = entries.iter().map(net_event).collect();
                Some(Arc::new(Commit {
                    revision: first.slot.revision,
                    time: first.object.update_time,
                    events,
                    // A net difference tells of no single write.
                    trace: None,
                }))
            })
            .collect();
        Ok(LogChunk {
            commits,
            scanned_to,
            head,
        })
    }
}

/// As part of a net difference: what it replaced is not said, since the client may never
/// have seen that.
fn net_event(entry: &Entry) -> Event {
    Event {
        previous_revision: None,
        ..event(entry)
    }
}

fn damaged(slot: Slot) -> StoreError {
    StoreError::Damaged(format!(
        "event {} of revision {} is missing from the log; restart to have all of it checked, \
         then `listwatchd repair` it or import a backup",
        slot.index, slot.revision
    ))
}
