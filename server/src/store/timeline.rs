//! Which revision was the newest at a time, to the second.

use std::time::{SystemTime, UNIX_EPOCH};

use super::Revision;
use crate::limits::MAX_TIMELINE_POINTS;

/// One point a second: the last revision committed within it.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    points: Vec<(u64, Revision)>,
    last: Option<SystemTime>,
}

fn second(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |age| age.as_secs())
}

impl Timeline {
    /// Notes a commit; times never go back.
    pub(super) fn note(&mut self, time: SystemTime, revision: Revision) {
        let now = second(time);
        self.last = self.last.max(Some(time));
        match self.points.last_mut() {
            Some(last) if last.0 >= now => last.1 = revision.max(last.1),
            _ => self.points.push((now, revision)),
        }
        if self.points.len() > MAX_TIMELINE_POINTS {
            // Of each pair the later one stays: answers err towards keeping history.
            let mut odd = false;
            self.points.retain(|_| {
                odd = !odd;
                !odd
            });
        }
    }

    /// The time of the newest commit.
    pub(super) fn last_time(&self) -> SystemTime {
        self.last.unwrap_or(UNIX_EPOCH)
    }

    /// The newest revision at or before a time; zero before the first point.
    pub(super) fn at(&self, time: SystemTime) -> Revision {
        let after = self.points.partition_point(|point| point.0 <= second(time));
        after
            .checked_sub(1)
            .and_then(|last| self.points.get(last))
            .map_or(Revision::ZERO, |point| point.1)
    }

    /// Forgets points below a revision, except the last such.
    pub(super) fn compact(&mut self, to: Revision) {
        let below = self.points.partition_point(|point| point.1 < to);
        self.points.drain(..below.saturating_sub(1));
    }
}
