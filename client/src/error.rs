//! What can go wrong with a call, and whether to try it again.

use std::{collections::HashMap, fmt, time::Duration};

use listwatch::{ERROR_DOMAIN, v1::ErrorReason};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The error of every call of this crate.
///
/// A variant says what the caller can do about it; [`ClientError::failure`] has all that
/// the server sent. [`ClientError::is_retryable`] answers the most frequent question.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The endpoint is not an `http://host:port` or `host:port`. A retry does not help.
    #[error("{endpoint:?} is no endpoint: {problem}")]
    Endpoint {
        /// As it was given.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
    },
    /// No connection to the server came about. Retry with backoff, or check the address.
    #[error("cannot connect: {}", chain(.0))]
    Connect(#[source] tonic::transport::Error),
    /// The answer did not come in time (DEADLINE_EXCEEDED, or the request timeout of this
    /// client). A write may have happened: a retry is safe with the same `request_id`, and
    /// for reads.
    #[error("no answer in time: {0}")]
    Timeout(Failure),
    /// The server cannot answer now (UNAVAILABLE). Retry with backoff, or after
    /// [`ClientError::retry_after`]; a write with the same `request_id`.
    #[error("unavailable: {0}")]
    Unavailable(Failure),
    /// The connection broke off before the answer was complete. Retry, a write with the
    /// same `request_id`.
    #[error("interrupted: {0}")]
    Interrupted(Failure),
    /// The object does not exist (NOT_FOUND). A retry does not help.
    #[error("not found: {0}")]
    NotFound(Failure),
    /// The key is taken (ALREADY_EXISTS). A retry does not help: update, or choose another.
    #[error("already exists: {0}")]
    AlreadyExists(Failure),
    /// The object is not in the state that the write expects (ABORTED; the reason is
    /// `RevisionMismatch` or `UidMismatch`). Read, decide again, write again.
    #[error("conflict: {0}")]
    Conflict(Failure),
    /// The point in history is gone (OUT_OF_RANGE): compacted, or of another store, or
    /// the reason is unknown. The same request fails again: list again.
    #[error("expired: {0}")]
    Expired(Failure),
    /// The revision is not there yet (OUT_OF_RANGE with `RevisionInFuture`): the server is
    /// behind, or the revision is of another store. Retry a few times, then list again.
    #[error("revision in the future: {0}")]
    FutureRevision(Failure),
    /// The request is wrong (INVALID_ARGUMENT or FAILED_PRECONDITION); `metadata` names
    /// the field. A retry does not help.
    #[error("invalid request: {0}")]
    Invalid(Failure),
    /// No or wrong credentials (UNAUTHENTICATED). A retry does not help without new ones.
    #[error("unauthenticated: {0}")]
    Unauthenticated(Failure),
    /// Not allowed (PERMISSION_DENIED). A retry does not help.
    #[error("permission denied: {0}")]
    PermissionDenied(Failure),
    /// A limit is reached (RESOURCE_EXHAUSTED). Retry only if [`ClientError::retry_after`]
    /// is given; a full store stays full until someone frees space.
    #[error("exhausted: {0}")]
    Exhausted(Failure),
    /// The server does not have what was asked for (UNIMPLEMENTED). A retry does not help.
    #[error("not supported: {0}")]
    Unimplemented(Failure),
    /// The server's store is damaged (DATA_LOSS). A retry does not help; the server's log
    /// says what to do.
    #[error("data loss: {0}")]
    DataLoss(Failure),
    /// Any other status, such as a fault of the server (INTERNAL). A retry may meet the
    /// same fault: it is left to the caller.
    #[error("{0}")]
    Other(Failure),
    /// The server's answer lacks what the API promises. A retry does not help: one of the
    /// two sides has a fault, or the peer is no Listwatch server.
    #[error("the server broke the protocol: {0}")]
    Protocol(&'static str),
}

/// What a failed call came with.
#[derive(Debug, Clone)]
pub struct Failure {
    inner: Box<Inner>,
}

#[derive(Debug, Clone)]
struct Inner {
    status: Status,
    reason: ErrorReason,
    reason_name: String,
    metadata: HashMap<String, String>,
    retry_after: Option<Duration>,
}

impl Failure {
    /// The gRPC code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.inner.status.code()
    }

    /// The server's words.
    #[must_use]
    pub fn message(&self) -> &str {
        self.inner.status.message()
    }

    /// The machine-readable reason; `Unspecified` where the error is not Listwatch's own
    /// (a proxy's, the transport's) or is of a newer server.
    #[must_use]
    pub fn reason(&self) -> ErrorReason {
        self.inner.reason
    }

    /// The reason as the server wrote it, such as `REVISION_COMPACTED`: also one of a newer
    /// server, which [`Failure::reason`] does not know. Empty where the error is not
    /// Listwatch's own.
    #[must_use]
    pub fn reason_name(&self) -> &str {
        &self.inner.reason_name
    }

    /// `ErrorInfo.metadata`: which keys there are says the comment on each [`ErrorReason`].
    #[must_use]
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.inner.metadata
    }

    /// A number of the metadata, such as `compact_revision`.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<i64> {
        self.inner.metadata.get(key)?.parse().ok()
    }

    /// How long the server asks to wait before a retry.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.inner.retry_after
    }

    /// The status as the transport gave it.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.inner.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = &self.inner.status;
        match (status.message(), std::error::Error::source(status)) {
            ("", None) => write!(f, "{:?}", status.code()),
            (message, None) => f.write_str(message),
            (message, Some(source)) => write!(f, "{message}: {}", chain(source)),
        }
    }
}

/// An error and its causes on one line. hyper and tonic say little in the outermost one.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

impl ClientError {
    /// What the call came back with; `None` if it never got so far.
    #[must_use]
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Endpoint { .. } | Self::Connect(_) | Self::Protocol(_) => None,
            Self::Timeout(failure)
            | Self::Unavailable(failure)
            | Self::Interrupted(failure)
            | Self::NotFound(failure)
            | Self::AlreadyExists(failure)
            | Self::Conflict(failure)
            | Self::Expired(failure)
            | Self::FutureRevision(failure)
            | Self::Invalid(failure)
            | Self::Unauthenticated(failure)
            | Self::PermissionDenied(failure)
            | Self::Exhausted(failure)
            | Self::Unimplemented(failure)
            | Self::DataLoss(failure)
            | Self::Other(failure) => Some(failure),
        }
    }

    /// The gRPC code: that of the status, else (also of a deadline that passed on this side, and of
    /// a connection that broke) the one that fits best.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Endpoint { .. } => Code::InvalidArgument,
            Self::Connect(_) => Code::Unavailable,
            Self::Protocol(_) => Code::Internal,
            // tonic says CANCELLED of a deadline that it keeps itself.
            Self::Timeout(_) => Code::DeadlineExceeded,
            // And UNKNOWN, CANCELLED or INTERNAL of a connection that broke, by how it broke.
            Self::Interrupted(failure) if is_of_transport(failure.status()) => Code::Unavailable,
            other => other.failure().map_or(Code::Unknown, Failure::code),
        }
    }

    /// The machine-readable reason, if the error is Listwatch's own.
    #[must_use]
    pub fn reason(&self) -> ErrorReason {
        self.failure()
            .map_or(ErrorReason::Unspecified, Failure::reason)
    }

    /// How long the server asks to wait before a retry.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.failure().and_then(Failure::retry_after)
    }

    /// Whether the same request may succeed later with nothing changed but time. Of a
    /// write only with the same `request_id`, which this crate's calls keep.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connect(_)
            | Self::Timeout(_)
            | Self::Unavailable(_)
            | Self::Interrupted(_)
            | Self::FutureRevision(_) => true,
            Self::Exhausted(failure) => failure.retry_after().is_some(),
            _ => false,
        }
    }
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let info = details
            .error_info()
            .filter(|info| info.domain == ERROR_DOMAIN);
        let reason = info
            .and_then(|info| ErrorReason::from_str_name(&format!("ERROR_REASON_{}", info.reason)))
            .unwrap_or(ErrorReason::Unspecified);
        let reason_name = info.map(|info| info.reason.clone()).unwrap_or_default();
        let metadata = info.map(|info| info.metadata.clone()).unwrap_or_default();
        let retry_after = details.retry_info().and_then(|retry| retry.retry_delay);
        let explained = info.is_some();
        let timed_out = caused_by::<tonic::TimeoutExpired>(&status);
        let code = status.code();
        let of_transport = is_of_transport(&status);
        let failure = Failure {
            inner: Box::new(Inner {
                status,
                reason,
                reason_name,
                metadata,
                retry_after,
            }),
        };

        match code {
            Code::Cancelled if timed_out => Self::Timeout(failure),
            Code::DeadlineExceeded => Self::Timeout(failure),
            Code::Unavailable => Self::Unavailable(failure),
            // A GOAWAY or a reset ends calls with CANCELLED; nobody here cancels by status.
            Code::Cancelled => Self::Interrupted(failure),
            Code::Unknown if of_transport => Self::Interrupted(failure),
            // tonic calls a broken HTTP/2 stream INTERNAL; the server's own has ErrorInfo.
            Code::Internal if !explained => Self::Interrupted(failure),
            Code::NotFound => Self::NotFound(failure),
            Code::AlreadyExists => Self::AlreadyExists(failure),
            Code::Aborted => Self::Conflict(failure),
            Code::OutOfRange if reason == ErrorReason::RevisionInFuture => {
                Self::FutureRevision(failure)
            }
            Code::OutOfRange => Self::Expired(failure),
            Code::InvalidArgument | Code::FailedPrecondition => Self::Invalid(failure),
            Code::Unauthenticated => Self::Unauthenticated(failure),
            Code::PermissionDenied => Self::PermissionDenied(failure),
            Code::ResourceExhausted => Self::Exhausted(failure),
            Code::Unimplemented => Self::Unimplemented(failure),
            Code::DataLoss => Self::DataLoss(failure),
            Code::Ok | Code::Unknown | Code::Internal => Self::Other(failure),
        }
    }
}

/// Whether no server sent it: the transport made it of an error of its own.
fn is_of_transport(status: &Status) -> bool {
    std::error::Error::source(status).is_some()
}

fn caused_by<E: std::error::Error + 'static>(status: &Status) -> bool {
    let mut next = std::error::Error::source(status);
    while let Some(cause) = next {
        if cause.is::<E>() {
            return true;
        }
        next = cause.source();
    }
    // tonic drops the source here and keeps the words.
    status.code() == Code::Cancelled && status.message() == "Timeout expired"
}
