//! The schema of a kind: its own fields by name, and below them whatever there is.

use serde_json::{Map, Value, json};

use super::{Dialect, meta};
use crate::gateway::kinds::Kind;

/// What a field of a built-in kind holds.
#[derive(Clone, Copy)]
enum Holds {
    Anything,
    Object,
    List,
    Text,
    Texts,
    Flag,
    Number,
}

use Holds::{Anything, Flag, List, Number, Object, Text, Texts};

type Fields = &'static [(&'static str, Holds)];

const SPEC: Fields = &[("spec", Object)];
const SPEC_AND_STATUS: Fields = &[("spec", Object), ("status", Object)];
const BINDING: Fields = &[("roleRef", Object), ("subjects", List)];
const EVENT: Fields = &[
    ("action", Text),
    ("count", Number),
    ("eventTime", Text),
    ("firstTimestamp", Text),
    ("involvedObject", Object),
    ("lastTimestamp", Text),
    ("message", Text),
    ("reason", Text),
    ("related", Object),
    ("reportingComponent", Text),
    ("reportingInstance", Text),
    ("series", Object),
    ("source", Object),
    ("type", Text),
];
const NEW_EVENT: Fields = &[
    ("action", Text),
    ("deprecatedCount", Number),
    ("deprecatedFirstTimestamp", Text),
    ("deprecatedLastTimestamp", Text),
    ("deprecatedSource", Object),
    ("eventTime", Text),
    ("note", Text),
    ("reason", Text),
    ("regarding", Object),
    ("related", Object),
    ("reportingController", Text),
    ("reportingInstance", Text),
    ("series", Object),
    ("type", Text),
];
const STORAGE_CLASS: Fields = &[
    ("allowVolumeExpansion", Flag),
    ("allowedTopologies", List),
    ("mountOptions", List),
    ("parameters", Texts),
    ("provisioner", Text),
    ("reclaimPolicy", Text),
    ("volumeBindingMode", Text),
];

fn fields(kind: &Kind) -> Fields {
    match kind.qualified() {
        "configmaps" => &[("binaryData", Texts), ("data", Texts), ("immutable", Flag)],
        "endpoints" => &[("subsets", List)],
        "events" => EVENT,
        "podtemplates" => &[("template", Object)],
        "secrets" => &[
            ("data", Texts),
            ("immutable", Flag),
            ("stringData", Texts),
            ("type", Text),
        ],
        "serviceaccounts" => &[
            ("automountServiceAccountToken", Flag),
            ("imagePullSecrets", List),
            ("secrets", List),
        ],
        "controllerrevisions.apps" => &[("data", Anything), ("revision", Number)],
        "events.events.k8s.io" => NEW_EVENT,
        "roles.rbac.authorization.k8s.io" => &[("rules", List)],
        "clusterroles.rbac.authorization.k8s.io" => &[("aggregationRule", Object), ("rules", List)],
        "rolebindings.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io" => BINDING,
        "csistoragecapacities.storage.k8s.io" => &[
            ("capacity", Anything),
            ("maximumVolumeSize", Anything),
            ("nodeTopology", Object),
            ("storageClassName", Text),
        ],
        "storageclasses.storage.k8s.io" => STORAGE_CLASS,
        "volumeattributesclasses.storage.k8s.io" => &[("driverName", Text), ("parameters", Texts)],
        "endpointslices.discovery.k8s.io" => {
            &[("addressType", Text), ("endpoints", List), ("ports", List)]
        }
        _ if kind.status => SPEC_AND_STATUS,
        _ => SPEC,
    }
}

/// The fields that an object of a built-in kind has beside `apiVersion`, `kind` and
/// `metadata`: any other is unknown. `None` for a kind that is not built in.
pub(crate) fn top_level_fields(kind: &Kind) -> Option<impl Iterator<Item = &'static str>> {
    kind.builtin
        .then(|| fields(kind).iter().map(|(name, _)| *name))
}

/// The name of a kind's schema, as Kubernetes makes them.
pub(super) fn name(kind: &Kind) -> String {
    let Kind { version, .. } = kind;
    if kind.builtin {
        let group = match kind.group.split('.').next() {
            None | Some("") => "core",
            Some(first) => first,
        };
        return format!("io.k8s.api.{group}.{version}.{}", kind.kind);
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
        (None, _) => {
            let properties: Map<String, Value> = fields(kind)
                .iter()
                .map(|(name, holds)| ((*name).to_owned(), field(kind, name, *holds)))
                .collect();
            let mut schema = Map::new();
            let description = format!("An object of the kind {}.", kind.kind);
            schema.insert("description".into(), json!(description));
            schema.insert("properties".into(), Value::Object(properties));
            schema
        }
    };
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

fn field(kind: &Kind, name: &str, holds: Holds) -> Value {
    let description = match name {
        "spec" => format!("The desired state of the {}.", kind.kind),
        "status" => format!("What is known of the {}'s actual state.", kind.kind),
        name => format!("The {name} of the {}.", kind.kind),
    };
    let mut schema = match holds {
        Anything => json!({}),
        Object => json!({"type": "object"}),
        List => json!({"type": "array", "items": {PRESERVE: true}}),
        Text => json!({"type": "string"}),
        Texts => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Flag => json!({"type": "boolean"}),
        Number => json!({"type": "integer"}),
    };
    schema["description"] = json!(description);
    if matches!(holds, Anything | Object) {
        schema[PRESERVE] = json!(true);
    }
    schema
}
