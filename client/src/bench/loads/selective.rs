//! Watches that want each something else: what writing costs with them, and without.

use super::{BenchError, BenchOptions, Case, Measure, Server, for_a_million, measured, writes_of};
use crate::bench::{
    connection::Wanted,
    watching::{Layout, Watching},
    writing::Writing,
};

const WATCHES: usize = 10_000;
const WATCHES_PER_STREAM: usize = 1000;
const WRITERS: usize = 64;

pub(super) async fn run(server: &Server, options: &BenchOptions) -> Result<Vec<Case>, BenchError> {
    let watches = options.watches.unwrap_or(WATCHES);
    let mut writes = writes_of(options);
    writes.shards = watches;
    let writers = options.writers.unwrap_or(WRITERS);
    // Who reads what is delivered shares the machine, so the processor's part shows beside.
    let alone = async |writes: &super::Writes, [server_cpu, loader_cpu]: [&'static str; 2]| {
        let writing = Writing::begin(server, writers, writes).await?;
        let (seconds, spent, own) = measured(server, options, writes.clock, &writes.window).await;
        let count = writing.end().await?.count;
        let mut costs: Vec<Measure> = for_a_million(server_cpu, spent, count).collect();
        costs.extend(for_a_million(loader_cpu, own, count));
        Ok::<_, BenchError>((count as f64 / seconds, costs))
    };
    let names = ["server CPU without", "loader CPU without"];
    let (before, costs_without) = alone(&writes, names).await?;
    let layout = Layout {
        watches,
        connections: watches.div_ceil(WATCHES_PER_STREAM),
        watches_per_stream: WATCHES_PER_STREAM,
    };
    let (clock, window) = (writes.clock, &writes.window);
    let watching = Watching::open(server, layout, Wanted::Shard, clock, window).await?;
    let names_with = ["server CPU with", "loader CPU with"];
    let (among, costs_with) = alone(&writes, names_with).await?;
    let arrived = watching.arrived();
    drop(watching);
    let (after, _) = alone(&writes, names).await?;
    let without = f64::midpoint(before, after);
    let mut measures = vec![
        Measure::new("writes a second without", "", without),
        Measure::new("writes a second with", "", among),
        Measure::new("with by without", "", among / without),
        Measure::new(
            "deliveries by write",
            "",
            arrived as f64 / (among * options.duration.as_secs_f64()),
        ),
    ];
    measures.extend(costs_without);
    measures.extend(costs_with);
    Ok(vec![Case {
        name: format!("{watches} label values"),
        measures,
    }])
}
