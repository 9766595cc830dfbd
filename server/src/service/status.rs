//! The one place where errors become gRPC statuses: code, ErrorInfo, RetryInfo.

use std::{collections::HashMap, time::Duration};

use listwatch::{
    ERROR_DOMAIN,
    v1::{self, ErrorReason},
};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::{request::Invalid, token::TokenError};
use crate::{
    hub::{Backlog, HubError},
    limits::{REFUSED_RETRY, REFUSED_RETRY_SPREAD},
    store::{CommitError, Key, Revision, StoreError},
};

/// When to try again after a failure that passes by itself within moments.
const RETRY_SOON: Duration = Duration::from_secs(1);

/// A status with its machine-readable reason.
pub(crate) struct Failure {
    code: Code,
    message: String,
    reason: ErrorReason,
    metadata: HashMap<String, String>,
    retry: Option<Duration>,
    violation: Option<(String, String)>,
}

impl Failure {
    pub(crate) fn new(code: Code, reason: ErrorReason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            message,
            reason,
            metadata: HashMap::new(),
            retry: None,
            violation: None,
        }
    }

    pub(crate) fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.metadata.insert(key.into(), value.to_string());
        self
    }

    pub(crate) fn retry_after(mut self, delay: Duration) -> Self {
        self.retry = Some(delay);
        self
    }

    /// Names the field at fault, for programs (metadata) and for people (BadRequest).
    pub(crate) fn violating(mut self, field: &str, description: &str) -> Self {
        self.violation = Some((field.into(), description.into()));
        self.with("field", field)
    }

    fn with_key(self, key: &Key) -> Self {
        self.with("collection", &key.collection)
            .with("namespace", key.namespace())
            .with("name", key.name())
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        let reason = failure.reason.as_str_name();
        let reason = reason.strip_prefix("ERROR_REASON_").unwrap_or(reason);
        let mut details = ErrorDetails::with_error_info(reason, ERROR_DOMAIN, failure.metadata);
        if let Some(delay) = failure.retry {
            details.set_retry_info(Some(delay));
        }
        if let Some((field, description)) = failure.violation {
            details.add_bad_request_violation(field, description);
        }
        Self::with_error_details(failure.code, failure.message, details)
    }
}

/// How one watch of many ended: what the status of a Watch would say.
pub(crate) fn watch_end(status: &Status) -> v1::WatchEnd {
    let details = status.get_error_details();
    let info = details.error_info();
    let reason =
        info.and_then(|info| ErrorReason::from_str_name(&format!("ERROR_REASON_{}", info.reason)));
    v1::WatchEnd {
        code: status.code().into(),
        message: status.message().to_owned(),
        reason: reason.unwrap_or_default().into(),
        metadata: info
            .map(|info| info.metadata.clone().into_iter().collect())
            .unwrap_or_default(),
        retry_after: details
            .retry_info()
            .and_then(|retry| retry.retry_delay)
            .and_then(|delay| delay.try_into().ok()),
    }
}

/// Bad input, always INVALID_ARGUMENT.
pub(crate) fn invalid(invalid: Invalid) -> Status {
    let reason = match (&invalid.size, &invalid.limit) {
        (Some(_), Some(_)) => ErrorReason::TooLarge,
        _ => ErrorReason::FieldInvalid,
    };
    let message = format!("{}: {}", invalid.field, invalid.problem);
    let mut failure = Failure::new(Code::InvalidArgument, reason, message)
        .violating(&invalid.field, &invalid.problem);
    if let Some(limit) = invalid.limit {
        failure = failure.with("limit", limit);
    }
    if let Some(size) = invalid.size {
        failure = failure.with("size", size);
    }
    failure.into()
}

/// A token that cannot be used. `field`: where it stood.
pub(crate) fn token(error: &TokenError, field: &str, store_id: impl ToString) -> Status {
    let message = format!("{field}: the token {error}");
    match error {
        TokenError::OtherStore => {
            Failure::new(Code::OutOfRange, ErrorReason::StoreChanged, message)
                .with("store_id", store_id)
        }
        TokenError::Damaged | TokenError::OtherRequest => {
            Failure::new(Code::InvalidArgument, ErrorReason::TokenInvalid, message)
                .violating(field, &error.to_string())
        }
    }
    .into()
}

/// An object that is not there.
pub(crate) fn not_found(key: &Key, revision: Revision) -> Status {
    Failure::new(
        Code::NotFound,
        ErrorReason::ObjectNotFound,
        format!("{key} does not exist"),
    )
    .with_key(key)
    .with("revision", revision)
    .into()
}

/// The server is starting or ending.
pub(crate) fn not_ready(message: &str) -> Status {
    Failure::new(Code::Unavailable, ErrorReason::NotReady, message)
        .retry_after(RETRY_SOON)
        .into()
}

/// The server is going away.
pub(crate) fn leaving() -> Status {
    not_ready("the server is going away")
}

/// A call that is one too many. `kind`: reading or writing.
pub(crate) fn too_many_requests(kind: &str, limit: usize) -> Status {
    let message = format!("the server is answering {limit} {kind} requests");
    refused(ErrorReason::TooManyRequests, message)
}

/// A watch that is one too many.
pub(crate) fn too_many_watches(message: &str) -> Status {
    refused(ErrorReason::TooManyWatches, message)
}

/// A watch whose client is so far behind that every change is too much for it.
pub(crate) fn watch_too_slow(backlog: Backlog) -> Status {
    let (age, bytes) = (backlog.age, backlog.bytes);
    let message = format!(
        "the watch is {age:.0?} and {bytes} bytes behind, which is more than the server allows; \
         resume from the last bookmark"
    );
    Failure::new(Code::ResourceExhausted, ErrorReason::WatchTooSlow, message)
        .with("lag_seconds", age.as_secs())
        .with("backlog_bytes", bytes)
        .retry_after(REFUSED_RETRY_SPREAD.mul_f64(rand::random()))
        .into()
}

fn refused(reason: ErrorReason, message: impl Into<String>) -> Status {
    // Those who were refused together must not come back together.
    let delay = REFUSED_RETRY + REFUSED_RETRY_SPREAD.mul_f64(rand::random());
    Failure::new(Code::ResourceExhausted, reason, message)
        .retry_after(delay)
        .into()
}

/// A call that took too long.
pub(crate) fn deadline_exceeded(after: Duration) -> Status {
    let message = format!("not answered within {after:?}");
    Failure::new(
        Code::DeadlineExceeded,
        ErrorReason::DeadlineExceeded,
        message,
    )
    .into()
}

/// A failure below the RPCs.
pub(crate) fn hub(error: HubError) -> Status {
    match error {
        HubError::Store(error) => store(error),
        HubError::Behind { latest, .. } => {
            Failure::new(Code::Unavailable, ErrorReason::NotReady, error.to_string())
                .with("latest_revision", latest)
                .retry_after(RETRY_SOON)
                .into()
        }
        HubError::Stopped => not_ready(&error.to_string()),
    }
}

/// A failure of the store.
pub(crate) fn store(error: StoreError) -> Status {
    let message = error.to_string();
    match error {
        StoreError::Compacted {
            compacted,
            revision,
            ..
        } => Failure::new(Code::OutOfRange, ErrorReason::RevisionCompacted, message)
            .with("compact_revision", compacted)
            .with("revision", revision),
        StoreError::Forgotten { forgotten, .. } => {
            Failure::new(Code::OutOfRange, ErrorReason::RevisionCompacted, message)
                .with("compact_revision", forgotten)
        }
        StoreError::Future { latest, .. } => {
            Failure::new(Code::OutOfRange, ErrorReason::RevisionInFuture, message)
                .with("latest_revision", latest)
                .retry_after(RETRY_SOON)
        }
        StoreError::Damaged(_) | StoreError::Unusable(_) => {
            Failure::new(Code::DataLoss, ErrorReason::StoreDamaged, message)
        }
        StoreError::Io { .. } => {
            Failure::new(Code::Unavailable, ErrorReason::NotReady, message).retry_after(RETRY_SOON)
        }
        StoreError::Closed => {
            Failure::new(Code::Unavailable, ErrorReason::NotReady, message).retry_after(RETRY_SOON)
        }
    }
    .into()
}

/// A write that was refused. `keys`: of the operations, in order.
pub(crate) fn commit(error: CommitError, keys: &[Key], newest: Revision) -> Status {
    let message = |text: &str, operation: usize| match keys {
        [key] => format!("{key} {text}"),
        _ => format!("operation {operation}: {} {text}", name_of(keys, operation)),
    };
    let failure = match &error {
        CommitError::Exists {
            operation,
            revision,
        } => {
            let text = message("exists", *operation);
            let failure = Failure::new(Code::AlreadyExists, ErrorReason::ObjectExists, text);
            about(failure, keys, *operation).with("revision", revision)
        }
        CommitError::NotFound { operation } => {
            let text = message("does not exist", *operation);
            let failure = Failure::new(Code::NotFound, ErrorReason::ObjectNotFound, text);
            about(failure, keys, *operation).with("revision", newest)
        }
        CommitError::RevisionMismatch { operation, current } => {
            let text = match current {
                Some(revision) => format!("is at revision {revision}"),
                None => "does not exist".to_owned(),
            };
            let text = message(&text, *operation);
            let failure = Failure::new(Code::Aborted, ErrorReason::RevisionMismatch, text);
            about(failure, keys, *operation).with("revision", current.unwrap_or_default())
        }
        CommitError::UidMismatch { operation, current } => {
            let text = message(&format!("has the uid {current}"), *operation);
            let failure = Failure::new(Code::Aborted, ErrorReason::UidMismatch, text);
            about(failure, keys, *operation).with("uid", current)
        }
        CommitError::RequestIdReused => Failure::new(
            Code::InvalidArgument,
            ErrorReason::RequestIdReused,
            format!("request_id: {error}"),
        )
        .violating("request_id", &error.to_string()),
        CommitError::StorageFull(_) => Failure::new(
            Code::ResourceExhausted,
            ErrorReason::StorageFull,
            error.to_string(),
        ),
        CommitError::Uncertain(_) => Failure::new(
            Code::Unavailable,
            ErrorReason::WriteUncertain,
            error.to_string(),
        )
        .retry_after(RETRY_SOON),
        CommitError::Store(inner) => return store(inner.clone()),
    };
    failure.into()
}

fn name_of(keys: &[Key], operation: usize) -> String {
    keys.get(operation)
        .map(ToString::to_string)
        .unwrap_or_default()
}

fn about(failure: Failure, keys: &[Key], operation: usize) -> Failure {
    let failure = if keys.len() > 1 {
        failure.with("operation", operation)
    } else {
        failure
    };
    match keys.get(operation) {
        Some(key) => failure.with_key(key),
        None => failure,
    }
}
