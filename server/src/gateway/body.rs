//! The body of a request: JSON, YAML or Kubernetes' Protobuf, and no more of it than allowed.

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;
use tonic::body::Body;

use super::{
    kinds::Kind,
    messages::{self, Envelope, Message},
    rules,
    status::{Failed, Failure},
};

/// What objects may be written in whose kind has no message.
const TEXTS: &str = "application/json, application/yaml";
const ALL: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// Reads a body to its end, or to the limit.
pub(crate) async fn read(body: Body, limit: usize) -> Result<Bytes, Failed> {
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::too_large(limit)),
        Err(error) => {
            let message = format!("the body of the request could not be read: {error}");
            Err(Failure::bad_request(message))
        }
    }
}

/// The media type of a body; empty if it has none.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let given = headers.get(header::CONTENT_TYPE);
    let given = given.and_then(|value| value.to_str().ok()).unwrap_or("");
    given.split(';').next().unwrap_or("").trim()
}

/// The object of a kind that a body says.
pub(crate) fn object(media_type: &str, body: Bytes, kind: &Kind) -> Result<Value, Failed> {
    match messages::of_kind(kind) {
        Some(message) => object_of(message, media_type, body, kind),
        None => text(media_type, &body, TEXTS),
    }
}

/// The `Scale` that a body says; `kind` describes it.
pub(crate) fn scale(media_type: &str, body: Bytes, kind: &Kind) -> Result<Value, Failed> {
    match messages::message(messages::SCALE) {
        Some(message) => object_of(message, media_type, body, kind),
        None => text(media_type, &body, TEXTS),
    }
}

fn object_of(
    message: &'static Message,
    media_type: &str,
    body: Bytes,
    kind: &Kind,
) -> Result<Value, Failed> {
    if media_type != messages::MEDIA_TYPE {
        return text(media_type, &body, ALL);
    }
    let envelope = open(body, &kind.kind)?;
    rules::fits(kind, &envelope.api_version, &envelope.kind)?;
    decode(message, &envelope, &kind.kind, &kind.api_version())
}

/// The options that the body of a deletion says.
pub(crate) fn delete_options(media_type: &str, body: Bytes) -> Result<Value, Failed> {
    const KIND: &str = "DeleteOptions";
    match messages::message(messages::DELETE_OPTIONS) {
        Some(message) if media_type == messages::MEDIA_TYPE => {
            let envelope = open(body, KIND)?;
            decode(message, &envelope, KIND, &envelope.api_version)
        }
        _ => text(media_type, &body, ALL),
    }
}

fn text(media_type: &str, body: &[u8], accepted: &str) -> Result<Value, Failed> {
    match media_type {
        // What says nothing of itself is JSON, or YAML, which is the same.
        "" | "application/json" => json(body),
        "application/yaml" | "application/apply-patch+yaml" => yaml(body),
        _ => Err(Failure::unsupported_media_type(accepted)),
    }
}

fn open(body: Bytes, kind: &str) -> Result<Envelope, Failed> {
    Envelope::open(body).map_err(|error| {
        let message =
            format!("the object provided is unrecognized (must be of type {kind}): {error}");
        Failure::bad_request(message)
    })
}

/// The message in an envelope, with what the envelope says of it.
fn decode(
    message: &'static Message,
    envelope: &Envelope,
    kind: &str,
    version: &str,
) -> Result<Value, Failed> {
    let fields = messages::decode(message, &envelope.raw).map_err(|error| {
        let message =
            format!("{kind} in version {version:?} cannot be handled as a {kind}: {error}");
        Failure::bad_request(message)
    });
    let mut fields = fields?;
    let told = [
        ("apiVersion", &envelope.api_version),
        ("kind", &envelope.kind),
    ];
    for (name, told) in told.into_iter().filter(|(_, told)| !told.is_empty()) {
        fields.insert(name.to_owned(), told.as_str().into());
    }
    Ok(Value::Object(fields))
}

/// A JSON body.
pub(crate) fn json(body: &[u8]) -> Result<Value, Failed> {
    serde_json::from_slice(body).map_err(|error| {
        let message = format!("the object provided is unrecognized: json parse error: {error}");
        Failure::bad_request(message)
    })
}

/// A YAML body, of which every JSON is one.
pub(crate) fn yaml(body: &[u8]) -> Result<Value, Failed> {
    serde_yaml_ng::from_slice(body).map_err(|error| {
        let message = format!("the object provided is unrecognized: yaml parse error: {error}");
        Failure::bad_request(message)
    })
}
