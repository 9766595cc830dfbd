//! What an object must be like before it is written: of the right kind, in the right place,
//! with metadata that follow Kubernetes' rules.

use serde_json::{Map, Value};

use super::{
    cause::{Cause, Fault},
    kinds::Kind,
    object,
    selector::{check_key, check_value, is_subdomain},
    status::{Failed, Failure},
};
use crate::{
    limits::{GATEWAY_MAX_ANNOTATION_BYTES, GATEWAY_MAX_FINALIZERS, MAX_LABELS, MAX_NAME_BYTES},
    store::check_namespace,
};

/// Checks that a body is an object of a kind, and gives it `apiVersion` and `kind` where it
/// left them open.
pub(crate) fn of_kind(value: Value, kind: &Kind) -> Result<Map<String, Value>, Failed> {
    let Value::Object(mut object) = value else {
        let message = format!(
            "the object provided is unrecognized (must be of type {}): it is no JSON object",
            kind.kind
        );
        return Err(Failure::bad_request(message));
    };
    let (own_version, own_kind) = (kind.api_version(), kind.kind.as_str());
    let text = |name: &str| match object.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(wrong_type(kind, name, "string")),
    };
    let (given_version, given_kind) = (text("apiVersion")?, text("kind")?);
    let fits = |given: &str, own: &str| given.is_empty() || given == own;
    if !fits(given_version, &own_version) || !fits(given_kind, own_kind) {
        let message = format!(
            "{given_kind} in version {given_version:?} cannot be handled as a {own_kind} in \
             version {own_version:?}"
        );
        return Err(Failure::bad_request(message));
    }
    object.insert("apiVersion".into(), own_version.into());
    object.insert("kind".into(), own_kind.into());
    match object.get("metadata") {
        None | Some(Value::Null) => {
            object.insert("metadata".into(), Value::Object(Map::new()));
        }
        Some(Value::Object(metadata)) => types_of_metadata(metadata, kind)?,
        Some(_) => return Err(wrong_type(kind, "metadata", "object")),
    }
    Ok(object)
}

fn wrong_type(kind: &Kind, field: &str, wanted: &str) -> Failed {
    let message = format!(
        "{} in version {:?} cannot be handled as a {}: {field} must be of type {wanted}",
        kind.kind,
        kind.api_version(),
        kind.kind
    );
    Failure::bad_request(message)
}

/// What decoding into Kubernetes' own types would refuse.
fn types_of_metadata(metadata: &Map<String, Value>, kind: &Kind) -> Result<(), Failed> {
    for (name, value) in metadata {
        let is_text_map = || {
            let map = value.as_object();
            map.is_some_and(|map| map.values().all(|v| v.is_string() || v.is_null()))
        };
        let is_list_of = |fits: fn(&Value) -> bool| {
            let list = value.as_array();
            list.is_some_and(|list| list.iter().all(fits))
        };
        let (fits, wanted) = match name.as_str() {
            _ if value.is_null() => continue,
            "name" | "generateName" | "namespace" | "uid" | "resourceVersion" | "selfLink"
            | "creationTimestamp" | "deletionTimestamp" => (value.is_string(), "string"),
            "labels" | "annotations" => (is_text_map(), "map of strings"),
            "finalizers" => (is_list_of(Value::is_string), "list of strings"),
            "ownerReferences" | "managedFields" => {
                (is_list_of(Value::is_object), "list of objects")
            }
            "generation" | "deletionGracePeriodSeconds" => (value.is_i64(), "integer"),
            _ => continue,
        };
        if !fits {
            return Err(wrong_type(kind, &format!("metadata.{name}"), wanted));
        }
    }
    Ok(())
}

/// Checks that an object says no other name and namespace than the path, and sets them.
/// `name`: of the path; empty for a creation.
pub(crate) fn in_place(
    value: &mut Map<String, Value>,
    namespace: &str,
    name: &str,
) -> Result<(), Failed> {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Ok(());
    };
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).unwrap_or("");
    if !matches!(text("namespace"), given if given.is_empty() || given == namespace) {
        let message = "the namespace of the provided object does not match the namespace sent \
                       on the request";
        return Err(Failure::bad_request(message));
    }
    if !name.is_empty() && !matches!(text("name"), given if given.is_empty() || given == name) {
        let message = format!(
            "the name of the object ({}) does not match the name on the URL ({name})",
            text("name")
        );
        return Err(Failure::bad_request(message));
    }
    if !name.is_empty() {
        metadata.insert("name".into(), name.into());
    }
    if namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".into(), namespace.into());
    }
    Ok(())
}

/// Checks an object's metadata against Kubernetes' rules.
pub(crate) fn check(value: &Value, kind: &Kind) -> Result<(), Failed> {
    let mut causes = Vec::new();
    let name = object::metadata_text(value, "name");
    check_name(name, kind, &mut causes);
    let namespace = object::metadata_text(value, "namespace");
    if let Err(error) = check_namespace(namespace) {
        let problem = error.to_string();
        causes.push(Cause::invalid(
            "metadata.namespace",
            &namespace.into(),
            &problem,
        ));
    }
    check_labels(value, &mut causes);
    check_annotations(value, &mut causes);
    let finalizers = object::finalizers(value);
    if finalizers.len() > GATEWAY_MAX_FINALIZERS {
        let problem = format!("must be at most {GATEWAY_MAX_FINALIZERS}");
        causes.push(Cause::new(Fault::TooLong, "metadata.finalizers", &problem));
    }
    for finalizer in finalizers {
        if let Err(problem) = check_key(finalizer) {
            let field = "metadata.finalizers";
            causes.push(Cause::invalid(field, &finalizer.into(), &problem));
        }
    }
    match causes.is_empty() {
        true => Ok(()),
        false => Err(Failure::invalid(kind, name, &causes)),
    }
}

fn check_name(name: &str, kind: &Kind, causes: &mut Vec<Cause>) {
    if name.is_empty() {
        let problem = "name or generateName is required";
        causes.push(Cause::required("metadata.name", problem));
        return;
    }
    // Roles are named after what they are for, paths included; all else are DNS names.
    let is_role = kind.group == "rbac.authorization.k8s.io";
    let problem = if name.len() > MAX_NAME_BYTES {
        format!("must be at most {MAX_NAME_BYTES} bytes")
    } else if is_role {
        match crate::store::ObjectName::new("", name) {
            Ok(_) => return,
            Err(error) => error.to_string(),
        }
    } else if is_subdomain(name) {
        return;
    } else {
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
         or '.', and must start and end with an alphanumeric character"
            .to_owned()
    };
    causes.push(Cause::invalid("metadata.name", &name.into(), &problem));
}

fn check_labels(value: &Value, causes: &mut Vec<Cause>) {
    let field = "metadata.labels";
    let labels = object::metadata(value).and_then(|metadata| metadata.get("labels"));
    let labels = labels.and_then(Value::as_object);
    if labels.is_some_and(|labels| labels.len() > MAX_LABELS) {
        let problem = format!("must be at most {MAX_LABELS} labels");
        causes.push(Cause::new(Fault::TooLong, field, &problem));
        return;
    }
    for (key, value) in labels.into_iter().flatten() {
        if let Err(problem) = check_key(key) {
            causes.push(Cause::invalid(field, &key.as_str().into(), &problem));
        }
        if let Err(problem) = check_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(field, value, &problem));
        }
    }
}

fn check_annotations(value: &Value, causes: &mut Vec<Cause>) {
    let field = "metadata.annotations";
    let annotations = object::metadata(value).and_then(|metadata| metadata.get("annotations"));
    let annotations = annotations.and_then(Value::as_object);
    let mut bytes = 0;
    for (key, value) in annotations.into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        // Keys of annotations may have upper-case letters before the slash.
        if let Err(problem) = check_key(&key.to_ascii_lowercase()) {
            causes.push(Cause::invalid(field, &key.as_str().into(), &problem));
            return;
        }
    }
    if bytes > GATEWAY_MAX_ANNOTATION_BYTES {
        let problem = format!("must have at most {GATEWAY_MAX_ANNOTATION_BYTES} bytes");
        causes.push(Cause::new(Fault::TooLong, field, &problem));
    }
}
