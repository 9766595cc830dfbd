//! Watches whose clients have stopped reading: what they take, and what others notice.

use super::{BenchError, BenchOptions, Case, Measure, Server, writes_of};
use crate::bench::{
    connection::{Connection, Wanted},
    watching::{Layout, Watching},
};

const STALLED: usize = 1000;
const READING: usize = 100;
/// So much is sent to each, at the least, before it is measured: more than the way holds.
const FILLED_BYTES: usize = 4 * 1024 * 1024;
const STALLED_PER_CONNECTION: usize = 100;

pub(super) async fn run(server: &Server, options: &BenchOptions) -> Result<Vec<Case>, BenchError> {
    let stalled = options.watches.unwrap_or(STALLED);
    let layout = Layout {
        watches: READING,
        connections: 1,
        watches_per_stream: 0,
    };
    // The same twice: alone, and beside those that have stopped.
    let others = async || {
        let writes = writes_of(options);
        let (clock, window) = (writes.clock, &writes.window);
        let mut watching = Watching::open(server, layout, |_| Wanted::All, clock, window).await?;
        let written = writes.at_rate(server, options.rate, options.warmup, options.duration);
        let written = written.await?;
        watching.all_delivered(written.count).await?;
        Ok::<_, BenchError>((watching.latencies(), written.latencies))
    };
    let (alone, writes_alone) = others().await?;
    let connections = stalled.div_ceil(STALLED_PER_CONNECTION);
    let connections = Connection::several(server.system, &server.address, connections).await?;
    let before = server.usage();
    let mut held = Vec::with_capacity(stalled);
    for number in 0..stalled {
        let mut connection = connections[number % connections.len()].clone();
        let stream = connection.watch(Wanted::All, None).await;
        held.push(stream.map_err(BenchError::call("opening a watch"))?);
    }
    super::fill_up(server, options, FILLED_BYTES).await?;
    let (beside, writes_beside) = others().await?;
    let after = server.usage();
    drop(held);
    let mut measures = vec![
        Measure::new("others' p99 alone", "ms", alone.millis(0.99)),
        Measure::new("others' p99 beside", "ms", beside.millis(0.99)),
        Measure::new(
            "beside by alone",
            "",
            beside.millis(0.99) / alone.millis(0.99),
        ),
        Measure::new("write p99 alone", "ms", writes_alone.millis(0.99)),
        Measure::new("write p99 beside", "ms", writes_beside.millis(0.99)),
    ];
    if let (Some(before), Some(after)) = (before, after) {
        let each = after.resident.saturating_sub(before.resident) as f64 / stalled as f64;
        measures.push(Measure::new("memory each", "KiB", each / 1024.0));
    }
    Ok(vec![Case {
        name: format!("{stalled} have stopped"),
        measures,
    }])
}
