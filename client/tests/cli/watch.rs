//! `watch`.

use std::io::{BufRead as _, BufReader};

use crate::{
    fake::Fake,
    run::{command, end, listwatch},
};

fn put(fake: &Fake, name: &str) {
    listwatch(fake, &["put", "pods", name, "--value", "v"]).ok();
}

fn types(ndjson: &str) -> Vec<String> {
    let events = ndjson
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    events
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_shows_what_exists_and_then_every_change_as_it_happens() {
    let fake = Fake::start().await;
    put(&fake, "a");
    let mut child = command(
        &fake,
        &["watch", "pods", "-o", "name", "--until-events", "4"],
    )
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "EXISTING pods/a");
    put(&fake, "b");
    assert_eq!(next(), "ADDED pods/b");
    put(&fake, "a");
    assert_eq!(next(), "MODIFIED pods/a");
    listwatch(&fake, &["delete", "pods", "b"]).ok();
    assert_eq!(next(), "DELETED pods/b");
    assert_eq!(end(child).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_goes_on_by_itself_without_a_gap_or_a_repetition() {
    let fake = Fake::start().await;
    put(&fake, "a");
    let mut child = command(
        &fake,
        &["watch", "pods", "-o", "name", "--until-events", "4"],
    )
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "EXISTING pods/a");
    put(&fake, "b");
    assert_eq!(next(), "ADDED pods/b");
    fake.state().break_watches.notify_waiters();
    put(&fake, "c");
    assert_eq!(next(), "ADDED pods/c");
    put(&fake, "d");
    assert_eq!(next(), "ADDED pods/d");
    let ran = end(child);
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains("watch interrupted: "), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_starts_wherever_it_is_told_to() {
    let fake = Fake::start().await;
    for name in ["a", "b", "a"] {
        put(&fake, name);
    }
    let watch = |args: &[&str]| {
        let args = [&["watch", "pods", "-o", "json", "--timeout", "700ms"], args].concat();
        types(&listwatch(&fake, &args).ok())
    };
    assert_eq!(watch(&["--initial-only"]), ["EXISTING", "EXISTING"]);
    assert_eq!(watch(&["--after-revision", "1"]), ["ADDED", "MODIFIED"]);
    assert_eq!(watch(&["--resume", "r2"]), ["MODIFIED"]);
    assert!(watch(&["--now"]).is_empty());
    assert_eq!(watch(&["a", "--after-revision", "1"]).len(), 1);
    let all = watch(&["--initial-only", "--bookmarks"]);
    assert_eq!(all, ["BOOKMARK", "EXISTING", "EXISTING", "BOOKMARK"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_cannot_go_on_says_why_by_its_exit_code() {
    let fake = Fake::start().await;
    put(&fake, "a");
    let run = |args: &[&str]| listwatch(&fake, &[&["watch", "pods"], args].concat());
    let ran = run(&["--until-events", "2", "--timeout", "500ms"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("1 of the awaited events"), "{}", ran.err);
    assert_eq!(run(&["--resume", "garbage"]).code, 2);
    assert_eq!(run(&["--resume", "r1", "--now"]).code, 2);
    listwatch(&fake, &["compact", "5"]).ok();
    let ran = run(&["--after-revision", "1", "--exact"]);
    assert_eq!(ran.code, 6, "{}", ran.err);
    assert!(ran.err.contains("current state"), "{}", ran.err);
}
