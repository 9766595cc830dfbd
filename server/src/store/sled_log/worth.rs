//! Which segments are worth copying: decided from what they hold, and nothing else.

use std::{ops::Range, sync::atomic::Ordering};

use super::segment::Segment;
use crate::limits::GARBAGE_SHARE;

/// What a segment holds, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    pub(super) bytes: u64,
    /// Of these, what nobody will read any more.
    pub(super) garbage: u64,
    /// Of these, forgotten deletions that go once nothing older is garbage.
    pub(super) held: u64,
}

impl Load {
    pub(super) fn of(segment: &Segment) -> Self {
        let bytes = segment.bytes();
        Self {
            bytes,
            // Counted by sizes of objects, which are not quite those of records.
            garbage: segment.garbage.load(Ordering::Relaxed).min(bytes),
            held: segment.held.load(Ordering::Relaxed),
        }
    }

    /// Where forgotten deletions weigh, what keeps them goes first, however little it is.
    fn is_weighed_down(&self) -> bool {
        self.held * GARBAGE_SHARE >= self.bytes.max(1)
    }
}

/// Whether the written segment is to be sealed, so that it can be copied.
pub(super) fn seals(written: Load, segment_bytes: u64, full: bool) -> bool {
    let half = written.garbage * 2 >= written.bytes && written.bytes >= segment_bytes / 8;
    written.garbage > 0 && (half || full)
}

/// The next sealed segments, adjacent ones, to be copied into one: all that is worth it, and
/// small ones, so that there are not ever more of them. `full`: room is needed, also where it is
/// dear.
pub(super) fn next_run(sealed: &[Load], segment_bytes: u64, full: bool) -> Option<Range<usize>> {
    let weighed_down = sealed.iter().rposition(Load::is_weighed_down);
    let mut older_garbage = false;
    let mut run = Run::default();
    for (i, load) in sealed.iter().enumerate() {
        let held = if older_garbage { 0 } else { load.held };
        let freed = load.garbage + held;
        let worth = load.bytes == 0
            || freed * GARBAGE_SHARE >= load.bytes
            || (weighed_down.is_some_and(|last| i < last) && load.garbage > 0)
            || (full && freed * 16 >= load.bytes);
        older_garbage |= load.garbage > 0;
        let left = load.bytes.saturating_sub(freed);
        let wanted = worth || load.bytes < segment_bytes / 4;
        if !wanted || run.left + left > segment_bytes {
            if run.is_worth_it() {
                break;
            }
            run = Run::default();
        }
        if wanted {
            run.take(i, left, worth);
        }
    }
    run.is_worth_it().then_some(run.segments)
}

#[derive(Default)]
struct Run {
    segments: Range<usize>,
    /// Bytes that the copy will have.
    left: u64,
    /// Any of them is worth it by itself.
    any: bool,
}

impl Run {
    fn take(&mut self, i: usize, left: u64, worth: bool) {
        if self.segments.is_empty() {
            self.segments.start = i;
        }
        self.segments.end = i + 1;
        self.left += left;
        self.any |= worth;
    }

    /// Several small ones become one.
    fn is_worth_it(&self) -> bool {
        self.any || self.segments.len() > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: u64 = 960;

    /// Bytes, and of these garbage.
    fn load(bytes: u64, garbage: u64) -> Load {
        Load {
            bytes,
            garbage,
            held: 0,
        }
    }

    fn held(bytes: u64, held: u64) -> Load {
        Load {
            bytes,
            garbage: 0,
            held,
        }
    }

    fn run(sealed: &[Load]) -> Option<Range<usize>> {
        next_run(sealed, SEGMENT, false)
    }

    #[test]
    fn a_segment_is_copied_once_a_third_of_it_is_garbage() {
        assert_eq!(run(&[]), None);
        assert_eq!(run(&[load(900, 299)]), None);
        assert_eq!(run(&[load(900, 300)]), Some(0..1));
        assert_eq!(run(&[load(900, 0), load(900, 300)]), Some(1..2));
        assert_eq!(run(&[load(900, 900), load(900, 0)]), Some(0..1));
        // Nothing is in it.
        assert_eq!(run(&[load(900, 0), load(0, 0)]), Some(1..2));
    }

    #[test]
    fn where_room_is_needed_a_sixteenth_is_enough() {
        let full = |bytes, garbage| next_run(&[load(bytes, garbage)], SEGMENT, true);
        assert_eq!(full(960, 0), None);
        assert_eq!(full(960, 59), None);
        assert_eq!(full(960, 60), Some(0..1));
        assert_eq!(run(&[load(960, 60)]), None);
        let forgotten = next_run(&[held(960, 60)], SEGMENT, true);
        assert_eq!(forgotten, Some(0..1));
    }

    #[test]
    fn small_neighbours_become_one_and_one_alone_stays() {
        let (small, large) = (load(239, 0), load(240, 0));
        assert_eq!(run(&[small]), None);
        assert_eq!(run(&[small, small]), Some(0..2));
        assert_eq!(run(&[large, large]), None);
        assert_eq!(run(&[large, small, small, small]), Some(1..4));
        assert_eq!(run(&[small, large, small]), None);
        assert_eq!(run(&[small, small, large, load(900, 900)]), Some(0..2));
    }

    #[test]
    fn a_copy_is_no_larger_than_a_segment() {
        // 480 of each are left.
        let half = load(900, 420);
        assert_eq!(run(&[half, half, half]), Some(0..2));
        assert_eq!(run(&[half, load(901, 420)]), Some(0..1));
        // What is larger by itself is copied by itself.
        assert_eq!(run(&[load(2000, 1000)]), Some(0..1));
        assert_eq!(run(&[load(239, 0), load(1200, 420)]), Some(1..2));
        // Small ones, after one that they do not fit beside.
        let (most, small) = (load(1100, 380), load(238, 0));
        assert_eq!(run(&[most, small, small, small]), Some(0..2));
    }

    #[test]
    fn forgotten_deletions_count_once_nothing_older_is_garbage() {
        assert_eq!(run(&[held(900, 299)]), None);
        assert_eq!(run(&[held(900, 300)]), Some(0..1));
        assert_eq!(run(&[load(900, 0), held(900, 300)]), Some(1..2));
        let both = Load {
            bytes: 900,
            garbage: 100,
            held: 200,
        };
        assert_eq!(run(&[both]), Some(0..1));
        let lighter = Load { held: 199, ..both };
        assert_eq!(run(&[lighter]), None);
        // They may delete what is garbage there, which is too little to be copied for.
        assert_eq!(run(&[load(900, 1), both]), None);
    }

    #[test]
    fn what_keeps_forgotten_deletions_goes_first_however_little_it_is() {
        let heavy = held(900, 300);
        assert_eq!(run(&[load(900, 1), heavy]), Some(0..1));
        assert_eq!(run(&[load(900, 1), held(900, 299)]), None);
        // All that is before the last such one, and nothing without garbage.
        assert_eq!(run(&[heavy, load(900, 0), load(900, 1), heavy]), Some(0..1));
        assert_eq!(run(&[load(900, 0), load(900, 1), heavy]), Some(1..2));
        // The heavy one itself waits for that.
        let waits = Load {
            garbage: 1,
            ..held(400, 134)
        };
        assert_eq!(run(&[load(400, 1), waits]), Some(0..1));
        // Not for what is no older.
        assert_eq!(run(&[load(900, 0), load(900, 1), load(900, 0)]), None);
        let last = Load {
            bytes: 900,
            garbage: 1,
            held: 298,
        };
        assert_eq!(run(&[load(900, 0), last]), None);
    }

    #[test]
    fn the_written_segment_is_sealed_once_half_of_it_is_garbage() {
        let seals = |bytes, garbage, full| seals(load(bytes, garbage), SEGMENT, full);
        assert!(!seals(200, 99, false));
        assert!(seals(200, 100, false));
        // Not while it is small, unless room is needed.
        assert!(!seals(119, 119, false));
        assert!(seals(120, 120, false));
        assert!(seals(119, 1, true));
        assert!(seals(900, 1, true));
        // There is nothing to free.
        assert!(!seals(900, 0, true));
        assert!(!seals(0, 0, false));
    }
}
