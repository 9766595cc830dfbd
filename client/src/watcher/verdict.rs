//! What to do about an error.

use std::time::Duration;

use listwatch::v1::ErrorReason;

use crate::error::ClientError;

/// What an error means for a watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Go on from the same position, after backoff or after what the server says.
    Resume(Option<Duration>),
    /// The position is ahead of the server: it may be a replica that is behind, so try the
    /// same position again, but not for ever: it may be another history.
    Ahead(Option<Duration>),
    /// The position is worth nothing any more.
    StartOver,
    /// As [`Verdict::StartOver`], and no position is known to be better.
    DataLoss,
    /// As [`Verdict::StartOver`], but for no reason that Listwatch knows, such as a response that
    /// is larger than the client accepts: another start may meet the same.
    Unexplained,
    /// The token is not one of this server and selector.
    BadToken,
    /// No retry helps.
    Refused,
}

pub(super) fn verdict(error: &ClientError) -> Verdict {
    match error {
        ClientError::Expired(failure) => match failure.reason() {
            ErrorReason::RevisionCompacted | ErrorReason::StoreChanged => Verdict::StartOver,
            _ => Verdict::Unexplained,
        },
        ClientError::DataLoss(_) => Verdict::DataLoss,
        ClientError::FutureRevision(failure) => Verdict::Ahead(failure.retry_after()),
        ClientError::Exhausted(failure) => match failure.retry_after() {
            Some(delay) => Verdict::Resume(Some(delay)),
            None => Verdict::Refused,
        },
        ClientError::Invalid(failure) if failure.reason() == ErrorReason::TokenInvalid => {
            Verdict::BadToken
        }
        ClientError::Endpoint { .. }
        | ClientError::Invalid(_)
        | ClientError::Unauthenticated(_)
        | ClientError::PermissionDenied(_)
        | ClientError::NotFound(_)
        | ClientError::AlreadyExists(_)
        | ClientError::Unimplemented(_) => Verdict::Refused,
        ClientError::Connect(_)
        | ClientError::Timeout(_)
        | ClientError::Unavailable(_)
        | ClientError::Interrupted(_)
        | ClientError::Conflict(_)
        | ClientError::Other(_)
        | ClientError::Protocol(_) => Verdict::Resume(error.retry_after()),
    }
}
