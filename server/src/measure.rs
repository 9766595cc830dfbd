//! Counters and histograms for hot paths: plain atomics, no lock, no allocation. They belong
//! to what they measure; whoever wants to show them reads them.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Counts up.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Some more.
    pub fn add(&self, count: u64) {
        if count > 0 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many there are of something now.
#[derive(Debug, Default)]
pub struct Level(AtomicU64);

impl Level {
    /// One more.
    pub fn rise(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; only after [`Level::rise`].
    pub fn fall(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many there are.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds for times of writes, requests and deliveries, in nanoseconds: 100 µs to 30 s.
pub const TIMES: &[u64] = &[
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
];

/// Upper bounds for what runs for long, in nanoseconds: 10 ms to 10 min.
pub const LONG_TIMES: &[u64] = &[
    10_000_000,
    100_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
    300_000_000_000,
    600_000_000_000,
];

/// Upper bounds for numbers: 1 to 100,000.
pub const NUMBERS: &[u64] = &[
    1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16_384, 100_000,
];

/// Counts values by size.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// Units that a shown value has: a second's nanoseconds, or 1.
    scale: f64,
    /// One for each bound, and one for what is above all.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    /// Of times; the bounds are in nanoseconds, shown in seconds.
    pub fn of_times(bounds: &'static [u64]) -> Self {
        Self::new(bounds, 1e9)
    }

    /// Of numbers.
    pub fn of_numbers(bounds: &'static [u64]) -> Self {
        Self::new(bounds, 1.0)
    }

    fn new(bounds: &'static [u64], scale: f64) -> Self {
        Self {
            bounds,
            scale,
            buckets: (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
        }
    }

    /// Takes a value in.
    pub fn observe(&self, value: u64) {
        self.tally().add(value, 1);
    }

    /// Takes a time in.
    pub fn observe_time(&self, time: Duration) {
        self.observe(nanoseconds(time));
    }

    /// Takes many values in: those that fall together are counted together.
    pub fn tally(&self) -> Tally<'_> {
        Tally {
            histogram: self,
            bucket: 0,
            count: 0,
            sum: 0,
        }
    }

    /// What was taken in so far.
    pub fn read(&self) -> Reading {
        let bounds = self.bounds.iter().map(|bound| *bound as f64 / self.scale);
        let bounds = bounds.chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|b| b.load(Ordering::Relaxed));
        let buckets: Vec<_> = bounds.zip(counts).collect();
        Reading {
            sum: self.sum.load(Ordering::Relaxed) as f64 / self.scale,
            count: buckets.iter().map(|(_, count)| count).sum(),
            buckets,
        }
    }
}

/// A time as [`TIMES`] has it.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A histogram as it stood.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Of all values.
    pub sum: f64,
    /// Of values.
    pub count: u64,
    /// Upper bound and the number of values up to it that are above the bound before.
    pub buckets: Vec<(f64, u64)>,
}

/// Values on their way into a histogram; they are there once this is dropped.
#[derive(Debug)]
pub struct Tally<'a> {
    histogram: &'a Histogram,
    bucket: usize,
    count: u64,
    sum: u64,
}

impl Tally<'_> {
    /// Takes a value in, so many times.
    pub fn add(&mut self, value: u64, times: u64) {
        let bucket = self.histogram.bounds.partition_point(|b| *b < value);
        if bucket != self.bucket {
            self.put_down();
            self.bucket = bucket;
        }
        self.count += times;
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
    }

    fn put_down(&mut self) {
        if self.count == 0 {
            return;
        }
        if let Some(bucket) = self.histogram.buckets.get(self.bucket) {
            bucket.fetch_add(self.count, Ordering::Relaxed);
        }
        self.histogram.sum.fetch_add(self.sum, Ordering::Relaxed);
        (self.count, self.sum) = (0, 0);
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        self.put_down();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_under_the_first_bound_that_it_does_not_exceed() {
        let histogram = Histogram::of_numbers(&[1, 4]);
        {
            let mut tally = histogram.tally();
            tally.add(1, 2);
            tally.add(2, 1);
            tally.add(4, 1);
            tally.add(5, 3);
        }
        histogram.observe(0);
        let read = histogram.read();
        assert_eq!(read.buckets, [(1.0, 3), (4.0, 2), (f64::INFINITY, 3)]);
        assert_eq!((read.count, read.sum), (8, 23.0));
    }
}
