use proptest::prelude::*;

use super::*;
use crate::gateway::kinds::Kinds;

fn rules(collection: &str) -> MergeKeys {
    let kind = Kinds::builtin().in_collection(collection).unwrap();
    kind.merge_keys.clone()
}

fn by(manager: &str) -> Applier<'_> {
    Applier {
        manager,
        force: false,
        subresource: "",
        api_version: "v1",
        now: "2024-01-01T00:00:00Z",
    }
}

fn pods(
    current: Option<&Value>,
    applied: Value,
    applier: Applier<'_>,
) -> Result<Value, ApplyError> {
    apply(current, &applied, &rules("pods"), applier)
}

/// Without what the server remembers.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    object
}

fn pod(containers: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "creationTimestamp": null, "labels": {"app": "x"}},
        "spec": {"containers": containers},
    })
}

#[test]
fn what_is_created_remembers_who_wanted_what() {
    let wanted = pod(json!([{"name": "web", "image": "1", "ports": [{"containerPort": 80}]}]));
    let made = pods(None, wanted, by("me")).unwrap();
    assert!(made["metadata"].get("creationTimestamp").is_none());
    assert_eq!(
        made["metadata"]["managedFields"],
        json!([{
            "manager": "me", "operation": "Apply", "apiVersion": "v1",
            "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {
                    ".": {}, "f:name": {}, "f:image": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                        ".": {}, "f:containerPort": {},
                    }},
                }}},
            },
        }])
    );
}

#[test]
fn what_an_applier_leaves_out_goes_and_what_others_wrote_stays() {
    let first = pod(json!([
        {"name": "web", "image": "1", "env": [{"name": "A", "value": "1"}]},
        {"name": "log", "image": "1"},
    ]));
    let mut stored = pods(None, first, by("me")).unwrap();
    stored["metadata"]["labels"]["other"] = json!("y");
    stored["spec"]["containers"][0]["terminationMessagePath"] = json!("/dev/x");
    stored["status"] = json!({"phase": "Running"});
    let mut second = pod(json!([{"name": "web", "image": "2"}]));
    second["metadata"]["labels"] = json!(null);
    let made = pods(Some(&stored), second, by("me")).unwrap();
    assert_eq!(
        content(&made),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "labels": {"other": "y"}},
            "spec": {"containers": [
                {"name": "web", "image": "2", "terminationMessagePath": "/dev/x"},
            ]},
            "status": {"phase": "Running"},
        })
    );
}

#[test]
fn what_another_applier_wants_too_stays() {
    let both = pod(json!([{"name": "web", "image": "1"}]));
    let stored = pods(None, both.clone(), by("me")).unwrap();
    let stored = pods(Some(&stored), both, by("you")).unwrap();
    assert_eq!(
        stored["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let less = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}});
    let made = pods(Some(&stored), less.clone(), by("me")).unwrap();
    assert_eq!(content(&made), content(&stored));
    // Who wants nothing is forgotten.
    assert_eq!(
        made["metadata"]["managedFields"].as_array().unwrap().len(),
        1
    );
    let made = pods(Some(&made), less, by("you")).unwrap();
    assert_eq!(content(&made)["metadata"], json!({"name": "a"}));
    assert!(made.get("spec").is_none());
}

#[test]
fn appliers_that_disagree_are_told_and_force_takes_over() {
    let stored = pods(None, pod(json!([{"name": "web", "image": "1"}])), by("me")).unwrap();
    let other = pod(json!([{"name": "web", "image": "2"}]));
    let refused = pods(Some(&stored), other.clone(), by("you")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "Apply failed with 1 conflict: conflict with \"me\": \
         .spec.containers[name=\"web\"].image"
    );
    let ApplyError::Conflict(conflicts) = refused else {
        panic!("no conflict");
    };
    assert_eq!(conflicts[0].to_json()["reason"], "FieldManagerConflict");
    let force = Applier {
        force: true,
        ..by("you")
    };
    let made = pods(Some(&stored), other, force).unwrap();
    assert_eq!(made["spec"]["containers"][0]["image"], "2");
    let mine = &made["metadata"]["managedFields"][0];
    let image = "/fieldsV1/f:spec/f:containers/k:{\"name\":\"web\"}/f:image";
    assert_eq!(mine["manager"], "me");
    assert!(mine.pointer(image).is_none());
    assert!(
        made["metadata"]["managedFields"][1]
            .pointer(image)
            .is_some()
    );
}

#[test]
fn the_status_is_another_applier_s_matter() {
    let stored = pods(None, pod(json!([])), by("me")).unwrap();
    let status = json!({"metadata": {"name": "a"}, "status": {"phase": "Running"}});
    let kubelet = Applier {
        subresource: "status",
        ..by("me")
    };
    let made = pods(Some(&stored), status, kubelet).unwrap();
    assert_eq!(
        made["metadata"]["managedFields"][1]["subresource"],
        "status"
    );
    assert_eq!(made["metadata"]["labels"], stored["metadata"]["labels"]);
}

#[test]
fn items_that_cannot_be_told_apart_are_refused() {
    for containers in [
        json!([{"image": "x"}]),
        json!([{"name": "a"}, {"name": "a"}]),
        json!(["x"]),
    ] {
        let refused = pods(None, pod(containers), by("me")).unwrap_err();
        assert!(matches!(refused, ApplyError::Unfit(_)));
    }
}

#[test]
fn an_empty_list_or_map_is_no_claim_to_what_is_in_it() {
    let empty = json!({"metadata": {"name": "a", "labels": {}}, "spec": {"containers": []}});
    let stored = pods(None, empty.clone(), by("me")).unwrap();
    let full = pod(json!([{"name": "web"}]));
    let made = pods(Some(&stored), full, by("you")).unwrap();
    let again = pods(Some(&made), empty, by("me")).unwrap();
    assert_eq!(content(&again), content(&made));
    // A list that is one value is claimed as one.
    let args = |args: Value| pod(json!([{"name": "web", "args": args}]));
    let stored = pods(None, args(json!([])), by("me")).unwrap();
    assert!(pods(Some(&stored), args(json!(["x"])), by("you")).is_err());
}

#[test]
fn long_lists_take_no_longer_than_their_length() {
    let many = |image: &str| {
        let items = (0..20_000).map(|i| json!({"name": i.to_string(), "image": image}));
        pod(Value::Array(items.collect()))
    };
    let stored = pods(None, many("1"), by("me")).unwrap();
    let force = Applier {
        force: true,
        ..by("you")
    };
    let made = pods(Some(&stored), many("2"), force).unwrap();
    let left = pods(Some(&made), pod(json!([])), by("you")).unwrap();
    // All of them are wanted by the first applier still, who wants no image any more.
    assert_eq!(left["spec"]["containers"].as_array().unwrap().len(), 20_000);
    assert_eq!(left["spec"]["containers"][19_999], json!({"name": "19999"}));
}

#[test]
fn a_port_without_a_protocol_is_a_tcp_port() {
    let ports = |ports: Value| pod(json!([{"name": "web", "ports": ports}]));
    let stored = pods(None, ports(json!([{"containerPort": 53}])), by("me")).unwrap();
    let udp = ports(json!([
        {"containerPort": 53, "protocol": "TCP", "name": "tcp"},
        {"containerPort": 53, "protocol": "UDP"},
    ]));
    let made = pods(Some(&stored), udp, by("me")).unwrap();
    assert_eq!(
        made["spec"]["containers"][0]["ports"],
        json!([
            {"containerPort": 53, "name": "tcp", "protocol": "TCP"},
            {"containerPort": 53, "protocol": "UDP"},
        ])
    );
}

fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (0..3i32).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from)
    ];
    let tree = leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..3)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    });
    let names = prop::collection::btree_map("[a-c]", tree.clone(), 0..3);
    let finalizers = prop::collection::btree_set("[x-z]", 0..3);
    (tree, names, finalizers).prop_map(|(spec, containers, finalizers)| {
        let containers: Vec<Value> = containers
            .into_iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        json!({
            "metadata": {"name": "a", "finalizers": finalizers},
            "spec": {"containers": containers, "other": spec},
        })
    })
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(first in document(), second in document()) {
        let stored = pods(None, first, by("me")).unwrap();
        let once = pods(Some(&stored), second.clone(), by("me")).unwrap();
        let twice = pods(Some(&once), second, by("me")).unwrap();
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn a_forced_apply_has_what_was_applied(first in document(), second in document()) {
        let stored = pods(None, first, by("me")).unwrap();
        let you = Applier { force: true, ..by("you") };
        let made = pods(Some(&stored), second.clone(), you).unwrap();
        let again = pods(Some(&made), second, by("you")).unwrap();
        prop_assert_eq!(again, made);
    }

    #[test]
    fn a_sole_applier_gets_just_what_it_applied(first in document(), second in document()) {
        let stored = pods(None, first, by("me")).unwrap();
        let made = pods(Some(&stored), second.clone(), by("me")).unwrap();
        let fresh = pods(None, second, by("me")).unwrap();
        let set = |object: &Value| field_set::of(&content(object), &rules("pods")).unwrap();
        prop_assert_eq!(set(&made), set(&fresh));
    }
}
