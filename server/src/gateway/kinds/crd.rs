//! Kinds that a CustomResourceDefinition describes.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};

use super::{
    Kind, MergeKeys, PrinterColumn, VERBS,
    scale::{ReplicaSelector, Scaling},
};
use crate::{
    gateway::{
        cause::{Cause, Fault, summary},
        names,
    },
    store::Collection,
};

/// Why a definition was refused: for a 422 Status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", summary(causes))]
pub(crate) struct CrdError {
    /// What is wrong, field by field; never empty.
    pub(crate) causes: Vec<Cause>,
}

/// More versions than any resource ever had at a time.
const MAX_VERSIONS: usize = 32;
/// `additionalPrinterColumns` of one version.
const MAX_COLUMNS: usize = 64;
/// `selectableFields` of one version, as in Kubernetes.
const MAX_SELECTABLE: usize = 8;
/// A path of a selectable field, as that of a flag of the server.
const MAX_PATH_BYTES: usize = 253;
/// A DNS-1035 label.
const MAX_LABEL_BYTES: usize = 63;

/// The kinds that a CustomResourceDefinition describes, one for each served version.
pub(super) fn kinds(crd: &Value) -> Result<Vec<Kind>, CrdError> {
    let mut reader = Reader { causes: Vec::new() };
    let kinds = reader.definition(crd);
    match reader.causes {
        causes if causes.is_empty() => Ok(kinds),
        causes => Err(CrdError { causes }),
    }
}

struct Reader {
    causes: Vec<Cause>,
}

impl Reader {
    fn definition(&mut self, crd: &Value) -> Vec<Kind> {
        let empty = Value::Null;
        let spec = crd.get("spec").unwrap_or(&empty);
        let names = spec.get("names").unwrap_or(&empty);

        let group = self.text(spec, "spec", "group");
        if !group.is_empty() && (names::subdomain(group).is_err() || !group.contains('.')) {
            self.refuse(
                "spec.group",
                group,
                "should be a domain with at least one dot",
            );
        }
        let plural = self.label(names, "plural");
        let kind = self.text(names, "spec.names", "kind");
        let lower = kind.to_ascii_lowercase();
        if !kind.is_empty() && !is_label(&lower) {
            self.refuse("spec.names.kind", kind, LABEL_RULE);
        }
        let singular = match names.get("singular") {
            None | Some(Value::Null) => lower,
            Some(_) => self.label(names, "singular").to_owned(),
        };
        let list_kind = match names.get("listKind") {
            None | Some(Value::Null) => format!("{kind}List"),
            Some(_) => {
                let list_kind = self.text(names, "spec.names", "listKind");
                if !list_kind.is_empty() && !is_label(&list_kind.to_ascii_lowercase()) {
                    self.refuse("spec.names.listKind", list_kind, LABEL_RULE);
                }
                list_kind.to_owned()
            }
        };
        if list_kind == kind && !kind.is_empty() {
            self.refuse("spec.names.listKind", kind, "must differ from kind");
        }
        let short_names = self.labels(names, "shortNames");
        let categories = self.labels(names, "categories");
        let namespaced = match self.text(spec, "spec", "scope") {
            "Namespaced" => true,
            "Cluster" | "" => false,
            other => {
                self.causes.push(Cause::of_value(
                    Fault::NotSupported,
                    "spec.scope",
                    &json!(other),
                    "supported values: \"Cluster\", \"Namespaced\"",
                ));
                false
            }
        };
        let qualified = format!("{plural}.{group}");
        let name = crd.pointer("/metadata/name").and_then(Value::as_str);
        if name != Some(&qualified) {
            self.refuse(
                "metadata.name",
                name.unwrap_or_default(),
                "must be spec.names.plural+\".\"+spec.group",
            );
        }
        let Ok(collection) = Collection::new(&qualified) else {
            self.refuse("metadata.name", &qualified, "is no name of a collection");
            return Vec::new();
        };
        let head = Kind {
            group: group.to_owned(),
            version: String::new(),
            resource: plural.to_owned(),
            singular,
            kind: kind.to_owned(),
            list_kind,
            namespaced,
            short_names,
            categories,
            status: false,
            verbs: VERBS,
            collection,
            merge_keys: MergeKeys::default(),
            builtin: false,
            is_fixed: false,
            scaling: None,
            storage: false,
            schema: None,
            columns: Vec::new(),
            selectable: Vec::new(),
            fields: OnceLock::new(),
        };
        self.versions(spec, &head)
    }

    fn versions(&mut self, spec: &Value, head: &Kind) -> Vec<Kind> {
        let versions = self.list(spec, "spec", "versions", MAX_VERSIONS);
        if versions.is_empty() && self.causes.is_empty() {
            let problem = "must have at least one version";
            self.causes.push(Cause::required("spec.versions", problem));
        }
        let mut kinds: Vec<Kind> = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        let mut stored = 0;
        for (i, version) in versions.iter().enumerate() {
            let at = format!("spec.versions[{i}]");
            let name = self.text(version, &at, "name");
            if !name.is_empty()
                && (!is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()))
            {
                self.refuse(&format!("{at}.name"), name, LABEL_RULE);
            }
            if names.contains(&name) {
                let duplicate =
                    Cause::of_value(Fault::Duplicate, format!("{at}.name"), &json!(name), "");
                self.causes.push(duplicate);
            }
            names.push(name);
            let storage = self.flag(version, &at, "storage");
            stored += usize::from(storage);
            let served = self.flag(version, &at, "served");
            let schema = version.pointer("/schema/openAPIV3Schema");
            if !schema.is_some_and(Value::is_object) {
                let field = format!("{at}.schema.openAPIV3Schema");
                self.causes
                    .push(Cause::required(field, "schemas are required"));
            }
            let columns = self.columns(version, &at);
            let selectable = self.selectable(version, &at);
            let scaling = self.scaling(version, &at);
            if served {
                kinds.push(Kind {
                    version: name.to_owned(),
                    status: version
                        .pointer("/subresources/status")
                        .is_some_and(Value::is_object),
                    scaling,
                    merge_keys: schema.map(MergeKeys::of_schema).unwrap_or_default(),
                    storage,
                    schema: schema.cloned().map(Arc::new),
                    columns,
                    selectable,
                    ..head.clone()
                });
            }
        }
        if stored != 1 && !versions.is_empty() {
            let problem = "must have exactly one version marked as storage version";
            let shown = spec.get("versions").unwrap_or(&Value::Null);
            self.causes.push(Cause::invalid(
                "spec.versions",
                &json!(shown.as_array().map(Vec::len)),
                problem,
            ));
        }
        kinds
    }

    fn columns(&mut self, version: &Value, at: &str) -> Vec<PrinterColumn> {
        let mut columns = Vec::new();
        for (i, column) in self
            .list(version, at, "additionalPrinterColumns", MAX_COLUMNS)
            .iter()
            .enumerate()
        {
            let at = format!("{at}.additionalPrinterColumns[{i}]");
            let path = self.text(column, &at, "jsonPath");
            if !path.is_empty() && !path.starts_with('.') && !path.starts_with("{.") {
                self.refuse(&format!("{at}.jsonPath"), path, "must begin with a dot");
            }
            let kind = self.text(column, &at, "type");
            if !matches!(
                kind,
                "" | "integer" | "number" | "string" | "boolean" | "date"
            ) {
                let supported =
                    "supported values: \"boolean\", \"date\", \"integer\", \"number\", \"string\"";
                self.causes.push(Cause::of_value(
                    Fault::NotSupported,
                    format!("{at}.type"),
                    &json!(kind),
                    supported,
                ));
            }
            let optional = |field| {
                column
                    .get(field)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            columns.push(PrinterColumn {
                name: self.text(column, &at, "name").to_owned(),
                kind: kind.to_owned(),
                format: optional("format").to_owned(),
                description: optional("description").to_owned(),
                priority: column
                    .get("priority")
                    .and_then(Value::as_i64)
                    .and_then(|priority| i32::try_from(priority).ok())
                    .unwrap_or(0),
                path: path.to_owned(),
            });
        }
        columns
    }

    fn selectable(&mut self, version: &Value, at: &str) -> Vec<String> {
        let schema = version.pointer("/schema/openAPIV3Schema");
        let mut paths: Vec<String> = Vec::new();
        for (i, field) in self
            .list(version, at, "selectableFields", MAX_SELECTABLE)
            .iter()
            .enumerate()
        {
            let at = format!("{at}.selectableFields[{i}].jsonPath");
            let path = match field.get("jsonPath") {
                // So that the field is named with its place in the list.
                Some(Value::String(path)) if !path.is_empty() => path.as_str(),
                None | Some(Value::Null | Value::String(_)) => {
                    self.causes.push(Cause::required(at, ""));
                    continue;
                }
                Some(other) => {
                    self.wrong_type(at, other, "must be a string");
                    continue;
                }
            };
            let Some(plain) = plain_path(path).filter(|plain| plain.len() <= MAX_PATH_BYTES) else {
                self.refuse(&at, path, "must be a plain path of fields");
                continue;
            };
            if matches!(
                plain.split('.').next(),
                Some("metadata" | "apiVersion" | "kind")
            ) {
                self.refuse(&at, path, "must not point to fields that every object has");
            } else if paths.iter().any(|known| known == plain) {
                let twice = Cause::of_value(Fault::Duplicate, at, &json!(path), "");
                self.causes.push(twice);
            } else if let Some(problem) = schema.and_then(|schema| unselectable(schema, plain)) {
                self.refuse(&at, path, problem);
            } else {
                paths.push(plain.to_owned());
            }
        }
        paths
    }

    fn scaling(&mut self, version: &Value, at: &str) -> Option<Scaling> {
        let scale = version.pointer("/subresources/scale")?;
        if scale.is_null() {
            return None;
        }
        let at = format!("{at}.subresources.scale");
        if !scale.is_object() {
            self.wrong_type(at, scale, "must be an object");
            return None;
        }
        let wanted = self.text(scale, &at, "specReplicasPath");
        let wanted = self.path_below(wanted, &format!("{at}.specReplicasPath"), &["spec"]);
        let present = self.text(scale, &at, "statusReplicasPath");
        let present = self.path_below(present, &format!("{at}.statusReplicasPath"), &["status"]);
        let selector = match scale.get("labelSelectorPath") {
            None | Some(Value::Null) => ReplicaSelector::None,
            Some(Value::String(path)) if path.is_empty() => ReplicaSelector::None,
            Some(_) => {
                let path = self.text(scale, &at, "labelSelectorPath");
                let field = format!("{at}.labelSelectorPath");
                ReplicaSelector::Text(self.path_below(path, &field, &["spec", "status"]))
            }
        };
        Some(Scaling {
            wanted,
            present,
            selector,
            default: None,
        })
    }

    /// A path without its leading dot that leads to something below one of these fields.
    fn path_below(&mut self, path: &str, field: &str, above: &[&str]) -> String {
        let plain = plain_path(path).filter(|plain| {
            let first = plain.split_once('.');
            first.is_some_and(|(first, _)| above.contains(&first))
        });
        if plain.is_none() && !path.is_empty() {
            let above: Vec<String> = above.iter().map(|name| format!(".{name}")).collect();
            let problem = format!("should be a path of fields under {}", above.join(" or "));
            self.refuse(field, path, &problem);
        }
        plain.unwrap_or_default().to_owned()
    }

    /// A field that must be there and be text; empty, with a cause, if it is not.
    fn text<'a>(&mut self, of: &'a Value, at: &str, name: &str) -> &'a str {
        let field = format!("{at}.{name}");
        match of.get(name) {
            Some(Value::String(text)) if !text.is_empty() => return text,
            None | Some(Value::Null | Value::String(_)) => {
                self.causes.push(Cause::required(field, ""));
            }
            Some(other) => self.wrong_type(field, other, "must be a string"),
        }
        ""
    }

    fn label<'a>(&mut self, names: &'a Value, name: &str) -> &'a str {
        let text = self.text(names, "spec.names", name);
        if !text.is_empty() && !is_label(text) {
            self.refuse(&format!("spec.names.{name}"), text, LABEL_RULE);
        }
        text
    }

    fn labels(&mut self, names: &Value, name: &str) -> Vec<String> {
        let mut labels = Vec::new();
        for (i, label) in self
            .list(names, "spec.names", name, MAX_LABEL_BYTES)
            .iter()
            .enumerate()
        {
            match label.as_str() {
                Some(text) if is_label(text) => labels.push(text.to_owned()),
                _ => {
                    let field = format!("spec.names.{name}[{i}]");
                    self.causes.push(Cause::invalid(field, label, LABEL_RULE));
                }
            }
        }
        labels
    }

    fn flag(&mut self, of: &Value, at: &str, name: &str) -> bool {
        match of.get(name) {
            Some(Value::Bool(flag)) => return *flag,
            None | Some(Value::Null) => {
                self.causes
                    .push(Cause::required(format!("{at}.{name}"), ""));
            }
            Some(other) => self.wrong_type(format!("{at}.{name}"), other, "must be a boolean"),
        }
        false
    }

    /// A list that may be absent.
    fn list<'a>(&mut self, of: &'a Value, at: &str, name: &str, most: usize) -> &'a [Value] {
        let field = format!("{at}.{name}");
        match of.get(name) {
            Some(Value::Array(items)) if items.len() <= most => return items,
            Some(Value::Array(_)) => {
                let problem = format!("must have at most {most} items");
                self.causes
                    .push(Cause::new(Fault::TooLong, field, &problem));
            }
            None | Some(Value::Null) => {}
            Some(other) => self.wrong_type(field, other, "must be an array"),
        }
        &[]
    }

    fn refuse(&mut self, field: &str, value: &str, problem: &str) {
        self.causes
            .push(Cause::invalid(field, &json!(value), problem));
    }

    fn wrong_type(&mut self, field: String, value: &Value, problem: &str) {
        self.causes
            .push(Cause::of_value(Fault::TypeInvalid, field, value, problem));
    }
}

/// A path that only names fields, such as `.spec.colour`, without its leading dot.
fn plain_path(path: &str) -> Option<&str> {
    let plain = path.strip_prefix('.')?;
    let is_plain = |step: &str| !step.is_empty() && !step.contains(['[', ']', '*', '\'', '"']);
    plain.split('.').all(is_plain).then_some(plain)
}

/// Why no field that a schema describes is at this path, or none that can be selected by.
fn unselectable(schema: &Value, path: &str) -> Option<&'static str> {
    let mut at = schema;
    for step in path.split('.') {
        match at.get("properties").and_then(|known| known.get(step)) {
            Some(below) => at = below,
            // It may be there all the same. (Kubernetes refuses it.)
            None if at.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true)) => {
                return None;
            }
            None => return Some("does not refer to a field of the schema"),
        }
    }
    match at.get("type").and_then(Value::as_str) {
        Some("string" | "boolean" | "integer") => None,
        _ => Some("must point to a field of type string, boolean or integer"),
    }
}

const LABEL_RULE: &str =
    "must be 1 to 63 of a-z, 0-9 and '-', and begin and end with a letter or digit";

fn is_label(text: &str) -> bool {
    names::label(text).is_ok()
}
