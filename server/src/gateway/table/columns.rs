//! The columns of each kind, and who fills them.

use serde_json::{Value, json};

use super::{
    cluster,
    jsonpath::JsonPath,
    pods,
    row::{Row, joined},
    workloads,
};
use crate::gateway::kinds::{Kind, PrinterColumn};

/// A column of a built-in kind. Those that begin with `+` are shown where there is room.
pub(super) type Column = &'static str;
type Cells = fn(&Row<'_>) -> Vec<Value>;

/// The columns of a kind.
pub(super) enum Columns<'a> {
    Known(&'static [Column], Cells),
    Defined(Vec<(&'a PrinterColumn, Option<JsonPath>)>),
}

pub(super) fn of(kind: &Kind) -> Columns<'_> {
    if !kind.columns.is_empty() {
        let read = kind.columns.iter().map(|c| (c, JsonPath::parse(&c.path)));
        return Columns::Defined(read.collect());
    }
    let (columns, cells) = known(kind.qualified());
    Columns::Known(columns, cells)
}

fn known(collection: &str) -> (&'static [Column], Cells) {
    match collection {
        "pods" => (pods::COLUMNS, pods::cells),
        "podtemplates" => (workloads::POD_TEMPLATE, workloads::pod_template),
        "deployments.apps" => (workloads::DEPLOYMENT, workloads::deployment),
        "replicasets.apps" => (workloads::REPLICA_SET, workloads::replica_set),
        "replicationcontrollers" => (workloads::REPLICA_SET, workloads::replica_set),
        "statefulsets.apps" => (workloads::STATEFUL_SET, workloads::stateful_set),
        "daemonsets.apps" => (workloads::DAEMON_SET, workloads::daemon_set),
        "controllerrevisions.apps" => (workloads::REVISION, workloads::revision),
        "jobs.batch" => (workloads::JOB, workloads::job),
        "cronjobs.batch" => (workloads::CRON_JOB, workloads::cron_job),
        "horizontalpodautoscalers.autoscaling" => (workloads::AUTOSCALER, workloads::autoscaler),
        "poddisruptionbudgets.policy" => (workloads::BUDGET, workloads::budget),
        "services" => (cluster::SERVICE, cluster::service),
        "endpoints" => (cluster::ENDPOINTS, cluster::endpoints),
        "endpointslices.discovery.k8s.io" => (cluster::ENDPOINT_SLICE, cluster::endpoint_slice),
        "ingresses.networking.k8s.io" => (cluster::INGRESS, cluster::ingress),
        "ingressclasses.networking.k8s.io" => (cluster::INGRESS_CLASS, cluster::ingress_class),
        "networkpolicies.networking.k8s.io" => (cluster::NETWORK_POLICY, cluster::network_policy),
        "configmaps" => (cluster::CONFIG_MAP, cluster::config_map),
        "secrets" => (cluster::SECRET, cluster::secret),
        "serviceaccounts" => (cluster::SERVICE_ACCOUNT, cluster::service_account),
        "namespaces" => (cluster::NAMESPACE, cluster::namespace),
        "nodes" => (cluster::NODE, cluster::node),
        "persistentvolumes" => (cluster::VOLUME, cluster::volume),
        "persistentvolumeclaims" => (cluster::CLAIM, cluster::claim),
        "storageclasses.storage.k8s.io" => (cluster::STORAGE_CLASS, cluster::storage_class),
        "events" => (cluster::EVENT, cluster::event),
        "events.events.k8s.io" => (cluster::EVENT, cluster::new_event),
        "leases.coordination.k8s.io" => (cluster::LEASE, cluster::lease),
        "rolebindings.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io" => (cluster::BINDING, cluster::binding),
        "roles.rbac.authorization.k8s.io"
        | "clusterroles.rbac.authorization.k8s.io"
        | "limitranges"
        | "customresourcedefinitions.apiextensions.k8s.io" => (cluster::DATED, cluster::dated),
        _ => (&["Name", "Age"], |row| {
            vec![json!(row.name()), json!(row.age())]
        }),
    }
}

impl Columns<'_> {
    pub(super) fn headers(&self) -> Vec<Value> {
        match self {
            Self::Known(columns, _) => columns.iter().map(|column| known_header(column)).collect(),
            Self::Defined(columns) => {
                let own = columns.iter().map(|(column, _)| {
                    header(
                        &column.name,
                        &column.kind,
                        &column.format,
                        &column.description,
                        column.priority,
                    )
                });
                std::iter::once(known_header("Name")).chain(own).collect()
            }
        }
    }

    pub(super) fn cells(&self, row: &Row<'_>) -> Vec<Value> {
        match self {
            Self::Known(_, cells) => cells(row),
            Self::Defined(columns) => {
                let own = columns.iter().map(|(column, path)| {
                    let found = path.as_ref().map(|path| path.find(row.object()));
                    defined(row, column, &found.unwrap_or_default())
                });
                std::iter::once(json!(row.name())).chain(own).collect()
            }
        }
    }
}

fn known_header(column: &str) -> Value {
    let (name, priority) = match column.strip_prefix('+') {
        Some(name) => (name, 1),
        None => (column, 0),
    };
    let kind = match name {
        "Desired"
        | "Current"
        | "Up-to-date"
        | "Available"
        | "Data"
        | "Secrets"
        | "Active"
        | "MinPods"
        | "MaxPods"
        | "Replicas"
        | "Allowed Disruptions"
        | "Count"
        | "Revision" => "integer",
        _ => "string",
    };
    let format = if name == "Name" { "name" } else { "" };
    header(
        name,
        kind,
        format,
        &format!("{name} of the object"),
        priority,
    )
}

fn header(name: &str, kind: &str, format: &str, description: &str, priority: i32) -> Value {
    json!({
        "name": name,
        "type": kind,
        "format": format,
        "description": description,
        "priority": priority,
    })
}

/// The cell of what a path found: null where there is nothing, or something of another type.
fn defined(row: &Row<'_>, column: &PrinterColumn, found: &[&Value]) -> Value {
    let Some(first) = found.first() else {
        return Value::Null;
    };
    match column.kind.as_str() {
        "integer" if first.is_i64() => (*first).clone(),
        "number" if first.is_number() => (*first).clone(),
        "boolean" if first.is_boolean() => (*first).clone(),
        "date" => match first.as_str() {
            Some(time) => json!(row.past(time).unwrap_or_else(|| "<invalid>".to_owned())),
            None => Value::Null,
        },
        "string" => {
            let texts: Vec<String> = found.iter().map(|value| plain(value)).collect();
            json!(joined(texts.iter().map(String::as_str)))
        }
        _ => Value::Null,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
