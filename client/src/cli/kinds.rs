//! From a Kubernetes kind to the collection that holds its objects, and to its scope.

/// Kinds of Kubernetes itself whose objects live outside any namespace.
const CLUSTER_SCOPED: &[&str] = &[
    "APIService",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "ComponentStatus",
    "CSIDriver",
    "CSINode",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "IngressClass",
    "IPAddress",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PodSecurityPolicy",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceSlice",
    "RuntimeClass",
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SelfSubjectRulesReview",
    "ServiceCIDR",
    "StorageClass",
    "StorageVersion",
    "SubjectAccessReview",
    "TokenReview",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeAttributesClass",
    // Not Kubernetes' own, but met often enough in the same folders.
    "ClusterIssuer",
    "GatewayClass",
];

/// Kinds whose resource name the rule of `plural` would not find.
const IRREGULAR: &[(&str, &str)] = &[
    ("Endpoints", "endpoints"),
    ("NodeMetrics", "nodes"),
    ("PodMetrics", "pods"),
    ("SecurityContextConstraints", "securitycontextconstraints"),
];

/// The groups whose unlisted kinds can still be Kubernetes' own: a custom resource that
/// happens to be called `Node` keeps its namespace.
fn is_builtin_group(group: &str) -> bool {
    group.is_empty()
        || !group.contains('.')
        || group.ends_with(".k8s.io")
        || group == "cert-manager.io"
}

/// The API group of an `apiVersion`: empty for `v1`, `apps` for `apps/v1`.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// The collection of a kind: `pods`, `deployments.apps`, `widgets.example.com`.
pub(super) fn collection(api_version: &str, kind: &str) -> String {
    let resource = plural(kind);
    match group(api_version) {
        "" => resource,
        group => format!("{resource}.{}", group.to_ascii_lowercase()),
    }
}

/// Whether objects of the kind live in a namespace. Unknown kinds do: most custom
/// resources are namespaced.
pub(super) fn is_namespaced(api_version: &str, kind: &str) -> bool {
    !(is_builtin_group(group(api_version)) && CLUSTER_SCOPED.contains(&kind))
}

/// The plural resource name of a kind: lower case, English endings.
fn plural(kind: &str) -> String {
    if let Some((_, resource)) = IRREGULAR.iter().find(|(name, _)| *name == kind) {
        return (*resource).into();
    }
    let name = kind.to_ascii_lowercase();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    if ends(&["s", "x", "z", "ch", "sh"]) {
        format!("{name}es")
    } else if ends(&["ay", "ey", "iy", "oy", "uy"]) {
        format!("{name}s")
    } else if let Some(stem) = name.strip_suffix('y') {
        format!("{stem}ies")
    } else {
        format!("{name}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubernetes_kinds_map_to_their_resource_and_group() {
        for (api_version, kind, expected) in [
            ("v1", "Pod", "pods"),
            ("v1", "Service", "services"),
            ("v1", "Endpoints", "endpoints"),
            ("v1", "ReplicationController", "replicationcontrollers"),
            ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
            ("v1", "ComponentStatus", "componentstatuses"),
            ("v1", "LimitRange", "limitranges"),
            (
                "discovery.k8s.io/v1",
                "EndpointSlice",
                "endpointslices.discovery.k8s.io",
            ),
            ("apps/v1", "Deployment", "deployments.apps"),
            ("apps/v1", "DaemonSet", "daemonsets.apps"),
            ("batch/v1", "CronJob", "cronjobs.batch"),
            (
                "networking.k8s.io/v1",
                "Ingress",
                "ingresses.networking.k8s.io",
            ),
            (
                "networking.k8s.io/v1",
                "IngressClass",
                "ingressclasses.networking.k8s.io",
            ),
            (
                "networking.k8s.io/v1",
                "NetworkPolicy",
                "networkpolicies.networking.k8s.io",
            ),
            (
                "networking.k8s.io/v1",
                "IPAddress",
                "ipaddresses.networking.k8s.io",
            ),
            (
                "policy/v1",
                "PodDisruptionBudget",
                "poddisruptionbudgets.policy",
            ),
            (
                "policy/v1beta1",
                "PodSecurityPolicy",
                "podsecuritypolicies.policy",
            ),
            (
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                "horizontalpodautoscalers.autoscaling",
            ),
            (
                "rbac.authorization.k8s.io/v1",
                "Role",
                "roles.rbac.authorization.k8s.io",
            ),
            (
                "storage.k8s.io/v1",
                "StorageClass",
                "storageclasses.storage.k8s.io",
            ),
            (
                "storage.k8s.io/v1",
                "CSIStorageCapacity",
                "csistoragecapacities.storage.k8s.io",
            ),
            (
                "gateway.networking.k8s.io/v1",
                "Gateway",
                "gateways.gateway.networking.k8s.io",
            ),
            (
                "monitoring.coreos.com/v1",
                "Prometheus",
                "prometheuses.monitoring.coreos.com",
            ),
            (
                "metrics.k8s.io/v1beta1",
                "PodMetrics",
                "pods.metrics.k8s.io",
            ),
        ] {
            assert_eq!(collection(api_version, kind), expected);
        }
    }

    #[test]
    fn cluster_scoped_kinds_have_no_namespace_and_custom_ones_do() {
        assert!(!is_namespaced("v1", "Node"));
        assert!(!is_namespaced("storage.k8s.io/v1beta1", "StorageClass"));
        assert!(!is_namespaced("policy/v1beta1", "PodSecurityPolicy"));
        assert!(is_namespaced("rbac.authorization.k8s.io/v1", "RoleBinding"));
        assert!(is_namespaced("example.com/v1", "Node"));
        assert!(is_namespaced("example.com/v1", "Widget"));
    }
}
