//! Between JSON and what the client takes and gives.

use std::{sync::Arc, sync::LazyLock, time::Duration};

use listwatch_client::{
    ClientError, Failure, WatchOptions,
    backoff::BackoffOptions,
    v1::{CatchUp, DeliveryMode, FILE_DESCRIPTOR_SET, Selector, View},
    watcher::{OnExpired, ResumeToken, Start},
};
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::{Value, json};
use tonic::Code;

/// What a command comes to: `ok` or `error`.
pub(crate) type Answer = Result<Value, Value>;

/// The error of a command that is not one of the README's.
pub(crate) fn misused(problem: &str) -> Value {
    json!({"code": "INVALID_ARGUMENT", "reason": "", "message": problem, "metadata": {}, "retry_after": null})
}

pub(crate) fn text<'a>(command: &'a Value, field: &str) -> Result<&'a str, Value> {
    let found = command[field].as_str();
    found.ok_or_else(|| misused(&format!("{field} is missing")))
}

/// A field that may be absent or null, but nothing else than what `read` reads.
pub(crate) fn option<'a, T>(
    command: &'a Value,
    field: &str,
    read: impl Fn(&'a Value) -> Option<T>,
) -> Result<Option<T>, Value> {
    match &command[field] {
        Value::Null => Ok(None),
        value => match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(misused(&format!("{field}: {value}"))),
        },
    }
}

/// A number; absent, nothing.
pub(crate) fn number<N: TryFrom<i64> + Default>(command: &Value, field: &str) -> Result<N, Value> {
    let read = |value: &Value| N::try_from(value.as_i64()?).ok();
    Ok(option(command, field, read)?.unwrap_or_default())
}

fn descriptor(name: &str) -> Result<MessageDescriptor, Value> {
    static POOL: LazyLock<Option<DescriptorPool>> =
        LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).ok());
    let found = POOL
        .as_ref()
        .and_then(|pool| pool.get_message_by_name(&format!("listwatch.v1.{name}")));
    found.ok_or_else(|| misused(&format!("no message {name}")))
}

/// A message of the API from ProtoJSON.
pub(crate) fn from_json<M: Message + Default>(name: &str, value: &Value) -> Result<M, Value> {
    let wrong = |problem: &dyn std::fmt::Display| misused(&format!("{name}: {problem}"));
    let message =
        DynamicMessage::deserialize(descriptor(name)?, value).map_err(|error| wrong(&error))?;
    M::decode(message.encode_to_vec().as_slice()).map_err(|error| wrong(&error))
}

/// ProtoJSON of a message of the API.
pub(crate) fn to_json<M: Message>(name: &str, message: &M) -> Value {
    let bytes = message.encode_to_vec();
    let written = descriptor(name).and_then(|descriptor| {
        let message = DynamicMessage::decode(descriptor, bytes.as_slice())
            .map_err(|error| misused(&error.to_string()))?;
        serde_json::to_value(message).map_err(|error| misused(&error.to_string()))
    });
    written.unwrap_or_else(|problem| problem)
}

pub(crate) fn milliseconds(duration: Duration) -> Value {
    json!(duration.as_secs_f64() * 1000.0)
}

fn duration(value: &Value) -> Option<Duration> {
    Duration::try_from_secs_f64(value.as_f64()? / 1000.0).ok()
}

pub(crate) fn error_json(error: &ClientError) -> Value {
    let failure = error.failure();
    json!({
        "code": code_name(error.code()),
        "reason": failure.map_or("", Failure::reason_name),
        "message": failure.map_or_else(|| error.to_string(), |failure| failure.message().into()),
        "metadata": failure.map(|failure| failure.metadata().clone()).unwrap_or_default(),
        "retry_after": error.retry_after().map(milliseconds),
    })
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// What `watch` and `reflect` say.
pub(crate) fn options(command: &Value) -> Result<WatchOptions, Value> {
    let selector: Selector = from_json("Selector", &command["selector"])?;
    let given = &command["options"];
    let mut options = WatchOptions::new(selector);
    if let Some(start) = option(given, "start", start)? {
        options = options.start(start);
    }
    if let Some(view) = option(given, "view", |v| View::from_str_name(v.as_str()?))? {
        options = options.view(view);
    }
    let mode = |v: &Value| DeliveryMode::from_str_name(v.as_str()?);
    if let Some(mode) = option(given, "delivery_mode", mode)? {
        options = options.delivery_mode(mode);
    }
    if let Some(way) = option(given, "catch_up", |v| CatchUp::from_str_name(v.as_str()?))? {
        options = options.catch_up(way);
    }
    if let Some(send) = option(given, "send_previous", Value::as_bool)? {
        options = options.send_previous(send);
    }
    if let Some(interval) = option(given, "bookmark_interval", duration)? {
        options = options.bookmark_interval(interval);
    }
    if let Some(limit) = option(given, "first_response_timeout", duration)? {
        options = options.first_response_timeout(limit);
    }
    if let Some(limit) = option(given, "progress_timeout", duration)? {
        options = options.progress_timeout(limit);
    }
    if let Some(backoff) = option(given, "backoff", backoff)? {
        options = options.backoff(backoff);
    }
    if let Some(draw) = option(given, "jitter", Value::as_f64)? {
        options = options.randomness(Arc::new(move || draw));
    }
    if let Some(on_expired) = option(given, "on_expired", on_expired)? {
        options = options.on_expired(on_expired);
    }
    Ok(options)
}

fn start(value: &Value) -> Option<Start> {
    let (kind, with) = value.as_object()?.iter().next()?;
    Some(match kind.as_str() {
        "resume_token" => Start::Token(ResumeToken::new(with.as_str()?)),
        "after_revision" => Start::AfterRevision(with.as_i64()?),
        "now" => Start::Now,
        _ => return None,
    })
}

fn backoff(value: &Value) -> Option<BackoffOptions> {
    let default = BackoffOptions::default();
    Some(BackoffOptions {
        initial: value
            .get("initial")
            .map_or(Some(default.initial), duration)?,
        factor: value
            .get("factor")
            .map_or(Some(default.factor), Value::as_f64)?,
        max: value.get("max").map_or(Some(default.max), duration)?,
    })
}

fn on_expired(value: &Value) -> Option<OnExpired> {
    match value.as_str()? {
        "start_over" => Some(OnExpired::StartOver),
        "fail" => Some(OnExpired::Fail),
        _ => None,
    }
}
