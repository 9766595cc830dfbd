//! A hub that starts, or falls behind, beside writers shows states that there were.

use super::*;

#[test]
fn a_state_read_while_the_hub_starts_is_one_that_there_was() {
    in_any_order(|| async {
        let store = store();
        put(&store, key("pods", "a"), "1").await;
        put(&store, key("pods", "b"), "1").await;
        let writer = spawn({
            let store = store.clone();
            async move {
                put(&store, key("pods", "a"), "22").await;
                delete(&store, key("pods", "b")).await;
                put(&store, key("pods", "c"), "1").await;
            }
        });
        let hub = Hub::start(store.clone(), windows(100)).await.unwrap();
        let selector = everything("pods");
        let reader = hub.read_state(selector.clone());
        let at = reader.revision();
        assert_eq!(
            read(&hub, reader).await,
            stored(&store, &selector, at).await
        );
        writer.await.unwrap();
        let now = hub.settle().await.unwrap();
        let reader = hub.read_state(selector.clone());
        assert_eq!(reader.revision(), now);
        assert_eq!(
            read(&hub, reader).await,
            stored(&store, &selector, now).await
        );
    });
}

#[test]
fn a_hub_that_falls_behind_its_feed_and_meets_compaction_shows_the_state() {
    in_any_order(|| async {
        let hub = hub(2).await;
        let (store, selector) = (hub.store().clone(), everything("pods"));
        let follows = spawn({
            let (hub, selector) = (hub.clone(), selector.clone());
            async move {
                let (start, mode) = (StartPoint::InitialState, DeliveryMode::Latest);
                let opened = Follower::open(&hub, selector.clone(), start, mode);
                let mut follower = opened.await.unwrap();
                follower.reach(Revision::new(6)).await.unwrap();
                let stored = stored(hub.store(), &selector, Revision::new(6)).await;
                assert_eq!(follower.copy, stored);
            }
        });
        for n in 1..=6 {
            put(&store, key("pods", &format!("p{}", n % 3)), &"x".repeat(n)).await;
            if n % 3 == 0 {
                store
                    .compact(store.progress().revision, true)
                    .await
                    .unwrap();
            }
        }
        let now = hub.settle().await.unwrap();
        let reader = hub.read_state(selector.clone());
        assert_eq!(
            read(&hub, reader).await,
            stored(&store, &selector, now).await
        );
        follows.await.unwrap();
    });
}
