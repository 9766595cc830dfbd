//! Time as the server sees it, passed in from outside so that simulations own it.

use std::{fmt, sync::Arc, time::SystemTime};

/// Source of wall-clock time for update times, expiry and retention.
///
/// Timers (bookmark intervals, deadlines) use tokio's clock; this one is for the times
/// that are stored. A simulation passes its own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self::new(SystemTime::now)
    }

    /// A clock that reads `now`.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The present moment.
    pub fn now(&self) -> SystemTime {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
