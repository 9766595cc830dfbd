//! What an object must be like before it is written: of the right kind, in the right place,
//! with metadata that follow Kubernetes' rules.

use serde_json::{Map, Value};

use super::{
    cause::{Cause, Fault},
    kinds::Kind,
    object,
    query::Unknown,
    status::{Failed, Failure},
    strict, validation,
};
use crate::limits::{GATEWAY_MAX_FINALIZERS, MAX_LABELS};

/// Checks that a body is an object of a kind, and gives it `apiVersion` and `kind` where it
/// left them open.
pub(crate) fn of_kind(value: Value, kind: &Kind) -> Result<Map<String, Value>, Failed> {
    let unrecognized = |problem: &str| {
        let of = &kind.kind;
        let message =
            format!("the object provided is unrecognized (must be of type {of}): {problem}");
        Failure::bad_request(message)
    };
    validation::shape(&value).map_err(|problem| unrecognized(&problem))?;
    let Value::Object(mut object) = value else {
        return Err(unrecognized("it is no JSON object"));
    };
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or("");
    fits(kind, text("apiVersion"), text("kind"))?;
    let (own_version, own_kind) = (kind.api_version(), kind.kind.as_str());
    object.insert("apiVersion".into(), own_version.into());
    object.insert("kind".into(), own_kind.into());
    let metadata = object.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    Ok(object)
}

/// Checks that what an object says that it is, if it does, is the kind.
pub(crate) fn fits(kind: &Kind, given_version: &str, given_kind: &str) -> Result<(), Failed> {
    let (own_version, own_kind) = (kind.api_version(), kind.kind.as_str());
    let fits = |given: &str, own: &str| given.is_empty() || given == own;
    if fits(given_version, &own_version) && fits(given_kind, own_kind) {
        return Ok(());
    }
    let message = format!(
        "{given_kind} in version {given_version:?} cannot be handled as a {own_kind} in \
         version {own_version:?}"
    );
    Err(Failure::bad_request(message))
}

/// Drops the fields that a kind does not have, and says which, as far as the client wants to
/// know of them. A value of another type than its field is refused.
pub(crate) fn known_fields(
    kind: &Kind,
    object: Map<String, Value>,
    unknown: Unknown,
) -> Result<(Map<String, Value>, Vec<String>), Failed> {
    let mut value = Value::Object(object);
    let told = strict::prune(kind, &mut value).map_err(|problem| {
        let (name, version) = (&kind.kind, &kind.version);
        let message =
            format!("{name} in version {version:?} cannot be handled as a {name}: {problem}");
        Failure::bad_request(message)
    })?;
    if unknown == Unknown::Refuse && !told.is_empty() {
        return Err(Failure::bad_request(strict::refusal(kind, &told)));
    }
    let warnings = told.iter().filter(|_| unknown == Unknown::Warn);
    let warnings = warnings.map(|path| strict::warning(path)).collect();
    let object = match value {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    Ok((object, warnings))
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

/// Checks an object against the rules: a new one, or one that is to take the place of `old`.
pub(crate) fn check(kind: &Kind, old: Option<&Value>, new: &Value) -> Result<(), Failed> {
    let mut causes = match old {
        None => validation::created(kind, new),
        Some(old) => validation::updated(kind, old, new),
    };
    let count = |name: &str| {
        let field = object::metadata(new).and_then(|metadata| metadata.get(name));
        let of_map = field.and_then(Value::as_object).map(Map::len);
        let of_list = field.and_then(Value::as_array).map(Vec::len);
        of_map.or(of_list).unwrap_or(0)
    };
    for (name, most) in [
        ("labels", MAX_LABELS),
        ("finalizers", GATEWAY_MAX_FINALIZERS),
    ] {
        if count(name) > most {
            let field = format!("metadata.{name}");
            let problem = format!("must be at most {most}");
            causes.push(Cause::new(Fault::TooLong, field, &problem));
        }
    }
    match causes.is_empty() {
        true => Ok(()),
        false => {
            let name = object::metadata_text(new, "name");
            Err(Failure::invalid(kind, name, &causes))
        }
    }
}
