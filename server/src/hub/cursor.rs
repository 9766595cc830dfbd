//! A watch: a position in the history, and how to go on from it. It owns no queue; a slow
//! reader is only a cursor that stands further back.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use tokio::sync::watch;

use super::{
    CollectionHub, Hub, HubError, Position,
    snapshot::StateReader,
    window::{WindowRead, response_weight},
};
use crate::{
    selector::Selector,
    store::{
        Change, Collection, Commit, DeleteCause, Event, LogChunk, Object, PageLimit, Revision,
        StoreError, Uid,
    },
};

/// How changes are delivered to a client that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    /// Each change of each object, or the error that they are compacted.
    EveryChange,
    /// The newest change of each object; never ends for slowness.
    Latest,
}

/// One event as a client gets it.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// What it says.
    pub kind: DeliveryKind,
    /// The object after it; of a deletion: the last state with the deletion's revision.
    pub object: Arc<Object>,
    /// The version before, where it is known.
    pub previous: Option<Arc<Object>>,
}

/// The kinds of delivery: see `EventType` in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryKind {
    /// Part of the state.
    Existing,
    /// Created, or matches from now on.
    Added,
    /// Changed.
    Modified,
    /// Gone; `None`: it only stopped matching.
    Deleted(Option<DeleteCause>),
    /// Catching up: exists and has not changed.
    Unchanged,
    /// Catching up: exists and has changed.
    Upserted,
}

/// What a cursor's step gave.
#[derive(Debug, Default)]
pub struct Step {
    /// What to deliver, in order. Belongs together: the position is behind all of it.
    pub deliveries: Vec<Delivery>,
    /// A catching-up or an initial state begins: say so before the deliveries.
    pub begins: Option<Begin>,
    /// The catching-up or the initial state is complete with these deliveries.
    pub completes: bool,
    /// Changes that [`DeliveryMode::Latest`] left out.
    pub coalesced: u64,
    /// Nothing more is to be had now: wait.
    pub idle: bool,
}

/// What begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The whole state follows.
    InitialState,
    /// Every change since the position follows.
    Resumed,
    /// The net difference follows.
    NetDifference,
    /// Changed objects and unchanged keys follow.
    Manifest,
}

/// Where a cursor is in its life. `Initial`, `Net` and `Manifest` end in `Live`; `Live`
/// goes back to `Net` or `Manifest` only in [`DeliveryMode::Latest`], when it has fallen
/// behind the window.
pub(super) enum Phase {
    /// The state is being delivered; the position is its revision.
    Initial(StateReader),
    /// The net difference is being delivered: the client holds no state that ever was
    /// until the position reaches `settles_at`.
    Net { settles_at: Revision },
    /// The manifest is being delivered: what the client holds is from `since`.
    Manifest {
        reader: StateReader,
        since: Revision,
    },
    /// The client holds the state at the position.
    Live,
}

/// A collection's entry, counted as watched for as long as this lives.
pub(super) struct Held {
    hub: Arc<Hub>,
    pub(super) collection: Arc<CollectionHub>,
}

impl Held {
    pub(super) fn new(hub: &Arc<Hub>, name: &Collection) -> Self {
        Self {
            hub: hub.clone(),
            collection: hub.hold(name),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.hub.release(&self.collection);
    }
}

/// A watch's place in the history.
pub struct Cursor {
    held: Held,
    selector: Arc<Selector>,
    mode: DeliveryMode,
    phase: Phase,
    position: Revision,
    announced: bool,
    /// Whether the window served the last read. A hit or a miss is counted when that
    /// changes, not at every read.
    last_read_hit: Option<bool>,
    changed: watch::Receiver<Revision>,
}

impl Cursor {
    pub(super) fn new(
        held: Held,
        selector: Arc<Selector>,
        mode: DeliveryMode,
        phase: Phase,
        position: Revision,
    ) -> Self {
        let changed = held.collection.changed.subscribe();
        let (announced, last_read_hit) = (false, None);
        Self {
            held,
            selector,
            mode,
            phase,
            position,
            announced,
            last_read_hit,
            changed,
        }
    }

    /// What it selects.
    pub fn selector(&self) -> &Selector {
        &self.selector
    }

    /// Where the client stands once it has the deliveries of every step so far; `None`
    /// during an initial state or a manifest, which cannot be resumed midway.
    pub fn position(&self) -> Option<Position> {
        match self.phase {
            Phase::Initial(_) | Phase::Manifest { .. } => None,
            Phase::Net { settles_at } => {
                let settles_at = settles_at.max(self.position);
                Some(Position {
                    revision: self.position,
                    settles_at,
                })
            }
            Phase::Live => Some(Position::settled(self.position)),
        }
    }

    /// The newest revision that the hub has taken up.
    pub fn latest(&self) -> Revision {
        self.held.hub.applied()
    }

    /// Waits until the collection may have changed. Cancel safe.
    ///
    /// # Errors
    /// [`HubError::Stopped`] when nothing will change any more.
    pub async fn changed(&mut self) -> Result<(), HubError> {
        self.changed.changed().await.map_err(|_| HubError::Stopped)
    }

    /// Goes on: never waits for a change, but may read the disk. Cancel safe: a step that
    /// is dropped is taken again.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] when history is gone that this watch still needed; other
    /// [`HubError`]s as the store gives them.
    pub async fn step(&mut self) -> Result<Step, HubError> {
        if !self.announced {
            self.announced = true;
            return Ok(Step {
                begins: Some(self.beginning()),
                ..Step::default()
            });
        }
        match &mut self.phase {
            Phase::Initial(_) => self.step_initial().await,
            Phase::Manifest { .. } => self.step_manifest().await,
            Phase::Net { settles_at } => {
                let settles_at = *settles_at;
                self.step_net(settles_at).await
            }
            Phase::Live => self.step_live().await,
        }
    }

    fn limit(&self) -> PageLimit {
        self.held.hub.options.response
    }

    fn beginning(&self) -> Begin {
        match self.phase {
            Phase::Initial(_) => Begin::InitialState,
            Phase::Net { .. } => Begin::NetDifference,
            Phase::Manifest { .. } => Begin::Manifest,
            Phase::Live => Begin::Resumed,
        }
    }

    async fn step_initial(&mut self) -> Result<Step, HubError> {
        let limit = self.limit();
        let Phase::Initial(reader) = &mut self.phase else {
            return Ok(Step::default());
        };
        let page = reader.next(&self.held.hub, limit).await?;
        let deliver = |object| Delivery {
            kind: DeliveryKind::Existing,
            object,
            previous: None,
        };
        let deliveries = page.objects.into_iter().map(deliver).collect();
        let revision = reader.revision();
        let completes = reader.is_done();
        if completes {
            self.go_live(revision);
        }
        Ok(Step {
            deliveries,
            completes,
            ..Step::default()
        })
    }

    async fn step_manifest(&mut self) -> Result<Step, HubError> {
        let limit = self.limit();
        let Phase::Manifest { reader, since } = &mut self.phase else {
            return Ok(Step::default());
        };
        let since = *since;
        let page = reader.next(&self.held.hub, limit).await?;
        let deliver = |object: Arc<Object>| {
            let unchanged = object.revision <= since;
            let kind = if unchanged {
                DeliveryKind::Unchanged
            } else {
                DeliveryKind::Upserted
            };
            Delivery {
                kind,
                object,
                previous: None,
            }
        };
        let deliveries = page.objects.into_iter().map(deliver).collect();
        let revision = reader.revision();
        let completes = reader.is_done();
        if completes {
            self.go_live(revision);
        }
        Ok(Step {
            deliveries,
            completes,
            ..Step::default()
        })
    }

    fn go_live(&mut self, revision: Revision) {
        self.position = revision;
        self.phase = Phase::Live;
    }

    /// Net difference: from the store while the window does not reach back, else from the
    /// window, until everything that was left out as superseded has been delivered.
    async fn step_net(&mut self, settles_at: Revision) -> Result<Step, HubError> {
        let read = self.read_window();
        let (commits, reached, settles_at) = match read {
            Some((WindowRead::Commits(commits), upto)) => (commits, upto, settles_at),
            _ => {
                let name = self.selector.collection();
                let store = &self.held.hub.store;
                match store
                    .changes_since(Some(name), self.position, self.limit())
                    .await
                {
                    Ok(mut chunk) => {
                        fit(&mut chunk, self.limit());
                        self.held.hub.wait_applied(chunk.scanned_to).await?;
                        // What was left out of this chunk had a successor at `head` or
                        // below: the client is whole once it has got that far.
                        (chunk.commits, chunk.scanned_to, settles_at.max(chunk.head))
                    }
                    Err(StoreError::Forgotten { .. }) if self.mode == DeliveryMode::Latest => {
                        return Ok(self.fall_behind());
                    }
                    Err(StoreError::Forgotten { .. }) => return Err(self.compacted().into()),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let deliveries = commits
            .iter()
            .flat_map(|c| &c.events)
            .filter_map(|e| self.net(e));
        let deliveries = deliveries.collect();
        self.position = reached.max(self.position);
        let completes = self.position >= settles_at;
        self.phase = if completes {
            Phase::Live
        } else {
            Phase::Net { settles_at }
        };
        Ok(Step {
            deliveries,
            completes,
            ..Step::default()
        })
    }

    /// One change of a net difference. What does not match now may have matched before,
    /// and the old labels are gone: it is a deletion, of which a client may hear in vain.
    fn net(&self, event: &Event) -> Option<Delivery> {
        let object = &event.object;
        if !self.selector.matches_name(&object.key.object) {
            return None;
        }
        let kind = match event.change {
            Change::Deleted(cause) => DeliveryKind::Deleted(Some(cause)),
            _ if self.selector.matches_content(object) => DeliveryKind::Upserted,
            _ => DeliveryKind::Deleted(None),
        };
        Some(Delivery {
            kind,
            object: object.clone(),
            previous: None,
        })
    }

    async fn step_live(&mut self) -> Result<Step, HubError> {
        match self.read_window() {
            Some((WindowRead::Commits(commits), upto)) => {
                self.count_read(true);
                let idle = commits.is_empty();
                let (deliveries, coalesced) = self.exact(&commits);
                self.position = upto.max(self.position);
                Ok(Step {
                    deliveries,
                    coalesced,
                    idle,
                    ..Step::default()
                })
            }
            Some((WindowRead::Behind, _)) => {
                self.count_read(false);
                self.step_log().await
            }
            // No window: the log is the way, but only when there is something in it.
            None if self.position >= self.latest() => Ok(Step {
                idle: true,
                ..Step::default()
            }),
            None => {
                self.count_read(false);
                self.step_log().await
            }
        }
    }

    /// From the log on disk, exactly.
    async fn step_log(&mut self) -> Result<Step, HubError> {
        let name = self.selector.collection();
        match self
            .held
            .hub
            .store
            .read_log(Some(name), self.position, self.limit())
            .await
        {
            Ok(mut chunk) => {
                fit(&mut chunk, self.limit());
                // Ahead of the caches by a moment at most; a bookmark must not be.
                self.held.hub.wait_applied(chunk.scanned_to).await?;
                let (deliveries, coalesced) = self.exact(&chunk.commits);
                self.position = chunk.scanned_to.max(self.position);
                Ok(Step {
                    deliveries,
                    coalesced,
                    ..Step::default()
                })
            }
            Err(StoreError::Compacted { .. }) if self.mode == DeliveryMode::Latest => {
                Ok(self.fall_behind())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A watch of the newest changes whose history is gone: catches up in the middle of
    /// the stream.
    fn fall_behind(&mut self) -> Step {
        self.phase = self
            .held
            .hub
            .catch_up(&self.selector, self.position, self.position);
        Step {
            begins: Some(self.beginning()),
            ..Step::default()
        }
    }

    fn compacted(&self) -> StoreError {
        let known = self.held.hub.store.progress();
        StoreError::Compacted {
            requested: self.position,
            compacted: known.compacted,
            revision: known.revision,
        }
    }

    /// The window from the position on, and the revision up to which everything is in
    /// what it gave; `None` without a window.
    fn read_window(&self) -> Option<(WindowRead, Revision)> {
        let window = self.held.collection.window.as_ref()?;
        // Read before the window: every commit up to this is in it.
        let applied = self.latest();
        let read = window.read().read(self.position, self.limit());
        let upto = match &read {
            WindowRead::Commits(commits) => match commits.last() {
                Some(last) => last.revision,
                None => applied,
            },
            WindowRead::Behind => self.position,
        };
        Some((read, upto))
    }

    fn count_read(&mut self, hit: bool) {
        if self.last_read_hit.replace(hit) == Some(hit) {
            return;
        }
        let counter = if hit {
            &self.held.collection.hits
        } else {
            &self.held.collection.misses
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Every change that the selector covers; in [`DeliveryMode::Latest`] what these
    /// commits come to, which is just as exact, since they are taken as a whole.
    fn exact(&self, commits: &[Arc<Commit>]) -> (Vec<Delivery>, u64) {
        let events = commits.iter().flat_map(|commit| &commit.events);
        if self.mode == DeliveryMode::EveryChange || commits.len() < 2 {
            return (
                events.filter_map(|event| self.transition(event)).collect(),
                0,
            );
        }
        let wanted = |e: &Event| self.selector.matches_name(&e.object.key.object);
        let (merged, left_out) = merge(events, wanted);
        (
            merged
                .iter()
                .filter_map(|event| self.transition(event))
                .collect(),
            left_out,
        )
    }

    /// What one change is to this selector. An object that starts to match is added, one
    /// that stops is deleted, with its last matching state (Kubernetes' rule).
    fn transition(&self, event: &Event) -> Option<Delivery> {
        let object = &event.object;
        if !self.selector.matches_name(&object.key.object) {
            return None;
        }
        let matches = |object: &Object| self.selector.matches_content(object);
        let previous = event.previous.as_ref();
        // A previous version that is not known may have matched: a deletion too many is
        // allowed, one too few is not.
        let before = || previous.is_none_or(|p| matches(p));
        let deliver = |kind, object: &Arc<Object>| {
            Some(Delivery {
                kind,
                object: object.clone(),
                previous: previous.cloned(),
            })
        };
        match event.change {
            Change::Created if matches(object) => deliver(DeliveryKind::Added, object),
            Change::Created => None,
            Change::Deleted(cause) if before() => {
                deliver(DeliveryKind::Deleted(Some(cause)), object)
            }
            Change::Deleted(_) => None,
            Change::Updated => match (before(), matches(object)) {
                (true, true) => deliver(DeliveryKind::Modified, object),
                (false, true) => deliver(DeliveryKind::Added, object),
                (true, false) => {
                    let last = previous.unwrap_or(object);
                    let gone = last.deleted_at(object.revision, object.update_time);
                    deliver(DeliveryKind::Deleted(None), &Arc::new(gone))
                }
                (false, false) => None,
            },
        }
    }
}

/// Cuts a chunk to what fits one response: whole commits, at least one. The rest is read
/// again by the next step.
fn fit(chunk: &mut LogChunk, limit: PageLimit) {
    let mut bytes = 0;
    let fits = chunk.commits.iter().position(|commit| {
        let first = bytes == 0;
        bytes += response_weight(commit);
        !first && bytes > limit.bytes
    });
    if let Some(count) = fits {
        chunk.commits.truncate(count);
        if let Some(last) = chunk.commits.last() {
            chunk.scanned_to = last.revision;
        }
    }
}

/// Merges the events of each object (by uid) into one: from the version before the first
/// to the last. An object that came and went leaves nothing. Ordered by the last event.
/// Also says how many events were left out.
fn merge<'a>(
    events: impl Iterator<Item = &'a Event>,
    wanted: impl Fn(&Event) -> bool,
) -> (Vec<Event>, u64) {
    let mut merged: Vec<Option<Event>> = Vec::new();
    let mut place: HashMap<Uid, usize> = HashMap::new();
    let mut seen = 0;
    for event in events.filter(|event| wanted(event)) {
        seen += 1;
        let earlier = place.insert(event.object.uid, merged.len());
        let earlier = earlier.and_then(|place| merged[place].take());
        merged.push(match earlier {
            None => Some(event.clone()),
            Some(earlier) if earlier.change == Change::Created && event.is_deletion() => None,
            Some(earlier) => Some(Event {
                change: match earlier.change {
                    Change::Created => Change::Created,
                    _ => event.change,
                },
                object: event.object.clone(),
                previous_revision: earlier.previous_revision,
                previous: earlier.previous,
            }),
        });
    }
    let merged: Vec<Event> = merged.into_iter().flatten().collect();
    let left_out = seen - merged.len() as u64;
    (merged, left_out)
}
