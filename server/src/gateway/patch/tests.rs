use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::gateway::kinds::Kinds;

fn keys(collection: &str) -> MergeKeys {
    Kinds::builtin()
        .in_collection(collection)
        .unwrap()
        .merge_keys
        .clone()
}

fn json(current: Value, patch: Value) -> Result<Value, PatchError> {
    apply(PatchKind::Json, &current, &patch, &MergeKeys::default())
}

fn merged(current: Value, patch: Value) -> Value {
    apply(PatchKind::Merge, &current, &patch, &MergeKeys::default()).unwrap()
}

fn strategic(collection: &str, current: Value, patch: Value) -> Result<Value, PatchError> {
    apply(PatchKind::Strategic, &current, &patch, &keys(collection))
}

#[test]
fn content_types_tell_the_form() {
    for (text, form) in [
        ("application/json-patch+json", Some(PatchKind::Json)),
        ("application/merge-patch+json", Some(PatchKind::Merge)),
        (
            "application/strategic-merge-patch+json",
            Some(PatchKind::Strategic),
        ),
        ("application/apply-patch+yaml", None),
        ("application/json", None),
    ] {
        assert_eq!(PatchKind::of(text), form);
    }
}

#[test]
fn a_merge_patch_sets_removes_and_replaces_lists() {
    assert_eq!(
        merged(
            json!({"a": {"b": 1, "c": 2}, "l": [1, 2]}),
            json!({"a": {"b": null, "d": {"e": null, "f": 3}}, "l": [3]}),
        ),
        json!({"a": {"c": 2, "d": {"f": 3}}, "l": [3]})
    );
    let keys = MergeKeys::default();
    for patch in [json!([]), json!("x"), json!(null)] {
        let refused = apply(PatchKind::Merge, &json!({}), &patch, &keys).unwrap_err();
        assert_eq!((refused.code(), refused.reason()), (400, "BadRequest"));
    }
}

#[test]
fn a_json_patch_does_all_of_its_operations_or_none() {
    let object = json!({"a": [1, 2], "b": {"c": "x"}});
    let patch = json!([
        {"op": "test", "path": "/b/c", "value": "x"},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "remove", "path": "/a/0"},
        {"op": "replace", "path": "/b/c", "value": "y"},
        {"op": "copy", "from": "/b/c", "path": "/d~1e"},
        {"op": "move", "from": "/b", "path": "/f"},
    ]);
    assert_eq!(
        json(object.clone(), patch),
        Ok(json!({"a": [2, 3], "f": {"c": "y"}, "d/e": "y"}))
    );
    // As Kubernetes does, and RFC 6902 does not.
    let new = json!([
        {"op": "replace", "path": "/b/new", "value": 1},
        {"op": "replace", "path": "/b/new", "value": 2},
    ]);
    assert_eq!(
        json(object.clone(), new),
        Ok(json!({"a": [1, 2], "b": {"c": "x", "new": 2}}))
    );
    for (patch, code) in [
        (
            json!([{"op": "replace", "path": "/x/new", "value": 1}]),
            422,
        ),
        (json!([{"op": "test", "path": "/b/c", "value": "y"}]), 422),
        (json!([{"op": "remove", "path": "/nothing"}]), 422),
        (json!([{"op": "replace", "path": "/a/7", "value": 1}]), 422),
        (json!([{"op": "add", "path": "/a/x", "value": 1}]), 422),
        (
            json!([{"op": "copy", "from": "/nothing", "path": "/x"}]),
            422,
        ),
        (json!([{"op": "move", "from": "/b", "path": "/b/c"}]), 422),
        (json!([{"op": "explode", "path": "/a"}]), 400),
        (json!([{"op": "add", "path": "a", "value": 1}]), 400),
        (json!([{"op": "add", "path": "/a"}]), 400),
        (json!({"op": "add"}), 400),
        (json!(null), 400),
    ] {
        let refused = json(object.clone(), patch.clone()).unwrap_err();
        assert_eq!(refused.code(), code, "{patch}: {refused}");
    }
}

#[test]
fn a_json_patch_cannot_make_an_object_grow_without_bound() {
    let doubling = |times: usize| {
        let steps = (0..times)
            .map(|i| json!({"op": "copy", "from": "/a", "path": format!("/a/{i}")}))
            .collect::<Vec<_>>();
        Value::Array(steps)
    };
    assert!(json(json!({"a": {}}), doubling(5)).is_ok());
    // Each copy is twice as deep as the last.
    let nested = (0..10)
        .map(|_| json!({"op": "copy", "from": "/a", "path": "/a/a/a"}))
        .collect::<Vec<_>>();
    let deep = json!({"a": {"a": {}}});
    let refused = (0..200).try_fold(deep, |object, _| json(object, json!(nested)));
    assert_eq!(refused.unwrap_err().reason(), "RequestEntityTooLarge");
    let wide = json(json!({"a": {"text": "x".repeat(1000)}}), doubling(30));
    assert_eq!(wide.unwrap_err().code(), 413);
    let many = vec![json!({"op": "add", "path": "/a", "value": 1}); 1001];
    assert_eq!(json(json!({}), json!(many)).unwrap_err().code(), 413);
}

fn pod() -> Value {
    json!({
        "metadata": {"name": "a", "finalizers": ["x"]},
        "spec": {
            "containers": [
                {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}],
                 "args": ["a", "b"], "ports": [{"containerPort": 80}]},
                {"name": "log", "image": "log:1"},
            ],
            "tolerations": [{"key": "a"}],
            "volumes": [{"name": "data", "emptyDir": {}}],
        },
    })
}

#[test]
fn a_strategic_patch_merges_the_lists_that_have_keys() {
    let patch = json!({"metadata": {"finalizers": ["y", "x"]}, "spec": {
        "containers": [
            {"name": "web", "image": "web:2", "args": ["c"],
             "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]},
            {"name": "new", "image": "new:1", "args": null},
        ],
        "tolerations": [{"key": "b"}],
    }});
    assert_eq!(
        strategic("pods", pod(), patch).unwrap(),
        json!({
            "metadata": {"name": "a", "finalizers": ["x", "y"]},
            "spec": {
                "containers": [
                    {"name": "web", "image": "web:2",
                     "env": [{"name": "A", "value": "3"}, {"name": "B", "value": "2"}],
                     "args": ["c"], "ports": [{"containerPort": 80}]},
                    {"name": "log", "image": "log:1"},
                    {"name": "new", "image": "new:1"},
                ],
                "tolerations": [{"key": "b"}],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
        })
    );
}

#[test]
fn a_strategic_patch_says_what_to_delete_replace_and_retain() {
    let containers = |patch: Value| {
        let patched = strategic("pods", pod(), json!({"spec": {"containers": patch}})).unwrap();
        patched["spec"]["containers"].clone()
    };
    let left = containers(json!([{"name": "web", "$patch": "delete"}]));
    assert_eq!(left, json!([{"name": "log", "image": "log:1"}]));
    let replaced = containers(json!([{"$patch": "replace"}, {"name": "only"}]));
    // An item that only says so is no item.
    assert_eq!(replaced, json!([{"name": "only"}]));
    let merged = containers(json!([{"name": "log", "$patch": "merge", "image": "log:2"}]));
    assert_eq!(merged[1], json!({"name": "log", "image": "log:2"}));

    let volume = json!({"spec": {"volumes": [
        {"name": "data", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}},
    ]}});
    let patched = strategic("pods", pod(), volume).unwrap();
    assert_eq!(
        patched["spec"]["volumes"],
        json!([{"name": "data", "hostPath": {"path": "/x"}}])
    );

    let map = strategic("pods", pod(), json!({"metadata": {"$patch": "delete"}})).unwrap();
    assert_eq!(map["metadata"], json!({}));
    let map = json!({"metadata": {"$patch": "replace", "name": "b"}});
    assert_eq!(
        strategic("pods", pod(), map).unwrap()["metadata"],
        json!({"name": "b"})
    );

    let scalars = json!({"metadata": {
        "$deleteFromPrimitiveList/finalizers": ["x"], "finalizers": ["z"],
        "$setElementOrder/finalizers": ["z"],
    }});
    let patched = strategic("pods", pod(), scalars).unwrap();
    assert_eq!(patched["metadata"]["finalizers"], json!(["z"]));
}

#[test]
fn a_strategic_patch_can_set_the_order_of_items() {
    let patch = json!({"spec": {
        "$setElementOrder/containers": [{"name": "new"}, {"name": "web"}],
        "containers": [{"name": "new", "image": "n"}],
    }});
    let patched = strategic("pods", pod(), patch).unwrap();
    let names: Vec<_> = patched["spec"]["containers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["name"].as_str().unwrap())
        .collect();
    // `log` is only the server's and keeps its place.
    assert_eq!(names, ["new", "log", "web"]);
}

#[test]
fn a_strategic_patch_that_cannot_be_is_refused() {
    for (patch, code) in [
        (json!([]), 400),
        (json!({"spec": {"$patch": "explode"}}), 400),
        (json!({"spec": {"$patch": 1}}), 400),
        (json!({"spec": {"$retainKeys": "x"}}), 400),
        (json!({"spec": {"$retainKeys": ["a"], "b": 1}}), 400),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": 1}}),
            400,
        ),
        (json!({"spec": {"$setElementOrder/containers": {}}}), 400),
        (json!({"spec": {"containers": [{"image": "x"}]}}), 422),
        (json!({"spec": {"containers": [{"$patch": "delete"}]}}), 422),
        (json!({"spec": {"containers": ["x"]}}), 422),
    ] {
        let refused = strategic("pods", pod(), patch.clone()).unwrap_err();
        assert_eq!(refused.code(), code, "{patch}");
    }
}

#[test]
fn a_template_s_lists_are_merged_as_a_pod_s() {
    let deployment = json!({"spec": {"template": pod()}});
    let patch = json!({"spec": {"template": {"spec": {
        "containers": [{"name": "log", "image": "log:2"}],
    }}}});
    let patched = strategic("deployments.apps", deployment, patch).unwrap();
    let containers = &patched["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["image"], "web:1");
    assert_eq!(containers[1]["image"], "log:2");
}

#[test]
fn long_lists_take_no_longer_than_their_length() {
    let many = |image: &str| {
        let items = (0..20_000).map(|i| json!({"name": i.to_string(), "image": image}));
        json!({"spec": {"containers": items.collect::<Vec<_>>()}})
    };
    let patched = strategic("pods", many("1"), many("2")).unwrap();
    assert_eq!(patched, many("2"));
}

/// JSON of a few names, so that patches meet objects.
fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0..4i32).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", document(), 0..4)
        .prop_map(|fields| fields.into_iter().collect())
}

fn without_nulls(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => fields.values().all(without_nulls),
        // A merge patch puts lists in as they are.
        _ => true,
    }
}

/// The merge patch that makes `to` of `from`, where `to` has no nulls in objects.
fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let gone = from.keys().filter(|name| !to.contains_key(*name));
    let changed = to
        .iter()
        .filter(|(name, value)| from.get(*name) != Some(value));
    gone.map(|name| (name.clone(), Value::Null))
        .chain(changed.map(|(name, value)| {
            let before = from.get(name).unwrap_or(&Value::Null);
            (name.clone(), difference(before, value))
        }))
        .collect()
}

proptest! {
    #[test]
    fn a_merge_patch_applied_twice_is_applied_once(current in object(), patch in object()) {
        let once = merged(current, patch.clone());
        prop_assert_eq!(merged(once.clone(), patch), once);
    }

    #[test]
    fn any_object_can_be_reached_by_a_merge_patch(from in object(), to in object()) {
        prop_assume!(without_nulls(&to));
        let patch = difference(&from, &to);
        prop_assert_eq!(merged(from, patch), to);
    }

    #[test]
    fn an_empty_patch_changes_nothing(current in object()) {
        prop_assert_eq!(merged(current.clone(), json!({})), current.clone());
        prop_assert_eq!(json(current.clone(), json!([])), Ok(current.clone()));
        prop_assert_eq!(strategic("pods", current.clone(), json!({})), Ok(current));
    }

    #[test]
    fn without_list_rules_and_nulls_a_strategic_patch_is_a_merge_patch(
        current in object(), patch in object(),
    ) {
        prop_assert_eq!(strategic("pods", current.clone(), patch.clone()), Ok(merged(current, patch)));
    }

    #[test]
    fn what_is_added_can_be_tested_and_removed(current in object(), value in document()) {
        let path = "/z";
        let patch = json!([
            {"op": "add", "path": path, "value": value.clone()},
            {"op": "test", "path": path, "value": value},
            {"op": "remove", "path": path},
        ]);
        prop_assert_eq!(json(current.clone(), patch), Ok(current));
    }

    #[test]
    fn a_move_is_a_copy_and_a_removal(current in object(), value in document()) {
        let add = json!({"op": "add", "path": "/y", "value": value});
        let moved = json!([add, {"op": "move", "from": "/y", "path": "/z"}]);
        let copied = json!([
            add, {"op": "copy", "from": "/y", "path": "/z"}, {"op": "remove", "path": "/y"},
        ]);
        prop_assert_eq!(json(current.clone(), moved), json(current, copied));
    }

    #[test]
    fn no_patch_of_any_form_makes_the_server_panic(
        current in document(), patch in document(), pick in 0..3usize,
    ) {
        let form = [PatchKind::Json, PatchKind::Merge, PatchKind::Strategic][pick];
        let _ = apply(form, &current, &patch, &keys("pods"));
    }
}
