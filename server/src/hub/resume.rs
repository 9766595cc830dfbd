//! Where a watch starts: the five resuming steps, the first that works.

use std::sync::Arc;

use super::{
    Cursor, DeliveryMode, Hub, HubError, Opening,
    cursor::{Held, Phase},
};
use crate::{
    limits::NET_COUNT_FLOOR,
    selector::Selector,
    store::{Revision, StoreError},
};

/// What a watch that starts at a compacted revision gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUp {
    /// Every change, or the error that history is compacted: Kubernetes' 410 Gone.
    Exact,
    /// The net difference, a manifest, or the whole state, whichever is enough.
    Net,
}

/// A point in the history that a client has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Everything up to this has been delivered.
    pub revision: Revision,
    /// Above `revision` while a net difference is being delivered: what the client holds
    /// is no state that ever was before it reaches this.
    pub settles_at: Revision,
}

impl Position {
    /// A point at which the client holds the state.
    pub fn settled(revision: Revision) -> Self {
        Self {
            revision,
            settles_at: revision,
        }
    }
}

/// Where a watch starts.
#[derive(Clone, Copy, Debug)]
pub enum StartPoint {
    /// Everything that exists, then changes.
    InitialState,
    /// Changes after a point.
    After(Position, CatchUp),
    /// Changes from here on.
    Now,
}

/// The steps of resuming, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeStep {
    /// From the window: a hit.
    Window = 0,
    /// From the log, exactly: a miss.
    Log = 1,
    /// Compacted, deletions remembered: the newest change of each key.
    NetDifference = 2,
    /// Deletions forgotten: changed objects, and the keys of the unchanged ones.
    Manifest = 3,
    /// Most of the state changed: the state as a whole costs less.
    InitialState = 4,
}

impl Hub {
    /// Opens a watch. The caches must have applied what the caller wants to see
    /// ([`Hub::settle`], [`Hub::wait_applied`]).
    ///
    /// # Errors
    /// [`HubError`] if the point is compacted (with [`CatchUp::Exact`]) or in the future.
    pub async fn watch(
        self: &Arc<Self>,
        selector: Arc<Selector>,
        start: StartPoint,
        mode: DeliveryMode,
    ) -> Result<Cursor, HubError> {
        let held = Held::new(self, &selector);
        let opening = match start {
            StartPoint::Now => Opening::Now,
            StartPoint::InitialState => Opening::InitialState,
            StartPoint::After(..) => Opening::Resume,
        };
        let (phase, position) = match start {
            StartPoint::Now => {
                let now = self.settle().await?;
                (Phase::Live, now)
            }
            StartPoint::InitialState => {
                let reader = self.read_state(selector.clone());
                let revision = reader.revision();
                (Phase::Initial(reader), revision)
            }
            StartPoint::After(position, catch_up) => {
                let phase = self.resume(&held, &selector, position, catch_up).await?;
                (phase, position.revision)
            }
        };
        held.figures().open(opening);
        Ok(Cursor::new(held, selector, mode, phase, position))
    }

    async fn resume(
        &self,
        held: &Held,
        selector: &Arc<Selector>,
        position: Position,
        catch_up: CatchUp,
    ) -> Result<Phase, HubError> {
        let after = position.revision;
        self.wait_known(after).await?;
        let known = self.store.progress();
        // A token cannot make a watch wait for a revision that never comes.
        let settles_at = position.settles_at.min(known.revision).max(after);
        // Midway in a net difference every change is not enough: what was left out of it
        // is compacted.
        let exactly = catch_up == CatchUp::Exact;
        if after >= known.compacted && !(exactly && settles_at > after) {
            let window = held.collection.window.as_ref();
            let in_window = window.is_some_and(|w| w.read().covers(after));
            self.resumes.count(if in_window {
                ResumeStep::Window
            } else {
                ResumeStep::Log
            });
            return Ok(if settles_at > after {
                Phase::Net {
                    settles_at,
                    began_at: None,
                }
            } else {
                Phase::Live
            });
        }
        // Compacted is compacted: that the window may happen to reach back further must
        // not make the same request succeed now and fail a moment later.
        if exactly {
            let (compacted, revision) = (known.compacted, known.revision);
            return Err(StoreError::Compacted {
                requested: after,
                compacted,
                revision,
            }
            .into());
        }
        let phase = self.catch_up(selector, after, settles_at);
        self.resumes.count(match phase {
            Phase::Net { .. } => ResumeStep::NetDifference,
            Phase::Manifest { .. } => ResumeStep::Manifest,
            _ => ResumeStep::InitialState,
        });
        Ok(phase)
    }

    /// Steps 3 and 4: the net difference or the manifest, or the whole state where that is
    /// no more work.
    pub(super) fn catch_up(
        &self,
        selector: &Arc<Selector>,
        after: Revision,
        settles_at: Revision,
    ) -> Phase {
        let known = self.store.progress();
        let (changed, live) = self
            .store
            .count_changes(selector.collection(), after, usize::MAX);
        if changed > NET_COUNT_FLOOR && changed > live / 2 {
            return Phase::Initial(self.read_state(selector.clone()));
        }
        if after >= known.forgotten {
            return Phase::Net {
                settles_at: settles_at.max(after),
                began_at: None,
            };
        }
        Phase::Manifest {
            reader: self.read_state(selector.clone()),
            since: after,
        }
    }
}
