//! How a client sees objects: each by itself, in a list, in the event of a watch; as they are,
//! as metadata only, or as rows of a table.

use std::{sync::Arc, time::SystemTime};

use serde_json::{Value, json};

use super::{
    accept::Form,
    kinds::Kind,
    object,
    query::Query,
    status::{Failed, Failure},
    table::{self, IncludeObject, TableOptions},
};
use crate::store::{Object, Revision};

/// The form in which a client wants the objects of a kind.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) kind: Arc<Kind>,
    api_version: String,
    form: Form,
    /// What the rows of a table carry.
    include: IncludeObject,
    /// Ages in a table count up to this.
    now: SystemTime,
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
    pub(crate) fn new(
        kind: &Arc<Kind>,
        form: Form,
        query: &Query,
        now: SystemTime,
    ) -> Result<Self, Failed> {
        let include = query.get("includeObject");
        let include = IncludeObject::parse(include).ok_or_else(|| {
            let message = format!("unrecognized includeObject value: {include:?}");
            Failure::bad_request(message)
        })?;
        Ok(Self {
            kind: kind.clone(),
            api_version: kind.api_version(),
            form,
            include,
            now,
        })
    }

    /// Every client that has it sees the same bytes of an event.
    pub(crate) fn is_shared(&self) -> bool {
        self.form == Form::Object && self.kind.storage
    }

    /// The same, with ages up to another moment.
    pub(crate) fn at(&mut self, now: SystemTime) {
        self.now = now;
    }

    fn table(&self, objects: &[Value], metadata: Value, headers: bool) -> Value {
        let options = TableOptions {
            include: self.include,
            now: self.now,
            headers,
        };
        table::table(&self.kind, objects, metadata, options)
    }

    fn value(&self, object: &Object) -> Value {
        object::value(object, &self.kind)
    }

    /// One object by itself. `headers`: a table says what its columns are.
    fn object(&self, object: &Object, headers: bool, out: &mut Vec<u8>) {
        match self.form {
            Form::Object => object::write(object, &self.api_version, &self.kind, out),
            Form::Metadata => object::write_partial(object, out),
            Form::Table => {
                let metadata = json!({"resourceVersion": object.revision.to_string()});
                let table = self.table(&[self.value(object)], metadata, headers);
                out.extend_from_slice(table.to_string().as_bytes());
            }
        }
    }

    /// One object as a response.
    pub(crate) fn json(&self, object: &Object) -> Vec<u8> {
        let mut json = Vec::new();
        self.object(object, true, &mut json);
        json.push(b'\n');
        json
    }

    /// What stands before the items of a list.
    pub(crate) fn begin_list(&self) -> Vec<u8> {
        let (mut head, items) = match self.form {
            Form::Object => {
                let kind = &self.kind.list_kind;
                let head = json!({"kind": kind, "apiVersion": self.api_version});
                (head, "items")
            }
            Form::Metadata => {
                let kind = "PartialObjectMetadataList";
                let head = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
                (head, "items")
            }
            Form::Table => (self.table(&[], Value::Null, true), "rows"),
        };
        if let Some(head) = head.as_object_mut() {
            head.remove("metadata");
            head.remove(items);
        }
        let mut out = head.to_string().into_bytes();
        // Open again.
        out.pop();
        out.extend_from_slice(format!(",\"{items}\":[").as_bytes());
        out
    }

    /// Items of a list, after others or the first.
    pub(crate) fn items(&self, objects: &[Arc<Object>], out: &mut Vec<u8>) {
        if self.form == Form::Table {
            let values: Vec<Value> = objects.iter().map(|object| self.value(object)).collect();
            let table = self.table(&values, Value::Null, false);
            for row in table["rows"].as_array().into_iter().flatten() {
                part(out);
                out.extend_from_slice(row.to_string().as_bytes());
            }
            return;
        }
        for object in objects {
            part(out);
            self.object(object, false, out);
        }
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

    /// An event of a watch. `is_first`: it is the first of its watch.
    pub(crate) fn event(&self, what: &str, object: &Object, is_first: bool, out: &mut Vec<u8>) {
        begin_event(what, out);
        self.object(object, is_first, out);
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
        let (kind, api_version) = match self.form {
            Form::Object => (self.kind.kind.as_str(), self.api_version.as_str()),
            Form::Metadata | Form::Table => ("PartialObjectMetadata", "meta.k8s.io/v1"),
        };
        let mut object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        if self.form == Form::Table {
            let of_table = json!({"resourceVersion": revision.to_string()});
            let mut table = self.table(&[], of_table, false);
            table["rows"] = json!([{"cells": [], "object": object}]);
            object = table;
        }
        write_event("BOOKMARK", &object, out);
    }
}

/// A comma, except before the first.
fn part(out: &mut Vec<u8>) {
    if out.last() != Some(&b'[') {
        out.push(b',');
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
