//! Errors that arise before an RPC of ours runs, in the transport's terms, get a reason
//! too: no client sees a bare status.

use std::{
    panic::AssertUnwindSafe,
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use listwatch::v1::ErrorReason;
use tonic::{Code, Status, body::Body};
use tower::{Layer, Service};

use super::status::Failure;

/// Gives a reason to responses that failed without one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EdgeLayer {
    /// The largest request that is decoded, in bytes.
    pub(crate) max_request_bytes: usize,
}

impl<S> Layer<S> for EdgeLayer {
    type Service = Edge<S>;

    fn layer(&self, inner: S) -> Edge<S> {
        Edge {
            inner,
            max_request_bytes: self.max_request_bytes,
        }
    }
}

/// See [`EdgeLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Edge<S> {
    inner: S,
    max_request_bytes: usize,
}

impl<S, B> Service<http::Request<B>> for Edge<S>
where
    S: Service<http::Request<B>, Response = http::Response<Body>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        if let Some(refusal) = not_grpc(&request) {
            return Box::pin(async { Ok(refusal) });
        }
        // Health and reflection are others' protocols, with errors of their own.
        let ours = !request.uri().path().starts_with("/grpc.");
        let limit = self.max_request_bytes;
        let response = self.inner.call(request);
        Box::pin(async move {
            // A panic would end the stream without a status, which clients take for a
            // broken connection and try again.
            let Ok(response) = AssertUnwindSafe(response).catch_unwind().await else {
                let message = "the server failed; its log says how";
                let failure = Failure::new(Code::Internal, ErrorReason::Internal, message);
                return Ok(Status::from(failure).into_http());
            };
            let response = response?;
            if !ours || response.headers().contains_key("grpc-status-details-bin") {
                return Ok(response);
            }
            // A status in the headers: the RPC ended before it gave anything.
            let Some(status) = Status::from_header_map(response.headers()) else {
                return Ok(response);
            };
            Ok(match reason(&status, limit) {
                Some(failure) => Status::from(failure).into_http(),
                None => response,
            })
        })
    }
}

/// The HTTP answer to what is no gRPC request, as gRPC over HTTP/2 wants it. tonic looks at
/// neither method nor content type; but any web page can make a browser POST `text/plain` to
/// a server on the same machine, and must not write there.
fn not_grpc<B>(request: &http::Request<B>) -> Option<http::Response<Body>> {
    let content_type = request.headers().get(http::header::CONTENT_TYPE);
    let content_type = content_type.map_or(&b""[..], |value| value.as_bytes());
    let grpc = match content_type.strip_prefix(b"application/grpc") {
        Some(rest) => rest.is_empty() || rest.starts_with(b";") || rest.starts_with(b"+proto"),
        None => false,
    };
    let refusal = if !grpc {
        http::StatusCode::UNSUPPORTED_MEDIA_TYPE
    } else if request.method() != http::Method::POST {
        http::StatusCode::METHOD_NOT_ALLOWED
    } else {
        return None;
    };
    let text =
        "This port speaks gRPC: POST with content-type application/grpc or application/grpc-web.\n";
    let mut response = http::Response::new(Body::new(text.to_owned()));
    *response.status_mut() = refusal;
    let headers = response.headers_mut();
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(http::header::CONTENT_TYPE, plain);
    headers.insert(http::header::ALLOW, http::HeaderValue::from_static("POST"));
    Some(response)
}

/// A status of the transport's, with a reason: for those that end a stream of ours.
pub(super) fn explained(status: Status, limit: usize) -> Status {
    match reason(&status, limit) {
        Some(failure) => failure.into(),
        None => status,
    }
}

fn reason(status: &Status, limit: usize) -> Option<Failure> {
    let message = status.message();
    match status.code() {
        Code::Ok => None,
        // tonic's word for a message above the decoding limit; ours means expiry.
        Code::OutOfRange | Code::ResourceExhausted => Some(
            Failure::new(
                Code::InvalidArgument,
                ErrorReason::TooLarge,
                format!("the request is larger than the limit of {limit} bytes"),
            )
            .violating("request", "is too large")
            .with("limit", limit)
            .with("size", size_in(message)),
        ),
        // tonic's word for bytes that are no such message.
        Code::Internal | Code::InvalidArgument => Some(
            Failure::new(
                Code::InvalidArgument,
                ErrorReason::FieldInvalid,
                format!("the request cannot be read: {message}"),
            )
            .violating("request", message),
        ),
        Code::Unimplemented => {
            // tonic has no words for a method that is not there.
            let message = match message {
                "" => "this server has no such method",
                message => message,
            };
            let code = Code::Unimplemented;
            Some(Failure::new(code, ErrorReason::Unsupported, message))
        }
        code => Some(Failure::new(code, ErrorReason::Internal, message)),
    }
}

/// The size that tonic's message names: its first number.
fn size_in(message: &str) -> String {
    message
        .split(|c: char| !c.is_ascii_digit())
        .find(|digits| !digits.is_empty())
        .unwrap_or("unknown")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use tonic_types::StatusExt as _;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_fault_of_the_server_and_says_so() {
        let faulty = tower::service_fn(|request: http::Request<Body>| async move {
            assert!(request.uri().path().is_empty(), "a fault");
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::empty()))
        });
        let edge = EdgeLayer {
            max_request_bytes: 1,
        };
        let request = http::Request::post("/listwatch.v1.ListWatchService/Get")
            .header("content-type", "application/grpc")
            .body(Body::empty())
            .unwrap();
        let response = edge.layer(faulty).oneshot(request).await.unwrap();
        let status = Status::from_header_map(response.headers()).unwrap();
        assert_eq!(status.code(), Code::Internal);
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "INTERNAL");
    }
}
