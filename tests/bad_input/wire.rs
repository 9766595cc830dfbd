//! What is no request at all: broken protobuf, broken frames, garbage on the port. The
//! server answers in its own words where it can answer, and goes on serving.

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use listwatch::v1;
use listwatch_server::{Server, ServerOptions, limits};
use prost::Message as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};
use tonic_types::StatusExt as _;
use tower::{Service as _, ServiceExt as _};

use super::{Bed, assert_invalid, metadata};
use crate::harness::{Harness, PATIENCE, key, reason, resource};

/// Every method of ours that can be called.
pub(super) const METHODS: [&str; 11] = [
    "/listwatch.v1.ListWatchService/Get",
    "/listwatch.v1.ListWatchService/List",
    "/listwatch.v1.ListWatchService/Watch",
    "/listwatch.v1.ListWatchService/WatchMany",
    "/listwatch.v1.ListWatchService/Create",
    "/listwatch.v1.ListWatchService/Update",
    "/listwatch.v1.ListWatchService/Delete",
    "/listwatch.v1.ListWatchService/Batch",
    "/listwatch.v1.AdminService/Compact",
    "/listwatch.v1.AdminService/GetStatus",
    "/listwatch.v1.AdminService/Export",
];

/// Those that read a request message before they answer.
fn reads_its_request(method: &str) -> bool {
    !method.ends_with("WatchMany")
}

/// One gRPC frame.
fn framed(flag: u8, length: u32, message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(flag);
    frame.put_u32(length);
    frame.put_slice(message);
    frame.freeze()
}

/// The status that a request body of any bytes gets, and whether any message came.
async fn answer(channel: &Channel, request: http::Request<Full<Bytes>>) -> Result<Bytes, Status> {
    let exchange = async {
        let mut channel = channel.clone();
        let ready = channel.ready().await.unwrap();
        let response = ready
            .call(request.map(tonic::body::Body::new))
            .await
            .unwrap();
        assert_eq!(response.status(), 200, "{response:?}");
        if let Some(status) = Status::from_header_map(response.headers()) {
            return Err(status);
        }
        // Of a stream, its first message shows that it was accepted.
        let mut body = response.into_body();
        let mut given = Bytes::new();
        while let Some(frame) = body.frame().await {
            match frame.unwrap().into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Ok(data),
                Err(trailers) => {
                    let trailers = trailers.into_trailers().unwrap();
                    let status = Status::from_header_map(&trailers).expect("a status");
                    match status.code() {
                        Code::Ok => given = Bytes::new(),
                        _ => return Err(status),
                    }
                }
            }
        }
        Ok(given)
    };
    let answer = tokio::time::timeout(PATIENCE, exchange).await;
    answer.expect("the server does not answer")
}

fn post(method: &str, body: Bytes) -> http::Request<Full<Bytes>> {
    http::Request::post(format!("http://in-memory{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(body))
        .unwrap()
}

/// Calls a method with these bytes for a message.
pub(super) async fn send_bytes(
    channel: &Channel,
    method: &str,
    message: &[u8],
) -> Result<Bytes, Status> {
    let frame = framed(0, message.len() as u32, message);
    answer(channel, post(method, frame)).await
}

/// A protobuf field of a length and bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128 && number < 16);
    let mut field = vec![number << 3 | 2, bytes.len() as u8];
    field.extend(bytes);
    field
}

#[track_caller]
fn assert_undecodable(status: &Status, of: &str) {
    assert_invalid(status, "FIELD_INVALID", "request", of);
}

#[tokio::test]
async fn a_string_that_is_not_utf8_is_refused() {
    let bed = Bed::new().await;
    let before = bed.state().await;
    for bad in [
        &b"\xff"[..],
        b"a\xc3",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
    ] {
        let key_of = |part| {
            let mut key = v1::Key::default().encode_to_vec();
            for number in 1..=3 {
                key.extend(field(number, if number == part { bad } else { b"a" }));
            }
            key
        };
        for part in 1..=3 {
            let key = key_of(part);
            let resource = field(1, &field(1, &key));
            let label = [
                field(1, &field(1, &key_of(9))),
                field(1, &field(6, &field(1, bad))),
            ]
            .concat();
            let selector = field(1, &field(part, bad));
            let table = [
                ("/listwatch.v1.ListWatchService/Get", field(1, &key)),
                ("/listwatch.v1.ListWatchService/Delete", field(1, &key)),
                ("/listwatch.v1.ListWatchService/Create", resource.clone()),
                ("/listwatch.v1.ListWatchService/Update", resource),
                ("/listwatch.v1.ListWatchService/Create", label),
                ("/listwatch.v1.ListWatchService/Create", field(3, bad)),
                ("/listwatch.v1.ListWatchService/Batch", field(2, bad)),
                ("/listwatch.v1.ListWatchService/List", selector.clone()),
                ("/listwatch.v1.ListWatchService/List", field(3, bad)),
                ("/listwatch.v1.ListWatchService/Watch", selector),
                ("/listwatch.v1.ListWatchService/Watch", field(3, bad)),
            ];
            for (method, message) in table {
                let status = send_bytes(&bed.channel, method, &message)
                    .await
                    .unwrap_err();
                assert_undecodable(&status, &format!("{method} {message:?}"));
            }
        }
    }
    assert_eq!(bed.state().await, before);
}

#[tokio::test]
async fn bytes_that_are_no_message_are_refused_by_every_method() {
    let bed = Bed::new().await;
    let before = bed.state().await;
    let garbage: [&[u8]; 6] = [
        b"\xff",
        b"\x0a",
        // A length beyond the end, a group that never ends, a tag of zero, a long varint.
        b"\x0a\x7fabc",
        b"\x0b\x08\x01",
        b"\x00\x00",
        b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ];
    for method in METHODS.into_iter().filter(|m| reads_its_request(m)) {
        for message in garbage {
            let status = send_bytes(&bed.channel, method, message).await.unwrap_err();
            assert_undecodable(&status, &format!("{method} {message:?}"));
        }
    }
    assert_eq!(bed.state().await, before);
}

/// Every cut of a real message either still is one or is refused; it never hangs.
#[tokio::test]
async fn a_message_that_was_cut_is_never_taken_for_another_fault() {
    let bed = Bed::new().await;
    let request = v1::CreateRequest {
        resource: Some(resource("pods", "a", "value", &[("app", "x")])),
        request_id: "id".into(),
        ttl: Some(prost_types::Duration {
            seconds: 60,
            nanos: 1,
        }),
    };
    let whole = request.encode_to_vec();
    let before = bed.state().await;
    let method = "/listwatch.v1.ListWatchService/Create";
    for end in 0..=whole.len() {
        let status = send_bytes(&bed.channel, method, &whole[..end])
            .await
            .unwrap_err();
        let wanted = ["FIELD_INVALID", "OBJECT_EXISTS"];
        assert!(
            wanted.contains(&reason(&status).as_str()),
            "{end}: {status:?}"
        );
    }
    assert_eq!(bed.state().await, before);
}

#[tokio::test]
async fn a_broken_grpc_frame_is_refused() {
    let bed = Bed::new().await;
    let before = bed.state().await;
    let message = v1::GetRequest {
        key: Some(key("pods", "a")),
        ..v1::GetRequest::default()
    }
    .encode_to_vec();
    let length = message.len() as u32;
    let whole = framed(0, length, &message);
    let bodies = [
        Bytes::new(),
        whole.slice(..3),
        whole.slice(..5),
        whole.slice(..whole.len() - 1),
        framed(0, length + 1, &message),
        framed(1, length, &message),
        framed(2, length, &message),
        framed(255, length, &message),
    ];
    for method in METHODS.into_iter().filter(|m| reads_its_request(m)) {
        for body in &bodies {
            let status = answer(&bed.channel, post(method, body.clone()))
                .await
                .unwrap_err();
            assert_undecodable(&status, &format!("{method} {body:?}"));
        }
    }
    assert_eq!(bed.state().await, before);
}

#[tokio::test]
async fn a_frame_that_claims_gigabytes_is_refused_unread_by_every_method() {
    let bed = Bed::new().await;
    let limit = 2 * limits::MAX_BATCH_BYTES;
    for method in METHODS.into_iter().filter(|m| reads_its_request(m)) {
        for claimed in [limit as u32 + 1, u32::MAX] {
            let body = framed(0, claimed, b"x");
            let status = answer(&bed.channel, post(method, body)).await.unwrap_err();
            assert_invalid(&status, "TOO_LARGE", "request", method);
            assert_eq!(metadata(&status, "limit"), limit.to_string(), "{method}");
            assert_eq!(metadata(&status, "size"), claimed.to_string(), "{method}");
        }
    }
}

#[tokio::test]
async fn what_this_server_does_not_have_is_unsupported() {
    let bed = Bed::new().await;
    let unknown = [
        "/listwatch.v1.ListWatchService/Nothing",
        "/listwatch.v1.ListWatchService/get",
        "/listwatch.v1.AdminService/Get",
        "/listwatch.v2.ListWatchService/Get",
        "/listwatch.v1.ListWatchService/",
        "/other.Service/Method",
        "/",
    ];
    for method in unknown {
        let status = send_bytes(&bed.channel, method, b"").await.unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented, "{method}");
        assert_eq!(reason(&status), "UNSUPPORTED", "{method}");
    }
    // A compression that was never offered.
    let mut request = post(METHODS[0], framed(1, 3, b"abc"));
    request
        .headers_mut()
        .insert("grpc-encoding", "br".parse().unwrap());
    let status = answer(&bed.channel, request).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    assert_eq!(reason(&status), "UNSUPPORTED");
}

#[tokio::test]
async fn a_request_that_is_not_grpc_never_reaches_the_store() {
    let bed = Bed::new().await;
    let before = bed.state().await;
    let create = v1::CreateRequest {
        resource: Some(resource("pods", "new", "x", &[])),
        ..v1::CreateRequest::default()
    }
    .encode_to_vec();
    let body = framed(0, create.len() as u32, &create);
    let refused = async |request: http::Request<Full<Bytes>>, status: u16| {
        let mut channel = bed.channel.clone();
        let ready = channel.ready().await.unwrap();
        let response = ready.call(request.map(tonic::body::Body::new));
        let response = tokio::time::timeout(PATIENCE, response)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(response.status().as_u16(), status, "{response:?}");
    };
    for content_type in [
        "",
        "application/json",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/grpc-webby",
        "application/grpc+json",
        "\u{e9}",
    ] {
        let mut request = post("/listwatch.v1.ListWatchService/Create", body.clone());
        let value = http::HeaderValue::from_bytes(content_type.as_bytes()).unwrap();
        request.headers_mut().insert("content-type", value);
        refused(request, 415).await;
    }
    let mut without = post("/listwatch.v1.ListWatchService/Create", body.clone());
    without.headers_mut().remove("content-type");
    refused(without, 415).await;
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        let mut request = post("/listwatch.v1.ListWatchService/Create", body.clone());
        *request.method_mut() = method.parse().unwrap();
        refused(request, 405).await;
    }
    assert_eq!(bed.state().await, before);
}

#[tokio::test]
async fn the_spellings_of_grpc_are_taken() {
    let bed = Bed::new().await;
    let message = v1::GetRequest {
        key: Some(key("pods", "a")),
        ..v1::GetRequest::default()
    }
    .encode_to_vec();
    for spelling in [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc; charset=utf-8",
    ] {
        let mut request = post(METHODS[0], framed(0, message.len() as u32, &message));
        let headers = request.headers_mut();
        headers.insert("content-type", spelling.parse().unwrap());
        assert!(answer(&bed.channel, request).await.is_ok(), "{spelling}");
    }
}

/// A server on a port, which must go on serving whatever else comes in.
struct Port {
    server: listwatch_server::ServerHandle,
    client: listwatch_client::Client,
}

impl Port {
    async fn open() -> Self {
        // What holds up the end would hold it up for ever.
        let options = ServerOptions {
            shutdown_grace: Duration::from_secs(24 * 3600),
            ..ServerOptions::default()
        };
        let server = Server::builder()
            .listen("127.0.0.1:0")
            .options(options)
            .start()
            .await
            .unwrap();
        let address = server.local_addr().unwrap();
        let client = listwatch_client::Client::connect(format!("http://{address}"));
        Self {
            client: client.await.unwrap(),
            server,
        }
    }

    async fn connect(&self) -> TcpStream {
        let address = self.server.local_addr().unwrap();
        TcpStream::connect(address).await.unwrap()
    }

    async fn still_serves(&self) {
        // On the connection that was there, and on a new one.
        self.client.status().await.unwrap();
        let address = self.server.local_addr().unwrap();
        let again = listwatch_client::Client::connect(format!("http://{address}"));
        again.await.unwrap().status().await.unwrap();
    }

    async fn ends(self) {
        drop(self.client);
        self.server.drain();
        let joined = tokio::time::timeout(PATIENCE, self.server.join()).await;
        joined.expect("the server does not end").unwrap();
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[tokio::test]
async fn garbage_on_the_port_disturbs_nobody() {
    let port = Port::open().await;
    let clienthello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let after_preface = |frame: &[u8]| [PREFACE, frame].concat();
    let rubbish: Vec<Vec<u8>> = vec![
        vec![],
        vec![0; 4096],
        vec![0xff; 100_000],
        b"hello\r\n\r\n".to_vec(),
        b"GET\r\n\r\n".to_vec(),
        b"GET / HTTP/9.9\r\n\r\n".to_vec(),
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n".to_vec(),
        b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(),
        clienthello.to_vec(),
        PREFACE[..12].to_vec(),
        PREFACE.to_vec(),
        after_preface(&[0xff; 64]),
        // SETTINGS of an impossible length, DATA for a stream that is not open, a
        // WINDOW_UPDATE of nothing, HEADERS that are no HPACK, CONTINUATION of nothing.
        after_preface(b"\0\0\x05\x04\0\0\0\0\0abcde"),
        after_preface(b"\0\0\0\x04\0\0\0\0\0\0\0\x01\0\x01\0\0\0\x01x"),
        after_preface(b"\0\0\0\x04\0\0\0\0\0\0\0\x04\x08\0\0\0\0\0\0\0\0\0"),
        after_preface(b"\0\0\0\x04\0\0\0\0\0\0\0\x04\x01\x05\0\0\0\x01\xff\xff\xff\xff"),
        after_preface(b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x09\x04\0\0\0\x01x"),
    ];
    for bytes in &rubbish {
        let mut connection = port.connect().await;
        // The server may have hung up by then.
        let _ = connection.write_all(bytes).await;
        let _ = connection.shutdown().await;
        let mut reply = Vec::new();
        let read = tokio::time::timeout(PATIENCE, connection.read_to_end(&mut reply)).await;
        let _ = read.unwrap_or_else(|_| panic!("{bytes:.40?} keeps its connection"));
        port.still_serves().await;
    }
    port.ends().await;
}

#[tokio::test]
async fn connections_that_say_half_a_thing_hold_up_neither_others_nor_the_end() {
    let port = Port::open().await;
    let mut silent = Vec::new();
    for length in 0..PREFACE.len() {
        let mut connection = port.connect().await;
        connection.write_all(&PREFACE[..length]).await.unwrap();
        silent.push(connection);
    }
    for half in [
        &b"GET / HT"[..],
        b"POST / HTTP/1.1\r\nhost: x\r\n",
        b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nabc",
    ] {
        let mut connection = port.connect().await;
        connection.write_all(half).await.unwrap();
        silent.push(connection);
    }
    port.still_serves().await;
    let Port { server, client } = port;
    drop(client);
    server.drain();
    // Those that have begun a request get the grace; the rest are closed at once.
    drop(silent.split_off(PREFACE.len()));
    let joined = tokio::time::timeout(PATIENCE, server.join()).await;
    joined
        .expect("silent connections hold the server up")
        .unwrap();
    drop(silent);
}

#[tokio::test]
async fn an_http1_request_gets_an_http_answer() {
    let port = Port::open().await;
    for request in [
        "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
        "GET /healthz HTTP/1.0\r\n\r\n",
        "POST /listwatch.v1.ListWatchService/Get HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}",
    ] {
        let mut connection = port.connect().await;
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut reply = Vec::new();
        let read = tokio::time::timeout(PATIENCE, connection.read_to_end(&mut reply)).await;
        read.expect("no answer").unwrap();
        assert!(reply.starts_with(b"HTTP/1."), "{}", reply.escape_ascii());
    }
    port.still_serves().await;
    port.ends().await;
}

/// What any web page can make a browser send to a server on the same machine.
#[tokio::test]
async fn a_web_page_cannot_write() {
    let port = Port::open().await;
    let create = v1::CreateRequest {
        resource: Some(resource("pods", "new", "x", &[])),
        ..v1::CreateRequest::default()
    }
    .encode_to_vec();
    let body = framed(0, create.len() as u32, &create);
    let simple = [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ];
    for content_type in simple {
        let head = format!(
            "POST /listwatch.v1.ListWatchService/Create HTTP/1.1\r\nhost: x\r\n\
             origin: http://example.com\r\nconnection: close\r\n\
             content-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
            body.len(),
        );
        let mut connection = port.connect().await;
        let request = [head.as_bytes(), &body].concat();
        connection.write_all(&request).await.unwrap();
        let mut reply = Vec::new();
        let read = tokio::time::timeout(PATIENCE, connection.read_to_end(&mut reply)).await;
        read.expect("no answer").unwrap();
        assert!(
            reply.starts_with(b"HTTP/1.1 415 "),
            "{}",
            reply.escape_ascii()
        );
    }
    assert_eq!(port.client.status().await.unwrap().revision, 0);
    port.ends().await;
}

/// What a client sends for one Create, byte for byte.
async fn recorded_create() -> Vec<u8> {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    let mut near = Some(near);
    let connector = tower::service_fn(move |_: http::Uri| {
        let near = near.take();
        async move {
            near.map(hyper_util::rt::TokioIo::new)
                .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
        }
    });
    let channel = Endpoint::from_static("http://in-memory").connect_with_connector_lazy(connector);
    let mut service = v1::list_watch_service_client::ListWatchServiceClient::new(channel);
    let request = v1::CreateRequest {
        resource: Some(resource("pods", "cut", "the value, whole", &[])),
        ..v1::CreateRequest::default()
    };
    let call = tokio::spawn(async move { service.create(request).await });
    let mut recorded = Vec::new();
    let value = b"the value, whole";
    while !recorded.windows(value.len()).any(|part| part == value) {
        let read = tokio::time::timeout(PATIENCE, far.read_buf(&mut recorded)).await;
        assert!(read.expect("the client sends nothing").unwrap() > 0);
    }
    call.abort();
    let end = recorded.windows(value.len()).position(|part| part == value);
    recorded.truncate(end.unwrap() + value.len());
    recorded
}

#[tokio::test]
async fn a_connection_that_breaks_off_anywhere_in_a_request_writes_nothing() {
    let harness = Harness::start().await;
    let recorded = recorded_create().await;
    for end in 0..recorded.len() {
        let mut connection = harness.server.in_memory().connect().await.unwrap();
        connection.write_all(&recorded[..end]).await.unwrap();
        // Half closed, so that the server has seen it all when it closes its own half.
        connection.shutdown().await.unwrap();
        let mut reply = Vec::new();
        let read = tokio::time::timeout(PATIENCE, connection.read_to_end(&mut reply)).await;
        let _ = read.unwrap_or_else(|_| panic!("cut at {end}: the connection stays"));
        assert_eq!(harness.store.progress().revision.get(), 0, "cut at {end}");
    }
    assert_eq!(harness.put("pods", "a", "1").await.revision, 1);
}

#[tokio::test]
async fn a_connection_with_any_byte_altered_ends_and_the_server_goes_on() {
    let harness = Harness::start().await;
    let recorded = recorded_create().await;
    for place in 0..recorded.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut altered = recorded.clone();
            altered[place] ^= flip;
            let mut connection = harness.server.in_memory().connect().await.unwrap();
            let _ = connection.write_all(&altered).await;
            let _ = connection.shutdown().await;
            let mut reply = Vec::new();
            let read = tokio::time::timeout(PATIENCE, connection.read_to_end(&mut reply)).await;
            let _ = read.unwrap_or_else(|_| panic!("byte {place} ^ {flip}: the connection stays"));
        }
    }
    harness.put("pods", "a", "1").await;
    harness.server.drain();
    let joined = tokio::time::timeout(PATIENCE, harness.server.join()).await;
    drop(harness.client);
    drop(harness.raw);
    joined.expect("the server does not end").unwrap();
}

#[tokio::test]
async fn metadata_beyond_the_limit_is_refused_and_the_connection_lives() {
    let bed = Bed::new().await;
    let mut request = post(METHODS[0], framed(0, 0, b""));
    let long = "x".repeat(100_000);
    request
        .headers_mut()
        .insert("x-long", long.parse().unwrap());
    let mut channel = bed.channel.clone();
    let response = channel
        .ready()
        .await
        .unwrap()
        .call(request.map(tonic::body::Body::new));
    let response = tokio::time::timeout(PATIENCE, response).await.unwrap();
    let refused = response.is_err() || response.is_ok_and(|r| r.status().is_client_error());
    assert!(refused);
    bed.accepts(v1::GetRequest {
        key: Some(key("pods", "a")),
        ..v1::GetRequest::default()
    })
    .await;
}

#[tokio::test]
async fn every_answer_to_rubbish_has_the_domain_of_this_server() {
    let bed = Bed::new().await;
    for method in METHODS {
        if let Err(status) = send_bytes(&bed.channel, method, b"\xff\xff").await {
            let details = status.get_error_details();
            let info = details.error_info().expect("an ErrorInfo");
            assert_eq!(info.domain, "listwatch", "{method}");
        }
    }
}
