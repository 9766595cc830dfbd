//! What the hub keeps of a collection goes with its last watch, and never from under another.

use super::*;

/// Opens a watch of what comes and lets go of it.
async fn come_and_go(hub: Arc<Hub>) {
    let (selector, mode) = (everything("pods"), DeliveryMode::EveryChange);
    let opened = Follower::open(&hub, selector, StartPoint::InitialState, mode);
    drop(opened.await.unwrap());
}

#[test]
fn the_first_write_to_a_collection_is_seen_by_all_who_stay() {
    in_any_order(|| async {
        let hub = hub(100).await;
        let visitors = [
            spawn(come_and_go(hub.clone())),
            spawn(come_and_go(hub.clone())),
        ];
        let stays = spawn({
            let hub = hub.clone();
            async move {
                let (selector, mode) = (everything("pods"), DeliveryMode::EveryChange);
                let opened = Follower::open(&hub, selector, StartPoint::InitialState, mode);
                let mut follower = opened.await.unwrap();
                follower.reach(Revision::new(1)).await.unwrap();
                assert_eq!(follower.copy.len(), 1);
            }
        });
        pause().await;
        put(hub.store(), key("pods", "a"), "x").await;
        all(visitors.into_iter().chain([stays]).collect()).await;
    });
}

#[test]
fn watches_of_made_up_names_leave_nothing_behind() {
    in_any_order(|| async {
        let hub = hub(100).await;
        let visitors = (0..3).map(|_| spawn(come_and_go(hub.clone())));
        all(visitors.collect()).await;
        assert!(hub.counts().is_empty());
    });
}

#[test]
fn a_watch_that_is_given_up_at_any_moment_is_not_counted_any_more() {
    in_any_order(|| async {
        let hub = hub(1).await;
        let watches: Vec<_> = (0..2)
            .map(|_| {
                let hub = hub.clone();
                spawn(async move {
                    let (selector, mode) = (even("pods"), DeliveryMode::Latest);
                    let opened = Follower::open(&hub, selector, StartPoint::Now, mode);
                    let mut follower = opened.await.unwrap();
                    // Further than anyone writes.
                    let _ = follower.reach(Revision::new(1000)).await;
                })
            })
            .collect();
        for n in 1..=3 {
            put(hub.store(), key("pods", "a"), &"x".repeat(n)).await;
        }
        for watch in watches {
            watch.abort();
            assert!(watch.await.is_err());
        }
        let counts = hub.counts();
        assert!(counts.iter().all(|c| c.watches == 0), "{counts:?}");
        assert!(counts.iter().all(|c| c.standings == [0; 4]), "{counts:?}");
    });
}
