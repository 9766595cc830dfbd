//! The loads.

mod fan_out;
mod idle;
mod lagging;
mod list;
mod restart;
mod selective;
mod slow_readers;
mod writes;

use std::{
    fmt,
    str::FromStr,
    time::{Duration, Instant},
};

use super::{
    BenchError, BenchOptions, Case, System,
    latency::{Clock, Latencies, Values, Window},
    process,
    report::Measure,
    server::Server,
    writing::{self, Writes},
};

/// What is done to a server, and measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Durable writes by 1, 64 and 256 clients.
    Writes,
    /// 1,000 watches with a stream each over 10 connections, and writes at a rate.
    FanOutRate,
    /// The same, 100 watches a stream.
    FanOutRateMany,
    /// 1,000 watches, 100 a stream, and 64 clients that write as fast as they can.
    FanOutFull,
    /// The same with 100 watches.
    FanOutFull100,
    /// 10,000 watches, each of another value of a label, and what writing costs with them.
    Selective,
    /// Memory of a watch to which nothing happens.
    IdleMemory,
    /// 1,000 watches whose clients have stopped reading, and what others notice of them.
    SlowReaders,
    /// A large state as a watch begins with it, and in pages.
    List,
    /// One watch far behind that reads slowly, and what writers notice of it.
    Lagging,
    /// A server that is restarted under its watches.
    Restart,
}

impl Load {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Writes,
        Self::FanOutRate,
        Self::FanOutRateMany,
        Self::FanOutFull,
        Self::FanOutFull100,
        Self::Selective,
        Self::IdleMemory,
        Self::SlowReaders,
        Self::List,
        Self::Lagging,
        Self::Restart,
    ];

    /// As the command line has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Writes => "writes",
            Self::FanOutRate => "fan-out-rate",
            Self::FanOutRateMany => "fan-out-rate-many",
            Self::FanOutFull => "fan-out-full",
            Self::FanOutFull100 => "fan-out-full-100",
            Self::Selective => "selective",
            Self::IdleMemory => "idle-memory",
            Self::SlowReaders => "slow-readers",
            Self::List => "list",
            Self::Lagging => "lagging",
            Self::Restart => "restart",
        }
    }

    /// It means something to such a server.
    pub(super) fn suits(self, system: System) -> bool {
        match self {
            // Labels, and this client's way of coming back.
            Self::Selective | Self::Restart => system == System::Listwatch,
            _ => true,
        }
    }

    pub(super) async fn run(
        self,
        server: &Server,
        options: &BenchOptions,
    ) -> Result<Vec<Case>, BenchError> {
        match self {
            Self::Writes => writes::run(server, options).await,
            Self::FanOutRate => fan_out::at_rate(server, options, 0).await,
            Self::FanOutRateMany => fan_out::at_rate(server, options, 100).await,
            Self::FanOutFull => fan_out::full(server, options, 1000).await,
            Self::FanOutFull100 => fan_out::full(server, options, 100).await,
            Self::Selective => selective::run(server, options).await,
            Self::IdleMemory => idle::run(server, options).await,
            Self::SlowReaders => slow_readers::run(server, options).await,
            Self::List => list::run(server, options).await,
            Self::Lagging => lagging::run(server, options).await,
            Self::Restart => restart::run(server, options).await,
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Load {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|load| load.name() == text);
        found.ok_or_else(|| format!("{text:?} is no load; there are {}", names()))
    }
}

/// Writes with a clock and a window of their own.
fn writes_of(options: &BenchOptions) -> Writes {
    Writes {
        clock: Clock::new(),
        window: Window::default(),
        values: Values::of(options.object_bytes),
        shards: 0,
    }
}

/// Processor time over a time.
struct Spent {
    began: Instant,
    server: Option<Duration>,
    loader: Option<Duration>,
}

impl Spent {
    fn begin(server: &Server) -> Self {
        Self {
            began: Instant::now(),
            server: server.usage().map(|usage| usage.cpu),
            loader: process::usage(std::process::id()).map(|usage| usage.cpu),
        }
    }

    /// What has passed since: seconds, the server's and this program's processor seconds.
    fn end(&self, server: &Server) -> (f64, Option<f64>, Option<f64>) {
        let seconds = self.began.elapsed().as_secs_f64();
        let now = Self::begin(server);
        let since = |now: Option<Duration>, then: Option<Duration>| {
            Some(now?.saturating_sub(then?).as_secs_f64())
        };
        (
            seconds,
            since(now.server, self.server),
            since(now.loader, self.loader),
        )
    }
}

/// Measures for the warm-up and then the duration, and says what was spent meanwhile.
async fn measured(
    server: &Server,
    options: &BenchOptions,
    clock: Clock,
    window: &Window,
) -> (f64, Option<f64>, Option<f64>) {
    tokio::time::sleep(options.warmup).await;
    let spent = Spent::begin(server);
    window.begin(clock.now());
    tokio::time::sleep(options.duration).await;
    window.end(clock.now());
    spent.end(server)
}

/// The figures of latencies.
fn late(latencies: &Latencies) -> [Measure; 3] {
    [
        Measure::new("p50", "ms", latencies.millis(0.5)),
        Measure::new("p99", "ms", latencies.millis(0.99)),
        Measure::new("longest", "ms", latencies.max_millis()),
    ]
}

/// Processor seconds for a million of something.
fn for_a_million(
    name: &'static str,
    seconds: Option<f64>,
    count: u64,
) -> impl Iterator<Item = Measure> {
    let seconds = seconds.filter(|_| count > 0);
    let each = seconds.map(|seconds| seconds / count as f64 * 1e6);
    each.map(|value| Measure::new(name, "s a million", value))
        .into_iter()
}

/// Writes so many bytes, so that who does not read is behind.
async fn fill_up(server: &Server, options: &BenchOptions, bytes: usize) -> Result<(), BenchError> {
    let objects = bytes / options.object_bytes.max(1);
    writing::fill(
        server,
        objects.max(1),
        options.object_bytes,
        1,
        Clock::new(),
    )
    .await
}
