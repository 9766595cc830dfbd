//! What is served, told as Kubernetes tells it: versions, groups, resources.

use serde_json::{Value, json};

use super::{
    kinds::{Group, GroupVersion, Kind, Registry, STATUS_VERBS},
    media, scale,
};

/// The version of Kubernetes whose wire format this is. Clients switch features by it, and
/// kubectl warns where it is more than one minor version away from its own.
const MAJOR: &str = "1";
const MINOR: &str = "33";

const JSON: &str = "application/json";

/// The forms in which discovery of everything can be asked for at `/api` and `/apis`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Lists of versions and groups, each of which is asked further.
    Plain,
    /// Everything in one document, `apidiscovery.k8s.io/v2`.
    Aggregated,
    /// The same as `apidiscovery.k8s.io/v2beta1`, which clients before 1.30 ask for.
    AggregatedBeta,
}

impl Form {
    /// The first form that an `Accept` header names; plain where it names none of them.
    pub(crate) fn accepted(accept: &str) -> Self {
        for range in media::ranges(accept) {
            if range.is_plain_json() {
                return Self::Plain;
            }
            let kind = (range.media, range.group, range.kind);
            if kind != (JSON, "apidiscovery.k8s.io", "APIGroupDiscoveryList") {
                continue;
            }
            match range.version {
                "v2" => return Self::Aggregated,
                "v2beta1" => return Self::AggregatedBeta,
                _ => {}
            }
        }
        Self::Plain
    }

    /// The content type of the answer: clients tell by it which form they got.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Plain => JSON,
            Self::Aggregated => {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            }
            Self::AggregatedBeta => {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
        }
    }

    fn version(self) -> &'static str {
        match self {
            Self::AggregatedBeta => "apidiscovery.k8s.io/v2beta1",
            Self::Plain | Self::Aggregated => "apidiscovery.k8s.io/v2",
        }
    }
}

/// `/version`. `build`: the version of this server.
pub(crate) fn version(build: &str) -> Value {
    json!({
        "major": MAJOR,
        "minor": MINOR,
        "gitVersion": format!("v{MAJOR}.{MINOR}.0+listwatch-{build}"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// `/api`: the versions of the core group. `address`: where clients reach the server.
pub(crate) fn core(registry: &Registry, form: Form, address: &str) -> Value {
    let core = registry.group("");
    if form != Form::Plain {
        return aggregated(core, form);
    }
    let versions: Vec<&str> = core
        .into_iter()
        .flat_map(|group| &group.versions)
        .map(|version| version.name.as_str())
        .collect();
    json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`: all groups but the core group.
pub(crate) fn groups(registry: &Registry, form: Form) -> Value {
    let named = registry.groups().iter().filter(|g| !g.name.is_empty());
    if form != Form::Plain {
        return aggregated(named, form);
    }
    let groups: Vec<Value> = named.map(group_fields).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`; `None` if there is no such group.
pub(crate) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let group = registry.group(name).filter(|_| !name.is_empty())?;
    let mut told = group_fields(group);
    told["kind"] = json!("APIGroup");
    told["apiVersion"] = json!("v1");
    Some(told)
}

fn group_fields(group: &Group) -> Value {
    let told = |version: &GroupVersion| {
        json!({
            "groupVersion": format!("{}/{}", group.name, version.name),
            "version": version.name,
        })
    };
    let versions: Vec<Value> = group.versions.iter().map(told).collect();
    json!({
        "name": group.name,
        "preferredVersion": versions.first(),
        "versions": versions,
    })
}

/// `/api/v1` and `/apis/GROUP/VERSION`; `None` if there is no such version.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let found = registry.group_version(group, version)?;
    let mut told = Vec::new();
    for kind in &found.kinds {
        let mut resource = json!({
            "name": kind.resource,
            "singularName": kind.singular,
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": kind.verbs,
        });
        if !kind.short_names.is_empty() {
            resource["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            resource["categories"] = json!(kind.categories);
        }
        told.push(resource);
        if kind.scaling.is_some() {
            told.push(json!({
                "name": format!("{}/scale", kind.resource),
                "singularName": "",
                "namespaced": kind.namespaced,
                "group": scale::GROUP,
                "version": scale::VERSION,
                "kind": scale::KIND,
                "verbs": STATUS_VERBS,
            }));
        }
        if kind.status {
            told.push(json!({
                "name": format!("{}/status", kind.resource),
                "singularName": "",
                "namespaced": kind.namespaced,
                "kind": kind.kind,
                "verbs": STATUS_VERBS,
            }));
        }
    }
    let group_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": told,
    }))
}

fn aggregated<'a>(groups: impl IntoIterator<Item = &'a Group>, form: Form) -> Value {
    let items: Vec<Value> = groups.into_iter().map(aggregated_group).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": form.version(),
        "metadata": {},
        "items": items,
    })
}

fn aggregated_group(group: &Group) -> Value {
    let told = |version: &GroupVersion| {
        let kinds = version.kinds.iter();
        let resources: Vec<Value> = kinds.map(|kind| aggregated_resource(kind)).collect();
        json!({"version": version.name, "resources": resources, "freshness": "Current"})
    };
    let versions: Vec<Value> = group.versions.iter().map(told).collect();
    let mut metadata = json!({"creationTimestamp": null});
    if !group.name.is_empty() {
        metadata["name"] = json!(group.name);
    }
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(kind: &Kind) -> Value {
    let response_kind = json!({
        "group": kind.group,
        "version": kind.version,
        "kind": kind.kind,
    });
    let mut told = json!({
        "resource": kind.resource,
        "responseKind": response_kind,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    if !kind.short_names.is_empty() {
        told["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        told["categories"] = json!(kind.categories);
    }
    let subresource = |name: &str, response_kind: Value| {
        json!({
            "subresource": name,
            "responseKind": response_kind,
            "verbs": STATUS_VERBS,
        })
    };
    let scale = kind.scaling.as_ref().map(|_| {
        let kind = json!({
            "group": scale::GROUP,
            "version": scale::VERSION,
            "kind": scale::KIND,
        });
        subresource("scale", kind)
    });
    let status = kind.status.then(|| subresource("status", response_kind));
    let subresources: Vec<Value> = scale.into_iter().chain(status).collect();
    if !subresources.is_empty() {
        told["subresources"] = json!(subresources);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::kinds::Kinds;

    #[test]
    fn the_core_group_is_at_api_and_the_others_at_apis() {
        let registry = Kinds::builtin().registry();
        assert_eq!(
            core(&registry, Form::Plain, "x:1")["versions"],
            json!(["v1"])
        );
        let told = groups(&registry, Form::Plain);
        assert_eq!(told["kind"], "APIGroupList");
        let names: Vec<_> = told["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| group["name"].as_str().unwrap())
            .collect();
        assert!(names.contains(&"apps") && !names.contains(&""));
        assert_eq!(
            group(&registry, "apps").unwrap(),
            json!({
                "kind": "APIGroup",
                "apiVersion": "v1",
                "name": "apps",
                "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
                "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
            })
        );
        assert_eq!(group(&registry, ""), None);
        assert_eq!(group(&registry, "nothing"), None);
    }

    #[test]
    fn a_version_lists_its_resources_and_their_status() {
        let registry = Kinds::builtin().registry();
        let told = resources(&registry, "", "v1").unwrap();
        assert_eq!(told["groupVersion"], "v1");
        let resource = |name: &str| {
            let all = told["resources"].as_array().unwrap();
            all.iter().find(|r| r["name"] == name).cloned()
        };
        assert_eq!(
            resource("pods").unwrap(),
            json!({
                "name": "pods",
                "singularName": "pod",
                "namespaced": true,
                "kind": "Pod",
                "verbs": crate::gateway::kinds::VERBS,
                "shortNames": ["po"],
                "categories": ["all"],
            })
        );
        assert_eq!(
            resource("pods/status").unwrap()["verbs"],
            json!(STATUS_VERBS)
        );
        assert_eq!(resource("configmaps/status"), None);
        assert_eq!(resource("pods/scale"), None);
        assert_eq!(resources(&registry, "apps", "v2"), None);
        assert_eq!(
            resources(&registry, "apps", "v1").unwrap()["groupVersion"],
            "apps/v1"
        );
    }

    #[test]
    fn aggregated_discovery_tells_the_same_as_the_lists() {
        let registry = Kinds::builtin().registry();
        let mut told = 0;
        let core = core(&registry, Form::Aggregated, "");
        let others = groups(&registry, Form::Aggregated);
        assert_eq!(core["apiVersion"], "apidiscovery.k8s.io/v2");
        for list in [core, others] {
            for group in list["items"].as_array().unwrap() {
                let name = group["metadata"]["name"].as_str().unwrap_or_default();
                for version in group["versions"].as_array().unwrap() {
                    let version_name = version["version"].as_str().unwrap();
                    let plain = resources(&registry, name, version_name).unwrap();
                    for resource in version["resources"].as_array().unwrap() {
                        let parts = resource["subresources"].as_array().map_or(0, Vec::len);
                        told += 1 + parts;
                        let namespaced = resource["scope"] == "Namespaced";
                        let same = plain["resources"].as_array().unwrap().iter().any(|p| {
                            p["name"] == resource["resource"]
                                && p["namespaced"] == namespaced
                                && p["kind"] == resource["responseKind"]["kind"]
                                && p["verbs"] == resource["verbs"]
                        });
                        assert!(same, "{resource}");
                    }
                }
            }
        }
        let kinds = registry.kinds();
        let with_status = kinds.iter().filter(|kind| kind.status).count();
        let with_scale = kinds.iter().filter(|kind| kind.scaling.is_some()).count();
        assert_eq!(with_scale, 4);
        assert_eq!(told, kinds.len() + with_status + with_scale);
        let beta = groups(&registry, Form::AggregatedBeta);
        assert_eq!(beta["apiVersion"], "apidiscovery.k8s.io/v2beta1");
    }

    #[test]
    fn the_first_form_that_a_client_names_is_its_form() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let v2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        for (accept, form) in [
            (String::new(), Form::Plain),
            ("application/json".into(), Form::Plain),
            ("*/*".into(), Form::Plain),
            (format!("{v2},{v2beta1},application/json"), Form::Aggregated),
            (format!("{v2beta1}, {v2}"), Form::AggregatedBeta),
            (format!("application/json, {v2}"), Form::Plain),
            (
                "application/json; as=Table;g=meta.k8s.io;v=v1".into(),
                Form::Plain,
            ),
            ("application/vnd.kubernetes.protobuf".into(), Form::Plain),
        ] {
            assert_eq!(Form::accepted(&accept), form, "{accept}");
        }
        assert_eq!(Form::Aggregated.content_type(), v2);
        assert_eq!(
            Form::accepted(Form::AggregatedBeta.content_type()),
            Form::AggregatedBeta
        );
    }

    #[test]
    fn the_version_is_one_that_clients_can_compare() {
        let told = version("0.1.0");
        assert!(told["gitVersion"].as_str().unwrap().starts_with("v1."));
        assert!(told["minor"].as_str().unwrap().parse::<u32>().is_ok());
    }
}
