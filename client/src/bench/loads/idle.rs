//! What a watch takes to which nothing happens.

use std::time::Duration;

use super::{BenchError, BenchOptions, Case, Clock, Measure, Server, Window};
use crate::bench::{
    connection::{Connection, Wanted},
    watching::{Layout, Watching},
};

const WATCHES: usize = 2000;
/// Until the server has given back what it needed to open them.
const REST: Duration = Duration::from_secs(3);

pub(super) async fn run(server: &Server, options: &BenchOptions) -> Result<Vec<Case>, BenchError> {
    let watches = options.watches.unwrap_or(WATCHES);
    let mut cases = Vec::new();
    // Something must be there, or there is nothing to watch.
    let mut connection = Connection::open(server.system, &server.address).await?;
    let first = connection
        .put(0, super::Values::of(options.object_bytes).at(0))
        .await;
    first.map_err(BenchError::call("a write"))?;
    // All stay open until the end: memory that one layout gave back would hide the next one's.
    let mut held = Vec::new();
    for (name, connections, watches_per_stream) in [
        ("100 streams a connection", watches.div_ceil(100), 0),
        ("one stream a connection", watches, 0),
        ("100 watches a stream", watches.div_ceil(100), 100),
    ] {
        let layout = Layout {
            watches,
            connections,
            watches_per_stream,
        };
        let all = if options.distinct {
            Wanted::AllBut
        } else {
            |_| Wanted::All
        };
        let before = server.usage();
        let (clock, window) = (Clock::new(), Window::default());
        held.push(Watching::open(server, layout, all, clock, &window).await?);
        tokio::time::sleep(REST).await;
        let after = server.usage();
        if let (Some(before), Some(after)) = (before, after) {
            let each = after.resident.saturating_sub(before.resident) as f64 / watches as f64;
            cases.push(Case {
                name: name.to_owned(),
                measures: vec![Measure::new("memory a watch", "KiB", each / 1024.0)],
            });
        }
    }
    drop(held);
    Ok(cases)
}
