//! The schemas of what all objects share: ObjectMeta and what it is made of, and values that
//! are written in a way of their own.

use serde_json::{Map, Value, json};

use super::Dialect;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const OWNER_REFERENCE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference";
const MANAGED_FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry";
const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
pub(super) const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
pub(super) const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
pub(super) const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
pub(super) const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// The field of an object that its ObjectMeta is in.
pub(super) fn metadata(dialect: Dialect) -> Value {
    let description = "What every object has: its name, and what is known about it.";
    described(dialect, OBJECT_META, description)
}

/// A reference with a description beside it, which OpenAPI 3 ignores unless it is wrapped.
fn described(dialect: Dialect, name: &str, description: &str) -> Value {
    let reference = dialect.reference(name);
    match dialect {
        Dialect::V2 => json!({"description": description, "$ref": reference["$ref"]}),
        Dialect::V3 => json!({"description": description, "allOf": [reference], "default": {}}),
    }
}

fn text(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

fn flag(description: &str) -> Value {
    json!({"description": description, "type": "boolean"})
}

fn number(description: &str) -> Value {
    json!({"description": description, "type": "integer", "format": "int64"})
}

fn texts(description: &str) -> Value {
    json!({
        "description": description,
        "type": "object",
        "additionalProperties": {"type": "string"},
    })
}

/// The schemas, by name.
pub(super) fn schemas(dialect: Dialect) -> Map<String, Value> {
    [
        (OBJECT_META, object_meta(dialect)),
        (OWNER_REFERENCE, owner_reference()),
        (MANAGED_FIELDS, managed_fields(dialect)),
        (
            FIELDS,
            json!({
                "description": "A set of fields as a tree: `f:` names a field, `k:` an item of a \
                                list by its keys, `v:` one by its value, and `.` the thing itself.",
                "type": "object",
            }),
        ),
        (
            TIME,
            json!({
                "description": "A point in time as RFC 3339 writes it, to the second.",
                "type": "string",
                "format": "date-time",
            }),
        ),
        (
            MICRO_TIME,
            json!({
                "description": "A point in time as RFC 3339 writes it, to the microsecond.",
                "type": "string",
                "format": "date-time",
            }),
        ),
        (
            QUANTITY,
            json!({
                "description": "An amount: a number and what it is multiplied with, as in \
                                `100m`, `2Gi` and `1e3`.",
                "type": "string",
            }),
        ),
        (
            INT_OR_STRING,
            json!({
                "description": "A number, or a text such as a port's name or a percentage.",
                "type": "string",
                "format": "int-or-string",
            }),
        ),
    ]
    .into_iter()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect()
}

fn object_meta(dialect: Dialect) -> Value {
    let time = |description| {
        let mut field = described(dialect, TIME, description);
        // A time has no default.
        if let Some(fields) = field.as_object_mut() {
            fields.remove("default");
        }
        field
    };
    let list = |description: &str, name: &str, extra: Value| {
        let items = match dialect {
            Dialect::V2 => dialect.reference(name),
            Dialect::V3 => json!({"allOf": [dialect.reference(name)], "default": {}}),
        };
        let mut list = json!({"description": description, "type": "array", "items": items});
        if let (Some(list), Value::Object(extra)) = (list.as_object_mut(), extra) {
            list.extend(extra);
        }
        list
    };
    json!({
        "description": "What every stored object has beside its content.",
        "type": "object",
        "properties": {
            "annotations": texts(
                "Free text by key, for tools and people; nothing is selected by it. At most \
                 256 KiB together."
            ),
            "creationTimestamp": time("When the object was created; set by the server."),
            "deletionGracePeriodSeconds": number(
                "How long the object may take to end once its deletion was asked for."
            ),
            "deletionTimestamp": time(
                "Set by the server when the deletion was asked for, and finalizers still hold \
                 the object."
            ),
            "finalizers": {
                "description": "Who has something to do before the object may go. It is removed \
                                once the list is empty and a deletion was asked for.",
                "type": "array",
                "items": {"type": "string", "default": ""},
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
            },
            "generateName": text(
                "Where no name is given, the server makes one of this and a random suffix."
            ),
            "generation": number(
                "Goes up by one when the desired state changes; set by the server."
            ),
            "labels": texts("Short values by key, by which objects are selected."),
            "managedFields": list(
                "Which applier set which fields; kept by the server.",
                MANAGED_FIELDS,
                json!({"x-kubernetes-list-type": "atomic"}),
            ),
            "name": text(
                "Unique within its resource and namespace. Cannot be changed."
            ),
            "namespace": text(
                "Within which the name is unique; empty for objects outside any. Cannot be changed."
            ),
            "ownerReferences": list(
                "The objects that this one depends on.",
                OWNER_REFERENCE,
                json!({
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["uid"],
                    "x-kubernetes-patch-merge-key": "uid",
                    "x-kubernetes-patch-strategy": "merge",
                }),
            ),
            "resourceVersion": text(
                "The version of this object. A write that names one succeeds only if it still \
                 is the newest; a watch can start from it."
            ),
            "selfLink": text("Not used any more."),
            "uid": text("Tells this object from any other that had or will have its name."),
        },
    })
}

fn owner_reference() -> Value {
    json!({
        "description": "An object in the same namespace, or in none, that this one depends on.",
        "type": "object",
        "required": ["apiVersion", "kind", "name", "uid"],
        "properties": {
            "apiVersion": text("The owner's group and version."),
            "blockOwnerDeletion": flag(
                "The owner does not go before this object, where it is deleted in the foreground."
            ),
            "controller": flag("The owner is the one that manages this object."),
            "kind": text("The owner's kind."),
            "name": text("The owner's name."),
            "uid": text("The owner's uid."),
        },
        "x-kubernetes-map-type": "atomic",
    })
}

fn managed_fields(dialect: Dialect) -> Value {
    json!({
        "description": "The fields that one applier has set.",
        "type": "object",
        "properties": {
            "apiVersion": text("The version that the fields are named in."),
            "fieldsType": text("How the fields are written: FieldsV1."),
            "fieldsV1": described(dialect, FIELDS, "The fields."),
            "manager": text("The applier."),
            "operation": text("Apply or Update."),
            "subresource": text("The subresource that was written to, if it was one."),
            "time": text("When its fields changed last."),
        },
    })
}
