//! What every object's metadata must be, whatever its kind.
//!
//! Kubernetes decodes objects into Go types, so that a field of the wrong JSON type is a 400
//! ([`shape`]); what decodes but breaks a rule is a 422 with its causes ([`created`],
//! [`updated`]).

use serde_json::{Map, Value, json};

use super::{
    cause::{Cause, Fault},
    kinds::Kind,
    names,
};
use crate::store::ObjectName;

/// Keys and values of all annotations of an object, as in Kubernetes.
const MAX_ANNOTATION_BYTES: usize = 256 * 1024;
/// What a generated suffix adds to a `generateName`.
pub(crate) const GENERATED_SUFFIX_BYTES: usize = 5;

/// Checks that fields of the metadata are of the types that they must be.
///
/// # Errors
/// What is wrong, for a 400 BadRequest.
pub(crate) fn shape(object: &Value) -> Result<(), String> {
    let Some(object) = object.as_object() else {
        return Err("the object must be a JSON object".to_owned());
    };
    for field in ["apiVersion", "kind"] {
        expect(object, "", field, "a string", Value::is_string)?;
    }
    expect(object, "", "metadata", "an object", Value::is_object)?;
    let Some(metadata) = object.get("metadata").and_then(Value::as_object) else {
        return Ok(());
    };
    let at = "metadata.";
    for field in TEXTS {
        expect(metadata, at, field, "a string", Value::is_string)?;
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        expect(metadata, at, field, "an RFC 3339 time", is_time)?;
    }
    for field in ["generation", "deletionGracePeriodSeconds"] {
        expect(metadata, at, field, "an integer", Value::is_i64)?;
    }
    for field in ["labels", "annotations"] {
        expect(metadata, at, field, "an object", Value::is_object)?;
        for (key, value) in fields(metadata, field) {
            if !value.is_string() && !value.is_null() {
                return Err(format!("metadata.{field}[{key:?}] must be a string"));
            }
        }
    }
    for field in ["finalizers", "ownerReferences", "managedFields"] {
        expect(metadata, at, field, "an array", Value::is_array)?;
    }
    for (i, finalizer) in items(metadata, "finalizers").iter().enumerate() {
        if !finalizer.is_string() {
            return Err(format!("metadata.finalizers[{i}] must be a string"));
        }
    }
    for (i, owner) in items(metadata, "ownerReferences").iter().enumerate() {
        let at = format!("metadata.ownerReferences[{i}]");
        let Some(owner) = owner.as_object() else {
            return Err(format!("{at} must be an object"));
        };
        let at = format!("{at}.");
        for field in ["apiVersion", "kind", "name", "uid"] {
            expect(owner, &at, field, "a string", Value::is_string)?;
        }
        for field in ["controller", "blockOwnerDeletion"] {
            expect(owner, &at, field, "a boolean", Value::is_boolean)?;
        }
    }
    if items(metadata, "managedFields")
        .iter()
        .any(|f| !f.is_object())
    {
        return Err("each of metadata.managedFields must be an object".to_owned());
    }
    Ok(())
}

const TEXTS: [&str; 6] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "selfLink",
];

fn expect(
    of: &Map<String, Value>,
    at: &str,
    field: &str,
    what: &str,
    is: fn(&Value) -> bool,
) -> Result<(), String> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(()),
        Some(value) if is(value) => Ok(()),
        Some(_) => Err(format!("{at}{field} must be {what}")),
    }
}

/// A time as RFC 3339 writes it.
pub(crate) fn is_time(value: &Value) -> bool {
    value
        .as_str()
        .is_some_and(|text| humantime::parse_rfc3339(text).is_ok() || is_offset_time(text))
}

/// A time with an offset from UTC, which Go reads and the server hardly ever meets.
fn is_offset_time(text: &str) -> bool {
    let Some((time, offset)) = text.split_at_checked(text.len().saturating_sub(6)) else {
        return false;
    };
    let well_formed = match offset.as_bytes() {
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(|b| b.is_ascii_digit()),
        _ => false,
    };
    well_formed && humantime::parse_rfc3339(&format!("{time}Z")).is_ok()
}

fn fields<'a>(
    of: &'a Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    of.get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

fn items<'a>(of: &'a Map<String, Value>, name: &str) -> &'a [Value] {
    of.get(name)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The faults of a new object's metadata. A missing name is none while there is a
/// `generateName`: it may be checked before the name is generated, or after.
pub(crate) fn created(kind: &Kind, object: &Value) -> Vec<Cause> {
    let nothing = Map::new();
    let metadata = object.get("metadata").and_then(Value::as_object);
    let metadata = metadata.unwrap_or(&nothing);
    let mut causes = Vec::new();
    let text = |field| {
        metadata
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let prefix = text("generateName");
    if !prefix.is_empty() {
        // What follows makes a name of a prefix that ends as no name may.
        let whole = match prefix.strip_suffix(['-', '.']) {
            Some(stem) if !stem.is_empty() => format!("{stem}a"),
            _ => prefix.to_owned(),
        };
        if let Err(rule) = name_rule(kind, &whole) {
            causes.push(Cause::invalid(
                "metadata.generateName",
                &json!(prefix),
                rule,
            ));
        }
    }
    match text("name") {
        "" if prefix.is_empty() => {
            let problem = "name or generateName is required";
            causes.push(Cause::required("metadata.name", problem));
        }
        "" => {}
        name => causes.extend(name_fault(kind, name)),
    }
    match (kind.namespaced, text("namespace")) {
        (true, "") => causes.push(Cause::required("metadata.namespace", "")),
        (true, namespace) => {
            if let Err(rule) = names::label(namespace) {
                causes.push(Cause::invalid(
                    "metadata.namespace",
                    &json!(namespace),
                    rule,
                ));
            }
        }
        (false, "") => {}
        (false, _) => {
            let problem = "not allowed on this type";
            causes.push(Cause::new(Fault::Forbidden, "metadata.namespace", problem));
        }
    }
    causes.extend(shared(metadata));
    causes
}

/// The faults of an object's metadata that is to take the place of `old`.
pub(crate) fn updated(kind: &Kind, old: &Value, new: &Value) -> Vec<Cause> {
    let mut causes = created(kind, new);
    let field = |of: &Value, name: &str| {
        let value = of.get("metadata").and_then(|metadata| metadata.get(name));
        value.cloned().unwrap_or_default()
    };
    for name in ["name", "namespace", "uid", "creationTimestamp"] {
        let (before, after) = (field(old, name), field(new, name));
        // What the client leaves out is filled in from the old object.
        if !after.is_null() && after != json!("") && after != before {
            let problem = "field is immutable";
            causes.push(Cause::invalid(format!("metadata.{name}"), &after, problem));
        }
    }
    if !field(old, "deletionTimestamp").is_null() {
        let (before, after) = (field(old, "finalizers"), field(new, "finalizers"));
        let known = before.as_array().map(Vec::as_slice).unwrap_or_default();
        let added: Vec<&Value> = after
            .as_array()
            .into_iter()
            .flatten()
            .filter(|finalizer| !known.contains(finalizer))
            .collect();
        if !added.is_empty() {
            let problem = format!(
                "no finalizers can be added while the object is being deleted, found {}",
                json!(added)
            );
            let fault = Cause::new(Fault::Forbidden, "metadata.finalizers", &problem);
            causes.push(fault);
        }
    }
    causes
}

/// The fault of a name, if it has one: the store's rules, then the kind's.
pub(crate) fn name_fault(kind: &Kind, name: &str) -> Option<Cause> {
    let stored = ObjectName::new("", name).map_err(|error| error.to_string());
    let fault = match (stored, name_rule(kind, name)) {
        (_, Err(rule)) => rule.to_owned(),
        (Err(rule), Ok(())) => rule,
        (Ok(_), Ok(())) => return None,
    };
    Some(Cause::invalid("metadata.name", &json!(name), &fault))
}

fn name_rule(kind: &Kind, name: &str) -> Result<(), &'static str> {
    match kind.qualified() {
        "namespaces" => names::label(name),
        "services" => names::label_1035(name),
        "clusterroles.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io"
        | "roles.rbac.authorization.k8s.io"
        | "rolebindings.rbac.authorization.k8s.io"
        | "ipaddresses.networking.k8s.io" => names::path_segment(name),
        _ => names::subdomain(name),
    }
}

fn shared(metadata: &Map<String, Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (key, value) in fields(metadata, "labels") {
        if let Err(rule) = names::qualified(key) {
            causes.push(Cause::invalid("metadata.labels", &json!(key), rule));
        }
        if let Err(rule) = names::label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, rule));
        }
    }
    let mut size = 0;
    for (key, value) in fields(metadata, "annotations") {
        // Kubernetes looks at keys of annotations without regard to case.
        if let Err(rule) = names::qualified(&key.to_ascii_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &json!(key), rule));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_ANNOTATION_BYTES {
        let problem = format!("may not be more than {MAX_ANNOTATION_BYTES} bytes");
        let fault = Cause::new(Fault::TooLong, "metadata.annotations", &problem);
        causes.push(fault);
    }
    for (i, finalizer) in items(metadata, "finalizers").iter().enumerate() {
        if let Err(rule) = names::qualified(finalizer.as_str().unwrap_or_default()) {
            let field = format!("metadata.finalizers[{i}]");
            causes.push(Cause::invalid(field, finalizer, rule));
        }
    }
    if metadata.get("generation").and_then(Value::as_i64) < Some(0)
        && metadata.get("generation").is_some_and(Value::is_i64)
    {
        let value = metadata.get("generation").unwrap_or(&Value::Null);
        let problem = "must not be negative";
        causes.push(Cause::invalid("metadata.generation", value, problem));
    }
    causes.extend(owners(items(metadata, "ownerReferences")));
    causes
}

fn owners(owners: &[Value]) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut controllers = 0;
    for (i, owner) in owners.iter().enumerate() {
        let at = format!("metadata.ownerReferences[{i}]");
        let text = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(field).is_empty() {
                causes.push(Cause::required(
                    format!("{at}.{field}"),
                    "must not be empty",
                ));
            }
        }
        if text("apiVersion").split('/').count() > 2 {
            let problem = "must be VERSION or GROUP/VERSION";
            let value = json!(text("apiVersion"));
            causes.push(Cause::invalid(format!("{at}.apiVersion"), &value, problem));
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let problem = "an event cannot own anything";
            causes.push(Cause::invalid(at, owner, problem));
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let problem = "only one reference can have controller set to true";
        let value = json!(controllers);
        causes.push(Cause::invalid("metadata.ownerReferences", &value, problem));
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::kinds::Kinds;

    fn kind(collection: &str) -> std::sync::Arc<Kind> {
        Kinds::builtin().in_collection(collection).unwrap()
    }

    fn faults(collection: &str, metadata: Value) -> Vec<String> {
        let object = json!({"metadata": metadata});
        assert_eq!(shape(&object), Ok(()));
        let causes = created(&kind(collection), &object);
        causes.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn names_follow_the_rule_of_their_kind() {
        for (collection, name, good) in [
            ("configmaps", "a.b-c", true),
            ("configmaps", "A", false),
            ("configmaps", "a_b", false),
            ("services", "0a", false),
            ("services", "a.b", false),
            ("roles.rbac.authorization.k8s.io", "system:Node_x", true),
            ("roles.rbac.authorization.k8s.io", "a/b", false),
            // The store's rule, where Kubernetes has none.
            ("roles.rbac.authorization.k8s.io", "a b", false),
        ] {
            let found = faults(collection, json!({"name": name, "namespace": "default"}));
            assert_eq!(found.is_empty(), good, "{collection} {name}");
        }
        assert!(faults("namespaces", json!({"name": "a.b"})) == ["metadata.name"]);
    }

    #[test]
    fn a_name_or_a_prefix_of_one_is_required() {
        assert_eq!(faults("namespaces", json!({})), ["metadata.name"]);
        assert!(faults("namespaces", json!({"generateName": "a-"})).is_empty());
        for prefix in ["a.", "a--", "a"] {
            let metadata = json!({"generateName": prefix, "namespace": "x"});
            assert!(faults("configmaps", metadata).is_empty(), "{prefix}");
        }
        assert!(!faults("namespaces", json!({"generateName": "-"})).is_empty());
        assert_eq!(
            faults("namespaces", json!({"generateName": "A-"})),
            ["metadata.generateName"]
        );
    }

    #[test]
    fn a_namespace_is_where_the_kind_wants_it() {
        assert_eq!(
            faults("nodes", json!({"name": "a", "namespace": "b"})),
            ["metadata.namespace"]
        );
        assert_eq!(faults("pods", json!({"name": "a"})), ["metadata.namespace"]);
        assert_eq!(
            faults("pods", json!({"name": "a", "namespace": "B"})),
            ["metadata.namespace"]
        );
    }

    #[test]
    fn labels_annotations_finalizers_and_owners_are_checked() {
        for (field, value, at) in [
            ("labels", json!({"a b": "x"}), "metadata.labels"),
            ("labels", json!({"a": "x y"}), "metadata.labels"),
            ("annotations", json!({"a/b/c": "x"}), "metadata.annotations"),
            (
                "annotations",
                json!({"a": "x".repeat(256 * 1024)}),
                "metadata.annotations",
            ),
            (
                "finalizers",
                json!(["ok", "not ok"]),
                "metadata.finalizers[1]",
            ),
            ("generation", json!(-1), "metadata.generation"),
            (
                "ownerReferences",
                json!([{"apiVersion": "v1", "kind": "Pod", "name": "a"}]),
                "metadata.ownerReferences[0].uid",
            ),
            (
                "ownerReferences",
                json!([{"apiVersion": "v1", "kind": "Event", "name": "a", "uid": "1"}]),
                "metadata.ownerReferences[0]",
            ),
            (
                "ownerReferences",
                json!([
                    {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": true},
                    {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "2", "controller": true},
                ]),
                "metadata.ownerReferences",
            ),
        ] {
            let mut metadata = json!({"name": "a"});
            metadata[field] = value;
            assert_eq!(faults("nodes", metadata.clone()), [at], "{metadata}");
        }
        let good = json!({
            "name": "a",
            "labels": {"example.com/a": "B_1", "c": ""},
            "annotations": {"Example.com/a": "any text\n"},
            "finalizers": ["kubernetes", "example.com/x"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "X", "name": "a", "uid": "1"}],
        });
        assert!(faults("nodes", good).is_empty());
    }

    #[test]
    fn a_field_of_another_type_is_no_object_at_all() {
        for object in [
            json!([]),
            json!({"kind": 1}),
            json!({"metadata": []}),
            json!({"metadata": {"name": 1}}),
            json!({"metadata": {"labels": {"a": 1}}}),
            json!({"metadata": {"labels": []}}),
            json!({"metadata": {"annotations": {"a": {}}}}),
            json!({"metadata": {"finalizers": "x"}}),
            json!({"metadata": {"finalizers": [1]}}),
            json!({"metadata": {"ownerReferences": [1]}}),
            json!({"metadata": {"ownerReferences": [{"controller": "yes"}]}}),
            json!({"metadata": {"generation": "1"}}),
            json!({"metadata": {"creationTimestamp": "yesterday"}}),
            json!({"metadata": {"managedFields": [1]}}),
        ] {
            assert!(shape(&object).is_err(), "{object}");
        }
        for time in ["2024-01-02T03:04:05Z", "2024-01-02T03:04:05+02:00"] {
            assert!(shape(&json!({"metadata": {"creationTimestamp": time}})).is_ok());
        }
        assert!(shape(&json!({"metadata": {"creationTimestamp": null}})).is_ok());
    }

    #[test]
    fn an_update_leaves_identity_alone_and_adds_no_finalizer_to_what_is_going() {
        let old = json!({"metadata": {"name": "a", "uid": "1", "finalizers": ["x"]}});
        let nodes = kind("nodes");
        assert!(updated(&nodes, &old, &json!({"metadata": {"name": "a"}})).is_empty());
        let other = json!({"metadata": {"name": "b", "uid": "2"}});
        assert_eq!(updated(&nodes, &old, &other).len(), 2);

        let mut going = old.clone();
        going["metadata"]["deletionTimestamp"] = json!("2024-01-02T03:04:05Z");
        let mut more = going.clone();
        more["metadata"]["finalizers"] = json!(["x", "y"]);
        assert_eq!(updated(&nodes, &going, &more)[0].fault, Fault::Forbidden);
        assert!(updated(&nodes, &old, &more).is_empty());
        more["metadata"]["finalizers"] = json!([]);
        assert!(updated(&nodes, &going, &more).is_empty());
    }
}
