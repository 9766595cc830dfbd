//! Watches that want each something else: what writing costs with them, and without.

use super::{BenchError, BenchOptions, Case, Measure, Server, measured, writes_of};
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
    let alone = async |writes: &super::Writes| {
        let writing = Writing::begin(server, writers, writes).await?;
        let (seconds, ..) = measured(server, options, writes.clock, &writes.window).await;
        let written = writing.end().await?;
        Ok::<_, BenchError>(written.count as f64 / seconds)
    };
    let before = alone(&writes).await?;
    let layout = Layout {
        watches,
        connections: watches.div_ceil(WATCHES_PER_STREAM),
        watches_per_stream: WATCHES_PER_STREAM,
    };
    let (clock, window) = (writes.clock, &writes.window);
    let watching = Watching::open(server, layout, Wanted::Shard, clock, window).await?;
    let among = alone(&writes).await?;
    let arrived = watching.arrived();
    drop(watching);
    let after = alone(&writes).await?;
    let without = f64::midpoint(before, after);
    Ok(vec![Case {
        name: format!("{watches} label values"),
        measures: vec![
            Measure::new("writes a second without", "", without),
            Measure::new("writes a second with", "", among),
            Measure::new("with by without", "", among / without),
            Measure::new(
                "deliveries by write",
                "",
                arrived as f64 / (among * options.duration.as_secs_f64()),
            ),
        ],
    }])
}
