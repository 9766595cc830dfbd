//! Networking, storage, access, nodes and events.

use serde_json::{Value, json};

use super::{
    columns::Column,
    row::{NONE, Row, UNKNOWN, few, joined, text},
};

pub(super) const SERVICE: &[Column] = &[
    "Name",
    "Type",
    "Cluster-IP",
    "External-IP",
    "Port(s)",
    "Age",
    "+Selector",
];

pub(super) fn service(row: &Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = row
        .list("/spec/ports")
        .iter()
        .map(|port| {
            let number = |field| port.get(field).and_then(Value::as_i64);
            let protocol = match text(port, "protocol") {
                "" => "TCP",
                protocol => protocol,
            };
            let outer = number("port").unwrap_or_default();
            match number("nodePort").filter(|node| *node > 0) {
                Some(node) => format!("{outer}:{node}/{protocol}"),
                None => format!("{outer}/{protocol}"),
            }
        })
        .collect();
    let ports = match ports.join(",") {
        none if none.is_empty() => NONE.to_owned(),
        ports => ports,
    };
    vec![
        json!(row.name()),
        json!(row.text_or("/spec/type", "ClusterIP")),
        json!(row.text_or("/spec/clusterIP", NONE)),
        json!(external(row)),
        json!(ports),
        json!(row.age()),
        json!(row.selector("/spec/selector")),
    ]
}

fn external(row: &Row<'_>) -> String {
    let given = row
        .list("/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str);
    let mut all: Vec<&str> = Vec::new();
    match row.text("/spec/type") {
        "ExternalName" => return row.text("/spec/externalName").to_owned(),
        "LoadBalancer" => {
            all.extend(balancers(row));
            all.extend(given);
            if all.is_empty() {
                return "<pending>".to_owned();
            }
        }
        _ => all.extend(given),
    }
    if all.is_empty() {
        NONE.to_owned()
    } else {
        joined(all)
    }
}

/// Addresses of load balancers.
fn balancers<'a>(row: &Row<'a>) -> Vec<&'a str> {
    let ingress = row.list("/status/loadBalancer/ingress");
    ingress
        .iter()
        .map(|entry| match text(entry, "ip") {
            "" => text(entry, "hostname"),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect()
}

pub(super) const ENDPOINTS: &[Column] = &["Name", "Endpoints", "Age"];

pub(super) fn endpoints(row: &Row<'_>) -> Vec<Value> {
    let mut told = Vec::new();
    for subset in row.list("/subsets") {
        let list = |field| {
            subset
                .get(field)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        for address in list("addresses") {
            let ip = text(address, "ip");
            let ports = list("ports").filter_map(|port| port.get("port"));
            let before = told.len();
            told.extend(ports.map(|port| format!("{ip}:{port}")));
            if told.len() == before {
                told.push(ip.to_owned());
            }
        }
    }
    vec![json!(row.name()), json!(few(&told)), json!(row.age())]
}

pub(super) const ENDPOINT_SLICE: &[Column] = &["Name", "AddressType", "Ports", "Endpoints", "Age"];

pub(super) fn endpoint_slice(row: &Row<'_>) -> Vec<Value> {
    let ports: Vec<String> = row
        .list("/ports")
        .iter()
        .map(|port| port.get("port").map_or("*".to_owned(), Value::to_string))
        .collect();
    let addresses: Vec<String> = row
        .list("/endpoints")
        .iter()
        .filter_map(|endpoint| endpoint.get("addresses")?.as_array())
        .flatten()
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    let or_unset = |told: Vec<String>| match told.is_empty() {
        true => "<unset>".to_owned(),
        false => few(&told),
    };
    vec![
        json!(row.name()),
        json!(row.text("/addressType")),
        json!(or_unset(ports)),
        json!(or_unset(addresses)),
        json!(row.age()),
    ]
}

pub(super) const INGRESS: &[Column] = &["Name", "Class", "Hosts", "Address", "Ports", "Age"];

pub(super) fn ingress(row: &Row<'_>) -> Vec<Value> {
    let hosts: Vec<String> = row
        .list("/spec/rules")
        .iter()
        .map(|rule| text(rule, "host"))
        .filter(|host| !host.is_empty())
        .map(str::to_owned)
        .collect();
    let hosts = if hosts.is_empty() {
        "*".to_owned()
    } else {
        few(&hosts)
    };
    let secured = row.count("/spec/tls") > 0;
    vec![
        json!(row.name()),
        json!(row.text_or("/spec/ingressClassName", NONE)),
        json!(hosts),
        json!(joined(balancers(row))),
        json!(if secured { "80, 443" } else { "80" }),
        json!(row.age()),
    ]
}

pub(super) const INGRESS_CLASS: &[Column] = &["Name", "Controller", "Parameters", "Age"];

pub(super) fn ingress_class(row: &Row<'_>) -> Vec<Value> {
    let parameters = match row.at("/spec/parameters") {
        Some(parameters) => {
            let kind = match text(parameters, "apiGroup") {
                "" => text(parameters, "kind").to_owned(),
                group => format!("{}.{group}", text(parameters, "kind")),
            };
            format!("{kind}/{}", text(parameters, "name"))
        }
        None => NONE.to_owned(),
    };
    vec![
        json!(row.name()),
        json!(row.text("/spec/controller")),
        json!(parameters),
        json!(row.age()),
    ]
}

pub(super) const NETWORK_POLICY: &[Column] = &["Name", "Pod-Selector", "Age"];

pub(super) fn network_policy(row: &Row<'_>) -> Vec<Value> {
    let selector = row.selector("/spec/podSelector");
    vec![json!(row.name()), json!(selector), json!(row.age())]
}

pub(super) const CONFIG_MAP: &[Column] = &["Name", "Data", "Age"];

pub(super) fn config_map(row: &Row<'_>) -> Vec<Value> {
    let data = row.count("/data") + row.count("/binaryData");
    vec![json!(row.name()), json!(data), json!(row.age())]
}

pub(super) const SECRET: &[Column] = &["Name", "Type", "Data", "Age"];

pub(super) fn secret(row: &Row<'_>) -> Vec<Value> {
    vec![
        json!(row.name()),
        json!(row.text_or("/type", "Opaque")),
        json!(row.count("/data")),
        json!(row.age()),
    ]
}

pub(super) const SERVICE_ACCOUNT: &[Column] = &["Name", "Secrets", "Age"];

pub(super) fn service_account(row: &Row<'_>) -> Vec<Value> {
    vec![
        json!(row.name()),
        json!(row.count("/secrets")),
        json!(row.age()),
    ]
}

pub(super) const NAMESPACE: &[Column] = &["Name", "Status", "Age"];

pub(super) fn namespace(row: &Row<'_>) -> Vec<Value> {
    let phase = row.text("/status/phase");
    vec![json!(row.name()), json!(phase), json!(row.age())]
}

pub(super) const NODE: &[Column] = &[
    "Name",
    "Status",
    "Roles",
    "Age",
    "Version",
    "+Internal-IP",
    "+External-IP",
    "+OS-Image",
    "+Kernel-Version",
    "+Container-Runtime",
];

pub(super) fn node(row: &Row<'_>) -> Vec<Value> {
    let mut status = match row.condition("Ready") {
        "True" => "Ready".to_owned(),
        "" => "Unknown".to_owned(),
        _ => "NotReady".to_owned(),
    };
    if row.flag("/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let all = row.list("/status/addresses");
        let found = all.iter().find(|address| text(address, "type") == kind);
        found.map_or(NONE, |address| text(address, "address"))
    };
    let info = |field: &str| row.text_or(&format!("/status/nodeInfo/{field}"), UNKNOWN);
    vec![
        json!(row.name()),
        json!(status),
        json!(roles(row)),
        json!(row.age()),
        json!(row.text("/status/nodeInfo/kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(info("osImage")),
        json!(info("kernelVersion")),
        json!(info("containerRuntimeVersion")),
    ]
}

fn roles(row: &Row<'_>) -> String {
    let labels = row.at("/metadata/labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        NONE.to_owned()
    } else {
        joined(roles)
    }
}

pub(super) const VOLUME: &[Column] = &[
    "Name",
    "Capacity",
    "Access Modes",
    "Reclaim Policy",
    "Status",
    "Claim",
    "StorageClass",
    "VolumeAttributesClass",
    "Reason",
    "Age",
    "+VolumeMode",
];

pub(super) fn volume(row: &Row<'_>) -> Vec<Value> {
    let claim = match row.at("/spec/claimRef") {
        Some(claim) => format!("{}/{}", text(claim, "namespace"), text(claim, "name")),
        None => String::new(),
    };
    vec![
        json!(row.name()),
        json!(row.text("/spec/capacity/storage")),
        json!(modes(row, "/spec/accessModes")),
        json!(row.text("/spec/persistentVolumeReclaimPolicy")),
        json!(phase(row)),
        json!(claim),
        json!(row.text("/spec/storageClassName")),
        json!(row.text_or("/spec/volumeAttributesClassName", "<unset>")),
        json!(row.text("/status/reason")),
        json!(row.age()),
        json!(row.text_or("/spec/volumeMode", "<unset>")),
    ]
}

fn phase<'a>(row: &Row<'a>) -> &'a str {
    match row.text("/metadata/deletionTimestamp") {
        "" => row.text("/status/phase"),
        _ => "Terminating",
    }
}

/// Kubernetes' short words, in its order.
fn modes(row: &Row<'_>, path: &str) -> String {
    let given = row.list(path);
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| given.iter().any(|given| given.as_str() == Some(mode));
    joined(
        known
            .iter()
            .filter(|(mode, _)| has(mode))
            .map(|(_, short)| *short),
    )
}

pub(super) const CLAIM: &[Column] = &[
    "Name",
    "Status",
    "Volume",
    "Capacity",
    "Access Modes",
    "StorageClass",
    "VolumeAttributesClass",
    "Age",
    "+VolumeMode",
];

pub(super) fn claim(row: &Row<'_>) -> Vec<Value> {
    let bound = !row.text("/spec/volumeName").is_empty();
    let capacity = if bound {
        row.text("/status/capacity/storage")
    } else {
        ""
    };
    let modes = if bound {
        modes(row, "/status/accessModes")
    } else {
        String::new()
    };
    vec![
        json!(row.name()),
        json!(phase(row)),
        json!(row.text("/spec/volumeName")),
        json!(capacity),
        json!(modes),
        json!(row.text("/spec/storageClassName")),
        json!(row.text_or("/spec/volumeAttributesClassName", "<unset>")),
        json!(row.age()),
        json!(row.text_or("/spec/volumeMode", "<unset>")),
    ]
}

pub(super) const STORAGE_CLASS: &[Column] = &[
    "Name",
    "Provisioner",
    "ReclaimPolicy",
    "VolumeBindingMode",
    "AllowVolumeExpansion",
    "Age",
];

pub(super) fn storage_class(row: &Row<'_>) -> Vec<Value> {
    let default = row.text("/metadata/annotations/storageclass.kubernetes.io~1is-default-class");
    let name = match default {
        "true" => format!("{} (default)", row.name()),
        _ => row.name().to_owned(),
    };
    vec![
        json!(name),
        json!(row.text("/provisioner")),
        json!(row.text_or("/reclaimPolicy", "Delete")),
        json!(row.text_or("/volumeBindingMode", "Immediate")),
        json!(row.flag("/allowVolumeExpansion")),
        json!(row.age()),
    ]
}

pub(super) const EVENT: &[Column] = &[
    "Last Seen",
    "Type",
    "Reason",
    "Object",
    "+Subobject",
    "+Source",
    "Message",
    "+First Seen",
    "+Count",
    "+Name",
];

pub(super) fn event(row: &Row<'_>) -> Vec<Value> {
    let times = ["/firstTimestamp", "/lastTimestamp"];
    let source = source(row.at("/source"), row.text("/reportingComponent"));
    let count = row.number("/count").max(row.number("/series/count")).max(1);
    told(row, times, "/involvedObject", &source, "/message", count)
}

pub(super) fn new_event(row: &Row<'_>) -> Vec<Value> {
    let times = ["/deprecatedFirstTimestamp", "/deprecatedLastTimestamp"];
    let source = source(
        row.at("/deprecatedSource"),
        row.text("/reportingController"),
    );
    let count = row
        .number("/deprecatedCount")
        .max(row.number("/series/count"))
        .max(1);
    told(row, times, "/regarding", &source, "/note", count)
}

fn source(given: Option<&Value>, reporting: &str) -> String {
    let field = |name| given.map(|source| text(source, name)).unwrap_or_default();
    let component = match field("component") {
        "" => reporting,
        component => component,
    };
    match field("host") {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}

fn told(
    row: &Row<'_>,
    [first, last]: [&str; 2],
    object: &str,
    source: &str,
    message: &str,
    count: i64,
) -> Vec<Value> {
    let moment = row.text("/eventTime");
    let first = row.past(row.text(first)).or_else(|| row.past(moment));
    let seen = row
        .past(row.text("/series/lastObservedTime"))
        .or_else(|| row.past(row.text(last)))
        .or_else(|| first.clone());
    let unknown = || UNKNOWN.to_owned();
    let kind = row.text(&format!("{object}/kind")).to_ascii_lowercase();
    vec![
        json!(seen.unwrap_or_else(unknown)),
        json!(row.text("/type")),
        json!(row.text("/reason")),
        json!(format!("{kind}/{}", row.text(&format!("{object}/name")))),
        json!(row.text(&format!("{object}/fieldPath"))),
        json!(source),
        json!(row.text(message).trim()),
        json!(first.unwrap_or_else(unknown)),
        json!(count),
        json!(row.name()),
    ]
}

pub(super) const LEASE: &[Column] = &["Name", "Holder", "Age"];

pub(super) fn lease(row: &Row<'_>) -> Vec<Value> {
    let holder = row.text("/spec/holderIdentity");
    vec![json!(row.name()), json!(holder), json!(row.age())]
}

pub(super) const BINDING: &[Column] = &[
    "Name",
    "Role",
    "Age",
    "+Users",
    "+Groups",
    "+ServiceAccounts",
];

pub(super) fn binding(row: &Row<'_>) -> Vec<Value> {
    let role = format!(
        "{}/{}",
        row.text("/roleRef/kind"),
        row.text("/roleRef/name")
    );
    let subjects = |kind: &str| {
        let named = row
            .list("/subjects")
            .iter()
            .filter(|s| text(s, "kind") == kind);
        let names: Vec<String> = named
            .map(|subject| match text(subject, "namespace") {
                "" => text(subject, "name").to_owned(),
                namespace => format!("{namespace}/{}", text(subject, "name")),
            })
            .collect();
        names.join(", ")
    };
    vec![
        json!(row.name()),
        json!(role),
        json!(row.age()),
        json!(subjects("User")),
        json!(subjects("Group")),
        json!(subjects("ServiceAccount")),
    ]
}

pub(super) const DATED: &[Column] = &["Name", "Created At"];

pub(super) fn dated(row: &Row<'_>) -> Vec<Value> {
    let created = row.text_or("/metadata/creationTimestamp", UNKNOWN);
    vec![json!(row.name()), json!(created)]
}
