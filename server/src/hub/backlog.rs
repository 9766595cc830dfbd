//! How far behind a position is, in time and in bytes: what a watch that reads slowly has
//! still to get. Counted by collection, since that is what a watch follows.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::{
    limits::{
        BACKLOG_STRETCH, BACKLOG_STRETCH_BYTES, DEFAULT_MAX_WATCH_BACKLOG, MAX_BACKLOG_STRETCHES,
    },
    store::Revision,
    sync::RwLock,
};

/// What lies between a position and the newest event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Since the first event after the position was committed. What was there before the hub
    /// started does not count.
    pub age: Duration,
    /// Of the objects that its events hold, whether the watch selects them or not.
    pub bytes: u64,
}

/// The most that a watch may be behind. One that is further behind than either is ended, with
/// a bookmark from which the net difference follows: a client that slow gets on with less. One
/// that cannot have that (`CATCH_UP_EXACT`) is spared while it works off what it asked for, and
/// one of the newest changes (`DELIVERY_MODE_LATEST`) gets the net difference without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagLimit {
    /// `None`: no limit (`--max-watch-lag`).
    pub age: Option<Duration>,
    /// `None`: no limit (`--max-watch-backlog`).
    pub bytes: Option<u64>,
}

impl Default for LagLimit {
    fn default() -> Self {
        Self {
            age: None,
            bytes: Some(DEFAULT_MAX_WATCH_BACKLOG),
        }
    }
}

impl LagLimit {
    /// There is a limit.
    pub(super) fn is_set(&self) -> bool {
        self.age.is_some() || self.bytes.is_some()
    }

    /// The backlog is more than that.
    pub(super) fn is_exceeded_by(&self, backlog: Backlog) -> bool {
        self.age.is_some_and(|limit| backlog.age > limit)
            || self.bytes.is_some_and(|limit| backlog.bytes > limit)
    }
}

/// A part of the history.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    last: Revision,
    began: Instant,
    bytes_before: u64,
}

/// A collection's history as a bounded number of stretches. When there are too many, pairs
/// become one, so that what is older is known less precisely; never as too little.
#[derive(Debug, Default)]
pub(super) struct Backlogs(RwLock<History>);

#[derive(Debug, Default)]
struct History {
    stretches: VecDeque<Stretch>,
    bytes: u64,
}

impl Backlogs {
    /// Notes the events of a revision.
    pub(super) fn note(&self, revision: Revision, bytes: u64) {
        let now = Instant::now();
        let mut history = self.0.write();
        let before = history.bytes;
        history.bytes += bytes;
        if let Some(newest) = history.stretches.back_mut()
            && now - newest.began < BACKLOG_STRETCH
            && before - newest.bytes_before < BACKLOG_STRETCH_BYTES
        {
            newest.last = revision;
            return;
        }
        if history.stretches.len() >= MAX_BACKLOG_STRETCHES {
            history.halve();
        }
        history.stretches.push_back(Stretch {
            last: revision,
            began: now,
            bytes_before: before,
        });
    }

    /// What lies after a position.
    pub(super) fn after(&self, position: Revision) -> Backlog {
        let history = self.0.read();
        let place = history.stretches.partition_point(|s| s.last <= position);
        let Some(first) = history.stretches.get(place) else {
            return Backlog::default();
        };
        Backlog {
            age: first.began.elapsed(),
            bytes: history.bytes - first.bytes_before,
        }
    }
}

impl History {
    fn halve(&mut self) {
        let pairs: Vec<_> = self.stretches.drain(..).collect();
        let joined = pairs.chunks(2).filter_map(|pair| {
            let (first, last) = (pair.first()?, pair.last()?);
            Some(Stretch {
                last: last.last,
                ..*first
            })
        });
        self.stretches = joined.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(revision: u64) -> Revision {
        Revision::new(revision)
    }

    #[tokio::test(start_paused = true)]
    async fn a_backlog_is_what_came_after_the_position() {
        let backlogs = Backlogs::default();
        assert_eq!(backlogs.after(at(0)), Backlog::default());
        backlogs.note(at(10), 100);
        tokio::time::advance(Duration::from_secs(3600)).await;
        backlogs.note(at(5000), 7);
        tokio::time::advance(Duration::from_secs(10)).await;
        let (old, new) = (Duration::from_secs(3610), Duration::from_secs(10));
        assert_eq!(
            backlogs.after(at(9)),
            Backlog {
                age: old,
                bytes: 107
            }
        );
        // Nothing of this collection lies between: what comes next is new.
        assert_eq!(backlogs.after(at(10)), Backlog { age: new, bytes: 7 });
        assert_eq!(backlogs.after(at(4999)), Backlog { age: new, bytes: 7 });
        assert_eq!(backlogs.after(at(5000)), Backlog::default());
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_history_takes_a_bounded_room_and_is_never_taken_for_less() {
        let backlogs = Backlogs::default();
        let steps = 10 * MAX_BACKLOG_STRETCHES as u64;
        for n in 1..=steps {
            backlogs.note(at(n), 1000);
            tokio::time::advance(BACKLOG_STRETCH).await;
        }
        assert!(backlogs.0.read().stretches.len() <= MAX_BACKLOG_STRETCHES);
        for behind in [1, 10, 1000, steps] {
            let found = backlogs.after(at(steps - behind));
            assert!(found.bytes >= behind * 1000 && found.age >= BACKLOG_STRETCH * behind as u32);
        }
        // What is recent is known well.
        assert!(backlogs.after(at(steps - 100)).bytes <= 130_000);
    }
}
