//! A call ends in time: the server's, or the client's if that is shorter.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response};
use tonic::body::Body;
use tower::{Layer, Service};

use super::{call::Call, status};
use crate::refusals::{Refusal, Refusals};

/// Ends calls that take too long, the sending of the request included. An open stream is
/// no call, and a compaction takes as long as there is to compact, unless its client says
/// otherwise.
#[derive(Clone, Debug)]
pub(crate) struct DeadlineLayer {
    pub(crate) timeout: Duration,
    pub(crate) refusals: Arc<Refusals>,
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Deadline<S> {
        Deadline {
            inner,
            layer: self.clone(),
        }
    }
}

/// See [`DeadlineLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Deadline<S> {
    inner: S,
    layer: DeadlineLayer,
}

impl<S, B> Service<Request<B>> for Deadline<S>
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
        let wanted = asked_for(request.headers());
        let timeout = match Call::of(request.uri().path()) {
            // Of a watch, that is its opening.
            Call::Read | Call::Write | Call::Open => {
                Some(wanted.map_or(self.layer.timeout, |wanted| wanted.min(self.layer.timeout)))
            }
            Call::Work => wanted,
            Call::Other => None,
        };
        let response = self.inner.call(request);
        let Some(timeout) = timeout else {
            return Box::pin(response);
        };
        let refusals = self.layer.refusals.clone();
        Box::pin(async move {
            match tokio::time::timeout(timeout, response).await {
                Ok(response) => response,
                Err(_elapsed) => {
                    refusals.add(Refusal::Deadline);
                    Ok(status::deadline_exceeded(timeout).into_http())
                }
            }
        })
    }
}

/// What the client's `grpc-timeout` says: at most eight digits and a unit. What is no such
/// thing is ignored, as other servers do: the client keeps its time by itself.
fn asked_for(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use tokio::time::Instant;
    use tonic::{Code, Status};
    use tonic_types::StatusExt as _;
    use tower::ServiceExt as _;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// How long a call that never ends is let go on; `None`: for a day at least.
    async fn cut_after(path: &str, grpc_timeout: Option<&str>) -> Option<Duration> {
        let layer = DeadlineLayer {
            timeout: MINUTE,
            refusals: Arc::default(),
        };
        let endless = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        let mut request = Request::post(path);
        if let Some(timeout) = grpc_timeout {
            request = request.header("grpc-timeout", timeout);
        }
        let request = request.body(Body::empty()).unwrap();
        let (started, day) = (Instant::now(), MINUTE * 60 * 24);
        let call = layer.layer(endless).oneshot(request);
        let response = tokio::time::timeout(day, call).await.ok()?.unwrap();
        let status = Status::from_header_map(response.headers()).unwrap();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "DEADLINE_EXCEEDED");
        assert_eq!(layer.refusals.count(Refusal::Deadline), 1);
        Some(started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_when_the_server_or_the_client_says_whichever_is_sooner() {
        let get = "/listwatch.v1.ListWatchService/Get";
        let many = "/listwatch.v1.ListWatchService/WatchMany";
        let compact = "/listwatch.v1.AdminService/Compact";
        let about = |time: Option<Duration>, expected: Duration| {
            let time = time.expect("it was never cut");
            assert!(time >= expected && time < expected + Duration::from_millis(10));
        };
        about(cut_after(get, None).await, MINUTE);
        about(cut_after(get, Some("5S")).await, MINUTE / 12);
        about(cut_after(get, Some("50m")).await, MINUTE / 1200);
        about(cut_after(get, Some("2H")).await, MINUTE);
        for nonsense in ["", "S", "-5S", "+5S", "5", "5s", "123456789S", "5 S"] {
            about(cut_after(get, Some(nonsense)).await, MINUTE);
        }
        about(cut_after(compact, Some("2H")).await, MINUTE * 120);
        assert_eq!(cut_after(compact, None).await, None);
        assert_eq!(cut_after(many, Some("1S")).await, None);
    }
}
