//! Kubernetes' strategic merge patch: a merge patch that merges some lists item by item, and
//! that may say in the patch how ([its description][1]).
//!
//! [1]: https://github.com/kubernetes/community/blob/main/contributors/devel/sig-api-machinery/strategic-merge-patch.md

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::PatchError;
use crate::gateway::{
    field_path::join,
    kinds::{ListRule, MergeKeys},
};

/// What to do with the map, or the list item, that it stands in.
const PATCH: &str = "$patch";
/// The fields that the map keeps.
const RETAIN: &str = "$retainKeys";
/// Values to take out of a list of scalars; the list's name follows.
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
/// The order of a list's items; the list's name follows.
const ORDER: &str = "$setElementOrder/";

pub(super) fn apply(current: &Value, patch: &Value, keys: &MergeKeys) -> Result<Value, PatchError> {
    let Some(patch) = patch.as_object() else {
        let problem = "a strategic merge patch must be a JSON object";
        return Err(malformed(problem));
    };
    let mut merged = current.clone();
    let merge = Merge { keys };
    if !merged.is_object() {
        merged = Value::Object(Map::new());
    }
    if let Value::Object(fields) = &mut merged {
        merge.map(fields, patch, "")?;
    }
    Ok(merged)
}

fn malformed(problem: &str) -> PatchError {
    PatchError::Malformed(problem.to_owned())
}

enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Map<String, Value>) -> Result<Directive, PatchError> {
    match patch.get(PATCH).map(Value::as_str) {
        None | Some(Some("merge")) => Ok(Directive::Merge),
        Some(Some("replace")) => Ok(Directive::Replace),
        Some(Some("delete")) => Ok(Directive::Delete),
        Some(_) => Err(malformed(
            "$patch must be one of \"delete\", \"replace\" and \"merge\"",
        )),
    }
}

struct Merge<'a> {
    keys: &'a MergeKeys,
}

impl Merge<'_> {
    fn map(
        &self,
        current: &mut Map<String, Value>,
        patch: &Map<String, Value>,
        at: &str,
    ) -> Result<(), PatchError> {
        match directive(patch)? {
            Directive::Merge => {}
            Directive::Delete => {
                current.clear();
                return Ok(());
            }
            Directive::Replace => {
                current.clear();
                for (name, value) in patch.iter().filter(|(name, _)| *name != PATCH) {
                    current.insert(name.clone(), value.clone());
                }
                return Ok(());
            }
        }
        if let Some(kept) = patch.get(RETAIN) {
            retain(current, patch, kept)?;
        }
        for (name, value) in patch {
            if let Some(name) = name.strip_prefix(DELETE_FROM) {
                let Some(values) = value.as_array() else {
                    return Err(malformed("$deleteFromPrimitiveList must be a list"));
                };
                if let Some(Value::Array(items)) = current.get_mut(name) {
                    let gone: HashSet<String> = values.iter().map(Value::to_string).collect();
                    items.retain(|item| !gone.contains(&item.to_string()));
                }
            }
        }
        for (name, value) in patch.iter().filter(|(name, _)| !name.starts_with('$')) {
            self.field(current, name, value, &join(at, name))?;
        }
        for (name, order) in patch {
            if let Some(name) = name.strip_prefix(ORDER) {
                let Some(order) = order.as_array() else {
                    return Err(malformed("$setElementOrder must be a list"));
                };
                if let Some(Value::Array(items)) = current.get_mut(name) {
                    arrange(items, order, &self.keys.rule(&join(at, name)));
                }
            }
        }
        Ok(())
    }

    fn field(
        &self,
        current: &mut Map<String, Value>,
        name: &str,
        patch: &Value,
        at: &str,
    ) -> Result<(), PatchError> {
        match patch {
            Value::Null => {
                current.remove(name);
            }
            Value::Object(patch) => {
                let mut fields = match current.remove(name) {
                    Some(Value::Object(fields)) => fields,
                    _ => Map::new(),
                };
                self.map(&mut fields, patch, at)?;
                current.insert(name.to_owned(), Value::Object(fields));
            }
            Value::Array(patch) => {
                let items = match current.remove(name) {
                    Some(Value::Array(items)) => items,
                    _ => Vec::new(),
                };
                let items = self.list(items, patch, at)?;
                current.insert(name.to_owned(), Value::Array(items));
            }
            scalar => {
                current.insert(name.to_owned(), scalar.clone());
            }
        }
        Ok(())
    }

    fn list(
        &self,
        mut items: Vec<Value>,
        patch: &[Value],
        at: &str,
    ) -> Result<Vec<Value>, PatchError> {
        let key = match self.keys.rule(at) {
            ListRule::Atomic => return Ok(patch.to_vec()),
            ListRule::Set => {
                let mut known: HashSet<String> = items.iter().map(Value::to_string).collect();
                let new = patch.iter().filter(|value| known.insert(value.to_string()));
                items.extend(new.cloned());
                return Ok(items);
            }
            ListRule::Keyed(keys) => keys.first().copied().unwrap_or_default(),
        };
        let mut changes = Vec::new();
        let mut deleted = HashSet::new();
        for change in patch {
            let Some(change) = change.as_object() else {
                let problem = format!("{at}: each item must be an object with {key:?}");
                return Err(PatchError::Unfit(problem));
            };
            match directive(change)? {
                // Said in one item, meant of the list.
                Directive::Replace => items.clear(),
                Directive::Delete => {
                    deleted.insert(id(change, key, at)?);
                }
                Directive::Merge => changes.push((id(change, key, at)?, change)),
            }
        }
        items.retain(|item| {
            let id = item.get(key).map(Value::to_string);
            id.is_none_or(|id| !deleted.contains(&id))
        });
        let mut places: HashMap<String, usize> = HashMap::new();
        for (place, item) in items.iter().enumerate() {
            if let Some(id) = item.get(key) {
                places.entry(id.to_string()).or_insert(place);
            }
        }
        for (id, change) in changes {
            let place = *places.entry(id).or_insert_with(|| {
                items.push(Value::Object(Map::new()));
                items.len() - 1
            });
            if let Some(Value::Object(fields)) = items.get_mut(place) {
                self.map(fields, change, at)?;
            }
        }
        Ok(items)
    }
}

/// What tells an item from the others, as text, so that it can be looked up.
fn id(item: &Map<String, Value>, key: &str, at: &str) -> Result<String, PatchError> {
    item.get(key).map(Value::to_string).ok_or_else(|| {
        PatchError::Unfit(format!(
            "{at}: an item lacks {key:?}, which tells items apart"
        ))
    })
}

/// Drops the fields that are not named; the patch may set no other.
fn retain(
    current: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    kept: &Value,
) -> Result<(), PatchError> {
    let Some(kept) = kept.as_array() else {
        return Err(malformed("$retainKeys must be a list"));
    };
    let is_kept = |name: &str| kept.iter().any(|known| known.as_str() == Some(name));
    for (name, value) in patch {
        if !name.starts_with('$') && !value.is_null() && !is_kept(name) {
            return Err(PatchError::Malformed(format!(
                "{name:?} is set, but missing from $retainKeys"
            )));
        }
    }
    current.retain(|name, _| is_kept(name));
    Ok(())
}

/// Puts the items that the order names into that order, among themselves: what only the
/// server has stays where it is.
fn arrange(items: &mut [Value], order: &[Value], rule: &ListRule<'_>) {
    let key = match rule {
        ListRule::Atomic => return,
        ListRule::Set => None,
        ListRule::Keyed(keys) => keys.first().copied(),
    };
    let id = |item: &Value| match key {
        Some(key) => item.get(key).map(Value::to_string),
        None => Some(item.to_string()),
    };
    let places: HashMap<String, usize> = order
        .iter()
        .enumerate()
        .filter_map(|(place, item)| Some((id(item)?, place)))
        .collect();
    let mut slots = Vec::new();
    let mut named = Vec::new();
    for (slot, item) in items.iter().enumerate() {
        if let Some(place) = id(item).and_then(|id| places.get(&id)) {
            slots.push(slot);
            named.push((*place, item.clone()));
        }
    }
    named.sort_by_key(|(place, _)| *place);
    for (slot, (_, item)) in slots.into_iter().zip(named) {
        items[slot] = item;
    }
}
