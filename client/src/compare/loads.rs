//! What is measured of each side, in its order.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    CompareError, CompareOptions, Objects, catching_up,
    report::Measured,
    side::{Host, Side},
    watching,
    writers::Writers,
};
use crate::bench::{
    latency::{Clock, Window},
    process,
};

/// Until a server has given back what it needed to open watches, at most.
const REST: Duration = Duration::from_secs(3);

/// Everything against one server.
pub(super) async fn run(
    side: &Side,
    host: &Arc<Host>,
    options: &CompareOptions,
    tell: &mut impl FnMut(&str),
) -> Result<Vec<Measured>, CompareError> {
    let objects = Arc::new(options.objects.clone());
    let mut states = options.states.clone();
    states.sort_unstable();
    states.dedup();
    let first = states.first().copied().unwrap_or(1);
    let writers = Writers::open(side, host, &objects, first).await?;
    tell(&format!("writing {first} objects"));
    writers.fill(0..first).await?;
    let side = Loaded {
        side,
        host,
        options,
        objects: &objects,
        writers: &writers,
    };
    let mut all = Vec::new();
    tell("as many deliveries as there can be");
    all.extend(side.full().await?);
    tell("a fixed rate");
    all.extend(side.at_rate().await?);
    tell("memory");
    all.extend(side.memory().await?);
    tell("coming back");
    all.extend(catching_up::back(&side).await?);
    let mut filled = 0;
    for objects in states {
        tell(&format!("a state of {objects} objects"));
        writers.fill(filled.max(first)..objects.max(first)).await?;
        filled = objects;
        all.extend(catching_up::state(&side, objects).await?);
    }
    Ok(all)
}

/// A side that holds objects.
pub(super) struct Loaded<'a> {
    pub(super) side: &'a Side,
    pub(super) host: &'a Arc<Host>,
    pub(super) options: &'a CompareOptions,
    pub(super) objects: &'a Arc<Objects>,
    pub(super) writers: &'a Arc<Writers>,
}

/// Processor time at a moment.
struct Spent {
    server: Option<Duration>,
    client: Option<Duration>,
}

impl Spent {
    fn now(host: &Host) -> Self {
        Self {
            server: host.usage().map(|usage| usage.cpu),
            client: process::usage(std::process::id()).map(|usage| usage.cpu),
        }
    }

    /// Processor seconds since then for a million of something: the server's and ours.
    fn since(&self, then: &Self, count: u64) -> Vec<Measured> {
        let each = |now: Option<Duration>, then: Option<Duration>| {
            let seconds = now?.saturating_sub(then?).as_secs_f64();
            (count > 0).then(|| seconds / count as f64 * 1e6)
        };
        let measured = |name, value: Option<f64>| {
            value.map(|value| Measured::new(name, "s a million deliveries", value))
        };
        let server = measured("server CPU", each(self.server, then.server));
        let client = measured("client CPU", each(self.client, then.client));
        server.into_iter().chain(client).collect()
    }
}

impl Loaded<'_> {
    async fn full(&self) -> Result<Vec<Measured>, CompareError> {
        let (options, clock, window) = (self.options, Clock::new(), Window::default());
        let timed = (clock, &window);
        let missing = |error: crate::bench::BenchError| {
            self.side.failed("deliveries at full speed")(error.to_string())
        };
        let watches = options.watches;
        let mut watching =
            watching::open(self.side, self.host, self.objects, watches, timed).await?;
        let writing = self
            .writers
            .begin(timed, watches as u64, watching.counter());
        tokio::time::sleep(options.warmup).await;
        let (then, began) = (Spent::now(self.host), Instant::now());
        window.begin(clock.now());
        tokio::time::sleep(options.duration).await;
        window.end(clock.now());
        let (now, seconds) = (Spent::now(self.host), began.elapsed().as_secs_f64());
        let (written, measured) = writing.end().await?;
        let arrived = watching.arrived();
        // What is late is late, and must come all the same.
        watching.has_all(written).await.map_err(missing)?;
        let mut all = vec![
            Measured::new(
                "deliveries a second, full speed",
                "",
                arrived as f64 / seconds,
            ),
            Measured::new("writes a second, full speed", "", measured as f64 / seconds),
        ];
        all.extend(now.since(&then, arrived));
        Ok(all)
    }

    async fn at_rate(&self) -> Result<Vec<Measured>, CompareError> {
        let (options, clock, window) = (self.options, Clock::new(), Window::default());
        let timed = (clock, &window);
        let watches = options.watches;
        let mut watching =
            watching::open(self.side, self.host, self.objects, watches, timed).await?;
        let before = self.host.wire.received();
        let written = self
            .writers
            .at_rate(timed, options.rate, options.warmup, options.duration);
        let written = written.await?;
        let delivered = watching.all_delivered(written).await;
        delivered.map_err(|e| self.side.failed("deliveries at a rate")(e.to_string()))?;
        let bytes = (self.host.wire.received() - before) as f64;
        let latencies = watching.latencies();
        Ok(vec![
            Measured::new("latency p50, fixed rate", "ms", latencies.millis(0.5)),
            Measured::new("latency p99, fixed rate", "ms", latencies.millis(0.99)),
            Measured::new("deliveries, fixed rate", "", watching.due() as f64),
            Measured::new(
                "on the wire",
                "bytes an event",
                bytes / watching.all().max(1) as f64,
            ),
        ])
    }

    async fn memory(&self) -> Result<Vec<Measured>, CompareError> {
        if self.host.usage().is_none() {
            return Ok(Vec::new());
        }
        let rest = self.options.warmup.min(REST);
        let watches = self.options.watches;
        let window = Window::default();
        let open = || {
            let timed = (Clock::new(), &window);
            watching::open(self.side, self.host, self.objects, watches, timed)
        };
        // Memory that was used before is used again: what is new is what counts.
        drop(open().await?);
        tokio::time::sleep(rest).await;
        let before = self.host.usage();
        let watching = open().await?;
        tokio::time::sleep(rest).await;
        let after = self.host.usage();
        drop(watching);
        let (Some(before), Some(after)) = (before, after) else {
            return Ok(Vec::new());
        };
        let each = after.resident.saturating_sub(before.resident) as f64 / watches as f64;
        Ok(vec![Measured::new(
            "server memory",
            "KiB a watch",
            each / 1024.0,
        )])
    }
}
