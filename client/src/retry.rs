//! Unary calls: a deadline for all of it, and a few retries inside that deadline.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Request, Response, Status};

use crate::{
    backoff::{Backoff, BackoffOptions, thread_randomness},
    error::ClientError,
};

/// First try included. What fails longer is the caller's decision.
const MAX_ATTEMPTS: usize = 4;

const BETWEEN_ATTEMPTS: BackoffOptions = BackoffOptions {
    initial: Duration::from_millis(50),
    factor: 2.0,
    max: Duration::from_secs(1),
};

/// Sends `message` until there is an answer, an error that a retry does not cure, or the
/// deadline. Right for reads, and for writes with a `request_id`: the server gives the
/// first answer again.
pub(crate) async fn unary<M, R, F, Fut>(
    timeout: Duration,
    message: M,
    mut call: F,
) -> Result<R, ClientError>
where
    M: Clone,
    F: FnMut(Request<M>) -> Fut,
    Fut: Future<Output = Result<Response<R>, Status>>,
{
    let deadline = Instant::now() + timeout;
    let late = || ClientError::from(Status::deadline_exceeded(format!("waited {timeout:?}")));
    let mut backoff = Backoff::new(BETWEEN_ATTEMPTS, Arc::new(thread_randomness));
    let mut attempt = 1;
    loop {
        let mut request = Request::new(message.clone());
        request.set_timeout(deadline.saturating_duration_since(Instant::now()));
        let error = match timeout_at(deadline, call(request)).await {
            Err(_elapsed) => return Err(late()),
            Ok(Ok(response)) => return Ok(response.into_inner()),
            Ok(Err(status)) => ClientError::from(status),
        };
        let cures = error.is_retryable()
            && !matches!(
                error,
                ClientError::Timeout(_) | ClientError::FutureRevision(_)
            );
        let delay = error.retry_after().unwrap_or_else(|| backoff.next_delay());
        // Better the server's own words than a timeout that is already certain.
        if !cures || attempt == MAX_ATTEMPTS || Instant::now() + delay >= deadline {
            return Err(error);
        }
        sleep(delay).await;
        attempt += 1;
    }
}
