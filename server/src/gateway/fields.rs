//! Field selectors: which fields objects of a kind are selected by, and a selector's text.

use std::sync::Arc;

#[cfg(test)]
use serde_json::Value;

use super::{kinds::Kind, labels::SelectorError};
use crate::{
    limits::MAX_SELECTOR_REQUIREMENTS,
    selector::{Field, FieldPath, FieldRequirement, SelectableFields},
};

/// A field by the name that selectors use: where it is read, if elsewhere, and what an
/// absent one counts as, if not the empty string.
struct Row(&'static str, &'static [&'static str], Option<&'static str>);

const fn plain(name: &'static str) -> Row {
    Row(name, &[], None)
}

const POD: &[Row] = &[
    plain("spec.nodeName"),
    plain("spec.restartPolicy"),
    plain("spec.schedulerName"),
    plain("spec.serviceAccountName"),
    Row("spec.hostNetwork", &[], Some("false")),
    plain("status.phase"),
    plain("status.podIP"),
    Row("status.podIPs", &["status.podIP"], None),
    plain("status.nominatedNodeName"),
];
const EVENT: &[Row] = &[
    plain("involvedObject.kind"),
    plain("involvedObject.namespace"),
    plain("involvedObject.name"),
    plain("involvedObject.uid"),
    plain("involvedObject.apiVersion"),
    plain("involvedObject.resourceVersion"),
    plain("involvedObject.fieldPath"),
    plain("reason"),
    plain("type"),
    plain("reportingComponent"),
    Row("source", &["source.component", "reportingComponent"], None),
];
const NEW_EVENT: &[Row] = &[
    plain("regarding.kind"),
    plain("regarding.namespace"),
    plain("regarding.name"),
    plain("regarding.uid"),
    plain("regarding.apiVersion"),
    plain("regarding.resourceVersion"),
    plain("regarding.fieldPath"),
    plain("reason"),
    plain("type"),
    plain("reportingController"),
];
const NODE: &[Row] = &[Row("spec.unschedulable", &[], Some("false"))];
const NAMESPACE: &[Row] = &[plain("status.phase")];
const SECRET: &[Row] = &[plain("type")];
const JOB: &[Row] = &[Row("status.successful", &["status.succeeded"], Some("0"))];
const REPLICAS: &[Row] = &[Row("status.replicas", &[], Some("0"))];

/// The fields beside `metadata.name` and `metadata.namespace` that objects of a built-in
/// kind are selected by in Kubernetes.
fn rows(collection: &str) -> &'static [Row] {
    match collection {
        "pods" => POD,
        "events" => EVENT,
        "events.events.k8s.io" => NEW_EVENT,
        "nodes" => NODE,
        "namespaces" => NAMESPACE,
        "secrets" => SECRET,
        "jobs.batch" => JOB,
        "replicationcontrollers" | "replicasets.apps" => REPLICAS,
        _ => &[],
    }
}

/// The fields of a kind, to be declared to the store's selectors under its collection.
pub(crate) fn declared(kind: &Kind) -> Vec<FieldPath> {
    if !kind.builtin {
        return kind.selectable.iter().map(|p| FieldPath::new(p)).collect();
    }
    let path = |row: &Row| {
        let path = FieldPath::new(row.0).reading(row.1);
        match row.2 {
            Some(absent) => path.or_else(absent),
            None => path,
        }
    };
    rows(kind.qualified()).iter().map(path).collect()
}

/// All fields that objects of a kind are selected by: those that the server's configuration
/// declares, and those of the kind. A definition can be written at any time, so that `known`
/// has not got its fields.
pub(crate) fn selected_by(kind: &Kind, known: &SelectableFields) -> Arc<[FieldPath]> {
    let gathered = kind.fields.get_or_init(|| {
        let known = known.of(&kind.collection);
        let mut own = declared(kind);
        own.retain(|path| known.iter().all(|known| known.as_str() != path.as_str()));
        match own.is_empty() {
            true => known,
            false => known.iter().cloned().chain(own).collect(),
        }
    });
    gathered.clone()
}

/// A field selector of one kind: all terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    reads: Reads,
    not_equal: bool,
    value: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reads {
    Name,
    Namespace,
    Path(FieldPath),
}

impl FieldSelector {
    /// Reads a selector; empty text selects everything.
    ///
    /// # Errors
    /// [`SelectorError`]: the grammar, or a field that this kind is not selected by.
    pub(crate) fn parse(text: &str, kind: &Kind) -> Result<Self, SelectorError> {
        let fields = declared(kind);
        let mut terms = Vec::new();
        for term in split(text) {
            if term.is_empty() {
                continue;
            }
            if terms.len() == MAX_SELECTOR_REQUIREMENTS {
                return Err(SelectorError::TooLong {
                    what: "requirements",
                    limit: MAX_SELECTOR_REQUIREMENTS,
                });
            }
            let (name, not_equal, value) = operator(term)?;
            let reads = match name {
                "metadata.name" => Reads::Name,
                "metadata.namespace" if kind.namespaced => Reads::Namespace,
                // Kubernetes has kept this older name for namespaces.
                "name" if kind.qualified() == "namespaces" => Reads::Name,
                _ => match fields.iter().find(|field| field.as_str() == name) {
                    Some(field) => Reads::Path(field.clone()),
                    None => return Err(SelectorError::Field(name.to_owned())),
                },
            };
            terms.push(Term {
                reads,
                not_equal,
                value: unescape(value)?,
            });
        }
        Ok(Self { terms })
    }

    /// The object fulfils it.
    #[cfg(test)]
    fn matches(&self, object: &Value) -> bool {
        let text = |path| object.pointer(path).and_then(Value::as_str);
        self.terms.iter().all(|term| {
            let read;
            let value = match &term.reads {
                Reads::Name => text("/metadata/name"),
                Reads::Namespace => text("/metadata/namespace"),
                Reads::Path(path) => {
                    read = path.read(object);
                    read.as_deref()
                }
            };
            (value.unwrap_or("") == term.value) != term.not_equal
        })
    }

    /// The same for the store's selectors, where `known` are the collection's declared
    /// fields.
    ///
    /// # Errors
    /// [`SelectorError::Field`] if one of the fields has not been declared.
    pub(crate) fn requirements(
        &self,
        known: &Arc<[FieldPath]>,
    ) -> Result<Vec<FieldRequirement>, SelectorError> {
        let requirement = |term: &Term| {
            let field = match &term.reads {
                Reads::Name => Field::Name,
                Reads::Namespace => Field::Namespace,
                Reads::Path(path) => {
                    let place = known.iter().position(|k| k.as_str() == path.as_str());
                    let place =
                        place.ok_or_else(|| SelectorError::Field(path.as_str().to_owned()))?;
                    Field::Declared(place, path.as_str().to_owned())
                }
            };
            Ok(FieldRequirement {
                field,
                not_equal: term.not_equal,
                value: term.value.clone(),
            })
        };
        self.terms.iter().map(requirement).collect()
    }
}

/// The terms between commas that no backslash precedes.
fn split(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn operator(term: &str) -> Result<(&str, bool, &str), SelectorError> {
    let at = term
        .find('=')
        .ok_or_else(|| SelectorError::Grammar(format!("can't understand {term:?}")))?;
    let (left, right) = (&term[..at], &term[at + 1..]);
    Ok(match left.strip_suffix('!') {
        Some(name) => (name, true, right),
        None => (left, false, right.strip_prefix('=').unwrap_or(right)),
    })
}

/// `\\`, `\,` and `\=` stand for the second character; unescaped, `=` is not allowed.
fn unescape(text: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                _ => {
                    let problem = format!("{text:?} has a backslash that escapes nothing");
                    return Err(SelectorError::Grammar(problem));
                }
            },
            '=' => {
                let problem = format!("{text:?} has a '=' that is not escaped");
                return Err(SelectorError::Grammar(problem));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::gateway::kinds::Kinds;

    fn parse(collection: &str, text: &str) -> Result<FieldSelector, SelectorError> {
        let kind = Kinds::builtin().in_collection(collection).unwrap();
        FieldSelector::parse(text, &kind)
    }

    #[test]
    fn each_kind_is_selected_by_its_fields() {
        let pod = json!({
            "metadata": {"name": "a", "namespace": "default"},
            "spec": {"nodeName": "n1", "schedulerName": "a=b,c"},
            "status": {"phase": "Running"},
        });
        let event = json!({"involvedObject": {"name": "a"}, "source": {"component": "kubelet"}});
        for (collection, object, selector, expected) in [
            ("pods", &pod, "", true),
            ("pods", &pod, "metadata.name=a", true),
            ("pods", &pod, "metadata.name=b", false),
            ("pods", &pod, "metadata.namespace!=default", false),
            ("pods", &pod, "spec.nodeName==n1,status.phase!=Failed", true),
            ("pods", &pod, "spec.nodeName=", false),
            ("pods", &pod, "status.podIP=", true),
            ("pods", &pod, "spec.hostNetwork=false", true),
            ("pods", &pod, r"spec.schedulerName=a\=b\,c", true),
            ("pods", &pod, ",metadata.name=a,", true),
            (
                "events",
                &event,
                "involvedObject.name=a,source=kubelet",
                true,
            ),
            ("events", &event, "type=Warning", false),
            ("nodes", &json!({}), "spec.unschedulable=false", true),
            (
                "nodes",
                &json!({"spec": {"unschedulable": true}}),
                "spec.unschedulable=false",
                false,
            ),
            ("jobs.batch", &json!({}), "status.successful=0", true),
            (
                "jobs.batch",
                &json!({"status": {"succeeded": 2}}),
                "status.successful=2",
                true,
            ),
            ("secrets", &json!({"type": "Opaque"}), "type=Opaque", true),
        ] {
            let found = parse(collection, selector).unwrap().matches(object);
            assert_eq!(found, expected, "{collection}: {selector}");
        }
    }

    #[test]
    fn what_is_no_selector_or_no_field_of_the_kind_is_refused() {
        for (collection, selector) in [
            ("pods", "spec.containers=x"),
            ("pods", "metadata.name"),
            ("pods", r"metadata.name=a\b"),
            ("pods", r"metadata.name=a\"),
            ("pods", "metadata.name=a=b"),
            ("pods", "=a"),
            ("nodes", "metadata.namespace=x"),
            ("configmaps", "data.x=y"),
        ] {
            assert!(
                parse(collection, selector).is_err(),
                "{collection}: {selector}"
            );
        }
        let error = parse("pods", "spec.foo=x").unwrap_err();
        assert_eq!(error.to_string(), "field label not supported: spec.foo");
        let long = vec!["metadata.name=a"; 65].join(",");
        assert!(parse("pods", &long).is_err());
    }

    #[test]
    fn the_store_s_selectors_read_the_same_fields() {
        let kinds = Kinds::builtin();
        let nodes = kinds.in_collection("nodes").unwrap();
        let mut fields = SelectableFields::default();
        fields.declare(
            nodes.collection.clone(),
            ["spec.other", "spec.unschedulable"],
        );
        fields.declare_paths(nodes.collection.clone(), declared(&nodes));
        let known = fields.of(&nodes.collection);
        let selector = FieldSelector::parse("spec.unschedulable=false", &nodes).unwrap();
        let requirements = selector.requirements(&known).unwrap();
        assert_eq!(
            requirements[0].field,
            Field::Declared(1, "spec.unschedulable".into())
        );
        assert_eq!(known[1].read(&json!({})).as_deref(), Some("false"));
        assert!(selector.requirements(&Arc::default()).is_err());
    }

    #[test]
    fn a_demanded_name_is_told() {
        assert_eq!(parse("pods", "").unwrap(), FieldSelector::default());
    }
}
