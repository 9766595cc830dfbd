//! The store's shared heart: the log, what is derived from it, and the feed.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use tokio::sync::broadcast;

use super::{
    Commit, CommitError, Event, Feed, Progress, StoreError, StoreFigures, StoreId, StoreOptions,
    compaction::Pins,
    deadlines::{Deadlines, Due},
    index::{Index, NewVersion},
    log::{AppendError, Entry, Log, Room},
    plan::{Group, Planner},
    timeline::Timeline,
};
use crate::{
    limits::FEED_GROUPS,
    sync::{Mutex, RwLock},
};

/// Derived from the log, and changed only together, under one lock that is never held
/// while a disk is waited for.
#[derive(Default)]
pub(super) struct State {
    pub(super) index: Index,
    pub(super) progress: Progress,
    pub(super) deadlines: Deadlines,
    pub(super) timeline: Timeline,
}

impl State {
    /// Takes an entry in. Entries come in order.
    pub(super) fn add(&mut self, entry: &Entry) {
        let object = &entry.object;
        let size = entry.size();
        let superseded = self.index.add(&NewVersion {
            key: &object.key,
            slot: entry.slot,
            uid: object.uid,
            create_revision: object.create_revision,
            size,
            tombstone: entry.is_deletion(),
            time: object.update_time,
        });
        if let Some(old) = superseded {
            self.deadlines.clear(old);
        }
        if let Some(time) = object.content.expire_time {
            self.deadlines
                .set(entry.slot, object.key.clone(), size, time);
        }
        self.timeline.note(object.update_time, entry.slot.revision);
        self.progress.revision = self.progress.revision.max(entry.slot.revision);
    }
}

/// See the module.
pub(super) struct Core<L> {
    pub(super) id: StoreId,
    pub(super) log: L,
    pub(super) options: StoreOptions,
    pub(super) state: RwLock<State>,
    /// A copy of the state's, so that asking for it never waits for a publication.
    pub(super) progress: Mutex<Progress>,
    pub(super) feed: broadcast::Sender<Arc<[Arc<Commit>]>>,
    /// Revisions that someone keeps readable.
    pub(super) pins: Arc<Mutex<Pins>>,
    /// One compaction decides at a time.
    pub(super) deciding: Mutex<()>,
    pub(super) figures: Arc<StoreFigures>,
}

/// What the writer is asked to do.
pub(super) enum Request {
    Batch(super::WriteBatch),
    Expire(Vec<Due>),
}

/// What it answers.
pub(super) type Answer = Result<super::Committed, CommitError>;

impl<L: Log> Core<L> {
    pub(super) fn new(id: StoreId, log: L, options: StoreOptions, state: State) -> Self {
        let progress = Mutex::new(state.progress);
        Self {
            id,
            log,
            options,
            state: RwLock::new(state),
            progress,
            feed: broadcast::channel(FEED_GROUPS).0,
            pins: Arc::default(),
            deciding: Mutex::new(()),
            figures: Arc::default(),
        }
    }

    /// The newest commit's time; commits never go back behind it.
    pub(super) fn last_time(&self) -> SystemTime {
        self.state.read().timeline.last_time()
    }

    pub(super) fn progress(&self) -> Progress {
        *self.progress.lock()
    }

    /// New commits from now on: the lock makes the hand-over from reading exact.
    pub(super) fn subscribe(&self) -> Feed {
        let _state = self.state.read();
        self.feed.subscribe()
    }

    /// Writes a group: plans each request, makes all durable at once, publishes, and
    /// returns the answers in order.
    pub(super) fn write(&self, planner: &mut Planner, requests: &[Request]) -> Vec<Answer> {
        if let Err(error) = self.heal(planner) {
            return requests
                .iter()
                .map(|_| Err(CommitError::Store(error.clone())))
                .collect();
        }
        let begun = Instant::now();
        let now = self.options.clock.now();
        let before = self.progress().revision;
        let room = self.log.room();
        let mut group = planner.group(before, now, room.clone());
        let answers: Vec<Answer> = {
            let state = self.state.read();
            requests
                .iter()
                .map(|request| match request {
                    Request::Batch(batch) => planner.add(&state.index, &mut group, batch),
                    Request::Expire(due) => {
                        if let Room::Nothing(why) = &room {
                            return Err(CommitError::StorageFull(why.clone()));
                        }
                        planner.add_expired(&state.index, &mut group, due);
                        Ok(super::Committed {
                            revision: group.revision,
                            objects: Vec::new(),
                            replayed: false,
                        })
                    }
                })
                .collect()
        };
        if group.entries.is_empty() {
            planner.committed(&mut group);
            return answers;
        }
        match self.log.append(&group.entries) {
            Ok(synced) if L::BLOCKING => self.figures.sync.observe_time(synced),
            Ok(_) => {}
            Err(error) => {
                let error = match error {
                    AppendError::Refused(error) => CommitError::Store(error),
                    AppendError::Uncertain(why) => CommitError::Uncertain(why),
                };
                self.figures.failed.inc();
                tracing::error!(%error, "a group commit failed");
                return requests.iter().map(|_| Err(error.clone())).collect();
            }
        }
        planner.committed(&mut group);
        self.publish(&group);
        self.figures.commit.observe_time(begun.elapsed());
        self.figures.group.observe(requests.len() as u64);
        answers
    }

    /// After a failed write: goes on where the log says, or says why not.
    fn heal(&self, planner: &mut Planner) -> Result<(), StoreError> {
        let above = self.progress().revision;
        let Some(entries) = self.log.heal(above)? else {
            return Ok(());
        };
        // They were answered "uncertain", and turn out to be stored.
        let mut group = planner.group(above, self.options.clock.now(), Room::Ample);
        for entry in &entries {
            group.revision = group.revision.max(entry.slot.revision);
            if let Some(request) = &entry.request {
                let time = entry.object.update_time;
                planner
                    .replays
                    .remember(request.clone(), entry.slot.revision, time);
            }
        }
        group.entries = entries;
        self.publish(&group);
        tracing::info!(revision = %group.revision, "the store takes writes again");
        Ok(())
    }

    /// Shows what is durable: index, progress and feed change as one.
    fn publish(&self, group: &Group) {
        if group.entries.is_empty() {
            return;
        }
        let commits: Arc<[Arc<Commit>]> = commits(&group.entries).into();
        let mut state = self.state.write();
        for entry in &group.entries {
            state.add(entry);
            self.figures.count(entry.change);
        }
        state.progress.revision = group.revision;
        *self.progress.lock() = state.progress;
        // No subscriber is no error.
        let _ = self.feed.send(commits);
    }
}

fn commits(entries: &[Entry]) -> Vec<Arc<Commit>> {
    entries
        .chunk_by(|a, b| a.slot.revision == b.slot.revision)
        .filter_map(|entries| {
            let first = entries.first()?;
            Some(Arc::new(Commit {
                revision: first.slot.revision,
                time: first.object.update_time,
                events: entries.iter().map(event).collect(),
                trace: first.trace.clone(),
            }))
        })
        .collect()
}

/// The event of an entry, without the version before.
pub(super) fn event(entry: &Entry) -> Event {
    Event {
        change: entry.change,
        object: entry.object.clone(),
        previous_revision: entry.previous_revision,
        previous: None,
    }
}
