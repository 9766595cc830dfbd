//! Events that are lost or told twice: at compaction, at resuming, to slow readers.

use super::*;

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

#[tokio::test(start_paused = true)]
async fn kube_rs_219_python_801_a_quiet_collection_resumes_past_compaction() {
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
async fn istio_41494_envoy_20699_what_was_deleted_meanwhile_is_told_by_another_server() {
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

/// Watches of one stream, by number; [`next`] is what it says.
async fn many(
    harness: &Harness,
    watches: impl IntoIterator<Item = v1::WatchRequest>,
) -> (
    mpsc::Sender<v1::WatchManyRequest>,
    Streaming<v1::WatchManyResponse>,
) {
    let (requests, receiver) = mpsc::channel(100);
    for (watch_id, watch) in (0..).zip(watches) {
        let kind = Some(Kind::Watch(watch));
        let request = v1::WatchManyRequest { watch_id, kind };
        requests.send(request).await.unwrap();
    }
    let mut raw = harness.raw.clone();
    let opened = raw.watch_many(ReceiverStream::new(receiver));
    (requests, opened.await.unwrap().into_inner())
}

async fn next(stream: &mut Streaming<v1::WatchManyResponse>) -> v1::WatchManyResponse {
    let next = tokio::time::timeout(PATIENCE, stream.message()).await;
    next.expect("silent").unwrap().expect("ended")
}

/// Check 5 of the validator, with bookmarks that are asked for all the time, as etcd's progress
/// requests are, of several watches of one stream.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_15220_bookmarks_asked_for_at_every_moment_never_precede_an_event() {
    const WRITES: i64 = 2000;
    const WATCHES: usize = 3;
    for cache in [1, 1000] {
        let harness = Harness::with(window(cache), StoreOptions::default()).await;
        // Each wants something else, so that none becomes another.
        let watches = (0..WATCHES as u64).map(|n| {
            let mut request = watch("pods", Some(Start::Now(true)));
            request.bookmark_interval = millis(100 + n);
            request
        });
        let (requests, mut stream) = many(&harness, watches).await;
        let mut opened = 0;
        while opened < WATCHES {
            opened += next(&mut stream).await.watch_ids.len();
        }
        let asking = tokio::spawn(async move {
            for watch_id in (0..WATCHES as i64).cycle() {
                let kind = Some(Kind::Bookmark(v1::RequestBookmark {}));
                let request = v1::WatchManyRequest { watch_id, kind };
                if requests.send(request).await.is_err() {
                    return;
                }
            }
        });
        let store = harness.store.clone();
        let writing = tokio::spawn(async move {
            for n in 0..WRITES {
                let operation = Operation::Put {
                    key: Key::new("pods", "default", &format!("p{}", n % 7)).unwrap(),
                    condition: PutCondition::Any,
                    content: Content::default(),
                };
                let batch = WriteBatch {
                    operations: vec![operation],
                    ..WriteBatch::default()
                };
                store.commit(batch).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let (mut seen, mut promised) = ([0; WATCHES], [0; WATCHES]);
        let mut alone = 0;
        // Something always comes: a wait for each alone would have no end.
        let deadline = tokio::time::Instant::now() + 4 * PATIENCE;
        while promised.iter().any(|promised| *promised < WRITES) {
            let many = tokio::time::timeout_at(deadline, next(&mut stream)).await;
            let many = many.unwrap_or_else(|_| panic!("only {promised:?} of {WRITES}"));
            let response = many.response.unwrap();
            for id in many.watch_ids.iter().map(|id| *id as usize) {
                for revision in revisions(&response) {
                    assert!(revision > promised[id], "{revision} after {}", promised[id]);
                    assert_eq!(revision, seen[id] + 1, "a gap, or twice");
                    seen[id] = revision;
                }
                if let Some(bookmark) = &response.bookmark {
                    // All are of `pods`: what is promised has been sent.
                    assert_eq!(bookmark.revision, seen[id]);
                    promised[id] = bookmark.revision;
                    alone += usize::from(response.events.is_empty());
                }
            }
        }
        writing.await.unwrap();
        assert!(alone > 10, "{alone} bookmarks were asked for and given");
        asking.abort();
    }
}

/// A transaction is told of once, each key of it, however often it is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn etcd_17247_no_event_is_told_twice_though_a_batch_is_sent_again_and_again() {
    const BATCHES: i64 = 50;
    let harness = Harness::with(window(1), StoreOptions::default()).await;
    let mut watches = Vec::new();
    for _ in 0..3 {
        let mut request = watch("pods", Some(Start::Now(true)));
        request.send_previous = true;
        watches.push(harness.watch(request).await.unwrap());
    }
    for n in 0..BATCHES {
        let put = |name: &str| put(resource("pods", name, &n.to_string(), &[]));
        let operations = ["a", "b", "c"].map(|name| v1::BatchOperation {
            kind: Some(put(name)),
        });
        let request = v1::BatchRequest {
            operations: operations.into(),
            request_id: format!("00000000-0000-4000-8000-{n:012}"),
        };
        let sent = (0..3).map(|_| harness.client.batch(request.clone()));
        for answer in futures::future::join_all(sent).await {
            assert_eq!(answer.unwrap().revision, n + 1);
        }
    }
    for watching in &mut watches {
        let mut seen: Vec<_> = short(&watching.through(BATCHES).await);
        let told = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!((told, seen.len()), (150, 150));
    }
}

#[tokio::test]
async fn etcd_19179_the_deletion_at_the_compacted_revision_outlives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let store = SledStore::open(folder.path(), StoreOptions::default()).unwrap();
        Harness::over(Arc::new(store), ServerOptions::default())
    };
    let harness = open().await;
    harness.put("pods", "a", "1").await;
    harness.put("pods", "b", "1").await;
    let deleted = harness.delete("pods", "a").await.revision;
    harness.compact(deleted).await;
    harness.server.drain();
    harness.server.join().await.unwrap();
    harness.store.close().await;
    drop((harness.store, harness.client, harness.raw));
    let harness = open().await;
    let from = async |revision, catch_up: CatchUp| {
        let mut request = watch("pods", Some(Start::AfterRevision(revision)));
        request.catch_up = catch_up.into();
        harness.watch(request).await
    };
    let mut before = from(deleted - 1, CatchUp::Net).await.unwrap();
    assert_eq!(short(&before.through(deleted).await), ["-a@3"]);
    let refused = from(deleted - 1, CatchUp::Exact).await.err().unwrap();
    assert_eq!(reason(&refused), "REVISION_COMPACTED");
    let mut at = from(deleted, CatchUp::Exact).await.unwrap();
    let written = harness.put("pods", "a", "2").await;
    assert_eq!(short(&at.through(written.revision).await), ["+a@4"]);
}

/// Nothing comes after the error that history is compacted, and the others of the stream go on.
#[tokio::test]
async fn kine_238_nothing_follows_the_compaction_error() {
    let harness = Harness::with(window(1), StoreOptions::default()).await;
    for n in 0..20 {
        harness.put("pods", "a", &n.to_string()).await;
    }
    harness.compact(15).await;
    let mut compacted = watch("pods", Some(Start::AfterRevision(5)));
    compacted.catch_up = CatchUp::Exact.into();
    let live = watch("pods", Some(Start::AfterRevision(20)));
    let (_requests, mut stream) = many(&harness, [compacted, live]).await;
    let (mut ended, mut heard) = (false, 0);
    while heard < 10 {
        if ended {
            harness.put("pods", "a", "more").await;
        }
        let many = next(&mut stream).await;
        if let Some(end) = many.end {
            assert_eq!(many.watch_ids, [0]);
            assert_eq!(end.reason(), v1::ErrorReason::RevisionCompacted);
            assert!(!ended, "twice");
            ended = true;
        } else {
            assert_eq!(many.watch_ids, [1], "of the one that has ended");
            heard += many.response.map_or(0, |response| response.events.len());
        }
    }
}

#[tokio::test]
async fn zookeeper_4698_what_happens_while_a_watch_is_away_is_told_when_it_is_back() {
    for cache in [0, 2, 1000] {
        let harness = Harness::with(window(cache), StoreOptions::default()).await;
        harness.put("pods", "deleted", "1").await;
        harness.put("pods", "again", "1").await;
        let mut watching = harness.watch_all("pods").await;
        let state = watching.until(BookmarkKind::InitialStateEnd).await;
        drop(watching);
        harness.delete("pods", "deleted").await;
        harness.delete("pods", "again").await;
        harness.put("pods", "again", "2").await;
        harness.put("pods", "new", "1").await;
        harness.put("pods", "new", "2").await;
        let mut back = harness.resume("pods", &token(&state)).await;
        let told = short(&back.through(harness.revision()).await);
        assert_eq!(
            told,
            ["-deleted@3", "-again@4", "+again@5", "+new@6", "~new@7"]
        );
    }
}
