//! How a client sees objects: each by itself, in a list, in the event of a watch.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{accept::Form, kinds::Kind, object};
use crate::store::{Object, Revision};

/// The form in which a client wants the objects of a kind.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) kind: Arc<Kind>,
    api_version: String,
    pub(crate) form: Form,
}

/// What ends a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListEnd {
    pub(crate) revision: Revision,
    /// Where the next page begins; empty: there is none.
    pub(crate) next: String,
    pub(crate) remaining: Option<usize>,
}

impl View {
    pub(crate) fn new(kind: &Arc<Kind>, form: Form) -> Self {
        Self {
            kind: kind.clone(),
            api_version: kind.api_version(),
            form,
        }
    }

    /// Every client that has it sees the same bytes of an event.
    pub(crate) fn is_shared(&self) -> bool {
        self.form == Form::Object && self.kind.storage
    }

    /// One object by itself.
    pub(crate) fn object(&self, object: &Object, out: &mut Vec<u8>) {
        match self.form {
            Form::Metadata => object::write_partial(object, out),
            _ => object::write(object, &self.api_version, &self.kind, out),
        }
    }

    /// The same, as an own piece of JSON.
    pub(crate) fn json(&self, object: &Object) -> Vec<u8> {
        let mut json = Vec::new();
        self.object(object, &mut json);
        json.push(b'\n');
        json
    }

    /// What stands before the items of a list.
    pub(crate) fn begin_list(&self) -> Vec<u8> {
        let (kind, api_version) = match self.form {
            Form::Metadata => ("PartialObjectMetadataList", "meta.k8s.io/v1"),
            _ => (self.kind.list_kind.as_str(), self.api_version.as_str()),
        };
        let head = json!({"kind": kind, "apiVersion": api_version}).to_string();
        let mut out = head.into_bytes();
        // Open again.
        out.pop();
        out.extend_from_slice(b",\"items\":[");
        out
    }

    /// An item of a list.
    pub(crate) fn item(&self, object: &Object, out: &mut Vec<u8>) {
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        self.object(object, out);
    }

    /// What stands behind the items.
    pub(crate) fn end_list(&self, end: &ListEnd, out: &mut Vec<u8>) {
        let mut metadata = json!({"resourceVersion": end.revision.to_string()});
        if !end.next.is_empty() {
            metadata["continue"] = end.next.as_str().into();
            if let Some(remaining) = end.remaining {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        out.extend_from_slice(b"],\"metadata\":");
        out.extend_from_slice(metadata.to_string().as_bytes());
        out.extend_from_slice(b"}\n");
    }

    /// An event of a watch.
    pub(crate) fn event(&self, what: &str, object: &Object, out: &mut Vec<u8>) {
        begin_event(what, out);
        self.object(object, out);
        out.extend_from_slice(b"}\n");
    }

    /// A bookmark: everything up to this revision has been sent. `initial_end`: which is
    /// the state that the watch began with.
    pub(crate) fn bookmark(&self, revision: Revision, initial_end: bool, out: &mut Vec<u8>) {
        let mut metadata = json!({
            "resourceVersion": revision.to_string(),
            "creationTimestamp": null,
        });
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form {
            Form::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            }),
            _ => json!({
                "kind": self.kind.kind,
                "apiVersion": self.api_version,
                "metadata": metadata,
            }),
        };
        write_event("BOOKMARK", &object, out);
    }
}

fn begin_event(what: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(what.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
}

/// An event about something else than an object of the kind: an error.
pub(crate) fn write_event(what: &str, object: &Value, out: &mut Vec<u8>) {
    begin_event(what, out);
    out.extend_from_slice(object.to_string().as_bytes());
    out.extend_from_slice(b"}\n");
}
