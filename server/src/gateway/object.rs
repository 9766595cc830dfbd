//! Objects as the store has them, and as Kubernetes writes them.
//!
//! The value of an object is its JSON. Name, namespace, labels, uid and revision are the
//! resource's own fields, also where the JSON says otherwise (a gRPC client need not keep the
//! two alike); all else of the metadata is the JSON's. What is no JSON object has only
//! its metadata to show.

use std::{borrow::Cow, fmt, sync::Arc, time::SystemTime};

use humantime::format_rfc3339_seconds;
use serde::{
    Deserialize,
    de::{Deserializer, MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

use super::kinds::Kind;
use crate::store::{Content, Object, Revision};

/// The content type of what is written here.
const CONTENT_TYPE: &str = "application/json";

/// Metadata that an object's own fields give, whatever its JSON says.
const OWN: [&str; 7] = [
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "creationTimestamp",
    "selfLink",
];

/// The fields of a JSON object, unread: showing an object copies them.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

#[derive(Deserialize)]
struct FieldName<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap;
        impl<'de> Visitor<'de> for OfMap {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::with_capacity(8);
                while let Some((FieldName(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(OfMap)
    }
}

impl<'a> Fields<'a> {
    fn of(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    fn get(&self, name: &str) -> Option<&'a RawValue> {
        // Of a field that stands twice, the last counts, as for every reader of JSON.
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| *value)
    }
}

fn text(out: &mut Vec<u8>, text: &str) {
    // A Vec takes whatever is written.
    let _ = serde_json::to_writer(out, text);
}

fn field(out: &mut Vec<u8>, name: &str) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    text(out, name);
    out.push(b':');
}

fn text_field(out: &mut Vec<u8>, name: &str, value: &str) {
    field(out, name);
    text(out, value);
}

/// Writes an object as Kubernetes has it.
pub(crate) fn write(object: &Object, api_version: &str, kind: &Kind, out: &mut Vec<u8>) {
    out.reserve(object.content.value.len() + 512);
    let fields = Fields::of(&object.content.value);
    out.push(b'{');
    text_field(out, "kind", &kind.kind);
    text_field(out, "apiVersion", api_version);
    let metadata = fields.as_ref().and_then(|fields| fields.get("metadata"));
    field(out, "metadata");
    write_metadata(object, metadata, out);
    for (name, value) in fields.iter().flat_map(|fields| &fields.0) {
        if !matches!(name.as_ref(), "kind" | "apiVersion" | "metadata") {
            field(out, name);
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    out.push(b'}');
}

/// Writes an object's metadata only, as `PartialObjectMetadata`.
pub(crate) fn write_partial(object: &Object, out: &mut Vec<u8>) {
    let fields = Fields::of(&object.content.value);
    out.push(b'{');
    text_field(out, "kind", "PartialObjectMetadata");
    text_field(out, "apiVersion", "meta.k8s.io/v1");
    field(out, "metadata");
    let metadata = fields.as_ref().and_then(|fields| fields.get("metadata"));
    write_metadata(object, metadata, out);
    out.push(b'}');
}

fn write_metadata(object: &Object, stored: Option<&RawValue>, out: &mut Vec<u8>) {
    let stored = stored.and_then(|raw| Fields::of(raw.get().as_bytes()));
    out.push(b'{');
    text_field(out, "name", object.key.name());
    if !object.key.namespace().is_empty() {
        text_field(out, "namespace", object.key.namespace());
    }
    text_field(out, "uid", &object.uid.to_string());
    if object.revision != Revision::ZERO {
        text_field(out, "resourceVersion", &object.revision.to_string());
    }
    let created = stored.as_ref().and_then(|s| s.get("creationTimestamp"));
    field(out, "creationTimestamp");
    match created.filter(|raw| raw.get().starts_with('"')) {
        Some(raw) => out.extend_from_slice(raw.get().as_bytes()),
        None if object.revision == object.create_revision => {
            text(out, &time(object.update_time));
        }
        // Written by others than us, and more than once: no one has noted it.
        None => out.extend_from_slice(b"null"),
    }
    if !object.content.labels.is_empty() {
        field(out, "labels");
        let _ = serde_json::to_writer(&mut *out, &object.content.labels);
    }
    for (name, value) in stored.iter().flat_map(|stored| &stored.0) {
        if !OWN.contains(&name.as_ref()) {
            field(out, name);
            out.extend_from_slice(value.get().as_bytes());
        }
    }
    out.push(b'}');
}

/// A point in time as Kubernetes writes it.
pub(crate) fn time(time: SystemTime) -> String {
    format_rfc3339_seconds(time).to_string()
}

/// An object as a value that can be changed.
pub(crate) fn value(object: &Object, kind: &Kind) -> Value {
    let mut json = Vec::new();
    write(object, &kind.api_version(), kind, &mut json);
    // It was put together of JSON.
    serde_json::from_slice(&json).unwrap_or_default()
}

/// Its value is a JSON object, so that it can be changed in part.
pub(crate) fn is_json(object: &Object) -> bool {
    Fields::of(&object.content.value).is_some()
}

/// What is stored of an object. What the store itself keeps is left out.
/// `before`: the version that it replaces.
pub(crate) fn content(mut value: Value, before: Option<&Object>) -> Content {
    let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
    let mut labels = std::collections::BTreeMap::new();
    if let Some(metadata) = metadata {
        for kept_by_store in ["resourceVersion", "uid", "selfLink"] {
            metadata.remove(kept_by_store);
        }
        let given = metadata.get("labels").and_then(Value::as_object);
        for (key, value) in given.into_iter().flatten() {
            if let Some(value) = value.as_str() {
                labels.insert(key.clone(), value.to_owned());
            }
        }
    }
    Content {
        labels,
        value: value.to_string().into(),
        content_type: Arc::from(CONTENT_TYPE),
        expire_time: before.and_then(|before| before.content.expire_time),
    }
}

/// The metadata of an object that has been checked to have some.
pub(crate) fn metadata(value: &Value) -> Option<&Map<String, Value>> {
    value.get("metadata").and_then(Value::as_object)
}

/// A text of the metadata; empty if there is none.
pub(crate) fn metadata_text<'a>(value: &'a Value, name: &str) -> &'a str {
    let text = metadata(value).and_then(|metadata| metadata.get(name));
    text.and_then(Value::as_str).unwrap_or_default()
}

/// Its finalizers.
pub(crate) fn finalizers(value: &Value) -> Vec<&str> {
    let given = metadata(value).and_then(|metadata| metadata.get("finalizers"));
    let given = given.and_then(Value::as_array);
    given
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// It is being deleted, once its finalizers are gone.
pub(crate) fn is_deleting(value: &Value) -> bool {
    !metadata_text(value, "deletionTimestamp").is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::kinds::Kinds, *};
    use crate::store::{Key, Uid};

    fn object(value: &str, labels: &[(&str, &str)], created: u64) -> Object {
        let content = Content {
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            value: value.as_bytes().to_vec().into(),
            ..Content::default()
        };
        Object::new(
            Key::new("pods", "a", "p").unwrap(),
            Uid(1),
            Revision::new(7),
            Revision::new(created),
            SystemTime::UNIX_EPOCH,
            content,
        )
    }

    fn shown(object: &Object) -> Value {
        value(object, &Kinds::builtin().find("", "v1", "pods").unwrap())
    }

    #[test]
    fn what_the_resource_says_counts_more_than_the_json() {
        let stored = json!({
            "apiVersion": "x", "kind": "x",
            "metadata": {
                "name": "x", "namespace": "x", "uid": "x", "resourceVersion": "x",
                "labels": {"x": "x"}, "annotations": {"k": "v"},
                "creationTimestamp": "2020-01-01T00:00:00Z",
            },
            "spec": {"big": 18_446_744_073_709_551_615_u64},
        });
        let pod = shown(&object(&stored.to_string(), &[("app", "web")], 1));
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "p", "namespace": "a", "uid": Uid(1).to_string(),
                "resourceVersion": "7", "labels": {"app": "web"}, "annotations": {"k": "v"},
                "creationTimestamp": "2020-01-01T00:00:00Z",
            },
            "spec": {"big": 18_446_744_073_709_551_615_u64},
        });
        assert_eq!(pod, expected);
    }

    #[test]
    fn what_is_no_json_object_shows_its_metadata() {
        for stored in ["", "\u{1}bytes", "[1]", "3", "null", "{\"a\":"] {
            let pod = shown(&object(stored, &[], 7));
            let expected = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": "p", "namespace": "a", "uid": Uid(1).to_string(),
                    "resourceVersion": "7", "creationTimestamp": "1970-01-01T00:00:00Z",
                },
            });
            assert_eq!(pod, expected, "{stored}");
            assert!(!is_json(&object(stored, &[], 7)));
        }
        // Nothing to be sure of, and nothing made up.
        let pod = shown(&object(r#"{"metadata":3}"#, &[], 1));
        assert_eq!(pod["metadata"]["creationTimestamp"], Value::Null);
    }

    #[test]
    fn what_is_stored_is_shown_again() {
        let given = object(
            r#"{"metadata":{"annotations":{"k":"v"}},"spec":{}}"#,
            &[("a", "b")],
            7,
        );
        let pod = shown(&given);
        let content = content(pod.clone(), None);
        assert_eq!(content.labels["a"], "b");
        let again = Object {
            content,
            ..object("", &[], 7)
        };
        assert_eq!(shown(&again), pod);
    }
}
