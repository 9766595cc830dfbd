//! The way of Watch and WatchMany past tonic's own response body.
//!
//! tonic encodes each stream's messages into a buffer of its own, which costs an idle
//! stream 12 KiB and an event one encoding a stream. A watch's frames are ready-made; so these
//! RPCs are taken out of the router here, and answered with a body that hands them over.

use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use futures::future::{BoxFuture, Either};
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use listwatch::v1;
use prost::Message as _;
use tonic::{Status, Streaming, body::Body, codec::Codec as _};
use tonic_prost::ProstCodec;
use tower::{Layer, Service as TowerService};

use super::{
    Service,
    body::{FrameBody, Frames},
    connection::{Connection, LongStream},
};

const WATCH: &str = "/listwatch.v1.ListWatchService/Watch";
const WATCH_MANY: &str = "/listwatch.v1.ListWatchService/WatchMany";

/// Answers Watch and WatchMany itself and passes everything else on.
#[derive(Clone, Debug)]
pub(crate) struct WatchRoute {
    pub(crate) service: Service,
    /// The largest request that is read, in bytes.
    pub(crate) max_request_bytes: usize,
}

impl<S> Layer<S> for WatchRoute {
    type Service = Routed<S>;

    fn layer(&self, inner: S) -> Routed<S> {
        Routed {
            inner,
            route: self.clone(),
        }
    }
}

/// See [`WatchRoute`].
#[derive(Clone, Debug)]
pub(crate) struct Routed<S> {
    inner: S,
    route: WatchRoute,
}

impl<S> TowerService<Request<Body>> for Routed<S>
where
    S: TowerService<Request<Body>, Response = Response<Body>>,
    S::Error: 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, BoxFuture<'static, Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let route = self.route.clone();
        match request.uri().path() {
            WATCH => Either::Right(Box::pin(async move {
                let response = route.watch(request).await;
                Ok(response.unwrap_or_else(Status::into_http))
            })),
            WATCH_MANY => Either::Right(Box::pin(async move {
                let response = route.watch_many(request);
                Ok(response.unwrap_or_else(Status::into_http))
            })),
            _ => Either::Left(self.inner.call(request)),
        }
    }
}

impl WatchRoute {
    async fn watch(self, request: Request<Body>) -> Result<Response<Body>, Status> {
        // First of all: what is refused is refused unread.
        let connection = Connection::of(request.extensions());
        connection.introduce(request.headers());
        let seat = self.service.watches.seat(connection.peer())?;
        let stream = self.service.watches.stream(&connection)?;
        let request = self.read(request).await?;
        let frames = self.service.open_watch(request, connection).await?;
        Ok(response(Frames::Watch(frames.seated(seat)), stream))
    }

    fn watch_many(self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let connection = Connection::of(request.extensions());
        connection.introduce(request.headers());
        let stream = self.service.watches.stream(&connection)?;
        let mut codec = ProstCodec::<v1::WatchManyResponse, v1::WatchManyRequest>::default();
        let limit = Some(self.max_request_bytes);
        let requests = Streaming::new_request(codec.decoder(), request.into_body(), None, limit);
        let frames = self.service.open_watches(requests, connection)?;
        Ok(response(Frames::Many(Box::new(frames)), stream))
    }

    /// The one message of the request. Errors are as tonic words them, so that the edge
    /// gives them their reasons alike.
    async fn read(&self, request: Request<Body>) -> Result<v1::WatchRequest, Status> {
        let prefix = 5;
        let limit = self.max_request_bytes;
        let body = Limited::new(request.into_body(), limit + prefix)
            .collect()
            .await;
        let mut body: Bytes = match body {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return Err(too_large(limit + 1, limit));
            }
            Err(error) => return Err(Status::internal(error.to_string())),
        };
        if body.len() < prefix {
            return Err(Status::internal("the request holds no message"));
        }
        if body.get_u8() != 0 {
            return Err(Status::internal("compressed requests are not supported"));
        }
        let length = body.get_u32() as usize;
        if length > limit {
            return Err(too_large(length, limit));
        }
        if length != body.len() {
            return Err(Status::internal(
                "the request does not hold one whole message",
            ));
        }
        let decoded = v1::WatchRequest::decode(body);
        decoded.map_err(|e| Status::internal(format!("failed to decode Protobuf message: {e}")))
    }
}

fn too_large(length: usize, limit: usize) -> Status {
    Status::out_of_range(format!("found {length} bytes; the limit is {limit} bytes"))
}

fn response(frames: Frames, stream: LongStream) -> Response<Body> {
    let mut response = Response::new(Body::new(FrameBody::new(frames, stream)));
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, grpc);
    response
}
