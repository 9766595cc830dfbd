//! From a document to the objects it describes: Kubernetes manifests, lists of them, and
//! Listwatch's own form.

use bytes::Bytes;
use listwatch::v1::{Key, Resource};
use rand::Rng as _;
use serde_json::{Map, Value};

use super::{documents::Origin, form, kinds};

/// The namespace of a namespaced kind when neither manifest nor command line names one.
const DEFAULT_NAMESPACE: &str = "default";

/// Lists inside lists deeper than this are a mistake.
const MAX_LIST_DEPTH: usize = 8;

/// Kubernetes cuts `generateName` so that the suffix fits into a name of 63 bytes.
const MAX_GENERATED_PREFIX: usize = 58;

/// The letters of generated names: Kubernetes leaves out vowels and digits that look
/// like letters, so that no words come about.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// What a document asks to be stored.
#[derive(Clone, Debug)]
pub(super) struct Desired {
    /// The object, with its key.
    pub(super) resource: Resource,
    /// The name was made up here: the object is new, and if the name is taken, another
    /// one does as well.
    pub(super) is_generated: bool,
}

/// One object of a document, or why it is none.
pub(super) type Item = (Origin, Result<Desired, String>);

/// The objects that a document describes: one, or those of a list in their order.
/// `namespace` is the command line's.
pub(super) fn objects(origin: Origin, document: Value, namespace: Option<&str>) -> Vec<Item> {
    let mut items = Vec::new();
    expand(origin, document, namespace, MAX_LIST_DEPTH, &mut items);
    items
}

fn expand(
    origin: Origin,
    document: Value,
    namespace: Option<&str>,
    depth: usize,
    items: &mut Vec<Item>,
) {
    let found = match list_items(document) {
        Ok(Listed::Object(document)) => match form::is_form(&document) {
            true => form::read(document, namespace).map(|resource| Desired {
                resource,
                is_generated: false,
            }),
            false => manifest(document, namespace),
        },
        Ok(Listed::Items(_)) if depth == 0 => Err("holds lists inside lists inside lists".into()),
        Ok(Listed::Items(list)) => {
            for (index, item) in list.into_iter().enumerate() {
                expand(origin.item(index), item, namespace, depth - 1, items);
            }
            return;
        }
        Err(why) => Err(why),
    };
    items.push((origin, found));
}

enum Listed {
    Object(Map<String, Value>),
    Items(Vec<Value>),
}

/// A list is `kind: List`, a `PodList` or the like with `items`, what `list -o json`
/// prints (`items` and no kind), or a bare sequence.
fn list_items(document: Value) -> Result<Listed, String> {
    let mut document = match document {
        Value::Object(document) => document,
        Value::Array(items) => return Ok(Listed::Items(items)),
        _ => return Err("is neither a mapping nor a list".into()),
    };
    let kind = document
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let is_list = match kind.as_str() {
        "List" => true,
        "" => document.contains_key("items") && !document.contains_key("key"),
        kind => kind.ends_with("List") && document.contains_key("items"),
    };
    if !is_list {
        return Ok(Listed::Object(document));
    }
    let mut items = match document.remove("items") {
        Some(Value::Array(items)) => items,
        Some(Value::Null) => vec![],
        Some(_) => return Err("items is no list".into()),
        None => return Err("is a List without items".into()),
    };
    // In a typed list the items need not repeat what the list's own kind says.
    if let Some(item_kind) = kind.strip_suffix("List").filter(|kind| !kind.is_empty()) {
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.entry("kind").or_insert_with(|| item_kind.into());
            if let Some(api_version) = document.get("apiVersion") {
                item.entry("apiVersion")
                    .or_insert_with(|| api_version.clone());
            }
        }
    }
    Ok(Listed::Items(items))
}

fn manifest(mut document: Map<String, Value>, namespace: Option<&str>) -> Result<Desired, String> {
    let top = |field: &str| match document.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        None | Some(Value::Null | Value::String(_)) => Err(format!(
            "has no {field}: neither a Kubernetes manifest (apiVersion, kind, metadata) nor a Listwatch object (key, value)"
        )),
        Some(other) => Err(form::not_text(field, other)),
    };
    let (kind, api_version) = (top("kind")?, top("apiVersion")?);
    let metadata = match document.get_mut("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => return Err(format!("{kind} has no metadata")),
    };
    let text = |field: &str| match metadata.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        Some(other) => Err(form::not_text(&format!("metadata.{field}"), other)),
    };
    let own_namespace = text("namespace")?;
    let (name, is_generated) = match (text("name")?, text("generateName")?) {
        (Some(name), _) => (name, false),
        (None, Some(prefix)) => (generated_name(&prefix), true),
        (None, None) => return Err(format!("{kind} has neither metadata.name nor generateName")),
    };
    let labels = match metadata.get("labels") {
        Some(labels) => form::read_labels("metadata.labels", labels.clone())?,
        None => Default::default(),
    };
    if is_generated {
        // The stored manifest has to say what it is called.
        metadata.insert("name".into(), name.clone().into());
    }
    let namespace = match kinds::is_namespaced(&api_version, &kind) {
        // Like Kubernetes, which has no other place for such objects.
        false => String::new(),
        true => own_namespace.unwrap_or_else(|| namespace.unwrap_or(DEFAULT_NAMESPACE).to_owned()),
    };
    let collection = kinds::collection(&api_version, &kind);
    let value = serde_json::to_vec(&document).map_err(|error| error.to_string())?;
    let resource = Resource {
        key: Some(Key {
            collection,
            namespace,
            name,
        }),
        labels,
        value: Bytes::from(value),
        content_type: form::JSON.into(),
        ..Resource::default()
    };
    Ok(Desired {
        resource,
        is_generated,
    })
}

fn generated_name(prefix: &str) -> String {
    let mut end = prefix.len().min(MAX_GENERATED_PREFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix[..end].to_owned();
    let mut random = rand::rng();
    for _ in 0..SUFFIX_LENGTH {
        name.push(char::from(
            SUFFIX_LETTERS[random.random_range(0..SUFFIX_LETTERS.len())],
        ));
    }
    name
}

impl Desired {
    /// The same object under another generated name.
    pub(super) fn renamed(&self) -> Self {
        let mut renamed = self.clone();
        let Ok(Value::Object(mut document)) = serde_json::from_slice(&self.resource.value) else {
            return renamed;
        };
        let Some(metadata) = document.get_mut("metadata").and_then(Value::as_object_mut) else {
            return renamed;
        };
        let prefix = metadata
            .get("generateName")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let name = generated_name(prefix);
        metadata.insert("name".into(), name.clone().into());
        if let (Ok(value), Some(key)) = (serde_json::to_vec(&document), &mut renamed.resource.key) {
            renamed.resource.value = Bytes::from(value);
            key.name = name;
        }
        renamed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::documents::documents;

    fn read(text: &str, namespace: Option<&str>) -> Vec<(String, Result<Desired, String>)> {
        documents("f.yaml", text.as_bytes())
            .flat_map(|document| match document.content {
                Ok(content) => objects(document.origin, content, namespace),
                Err(why) => vec![(document.origin, Err(why))],
            })
            .map(|(origin, object)| (origin.to_string(), object))
            .collect()
    }

    fn keys(text: &str, namespace: Option<&str>) -> Vec<String> {
        read(text, namespace)
            .into_iter()
            .map(|(_, object)| {
                let key = object.unwrap().resource.key.unwrap();
                format!("{}/{}/{}", key.collection, key.namespace, key.name)
            })
            .collect()
    }

    fn why(text: &str) -> String {
        read(text, None).remove(0).1.unwrap_err()
    }

    #[test]
    fn a_manifest_becomes_an_object_of_its_kinds_collection() {
        let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  labels: {app: web, empty: }\nspec: {replicas: 3}\n";
        let object = read(text, None).remove(0).1.unwrap();
        let resource = object.resource;
        assert_eq!(resource.content_type, "application/json");
        assert_eq!(
            resource.labels,
            [("app".into(), "web".into()), ("empty".into(), "".into())].into()
        );
        let value: Value = serde_json::from_slice(&resource.value).unwrap();
        assert_eq!(value["spec"]["replicas"], 3);
        assert_eq!(value["kind"], "Deployment");
        assert_eq!(keys(text, None), ["deployments.apps/default/web"]);
        assert_eq!(keys(text, Some("prod")), ["deployments.apps/prod/web"]);
    }

    #[test]
    fn namespaces_come_from_the_manifest_then_the_command_line_then_default() {
        let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: own}\n";
        assert_eq!(keys(pod, Some("prod")), ["pods/own/a"]);
        let empty = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ''}\n";
        assert_eq!(keys(empty, None), ["pods/default/a"]);
        let node = "apiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: own}\n";
        assert_eq!(keys(node, Some("prod")), ["nodes//a"]);
    }

    #[test]
    fn lists_of_every_sort_give_their_items() {
        let items = "items:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n- {apiVersion: v1, kind: Service, metadata: {name: b}}\n";
        let both = ["pods/default/a", "services/default/b"];
        assert_eq!(
            keys(&format!("apiVersion: v1\nkind: List\n{items}"), None),
            both
        );
        assert_eq!(
            keys(&format!("kind: List\nmetadata: {{}}\n{items}"), None),
            both
        );
        assert_eq!(keys(items, None), both);
        assert_eq!(
            keys("- {apiVersion: v1, kind: Pod, metadata: {name: a}}\n", None),
            both[..1]
        );
        assert_eq!(
            keys(
                "apiVersion: v1\nkind: PodList\nitems: [{metadata: {name: a}}]\n",
                None
            ),
            both[..1]
        );
        assert!(keys("kind: List\nitems:\n", None).is_empty());
        assert!(keys("kind: List\nitems: []\n", None).is_empty());
        assert_eq!(
            keys(
                "kind: List\nitems: [{kind: List, items: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]}]",
                None
            ),
            both[..1]
        );
        // A kind that only happens to end in List.
        assert_eq!(
            keys(
                "apiVersion: x.io/v1\nkind: AccessList\nmetadata: {name: a}\n",
                None
            ),
            ["accesslists.x.io/default/a"]
        );
    }

    #[test]
    fn a_bad_item_is_named_by_its_place_and_the_others_stay() {
        let found = read(
            "kind: List\nitems: [{kind: Pod}, {apiVersion: v1, kind: Pod, metadata: {name: a}}, 7]\n",
            None,
        );
        assert_eq!(found[0].0, "f.yaml: document 1 (line 1), item 1");
        assert!(found[0].1.as_ref().unwrap_err().contains("no apiVersion"));
        assert!(found[1].1.is_ok());
        assert_eq!(found[2].0, "f.yaml: document 1 (line 1), item 3");
    }

    #[test]
    fn generated_names_have_five_random_characters_and_are_stored() {
        let text = "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: work-}\n";
        let object = read(text, None).remove(0).1.unwrap();
        assert!(object.is_generated);
        for object in [object.renamed(), object] {
            let name = object.resource.key.unwrap().name;
            assert_eq!(name.len(), "work-".len() + 5);
            assert!(name.starts_with("work-"));
            let value: Value = serde_json::from_slice(&object.resource.value).unwrap();
            assert_eq!(value["metadata"]["name"], name.as_str());
        }
        // A name of its own wins, as in Kubernetes.
        let both = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, generateName: b-}\n";
        assert_eq!(keys(both, None), ["pods/default/a"]);
        assert_eq!(generated_name(&"ü".repeat(60)).chars().count(), 29 + 5);
    }

    #[test]
    fn what_is_no_manifest_is_refused_with_the_reason() {
        for (text, reason) in [
            (
                "cluster_name: Test\nnum_tokens: 256\n",
                "has no kind: neither",
            ),
            ("kind: Pod\n", "has no apiVersion"),
            ("apiVersion: v1\nkind: Pod\n", "Pod has no metadata"),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {labels: {}}\n",
                "neither metadata.name",
            ),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {name: 5}\n",
                "metadata.name is 5, not text: put",
            ),
            (
                "apiVersion: 1\nkind: Pod\nmetadata: {name: a}\n",
                "apiVersion is 1, not text",
            ),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {v: 1.10}}\n",
                "metadata.labels.v is 1.1, not text: put",
            ),
            (
                "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: [x]}\n",
                "no mapping",
            ),
            ("just text\n", "neither a mapping"),
            ("kind: List\n", "List without items"),
            ("kind: List\nitems: 5\n", "items is no list"),
        ] {
            assert!(why(text).contains(reason), "{text}: {}", why(text));
        }
    }
}
