//! How the lists of a kind are merged: what Kubernetes writes beside the fields of its types
//! (`patchStrategy`, `patchMergeKey`, `listMapKey`), as data.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::gateway::field_path::join;

/// How one list is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListRule<'a> {
    /// As a whole: the new list takes the place of the old.
    Atomic,
    /// A set of scalars.
    Set,
    /// A map: items with the same keys are the same item. A strategic merge looks at the
    /// first key only, a server-side apply at all of them.
    Keyed(Vec<&'a str>),
}

/// The rules of a kind's lists. A list is named by the fields that lead to it, with dots
/// between, without the items of the lists on the way: `spec.containers.ports`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MergeKeys {
    /// Where a pod template begins, whose lists are a pod's.
    template: Option<&'static str>,
    own: &'static [(&'static str, Rule)],
    /// From a schema.
    declared: BTreeMap<String, Declared>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Set,
    Keyed(&'static [&'static str]),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Declared {
    Set,
    Keyed(Vec<String>),
}

/// Of every object's metadata.
const METADATA: &[(&str, Rule)] = &[
    ("metadata.finalizers", Rule::Set),
    ("metadata.ownerReferences", Rule::Keyed(&["uid"])),
];

const POD: &[(&str, Rule)] = &[
    ("spec.containers", Rule::Keyed(&["name"])),
    ("spec.containers.env", Rule::Keyed(&["name"])),
    (
        "spec.containers.ports",
        Rule::Keyed(&["containerPort", "protocol"]),
    ),
    (
        "spec.containers.volumeDevices",
        Rule::Keyed(&["devicePath"]),
    ),
    ("spec.containers.volumeMounts", Rule::Keyed(&["mountPath"])),
    ("spec.ephemeralContainers", Rule::Keyed(&["name"])),
    ("spec.ephemeralContainers.env", Rule::Keyed(&["name"])),
    (
        "spec.ephemeralContainers.ports",
        Rule::Keyed(&["containerPort", "protocol"]),
    ),
    (
        "spec.ephemeralContainers.volumeDevices",
        Rule::Keyed(&["devicePath"]),
    ),
    (
        "spec.ephemeralContainers.volumeMounts",
        Rule::Keyed(&["mountPath"]),
    ),
    ("spec.hostAliases", Rule::Keyed(&["ip"])),
    ("spec.imagePullSecrets", Rule::Keyed(&["name"])),
    ("spec.initContainers", Rule::Keyed(&["name"])),
    ("spec.initContainers.env", Rule::Keyed(&["name"])),
    (
        "spec.initContainers.ports",
        Rule::Keyed(&["containerPort", "protocol"]),
    ),
    (
        "spec.initContainers.volumeDevices",
        Rule::Keyed(&["devicePath"]),
    ),
    (
        "spec.initContainers.volumeMounts",
        Rule::Keyed(&["mountPath"]),
    ),
    ("spec.resourceClaims", Rule::Keyed(&["name"])),
    ("spec.schedulingGates", Rule::Keyed(&["name"])),
    (
        "spec.topologySpreadConstraints",
        Rule::Keyed(&["topologyKey", "whenUnsatisfiable"]),
    ),
    ("spec.volumes", Rule::Keyed(&["name"])),
    ("status.conditions", Rule::Keyed(&["type"])),
    ("status.podIPs", Rule::Keyed(&["ip"])),
    ("status.resourceClaimStatuses", Rule::Keyed(&["name"])),
];

const CONDITIONS: &[(&str, Rule)] = &[("status.conditions", Rule::Keyed(&["type"]))];

const SERVICE: &[(&str, Rule)] = &[
    ("spec.ports", Rule::Keyed(&["port", "protocol"])),
    ("status.conditions", Rule::Keyed(&["type"])),
];

const NODE: &[(&str, Rule)] = &[
    ("spec.podCIDRs", Rule::Set),
    ("status.addresses", Rule::Keyed(&["type"])),
    ("status.conditions", Rule::Keyed(&["type"])),
];

const SERVICE_ACCOUNT: &[(&str, Rule)] = &[("secrets", Rule::Keyed(&["name"]))];

const CSI_NODE: &[(&str, Rule)] = &[("spec.drivers", Rule::Keyed(&["name"]))];

impl MergeKeys {
    /// Those of a built-in kind.
    pub(crate) fn builtin(collection: &str) -> Self {
        let template = match collection {
            "replicationcontrollers"
            | "daemonsets.apps"
            | "deployments.apps"
            | "replicasets.apps"
            | "statefulsets.apps"
            | "jobs.batch" => Some("spec.template."),
            "cronjobs.batch" => Some("spec.jobTemplate.spec.template."),
            "podtemplates" => Some("template."),
            _ => None,
        };
        let own = match collection {
            "pods" => POD,
            "services" => SERVICE,
            "nodes" => NODE,
            "serviceaccounts" => SERVICE_ACCOUNT,
            "csinodes.storage.k8s.io" => CSI_NODE,
            "namespaces"
            | "persistentvolumeclaims"
            | "replicationcontrollers"
            | "daemonsets.apps"
            | "deployments.apps"
            | "replicasets.apps"
            | "statefulsets.apps"
            | "jobs.batch"
            | "horizontalpodautoscalers.autoscaling"
            | "poddisruptionbudgets.policy"
            | "servicecidrs.networking.k8s.io"
            | "customresourcedefinitions.apiextensions.k8s.io" => CONDITIONS,
            _ => &[],
        };
        Self {
            template,
            own,
            declared: BTreeMap::new(),
        }
    }

    /// Those that an OpenAPI schema declares with `x-kubernetes-list-type` and
    /// `x-kubernetes-list-map-keys`.
    pub(crate) fn of_schema(schema: &Value) -> Self {
        let mut declared = BTreeMap::new();
        let mut left: Vec<(String, &Value)> = vec![(String::new(), schema)];
        while let Some((path, schema)) = left.pop() {
            if let Some(items) = schema.get("items") {
                let rule = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
                    Some("set") => Some(Declared::Set),
                    Some("map") => schema
                        .get("x-kubernetes-list-map-keys")
                        .and_then(Value::as_array)
                        .map(|keys| keys.iter().filter_map(Value::as_str))
                        .map(|keys| Declared::Keyed(keys.map(str::to_owned).collect())),
                    _ => None,
                };
                if let Some(rule) = rule {
                    declared.insert(path.clone(), rule);
                }
                left.push((path, items));
            } else if let Some(fields) = schema.get("properties").and_then(Value::as_object) {
                for (name, field) in fields {
                    left.push((join(&path, name), field));
                }
            }
        }
        Self {
            declared,
            ..Self::default()
        }
    }

    /// How the list at this path is merged.
    pub(crate) fn rule(&self, path: &str) -> ListRule<'_> {
        match self.declared.get(path) {
            Some(Declared::Set) => return ListRule::Set,
            Some(Declared::Keyed(keys)) => {
                return ListRule::Keyed(keys.iter().map(String::as_str).collect());
            }
            None => {}
        }
        let in_template = self
            .template
            .and_then(|template| path.strip_prefix(template))
            .and_then(|rest| find(POD, rest).or_else(|| find(METADATA, rest)));
        match in_template
            .or_else(|| find(self.own, path))
            .or_else(|| find(METADATA, path))
        {
            Some(Rule::Set) => ListRule::Set,
            Some(Rule::Keyed(keys)) => ListRule::Keyed(keys.to_vec()),
            None => ListRule::Atomic,
        }
    }
}

fn find(rules: &[(&str, Rule)], path: &str) -> Option<Rule> {
    rules
        .iter()
        .find(|(known, _)| *known == path)
        .map(|(_, rule)| *rule)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_s_lists_are_a_pod_s() {
        for (collection, prefix) in [
            ("pods", ""),
            ("deployments.apps", "spec.template."),
            ("cronjobs.batch", "spec.jobTemplate.spec.template."),
            ("podtemplates", "template."),
        ] {
            let keys = MergeKeys::builtin(collection);
            let at = |path: &str| format!("{prefix}{path}");
            assert_eq!(
                keys.rule(&at("spec.containers.volumeMounts")),
                ListRule::Keyed(vec!["mountPath"]),
                "{collection}"
            );
            assert_eq!(keys.rule(&at("spec.tolerations")), ListRule::Atomic);
            assert_eq!(keys.rule(&at("metadata.finalizers")), ListRule::Set);
        }
    }

    #[test]
    fn the_same_name_is_another_list_elsewhere() {
        assert_eq!(
            MergeKeys::builtin("services").rule("spec.ports"),
            ListRule::Keyed(vec!["port", "protocol"])
        );
        assert_eq!(
            MergeKeys::builtin("endpointslices.discovery.k8s.io").rule("ports"),
            ListRule::Atomic
        );
    }

    #[test]
    fn a_schema_s_lists_follow_what_it_declares() {
        let keys = MergeKeys::of_schema(&json!({"properties": {"spec": {"properties": {
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "members": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name", "zone"],
                "items": {"properties": {"roles": {"x-kubernetes-list-type": "set", "items": {}}}},
            },
            "steps": {"type": "array", "items": {"type": "string"}},
        }}}}));
        assert_eq!(keys.rule("spec.tags"), ListRule::Set);
        assert_eq!(
            keys.rule("spec.members"),
            ListRule::Keyed(vec!["name", "zone"])
        );
        assert_eq!(keys.rule("spec.members.roles"), ListRule::Set);
        assert_eq!(keys.rule("spec.steps"), ListRule::Atomic);
        assert_eq!(
            keys.rule("metadata.ownerReferences"),
            ListRule::Keyed(vec!["uid"])
        );
    }
}
