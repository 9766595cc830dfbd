//! kill -9: every acknowledged write is there, the revision never goes back.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
};

use super::*;

const FOLDER: &str = "LISTWATCH_TEST_FOLDER";
const ABORT_AT: &str = "LISTWATCH_TEST_ABORT_AT";
/// A child that never comes to the step where it is to abort ends all the same.
const MOST_ACKNOWLEDGED: usize = 200_000;

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes: 256 << 10,
        max_tombstones: 50,
        min_free_bytes: 0,
        ballast_bytes: 0,
        ..StoreOptions::default()
    }
}

/// Not a test of its own: what the killed process does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "run by the tests below as a child process"]
async fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let store = Arc::new(reopen(Path::new(&folder), &options()));
    let start = store.progress().revision.get();
    let writers = (0..8u64).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for i in start.. {
                let name = format!("w{writer}-{}", i % 40);
                let value = format!("{i} {}", "x".repeat(300));
                let operation = if i % 7 == 6 {
                    Operation::Delete {
                        key: key(&format!("w{writer}-{}", (i - 1) % 40)),
                        if_revision: None,
                        if_uid: None,
                        allow_missing: true,
                        cause: DeleteCause::Request,
                    }
                } else {
                    put(&name, &value)
                };
                let deleted = matches!(operation, Operation::Delete { .. });
                let name = operation.key().name().to_owned();
                let done = store.commit(batch([operation])).await.unwrap();
                let shown = if deleted { "-" } else { &value };
                println!("\nack\t{}\t{name}\t{shown}", done.revision);
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    loop {
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(writers.iter().all(|writer| !writer.is_finished()));
        let at = Revision::new(store.progress().revision.get().saturating_sub(20));
        store.compact(at, true).await.unwrap();
    }
}

fn start(folder: &Path, abort_at: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "store::tests::kill::child",
            "--ignored",
            "--nocapture",
        ])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(step) = abort_at {
        command.env(ABORT_AT, step);
    }
    command.spawn().unwrap()
}

/// The newest acknowledged (revision, value) of each name; a value of "-": deleted.
type Acknowledged = BTreeMap<String, (u64, String)>;

use std::collections::BTreeMap;

/// Kills the child after so many acknowledgements, or lets it abort by itself.
fn run(folder: &Path, kill_after: Option<usize>, abort_at: Option<&str>) -> Acknowledged {
    let mut child = start(folder, abort_at);
    let mut acknowledged = Acknowledged::new();
    let mut count = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let Ok(line) = line else { break };
        let mut fields = line.split('\t');
        let (Some("ack"), Some(revision), Some(name), Some(value)) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let Ok(revision) = revision.parse::<u64>() else {
            continue;
        };
        let newest = acknowledged.entry(name.to_owned()).or_default();
        if newest.0 <= revision {
            *newest = (revision, value.to_owned());
        }
        count += 1;
        if kill_after == Some(count) || count == MOST_ACKNOWLEDGED {
            child.kill().unwrap();
        }
    }
    let ended = child.wait_with_output().unwrap();
    if let Some(step) = abort_at {
        let last_words = String::from_utf8_lossy(&ended.stderr);
        let aborted = last_words.contains(&format!("aborts at {step}\n"));
        assert!(aborted, "not at {step}, but {}: {last_words}", ended.status);
    }
    assert!(count > 0, "the child did nothing");
    acknowledged
}

async fn check(folder: &Path, acknowledged: &Acknowledged, before: Progress) -> Progress {
    let store = reopen(folder, &options());
    let progress = store.progress();
    let newest = acknowledged.values().map(|(revision, _)| *revision).max();
    assert!(progress.revision.get() >= newest.unwrap_or_default());
    assert!(progress.revision >= before.revision);
    assert!(progress.compacted >= before.compacted);
    assert!(progress.forgotten >= before.forgotten);
    for (name, (revision, value)) in acknowledged {
        let object = store.get(&key(name), progress.revision).await.unwrap();
        match object {
            // A later write may be there without its acknowledgement.
            Some(object) if object.revision.get() == *revision => {
                assert_eq!(object.content.value, value.as_bytes(), "{name}");
            }
            Some(object) => assert!(object.revision.get() > *revision, "{name} went back"),
            None if value == "-" => {}
            None => {
                // Deleted later, unacknowledged: the deletion is in the log.
                let log = store.changes_since(None, r(*revision), PAGE).await;
                let deleted = log.is_err()
                    || log
                        .unwrap()
                        .commits
                        .iter()
                        .flat_map(|c| &c.events)
                        .any(|e| e.is_deletion() && e.object.key.name() == name);
                assert!(deleted, "{name} of revision {revision} is lost");
            }
        }
    }
    // The log is whole: every retained revision, in order.
    let mut at = progress.compacted;
    while at < progress.revision {
        let chunk = store.read_log(None, at, PAGE).await.unwrap();
        for commit in &chunk.commits {
            assert_eq!(commit.revision, at.next());
            at = commit.revision;
        }
        assert_eq!(at, chunk.scanned_to);
    }
    store.close().await;
    progress
}

#[tokio::test]
async fn every_acknowledged_write_survives_kill_9_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let mut progress = Progress::default();
    for round in 0..8 {
        let acknowledged = run(folder.path(), Some(200 + round * 397), None);
        progress = check(folder.path(), &acknowledged, progress).await;
    }
    assert!(progress.compacted > r(0));
}

#[tokio::test]
async fn a_kill_while_opening_leaves_a_store_that_opens() {
    let folder = tempfile::tempdir().unwrap();
    let acknowledged = run(folder.path(), Some(3000), None);
    for i in 0..25 {
        let mut child = start(folder.path(), None);
        std::thread::sleep(Duration::from_millis(i * 3));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // What the last ones still wrote is newer than what was acknowledged.
    let store = reopen(folder.path(), &options());
    let newest = acknowledged.values().map(|(revision, _)| *revision).max();
    assert!(store.progress().revision.get() >= newest.unwrap());
}

#[tokio::test]
async fn etcd_17780_18089_19179_a_kill_at_each_step_of_a_compaction_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut progress = Progress::default();
    for _ in 0..2 {
        for step in [
            "bounded",
            "created",
            "copied",
            "synced",
            "named",
            "shortened",
            "sealed",
        ] {
            let acknowledged = run(folder.path(), None, Some(step));
            progress = check(folder.path(), &acknowledged, progress).await;
        }
    }
}
