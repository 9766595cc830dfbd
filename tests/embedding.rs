//! The server as part of another program: everything is passed in, and it ends when told.

use std::{net::SocketAddr, process::Stdio, sync::Arc, time::Duration};

use listwatch::v1::{self, BookmarkKind, watch_request::Start};
use listwatch_client::Client;
use listwatch_server::{
    Phase, Server, ServerError, ServerHandle, ServerOptions,
    store::{MemoryStore, Store, StoreOptions},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::oneshot,
};
use tonic::transport::Endpoint;

use crate::harness::{Harness, PATIENCE, everything, resource, token, watch};

async fn in_memory(server: &ServerHandle) -> Client {
    let endpoint = Endpoint::from_static("http://in-memory");
    let channel = endpoint.connect_with_connector(server.in_memory()).await;
    Client::from_channel(channel.unwrap())
}

async fn over_tcp(address: SocketAddr) -> Client {
    Client::connect(format!("http://{address}")).await.unwrap()
}

fn put(name: &str, value: &str) -> v1::UpdateRequest {
    v1::UpdateRequest {
        resource: Some(resource("pods", name, value, &[])),
        allow_missing: true,
        ..v1::UpdateRequest::default()
    }
}

async fn names(client: &Client) -> Vec<String> {
    let request = v1::ListRequest {
        selector: Some(everything("pods")),
        ..v1::ListRequest::default()
    };
    let listed = client.list(request).await.unwrap();
    listed
        .resources
        .into_iter()
        .map(|r| r.key.unwrap().name)
        .collect()
}

async fn ends(server: ServerHandle) {
    let joined = tokio::time::timeout(PATIENCE, server.join()).await;
    joined.expect("the server does not end").unwrap();
}

/// Longer than any test waits: what ends with this grace has not waited for it.
fn endless_grace() -> ServerOptions {
    ServerOptions {
        shutdown_grace: Duration::from_secs(24 * 3600),
        ..ServerOptions::default()
    }
}

fn short_grace() -> ServerOptions {
    ServerOptions {
        shutdown_grace: Duration::from_millis(50),
        ..ServerOptions::default()
    }
}

#[tokio::test]
async fn the_example_runs_as_it_is() {
    let run = tokio::process::Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--package",
            "listwatch-server",
            "--example",
            "embedded",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    // It is built first.
    let output = tokio::time::timeout(PATIENCE * 20, run).await;
    let output = output.expect("the example does not end").unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let lines = "1 lamp at revision 1\nModified: b\"on\"\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), lines, "{stderr}");
}

#[tokio::test]
async fn a_listener_that_the_caller_bound_is_served() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().listener(listener).start().await.unwrap();
    assert_eq!(server.local_addr(), Some(address));
    let client = over_tcp(address).await;
    client.update(put("a", "1")).await.unwrap();
    assert_eq!(names(&client).await, ["a"]);
}

#[tokio::test]
async fn connections_of_any_kind_are_served() {
    let (send, receive) = tokio::sync::mpsc::channel::<std::io::Result<_>>(1);
    let incoming = tokio_stream::wrappers::ReceiverStream::new(receive);
    let server = Server::builder().incoming(incoming).start().await.unwrap();
    assert_eq!(server.local_addr(), None);
    let connector = tower::service_fn(move |_: http::Uri| {
        let send = send.clone();
        async move {
            let (near, far) = tokio::io::duplex(1024);
            send.send(Ok(far)).await.unwrap();
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(near))
        }
    });
    let endpoint = Endpoint::from_static("http://duplex");
    let client = Client::from_channel(endpoint.connect_with_connector(connector).await.unwrap());
    client.update(put("a", "1")).await.unwrap();
    assert_eq!(names(&client).await, ["a"]);
    // A connection that cannot be accepted, and the end of the stream, stop nothing.
    assert_eq!(names(&in_memory(&server).await).await, ["a"]);
}

#[tokio::test]
async fn failing_to_accept_stops_nothing() {
    let refused = || Err(std::io::Error::other("no descriptors left"));
    let (near, far) = tokio::io::duplex(1024);
    let incoming = tokio_stream::iter([refused(), refused(), Ok(far)]);
    let server = Server::builder().incoming(incoming).start().await.unwrap();
    let mut near = Some(near);
    let connector = tower::service_fn(move |_: http::Uri| {
        let near = near.take().map(hyper_util::rt::TokioIo::new);
        async move { near.ok_or_else(|| std::io::Error::other("there was one")) }
    });
    let endpoint = Endpoint::from_static("http://duplex");
    let client = Client::from_channel(endpoint.connect_with_connector(connector).await.unwrap());
    let answer = tokio::time::timeout(PATIENCE, client.update(put("a", "1"))).await;
    answer.expect("not accepted").unwrap();
    // The stream of connections has ended; the server has not.
    assert_eq!(names(&in_memory(&server).await).await, ["a"]);
    assert!(server.is_ready());
}

#[tokio::test]
async fn a_store_that_the_caller_opened_stays_open_after_the_server() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreOptions::default()));
    for round in 1..=2 {
        let server = Server::builder()
            .store(store.clone())
            .start()
            .await
            .unwrap();
        let client = in_memory(&server).await;
        client.update(put(&format!("n{round}"), "1")).await.unwrap();
        assert_eq!(names(&client).await.len(), round);
        assert_eq!(store.progress().revision.get(), round as u64);
        drop(client);
        server.drain();
        ends(server).await;
    }
}

#[tokio::test]
async fn the_callers_shutdown_signal_ends_the_server() {
    let (stop, stopped) = oneshot::channel::<()>();
    let server = Server::builder()
        .listen("127.0.0.1:0")
        .options(endless_grace())
        .shutdown(async {
            let _ = stopped.await;
        })
        .start()
        .await
        .unwrap();
    let address = server.local_addr().unwrap();
    let client = over_tcp(address).await;
    client.update(put("a", "1")).await.unwrap();
    assert_eq!((server.phase(), server.is_ready()), (Phase::Serving, true));
    stop.send(()).unwrap();
    ends(server).await;
    assert!(
        TcpStream::connect(address).await.is_err(),
        "it still listens"
    );
}

#[tokio::test]
async fn the_handle_says_where_the_server_is_in_its_life() {
    let server = Server::builder()
        .options(endless_grace())
        .start()
        .await
        .unwrap();
    assert_eq!((server.phase(), server.is_ready()), (Phase::Serving, true));
    let connector = server.in_memory();
    let client = in_memory(&server).await;
    client.status().await.unwrap();
    server.drain();
    assert_ne!(server.phase(), Phase::Serving);
    assert!(!server.is_ready());
    // Again is no harm.
    server.drain();
    while server.phase() != Phase::Ended {
        tokio::task::yield_now().await;
    }
    ends(server).await;
    let refused = connector.connect().await.unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn a_server_goes_on_without_its_handle() {
    let server = Server::builder()
        .listen("127.0.0.1:0")
        .start()
        .await
        .unwrap();
    let address = server.local_addr().unwrap();
    drop(server);
    let client = over_tcp(address).await;
    client.update(put("a", "1")).await.unwrap();
    assert_eq!(names(&client).await, ["a"]);
}

#[tokio::test]
async fn a_port_that_is_taken_is_an_error_that_names_it() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = Server::builder()
        .listen(&address)
        .start()
        .await
        .unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, ServerError::Listen { .. }), "{error:?}");
    assert!(message.contains(&address), "{message}");
    assert!(message.to_lowercase().contains("in use"), "{message}");
}

#[tokio::test]
async fn an_address_that_is_none_is_an_error_that_names_it() {
    for address in [
        "nonsense",
        "127.0.0.1",
        "127.0.0.1:99999",
        "",
        "256.0.0.1:1",
    ] {
        let error = Server::builder().listen(address).start().await.unwrap_err();
        let named = matches!(&error, ServerError::Listen { address: a, .. } if a == address);
        assert!(named, "{error:?}");
        assert!(error.to_string().starts_with("cannot listen on"), "{error}");
    }
}

#[tokio::test]
async fn two_servers_in_one_process_have_nothing_in_common() {
    let (one, two) = (Harness::start().await, Harness::start().await);
    assert_ne!(one.store.id(), two.store.id());
    one.put("pods", "a", "1").await;
    assert!(two.list("pods").await.resources.is_empty());
    one.server.drain();
    drop((one.client, one.raw));
    ends(one.server).await;
    two.put("pods", "b", "1").await;
    assert_eq!(names(&two.client).await, ["b"]);
}

#[tokio::test]
async fn two_servers_over_one_store_show_the_same() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreOptions::default()));
    let one = Harness::over(store.clone(), ServerOptions::default()).await;
    let two = Harness::over(store, ServerOptions::default()).await;
    let mut watching = two.watch_all("pods").await;
    watching.until(BookmarkKind::InitialStateEnd).await;
    let written = one.put("pods", "a", "1").await;
    watching.through(written.revision).await;
    assert_eq!(names(&two.client).await, ["a"]);
}

#[test]
fn a_runtime_of_one_thread_is_enough() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = Server::builder()
            .listen("127.0.0.1:0")
            .options(endless_grace())
            .start()
            .await
            .unwrap();
        let client = over_tcp(server.local_addr().unwrap()).await;
        let mut watching = client.watch(watch("pods", None)).await.unwrap();
        client.update(put("a", "1")).await.unwrap();
        let mut seen = 0;
        while seen == 0 {
            let next = tokio::time::timeout(PATIENCE, watching.message()).await;
            seen += next.unwrap().unwrap().unwrap().events.len();
        }
        server.drain();
        ends(server).await;
    });
    // And nothing of it keeps the runtime from ending.
    runtime.shutdown_timeout(PATIENCE);
}

#[tokio::test]
async fn tcp_and_memory_reach_the_same_server() {
    let server = Server::builder()
        .listen("127.0.0.1:0")
        .start()
        .await
        .unwrap();
    let near = in_memory(&server).await;
    let far = over_tcp(server.local_addr().unwrap()).await;
    let mut watching = near.watch(watch("pods", None)).await.unwrap();
    far.update(put("a", "1")).await.unwrap();
    near.update(put("b", "1")).await.unwrap();
    assert_eq!(names(&far).await, ["a", "b"]);
    assert_eq!(names(&near).await, ["a", "b"]);
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let next = tokio::time::timeout(PATIENCE, watching.message()).await;
        let response = next.unwrap().unwrap().unwrap();
        seen.extend(
            response
                .events
                .into_iter()
                .map(|e| e.resource.unwrap().key.unwrap().name),
        );
    }
    assert_eq!(seen, ["a", "b"]);
}

/// With the token of its last bookmark a client goes on elsewhere, and misses nothing.
#[tokio::test]
async fn a_watch_hears_that_the_server_goes_away_and_resumes_at_another() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreOptions::default()));
    let one = Harness::over(store.clone(), endless_grace()).await;
    let two = Harness::over(store, ServerOptions::default()).await;
    let mut watching = one.watch_all("pods").await;
    watching.until(BookmarkKind::InitialStateEnd).await;
    one.put("pods", "a", "1").await;
    one.server.drain();
    let responses = watching.until(BookmarkKind::GoingAway).await;
    assert_eq!(watching.next().await.unwrap(), None, "it ends well");
    let missed = two.put("pods", "b", "1").await;
    let mut again = two.resume("pods", &token(&responses)).await;
    let rest = again.through(missed.revision).await;
    let names = |responses: &[v1::WatchResponse]| {
        let events = responses.iter().flat_map(|r| r.events.clone());
        events
            .map(|e| e.resource.unwrap().key.unwrap().name)
            .collect::<Vec<_>>()
    };
    // The change just before may come in either stream, but once.
    assert_eq!([names(&responses), names(&rest)].concat(), ["a", "b"]);
    drop((one.client, one.raw));
    ends(one.server).await;
}

#[tokio::test]
async fn what_is_idle_does_not_hold_up_the_end() {
    let server = Server::builder()
        .listen("127.0.0.1:0")
        .options(endless_grace())
        .start()
        .await
        .unwrap();
    let address = server.local_addr().unwrap();
    // A client that keeps its connection, one that never said anything, one over memory, an
    // HTTP/1.1 connection kept alive, and watches that nobody reads any more.
    let client = over_tcp(address).await;
    client.update(put("a", "1")).await.unwrap();
    let silent = TcpStream::connect(address).await.unwrap();
    let near = in_memory(&server).await;
    near.status().await.unwrap();
    let mut kept_alive = TcpStream::connect(address).await.unwrap();
    kept_alive
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    assert!(kept_alive.read_u8().await.is_ok());
    let mut watches = Vec::new();
    for start in [None, Some(Start::Now(true)), Some(Start::AfterRevision(1))] {
        watches.push(client.watch(watch("pods", start)).await.unwrap());
    }
    server.drain();
    ends(server).await;
    drop((client, silent, near, kept_alive, watches));
}

#[tokio::test]
async fn what_hangs_is_cut_off_when_the_grace_is_over() {
    let server = Server::builder()
        .listen("127.0.0.1:0")
        .options(short_grace())
        .start()
        .await
        .unwrap();
    let address = server.local_addr().unwrap();
    // A request whose end never comes.
    let mut half = TcpStream::connect(address).await.unwrap();
    let head = "POST /listwatch.v1.ListWatchService/Get HTTP/1.1\r\nhost: x\r\n\
                content-type: application/grpc\r\ncontent-length: 100\r\n\r\nabc";
    half.write_all(head.as_bytes()).await.unwrap();
    // A watch whose client stopped reading in the middle of more than fits the pipe.
    let client = over_tcp(address).await;
    for n in 0..40 {
        client
            .update(put(&format!("n{n}"), &"x".repeat(1_000_000)))
            .await
            .unwrap();
    }
    let stuck = client.watch(watch("pods", None)).await.unwrap();
    server.drain();
    ends(server).await;
    let mut reply = Vec::new();
    let read = tokio::time::timeout(PATIENCE, half.read_to_end(&mut reply)).await;
    let _ = read.expect("the connection is still open");
    drop(stuck);
}

/// A write that was acknowledged while the server went away is in the store, and one that
/// was not acknowledged is there at most once.
#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_write_is_lost_when_the_server_goes_away() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new(StoreOptions::default()));
    let harness = Harness::over(store.clone(), endless_grace()).await;
    let (begun, mut first) = tokio::sync::mpsc::channel(8);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let mut raw = harness.raw.clone();
        let begun = begun.clone();
        writers.spawn(async move {
            let mut acknowledged = 0;
            loop {
                let name = format!("w{writer}-{acknowledged}");
                if raw.update(put(&name, "x")).await.is_err() {
                    return acknowledged;
                }
                acknowledged += 1;
                let _ = begun.try_send(());
            }
        });
    }
    for _ in 0..8 {
        first.recv().await.unwrap();
    }
    harness.server.drain();
    let acknowledged = tokio::time::timeout(PATIENCE, writers.join_all())
        .await
        .unwrap();
    let acknowledged: u64 = acknowledged.into_iter().sum();
    drop((harness.client, harness.raw));
    ends(harness.server).await;
    let stored = store.status().object_count;
    assert!(
        (acknowledged..=acknowledged + 8).contains(&stored),
        "{acknowledged} {stored}"
    );
}

#[tokio::test]
async fn the_hub_is_open_to_the_program_around_it() {
    let harness = Harness::start().await;
    let written = harness.put("pods", "a", "1").await;
    let hub = harness.server.hub();
    let settled = hub.settle().await.unwrap();
    assert_eq!(settled.to_wire(), written.revision);
    let key = listwatch_server::store::Key::new("pods", "default", "a").unwrap();
    let (object, _) = hub.get(&key).await.unwrap();
    assert_eq!(object.unwrap().content.value, "1");
}

#[tokio::test]
async fn a_data_folder_is_one_servers_at_a_time_and_outlives_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let start = || {
        Server::builder()
            .data_dir(&path, StoreOptions::default())
            .options(endless_grace())
            .start()
    };
    let server = start().await.unwrap();
    let client = in_memory(&server).await;
    client.update(put("a", "1")).await.unwrap();
    let error = start().await.unwrap_err();
    assert!(matches!(error, ServerError::Store(_)), "{error:?}");
    assert!(
        error.to_string().contains(&path.display().to_string()),
        "{error}"
    );
    drop(client);
    server.drain();
    ends(server).await;
    // Closed when the server has ended: it opens again at once.
    let server = start().await.unwrap();
    assert_eq!(names(&in_memory(&server).await).await, ["a"]);
    server.drain();
    ends(server).await;
}
