//! Errors that arise before an RPC of ours runs, in the transport's terms, get a reason
//! too: no client sees a bare status.

use std::task::{Context, Poll};

use futures::future::BoxFuture;
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
        // Health and reflection are others' protocols, with errors of their own.
        let ours = request.uri().path().starts_with("/listwatch.");
        let limit = self.max_request_bytes;
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await?;
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
            .with("field", "request")
            .with("limit", limit)
            .with("size", size_in(message)),
        ),
        // tonic's word for bytes that are no such message.
        Code::Internal | Code::InvalidArgument => Some(
            Failure::new(Code::InvalidArgument, ErrorReason::FieldInvalid, message)
                .with("field", "request"),
        ),
        Code::Unimplemented => Some(Failure::new(
            Code::Unimplemented,
            ErrorReason::Unsupported,
            message,
        )),
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
