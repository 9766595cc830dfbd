//! What the options of a watch promise, and those of the watch cache that serves it.

use std::time::Duration;

use listwatch::v1::{self, BookmarkKind, watch_request::Start};
use listwatch_server::{ServerOptions, store::StoreOptions};

use crate::harness::{
    Harness, events, everything, kinds, labelled, millis, narrow, options, put, reason, resource,
    short, token, uncached, watch,
};

#[tokio::test]
async fn a_view_shows_as_much_as_it_says() {
    let harness = Harness::start().await;
    harness.put_labelled("pods", "a", "v", &[("x", "y")]).await;
    for view in [v1::View::Full, v1::View::Metadata, v1::View::Key] {
        let mut request = watch("pods", None);
        request.view = view.into();
        request.send_previous = true;
        let mut watch = harness.watch(request).await.unwrap();
        let mut responses = watch.until(BookmarkKind::InitialStateEnd).await;
        let written = harness.put_labelled("pods", "a", "v", &[("x", "y")]).await;
        responses.extend(watch.through(written.revision).await);
        let events = events(&responses);
        assert_eq!(events.len(), 2);
        let previous = events[1].previous.as_ref();
        let shown = events.iter().filter_map(|e| e.resource.as_ref());
        for resource in shown.chain(previous) {
            assert!(resource.key.is_some() && !resource.uid.is_empty() && resource.revision > 0);
            assert_eq!(resource.value.is_empty(), view != v1::View::Full);
            assert_eq!(resource.labels.is_empty(), view == v1::View::Key);
            assert_eq!(resource.create_revision == 0, view == v1::View::Key);
        }
    }
}

#[tokio::test]
async fn a_watch_of_the_initial_state_only_ends_well() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let only = v1::InitialState {
        only: true,
        ..v1::InitialState::default()
    };
    let request = watch("pods", Some(Start::InitialState(only)));
    let mut watch = harness.watch(request).await.unwrap();
    let responses = watch.until(BookmarkKind::InitialStateEnd).await;
    assert_eq!(short(&responses), ["=a@1"]);
    assert_eq!(watch.next().await.unwrap(), None);
    // And its token goes on.
    let mut on = harness.resume("pods", &token(&responses)).await;
    harness.put("pods", "a", "2").await;
    assert_eq!(short(&on.through(2).await), ["~a@2"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_after_its_life_with_a_bookmark() {
    let life = Duration::from_secs(600);
    let harness = Harness::with(
        options(|o| o.service.min_watch_life = life),
        StoreOptions::default(),
    )
    .await;
    let started = tokio::time::Instant::now();
    let mut watch = harness.watch_all("pods").await;
    let mut last = None;
    while let Some(response) = watch.next_within(Duration::from_secs(120)).await.unwrap() {
        last = response.bookmark;
        assert!(started.elapsed() < 3 * life, "it goes on for ever");
    }
    let lived = started.elapsed();
    assert!(
        lived >= life && lived <= 2 * life + Duration::from_secs(1),
        "{lived:?}"
    );
    assert!(!last.unwrap().resume_token.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_never_rests_ends_after_its_life_too() {
    let life = Duration::from_secs(10);
    let mut options = options(|o| o.service.min_watch_life = life);
    options.hub.response.items = 1;
    let harness = Harness::with(options, StoreOptions::default()).await;
    // More than the transport holds for a stream.
    let value = "x".repeat(50_000);
    for _ in 0..200 {
        harness.put("pods", "a", &value).await;
    }
    let request = watch("pods", Some(Start::AfterRevision(1)));
    let mut watch = harness.watch(request).await.unwrap();
    let mut read = 0;
    // A reader that is always behind.
    while let Some(response) = watch.next().await.unwrap() {
        read += response.events.len();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(read < 199, "it went on to the end");
}

#[tokio::test]
async fn a_server_that_goes_away_says_so_with_a_bookmark_to_resume_from() {
    let harness = Harness::start().await;
    let mut watch = harness.watch_all("pods").await;
    watch.until(BookmarkKind::InitialStateEnd).await;
    let written = harness.put("pods", "a", "1").await;
    watch.through(written.revision).await;
    harness.server.drain();
    let last = watch.until(BookmarkKind::GoingAway).await;
    assert_eq!(watch.next().await.unwrap(), None);
    let next = Harness::over(harness.store.clone(), ServerOptions::default()).await;
    next.put("pods", "b", "1").await;
    let mut resumed = next.resume("pods", &token(&last)).await;
    assert_eq!(short(&resumed.through(2).await), ["+b@2"]);
}

#[tokio::test(start_paused = true)]
async fn events_are_held_back_as_long_as_the_client_allows() {
    let harness = Harness::start().await;
    let mut request = watch("pods", None);
    request.max_batch_delay = millis(2000);
    let mut watch = harness.watch(request).await.unwrap();
    watch.until(BookmarkKind::InitialStateEnd).await;
    // So that the watch waits when the first event comes.
    tokio::time::sleep(Duration::from_millis(10)).await;
    for n in 0..10 {
        harness.put("pods", &format!("p{n}"), "x").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let response = watch.next().await.unwrap().unwrap();
    assert_eq!(response.events.len(), 10);
}

#[tokio::test]
async fn watches_served_from_the_window_and_from_the_log_are_counted() {
    let harness = Harness::with(options(|o| o.hub = narrow()), StoreOptions::default()).await;
    for n in 0..20 {
        harness.put("pods", "a", &n.to_string()).await;
    }
    let counts = async || {
        let status = harness.collection_status("pods").await;
        (status.cache_hits, status.cache_misses)
    };
    let (hits, misses) = counts().await;
    let mut recent = harness
        .watch(watch("pods", Some(Start::AfterRevision(19))))
        .await
        .unwrap();
    recent.through(20).await;
    assert_eq!(counts().await, (hits + 1, misses));
    let mut old = harness
        .watch(watch("pods", Some(Start::AfterRevision(5))))
        .await
        .unwrap();
    assert_eq!(
        old.through(20)
            .await
            .iter()
            .map(|r| r.events.len())
            .sum::<usize>(),
        15
    );
    let (_, after) = counts().await;
    assert_eq!(after, misses + 1);
}

#[tokio::test]
async fn a_collection_without_a_cache_is_served_from_the_log() {
    let harness = Harness::with(uncached(), StoreOptions::default()).await;
    harness.put("pods", "a", "1").await;
    let mut watch = harness.watch_all("pods").await;
    assert_eq!(
        short(&watch.until(BookmarkKind::InitialStateEnd).await),
        ["=a@1"]
    );
    harness.put("pods", "a", "2").await;
    assert_eq!(short(&watch.through(2).await), ["~a@2"]);
    assert_eq!(harness.list("pods").await.resources.len(), 1);
    let status = harness.collection_status("pods").await;
    assert_eq!((status.cache_capacity, status.cache_events), (0, 0));
    assert!(status.cache_misses > 0 && status.cache_hits == 0);
}

#[tokio::test]
async fn the_window_grows_while_it_is_too_short_for_its_span() {
    let harness = Harness::with(
        options(|o| o.hub.default_cache_size = 4),
        StoreOptions::default(),
    )
    .await;
    for n in 0..100 {
        harness.put("pods", "a", &n.to_string()).await;
    }
    let status = harness.collection_status("pods").await;
    assert!(status.cache_capacity >= 64, "{status:?}");
    assert!(status.cache_events > 32 && status.cache_oldest_revision < 68);
}

#[tokio::test(start_paused = true)]
async fn a_selector_by_key_gives_what_it_names_and_nothing_else() {
    let harness = Harness::start().await;
    let mut other = resource("pods", "a", "x", &[]);
    other.key.as_mut().unwrap().namespace = "other".into();
    let selectors = [
        v1::Selector {
            namespace: "default".into(),
            ..everything("pods")
        },
        v1::Selector {
            name: "a".into(),
            ..everything("pods")
        },
        v1::Selector {
            name_prefix: "b".into(),
            ..everything("pods")
        },
    ];
    let mut watches = Vec::new();
    for selector in selectors {
        let request = v1::WatchRequest {
            selector: Some(selector),
            bookmark_interval: millis(1000),
            ..watch("pods", Some(Start::Now(true)))
        };
        let mut watching = harness.watch(request).await.unwrap();
        watching.until(BookmarkKind::Resumed).await;
        watches.push(watching);
    }
    harness.batch(vec![put(other)]).await;
    for name in ["a", "b1", "b2", "c"] {
        harness.put("pods", name, "x").await;
    }
    let wanted = [
        vec!["+a@2", "+b1@3", "+b2@4", "+c@5"],
        vec!["+a@1", "+a@2"],
        vec!["+b1@3", "+b2@4"],
    ];
    for (mut watch, wanted) in watches.into_iter().zip(wanted) {
        harness.put("pods", "end", "x").await;
        let revision = harness.revision();
        let mut seen = short(&watch.through(revision).await);
        seen.retain(|event| !event.starts_with("+end") && !event.starts_with("~end"));
        assert_eq!(seen, wanted);
    }
}

#[tokio::test]
async fn an_exact_watch_from_compacted_history_is_refused_with_the_reason() {
    let harness = Harness::start().await;
    let mut before = harness.watch_all("pods").await;
    let old = token(&before.until(BookmarkKind::InitialStateEnd).await);
    for n in 0..400 {
        harness.put("pods", "a", &n.to_string()).await;
    }
    harness.compact(390).await;
    let mut request = watch("pods", Some(Start::ResumeToken(old)));
    request.catch_up = v1::CatchUp::Exact.into();
    let refused = harness.watch(request).await.err().expect("an error");
    assert_eq!(refused.code(), tonic::Code::OutOfRange);
    assert_eq!(reason(&refused), "REVISION_COMPACTED");
}

#[tokio::test]
async fn latest_keeps_the_newest_change_of_each_object_and_counts_the_rest() {
    for options in [
        ServerOptions::default(),
        uncached(),
        options(|o| o.hub = narrow()),
    ] {
        let harness = Harness::with(options, StoreOptions::default()).await;
        harness
            .put_labelled("pods", "held", "0", &[("app", "web")])
            .await;
        let mut request = watch("pods", Some(Start::AfterRevision(1)));
        request.delivery_mode = v1::DeliveryMode::Latest.into();
        request.selector = Some(labelled("pods", "app", "web"));
        for n in 0..10 {
            harness
                .put_labelled("pods", "a", &n.to_string(), &[("app", "web")])
                .await;
        }
        // Comes and goes; never matches; goes.
        harness
            .put_labelled("pods", "b", "1", &[("app", "web")])
            .await;
        harness.delete("pods", "b").await;
        for n in 0..5 {
            harness
                .put_labelled("pods", "c", &n.to_string(), &[("app", "db")])
                .await;
        }
        harness
            .put_labelled("pods", "held", "1", &[("app", "web")])
            .await;
        harness
            .put_labelled("pods", "held", "2", &[("app", "db")])
            .await;
        let mut watch = harness.watch(request).await.unwrap();
        let responses = watch.through(harness.revision()).await;
        assert_eq!(short(&responses), ["+a@11", "-held@20"]);
        let left_out: i64 = responses
            .iter()
            .map(|r| r.bookmark.as_ref().unwrap().coalesced_count)
            .sum();
        // Nine of `a`, both of `b`, one of `held`; `c` concerns nobody.
        assert_eq!(left_out, 12);
    }
}

#[tokio::test]
async fn two_changes_of_an_object_are_one_to_a_watch_of_the_newest() {
    for options in [ServerOptions::default(), uncached()] {
        let harness = Harness::with(options, StoreOptions::default()).await;
        for value in ["1", "2", "3"] {
            harness.put("pods", "a", value).await;
        }
        let mut request = watch("pods", Some(Start::AfterRevision(1)));
        request.delivery_mode = v1::DeliveryMode::Latest.into();
        let mut watch = harness.watch(request).await.unwrap();
        let responses = watch.through(3).await;
        assert_eq!(short(&responses), ["~a@3"]);
        let bookmarks = responses.iter().filter_map(|r| r.bookmark.as_ref());
        assert_eq!(bookmarks.map(|b| b.coalesced_count).sum::<i64>(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn latest_never_ends_for_slowness_and_catches_up_in_the_middle_of_the_stream() {
    for (forget, begin) in [
        (false, BookmarkKind::NetBegin),
        (true, BookmarkKind::ManifestBegin),
    ] {
        let store = StoreOptions {
            max_tombstones: if forget { 0 } else { 1000 },
            ..StoreOptions::default()
        };
        let mut options = options(|o| o.hub = narrow());
        options.hub.response.items = 2;
        let harness = Harness::with(options, store).await;
        for name in ["gone", "kept", "changed"] {
            harness.put("pods", name, "1").await;
        }
        let mut request = watch("pods", None);
        request.delivery_mode = v1::DeliveryMode::Latest.into();
        request.bookmark_interval = millis(1000);
        let mut watch = harness.watch(request).await.unwrap();
        let mut copy = crate::validator::Copy::default();
        for response in watch.until(BookmarkKind::InitialStateEnd).await {
            copy.apply(&response);
        }
        // More than the transport holds for a stream that nobody reads, so that the
        // cursor stands still.
        let filler = "x".repeat(100_000);
        for n in 0..100 {
            harness
                .put("pods", "changed", &format!("{n}{filler}"))
                .await;
            harness.put("pods", &format!("p{}", n % 5), &filler).await;
        }
        harness.delete("pods", "gone").await;
        harness.put("other", "x", "").await;
        harness.compact(harness.revision()).await;
        let responses = watch.through(harness.revision()).await;
        let seen = kinds(&responses);
        assert!(seen.contains(&begin), "{seen:?}");
        let began = seen.iter().position(|k| *k == begin).unwrap();
        assert!(seen[began..].contains(&BookmarkKind::InitialStateEnd));
        for response in &responses {
            copy.apply(response);
        }
        let held: Vec<_> = copy.objects.into_values().collect();
        assert_eq!(held, harness.list("pods").await.resources);
        // And goes on as before.
        let written = harness.put("pods", "changed", "last").await;
        assert_eq!(
            short(&watch.through(written.revision).await),
            ["~changed@206"]
        );
    }
}

#[tokio::test]
async fn a_watch_that_no_step_can_resume_is_told_why() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let token = harness.list("pods").await.resume_token;
    let refusal = async |harness: &Harness, start| {
        let refused = harness.watch(watch("pods", Some(start))).await;
        let refused = refused.err().expect("an error");
        (refused.code(), reason(&refused))
    };
    let future = refusal(&harness, Start::AfterRevision(1001)).await;
    assert_eq!(
        future,
        (tonic::Code::OutOfRange, "REVISION_IN_FUTURE".into())
    );
    let other = Harness::start().await;
    let changed = refusal(&other, Start::ResumeToken(token)).await;
    assert_eq!(changed, (tonic::Code::OutOfRange, "STORE_CHANGED".into()));
}
