//! Reading requests: what comes in as protobuf goes on as checked types, or is refused
//! with the field and the limit named. Nothing has been changed by then.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use listwatch::v1;

use crate::{
    limits::{self, *},
    selector::{
        Field, FieldRequirement, LabelCondition, LabelRequirement, SelectableFields, Selector,
    },
    store::{Collection, Content, Key, KeyError, Revision, Uid, check_namespace},
};

/// A field of a request that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    /// Its path, such as `resource.key.name`.
    pub(crate) field: String,
    /// What is wrong and what is allowed.
    pub(crate) problem: String,
    /// The bound that was exceeded.
    pub(crate) limit: Option<u64>,
    /// By what.
    pub(crate) size: Option<u64>,
}

impl Invalid {
    pub(crate) fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
            limit: None,
            size: None,
        }
    }

    pub(crate) fn too_large(
        field: impl Into<String>,
        what: &str,
        size: usize,
        limit: usize,
    ) -> Self {
        Self {
            field: field.into(),
            problem: format!("{size} {what}; the limit is {limit}"),
            limit: Some(limit as u64),
            size: Some(size as u64),
        }
    }

    /// The same, for a message inside another.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field);
        self
    }
}

impl From<KeyError> for Invalid {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::TooLong { field, size, limit } => {
                Self::too_large(field, "bytes", size, limit)
            }
            KeyError::Empty { field } => Self::new(field, "must not be empty"),
            KeyError::IllFormed { field, rule } => Self::new(field, rule),
        }
    }
}

pub(crate) fn at_most(field: &str, what: &str, size: usize, limit: usize) -> Result<(), Invalid> {
    if size > limit {
        Err(Invalid::too_large(field, what, size, limit))
    } else {
        Ok(())
    }
}

/// A required key.
pub(crate) fn key(key: Option<v1::Key>) -> Result<Key, Invalid> {
    let Some(key) = key else {
        return Err(Invalid::new("key", "is required"));
    };
    Key::new(&key.collection, &key.namespace, &key.name)
        .map_err(|error| Invalid::from(error).within("key"))
}

/// A revision that may be zero.
pub(crate) fn revision(field: &str, number: i64) -> Result<Revision, Invalid> {
    Revision::from_wire(number).ok_or_else(|| Invalid::new(field, "must not be negative"))
}

/// A revision at which something is.
pub(crate) fn positive_revision(field: &str, number: i64) -> Result<Revision, Invalid> {
    match revision(field, number)? {
        Revision::ZERO => Err(Invalid::new(field, "must be positive")),
        revision => Ok(revision),
    }
}

/// A uid as the server gives them.
pub(crate) fn uid(field: &str, text: &str) -> Result<Uid, Invalid> {
    Uid::parse(text).ok_or_else(|| {
        Invalid::new(
            field,
            "must be a uid as the server gives it: a lower-case UUID",
        )
    })
}

/// A caller's name for its request; empty: none.
pub(crate) fn request_id(text: &str) -> Result<Option<Arc<str>>, Invalid> {
    at_most("request_id", "bytes", text.len(), MAX_REQUEST_ID_BYTES)?;
    if text.chars().any(char::is_control) {
        return Err(Invalid::new(
            "request_id",
            "must have no control characters",
        ));
    }
    Ok((!text.is_empty()).then(|| text.into()))
}

/// What a write may hold.
pub(crate) struct ContentRules {
    /// The largest value, in bytes.
    pub(crate) max_object_bytes: usize,
    /// The present moment, which deadlines count from.
    pub(crate) now: SystemTime,
}

impl ContentRules {
    /// The key and content of a resource that is to be written.
    pub(crate) fn resource(
        &self,
        resource: Option<v1::Resource>,
        ttl: Option<prost_types::Duration>,
    ) -> Result<(Key, Content), Invalid> {
        let Some(resource) = resource else {
            return Err(Invalid::new("resource", "is required"));
        };
        let in_resource = |invalid: Invalid| invalid.within("resource");
        let key = key(resource.key).map_err(in_resource)?;
        at_most(
            "resource.value",
            "bytes",
            resource.value.len(),
            self.max_object_bytes,
        )?;
        labels(&resource.labels).map_err(in_resource)?;
        content_type(&resource.content_type).map_err(in_resource)?;
        let content = Content {
            labels: resource.labels,
            // The request's buffer is larger than the value and would be kept alive by it.
            value: Bytes::copy_from_slice(&resource.value),
            content_type: resource.content_type.into(),
            expire_time: self.deadline(resource.expire_time, ttl)?,
        };
        Ok((key, content))
    }

    fn deadline(
        &self,
        expire_time: Option<prost_types::Timestamp>,
        ttl: Option<prost_types::Duration>,
    ) -> Result<Option<SystemTime>, Invalid> {
        if let Some(ttl) = ttl {
            let ttl = duration("ttl", ttl)?;
            if ttl.is_zero() {
                return Err(Invalid::new("ttl", "must be positive"));
            }
            if ttl > MAX_TTL {
                let days = MAX_TTL.as_secs() / 86_400;
                return Err(Invalid::new("ttl", format!("must be at most {days} days")));
            }
            return Ok(Some(self.now + ttl));
        }
        let Some(at) = expire_time else {
            return Ok(None);
        };
        let field = "resource.expire_time";
        let at = timestamp(at).ok_or_else(|| Invalid::new(field, "is no valid point in time"))?;
        if at <= self.now {
            return Err(Invalid::new(field, "must be in the future"));
        }
        if at > self.now + MAX_TTL {
            let days = MAX_TTL.as_secs() / 86_400;
            return Err(Invalid::new(
                field,
                format!("must be at most {days} days ahead"),
            ));
        }
        Ok(Some(at))
    }
}

/// A duration that is not negative, within what protobuf calls one. prost-types' own
/// conversion takes what is not, and overflows on some of it.
pub(crate) fn duration(field: &str, duration: prost_types::Duration) -> Result<Duration, Invalid> {
    let seconds = u64::try_from(duration.seconds).ok();
    let seconds = seconds.filter(|s| *s <= MAX_DURATION_SECONDS);
    match (seconds, nanos(duration.nanos)) {
        (Some(seconds), Some(nanos)) => Ok(Duration::new(seconds, nanos)),
        _ => Err(Invalid::new(
            field,
            "must be a valid duration and not negative",
        )),
    }
}

/// A point in time from 1970 on, within what protobuf calls one; `None` if it is not.
fn timestamp(time: prost_types::Timestamp) -> Option<SystemTime> {
    let seconds = u64::try_from(time.seconds).ok();
    let seconds = seconds.filter(|s| *s <= MAX_TIMESTAMP_SECONDS)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanos(time.nanos)?))
}

fn nanos(nanos: i32) -> Option<u32> {
    u32::try_from(nanos).ok().filter(|n| *n < 1_000_000_000)
}

fn labels(labels: &BTreeMap<String, String>) -> Result<(), Invalid> {
    at_most("labels", "labels", labels.len(), MAX_LABELS)?;
    for (key, value) in labels {
        label_key("labels", key)?;
        label_value("labels", value)?;
    }
    Ok(())
}

fn label_key(field: &str, key: &str) -> Result<(), Invalid> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    at_most(
        field,
        "bytes in a label's name",
        name.len(),
        MAX_LABEL_NAME_BYTES,
    )?;
    let ends_well = |text: &str| {
        let ends = [text.bytes().next(), text.bytes().next_back()];
        ends.iter()
            .all(|b| b.is_some_and(|b| b.is_ascii_alphanumeric()))
    };
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if !ends_well(name) || !name.bytes().all(inner) {
        let rule = "must be `name` or `prefix/name`, the name of A-Z, a-z, 0-9, '-', '_' and '.', with alphanumeric ends";
        return Err(Invalid::new(
            field,
            format!("label key {}: {rule}", shown(key)),
        ));
    }
    if let Some(prefix) = prefix {
        at_most(
            field,
            "bytes in a label's prefix",
            prefix.len(),
            MAX_LABEL_PREFIX_BYTES,
        )?;
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
        if !ends_well(prefix) || !prefix.bytes().all(inner) {
            let rule = "the prefix must be a DNS name of a-z, 0-9, '-' and '.'";
            return Err(Invalid::new(
                field,
                format!("label key {}: {rule}", shown(key)),
            ));
        }
    }
    Ok(())
}

fn label_value(field: &str, value: &str) -> Result<(), Invalid> {
    at_most(
        field,
        "bytes in a label's value",
        value.len(),
        MAX_LABEL_VALUE_BYTES,
    )?;
    if value.chars().any(char::is_control) {
        return Err(Invalid::new(
            field,
            "a label's value must have no control characters",
        ));
    }
    Ok(())
}

fn content_type(text: &str) -> Result<(), Invalid> {
    at_most("content_type", "bytes", text.len(), MAX_CONTENT_TYPE_BYTES)?;
    if !text.bytes().all(|b| b.is_ascii_graphic() || b == b' ') {
        return Err(Invalid::new("content_type", "must be printable ASCII"));
    }
    Ok(())
}

/// Someone else's text in our message: short, and no control characters.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    format!("{short:?}")
}

/// A required selector.
pub(crate) fn selector(
    selector: Option<v1::Selector>,
    known: &SelectableFields,
) -> Result<Selector, Invalid> {
    let Some(selector) = selector else {
        return Err(Invalid::new("selector", "is required"));
    };
    selector_parts(selector, known).map_err(|invalid| invalid.within("selector"))
}

fn selector_parts(selector: v1::Selector, known: &SelectableFields) -> Result<Selector, Invalid> {
    let collection = Collection::new(&selector.collection)?;
    check_namespace(&selector.namespace)?;
    if !selector.name.is_empty() {
        crate::store::ObjectName::new("", &selector.name)?;
        if !selector.name_prefix.is_empty() {
            return Err(Invalid::new(
                "name_prefix",
                "must be empty where name is set",
            ));
        }
    }
    if !selector.name_prefix.is_empty() {
        at_most(
            "name_prefix",
            "bytes",
            selector.name_prefix.len(),
            MAX_NAME_BYTES,
        )?;
        // The beginning of a name: what is added makes a whole one of it.
        crate::store::ObjectName::new("", &selector.name_prefix)
            .or_else(|_| crate::store::ObjectName::new("", &format!("{}0", selector.name_prefix)))
            .map_err(|error| Invalid {
                field: "name_prefix".into(),
                ..Invalid::from(error)
            })?;
    }
    let requirements = selector.labels.len() + selector.fields.len();
    at_most(
        "labels",
        "label and field requirements",
        requirements,
        MAX_SELECTOR_REQUIREMENTS,
    )?;
    let labels = selector
        .labels
        .into_iter()
        .enumerate()
        .map(|(i, requirement)| {
            label_requirement(requirement)
                .map_err(|invalid| invalid.within(&format!("labels[{i}]")))
        });
    let labels = labels.collect::<Result<Vec<_>, _>>()?;
    let declared = known.of(&collection);
    let fields = selector
        .fields
        .into_iter()
        .enumerate()
        .map(|(i, requirement)| {
            let field = match requirement.path.as_str() {
                "metadata.name" => Field::Name,
                "metadata.namespace" => Field::Namespace,
                path => match declared.iter().position(|known| known.as_str() == path) {
                    Some(place) => Field::Declared(place, path.to_owned()),
                    None => {
                        let problem = format!(
                            "{} is no field that {collection} can be selected by; those are {}",
                            shown(path),
                            selectable(&declared),
                        );
                        return Err(Invalid::new(format!("fields[{i}].path"), problem));
                    }
                },
            };
            at_most(
                &format!("fields[{i}].value"),
                "bytes",
                requirement.value.len(),
                MAX_NAME_BYTES,
            )?;
            Ok(FieldRequirement {
                field,
                not_equal: requirement.not_equal,
                value: requirement.value,
            })
        });
    let fields = fields.collect::<Result<Vec<_>, _>>()?;
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Ok(Selector::new(
        collection,
        given(&selector.namespace).as_deref(),
        given(&selector.name).as_deref(),
        &selector.name_prefix,
        labels,
        fields,
        declared,
    ))
}

fn selectable(declared: &[crate::selector::FieldPath]) -> String {
    let mut names = vec!["metadata.name", "metadata.namespace"];
    names.extend(declared.iter().map(|path| path.as_str()));
    names.join(", ")
}

fn label_requirement(requirement: v1::LabelRequirement) -> Result<LabelRequirement, Invalid> {
    label_key("key", &requirement.key)?;
    let values = requirement.values;
    at_most("values", "values", values.len(), MAX_REQUIREMENT_VALUES)?;
    for value in &values {
        label_value("values", value)?;
    }
    let operator = v1::LabelOperator::try_from(requirement.operator)
        .map_err(|_| unknown_enum("operator", requirement.operator))?;
    use v1::LabelOperator::{Exists, In, NotExists, NotIn, Unspecified};
    match (operator, values.is_empty()) {
        (In | NotIn, true) => {
            return Err(Invalid::new(
                "values",
                "must not be empty for IN and NOT_IN",
            ));
        }
        (Exists | NotExists, false) => {
            return Err(Invalid::new(
                "values",
                "must be empty for EXISTS and NOT_EXISTS",
            ));
        }
        _ => {}
    }
    let condition = match operator {
        Unspecified => return Err(Invalid::new("operator", "is required")),
        In => LabelCondition::In(values),
        NotIn => LabelCondition::NotIn(values),
        Exists => LabelCondition::Exists,
        NotExists => LabelCondition::NotExists,
    };
    Ok(LabelRequirement {
        key: requirement.key,
        condition,
    })
}

pub(crate) fn unknown_enum(field: &str, number: i32) -> Invalid {
    Invalid::new(
        field,
        format!("{number} is no value that this server knows"),
    )
}

/// A view; unset is full.
pub(crate) fn view(number: i32) -> Result<v1::View, Invalid> {
    match v1::View::try_from(number).map_err(|_| unknown_enum("view", number))? {
        v1::View::Unspecified => Ok(v1::View::Full),
        view => Ok(view),
    }
}

/// How many objects a page may have.
pub(crate) fn page_size(size: i32) -> Result<usize, Invalid> {
    match usize::try_from(size) {
        Err(_) => Err(Invalid::new("page_size", "must not be negative")),
        Ok(0) => Ok(limits::DEFAULT_PAGE_OBJECTS),
        Ok(size) => Ok(size.min(MAX_PAGE_OBJECTS)),
    }
}

/// How fresh a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consistency {
    /// Sees every write that was acknowledged before the call.
    Linearizable,
    /// Whatever this server has.
    Any,
    /// At least this revision.
    AtLeast(Revision),
    /// Exactly this one.
    Exactly(Revision),
}

/// The consistency of a read; unset is linearizable.
pub(crate) fn consistency(consistency: Option<v1::Consistency>) -> Result<Consistency, Invalid> {
    use v1::consistency::Kind;
    let result = match consistency.and_then(|c| c.kind) {
        None => Ok(Consistency::Linearizable),
        Some(Kind::Any(true)) => Ok(Consistency::Any),
        Some(Kind::Any(false)) => Err(Invalid::new("any", "must be true where it is set")),
        Some(Kind::MinRevision(r)) => revision("min_revision", r).map(Consistency::AtLeast),
        Some(Kind::ExactRevision(r)) => {
            positive_revision("exact_revision", r).map(Consistency::Exactly)
        }
    };
    result.map_err(|invalid| invalid.within("consistency"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_keys_and_values_follow_the_rules() {
        for key in ["app", "a", "app.kubernetes.io/name", "A_b-c.9", "x/Y"] {
            assert!(label_key("l", key).is_ok(), "{key}");
        }
        let long = "a".repeat(64);
        for key in [
            "", "/a", "a/", "-a", "a-", "a b", "a/b/c", "A/b", "é", &long,
        ] {
            assert!(label_key("l", key).is_err(), "{key}");
        }
        for value in ["", "x", "日本語", "Ünï çødé"] {
            assert!(label_value("l", value).is_ok(), "{value}");
        }
        for value in ["a\nb", "\u{0}", &"a".repeat(254)] {
            assert!(label_value("l", value).is_err(), "{value}");
        }
    }

    #[test]
    fn a_bad_field_is_named_by_its_path() {
        let selector_of = |labels| v1::Selector {
            collection: "pods".into(),
            labels,
            ..v1::Selector::default()
        };
        let requirement = v1::LabelRequirement {
            key: "app".into(),
            operator: v1::LabelOperator::In as i32,
            values: vec![],
        };
        let known = SelectableFields::default();
        let error = selector(Some(selector_of(vec![requirement])), &known).unwrap_err();
        assert_eq!(error.field, "selector.labels[0].values");
        let error = key(Some(v1::Key {
            collection: "Pods".into(),
            ..v1::Key::default()
        }));
        assert_eq!(error.unwrap_err().field, "key.collection");
    }
}
