//! Who writes what the watches deliver: over gRPC to Listwatch, whatever the watches come over,
//! and over HTTP to others.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::Method;
use listwatch::v1::{self, batch_operation, list_watch_service_client::ListWatchServiceClient};
use tokio::{
    sync::{Mutex, Semaphore},
    task::{JoinError, JoinSet},
};
use tonic::transport::Channel;

use super::{
    CompareError, Objects, client,
    http::{CONFLICT, Http, Refused},
    objects::name,
    side::{Host, Side},
};
use crate::bench::{
    latency::{Clock, Window},
    writing::Moments,
};

/// Writes that are under way at a time.
const WRITERS: usize = 64;
/// Names that are written in turn.
const NAMES: usize = 10_000;
/// gRPC calls that share a connection.
const CALLS_PER_CONNECTION: usize = 16;
/// Objects that are filled in at one revision, and their bytes.
const BATCH_OBJECTS: usize = 100;
const BATCH_BYTES: usize = 1 << 20;
/// Events that the watches may be behind, taken together, before writers at full speed wait for
/// them: or a backlog would grow that is not delivered in minutes, out of the log.
const MAX_BEHIND: u64 = 1000;
const PAUSE: Duration = Duration::from_millis(1);
/// Writes at a rate that wait: beyond it those that are due wait, and are late.
const MAX_WAITING: usize = 4096;

/// A client that writes one object at a time.
enum Writer {
    Grpc(ListWatchServiceClient<Channel>),
    Http(Http),
}

/// All of them.
pub(super) struct Writers {
    side: Side,
    host: Arc<Host>,
    objects: Arc<Objects>,
    pool: Vec<Mutex<Writer>>,
    /// Names from 0 on that exist.
    names: usize,
}

impl Writers {
    pub(super) async fn open(
        side: &Side,
        host: &Arc<Host>,
        objects: &Arc<Objects>,
        names: usize,
    ) -> Result<Arc<Self>, CompareError> {
        let failed = side.failed("connecting a writer");
        let mut pool = Vec::with_capacity(WRITERS);
        let mut shared = None;
        for number in 0..WRITERS {
            if !side.is_listwatch() {
                let http = Http::connect(&host.site, &Arc::default(), false).await;
                pool.push(Mutex::new(Writer::Http(http.map_err(&failed)?)));
                continue;
            }
            if number % CALLS_PER_CONNECTION == 0 {
                let client = client::connect(&host.site, &Arc::default()).await;
                shared = Some(client.map_err(&failed)?);
            }
            pool.extend(
                shared
                    .clone()
                    .map(|client| Mutex::new(Writer::Grpc(client))),
            );
        }
        Ok(Arc::new(Self {
            side: side.clone(),
            host: host.clone(),
            objects: objects.clone(),
            pool,
            names: names.clamp(1, NAMES),
        }))
    }

    /// Replaces an object that exists.
    async fn put(&self, number: usize, stamp: u64) -> Result<(), String> {
        let number = number % self.names;
        // Always the same writer for an object: none is overtaken, and refused for it.
        let mut writer = self.pool[number % self.pool.len()].lock().await;
        match &mut *writer {
            Writer::Grpc(client) => {
                let request = update(&self.objects, number, stamp);
                client
                    .update(request)
                    .await
                    .map(drop)
                    .map_err(|s| s.to_string())
            }
            Writer::Http(http) => {
                let body = self.objects.json(number, stamp);
                let replaced = self.replace(http, number, body).await;
                replaced.map_err(|refused| refused.why)
            }
        }
    }

    async fn replace(&self, http: &mut Http, number: usize, body: Bytes) -> Result<(), Refused> {
        let path = format!("{}/{}", self.objects.path(), name(number));
        http.json(&self.host.site, Method::PUT, &path, body)
            .await
            .map(drop)
    }

    /// Makes objects of these numbers.
    pub(super) async fn fill(self: &Arc<Self>, numbers: Range<usize>) -> Result<(), CompareError> {
        let each = self.objects.json(0, 0).len().max(1);
        let at_once = (BATCH_BYTES / each).clamp(1, BATCH_OBJECTS);
        let next = Arc::new(AtomicUsize::new(numbers.start));
        let mut tasks = JoinSet::new();
        for place in 0..8 {
            let (this, next, end) = (self.clone(), next.clone(), numbers.end);
            tasks.spawn(async move {
                loop {
                    let from = next.fetch_add(at_once, Ordering::Relaxed);
                    if from >= end {
                        return Ok(());
                    }
                    this.make(place, from..end.min(from + at_once)).await?;
                }
            });
        }
        self.all(tasks, "filling the store").await
    }

    async fn make(&self, place: usize, numbers: Range<usize>) -> Result<(), String> {
        match &mut *self.pool[place].lock().await {
            Writer::Grpc(client) => {
                let operations = numbers.map(|number| v1::BatchOperation {
                    kind: Some(batch_operation::Kind::Update(update(
                        &self.objects,
                        number,
                        0,
                    ))),
                });
                let request = v1::BatchRequest {
                    operations: operations.collect(),
                    request_id: String::new(),
                };
                client
                    .batch(request)
                    .await
                    .map(drop)
                    .map_err(|s| s.to_string())
            }
            Writer::Http(http) => {
                let path = self.objects.path();
                for number in numbers {
                    let body = self.objects.json(number, 0);
                    let made = http
                        .json(&self.host.site, Method::POST, &path, body.clone())
                        .await;
                    let made = match made {
                        Err(refused) if refused.code == CONFLICT => {
                            self.replace(http, number, body).await
                        }
                        made => made.map(drop),
                    };
                    made.map_err(|refused| refused.why)?;
                }
                Ok(())
            }
        }
    }

    /// Writes at a rate for a time, each at its moment, whether those before are acknowledged or
    /// not. Returns how many fell into the time that is measured.
    pub(super) async fn at_rate(
        self: &Arc<Self>,
        (clock, window): (Clock, &Window),
        rate: u32,
        warmup: Duration,
        duration: Duration,
    ) -> Result<u64, CompareError> {
        let count = |time: Duration| (time.as_secs_f64() * f64::from(rate)).ceil() as u32;
        let (before, in_all) = (count(warmup), count(warmup + duration));
        let every = Duration::from_secs(1) / rate.max(1);
        let mut moments = Moments::begin(clock, every, in_all);
        window.begin(moments.nanos(before));
        window.end(moments.nanos(in_all));
        let room = Arc::new(Semaphore::new(MAX_WAITING));
        let mut tasks = JoinSet::new();
        let mut number = 0;
        while let Some(scheduled) = moments.next.recv().await {
            // The room is never closed.
            let Ok(permit) = room.clone().acquire_owned().await else {
                break;
            };
            let this = self.clone();
            tasks.spawn(async move {
                this.put(number, scheduled).await?;
                drop(permit);
                Ok(())
            });
            number += 1;
            while let Some(ended) = tasks.try_join_next() {
                self.check(ended, "a write")?;
            }
        }
        self.all(tasks, "a write").await?;
        Ok(u64::from(in_all - before))
    }

    /// Writes as fast as it is answered, until told to stop. Where the watches are what is slow,
    /// writes wait for them: what has come is `delivered`, to so many watches.
    pub(super) fn begin(
        self: &Arc<Self>,
        (clock, window): (Clock, &Window),
        watches: u64,
        delivered: impl Fn() -> u64 + Clone + Send + Sync + 'static,
    ) -> Writing {
        let stop = Arc::new(AtomicBool::new(false));
        let (all, measured) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..WRITERS {
            let (this, stop, next) = (self.clone(), stop.clone(), next.clone());
            let (all, measured, window) = (all.clone(), measured.clone(), window.clone());
            let delivered = delivered.clone();
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let behind = all.load(Ordering::Relaxed) * watches;
                    if behind.saturating_sub(delivered()) > MAX_BEHIND * watches {
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    this.put(number, clock.now()).await?;
                    all.fetch_add(1, Ordering::Relaxed);
                    if window.holds(clock.now()) {
                        measured.fetch_add(1, Ordering::Relaxed);
                    }
                }
                Ok(())
            });
        }
        Writing {
            writers: self.clone(),
            tasks,
            stop,
            all,
            measured,
        }
    }

    async fn all(
        &self,
        mut tasks: JoinSet<Result<(), String>>,
        what: &'static str,
    ) -> Result<(), CompareError> {
        while let Some(ended) = tasks.join_next().await {
            self.check(ended, what)?;
        }
        Ok(())
    }

    fn check(
        &self,
        ended: Result<Result<(), String>, JoinError>,
        what: &'static str,
    ) -> Result<(), CompareError> {
        let ended = ended.unwrap_or_else(|error| Err(error.to_string()));
        ended.map_err(self.side.failed(what))
    }
}

fn update(objects: &Objects, number: usize, stamp: u64) -> v1::UpdateRequest {
    v1::UpdateRequest {
        resource: Some(objects.stored(number, stamp)),
        allow_missing: true,
        ..v1::UpdateRequest::default()
    }
}

/// Writers at work.
pub(super) struct Writing {
    writers: Arc<Writers>,
    tasks: JoinSet<Result<(), String>>,
    stop: Arc<AtomicBool>,
    all: Arc<AtomicU64>,
    measured: Arc<AtomicU64>,
}

impl Writing {
    /// Stops them. Returns how many writes there were, and how many of them were acknowledged
    /// while was measured.
    pub(super) async fn end(self) -> Result<(u64, u64), CompareError> {
        self.stop.store(true, Ordering::Relaxed);
        self.writers.all(self.tasks, "a write").await?;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok((count(&self.all), count(&self.measured)))
    }
}
