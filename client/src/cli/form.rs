//! How an object is written as JSON and YAML, and read back: what `-o json|yaml` prints
//! is what `apply -f` takes.
//!
//! The value stands under one of three names, so that it always comes back as the same
//! value: `value` (structured, where the content type is JSON), `valueText` (UTF-8) or
//! `valueBase64` (anything else).

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use listwatch::v1::{Key, Resource};
use prost_types::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};

use super::exact_json;

/// The content type that a structured value gets unless it names another.
pub(super) const JSON: &str = "application/json";

/// Whether a media type says that the value is JSON: `application/json`,
/// `application/vnd.x+json`, with or without parameters.
pub(super) fn is_json(content_type: &str) -> bool {
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case(JSON) || media_type.to_ascii_lowercase().ends_with("+json")
}

/// One object in the order in which people read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Form<'a> {
    key: KeyForm<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    revision: i64,
    #[serde(skip_serializing_if = "is_zero")]
    create_revision: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    update_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expire_time: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    content_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

#[derive(Serialize)]
struct KeyForm<'a> {
    collection: &'a str,
    // Also when empty: a key without namespace must come back without one.
    namespace: &'a str,
    name: &'a str,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

impl<'a> Form<'a> {
    /// `with_value` is false where the server was not asked for values: an object printed
    /// without one must not look like an object whose value is empty.
    pub(super) fn new(resource: &'a Resource, with_value: bool) -> Self {
        let key = resource.key.as_ref();
        let mut form = Self {
            key: KeyForm {
                collection: key.map_or("", |key| &key.collection),
                namespace: key.map_or("", |key| &key.namespace),
                name: key.map_or("", |key| &key.name),
            },
            uid: &resource.uid,
            revision: resource.revision,
            create_revision: resource.create_revision,
            update_time: resource.update_time.as_ref().map(Timestamp::to_string),
            expire_time: resource.expire_time.as_ref().map(Timestamp::to_string),
            labels: &resource.labels,
            content_type: &resource.content_type,
            value: None,
            value_text: None,
            value_base64: None,
        };
        if with_value {
            let structured =
                is_json(&resource.content_type).then(|| exact_json::parse(&resource.value));
            match (structured.flatten(), std::str::from_utf8(&resource.value)) {
                (Some(value), _) => form.value = Some(value),
                (None, Ok(text)) => form.value_text = Some(text),
                (None, Err(_)) => form.value_base64 = Some(BASE64.encode(&resource.value)),
            }
        }
        form
    }
}

/// Whether a document is an object in this form.
pub(super) fn is_form(document: &Map<String, Value>) -> bool {
    document.contains_key("key") && !document.contains_key("kind")
}

/// Reads the form. What the server sets (`uid`, revisions, `updateTime`) is left out;
/// `namespace` is for a key that names none.
pub(super) fn read(
    mut document: Map<String, Value>,
    namespace: Option<&str>,
) -> Result<Resource, String> {
    for ignored in ["uid", "revision", "createRevision", "updateTime"] {
        document.remove(ignored);
    }
    let key = match document.remove("key") {
        Some(Value::Object(key)) => read_key(key, namespace)?,
        _ => return Err("key is no mapping of collection, namespace and name".into()),
    };
    let labels = match document.remove("labels") {
        Some(labels) => read_labels("labels", labels)?,
        None => BTreeMap::new(),
    };
    let expire_time = match text(&mut document, "expireTime")? {
        Some(time) => Some(time.parse::<Timestamp>().map_err(|_| {
            format!("expireTime is {time:?}, no time such as 2026-01-31T12:00:00Z")
        })?),
        None => None,
    };
    let content_type = text(&mut document, "contentType")?;
    let given = ["value", "valueText", "valueBase64"].map(|name| document.remove(name));
    let (value, default_type) = match given {
        [Some(value), None, None] => {
            let content_type = content_type.as_deref().unwrap_or(JSON);
            if !is_json(content_type) {
                return Err(format!(
                    "value is for JSON, but contentType is {content_type:?}: write valueText or valueBase64"
                ));
            }
            (
                serde_json::to_vec(&value).map_err(|error| error.to_string())?,
                JSON,
            )
        }
        [None, Some(Value::String(value)), None] => (value.into_bytes(), ""),
        [None, None, Some(Value::String(value))] => {
            let packed: String = value.split_ascii_whitespace().collect();
            (
                BASE64
                    .decode(packed)
                    .map_err(|error| format!("valueBase64: {error}"))?,
                "",
            )
        }
        [None, None, None] => {
            return Err("has no value: print objects with --view full to apply them again".into());
        }
        [None, ..] => {
            return Err("valueText and valueBase64 are text, and only one may stand".into());
        }
        [Some(_), ..] => {
            return Err("only one of value, valueText and valueBase64 may stand".into());
        }
    };
    if let Some(unknown) = document.keys().next() {
        return Err(format!("{unknown} is no field of an object"));
    }
    Ok(Resource {
        key: Some(key),
        labels,
        value: Bytes::from(value),
        content_type: content_type.unwrap_or_else(|| default_type.into()),
        expire_time,
        ..Resource::default()
    })
}

fn read_key(mut key: Map<String, Value>, namespace: Option<&str>) -> Result<Key, String> {
    let missing = |field: &str| format!("key.{field} is missing");
    let read = Key {
        collection: text(&mut key, "collection")?.ok_or_else(|| missing("collection"))?,
        namespace: text(&mut key, "namespace")?
            .unwrap_or_else(|| namespace.unwrap_or_default().to_owned()),
        name: text(&mut key, "name")?.ok_or_else(|| missing("name"))?,
    };
    match key.keys().next() {
        Some(unknown) => Err(format!("key.{unknown} is no field of a key")),
        None => Ok(read),
    }
}

fn text(document: &mut Map<String, Value>, field: &str) -> Result<Option<String>, String> {
    match document.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(not_text(field, &other)),
    }
}

/// Labels, whose values must be text: YAML reads `version: 1.10` as the number 1.1.
pub(super) fn read_labels(field: &str, labels: Value) -> Result<BTreeMap<String, String>, String> {
    let labels = match labels {
        Value::Null => return Ok(BTreeMap::new()),
        Value::Object(labels) => labels,
        _ => return Err(format!("{field} is no mapping")),
    };
    labels
        .into_iter()
        .map(|(key, value)| match value {
            Value::String(value) => Ok((key, value)),
            Value::Null => Ok((key, String::new())),
            other => Err(not_text(&format!("{field}.{key}"), &other)),
        })
        .collect()
}

/// Why a field that has to be text is none, and what to do.
pub(super) fn not_text(field: &str, found: &Value) -> String {
    match found {
        Value::Number(_) | Value::Bool(_) => {
            format!("{field} is {found}, not text: put it in quotes")
        }
        Value::Array(_) => format!("{field} is a list, not text"),
        Value::Object(_) => format!("{field} is a mapping, not text"),
        _ => format!("{field} is not text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(content_type: &str, value: &[u8]) -> Resource {
        Resource {
            key: Some(Key {
                collection: "c".into(),
                namespace: "".into(),
                name: "n".into(),
            }),
            uid: "u".into(),
            revision: 7,
            create_revision: 3,
            update_time: Some(Timestamp {
                seconds: 1_700_000_000,
                nanos: 5_000_000,
            }),
            expire_time: Some(Timestamp {
                seconds: 1_900_000_000,
                nanos: 0,
            }),
            labels: [("a".into(), "yes".into()), ("b".into(), "1.10".into())].into(),
            content_type: content_type.into(),
            value: Bytes::copy_from_slice(value),
        }
    }

    fn back(printed: Value) -> Result<Resource, String> {
        let Value::Object(document) = printed else {
            panic!("no mapping")
        };
        assert!(is_form(&document));
        read(document, Some("elsewhere"))
    }

    #[test]
    fn what_is_printed_comes_back_as_the_same_object_in_json_and_yaml() {
        let values: [(&str, &[u8]); 14] = [
            (JSON, br#"{"a":[1,2.5,null,true,"x"],"b":{}}"#),
            (JSON, b"null"),
            (JSON, b"\"text\""),
            (JSON, b"{broken"),
            (JSON, b""),
            (JSON, br#"{"n":123456789012345678901234567890}"#),
            (JSON, br#"{"twice":1,"twice":2}"#),
            (
                "application/vnd.x+json; charset=utf-8",
                br#"{"no":"yes","t":"12:30"}"#,
            ),
            ("text/plain", b"line 1\nline 2  \n\ttab \x07 \xc2\x85\r\n"),
            ("text/plain", b" - not: yaml # really\n---\n..."),
            ("", b""),
            ("", b"{}"),
            ("application/x-protobuf", b"\xff\x00\x01"),
            ("x", "\u{2028}\u{feff}\u{10ffff}".as_bytes()),
        ];
        for (content_type, value) in values {
            let before = resource(content_type, value);
            let form = Form::new(&before, true);
            let json = serde_json::to_value(&form).unwrap();
            let yaml: Value =
                serde_yaml_ng::from_str(&serde_yaml_ng::to_string(&form).unwrap()).unwrap();
            for printed in [json, yaml] {
                let after = back(printed).unwrap();
                assert_eq!(after.value, before.value, "{content_type} {value:?}");
                assert_eq!(after.content_type, before.content_type);
                assert_eq!(after.key, before.key);
                assert_eq!(after.labels, before.labels);
                assert_eq!(after.expire_time, before.expire_time);
            }
        }
    }

    #[test]
    fn an_object_printed_without_its_value_cannot_empty_the_stored_one() {
        let stored = resource(JSON, b"{}");
        let printed = serde_json::to_value(Form::new(&stored, false)).unwrap();
        assert!(back(printed).unwrap_err().contains("--view full"));
    }

    #[test]
    fn mistakes_are_named_by_field() {
        for (document, reason) in [
            (r#"{"key": "x"}"#, "key is no mapping"),
            (r#"{"key": {"name": "n"}}"#, "key.collection is missing"),
            (
                r#"{"key": {"collection": "c", "name": 5}}"#,
                "name is 5, not text",
            ),
            (
                r#"{"key": {"collection": "c", "name": "n", "nmae": ""}}"#,
                "key.nmae",
            ),
            (
                r#"{"key": {"collection": "c", "name": "n"}, "value": 1, "valueText": ""}"#,
                "only one",
            ),
            (
                r#"{"key": {"collection": "c", "name": "n"}, "valueText": 1}"#,
                "are text",
            ),
            (
                r#"{"key": {"collection": "c", "name": "n"}, "valueBase64": "?"}"#,
                "valueBase64",
            ),
            (
                r#"{"key": {"collection": "c", "name": "n"}, "contentType": "text/plain", "value": 1}"#,
                "write valueText",
            ),
            (
                r#"{"key": {"collection": "c", "name": "n"}, "value": 1, "label": {}}"#,
                "label is no",
            ),
            (
                r#"{"key": {"collection": "c", "name": "n"}, "value": 1, "labels": {"v": 1.1}}"#,
                "labels.v is 1.1, not text",
            ),
            (
                r#"{"key": {"collection": "c", "name": "n"}, "value": 1, "expireTime": "soon"}"#,
                "soon",
            ),
        ] {
            let why = back(serde_json::from_str(document).unwrap()).unwrap_err();
            assert!(why.contains(reason), "{document}: {why}");
        }
    }

    #[test]
    fn a_key_without_namespace_takes_the_one_of_the_command_line() {
        let document = r#"{"key": {"collection": "c", "name": "n"}, "value": {}}"#;
        let read = back(serde_json::from_str(document).unwrap()).unwrap();
        assert_eq!(read.key.unwrap().namespace, "elsewhere");
        assert_eq!(read.content_type, JSON);
    }
}
