//! A group of writes that a crash cut short: as if it had never been asked for.

use std::fs;

use super::*;

const SUMMARY: [u8; 8] = [0xff; 8];

fn options() -> StoreOptions {
    StoreOptions {
        min_free_bytes: 0,
        ballast_bytes: 0,
        ..StoreOptions::default()
    }
}

fn summary_key(tree: &sled::Db) -> Vec<u8> {
    let (key, _) = tree.last().unwrap().unwrap();
    assert!(key.starts_with(&SUMMARY));
    key.to_vec()
}

/// A store of three revisions, and so many records of a fourth with two events.
async fn cut_short(folder: &Path, kept: usize) -> Vec<(String, Vec<u8>)> {
    let store = reopen(folder, &options());
    for name in ["a", "b", "c"] {
        write(&store, put(name, "old")).await;
    }
    let before = contents(&store).await;
    store.close().await;
    drop(store);
    let (key, summary) = {
        let tree = segment(folder, 1);
        let key = summary_key(&tree);
        let summary = tree.get(&key).unwrap().unwrap().to_vec();
        (key, summary)
    };
    let head = fs::read(folder.join("HEAD")).unwrap();
    let store = reopen(folder, &options());
    let both = batch([put("a", "new"), put("d", "new")]);
    assert_eq!(store.commit(both).await.unwrap().revision.get(), 4);
    store.close().await;
    drop(store);
    let tree = segment(folder, 1);
    let newest: Vec<_> = tree
        .iter()
        .keys()
        .map(Result::unwrap)
        .filter(|key| key.starts_with(&4u64.to_be_bytes()))
        .collect();
    assert_eq!(newest.len(), 2);
    for key in &newest[kept..] {
        tree.remove(key).unwrap();
    }
    tree.insert(key, summary).unwrap();
    tree.flush().unwrap();
    drop(tree);
    fs::write(folder.join("HEAD"), head).unwrap();
    before
}

#[tokio::test]
async fn a_group_that_was_cut_short_is_as_if_it_had_never_been_asked_for() {
    for kept in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let before = cut_short(folder.path(), kept).await;
        let store = reopen(folder.path(), &options());
        assert_eq!(store.progress().revision.get(), 3);
        assert_eq!(contents(&store).await, before, "{kept}");
        // Its revision is that of the next write, of which nothing else is left.
        let done = write(&store, put("e", "after")).await;
        assert_eq!(done.revision.get(), 4);
        let after = contents(&store).await;
        store.close().await;
        drop(store);
        let store = reopen(folder.path(), &options());
        assert_eq!(contents(&store).await, after, "{kept}");
        assert_eq!(after.len(), 4);
    }
}

#[tokio::test]
async fn a_repair_takes_no_group_that_was_cut_short() {
    let folder = tempfile::tempdir().unwrap();
    let before = cut_short(folder.path(), 1).await;
    let report = SledStore::repair(folder.path(), &options()).unwrap();
    assert_eq!(report.losses, Vec::<String>::new());
    assert_eq!(report.revision.get(), 3);
    let store = reopen(folder.path(), &options());
    assert_eq!(contents(&store).await, before);
}

#[tokio::test]
async fn an_acknowledged_group_whose_summary_is_lost_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    cut_short(folder.path(), 2).await;
    // HEAD, as it is written before the acknowledgement.
    let store = reopen(folder.path(), &options());
    write(&store, put("e", "after")).await;
    store.close().await;
    drop(store);
    let tree = segment(folder.path(), 1);
    let key = summary_key(&tree);
    tree.remove(key).unwrap();
    tree.flush().unwrap();
    drop(tree);
    let error = SledStore::open(folder.path(), options()).unwrap_err();
    let StoreError::Damaged(why) = error else {
        panic!("{error}");
    };
    assert!(why.contains("repair"), "{why}");
}
