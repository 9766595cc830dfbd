//! Moments, how they travel in a value, and how late things are.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::{BufMut as _, Bytes, BytesMut};
use hdrhistogram::Histogram;

/// Nanoseconds since a load began.
pub(crate) type Nanos = u64;

/// The clock of one load, which its writers and watchers share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Nanos {
        self.0.elapsed().as_nanos() as Nanos
    }

    pub(crate) fn at(self, nanos: Nanos) -> Instant {
        self.0 + Duration::from_nanos(nanos)
    }
}

/// The time in which is measured: set once the load runs evenly.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window(Arc<[AtomicU64; 2]>);

impl Window {
    /// Begins to measure.
    pub(crate) fn begin(&self, now: Nanos) {
        self.0[1].store(Nanos::MAX, Ordering::Relaxed);
        self.0[0].store(now.max(1), Ordering::Relaxed);
    }

    /// Ends measuring.
    pub(crate) fn end(&self, now: Nanos) {
        self.0[1].store(now, Ordering::Relaxed);
    }

    pub(crate) fn holds(&self, at: Nanos) -> bool {
        let from = self.0[0].load(Ordering::Relaxed);
        from > 0 && at >= from && at < self.0[1].load(Ordering::Relaxed)
    }
}

/// Values that hold when they were scheduled.
#[derive(Clone, Debug)]
pub(crate) struct Values(Bytes);

impl Values {
    pub(crate) fn of(bytes: usize) -> Self {
        // No two bytes alike in a row: no one can gain by compressing it.
        let filler = (0..bytes.max(8)).map(|n| (n * 167 % 251) as u8);
        Self(filler.collect())
    }

    pub(crate) fn at(&self, scheduled: Nanos) -> Bytes {
        let mut value = BytesMut::with_capacity(self.0.len());
        value.put_u64(scheduled);
        value.put_slice(&self.0[8..]);
        value.freeze()
    }
}

/// When a value was scheduled.
pub(crate) fn scheduled(value: &[u8]) -> Nanos {
    value
        .first_chunk()
        .map_or(0, |first| Nanos::from_be_bytes(*first))
}

/// How late things were; up to ten minutes, to one part in a hundred.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    const HIGHEST: u64 = 600_000_000_000;

    pub(crate) fn new() -> Self {
        // Two digits are always valid, and it grows with what is recorded.
        Self(Histogram::new(2).unwrap_or_else(|_| unreachable!("two digits are fine")))
    }

    pub(crate) fn record(&mut self, latency: Nanos, times: u64) {
        let _ = self.0.record_n(latency.clamp(1, Self::HIGHEST), times);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let _ = self.0.add(&other.0);
    }

    /// A quantile, in milliseconds.
    pub(crate) fn millis(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1e6
    }

    /// The longest, in milliseconds.
    pub(crate) fn max_millis(&self) -> f64 {
        self.0.max() as f64 / 1e6
    }
}
