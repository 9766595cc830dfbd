//! What the gateway reads of a request, given any bytes: selectors, queries and paths, and
//! bodies in each form. None of it touches the store.

// It fails as a test does.
#![allow(clippy::expect_used)]

use std::{
    sync::{Arc, LazyLock},
    time::SystemTime,
};

use bytes::Bytes;
use serde_json::Value;

use super::{
    body, doubled,
    fields::{self, FieldSelector},
    kinds::{Kind, Kinds},
    labels, messages,
    patch::{
        self, PatchKind,
        server_side::{self, Applier},
    },
    path,
    query::{ListOptions, Query, Unknown, WriteOptions},
    rules, strict,
    table::{self, IncludeObject, TableOptions},
};
use crate::{
    selector::{Field, LabelCondition, LabelRequirement, SelectableFields},
    store::Collection,
};

static KINDS: LazyLock<Kinds> = LazyLock::new(Kinds::builtin);

/// Kinds of all sorts: with and without status and scale, in namespaces and not.
const PLACES: [(&str, &str, &str); 8] = [
    ("", "v1", "pods"),
    ("", "v1", "configmaps"),
    ("", "v1", "secrets"),
    ("", "v1", "nodes"),
    ("apps", "v1", "deployments"),
    ("batch", "v1", "jobs"),
    ("", "v1", "services"),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
];

fn kind(number: u8) -> Arc<Kind> {
    let (group, version, resource) = PLACES[usize::from(number) % PLACES.len()];
    let kind = KINDS.find(group, version, resource);
    kind.expect("a built-in kind")
}

/// A label selector, or after a zero and the number of a kind a field selector.
pub(crate) fn selector_text(data: &[u8]) {
    if let Some(([0, number], text)) = data.split_first_chunk::<2>() {
        field_selector(&String::from_utf8_lossy(text), &kind(*number));
    } else {
        label_selector(&String::from_utf8_lossy(data));
    }
}

fn label_selector(text: &str) {
    let Ok(requirements) = labels::parse(text) else {
        return;
    };
    let terms: Vec<String> = requirements.iter().map(term).collect();
    let again = labels::parse(&terms.join(","));
    assert_eq!(again.as_ref(), Ok(&requirements), "{terms:?}");
    // What is a selector for Kubernetes is one over gRPC.
    let selector = crate::selector::Selector::new(
        Collection::new("pods").expect("a collection"),
        None,
        None,
        "",
        requirements,
        Vec::new(),
        Arc::default(),
    );
    let said = crate::service::fuzzing::said(&selector);
    let taken = crate::service::fuzzing::taken(said);
    assert_eq!(taken.map(|taken| taken.hash()), Ok(selector.hash()));
}

fn term(requirement: &LabelRequirement) -> String {
    let key = &requirement.key;
    match &requirement.condition {
        // `in ()` has no value, and `key=` the empty one.
        LabelCondition::In(values) if *values == [""] => format!("{key}="),
        LabelCondition::NotIn(values) if *values == [""] => format!("{key}!="),
        LabelCondition::In(values) => format!("{key} in ({})", values.join(",")),
        LabelCondition::NotIn(values) => format!("{key} notin ({})", values.join(",")),
        LabelCondition::Exists => key.clone(),
        LabelCondition::NotExists => format!("!{key}"),
    }
}

fn field_selector(text: &str, kind: &Kind) {
    let Ok(selector) = FieldSelector::parse(text, kind) else {
        return;
    };
    let declared = fields::selected_by(kind, &SelectableFields::default());
    let requirements = selector
        .requirements(&declared)
        .expect("only fields that the kind has");
    let escaped = |text: &str| {
        let text = text.replace('\\', "\\\\").replace(',', "\\,");
        text.replace('=', "\\=")
    };
    let terms: Vec<String> = requirements
        .iter()
        .map(|requirement| {
            let path = match &requirement.field {
                Field::Name => "metadata.name",
                Field::Namespace => "metadata.namespace",
                Field::Declared(_, path) => path,
            };
            let operator = if requirement.not_equal { "!=" } else { "=" };
            format!("{path}{operator}{}", escaped(&requirement.value))
        })
        .collect();
    let again = FieldSelector::parse(&terms.join(","), kind);
    assert_eq!(again.as_ref(), Ok(&selector), "{terms:?}");
}

/// A path, `?` and a query: each part is read, or refused, in every way that it may be meant.
pub(crate) fn target(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (path, query) = text.split_once('?').unwrap_or((&text, ""));
    if path::is_ours(path) {
        let _ = path::place(path, &KINDS);
    }
    if let Ok(query) = Query::parse(query) {
        let _ = ListOptions::of_list(&query);
        let _ = ListOptions::of_watch(&query);
        let _ = WriteOptions::parse(&query, "CreateOptions");
    }
}

/// The body of a write: a byte for the kind, one for the form, then the body.
pub(crate) fn bodies(data: &[u8]) {
    let Some(([number, form], text)) = data.split_first_chunk::<2>() else {
        return;
    };
    let kind = kind(*number);
    match form % 5 {
        0 => json_body(&kind, text),
        1 => yaml_body(&kind, text),
        2 => message(&kind, text),
        3 => patches(&kind, text),
        _ => {
            if let Ok(definition) = body::yaml(text) {
                let _ = Kinds::from_crd(&definition);
            }
        }
    }
}

fn json_body(kind: &Kind, text: &[u8]) {
    let _ = doubled::check(kind, "application/json", text, Unknown::Refuse);
    let Ok(value) = body::json(text) else {
        return;
    };
    let written = value.to_string();
    let again = body::json(written.as_bytes()).expect("JSON of ours");
    assert_eq!(again, value, "what is written is read as it was");
    object(kind, value);
}

fn yaml_body(kind: &Kind, text: &[u8]) {
    let Ok(value) = body::yaml(text) else {
        return;
    };
    let _ = doubled::check(kind, "application/yaml", text, Unknown::Refuse);
    object(kind, value);
}

/// An envelope, or after a zero the message in it.
fn message(kind: &Kind, data: &[u8]) {
    let envelope = Bytes::copy_from_slice(data);
    if let Ok(value) = body::object(messages::MEDIA_TYPE, envelope, kind) {
        object(kind, value);
    }
    let _ = body::delete_options(messages::MEDIA_TYPE, Bytes::copy_from_slice(data));
    let (Some((0, raw)), Some(message)) = (data.split_first(), messages::of_kind(kind)) else {
        return;
    };
    if let Ok(fields) = messages::decode(message, raw) {
        let mut value = Value::Object(fields);
        // A message says nothing that its kind does not have. A quantity may be none: that is
        // refused here, as it is in JSON.
        let told = strict::prune(kind, &mut value);
        assert!(told.is_err() || told == Ok(Vec::new()), "{told:?} {value}");
        object(kind, value);
    }
}

/// What becomes of an object that was read: fields are dropped once, and what is refused is
/// refused in words.
fn object(kind: &Kind, value: Value) {
    let Ok(object) = rules::of_kind(value, kind) else {
        return;
    };
    let mut value = Value::Object(object);
    if strict::prune(kind, &mut value).is_err() {
        return;
    }
    let pruned = value.clone();
    assert_eq!(strict::prune(kind, &mut value), Ok(Vec::new()));
    assert_eq!(value, pruned);
    let _ = rules::check(kind, None, &value);
    let _ = rules::check(kind, Some(&value), &value);
    let options = TableOptions {
        include: IncludeObject::Metadata,
        now: SystemTime::UNIX_EPOCH,
        headers: true,
    };
    let shown = table::table(kind, [&value], Value::Null, options);
    let width = |row: &Value, of: &str| row[of].as_array().map(Vec::len);
    let columns = width(&shown, "columnDefinitions");
    assert_eq!(width(&shown["rows"][0], "cells"), columns);
}

/// `[object, patch]` in JSON, patched in each form.
fn patches(kind: &Kind, text: &[u8]) {
    let Ok(pair) = body::json(text) else {
        return;
    };
    let (Some(current), Some(patch)) = (pair.get(0), pair.get(1)) else {
        return;
    };
    for form in [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic] {
        if let Err(error) = patch::apply(form, current, patch, &kind.merge_keys) {
            assert!((400..500).contains(&error.code()), "{error}");
            assert!(!error.to_string().is_empty());
        }
    }
    if let Ok(merged) = patch::apply(PatchKind::Merge, current, patch, &kind.merge_keys) {
        let again = patch::apply(PatchKind::Merge, &merged, patch, &kind.merge_keys);
        assert_eq!(again, Ok(merged), "a merge says what is to be");
    }
    let applier = |manager| Applier {
        manager,
        force: true,
        subresource: "",
        api_version: "v1",
        now: "2026-01-01T00:00:00Z",
    };
    let apply = |current: &Value, manager| {
        server_side::apply(Some(current), patch, &kind.merge_keys, applier(manager))
    };
    if let (true, Ok(applied)) = (current.is_object(), apply(current, "one")) {
        let again = apply(&applied, "one");
        assert_eq!(again.as_ref(), Ok(&applied), "an apply says what is to be");
        let _ = apply(&applied, "two");
    }
}
