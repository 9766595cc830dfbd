//! Tokens and selectors as clients send them, given any bytes.

// It fails as a test does.
#![allow(clippy::expect_used)]

use std::{ops::Bound, time::SystemTime};

use listwatch::v1;
use prost::Message as _;

use super::{
    request::{self, Invalid},
    token::{self, TokenError},
    wire,
};
use crate::{
    selector::{LabelCondition, SelectableFields, Selector},
    store::{Collection, Content, Key, Object, Revision, StoreId, Uid},
};

const STORE: StoreId = StoreId(7);
const ASKED: u64 = 5;

/// A token: text as it comes or, after a zero, the inside of one, sealed as the server does it.
pub(crate) fn tokens(data: &[u8]) {
    match data.split_first() {
        Some((0, inside)) => token(&token::seal(inside.to_vec())),
        _ => token(&String::from_utf8_lossy(data)),
    }
}

/// What is read of a token makes the same token, and is read for this store and request only.
fn token(text: &str) {
    let position = token::read_resume_token(text, STORE, ASKED);
    let page = token::read_page_token(text, STORE, ASKED);
    assert!(position.is_err() || page.is_err(), "{text} is both");
    if let Ok(position) = position {
        assert_eq!(token::resume_token(STORE, position, ASKED), text);
        let other = token::read_resume_token(text, StoreId(8), ASKED);
        assert_eq!(other, Err(TokenError::OtherStore));
        let other = token::read_resume_token(text, STORE, 6);
        assert_eq!(other, Err(TokenError::OtherRequest));
    }
    if let Ok(page) = page {
        assert_eq!(token::page_token(STORE, &page, ASKED), text);
        let other = token::read_page_token(text, StoreId(8), ASKED);
        assert_eq!(other, Err(TokenError::OtherStore));
        let other = token::read_page_token(text, STORE, 6);
        assert_eq!(other, Err(TokenError::OtherRequest));
    }
}

/// Fields that selectors of pods may name.
fn selectable() -> SelectableFields {
    let mut known = SelectableFields::default();
    if let Ok(pods) = Collection::new("pods") {
        known.declare(pods, ["spec.nodeName", "status.phase"]);
    }
    known
}

/// A `v1.Selector`. One that is taken is taken again as it was understood, and selects the
/// same, whatever the order of its parts.
pub(crate) fn selectors(data: &[u8]) {
    let Ok(asked) = v1::Selector::decode(data) else {
        return;
    };
    let selector = match taken(asked.clone()) {
        Ok(selector) => selector,
        Err(invalid) => return refused(&invalid),
    };
    let mut again = said(&selector);
    again.labels.reverse();
    again.fields.reverse();
    let again = match taken(again) {
        Ok(again) => again,
        Err(invalid) => panic!("{selector:?} is refused as it was understood: {invalid:?}"),
    };
    assert_eq!(selector.hash(), again.hash(), "{selector:?} {again:?}");
    assert_eq!(selector.labels(), again.labels());
    assert_eq!(selector.fields(), again.fields());
    for object in objects(&selector) {
        let matches = selector.matches(&object);
        assert_eq!(matches, again.matches(&object));
        assert_eq!(matches, fulfils(&object, &asked), "{asked:?} {object:?}");
        let range = selector.range(Bound::Unbounded);
        let in_range = range
            .namespace
            .as_deref()
            .is_none_or(|ns| ns == object.key.namespace())
            && object.key.name().starts_with(&*range.name_prefix);
        assert!(in_range || !matches, "{selector:?} misses {object:?}");
        if let Some(key) = selector.single_key() {
            assert!(key == object.key || !matches);
        }
    }
}

/// What a selector is read as.
pub(crate) fn taken(asked: v1::Selector) -> Result<Selector, Invalid> {
    request::selector(Some(asked), &selectable())
}

fn refused(invalid: &Invalid) {
    assert!(invalid.field.starts_with("selector"), "{invalid:?}");
    assert!(!invalid.problem.is_empty(), "{invalid:?}");
}

/// A selector as a client would say it.
pub(crate) fn said(selector: &Selector) -> v1::Selector {
    wire::selector(selector)
}

/// Objects that the selector may be about, with and without what it asks for.
fn objects(selector: &Selector) -> Vec<Object> {
    let first_field = selector.fields().first().map(|f| f.value.clone());
    let node = first_field.unwrap_or_default();
    let namespaces = [selector.namespace().unwrap_or("default"), ""];
    let prefixed = format!("{}0", selector.name_prefix());
    let names = [selector.name().unwrap_or(&prefixed), &prefixed, &node, "a"];
    let mut labels = std::collections::BTreeMap::new();
    for requirement in selector.labels() {
        if let LabelCondition::In(values) = &requirement.condition {
            labels.insert(requirement.key.clone(), values[0].clone());
        }
    }
    let mut objects = Vec::new();
    for namespace in namespaces {
        for name in names {
            let Ok(key) = Key::new(selector.collection().as_str(), namespace, name) else {
                continue;
            };
            let value = serde_json::json!({"spec": {"nodeName": node}}).to_string();
            let full = Content {
                labels: labels.clone(),
                value: value.into(),
                ..Content::default()
            };
            for content in [full, Content::default()] {
                let one = Revision::new(1);
                let time = SystemTime::UNIX_EPOCH;
                objects.push(Object::new(key.clone(), Uid(1), one, one, time, content));
            }
        }
    }
    objects
}

/// What the API says of selectors, told a second time and simply.
fn fulfils(object: &Object, asked: &v1::Selector) -> bool {
    use v1::LabelOperator::{Exists, In, NotExists, NotIn, Unspecified};
    let (namespace, name) = (object.key.namespace(), object.key.name());
    let label = |requirement: &v1::LabelRequirement| {
        let value = object.content.labels.get(&requirement.key);
        let among = value.is_some_and(|value| requirement.values.contains(value));
        match requirement.operator() {
            In => among,
            NotIn => !among,
            Exists => value.is_some(),
            NotExists => value.is_none(),
            Unspecified => false,
        }
    };
    let json: serde_json::Value = serde_json::from_slice(&object.content.value).unwrap_or_default();
    let field = |requirement: &v1::FieldRequirement| {
        let value = match requirement.path.as_str() {
            "metadata.name" => name,
            "metadata.namespace" => namespace,
            path => json
                .pointer(&format!("/{}", path.replace('.', "/")))
                .and_then(serde_json::Value::as_str)
                .unwrap_or(""),
        };
        (value == requirement.value) != requirement.not_equal
    };
    (asked.namespace.is_empty() || asked.namespace == namespace)
        && (asked.name.is_empty() || asked.name == name)
        && name.starts_with(&asked.name_prefix)
        && asked.labels.iter().all(label)
        && asked.fields.iter().all(field)
}
