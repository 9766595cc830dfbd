//! OpenAPI documents of what is served: as much as clients act on.
//!
//! What kubectl does with them (1.27 and later, tried with 1.32):
//! - `create` and `apply` look into `/openapi/v3/…` whether the `PATCH` of the kind knows the
//!   parameters `fieldValidation` and `dryRun`; then the server validates.
//! - `apply` computes its patch by the schema, if that document says that `PATCH` takes
//!   strategic merge patches. Ours does not say so: kubectl's own types know it as well.
//! - `explain` finds the kind of a resource among the paths of `/openapi/v3/…`, then its schema.
//! - `/openapi/v2` is asked for as Protobuf only, by kubectl before 1.27 (tried with 1.20, which
//!   validates and explains by it), and later where v3 did not help; others get the JSON.

mod meta;
mod protobuf;
mod schema;

use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    kinds::{Kind, Registry},
    media,
};

/// The forms that the document of OpenAPI 2 comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Protobuf,
}

impl Form {
    pub(crate) const ACCEPTED: &str =
        "application/json, application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

    /// The first that an `Accept` header names; `None`: neither.
    pub(crate) fn accepted(accept: &str) -> Option<Self> {
        if accept.trim().is_empty() {
            return Some(Self::Json);
        }
        media::ranges(accept).find_map(|range| match range.media {
            protobuf::ASKED | protobuf::ANSWERED => Some(Self::Protobuf),
            _ => range.takes_json().then_some(Self::Json),
        })
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => protobuf::ANSWERED,
        }
    }
}

/// Which OpenAPI: they name and place schemas differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    fn reference(self, name: &str) -> Value {
        match self {
            Self::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Self::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }
}

/// `/openapi/v3`: where the document of each version of each group is. The address changes
/// with the document, so that clients may keep it for ever.
pub(crate) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for group in registry.groups() {
        for version in &group.versions {
            let place = place(&group.name, &version.name);
            // Asked for by every run of kubectl, and as long as all definitions together.
            let hash = version.document_hash.get_or_init(|| {
                let document = document_of(&version.kinds).to_string();
                xxh3_64(document.as_bytes())
            });
            let address = format!("/openapi/v3/{place}?hash={hash:016X}");
            paths.insert(place, json!({"serverRelativeURL": address}));
        }
    }
    json!({"paths": paths})
}

/// `/openapi/v3/api/v1` and `/openapi/v3/apis/GROUP/VERSION`; `None` if there is no such
/// version. The core group is empty.
pub(crate) fn document(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let kinds = &registry.group_version(group, version)?.kinds;
    Some(document_of(kinds))
}

/// `/openapi/v2`: everything.
pub(crate) fn everything_as(form: Form, registry: &Registry) -> Vec<u8> {
    let document = everything(registry);
    match form {
        Form::Json => document.to_string().into(),
        Form::Protobuf => protobuf::encode(&document),
    }
}

fn everything(registry: &Registry) -> Value {
    let mut definitions = meta::schemas(Dialect::V2);
    let mut paths = Map::new();
    for kind in registry.kinds() {
        definitions.insert(schema::name(kind), schema::of(kind, Dialect::V2));
        schema::add_messages(kind, Dialect::V2, &mut definitions);
        paths.extend(operations(kind, Dialect::V2));
    }
    json!({
        "swagger": "2.0",
        "info": {"title": TITLE, "version": "v1"},
        "paths": paths,
        "definitions": definitions,
    })
}

const TITLE: &str = "Listwatch, in Kubernetes' wire format";

fn document_of(kinds: &[std::sync::Arc<Kind>]) -> Value {
    let mut schemas = meta::schemas(Dialect::V3);
    let mut paths = Map::new();
    for kind in kinds {
        schemas.insert(schema::name(kind), schema::of(kind, Dialect::V3));
        schema::add_messages(kind, Dialect::V3, &mut schemas);
        paths.extend(operations(kind, Dialect::V3));
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": TITLE, "version": "v1"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn place(group: &str, version: &str) -> String {
    match group {
        "" => format!("api/{version}"),
        group => format!("apis/{group}/{version}"),
    }
}

/// The paths of a kind and what can be done there.
fn operations(kind: &Kind, dialect: Dialect) -> Vec<(String, Value)> {
    let scope = if kind.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let place = place(&kind.group, &kind.version);
    let all = format!("/{place}{scope}/{}", kind.resource);
    let one = format!("{all}/{{name}}");
    let mut paths = vec![
        (
            all,
            methods(kind, dialect, &[("get", "list"), ("post", "post")]),
        ),
        (
            one.clone(),
            methods(
                kind,
                dialect,
                &[
                    ("get", "get"),
                    ("put", "put"),
                    ("patch", "patch"),
                    ("delete", "delete"),
                ],
            ),
        ),
    ];
    if kind.status {
        let status = methods(
            kind,
            dialect,
            &[("get", "get"), ("put", "put"), ("patch", "patch")],
        );
        paths.push((format!("{one}/status"), status));
    }
    paths
}

fn methods(kind: &Kind, dialect: Dialect, methods: &[(&str, &str)]) -> Value {
    let mut told = Map::new();
    for (method, action) in methods {
        let writes = matches!(*method, "post" | "put" | "patch");
        let names: &[&str] = match *method {
            "patch" => &["dryRun", "fieldManager", "fieldValidation", "force"],
            _ if writes => &["dryRun", "fieldManager", "fieldValidation"],
            "delete" => &["dryRun", "gracePeriodSeconds", "propagationPolicy"],
            _ => &[],
        };
        let parameters: Vec<Value> = names.iter().map(|name| parameter(name, dialect)).collect();
        let mut operation = json!({
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": schema::group_version_kind(kind),
            "parameters": parameters,
            "responses": {"200": {"description": "OK"}},
        });
        if *method == "patch" && dialect == Dialect::V3 {
            operation["requestBody"] = json!({"content": {
                "application/apply-patch+yaml": {"schema": {"type": "object"}},
                "application/json-patch+json": {"schema": {"type": "object"}},
                "application/merge-patch+json": {"schema": {"type": "object"}},
            }});
        }
        told.insert((*method).to_owned(), operation);
    }
    Value::Object(told)
}

fn parameter(name: &str, dialect: Dialect) -> Value {
    let kind = match name {
        "force" => "boolean",
        "gracePeriodSeconds" => "integer",
        _ => "string",
    };
    match dialect {
        Dialect::V2 => json!({"name": name, "in": "query", "type": kind, "uniqueItems": true}),
        Dialect::V3 => {
            json!({"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": true}})
        }
    }
}

#[cfg(test)]
mod tests;
