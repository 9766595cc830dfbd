//! One change to many watches.

use super::{
    BenchError, BenchOptions, Case, Measure, Server, Spent, for_a_million, late, measured,
    writes_of,
};
use crate::bench::{
    connection::Wanted,
    watching::{Layout, Watching},
    writing::Writing,
};

const CONNECTIONS: usize = 10;
const WATCHES_PER_STREAM: usize = 100;
/// Clients that write as fast as they can.
const WRITERS: usize = 64;

fn wanted(options: &BenchOptions) -> impl Fn(usize) -> Wanted {
    let distinct = options.distinct;
    move |number| {
        if distinct {
            Wanted::AllBut(number)
        } else {
            Wanted::All
        }
    }
}

fn name(watches: usize, watches_per_stream: usize) -> String {
    match watches_per_stream {
        0 => format!("{watches} streams"),
        many => format!("{watches} watches, {many}/stream"),
    }
}

/// Writes at a rate. Every delivery must come.
pub(super) async fn at_rate(
    server: &Server,
    options: &BenchOptions,
    watches_per_stream: usize,
) -> Result<Vec<Case>, BenchError> {
    let writes = writes_of(options);
    let layout = Layout {
        watches: options.watches.unwrap_or(1000),
        connections: CONNECTIONS,
        watches_per_stream,
    };
    let (clock, window) = (writes.clock, &writes.window);
    let mut watching = Watching::open(server, layout, wanted(options), clock, window).await?;
    // The warm-up is part of it: it costs as much, and is a sixth of the time.
    let spent = Spent::begin(server);
    let written = writes
        .at_rate(server, options.rate, options.warmup, options.duration)
        .await?;
    watching.all_delivered(written.count).await?;
    let (_, cpu, own) = spent.end(server);
    let share = options
        .duration
        .div_duration_f64(options.warmup + options.duration);
    let deliveries = written.count * layout.watches as u64;
    let mut measures = Vec::from(late(&watching.latencies()));
    measures.extend(for_a_million(
        "server CPU",
        cpu.map(|cpu| cpu * share),
        deliveries,
    ));
    measures.extend(for_a_million(
        "loader CPU",
        own.map(|own| own * share),
        deliveries,
    ));
    measures.push(Measure::new(
        "write p99",
        "ms",
        written.latencies.millis(0.99),
    ));
    Ok(vec![Case {
        name: name(layout.watches, watches_per_stream),
        measures,
    }])
}

/// Writers as fast as they can.
pub(super) async fn full(
    server: &Server,
    options: &BenchOptions,
    watches: usize,
) -> Result<Vec<Case>, BenchError> {
    let writes = writes_of(options);
    let watches = options.watches.unwrap_or(watches);
    let layout = Layout {
        watches,
        connections: watches.div_ceil(WATCHES_PER_STREAM),
        watches_per_stream: WATCHES_PER_STREAM,
    };
    let (clock, window) = (writes.clock, &writes.window);
    let watching = Watching::open(server, layout, wanted(options), clock, window).await?;
    let writers = options.writers.unwrap_or(WRITERS);
    let writing = Writing::begin(server, writers, &writes).await?;
    let (seconds, cpu, own) = measured(server, options, clock, window).await;
    let written = writing.end().await?;
    let arrived = watching.arrived();
    // What is late is late: what was scheduled last comes yet.
    tokio::time::sleep(options.warmup).await;
    let mut measures = vec![
        Measure::new("deliveries a second", "", arrived as f64 / seconds),
        Measure::new("writes a second", "", written.count as f64 / seconds),
    ];
    measures.extend(late(&watching.latencies()));
    measures.extend(for_a_million("server CPU", cpu, arrived));
    measures.extend(for_a_million("loader CPU", own, arrived));
    Ok(vec![Case {
        name: name(watches, WATCHES_PER_STREAM),
        measures,
    }])
}
