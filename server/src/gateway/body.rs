//! The body of a request: JSON or YAML, and no more of it than allowed.

use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::Value;
use tonic::body::Body;

use super::status::{Failed, Failure};

const ACCEPTED: &str = "application/json, application/yaml";

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

/// What a body says.
pub(crate) fn parse(media_type: &str, body: &[u8]) -> Result<Value, Failed> {
    match media_type {
        // What says nothing of itself is JSON, or YAML, which is the same.
        "" | "application/json" => json(body),
        "application/yaml" | "application/apply-patch+yaml" => yaml(body),
        _ => Err(Failure::unsupported_media_type(ACCEPTED)),
    }
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
