use std::{fs, process::Command, time::Duration};

use listwatch::v1;
use listwatch_client::Client;
use tokio::net::TcpStream;

use crate::harness::{
    PATIENCE,
    daemon::{Daemon, free_address},
    everything, resource,
};

const LIMIT: &str = "--nofile=60:60";
const PEERS: usize = 100;

/// Descriptors that a process has open.
fn descriptors(daemon: &Daemon) -> usize {
    fs::read_dir(format!("/proc/{}/fd", daemon.pid()))
        .unwrap()
        .count()
}

/// Processor time that it has used, in clock ticks: a hundredth of a second each.
fn ticks(daemon: &Daemon) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).unwrap();
    // After the name, which may hold anything: the 14th and 15th fields of all.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next().unwrap().parse::<u64>().unwrap();
    next() + next()
}

async fn put(client: &Client, name: &str) {
    let request = v1::UpdateRequest {
        resource: Some(resource("pods", name, &"x".repeat(1000), &[])),
        allow_missing: true,
        ..v1::UpdateRequest::default()
    };
    client.update(request).await.unwrap();
}

async fn list(client: &Client) -> usize {
    let request = v1::ListRequest {
        selector: Some(everything("pods")),
        ..v1::ListRequest::default()
    };
    client.list(request).await.unwrap().resources.len()
}

async fn peers(address: &str) -> Vec<TcpStream> {
    let mut peers = Vec::new();
    for _ in 0..PEERS {
        // The system takes them for the server until its backlog is full.
        peers.push(TcpStream::connect(address).await.unwrap());
    }
    peers
}

async fn until(what: &str, daemon: &Daemon, so: impl Fn() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "{what}: {}", daemon.log());
}

#[tokio::test]
async fn grpc_16058_descriptors_run_out_and_the_accept_loop_rests_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let (data, address) = (folder.path().join("data"), free_address());
    let flags = ["--handshake-timeout", "24h"];
    let daemon = Daemon::start(&data, &address, &flags).await;
    let before = Client::connect(address.clone()).await.unwrap();
    put(&before, "a").await;
    // Lowered while it runs: nothing was set aside for what comes.
    let lowered = Command::new("prlimit")
        .args(["--pid", &daemon.pid().to_string(), LIMIT])
        .status();
    assert!(lowered.unwrap().success());
    let held = peers(&address).await;
    let exhausted = || daemon.log().contains("cannot accept connections");
    until("they do not run out", &daemon, exhausted).await;

    let (used, seconds) = (ticks(&daemon), 3);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let used = ticks(&daemon) - used;
    // A twentieth of a core; a loop that spins takes all of one.
    assert!(used < seconds * 100 / 20, "{used} ticks in {seconds} s");
    // Who was there is served meanwhile.
    put(&before, "b").await;
    assert_eq!(list(&before).await, 2);
    let lines = daemon.log().matches("cannot accept").count();
    assert_eq!(lines, 1, "{}", daemon.log());

    drop(held);
    let after = async {
        let client = Client::connect(address.clone()).await.unwrap();
        put(&client, "c").await;
        assert_eq!(list(&client).await, 3);
    };
    let recovered = tokio::time::timeout(PATIENCE, after).await;
    assert!(recovered.is_ok(), "it does not recover: {}", daemon.log());
    assert!(daemon.log().contains("accepting connections again"));
}

#[tokio::test]
async fn connections_leave_the_store_the_descriptors_that_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    let (data, address) = (folder.path().join("data"), free_address());
    // Small segments: it opens new ones as it runs.
    let flags = ["--handshake-timeout", "24h", "--segment-size", "1MiB"];
    let flags = [&flags[..], &["--max-connections-per-ip", "0"]].concat();
    let mut daemon = Daemon::spawn_within(&["prlimit", LIMIT], &data, &address, &flags);
    daemon.ready().await;
    let client = Client::connect(address.clone()).await.unwrap();
    put(&client, "first").await;
    let held = peers(&address).await;
    // The last of them is refused, and so all were looked at.
    let mut byte = [0];
    let last = held.last().unwrap();
    let refused = async {
        last.readable().await.unwrap();
        last.try_read(&mut byte)
    };
    let refused = tokio::time::timeout(PATIENCE, refused).await.expect("kept");
    assert!(matches!(refused, Ok(0) | Err(_)), "{refused:?}");
    let open = descriptors(&daemon);
    assert!(open < 60, "{open} open");
    for n in 0..1500 {
        put(&client, &format!("n{n}")).await;
    }
    assert_eq!(list(&client).await, 500);
    assert!(!daemon.log().contains("cannot accept"), "{}", daemon.log());
}
