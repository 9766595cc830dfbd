//! What a restart must not change, and what a backup brings back.

use std::fs;

use super::*;

#[tokio::test]
async fn a_store_dropped_without_close_opens_with_everything() {
    let folder = tempfile::tempdir().unwrap();
    let options = TestClock::new().options();
    let store = reopen(folder.path(), &options);
    let id = store.id();
    write(&store, put("a", "1")).await;
    write(&store, put("a", "2")).await;
    write(&store, delete("a")).await;
    write(&store, put("b", "4")).await;
    drop(store);
    let store = reopen(folder.path(), &options);
    assert_eq!(store.id(), id);
    assert_eq!(store.progress().revision, r(4));
    let object = store.get(&key("a"), r(2)).await.unwrap().unwrap();
    assert_eq!(&object.content.value[..], b"2");
    let chunk = store.read_log(None, r(0), PAGE).await.unwrap();
    assert_eq!(chunk.commits.len(), 4);
    assert_eq!(write(&store, put("a", "5")).await.revision, r(5));
}

#[tokio::test]
async fn a_second_process_or_store_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = TestClock::new().options();
    let store = reopen(folder.path(), &options);
    let error = SledStore::open(folder.path(), options.clone()).unwrap_err();
    assert!(matches!(error, StoreError::Unusable(_)), "{error}");
    assert!(error.to_string().contains("in use"), "{error}");
    store.close().await;
    // Closed is enough, although it still lives.
    reopen(folder.path(), &options);
}

#[tokio::test]
async fn a_repeated_request_is_known_after_a_restart_and_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let options = StoreOptions {
        segment_bytes: 64 << 10,
        ..clock.options()
    };
    let store = reopen(folder.path(), &options);
    let first = store.commit(request("x", put("a", "1"))).await.unwrap();
    let uid = first.objects[0].as_ref().unwrap().uid;
    drop(store);
    let store = reopen(folder.path(), &options);
    let again = store.commit(request("x", put("a", "1"))).await.unwrap();
    assert_eq!(again.revision, r(1));
    assert_eq!(again.objects[0].as_ref().unwrap().uid, uid);
    // The event itself goes.
    for i in 0..400 {
        write(&store, put("a", &i.to_string().repeat(100))).await;
    }
    store
        .compact(store.progress().revision, true)
        .await
        .unwrap();
    drop(store);
    let store = reopen(folder.path(), &options);
    let again = store.commit(request("x", put("a", "1"))).await.unwrap();
    assert_eq!(again.revision, r(1));
    assert_eq!(again.objects[0].as_ref().unwrap().uid, uid);
}

#[tokio::test]
async fn deadlines_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let options = clock.options();
    let store = reopen(folder.path(), &options);
    let deadline = clock.now() + Duration::from_secs(10);
    let mut operation = put("a", "1");
    if let Operation::Put { content, .. } = &mut operation {
        content.expire_time = Some(deadline);
    }
    write(&store, operation).await;
    write(&store, put("b", "1")).await;
    drop(store);
    let store = reopen(folder.path(), &options);
    assert_eq!(store.expire_due().await.unwrap(), Some(deadline));
    clock.advance(Duration::from_secs(11));
    assert_eq!(store.expire_due().await.unwrap(), None);
    assert_eq!(contents(&store).await.len(), 1);
    let chunk = store.read_log(None, r(2), PAGE).await.unwrap();
    let change = chunk.commits[0].events[0].change;
    assert_eq!(change, Change::Deleted(DeleteCause::Expired));
}

/// A deletion may be forgotten while an older segment still holds the object.
#[tokio::test]
async fn a_forgotten_deletion_stays_in_force_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let options = StoreOptions {
        segment_bytes: 64 << 10,
        max_tombstones: 0,
        ..clock.options()
    };
    let store = reopen(folder.path(), &options);
    // The oldest segment stays mostly live, with the doomed object in it.
    write(&store, put("doomed", "1")).await;
    for i in 0..100 {
        write(&store, put(&format!("keep{i}"), &"k".repeat(1000))).await;
    }
    write(&store, delete("doomed")).await;
    for _ in 0..6 {
        for i in 0..100 {
            write(&store, put(&format!("churn{}", i % 5), &"c".repeat(1000))).await;
        }
        store
            .compact(store.progress().revision, true)
            .await
            .unwrap();
    }
    assert!(store.progress().forgotten > r(100));
    let all = contents(&store).await;
    assert_eq!(all.len(), 105);
    drop(store);
    let store = reopen(folder.path(), &options);
    assert_eq!(contents(&store).await, all);
    assert_eq!(store.status().tombstone_count, 0);
}

#[tokio::test]
async fn compaction_gives_room_back_and_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        segment_bytes: 1 << 20,
        ..TestClock::new().options()
    };
    let store = reopen(folder.path(), &options);
    let value = "x".repeat(10_000);
    for i in 0..2000 {
        write(&store, put(&format!("o{}", i % 20), &format!("{i}{value}"))).await;
    }
    let before = store.status().database_bytes;
    let at = store.progress().revision;
    store.compact(at, true).await.unwrap();
    let after = store.status().database_bytes;
    assert!(after * 3 < before, "{before} -> {after}");
    let all = contents(&store).await;
    assert_eq!(all.len(), 20);
    drop(store);
    let store = reopen(folder.path(), &options);
    assert_eq!(contents(&store).await, all);
    assert_eq!(store.progress().revision, at);
    assert_eq!(store.progress().compacted, at);
}

#[tokio::test]
async fn a_restored_store_has_the_objects_and_another_identity() {
    let old = tempfile::tempdir().unwrap();
    let new = tempfile::tempdir().unwrap();
    let options = TestClock::new().options();
    let store = reopen(old.path(), &options);
    for name in ["a", "b", "c"] {
        write(&store, put(name, "1")).await;
    }
    write(&store, put("a", "2")).await;
    write(&store, delete("b")).await;
    let at = store.progress().revision;
    let page = store.list(&all_pods(), at, PAGE).await.unwrap();
    let copy = |o: &Arc<Object>| {
        Object::new(
            o.key.clone(),
            o.uid,
            o.revision,
            o.create_revision,
            o.update_time,
            o.content.clone(),
        )
    };
    let objects: Vec<_> = page.objects.iter().map(copy).collect();
    let other = StoreOptions {
        seed: Some(8),
        ..options.clone()
    };
    let restored = SledStore::restore::<StoreError>(
        new.path(),
        other.clone(),
        at,
        objects.into_iter().map(Ok),
    )
    .unwrap();
    assert_ne!(restored.id(), store.id());
    let progress = restored.progress();
    assert_eq!((progress.revision, progress.compacted), (at, at));
    assert_eq!(progress.forgotten, at);
    let again = restored.list(&all_pods(), at, PAGE).await.unwrap();
    assert_eq!(again.objects, page.objects);
    assert_eq!(write(&restored, put("d", "1")).await.revision, at.next());
    drop(restored);
    let restored = reopen(new.path(), &other);
    assert_eq!(contents(&restored).await.len(), 3);
    // Not over a store that is there.
    drop(restored);
    let none = std::iter::empty::<Result<Object, StoreError>>();
    let refused = SledStore::restore(new.path(), other, at, none);
    assert!(matches!(refused, Err(StoreError::Unusable(_))));
}

#[tokio::test]
async fn an_interrupted_restore_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let options = TestClock::new().options();
    let failing = [Err(StoreError::Closed)];
    let failed = SledStore::restore(folder.path(), options.clone(), r(5), failing);
    assert!(matches!(failed, Err(StoreError::Closed)));
    let error = SledStore::open(folder.path(), options).unwrap_err();
    assert!(matches!(error, StoreError::Unusable(_)), "{error}");
}

#[tokio::test]
async fn an_interrupted_creation_starts_anew() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("CREATING"), b"").unwrap();
    fs::create_dir(folder.path().join("seg-1")).unwrap();
    let store = reopen(folder.path(), &TestClock::new().options());
    write(&store, put("a", "1")).await;
}

#[tokio::test]
async fn large_objects_are_kept_whole() {
    let folder = tempfile::tempdir().unwrap();
    let options = TestClock::new().options();
    let store = reopen(folder.path(), &options);
    let mut sizes = vec![0, 1, 32_768, 32_769, 1_572_864, 8 << 20];
    for (i, size) in sizes.iter().enumerate() {
        write(&store, put(&format!("o{i}"), &"x".repeat(*size))).await;
    }
    drop(store);
    let store = reopen(folder.path(), &options);
    let found: Vec<usize> = contents(&store).await.iter().map(|o| o.1.len()).collect();
    sizes.sort_unstable();
    assert_eq!(found, sizes);
    // sled never syncs these.
    let blobs = fs::read_dir(folder.path().join("seg-1/blobs")).unwrap();
    assert_eq!(blobs.count(), 0);
}

#[tokio::test]
async fn an_opening_waits_for_the_last_user_to_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let options = TestClock::new().options();
    let store = reopen(folder.path(), &options);
    write(&store, put("a", "1")).await;
    store.close().await;
    drop(store);
    // As sled's threads do for a moment.
    let held = std::fs::File::open(folder.path().join("seg-1/db")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let letting_go = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
    });
    let store = reopen(folder.path(), &options);
    letting_go.join().unwrap();
    assert_eq!(contents(&store).await, [("a".to_owned(), b"1".to_vec())]);
}
