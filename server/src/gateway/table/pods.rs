//! Pods, whose STATUS is put together from what their containers say.

use serde_json::{Value, json};

use super::{
    columns::Column,
    row::{NONE, Row, text},
};

pub(super) const COLUMNS: &[Column] = &[
    "Name",
    "Ready",
    "Status",
    "Restarts",
    "Age",
    "+IP",
    "+Node",
    "+Nominated Node",
    "+Readiness Gates",
];

pub(super) fn cells(row: &Row<'_>) -> Vec<Value> {
    let statuses = row.list("/status/containerStatuses");
    let ready = statuses.iter().filter(|status| is(status, "ready")).count();
    let total = row.count("/spec/containers");
    vec![
        json!(row.name()),
        json!(format!("{ready}/{total}")),
        json!(status(row)),
        json!(restarts(row)),
        json!(row.age()),
        json!(row.text_or("/status/podIP", NONE)),
        json!(row.text_or("/spec/nodeName", NONE)),
        json!(row.text_or("/status/nominatedNodeName", NONE)),
        json!(gates(row)),
    ]
}

fn is(of: &Value, field: &str) -> bool {
    of.get(field).and_then(Value::as_bool).unwrap_or_default()
}

/// The first init container that is not done tells; else the first container that waits or
/// has ended; else the phase.
fn status(row: &Row<'_>) -> String {
    let phase = match row.text("/status/reason") {
        "" => row.text_or("/status/phase", "Unknown"),
        reason => reason,
    };
    let mut told = initializing(row);
    if told.is_none() {
        told = containers(row, phase);
    }
    let told = told.unwrap_or_else(|| phase.to_owned());
    if row
        .at("/metadata/deletionTimestamp")
        .is_none_or(Value::is_null)
    {
        return told;
    }
    match row.text("/status/reason") {
        "NodeLost" => "Unknown".to_owned(),
        _ if matches!(row.text("/status/phase"), "Succeeded" | "Failed") => told,
        _ => "Terminating".to_owned(),
    }
}

fn initializing(row: &Row<'_>) -> Option<String> {
    let statuses = row.list("/status/initContainerStatuses");
    let total = row.count("/spec/initContainers");
    let specs = row.list("/spec/initContainers");
    for (i, status) in statuses.iter().enumerate() {
        let state = status.get("state").unwrap_or(&Value::Null);
        if let Some(ended) = state.get("terminated") {
            if ended.get("exitCode").and_then(Value::as_i64) == Some(0) {
                continue;
            }
            return Some(format!("Init:{}", ended_as(ended)));
        }
        // A sidecar has done its part once it runs.
        let sidecar = specs.iter().any(|spec| {
            text(spec, "name") == text(status, "name") && text(spec, "restartPolicy") == "Always"
        });
        if sidecar && is(status, "started") {
            continue;
        }
        let waiting = state.get("waiting").map(|waiting| text(waiting, "reason"));
        return Some(match waiting {
            Some(reason) if !matches!(reason, "" | "PodInitializing") => format!("Init:{reason}"),
            _ => format!("Init:{i}/{total}"),
        });
    }
    None
}

fn containers(row: &Row<'_>, phase: &str) -> Option<String> {
    let mut told = None;
    let mut running = false;
    for status in row.list("/status/containerStatuses").iter().rev() {
        let state = status.get("state").unwrap_or(&Value::Null);
        let waiting = state.get("waiting").map(|waiting| text(waiting, "reason"));
        if let Some(reason) = waiting.filter(|reason| !reason.is_empty()) {
            told = Some(reason.to_owned());
        } else if let Some(ended) = state.get("terminated") {
            told = Some(ended_as(ended));
        } else if is(status, "ready") && state.get("running").is_some() {
            running = true;
        }
    }
    // One is done, another runs: the pod does.
    if told.as_deref().unwrap_or(phase) == "Completed" && running {
        let ready = row.condition("Ready") == "True";
        told = Some(if ready { "Running" } else { "NotReady" }.to_owned());
    }
    told
}

fn ended_as(ended: &Value) -> String {
    let number = |field| ended.get(field).and_then(Value::as_i64).unwrap_or_default();
    match (text(ended, "reason"), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// All restarts, and when the last was.
fn restarts(row: &Row<'_>) -> String {
    let mut count = 0;
    let mut last = "";
    for status in row.list("/status/containerStatuses") {
        count += status
            .get("restartCount")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let ended = status
            .pointer("/lastState/terminated/finishedAt")
            .and_then(Value::as_str);
        // All in UTC and of one form, so that text is ordered as time is.
        last = last.max(ended.unwrap_or_default());
    }
    match row.past(last) {
        Some(past) if count > 0 => format!("{count} ({past} ago)"),
        _ => count.to_string(),
    }
}

fn gates(row: &Row<'_>) -> String {
    let gates = row.list("/spec/readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let fulfilled = |gate: &&Value| row.condition(text(gate, "conditionType")) == "True";
    format!("{}/{}", gates.iter().filter(fulfilled).count(), gates.len())
}
