//! Sets of fields as Kubernetes writes them down (`FieldsV1`): a tree whose steps are `f:NAME`
//! for a field, `k:KEYS` for an item of a list that is a map, `v:VALUE` for one of a set, and
//! `.` for the item itself.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::gateway::{
    field_path::join,
    kinds::{ListRule, MergeKeys},
};

/// A set of fields; an empty one within another is a leaf.
pub(super) type FieldSet = Map<String, Value>;

/// Stands for the item that it is in.
pub(super) const ITSELF: &str = ".";

/// What nobody owns: it names the object, or is the server's.
pub(super) const NOT_OWNED: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata.creationTimestamp",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.name",
    "metadata.namespace",
    "metadata.resourceVersion",
    "metadata.selfLink",
    "metadata.uid",
];

/// A step of a set, and what it leads to in an object.
pub(super) enum Step<'a> {
    Field(&'a str),
    /// The JSON of the keys.
    Item(Value),
    Scalar(Value),
}

impl<'a> Step<'a> {
    /// `None` for [`ITSELF`] and for what is no step.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        match text.split_at_checked(2)? {
            ("f:", name) => Some(Self::Field(name)),
            ("k:", keys) => serde_json::from_str(keys).ok().map(Self::Item),
            ("v:", value) => serde_json::from_str(value).ok().map(Self::Scalar),
            _ => None,
        }
    }

    /// As messages write it: `.name`, `[name="web"]`, `["x"]`.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Item(Value::Object(keys)) => {
                let keys = keys.iter().map(|(name, value)| format!("{name}={value}"));
                format!("[{}]", keys.collect::<Vec<_>>().join(","))
            }
            Self::Item(value) | Self::Scalar(value) => format!("[{value}]"),
        }
    }
}

/// The keys of an item as JSON; `Err` names one that it lacks.
pub(super) fn keys_of<'k>(item: &Value, names: &[&'k str]) -> Result<Value, &'k str> {
    let mut keys = Map::new();
    for name in names {
        let value = key(item, name).ok_or(*name)?;
        keys.insert((*name).to_owned(), value);
    }
    Ok(Value::Object(keys))
}

/// Where the steps of one set lead in one value: looked up once for all of them, since lists
/// can be long.
pub(super) struct Places {
    items: HashMap<String, usize>,
}

impl Places {
    pub(super) fn of(value: &Value, set: &FieldSet) -> Self {
        let mut items = HashMap::new();
        let mut steps = set.keys().filter_map(|text| Step::parse(text));
        let first = steps.find(|step| !matches!(step, Step::Field(_)));
        let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
        // All items of a list have the same keys.
        let names: Vec<&str> = match &first {
            Some(Step::Item(Value::Object(keys))) => keys.keys().map(String::as_str).collect(),
            Some(Step::Scalar(_)) => Vec::new(),
            _ => return Self { items },
        };
        for (place, item) in list.iter().enumerate() {
            let id = match names.as_slice() {
                [] => Some(item.to_string()),
                names => keys_of(item, names).ok().map(|keys| keys.to_string()),
            };
            if let Some(id) = id {
                items.entry(id).or_insert(place);
            }
        }
        Self { items }
    }

    /// Where the item is that a step leads to; `None` for a field.
    pub(super) fn item(&self, step: &Step<'_>) -> Option<usize> {
        match step {
            Step::Field(_) => None,
            Step::Item(id) | Step::Scalar(id) => self.items.get(&id.to_string()).copied(),
        }
    }

    /// What a step leads to.
    pub(super) fn follow<'v>(&self, step: &Step<'_>, value: &'v Value) -> Option<&'v Value> {
        match step {
            Step::Field(name) => value.get(name),
            step => value.get(self.item(step)?),
        }
    }

    /// The same, to be changed.
    pub(super) fn follow_mut<'v>(
        &self,
        step: &Step<'_>,
        value: &'v mut Value,
    ) -> Option<&'v mut Value> {
        match step {
            Step::Field(name) => value.get_mut(name),
            step => value.get_mut(self.item(step)?),
        }
    }
}

/// A port's protocol is TCP where it is left out: the one default among all keys.
fn key(item: &Value, name: &str) -> Option<Value> {
    match item.get(name) {
        None | Some(Value::Null) if name == "protocol" => Some(json!("TCP")),
        other => other.cloned(),
    }
}

/// The fields that an object sets.
///
/// # Errors
/// In words: an item of a list lacks what tells it from others, or is there twice.
pub(super) fn of(object: &Value, rules: &MergeKeys) -> Result<FieldSet, String> {
    collect(object, rules, "")
}

fn collect(value: &Value, rules: &MergeKeys, at: &str) -> Result<FieldSet, String> {
    let mut set = FieldSet::new();
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let at = join(at, name);
                if NOT_OWNED.contains(&at.as_str()) {
                    continue;
                }
                let inner = collect(value, rules, &at)?;
                // Metadata of which nothing is owned is not owned either.
                if at != "metadata" || !inner.is_empty() {
                    set.insert(format!("f:{name}"), Value::Object(inner));
                }
            }
        }
        Value::Array(items) => match rules.rule(at) {
            ListRule::Atomic => {}
            ListRule::Set => {
                for item in items {
                    set.insert(format!("v:{item}"), json!({}));
                }
            }
            ListRule::Keyed(names) => {
                let mut known = HashSet::new();
                for item in items {
                    let keys = keys_of(item, &names).map_err(|missing| {
                        format!("{at}: an item lacks {missing:?}, which tells items apart")
                    })?;
                    let step = format!("k:{keys}");
                    if !known.insert(step.clone()) {
                        return Err(format!("{at}: two items have the keys {keys}"));
                    }
                    let mut inner = collect(item, rules, at)?;
                    inner.insert(ITSELF.to_owned(), json!({}));
                    set.insert(step, Value::Object(inner));
                }
            }
        },
        _ => {}
    }
    Ok(set)
}
