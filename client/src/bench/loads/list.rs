//! Reading a large state.

use std::time::Instant;

use super::{BenchError, BenchOptions, Case, Clock, Measure, Server};
use crate::bench::{connection::Connection, writing};

const OBJECTS: usize = 100_000;
const OBJECT_BYTES: usize = 1024;
const PAGE: usize = 500;

pub(super) async fn run(server: &Server, options: &BenchOptions) -> Result<Vec<Case>, BenchError> {
    let objects = options.objects.unwrap_or(OBJECTS);
    writing::fill(server, objects, OBJECT_BYTES, 100, Clock::new()).await?;
    tokio::time::sleep(options.warmup).await;
    let mut cases = Vec::new();
    for (name, pages) in [("as a watch begins", false), ("pages of 500", true)] {
        let mut connection = Connection::open(server.system, &server.address).await?;
        let mut read = async || {
            let count = if pages {
                connection.pages(PAGE).await
            } else {
                connection.whole().await
            };
            match count.map_err(BenchError::call("reading everything"))? {
                found if found == objects => Ok(()),
                found => Err(BenchError::Missing(format!(
                    "{found} objects instead of {objects}"
                ))),
            }
        };
        let can_reset = server.reset_peak();
        let before = server.usage();
        read().await?;
        let after = server.usage();
        // Again and again, now that the first has shown what it takes.
        let began = Instant::now();
        let mut times = 0;
        while times == 0 || began.elapsed() < options.duration {
            read().await?;
            times += 1;
        }
        let bytes = (times * objects * OBJECT_BYTES) as f64;
        let mut measures = vec![Measure::new(
            "values",
            "MB/s",
            bytes / 1e6 / began.elapsed().as_secs_f64(),
        )];
        if let (true, Some(before), Some(after)) = (can_reset, before, after) {
            let extra = after.peak.saturating_sub(before.resident) as f64;
            measures.push(Measure::new(
                "extra memory at most",
                "MiB",
                extra / f64::from(1 << 20),
            ));
        }
        cases.push(Case {
            name: name.to_owned(),
            measures,
        });
    }
    Ok(cases)
}
