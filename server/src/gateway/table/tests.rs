use std::time::Duration;

use super::*;
use crate::gateway::kinds::Kinds;

const CREATED: &str = "2024-01-01T00:00:00Z";

fn options() -> TableOptions {
    TableOptions {
        include: IncludeObject::None,
        now: humantime::parse_rfc3339("2024-01-01T02:30:00Z").unwrap(),
        headers: true,
    }
}

fn row_of(collection: &str, mut object: Value) -> Vec<(String, Value)> {
    let kind = Kinds::builtin().in_collection(collection).unwrap();
    object["metadata"]["name"] = json!("a");
    object["metadata"]["creationTimestamp"] = json!(CREATED);
    let told = table(&kind, [&object], json!({}), options());
    let names = told["columnDefinitions"].as_array().unwrap().iter();
    let cells = told["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(names.len(), cells.len(), "{collection}");
    names
        .map(|column| column["name"].as_str().unwrap().to_owned())
        .zip(cells.iter().cloned())
        .collect()
}

/// The cells that are named, in the order of the table.
#[track_caller]
fn shows(collection: &str, object: Value, expected: &[(&str, Value)]) {
    let row = row_of(collection, object);
    for (name, value) in expected {
        let cell = row.iter().find(|(column, _)| column == name);
        let cell = cell.unwrap_or_else(|| panic!("{collection} has no {name}"));
        assert_eq!(&cell.1, value, "{collection}: {name}");
    }
}

#[test]
fn every_kind_has_as_many_cells_as_columns_whatever_the_object() {
    let kinds = Kinds::builtin().registry();
    for kind in kinds.kinds() {
        for object in [
            json!({}),
            json!(null),
            json!({"spec": 1, "status": [], "metadata": "x", "data": 7, "subsets": {}}),
            json!({"spec": {"containers": {}, "ports": "x", "replicas": "y", "metrics": [1]}}),
        ] {
            let told = table(kind, [&object], json!({}), options());
            let columns = told["columnDefinitions"].as_array().unwrap().len();
            assert_eq!(told["rows"][0]["cells"].as_array().unwrap().len(), columns);
        }
    }
}

#[test]
fn a_pod_s_status_is_what_its_containers_say() {
    let state = |state: Value| {
        json!({
            "spec": {"containers": [{}, {}], "nodeName": "n1"},
            "status": {
                "phase": "Running", "podIP": "10.0.0.1",
                "containerStatuses": [
                    {"ready": true, "restartCount": 2, "state": {"running": {}},
                     "lastState": {"terminated": {"finishedAt": "2024-01-01T02:25:00Z"}}},
                    state,
                ],
            },
        })
    };
    let running = state(json!({"ready": true, "state": {"running": {}}}));
    shows(
        "pods",
        running.clone(),
        &[
            ("Name", json!("a")),
            ("Ready", json!("2/2")),
            ("Status", json!("Running")),
            ("Restarts", json!("2 (5m ago)")),
            ("Age", json!("150m")),
            ("IP", json!("10.0.0.1")),
            ("Node", json!("n1")),
            ("Nominated Node", json!("<none>")),
        ],
    );
    let mut going = running.clone();
    going["metadata"]["deletionTimestamp"] = json!(CREATED);
    let mut evicted = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
    let mut initializing = json!({
        "spec": {"containers": [{}], "initContainers": [{"name": "x"}, {"name": "y"}]},
        "status": {"phase": "Pending", "initContainerStatuses": [
            {"name": "x", "state": {"terminated": {"exitCode": 0}}},
            {"name": "y", "state": {"running": {}}},
        ]},
    });
    for (pod, status) in [
        (going, "Terminating"),
        (evicted.clone(), "Evicted"),
        (json!({}), "Unknown"),
        (json!({"status": {"phase": "Pending"}}), "Pending"),
        (initializing.clone(), "Init:1/2"),
        (
            state(json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}})),
            "CrashLoopBackOff",
        ),
        (
            state(json!({"state": {"terminated": {"exitCode": 3}}})),
            "ExitCode:3",
        ),
        (
            state(json!({"state": {"terminated": {"signal": 9}}})),
            "Signal:9",
        ),
        (
            state(json!({"state": {"terminated": {"reason": "Completed"}}})),
            "NotReady",
        ),
    ] {
        shows("pods", pod, &[("Status", json!(status))]);
    }
    evicted["metadata"]["deletionTimestamp"] = json!(CREATED);
    shows("pods", evicted, &[("Status", json!("Evicted"))]);
    initializing["status"]["initContainerStatuses"][1]["state"] =
        json!({"terminated": {"exitCode": 1, "reason": "Error"}});
    shows("pods", initializing, &[("Status", json!("Init:Error"))]);
}

#[test]
fn workloads_tell_how_far_they_are() {
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    shows(
        "deployments.apps",
        json!({
            "spec": {
                "replicas": 3, "template": template,
                "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [
                    {"key": "tier", "operator": "In", "values": ["x", "y"]},
                    {"key": "old", "operator": "DoesNotExist"},
                ]},
            },
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1},
        }),
        &[
            ("Ready", json!("2/3")),
            ("Up-to-date", json!(3)),
            ("Available", json!(1)),
            ("Containers", json!("c")),
            ("Images", json!("i:1")),
            ("Selector", json!("app=web,tier in (x,y),!old")),
        ],
    );
    shows(
        "statefulsets.apps",
        json!({"spec": {}, "status": {}}),
        &[("Ready", json!("0/1"))],
    );
    shows(
        "daemonsets.apps",
        json!({"status": {"desiredNumberScheduled": 4, "numberReady": 3}}),
        &[
            ("Desired", json!(4)),
            ("Ready", json!("3")),
            ("Node Selector", json!("<none>")),
        ],
    );
    shows(
        "jobs.batch",
        json!({
            "spec": {"completions": 5},
            "status": {
                "succeeded": 5, "startTime": CREATED, "completionTime": "2024-01-01T00:01:30Z",
                "conditions": [{"type": "Complete", "status": "True"}],
            },
        }),
        &[
            ("Completions", json!("5/5")),
            ("Status", json!("Complete")),
            ("Duration", json!("90s")),
        ],
    );
    shows(
        "cronjobs.batch",
        json!({"spec": {"schedule": "* * * * *", "suspend": true}, "status": {"active": [{}]}}),
        &[
            ("Suspend", json!("True")),
            ("Active", json!(1)),
            ("Last Schedule", json!("<none>")),
        ],
    );
    shows(
        "horizontalpodautoscalers.autoscaling",
        json!({
            "spec": {
                "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 9,
                "metrics": [{"type": "Resource", "resource": {
                    "name": "cpu", "target": {"averageUtilization": 80},
                }}],
            },
            "status": {"currentMetrics": [{"type": "Resource", "resource": {
                "current": {"averageUtilization": 33},
            }}]},
        }),
        &[
            ("Reference", json!("Deployment/web")),
            ("Targets", json!("cpu: 33%/80%")),
            ("MinPods", json!(1)),
        ],
    );
    shows(
        "poddisruptionbudgets.policy",
        json!({"spec": {"minAvailable": "50%"}}),
        &[
            ("Min Available", json!("50%")),
            ("Max Unavailable", json!("N/A")),
        ],
    );
    shows(
        "controllerrevisions.apps",
        json!({"revision": 4, "metadata": {"ownerReferences": [
            {"controller": true, "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"},
        ]}}),
        &[
            ("Controller", json!("daemonset.apps/d")),
            ("Revision", json!(4)),
        ],
    );
}

#[test]
fn the_network_tells_its_addresses() {
    let ports = json!([{"port": 80}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]);
    shows(
        "services",
        json!({"spec": {"clusterIP": "10.0.0.1", "ports": ports, "selector": {"app": "web"}}}),
        &[
            ("Type", json!("ClusterIP")),
            ("External-IP", json!("<none>")),
            ("Port(s)", json!("80/TCP,53:30053/UDP")),
            ("Selector", json!("app=web")),
        ],
    );
    shows(
        "services",
        json!({"spec": {"type": "LoadBalancer"}}),
        &[
            ("External-IP", json!("<pending>")),
            ("Port(s)", json!("<none>")),
        ],
    );
    shows(
        "services",
        json!({
            "spec": {"type": "LoadBalancer", "externalIPs": ["1.2.3.4"]},
            "status": {"loadBalancer": {"ingress": [{"hostname": "lb"}]}},
        }),
        &[("External-IP", json!("lb,1.2.3.4"))],
    );
    shows(
        "endpoints",
        json!({"subsets": [{
            "addresses": [{"ip": "a"}, {"ip": "b"}], "ports": [{"port": 1}, {"port": 2}],
        }]}),
        &[("Endpoints", json!("a:1,a:2,b:1 + 1 more..."))],
    );
    shows(
        "endpointslices.discovery.k8s.io",
        json!({"addressType": "IPv4", "ports": [], "endpoints": [{"addresses": ["a"]}]}),
        &[("Ports", json!("<unset>")), ("Endpoints", json!("a"))],
    );
    shows(
        "ingresses.networking.k8s.io",
        json!({"spec": {"rules": [{"host": "x.y"}], "tls": [{}]}}),
        &[
            ("Hosts", json!("x.y")),
            ("Ports", json!("80, 443")),
            ("Class", json!("<none>")),
        ],
    );
}

#[test]
fn the_other_kinds_show_their_usual_columns() {
    shows(
        "configmaps",
        json!({"data": {"a": "", "b": ""}}),
        &[("Data", json!(2))],
    );
    shows(
        "secrets",
        json!({"type": "x/y", "data": {"a": ""}}),
        &[("Type", json!("x/y")), ("Data", json!(1))],
    );
    shows(
        "namespaces",
        json!({"status": {"phase": "Active"}}),
        &[("Status", json!("Active"))],
    );
    shows(
        "nodes",
        json!({
            "metadata": {"labels": {
                "node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "worker",
            }},
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
                "nodeInfo": {"kubeletVersion": "v1.32.0"},
            },
        }),
        &[
            ("Status", json!("Ready,SchedulingDisabled")),
            ("Roles", json!("control-plane,worker")),
            ("Version", json!("v1.32.0")),
            ("Internal-IP", json!("10.1.1.1")),
            ("External-IP", json!("<none>")),
        ],
    );
    shows(
        "persistentvolumes",
        json!({"spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "claimRef": {"namespace": "n", "name": "c"},
        }}),
        &[
            ("Capacity", json!("1Gi")),
            ("Access Modes", json!("RWO,RWX")),
            ("Claim", json!("n/c")),
        ],
    );
    shows(
        "storageclasses.storage.k8s.io",
        json!({"metadata": {"annotations": {
            "storageclass.kubernetes.io/is-default-class": "true",
        }}}),
        &[
            ("Name", json!("a (default)")),
            ("AllowVolumeExpansion", json!(false)),
        ],
    );
    shows(
        "events",
        json!({
            "lastTimestamp": "2024-01-01T02:29:30Z", "type": "Normal", "reason": "Pulled",
            "involvedObject": {"kind": "Pod", "name": "p"}, "message": " done\n", "count": 4,
            "source": {"component": "kubelet", "host": "n1"},
        }),
        &[
            ("Last Seen", json!("30s")),
            ("Object", json!("pod/p")),
            ("Message", json!("done")),
            ("Source", json!("kubelet, n1")),
            ("Count", json!(4)),
        ],
    );
    shows(
        "events.events.k8s.io",
        json!({"eventTime": "2024-01-01T02:29:00.123456Z", "regarding": {"kind": "Node", "name": "n"}}),
        &[("Last Seen", json!("59s")), ("Object", json!("node/n"))],
    );
    shows(
        "rolebindings.rbac.authorization.k8s.io",
        json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"},
        ]}),
        &[
            ("Role", json!("Role/r")),
            ("Users", json!("u")),
            ("ServiceAccounts", json!("n/s")),
        ],
    );
    shows(
        "customresourcedefinitions.apiextensions.k8s.io",
        json!({}),
        &[("Created At", json!(CREATED))],
    );
    shows(
        "leases.coordination.k8s.io",
        json!({"spec": {"holderIdentity": "me"}}),
        &[("Holder", json!("me"))],
    );
}

#[test]
fn a_defined_kind_shows_the_columns_of_its_definition() {
    let column =
        |name: &str, kind: &str, path: &str| json!({"name": name, "type": kind, "jsonPath": path});
    let crd = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
                "additionalPrinterColumns": [
                    column("Size", "integer", ".spec.size"),
                    column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
                    column("Hosts", "string", ".spec.hosts[*]"),
                    column("Made", "date", ".metadata.creationTimestamp"),
                    column("Odd", "integer", ".spec.name"),
                    column("None", "string", ".spec.nothing"),
                    column("Bad", "string", ".spec[?(@.a>1)]"),
                ],
            }],
        },
    });
    let widget = Kinds::from_crd(&crd).unwrap().pop().unwrap();
    let object = json!({
        "metadata": {"name": "w", "creationTimestamp": CREATED},
        "spec": {"size": 3, "name": "x", "hosts": ["a", "b"]},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let told = table(&widget, [&object], json!({}), options());
    assert_eq!(
        told["rows"][0]["cells"],
        json!(["w", 3, "True", "a,b", "150m", null, null, null])
    );
    assert_eq!(told["columnDefinitions"][0]["format"], "name");
    assert_eq!(told["columnDefinitions"][4]["type"], "date");
}

#[test]
fn rows_carry_what_was_asked_for() {
    let kind = Kinds::builtin().in_collection("configmaps").unwrap();
    let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let list = json!({"resourceVersion": "7"});
    let with = |include, headers| {
        let options = TableOptions {
            include,
            headers,
            ..options()
        };
        table(&kind, [&object], list.clone(), options)
    };
    let told = with(IncludeObject::Metadata, true);
    assert_eq!(told["metadata"], list);
    assert_eq!(
        (&told["kind"], &told["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(told["rows"][0]["object"], metadata_of(&object));
    assert_eq!(told["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(
        with(IncludeObject::Object, true)["rows"][0]["object"],
        object
    );
    let bare = with(IncludeObject::None, false);
    assert!(bare["rows"][0].get("object").is_none());
    assert!(bare["columnDefinitions"].is_null());
    assert_eq!(IncludeObject::parse(""), Some(IncludeObject::Metadata));
    assert_eq!(IncludeObject::parse("All"), None);
}

#[test]
fn wide_columns_have_a_lower_priority() {
    let kind = Kinds::builtin().in_collection("pods").unwrap();
    let told = table(&kind, [], json!({}), options());
    let priorities: Vec<_> = told["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["priority"].as_i64().unwrap())
        .collect();
    assert_eq!(priorities, [0, 0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(told["columnDefinitions"][5]["name"], "IP");
}

#[test]
fn ages_are_short_and_precise_where_it_matters() {
    for (seconds, text) in [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (600, "10m"),
        (3 * 3600 - 1, "179m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86_400, "8d"),
        (2 * 365 * 86_400, "2y"),
        (3 * 365 * 86_400 + 86_400, "3y1d"),
        (9 * 365 * 86_400, "9y"),
    ] {
        assert_eq!(row::short(Duration::from_secs(seconds)), text);
    }
    let object = json!({"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"}});
    let row = Row::new(&object, options().now);
    assert_eq!(row.age(), "<invalid>");
    let nothing = json!({});
    assert_eq!(Row::new(&nothing, options().now).age(), "<unknown>");
}
