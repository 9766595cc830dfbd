//! `listwatch bench`: that its figures are of what happened.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use listwatch::v1::ListWatchesRequest;
use listwatch_client::Client;
use serde_json::Value;

use crate::harness::{
    PATIENCE,
    daemon::{Daemon, binary, free_address},
};

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary("listwatch"));
    command.arg("bench").args(arguments).args(["-o", "json"]);
    command.stdin(Stdio::null());
    command
}

/// Runs it; it must succeed.
fn report(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The first target's median.
fn figure(report: &Value, load: &str, case: &str, measure: &str) -> f64 {
    let figures = report["figures"].as_array().unwrap();
    let found = figures
        .iter()
        .find(|f| f["load"] == load && f["case"] == case && f["measure"] == measure);
    let found = found.unwrap_or_else(|| panic!("no {load}, {case}, {measure}: {report:#}"));
    found["medians"][0].as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_load_runs_against_a_server_that_it_starts_and_its_counts_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let target = format!("listwatchd={}", binary("listwatchd").display());
    let report = report(&mut bench(&[
        "--target",
        &target,
        "--data-parent",
        folder.path().to_str().unwrap(),
        "--duration",
        "500ms",
        "--warmup",
        "200ms",
        "--watches",
        "20",
        "--writers",
        "4",
        "--objects",
        "2000",
    ]));
    let loads = [
        "writes",
        "fan-out-rate",
        "fan-out-rate-many",
        "fan-out-full",
        "fan-out-full-100",
        "selective",
        "idle-memory",
        "slow-readers",
        "list",
        "lagging",
        "restart",
    ];
    let figures = report["figures"].as_array().unwrap();
    for load in loads {
        let of_it: Vec<_> = figures.iter().filter(|f| f["load"] == load).collect();
        assert!(!of_it.is_empty(), "nothing of {load}: {report:#}");
        for figure in of_it {
            assert!(figure["medians"][0].is_number(), "{figure:#}");
        }
    }
    // Each write is delivered to each watch once, or to the one that wants it.
    let full = |measure| figure(&report, "fan-out-full", "20 watches, 100/stream", measure);
    let (delivered, written) = (full("deliveries a second"), full("writes a second"));
    let each = delivered / written;
    assert!((19.0..21.0).contains(&each), "{each} deliveries a write");
    let case = "20 label values";
    let each = figure(&report, "selective", case, "deliveries by write");
    assert!((0.9..1.1).contains(&each), "{each} deliveries a write");
    // Without a new state for any.
    let states = figure(&report, "restart", "20 watches", "new states");
    assert_eq!(states, 0.0);
    // What it started is gone, with its folders.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_targets_run_in_turn_and_their_medians_are_divided() {
    let folder = tempfile::tempdir().unwrap();
    let target = format!("listwatchd={}", binary("listwatchd").display());
    let mut command = bench(&["writes", "--target", &target, "--target", &target]);
    command.args(["--rounds", "3", "--duration", "200ms", "--warmup", "50ms"]);
    command
        .args(["--writers", "4", "--data-parent"])
        .arg(folder.path());
    let report = report(&mut command);
    assert_eq!(report["targets"].as_array().unwrap().len(), 2);
    for figure in report["figures"].as_array().unwrap() {
        let mut medians = [0.0; 2];
        for (target, median) in medians.iter_mut().enumerate() {
            let rounds = figure["rounds"][target].as_array().unwrap();
            let mut rounds: Vec<_> = rounds.iter().map(|v| v.as_f64().unwrap()).collect();
            assert_eq!(rounds.len(), 3);
            rounds.sort_by(f64::total_cmp);
            *median = figure["medians"][target].as_f64().unwrap();
            assert_eq!(*median, rounds[1]);
        }
        let ratio = figure["ratio"].as_f64().unwrap();
        assert!((ratio * medians[1] / medians[0] - 1.0).abs() < 1e-9);
    }
}

fn signal(pid: u32, name: &str) {
    let told = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(told.unwrap().success());
}

/// Waits until so many watches are open.
async fn begun(daemon: &Daemon, watches: usize) {
    let client = Client::connect(daemon.address.clone()).await.unwrap();
    let begun = tokio::time::timeout(PATIENCE, async {
        let open = async || client.watches(ListWatchesRequest::default()).await.unwrap();
        while open().await.watches.len() < watches {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    begun.await.expect("it does not begin");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stood_still_shows_in_the_latency() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&folder.path().join("data"), &free_address(), &[]).await;
    let running = bench(&[
        "fan-out-rate",
        "--watches",
        "4",
        "--rate",
        "100",
        "--duration",
        "4s",
        "--warmup",
        "200ms",
        "--server",
        &daemon.address,
    ])
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    begun(&daemon, 4).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    signal(daemon.pid(), "-STOP");
    tokio::time::sleep(Duration::from_secs(1)).await;
    signal(daemon.pid(), "-CONT");
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Of 400 writes some hundred were due while it stood still. Timed from when they were sent,
    // few would show it.
    let p99 = figure(&report, "fan-out-rate", "4 streams", "p99");
    assert!(p99 > 800.0, "{p99} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_load_ends_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&folder.path().join("data"), &free_address(), &[]).await;
    let mut command = bench(&["fan-out-rate", "--watches", "4", "--duration", "10m"]);
    command.args(["--server", &daemon.address]);
    let running = command.stdout(Stdio::null()).stderr(Stdio::piped());
    let running = running.spawn().unwrap();
    begun(&daemon, 4).await;
    signal(running.id(), "-INT");
    let output = tokio::task::spawn_blocking(move || running.wait_with_output());
    let output = tokio::time::timeout(PATIENCE, output).await;
    let output = output.expect("it goes on").unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted"), "{said}");
}

#[tokio::test]
async fn a_target_that_cannot_be_is_named_before_anything_runs() {
    for (target, says) in [
        ("redis", "redis"),
        (
            "listwatchd=/nonexistent/listwatchd",
            "/nonexistent/listwatchd",
        ),
        ("http://", "http://"),
    ] {
        let output = bench(&["writes", "--target", target]).output().unwrap();
        assert!(!output.status.success(), "{target}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(says), "{target}: {errors}");
        assert!(output.stdout.is_empty());
    }
}
