//! Fields that an object's kind does not have: Kubernetes drops them, and says so where the
//! client asked for `fieldValidation=Warn` or `Strict`. Of built-in kinds also values that are
//! of another type than their field, which Kubernetes cannot decode and refuses.
//!
//! What a built-in kind has says the table of its messages; what others have, their schema.

mod fit;

use serde_json::{Map, Value};

use super::{
    kinds::Kind,
    messages::{self, Field, Holds, JSON_SCHEMA, Many, Message},
};

const META: &[&str] = &[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];
const OWNER: &[&str] = &[
    "apiVersion",
    "blockOwnerDeletion",
    "controller",
    "kind",
    "name",
    "uid",
];
/// What every object has at the top.
const TOP: &[&str] = &["apiVersion", "kind", "metadata"];
/// Paths that are told: a message is for people.
const MAX_TOLD: usize = 100;

/// Drops the fields that the kind does not have, and tells their paths.
///
/// # Errors
/// A value is of the wrong type; in the words that Go has for it.
pub(crate) fn prune(kind: &Kind, object: &mut Value) -> Result<Vec<String>, String> {
    let mut pruner = Pruner { told: Vec::new() };
    let Some(fields) = object.as_object_mut() else {
        return Ok(pruner.told);
    };
    if let Some(message) = messages::of_kind(kind) {
        pruner.message(fields, message, "", "")?;
        return Ok(pruner.told);
    }
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        pruner.keep(metadata, "metadata", |name| META.contains(&name));
        let owners = metadata.get_mut("ownerReferences");
        let owners = owners.and_then(Value::as_array_mut).into_iter().flatten();
        for (i, owner) in owners.enumerate() {
            if let Some(owner) = owner.as_object_mut() {
                let at = format!("metadata.ownerReferences[{i}]");
                pruner.keep(owner, &at, |name| OWNER.contains(&name));
            }
        }
    }
    if let Some(schema) = &kind.schema {
        let own: Vec<(String, Value)> = TOP
            .iter()
            .filter_map(|name| fields.remove_entry(*name))
            .collect();
        pruner.map(fields, schema, "");
        fields.extend(own);
    }
    Ok(pruner.told)
}

/// The message of a 400 for an object that has unknown fields, where `Strict` was asked for.
pub(crate) fn refusal(kind: &Kind, unknown: &[String]) -> String {
    let fields: Vec<String> = unknown.iter().map(|path| warning(path)).collect();
    format!(
        "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
        kind.kind,
        kind.version,
        kind.kind,
        fields.join(", ")
    )
}

/// What a client is told of one unknown field.
pub(crate) fn warning(path: &str) -> String {
    format!("unknown field {path:?}")
}

/// A field in an object.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The message that it is of.
    of: &'static str,
    field: &'static Field,
    path: &'a str,
}

struct Pruner {
    told: Vec<String>,
}

impl Pruner {
    fn keep(&mut self, fields: &mut Map<String, Value>, at: &str, known: impl Fn(&str) -> bool) {
        let told = &mut self.told;
        fields.retain(|name, _| {
            let known = known(name);
            if !known && told.len() < MAX_TOLD {
                told.push(join(at, name));
            }
            known
        });
    }

    /// By the message of a built-in kind. `at`: where it is, with the places in lists, as
    /// unknown fields are told; `path`: without, as Go tells values of the wrong type.
    fn message(
        &mut self,
        fields: &mut Map<String, Value>,
        message: &'static Message,
        at: &str,
        path: &str,
    ) -> Result<(), String> {
        self.keep(fields, at, |name| message.json_field(name).is_some());
        for (name, value) in fields {
            if let Some(field) = message.json_field(name) {
                let place = Place {
                    of: message.short_name(),
                    field,
                    path: &join(path, name),
                };
                self.field(value, place, &join(at, name))?;
            }
        }
        Ok(())
    }

    fn field(&mut self, value: &mut Value, place: Place<'_>, at: &str) -> Result<(), String> {
        match (place.field.many, value) {
            (_, Value::Null) => Ok(()),
            (Many::One, value) => self.one(value, place, at),
            (Many::List, Value::Array(items)) => {
                let mut items = items.iter_mut().enumerate();
                items.try_for_each(|(i, item)| self.one(item, place, &format!("{at}[{i}]")))
            }
            (Many::Map, Value::Object(values)) => {
                let mut values = values.iter_mut();
                values.try_for_each(|(name, value)| self.one(value, place, &join(at, name)))
            }
            (_, value) => Err(fit::unfit_whole(value, place)),
        }
    }

    fn one(&mut self, value: &mut Value, place: Place<'_>, at: &str) -> Result<(), String> {
        match (place.field.holds, value) {
            (_, Value::Null) => Ok(()),
            (Holds::Message(name), Value::Object(fields)) => match messages::message(name) {
                Some(message) => self.message(fields, message, at, place.path),
                None => Ok(()),
            },
            (Holds::SchemaOrList, Value::Array(items)) => {
                let mut items = items.iter_mut().enumerate();
                items.try_for_each(|(i, item)| self.one(item, place, &format!("{at}[{i}]")))
            }
            (
                Holds::SchemaOrList | Holds::SchemaOrFlag | Holds::SchemaOrTexts,
                Value::Object(fields),
            ) => match messages::message(JSON_SCHEMA) {
                Some(message) => self.message(fields, message, at, place.path),
                None => Ok(()),
            },
            (_, value) => fit::check(value, place),
        }
    }

    fn map(&mut self, fields: &mut Map<String, Value>, schema: &Value, at: &str) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let open = preserves(schema)
            || matches!(others, Some(Value::Bool(true) | Value::Object(_)))
            // Whole objects within an object have these.
            || schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
        if !open {
            self.keep(fields, at, |name| {
                properties.is_some_and(|known| known.contains_key(name))
            });
        }
        for (name, value) in fields {
            let inner = properties
                .and_then(|known| known.get(name))
                .or_else(|| others.filter(|others| others.is_object()));
            if let Some(inner) = inner {
                self.value(value, inner, &join(at, name));
            }
        }
    }

    fn value(&mut self, value: &mut Value, schema: &Value, at: &str) {
        match value {
            // A value of another type than the schema's is another fault.
            Value::Object(fields) if is_structured(schema) => self.map(fields, schema, at),
            Value::Array(items) => {
                if let Some(schema) = schema.get("items") {
                    for (i, item) in items.iter_mut().enumerate() {
                        self.value(item, schema, &format!("{at}[{i}]"));
                    }
                }
            }
            _ => {}
        }
    }
}

fn preserves(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

fn is_structured(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
        || schema.get("properties").is_some()
}

fn join(at: &str, name: &str) -> String {
    match at {
        "" => name.to_owned(),
        at => format!("{at}.{name}"),
    }
}

#[cfg(test)]
mod tests;
