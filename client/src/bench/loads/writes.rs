//! Durable writes.

use super::{
    BenchError, BenchOptions, Case, Measure, Server, for_a_million, late, measured, writes_of,
};
use crate::bench::writing::Writing;

pub(super) async fn run(server: &Server, options: &BenchOptions) -> Result<Vec<Case>, BenchError> {
    let mut cases = Vec::new();
    let clients = options
        .writers
        .map_or_else(|| vec![1, 64, 256], |count| vec![count]);
    for clients in clients {
        let writes = writes_of(options);
        let writing = Writing::begin(server, clients, &writes).await?;
        let (seconds, spent, own) = measured(server, options, writes.clock, &writes.window).await;
        let written = writing.end().await?;
        let mut measures = vec![Measure::new(
            "writes a second",
            "",
            written.count as f64 / seconds,
        )];
        measures.extend(late(&written.latencies));
        measures.extend(for_a_million("server CPU", spent, written.count));
        measures.extend(for_a_million("loader CPU", own, written.count));
        cases.push(Case {
            name: format!("{clients} clients"),
            measures,
        });
    }
    Ok(cases)
}
