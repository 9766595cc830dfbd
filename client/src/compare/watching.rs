//! Watches that are followed, all the same whatever they come over.

use std::sync::Arc;

use tokio::task::JoinSet;
use tonic::Status;

use super::{
    CompareError, Objects,
    http::Refused,
    side::{Host, Side},
    stream::{Batch, Link, Start, Stream},
};
use crate::bench::{
    latency::{Clock, Window},
    watching::{Arrived, Tally, Watching},
};

/// Watches whose deliveries are counted together.
const WATCHES_PER_TALLY: usize = 100;

/// Opens watches from a revision on and follows them; returns when all are open.
pub(super) async fn open(
    side: &Side,
    host: &Arc<Host>,
    objects: &Arc<Objects>,
    watches: usize,
    (clock, window): (Clock, &Window),
) -> Result<Watching, CompareError> {
    let failed = side.failed("opening a watch");
    let from = side.revision(host, objects).await?;
    let tallies: Vec<_> = (0..watches.div_ceil(WATCHES_PER_TALLY))
        .map(|_| Tally::new(clock, window.clone()))
        .collect();
    let mut tasks = JoinSet::new();
    let mut link = None;
    for number in 0..watches {
        if number % side.watches_per_connection() == 0 {
            link = Some(Link::open(side, host).await.map_err(|r| failed(r.why))?);
        }
        let Some(link) = &mut link else { continue };
        let stream = link.watch(side, host, objects, Start::After(from)).await;
        let stream = stream.map_err(|refused| failed(refused.why))?;
        let followed = Followed {
            side: side.clone(),
            host: host.clone(),
            objects: objects.clone(),
            tally: tallies[number / WATCHES_PER_TALLY].clone(),
            from,
        };
        tasks.spawn(async move {
            let ended = followed.follow(stream).await;
            ended.map_err(|refused| Status::aborted(refused.why))
        });
    }
    Ok(Watching::of(tallies, tasks, watches as u64))
}

struct Followed {
    side: Side,
    host: Arc<Host>,
    objects: Arc<Objects>,
    tally: Arc<Tally>,
    from: i64,
}

impl Followed {
    /// Follows a watch, and goes on where one ends that its server has ended: Kubernetes ends
    /// the slow ones, and all of them after a while.
    async fn follow(self, mut stream: Stream) -> Result<(), Refused> {
        let mut batch = Batch {
            revision: self.from,
            ..Batch::default()
        };
        loop {
            while stream.next(&mut batch).await? {
                if batch.expired {
                    let why = "it was so slow that its history is gone".to_owned();
                    return Err(Refused { code: 0, why });
                }
                self.tally.take(Arrived {
                    watches: 1,
                    opened: 0,
                    values: &mut batch.stamps.iter().copied(),
                });
            }
            let mut link = Link::open(&self.side, &self.host).await?;
            let start = Start::After(batch.revision);
            stream = link
                .watch(&self.side, &self.host, &self.objects, start)
                .await?;
        }
    }
}
