//! After a failed write: what is refused, what comes back, and what is shown of it.

use super::*;

/// As after a write that failed; `tried`: when the disk was last looked at.
fn fails(store: &SledStore, tried: Instant) {
    *log(store).failed.lock() = Some(Failure {
        why: "no room".into(),
        tried,
    });
}

fn long_ago() -> Instant {
    Instant::now().checked_sub(HEAL_INTERVAL).unwrap()
}

/// The next revision is on disk as a whole, and its writer was told that this is uncertain.
fn leave_unacknowledged(store: &SledStore, name: &str, value: &str) {
    let log = log(store);
    let revision = store.progress().revision.next();
    let of = log.read(Slot::first(r(1))).unwrap().unwrap();
    let object = crate::store::Object::new(
        key(name),
        of.object.uid,
        revision,
        of.object.create_revision,
        of.object.update_time,
        content(value),
    );
    let entry = Entry {
        slot: Slot::first(revision),
        change: crate::store::Change::Updated,
        object: Arc::new(object),
        previous_revision: Some(r(1)),
        ..of
    };
    let segment = written(store);
    let tally = *segment.tally.lock();
    let parts = record::encode(&entry, segment.part_bytes());
    segment.append(&parts, 0, log.id).unwrap();
    *segment.tally.lock() = tally;
}

#[tokio::test]
async fn after_a_failure_of_the_disk_nothing_is_written_until_the_store_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path(), &options());
    write(&store, put("a", "1")).await;
    assert_eq!(store.status().failure, None);
    log(&store).distrust("the first".into());
    log(&store).distrust("another".into());
    for _ in 0..2 {
        let refused = store.commit(batch([put("a", "2")])).await.unwrap_err();
        let CommitError::Store(StoreError::Io { message, .. }) = refused else {
            panic!("{refused}");
        };
        assert_eq!(message, "the first");
    }
    let failure = store.status().failure.unwrap();
    assert!(failure.contains("the first"), "{failure}");
    assert_eq!(contents(&store).await, [("a".into(), b"1".to_vec())]);
    drop(store);
    let store = reopen(folder.path(), &options());
    assert_eq!(store.status().failure, None);
    assert_eq!(write(&store, put("a", "2")).await.revision, r(2));
}

#[tokio::test]
async fn after_a_failed_write_the_disk_is_tried_again_only_after_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path(), &options());
    write(&store, put("a", "1")).await;
    // Nothing has elapsed yet, however slow this machine is.
    fails(&store, Instant::now() + Duration::from_secs(3600));
    let refused = store.commit(batch([put("a", "2")])).await.unwrap_err();
    let CommitError::Store(StoreError::Io { message, .. }) = refused else {
        panic!("{refused}");
    };
    assert_eq!(message, "no room");
    assert_eq!(store.status().failure, None);
    fails(&store, long_ago());
    assert_eq!(write(&store, put("a", "2")).await.revision, r(2));
    assert!(log(&store).failed.lock().is_none());
}

#[tokio::test]
async fn what_turns_out_to_be_stored_is_shown_once_and_before_what_comes_after() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path(), &options());
    for value in ["1", "2", "3"] {
        write(&store, put("a", value)).await;
    }
    let mut feed = store.subscribe();
    leave_unacknowledged(&store, "a", "4");
    fails(&store, long_ago());
    assert_eq!(write(&store, put("b", "5")).await.revision, r(5));
    let mut told = Vec::new();
    while let Ok(commits) = feed.try_recv() {
        told.extend(commits.iter().map(|commit| commit.revision));
    }
    assert_eq!(told, [r(4), r(5)]);
    for (at, value) in [(3, "3"), (4, "4"), (5, "4")] {
        let object = store.get(&key("a"), r(at)).await.unwrap().unwrap();
        assert_eq!(&object.content.value[..], value.as_bytes(), "{at}");
    }
    let all = contents(&store).await;
    drop(store);
    let store = reopen(folder.path(), &options());
    assert_eq!(contents(&store).await, all);
}

#[tokio::test]
async fn what_ends_before_the_newest_acknowledged_write_is_damaged_and_takes_none() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path(), &options());
    for value in ["1", "2", "3"] {
        write(&store, put("a", value)).await;
    }
    fails(&store, long_ago());
    let damaged = log(&store).heal(r(4)).unwrap_err();
    assert!(matches!(damaged, StoreError::Damaged(_)), "{damaged}");
    assert!(log(&store).failed.lock().is_some());
    fails(&store, long_ago());
    assert_eq!(log(&store).heal(r(3)).unwrap().unwrap().len(), 0);
    // In a segment that nothing was written to yet.
    begin_segment(&store);
    fails(&store, long_ago());
    assert_eq!(log(&store).heal(r(3)).unwrap().unwrap().len(), 0);
    fails(&store, long_ago());
    log(&store).heal(r(4)).unwrap_err();
}

/// sled may refuse to read after an error: reads go on from what is on disk.
#[tokio::test]
async fn after_a_failed_write_the_written_segment_is_opened_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path(), &options());
    write(&store, put("a", "1")).await;
    let segment = written(&store);
    segment.rest();
    let failure = segment::WriteFailure {
        why: "no room".into(),
        disk_failed: false,
    };
    let told = log(&store).fail(&segment, failure);
    assert!(matches!(told, AppendError::Uncertain(_)), "{told:?}");
    assert!(segment.last_used().is_some());
    assert_eq!(contents(&store).await, [("a".into(), b"1".to_vec())]);
}

/// It may hold what nobody counted.
#[tokio::test]
async fn a_segment_whose_last_write_failed_is_not_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        segment_bytes: 512 << 10,
        ..options()
    };
    let store = reopen(folder.path(), &options);
    churn(&store).await;
    leave_unacknowledged(&store, "churn", "uncertain");
    fails(&store, long_ago());
    compact(&store).await;
    assert_eq!(numbers(&store), [1]);
    // Healed, and then the disk fails for good.
    write(&store, put("churn", "after")).await;
    log(&store).distrust("the disk".into());
    compact(&store).await;
    assert_eq!(numbers(&store), [1]);
    drop(store);
    let store = reopen(folder.path(), &options);
    compact(&store).await;
    assert!(!numbers(&store).contains(&1));
    assert_eq!(
        contents(&store).await,
        [("churn".into(), b"after".to_vec())]
    );
}

#[tokio::test]
async fn a_closed_log_leaves_its_manifest_to_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path(), &options());
    write(&store, put("a", "1")).await;
    store.close().await;
    let manifest = || std::fs::read(folder.path().join(manifest::FILE)).unwrap();
    let before = manifest();
    let compacted = log(&store).set_compacted(Progress {
        compacted: r(1),
        ..store.progress()
    });
    assert_eq!(compacted, Err(StoreError::Closed));
    assert_eq!(manifest(), before);
}
