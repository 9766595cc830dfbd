//! A process that stands still for a while: the server, then a client that reads.

use std::{fs, process::Command, time::Duration};

use listwatch::v1::{self, BookmarkKind, DeleteCause};

use super::{record::raw, rounds::Run};
use crate::harness::{
    PATIENCE, Watching,
    daemon::{Daemon, binary, free_address},
    millis, resource, watch,
};

/// How long it stands still: longer than the time to live of most that expires, shorter than
/// what anyone gives up after.
const PAUSE: Duration = Duration::from_millis(1500);

/// etcd 20418: a server that comes back answers from before the pause.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stood_still_reads_nothing_stale_and_loses_or_doubles_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Run::new(folder.path().join("data"), 20_418);
    let daemon = run.start().await;
    let load = run.load();
    for _ in 0..2 {
        run.written(100).await;
        daemon.signal("STOP");
        // Answers may still be on their way.
        tokio::time::sleep(PAUSE / 5).await;
        let before = run.record.acknowledged();
        tokio::time::sleep(PAUSE).await;
        assert_eq!(run.record.acknowledged(), before, "it did not stand still");
        daemon.signal("CONT");
    }
    run.written(100).await;
    run.gather(load).await;
    run.look().await;
    run.converge().await;
    assert!(run.audit.figures.lists > 10, "{}", run.report());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_should_have_expired_during_a_pause_expires_once_and_not_before_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let daemon = Daemon::start(&data, &free_address(), &[]).await;
    let mut client = raw(&daemon.address);
    let mut request = watch("leases", None);
    request.bookmark_interval = millis(1000);
    let mut watching = Watching::over(client.watch(request).await.unwrap().into_inner());
    watching.until(BookmarkKind::InitialStateEnd).await;
    let put = |name: &'static str, ttl| {
        let mut client = client.clone();
        async move {
            let request = v1::UpdateRequest {
                resource: Some(resource("leases", name, "x", &[])),
                allow_missing: true,
                ttl: millis(ttl),
                ..v1::UpdateRequest::default()
            };
            let answer = client.update(request).await.unwrap().into_inner();
            answer.resource.unwrap()
        }
    };
    let short = put("short", 1000).await;
    put("long", 600_000).await;
    daemon.signal("STOP");
    tokio::time::sleep(PAUSE).await;
    daemon.signal("CONT");
    let renewed = put("long", 600_000).await;
    let mut events = Vec::new();
    let gone = |e: &v1::WatchEvent| e.delete_cause() == DeleteCause::Expired;
    while !events.iter().any(gone) {
        let response = watching.next().await.unwrap().expect("the watch ended");
        events.extend(response.events);
    }
    // Whatever else comes within two bookmarks.
    for _ in 0..2 {
        let more = watching.until(BookmarkKind::Progress).await;
        events.extend(more.into_iter().flat_map(|r| r.events));
    }
    let expired: Vec<_> = events.iter().filter(|e| gone(e)).collect();
    assert_eq!(expired.len(), 1, "{events:?}");
    let event = expired[0].resource.clone().unwrap();
    assert_eq!(event.key, short.key);
    let list = client
        .list(v1::ListRequest {
            selector: Some(crate::harness::everything("leases")),
            ..v1::ListRequest::default()
        })
        .await
        .unwrap()
        .into_inner();
    let held: Vec<_> = list.resources.iter().map(|r| r.revision).collect();
    assert_eq!(held, [renewed.revision], "the other has years to live");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stood_still_gets_every_change_and_hinders_nobody() {
    const WRITES: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let flags = ["--default-watch-cache-size", "10"];
    let daemon = Daemon::start(&data, &free_address(), &flags).await;
    let seen = folder.path().join("seen");
    let count = WRITES.to_string();
    let mut reader = Command::new(binary("listwatch"))
        .args(["-s", &daemon.address, "watch", "pods", "-o", "json"])
        .args(["--until-events", &count])
        .stdout(fs::File::create(&seen).unwrap())
        .spawn()
        .unwrap();
    let mut client = raw(&daemon.address);
    let value = "x".repeat(20_000);
    let mut revisions = Vec::new();
    let pid = reader.id().to_string();
    let signal = |name: &str| {
        let told = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(told.unwrap().success());
    };
    for n in 0..WRITES {
        if n == 1 {
            // It watches before anything is written twice, so that it is told of each change.
            let started = tokio::time::Instant::now();
            while fs::metadata(&seen).unwrap().len() == 0 {
                assert!(started.elapsed() < PATIENCE, "the client sees nothing");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        if n == 20 {
            // It stands still over more than any buffer holds.
            signal("STOP");
        }
        let request = v1::UpdateRequest {
            resource: Some(resource("pods", &format!("p{}", n % 5), &value, &[])),
            allow_missing: true,
            ..v1::UpdateRequest::default()
        };
        let answer = tokio::time::timeout(PATIENCE, client.update(request)).await;
        let answer = answer.expect("writes go on").unwrap().into_inner();
        revisions.push(answer.resource.unwrap().revision);
    }
    signal("CONT");
    let started = tokio::time::Instant::now();
    let status = loop {
        if let Some(status) = reader.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > PATIENCE {
            reader.kill().unwrap();
            panic!("the client never catches up: {}", daemon.log());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(status.success());
    let text = fs::read_to_string(&seen).unwrap();
    let got: Vec<i64> = text.lines().filter_map(revision_of).collect();
    // What was there when it came is one version of each object; then every change.
    let first = got
        .iter()
        .position(|r| *r == revisions[19])
        .expect("it watched");
    assert_eq!(got[first..], revisions[19..19 + got.len() - first]);
    assert!(got.len() - first > 100, "{} of {WRITES} events", got.len());
}

/// The revision of the object in a line of JSON.
fn revision_of(line: &str) -> Option<i64> {
    let event: serde_json::Value = serde_json::from_str(line).ok()?;
    let revision = event
        .pointer("/object/revision")
        .or(event.pointer("/resource/revision"))?;
    match revision {
        serde_json::Value::String(text) => text.parse().ok(),
        other => other.as_i64(),
    }
}
