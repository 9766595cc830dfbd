//! Damaged files: a clear error, or everything there. Never a panic, never fewer objects
//! in silence.

use std::{fs, path::PathBuf};

use super::*;

/// A store of a few sealed segments with history, deletions and a large object.
async fn make(folder: &Path, options: &StoreOptions) -> Vec<(String, Vec<u8>)> {
    let store = SledStore::open(folder, options.clone()).unwrap();
    let large = "x".repeat(100 << 10);
    for i in 0..60 {
        let mut operations: Vec<_> = (0..8)
            .map(|j| put(&format!("o{}", (i * 8 + j) % 150), &format!("{i}-{j}")))
            .collect();
        operations.push(put(&format!("large{}", i % 5), &large));
        store.commit(batch(operations)).await.unwrap();
    }
    write(&store, delete("o7")).await;
    write(&store, put("last", "1")).await;
    let all = contents(&store).await;
    store.close().await;
    all
}

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes: 2 << 20,
        ..TestClock::new().options()
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            all.push(path);
        }
    }
    all.sort();
    all
}

/// Opens a damaged copy. True: everything was there.
async fn open_damaged(
    folder: &Path,
    options: &StoreOptions,
    expected: &[(String, Vec<u8>)],
    what: &str,
) -> bool {
    let (folder, options) = (folder.to_owned(), options.clone());
    let opening = tokio::task::spawn_blocking(move || SledStore::open(folder, options));
    let opened = tokio::time::timeout(Duration::from_secs(60), opening)
        .await
        .unwrap_or_else(|_| panic!("{what}: the opening hangs"))
        .unwrap_or_else(|_| panic!("{what}: a panic"));
    match opened {
        Ok(store) => {
            assert!(contents(&store).await == expected, "{what}: objects differ");
            store.close().await;
            true
        }
        Err(StoreError::Damaged(text)) => {
            assert!(text.contains("repair") || text.contains("import"), "{text}");
            false
        }
        Err(error) => panic!("{what}: {error}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flipped_byte_is_an_error_or_harmless() {
    let original = tempfile::tempdir().unwrap();
    let options = options();
    let all = make(original.path(), &options).await;
    let seed = std::env::var("LISTWATCH_TEST_SEED").ok();
    let mut random = 0x1234_5678_9abc_def1_u64 ^ seed.map_or(0, |seed| seed.parse().unwrap());
    let mut next = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    let (mut errors, mut harmless) = (0, 0);
    for path in files(original.path()) {
        let name = path.strip_prefix(original.path()).unwrap().to_owned();
        let length = fs::metadata(&path).unwrap().len();
        let tries = if name.ends_with("db") { 16 } else { 4 };
        for i in 0..tries.min(length) {
            // The beginning, the end of what is written, and anywhere.
            let at = match i {
                0 => 0,
                1 => length - 1,
                _ => next() % length,
            };
            let copied = tempfile::tempdir().unwrap();
            copy(original.path(), copied.path());
            let target = copied.path().join(&name);
            let mut bytes = fs::read(&target).unwrap();
            bytes[usize::try_from(at).unwrap()] ^= 1 << (next() % 8);
            fs::write(&target, bytes).unwrap();
            let what = format!("{} at {at}", name.display());
            match open_damaged(copied.path(), &options, &all, &what).await {
                true => harmless += 1,
                false => errors += 1,
            }
        }
    }
    assert!(errors > 10 && harmless > 10, "{errors}, {harmless}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_or_missing_file_is_an_error_or_harmless() {
    let original = tempfile::tempdir().unwrap();
    let options = options();
    let all = make(original.path(), &options).await;
    for path in files(original.path()) {
        let name = path.strip_prefix(original.path()).unwrap().to_owned();
        let length = fs::metadata(&path).unwrap().len();
        for keep in [
            None,
            Some(0),
            Some(length / 3),
            Some(length - length.min(1)),
        ] {
            let copied = tempfile::tempdir().unwrap();
            copy(original.path(), copied.path());
            let target = copied.path().join(&name);
            match keep {
                None => fs::remove_file(&target).unwrap(),
                Some(keep) => {
                    let file = fs::OpenOptions::new().write(true).open(&target);
                    file.unwrap().set_len(keep).unwrap();
                }
            }
            let what = format!("{} cut to {keep:?} of {length}", name.display());
            open_damaged(copied.path(), &options, &all, &what).await;
        }
    }
    // Whole segments.
    for entry in fs::read_dir(original.path()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            let copied = tempfile::tempdir().unwrap();
            copy(original.path(), copied.path());
            fs::remove_dir_all(copied.path().join(entry.file_name())).unwrap();
            let what = format!("{:?} removed", entry.file_name());
            let fine = open_damaged(copied.path(), &options, &all, &what).await;
            assert!(!fine, "{what}");
        }
    }
}

#[tokio::test]
async fn a_leftover_of_an_interrupted_opening_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let options = options();
    let all = make(folder.path(), &options).await;
    fs::write(folder.path().join("seg-1/snap.0.generating"), b"half").unwrap();
    fs::create_dir(folder.path().join("seg-99")).unwrap();
    fs::write(folder.path().join("MANIFEST.new"), b"half").unwrap();
    let store = reopen(folder.path(), &options);
    assert_eq!(contents(&store).await, all);
    assert!(!folder.path().join("seg-99").exists());
}

#[tokio::test]
async fn a_repair_salvages_what_is_readable_and_keeps_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let options = options();
    let all = make(folder.path(), &options).await;
    let id = {
        let store = reopen(folder.path(), &options);
        store.id()
    };
    fs::remove_dir_all(folder.path().join("seg-1")).unwrap();
    assert!(matches!(
        SledStore::open(folder.path(), options.clone()),
        Err(StoreError::Damaged(_))
    ));
    let report = SledStore::repair(
        folder.path(),
        &StoreOptions {
            seed: Some(99),
            ..options.clone()
        },
    )
    .unwrap();
    assert!(!report.losses.is_empty());
    assert!(report.kept.join("MANIFEST").exists());
    let store = reopen(folder.path(), &options);
    assert_ne!(store.id(), id);
    let found = contents(&store).await;
    assert_eq!(found.len() as u64, report.objects);
    assert!(found.iter().any(|(name, _)| name == "last"));
    for object in &found {
        assert!(all.iter().any(|known| known.0 == object.0), "{object:?}");
    }
    let before = store.progress().revision;
    let done = write(&store, put("new", "1")).await;
    assert_eq!(done.revision, before.next());
}

#[tokio::test]
async fn a_repair_of_a_store_without_manifest_finds_everything() {
    let folder = tempfile::tempdir().unwrap();
    let options = options();
    let all = make(folder.path(), &options).await;
    fs::remove_file(folder.path().join("MANIFEST")).unwrap();
    let report = SledStore::repair(folder.path(), &options).unwrap();
    assert_eq!(report.objects, all.len() as u64);
    let store = reopen(folder.path(), &options);
    assert_eq!(contents(&store).await, all);
}

#[test]
fn a_folder_with_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("thesis.txt"), b"mine").unwrap();
    let error = SledStore::open(folder.path(), options()).unwrap_err();
    assert!(matches!(error, StoreError::Unusable(_)), "{error}");
    assert!(error.to_string().contains("thesis.txt"), "{error}");
}
