//! Servers, stores and tokens that go back in time, or are ahead of it.

use super::*;

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
async fn kubernetes_107457_a_reflector_converges_after_the_store_was_made_anew() {
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

/// A store restored from a backup of another, as `listwatchd import` does it.
async fn restored(backup: &[u8], folder: &Path) -> Harness {
    let export = ExportReader::new(backup).unwrap();
    let revision = export.restored_revision();
    let store = SledStore::restore(folder, StoreOptions::default(), revision, export).unwrap();
    Harness::over(Arc::new(store), ServerOptions::default()).await
}

/// A server with two objects, the backup of that, and what was written after it.
async fn backed_up() -> (Harness, Vec<u8>) {
    let harness = Harness::start().await;
    harness.put("pods", "kept", "1").await;
    harness.put("pods", "changed", "1").await;
    let mut backup = Vec::new();
    backup::write(harness.store.clone(), SystemTime::now(), &mut backup)
        .await
        .unwrap();
    harness.put("pods", "changed", "2").await;
    for n in 0..10 {
        harness.put("pods", &format!("ghost{n}"), "x").await;
    }
    (harness, backup)
}

#[tokio::test]
async fn etcd_15271_an_older_backup_under_a_live_watch_does_not_take_it_back_in_time() {
    let (harness, backup) = backed_up().await;
    let board = Switchboard::to(&harness);
    let options = WatchOptions::new(everything("pods"));
    let mut events = Box::pin(watcher(board.client(), options));
    let mut next = async || {
        let event = tokio::time::timeout(10 * PATIENCE, events.next()).await;
        event.expect("silent").expect("ended").unwrap()
    };
    while !matches!(next().await, Event::InitDone(_)) {}
    let list = harness.list("pods").await;
    let folder = tempfile::tempdir().unwrap();
    let older = restored(&backup, &folder.path().join("data")).await;
    board.switch(&older);
    harness.server.drain();
    // Nothing of the older store before it is said that all begins anew.
    loop {
        match next().await {
            Event::InitBegin => break,
            Event::Disconnected { .. } | Event::Bookmark(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let mut names = Vec::new();
    loop {
        match next().await {
            Event::InitApply(object) => names.push(object.key.unwrap().name),
            Event::InitDone(_) => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(names, ["changed", "kept"]);
    // Its token is of another store; its bare revision has never been in this one.
    let by_token = watch("pods", Some(Start::ResumeToken(list.resume_token)));
    let refused = older.watch(by_token).await.err().expect("an error");
    assert_eq!(reason(&refused), "STORE_CHANGED");
    for written in 0..20 {
        let mut bare = watch("pods", Some(Start::AfterRevision(list.revision)));
        bare.catch_up = CatchUp::Exact.into();
        let refused = older.watch(bare).await.err().expect("an error");
        assert_eq!(refused.code(), tonic::Code::OutOfRange, "after {written}");
        older.put("pods", "new", &written.to_string()).await;
    }
}

#[tokio::test]
async fn etcd_16028_every_reflector_converges_after_a_backup_is_restored() {
    let (harness, backup) = backed_up().await;
    let board = Switchboard::to(&harness);
    let of_the_latest =
        WatchOptions::new(everything("pods")).delivery_mode(v1::DeliveryMode::Latest);
    let reflectors = [WatchOptions::new(everything("pods")), of_the_latest]
        .map(|options| reflector(board.client(), options, Codec::raw()).spawn());
    for reflector in &reflectors {
        let ready = reflector.reader().wait_until_ready(PATIENCE).await;
        assert_eq!(ready.unwrap().len(), 12);
    }
    let folder = tempfile::tempdir().unwrap();
    let older = restored(&backup, &folder.path().join("data")).await;
    // More than was lost: the revisions that the reflectors hold have all been reached.
    for n in 0..20 {
        older.put("pods", "new", &n.to_string()).await;
    }
    board.switch(&older);
    harness.server.drain();
    let expected = older.list("pods").await.resources.into_iter();
    let expected = expected.map(|object| (object.key.unwrap().name, object.revision, object.value));
    let expected: BTreeSet<_> = expected.collect();
    for reflector in &reflectors {
        let converged = async {
            loop {
                let snapshot = reflector.reader().snapshot();
                let held = snapshot.iter().map(|object| {
                    let name = object.key().name.clone();
                    (name, object.revision(), object.value().clone())
                });
                let held: BTreeSet<_> = held.collect();
                if held == expected {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(10 * PATIENCE, converged)
            .await
            .unwrap();
    }
}
