//! The one place where errors become Kubernetes' Status: code, reason, details.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value, json};
use tonic::body::Body;

use super::{
    cause::{Cause, Fault, MAX_CAUSES, summary},
    kinds::Kind,
    patch::PatchError,
};
use crate::{
    hub::HubError,
    limits::{GATEWAY_LEAVING_RETRY_SECONDS, GATEWAY_RETRY_SECONDS},
    service::Crowded,
    store::{CommitError, StoreError},
};

/// A request that failed, as the client is told.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
    causes: Vec<Value>,
    retry_after_seconds: Option<u64>,
    /// Where the list goes on after its token has expired.
    next: Option<String>,
    /// The connection is to be closed.
    closes: bool,
}

/// A failure is passed up many functions, most of which succeed.
pub(crate) type Failed = Box<Failure>;

impl Failure {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Failed {
        Box::new(Self {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
            causes: Vec::new(),
            retry_after_seconds: None,
            next: None,
            closes: false,
        })
    }

    fn about(mut self: Box<Self>, kind: &Kind, name: &str) -> Failed {
        if !name.is_empty() {
            self.details.insert("name".into(), name.into());
        }
        if !kind.group.is_empty() {
            self.details
                .insert("group".into(), kind.group.as_str().into());
        }
        self.details
            .insert("kind".into(), kind.resource.as_str().into());
        self
    }

    fn retry_after(mut self: Box<Self>, seconds: u64) -> Failed {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// With a token to go on from all the same.
    pub(crate) fn going_on_from(mut self: Box<Self>, token: String) -> Failed {
        self.next = Some(token);
        self
    }

    /// The object is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        self.code == StatusCode::NOT_FOUND
    }

    /// The name is taken.
    pub(crate) fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// The Status object.
    pub(crate) fn to_json(&self) -> Value {
        let mut details = self.details.clone();
        if !self.causes.is_empty() {
            details.insert("causes".into(), Value::Array(self.causes.clone()));
        }
        if let Some(seconds) = self.retry_after_seconds {
            details.insert("retryAfterSeconds".into(), seconds.into());
        }
        let mut metadata = Map::new();
        if let Some(token) = &self.next {
            metadata.insert("continue".into(), token.as_str().into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code.as_u16(),
        });
        if !details.is_empty() {
            status["details"] = Value::Object(details);
        }
        status
    }

    /// The Status as a response.
    pub(crate) fn to_response(&self) -> Response<Body> {
        let mut response = json_response(self.code, self.to_json().to_string().into());
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Something of the request cannot be understood.
    pub(crate) fn bad_request(message: impl Into<String>) -> Failed {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// There is no such path.
    pub(crate) fn no_such_resource() -> Failed {
        let message = "the server could not find the requested resource";
        let mut failure = Self::new(StatusCode::NOT_FOUND, "NotFound", message);
        failure.details.clear();
        failure
    }

    /// There is no such object.
    pub(crate) fn not_found(kind: &Kind, name: &str) -> Failed {
        let message = format!("{} \"{name}\" not found", kind.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(kind, name)
    }

    /// The name is taken.
    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Failed {
        let message = format!("{} \"{name}\" already exists", kind.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(kind, name)
    }

    /// The object has changed, or is not the one that was meant.
    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Failed {
        let on = kind.qualified();
        let message = format!("Operation cannot be fulfilled on {on} \"{name}\": {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(kind, name)
    }

    /// Another revision than the client has seen.
    pub(crate) fn modified(kind: &Kind, name: &str) -> Failed {
        let why = "the object has been modified; please apply your changes to the latest \
                   version and try again";
        Self::conflict(kind, name, why)
    }

    /// The object breaks rules.
    pub(crate) fn invalid(kind: &Kind, name: &str, causes: &[Cause]) -> Failed {
        let of = match kind.group.as_str() {
            "" => kind.kind.clone(),
            group => format!("{}.{group}", kind.kind),
        };
        Self::invalid_of(&of, &kind.group, &kind.kind, name, causes)
    }

    /// Options break rules: `ListOptions`, `DeleteOptions` and their like.
    pub(crate) fn invalid_options(options: &str, causes: &[Cause]) -> Failed {
        let group = "meta.k8s.io";
        Self::invalid_of(&format!("{options}.{group}"), group, options, "", causes)
    }

    fn invalid_of(of: &str, group: &str, kind: &str, name: &str, causes: &[Cause]) -> Failed {
        let causes = causes.get(..MAX_CAUSES).unwrap_or(causes);
        let message = format!("{of} \"{name}\" is invalid: {}", summary(causes));
        let mut failure = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        let details = [("name", name), ("group", group), ("kind", kind)];
        for (key, value) in details.into_iter().filter(|(_, value)| !value.is_empty()) {
            failure.details.insert(key.into(), value.into());
        }
        failure.causes = causes.iter().map(Cause::to_json).collect();
        failure
    }

    /// A field of options has a value that there is not.
    pub(crate) fn unsupported_option(
        options: &str,
        field: &str,
        value: &str,
        known: &[&str],
    ) -> Failed {
        let quoted: Vec<String> = known.iter().map(|value| format!("\"{value}\"")).collect();
        let supported = format!("supported values: {}", quoted.join(", "));
        let cause = Cause::of_value(Fault::NotSupported, field, &value.into(), &supported);
        Self::invalid_options(options, &[cause])
    }

    /// The path takes other methods.
    pub(crate) fn method_not_allowed() -> Failed {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// Nothing that the client accepts can be given.
    pub(crate) fn not_acceptable(accepted: &str) -> Failed {
        let message = format!("only the following media types are accepted: {accepted}");
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The body is in a format that is not read.
    pub(crate) fn unsupported_media_type(accepted: &str) -> Failed {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             {accepted}"
        );
        let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(code, "UnsupportedMediaType", message)
    }

    /// The body, or the object that comes of it, is larger than allowed.
    pub(crate) fn too_large(limit: usize) -> Failed {
        let message = format!("Request entity too large: limit is {limit}");
        let code = StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(code, "RequestEntityTooLarge", message)
    }

    /// A patch that was refused.
    pub(crate) fn patch(error: &PatchError, kind: &Kind, name: &str) -> Failed {
        let code = StatusCode::from_u16(error.code()).unwrap_or(StatusCode::BAD_REQUEST);
        Self::new(code, error.reason(), error.to_string()).about(kind, name)
    }

    /// A patch of whose result nothing can be made: for Kubernetes the patch is invalid then,
    /// where an object written like this would be no object.
    pub(crate) fn of_patch(self: Box<Self>, kind: &Kind, name: &str) -> Failed {
        match self.code {
            StatusCode::BAD_REQUEST => Self::unfit_patch(kind, name, &self.message),
            _ => self,
        }
    }

    /// A patch that does not fit its object.
    pub(crate) fn unfit_patch(kind: &Kind, name: &str, problem: &str) -> Failed {
        let message = format!("the patch cannot be applied: {problem}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(kind, name)
    }

    /// An apply of fields that others have applied otherwise.
    pub(crate) fn applied_by_others(
        kind: &Kind,
        name: &str,
        message: String,
        causes: Vec<Value>,
    ) -> Failed {
        let mut failure = Self::new(StatusCode::CONFLICT, "Conflict", message).about(kind, name);
        failure.causes = causes;
        failure
    }

    /// There are more requests than are answered at a time.
    pub(crate) fn too_many_requests(limit: usize, what: &str) -> Failed {
        let message =
            format!("the server is answering {limit} {what} requests, please try again later");
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
            .retry_after(GATEWAY_RETRY_SECONDS)
    }

    /// The server is going away: another connection leads to another server.
    pub(crate) fn leaving() -> Failed {
        let message = "the server is shutting down, please try again later";
        let mut failure = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
            .retry_after(GATEWAY_LEAVING_RETRY_SECONDS);
        failure.closes = true;
        failure
    }

    /// The request took too long.
    pub(crate) fn timeout(after: Duration) -> Failed {
        let message =
            format!("Timeout: request did not complete within the allotted timeout of {after:?}");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
    }

    /// A fault of the server.
    pub(crate) fn internal(message: impl Into<String>) -> Failed {
        let message = format!("Internal error occurred: {}", message.into());
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// A revision that is no longer to be had.
    pub(crate) fn expired(message: impl Into<String>) -> Failed {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// A revision that there is not yet.
    pub(crate) fn too_large_version(wanted: impl ToString, current: impl ToString) -> Failed {
        let (wanted, current) = (wanted.to_string(), current.to_string());
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let mut failure = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
            .retry_after(GATEWAY_RETRY_SECONDS);
        failure.causes.push(json!({
            "reason": "ResourceVersionTooLarge",
            "message": "Too large resource version",
        }));
        failure
    }

    /// A write that was refused. What it was about is asked for only by some errors.
    pub(crate) fn commit(error: CommitError, kind: &Kind, name: &str) -> Failed {
        match error {
            CommitError::Exists { .. } => Self::already_exists(kind, name),
            CommitError::NotFound { .. } => Self::not_found(kind, name),
            CommitError::RevisionMismatch { .. } => Self::modified(kind, name),
            CommitError::UidMismatch { .. } => {
                let why = "Precondition failed: UID in precondition is not that of the object";
                Self::conflict(kind, name, why)
            }
            CommitError::StorageFull(_) => {
                let code = StatusCode::INSUFFICIENT_STORAGE;
                Self::new(code, "InternalError", error.to_string())
            }
            CommitError::Uncertain(_) => {
                let message = format!("the outcome of the write is not known: {error}");
                Self::new(StatusCode::GATEWAY_TIMEOUT, "ServerTimeout", message)
                    .retry_after(GATEWAY_RETRY_SECONDS)
            }
            CommitError::RequestIdReused => Self::internal(error.to_string()),
            CommitError::Store(error) => error.into(),
        }
    }
}

impl From<Crowded> for Failed {
    fn from(crowded: Crowded) -> Self {
        let code = StatusCode::TOO_MANY_REQUESTS;
        Failure::new(code, "TooManyRequests", crowded.0).retry_after(GATEWAY_RETRY_SECONDS)
    }
}

impl From<HubError> for Failed {
    fn from(error: HubError) -> Self {
        match error {
            HubError::Store(error) => error.into(),
            HubError::Behind { wanted, latest } => Failure::too_large_version(wanted, latest),
            HubError::Stopped => unavailable(error.to_string()),
        }
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Compacted {
                requested,
                compacted,
                ..
            } => Failure::expired(format!(
                "too old resource version: {requested} ({compacted})"
            )),
            StoreError::Forgotten {
                requested,
                forgotten,
            } => Failure::expired(format!(
                "too old resource version: {requested} ({forgotten})"
            )),
            StoreError::Future { requested, latest } => {
                Failure::too_large_version(requested, latest)
            }
            StoreError::Io { .. } | StoreError::Closed => unavailable(error.to_string()),
            StoreError::Damaged(_) | StoreError::Unusable(_) => {
                Failure::internal(error.to_string())
            }
        }
    }
}

fn unavailable(message: String) -> Failed {
    let code = StatusCode::SERVICE_UNAVAILABLE;
    Failure::new(code, "ServiceUnavailable", message).retry_after(GATEWAY_RETRY_SECONDS)
}

/// JSON as a response.
pub(crate) fn json_response(code: StatusCode, json: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::new(http_body_util::Full::new(json)));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    let private = HeaderValue::from_static("no-cache, private");
    headers.insert(header::CACHE_CONTROL, private);
    response
}

/// What a deletion answers that left nothing to show.
pub(crate) fn deleted(kind: &Kind, name: &str, uid: &str) -> Value {
    let mut details = json!({"name": name, "kind": kind.resource, "uid": uid});
    if !kind.group.is_empty() {
        details["group"] = kind.group.as_str().into();
    }
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}
