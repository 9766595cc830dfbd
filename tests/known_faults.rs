//! Faults that others had, tried on this server. Which report is which test, and which tests
//! elsewhere stand for the others, is in `tests/README.md`.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use futures::StreamExt as _;
use hyper_util::rt::TokioIo;
use listwatch::v1::{self, BookmarkKind, CatchUp, DeleteCause, watch_request::Start};
use listwatch_client::{
    Client, Event, WatchOptions,
    reflector::{Codec, reflector},
    watcher,
};
use listwatch_server::{
    InMemoryConnector, ServerOptions,
    clock::Clock,
    store::{Content, Key, MemoryStore, Operation, PutCondition, Store, StoreOptions, WriteBatch},
};
use tonic::transport::Endpoint;

use crate::{
    harness::{
        Harness, PATIENCE, everything, key, kinds, millis, put, reason, remove, resource, short,
        token, watch,
    },
    validator::{Copy, name_of},
};

/// Clients behind this go to one server now and to another later.
#[derive(Clone)]
struct Switchboard(Arc<Mutex<InMemoryConnector>>);

impl Switchboard {
    fn to(harness: &Harness) -> Self {
        Self(Arc::new(Mutex::new(harness.server.in_memory())))
    }

    fn switch(&self, harness: &Harness) {
        *self.0.lock().unwrap() = harness.server.in_memory();
    }

    fn client(&self) -> Client {
        let board = self.clone();
        let connector = tower::service_fn(move |_| {
            let connector = board.0.lock().unwrap().clone();
            async move { connector.connect().await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://in-memory");
        Client::from_channel(endpoint.connect_with_connector_lazy(connector))
    }
}

/// A store whose identity is `seed`: two of one seed are one store at two moments.
fn store_of(seed: u64) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(StoreOptions {
        seed: Some(seed),
        ..StoreOptions::default()
    }))
}

/// Windows of `events`, which do not grow.
fn window(events: usize) -> ServerOptions {
    let mut options = ServerOptions::default();
    options.hub.default_cache_size = events;
    options.hub.window_span = Duration::ZERO;
    options
}

fn revisions(response: &v1::WatchResponse) -> impl Iterator<Item = i64> {
    let resources = response.events.iter().filter_map(|e| e.resource.as_ref());
    resources.map(|resource| resource.revision)
}

#[tokio::test]
async fn etcd_17529_a_starved_watch_that_meets_compaction_gets_every_event_or_the_error() {
    for cache in [0, 1, 1000] {
        let harness = Harness::with(window(cache), StoreOptions::default()).await;
        let mut starved = harness
            .watch(watch("pods", Some(Start::Now(true))))
            .await
            .unwrap();
        let value = "x".repeat(100_000);
        for n in 0..150 {
            harness.put("pods", &format!("p{}", n % 9), &value).await;
        }
        harness.compact(150).await;
        let mut next = 1;
        loop {
            match starved.next().await {
                Ok(Some(response)) => {
                    for revision in revisions(&response) {
                        assert_eq!(revision, next, "a silent gap");
                        next += 1;
                    }
                    if next > 150 {
                        break;
                    }
                }
                Ok(None) => panic!("ended as if all were well"),
                Err(error) => {
                    assert_eq!(error.code(), tonic::Code::OutOfRange);
                    assert_eq!(reason(&error), "REVISION_COMPACTED");
                    break;
                }
            }
        }
        assert!(cache < 1000 || next > 150, "the window had it all");
    }
}

#[tokio::test(start_paused = true)]
async fn etcd_18089_the_deletion_at_the_compacted_revision_is_not_lost() {
    let forgetful = StoreOptions {
        max_tombstones: 0,
        tombstone_retention: Duration::ZERO,
        ..StoreOptions::default()
    };
    let harness = Harness::with(window(1), forgetful).await;
    harness.put("pods", "a", "1").await;
    let deleted = harness.delete("pods", "a").await.revision;
    harness.compact(deleted).await;
    let from = async |revision, catch_up: CatchUp| {
        let mut request = watch("pods", Some(Start::AfterRevision(revision)));
        request.catch_up = catch_up.into();
        request.bookmark_interval = millis(1000);
        harness.watch(request).await
    };
    let mut before = from(deleted - 1, CatchUp::Net).await.unwrap();
    assert_eq!(short(&before.through(deleted).await), ["-a@2"]);
    let refused = from(deleted - 1, CatchUp::Exact).await.err().unwrap();
    assert_eq!(reason(&refused), "REVISION_COMPACTED");
    let mut at = from(deleted, CatchUp::Exact).await.unwrap();
    let written = harness.put("pods", "a", "2").await;
    assert_eq!(short(&at.through(written.revision).await), ["+a@3"]);
}

#[tokio::test]
async fn etcd_20221_a_future_revision_gets_the_error_and_no_old_events() {
    let harness = Harness::start().await;
    for n in 0..10 {
        harness.put("pods", "a", &n.to_string()).await;
    }
    for catch_up in [CatchUp::Exact, CatchUp::Net] {
        let mut request = watch("pods", Some(Start::AfterRevision(1010)));
        request.catch_up = catch_up.into();
        let refused = harness.watch(request).await.err().expect("an error");
        assert_eq!(refused.code(), tonic::Code::OutOfRange);
        assert_eq!(reason(&refused), "REVISION_IN_FUTURE");
    }
}

#[tokio::test(start_paused = true)]
async fn etcd_16028_a_reflector_converges_after_the_store_went_back_in_time() {
    let harness = Harness::start().await;
    for n in 0..20 {
        harness.put("pods", &format!("old{n}"), "x").await;
    }
    let board = Switchboard::to(&harness);
    let options = WatchOptions::new(everything("pods"));
    let reflector = reflector(board.client(), options, Codec::raw()).spawn();
    let reader = reflector.reader();
    assert_eq!(reader.wait_until_ready(PATIENCE).await.unwrap().len(), 20);
    // Made anew or restored: another identity, and revisions that have been before.
    let restored = Harness::start().await;
    restored.put("pods", "new", "x").await;
    board.switch(&restored);
    harness.server.drain();
    let converged = async {
        loop {
            let snapshot = reader.snapshot();
            if snapshot.len() == 1 && snapshot.revision() < 20 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(10 * PATIENCE, converged)
        .await
        .unwrap();
    // And goes on from there.
    restored.put("pods", "newer", "x").await;
    tokio::time::timeout(PATIENCE, async {
        while reader.snapshot().len() != 2 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test(start_paused = true)]
async fn kubernetes_107133_a_token_ahead_of_the_server_is_retried_and_then_given_up() {
    let ahead = Harness::over(store_of(1), ServerOptions::default()).await;
    let behind = Harness::over(store_of(1), ServerOptions::default()).await;
    for n in 0..10 {
        ahead.put("pods", "a", &n.to_string()).await;
    }
    behind.put("pods", "a", "0").await;
    let token = ahead.list("pods").await.resume_token;
    let start =
        listwatch_client::watcher::Start::Token(listwatch_client::watcher::ResumeToken::new(token));
    let options = WatchOptions::new(everything("pods")).start(start);
    let mut events = Box::pin(watcher(behind.client.clone(), options));
    let mut attempts = 0;
    loop {
        let event = tokio::time::timeout(10 * PATIENCE, events.next()).await;
        match event.expect("silent").expect("ended").unwrap() {
            Event::Disconnected { .. } => attempts += 1,
            Event::InitDone(point) => {
                assert_eq!(point.revision, 1);
                break;
            }
            Event::InitBegin | Event::InitApply(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!((2..10).contains(&attempts), "{attempts} attempts");
}

#[tokio::test(start_paused = true)]
async fn kubernetes_83520_a_stale_replica_does_not_take_a_watch_back_in_time() {
    let ahead = Harness::over(store_of(1), ServerOptions::default()).await;
    let behind = Harness::over(store_of(1), ServerOptions::default()).await;
    for n in 0..5 {
        ahead.put("pods", "a", &n.to_string()).await;
    }
    behind.put("pods", "a", "0").await;
    let initial = v1::InitialState {
        consistency: Some(v1::Consistency {
            kind: Some(v1::consistency::Kind::MinRevision(5)),
        }),
        only: false,
    };
    let request = watch("pods", Some(Start::InitialState(initial)));
    let refused = behind.watch(request.clone()).await.err().expect("an error");
    assert_eq!(reason(&refused), "NOT_READY");
    let waits = behind.watch(request);
    let writes = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        for n in 1..5 {
            behind.put("pods", "a", &n.to_string()).await;
        }
    };
    let (watching, ()) = tokio::join!(waits, writes);
    let state = watching.unwrap().until(BookmarkKind::InitialStateEnd).await;
    assert_eq!(short(&state), ["=a@5"]);
}

#[tokio::test(start_paused = true)]
async fn kubernetes_87794_a_restart_costs_no_new_initial_state() {
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

#[tokio::test(start_paused = true)]
async fn kube_rs_219_a_quiet_collection_resumes_past_compaction() {
    let harness = Harness::with(window(10), StoreOptions::default()).await;
    harness.put("quiet", "a", "1").await;
    let mut request = watch("quiet", None);
    request.bookmark_interval = millis(1000);
    let mut watching = harness.watch(request).await.unwrap();
    watching.until(BookmarkKind::InitialStateEnd).await;
    for n in 0..500 {
        harness.put("busy", "b", &n.to_string()).await;
    }
    let last = vec![watching.next().await.unwrap().unwrap()];
    drop(watching);
    harness.compact(harness.revision()).await;
    let mut request = watch("quiet", Some(Start::ResumeToken(token(&last))));
    request.catch_up = CatchUp::Exact.into();
    let mut resumed = harness.watch(request).await.unwrap();
    harness.put("quiet", "a", "2").await;
    let responses = resumed.through(harness.revision()).await;
    assert_eq!(kinds(&responses)[0], BookmarkKind::Resumed);
    assert_eq!(short(&responses), ["~a@502"]);
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

#[tokio::test]
async fn istio_41494_what_was_deleted_meanwhile_is_told_by_another_server() {
    let store = store_of(1);
    let first = Harness::over(store.clone(), ServerOptions::default()).await;
    first.put("pods", "a", "1").await;
    first.put("pods", "b", "1").await;
    let list = first.list("pods").await;
    let mut copy = Copy::holding(
        list.resources
            .into_iter()
            .map(|r| (name_of(&r), r))
            .collect(),
    );
    first.delete("pods", "b").await;
    first.put("pods", "c", "1").await;
    for compacted in [false, true] {
        if compacted {
            first.compact(first.revision()).await;
        }
        let second = Harness::over(store.clone(), ServerOptions::default()).await;
        let mut resumed = second.resume("pods", &list.resume_token).await;
        let responses = resumed.through(4).await;
        assert!(
            short(&responses).contains(&"-b@3".to_owned()),
            "{:?}",
            short(&responses)
        );
        for response in &responses {
            copy.apply(response);
        }
        let names: Vec<_> = copy
            .objects
            .keys()
            .map(|(_, _, name)| name.as_str())
            .collect();
        assert_eq!(names, ["a", "c"]);
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

#[tokio::test]
async fn grafana_130332_a_slow_reader_gets_what_the_window_has_dropped_from_the_log() {
    const EVENTS: u64 = 10_000;
    let harness = Harness::with(window(100), StoreOptions::default()).await;
    let mut slow = harness
        .watch(watch("pods", Some(Start::Now(true))))
        .await
        .unwrap();
    slow.until(BookmarkKind::Resumed).await;
    for n in 0..EVENTS {
        let operation = Operation::Put {
            key: Key::new("pods", "default", &format!("p{}", n % 50)).unwrap(),
            condition: PutCondition::Any,
            content: Content {
                value: vec![b'x'; 1000].into(),
                ..Content::default()
            },
        };
        let batch = WriteBatch {
            operations: vec![operation],
            request: None,
            ..WriteBatch::default()
        };
        harness.store.commit(batch).await.unwrap();
        if n % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let responses = slow.through(EVENTS as i64).await;
    let seen: Vec<_> = responses.iter().flat_map(revisions).collect();
    assert!(seen.into_iter().eq(1..=EVENTS as i64));
    assert!(harness.collection_status("pods").await.cache_misses > 0);
}

#[tokio::test]
async fn consul_5358_a_restarted_memory_store_says_that_it_is_another() {
    let before = Harness::start().await;
    before.put("pods", "a", "1").await;
    let token = before.list("pods").await.resume_token;
    let after = Harness::start().await;
    for n in 0..5 {
        after.put("pods", "b", &n.to_string()).await;
    }
    let refused = after
        .watch(watch("pods", Some(Start::ResumeToken(token))))
        .await;
    let refused = refused.err().expect("an error");
    assert_eq!(refused.code(), tonic::Code::OutOfRange);
    assert_eq!(reason(&refused), "STORE_CHANGED");
}

#[tokio::test]
async fn python_2223_a_watch_killed_during_the_initial_state_starts_it_again() {
    let mut options = window(100);
    options.hub.response.items = 10;
    let harness = Harness::with(options, StoreOptions::default()).await;
    let puts = (0..100).map(|n| put(resource("pods", &format!("p{n:02}"), "x", &[])));
    harness.batch(puts.collect()).await;
    let mut copy = Copy::default();
    for cut in [1, 3, 7] {
        let mut watching = harness.watch_all("pods").await;
        for _ in 0..cut {
            copy.apply(&watching.next().await.unwrap().unwrap());
        }
        copy.disconnect();
        // Nothing to resume from: what has come is not a state.
        assert!(copy.token.is_empty() && copy.objects.is_empty());
        harness
            .batch(vec![remove(key("pods", &format!("p{cut:02}")))])
            .await;
    }
    let mut watching = harness.watch_all("pods").await;
    for response in watching.until(BookmarkKind::InitialStateEnd).await {
        copy.apply(&response);
    }
    assert_eq!(copy.objects.len(), 97);
}
