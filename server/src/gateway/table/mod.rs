//! Objects as rows: what `kubectl get` shows, which asks the server for it.

mod cluster;
mod columns;
mod jsonpath;
mod pods;
mod row;
mod workloads;

use std::time::SystemTime;

use serde_json::{Value, json};

use self::row::Row;
use super::kinds::Kind;

/// What a row carries beside its cells: the query parameter `includeObject`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    /// Nothing.
    None,
    /// The object's metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Of the query parameter; `None` for a value that there is not (400).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Metadata" => Some(Self::Metadata),
            "None" => Some(Self::None),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }
}

/// How a Table is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableOptions {
    /// What each row carries.
    pub(crate) include: IncludeObject,
    /// The present moment: cells tell ages.
    pub(crate) now: SystemTime,
    /// With the columns' definitions. Of a watch's events, only the first has them.
    pub(crate) headers: bool,
}

/// A Table of these objects. `list`: the metadata of the list; of a watch's event or a
/// single object, its `resourceVersion`.
pub(crate) fn table<'a>(
    kind: &Kind,
    objects: impl IntoIterator<Item = &'a Value>,
    list: Value,
    options: TableOptions,
) -> Value {
    let columns = columns::of(kind);
    let rows: Vec<Value> = objects
        .into_iter()
        .map(|object| {
            let row = Row::new(object, options.now);
            let cells: Vec<Value> = columns.cells(&row);
            match options.include {
                IncludeObject::None => json!({"cells": cells}),
                IncludeObject::Metadata => json!({"cells": cells, "object": metadata_of(object)}),
                IncludeObject::Object => json!({"cells": cells, "object": object}),
            }
        })
        .collect();
    let headers = options.headers.then(|| columns.headers());
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list,
        "columnDefinitions": headers,
        "rows": rows,
    })
}

/// An object's metadata alone, as a PartialObjectMetadata.
pub(crate) fn metadata_of(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").unwrap_or(&Value::Null),
    })
}

#[cfg(test)]
mod tests;
