//! Kinds that the configuration declares, under the same rules as those of a
//! CustomResourceDefinition.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Kind, Kinds, KindsError, crd};
use crate::gateway::cause::{Cause, Fault};

/// A kind that is served from the start, over HTTP with Kubernetes' wire format: discovery
/// names it, and its objects are listed, watched and written like those of any other kind.
/// Over gRPC they are in the collection `RESOURCE.GROUP`.
///
/// Nothing is known of what is in its objects beside their metadata and status: no field of
/// them is dropped or refused. What it is called follows the rules of a
/// CustomResourceDefinition.
///
/// ```
/// use listwatch_server::{DeclaredKind, ServerOptions};
///
/// let mut orders = DeclaredKind::new("shop.example", "v1", "orders", "Order");
/// orders.status = true;
/// orders.fields = vec!["spec.customer".to_owned()];
/// let options = ServerOptions {
///     kinds: vec![orders],
///     ..ServerOptions::default()
/// };
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DeclaredKind {
    /// The API group: a domain with at least one dot.
    pub group: String,
    /// The one version that it is served in, such as `v1`.
    pub version: String,
    /// The plural name, as in URLs.
    pub resource: String,
    /// The kind, such as `Order`.
    pub kind: String,
    /// Its objects live in namespaces, which is the default.
    #[serde(default = "yes")]
    pub namespaced: bool,
    /// Further names for command lines.
    #[serde(default)]
    pub short_names: Vec<String>,
    /// Groups of kinds that a command line can name at once, such as `all`.
    #[serde(default)]
    pub categories: Vec<String>,
    /// It has a `/status` subresource.
    #[serde(default)]
    pub status: bool,
    /// Fields that selectors may name beside `metadata.name` and `metadata.namespace`, such
    /// as `spec.customer`: up to 8, over HTTP and over gRPC.
    #[serde(default)]
    pub fields: Vec<String>,
}

fn yes() -> bool {
    true
}

impl DeclaredKind {
    /// A kind in namespaces, without status and further names.
    pub fn new(
        group: impl Into<String>,
        version: impl Into<String>,
        resource: impl Into<String>,
        kind: impl Into<String>,
    ) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            resource: resource.into(),
            kind: kind.into(),
            namespaced: true,
            short_names: Vec::new(),
            categories: Vec::new(),
            status: false,
            fields: Vec::new(),
        }
    }

    fn described(&self) -> Value {
        let selectable = self.fields.iter();
        let selectable = selectable.map(|field| json!({"jsonPath": format!(".{field}")}));
        let selectable: Vec<Value> = selectable.collect();
        let subresources = match self.status {
            true => json!({"status": {}}),
            false => json!({}),
        };
        json!({
            "metadata": {"name": format!("{}.{}", self.resource, self.group)},
            "spec": {
                "group": self.group,
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "plural": self.resource,
                    "kind": self.kind,
                    "shortNames": self.short_names,
                    "categories": self.categories,
                },
                "versions": [{
                    "name": self.version,
                    "served": true,
                    "storage": true,
                    "subresources": subresources,
                    "selectableFields": selectable,
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": true,
                    }},
                }],
            },
        })
    }
}

/// Why a declared kind was refused; nothing is served then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("kinds[{place}] ({name}): {problems}")]
pub struct DeclarationError {
    /// Its place among the declared kinds; the first is 0.
    pub place: usize,
    /// `RESOURCE.GROUP`, as it is declared.
    pub name: String,
    /// What is wrong, field by field, in words.
    pub problems: String,
}

impl Kinds {
    /// The built-in kinds and those that are declared.
    ///
    /// # Errors
    /// [`DeclarationError`]: the first kind that is wrong, or takes the place of another.
    pub(crate) fn with_declared(declared: &[DeclaredKind]) -> Result<Self, DeclarationError> {
        let kinds = Self::builtin();
        for (place, declaration) in declared.iter().enumerate() {
            let added = kind(declaration).and_then(|kind| {
                let twice = kinds.registry().in_collection(kind.qualified()).cloned();
                if twice.is_some_and(|known| !known.builtin) {
                    let problem = "is declared twice";
                    return Err(vec![Cause::new(Fault::Duplicate, "resource", problem)]);
                }
                kinds.set(&[kind]).map_err(|error| vec![clash(&error)])
            });
            added.map_err(|causes| DeclarationError {
                place,
                name: format!("{}.{}", declaration.resource, declaration.group),
                problems: crate::gateway::cause::summary(&causes),
            })?;
        }
        Ok(kinds)
    }
}

fn clash(error: &KindsError) -> Cause {
    let field = match error {
        KindsError::KindTaken { .. } => "kind",
        KindsError::Fixed(_) | KindsError::TooMany(_) => "resource",
    };
    Cause::new(Fault::Invalid, field, &error.to_string())
}

/// What a declaration describes.
pub(super) fn kind(declaration: &DeclaredKind) -> Result<Kind, Vec<Cause>> {
    let described = crd::kinds(&declaration.described());
    let mut kinds = described.map_err(|error| in_words_of_declaration(error.causes))?;
    let kind = kinds.pop().map(|kind| Kind {
        is_fixed: true,
        ..kind
    });
    kind.ok_or_else(|| vec![Cause::required("version", "")])
}

/// The same causes, with the fields as a declaration calls them.
fn in_words_of_declaration(causes: Vec<Cause>) -> Vec<Cause> {
    let mut told: Vec<Cause> = causes
        .into_iter()
        // It follows from the resource and the group, which have causes of their own.
        .filter(|cause| cause.field != "metadata.name")
        .map(|cause| Cause {
            field: field(&cause.field),
            ..cause
        })
        .collect();
    if told.is_empty() {
        told.push(Cause::new(Fault::Invalid, "resource", "is too long"));
    }
    told
}

fn field(of_definition: &str) -> String {
    let renamed = [
        ("spec.names.plural", "resource"),
        ("spec.names.listKind", "kind"),
        ("spec.names.", ""),
        ("spec.versions[0].name", "version"),
        ("spec.versions[0].selectableFields", "fields"),
        ("spec.", ""),
    ];
    let found = renamed.iter().find_map(|(theirs, ours)| {
        let rest = of_definition.strip_prefix(theirs)?;
        Some(format!("{ours}{}", rest.trim_end_matches(".jsonPath")))
    });
    found.unwrap_or_else(|| of_definition.to_owned())
}
