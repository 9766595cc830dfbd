//! Fields that an object's kind does not have: Kubernetes drops them, and says so where the
//! client asked for `fieldValidation=Warn` or `Strict`.
//!
//! Of built-in kinds, the fields beside `metadata` and those in it are known; what is below
//! `spec` and the like is kept as it is. Of other kinds, what their schema says.

use serde_json::{Map, Value};

use super::{kinds::Kind, openapi};

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
pub(crate) fn prune(kind: &Kind, object: &mut Value) -> Vec<String> {
    let mut pruner = Pruner { told: Vec::new() };
    let Some(fields) = object.as_object_mut() else {
        return pruner.told;
    };
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
    if let Some(known) = openapi::top_level_fields(kind) {
        let known: Vec<&str> = known.collect();
        pruner.keep(fields, "", |name| {
            TOP.contains(&name) || known.contains(&name)
        });
    } else if let Some(schema) = &kind.schema {
        let own: Vec<(String, Value)> = TOP
            .iter()
            .filter_map(|name| fields.remove_entry(*name))
            .collect();
        pruner.map(fields, schema, "");
        fields.extend(own);
    }
    pruner.told
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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::gateway::kinds::Kinds;

    #[test]
    fn a_built_in_kind_keeps_what_it_has() {
        let pods = Kinds::builtin().in_collection("pods").unwrap();
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "spek": {},
            "metadata": {
                "name": "a", "label": {}, "labels": {"any": "x"},
                "ownerReferences": [{"uid": "1", "colour": "red"}],
            },
            "spec": {"anything": {"goes": 1}},
        });
        let told = prune(&pods, &mut pod);
        assert_eq!(
            told,
            [
                "metadata.label",
                "metadata.ownerReferences[0].colour",
                "spek"
            ]
        );
        assert_eq!(
            pod,
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": "a", "labels": {"any": "x"}, "ownerReferences": [{"uid": "1"}],
                },
                "spec": {"anything": {"goes": 1}},
            })
        );
        assert!(
            refusal(&pods, &told)
                .contains(r#"strict decoding error: unknown field "metadata.label", "#)
        );
        assert!(prune(&pods, &mut pod).is_empty());
        assert!(prune(&pods, &mut json!([])).is_empty());
    }

    #[test]
    fn every_built_in_kind_has_the_fields_that_kubernetes_gives_it() {
        let kinds = Kinds::builtin();
        for (collection, mut object) in [
            (
                "configmaps",
                json!({"data": {}, "binaryData": {}, "immutable": true}),
            ),
            (
                "secrets",
                json!({"data": {}, "stringData": {}, "type": "Opaque"}),
            ),
            ("leases.coordination.k8s.io", json!({"spec": {}})),
            ("nodes", json!({"spec": {}, "status": {}})),
            (
                "events",
                json!({"involvedObject": {}, "message": "x", "source": {}}),
            ),
            (
                "clusterroles.rbac.authorization.k8s.io",
                json!({"rules": []}),
            ),
            (
                "customresourcedefinitions.apiextensions.k8s.io",
                json!({"spec": {}, "status": {}}),
            ),
        ] {
            let kind = kinds.in_collection(collection).unwrap();
            assert_eq!(
                prune(&kind, &mut object),
                Vec::<String>::new(),
                "{collection}"
            );
        }
    }

    #[test]
    fn a_defined_kind_keeps_what_its_schema_says() {
        let crd = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Cluster",
                "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {
                            "colour": {"type": "string"},
                            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                            "byName": {"type": "object", "additionalProperties": {
                                "type": "object", "properties": {"a": {"type": "integer"}},
                            }},
                            "list": {"type": "array", "items": {
                                "type": "object", "properties": {"a": {"type": "integer"}},
                            }},
                        }},
                    }}},
                }],
            },
        });
        let widget = Kinds::from_crd(&crd).unwrap().pop().unwrap();
        let mut object = json!({
            "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
            "spec": {
                "colour": "red", "size": 1, "free": {"x": {"y": 1}},
                "byName": {"n": {"a": 1, "b": 2}}, "list": [{"a": 1}, {"b": 2}],
            },
            "extra": 1,
        });
        let mut told = prune(&widget, &mut object);
        told.sort();
        assert_eq!(
            told,
            ["extra", "spec.byName.n.b", "spec.list[1].b", "spec.size"]
        );
        assert_eq!(object["metadata"], json!({"name": "a"}));
        assert_eq!(
            object["spec"],
            json!({
                "colour": "red", "free": {"x": {"y": 1}},
                "byName": {"n": {"a": 1}}, "list": [{"a": 1}, {}],
            })
        );
    }
}
