//! What every watch promises: ordered, unique, reliable, atomic, resumable, bookmarkable,
//! durable; every change as it is, also where a selector begins or ceases to match.

use std::time::Duration;

use listwatch::v1::{self, BookmarkKind, DeleteCause, EventType, watch_request::Start};
use listwatch_server::{ServerOptions, store::StoreOptions};

use crate::harness::{
    Harness, events, key, labelled, millis, narrow, options, put, remove, resource, short, token,
    uncached, watch,
};

#[tokio::test]
async fn a_watch_gives_the_state_and_then_every_change_in_order() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    harness.put("pods", "b", "1").await;
    let mut watch = harness.watch_all("pods").await;
    let initial = watch.until(BookmarkKind::InitialStateEnd).await;
    assert_eq!(
        initial[0].bookmark.as_ref().unwrap().kind(),
        BookmarkKind::InitialStateBegin
    );
    assert_eq!(short(&initial), ["=a@1", "=b@2"]);
    harness.put("pods", "a", "2").await;
    harness.put("other", "x", "2").await;
    harness.delete("pods", "b").await;
    let last = harness.put("pods", "b", "3").await;
    let changes = watch.through(last.revision).await;
    assert_eq!(short(&changes), ["~a@3", "-b@5", "+b@6"]);
}

#[tokio::test]
async fn events_are_ordered_and_unique_and_none_is_left_out_under_concurrent_writes() {
    for options in [
        ServerOptions::default(),
        uncached(),
        options(|o| o.hub = narrow()),
    ] {
        let harness = Harness::with(options, StoreOptions::default()).await;
        let mut watch = harness.watch_all("pods").await;
        watch.until(BookmarkKind::InitialStateEnd).await;
        let writers = (0..4).map(|writer| {
            let harness = &harness;
            async move {
                for n in 0..50 {
                    harness
                        .put("pods", &format!("p{}", n % 7), &format!("{writer}"))
                        .await;
                }
            }
        });
        let ((), responses) = tokio::join!(
            async {
                futures::future::join_all(writers).await;
            },
            watch.through(200)
        );
        let revisions: Vec<i64> = events(&responses)
            .iter()
            .map(|e| e.resource.as_ref().unwrap().revision)
            .collect();
        assert_eq!(revisions, (1..=200).collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn the_events_of_one_revision_arrive_in_one_response() {
    let chunk = listwatch_server::store::PageLimit {
        items: 3,
        bytes: 600,
    };
    for mut options in [ServerOptions::default(), uncached()] {
        options.hub.response = chunk;
        let harness = Harness::with(options, StoreOptions::default()).await;
        let mut watch = harness.watch_all("pods").await;
        watch.until(BookmarkKind::InitialStateEnd).await;
        for _ in 0..5 {
            let names = ["a", "b", "c", "d", "e", "f", "g"];
            let puts = names.map(|n| put(resource("pods", n, "x", &[])));
            harness.batch(puts.to_vec()).await;
        }
        let responses = watch.through(5).await;
        let with_events = responses.iter().filter(|r| !r.events.is_empty());
        let sizes: Vec<_> = with_events.map(|r| r.events.len()).collect();
        assert_eq!(sizes, [7; 5]);
    }
}

#[tokio::test]
async fn a_watch_resumes_from_any_bookmark() {
    let harness = Harness::start().await;
    let mut first = harness.watch_all("pods").await;
    let mut tokens = vec![token(&first.until(BookmarkKind::InitialStateEnd).await)];
    let mut expected = Vec::new();
    for n in 1..=10 {
        let written = harness.put("pods", &format!("p{n}"), "x").await;
        expected.push(format!("+p{n}@{}", written.revision));
        tokens.push(token(&first.through(written.revision).await));
    }
    for (from, token) in tokens.iter().enumerate().take(10) {
        let mut again = harness.resume("pods", token).await;
        let responses = again.through(10).await;
        assert_eq!(
            responses[0].bookmark.as_ref().unwrap().kind(),
            BookmarkKind::Resumed
        );
        assert_eq!(short(&responses), expected[from..], "from {from}");
    }
}

#[tokio::test]
async fn a_lists_token_starts_a_watch_right_after_the_list() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let list = harness.list("pods").await;
    harness.put("pods", "b", "1").await;
    let mut watch = harness.resume("pods", &list.resume_token).await;
    assert_eq!(short(&watch.through(2).await), ["+b@2"]);
}

#[tokio::test]
async fn a_watch_after_a_revision_and_one_from_now_start_there() {
    let harness = Harness::start().await;
    for n in 1..=3 {
        harness.put("pods", "a", &n.to_string()).await;
    }
    let mut after = harness
        .watch(watch("pods", Some(Start::AfterRevision(2))))
        .await
        .unwrap();
    let mut now = harness
        .watch(watch("pods", Some(Start::Now(true))))
        .await
        .unwrap();
    now.until(BookmarkKind::Resumed).await;
    harness.put("pods", "a", "4").await;
    assert_eq!(short(&after.through(4).await), ["~a@3", "~a@4"]);
    assert_eq!(short(&now.through(4).await), ["~a@4"]);
}

#[tokio::test(start_paused = true)]
async fn no_bookmark_precedes_an_event_that_it_covers() {
    let harness = Harness::start().await;
    let mut request = watch("pods", None);
    request.bookmark_interval = millis(100);
    let mut watch = harness.watch(request).await.unwrap();
    let writes = async {
        for n in 0..300 {
            let collection = if n % 3 == 0 { "pods" } else { "other" };
            harness.put(collection, "a", &n.to_string()).await;
            tokio::time::sleep(Duration::from_millis(n % 40)).await;
        }
    };
    let ((), responses) = tokio::join!(writes, watch.through(300));
    let mut promised = 0;
    for response in &responses {
        for event in &response.events {
            assert!(event.resource.as_ref().unwrap().revision > promised);
        }
        promised = response.bookmark.as_ref().unwrap().revision;
    }
    assert_eq!(events(&responses).len(), 100);
    let alone = responses.iter().filter(|r| r.events.is_empty());
    assert!(alone.count() > 5, "bookmarks between the events");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_advance_also_when_nothing_matches() {
    for options in [ServerOptions::default(), uncached()] {
        let harness = Harness::with(options, StoreOptions::default()).await;
        let mut request = watch("pods", None);
        request.bookmark_interval = millis(1000);
        let mut watch = harness.watch(request).await.unwrap();
        watch.until(BookmarkKind::InitialStateEnd).await;
        for n in 1..=5 {
            let written = harness.put("other", "a", &n.to_string()).await;
            let response = watch.next().await.unwrap().unwrap();
            assert_eq!(response.events, []);
            let bookmark = response.bookmark.unwrap();
            // The very next one: a token that lags an interval is compacted the sooner.
            assert_eq!(bookmark.revision, written.revision);
            assert_eq!(bookmark.latest_revision, written.revision);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_within_the_interval() {
    let harness = Harness::with(
        options(|o| o.service.bookmark_interval = Duration::from_secs(7)),
        StoreOptions::default(),
    )
    .await;
    let mut by_default = harness.watch_all("pods").await;
    let mut request = watch("pods", None);
    request.bookmark_interval = millis(500);
    let mut own = harness.watch(request).await.unwrap();
    for (watch, interval) in [(&mut by_default, 7000), (&mut own, 500)] {
        watch.until(BookmarkKind::InitialStateEnd).await;
        let mut last = tokio::time::Instant::now();
        // What waited while another was read comes at once.
        for _ in 0..20 {
            let bookmark = watch.next().await.unwrap().unwrap().bookmark.unwrap();
            assert_eq!(bookmark.kind(), BookmarkKind::Progress);
            let now = tokio::time::Instant::now();
            assert!(now - last <= Duration::from_millis(interval + 1));
            last = now;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_is_visible_only_after_the_store_has_it() {
    const WRITES: i64 = 2000;
    let harness = Harness::start().await;
    let mut feed = harness.store.subscribe();
    let store = harness.store.clone();
    // What the feed tells of is readable at that moment, on whatever thread.
    let observer = std::thread::spawn(move || {
        let mut seen = 0;
        while seen < WRITES {
            match feed.try_recv() {
                Ok(commits) => {
                    let last = commits.last().unwrap().revision;
                    assert!(
                        store.progress().revision >= last,
                        "told of {last} too early"
                    );
                    seen = last.to_wire();
                }
                Err(tokio::sync::broadcast::error::TryRecvError::Empty) => std::hint::spin_loop(),
                Err(error) => panic!("{error}"),
            }
        }
    });
    let mut watch = harness.watch_all("pods").await;
    let writes = async {
        for n in 0..WRITES {
            harness.put("pods", "a", &n.to_string()).await;
        }
    };
    let reads = async {
        loop {
            let promised = watch
                .next()
                .await
                .unwrap()
                .unwrap()
                .bookmark
                .unwrap()
                .revision;
            assert!(harness.revision() >= promised);
            if promised >= WRITES {
                return;
            }
        }
    };
    tokio::join!(writes, reads);
    observer.join().unwrap();
}

#[tokio::test(start_paused = true)]
async fn objects_that_start_or_stop_matching_are_added_or_deleted() {
    for options in [ServerOptions::default(), uncached()] {
        let harness = Harness::with(options, StoreOptions::default()).await;
        let web = [("app", "web")];
        harness.put_labelled("pods", "a", "1", &web).await;
        harness
            .put_labelled("pods", "b", "1", &[("app", "db")])
            .await;
        let mut request = watch("pods", None);
        request.selector = Some(labelled("pods", "app", "web"));
        request.bookmark_interval = millis(1000);
        request.send_previous = true;
        let mut watch = harness.watch(request).await.unwrap();
        assert_eq!(
            short(&watch.until(BookmarkKind::InitialStateEnd).await),
            ["=a@1"]
        );
        harness.put_labelled("pods", "b", "2", &web).await;
        harness.put_labelled("pods", "a", "2", &web).await;
        harness
            .put_labelled("pods", "a", "3", &[("app", "db")])
            .await;
        harness
            .put_labelled("pods", "a", "4", &[("app", "db")])
            .await;
        harness.delete("pods", "a").await;
        let responses = watch.through(7).await;
        assert_eq!(short(&responses), ["+b@3", "~a@4", "-a@5"]);
        let events = events(&responses);
        let gone = events[2];
        assert_eq!(gone.delete_cause(), DeleteCause::Unselected);
        let last = gone.resource.as_ref().unwrap();
        assert_eq!(
            (&last.value[..], &last.labels["app"][..]),
            (&b"2"[..], "web")
        );
        let before = events[0].previous.as_ref().unwrap();
        assert_eq!((&before.value[..], before.revision), (&b"1"[..], 2));
    }
}

#[tokio::test]
async fn the_previous_value_is_the_version_before_the_change() {
    for options in [
        ServerOptions::default(),
        uncached(),
        options(|o| o.hub = narrow()),
    ] {
        let harness = Harness::with(options, StoreOptions::default()).await;
        let mut request = watch("pods", Some(Start::Now(true)));
        request.send_previous = true;
        let mut watch = harness.watch(request).await.unwrap();
        for value in ["1", "2", "3"] {
            harness.put("pods", "a", value).await;
        }
        harness.delete("pods", "a").await;
        harness.put("pods", "a", "4").await;
        let responses = watch.through(5).await;
        let previous: Vec<_> = events(&responses)
            .iter()
            .map(|e| e.previous.as_ref().map(|p| (p.revision, p.value.clone())))
            .collect();
        let was = |revision, value: &'static str| Some((revision, value.into()));
        assert_eq!(
            previous,
            [None, was(1, "1"), was(2, "2"), was(3, "3"), None]
        );
    }
}

#[tokio::test]
async fn a_deletion_shows_the_last_state_with_the_deletions_revision() {
    for options in [ServerOptions::default(), uncached()] {
        let harness = Harness::with(options, StoreOptions::default()).await;
        let mut watch = harness.watch_all("pods").await;
        let created = harness
            .put_labelled("pods", "a", "last", &[("x", "y")])
            .await;
        let deleted = harness.delete("pods", "a").await;
        assert_eq!((&deleted.value[..], deleted.revision), (&b"last"[..], 2));
        let responses = watch.through(2).await;
        let event = events(&responses)[1].clone();
        assert_eq!(event.delete_cause(), DeleteCause::Request);
        let seen = event.resource.unwrap();
        assert_eq!(seen, deleted);
        assert_eq!((&seen.uid, seen.create_revision), (&created.uid, 1));
        assert_eq!(seen.labels["x"], "y");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_expires_is_deleted_with_that_cause() {
    let start = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let origin = tokio::time::Instant::now();
    let clock = listwatch_server::clock::Clock::new(move || start + origin.elapsed());
    let store = StoreOptions {
        clock: clock.clone(),
        ..StoreOptions::default()
    };
    let harness = Harness::with(options(|o| o.service.clock = clock), store).await;
    let mut watch = harness.watch_all("pods").await;
    watch.until(BookmarkKind::InitialStateEnd).await;
    let request = v1::CreateRequest {
        resource: Some(resource("pods", "a", "short-lived", &[])),
        ttl: millis(5000),
        ..v1::CreateRequest::default()
    };
    harness.client.create(request).await.unwrap();
    let responses = watch.through(2).await;
    assert_eq!(short(&responses), ["+a@1", "-a@2"]);
    let expired = events(&responses)[1];
    assert_eq!(expired.delete_cause(), DeleteCause::Expired);
    assert_eq!(
        &expired.resource.as_ref().unwrap().value[..],
        b"short-lived"
    );
    assert!(origin.elapsed() >= Duration::from_secs(5));
}

#[tokio::test]
async fn a_watch_goes_on_past_much_that_is_nothing_to_it_without_waiting() {
    for mut options in [ServerOptions::default(), uncached()] {
        options.hub.response.items = 2;
        // Nothing else that it could wait for is near.
        options.service.bookmark_interval = Duration::from_hours(1);
        let harness = Harness::with(options, StoreOptions::default()).await;
        let mut request = watch("pods", Some(Start::Now(true)));
        request.selector = Some(labelled("pods", "app", "web"));
        let start = harness.watch(request.clone()).await.unwrap();
        let token = token(&{ start }.until(BookmarkKind::Resumed).await);
        for n in 0..9 {
            harness.put("pods", &format!("p{n}"), "1").await;
        }
        let labels = [("app", "web")];
        let last = harness.put_labelled("pods", "a", "1", &labels).await;
        request.start = Some(Start::ResumeToken(token));
        let mut watch = harness.watch(request).await.unwrap();
        let responses = watch.through(last.revision).await;
        assert_eq!(short(&responses), ["+a@10"]);
    }
}

#[tokio::test]
async fn a_response_stays_below_what_clients_accept_however_large_the_objects() {
    let large = "x".repeat(1_400_000);
    for options in [ServerOptions::default(), uncached()] {
        let harness = Harness::with(options, StoreOptions::default()).await;
        let mut request = watch("pods", Some(Start::Now(true)));
        request.send_previous = true;
        let mut watch = harness.watch(request).await.unwrap();
        watch.until(BookmarkKind::Resumed).await;
        for round in 0..2 {
            for n in 0..4 {
                let name = format!("p{n}");
                harness.put("pods", &name, &format!("{round}{large}")).await;
            }
        }
        // One revision, and four last states.
        let names = ["p0", "p1", "p2", "p3"];
        let last = harness
            .batch(names.map(|n| remove(key("pods", n))).to_vec())
            .await;
        let responses = watch.through(last).await;
        for response in &responses {
            let size = prost::Message::encoded_len(response);
            assert!(size < 4 << 20, "{size} bytes");
        }
        assert_eq!(events(&responses).len(), 12);
        let deleted = events(&responses)[11];
        assert_eq!(deleted.r#type(), EventType::Deleted);
        let mut initial = harness.watch_all("pods").await;
        initial.until(BookmarkKind::InitialStateEnd).await;
    }
}
