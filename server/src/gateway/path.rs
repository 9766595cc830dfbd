//! What a path names: a collection, an object, a part of one, or a page of discovery.

use std::sync::Arc;

use percent_encoding::percent_decode_str;

use super::{
    kinds::{Kind, Kinds},
    status::{Failed, Failure},
};

/// Paths that are Kubernetes' rather than gRPC's.
pub(crate) fn is_ours(path: &str) -> bool {
    let first = path.strip_prefix('/').unwrap_or(path);
    let first = first.split_once('/').map_or(first, |(first, _)| first);
    matches!(first, "api" | "apis" | "version" | "openapi")
}

/// Objects of a kind.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) kind: Arc<Kind>,
    /// Empty: all namespaces, or a kind that lives outside them.
    pub(crate) namespace: String,
    pub(crate) object: Part,
    /// A path that watches, whatever the query says: `/api/v1/watch/...`.
    pub(crate) watches: bool,
}

/// How much of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it, or of a namespace.
    Collection,
    /// One object.
    Object(String),
    /// Its status.
    Status(String),
    /// How many replicas it wants.
    Scale(String),
}

/// What a path names.
#[derive(Debug)]
pub(crate) enum Place {
    Target(Target),
    /// Discovery: segments of the path.
    Page(Vec<String>),
}

/// Reads a path. What is no kind that is served is discovery's, if anybody's.
pub(crate) fn place(path: &str, kinds: &Kinds) -> Result<Place, Failed> {
    let segments = path.trim_matches('/').split('/').map(decoded);
    let segments = segments.collect::<Result<Vec<_>, _>>()?;
    let names: Vec<&str> = segments.iter().map(String::as_str).collect();
    let (group, version, rest) = match names.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return Ok(Place::Page(segments)),
    };
    let (watches, rest) = match rest {
        ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
        _ => (false, rest),
    };
    target(kinds, group, version, rest, watches).map(Place::Target)
}

fn target(
    kinds: &Kinds,
    group: &str,
    version: &str,
    rest: &[&str],
    watches: bool,
) -> Result<Target, Failed> {
    let (namespace, resource, rest) = match rest {
        // What follows a namespace is a part of it, or a resource in it.
        ["namespaces", _] | ["namespaces", _, "status"] if group.is_empty() => {
            ("", "namespaces", &rest[1..])
        }
        ["namespaces", namespace, resource, rest @ ..] => (*namespace, *resource, rest),
        [resource, rest @ ..] => ("", *resource, rest),
        [] => return Err(Failure::no_such_resource()),
    };
    let kind = kinds
        .find(group, version, resource)
        .ok_or_else(Failure::no_such_resource)?;
    let object = match rest {
        [] => Part::Collection,
        [name] if !name.is_empty() => Part::Object((*name).to_owned()),
        [name, "status"] if kind.status && !watches => Part::Status((*name).to_owned()),
        [name, "scale"] if kind.scaling.is_some() && !watches => Part::Scale((*name).to_owned()),
        _ => return Err(Failure::no_such_resource()),
    };
    // An object of a kind that lives in namespaces is named with its own, and only then.
    let fits = match (kind.namespaced, namespace.is_empty()) {
        (true, true) => object == Part::Collection,
        (true, false) | (false, true) => true,
        (false, false) => false,
    };
    if !fits {
        return Err(Failure::no_such_resource());
    }
    Ok(Target {
        kind,
        namespace: namespace.to_owned(),
        object,
        watches,
    })
}

fn decoded(segment: &str) -> Result<String, Failed> {
    let decoded = percent_decode_str(segment).decode_utf8();
    let decoded = decoded.map_err(|_| Failure::bad_request("the path is not UTF-8"))?;
    Ok(decoded.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Option<(String, String, Part, bool)> {
        match place(path, &Kinds::builtin()) {
            Ok(Place::Target(t)) => Some((
                t.kind.qualified().to_owned(),
                t.namespace,
                t.object,
                t.watches,
            )),
            _ => None,
        }
    }

    #[test]
    fn a_path_names_a_collection_an_object_or_its_status() {
        let name = |text: &str| Part::Object(text.to_owned());
        for (path, collection, namespace, part, watches) in [
            ("/api/v1/pods", "pods", "", Part::Collection, false),
            (
                "/api/v1/namespaces/a/pods",
                "pods",
                "a",
                Part::Collection,
                false,
            ),
            ("/api/v1/namespaces/a/pods/p", "pods", "a", name("p"), false),
            (
                "/api/v1/namespaces/a/pods/p/status",
                "pods",
                "a",
                Part::Status("p".into()),
                false,
            ),
            (
                "/api/v1/namespaces",
                "namespaces",
                "",
                Part::Collection,
                false,
            ),
            ("/api/v1/namespaces/a", "namespaces", "", name("a"), false),
            (
                "/api/v1/namespaces/a/status",
                "namespaces",
                "",
                Part::Status("a".into()),
                false,
            ),
            ("/api/v1/watch/pods", "pods", "", Part::Collection, true),
            (
                "/api/v1/watch/namespaces/a/pods/p",
                "pods",
                "a",
                name("p"),
                true,
            ),
            (
                "/apis/apps/v1/namespaces/a/deployments/d",
                "deployments.apps",
                "a",
                name("d"),
                false,
            ),
            ("/api/v1/nodes/a%3Ab", "nodes", "", name("a:b"), false),
        ] {
            let expected = (collection.to_owned(), namespace.to_owned(), part, watches);
            assert_eq!(target(path), Some(expected), "{path}");
        }
        for path in [
            "/api/v1/pods/p",
            "/api/v1/namespaces/a/nodes",
            "/api/v1/nothing",
            "/api/v2/pods",
            "/apis/apps/v1/pods",
            "/api/v1/namespaces/a/pods/p/log",
            "/api/v1/namespaces/a/configmaps/c/status",
            "/api/v1/namespaces/a/pods/p/status/x",
            "/api/v1/nodes/%ff",
        ] {
            assert_eq!(target(path), None, "{path}");
        }
    }

    #[test]
    fn what_is_ours_is_told_by_the_first_segment() {
        for path in [
            "/api",
            "/apis",
            "/api/v1/pods",
            "/version",
            "/openapi/v2",
            "/apis/",
        ] {
            assert!(is_ours(path), "{path}");
        }
        for path in [
            "/",
            "/apiary",
            "/metrics",
            "/listwatch.v1.ListWatchService/Get",
            "*",
        ] {
            assert!(!is_ours(path), "{path}");
        }
    }
}
