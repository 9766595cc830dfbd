//! A watch: a position in the history, and how to go on from it. It owns no queue; a slow
//! reader is only a cursor that stands further back.

use std::{
    sync::Arc,
    task::{Poll, Waker},
};

use super::{
    Backlog, CollectionHub, Hub, HubError, Position, Whereabouts,
    chunk::{fit, share},
    delivery::{self, Delivery, DeliveryKind},
    figures::{CollectionFigures, HubFigures, Standing},
    interest::Filed,
    snapshot::StateReader,
    window::{SharedCommit, WindowRead},
};
use crate::{
    limits::LATEST_BACKLOG_RESPONSES,
    selector::Selector,
    store::{Object, PageLimit, Revision, StoreError},
    sync::atomic::Ordering,
};

/// How changes are delivered to a client that is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    /// Each change of each object, or the error that they are compacted.
    EveryChange,
    /// The newest change of each object; never ends for slowness.
    Latest,
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
/// behind the window, or far behind.
pub(super) enum Phase {
    /// The state is being delivered; the position is its revision.
    Initial(StateReader),
    /// The net difference is being delivered: the client holds no state that ever was
    /// until the position reaches `settles_at`.
    Net {
        settles_at: Revision,
        /// The newest revision when it began, once that is known.
        began_at: Option<Revision>,
    },
    /// The manifest is being delivered: what the client holds is from `since`.
    Manifest {
        reader: StateReader,
        since: Revision,
    },
    /// The client holds the state at the position.
    Live,
}

/// A collection's entry, counted as watched for as long as this lives.
///
/// Filed for its interest before any position is read, so that nothing falls between.
pub(super) struct Held {
    hub: Arc<Hub>,
    pub(super) collection: Arc<CollectionHub>,
    filed: Filed,
}

impl Held {
    pub(super) fn new(hub: &Arc<Hub>, selector: &Selector) -> Self {
        let collection = hub.hold(selector.collection());
        let filed = collection.interest.file(selector);
        Self {
            hub: hub.clone(),
            collection,
            filed,
        }
    }

    pub(super) fn figures(&self) -> &CollectionFigures {
        let figures = self.collection.figures.get();
        figures.unwrap_or_else(|| self.hub.figures.other())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.collection.interest.forget(&self.filed);
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
    /// There may be more after the position than the waiter's mark says. So at first, and in all
    /// phases but `Live`.
    draining: bool,
    /// As it was last counted.
    standing: Standing,
}

impl Cursor {
    pub(super) fn new(
        held: Held,
        selector: Arc<Selector>,
        mode: DeliveryMode,
        phase: Phase,
        position: Revision,
    ) -> Self {
        let (announced, last_read_hit, draining) = (false, None, true);
        let standing = standing(&phase, last_read_hit);
        held.collection.standings.enter(standing);
        held.filed.waiter.stands(standing);
        Self {
            held,
            selector,
            mode,
            phase,
            position,
            announced,
            last_read_hit,
            draining,
            standing,
        }
    }

    /// Where it is counted.
    pub fn figures(&self) -> &CollectionFigures {
        self.held.figures()
    }

    /// Where what concerns all collections is counted.
    pub fn hub_figures(&self) -> &HubFigures {
        &self.held.hub.figures
    }

    /// Shows where it has come to.
    fn show(&mut self) {
        let standing = standing(&self.phase, self.last_read_hit);
        if standing != self.standing {
            let standings = &self.held.collection.standings;
            standings.leave(self.standing);
            standings.enter(standing);
            self.standing = standing;
            self.held.filed.waiter.stands(standing);
        }
        let position = self.draining.then_some(self.position);
        self.held.filed.waiter.stands_at(position);
    }

    /// Where it is, for others to see while it goes on.
    pub fn whereabouts(&self) -> Whereabouts {
        Whereabouts {
            collection: self.held.collection.clone(),
            waiter: self.held.filed.waiter.clone(),
        }
    }

    /// What it selects.
    pub fn selector(&self) -> &Arc<Selector> {
        &self.selector
    }

    /// Where the client stands once it has the deliveries of every step so far; `None`
    /// during an initial state or a manifest, which cannot be resumed midway.
    pub fn position(&self) -> Option<Position> {
        match self.phase {
            Phase::Initial(_) | Phase::Manifest { .. } => None,
            Phase::Net { settles_at, .. } => {
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

    /// Nothing will be delivered any more: the hub has stopped.
    pub fn is_stopped(&self) -> bool {
        self.held.hub.is_stopped()
    }

    /// Ready when there may be something to deliver, or nothing will be any more; else `waker` is
    /// woken when that is so.
    pub fn poll_news(&self, waker: &Waker) -> Poll<()> {
        if self.has_news() {
            return Poll::Ready(());
        }
        self.held.filed.waiter.register(waker);
        // News, or the end of all news, may have come just before.
        if self.has_news() || self.is_stopped() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// What lies before it, if that is more than the hub's limit. Only of what it delivers one
    /// by one: the end of a state or a net difference is in sight.
    pub fn too_far_behind(&self) -> Option<Backlog> {
        let limit = &self.held.hub.options.lag_limit;
        if !limit.is_set() || !self.draining || !matches!(self.phase, Phase::Live) {
            return None;
        }
        let backlog = self.held.collection.backlogs.after(self.position);
        limit.is_exceeded_by(backlog).then_some(backlog)
    }

    /// More is left to one that is live than joining what one response holds would make small.
    fn has_too_much_left(&self) -> bool {
        if !self.draining {
            return false;
        }
        let left = self.held.collection.backlogs.after(self.position).bytes;
        left > self.limit().bytes.saturating_mul(LATEST_BACKLOG_RESPONSES) as u64
            || self.too_far_behind().is_some()
    }

    /// How changes are delivered.
    pub fn mode(&self) -> DeliveryMode {
        self.mode
    }

    /// The revision up to which nothing is left to deliver, if that is now so.
    pub fn rest(&mut self) -> Option<Revision> {
        if self.has_news() {
            return None;
        }
        // What is applied by now has been marked: without a mark it was nothing to this.
        let applied = self.latest();
        if self.has_news() {
            return None;
        }
        self.position = self.position.max(applied);
        Some(self.position)
    }

    /// There may be something to deliver.
    pub fn has_news(&self) -> bool {
        self.draining || self.held.filed.waiter.is_marked()
    }

    /// Goes on if memory has what is needed: the common case. `None`: take
    /// [`Cursor::step`].
    pub fn try_step(&mut self) -> Option<Step> {
        if !self.announced {
            self.announced = true;
            return Some(Step {
                begins: Some(self.beginning()),
                ..Step::default()
            });
        }
        let coalesces = self.mode == DeliveryMode::Latest;
        let step = match self.phase {
            Phase::Live if coalesces && self.has_too_much_left() => Some(self.fall_behind()),
            Phase::Live => self.step_live(),
            _ => None,
        };
        self.show();
        step
    }

    /// Goes on: never waits for a change, but may read the disk. Cancel safe: a step that
    /// is dropped is taken again.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] when history is gone that this watch still needed; other
    /// [`HubError`]s as the store gives them.
    pub async fn step(&mut self) -> Result<Step, HubError> {
        if let Some(step) = self.try_step() {
            return Ok(step);
        }
        let step = match &mut self.phase {
            Phase::Initial(_) => self.step_initial().await,
            Phase::Manifest { .. } => self.step_manifest().await,
            Phase::Net {
                settles_at,
                began_at,
            } => {
                let (settles_at, began_at) = (*settles_at, *began_at);
                self.step_net(settles_at, began_at).await
            }
            Phase::Live => {
                self.count_read(false);
                self.step_log().await
            }
        };
        self.show();
        step
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
        let deliver = |object| Delivery::alone(DeliveryKind::Existing, object);
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
            Delivery::alone(kind, object)
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
        self.draining = true;
    }

    /// Net difference: from the store, until everything that was left out as superseded has
    /// been delivered. Never from the window, which would give every change of a key where
    /// one is promised.
    async fn step_net(
        &mut self,
        settles_at: Revision,
        began_at: Option<Revision>,
    ) -> Result<Step, HubError> {
        // What was newest when this began is delivered, a change a key. Chasing on in the
        // store could go on for as long as others write; the window has what is left as
        // changes, and those end where everything left out is made good.
        if began_at.is_some_and(|head| self.position >= head) {
            // Where that is, the store knows before the window does. A read of a window that
            // is behind gives nothing, and would be repeated at once.
            self.held.hub.wait_applied(self.position.next()).await?;
            if let Some((WindowRead::Commits { commits, .. }, upto)) = self.read_window() {
                return Ok(self.settle(&commits, upto, settles_at, began_at));
            }
        }
        let name = self.selector.collection();
        let store = &self.held.hub.store;
        let read = store
            .changes_since(Some(name), self.position, self.limit())
            .await;
        let mut chunk = match read {
            Ok(chunk) => chunk,
            Err(StoreError::Forgotten { .. }) if self.mode == DeliveryMode::Latest => {
                return Ok(self.fall_behind());
            }
            Err(StoreError::Forgotten { .. }) => return Err(self.compacted().into()),
            Err(error) => return Err(error.into()),
        };
        fit(&mut chunk, self.limit());
        self.held.hub.wait_applied(chunk.scanned_to).await?;
        // What was left out of this chunk had a successor at `head` or below: the client is
        // whole once it has got that far.
        let settles_at = settles_at.max(chunk.head);
        let began_at = began_at.or(Some(chunk.head));
        Ok(self.settle(
            &share(chunk.commits),
            chunk.scanned_to,
            settles_at,
            began_at,
        ))
    }

    /// Delivers part of a net difference; the last part completes it.
    fn settle(
        &mut self,
        commits: &[Arc<SharedCommit>],
        reached: Revision,
        settles_at: Revision,
        began_at: Option<Revision>,
    ) -> Step {
        let deliveries = commits
            .iter()
            .flat_map(|c| &c.commit.events)
            .filter_map(|e| delivery::net(&self.selector, e));
        let deliveries = deliveries.collect();
        self.position = reached.max(self.position);
        let completes = self.position >= settles_at;
        self.draining = true;
        self.phase = if completes {
            Phase::Live
        } else {
            Phase::Net {
                settles_at,
                began_at,
            }
        };
        Step {
            deliveries,
            completes,
            ..Step::default()
        }
    }

    /// From the window; `None`: the log is needed.
    fn step_live(&mut self) -> Option<Step> {
        // Read before the mark: what is applied by now has been marked.
        let applied = self.latest();
        let marked = self.held.filed.waiter.take();
        if !self.draining {
            let Some(first) = marked else {
                self.position = self.position.max(applied);
                return Some(Step {
                    idle: true,
                    ..Step::default()
                });
            };
            // What lies between is nothing to this selector.
            self.position = self.position.max(first.previous());
        }
        self.draining = true;
        let (WindowRead::Commits { commits, all }, upto) = self.read_window()? else {
            return None;
        };
        self.count_read(true);
        let idle = commits.is_empty();
        let (deliveries, coalesced) = self.exact(&commits);
        self.position = upto.max(self.position);
        self.draining = !all;
        Some(Step {
            deliveries,
            coalesced,
            idle,
            ..Step::default()
        })
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
                let all = chunk.scanned_to >= chunk.head;
                let (deliveries, coalesced) = self.exact(&share(chunk.commits));
                self.position = chunk.scanned_to.max(self.position);
                // With a window, that is where the end of the log is found.
                self.draining = !all || self.held.collection.window.is_some();
                Ok(Step {
                    deliveries,
                    coalesced,
                    idle: !self.draining,
                    ..Step::default()
                })
            }
            Err(StoreError::Compacted { .. }) if self.mode == DeliveryMode::Latest => {
                Ok(self.fall_behind())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A watch of the newest changes whose history is gone, or too much: catches up in the
    /// middle of the stream.
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
            WindowRead::Commits { commits, .. } => match commits.last() {
                Some(last) => last.commit.revision,
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
        let (collection, figures) = (&self.held.collection, self.held.figures());
        let (counter, figure) = if hit {
            (&collection.hits, &figures.hits)
        } else {
            (&collection.misses, &figures.misses)
        };
        counter.fetch_add(1, Ordering::Relaxed);
        figure.inc();
    }

    /// Every change that the selector covers; in [`DeliveryMode::Latest`] what these
    /// commits come to, which is just as exact, since they are taken as a whole.
    fn exact(&self, commits: &[Arc<SharedCommit>]) -> (Vec<Delivery>, u64) {
        if self.mode == DeliveryMode::EveryChange || commits.len() < 2 {
            return (delivery::every_change(&self.selector, commits), 0);
        }
        delivery::latest(&self.selector, commits)
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        self.held.collection.standings.leave(self.standing);
    }
}

fn standing(phase: &Phase, last_read_hit: Option<bool>) -> Standing {
    match phase {
        Phase::Initial(_) => Standing::Initial,
        Phase::Net { .. } | Phase::Manifest { .. } => Standing::CatchingUp,
        Phase::Live if last_read_hit == Some(false) => Standing::Lagging,
        Phase::Live => Standing::Live,
    }
}
