//! Real server processes: killed, stopped, started twice, given damaged folders.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::FileTypeExt as _,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use listwatch::v1;
use listwatch_client::{Client, Event, WatchOptions, watcher};
use tokio::sync::Mutex;

use crate::harness::{
    PATIENCE,
    daemon::{Daemon, binary, free_address},
    everything, resource,
};

/// What a writer was told is stored: name → (revision, value).
type Acknowledged = Arc<Mutex<BTreeMap<String, (i64, String)>>>;

/// Writes as fast as it can, through every outage, until told to stop.
async fn write_on(
    address: String,
    writer: usize,
    acknowledged: Acknowledged,
    stop: Arc<AtomicBool>,
) {
    let client = Client::builder().endpoint(address).connect_lazy().unwrap();
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        let (name, value) = (format!("w{writer}-{}", n % 50), n.to_string());
        let request = v1::UpdateRequest {
            resource: Some(resource("load", &name, &value, &[])),
            allow_missing: true,
            ..v1::UpdateRequest::default()
        };
        match client.update(request).await {
            Ok(response) => {
                let revision = response.resource.unwrap().revision;
                acknowledged.lock().await.insert(name, (revision, value));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Follows the collection and checks that nothing is missing, doubled or out of order: the
/// load is the only thing written, one object a revision.
async fn follow(
    address: String,
    until: tokio::sync::watch::Receiver<Option<i64>>,
) -> (usize, usize) {
    let client = Client::builder().endpoint(address).connect_lazy().unwrap();
    let options = WatchOptions::new(everything("load")).bookmark_interval(Duration::from_secs(1));
    let mut events = Box::pin(watcher(client, options));
    let (mut initial_states, mut changes, mut last) = (0, 0, None::<i64>);
    loop {
        let event = tokio::time::timeout(PATIENCE, events.next()).await;
        match event
            .expect("the watch is silent")
            .expect("the watch ended")
            .unwrap()
        {
            Event::InitDone(point) => {
                initial_states += 1;
                last = Some(point.revision);
            }
            Event::Apply { object, .. } => {
                changes += 1;
                let before = last
                    .replace(object.revision)
                    .expect("a change before the state");
                assert_eq!(object.revision, before + 1, "a gap or a duplicate");
            }
            Event::Delete { .. } | Event::NetBegin | Event::ManifestBegin => panic!("not exact"),
            _ => {}
        }
        if let (Some(end), Some(last)) = (*until.borrow(), last)
            && last >= end
        {
            return (initial_states, changes);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_under_load_loses_no_acknowledged_write_and_watches_go_on_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let address = free_address();
    let mut daemon = Daemon::start(&data, &address, &[]).await;

    let (done, until) = tokio::sync::watch::channel(None);
    let following = tokio::spawn(follow(address.clone(), until));
    let acknowledged = Acknowledged::default();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..8)
        .map(|n| {
            tokio::spawn(write_on(
                address.clone(),
                n,
                acknowledged.clone(),
                stop.clone(),
            ))
        })
        .collect();

    for round in 0..4 {
        let so_far = acknowledged
            .lock()
            .await
            .values()
            .map(|(r, _)| *r)
            .max()
            .unwrap_or(0);
        // Killed in the middle of the load: some writes after the last restart.
        while acknowledged
            .lock()
            .await
            .values()
            .map(|(r, _)| *r)
            .max()
            .unwrap_or(0)
            < so_far + 300
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        daemon.kill_9();
        let before = acknowledged.lock().await.clone();
        daemon = Daemon::start(&data, &address, &[]).await;
        let client = Client::connect(address.clone()).await.unwrap();
        let request = v1::ListRequest {
            selector: Some(everything("load")),
            page_size: 10_000,
            ..v1::ListRequest::default()
        };
        let stored = client.list(request).await.unwrap().resources;
        let stored: BTreeMap<_, _> = stored
            .into_iter()
            .map(|r| (r.key.clone().unwrap().name, r))
            .collect();
        for (name, (revision, value)) in before {
            let found = stored
                .get(&name)
                .unwrap_or_else(|| panic!("round {round}: {name} is lost"));
            assert!(
                found.revision >= revision,
                "round {round}: {name} went back"
            );
            assert!(found.revision > revision || found.value == value.as_bytes());
        }
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let client = Client::connect(address.clone()).await.unwrap();
    let end = client.status().await.unwrap().revision;
    done.send_replace(Some(end));
    // Wakes the watch up to see that this was the end.
    let (initial_states, changes) = following.await.unwrap();
    assert_eq!(initial_states, 1, "the watch listed again");
    assert!(changes >= 1000);
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_tells_the_watches_and_ends_well() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut daemon = Daemon::start(&data, &free_address(), &["--shutdown-grace", "10s"]).await;
    let client = Client::connect(daemon.address.clone()).await.unwrap();
    let request = v1::WatchRequest {
        selector: Some(everything("pods")),
        ..v1::WatchRequest::default()
    };
    let mut watch = client.watch(request).await.unwrap();
    watch.message().await.unwrap();
    let status = daemon.terminate().await;
    assert!(status.success(), "{status}: {}", daemon.log());
    let mut last = None;
    while let Ok(Some(response)) = watch.message().await {
        last = response.bookmark;
    }
    assert_eq!(last.unwrap().kind(), v1::BookmarkKind::GoingAway);
}

#[tokio::test]
async fn a_second_server_on_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let _first = Daemon::start(&data, &free_address(), &[]).await;
    let mut second = Daemon::spawn(&data, &free_address(), &[]);
    assert_eq!(second.ended().await.code(), Some(1));
    assert!(second.log().contains("another process"), "{}", second.log());
}

async fn put(address: &str, name: &str, value: &str) -> v1::Resource {
    let client = Client::connect(address.to_owned()).await.unwrap();
    let request = v1::UpdateRequest {
        resource: Some(resource("pods", name, value, &[("app", "web")])),
        allow_missing: true,
        ..v1::UpdateRequest::default()
    };
    client.update(request).await.unwrap().resource.unwrap()
}

async fn list(address: &str) -> v1::ListResponse {
    let client = Client::connect(address.to_owned()).await.unwrap();
    let selector = Some(everything("pods"));
    client
        .list(v1::ListRequest {
            selector,
            ..v1::ListRequest::default()
        })
        .await
        .unwrap()
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push(path)
        }
    }
    found
}

#[tokio::test]
async fn a_damaged_folder_is_a_clear_error_with_the_way_out_and_repair_is_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let address = free_address();
    let mut daemon = Daemon::start(&data, &address, &[]).await;
    for n in 0..200 {
        put(&address, &format!("p{n}"), &"x".repeat(500)).await;
    }
    assert!(daemon.terminate().await.success());

    let log = files(&data).into_iter().filter(|f| f.ends_with("db"));
    let log = log.max_by_key(|f| fs::metadata(f).unwrap().len()).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    let needle = [b'x'; 400];
    let at = bytes
        .windows(400)
        .rposition(|w| w == needle)
        .expect("values are in the file");
    bytes[at + 200] ^= 0x55;
    fs::write(&log, bytes).unwrap();

    let mut damaged = Daemon::spawn(&data, &address, &[]);
    assert_eq!(damaged.ended().await.code(), Some(1));
    let said = damaged.log();
    assert!(
        said.contains("damaged") && said.contains("listwatchd repair"),
        "{said}"
    );
    assert!(!said.contains("panicked"), "{said}");

    let repair = Command::new(binary("listwatchd"))
        .arg("repair")
        .arg("--data-dir")
        .arg(&data)
        .output()
        .unwrap();
    assert!(
        repair.status.success(),
        "{}",
        String::from_utf8_lossy(&repair.stderr)
    );
    let _repaired = Daemon::start(&data, &address, &[]).await;
    let left = list(&address).await.resources.len();
    assert!((1..200).contains(&left), "{left} of 200 objects are left");
}

#[tokio::test]
async fn a_restored_backup_has_the_objects_and_another_store_id() {
    let folder = tempfile::tempdir().unwrap();
    let (data, restored) = (folder.path().join("data"), folder.path().join("restored"));
    let backup = folder.path().join("backup");
    let address = free_address();
    let mut daemon = Daemon::start(&data, &address, &[]).await;
    for n in 0..50 {
        put(&address, &format!("p{n}"), &n.to_string()).await;
    }
    let before = list(&address).await;
    let store_id = Client::connect(address.clone())
        .await
        .unwrap()
        .status()
        .await
        .unwrap()
        .store_id;
    assert!(daemon.terminate().await.success());

    let run = |arguments: &[&std::ffi::OsStr]| {
        let output = Command::new(binary("listwatchd"))
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    run(&[
        "export".as_ref(),
        backup.as_ref(),
        "--data-dir".as_ref(),
        data.as_ref(),
    ]);
    // What is no file is written by nobody, and not replaced.
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let refused = Command::new(binary("listwatchd"))
        .args(["export".as_ref(), pipe.as_os_str(), "--data-dir".as_ref()])
        .arg(&data)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("no file"),
        "{said}"
    );
    assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    run(&[
        "import".as_ref(),
        backup.as_ref(),
        "--data-dir".as_ref(),
        restored.as_ref(),
    ]);

    let _daemon = Daemon::start(&restored, &address, &[]).await;
    let after = list(&address).await;
    assert_eq!(after.resources, before.resources);
    // Above whatever was given out since the backup.
    assert!(after.revision > before.revision + 1_000_000);
    let client = Client::connect(address.clone()).await.unwrap();
    assert_ne!(client.status().await.unwrap().store_id, store_id);
    let request = v1::WatchRequest {
        selector: Some(everything("pods")),
        start: Some(v1::watch_request::Start::ResumeToken(before.resume_token)),
        ..v1::WatchRequest::default()
    };
    let Err(error) = client.watch(request).await else {
        panic!("a token of the old store is taken");
    };
    assert!(error.to_string().contains("another store"), "{error}");
}

#[tokio::test]
async fn a_write_is_on_disk_when_it_is_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let address = free_address();
    let daemon = Daemon::start(&data, &address, &[]).await;
    let trace = folder.path().join("trace");
    let mut strace = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fdatasync,fsync", "-o"])
        .arg(&trace)
        .args(["-p", &daemon.pid().to_string()])
        .spawn()
        .expect("strace is needed: scripts/test installs it");
    // It has attached once the tracer is known to the kernel.
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
        let tracer = status
            .lines()
            .find(|line| line.starts_with("TracerPid:"))
            .unwrap();
        if !tracer.ends_with("\t0") {
            break;
        }
        assert!(strace.try_wait().unwrap().is_none(), "strace cannot attach");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let syncs = || {
        let text = fs::read_to_string(&trace).unwrap_or_default();
        text.lines()
            .filter(|line| line.contains("sync(") && line.contains("= 0"))
            .count()
    };
    let before = syncs();
    // One at a time: each write is a group commit of its own.
    for n in 0..20 {
        put(&address, &format!("p{n}"), "x").await;
    }
    // The trace is written by another process, a moment later.
    let started = tokio::time::Instant::now();
    while syncs() < before + 20 {
        assert!(
            started.elapsed() < PATIENCE,
            "{} syncs for 20 writes",
            syncs() - before
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    strace.kill().unwrap();
    strace.wait().unwrap();
}
