//! A watch misses nothing, whatever happens beside it.

use super::*;
use crate::{
    hub::{CatchUp, Position},
    store::StoreError,
};

const WRITES: u64 = 4;

/// Writes [`WRITES`] revisions over two names, some of them deletions.
async fn write_all(store: Arc<dyn Store>) {
    for n in 1..=WRITES {
        let key = key("pods", if n % 2 == 0 { "a" } else { "b" });
        if n == WRITES - 1 {
            delete(&store, key).await;
        } else {
            put(&store, key, &"x".repeat(n as usize)).await;
        }
    }
}

/// Follows a watch while everything is written, and compares.
fn follow(
    events: usize,
    start: fn() -> StartPoint,
    mode: DeliveryMode,
    selector: fn(&str) -> Arc<Selector>,
) {
    in_any_order(move || async move {
        let hub = hub(events).await;
        let store = hub.store().clone();
        let writer = spawn(write_all(store.clone()));
        let selector = selector("pods");
        let opened = Follower::open(&hub, selector.clone(), start(), mode).await;
        let mut follower = opened.unwrap();
        // With what comes: the state before is known from elsewhere.
        if let (StartPoint::Now, Some(at)) = (start(), follower.cursor.position()) {
            follower.copy = stored(&store, &selector, at.revision).await;
        }
        let last = Revision::new(WRITES);
        follower.reach(last).await.unwrap();
        writer.await.unwrap();
        assert_eq!(follower.copy, stored(&store, &selector, last).await);
        if let (StartPoint::After(..), DeliveryMode::EveryChange) = (start(), mode)
            && selector.is_everything()
        {
            let all: Vec<_> = (1..=WRITES).map(Revision::new).collect();
            assert_eq!(follower.changes, all);
        }
    });
}

fn from_the_beginning() -> StartPoint {
    StartPoint::After(Position::settled(Revision::ZERO), CatchUp::Exact)
}

#[test]
fn every_change_comes_once_and_in_order() {
    follow(
        100,
        from_the_beginning,
        DeliveryMode::EveryChange,
        everything,
    );
}

#[test]
fn every_change_comes_though_the_window_is_overwritten() {
    follow(1, from_the_beginning, DeliveryMode::EveryChange, everything);
}

#[test]
fn every_change_comes_without_a_window() {
    follow(0, from_the_beginning, DeliveryMode::EveryChange, everything);
}

#[test]
fn nothing_falls_between_the_state_and_what_follows_it() {
    let state = || StartPoint::InitialState;
    follow(100, state, DeliveryMode::EveryChange, everything);
    follow(1, state, DeliveryMode::EveryChange, even);
}

#[test]
fn nothing_falls_between_now_and_what_comes() {
    let now = || StartPoint::Now;
    follow(100, now, DeliveryMode::EveryChange, everything);
    follow(0, now, DeliveryMode::EveryChange, even);
}

#[test]
fn the_newest_changes_come_to_the_same_state() {
    follow(100, from_the_beginning, DeliveryMode::Latest, even);
    follow(
        1,
        || StartPoint::InitialState,
        DeliveryMode::Latest,
        everything,
    );
}

/// Compacts to where the store is, a few times.
async fn compact(store: Arc<dyn Store>, times: u32) {
    for _ in 0..times {
        pause().await;
        store
            .compact(store.progress().revision, true)
            .await
            .unwrap();
    }
}

#[test]
fn compaction_beside_a_watch_leaves_every_change_or_the_error_and_never_a_gap() {
    in_any_order(|| async {
        let hub = hub(1).await;
        let store = hub.store().clone();
        let writer = spawn(write_all(store.clone()));
        let compactor = spawn(compact(store.clone(), 2));
        let (exact, selector) = (DeliveryMode::EveryChange, everything("pods"));
        let opened = Follower::open(&hub, selector, from_the_beginning(), exact);
        let followed = match opened.await {
            Ok(mut follower) => {
                let reached = follower.reach(Revision::new(WRITES)).await;
                // As far as it came, nothing is left out.
                let all: Vec<_> = (1..=WRITES).map(Revision::new).collect();
                assert!(all.starts_with(&follower.changes), "{:?}", follower.changes);
                reached.map(|()| assert_eq!(follower.changes, all))
            }
            Err(error) => Err(error),
        };
        if let Err(error) = followed {
            let is_compacted = matches!(error, HubError::Store(StoreError::Compacted { .. }));
            assert!(is_compacted, "{error}");
        }
        all(vec![writer, compactor]).await;
    });
}

#[test]
fn compaction_beside_those_who_catch_up_leaves_them_the_state() {
    in_any_order(|| async {
        let hub = hub(1).await;
        let store = hub.store().clone();
        let writer = spawn(write_all(store.clone()));
        let compactor = spawn(compact(store.clone(), 1));
        let last = Revision::new(WRITES);
        let selector = everything("pods");
        let start = StartPoint::After(Position::settled(Revision::ZERO), CatchUp::Net);
        let opened = Follower::open(&hub, selector.clone(), start, DeliveryMode::Latest);
        let mut follower = opened.await.unwrap();
        follower.reach(last).await.unwrap();
        assert_eq!(follower.copy, stored(&store, &selector, last).await);
        all(vec![writer, compactor]).await;
    });
}

#[test]
fn a_hub_that_stops_wakes_its_watches_and_all_who_wait_for_it() {
    in_any_order(|| async {
        let hub = hub(100).await;
        let waits = spawn({
            let hub = hub.clone();
            async move {
                let waited = hub.wait_applied(Revision::new(2)).await;
                assert_eq!(waited, Err(HubError::Stopped));
            }
        });
        let watches = spawn({
            let hub = hub.clone();
            async move {
                let start = StartPoint::InitialState;
                let (selector, mode) = (everything("pods"), DeliveryMode::EveryChange);
                let opened = Follower::open(&hub, selector, start, mode);
                let mut follower = opened.await.unwrap();
                while !follower.cursor.is_stopped() {
                    let step = follower.cursor.step().await.unwrap();
                    if step.idle {
                        poll_fn(|context| follower.cursor.poll_news(context.waker())).await;
                    }
                }
            }
        });
        put(hub.store(), key("pods", "a"), "x").await;
        hub.stop();
        all(vec![waits, watches]).await;
    });
}
