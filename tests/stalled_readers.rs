//! Readers that stop, and read on: what they get then, and that nobody else notices meanwhile.

use std::{collections::BTreeMap, path::Path};

use listwatch::v1::{self, DeliveryMode, EventType, watch_request::Start};
use listwatch_client::{Client, ResponseStream};
use tokio::task::JoinSet;

use crate::{
    harness::{
        Harness, PATIENCE,
        daemon::{Daemon, free_address},
        labelled, resource, watch,
    },
    validator::Copy,
};

/// Clients of others: what one does not read must not keep its connection from the rest.
async fn clients(harness: &Harness, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        let connector = harness.server.in_memory();
        let endpoint = tonic::transport::Endpoint::from_static("http://in-memory");
        let connector = tower::service_fn(move |_| {
            let connector = connector.clone();
            async move { connector.connect().await.map(hyper_util::rt::TokioIo::new) }
        });
        let channel = endpoint.connect_with_connector(connector).await.unwrap();
        clients.push(Client::from_channel(channel));
    }
    clients
}

fn from_now(mode: DeliveryMode) -> v1::WatchRequest {
    v1::WatchRequest {
        delivery_mode: mode.into(),
        ..watch("pods", Some(Start::Now(true)))
    }
}

/// What a watch gives until it has been promised everything up to a revision.
async fn read_on(
    stream: &mut ResponseStream<v1::WatchResponse>,
    revision: i64,
) -> Vec<v1::WatchResponse> {
    let mut responses = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, stream.message()).await;
        let response = next.expect("it is silent").unwrap().expect("it ended");
        let reached = response.bookmark.as_ref().map_or(0, |b| b.revision);
        responses.push(response);
        if reached >= revision {
            return responses;
        }
    }
}

const NAMES: usize = 5;
const WRITES: usize = 300;

/// Far more than the way holds for a stream that nobody reads; returns name, value, revision.
async fn write_much(harness: &Harness) -> Vec<(String, Vec<u8>, i64)> {
    let filler = "x".repeat(40_000);
    let mut written = Vec::new();
    for n in 0..WRITES {
        let name = format!("p{}", n % NAMES);
        let value = format!("{n} {filler}");
        let answer = harness.put("pods", &name, &value).await;
        written.push((name, value.into_bytes(), answer.revision));
    }
    written
}

type Seen = Vec<(String, Vec<u8>, i64)>;

fn seen(responses: &[v1::WatchResponse]) -> Seen {
    let events = responses.iter().flat_map(|response| &response.events);
    let seen = events.map(|event| {
        let resource = event.resource.as_ref().unwrap();
        let name = resource.key.as_ref().unwrap().name.clone();
        (name, resource.value.to_vec(), resource.revision)
    });
    seen.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_readers_get_every_change_in_order_when_they_read_on() {
    let harness = Harness::start().await;
    let mut stalled = Vec::new();
    for client in clients(&harness, 40).await {
        let request = from_now(DeliveryMode::EveryChange);
        stalled.push(client.watch(request).await.unwrap());
    }
    let written = write_much(&harness).await;
    let last = written.last().unwrap().2;
    for stream in &mut stalled {
        assert!(seen(&read_on(stream, last).await) == written);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_readers_of_the_latest_get_the_newest_of_each_object() {
    let harness = Harness::start().await;
    let mut stalled = Vec::new();
    for client in clients(&harness, 40).await {
        let request = from_now(DeliveryMode::Latest);
        stalled.push(client.watch(request).await.unwrap());
    }
    let written = write_much(&harness).await;
    let last = written.last().unwrap().2;
    let newest = written.iter().map(|w| (w.0.clone(), (w.1.clone(), w.2)));
    let newest: BTreeMap<_, _> = newest.collect();
    for stream in &mut stalled {
        let responses = read_on(stream, last).await;
        let mut copy = Copy::default();
        responses.iter().for_each(|response| copy.apply(response));
        assert!(copy.is_live());
        let held = copy.objects.values().map(|object| {
            let name = object.key.as_ref().unwrap().name.clone();
            (name, (object.value.to_vec(), object.revision))
        });
        assert!(held.collect::<BTreeMap<_, _>>() == newest, "not the newest");
        let seen = seen(&responses);
        assert!(seen.iter().all(|event| written.contains(event)), "invented");
        // A reader of every change has 300.
        assert!(seen.len() < WRITES / 2, "{} events", seen.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_18109_writes_and_other_watches_go_on_beside_watches_that_are_never_read() {
    const READING: usize = 980;
    let harness = Harness::start().await;
    let mut stalled = Vec::new();
    for client in clients(&harness, 20).await {
        let request = from_now(DeliveryMode::EveryChange);
        stalled.push(client.watch(request).await.unwrap());
    }
    let mut reading = JoinSet::new();
    let others = clients(&harness, 10).await;
    for n in 0..READING {
        let request = v1::WatchRequest {
            selector: Some(labelled("pods", "shard", &n.to_string())),
            ..watch("pods", Some(Start::Now(true)))
        };
        let mut stream = others[n % others.len()].watch(request).await.unwrap();
        reading.spawn(async move {
            let mut got = 0;
            while let Ok(Some(response)) = stream.message().await {
                got += response.events.len();
                if got > 0 {
                    return got;
                }
            }
            got
        });
    }
    let filler = "x".repeat(2000);
    let mut last = 0;
    for n in 0..READING {
        let shard = n.to_string();
        let (name, labels) = (format!("p{n}"), [("shard", &*shard)]);
        let write = harness.put_labelled("pods", &name, &filler, &labels);
        let written = tokio::time::timeout(PATIENCE, write).await;
        last = written.expect("a write waits for readers").revision;
    }
    let all = tokio::time::timeout(PATIENCE, reading.join_all());
    let got = all.await.expect("readers wait for those that do not read");
    assert_eq!(got, vec![1; READING]);
    for stream in &mut stalled {
        let events = seen(&read_on(stream, last).await);
        assert_eq!(events.len(), READING);
    }
}

fn resident_mib(daemon: &Daemon) -> u64 {
    let path = format!("/proc/{}/status", daemon.pid());
    let status = std::fs::read_to_string(Path::new(&path)).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<u64>().unwrap() / 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn etcd_16839_starved_watches_with_previous_values_leave_memory_bounded() {
    const MIB: usize = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&folder.path().join("data"), &free_address(), &[]).await;
    let writer = Client::connect(daemon.address.clone()).await.unwrap();
    let write = async |rounds: usize| {
        let mut last = 0;
        for n in 0..rounds {
            let mut object = resource("pods", &format!("p{}", n % 4), "", &[]);
            object.value = vec![n as u8; MIB - 4096].into();
            let request = v1::UpdateRequest {
                resource: Some(object),
                allow_missing: true,
                ..v1::UpdateRequest::default()
            };
            let written = writer.update(request).await.unwrap().resource;
            last = written.unwrap().revision;
        }
        last
    };
    write(8).await;
    let mut starved = Vec::new();
    for _ in 0..10 {
        let client = Client::connect(daemon.address.clone()).await.unwrap();
        for _ in 0..10 {
            let request = v1::WatchRequest {
                send_previous: true,
                ..from_now(DeliveryMode::EveryChange)
            };
            starved.push(client.watch(request).await.unwrap());
        }
    }
    // As much as the caches, the buffers of the streams and the disk's own ever hold.
    write(120).await;
    let before = resident_mib(&daemon);
    let last = write(240).await;
    let after = resident_mib(&daemon);
    // A queue for each would have grown by 24,000 MiB, one for all by 240.
    assert!(after < before + 100, "{before} MiB, then {after}");
    // They still have it all: the log has, whatever the caches let go of.
    let responses = read_on(&mut starved[0], last).await;
    let events = responses.iter().flat_map(|response| &response.events);
    let revisions: Vec<_> = events
        .map(|event| {
            assert_eq!(event.r#type(), EventType::Modified);
            assert!(event.previous.is_some());
            event.resource.as_ref().unwrap().revision
        })
        .collect();
    assert_eq!(revisions, (last - 359..=last).collect::<Vec<_>>());
}
