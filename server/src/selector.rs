//! Which objects a List or Watch covers, checked and ready to be evaluated.

use std::{borrow::Cow, collections::HashMap, ops::Bound, sync::Arc};

use xxhash_rust::xxh3::xxh3_64;

use crate::store::{Collection, Key, KeyRange, Object, ObjectName};

/// The fields that selectors may name, by collection: what the server's configuration
/// declares. They are read from JSON values.
#[derive(Clone, Debug, Default)]
pub struct SelectableFields(HashMap<Collection, Arc<[FieldPath]>>);

impl SelectableFields {
    /// Declares fields of a collection, such as `spec.nodeName`, beside those declared
    /// before. `metadata.name` and `metadata.namespace` need not be: they read the key.
    pub fn declare<'a>(
        &mut self,
        collection: Collection,
        paths: impl IntoIterator<Item = &'a str>,
    ) {
        let mut fields = self
            .0
            .get(&collection)
            .map(|known| known.to_vec())
            .unwrap_or_default();
        for path in paths {
            if !fields.iter().any(|known| &*known.text == path) {
                fields.push(FieldPath::new(path));
            }
        }
        self.0.insert(collection, fields.into());
    }

    /// The same for paths that read in their own way; what was declared before keeps its
    /// place, and reads as it is declared here.
    pub(crate) fn declare_paths(
        &mut self,
        collection: Collection,
        paths: impl IntoIterator<Item = FieldPath>,
    ) {
        let mut fields = self.of(&collection).to_vec();
        for path in paths {
            match fields.iter_mut().find(|known| known.text == path.text) {
                Some(known) => *known = path,
                None => fields.push(path),
            }
        }
        self.0.insert(collection, fields.into());
    }

    /// The declared fields of a collection.
    pub fn of(&self, collection: &Collection) -> Arc<[FieldPath]> {
        self.0.get(collection).cloned().unwrap_or_default()
    }
}

/// A dotted path into a JSON value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldPath {
    text: Arc<str>,
    /// Where the value is, if not at `text`: the first that is there.
    sources: &'static [&'static str],
    /// What counts as the value where there is none.
    absent: Option<&'static str>,
}

impl FieldPath {
    /// A path such as `spec.nodeName`.
    pub fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            sources: &[],
            absent: None,
        }
    }

    /// Reads other paths than it is called by: the first that is there and not empty.
    pub(crate) fn reading(self, sources: &'static [&'static str]) -> Self {
        Self { sources, ..self }
    }

    /// Stands for this where there is no value: a number's zero, a flag's `false`.
    pub(crate) fn or_else(self, absent: &'static str) -> Self {
        Self {
            absent: Some(absent),
            ..self
        }
    }

    /// The path as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The scalar at this path; `None` if it is absent, null or no scalar.
    pub(crate) fn read(&self, value: &serde_json::Value) -> Option<String> {
        let found = if self.sources.is_empty() {
            scalar(value, &self.text)
        } else {
            let values = self.sources.iter().filter_map(|path| scalar(value, path));
            values.into_iter().find(|text| !text.is_empty())
        };
        found.or_else(|| self.absent.map(str::to_owned))
    }
}

fn scalar(value: &serde_json::Value, path: &str) -> Option<String> {
    let mut at = value;
    for step in path.split('.') {
        at = at.get(step)?;
    }
    match at {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        serde_json::Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// A condition on one label. As in Kubernetes, an absent label satisfies `NotIn`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// The condition.
    pub condition: LabelCondition,
}

/// What a label must fulfil. Values are sorted, so that equal conditions are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LabelCondition {
    /// Present with one of these values.
    In(Vec<String>),
    /// Absent, or with none of these values.
    NotIn(Vec<String>),
    /// Present.
    Exists,
    /// Absent.
    NotExists,
}

impl LabelRequirement {
    fn holds(&self, object: &Object) -> bool {
        let value = object.content.labels.get(&self.key);
        self.condition.holds_for(value.map(String::as_str))
    }
}

impl LabelCondition {
    /// A label with this value fulfils it; `None`: the label is absent.
    pub(crate) fn holds_for(&self, value: Option<&str>) -> bool {
        let has = |values: &[String], value: &str| {
            let found = values.binary_search_by(|known| known.as_str().cmp(value));
            found.is_ok()
        };
        match self {
            Self::In(values) => value.is_some_and(|v| has(values, v)),
            Self::NotIn(values) => value.is_none_or(|v| !has(values, v)),
            Self::Exists => value.is_some(),
            Self::NotExists => value.is_none(),
        }
    }
}

/// A condition on one field. An absent field counts as the empty string, as in Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldRequirement {
    /// The field.
    pub field: Field,
    /// It must differ from `value`.
    pub not_equal: bool,
    /// What it is compared with.
    pub value: String,
}

/// What a field requirement reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// `metadata.name`: the key's name.
    Name,
    /// `metadata.namespace`: the key's namespace.
    Namespace,
    /// A declared field: its place in the collection's declaration, and its path.
    Declared(usize, String),
}

impl Field {
    /// As it is written in a selector.
    pub fn path(&self) -> &str {
        match self {
            Self::Name => "metadata.name",
            Self::Namespace => "metadata.namespace",
            Self::Declared(_, path) => path,
        }
    }
}

/// A checked selector. Two that select the same way have the same [`Selector::hash`],
/// also across server restarts and versions.
#[derive(Clone, Debug)]
pub struct Selector {
    collection: Collection,
    namespace: Option<Arc<str>>,
    name: Option<Arc<str>>,
    name_prefix: Arc<str>,
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
    declared: Arc<[FieldPath]>,
    hash: u64,
}

impl Selector {
    /// Everything of a collection.
    pub fn all(collection: Collection) -> Self {
        Self::new(
            collection,
            None,
            None,
            "",
            Vec::new(),
            Vec::new(),
            Arc::default(),
        )
    }

    /// A selector of checked parts. `declared` are the collection's fields that
    /// [`Field::Declared`] counts in.
    pub fn new(
        collection: Collection,
        namespace: Option<&str>,
        name: Option<&str>,
        name_prefix: &str,
        mut labels: Vec<LabelRequirement>,
        mut fields: Vec<FieldRequirement>,
        declared: Arc<[FieldPath]>,
    ) -> Self {
        for requirement in &mut labels {
            if let LabelCondition::In(values) | LabelCondition::NotIn(values) =
                &mut requirement.condition
            {
                values.sort();
                values.dedup();
            }
        }
        labels.sort();
        labels.dedup();
        fields.sort();
        fields.dedup();
        let mut selector = Self {
            collection,
            namespace: namespace.map(Into::into),
            name: name.map(Into::into),
            name_prefix: name_prefix.into(),
            labels,
            fields,
            declared,
            hash: 0,
        };
        selector.hash = xxh3_64(&selector.canonical());
        selector
    }

    /// Every part behind its length, so that no two selectors share an encoding.
    fn canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut part = |text: &str| {
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
        };
        part(self.collection.as_str());
        part(self.namespace.as_deref().unwrap_or(""));
        part(self.name.as_deref().unwrap_or(""));
        part(&self.name_prefix);
        for requirement in &self.labels {
            part(&requirement.key);
            let (operator, values): (_, &[String]) = match &requirement.condition {
                LabelCondition::In(values) => ("in", values),
                LabelCondition::NotIn(values) => ("notin", values),
                LabelCondition::Exists => ("exists", &[]),
                LabelCondition::NotExists => ("!exists", &[]),
            };
            part(operator);
            part(&values.len().to_string());
            for value in values {
                part(value);
            }
        }
        part("fields");
        for requirement in &self.fields {
            part(requirement.field.path());
            part(if requirement.not_equal { "!=" } else { "=" });
            part(&requirement.value);
        }
        out
    }

    /// The collection.
    pub fn collection(&self) -> &Collection {
        &self.collection
    }

    /// The one namespace, if it demands one.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The one name, if it demands one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// How names must begin.
    pub fn name_prefix(&self) -> &str {
        &self.name_prefix
    }

    /// What it demands of labels.
    pub fn labels(&self) -> &[LabelRequirement] {
        &self.labels
    }

    /// What it demands of fields.
    pub fn fields(&self) -> &[FieldRequirement] {
        &self.fields
    }

    /// A hash of what it selects; part of every resume token.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// It looks at more than the key, so that an object can start or stop matching.
    pub fn reads_content(&self) -> bool {
        !self.labels.is_empty()
            || self
                .fields
                .iter()
                .any(|f| matches!(f.field, Field::Declared(..)))
    }

    /// It covers the whole collection.
    pub fn is_everything(&self) -> bool {
        self.namespace.is_none()
            && self.name.is_none()
            && self.name_prefix.is_empty()
            && self.labels.is_empty()
            && self.fields.is_empty()
    }

    /// The key can match. What does not, never will.
    pub fn matches_name(&self, name: &ObjectName) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|ns| ns == name.namespace())
            && self.name.as_deref().is_none_or(|n| n == name.name())
            && name.name().starts_with(&*self.name_prefix)
            && self
                .fields
                .iter()
                .all(|requirement| match requirement.field {
                    Field::Name => requirement.compare(name.name()),
                    Field::Namespace => requirement.compare(name.namespace()),
                    Field::Declared(..) => true,
                })
    }

    /// The object matches.
    pub fn matches(&self, object: &Object) -> bool {
        self.matches_name(&object.key.object) && self.matches_content(object)
    }

    /// The object matches, given that its key does.
    pub fn matches_content(&self, object: &Object) -> bool {
        self.labels
            .iter()
            .all(|requirement| requirement.holds(object))
            && self
                .fields
                .iter()
                .all(|requirement| match &requirement.field {
                    Field::Declared(place, _) => {
                        let path = self.declared.get(*place);
                        let value =
                            path.and_then(|path| FieldValues::read(object, &self.declared, path));
                        requirement.compare(value.as_deref().unwrap_or(""))
                    }
                    _ => true,
                })
    }

    /// The most telling thing that a matching object must have: what a watch is filed
    /// under. A label condition of more than `most_values` values does not count.
    pub(crate) fn demand(&self, most_values: usize) -> Demand<'_> {
        if let Some(name) = &self.name {
            return Demand::Name(name);
        }
        let named = |f: &&FieldRequirement| f.field == Field::Name && !f.not_equal;
        if let Some(requirement) = self.fields.iter().find(named) {
            return Demand::Name(&requirement.value);
        }
        let labels = self
            .labels
            .iter()
            .filter_map(|requirement| match &requirement.condition {
                LabelCondition::In(values) if values.len() <= most_values => {
                    Some((requirement.key.as_str(), values.as_slice()))
                }
                _ => None,
            });
        if let Some((key, values)) = labels.min_by_key(|(_, values)| values.len()) {
            return Demand::Label(key, values);
        }
        for requirement in &self.fields {
            if let (Field::Declared(place, _), false) = (&requirement.field, requirement.not_equal)
                && let Some(path) = self.declared.get(*place)
            {
                return Demand::Field(path, &requirement.value);
            }
        }
        match &self.namespace {
            Some(namespace) => Demand::Namespace(namespace),
            None => Demand::Nothing,
        }
    }

    /// The collection's declared fields.
    pub(crate) fn declared(&self) -> &Arc<[FieldPath]> {
        &self.declared
    }

    /// The part of the collection that can match, from `after` on.
    pub fn range(&self, after: Bound<ObjectName>) -> KeyRange {
        KeyRange {
            collection: self.collection.clone(),
            namespace: self.namespace.clone(),
            // A name is its own longest prefix; `matches_name` does the rest.
            name_prefix: self
                .name
                .clone()
                .unwrap_or_else(|| self.name_prefix.clone()),
            after,
        }
    }

    /// The one key that it names, if it names one.
    pub fn single_key(&self) -> Option<Key> {
        let object = ObjectName::new(self.namespace.as_deref()?, self.name.as_deref()?).ok()?;
        Some(Key {
            collection: self.collection.clone(),
            object,
        })
    }
}

/// What an object must have to match a selector, as far as watches are filed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand<'a> {
    /// This name.
    Name(&'a str),
    /// One of these values of this label.
    Label(&'a str, &'a [String]),
    /// This value of a declared field.
    Field(&'a FieldPath, &'a str),
    /// This namespace.
    Namespace(&'a str),
    /// Nothing in particular.
    Nothing,
}

/// The values of an object's declared fields: extracted once, when the first asks.
///
/// Which fields a collection has declared can change, by a CustomResourceDefinition that is
/// applied again, and the objects stay: so they say which fields their values are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldValues {
    declared: Arc<[FieldPath]>,
    values: Vec<Option<String>>,
}

impl FieldValues {
    /// The value of a field of these. What is not JSON has none.
    pub(crate) fn read<'a>(
        object: &'a Object,
        declared: &Arc<[FieldPath]>,
        path: &FieldPath,
    ) -> Option<Cow<'a, str>> {
        let known = object.fields.get_or_init(|| {
            let value = parse(object);
            let read = |path: &FieldPath| path.read(value.as_ref()?);
            Box::new(Self {
                declared: declared.clone(),
                values: declared.iter().map(read).collect(),
            })
        });
        let place = known.declared.iter().position(|known| known == path);
        match place.and_then(|place| known.values.get(place)) {
            Some(value) => value.as_deref().map(Cow::Borrowed),
            // Declared after the others were read.
            None => path.read(&parse(object)?).map(Cow::Owned),
        }
    }
}

fn parse(object: &Object) -> Option<serde_json::Value> {
    serde_json::from_slice(&object.content.value).ok()
}

impl FieldRequirement {
    pub(crate) fn compare(&self, value: &str) -> bool {
        (value == self.value) != self.not_equal
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::store::{Content, Revision, Uid};

    fn object(labels: &[(&str, &str)], value: &str) -> Object {
        Object::new(
            Key::new("pods", "default", "a").unwrap(),
            Uid(1),
            Revision::new(1),
            Revision::new(1),
            SystemTime::UNIX_EPOCH,
            Content {
                labels: labels
                    .iter()
                    .map(|(k, v)| (k.to_string(), v.to_string()))
                    .collect(),
                value: value.as_bytes().to_vec().into(),
                ..Content::default()
            },
        )
    }

    fn by_label(key: &str, condition: LabelCondition) -> Selector {
        let labels = vec![LabelRequirement {
            key: key.into(),
            condition,
        }];
        let pods = Collection::new("pods").unwrap();
        Selector::new(pods, None, None, "", labels, Vec::new(), Arc::default())
    }

    #[test]
    fn label_conditions_follow_kubernetes() {
        let with = object(&[("app", "web")], "");
        let without = object(&[], "");
        let web = || vec!["web".to_string()];
        for (condition, on_with, on_without) in [
            (LabelCondition::In(web()), true, false),
            (LabelCondition::NotIn(web()), false, true),
            (LabelCondition::Exists, true, false),
            (LabelCondition::NotExists, false, true),
        ] {
            let selector = by_label("app", condition);
            assert_eq!(selector.matches(&with), on_with, "{selector:?}");
            assert_eq!(selector.matches(&without), on_without, "{selector:?}");
        }
    }

    #[test]
    fn declared_fields_are_read_from_json_and_absent_ones_are_empty() {
        let pods = Collection::new("pods").unwrap();
        let mut declared = SelectableFields::default();
        declared.declare(pods.clone(), ["spec.nodeName", "spec.replicas"]);
        let select = |place: usize, value: &str, not_equal| {
            let field = Field::Declared(place, "x".into());
            let fields = vec![FieldRequirement {
                field,
                not_equal,
                value: value.into(),
            }];
            Selector::new(
                pods.clone(),
                None,
                None,
                "",
                Vec::new(),
                fields,
                declared.of(&pods),
            )
        };
        let json = object(&[], r#"{"spec":{"nodeName":"n1","replicas":3}}"#);
        assert!(select(0, "n1", false).matches(&json));
        assert!(!select(0, "n2", false).matches(&json));
        assert!(select(0, "n2", true).matches(&json));
        assert!(select(1, "3", false).matches(&json));
        let opaque = object(&[], "\u{1}not json");
        assert!(select(0, "", false).matches(&opaque));
        assert!(!select(0, "n1", false).matches(&opaque));
    }

    #[test]
    fn fields_that_are_declared_later_are_read_of_objects_that_were_read_before() {
        let object = object(&[], r#"{"spec":{"a":"1","b":"2","c":"3"}}"#);
        let declared = |paths: &[&str]| -> Arc<[FieldPath]> {
            paths.iter().map(|path| FieldPath::new(path)).collect()
        };
        for (paths, expected) in [
            (&["spec.a", "spec.b"][..], &["1", "2"][..]),
            (&["spec.b", "spec.c", "spec.a"], &["2", "3", "1"]),
            (&["spec.c"], &["3"]),
        ] {
            let declared = declared(paths);
            for (path, expected) in declared.iter().zip(expected) {
                let value = FieldValues::read(&object, &declared, path);
                assert_eq!(value.as_deref(), Some(*expected), "{paths:?}");
            }
        }
    }

    #[test]
    fn the_hash_tells_selectors_apart_and_ignores_order() {
        let one = by_label("app", LabelCondition::In(vec!["a".into(), "b".into()]));
        let same = by_label(
            "app",
            LabelCondition::In(vec!["b".into(), "a".into(), "a".into()]),
        );
        let other = by_label("app", LabelCondition::NotIn(vec!["a".into(), "b".into()]));
        assert_eq!(one.hash(), same.hash());
        assert_ne!(one.hash(), other.hash());
        let pods = Collection::new("pods").unwrap();
        let namespaced = Selector::new(
            pods.clone(),
            Some("a"),
            None,
            "",
            vec![],
            vec![],
            Arc::default(),
        );
        let named = Selector::new(pods, None, Some("a"), "", vec![], vec![], Arc::default());
        assert_ne!(namespaced.hash(), named.hash());
    }
}
