//! Watches as the transport pulls them, through the route that every request takes: they end
//! when server or connection go, and leave their places whenever they are given up.

use std::convert::Infallible;

use bytes::{Buf as _, Bytes};
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use listwatch::v1::{
    self, admin_service_server::AdminService as _, watch_many_request::Kind, watch_request::Start,
};
use prost::Message;
use tokio::sync::watch as signal;
use tonic::body::Body;
use tower::{Layer as _, Service as _};

use super::*;
use crate::{
    metrics::RpcFigures,
    peer::Peer,
    service::{Connection, Departure, RequestOptions, Service, ServiceOptions, WatchRoute},
};

const WATCH: &str = "/listwatch.v1.ListWatchService/Watch";
const WATCH_MANY: &str = "/listwatch.v1.ListWatchService/WatchMany";

/// What serves watches, without a network.
#[derive(Clone)]
struct Served {
    service: Service,
    departure: Arc<signal::Sender<Option<Departure>>>,
    connection: Arc<Connection>,
}

impl Served {
    async fn new() -> Self {
        let (departure, departs) = signal::channel(None);
        let options = ServiceOptions {
            seed: Some(1),
            ..ServiceOptions::default()
        };
        let limit = RequestOptions::default().watch_limit(Arc::default());
        let rpcs = Arc::new(RpcFigures::new(&[]));
        Self {
            service: Service::new(hub(2).await, options, departs, limit, rpcs),
            departure: Arc::new(departure),
            connection: Connection::new(Peer::Tcp(([10, 0, 0, 1], 1).into())),
        }
    }

    fn store(&self) -> &Arc<dyn Store> {
        self.service.store()
    }

    /// As the server says it when it is told to stop.
    fn leave(&self) {
        let departure = Departure::new(self.service.watch_limit().open(), Duration::ZERO);
        self.departure.send_replace(Some(departure));
        self.service.hub().wake_watches();
    }

    /// Has a stream opened.
    fn call(&self, path: &str, messages: &[impl Message]) -> Answer {
        let mut body = Vec::new();
        for message in messages {
            body.push(0);
            body.extend((message.encoded_len() as u32).to_be_bytes());
            message.encode(&mut body).unwrap();
        }
        let mut request = Request::new(Body::new(Full::new(Bytes::from(body))));
        *request.uri_mut() = path.parse().unwrap();
        request.extensions_mut().insert(self.connection.clone());
        let elsewhere = tower::service_fn(
            async |_: Request<Body>| -> Result<Response<Body>, Infallible> { panic!("no watch") },
        );
        let route = WatchRoute {
            service: self.service.clone(),
            max_request_bytes: 1 << 20,
        };
        Box::pin(route.layer(elsewhere).call(request))
    }

    fn watch(&self, start: Start) -> Answer {
        self.call(WATCH, &[request(start)])
    }

    /// Nobody is left.
    async fn is_quiet(&self) {
        assert_eq!(self.service.watch_limit().open(), 0, "a seat is missing");
        assert!(self.connection.holds_no_stream());
        let listed = self
            .service
            .list_watches(tonic::Request::new(v1::ListWatchesRequest::default()))
            .await;
        assert!(listed.unwrap().into_inner().watches.is_empty());
        let counts = self.service.hub().counts();
        assert!(counts.iter().all(|c| c.watches == 0), "{counts:?}");
    }
}

type Answer = BoxFuture<'static, Result<Response<Body>, Infallible>>;

fn request(start: Start) -> v1::WatchRequest {
    v1::WatchRequest {
        selector: Some(v1::Selector {
            collection: "pods".into(),
            ..v1::Selector::default()
        }),
        start: Some(start),
        ..v1::WatchRequest::default()
    }
}

/// Takes a stream's messages until it ends.
async fn pull<M: Message + Default>(answer: Answer, mut take: impl FnMut(M)) {
    let Ok(response) = answer.await;
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let Ok(mut bytes) = frame.unwrap().into_data() else {
            continue;
        };
        // No compression, and its length.
        bytes.advance(5);
        take(M::decode(bytes).unwrap());
    }
}

fn revisions(response: &v1::WatchResponse) -> Vec<i64> {
    let resources = response.events.iter().filter_map(|e| e.resource.as_ref());
    resources.map(|resource| resource.revision).collect()
}

#[test]
fn every_watch_ends_when_the_server_goes() {
    in_any_order(|| async {
        let served = Served::new().await;
        let watches: Vec<_> = [Start::Now(true), Start::InitialState(Default::default())]
            .into_iter()
            .map(|start| {
                let served = served.clone();
                spawn(pull(served.watch(start), |_: v1::WatchResponse| {}))
            })
            .collect();
        put(served.store(), key("pods", "a"), "x").await;
        served.leave();
        all(watches).await;
        served.is_quiet().await;
    });
}

#[test]
fn every_stream_ends_when_its_connection_goes() {
    in_any_order(|| async {
        let served = Served::new().await;
        let watch = pull(served.watch(Start::Now(true)), |_: v1::WatchResponse| {});
        let many = v1::WatchManyRequest {
            watch_id: 1,
            kind: Some(Kind::Watch(request(Start::Now(true)))),
        };
        let many = served.call(WATCH_MANY, &[many]);
        let streams = [
            spawn(watch),
            spawn(pull(many, |_: v1::WatchManyResponse| {})),
        ];
        put(served.store(), key("pods", "a"), "x").await;
        served.connection.leave();
        all(streams.into()).await;
        served.is_quiet().await;
    });
}

#[test]
fn every_watch_ends_when_the_hub_stops() {
    in_any_order(|| async {
        let served = Served::new().await;
        let watch = served.watch(Start::InitialState(Default::default()));
        let watch = spawn(pull(watch, |_: v1::WatchResponse| {}));
        served.service.hub().stop();
        all(vec![watch]).await;
        served.is_quiet().await;
    });
}

#[test]
fn a_stream_that_is_given_up_at_any_moment_leaves_its_places() {
    in_any_order(|| async {
        let served = Served::new().await;
        let many = v1::WatchManyRequest {
            watch_id: 1,
            kind: Some(Kind::Watch(request(Start::Now(true)))),
        };
        let streams = [
            spawn(pull(
                served.watch(Start::InitialState(Default::default())),
                |_: v1::WatchResponse| {},
            )),
            spawn(pull(
                served.call(WATCH_MANY, &[many]),
                |_: v1::WatchManyResponse| {},
            )),
        ];
        put(served.store(), key("pods", "a"), "x").await;
        for stream in streams {
            stream.abort();
            assert!(stream.await.is_err());
        }
        served.is_quiet().await;
    });
}

#[test]
fn every_watch_of_a_stream_gets_every_change_whether_they_become_one_or_not() {
    const LAST: i64 = 3;
    in_any_order(|| async {
        let served = Served::new().await;
        // The first two want the same.
        let previous = [false, false, true];
        let messages: Vec<_> = (0i64..)
            .zip(previous)
            .map(|(id, send_previous)| v1::WatchManyRequest {
                watch_id: id,
                kind: Some(Kind::Watch(v1::WatchRequest {
                    send_previous,
                    ..request(Start::InitialState(Default::default()))
                })),
            })
            .collect();
        let answer = served.call(WATCH_MANY, &messages);
        let follows = spawn({
            let served = served.clone();
            async move {
                let mut seen = vec![0; messages.len()];
                pull(answer, |message: v1::WatchManyResponse| {
                    for revision in message.response.iter().flat_map(revisions) {
                        for id in &message.watch_ids {
                            let seen = &mut seen[*id as usize];
                            assert!(revision > *seen, "{revision} after {seen}");
                            *seen = revision;
                        }
                    }
                    if seen.iter().all(|seen| *seen == LAST) {
                        served.leave();
                    }
                })
                .await;
            }
        });
        for n in 1..=LAST as usize {
            put(served.store(), key("pods", "a"), &"x".repeat(n)).await;
        }
        all(vec![follows]).await;
        served.is_quiet().await;
    });
}
