//! Streams of watches, and what comes over them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use listwatch::v1::{self, BookmarkKind};
use parking_lot::Mutex;
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tonic::{Status, Streaming};

use super::{
    BenchError,
    connection::{Connection, Wanted},
    etcdserverpb as etcd,
    latency::{Clock, Latencies, Nanos, Window, scheduled},
    server::Server,
};

/// How long a load waits for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// An open stream. Where requests are streamed too, their end would be its end.
pub(super) enum Stream {
    Watch(Streaming<v1::WatchResponse>),
    WatchMany(
        Streaming<v1::WatchManyResponse>,
        #[allow(dead_code, reason = "held open")] mpsc::Sender<v1::WatchManyRequest>,
    ),
    Etcd(
        Streaming<etcd::WatchResponse>,
        #[allow(dead_code, reason = "held open")] mpsc::Sender<etcd::WatchRequest>,
    ),
}

/// What one response holds for the tally.
pub(crate) struct Arrived<'a> {
    /// How many watches it is for.
    pub(crate) watches: u64,
    /// So many of them are open with this.
    pub(crate) opened: u64,
    /// When what came was scheduled.
    pub(crate) values: &'a mut dyn Iterator<Item = Nanos>,
}

impl Stream {
    /// Waits for a response and gives it to the tally; false at the end.
    pub(super) async fn next(&mut self, tally: &Tally) -> Result<bool, Status> {
        match self {
            Self::Watch(stream) => {
                let Some(response) = stream.message().await? else {
                    return Ok(false);
                };
                tally.take(of_listwatch(&response, 1, &mut values(&response)));
            }
            Self::WatchMany(stream, _) => {
                let Some(response) = stream.message().await? else {
                    return Ok(false);
                };
                if let Some(end) = response.end {
                    return Err(Status::aborted(format!(
                        "a watch has ended: {}",
                        end.message
                    )));
                }
                let watches = response.watch_ids.len() as u64;
                let response = response.response.unwrap_or_default();
                tally.take(of_listwatch(&response, watches, &mut values(&response)));
            }
            Self::Etcd(stream, _) => {
                let Some(response) = stream.message().await? else {
                    return Ok(false);
                };
                if response.canceled {
                    return Err(Status::aborted(response.cancel_reason));
                }
                let values = &mut response
                    .events
                    .iter()
                    .map(|event| event.kv.as_ref().map_or(0, |kv| scheduled(&kv.value)));
                tally.take(Arrived {
                    watches: 1,
                    opened: u64::from(response.created),
                    values,
                });
            }
        }
        Ok(true)
    }
}

fn values(response: &v1::WatchResponse) -> impl Iterator<Item = Nanos> {
    let resources = response.events.iter().map(|event| &event.resource);
    resources.map(|resource| resource.as_ref().map_or(0, |r| scheduled(&r.value)))
}

fn of_listwatch<'a>(
    response: &v1::WatchResponse,
    watches: u64,
    values: &'a mut dyn Iterator<Item = Nanos>,
) -> Arrived<'a> {
    let kind = response.bookmark.as_ref().map(v1::Bookmark::kind);
    let opens = matches!(kind, Some(BookmarkKind::Resumed));
    Arrived {
        watches,
        opened: if opens { watches } else { 0 },
        values,
    }
}

/// What has come over the streams of one connection.
pub(crate) struct Tally {
    clock: Clock,
    window: Window,
    latencies: Mutex<Latencies>,
    opened: AtomicU64,
    /// Deliveries that came in while was measured.
    arrived: AtomicU64,
    /// Deliveries of what was scheduled while was measured.
    due: AtomicU64,
    /// Deliveries at all.
    all: AtomicU64,
}

impl Tally {
    pub(crate) fn new(clock: Clock, window: Window) -> Arc<Self> {
        Arc::new(Self {
            clock,
            window,
            latencies: Mutex::new(Latencies::new()),
            opened: AtomicU64::new(0),
            arrived: AtomicU64::new(0),
            due: AtomicU64::new(0),
            all: AtomicU64::new(0),
        })
    }

    /// Deliveries so far.
    pub(super) fn all(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self, arrived: Arrived<'_>) {
        let now = self.clock.now();
        self.opened.fetch_add(arrived.opened, Ordering::Relaxed);
        let (mut events, mut due) = (0, 0);
        {
            let mut latencies = self.latencies.lock();
            for scheduled in arrived.values {
                events += 1;
                if self.window.holds(scheduled) {
                    due += 1;
                    latencies.record(now.saturating_sub(scheduled), arrived.watches);
                }
            }
        }
        if events == 0 {
            return;
        }
        self.all
            .fetch_add(events * arrived.watches, Ordering::Relaxed);
        self.due.fetch_add(due * arrived.watches, Ordering::Relaxed);
        if self.window.holds(now) {
            self.arrived
                .fetch_add(events * arrived.watches, Ordering::Relaxed);
        }
    }
}

/// How watches are spread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) watches: usize,
    pub(super) connections: usize,
    /// 0: a stream for each watch.
    pub(super) watches_per_stream: usize,
}

/// Watches that are followed.
pub(crate) struct Watching {
    tallies: Vec<Arc<Tally>>,
    tasks: JoinSet<Result<(), Status>>,
    watches: u64,
}

impl Watching {
    /// Those that these tasks follow, and count with these.
    pub(crate) fn of(
        tallies: Vec<Arc<Tally>>,
        tasks: JoinSet<Result<(), Status>>,
        watches: u64,
    ) -> Self {
        Self {
            tallies,
            tasks,
            watches,
        }
    }

    /// Opens watches and follows them; returns when all are open.
    pub(super) async fn open(
        server: &Server,
        layout: Layout,
        wanted: impl Fn(usize) -> Wanted,
        clock: Clock,
        window: &Window,
    ) -> Result<Self, BenchError> {
        let connections =
            Connection::several(server.system, &server.address, layout.connections).await?;
        let tally = || Tally::new(clock, window.clone());
        let tallies: Vec<_> = connections.iter().map(|_| tally()).collect();
        let mut tasks = JoinSet::new();
        let per_stream = layout.watches_per_stream.max(1);
        let numbers: Vec<_> = (0..layout.watches).collect();
        for (place, numbers) in numbers.chunks(per_stream).enumerate() {
            let place = place % connections.len();
            let mut connection = connections[place].clone();
            let wanted: Vec<_> = numbers.iter().map(|number| wanted(*number)).collect();
            let stream = match (layout.watches_per_stream, &wanted[..]) {
                (0, [wanted]) => connection.watch(*wanted, None).await,
                _ => connection.watch_many(&wanted, None).await,
            };
            let mut stream = stream.map_err(BenchError::call("opening a watch"))?;
            let tally = tallies[place].clone();
            tasks.spawn(async move {
                while stream.next(&tally).await? {}
                Err(Status::aborted("a stream has ended"))
            });
        }
        let mut watching = Self {
            tallies,
            tasks,
            watches: layout.watches as u64,
        };
        watching
            .until("every watch is open", |w| w.sum(|t| &t.opened) >= w.watches)
            .await?;
        Ok(watching)
    }

    /// Waits until something is so, or a stream fails.
    async fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) -> Result<(), BenchError> {
        let began = Instant::now();
        while !so(self) {
            if let Some(ended) = self.tasks.try_join_next() {
                let status = ended.unwrap_or_else(|e| Err(Status::internal(e.to_string())));
                status.map_err(BenchError::call("following a watch"))?;
            }
            if began.elapsed() > PATIENCE {
                return Err(BenchError::Missing(format!(
                    "not within {PATIENCE:?}: {what} ({} of {} are open, {} deliveries)",
                    self.sum(|t| &t.opened),
                    self.watches,
                    self.sum(|t| &t.all),
                )));
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Waits until every watch has had so many events of those that were scheduled while was
    /// measured: nothing may be missing.
    pub(crate) async fn all_delivered(&mut self, events: u64) -> Result<(), BenchError> {
        let wanted = events * self.watches;
        let what = format!("{wanted} deliveries of {events} events");
        self.until(&what, |w| w.sum(|t| &t.due) >= wanted).await?;
        match self.sum(|t| &t.due) {
            found if found == wanted => Ok(()),
            found => Err(BenchError::Missing(format!(
                "{found} deliveries instead of {wanted}"
            ))),
        }
    }

    /// Waits until every watch has had so many events in all.
    pub(crate) async fn has_all(&mut self, events: u64) -> Result<(), BenchError> {
        let wanted = events * self.watches;
        let what = format!("{wanted} deliveries of {events} events");
        self.until(&what, |w| w.sum(|t| &t.all) >= wanted).await
    }

    /// Tells how many deliveries there were in all, also while others hold this.
    pub(crate) fn counter(&self) -> impl Fn() -> u64 + Clone + Send + Sync + use<> {
        let tallies = self.tallies.clone();
        move || tallies.iter().map(|tally| tally.all()).sum()
    }

    /// Deliveries in all.
    pub(crate) fn all(&self) -> u64 {
        self.sum(|tally| &tally.all)
    }

    /// Deliveries of what was scheduled while was measured.
    pub(crate) fn due(&self) -> u64 {
        self.sum(|tally| &tally.due)
    }

    fn sum(&self, of: impl Fn(&Tally) -> &AtomicU64) -> u64 {
        let counts = self
            .tallies
            .iter()
            .map(|tally| of(tally).load(Ordering::Relaxed));
        counts.sum()
    }

    /// Deliveries that came in while was measured.
    pub(crate) fn arrived(&self) -> u64 {
        self.sum(|tally| &tally.arrived)
    }

    /// How late what was scheduled while was measured came.
    pub(crate) fn latencies(&self) -> Latencies {
        let mut all = Latencies::new();
        for tally in &self.tallies {
            all.add(&tally.latencies.lock());
        }
        all
    }
}
