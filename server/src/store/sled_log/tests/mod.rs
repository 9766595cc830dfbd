//! Tests of the log on disk that need to look inside: what a failed write leaves is made here
//! by hand, and segments are begun where a test wants them.

mod healing;
mod reading;
mod reclaiming;

use super::*;
use crate::store::{
    CommitError, Store, StoreOptions,
    tests::{TestClock, batch, content, contents, delete, key, put, r, reopen, request, write},
};

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes: 64 << 10,
        ..TestClock::new().options()
    }
}

fn log(store: &SledStore) -> &SledLog {
    store.0.log()
}

/// The numbers of the segments, oldest first.
fn numbers(store: &SledStore) -> Vec<u64> {
    let segments = log(store).segments();
    segments.iter().map(|segment| segment.number).collect()
}

fn written(store: &SledStore) -> Arc<Segment> {
    log(store).segments().last().unwrap().clone()
}

/// What comes next is in another segment.
fn begin_segment(store: &SledStore) {
    log(store).rotate(store.progress().revision).unwrap();
}

/// So much garbage, once it is compacted.
async fn churn(store: &SledStore) {
    for i in 0..12 {
        write(store, put("churn", &format!("{i:010000}"))).await;
    }
}

async fn compact(store: &SledStore) {
    store
        .compact(store.progress().revision, true)
        .await
        .unwrap();
}

/// Every record of every segment.
fn records(store: &SledStore) -> Vec<Stored> {
    let mut all = Vec::new();
    for segment in log(store).segments().iter() {
        let every = (Bound::Unbounded, Bound::Unbounded);
        segment
            .scan(every, &mut |item| {
                all.push(item.unwrap().0);
                true
            })
            .unwrap();
    }
    all
}
