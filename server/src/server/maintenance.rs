//! What runs by itself: compaction by age, expiry, housekeeping.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::task::JoinSet;

use super::ServerOptions;
use crate::{
    clock::Clock,
    hub::Hub,
    limits::{EXPIRY_TICK, LAG_SAMPLE_INTERVAL, SWEEP_INTERVAL},
    store::{Revision, Store},
};

/// Running maintenance; ends with this.
pub(super) struct Maintenance(JoinSet<()>);

impl Maintenance {
    pub(super) fn abort(mut self) {
        self.0.abort_all();
    }
}

pub(super) fn spawn(hub: &Arc<Hub>, options: &ServerOptions) -> Maintenance {
    let mut tasks = JoinSet::new();
    let clock = options.service.clock.clone();
    if let Some(interval) = options.compaction_interval {
        let retention = options.history_retention;
        tasks.spawn(compact(
            hub.store().clone(),
            interval,
            retention,
            clock.clone(),
        ));
    }
    tasks.spawn(expire(hub.store().clone(), clock));
    let sampled = Arc::downgrade(hub);
    tasks.spawn(async move {
        loop {
            tokio::time::sleep(LAG_SAMPLE_INTERVAL).await;
            let Some(hub) = sampled.upgrade() else { return };
            let mut lags = hub.figures().lag.tally();
            hub.lags(|_, lag| lags.add(lag, 1));
        }
    });
    let hub = Arc::downgrade(hub);
    tasks.spawn(async move {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            let Some(hub) = hub.upgrade() else { return };
            hub.sweep();
        }
    });
    Maintenance(tasks)
}

/// Compacts to what was the newest revision `retention` ago.
async fn compact(store: Arc<dyn Store>, interval: Duration, retention: Duration, clock: Clock) {
    loop {
        tokio::time::sleep(interval).await;
        let Some(time) = clock.now().checked_sub(retention) else {
            continue;
        };
        let revision = store.revision_at(time);
        if revision == Revision::ZERO {
            continue;
        }
        match store.compact(revision, false).await {
            Ok(compacted) => tracing::debug!(%compacted, "compacted"),
            Err(error) => tracing::warn!(%error, "compaction failed"),
        }
    }
}

/// Deletes what is due. The next deadline is looked at again every tick, since a nearer
/// one may have been written meanwhile.
async fn expire(store: Arc<dyn Store>, clock: Clock) {
    loop {
        let pause = match store.expire_due().await {
            Ok(next) => until(next, clock.now()).min(EXPIRY_TICK),
            Err(error) => {
                tracing::warn!(%error, "expiry failed");
                Duration::from_secs(1)
            }
        };
        tokio::time::sleep(pause).await;
    }
}

fn until(deadline: Option<SystemTime>, now: SystemTime) -> Duration {
    deadline.map_or(EXPIRY_TICK, |deadline| {
        deadline.duration_since(now).unwrap_or_default()
    })
}
