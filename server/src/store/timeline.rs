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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(second)
    }

    /// Revision `n` at second `10 n`, up to this one.
    fn until(last: u64) -> Timeline {
        let mut timeline = Timeline::default();
        for n in 1..=last {
            timeline.note(at(10 * n), Revision::new(n));
        }
        timeline
    }

    #[test]
    fn a_second_names_the_newest_revision_of_it() {
        let mut timeline = until(2);
        timeline.note(at(20) + Duration::from_millis(900), Revision::new(3));
        // A clock that goes back changes no point, and takes no revision back.
        timeline.note(at(15), Revision::new(4));
        let found = [0, 9, 10, 19, 20, 21].map(|second| timeline.at(at(second)).get());
        assert_eq!(found, [0, 0, 1, 1, 4, 4]);
        assert_eq!(timeline.last_time(), at(20) + Duration::from_millis(900));
        // However many commits a second has.
        assert_eq!(timeline.points.len(), 2);
    }

    #[test]
    fn compaction_keeps_the_last_point_below_it() {
        for (to, first) in [(0, 1), (1, 1), (2, 1), (3, 2), (5, 4), (9, 5)] {
            let mut timeline = until(5);
            timeline.compact(Revision::new(to));
            let left: Vec<u64> = timeline.points.iter().map(|point| point.1.get()).collect();
            assert_eq!(left, (first..=5).collect::<Vec<_>>(), "compacted to {to}");
        }
    }

    #[test]
    fn too_many_points_become_half_as_many_that_never_name_too_much() {
        let most = MAX_TIMELINE_POINTS as u64;
        assert_eq!(until(most).points.len() as u64, most);
        let timeline = until(most + 1);
        assert_eq!(timeline.points.len() as u64, most / 2);
        for n in [2, 3, 1000, 1001, most, most + 1] {
            let named = timeline.at(at(10 * n)).get();
            assert!(named == n || named == n - 1, "{named} at {n}");
        }
    }
}
