//! Requests over HTTP, as Kubernetes' clients send them.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::time::timeout;

use super::bed::{Bed, PATIENCE, with_bed};

/// What stands between requests of one input.
const BETWEEN: &[u8] = b"\n\x1e\n";
/// Requests of one input.
const MOST_REQUESTS: usize = 4;
/// The end of a watch that goes on is not waited for.
const MOST_FRAMES: usize = 64;

/// Requests, one after the other: a line of method and target, one of content type, one of what
/// is accepted, then the body.
///
/// Each is answered. What is refused has a Status as Kubernetes has it, and the store is as it
/// was; what is written can be read, and written as it was read without a change.
pub fn gateway(data: &[u8]) {
    let mut requests = Vec::new();
    let mut rest = data;
    while requests.len() < MOST_REQUESTS && !rest.is_empty() {
        let end = rest.windows(BETWEEN.len()).position(|w| w == BETWEEN);
        let (request, after) = match end {
            Some(end) => (&rest[..end], &rest[end + BETWEEN.len()..]),
            None => (rest, &[][..]),
        };
        rest = after;
        requests.extend(Asked::read(request));
    }
    if requests.is_empty() {
        return;
    }
    with_bed(async |bed| {
        for asked in requests {
            check(bed, &asked).await;
        }
    });
}

#[derive(Clone, Debug)]
struct Asked {
    method: Method,
    target: Uri,
    content_type: String,
    accept: String,
    body: Bytes,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    ended: bool,
}

impl Asked {
    /// `None`: no client can send this.
    fn read(data: &[u8]) -> Option<Self> {
        let mut lines = data.splitn(4, |byte| *byte == b'\n');
        let mut line = || std::str::from_utf8(lines.next().unwrap_or_default()).ok();
        let (first, content_type, accept) = (line()?, line()?, line()?);
        let body = Bytes::copy_from_slice(lines.next().unwrap_or_default());
        let (method, target) = first.split_once(' ')?;
        let target: Uri = target.parse().ok()?;
        if !target.path().starts_with('/') || target.authority().is_some() {
            return None;
        }
        let asked = Self {
            method: method.parse().ok()?,
            target,
            content_type: content_type.to_owned(),
            accept: accept.to_owned(),
            body,
        };
        // A tunnel is no request, and an answer to HEAD has no body to look at.
        if matches!(asked.method, Method::CONNECT | Method::HEAD) {
            return None;
        }
        asked.request().map(|_| asked)
    }

    fn request(&self) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.target.clone())
            .header(header::HOST, "test");
        let headers = [
            (header::CONTENT_TYPE, &self.content_type),
            (header::ACCEPT, &self.accept),
        ];
        for (name, value) in headers.into_iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(name, value);
        }
        request.body(Full::new(self.body.clone())).ok()
    }

    /// It is for the part of the server that speaks Kubernetes' API.
    fn is_kubernetes(&self) -> bool {
        let first = self.target.path().split('/').nth(1).unwrap_or_default();
        ["api", "apis", "version", "openapi"].contains(&first)
    }

    fn is_dry_run(&self) -> bool {
        self.target
            .query()
            .is_some_and(|query| query.contains("dryRun"))
    }
}

async fn check(bed: &Bed, asked: &Asked) {
    let before = bed.state().await;
    let Some(answer) = ask(bed, asked).await else {
        return;
    };
    if !asked.is_kubernetes() {
        return;
    }
    let status = answer.status;
    if !status.is_success() {
        refused(asked, &answer);
    }
    let changes = matches!(
        asked.method,
        Method::POST | Method::PUT | Method::PATCH | Method::DELETE
    );
    if !status.is_success() || !changes {
        assert_eq!(bed.state().await, before, "{asked:?}: {status}");
    } else if !asked.is_dry_run() && asked.method != Method::DELETE {
        written(bed, asked, &answer).await;
    }
}

/// `None`: it was answered, and the answer goes on.
async fn ask(bed: &Bed, asked: &Asked) -> Option<Answer> {
    let stream = bed.connect().await;
    let exchange = async {
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.expect("a connection");
        let connection = tokio::spawn(connection);
        let request = asked.request().expect("a request");
        let response = sender.send_request(request).await;
        let response = response.unwrap_or_else(|error| panic!("{asked:?}: {error}"));
        let (parts, mut body) = response.into_parts();
        let (mut read, mut ended) = (Vec::new(), false);
        for _ in 0..MOST_FRAMES {
            match body.frame().await {
                Some(frame) => {
                    let frame = frame.unwrap_or_else(|error| panic!("{asked:?}: {error}"));
                    read.extend(frame.into_data().unwrap_or_default());
                }
                None => {
                    ended = true;
                    break;
                }
            }
        }
        connection.abort();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: read.into(),
            ended,
        }
    };
    let answer = timeout(PATIENCE, exchange).await;
    if answer.is_err() {
        let text = asked.target.to_string();
        assert!(text.contains("watch"), "no answer to {asked:?}");
    }
    answer.ok().filter(|answer| answer.ended)
}

/// A Status that says of itself what the response is.
fn refused(asked: &Asked, answer: &Answer) {
    let status = answer.status;
    let what = || format!("{asked:?}: {status} {:?}", answer.body);
    // Above 500 there is what the client asked for: 501 to 504 are no faults.
    assert_ne!(status, StatusCode::INTERNAL_SERVER_ERROR, "{}", what());
    assert!(status.as_u16() >= 400, "{}", what());
    assert_eq!(
        answer.headers[header::CONTENT_TYPE],
        "application/json",
        "{}",
        what()
    );
    let Ok(json) = serde_json::from_slice::<Value>(&answer.body) else {
        panic!("{}", what());
    };
    assert_eq!(json["kind"], "Status", "{}", what());
    assert_eq!(json["apiVersion"], "v1", "{}", what());
    assert_eq!(json["status"], "Failure", "{}", what());
    assert_eq!(json["code"], status.as_u16(), "{}", what());
    for text in ["message", "reason"] {
        let text = json[text].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "{}", what());
    }
}

/// What is there after a write can be read, and written back, which changes nothing.
async fn written(bed: &Bed, asked: &Asked, answer: &Answer) {
    let Ok(json) = serde_json::from_slice::<Value>(&answer.body) else {
        return;
    };
    let (Some(name), Some(_)) = (
        json.pointer("/metadata/name").and_then(Value::as_str),
        json.pointer("/metadata/resourceVersion"),
    ) else {
        return;
    };
    let path = asked.target.path().trim_end_matches('/');
    let path = match asked.method {
        Method::POST => format!("{path}/{name}"),
        _ => path.to_owned(),
    };
    let Ok(target) = path.parse() else {
        return;
    };
    let read = Asked {
        method: Method::GET,
        target,
        content_type: String::new(),
        accept: String::new(),
        body: Bytes::new(),
    };
    let Some(got) = ask(bed, &read).await else {
        panic!("{read:?} is not answered");
    };
    // An object whose last finalizer went is gone.
    if got.status == StatusCode::NOT_FOUND && asked.method != Method::POST {
        return;
    }
    assert_eq!(got.status, StatusCode::OK, "{read:?} after {asked:?}");
    if json["kind"] != "Table" && json["kind"] != "PartialObjectMetadata" {
        let got: Value = serde_json::from_slice(&got.body).expect("JSON");
        assert_eq!(got, json, "{asked:?}");
    }
    let before = bed.state().await;
    let back = Asked {
        method: Method::PUT,
        body: got.body.clone(),
        ..read
    };
    let Some(put) = ask(bed, &back).await else {
        panic!("{back:?} is not answered");
    };
    let said = String::from_utf8_lossy(&put.body);
    assert_eq!(
        put.status,
        StatusCode::OK,
        "{back:?} after {asked:?}: {said}"
    );
    let after = bed.state().await;
    assert!(
        after == before,
        "{back:?} after {asked:?} changes something"
    );
}
