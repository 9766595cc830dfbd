//! A full disk: reads, deletions and compaction go on, and writes come back by themselves
//! (etcd 9992, 16779, 14497).

use std::{fs, process::Command};

use super::*;

const MIB: u64 = 1 << 20;

/// A small file system in memory, of its own; gone when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Only root may mount; without a disk of its own the test cannot be made.
    fn mount(bytes: u64) -> Self {
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

async fn fill(store: &dyn Store, value: &str) -> CommitError {
    for i in 0..5000 {
        let operation = put(&format!("o{}", i % 8), value);
        if let Err(error) = store.commit(batch([operation])).await {
            return error;
        }
    }
    panic!("it never gets full");
}

#[tokio::test]
async fn etcd_9992_puts_are_refused_before_the_disk_is_full_and_come_back() {
    let disk = SmallDisk::mount(96 * MIB);
    let options = StoreOptions {
        segment_bytes: 4 * MIB,
        min_free_bytes: 24 * MIB,
        ballast_bytes: 8 * MIB,
        ..TestClock::new().options()
    };
    let store = reopen(disk.path(), &options);
    assert!(disk.path().join("BALLAST").exists());
    let value = "x".repeat(200 << 10);
    for _ in 0..3 {
        let error = fill(&store, &value).await;
        assert!(matches!(error, CommitError::StorageFull(_)), "{error}");
        assert!(store.status().full);
        assert_eq!(contents(&store).await.len(), 8);
        write(&store, delete("o0")).await;
        store
            .compact(store.progress().revision, true)
            .await
            .unwrap();
        assert!(!store.status().full, "{:?}", store.status());
        write(&store, put("o0", &value)).await;
    }
    // A restart of a full store works, too.
    fill(&store, &value).await;
    drop(store);
    let store = reopen(disk.path(), &options);
    assert_eq!(contents(&store).await.len(), 8);
    write(&store, delete("o0")).await;
    store
        .compact(store.progress().revision, true)
        .await
        .unwrap();
    write(&store, put("o0", &value)).await;
}

/// Another program fills the disk while nothing runs: what the ballast is for.
#[tokio::test]
async fn a_store_on_a_disk_without_any_room_opens_and_is_repaired_by_its_ballast() {
    let disk = SmallDisk::mount(96 * MIB);
    let folder = disk.path().join("data");
    let options = StoreOptions {
        segment_bytes: 4 * MIB,
        ballast_bytes: 16 * MIB,
        ..TestClock::new().options()
    };
    let store = reopen(&folder, &options);
    for n in 0..100 {
        let value = "x".repeat(100 << 10);
        write(&store, put(&format!("o{}", n % 8), &value)).await;
    }
    let all = contents(&store).await;
    store.close().await;
    drop(store);
    let fill = || {
        assert!(folder.join("BALLAST").exists());
        let mut hog = fs::File::create(disk.path().join("hog")).unwrap();
        let block = vec![1; 4096];
        while std::io::Write::write_all(&mut hog, &block).is_ok() {}
    };
    fill();
    let store = reopen(&folder, &options);
    assert_eq!(contents(&store).await, all);
    assert!(!folder.join("BALLAST").exists());
    write(&store, delete("o0")).await;
    let left = contents(&store).await;
    store.close().await;
    drop(store);
    fs::remove_file(disk.path().join("hog")).unwrap();
    // With room again it is set aside again.
    reopen(&folder, &options).close().await;
    fill();
    let report = SledStore::repair(&folder, &options).unwrap();
    assert_eq!(report.objects, left.len() as u64);
    assert_eq!(contents(&reopen(&folder, &options)).await, left);
}

/// Another program fills the disk under us, so that a write of ours fails.
#[tokio::test]
async fn a_failed_write_stops_writing_but_not_reading_until_there_is_room() {
    for ballast_bytes in [8 * MIB, 0] {
        a_write_fails(ballast_bytes).await;
    }
}

async fn a_write_fails(ballast_bytes: u64) {
    let disk = SmallDisk::mount(64 * MIB);
    let options = StoreOptions {
        segment_bytes: 16 * MIB,
        ballast_bytes,
        ..TestClock::new().options()
    };
    let store = reopen(disk.path(), &options);
    let value = "x".repeat(200 << 10);
    write(&store, put("before", &value)).await;
    let other = disk.path().join("lost+found");
    let mut hog = fs::File::create(&other).unwrap();
    let block = vec![1; 1 << 20];
    while std::io::Write::write_all(&mut hog, &block).is_ok() {}
    let error = fill(&store, &value).await;
    assert!(matches!(error, CommitError::Uncertain(_)), "{error}");
    let mut acknowledged = store.progress().revision;
    let again = store.commit(batch([put("while", "1")])).await.unwrap_err();
    assert!(
        matches!(again, CommitError::Store(StoreError::Io { .. })),
        "{again}"
    );
    match store.get(&key("before"), acknowledged).await {
        Ok(found) => assert_eq!(found.unwrap().content.value.len(), value.len()),
        // With no room at all sled may not even read; it never reads wrongly.
        Err(error) => assert!(
            ballast_bytes == 0 && matches!(error, StoreError::Io { .. }),
            "{error}"
        ),
    }
    // Compaction may find no room, but the store is open.
    let compacted = store.compact(acknowledged, true).await;
    assert!(
        !matches!(compacted, Err(StoreError::Closed)),
        "{compacted:?}"
    );
    drop(hog);
    fs::remove_file(&other).unwrap();
    let mut tries = 0;
    let done = loop {
        match store.commit(batch([put("after", "1")])).await {
            Ok(done) => break done,
            Err(error) => assert!(tries < 100, "{error}"),
        }
        tries += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert!(done.revision > acknowledged);
    acknowledged = done.revision;
    let all = contents(&store).await;
    drop(store);
    let store = reopen(disk.path(), &options);
    assert_eq!(store.progress().revision, acknowledged);
    assert_eq!(contents(&store).await, all);
}

/// The disk itself has room: the store is told to leave more.
#[tokio::test]
async fn where_less_is_free_than_is_to_stay_so_deletions_alone_are_taken() {
    let folder = tempfile::tempdir().unwrap();
    let ballast = folder.path().join("BALLAST");
    let options = |min_free_bytes| StoreOptions {
        min_free_bytes,
        ballast_bytes: 64 << 10,
        ..TestClock::new().options()
    };
    let store = reopen(folder.path(), &options(0));
    write(&store, put("a", "1")).await;
    write(&store, put("b", "1")).await;
    assert!(!store.status().full);
    assert!(ballast.exists());
    drop(store);
    let stat = rustix::fs::statvfs(folder.path()).unwrap();
    let free = stat.f_bavail * stat.f_frsize;
    // Between a quarter and all: others use this disk, too.
    let store = reopen(folder.path(), &options(free * 2));
    assert!(store.status().full);
    let refused = store.commit(batch([put("a", "2")])).await.unwrap_err();
    assert!(matches!(refused, CommitError::StorageFull(_)), "{refused}");
    write(&store, delete("a")).await;
    assert!(ballast.exists());
    drop(store);
    let store = reopen(folder.path(), &options(u64::MAX));
    let refused = store.commit(batch([delete("b")])).await.unwrap_err();
    assert!(matches!(refused, CommitError::StorageFull(_)), "{refused}");
    assert!(!ballast.exists());
    assert_eq!(contents(&store).await.len(), 1);
}
