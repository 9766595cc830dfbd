//! `listwatch compare` as a user runs it: short, so that its figures mean nothing; what they are
//! of must be whole.

use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use serde_json::Value;

use crate::harness::daemon::{Daemon, binary, free_address};

const SIDES: [&str; 3] = ["gRPC", "gRPC-web", "HTTP"];
/// So many watches, and so many writes while the rate is fixed.
const WATCHES: f64 = 3.0;
const WRITES: f64 = 10.0;
const SHORT: &[&str] = &[
    "--duration=500ms",
    "--warmup=100ms",
    "--watches=3",
    "--rate=20",
    // More than are taken away at a time.
    "--objects=20,150",
    "--away=200ms",
];

/// A run whose servers get their folders in this one, where the listwatchd of these tests stands
/// beside it.
fn compare(folder: &Path, arguments: &[&str]) -> Output {
    binary("listwatchd");
    Command::new(binary("listwatch"))
        .arg("compare")
        .args(SHORT)
        .arg("--data-parent")
        .arg(folder)
        .args(arguments)
        .env_remove("LISTWATCH_SERVER")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn figure<'a>(report: &'a Value, name: &str) -> &'a Value {
    let figures = report["figures"].as_array().unwrap();
    let found = figures.iter().find(|figure| figure["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {report:#}"))
}

fn medians(report: &Value, name: &str) -> Vec<Option<f64>> {
    let medians = figure(report, name)["medians"].as_array().unwrap();
    medians.iter().map(Value::as_f64).collect()
}

/// Processes that have this folder in their command line.
fn processes_of(folder: &Path) -> usize {
    let folder = folder.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| text(line).contains(folder)).count()
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

/// Whether elements are closed as they were opened, and all text is text.
fn assert_well_formed(xml: &str) {
    let mut open = Vec::new();
    let mut rest = xml;
    while let Some((before, after)) = rest.split_once('<') {
        assert!(!before.contains('>'), "{before:?}");
        for entity in before.split('&').skip(1) {
            let known = ["amp;", "lt;", "gt;", "quot;"];
            assert!(known.iter().any(|k| entity.starts_with(k)), "{entity:?}");
        }
        let (tag, after) = after.split_once('>').expect("a tag without an end");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag:?}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split(' ').next().unwrap()),
        }
        rest = after;
    }
    assert!(
        open.is_empty() && rest.trim().is_empty(),
        "{open:?} {rest:?}"
    );
}

#[test]
fn all_three_transports_are_measured_against_a_server_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let servers = folder.path().join("servers");
    fs::create_dir(&servers).unwrap();
    let picture = folder.path().join("figures.svg");
    let drawn = ["-o=json", "--picture", picture.to_str().unwrap()];
    let report = json(&compare(&servers, &drawn));
    assert_eq!(report["sides"], serde_json::json!(SIDES));
    assert_eq!(report["collection"], "pods");
    let everything = [
        "deliveries a second, full speed",
        "writes a second, full speed",
        "server CPU",
        "client CPU",
        "latency p50, fixed rate",
        "latency p99, fixed rate",
        "deliveries, fixed rate",
        "on the wire",
        "server memory",
        "back after away: time",
        "back after away: bytes",
        "back after compaction: time",
        "back after compaction: bytes",
        "back after restart: time",
        "back after restart: bytes",
        "first state of 20: time",
        "first state of 20: bytes",
        "first state of 150: time",
        "first state of 150: bytes",
    ];
    assert_eq!(
        report["figures"].as_array().unwrap().len(),
        everything.len()
    );
    for name in everything {
        let medians = medians(&report, name);
        assert_eq!(medians.len(), SIDES.len(), "{name}");
        for median in medians {
            assert!(median.is_some_and(|m| m.is_finite() && m >= 0.0), "{name}");
        }
    }
    for delivered in medians(&report, "deliveries, fixed rate") {
        assert_eq!(delivered, Some(WATCHES * WRITES));
    }
    // An event is an object and a little more; a state is all of them.
    let object = report["objectBytes"].as_f64().unwrap();
    for bytes in medians(&report, "on the wire") {
        let bytes = bytes.unwrap();
        assert!((object..2.0 * object).contains(&bytes), "{bytes}");
    }
    for bytes in medians(&report, "first state of 150: bytes") {
        let each = bytes.unwrap() * 1e6 / 150.0;
        assert!((object..2.0 * object).contains(&each), "{each}");
    }
    let picture = fs::read_to_string(picture).unwrap();
    assert_well_formed(&picture);
    for words in SIDES.iter().chain(&everything) {
        let element = format!(">{words}");
        assert!(picture.contains(&element), "{words}");
    }
    assert!(is_empty(&servers), "folders are left");
    assert_eq!(processes_of(&servers), 0, "servers are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_and_another_beside_it_are_left_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Daemon::start(&folder.path().join("a"), &free_address(), &[]).await;
    let theirs = Daemon::start(&folder.path().join("b"), &free_address(), &[]).await;
    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    let map =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {x: y}}\ndata: {k: v}\n";
    fs::write(manifests.join("map.yaml"), map).unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "abc\n").unwrap();
    let server = format!("http://{},pid={}", ours.address, ours.pid());
    let target = format!("http://{}", theirs.address);
    let output = compare(
        folder.path(),
        &[
            "--server",
            &server,
            "--target",
            &target,
            "--token-file",
            token.to_str().unwrap(),
            "--http2",
            "-f",
            manifests.to_str().unwrap(),
        ],
    );
    let table = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for words in SIDES
        .iter()
        .chain(&[target.as_str(), "configmaps", "HTTP/2"])
    {
        assert!(table.contains(words), "{words} is not in {table}");
    }
    // It is not ours to restart, and of the other no more is known than it says.
    assert!(!table.contains("restart"), "{table}");
    let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("back after compaction: time").ends_with('-'));
    assert!(line("server CPU").ends_with('-'));
    assert_eq!(line("deliveries, fixed rate").matches("30.0").count(), 4);
    for daemon in [&ours, &theirs] {
        let client = listwatch_client::Client::connect(daemon.address.clone()).await;
        let status = client.unwrap().status().await.unwrap();
        assert_eq!(status.object_count, 0);
    }
}

#[tokio::test]
async fn an_interrupted_run_takes_away_what_it_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let start = async |name: &str| {
        let data = folder.path().join(name);
        Daemon::start(&data, &free_address(), &[]).await
    };
    let (ours, theirs) = (start("ours").await, start("theirs").await);
    let count = async |daemon: &Daemon| {
        let client = listwatch_client::Client::connect(daemon.address.clone()).await;
        client.unwrap().status().await.unwrap().object_count
    };
    let mut running = Command::new(binary("listwatch"))
        .arg("compare")
        .args(SHORT)
        .arg(format!("--server=http://{}", ours.address))
        .arg(format!("--target=http://{}", theirs.address))
        .env_remove("LISTWATCH_SERVER")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The namespace, and objects in it.
    while count(&theirs).await < 2 {
        assert!(running.try_wait().unwrap().is_none(), "it has ended");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let pid = running.id().to_string();
    let told = Command::new("kill").args(["-INT", &pid]).status();
    assert!(told.unwrap().success());
    let output = tokio::task::spawn_blocking(move || running.wait_with_output());
    let output = output.await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("interrupted"), "{said}");
    for daemon in [&ours, &theirs] {
        assert_eq!(count(daemon).await, 0);
    }
}

#[test]
fn what_is_wrong_is_named_before_anything_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let servers = folder.path().join("servers");
    fs::create_dir(&servers).unwrap();
    let mixed = folder.path().join("mixed.yaml");
    let two = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\n";
    fs::write(&mixed, two).unwrap();
    let cluster = folder.path().join("cluster.yaml");
    fs::write(
        &cluster,
        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n",
    )
    .unwrap();
    let nobody = format!("http://{}", free_address());
    for (arguments, exit, words) in [
        (vec!["--target", &nobody], 5, nobody.as_str()),
        (vec!["--server", &nobody], 5, nobody.as_str()),
        (vec!["--target", "https://127.0.0.1:6443"], 2, "TLS"),
        (vec!["--target", "nonsense"], 2, "nonsense"),
        (vec!["--server", "etcd://127.0.0.1:2379"], 2, "etcd://"),
        (vec!["-f", mixed.to_str().unwrap()], 2, "Service"),
        (vec!["-f", cluster.to_str().unwrap()], 2, "namespaces"),
        (vec!["-f", "/nowhere.yaml"], 2, "/nowhere.yaml"),
        (
            vec!["--target", &nobody, "--token-file", "/nowhere"],
            2,
            "/nowhere",
        ),
    ] {
        let output = compare(&servers, &arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert!(!said.contains("round"), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty() && is_empty(&servers));
    }
}
