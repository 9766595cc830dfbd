//! A watch's line of JSON, typed as a client of Kubernetes has it.
//!
//! As much becomes values of their own as of a gRPC event: names, uid, version, labels. The rest
//! of the object stays text, which the parser has checked.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::objects::STAMP;
use crate::bench::latency::Nanos;

/// One line.
#[derive(Debug, Deserialize)]
#[allow(
    dead_code,
    reason = "a client has them; decoding them is what is measured"
)]
pub(super) struct Line<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    #[serde(borrow)]
    pub(super) object: Object<'a>,
}

/// What has happened.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(
    dead_code,
    reason = "a client has them; decoding them is what is measured"
)]
pub(super) struct Object<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
    /// Of a Status.
    #[serde(default)]
    pub(super) code: u16,
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(
    dead_code,
    reason = "a client has them; decoding them is what is measured"
)]
pub(super) struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    creation_timestamp: Option<String>,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    labels: HashMap<String, String>,
    #[serde(default)]
    annotations: HashMap<String, String>,
}

impl Metadata {
    pub(super) fn revision(&self) -> i64 {
        self.resource_version.parse().unwrap_or(0)
    }

    pub(super) fn stamp(&self) -> Nanos {
        self.labels
            .get(STAMP)
            .map_or(0, |stamp| stamp.parse().unwrap_or(0))
    }

    /// A bookmark that ends the state.
    pub(super) fn ends_state(&self) -> bool {
        let end = self.annotations.get("k8s.io/initial-events-end");
        end.is_some_and(|end| end == "true")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_far_as_a_client_needs_it() {
        let line = r#"{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{
            "name":"a","resourceVersion":"17","labels":{"compare.listwatch.dev/at":"42"}},
            "spec":{"x":[1]},"status":{}}}"#;
        let line: Line<'_> = serde_json::from_str(line).unwrap();
        assert_eq!(line.kind, Kind::Modified);
        assert_eq!(
            (
                line.object.metadata.revision(),
                line.object.metadata.stamp()
            ),
            (17, 42)
        );
        assert_eq!(line.object.spec.unwrap().get(), r#"{"x":[1]}"#);
        let error = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},
            "status":"Failure","message":"gone","code":410}}"#;
        let error: Line<'_> = serde_json::from_str(error).unwrap();
        assert_eq!((error.kind, error.object.code), (Kind::Error, 410));
        assert!(
            serde_json::from_str::<Line<'_>>(r#"{"type":"ADDED","object":{"spec":{]}}"#).is_err()
        );
    }
}
