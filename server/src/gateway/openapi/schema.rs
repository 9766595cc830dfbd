//! The schema of a kind: of a built-in one by the table of its messages, of others what their
//! definition says.

use serde_json::{Map, Value, json};

use super::{Dialect, meta};
use crate::gateway::{
    kinds::Kind,
    messages::{self, Field, Holds, Many, Message},
};

/// The name of a kind's schema, as Kubernetes makes them.
pub(super) fn name(kind: &Kind) -> String {
    let Kind { version, .. } = kind;
    if kind.builtin {
        return messages::name_of(kind);
    }
    let mut reversed: Vec<&str> = kind.group.split('.').collect();
    reversed.reverse();
    format!("{}.{version}.{}", reversed.join("."), kind.kind)
}

pub(super) fn group_version_kind(kind: &Kind) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": kind.kind})
}

/// The schema of a kind.
pub(super) fn of(kind: &Kind, dialect: Dialect) -> Value {
    let mut schema = match (&kind.schema, dialect) {
        // Only the third version can say all that a definition's schema says.
        (Some(given), Dialect::V3) => given.as_object().cloned().unwrap_or_default(),
        (Some(_), Dialect::V2) => open(),
        (None, _) => match messages::of_kind(kind) {
            Some(message) => of_message(message, dialect),
            None => open(),
        },
    };
    let description = format!("An object of the kind {}.", kind.kind);
    let told = schema.entry("description");
    told.or_insert_with(|| description.into());
    schema.insert("type".into(), json!("object"));
    let gvk = json!([group_version_kind(kind)]);
    schema.insert("x-kubernetes-group-version-kind".into(), gvk);
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Value::Object(properties) = properties {
        let api_version = "The group and version that the object is written in.";
        let kind = "What the object is.";
        for (name, description) in [("apiVersion", api_version), ("kind", kind)] {
            let text = json!({"description": description, "type": "string"});
            properties.insert(name.into(), text);
        }
        properties.insert("metadata".into(), meta::metadata(dialect));
    }
    Value::Object(schema)
}

/// A schema that lets anything through.
fn open() -> Map<String, Value> {
    [(PRESERVE.to_owned(), json!(true))].into_iter().collect()
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Adds the schemas of the messages that are in the objects of a kind.
pub(super) fn add_messages(kind: &Kind, dialect: Dialect, schemas: &mut Map<String, Value>) {
    let mut left: Vec<&'static Message> = messages::of_kind(kind).into_iter().collect();
    while let Some(message) = left.pop() {
        for field in message.json_fields() {
            let Holds::Message(name) = field.holds else {
                continue;
            };
            // Those of all objects are told with more words.
            if let Some(inner) = messages::message(name)
                && !schemas.contains_key(name)
            {
                schemas.insert(name.to_owned(), of_message(inner, dialect).into());
                left.push(inner);
            }
        }
    }
}

fn of_message(message: &'static Message, dialect: Dialect) -> Map<String, Value> {
    let fields = message.json_fields();
    let required: Vec<&str> = fields
        .iter()
        .filter(|field| field.required)
        .map(|field| field.name)
        .collect();
    let properties: Map<String, Value> = fields
        .iter()
        .map(|field| (field.name.to_owned(), of_field(field, dialect)))
        .collect();
    let mut schema = Map::new();
    schema.insert("type".into(), json!("object"));
    schema.insert("properties".into(), properties.into());
    if !required.is_empty() {
        schema.insert("required".into(), json!(required));
    }
    schema
}

fn of_field(field: &Field, dialect: Dialect) -> Value {
    let one = of_value(field.holds, dialect);
    let mut schema = match field.many {
        Many::One => return one,
        Many::List => json!({"type": "array", "items": one}),
        Many::Map => json!({"type": "object", "additionalProperties": one}),
    };
    if !field.list_type.is_empty() {
        schema["x-kubernetes-list-type"] = json!(field.list_type);
    }
    if !field.list_keys.is_empty() {
        schema["x-kubernetes-list-map-keys"] = json!(field.list_keys);
    }
    if !field.patch_strategy.is_empty() {
        schema["x-kubernetes-patch-strategy"] = json!(field.patch_strategy);
    }
    if !field.patch_key.is_empty() {
        schema["x-kubernetes-patch-merge-key"] = json!(field.patch_key);
    }
    schema
}

fn of_value(holds: Holds, dialect: Dialect) -> Value {
    match holds {
        Holds::Text => json!({"type": "string"}),
        Holds::Flag => json!({"type": "boolean"}),
        Holds::Int32 => json!({"type": "integer", "format": "int32"}),
        Holds::Int64 => json!({"type": "integer", "format": "int64"}),
        Holds::Double => json!({"type": "number", "format": "double"}),
        Holds::Bytes => json!({"type": "string", "format": "byte"}),
        Holds::Time => dialect.reference(meta::TIME),
        Holds::MicroTime => dialect.reference(meta::MICRO_TIME),
        Holds::Quantity => dialect.reference(meta::QUANTITY),
        Holds::IntOrString => dialect.reference(meta::INT_OR_STRING),
        // These may be of several types.
        Holds::Raw | Holds::SchemaOrList | Holds::SchemaOrFlag | Holds::SchemaOrTexts => {
            json!({PRESERVE: true})
        }
        Holds::Message(name) => dialect.reference(name),
    }
}
