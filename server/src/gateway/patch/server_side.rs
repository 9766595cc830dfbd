//! Server-side apply: an object says what its applier wants, and the server remembers it.
//!
//! What it does: creates or merges; lists that are maps or sets item by item; takes away what
//! the same applier applied before and now leaves out, unless another applier wants it; a field
//! that another applier set to another value is a conflict, unless `force` takes it over. What an
//! applier set is in `metadata.managedFields`, in Kubernetes' form.
//!
//! What it does not do, and Kubernetes does: writers that do not apply (create, update, the
//! patches) own nothing here, so that what they wrote is never a conflict; maps and structures
//! are always merged field by field, also those that Kubernetes treats as one (label selectors,
//! references); fields are not carried over between versions of a kind.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::field_set::{self, FieldSet, Places, Step, keys_of};
use crate::gateway::{
    field_path::{join, then},
    kinds::{ListRule, MergeKeys},
};

/// Who applies, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Applier<'a> {
    /// The query parameter `fieldManager`.
    pub(crate) manager: &'a str,
    /// The query parameter `force`: fields are taken over from other appliers.
    pub(crate) force: bool,
    /// The subresource that is written to; empty: none.
    pub(crate) subresource: &'a str,
    /// The `apiVersion` that is applied in.
    pub(crate) api_version: &'a str,
    /// The present time, as RFC 3339 writes it.
    pub(crate) now: &'a str,
}

/// A field that another applier has set to another value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The other applier.
    pub(crate) manager: String,
    /// The field, such as `.spec.containers[name="web"].image`.
    pub(crate) field: String,
}

impl Conflict {
    /// As an entry of `details.causes`.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "reason": "FieldManagerConflict",
            "message": format!("conflict with {:?}", self.manager),
            "field": self.field,
        })
    }
}

/// Why an apply was refused; the object is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApplyError {
    /// It cannot be merged: 422 Invalid.
    #[error("{0}")]
    Unfit(String),
    /// Other appliers disagree: 409 Conflict. `force` gets through.
    #[error("Apply failed with {}", conflicts(.0))]
    Conflict(Vec<Conflict>),
}

fn conflicts(conflicts: &[Conflict]) -> String {
    let told: Vec<String> = conflicts
        .iter()
        .map(|conflict| format!("conflict with {:?}: {}", conflict.manager, conflict.field))
        .collect();
    match told.as_slice() {
        [one] => format!("1 conflict: {one}"),
        many => format!("{} conflicts: {}", many.len(), many.join("; ")),
    }
}

/// Conflicts that are told: a message is for people.
const MAX_TOLD: usize = 100;

/// The object as the applier makes it; `None` for `current`: it is created.
///
/// # Errors
/// [`ApplyError`].
pub(crate) fn apply(
    current: Option<&Value>,
    applied: &Value,
    rules: &MergeKeys,
    applier: Applier<'_>,
) -> Result<Value, ApplyError> {
    let mut applied = applied.clone();
    strip(&mut applied);
    let wanted = field_set::of(&applied, rules).map_err(ApplyError::Unfit)?;
    let Some(current) = current else {
        let mut made = applied;
        let entries = vec![entry(applier, wanted)];
        set_managed(&mut made, entries);
        return Ok(made);
    };
    let mut entries = managed(current);
    let before = take_own(&mut entries, applier);
    let mut found = Vec::new();
    for other in entries.iter_mut().filter(|entry| is_applied(entry)) {
        let manager = other["manager"].as_str().unwrap_or_default().to_owned();
        if let Some(theirs) = other.get_mut("fieldsV1").and_then(Value::as_object_mut) {
            let mut meeting = Meeting {
                manager: &manager,
                force: applier.force,
                found: &mut found,
            };
            meeting.meet(&wanted, theirs, current, &applied, "");
        }
    }
    if !found.is_empty() {
        return Err(ApplyError::Conflict(found));
    }
    let mut made = current.clone();
    merge(&mut made, &applied, rules, "").map_err(ApplyError::Unfit)?;
    let previous = fields_of(before.as_ref());
    let others: Vec<&FieldSet> = entries
        .iter()
        .filter(|entry| is_applied(entry))
        .filter_map(|entry| entry.get("fieldsV1")?.as_object())
        .collect();
    drop_left_out(&mut made, previous, Some(&wanted), &others);
    let unchanged = before.filter(|before| fields_of(Some(before)) == &wanted);
    entries.push(match unchanged {
        // Applying the same again changes nothing, not even the time.
        Some(before) if made == *current => before,
        _ => entry(applier, wanted),
    });
    entries.retain(|entry| !fields_of(Some(entry)).is_empty());
    set_managed(&mut made, entries);
    Ok(made)
}

/// Takes out nulls, which tools write for fields that they know nothing of, and what is the
/// server's.
fn strip(applied: &mut Value) {
    if let Some(metadata) = applied.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in [
            "creationTimestamp",
            "generation",
            "managedFields",
            "selfLink",
        ] {
            metadata.remove(name);
        }
    }
    strip_nulls(applied);
}

fn strip_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(strip_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_nulls),
        _ => {}
    }
}

fn managed(object: &Value) -> Vec<Value> {
    let entries = object.pointer("/metadata/managedFields");
    entries
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}

fn set_managed(object: &mut Value, entries: Vec<Value>) {
    if let Some(object) = object.as_object_mut() {
        let metadata = object.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("managedFields".to_owned(), Value::Array(entries));
        }
    }
}

fn is_applied(entry: &Value) -> bool {
    entry.get("operation").and_then(Value::as_str) == Some("Apply")
}

fn fields_of(entry: Option<&Value>) -> &FieldSet {
    static NOTHING: std::sync::LazyLock<FieldSet> = std::sync::LazyLock::new(FieldSet::new);
    let fields = entry.and_then(|entry| entry.get("fieldsV1")?.as_object());
    fields.unwrap_or(&NOTHING)
}

fn take_own(entries: &mut Vec<Value>, applier: Applier<'_>) -> Option<Value> {
    let text = |entry: &Value, name: &str| {
        let text = entry.get(name).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let own = entries.iter().position(|entry| {
        is_applied(entry)
            && text(entry, "manager") == applier.manager
            && text(entry, "subresource") == applier.subresource
    })?;
    Some(entries.remove(own))
}

fn entry(applier: Applier<'_>, fields: FieldSet) -> Value {
    let mut entry = json!({
        "manager": applier.manager,
        "operation": "Apply",
        "apiVersion": applier.api_version,
        "time": applier.now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    });
    if !applier.subresource.is_empty() {
        entry["subresource"] = json!(applier.subresource);
    }
    entry
}

/// Two appliers, and where they want different things.
struct Meeting<'a> {
    manager: &'a str,
    force: bool,
    found: &'a mut Vec<Conflict>,
}

impl Meeting<'_> {
    /// `theirs` loses what is taken over.
    fn meet(
        &mut self,
        ours: &FieldSet,
        theirs: &mut FieldSet,
        current: &Value,
        applied: &Value,
        at: &str,
    ) {
        let mut lost = Vec::new();
        let (in_current, in_applied) = (Places::of(current, ours), Places::of(applied, ours));
        for (text, our_part) in ours {
            let (Some(step), Some(their_part)) = (Step::parse(text), theirs.get_mut(text)) else {
                continue;
            };
            let (Some(our_part), Some(their_part)) =
                (our_part.as_object(), their_part.as_object_mut())
            else {
                continue;
            };
            let has = in_current.follow(&step, current);
            let wants = in_applied.follow(&step, applied);
            let (Some(has), Some(wants)) = (has, wants) else {
                continue;
            };
            let field = then(at, &step.shown());
            if !our_part.is_empty() && !their_part.is_empty() {
                self.meet(our_part, their_part, has, wants, &field);
                continue;
            }
            let differs = match (has, wants) {
                (Value::Object(_), Value::Object(_)) => false,
                // A list of which one of them names items is merged item by item.
                (Value::Array(_), Value::Array(_)) => {
                    our_part.is_empty() && their_part.is_empty() && has != wants
                }
                _ => has != wants,
            };
            if differs {
                if self.force {
                    lost.push(text.clone());
                } else if self.found.len() < MAX_TOLD {
                    self.found.push(Conflict {
                        manager: self.manager.to_owned(),
                        field,
                    });
                }
            }
        }
        for text in lost {
            theirs.remove(&text);
        }
    }
}

fn merge(current: &mut Value, applied: &Value, rules: &MergeKeys, at: &str) -> Result<(), String> {
    match (current, applied) {
        (Value::Object(current), Value::Object(applied)) => {
            for (name, wanted) in applied {
                let at = join(at, name);
                match current.get_mut(name) {
                    Some(value) => merge(value, wanted, rules, &at)?,
                    None => {
                        current.insert(name.clone(), wanted.clone());
                    }
                }
            }
        }
        (Value::Array(current), Value::Array(applied)) => match rules.rule(at) {
            ListRule::Atomic => current.clone_from(applied),
            ListRule::Set => {
                let known: HashSet<String> = current.iter().map(Value::to_string).collect();
                let new = applied.iter().filter(|v| !known.contains(&v.to_string()));
                current.extend(new.cloned());
            }
            ListRule::Keyed(names) => {
                let mut places: HashMap<String, usize> = HashMap::new();
                for (place, item) in current.iter().enumerate() {
                    if let Ok(keys) = keys_of(item, &names) {
                        places.entry(keys.to_string()).or_insert(place);
                    }
                }
                for item in applied {
                    let keys = keys_of(item, &names)
                        .map_err(|missing| format!("{at}: an item lacks {missing:?}"))?;
                    let known = places.get(&keys.to_string());
                    match known.and_then(|place| current.get_mut(*place)) {
                        Some(value) => merge(value, item, rules, at)?,
                        None => current.push(item.clone()),
                    }
                }
            }
        },
        (current, applied) => *current = applied.clone(),
    }
    Ok(())
}

/// Takes away what was applied before, is left out now, and no other applier wants.
fn drop_left_out(
    value: &mut Value,
    before: &FieldSet,
    wanted: Option<&FieldSet>,
    others: &[&FieldSet],
) {
    let places = Places::of(value, before);
    let mut gone_items = HashSet::new();
    let mut gone_fields = HashSet::new();
    let mut go = |step: &Step<'_>| match step {
        Step::Field(name) => gone_fields.extend([(*name).to_owned()]),
        step => gone_items.extend(places.item(step)),
    };
    for (text, part) in before {
        let (Some(step), Some(part)) = (Step::parse(text), part.as_object()) else {
            continue;
        };
        let inner = |set: &FieldSet| set.get(text).and_then(Value::as_object).cloned();
        let still = wanted.and_then(inner);
        let theirs: Vec<FieldSet> = others.iter().filter_map(|set| inner(set)).collect();
        let theirs: Vec<&FieldSet> = theirs.iter().collect();
        let whole = matches!(step, Step::Item(_) | Step::Scalar(_)) || part.is_empty();
        if still.is_none() && theirs.is_empty() && whole {
            go(&step);
            continue;
        }
        // What is wanted as a whole is a scalar by now, or empty: then what was inside it goes.
        let Some(child) = places.follow_mut(&step, value) else {
            continue;
        };
        drop_left_out(child, part, still.as_ref(), &theirs);
        let empty = match child {
            Value::Object(fields) => fields.is_empty(),
            Value::Array(items) => items.is_empty(),
            _ => false,
        };
        if empty && still.is_none() && theirs.is_empty() {
            go(&step);
        }
    }
    match value {
        Value::Object(fields) => fields.retain(|name, _| !gone_fields.contains(name)),
        Value::Array(items) if !gone_items.is_empty() => {
            let mut place = 0..;
            items.retain(|_| {
                place
                    .next()
                    .is_none_or(|place| !gone_items.contains(&place))
            });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
