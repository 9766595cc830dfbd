//! The objects that are written: manifests, under many names, each with the moment at which it
//! was scheduled.

use bytes::{Bytes, BytesMut};
use listwatch::v1;
use serde_json::{Map, Value};

use super::CompareError;
use crate::bench::latency::Nanos;

/// The namespace that everything is in.
pub(super) const NAMESPACE: &str = "listwatch-compare";
/// The label that holds the moment.
pub(super) const STAMP: &str = "compare.listwatch.dev/at";
/// What stands for name and moment in a template: no manifest holds it.
const NAME_MARK: &str = "\u{1}name\u{1}";
const STAMP_MARK: &str = "\u{1}at\u{1}";

/// What is written: one kind, from one or more manifests in turn.
#[derive(Clone, Debug)]
pub struct Objects {
    collection: String,
    /// `/api/v1`, `/apis/apps/v1`.
    root: String,
    /// `pods`.
    resource: String,
    templates: Vec<Template>,
}

#[derive(Clone, Debug)]
struct Template {
    /// What stands around name and moment.
    parts: Vec<Part>,
    labels: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(Bytes),
    Name,
    Stamp,
}

impl Objects {
    /// As many manifests are taken.
    pub const MAX_MANIFESTS: usize = 10_000;

    /// A pod of 2.9 KiB, as clusters hold them by the thousand.
    ///
    /// # Errors
    /// A fault of the build.
    pub fn pods() -> Result<Self, CompareError> {
        let pod: Value = serde_yaml_ng::from_str(include_str!("pod.yaml"))
            .map_err(|error| CompareError::Objects(format!("the built-in pod: {error}")))?;
        Self::of("pods", vec![pod])
    }

    /// Manifests of one namespaced kind, whose collection this is.
    ///
    /// # Errors
    /// [`CompareError::Objects`] if there are none, or of several kinds.
    pub fn of(collection: &str, manifests: Vec<Value>) -> Result<Self, CompareError> {
        let bad = |why: String| CompareError::Objects(why);
        let text = |value: &Value, name: &str| {
            let text = value.get(name).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let Some(first) = manifests.first() else {
            return Err(bad("there are no objects to write".into()));
        };
        if manifests.len() > Self::MAX_MANIFESTS {
            let most = Self::MAX_MANIFESTS;
            return Err(bad(format!("there are more than {most} manifests")));
        }
        let (version, kind) = (text(first, "apiVersion"), text(first, "kind"));
        let root = match version.contains('/') {
            true => format!("/apis/{version}"),
            false => format!("/api/{version}"),
        };
        let resource = collection.split('.').next().unwrap_or_default().to_owned();
        let mut templates = Vec::with_capacity(manifests.len());
        for manifest in manifests {
            let found = (text(&manifest, "apiVersion"), text(&manifest, "kind"));
            if found != (version.clone(), kind.clone()) {
                let (other, what) = found;
                return Err(bad(format!(
                    "all objects must be of one kind: there are {version} {kind} and {other} {what}"
                )));
            }
            templates.push(Template::of(manifest)?);
        }
        Ok(Self {
            collection: collection.to_owned(),
            root,
            resource,
            templates,
        })
    }

    /// `pods`, `deployments.apps`.
    #[must_use]
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// Where Kubernetes' API has them.
    pub(super) fn path(&self) -> String {
        let Self { root, resource, .. } = self;
        format!("{root}/namespaces/{NAMESPACE}/{resource}")
    }

    /// The object of a number, as JSON.
    pub(super) fn json(&self, number: usize, stamp: Nanos) -> Bytes {
        let template = &self.templates[number % self.templates.len()];
        let mut json = BytesMut::with_capacity(4096);
        for part in &template.parts {
            match part {
                Part::Text(text) => json.extend_from_slice(text),
                Part::Name => json.extend_from_slice(name(number).as_bytes()),
                Part::Stamp => json.extend_from_slice(stamp.to_string().as_bytes()),
            }
        }
        json.freeze()
    }

    /// The same as Listwatch stores it.
    pub(super) fn stored(&self, number: usize, stamp: Nanos) -> v1::Resource {
        let template = &self.templates[number % self.templates.len()];
        let labels = template.labels.iter().cloned();
        let stamped = (STAMP.to_owned(), stamp.to_string());
        v1::Resource {
            key: Some(v1::Key {
                collection: self.collection.clone(),
                namespace: NAMESPACE.into(),
                name: name(number),
            }),
            labels: labels.chain([stamped]).collect(),
            content_type: "application/json".into(),
            value: self.json(number, stamp),
            ..v1::Resource::default()
        }
    }

    /// What the watches want.
    pub(super) fn selector(&self) -> v1::Selector {
        v1::Selector {
            collection: self.collection.clone(),
            namespace: NAMESPACE.into(),
            ..v1::Selector::default()
        }
    }
}

/// The moment that a stored object holds.
pub(super) fn stamp(resource: &v1::Resource) -> Nanos {
    let stamp = resource.labels.get(STAMP);
    stamp.map_or(0, |stamp| stamp.parse().unwrap_or(0))
}

pub(super) fn name(number: usize) -> String {
    format!("compare-{number:07}")
}

impl Template {
    fn of(manifest: Value) -> Result<Self, CompareError> {
        let bad = |why: &str| CompareError::Objects(format!("a manifest {why}"));
        let Value::Object(mut manifest) = manifest else {
            return Err(bad("is no mapping"));
        };
        let metadata = manifest
            .entry("metadata")
            .or_insert_with(|| Map::new().into());
        let metadata = metadata.as_object_mut();
        let metadata = metadata.ok_or_else(|| bad("has metadata that is no mapping"))?;
        // What only a server gives.
        for given in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "managedFields",
            "ownerReferences",
            "generateName",
        ] {
            metadata.remove(given);
        }
        metadata.insert("name".into(), NAME_MARK.into());
        metadata.insert("namespace".into(), NAMESPACE.into());
        let labels = metadata
            .entry("labels")
            .or_insert_with(|| Map::new().into());
        if labels.is_null() {
            *labels = Map::new().into();
        }
        let labels = labels.as_object_mut();
        let labels = labels.ok_or_else(|| bad("has labels that are no mapping"))?;
        let kept = labels
            .iter()
            .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        let kept = kept.collect::<Option<Vec<_>>>();
        let kept = kept.ok_or_else(|| bad("has a label that is no text"))?;
        labels.insert(STAMP.into(), STAMP_MARK.into());
        let json = Value::Object(manifest).to_string();
        // As the marks look inside JSON.
        let escaped = |mark: &str| Value::from(mark).to_string().trim_matches('"').to_owned();
        let (name_mark, stamp_mark) = (escaped(NAME_MARK), escaped(STAMP_MARK));
        let mut parts = Vec::new();
        for (place, piece) in json.split(&name_mark).enumerate() {
            if place > 0 {
                parts.push(Part::Name);
            }
            for (place, text) in piece.split(&stamp_mark).enumerate() {
                if place > 0 {
                    parts.push(Part::Stamp);
                }
                parts.push(Part::Text(text.to_owned().into()));
            }
        }
        Ok(Self {
            parts,
            labels: kept,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_has_its_name_and_its_moment() {
        let pods = Objects::pods().unwrap();
        assert_eq!(pods.path(), "/api/v1/namespaces/listwatch-compare/pods");
        let json = pods.json(7, 1234);
        assert!((2048..4096).contains(&json.len()), "{}", json.len());
        let pod: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(pod["metadata"]["name"], "compare-0000007");
        assert_eq!(pod["metadata"]["labels"][STAMP], "1234");
        assert_eq!(pod["metadata"]["labels"]["team"], "payments");
        let stored = pods.stored(7, 1234);
        assert_eq!(stamp(&stored), 1234);
        assert_eq!(
            stored.labels.len(),
            pod["metadata"]["labels"].as_object().unwrap().len()
        );
    }

    #[test]
    fn manifests_are_of_one_kind() {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}});
        let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"uid": "x"}});
        let deployments = Objects::of("deployments.apps", vec![web.clone()]).unwrap();
        assert_eq!(
            deployments.path(),
            "/apis/apps/v1/namespaces/listwatch-compare/deployments"
        );
        assert!(!deployments.json(0, 0).windows(3).any(|part| part == b"uid"));
        for bad in [
            vec![],
            vec![map.clone(), web],
            vec![json!({"metadata": 1})],
            vec![json!(1)],
        ] {
            assert!(Objects::of("configmaps", bad).is_err());
        }
        assert!(Objects::of("configmaps", vec![map.clone(), map]).is_ok());
    }
}
