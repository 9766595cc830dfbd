//! So many calls at a time, reading and writing ones apart.

use std::{
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::BoxFuture;
use http::{Request, Response};
use tonic::body::Body;
use tower::{Layer, Service};

use super::{call::Call, status};
use crate::{
    refusals::{Refusal, Refusals},
    seats::{Seat, Seats},
};

/// Refuses calls above a number, at once and unread. Streams have a limit of their own, so
/// neither can take the other's place. A call's seat is free when its answer is ready: one who
/// reads it slowly keeps no one else waiting.
#[derive(Clone, Debug)]
pub(crate) struct RequestLimitLayer {
    reading: Arc<Seats>,
    writing: Arc<Seats>,
    refusals: Arc<Refusals>,
}

impl RequestLimitLayer {
    pub(crate) fn new(max_reading: usize, max_writing: usize, refusals: Arc<Refusals>) -> Self {
        Self {
            reading: Seats::new(max_reading, usize::MAX),
            writing: Seats::new(max_writing, usize::MAX),
            refusals,
        }
    }

    /// A seat for a call, or how many there are, all taken.
    pub(crate) fn seat(&self, mutating: bool) -> Result<Seat, usize> {
        let (seats, refusal) = match mutating {
            false => (&self.reading, Refusal::Requests),
            true => (&self.writing, Refusal::MutatingRequests),
        };
        seats.take(None).map_err(|_| {
            self.refusals.add(refusal);
            seats.max()
        })
    }

    /// Calls that are being answered: reading, writing.
    pub(crate) fn inflight(&self) -> (usize, usize) {
        (self.reading.taken(), self.writing.taken())
    }
}

impl<S> Layer<S> for RequestLimitLayer {
    type Service = RequestLimit<S>;

    fn layer(&self, inner: S) -> RequestLimit<S> {
        RequestLimit {
            inner,
            limit: self.clone(),
        }
    }
}

/// See [`RequestLimitLayer`].
#[derive(Clone, Debug)]
pub(crate) struct RequestLimit<S> {
    inner: S,
    limit: RequestLimitLayer,
}

impl<S, B> Service<Request<B>> for RequestLimit<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mutating = match Call::of(request.uri().path()) {
            Call::Read => false,
            Call::Write | Call::Work => true,
            Call::Open | Call::Other => return Box::pin(self.inner.call(request)),
        };
        let seat = match self.limit.seat(mutating) {
            Ok(seat) => seat,
            Err(max) => {
                let kind = if mutating { "writing" } else { "reading" };
                let status = status::too_many_requests(kind, max);
                return Box::pin(async move { Ok(status.into_http()) });
            }
        };
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await;
            drop(seat);
            response
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tonic::{Code, Status};
    use tower::ServiceExt as _;

    use super::*;

    fn request(method: &str) -> Request<Body> {
        let path = format!("/listwatch.v1.ListWatchService/{method}");
        Request::post(path).body(Body::empty()).unwrap()
    }

    fn code(response: Result<Response<Body>, Infallible>) -> Code {
        let headers = response.unwrap().into_parts().0.headers;
        Status::from_header_map(&headers).map_or(Code::Ok, |status| status.code())
    }

    #[tokio::test]
    async fn reading_and_writing_calls_do_not_take_each_others_place() {
        let refusals = Arc::new(Refusals::default());
        let limit = RequestLimitLayer::new(1, 1, refusals.clone());
        // Writes never end here.
        let inner = tower::service_fn(|request: Request<Body>| async move {
            if request.uri().path().ends_with("/Create") {
                std::future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let service = limit.layer(inner);
        let create = tokio::spawn(service.clone().oneshot(request("Create")));
        while limit.inflight().1 == 0 {
            tokio::task::yield_now().await;
        }
        let refused = service.clone().oneshot(request("Update")).await;
        assert_eq!(code(refused), Code::ResourceExhausted);
        assert_eq!(refusals.count(Refusal::MutatingRequests), 1);
        for method in ["Get", "List", "Watch", "WatchMany", "Get"] {
            assert_eq!(
                code(service.clone().oneshot(request(method)).await),
                Code::Ok
            );
        }
        // Given up, it is no longer in the way.
        create.abort();
        while limit.inflight().1 > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(code(service.oneshot(request("Delete")).await), Code::Ok);
    }
}
