//! A disk that fails or is slow under a real server. strace makes the system calls fail, so
//! that what is tested is the server that is shipped.

use std::{
    fs,
    path::{Path, PathBuf},
};

use listwatch::v1::{self, BookmarkKind, watch_request::Start};
use listwatch_client::Client;
use tokio::net::TcpStream;

use super::record::raw;
use crate::{
    harness::{
        PATIENCE, Watching,
        daemon::{Daemon, free_address},
        everything, millis, reason, resource,
        strace::Tampering,
        watch,
    },
    metrics::scrape::ask,
};

/// A server, its folder and what was written to it.
struct Disk {
    folder: tempfile::TempDir,
    daemon: Daemon,
    flags: Vec<&'static str>,
}

impl Disk {
    async fn start(flags: &[&'static str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let daemon = Daemon::start(&data, &free_address(), flags).await;
        let flags = flags.to_vec();
        Self {
            folder,
            daemon,
            flags,
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    async fn tamper(&self, calls: &str, inject: &str) -> Tampering {
        Tampering::with(&self.daemon, self.path(), calls, inject).await
    }

    /// The same folder and address again, after a kill.
    async fn restart(&mut self) {
        let other = Daemon::spawn(&self.data(), &free_address(), &["--version"]);
        let daemon = std::mem::replace(&mut self.daemon, other);
        let address = daemon.address.clone();
        daemon.kill_9();
        self.daemon = Daemon::start(&self.data(), &address, &self.flags).await;
    }

    async fn put(&self, name: &str, value: &str) -> Result<i64, tonic::Status> {
        let request = v1::UpdateRequest {
            resource: Some(resource("pods", name, value, &[])),
            allow_missing: true,
            ..v1::UpdateRequest::default()
        };
        let answer = raw(&self.daemon.address).update(request).await?;
        Ok(answer.into_inner().resource.unwrap_or_default().revision)
    }

    /// Name, revision and value of everything.
    async fn list(&self) -> (i64, Vec<(String, i64, String)>) {
        let request = v1::ListRequest {
            selector: Some(everything("pods")),
            ..v1::ListRequest::default()
        };
        let list = raw(&self.daemon.address).list(request).await.unwrap();
        let list = list.into_inner();
        let objects = list.resources.into_iter().map(|r| {
            let value = String::from_utf8_lossy(&r.value).into_owned();
            (r.key.unwrap_or_default().name, r.revision, value)
        });
        (list.revision, objects.collect())
    }

    async fn watch(&self, start: Option<Start>) -> Watching {
        let mut request = watch("pods", start);
        request.bookmark_interval = millis(1000);
        let stream = raw(&self.daemon.address).watch(request).await.unwrap();
        Watching::over(stream.into_inner())
    }

    async fn probe(&self, path: &str) -> (u16, String) {
        let connection = TcpStream::connect(&self.daemon.address).await.unwrap();
        ask(connection, "GET", path).await
    }
}

/// Two bookmarks from now on: what was to be seen has been seen.
async fn settled(watching: &mut Watching) -> Vec<v1::WatchEvent> {
    let mut events = Vec::new();
    for _ in 0..2 {
        let responses = watching.until(BookmarkKind::Progress).await;
        events.extend(responses.into_iter().flat_map(|r| r.events));
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_is_neither_acknowledged_nor_seen_before_a_slow_disk_has_it() {
    let mut disk = Disk::start(&[]).await;
    let before = disk.put("a", "old").await.unwrap();
    let mut watching = disk.watch(None).await;
    watching.until(BookmarkKind::InitialStateEnd).await;
    // As good as for ever.
    let slow = disk
        .tamper("fdatasync", "fdatasync:delay_enter=60000000")
        .await;
    let (daemon, value) = (disk.daemon.address.clone(), "new");
    let writing = tokio::spawn(async move {
        let request = v1::UpdateRequest {
            resource: Some(resource("pods", "a", value, &[])),
            ..v1::UpdateRequest::default()
        };
        raw(&daemon).update(request).await
    });
    slow.shows("fdatasync(", 1).await;
    // Reads go on, and show what is on the disk; watches live, and are told nothing.
    let (revision, objects) = disk.list().await;
    assert_eq!((revision, objects.len()), (before, 1));
    assert_eq!(objects[0].2, "old");
    assert_eq!(settled(&mut watching).await, []);
    assert!(!writing.is_finished(), "acknowledged before it is on disk");
    assert!(!slow.text().contains("= 0"), "the disk was to be slow");
    // Killed while the disk works: the caller does not know, and nobody has seen it.
    disk.daemon.signal("KILL");
    slow.kill();
    disk.restart().await;
    let answer = tokio::time::timeout(PATIENCE, writing).await;
    assert!(answer.expect("the call ends").unwrap().is_err());
    let (revision, objects) = disk.list().await;
    let known = [(before, "old"), (before + 1, "new")];
    assert!(
        known.contains(&(revision, &objects[0].2)),
        "{revision} {objects:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_go_on_when_a_slow_disk_has_them_and_watches_see_each_after_it() {
    let disk = Disk::start(&[]).await;
    let mut watching = disk.watch(None).await;
    watching.until(BookmarkKind::InitialStateEnd).await;
    let slow = disk
        .tamper("fdatasync", "fdatasync:delay_exit=200000")
        .await;
    for n in 1..=5 {
        let revision = disk.put("a", &n.to_string()).await.unwrap();
        let seen = watching.through(revision).await;
        let events: Vec<_> = seen.iter().flat_map(|r| &r.events).collect();
        assert_eq!(events.len(), 1, "{events:?}");
        slow.shows("= 0", n).await;
    }
}

/// After a sync has failed, another that succeeds says nothing (PostgreSQL's "fsyncgate").
#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_sync_nothing_is_acknowledged_until_the_server_is_started_again() {
    let mut disk = Disk::start(&[]).await;
    let before = disk.put("a", "old").await.unwrap();
    let mut watching = disk.watch(None).await;
    watching.until(BookmarkKind::InitialStateEnd).await;
    let failing = disk.tamper("fdatasync", "fdatasync:error=EIO").await;
    let refused = disk.put("a", "uncertain").await.unwrap_err();
    assert_eq!(reason(&refused), "WRITE_UNCERTAIN", "{refused}");
    failing.shows("INJECTED", 1).await;
    failing.end();
    // The disk works again, and is not believed.
    for n in 0..3 {
        // Longer than the store waits before it tries a full disk again.
        let refused = disk.put("b", &n.to_string()).await.unwrap_err();
        assert_eq!(reason(&refused), "NOT_READY", "{refused}");
        let why = refused.message();
        assert!(
            why.contains("started again") && why.contains("Input/output"),
            "{why}"
        );
        assert_eq!(settled(&mut watching).await, []);
    }
    let (revision, objects) = disk.list().await;
    assert_eq!((revision, objects[0].2.as_str()), (before, "old"));
    let (status, text) = disk.probe("/readyz").await;
    assert_eq!(status, 503, "{text}");
    let why = ["[+]storage ok", "[-]disk failed", "started again"];
    assert!(why.iter().all(|part| text.contains(part)), "{text}");
    // A restart helps, so this asks for one.
    assert_eq!(disk.probe("/livez").await.0, 503);
    assert!(
        disk.daemon.log().contains("the disk failed"),
        "{}",
        disk.daemon.log()
    );

    disk.restart().await;
    let (revision, objects) = disk.list().await;
    assert!(revision >= before && objects.len() == 1, "{objects:?}");
    disk.put("b", "new").await.unwrap();
    assert_eq!(disk.probe("/readyz").await.0, 200);
    assert_eq!(disk.probe("/livez").await.0, 200);
}

/// An error of the disk in a write is the same; a disk that is full is not: see `full_disk`.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_failed_write_reads_go_on_and_nothing_is_acknowledged() {
    let mut disk = Disk::start(&[]).await;
    let before = disk.put("a", "old").await.unwrap();
    let failing = disk.tamper("pwrite64", "pwrite64:error=EIO").await;
    let refused = disk.put("a", "uncertain").await.unwrap_err();
    assert_eq!(reason(&refused), "WRITE_UNCERTAIN", "{refused}");
    failing.end();
    let refused = disk.put("b", "x").await.unwrap_err();
    assert_eq!(reason(&refused), "NOT_READY", "{refused}");
    assert!(refused.message().contains("started again"), "{refused}");
    assert_eq!(disk.probe("/livez").await.0, 503);
    let (revision, objects) = disk.list().await;
    assert_eq!((revision, objects[0].2.as_str()), (before, "old"));
    disk.restart().await;
    let (revision, _) = disk.list().await;
    assert!(revision >= before);
    disk.put("b", "new").await.unwrap();
}

/// Lack of room for a moment: writes come back by themselves.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_lack_of_room_writes_come_back_by_themselves() {
    let disk = Disk::start(&[]).await;
    let before = disk.put("a", "old").await.unwrap();
    let failing = disk.tamper("pwrite64", "pwrite64:error=ENOSPC").await;
    let refused = disk.put("a", "uncertain").await.unwrap_err();
    assert_eq!(reason(&refused), "WRITE_UNCERTAIN", "{refused}");
    failing.end();
    let started = tokio::time::Instant::now();
    let revision = loop {
        match disk.put("a", "new").await {
            Ok(revision) => break revision,
            Err(status) => assert_eq!(reason(&status), "NOT_READY", "{status}"),
        }
        assert!(started.elapsed() < PATIENCE, "{}", disk.daemon.log());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert!(revision > before);
    let client = Client::connect(disk.daemon.address.clone()).await.unwrap();
    assert_eq!(client.status().await.unwrap().revision, revision);
}

/// A new segment and a new manifest, each step of which fails, once or from then on.
#[tokio::test(flavor = "multi_thread")]
async fn a_segment_that_cannot_be_begun_loses_nothing_and_the_folder_opens() {
    let value = "x".repeat(20_000);
    for (calls, inject) in [
        ("mkdir", "mkdir:error=ENOSPC"),
        ("mkdir", "mkdir:error=EIO"),
        ("fsync", "fsync:error=EIO"),
        // The folder itself: once its segment has been made, then once its manifest has been
        // renamed.
        ("fsync of the folder", "fsync:error=EIO:when=1"),
        ("fsync of the folder", "fsync:error=EIO:when=2"),
        // From then on always: what was renamed is not replaced by the next write either.
        ("fsync of the folder", "fsync:error=EIO:when=2+"),
        ("rename", "rename:error=EIO"),
    ] {
        let mut disk = Disk::start(&["--segment-size", "256KiB"]).await;
        let data = disk.data();
        let (calls, about) = match calls.split_once(" of ") {
            Some((calls, _)) => (calls, Some(&*data)),
            None => (calls, None),
        };
        let failing = Tampering::of(&disk.daemon, disk.path(), calls, inject, about).await;
        let mut acknowledged = std::collections::BTreeMap::new();
        let mut refusals = 0;
        for n in 0..40 {
            let name = format!("o{}", n % 30);
            match disk.put(&name, &format!("{n} {value}")).await {
                Ok(revision) => drop(acknowledged.insert(name, revision)),
                Err(_) => refusals += 1,
            }
        }
        assert!(
            failing.text().contains("INJECTED"),
            "{inject}: nothing failed"
        );
        failing.end();
        disk.restart().await;
        let (_, objects) = disk.list().await;
        for (name, revision) in acknowledged {
            let found = objects.iter().find(|(n, ..)| *n == name);
            let found = found.unwrap_or_else(|| panic!("{inject}: {name} is lost"));
            // What was refused may be there.
            assert!(
                found.1 == revision || found.1 > revision && refusals > 0,
                "{inject}"
            );
        }
        disk.put("after", "x").await.unwrap();
    }
}

/// A server that was killed may have left writes that no disk has: they are made durable before
/// they are shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_shows_nothing_that_is_not_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let address = free_address();
    let daemon = Daemon::start(&data, &address, &[]).await;
    daemon.kill_9();
    // Every sync fails from the beginning.
    let within = [
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=fdatasync",
        "-e",
        "inject=fdatasync:error=EIO",
    ];
    let mut daemon = Daemon::spawn_within(&within, &data, &address, &[]);
    assert_eq!(daemon.ended().await.code(), Some(1), "{}", daemon.log());
    let said = daemon.log();
    assert!(said.contains("syncing") && said.contains("seg-1"), "{said}");
    let _daemon = Daemon::start(&data, &address, &[]).await;
}

/// What a server does to the file of its segment until it answers.
async fn opening_traced(data: &Path, trace: &Path) -> Vec<String> {
    let out = trace.to_string_lossy();
    let calls = "trace=pwrite64,fsync,fdatasync";
    let within = [
        "strace", "-D", "-f", "-qq", "-y", "-s0", "-e", calls, "-o", &out,
    ];
    let mut daemon = Daemon::spawn_within(&within, data, &free_address(), &[]);
    daemon.ready().await;
    let text = fs::read_to_string(trace).unwrap();
    assert!(daemon.terminate().await.success());
    let about = text.lines().filter(|line| line.contains("/seg-1/db>"));
    about.map(str::to_owned).collect()
}

/// After a sync that failed, the operating system shows what it calls clean and the disk does not
/// have. A sync alone would not write it, and it would be gone after the next power cut.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_failed_sync_left_is_written_again_before_a_restarted_server_shows_it() {
    const CHUNK: usize = 64 << 10;
    let disk = Disk::start(&[]).await;
    for n in 0..50 {
        let value = "x".repeat(5000);
        disk.put(&format!("a{n}"), &value).await.unwrap();
    }
    let failing = disk.tamper("fdatasync", "fdatasync:error=EIO").await;
    disk.put("a", "uncertain").await.unwrap_err();
    failing.end();
    let data = disk.data();
    let Disk { folder, daemon, .. } = disk;
    daemon.kill_9();
    let mut written = fs::read(data.join("seg-1/db")).unwrap();
    let last = b"uncertain";
    let end = written.windows(last.len()).rposition(|bytes| bytes == last);
    // What follows is sled's padding.
    written.truncate(end.expect("it was written") + last.len());
    let calls = opening_traced(&data, &folder.path().join("trace")).await;
    let synced = calls.iter().rposition(|call| call.contains(" fsync("));
    let (before, _) = calls.split_at(synced.expect("it is synced"));
    let writes = |calls: &[String], at: usize| {
        let whole = format!(", {CHUNK}, {at}) = {CHUNK}");
        // As strace has it where another thread's call comes between its begin and its end.
        let parted = format!(", {CHUNK}, {at} <unfinished ...>");
        let mut ends = calls.iter().map(|call| call.trim_end());
        ends.any(|call| call.ends_with(&whole) || call.ends_with(&parted))
    };
    for (index, chunk) in written.chunks(CHUNK).enumerate() {
        let (at, empty) = (index * CHUNK, chunk.iter().all(|byte| *byte == 0));
        assert!(empty || writes(before, at), "nothing at {at}: {before:#?}");
    }
    // What it had acknowledged when it ended needs no second writing.
    let calls = opening_traced(&data, &folder.path().join("trace-2")).await;
    assert!(!writes(&calls, 0), "{calls:#?}");
}

fn lengths(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(lengths(&entry.path()));
        } else {
            found.push((entry.path(), entry.metadata().unwrap().len()));
        }
    }
    found
}

/// Check 16: what is beyond the last sync is anybody's guess, and is not needed.
#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_are_there_after_the_files_are_cut_to_what_was_synced() {
    let mut disk = Disk::start(&["--segment-size", "256KiB"]).await;
    // Some find room within the length that the file has already.
    let mut cut = 0;
    for round in 0.. {
        if cut == 3 {
            return;
        }
        assert!(round < 30, "nothing is to be cut");
        let mut acknowledged = Vec::new();
        for n in 0..10 {
            let (name, value) = (format!("r{round}-{n}"), "x".repeat(3000));
            acknowledged.push((name.clone(), disk.put(&name, &value).await.unwrap()));
        }
        let slow = disk
            .tamper("fdatasync", "fdatasync:delay_enter=60000000")
            .await;
        let synced = lengths(&disk.data());
        let address = disk.daemon.address.clone();
        // It is synced more than once; the first of it does not return.
        let writing = tokio::spawn(async move {
            let value = "y".repeat(200_000);
            let request = v1::UpdateRequest {
                resource: Some(resource("pods", "cut", &value, &[])),
                allow_missing: true,
                ..v1::UpdateRequest::default()
            };
            raw(&address).update(request).await
        });
        slow.shows("fdatasync(", 1).await;
        assert!(!writing.is_finished(), "acknowledged before it is on disk");
        disk.daemon.signal("KILL");
        slow.kill();
        disk.daemon.ended().await;
        assert!(writing.await.unwrap().is_err());
        let grown = lengths(&disk.data());
        let is_cut = grown != synced;
        for (path, length) in grown {
            match synced.iter().find(|(known, _)| *known == path) {
                Some((_, synced)) if length > *synced => {
                    let file = fs::OpenOptions::new().write(true).open(&path);
                    file.unwrap().set_len(*synced).unwrap();
                }
                Some(_) => {}
                None => fs::remove_file(&path).unwrap(),
            }
        }
        disk.restart().await;
        let (_, objects) = disk.list().await;
        for (name, revision) in acknowledged {
            let found = objects.iter().find(|(n, ..)| *n == name);
            assert_eq!(found.map(|f| f.1), Some(revision), "{name} is lost");
        }
        let cuts = objects.iter().filter(|(n, ..)| n == "cut").count();
        assert_eq!(cuts, 0, "not a whole write is on the disk");
        cut += usize::from(is_cut);
    }
}
