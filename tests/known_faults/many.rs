//! Much at once: objects, expiring keys, watches over a restart.

use super::*;

#[tokio::test(start_paused = true)]
async fn kubernetes_87794_119646_a_restart_costs_no_new_initial_state() {
    let store = store_of(1);
    let first = Harness::over(store.clone(), ServerOptions::default()).await;
    first.put("pods", "a", "1").await;
    let board = Switchboard::to(&first);
    let mut watchers: Vec<_> = (0..10)
        .map(|_| {
            Box::pin(watcher(
                board.client(),
                WatchOptions::new(everything("pods")),
            ))
        })
        .collect();
    for events in &mut watchers {
        while !matches!(events.next().await.unwrap().unwrap(), Event::InitDone(_)) {}
    }
    let second = Harness::over(store, ServerOptions::default()).await;
    board.switch(&second);
    first.server.drain();
    let written = second.put("pods", "a", "2").await;
    for events in &mut watchers {
        loop {
            let event = tokio::time::timeout(10 * PATIENCE, events.next()).await;
            match event.expect("silent").expect("ended").unwrap() {
                Event::Apply { object, .. } if object.revision == written.revision => break,
                Event::Disconnected { .. } | Event::Resumed(_) | Event::Bookmark(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn nats_4824_the_initial_state_ends_when_all_of_it_is_there() {
    const OBJECTS: usize = 30_000;
    for cache in [0, 100] {
        let harness = Harness::with(window(cache), StoreOptions::default()).await;
        let names: Vec<_> = (0..OBJECTS).map(|n| format!("p{n:05}")).collect();
        for names in names.chunks(100) {
            let puts = names.iter().map(|n| put(resource("pods", n, "x", &[])));
            harness.batch(puts.collect()).await;
        }
        let mut watching = harness.watch_all("pods").await;
        let state = watching.until(BookmarkKind::InitialStateEnd).await;
        assert_eq!(state.iter().map(|r| r.events.len()).sum::<usize>(), OBJECTS);
        let pages = harness.pages(everything("pods"), 10_000).await;
        assert_eq!(
            pages.iter().map(|p| p.resources.len()).sum::<usize>(),
            OBJECTS
        );
    }
}

#[tokio::test(start_paused = true)]
async fn kine_219_ten_thousand_keys_expire_beside_a_stalled_watch() {
    const OBJECTS: usize = 10_000;
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let origin = tokio::time::Instant::now();
    let clock = Clock::new(move || start + origin.elapsed());
    let mut options = window(100);
    options.service.clock = clock.clone();
    let store = StoreOptions {
        clock,
        ..StoreOptions::default()
    };
    let harness = Harness::with(options, store).await;
    let mut stalled = harness
        .watch(watch("leases", Some(Start::Now(true))))
        .await
        .unwrap();
    let mut follows = harness
        .watch(watch("leases", Some(Start::Now(true))))
        .await
        .unwrap();
    let names: Vec<_> = (0..OBJECTS).map(|n| format!("l{n:05}")).collect();
    for names in names.chunks(100) {
        let creates = names.iter().map(|name| {
            v1::batch_operation::Kind::Create(v1::CreateRequest {
                resource: Some(resource("leases", name, "held", &[])),
                ttl: millis(60_000),
                ..v1::CreateRequest::default()
            })
        });
        harness.batch(creates.collect()).await;
    }
    for watching in [&mut follows, &mut stalled] {
        let (mut added, mut expired) = (0, 0);
        while expired < OBJECTS {
            let response = watching.next_within(10 * PATIENCE).await.unwrap().unwrap();
            for event in &response.events {
                match event.delete_cause() {
                    DeleteCause::Expired => expired += 1,
                    _ => added += 1,
                }
            }
        }
        assert_eq!((added, expired), (OBJECTS, OBJECTS));
    }
    assert_eq!(harness.client.status().await.unwrap().object_count, 0);
}
