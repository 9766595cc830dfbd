//! Whether there is room to write, and to open a segment: decided from figures alone.

use crate::{limits::DELETE_RESERVE_SHARE, store::log::Room};

/// What a bound leaves room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Ample,
    Deletions,
    Nothing,
}

impl Left {
    pub(super) fn room(self, why: impl FnOnce() -> String) -> Room {
        match self {
            Self::Ample => Room::Ample,
            Self::Deletions => Room::Deletions(why()),
            Self::Nothing => Room::Nothing(why()),
        }
    }
}

/// Deletions may go on beyond the quota: by their share of it, and by a few of the steps that
/// files grow in.
pub(super) fn of_quota(used: u64, quota: u64, file_step: u64) -> Left {
    if used > quota + quota / DELETE_RESERVE_SHARE + 4 * file_step {
        Left::Nothing
    } else if used > quota {
        Left::Deletions
    } else {
        Left::Ample
    }
}

/// So much is free on the disk, and so much is to stay so. Deletions may use most of that.
pub(super) fn of_disk(free: u64, least: u64) -> Left {
    if free >= least {
        Left::Ample
    } else if free >= least / 8 {
        Left::Deletions
    } else {
        Left::Nothing
    }
}

/// Whether it is so little that deletions may soon need the ballast's room.
pub(super) fn takes_ballast(free: u64, least: u64) -> bool {
    free < least / 4
}

/// Whether sled can open a segment whose file grows in such steps.
pub(super) fn opens_segment(free: u64, file_step: u64) -> bool {
    free >= file_step * 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_the_quota_deletions_have_a_sixteenth_of_it_and_four_steps_more() {
        let left = |used| of_quota(used, 1600, 25);
        assert_eq!(left(0), Left::Ample);
        assert_eq!(left(1600), Left::Ample);
        assert_eq!(left(1601), Left::Deletions);
        assert_eq!(left(1800), Left::Deletions);
        assert_eq!(left(1801), Left::Nothing);
    }

    #[test]
    fn deletions_have_seven_eighths_of_what_is_to_stay_free() {
        let left = |free| of_disk(free, 800);
        assert_eq!(left(800), Left::Ample);
        assert_eq!(left(799), Left::Deletions);
        assert_eq!(left(100), Left::Deletions);
        assert_eq!(left(99), Left::Nothing);
        assert_eq!(of_disk(0, 0), Left::Ample);
    }

    #[test]
    fn the_ballast_goes_before_deletions_have_no_room() {
        assert!(!takes_ballast(200, 800));
        assert!(takes_ballast(199, 800));
        assert!(takes_ballast(100, 800));
        assert!(!takes_ballast(0, 0));
    }

    #[test]
    fn a_segment_opens_where_its_file_can_grow_twice() {
        assert!(opens_segment(2048, 1024));
        assert!(!opens_segment(2047, 1024));
    }
}
