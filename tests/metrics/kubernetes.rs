//! Requests in Kubernetes' wire format, in numbers.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use listwatch_server::{ServerHandle, ServerOptions, store::StoreOptions};

use super::{Scrape, until};
use crate::harness::{Harness, options};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const MERGE: &str = "application/merge-patch+json";

async fn send(
    server: &ServerHandle,
    method: Method,
    path: &str,
    body: &'static str,
) -> http::Response<Incoming> {
    let io = TokioIo::new(server.in_memory().connect().await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "test")
        .header("content-type", MERGE);
    let request = match body.is_empty() {
        true => request.body(Full::<Bytes>::default()).unwrap(),
        false => {
            let mut request = request.body(Full::from(body)).unwrap();
            if request.method() != Method::PATCH {
                request.headers_mut().remove("content-type");
            }
            request
        }
    };
    sender.send_request(request).await.unwrap()
}

#[tokio::test]
async fn http_requests_are_counted_by_verb_and_code() {
    let harness = Harness::start().await;
    let server = &harness.server;
    let one = format!("{MAPS}/a");
    let watched = format!("{MAPS}?watch=1");
    let map = r#"{"metadata":{"name":"a"}}"#;
    let patch = r#"{"data":{"k":"v"}}"#;
    let asked: [(Method, &str, &'static str, &str, &str); 17] = [
        (Method::GET, "/apis", "", "discovery", "200"),
        (Method::GET, "/openapi/v9", "", "discovery", "404"),
        (Method::POST, MAPS, map, "create", "201"),
        (Method::POST, MAPS, map, "create", "409"),
        (Method::POST, MAPS, "{", "create", "400"),
        (Method::GET, &one, "", "get", "200"),
        (Method::GET, "/api/v1/nodes/none", "", "get", "404"),
        (Method::GET, MAPS, "", "list", "200"),
        (Method::GET, "/api/v1/pods?limit=x", "", "list", "400"),
        (Method::PUT, &one, map, "update", "200"),
        (Method::PATCH, &one, patch, "patch", "200"),
        (Method::DELETE, &one, "", "delete", "200"),
        (Method::DELETE, MAPS, "", "deletecollection", "200"),
        (
            Method::GET,
            "/api/v1/watch/pods?continue=x",
            "",
            "watch",
            "422",
        ),
        // Of which it is not known what they ask for.
        (Method::GET, "/apis/no.such/v1/things", "", "_other", "404"),
        (Method::TRACE, MAPS, "", "_other", "405"),
        (Method::GET, "/api/v1/pods?%ff=x", "", "_other", "400"),
    ];
    for (method, path, body, verb, code) in &asked {
        let response = send(server, method.clone(), path, body).await;
        assert_eq!(response.status().as_str(), *code, "{verb} {path}");
        response.into_body().collect().await.unwrap();
        let scrape = Scrape::of(server).await;
        let labels = [("verb", *verb), ("code", *code)];
        let counted = scrape.sum("lw_http_requests_total", &labels);
        assert_eq!(counted, 1.0, "{verb} {code}");
    }
    let watching = send(server, Method::GET, &watched, "").await;
    assert_eq!(watching.status(), 200);
    let scrape = Scrape::of(server).await;
    let total = asked.len() as f64 + 1.0;
    assert_eq!(scrape.sum("lw_http_requests_total", &[]), total);
    let timed = scrape.sum("lw_http_request_duration_seconds_count", &[]);
    assert_eq!(timed, total);
    let watches = [("verb", "watch")];
    let timed = scrape.sum("lw_http_request_duration_seconds_count", &watches);
    assert_eq!(timed, 2.0);
    // One that is open is a watch, and no request that is being answered.
    assert_eq!(scrape.sum("lw_http_watches", &[]), 1.0);
    assert_eq!(scrape.sum("lw_watches", &[]), 1.0);
    assert_eq!(scrape.sum("lw_http_requests_inflight", &[]), 0.0);
    // Neither are these RPCs, nor RPCs these.
    assert_eq!(scrape.sum("lw_rpc_duration_seconds_count", &[]), 0.0);
    drop(watching);
    let scrape = until(&harness, |scrape| scrape.sum("lw_http_watches", &[]) == 0.0).await;
    assert_eq!(scrape.sum("lw_http_requests_total", &[]), total);
}

#[tokio::test]
async fn whatever_is_asked_over_http_leaves_the_number_of_series_bounded() {
    let harness = Harness::start().await;
    let mut after_first = 0;
    for n in 0..100 {
        for path in [
            format!("/apis/g{n}.io/v1/things"),
            format!("/api/v1/namespaces/ns{n}/pods/p{n}"),
            format!("/api/v1/pods?labelSelector=a{n}"),
            format!("/openapi/v3/x{n}"),
        ] {
            send(&harness.server, Method::GET, &path, "").await;
        }
        let method = Method::from_bytes(format!("M{n}").as_bytes()).unwrap();
        send(&harness.server, method, MAPS, "").await;
        if n == 0 {
            after_first = Scrape::of(&harness.server).await.series.len();
        }
    }
    let scrape = Scrape::of(&harness.server).await;
    assert_eq!(scrape.series.len(), after_first);
    assert_eq!(scrape.sum("lw_http_requests_total", &[]), 500.0);
}

#[tokio::test]
async fn http_requests_that_are_turned_away_are_counted_with_their_code() {
    let options: ServerOptions = options(|o| o.requests.max_watches = 1);
    let harness = Harness::with(options, StoreOptions::default()).await;
    let path = format!("{MAPS}?watch=1");
    let _open = send(&harness.server, Method::GET, &path, "").await;
    let refused = send(&harness.server, Method::GET, &path, "").await;
    assert_eq!(refused.status(), 429);
    let scrape = Scrape::of(&harness.server).await;
    for code in ["200", "429"] {
        let labels = [("verb", "watch"), ("code", code)];
        let counted = scrape.sum("lw_http_requests_total", &labels);
        assert_eq!(counted, 1.0, "{code}");
    }
    assert_eq!(scrape.sum("lw_http_watches", &[]), 1.0);
}
