//! A plain HTTP client, and what a Kubernetes client would make of the answers.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use listwatch_server::{ServerHandle, ServerOptions, store::StoreOptions};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::harness::{Harness, PATIENCE};

/// A server, and HTTP to it.
pub struct Kube(pub Harness);

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// The object of an answer that must be a success.
    pub fn ok(&self) -> Value {
        let json = self.json();
        assert!(self.status.is_success(), "{}: {json}", self.status);
        json
    }

    /// Code and reason of an answer that must be a failure, which it says of itself.
    pub fn failure(&self) -> (u16, String) {
        let json = self.json();
        assert_eq!(json["kind"], "Status", "{json}");
        assert_eq!(json["apiVersion"], "v1");
        assert_eq!(json["status"], "Failure");
        assert_eq!(json["code"], self.status.as_u16(), "{json}");
        assert!(!json["message"].as_str().unwrap().is_empty());
        let reason = json["reason"].as_str().unwrap();
        (self.status.as_u16(), reason.to_owned())
    }
}

/// A code and its reason.
pub fn refused(code: u16, reason: &str) -> (u16, String) {
    (code, reason.to_owned())
}

/// Sends a request over a connection of its own.
pub async fn send(
    server: &ServerHandle,
    request: Request<Full<Bytes>>,
) -> http::Response<Incoming> {
    let io = server.in_memory().connect().await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    let response = timeout(PATIENCE, sender.send_request(request)).await;
    response.expect("no answer").unwrap()
}

impl Kube {
    pub async fn start() -> Self {
        Self(Harness::start().await)
    }

    pub async fn with(options: ServerOptions) -> Self {
        Self(Harness::with(options, StoreOptions::default()).await)
    }

    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("host", "test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let response = send(&self.0.server, request).await;
        let (parts, body) = response.into_parts();
        let body = timeout(PATIENCE, body.collect()).await;
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: body.expect("the answer does not end").unwrap().to_bytes(),
        }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[], "").await
    }

    pub async fn post(&self, path: &str, object: &Value) -> Answer {
        self.ask(Method::POST, path, &[], object.to_string()).await
    }

    pub async fn put(&self, path: &str, object: &Value) -> Answer {
        self.ask(Method::PUT, path, &[], object.to_string()).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, &[], "").await
    }

    pub async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        self.ask(Method::DELETE, path, &[], options.to_string())
            .await
    }

    pub async fn patch(&self, path: &str, kind: &str, patch: &Value) -> Answer {
        let kind = [("content-type", kind)];
        self.ask(Method::PATCH, path, &kind, patch.to_string())
            .await
    }

    /// Creates a pod in `default`, and returns it.
    pub async fn pod(&self, name: &str) -> Value {
        let pod = json!({"metadata": {"name": name}, "spec": {}});
        self.post(PODS, &pod).await.ok()
    }

    pub async fn labelled_pod(&self, name: &str, labels: &Value) -> Value {
        let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": {}});
        self.post(PODS, &pod).await.ok()
    }

    pub async fn config_map(&self, name: &str) -> Value {
        let map = json!({"metadata": {"name": name}, "data": {"k": "v"}});
        self.post(CONFIG_MAPS, &map).await.ok()
    }

    /// Opens a watch that must be let in.
    pub async fn watch(&self, path: &str) -> Lines {
        self.watch_as(path, &[]).await
    }

    pub async fn watch_as(&self, path: &str, headers: &[(&str, &str)]) -> Lines {
        let mut request = Request::get(path).header("host", "test");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::default()).unwrap();
        let response = send(&self.0.server, request).await;
        let status = response.status();
        assert_eq!(status, StatusCode::OK, "{path}");
        assert_eq!(response.headers()["content-type"], "application/json");
        assert_eq!(response.headers().get("content-length"), None);
        Lines::of(response.into_body())
    }

    pub async fn names(&self, path: &str) -> Vec<String> {
        names(&self.get(path).await.ok())
    }
}

pub const PODS: &str = "/api/v1/namespaces/default/pods";
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The names of a list's items.
pub fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    items.iter().map(name).collect()
}

/// The resourceVersion of an object or list.
pub fn version(of: &Value) -> String {
    of["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The lines of a watch.
pub struct Lines {
    body: Incoming,
    rest: Vec<u8>,
}

impl Lines {
    pub fn of(body: Incoming) -> Self {
        let rest = Vec::new();
        Self { body, rest }
    }

    /// The next event; `None`: the watch has ended well.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = timeout(PATIENCE, self.body.frame()).await;
            match frame.expect("the watch is silent") {
                None => {
                    assert!(self.rest.is_empty(), "it ends in the middle of a line");
                    return None;
                }
                Some(frame) => {
                    let frame = frame.expect("the watch breaks off");
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    /// Type and name of the next event.
    pub async fn event(&mut self) -> (String, String) {
        let event = self.next().await.expect("the watch has ended");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&event["type"]),
            text(&event["object"]["metadata"]["name"]),
        )
    }

    /// The same for some events.
    pub async fn events(&mut self, count: usize) -> Vec<(String, String)> {
        let mut events = Vec::new();
        for _ in 0..count {
            events.push(self.event().await);
        }
        events
    }
}

/// An event, short.
pub fn event(what: &str, name: &str) -> (String, String) {
    (what.to_owned(), name.to_owned())
}
