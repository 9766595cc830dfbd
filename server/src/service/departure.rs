//! When watches end while the server goes away: one after the other, each after a bookmark, so
//! that their clients do not all come to the next server at once (Kubernetes 114925).

use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{WATCH_DEPARTURE_SHARE, WATCH_DEPARTURES_PER_SECOND};

/// The time over which a server's watches end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Departure {
    since: Instant,
    over: Duration,
}

impl Departure {
    /// From now on, so many watches within a grace: evenly over most of it, but no slower than
    /// [`WATCH_DEPARTURES_PER_SECOND`], since a server with few need not wait.
    pub(crate) fn new(watches: usize, grace: Duration) -> Self {
        let unhurried = Duration::from_secs_f64(watches as f64 / WATCH_DEPARTURES_PER_SECOND);
        Self {
            since: Instant::now(),
            over: grace.mul_f64(WATCH_DEPARTURE_SHARE).min(unhurried),
        }
    }

    /// When the watch at this place leaves.
    pub(super) fn moment(&self, place: DeparturePlace) -> Instant {
        self.since + self.over.mul_f64(f64::from(place.0))
    }
}

/// A watch's place in the departure, in `0.0..1.0`.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeparturePlace(f32);

impl DeparturePlace {
    /// Of the watch that was opened as the `number`th: multiples of the golden ratio lie
    /// evenly, whichever of the watches are still open, where random numbers would cluster.
    pub(super) fn of(number: u64) -> Self {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        // 24 bits: what an f32 holds exactly, so that it stays below 1.
        Self((number.wrapping_mul(GOLDEN) >> 40) as f32 / (1 << 24) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most moments within any one of so many equal parts of the time.
    fn most_at_once(departure: &Departure, watches: u64, parts: u32) -> usize {
        let mut counts = vec![0; parts as usize];
        for number in 0..watches {
            let moment = departure.moment(DeparturePlace::of(number));
            let share = (moment - departure.since).div_duration_f64(departure.over);
            assert!((0.0..1.0).contains(&share), "{share}");
            counts[(share * f64::from(parts)) as usize] += 1;
        }
        counts.into_iter().max().unwrap_or_default()
    }

    #[test]
    fn watches_leave_evenly_over_most_of_the_grace() {
        let grace = Duration::from_secs(30);
        let departure = Departure::new(5000, grace);
        assert_eq!(departure.over, grace.mul_f64(WATCH_DEPARTURE_SHARE));
        // A hundredth of them is 50.
        assert!(most_at_once(&departure, 5000, 100) <= 60);
    }

    #[test]
    fn few_watches_are_not_waited_for() {
        let departure = Departure::new(10, Duration::from_secs(30));
        assert_eq!(departure.over, Duration::from_millis(100));
        assert_eq!(Departure::new(5000, Duration::ZERO).over, Duration::ZERO);
    }
}
