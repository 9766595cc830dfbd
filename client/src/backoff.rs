//! How long to wait before the next attempt.

use std::{fmt, sync::Arc, time::Duration};

use rand::Rng as _;

/// Gives numbers of [0, 1). From outside, so that tests decide.
pub type Randomness = Arc<dyn Fn() -> f64 + Send + Sync>;

/// The default [`Randomness`].
#[must_use]
pub fn thread_randomness() -> f64 {
    rand::rng().random()
}

/// The bounds of a [`Backoff`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackoffOptions {
    /// The longest first delay.
    pub initial: Duration,
    /// By how much the longest delay grows from one failure to the next.
    pub factor: f64,
    /// The longest delay of all.
    pub max: Duration,
}

impl Default for BackoffOptions {
    /// 800 ms, doubled up to 30 s: the numbers of Kubernetes' reflectors.
    fn default() -> Self {
        Self {
            initial: Duration::from_millis(800),
            factor: 2.0,
            max: Duration::from_secs(30),
        }
    }
}

/// Exponential backoff with full jitter: each delay is drawn evenly between nothing and a
/// bound that grows with each failure, so that clients that failed together do not come
/// back together.
#[derive(Clone)]
pub struct Backoff {
    options: BackoffOptions,
    bound: Duration,
    randomness: Randomness,
}

impl Backoff {
    /// Starts at `options.initial`.
    #[must_use]
    pub fn new(options: BackoffOptions, randomness: Randomness) -> Self {
        Self {
            options,
            bound: options.initial.min(options.max),
            randomness,
        }
    }

    /// The delay after one more failure.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.jittered(self.bound);
        let grown = self.bound.as_secs_f64() * self.options.factor.max(1.0);
        self.bound = Duration::try_from_secs_f64(grown)
            .map_or(self.options.max, |d| d.min(self.options.max));
        delay
    }

    /// Something between nothing and `bound`, without counting a failure.
    #[must_use]
    pub fn jittered(&self, bound: Duration) -> Duration {
        bound.mul_f64((self.randomness)().clamp(0.0, 1.0))
    }

    /// Back to the first delay.
    pub fn reset(&mut self) {
        self.bound = self.options.initial.min(self.options.max);
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff")
            .field("options", &self.options)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_from_800_ms_to_30_s() {
        let mut backoff = Backoff::new(BackoffOptions::default(), Arc::new(|| 1.0));
        let delays: Vec<u128> = (0..8).map(|_| backoff.next_delay().as_millis()).collect();
        assert_eq!(delays, [800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        backoff.reset();
        assert_eq!(backoff.next_delay(), Duration::from_millis(800));
    }

    #[test]
    fn jitter_is_full() {
        let mut backoff = Backoff::new(BackoffOptions::default(), Arc::new(|| 0.0));
        assert_eq!(backoff.next_delay(), Duration::ZERO);
        let mut backoff = Backoff::new(BackoffOptions::default(), Arc::new(|| 0.5));
        assert_eq!(backoff.next_delay(), Duration::from_millis(400));
    }
}
