//! Every file of a data folder cut, changed, removed, or replaced by another: a server either
//! serves exactly what was acknowledged, or says which file, and the way out.

use std::{
    fs,
    path::{Path, PathBuf},
};

use listwatch::v1;

use super::record::raw;
use crate::harness::dice::Dice;
use crate::harness::{
    PATIENCE,
    daemon::{Daemon, free_address},
    everything, resource,
};

const FLAGS: [&str; 4] = ["--segment-size", "256KiB", "--compaction-interval", "0"];

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_name() != "BALLAST" {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every file below a folder, relative to it, with its length.
fn files(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = PathBuf::from(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            let inside = files(&entry.path()).into_iter();
            found.extend(inside.map(|(path, length)| (name.join(path), length)));
        } else if name != Path::new("BALLAST") && name != Path::new("LOCK") {
            found.push((name, entry.metadata().unwrap().len()));
        }
    }
    found.sort();
    found
}

type Objects = Vec<(String, i64, bytes::Bytes)>;

async fn list(address: &str) -> (i64, Objects) {
    let request = v1::ListRequest {
        selector: Some(everything("pods")),
        page_size: 1000,
        ..v1::ListRequest::default()
    };
    let list = raw(address).list(request).await.unwrap().into_inner();
    let objects = list.resources.into_iter();
    let objects = objects.map(|r| (r.key.unwrap_or_default().name, r.revision, r.value));
    (list.revision, objects.collect())
}

/// A folder of several segments, and what is in it.
async fn make(data: &Path, name: &str, count: usize) -> (i64, Objects) {
    let mut daemon = Daemon::start(data, &free_address(), &FLAGS).await;
    let mut client = raw(&daemon.address);
    let value = "x".repeat(4000);
    for n in 0..count {
        let value = format!("{name} {n} {value}");
        let request = v1::UpdateRequest {
            resource: Some(resource("pods", &format!("p{}", n % 70), &value, &[])),
            allow_missing: true,
            ..v1::UpdateRequest::default()
        };
        client.update(request).await.unwrap();
    }
    let all = list(&daemon.address).await;
    assert!(daemon.terminate().await.success(), "{}", daemon.log());
    all
}

/// Waits until it serves (true) or has ended.
async fn serves(daemon: &mut Daemon, what: &str) -> bool {
    let started = tokio::time::Instant::now();
    loop {
        if daemon.has_ended() {
            return false;
        }
        let mut client = raw(&daemon.address);
        let status = client.get(v1::GetRequest::default()).await.unwrap_err();
        if status.code() == tonic::Code::InvalidArgument {
            return true;
        }
        assert!(
            started.elapsed() < PATIENCE,
            "{what}: neither serves nor ends"
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_named_with_the_way_out_or_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let (data, other) = (folder.path().join("data"), folder.path().join("other"));
    let expected = make(&data, "this", 150).await;
    make(&other, "other", 150).await;
    let mut dice = Dice::new(16);
    let (mut refused, mut harmless) = (0, 0);
    for (name, length) in files(&data) {
        let somewhere = |dice: &mut Dice| u64::from(dice.below(u32::MAX)) % length.max(1);
        let ways = [
            "removed",
            "emptied",
            "cut",
            "one byte shorter",
            "a bit flipped",
            "another bit flipped",
            "another store's",
        ];
        for how in ways {
            let what = format!("{} {how}", name.display());
            let copied = folder.path().join("copy");
            copy(&data, &copied);
            let target = copied.join(&name);
            let mut bytes = fs::read(&target).unwrap();
            let at = usize::try_from(somewhere(&mut dice)).unwrap();
            match how {
                "removed" => fs::remove_file(&target).unwrap(),
                "another store's" if !other.join(&name).exists() => continue,
                "another store's" => drop(fs::copy(other.join(&name), &target).unwrap()),
                _ => {
                    match how {
                        "emptied" => bytes.clear(),
                        "cut" => bytes.truncate(at),
                        "one byte shorter" => drop(bytes.pop()),
                        _ if bytes.is_empty() => continue,
                        _ => bytes[at] ^= 1 << dice.below(8),
                    }
                    fs::write(&target, &bytes).unwrap();
                }
            }
            let mut daemon = Daemon::spawn(&copied, &free_address(), &FLAGS);
            if serves(&mut daemon, &what).await {
                let found = list(&daemon.address).await;
                assert!(found == expected, "{what}: other objects are served");
                harmless += 1;
            } else {
                let status = daemon.ended().await;
                let said = daemon.log();
                assert_eq!(status.code(), Some(1), "{what}: {said}");
                assert!(!said.contains("panicked"), "{what}: {said}");
                let names_it = said.contains(&*name.to_string_lossy())
                    || name.parent().is_some_and(|segment| {
                        segment != Path::new("") && said.contains(&*segment.to_string_lossy())
                    })
                    // Two files that are not of one store: either may be the wrong one.
                    || how == "another store's" && said.contains("HEAD is not what was written")
                    // Where a tail is gone, HEAD says that something is missing.
                    || said.contains("the newest writes are missing");
                assert!(names_it, "{what}: {said}");
                let way_out = said.contains("listwatchd repair") || said.contains("import");
                assert!(way_out, "{what}: {said}");
                refused += 1;
            }
            drop(daemon);
            fs::remove_dir_all(&copied).unwrap();
        }
    }
    println!("{refused} refused, {harmless} harmless");
    assert!(refused > 10 && harmless > 5, "{refused}, {harmless}");
}
