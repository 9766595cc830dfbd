//! What runs pods, and what scales and guards them.

use serde_json::{Value, json};

use super::{
    columns::Column,
    row::{NONE, Row, UNKNOWN, few, text},
};

pub(super) const POD_TEMPLATE: &[Column] = &["Name", "Containers", "Images", "Pod Labels"];

pub(super) fn pod_template(row: &Row<'_>) -> Vec<Value> {
    let (names, images) = row.containers("/template/spec");
    let labels = row.selector("/template/metadata/labels");
    vec![
        json!(row.name()),
        json!(names),
        json!(images),
        json!(labels),
    ]
}

pub(super) const DEPLOYMENT: &[Column] = &[
    "Name",
    "Ready",
    "Up-to-date",
    "Available",
    "Age",
    "+Containers",
    "+Images",
    "+Selector",
];

pub(super) fn deployment(row: &Row<'_>) -> Vec<Value> {
    let (names, images) = row.containers("/spec/template/spec");
    vec![
        json!(row.name()),
        json!(format!(
            "{}/{}",
            row.number("/status/readyReplicas"),
            wanted(row)
        )),
        json!(row.number("/status/updatedReplicas")),
        json!(row.number("/status/availableReplicas")),
        json!(row.age()),
        json!(names),
        json!(images),
        json!(row.selector("/spec/selector")),
    ]
}

/// Kubernetes fills in 1.
fn wanted(row: &Row<'_>) -> i64 {
    row.at("/spec/replicas")
        .and_then(Value::as_i64)
        .unwrap_or(1)
}

pub(super) const REPLICA_SET: &[Column] = &[
    "Name",
    "Desired",
    "Current",
    "Ready",
    "Age",
    "+Containers",
    "+Images",
    "+Selector",
];

pub(super) fn replica_set(row: &Row<'_>) -> Vec<Value> {
    let (names, images) = row.containers("/spec/template/spec");
    vec![
        json!(row.name()),
        json!(wanted(row)),
        json!(row.number("/status/replicas")),
        json!(row.number("/status/readyReplicas").to_string()),
        json!(row.age()),
        json!(names),
        json!(images),
        json!(row.selector("/spec/selector")),
    ]
}

pub(super) const STATEFUL_SET: &[Column] = &["Name", "Ready", "Age", "+Containers", "+Images"];

pub(super) fn stateful_set(row: &Row<'_>) -> Vec<Value> {
    let (names, images) = row.containers("/spec/template/spec");
    vec![
        json!(row.name()),
        json!(format!(
            "{}/{}",
            row.number("/status/readyReplicas"),
            wanted(row)
        )),
        json!(row.age()),
        json!(names),
        json!(images),
    ]
}

pub(super) const DAEMON_SET: &[Column] = &[
    "Name",
    "Desired",
    "Current",
    "Ready",
    "Up-to-date",
    "Available",
    "Node Selector",
    "Age",
    "+Containers",
    "+Images",
    "+Selector",
];

pub(super) fn daemon_set(row: &Row<'_>) -> Vec<Value> {
    let (names, images) = row.containers("/spec/template/spec");
    vec![
        json!(row.name()),
        json!(row.number("/status/desiredNumberScheduled")),
        json!(row.number("/status/currentNumberScheduled")),
        json!(row.number("/status/numberReady").to_string()),
        json!(row.number("/status/updatedNumberScheduled")),
        json!(row.number("/status/numberAvailable")),
        json!(row.selector("/spec/template/spec/nodeSelector")),
        json!(row.age()),
        json!(names),
        json!(images),
        json!(row.selector("/spec/selector")),
    ]
}

pub(super) const REVISION: &[Column] = &["Name", "Controller", "Revision", "Age"];

pub(super) fn revision(row: &Row<'_>) -> Vec<Value> {
    let owners = row.list("/metadata/ownerReferences");
    let controller = owners
        .iter()
        .find(|owner| owner["controller"] == json!(true));
    let controller = controller.map_or_else(
        || NONE.to_owned(),
        |owner| {
            let (group, _) = text(owner, "apiVersion")
                .split_once('/')
                .unwrap_or_default();
            let kind = text(owner, "kind").to_ascii_lowercase();
            let dot = if group.is_empty() { "" } else { "." };
            format!("{kind}{dot}{group}/{}", text(owner, "name"))
        },
    );
    vec![
        json!(row.name()),
        json!(controller),
        json!(row.number("/revision")),
        json!(row.age()),
    ]
}

pub(super) const JOB: &[Column] = &[
    "Name",
    "Status",
    "Completions",
    "Duration",
    "Age",
    "+Containers",
    "+Images",
    "+Selector",
];

pub(super) fn job(row: &Row<'_>) -> Vec<Value> {
    let done = row.number("/status/succeeded");
    let wanted = row.at("/spec/completions").and_then(Value::as_i64);
    let completions = match (wanted, row.number("/spec/parallelism")) {
        (Some(wanted), _) => format!("{done}/{wanted}"),
        (None, parallel) if parallel > 1 => format!("{done}/1 of {parallel}"),
        (None, _) => format!("{done}/1"),
    };
    let going = !row.text("/metadata/deletionTimestamp").is_empty();
    let conditions = [
        ("Complete", "Complete"),
        ("Failed", "Failed"),
        ("Suspended", "Suspended"),
        ("FailureTarget", "FailureTarget"),
        ("SuccessCriteriaMet", "SuccessCriteriaMet"),
    ];
    let found = conditions
        .iter()
        .find(|(kind, _)| row.condition(kind) == "True")
        .map(|(_, word)| *word);
    let status = found.unwrap_or(if going { "Terminating" } else { "Running" });
    let duration = row.between("/status/startTime", "/status/completionTime");
    let (names, images) = row.containers("/spec/template/spec");
    vec![
        json!(row.name()),
        json!(status),
        json!(completions),
        json!(duration.unwrap_or_default()),
        json!(row.age()),
        json!(names),
        json!(images),
        json!(row.selector("/spec/selector")),
    ]
}

pub(super) const CRON_JOB: &[Column] = &[
    "Name",
    "Schedule",
    "Timezone",
    "Suspend",
    "Active",
    "Last Schedule",
    "Age",
    "+Containers",
    "+Images",
    "+Selector",
];

pub(super) fn cron_job(row: &Row<'_>) -> Vec<Value> {
    let last = row.past(row.text("/status/lastScheduleTime"));
    let (names, images) = row.containers("/spec/jobTemplate/spec/template/spec");
    let suspended = if row.flag("/spec/suspend") {
        "True"
    } else {
        "False"
    };
    vec![
        json!(row.name()),
        json!(row.text("/spec/schedule")),
        json!(row.text_or("/spec/timeZone", NONE)),
        json!(suspended),
        json!(row.count("/status/active")),
        json!(last.unwrap_or_else(|| NONE.to_owned())),
        json!(row.age()),
        json!(names),
        json!(images),
        json!(row.selector("/spec/jobTemplate/spec/selector")),
    ]
}

pub(super) const AUTOSCALER: &[Column] = &[
    "Name",
    "Reference",
    "Targets",
    "MinPods",
    "MaxPods",
    "Replicas",
    "Age",
];

pub(super) fn autoscaler(row: &Row<'_>) -> Vec<Value> {
    let target = format!(
        "{}/{}",
        row.text("/spec/scaleTargetRef/kind"),
        row.text("/spec/scaleTargetRef/name")
    );
    let least = row.at("/spec/minReplicas").and_then(Value::as_i64);
    vec![
        json!(row.name()),
        json!(target),
        json!(targets(row)),
        json!(least.unwrap_or(1)),
        json!(row.number("/spec/maxReplicas")),
        json!(row.number("/status/currentReplicas")),
        json!(row.age()),
    ]
}

/// Each metric as `current/target`.
fn targets(row: &Row<'_>) -> String {
    let current = row.list("/status/currentMetrics");
    let told: Vec<String> = row
        .list("/spec/metrics")
        .iter()
        .enumerate()
        .map(|(i, metric)| {
            let kind = text(metric, "type");
            let part = match kind {
                "Resource" => "resource",
                "ContainerResource" => "containerResource",
                "Pods" => "pods",
                "Object" => "object",
                _ => "external",
            };
            let wanted = metric.pointer(&format!("/{part}/target"));
            let seen = current
                .get(i)
                .and_then(|m| m.pointer(&format!("/{part}/current")));
            let name = match part {
                "resource" | "containerResource" => metric
                    .pointer(&format!("/{part}/name"))
                    .and_then(Value::as_str)
                    .map(|name| format!("{name}: "))
                    .unwrap_or_default(),
                _ => String::new(),
            };
            let (seen, wanted) = (amount(seen), amount(wanted));
            format!("{name}{seen}/{wanted}")
        })
        .collect();
    few(&told)
}

fn amount(of: Option<&Value>) -> String {
    let Some(of) = of else {
        return UNKNOWN.to_owned();
    };
    if let Some(percent) = of.get("averageUtilization").and_then(Value::as_i64) {
        return format!("{percent}%");
    }
    let read = |field, suffix| match of.get(field) {
        Some(Value::String(text)) => Some(format!("{text}{suffix}")),
        Some(number @ Value::Number(_)) => Some(format!("{number}{suffix}")),
        _ => None,
    };
    read("value", "")
        .or_else(|| read("averageValue", " (avg)"))
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

pub(super) const BUDGET: &[Column] = &[
    "Name",
    "Min Available",
    "Max Unavailable",
    "Allowed Disruptions",
    "Age",
];

pub(super) fn budget(row: &Row<'_>) -> Vec<Value> {
    let bound = |path| match row.at(path) {
        Some(Value::String(text)) => text.clone(),
        Some(number @ Value::Number(_)) => number.to_string(),
        _ => "N/A".to_owned(),
    };
    vec![
        json!(row.name()),
        json!(bound("/spec/minAvailable")),
        json!(bound("/spec/maxUnavailable")),
        json!(row.number("/status/disruptionsAllowed")),
        json!(row.age()),
    ]
}
