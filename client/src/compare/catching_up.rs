//! A client that begins, and one that comes back.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::{
    CompareError, Objects, client,
    http::Refused,
    loads::Loaded,
    report::Measured,
    side::{Host, Side},
    stream::{Batch, Link, Start},
};
use crate::bench::latency::{Clock, Window};

/// How long a client may need.
const PATIENCE: Duration = Duration::from_secs(300);
/// What is written before a restart, at most.
const BEFORE_RESTART: Duration = Duration::from_secs(1);

/// How long it takes to have everything, and how many bytes.
pub(super) async fn state(
    loaded: &Loaded<'_>,
    objects: usize,
) -> Result<Vec<Measured>, CompareError> {
    let failed = loaded.side.failed("reading the state");
    let (seconds, bytes, found) = timed(loaded, async {
        let mut client = Following::of(loaded);
        client.connect().await?;
        client.whole().await
    })
    .await
    .map_err(&failed)?;
    // What was there before is there still.
    if found < objects {
        return Err(failed(format!("{found} objects instead of {objects}")));
    }
    let name = |what: &str| format!("first state of {objects}: {what}");
    Ok(vec![
        Measured::new(name("time"), "ms", seconds * 1e3),
        Measured::new(name("bytes"), "MB", bytes / 1e6),
    ])
}

/// How long it takes to be in step again after being away, in the cases that there are.
pub(super) async fn back(loaded: &Loaded<'_>) -> Result<Vec<Measured>, CompareError> {
    let options = loaded.options;
    let mut all = Vec::new();
    let gap = away(loaded, options.away).await?;
    all.extend(come_back(loaded, "away", gap, 1).await?);
    // Only Listwatch can be told to.
    if loaded.side.is_listwatch() {
        let gap = away(loaded, options.away).await?;
        let compacted = client::compact(&loaded.host.site, gap.until).await;
        compacted.map_err(loaded.side.failed("compacting"))?;
        all.extend(come_back(loaded, "compaction", gap, 1).await?);
    }
    if let Some(server) = loaded.host.server.as_ref().filter(|_| loaded.host.is_own()) {
        let gap = away(loaded, options.away.min(BEFORE_RESTART)).await?;
        server.restart().await?;
        all.extend(come_back(loaded, "restart", gap, options.watches).await?);
    }
    Ok(all)
}

/// What a client has missed.
#[derive(Clone, Copy, Debug)]
struct Gap {
    since: i64,
    until: i64,
}

/// Nobody watches, and objects are written at the rate.
async fn away(loaded: &Loaded<'_>, time: Duration) -> Result<Gap, CompareError> {
    let since = loaded.side.revision(loaded.host, loaded.objects).await?;
    let window = Window::default();
    let writers = loaded.writers;
    writers
        .at_rate(
            (Clock::new(), &window),
            loaded.options.rate,
            Duration::ZERO,
            time,
        )
        .await?;
    let until = loaded.side.revision(loaded.host, loaded.objects).await?;
    Ok(Gap { since, until })
}

async fn come_back(
    loaded: &Loaded<'_>,
    what: &'static str,
    gap: Gap,
    watches: usize,
) -> Result<Vec<Measured>, CompareError> {
    let (seconds, bytes, ()) = timed(loaded, async {
        let mut tasks = JoinSet::new();
        // Those that share a connection come one after the other, the others at once.
        let each = loaded.side.watches_per_connection();
        for first in (0..watches).step_by(each) {
            let (mut client, count) = (Following::of(loaded), each.min(watches - first));
            tasks.spawn(async move {
                client.connect().await?;
                for _ in 0..count {
                    client.from(gap).await?;
                }
                Ok::<_, Refused>(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|error| Refused {
                code: 0,
                why: error.to_string(),
            })??;
        }
        Ok(())
    })
    .await
    .map_err(loaded.side.failed("coming back"))?;
    let name = |measured: &str| format!("back after {what}: {measured}");
    Ok(vec![
        Measured::new(name("time"), "ms", seconds * 1e3),
        Measured::new(name("bytes"), "kB a watch", bytes / 1e3 / watches as f64),
    ])
}

/// Seconds and bytes of something.
async fn timed<T>(
    loaded: &Loaded<'_>,
    work: impl Future<Output = Result<T, Refused>>,
) -> Result<(f64, f64, T), String> {
    let (began, before) = (Instant::now(), loaded.host.wire.received());
    let done = tokio::time::timeout(PATIENCE, work).await;
    let done = done.map_err(|_| format!("not within {PATIENCE:?}"))?;
    let done = done.map_err(|refused| refused.why)?;
    let bytes = (loaded.host.wire.received() - before) as f64;
    Ok((began.elapsed().as_secs_f64(), bytes, done))
}

/// A client that reads until it is in step.
struct Following {
    side: Side,
    host: Arc<Host>,
    objects: Arc<Objects>,
    link: Option<Link>,
}

impl Following {
    fn of(loaded: &Loaded<'_>) -> Self {
        Self {
            side: loaded.side.clone(),
            host: loaded.host.clone(),
            objects: loaded.objects.clone(),
            link: None,
        }
    }

    async fn connect(&mut self) -> Result<(), Refused> {
        self.link = Some(Link::open(&self.side, &self.host).await?);
        Ok(())
    }

    /// Reads the state, and returns how many objects there are.
    async fn whole(&mut self) -> Result<usize, Refused> {
        let (mut batch, mut count) = (Batch::default(), 0);
        let mut stream = self.watch(Start::State).await?;
        while stream.next(&mut batch).await? {
            count += batch.stamps.len();
            if batch.ends_state {
                return Ok(count);
            }
        }
        Err(ended())
    }

    /// Goes on from where it was; or begins anew where that is gone.
    async fn from(&mut self, gap: Gap) -> Result<(), Refused> {
        let expired = match self.resume(gap).await {
            Ok(in_step) => !in_step,
            Err(refused) if refused.is_expired() => true,
            Err(refused) => return Err(refused),
        };
        if expired {
            self.connect().await?;
            self.whole().await?;
        }
        Ok(())
    }

    async fn resume(&mut self, gap: Gap) -> Result<bool, Refused> {
        let mut batch = Batch {
            revision: gap.since,
            ..Batch::default()
        };
        let mut stream = self.watch(Start::After(gap.since)).await?;
        let mut in_order = true;
        while stream.next(&mut batch).await? {
            if batch.expired {
                return Ok(false);
            }
            in_order &= !batch.begins_state;
            in_order |= batch.ends_state;
            if in_order && batch.revision >= gap.until {
                return Ok(true);
            }
        }
        Err(ended())
    }

    async fn watch(&mut self, start: Start) -> Result<super::stream::Stream, Refused> {
        let Some(link) = &mut self.link else {
            return Err(ended());
        };
        link.watch(&self.side, &self.host, &self.objects, start)
            .await
    }
}

fn ended() -> Refused {
    Refused {
        code: 0,
        why: "the watch has ended".into(),
    }
}
