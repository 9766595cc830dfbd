//! Writers: as many as there are clients, each with the next write as soon as the last is
//! acknowledged; or at a rate, whatever the server does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::JoinSet};
use tonic::Status;

use super::{
    BenchError,
    connection::Connection,
    latency::{Clock, Latencies, Values, Window},
    server::Server,
};

/// Names that are written in turn.
const NAMES: usize = 10_000;
/// Clients that share a connection.
pub(super) const CLIENTS_PER_CONNECTION: usize = 8;
/// Writes at a rate that are under way at a time: beyond it they wait, and are late.
const MAX_UNDER_WAY: usize = 4096;

/// What is written where.
#[derive(Clone, Debug)]
pub(super) struct Writes {
    pub(super) clock: Clock,
    pub(super) window: Window,
    pub(super) values: Values,
    /// Objects get one of so many values of a label in turn; 0: none.
    pub(super) shards: usize,
}

/// What was written while was measured.
#[derive(Debug)]
pub(super) struct Written {
    /// Acknowledged within it.
    pub(super) count: u64,
    /// Of what was scheduled within it, until it was acknowledged.
    pub(super) latencies: Latencies,
}

/// Clients that write as fast as they are answered.
pub(super) struct Writing {
    tasks: JoinSet<Result<(Latencies, u64), Status>>,
    stop: Arc<AtomicBool>,
}

impl Writing {
    pub(super) async fn begin(
        server: &Server,
        clients: usize,
        writes: &Writes,
    ) -> Result<Self, BenchError> {
        let connections = clients.div_ceil(CLIENTS_PER_CONNECTION);
        let connections = Connection::several(server.system, &server.address, connections).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for client in 0..clients {
            let mut connection = connections[client % connections.len()].clone();
            let (stop, next, writes) = (stop.clone(), next.clone(), writes.clone());
            tasks.spawn(async move {
                let mut latencies = Latencies::new();
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let scheduled = writes.clock.now();
                    writes.put(&mut connection, number, scheduled).await?;
                    let now = writes.clock.now();
                    if writes.window.holds(scheduled) {
                        latencies.record(now - scheduled, 1);
                    }
                    count += u64::from(writes.window.holds(now));
                }
                Ok((latencies, count))
            });
        }
        Ok(Self { tasks, stop })
    }

    /// Stops them.
    pub(super) async fn end(mut self) -> Result<Written, BenchError> {
        self.stop.store(true, Ordering::Relaxed);
        let mut written = Written {
            count: 0,
            latencies: Latencies::new(),
        };
        while let Some(ended) = self.tasks.join_next().await {
            let ended = ended.unwrap_or_else(|e| Err(Status::internal(e.to_string())));
            let (latencies, count) = ended.map_err(BenchError::call("a write"))?;
            written.latencies.add(&latencies);
            written.count += count;
        }
        Ok(written)
    }
}

impl Writes {
    async fn put(
        &self,
        connection: &mut Connection,
        number: usize,
        scheduled: u64,
    ) -> Result<(), Status> {
        let value = self.values.at(scheduled);
        match self.shards {
            0 => connection.put(number % NAMES, value).await,
            shards => {
                connection
                    .put_in_shard(number % NAMES, number % shards, value)
                    .await
            }
        }
    }

    /// Writes at a rate for a time, each at its moment, whether those before are acknowledged
    /// or not. The first and last moments are the window's.
    pub(super) async fn at_rate(
        &self,
        server: &Server,
        rate: u32,
        warmup: Duration,
        duration: Duration,
    ) -> Result<Written, BenchError> {
        let connections = Connection::several(server.system, &server.address, 4).await?;
        let latencies = Arc::new(Mutex::new(Latencies::new()));
        let count = Arc::new(AtomicU64::new(0));
        let room = Arc::new(Semaphore::new(MAX_UNDER_WAY));
        let every = Duration::from_secs(1) / rate.max(1);
        let (before, in_all) = (
            (warmup.as_secs_f64() * f64::from(rate)).ceil() as u32,
            ((warmup + duration).as_secs_f64() * f64::from(rate)).ceil() as u32,
        );
        let mut moments = Moments::begin(self.clock, every, in_all);
        self.window.begin(moments.nanos(before));
        self.window.end(moments.nanos(in_all));
        let mut tasks = JoinSet::new();
        let mut number = 0;
        while let Some(scheduled) = moments.next.recv().await {
            // The room is never closed.
            let Ok(permit) = room.clone().acquire_owned().await else {
                break;
            };
            let mut connection = connections[number % connections.len()].clone();
            let (writes, latencies, count) = (self.clone(), latencies.clone(), count.clone());
            tasks.spawn(async move {
                writes.put(&mut connection, number, scheduled).await?;
                drop(permit);
                if writes.window.holds(scheduled) {
                    count.fetch_add(1, Ordering::Relaxed);
                    latencies.lock().record(writes.clock.now() - scheduled, 1);
                }
                Ok::<_, Status>(())
            });
            number += 1;
            while let Some(ended) = tasks.try_join_next() {
                check(ended)?;
            }
        }
        while let Some(ended) = tasks.join_next().await {
            check(ended)?;
        }
        let latencies = latencies.lock().clone();
        Ok(Written {
            count: count.load(Ordering::Relaxed),
            latencies,
        })
    }
}

fn check(ended: Result<Result<(), Status>, tokio::task::JoinError>) -> Result<(), BenchError> {
    let ended = ended.unwrap_or_else(|e| Err(Status::internal(e.to_string())));
    ended.map_err(BenchError::call("a write"))
}

/// Moments at a rate, kept by a thread of its own: the runtime's timers are a millisecond
/// coarse, and busy when it is.
pub(crate) struct Moments {
    pub(crate) next: tokio::sync::mpsc::Receiver<u64>,
    first: u64,
    every: u64,
}

impl Moments {
    pub(crate) fn begin(clock: Clock, every: Duration, count: u32) -> Self {
        // The first one a little ahead.
        let first = clock.now() + 10_000_000;
        let (send, next) = tokio::sync::mpsc::channel(MAX_UNDER_WAY);
        let every = every.as_nanos() as u64;
        thread::spawn(move || {
            for n in 0..count {
                let moment = first + u64::from(n) * every;
                thread::sleep(clock.at(moment).saturating_duration_since(Instant::now()));
                if send.blocking_send(moment).is_err() {
                    return;
                }
            }
        });
        Self { next, first, every }
    }

    pub(crate) fn nanos(&self, n: u32) -> u64 {
        self.first + u64::from(n) * self.every
    }
}

/// Fills the store with so many objects, so many at a revision: both systems take a hundred.
pub(super) async fn fill(
    server: &Server,
    objects: usize,
    bytes: usize,
    at_once: usize,
    clock: Clock,
) -> Result<(), BenchError> {
    let value = Values::of(bytes).at(clock.now());
    let connection = Connection::open(server.system, &server.address).await?;
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (mut connection, next, value) = (connection.clone(), next.clone(), value.clone());
        tasks.spawn(async move {
            loop {
                let from = next.fetch_add(at_once, Ordering::Relaxed);
                if from >= objects {
                    return Ok(());
                }
                let numbers = from..objects.min(from + at_once);
                connection.put_all(numbers, &value).await?;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        check(ended)?;
    }
    Ok(())
}
