//! A small disk that the server fills itself, and that another program fills to the last
//! byte (etcd 9992, 16779, 14497).

use std::{fs, io::Write as _, path::Path, process::Command, time::Duration};

use listwatch::v1::{self, BookmarkKind};
use tokio::net::TcpStream;

use super::record::raw;
use crate::{
    harness::{
        PATIENCE, Watching,
        daemon::{Daemon, free_address},
        everything, millis, reason, resource, watch,
    },
    metrics::scrape::ask,
};

const MIB: usize = 1 << 20;

/// A file system in memory, of its own; gone when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={bytes}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .status();
        assert!(
            mounted.is_ok_and(|status| status.success()),
            "this test needs the right to mount a tmpfs: run it as root, or by scripts/test"
        );
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

async fn put(address: &str, name: &str, size: usize) -> Result<i64, tonic::Status> {
    let value = "x".repeat(size);
    let request = v1::UpdateRequest {
        resource: Some(resource("pods", name, &value, &[])),
        allow_missing: true,
        ..v1::UpdateRequest::default()
    };
    let answer = raw(address).update(request).await?.into_inner();
    Ok(answer.resource.unwrap_or_default().revision)
}

async fn delete(address: &str, name: &str) -> Result<i64, tonic::Status> {
    let request = v1::DeleteRequest {
        key: Some(crate::harness::key("pods", name)),
        ..v1::DeleteRequest::default()
    };
    let answer = raw(address).delete(request).await?.into_inner();
    Ok(answer.resource.unwrap_or_default().revision)
}

async fn compact(address: &str, revision: i64) {
    let client = listwatch_client::Client::connect(address).await.unwrap();
    let request = v1::CompactRequest {
        revision,
        wait: true,
    };
    client.compact(request).await.unwrap();
}

async fn listed(address: &str) -> usize {
    let mut request = v1::ListRequest {
        selector: Some(everything("pods")),
        ..v1::ListRequest::default()
    };
    let mut count = 0;
    loop {
        let page = raw(address).list(request.clone()).await.unwrap();
        let page = page.into_inner();
        count += page.resources.len();
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return count;
        }
    }
}

async fn probe(address: &str, path: &str) -> u16 {
    let connection = TcpStream::connect(address).await.unwrap();
    ask(connection, "GET", path).await.0
}

/// Writes until it is refused for want of room; how many were written.
async fn fill(address: &str, revisions: &mut Vec<i64>) -> usize {
    for n in 0..400 {
        match put(address, &format!("o{}", n % 16), MIB).await {
            Ok(revision) => revisions.push(revision),
            Err(status) => {
                assert_eq!(reason(&status), "STORAGE_FULL", "{status}");
                return n;
            }
        }
    }
    panic!("it never gets full");
}

/// Writes until it is taken again.
async fn comes_back(daemon: &Daemon, name: &str) -> i64 {
    let started = tokio::time::Instant::now();
    loop {
        match put(&daemon.address, name, 1000).await {
            Ok(revision) => return revision,
            Err(status) => {
                let known = ["STORAGE_FULL", "NOT_READY", "WRITE_UNCERTAIN"];
                assert!(known.contains(&reason(&status).as_str()), "{status}");
            }
        }
        assert!(started.elapsed() < PATIENCE, "{}", daemon.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_puts_only_and_they_come_back_by_themselves() {
    let disk = SmallDisk::mount(200 * MIB);
    let data = disk.path().join("data");
    let flags = ["--segment-size", "4MiB", "--compaction-interval", "0"];
    let daemon = Daemon::start(&data, &free_address(), &flags).await;
    let address = daemon.address.clone();
    let mut request = watch("pods", None);
    request.bookmark_interval = millis(1000);
    request.view = v1::View::Metadata.into();
    let stream = raw(&address).watch(request).await.unwrap().into_inner();
    let mut watching = Watching::over(stream);
    watching.until(BookmarkKind::InitialStateEnd).await;
    let mut revisions = Vec::new();

    for _ in 0..2 {
        // The server keeps room for itself.
        assert!(fill(&address, &mut revisions).await > 5);
        assert!(listed(&address).await > 5);
        assert_eq!(probe(&address, "/livez").await, 200);
        assert_eq!(probe(&address, "/readyz").await, 200);
        revisions.push(delete(&address, "o0").await.unwrap());
        compact(&address, *revisions.last().unwrap()).await;
        revisions.push(comes_back(&daemon, "o0").await);
    }

    // Another program takes all that is left.
    let before = fill(&address, &mut revisions).await;
    let hog = disk.path().join("hog");
    let mut file = fs::File::create(&hog).unwrap();
    while file.write_all(&vec![1; MIB / 4]).is_ok() {}
    let refused = put(&address, "o0", MIB).await.unwrap_err();
    assert_eq!(reason(&refused), "STORAGE_FULL", "{refused} after {before}");
    assert!(listed(&address).await > 5);
    assert_eq!(probe(&address, "/livez").await, 200);
    drop(file);
    fs::remove_file(&hog).unwrap();
    if let Ok(revision) = delete(&address, "o1").await {
        revisions.push(revision);
    }
    compact(&address, *revisions.last().unwrap()).await;
    let last = comes_back(&daemon, "o2").await;
    revisions.push(last);

    let seen = watching.through(last).await;
    let seen = seen.iter().flat_map(|r| &r.events);
    let seen: Vec<_> = seen
        .map(|e| e.resource.as_ref().unwrap().revision)
        .collect();
    assert_eq!(
        seen,
        (1..=last).collect::<Vec<_>>(),
        "a gap, or a duplicate"
    );
    assert!(revisions.iter().all(|revision| seen.contains(revision)));
}
