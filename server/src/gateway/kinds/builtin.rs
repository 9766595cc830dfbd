//! The kinds of Kubernetes that are compiled in.
//!
//! One version of each, the stable one: to serve two would need a conversion between them
//! (`autoscaling/v1` is therefore left out, but for the Scale of `/scale`). `events` and `events.events.k8s.io` are two
//! collections here, while Kubernetes converts one into the other.

use std::sync::{Arc, OnceLock};

use super::{
    Kind, MergeKeys, VERBS, VERBS_NAMESPACE,
    scale::{ReplicaSelector, Scaling},
};
use crate::store::Collection;

struct Row {
    resource: &'static str,
    kind: &'static str,
    namespaced: bool,
    status: bool,
    short: &'static [&'static str],
    categories: &'static [&'static str],
}

const fn namespaced(resource: &'static str, kind: &'static str) -> Row {
    Row {
        resource,
        kind,
        namespaced: true,
        status: false,
        short: &[],
        categories: &[],
    }
}

const fn cluster(resource: &'static str, kind: &'static str) -> Row {
    Row {
        namespaced: false,
        ..namespaced(resource, kind)
    }
}

impl Row {
    const fn status(self) -> Self {
        Self {
            status: true,
            ..self
        }
    }

    const fn short(self, short: &'static [&'static str]) -> Self {
        Self { short, ..self }
    }

    const fn all(self) -> Self {
        Self {
            categories: &["all"],
            ..self
        }
    }
}

struct GroupRows {
    group: &'static str,
    version: &'static str,
    rows: &'static [Row],
}

/// In the order of discovery.
const GROUPS: &[GroupRows] = &[
    GroupRows {
        group: "",
        version: "v1",
        rows: &[
            namespaced("configmaps", "ConfigMap").short(&["cm"]),
            namespaced("endpoints", "Endpoints").short(&["ep"]),
            namespaced("events", "Event").short(&["ev"]),
            namespaced("limitranges", "LimitRange").short(&["limits"]),
            cluster("namespaces", "Namespace").short(&["ns"]).status(),
            cluster("nodes", "Node").short(&["no"]).status(),
            namespaced("persistentvolumeclaims", "PersistentVolumeClaim")
                .short(&["pvc"])
                .status(),
            cluster("persistentvolumes", "PersistentVolume")
                .short(&["pv"])
                .status(),
            namespaced("pods", "Pod").short(&["po"]).status().all(),
            namespaced("podtemplates", "PodTemplate"),
            namespaced("replicationcontrollers", "ReplicationController")
                .short(&["rc"])
                .status()
                .all(),
            namespaced("resourcequotas", "ResourceQuota")
                .short(&["quota"])
                .status(),
            namespaced("secrets", "Secret"),
            namespaced("serviceaccounts", "ServiceAccount").short(&["sa"]),
            namespaced("services", "Service")
                .short(&["svc"])
                .status()
                .all(),
        ],
    },
    GroupRows {
        group: "apps",
        version: "v1",
        rows: &[
            namespaced("controllerrevisions", "ControllerRevision"),
            namespaced("daemonsets", "DaemonSet")
                .short(&["ds"])
                .status()
                .all(),
            namespaced("deployments", "Deployment")
                .short(&["deploy"])
                .status()
                .all(),
            namespaced("replicasets", "ReplicaSet")
                .short(&["rs"])
                .status()
                .all(),
            namespaced("statefulsets", "StatefulSet")
                .short(&["sts"])
                .status()
                .all(),
        ],
    },
    GroupRows {
        group: "events.k8s.io",
        version: "v1",
        rows: &[namespaced("events", "Event").short(&["ev"])],
    },
    GroupRows {
        group: "autoscaling",
        version: "v2",
        rows: &[
            namespaced("horizontalpodautoscalers", "HorizontalPodAutoscaler")
                .short(&["hpa"])
                .status()
                .all(),
        ],
    },
    GroupRows {
        group: "batch",
        version: "v1",
        rows: &[
            namespaced("cronjobs", "CronJob")
                .short(&["cj"])
                .status()
                .all(),
            namespaced("jobs", "Job").status().all(),
        ],
    },
    GroupRows {
        group: "networking.k8s.io",
        version: "v1",
        rows: &[
            namespaced("ingresses", "Ingress").short(&["ing"]).status(),
            cluster("ingressclasses", "IngressClass"),
            cluster("ipaddresses", "IPAddress").short(&["ip"]),
            namespaced("networkpolicies", "NetworkPolicy").short(&["netpol"]),
            cluster("servicecidrs", "ServiceCIDR").status(),
        ],
    },
    GroupRows {
        group: "policy",
        version: "v1",
        rows: &[namespaced("poddisruptionbudgets", "PodDisruptionBudget")
            .short(&["pdb"])
            .status()],
    },
    GroupRows {
        group: "rbac.authorization.k8s.io",
        version: "v1",
        rows: &[
            cluster("clusterrolebindings", "ClusterRoleBinding"),
            cluster("clusterroles", "ClusterRole"),
            namespaced("rolebindings", "RoleBinding"),
            namespaced("roles", "Role"),
        ],
    },
    GroupRows {
        group: "storage.k8s.io",
        version: "v1",
        rows: &[
            cluster("csidrivers", "CSIDriver"),
            cluster("csinodes", "CSINode"),
            namespaced("csistoragecapacities", "CSIStorageCapacity"),
            cluster("storageclasses", "StorageClass").short(&["sc"]),
            cluster("volumeattachments", "VolumeAttachment").status(),
            cluster("volumeattributesclasses", "VolumeAttributesClass").short(&["vac"]),
        ],
    },
    GroupRows {
        group: "apiextensions.k8s.io",
        version: "v1",
        rows: &[Row {
            categories: &["api-extensions"],
            ..cluster("customresourcedefinitions", "CustomResourceDefinition")
                .short(&["crd", "crds"])
                .status()
        }],
    },
    GroupRows {
        group: "coordination.k8s.io",
        version: "v1",
        rows: &[namespaced("leases", "Lease")],
    },
    GroupRows {
        group: "discovery.k8s.io",
        version: "v1",
        rows: &[namespaced("endpointslices", "EndpointSlice")],
    },
];

/// A group's place in discovery: those that are not built in come last.
pub(super) fn group_place(name: &str) -> usize {
    GROUPS
        .iter()
        .position(|group| group.group == name)
        .unwrap_or(GROUPS.len())
}

/// The built-in kinds.
pub(super) fn kinds() -> Vec<Arc<Kind>> {
    GROUPS
        .iter()
        .flat_map(|group| group.rows.iter().map(move |row| (group, row)))
        .filter_map(|(group, row)| kind(group, row).map(Arc::new))
        .collect()
}

/// `None` for a name that the store refuses: a test sees to it that there is none.
fn kind(group: &GroupRows, row: &Row) -> Option<Kind> {
    let collection = match group.group {
        "" => Collection::new(row.resource),
        group => Collection::new(&format!("{}.{group}", row.resource)),
    }
    .ok()?;
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    Some(Kind {
        group: group.group.to_owned(),
        version: group.version.to_owned(),
        resource: row.resource.to_owned(),
        singular: row.kind.to_ascii_lowercase(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        namespaced: row.namespaced,
        short_names: owned(row.short),
        categories: owned(row.categories),
        status: row.status,
        scaling: scaling(collection.as_str()),
        verbs: if row.kind == "Namespace" {
            VERBS_NAMESPACE
        } else {
            VERBS
        },
        merge_keys: MergeKeys::builtin(collection.as_str()),
        collection,
        builtin: true,
        is_fixed: true,
        storage: true,
        schema: None,
        columns: Vec::new(),
        selectable: Vec::new(),
        fields: OnceLock::new(),
    })
}

fn scaling(collection: &str) -> Option<Scaling> {
    let selector = match collection {
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" => {
            ReplicaSelector::LabelSelector
        }
        "replicationcontrollers" => ReplicaSelector::Labels,
        _ => return None,
    };
    Some(Scaling::builtin(selector))
}

/// How many there should be.
#[cfg(test)]
pub(super) fn rows() -> usize {
    GROUPS.iter().map(|group| group.rows.len()).sum()
}
