//! gRPC-web as a browser speaks it: a plain HTTP client that puts the frames together by hand.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use listwatch::v1::{self, watch_request::Start};
use listwatch_server::{ServerHandle, ServerOptions, store::StoreOptions};
use prost::Message;
use tokio::time::timeout;

use crate::harness::{Harness, PATIENCE, key, options, resource, watch};

const SERVICE: &str = "listwatch.v1.ListWatchService";
const BINARY: &str = "application/grpc-web+proto";
const TEXT: &str = "application/grpc-web-text";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Http {
    One,
    Two,
}

/// The message with its prefix; in base64 if need be.
fn framed(message: &impl Message, form: &str) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(message.encoded_len() as u32);
    message.encode(&mut frame).unwrap();
    match form.contains("text") {
        true => STANDARD.encode(&frame).into(),
        false => frame.freeze(),
    }
}

async fn send(
    server: &ServerHandle,
    http: Http,
    request: Request<Full<Bytes>>,
) -> Response<Incoming> {
    let io = TokioIo::new(server.in_memory().connect().await.unwrap());
    let response = match http {
        Http::One => {
            let (mut sender, connection) = http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            timeout(PATIENCE, sender.send_request(request)).await
        }
        Http::Two => {
            let handshake = http2::handshake(TokioExecutor::new(), io).await;
            let (mut sender, connection) = handshake.unwrap();
            tokio::spawn(connection);
            timeout(PATIENCE, sender.send_request(request)).await
        }
    };
    response.expect("no answer").unwrap()
}

fn request(http: Http, method: &str, form: &str, message: &impl Message) -> Request<Full<Bytes>> {
    let host = if http == Http::Two { "http://test" } else { "" };
    let mut request = Request::post(format!("{host}/{SERVICE}/{method}"));
    if http == Http::One {
        request = request.header("host", "test");
    }
    let request = request
        .header("content-type", form)
        .header("x-grpc-web", "1");
    request.body(Full::new(framed(message, form))).unwrap()
}

/// What comes of a call, frame by frame.
struct Frames {
    headers: HeaderMap,
    body: Incoming,
    /// In base64, whose pieces are padded each.
    text: bool,
    read: BytesMut,
}

/// A frame of gRPC-web.
#[derive(Debug)]
enum Frame {
    Message(Bytes),
    /// As a browser sees them: in the body.
    Trailers(Vec<(String, String)>),
}

impl Frames {
    async fn of(server: &ServerHandle, http: Http, request: Request<Full<Bytes>>) -> Self {
        let (parts, body) = send(server, http, request).await.into_parts();
        assert_eq!(parts.status, StatusCode::OK);
        let form = parts.headers["content-type"].to_str().unwrap();
        assert!(form.starts_with("application/grpc-web"), "{form}");
        Self {
            text: form.contains("text"),
            headers: parts.headers,
            body,
            read: BytesMut::new(),
        }
    }

    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(length) = self.read.get(1..5) {
                let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
                if self.read.len() >= 5 + length {
                    let flags = self.read.get_u8();
                    self.read.advance(4);
                    let content = self.read.split_to(length).freeze();
                    return Some(match flags {
                        0 => Frame::Message(content),
                        0x80 => Frame::Trailers(trailers(&content)),
                        flags => panic!("flags {flags:#x}"),
                    });
                }
            }
            let frame = timeout(PATIENCE, self.body.frame()).await;
            let Some(frame) = frame.expect("the response is silent") else {
                assert!(self.read.is_empty(), "it ends in the middle of a frame");
                return None;
            };
            // Trailers of HTTP's own would be lost on a browser.
            let data = frame.expect("it breaks off").into_data().unwrap();
            match self.text {
                // Over memory, a piece comes as it was sent.
                true => self.read.extend_from_slice(&decoded(&data)),
                false => self.read.extend_from_slice(&data),
            }
        }
    }

    async fn message<M: Message + Default>(&mut self) -> M {
        match self.next().await {
            Some(Frame::Message(bytes)) => M::decode(bytes).unwrap(),
            other => panic!("no message: {other:?}"),
        }
    }

    /// The status in the trailers, which are the last that comes.
    async fn end(mut self) -> String {
        let Some(Frame::Trailers(trailers)) = self.next().await else {
            panic!("no trailers");
        };
        assert!(self.next().await.is_none());
        let status = trailers.into_iter().find(|(name, _)| name == "grpc-status");
        status.expect("no status").1
    }
}

/// Pieces of base64, each padded, one after the other.
fn decoded(text: &[u8]) -> Vec<u8> {
    let groups = text.chunks(4);
    groups
        .flat_map(|group| STANDARD.decode(group).unwrap())
        .collect()
}

fn trailers(block: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8(block.to_vec()).unwrap();
    let lines = text.split_terminator("\r\n");
    let pairs = lines.map(|line| line.split_once(':').unwrap());
    pairs
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

fn get(name: &str) -> v1::GetRequest {
    v1::GetRequest {
        key: Some(key("pods", name)),
        ..v1::GetRequest::default()
    }
}

const EVERY_WAY: [(Http, &str); 4] = [
    (Http::One, BINARY),
    (Http::One, TEXT),
    (Http::Two, BINARY),
    (Http::Two, TEXT),
];

#[tokio::test]
async fn a_call_is_answered_with_a_message_and_trailers_in_the_body() {
    let harness = Harness::start().await;
    for (number, (http, form)) in EVERY_WAY.into_iter().enumerate() {
        let name = format!("p{number}");
        let create = v1::CreateRequest {
            resource: Some(resource("pods", &name, "1", &[])),
            ..v1::CreateRequest::default()
        };
        let create = request(http, "Create", form, &create);
        let mut created = Frames::of(&harness.server, http, create).await;
        assert_eq!(created.text, form == TEXT);
        let response: v1::CreateResponse = created.message().await;
        assert!(response.resource.unwrap().revision > 0);
        assert_eq!(created.end().await, "0");

        let get = request(http, "Get", form, &get(&name));
        let mut got = Frames::of(&harness.server, http, get).await;
        let response: v1::GetResponse = got.message().await;
        assert_eq!(response.resource.unwrap().value, "1");
        assert_eq!(got.end().await, "0");
    }
}

#[tokio::test]
async fn an_error_has_its_status_and_its_reason() {
    let harness = Harness::start().await;
    for (http, form) in EVERY_WAY {
        let get = request(http, "Get", form, &get("nowhere"));
        let mut failed = Frames::of(&harness.server, http, get).await;
        // Nothing but headers, which clients of gRPC-web read as such.
        let status = tonic::Status::from_header_map(&failed.headers).unwrap();
        assert_eq!(status.code(), tonic::Code::NotFound);
        assert_eq!(crate::harness::reason(&status), "OBJECT_NOT_FOUND");
        assert!(failed.next().await.is_none());
        // One of the edge's.
        let missing = request(http, "Nothing", form, &get_nothing());
        let failed = Frames::of(&harness.server, http, missing).await;
        let status = tonic::Status::from_header_map(&failed.headers).unwrap();
        assert_eq!(crate::harness::reason(&status), "UNSUPPORTED");
    }
}

fn get_nothing() -> v1::GetRequest {
    v1::GetRequest::default()
}

#[tokio::test]
async fn a_watch_goes_on_and_its_end_is_in_the_body() {
    for (http, form) in EVERY_WAY {
        let harness = Harness::with(
            options(|o| o.shutdown_grace = std::time::Duration::from_secs(1)),
            StoreOptions::default(),
        )
        .await;
        harness.put("pods", "a", "0").await;
        let initial = Some(Start::InitialState(v1::InitialState::default()));
        let opened = request(http, "Watch", form, &watch("pods", initial));
        let mut frames = Frames::of(&harness.server, http, opened).await;
        let mut seen = Vec::new();
        while !seen.contains(&"a".to_owned()) {
            names(&frames.message().await, &mut seen);
        }
        // Each change comes when it is written, not when some buffer is full.
        for name in ["b", "c", "d"] {
            harness.put("pods", name, "1").await;
            while seen.last().is_none_or(|last| last != name) {
                names(&frames.message().await, &mut seen);
            }
        }
        assert_eq!(seen, ["a", "b", "c", "d"]);
        assert_eq!(harness.server.load().watches, 1);
        harness.server.drain();
        let mut last = None;
        let end = loop {
            match frames.next().await {
                Some(Frame::Message(bytes)) => {
                    let response = v1::WatchResponse::decode(bytes).unwrap();
                    last = response.bookmark.map(|bookmark| bookmark.kind());
                }
                Some(Frame::Trailers(trailers)) => break trailers,
                None => panic!("it ends without trailers"),
            }
        };
        assert_eq!(last, Some(v1::BookmarkKind::GoingAway));
        assert!(end.iter().any(|(name, _)| name == "grpc-status"), "{end:?}");
        assert!(frames.next().await.is_none());
    }
}

fn names(response: &v1::WatchResponse, seen: &mut Vec<String>) {
    let resources = response
        .events
        .iter()
        .filter_map(|event| event.resource.as_ref());
    let names = resources.filter_map(|resource| resource.key.as_ref());
    seen.extend(names.map(|key| key.name.clone()));
}

#[tokio::test]
async fn a_watch_whose_client_is_gone_is_forgotten() {
    let harness = Harness::start().await;
    for (http, form) in EVERY_WAY {
        let opened = request(http, "Watch", form, &watch("pods", Some(Start::Now(true))));
        let mut frames = Frames::of(&harness.server, http, opened).await;
        let _: v1::WatchResponse = frames.message().await;
        assert_eq!(harness.server.load().watches, 1);
        drop(frames);
        let gone = async {
            while harness.server.load().watches > 0 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, gone).await.expect("it is still open");
    }
}

#[tokio::test]
async fn limits_hold_as_they_do_for_native_calls() {
    let harness = Harness::with(
        options(|o| {
            o.requests.max_watches = 0;
            o.service.max_object_bytes = 1000;
        }),
        StoreOptions::default(),
    )
    .await;
    for (http, form) in EVERY_WAY {
        let refused = request(http, "Watch", form, &watch("pods", Some(Start::Now(true))));
        let refused = Frames::of(&harness.server, http, refused).await;
        let status = tonic::Status::from_header_map(&refused.headers).unwrap();
        assert_eq!(crate::harness::reason(&status), "TOO_MANY_WATCHES");
        let large = v1::CreateRequest {
            resource: Some(resource("pods", "large", &"x".repeat(2000), &[])),
            ..v1::CreateRequest::default()
        };
        let large = request(http, "Create", form, &large);
        let large = Frames::of(&harness.server, http, large).await;
        let status = tonic::Status::from_header_map(&large.headers).unwrap();
        assert_eq!(crate::harness::reason(&status), "TOO_LARGE");
    }
    assert!(harness.list("pods").await.resources.is_empty());
}

#[tokio::test]
async fn what_is_no_call_is_refused_as_http_does_it() {
    let harness = Harness::start().await;
    let ask = async |method: Method, form: &str, body: &str| {
        let request = Request::builder()
            .method(method)
            .uri(format!("/{SERVICE}/Get"))
            .header("host", "test")
            .header("content-type", form)
            .body(Full::new(Bytes::from(body.to_owned())));
        send(&harness.server, Http::One, request.unwrap()).await
    };
    let unsupported = [
        "application/grpc-web+json",
        "application/grpc-website",
        "text/plain",
    ];
    for form in unsupported {
        let response = ask(Method::POST, form, "x").await;
        assert_eq!(
            response.status(),
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "{form}"
        );
    }
    let get = ask(Method::GET, BINARY, "").await;
    assert_eq!(get.status(), StatusCode::METHOD_NOT_ALLOWED);
    // Neither frames nor base64: an error in gRPC's words, and the server goes on.
    for (form, rubbish) in [
        (BINARY, "rubbish"),
        (TEXT, "!!!"),
        (TEXT, "AAAA"),
        (BINARY, ""),
    ] {
        let response = ask(Method::POST, form, rubbish).await;
        assert_eq!(response.status(), StatusCode::OK);
        let headers = response.headers().clone();
        let status = tonic::Status::from_header_map(&headers).unwrap();
        assert_ne!(status.code(), tonic::Code::Ok, "{form} {rubbish:?}");
    }
    harness.put("pods", "a", "1").await;
}

fn preflight(origin: &str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(Method::OPTIONS)
        .uri(format!("/{SERVICE}/Watch"))
        .header("host", "test")
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type,x-grpc-web")
        .body(Full::default())
        .unwrap()
}

#[tokio::test]
async fn pages_of_other_origins_are_let_in_only_if_named() {
    const HERE: &str = "https://dashboard.example";
    let allowed = |response: &Response<Incoming>| {
        let header = response.headers().get("access-control-allow-origin");
        header.map(|origin| origin.to_str().unwrap().to_owned())
    };
    let closed = Harness::start().await;
    let open = |origin: &str| {
        let origin = origin.parse().unwrap();
        ServerOptions {
            cors_allowed_origins: vec![origin],
            ..ServerOptions::default()
        }
    };
    let named = Harness::with(open(HERE), StoreOptions::default()).await;
    let any = Harness::with(open("*"), StoreOptions::default()).await;
    for (harness, origin, expected) in [
        (&closed, HERE, None),
        (&named, HERE, Some(HERE)),
        (&named, "https://elsewhere.example", None),
        (&any, HERE, Some("*")),
    ] {
        let asked = send(&harness.server, Http::One, preflight(origin)).await;
        assert_eq!(allowed(&asked).as_deref(), expected);
        let mut call = request(Http::One, "Get", BINARY, &get("nowhere"));
        call.headers_mut().insert("origin", origin.parse().unwrap());
        let answered = send(&harness.server, Http::One, call).await;
        assert_eq!(allowed(&answered).as_deref(), expected);
        if expected.is_some() {
            assert_eq!(asked.status(), StatusCode::OK);
            let shown = answered.headers()["access-control-expose-headers"]
                .to_str()
                .unwrap();
            assert!(shown.contains("grpc-status"), "{shown}");
        }
    }
}
