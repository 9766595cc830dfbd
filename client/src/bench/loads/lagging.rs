//! One watch that is far behind and reads slowly, and what the writers notice of it (etcd 22264).

use std::time::Duration;

use super::{BenchError, BenchOptions, Case, Clock, Measure, Server, Window, measured, writes_of};
use crate::bench::{
    connection::{Connection, Wanted},
    watching::Tally,
    writing::Writing,
};

const BEHIND: usize = 300_000;
const WRITERS: usize = 64;
/// Between two responses that it reads.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn run(server: &Server, options: &BenchOptions) -> Result<Vec<Case>, BenchError> {
    let writers = options.writers.unwrap_or(WRITERS);
    let behind = options.objects.unwrap_or(BEHIND);
    let failed = BenchError::call;
    let mut connection = Connection::open(server.system, &server.address).await?;
    let from = connection
        .revision()
        .await
        .map_err(failed("reading the revision"))?;
    // One by one: each a revision.
    let filling = writes_of(options);
    let writing = Writing::begin(server, writers, &filling).await?;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = connection
            .revision()
            .await
            .map_err(failed("reading the revision"))?;
        if (now - from) as usize >= behind {
            break;
        }
    }
    writing.end().await?;
    let measure = async || {
        let writes = writes_of(options);
        let writing = Writing::begin(server, writers, &writes).await?;
        let (seconds, ..) = measured(server, options, writes.clock, &writes.window).await;
        let written = writing.end().await?;
        Ok::<_, BenchError>((
            written.latencies.millis(0.99),
            written.count as f64 / seconds,
        ))
    };
    let (before, rate_before) = measure().await?;
    let stream = connection.watch(Wanted::All, Some(from.max(1))).await;
    let mut stream = stream.map_err(failed("opening a watch"))?;
    let tally = Tally::new(Clock::new(), Window::default());
    let reading = tokio::spawn({
        let tally = tally.clone();
        async move {
            while stream.next(&tally).await? {
                tokio::time::sleep(PAUSE).await;
            }
            Ok::<_, tonic::Status>(())
        }
    });
    let beside = measure().await;
    let still = !reading.is_finished();
    reading.abort();
    let (beside, rate_beside) = beside?;
    if !still {
        return Err(BenchError::Missing("the slow watch has ended".into()));
    }
    let (after, rate_after) = measure().await?;
    let (without, rate_without) = (
        f64::midpoint(before, after),
        f64::midpoint(rate_before, rate_after),
    );
    Ok(vec![Case {
        name: format!("{behind} revisions behind"),
        measures: vec![
            Measure::new("write p99 without", "ms", without),
            Measure::new("write p99 with", "ms", beside),
            Measure::new("with by without", "", beside / without),
            Measure::new("writes a second without", "", rate_without),
            Measure::new("writes a second with", "", rate_beside),
            Measure::new("events read meanwhile", "", tally.all() as f64),
        ],
    }])
}
