//! The five steps of resuming, and what the hub does when it is overtaken itself.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use listwatch::v1::{self, BookmarkKind, EventType, watch_request::Start};
use listwatch_server::{
    ServerOptions,
    hub::{Begin, CatchUp, DeliveryMode, Position, ResumeStep, StartPoint},
    selector::Selector,
    store::{
        Collection, Content, Key, MemoryStore, Operation, PageLimit, PutCondition, Revision,
        Store as _, StoreOptions, WriteBatch,
    },
};

use crate::{
    harness::{
        Harness, Watching, everything, faulty::FaultyStore, kinds, millis, put, reason, resource,
        short, token, watch,
    },
    validator::{Copy, name_of},
};

/// Small responses, so that catching up takes several.
fn small() -> ServerOptions {
    let mut options = ServerOptions::default();
    // And a window of one event, so that it does not come from there.
    options.hub.default_cache_size = 1;
    options.hub.window_span = Duration::ZERO;
    options.hub.response = PageLimit {
        items: 2,
        bytes: 1 << 20,
    };
    options
}

/// `forgetting`: no deletion outlives a compaction.
fn store(forgetting: bool) -> StoreOptions {
    StoreOptions {
        max_tombstones: if forgetting { 0 } else { 1000 },
        ..StoreOptions::default()
    }
}

/// Ten objects, a copy of them, and then: two changed, one deleted, one that died, came
/// back and died again, one new.
async fn history(harness: &Harness) -> Copy {
    for n in 0..10 {
        harness.put("pods", &format!("p{n}"), "1").await;
    }
    let mut watch = harness.watch_all("pods").await;
    let mut copy = Copy::default();
    for response in watch.until(BookmarkKind::InitialStateEnd).await {
        copy.apply(&response);
    }
    copy.disconnect();
    harness.put("pods", "p1", "2").await;
    harness.put("pods", "p2", "2").await;
    harness.delete("pods", "p3").await;
    harness.delete("pods", "p4").await;
    harness.put("pods", "p4", "again").await;
    harness.delete("pods", "p4").await;
    harness.put("pods", "new", "1").await;
    // So that no deletion stands at the compacted revision, where it is always kept.
    harness.put("other", "x", "").await;
    copy
}

/// A watch from the copy's token that soon says where it is.
async fn resume(harness: &Harness, copy: &Copy) -> Watching {
    let mut request = watch("pods", Some(Start::ResumeToken(copy.token.clone())));
    request.bookmark_interval = millis(100);
    harness.watch(request).await.unwrap()
}

async fn catch_up(harness: &Harness, copy: &mut Copy) -> Vec<v1::WatchResponse> {
    let responses = resume(harness, copy)
        .await
        .through(harness.revision())
        .await;
    for response in &responses {
        copy.apply(response);
    }
    equals_the_state(harness, copy).await;
    responses
}

async fn equals_the_state(harness: &Harness, copy: &Copy) {
    let pages = harness.pages(everything("pods"), 0).await;
    let listed = pages.iter().flat_map(|page| &page.resources);
    assert!(copy.objects.values().eq(listed), "the copy differs");
}

#[tokio::test(start_paused = true)]
async fn step_1_resumes_from_the_window() {
    let harness = Harness::start().await;
    let mut copy = history(&harness).await;
    let responses = catch_up(&harness, &mut copy).await;
    assert_eq!(kinds(&responses)[0], BookmarkKind::Resumed);
    assert_eq!(harness.server.hub().resumes().of(ResumeStep::Window), 1);
}

/// A client that has come back is stale until it hears that nothing is missing.
#[tokio::test(start_paused = true)]
async fn a_resumed_watch_says_that_it_has_caught_up_before_its_next_bookmark() {
    let harness = Harness::start().await;
    let copy = history(&harness).await;
    let mut request = watch("pods", Some(Start::ResumeToken(copy.token)));
    request.bookmark_interval = millis(600_000);
    let mut resumed = harness.watch(request).await.unwrap();
    resumed.until(BookmarkKind::Resumed).await;
    loop {
        let response = resumed.next().await.unwrap().expect("the watch ended");
        // One that comes with a change says nothing of those that may follow it.
        if response.events.is_empty() {
            let bookmark = response.bookmark.unwrap();
            assert_eq!(bookmark.kind(), BookmarkKind::Progress);
            assert_eq!(bookmark.revision, harness.revision());
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn step_2_resumes_from_the_log() {
    let mut options = ServerOptions::default();
    let pods = Collection::new("pods").unwrap();
    options.hub.cache_sizes = HashMap::from([(pods, 0)]);
    let harness = Harness::with(options, StoreOptions::default()).await;
    let mut copy = history(&harness).await;
    let responses = catch_up(&harness, &mut copy).await;
    assert_eq!(kinds(&responses)[0], BookmarkKind::Resumed);
    assert_eq!(harness.server.hub().resumes().of(ResumeStep::Log), 1);
}

#[tokio::test(start_paused = true)]
async fn step_3_gives_exactly_the_net_difference() {
    let harness = Harness::with(small(), store(false)).await;
    let mut copy = history(&harness).await;
    harness.compact(harness.revision()).await;
    let responses = catch_up(&harness, &mut copy).await;
    assert_eq!(kinds(&responses)[0], BookmarkKind::NetBegin);
    // Every tombstone of the gap, also of what was created in it.
    let wanted = ["^p1@11", "^p2@12", "-p3@13", "-p4@16", "^new@17"];
    assert_eq!(short(&responses), wanted);
    assert_eq!(
        harness.server.hub().resumes().of(ResumeStep::NetDifference),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn step_4_gives_a_manifest_when_deletions_are_forgotten() {
    let harness = Harness::with(small(), store(true)).await;
    let mut copy = history(&harness).await;
    harness.compact(harness.revision()).await;
    let responses = catch_up(&harness, &mut copy).await;
    assert_eq!(kinds(&responses)[0], BookmarkKind::ManifestBegin);
    let wanted = [
        "^new@17", ".p0@1", "^p1@11", "^p2@12", ".p5@6", ".p6@7", ".p7@8", ".p8@9", ".p9@10",
    ];
    assert_eq!(short(&responses), wanted);
    for event in responses.iter().flat_map(|r| &r.events) {
        let resource = event.resource.as_ref().unwrap();
        let unchanged = event.r#type() == EventType::Unchanged;
        assert_eq!(resource.value.is_empty(), unchanged);
    }
    assert_eq!(harness.server.hub().resumes().of(ResumeStep::Manifest), 1);
}

#[tokio::test(start_paused = true)]
async fn step_4_sends_the_state_when_most_of_it_has_changed() {
    let harness = Harness::with(small(), store(false)).await;
    let mut copy = history(&harness).await;
    let puts = (0..70).map(|n| put(resource("pods", &format!("q{n}"), "x", &[])));
    let last = harness.batch(puts.collect()).await;
    harness.compact(last).await;
    let responses = catch_up(&harness, &mut copy).await;
    assert_eq!(kinds(&responses)[0], BookmarkKind::InitialStateBegin);
    assert_eq!(
        harness.server.hub().resumes().of(ResumeStep::InitialState),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn the_state_is_sent_only_where_most_of_it_has_changed_and_much() {
    // Of so many objects so many have changed.
    for (live, changed, begin) in [
        (64, 64, BookmarkKind::NetBegin),
        (65, 65, BookmarkKind::InitialStateBegin),
        (129, 65, BookmarkKind::InitialStateBegin),
        (130, 65, BookmarkKind::NetBegin),
    ] {
        let harness = Harness::with(small(), store(false)).await;
        let some = |from: usize, to: usize| {
            let pods = (from..to).map(|n| put(resource("pods", &format!("p{n}"), "x", &[])));
            pods.collect::<Vec<_>>()
        };
        harness.batch(some(0, live.min(100))).await;
        harness.batch(some(live.min(100) - 1, live)).await;
        let resume_token = harness.list("pods").await.resume_token;
        harness.batch(some(0, changed)).await;
        harness.put("other", "x", "").await;
        harness.compact(harness.revision()).await;
        let mut watch = harness.resume("pods", &resume_token).await;
        let responses = watch.until(BookmarkKind::InitialStateEnd).await;
        assert_eq!(kinds(&responses)[0], begin, "{changed} of {live}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_net_difference_names_a_key_once_whatever_the_window_holds() {
    let mut options = ServerOptions::default();
    options.hub.response.items = 2;
    let harness = Harness::with(options, store(false)).await;
    let resume_token = harness.list("pods").await.resume_token;
    // What is left out lies behind the first part of the difference.
    for (value, name) in ["p0", "p1", "p2", "p2", "p2", "p3", "p3"]
        .iter()
        .enumerate()
    {
        harness.put("pods", name, &value.to_string()).await;
    }
    harness.compact(harness.revision()).await;
    let mut watch = harness.resume("pods", &resume_token).await;
    let responses = watch.until(BookmarkKind::InitialStateEnd).await;
    assert_eq!(kinds(&responses)[0], BookmarkKind::NetBegin);
    let wanted = ["^p0@1", "^p1@2", "^p2@5", "^p3@7"];
    assert_eq!(short(&responses), wanted);
}

#[tokio::test(start_paused = true)]
async fn a_net_difference_resumes_from_any_of_its_tokens() {
    let harness = Harness::with(small(), store(false)).await;
    let copy = history(&harness).await;
    harness.compact(harness.revision()).await;
    let mut whole = resume(&harness, &copy).await;
    let responses = whole.through(harness.revision()).await;
    assert!(responses.len() > 3);
    for cut in 1..responses.len() {
        let mut copy = copy.clone();
        for response in &responses[..cut] {
            copy.apply(response);
        }
        copy.disconnect();
        // Meanwhile the world goes on, and is compacted again.
        harness.put("pods", "p5", &format!("cut {cut}")).await;
        if cut % 2 == 0 {
            harness.compact(harness.revision()).await;
        }
        catch_up(&harness, &mut copy).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_exact_watch_never_goes_on_in_the_middle_of_a_net_difference() {
    let harness = Harness::with(small(), store(false)).await;
    let copy = history(&harness).await;
    harness.compact(12).await;
    let mut first = harness.resume("pods", &copy.token).await;
    let midway = first.through(12).await;
    assert!(!kinds(&midway).contains(&BookmarkKind::InitialStateEnd));
    // Not compacted itself, and yet this client holds no state that ever was.
    let midway = token(&midway);
    let mut request = watch("pods", Some(Start::ResumeToken(midway)));
    request.catch_up = v1::CatchUp::Exact.into();
    let refused = harness.watch(request).await.err().expect("an error");
    assert_eq!(refused.code(), tonic::Code::OutOfRange);
    assert_eq!(reason(&refused), "REVISION_COMPACTED");
}

/// A watch that has stopped in the middle of a net difference, with a deletion ahead of it that
/// is forgotten meanwhile; and its client's copy.
async fn overtaken(harness: &Harness, mode: v1::DeliveryMode) -> (Watching, Copy) {
    for n in 0..10 {
        harness.put("pods", &format!("p{n}"), "1").await;
    }
    let listed = harness.list("pods").await;
    let resources = listed.resources.into_iter();
    let mut copy = Copy::holding(resources.map(|r| (name_of(&r), r)).collect());
    copy.token = listed.resume_token;
    // More than the transport holds, so that the difference stops midway.
    let filler = "x".repeat(200_000);
    for n in 0..40 {
        harness.put("pods", &format!("f{n}"), &filler).await;
    }
    harness.compact(harness.revision()).await;
    let mut request = watch("pods", Some(Start::ResumeToken(copy.token.clone())));
    request.bookmark_interval = millis(100);
    request.delivery_mode = mode.into();
    let mut watch = harness.watch(request).await.unwrap();
    copy.apply(&watch.next().await.unwrap().unwrap());
    let resumes = harness.server.hub().resumes();
    assert_eq!(resumes.of(ResumeStep::NetDifference), 1);
    harness.delete("pods", "p1").await;
    harness.put("other", "x", "").await;
    harness.compact(harness.revision()).await;
    (watch, copy)
}

#[tokio::test(start_paused = true)]
async fn the_horizon_is_looked_at_again_at_every_chunk() {
    let harness = Harness::with(small(), store(true)).await;
    let (mut watch, mut copy) = overtaken(&harness, v1::DeliveryMode::EveryChange).await;
    let refused = loop {
        match watch.next().await {
            Ok(Some(response)) => copy.apply(&response),
            Ok(None) => panic!("ended well"),
            Err(refused) => break refused,
        }
    };
    assert_eq!(reason(&refused), "REVISION_COMPACTED");
    copy.disconnect();
    catch_up(&harness, &mut copy).await;
    assert_eq!(harness.server.hub().resumes().of(ResumeStep::Manifest), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_the_newest_whose_net_difference_is_overtaken_goes_on_by_a_manifest() {
    let harness = Harness::with(small(), store(true)).await;
    let (mut watch, mut copy) = overtaken(&harness, v1::DeliveryMode::Latest).await;
    let written = harness.put("pods", "after", "1").await;
    let responses = watch.through(written.revision).await;
    for response in &responses {
        copy.apply(response);
    }
    let mut told = kinds(&responses);
    told.retain(|kind| *kind != BookmarkKind::Progress);
    assert_eq!(
        told,
        [BookmarkKind::ManifestBegin, BookmarkKind::InitialStateEnd]
    );
    let events = responses.iter().flat_map(|r| &r.events);
    let mut types = events.map(v1::WatchEvent::r#type);
    assert!(types.any(|t| t == EventType::Unchanged), "no manifest");
    equals_the_state(&harness, &copy).await;
}

/// The net difference whose end the caches have not taken up yet: nothing is left to read
/// where it stands, and it is not complete.
#[tokio::test(start_paused = true)]
async fn a_net_difference_waits_for_caches_that_are_behind_it() {
    const LATE: Duration = Duration::from_millis(300);
    let is_late = Arc::new(AtomicBool::new(false));
    let late = is_late.clone();
    let delays = move || {
        let late = late.load(Ordering::Relaxed);
        if late { LATE } else { Duration::ZERO }
    };
    let memory = Arc::new(MemoryStore::new(store(false)));
    let slow = FaultyStore::late_over(memory, 1000, Box::new(delays));
    for mode in [DeliveryMode::EveryChange, DeliveryMode::Latest] {
        is_late.store(false, Ordering::Relaxed);
        let harness = Harness::over(slow.clone(), small()).await;
        let hub = harness.server.hub();
        let since = harness.put("pods", "first", "1").await.revision;
        for n in 0..4 {
            harness.put("pods", &format!("p{n}"), "1").await;
        }
        let began_at = harness.revision();
        harness.compact(began_at).await;
        let selector = Arc::new(Selector::all(Collection::new("pods").unwrap()));
        let since = Position::settled(Revision::from_wire(since).unwrap());
        let start = StartPoint::After(since, CatchUp::Net);
        let mut cursor = hub.watch(selector, start, mode).await.unwrap();
        let began = cursor.step().await.unwrap().begins;
        assert_eq!(began, Some(Begin::NetDifference));
        // Two of the four; then more is written than the caches know of.
        assert_eq!(cursor.step().await.unwrap().deliveries.len(), 2);
        is_late.store(true, Ordering::Relaxed);
        let newest = slow.commit(write("late", "1")).await.unwrap().revision;
        let mut delivered = 0;
        let mut steps = 0;
        loop {
            steps += 1;
            // One that turns in place lets no time pass, and so would turn for ever.
            assert!(steps < 6, "turns in place, {delivered} delivered");
            let step = cursor.step().await.unwrap();
            delivered += step.deliveries.len();
            if step.completes {
                break;
            }
        }
        assert_eq!(delivered, 3, "the other two, and what was written late");
        assert_eq!(hub.applied(), newest);
    }
}

fn write(name: &str, value: &str) -> WriteBatch {
    let operation = Operation::Put {
        key: Key::new("pods", "default", name).unwrap(),
        condition: PutCondition::Any,
        content: Content {
            value: value.as_bytes().to_vec().into(),
            ..Content::default()
        },
    };
    WriteBatch {
        operations: vec![operation],
        request: None,
        ..WriteBatch::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_compaction_overtakes_goes_on_with_the_present_state() {
    let harness = Harness::start().await;
    harness.put("pods", "kept", "1").await;
    harness.put("pods", "gone", "1").await;
    let mut watches = Vec::new();
    for exact in [true, false] {
        let mut request = watch("pods", None);
        request.bookmark_interval = millis(1000);
        if exact {
            request.catch_up = v1::CatchUp::Exact.into();
        } else {
            request.delivery_mode = v1::DeliveryMode::Latest.into();
        }
        let mut watch = harness.watch(request).await.unwrap();
        watch.until(BookmarkKind::InitialStateEnd).await;
        watches.push(watch);
    }
    // More groups than the feed holds, written and compacted while the hub gets no turn.
    for n in 0..1000 {
        harness
            .store
            .commit(write("a", &n.to_string()))
            .await
            .unwrap();
    }
    harness.delete_in_store("pods", "gone").await;
    let head = harness.store.progress().revision;
    harness.store.compact(head, true).await.unwrap();
    let names: Vec<_> = harness
        .list("pods")
        .await
        .resources
        .into_iter()
        .map(|r| (r.key.unwrap().name, r.revision))
        .collect();
    assert_eq!(names, [("a".to_owned(), 1002), ("kept".to_owned(), 1)]);
    let ended = loop {
        match watches[0].next().await {
            Ok(Some(response)) => assert!(response.events.is_empty(), "a gap: {response:?}"),
            Ok(None) => panic!("ended well"),
            Err(error) => break error,
        }
    };
    assert_eq!(reason(&ended), "REVISION_COMPACTED");
    let caught_up = watches[1].through(head.to_wire()).await;
    assert_eq!(short(&caught_up), ["^a@1002", "-gone@1003"]);
    let written = harness.put("pods", "after", "1").await;
    assert_eq!(
        short(&watches[1].through(written.revision).await),
        ["+after@1004"]
    );
}

#[tokio::test(start_paused = true)]
async fn watches_end_when_the_hub_can_take_up_nothing_more() {
    let harness = Harness::start().await;
    let mut watch = harness.watch_all("pods").await;
    watch.until(BookmarkKind::InitialStateEnd).await;
    // More groups than the feed holds, so that the hub has to read a log that is closed.
    for n in 0..1000 {
        let write = write("a", &n.to_string());
        harness.store.commit(write).await.unwrap();
    }
    harness.store.close().await;
    let mut ended = None;
    for _ in 0..10 {
        match watch.next().await {
            Ok(response) => assert!(response.is_some(), "ended well"),
            Err(status) => {
                ended = Some(status);
                break;
            }
        }
    }
    assert_eq!(reason(&ended.expect("it goes on for ever")), "NOT_READY");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_write_to_a_collection_is_seen_though_its_watchers_come_and_go() {
    let harness = Harness::start().await;
    let hub = harness.server.hub().clone();
    for n in 0..500 {
        let collection = Collection::new(&format!("c{n}")).unwrap();
        let (watched, hub) = (collection.clone(), hub.clone());
        let come_and_go = tokio::spawn(async move {
            let selector = Arc::new(Selector::all(watched));
            for _ in 0..4 {
                let start = StartPoint::InitialState;
                let mode = DeliveryMode::EveryChange;
                drop(hub.watch(selector.clone(), start, mode).await.unwrap());
            }
        });
        let key = Key::new(collection.as_str(), "", "a").unwrap();
        let mut batch = write("a", "1");
        if let Operation::Put { key: target, .. } = &mut batch.operations[0] {
            *target = key.clone();
        }
        let committed = harness.store.commit(batch).await.unwrap();
        come_and_go.await.unwrap();
        let hub = harness.server.hub();
        hub.wait_applied(committed.revision).await.unwrap();
        let (object, at) = hub.get(&key).await.unwrap();
        assert!(at >= committed.revision && at > Revision::ZERO);
        assert!(
            object.is_some(),
            "{collection} was written and is not there"
        );
    }
}
