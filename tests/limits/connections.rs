use std::time::Duration;

use futures::StreamExt as _;
use listwatch::v1::{self, BookmarkKind};
use listwatch_client::{Client, Event, WatchOptions, watcher, watcher::Disconnect};
use listwatch_server::{Refusal, ServerHandle, ServerOptions};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{channel_from, held, listening, port_of, stub_from, until};
use crate::harness::{PATIENCE, everything, resource, watch};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An HTTP/2 SETTINGS frame that says nothing.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

async fn connect(server: &ServerHandle) -> TcpStream {
    TcpStream::connect(port_of(server)).await.unwrap()
}

/// Reads until the server closes the connection; what it said.
async fn closed(mut peer: TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    let reading = tokio::time::timeout(PATIENCE, peer.read_to_end(&mut said)).await;
    // A reset is an end too.
    let _ = reading.expect("the server keeps it open");
    said
}

fn handshakes_within(timeout: Duration) -> ServerOptions {
    let mut options = ServerOptions::default();
    options.connections.handshake_timeout = timeout;
    options
}

async fn put(client: &Client, name: &str) -> v1::Resource {
    let request = v1::UpdateRequest {
        resource: Some(resource("pods", name, "1", &[])),
        allow_missing: true,
        ..v1::UpdateRequest::default()
    };
    client.update(request).await.unwrap().resource.unwrap()
}

async fn client_of(server: &ServerHandle) -> Client {
    let address = format!("http://{}", port_of(server));
    Client::connect(address).await.unwrap()
}

#[tokio::test]
async fn a_silent_peer_is_closed() {
    let server = listening(handshakes_within(Duration::from_millis(200))).await;
    let spoken = client_of(&server).await;
    spoken.status().await.unwrap();
    let silent = [connect(&server).await, connect(&server).await];
    for peer in silent {
        assert_eq!(closed(peer).await, b"");
    }
    until("counted", || {
        server.refusals().count(Refusal::Handshake) == 2 && server.load().connections == 1
    })
    .await;
    // Who has spoken may be silent.
    spoken.status().await.unwrap();
}

#[tokio::test]
async fn half_a_preface_is_closed() {
    let server = listening(handshakes_within(Duration::from_millis(200))).await;
    for half in [&PREFACE[..1], &PREFACE[..12], &PREFACE[..23]] {
        let mut peer = connect(&server).await;
        peer.write_all(half).await.unwrap();
        closed(peer).await;
    }
    // Half the headers of HTTP/1 are no better.
    let mut peer = connect(&server).await;
    peer.write_all(b"POST / HTTP/1.1\r\nhost: x\r\n")
        .await
        .unwrap();
    closed(peer).await;
    until("all closed", || server.load().connections == 0).await;
    client_of(&server).await.status().await.unwrap();
}

#[tokio::test]
async fn a_peer_that_answers_no_ping_is_closed() {
    let mut options = ServerOptions::default();
    options.connections.keepalive_interval = Duration::from_millis(100);
    options.connections.keepalive_timeout = Duration::from_millis(100);
    let server = listening(options).await;
    let mut peer = connect(&server).await;
    peer.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
    closed(peer).await;
    until("closed", || server.load().connections == 0).await;
}

#[tokio::test]
async fn a_connection_announces_its_limits() {
    let server = listening(ServerOptions::default()).await;
    let mut peer = connect(&server).await;
    peer.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
    let mut head = [0; 9];
    peer.read_exact(&mut head).await.unwrap();
    assert_eq!(head[3], 4, "SETTINGS come first");
    let mut settings = vec![0; usize::from(head[2])];
    peer.read_exact(&mut settings).await.unwrap();
    let announced = |id: u8| {
        let mut pairs = settings.chunks(6);
        let pair = pairs.find(|pair| pair[..2] == [0, id]);
        pair.map(|pair| u32::from_be_bytes(pair[2..].try_into().unwrap()))
    };
    // Streams, the window of each, and headers.
    assert_eq!(announced(3), Some(1024));
    assert_eq!(announced(4), Some(1024 * 1024));
    assert_eq!(announced(6), Some(16 * 1024));
}

#[tokio::test]
async fn connections_over_the_limit_are_refused_and_the_rest_served() {
    let mut options = ServerOptions::default();
    options.connections.max_connections = 3;
    options.connections.max_connections_per_ip = Some(3);
    let server = listening(options).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let client = client_of(&server).await;
        client.status().await.unwrap();
        clients.push(client);
    }
    for refused in 1..=5 {
        closed(connect(&server).await).await;
        assert_eq!(server.refusals().count(Refusal::Connections), refused);
    }
    for client in &clients {
        client.status().await.unwrap();
    }
    assert_eq!(server.load().connections, 3);
    // Over memory there is always a way in.
    let inside = tonic::transport::Endpoint::from_static("http://in-memory");
    let inside = inside.connect_with_connector(server.in_memory()).await;
    let inside = Client::from_channel(inside.unwrap());
    inside.status().await.unwrap();
    clients.pop();
    until("room", || server.load().connections == 2).await;
    client_of(&server).await.status().await.unwrap();
}

#[tokio::test]
async fn one_address_gets_its_share_of_the_connections() {
    let mut options = ServerOptions::default();
    options.connections.max_connections_per_ip = Some(2);
    let server = listening(options).await;
    let _held = (connect(&server).await, connect(&server).await);
    closed(connect(&server).await).await;
    assert_eq!(server.refusals().count(Refusal::ConnectionsPerIp), 1);
    let mut neighbour = stub_from("127.0.0.2", &server).await;
    neighbour.watch(watch("pods", None)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_connection_goes_away_and_its_watches_resume_without_a_gap() {
    let mut options = ServerOptions::default();
    options.connections.max_age = Some(Duration::from_millis(300));
    // Nothing is cut off: they go by themselves.
    options.connections.max_age_grace = Duration::from_secs(24 * 3600);
    let server = listening(options).await;
    let lazily = || {
        let builder = Client::builder().endpoint(format!("http://{}", port_of(&server)));
        builder.connect_lazy().unwrap()
    };
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let writer = lazily();
    let writing = tokio::spawn(async move {
        let mut last = 0;
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            last = put(&writer, &format!("p{}", last % 20)).await.revision;
        }
        last
    });
    let mut events = Box::pin(watcher(lazily(), WatchOptions::new(everything("pods"))));
    let (mut states, mut moves, mut last) = (0, 0, None::<i64>);
    while moves < 5 {
        let event = tokio::time::timeout(PATIENCE, events.next()).await;
        match event.expect("silent").expect("the watch ended").unwrap() {
            Event::InitDone(point) => {
                states += 1;
                last = Some(point.revision);
            }
            Event::Apply { object, .. } => {
                let before = last.replace(object.revision).expect("a state first");
                assert_eq!(object.revision, before + 1, "a gap or a duplicate");
            }
            Event::Disconnected { cause, .. } => {
                assert!(matches!(cause, Disconnect::GoingAway), "{cause:?}");
                moves += 1;
            }
            Event::Delete { .. } | Event::NetBegin | Event::ManifestBegin => panic!("not exact"),
            _ => {}
        }
    }
    assert_eq!(states, 1, "it listed again");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    // Nor did the writer notice: it went to the next connection each time.
    assert!(writing.await.unwrap() > 0);
    assert!(server.is_ready());
}

#[tokio::test]
async fn watches_of_one_stream_are_told_that_the_connection_goes() {
    let mut options = ServerOptions::default();
    options.connections.max_age = Some(Duration::from_millis(500));
    options.connections.max_age_grace = Duration::from_secs(24 * 3600);
    let server = listening(options).await;
    let mut stub = stub_from("127.0.0.1", &server).await;
    let asked = (1..=3).map(|watch_id| v1::WatchManyRequest {
        watch_id,
        kind: Some(v1::watch_many_request::Kind::Watch(watch("pods", None))),
    });
    // The client has more to ask, for ever.
    let requests = tokio_stream::iter(asked).chain(futures::stream::pending());
    let mut responses = stub.watch_many(requests).await.unwrap().into_inner();
    let mut told = std::collections::BTreeSet::new();
    let read = async {
        while let Some(response) = responses.message().await.unwrap() {
            let bookmark = response.response.and_then(|r| r.bookmark);
            if bookmark.is_some_and(|b| b.kind() == BookmarkKind::GoingAway) {
                told.extend(response.watch_ids);
            }
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("no end");
    assert_eq!(told.len(), 3);
    until("closed", || server.load().connections == 0).await;
}

#[tokio::test]
async fn what_outlives_an_old_connections_grace_is_cut_off() {
    let mut options = ServerOptions::default();
    options.connections.max_age = Some(Duration::from_millis(100));
    options.connections.max_age_grace = Duration::from_millis(100);
    let server = listening(options).await;
    let channel = channel_from("127.0.0.1", &server).await.unwrap();
    let endless = held(&channel, "Get");
    let ended = tokio::time::timeout(PATIENCE, endless).await;
    assert!(ended.expect("it goes on").unwrap().is_err());
    until("closed", || {
        let load = server.load();
        load.connections == 0 && load.requests == 0
    })
    .await;
}
