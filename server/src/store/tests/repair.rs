//! What a repair reads, what it says is lost, and that it is done whole or not at all.

use std::path::PathBuf;

use super::*;

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes: 2 << 20,
        ballast_bytes: 0,
        min_free_bytes: 0,
        ..TestClock::new().options()
    }
}

/// A store of three segments or more, all but the last of them sealed. How many records each has.
async fn make(folder: &Path) -> Vec<usize> {
    make_of(folder, "x").await
}

async fn make_of(folder: &Path, letter: &str) -> Vec<usize> {
    let store = reopen(folder, &options());
    let value = letter.repeat(30 << 10);
    for i in 0..150 {
        write(&store, put(&format!("o{}", i % 50), &format!("{i}{value}"))).await;
    }
    store.close().await;
    drop(store);
    let count = |number| keys(folder, number).len();
    let counts: Vec<_> = (1..)
        .take_while(|number| folder.join(format!("seg-{number}")).exists())
        .map(count)
        .collect();
    assert!(counts.len() > 2, "{counts:?}");
    counts
}

/// The records of a segment.
fn keys(folder: &Path, number: u64) -> Vec<Vec<u8>> {
    let keys = segment(folder, number).iter().keys();
    let keys = keys.map(|key| key.unwrap().to_vec());
    keys.filter(|key| !key.starts_with(&[0xff; 8])).collect()
}

fn revision_of(key: &[u8]) -> u64 {
    u64::from_be_bytes(key[..8].try_into().unwrap())
}

/// Flips a bit of a record's last byte.
fn spoil(folder: &Path, number: u64, key: &[u8]) {
    let tree = segment(folder, number);
    let mut value = tree.get(key).unwrap().unwrap().to_vec();
    *value.last_mut().unwrap() ^= 1;
    tree.insert(key, value).unwrap();
    tree.flush().unwrap();
}

const IN_DOUBT: &str = "objects whose newest version is lost are as an older one left them, or \
                        missing; deleted ones may be back";

#[tokio::test]
async fn a_repair_of_what_is_whole_reads_all_of_it_and_names_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let records: usize = make(folder.path()).await.iter().sum();
    let store = reopen(folder.path(), &options());
    let (before, revision) = (contents(&store).await, store.progress().revision);
    store.close().await;
    drop(store);
    let report = SledStore::repair(folder.path(), &options()).unwrap();
    let kept = folder.path().join("damaged-1700000000");
    let expected = RepairReport {
        objects: before.len() as u64,
        revision,
        records_read: records as u64,
        losses: Vec::new(),
        kept: kept.clone(),
    };
    assert_eq!(report, expected);
    assert!(kept.join("MANIFEST").exists() && kept.join("seg-1").exists());
    assert!(!folder.path().join("repairing").exists());
    assert!(!folder.path().join("repairing-copy").exists());
    let store = reopen(folder.path(), &options());
    assert_eq!(contents(&store).await, before);
}

#[tokio::test]
async fn a_repair_counts_what_it_reads_and_names_what_it_cannot() {
    for (number, lost) in [(1, 1), (2, 3), (1, 4), (2, 7)] {
        let folder = tempfile::tempdir().unwrap();
        let counts = make(folder.path()).await;
        let at = usize::try_from(number).unwrap() - 1;
        let mut events = keys(folder.path(), number);
        events.dedup_by_key(|key| revision_of(key));
        let parts = counts[at] / events.len();
        assert!(parts > 1, "each is in several records");
        // Any of its records makes an event unreadable.
        for (part, key) in events[..lost].iter().enumerate() {
            let mut key = key.clone();
            *key.last_mut().unwrap() = u8::try_from(part % parts).unwrap();
            spoil(folder.path(), number, &key);
        }
        let report = SledStore::repair(folder.path(), &options()).unwrap();
        let records: usize = counts.iter().sum();
        let read = records - lost * parts;
        assert_eq!(report.records_read, read as u64, "{lost}");
        let (named, rest) = report.losses.split_at(lost.min(3));
        for (loss, key) in named.iter().zip(&events) {
            let which = format!("event 0 of revision {}", revision_of(key));
            assert!(loss.contains(&which), "{loss}");
        }
        let mut expected = Vec::new();
        if lost > 3 {
            expected.push(format!("segment {number}: {lost} events are unreadable"));
        }
        let written = counts[at];
        expected.push(format!(
            "segment {number}: records are missing, of {written} written"
        ));
        expected.push(IN_DOUBT.to_owned());
        assert_eq!(rest, expected, "{lost}");
    }
}

#[tokio::test]
async fn a_repair_names_a_segment_that_is_gone_and_reads_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let counts = make(folder.path()).await;
    fs::remove_dir_all(folder.path().join("seg-2")).unwrap();
    let report = SledStore::repair(folder.path(), &options()).unwrap();
    let loss = &report.losses[0];
    let start = "segment 2: 0 records were readable, then: ";
    assert!(loss.starts_with(start), "{loss}");
    let read = counts.iter().sum::<usize>() - counts[1];
    assert_eq!(report.records_read, read as u64);
}

#[tokio::test]
async fn a_repair_says_when_the_newest_write_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let counts = make(folder.path()).await;
    let written = counts.len() as u64;
    let last = keys(folder.path(), written).pop().unwrap();
    assert_eq!(revision_of(&last), 150);
    spoil(folder.path(), written, &last);
    let report = SledStore::repair(folder.path(), &options()).unwrap();
    let expected = [
        "the newest record found is of revision 149; 150 was acknowledged",
        IN_DOUBT,
    ];
    assert_eq!(report.losses[1..], expected);
    // What was acknowledged is not given to another write.
    assert_eq!(report.revision.get(), 150);
    let store = reopen(folder.path(), &options());
    let done = write(&store, put("next", "1")).await;
    assert_eq!(done.revision.get(), 151);
    let found = contents(&store).await;
    let older = found.iter().find(|(name, _)| name == "o49").unwrap();
    assert!(older.1.starts_with(b"99x"), "the version before");
}

#[tokio::test]
async fn a_record_of_another_store_in_the_place_of_ours_is_damage() {
    let (ours, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_of(ours.path(), "x").await;
    make_of(other.path(), "y").await;
    let key = &keys(ours.path(), 1)[1];
    let theirs = segment(other.path(), 1).get(key).unwrap().unwrap();
    {
        let tree = segment(ours.path(), 1);
        let written = tree.insert(key, &theirs).unwrap().unwrap();
        // It is whole, and as long: only what it holds is another's.
        assert_eq!(written.len(), theirs.len());
        assert_ne!(written, theirs);
        tree.flush().unwrap();
    }
    let error = SledStore::open(ours.path(), options()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
}

fn parts(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name == "MANIFEST" || name == "HEAD" || name.starts_with("seg-"))
        .collect();
    names.sort();
    names.sort_by_key(|name| name != "MANIFEST");
    names
}

#[tokio::test]
async fn a_repair_that_was_interrupted_anywhere_is_finished_by_the_next_and_opened_by_none() {
    let original = tempfile::tempdir().unwrap();
    make(original.path()).await;
    spoil(original.path(), 1, &keys(original.path(), 1)[0]);
    let done = tempfile::tempdir().unwrap();
    copy(original.path(), done.path());
    let first = SledStore::repair(done.path(), &options()).unwrap();
    assert!(first.losses.len() > 1, "{first:?}");
    let figures = format!("{} 150 {}", first.objects, first.records_read);
    let ready = [&[figures][..], &first.losses].concat().join("\n");
    let kept = first.kept.strip_prefix(done.path()).unwrap().to_owned();
    let store = reopen(done.path(), &options());
    let all = contents(&store).await;
    store.close().await;
    drop(store);

    // What is moved, in order: the manifest goes first and comes last.
    let (old, new) = (parts(original.path()), parts(done.path()));
    let out = old
        .iter()
        .map(|name| (PathBuf::from(name), kept.join(name)));
    let within = Path::new("repairing");
    let coming = new.iter().filter(|name| *name != "HEAD").rev();
    let into = std::iter::once("HEAD").chain(coming.map(String::as_str));
    let into = into.map(|name| (within.join(name), PathBuf::from(name)));
    let moves: Vec<_> = out.chain(into).collect();
    for moved in 0..=moves.len() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        copy(original.path(), at);
        fs::create_dir(at.join(within)).unwrap();
        for name in &new {
            let (from, to) = (done.path().join(name), at.join(within).join(name));
            if from.is_dir() {
                copy(&from, &to);
            } else {
                fs::copy(from, to).unwrap();
            }
        }
        fs::write(at.join(within).join("READY"), &ready).unwrap();
        fs::create_dir(at.join(&kept)).unwrap();
        for (from, to) in &moves[..moved] {
            fs::rename(at.join(from), at.join(to)).unwrap();
        }
        // A write that it took would be lost with what is moved aside.
        let error = SledStore::open(at, options()).unwrap_err();
        assert!(
            matches!(error, StoreError::Unusable(_)),
            "after {moved}: {error}"
        );
        assert!(error.to_string().contains("`listwatchd repair`"), "{error}");
        let report = SledStore::repair(at, &options()).unwrap();
        // What the first one found is still told.
        let finished = "an earlier repair was interrupted and is finished now".to_owned();
        let expected = RepairReport {
            losses: [&first.losses[..], &[finished]].concat(),
            kept: at.join(&kept),
            ..first.clone()
        };
        assert_eq!(report, expected, "after {moved}");
        assert_eq!(parts(&at.join(&kept)), old, "after {moved}");
        assert!(!at.join(within).exists());
        let store = reopen(at, &options());
        assert_eq!(contents(&store).await, all, "after {moved}");
        store.close().await;
    }
}
