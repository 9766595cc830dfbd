//! A server that is restarted under its watches: whether they all come back, without a new
//! state, and not all at once.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use listwatch::v1::Resource;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::{BenchError, BenchOptions, Case, Measure, Server};
use crate::{
    Client, Event, Select, WatchOptions,
    bench::{
        connection::{Connection, name},
        latency::Values,
    },
    watcher,
};

const WATCHES: usize = 5000;
const WATCHES_PER_CONNECTION: usize = 100;
const PATIENCE: Duration = Duration::from_secs(120);
/// What is written after the restart.
const LAST: usize = 1;
/// How finely attempts are counted.
const BIN_MILLIS: u64 = 100;

/// What the watches have seen.
#[derive(Default)]
struct Seen {
    /// Initial states.
    states: AtomicU64,
    resumed: AtomicU64,
    /// Watches that have had the last write.
    last: AtomicU64,
    /// Attempts to come back, by when they are made.
    attempts: Mutex<BTreeMap<u64, u64>>,
}

pub(super) async fn run(server: &Server, options: &BenchOptions) -> Result<Vec<Case>, BenchError> {
    if !server.is_own() {
        return Err(BenchError::Server(
            "restart needs a server that bench starts: listwatchd".into(),
        ));
    }
    let watches = options.watches.unwrap_or(WATCHES);
    let values = Values::of(options.object_bytes);
    let mut connection = Connection::open(server.system, &server.address).await?;
    let put = async |connection: &mut Connection, number| {
        let written = connection.put(number, values.at(0)).await;
        written.map_err(BenchError::call("a write"))
    };
    put(&mut connection, 0).await?;
    let seen = Arc::new(Seen::default());
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    let mut client = None;
    for number in 0..watches {
        if number % WATCHES_PER_CONNECTION == 0 {
            let connected = Client::connect(server.address.clone()).await;
            client = Some(connected.map_err(|e| BenchError::Server(e.to_string()))?);
        }
        let Some(client) = client.clone() else {
            continue;
        };
        let seen = seen.clone();
        tasks.spawn(async move {
            let mut events = watcher(client, WatchOptions::new(Select::all("bench")));
            while let Some(Ok(event)) = events.next().await {
                seen.take(&event, began);
            }
        });
    }
    let so = |count: &AtomicU64| count.load(Ordering::Relaxed) >= watches as u64;
    until("every watch has the state", || so(&seen.states)).await?;
    let restarting = Instant::now();
    let at = began.elapsed();
    server.restart().await?;
    let down = restarting.elapsed();
    let mut connection = Connection::open(server.system, &server.address).await?;
    put(&mut connection, LAST).await?;
    until("every watch has what was written after the restart", || {
        so(&seen.last)
    })
    .await?;
    let back = restarting.elapsed();
    drop(tasks);
    let states = seen.states.load(Ordering::Relaxed) - watches as u64;
    let (attempts, most) = seen.attempts_since(at);
    Ok(vec![Case {
        name: format!("{watches} watches"),
        measures: vec![
            Measure::new("new states", "", states as f64),
            Measure::new("resumed", "", seen.resumed.load(Ordering::Relaxed) as f64),
            Measure::new("attempts", "", attempts as f64),
            Measure::new("most attempts in a second", "", most as f64),
            Measure::new("until the server answers", "s", down.as_secs_f64()),
            Measure::new("until all are in step", "s", back.as_secs_f64()),
        ],
    }])
}

impl Seen {
    fn take(&self, event: &Event, began: Instant) {
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        match event {
            Event::InitDone(_) => {
                count(&self.states);
            }
            Event::Resumed(_) => {
                count(&self.resumed);
            }
            Event::Apply { object, .. } | Event::InitApply(object) if is_last(object) => {
                count(&self.last);
            }
            Event::Disconnected { retry_in, .. } => {
                let at = (began.elapsed() + *retry_in).as_millis() as u64 / BIN_MILLIS;
                *self.attempts.lock().entry(at).or_default() += 1;
            }
            _ => {}
        }
    }

    /// Attempts since a moment, and the most within any second.
    fn attempts_since(&self, since: Duration) -> (u64, u64) {
        let attempts = self.attempts.lock();
        let after = attempts.range(since.as_millis() as u64 / BIN_MILLIS..);
        let in_the_second_from = |first: u64| {
            attempts
                .range(first..first + 1000 / BIN_MILLIS)
                .map(|(_, count)| *count)
                .sum::<u64>()
        };
        let most = after.clone().map(|(bin, _)| in_the_second_from(*bin)).max();
        (after.map(|(_, count)| *count).sum(), most.unwrap_or(0))
    }
}

fn is_last(object: &Resource) -> bool {
    object
        .key
        .as_ref()
        .is_some_and(|key| key.name == name(LAST))
}

async fn until(what: &str, so: impl Fn() -> bool) -> Result<(), BenchError> {
    let began = Instant::now();
    while !so() {
        if began.elapsed() > PATIENCE {
            return Err(BenchError::Missing(format!(
                "not within {PATIENCE:?}: {what}"
            )));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}
