//! What a compaction leaves on disk, and what it must not take.

use super::*;
use crate::limits::COPY_BATCH_RECORDS;

fn folders(path: &std::path::Path) -> Vec<u64> {
    let names = folder::names(path).unwrap();
    let mut found: Vec<_> = names.iter().filter_map(|n| segment::number_of(n)).collect();
    found.sort_unstable();
    found
}

#[tokio::test]
async fn what_was_copied_is_gone_from_the_disk_after_a_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        segment_bytes: 512 << 10,
        ..options()
    };
    let store = reopen(folder.path(), &options);
    churn(&store).await;
    compact(&store).await;
    let mut left = numbers(&store);
    left.sort_unstable();
    assert!(!left.contains(&1));
    assert_eq!(folders(folder.path()), left);
}

#[tokio::test]
async fn a_full_store_frees_what_is_too_little_for_one_that_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let ample = StoreOptions {
        segment_bytes: 1 << 20,
        ..options()
    };
    let store = reopen(folder.path(), &ample);
    let value = "x".repeat(5000);
    for i in 0..22 {
        write(&store, put(&format!("o{}", i % 20), &value)).await;
    }
    compact(&store).await;
    assert_eq!(numbers(&store), [1]);
    assert_eq!(records(&store).len(), 22);
    drop(store);
    let full = StoreOptions {
        quota_bytes: 1,
        ..ample
    };
    let store = reopen(folder.path(), &full);
    assert!(store.status().full);
    compact(&store).await;
    assert_eq!(records(&store).len(), 20);
    assert_eq!(contents(&store).await.len(), 20);
}

#[tokio::test]
async fn an_answer_outlives_many_compactions_and_goes_when_it_may_not_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let clock = TestClock::new();
    let options = StoreOptions {
        segment_bytes: 64 << 10,
        ..clock.options()
    };
    let mut store = reopen(folder.path(), &options);
    store.commit(request("x", put("churn", "1"))).await.unwrap();
    let answers = |store: &SledStore| {
        let all = records(store);
        all.iter()
            .filter(|s| matches!(s, Stored::Answer(..)))
            .count()
    };
    for _ in 0..3 {
        let before = numbers(&store)[0];
        churn(&store).await;
        compact(&store).await;
        assert_ne!(numbers(&store)[0], before, "it was not copied");
        assert_eq!(answers(&store), 1);
        drop(store);
        store = reopen(folder.path(), &options);
        let again = store.commit(request("x", put("churn", "1"))).await.unwrap();
        assert_eq!(again.revision, r(1));
    }
    clock.advance(options.request_window + Duration::from_secs(1));
    churn(&store).await;
    compact(&store).await;
    assert_eq!(answers(&store), 0);
}

#[tokio::test]
async fn forgotten_deletions_go_where_nothing_older_is_garbage() {
    for older_garbage in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions {
            max_tombstones: 0,
            ..options()
        };
        let store = reopen(folder.path(), &options);
        write(&store, put("x", "1")).await;
        write(&store, put("keep", &"k".repeat(30_000))).await;
        if !older_garbage {
            // What was written so far goes, but for "keep".
            write(&store, delete("x")).await;
            write(&store, put("keep", &"l".repeat(30_000))).await;
            compact(&store).await;
            write(&store, put("x", "2")).await;
        }
        begin_segment(&store);
        write(&store, delete("x")).await;
        churn(&store).await;
        compact(&store).await;
        let deletions = records(&store)
            .iter()
            .filter(|s| matches!(s, Stored::Entry(entry) if entry.is_deletion()))
            .count();
        assert_eq!(deletions, usize::from(older_garbage));
    }
}

/// sled's locks and the disk are the writer's in between.
#[tokio::test]
async fn a_copy_looks_at_the_index_again_after_so_many_records() {
    let folder = tempfile::tempdir().unwrap();
    let store = reopen(folder.path(), &options());
    let records = COPY_BATCH_RECORDS * 2 + 2;
    store
        .commit(batch((0..records).map(|i| put(&format!("o{i}"), "1"))))
        .await
        .unwrap();
    let before = contents(&store).await;
    begin_segment(&store);
    let sealed = log(&store).segments()[0].clone();
    sealed.garbage.store(sealed.bytes(), Ordering::Relaxed);
    drop(sealed);
    let asked = Mutex::new(Vec::new());
    let reclaimed = log(&store).reclaim(&|entries| {
        asked.lock().push(entries.len());
        vec![true; entries.len()]
    });
    reclaimed.unwrap();
    let batches = [COPY_BATCH_RECORDS, COPY_BATCH_RECORDS, 2];
    assert_eq!(*asked.lock(), batches);
    assert_ne!(numbers(&store)[0], 1);
    assert_eq!(contents(&store).await, before);
}
