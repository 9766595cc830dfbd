//! Patches, in each of their forms.

use http::Method;
use serde_json::{Value, json};

use super::client::{CONFIG_MAPS, Kube, PODS, refused, version};

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

#[tokio::test]
async fn each_form_of_a_patch_changes_what_it_says() {
    let kube = Kube::start().await;
    let containers = json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}});
    kube.post(PODS, &pod).await.ok();
    let path = format!("{PODS}/p");
    let patch = json!([
        {"op": "test", "path": "/spec/containers/0/name", "value": "a"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": "a:2"},
        {"op": "add", "path": "/metadata/labels", "value": {"app": "web"}},
    ]);
    let pod = kube.patch(&path, JSON, &patch).await.ok();
    assert_eq!(pod["spec"]["containers"][0]["image"], "a:2");
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(pod["metadata"]["generation"], 2);
    // A merge patch replaces lists, and removes what is null.
    let patch = json!({"metadata": {"labels": {"app": null, "x": "y"}}});
    let pod = kube.patch(&path, MERGE, &patch).await.ok();
    assert_eq!(pod["metadata"]["labels"], json!({"x": "y"}));
    assert_eq!(
        kube.names(&format!("{PODS}?labelSelector=x%3Dy")).await,
        ["p"]
    );
    // A strategic one merges them by the names of their items.
    let patch = json!({"spec": {"containers": [{"name": "b", "image": "b:2"}]}});
    let pod = kube.patch(&path, STRATEGIC, &patch).await.ok();
    let expected = json!([{"name": "a", "image": "a:2"}, {"name": "b", "image": "b:2"}]);
    assert_eq!(pod["spec"]["containers"], expected);
    let patch = json!({"spec": {"containers": []}});
    let pod = kube.patch(&path, MERGE, &patch).await.ok();
    assert_eq!(pod["spec"]["containers"], json!([]));
}

#[tokio::test]
async fn a_patch_that_changes_nothing_makes_no_version_and_one_of_the_status_only_that() {
    let kube = Kube::start().await;
    let pod = kube.pod("p").await;
    let path = format!("{PODS}/p");
    let same = kube.patch(&path, MERGE, &json!({"spec": {}})).await.ok();
    assert_eq!(same, pod);
    let patch = json!({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}});
    let pod = kube
        .patch(&format!("{path}/status"), MERGE, &patch)
        .await
        .ok();
    assert_eq!(pod["status"], json!({"phase": "Running"}));
    assert_eq!(pod["spec"], json!({}));
    let pod = kube.patch(&path, MERGE, &patch).await.ok();
    assert_eq!(pod["spec"], json!({"nodeName": "n"}));
    let (dry_run, patch) = (
        format!("{path}?dryRun=All"),
        json!({"spec": {"nodeName": "m"}}),
    );
    let dry = kube.patch(&dry_run, MERGE, &patch).await.ok();
    assert_eq!(dry["spec"]["nodeName"], "m");
    assert_eq!(kube.get(&path).await.ok(), pod);
}

#[tokio::test]
async fn a_server_side_apply_creates_or_merges() {
    let kube = Kube::start().await;
    let path = format!("{CONFIG_MAPS}/a?fieldManager=test&force=true");
    let headers = [("content-type", APPLY)];
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n";
    let made = kube.ask(Method::PATCH, &path, &headers, yaml).await;
    assert_eq!(made.status, 201);
    let made = made.ok();
    let again = kube.ask(Method::PATCH, &path, &headers, yaml).await;
    assert_eq!(again.status, 200);
    assert_eq!(again.ok(), made);
    // What the same applier leaves out goes; what others applied stays.
    let other = format!("{CONFIG_MAPS}/a?fieldManager=other");
    let data = |data| json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data});
    let merged = kube
        .patch(&other, APPLY, &data(json!({"l": "w"})))
        .await
        .ok();
    assert_eq!(merged["data"], json!({"k": "v", "l": "w"}));
    let merged = kube
        .patch(&path, APPLY, &data(json!({"m": "x"})))
        .await
        .ok();
    assert_eq!(merged["data"], json!({"l": "w", "m": "x"}));
    // Others are not overruled unless that is asked for.
    let more = data(json!({"m": "y"}));
    let refusal = kube.patch(&other, APPLY, &more).await;
    assert_eq!(refusal.failure(), refused(409, "Conflict"));
    let cause = &refusal.json()["details"]["causes"][0];
    assert_eq!(cause["reason"], "FieldManagerConflict");
    let forced = kube
        .patch(&format!("{other}&force=true"), APPLY, &more)
        .await
        .ok();
    assert_eq!(forced["data"], json!({"m": "y"}));
    // Who writes otherwise leaves alone who applied what.
    let merge = json!({"data": {"n": "z"}, "metadata": {"managedFields": []}});
    let patched = kube
        .patch(&format!("{CONFIG_MAPS}/a"), MERGE, &merge)
        .await
        .ok();
    assert_eq!(
        patched["metadata"]["managedFields"],
        forced["metadata"]["managedFields"]
    );
    let anonymous = kube.patch(&format!("{CONFIG_MAPS}/a"), APPLY, &more).await;
    assert_eq!(anonymous.failure(), refused(422, "Invalid"));
}

#[tokio::test]
async fn a_patch_that_cannot_be_applied_changes_nothing() {
    let kube = Kube::start().await;
    let map = kube.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let before = kube.0.revision();
    let old = json!({"metadata": {"resourceVersion": "1000"}, "data": {"k": "x"}});
    for (form, patch, code, reason) in [
        (
            JSON,
            json!([{"op": "test", "path": "/data/k", "value": "no"}]),
            422,
            "Invalid",
        ),
        (
            JSON,
            json!([{"op": "remove", "path": "/data/none"}]),
            422,
            "Invalid",
        ),
        (
            JSON,
            json!([{"op": "fly", "path": "/data"}]),
            400,
            "BadRequest",
        ),
        (JSON, json!({"data": {}}), 400, "BadRequest"),
        (MERGE, json!([1]), 400, "BadRequest"),
        (MERGE, json!({"metadata": {"name": "b"}}), 400, "BadRequest"),
        (
            MERGE,
            json!({"metadata": {"namespace": "b"}}),
            400,
            "BadRequest",
        ),
        (MERGE, json!({"kind": "Pod"}), 422, "Invalid"),
        (MERGE, json!({"metadata": 3}), 422, "Invalid"),
        (MERGE, json!({"data": "x"}), 422, "Invalid"),
        (
            MERGE,
            json!({"metadata": {"labels": {"a": "b c"}}}),
            422,
            "Invalid",
        ),
        (MERGE, old, 409, "Conflict"),
        ("application/json", json!({}), 415, "UnsupportedMediaType"),
        ("text/plain", json!({}), 415, "UnsupportedMediaType"),
    ] {
        let refusal = kube.patch(&path, form, &patch).await;
        assert_eq!(refusal.failure(), refused(code, reason), "{form} {patch}");
    }
    let forced = kube
        .patch(&format!("{path}?force=true"), MERGE, &json!({}))
        .await;
    assert_eq!(forced.failure(), refused(422, "Invalid"));
    let missing = kube
        .patch(&format!("{CONFIG_MAPS}/b"), MERGE, &json!({}))
        .await;
    assert_eq!(missing.failure(), refused(404, "NotFound"));
    kube.0.put("configmaps", "opaque", "\u{1}").await;
    let opaque = kube
        .patch(
            &format!("{CONFIG_MAPS}/opaque"),
            MERGE,
            &json!({"data": {}}),
        )
        .await;
    assert_eq!(opaque.failure(), refused(422, "Invalid"));
    assert_eq!(kube.0.revision(), before + 1);
    assert_eq!(kube.get(&path).await.ok(), map);
}

#[tokio::test]
async fn patches_that_meet_are_all_applied() {
    let kube = Kube::start().await;
    kube.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let patches = (0..6).map(|n| {
        let (kube, path) = (&kube, &path);
        async move {
            let patch = json!({"data": {format!("k{n}"): "v"}});
            kube.patch(path, MERGE, &patch).await.ok()
        }
    });
    futures::future::join_all(patches).await;
    let map = kube.get(&path).await.ok();
    assert_eq!(map["data"].as_object().unwrap().len(), 7);
}

#[tokio::test]
async fn the_last_finalizer_can_be_patched_away() {
    let kube = Kube::start().await;
    let given = json!({"metadata": {"name": "a", "finalizers": ["x.io/one"]}});
    kube.post(CONFIG_MAPS, &given).await.ok();
    let path = format!("{CONFIG_MAPS}/a");
    let marked = kube.delete(&path).await.ok();
    assert_ne!(version(&marked), "1");
    let patch = json!([{"op": "remove", "path": "/metadata/finalizers"}]);
    kube.patch(&path, JSON, &patch).await.ok();
    assert_eq!(kube.get(&path).await.failure(), refused(404, "NotFound"));
    let list: Value = kube.get(CONFIG_MAPS).await.ok();
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn what_a_secret_says_as_text_becomes_its_data() {
    let kube = Kube::start().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    let path = format!("{secrets}/a");
    let secret = json!({
        "metadata": {"name": "a"}, "data": {"a": "YQ==", "b": "YQ=="}, "stringData": {"b": "x"},
    });
    let made = kube.post(secrets, &secret).await.ok();
    assert_eq!(made["data"], json!({"a": "YQ==", "b": "eA=="}));
    assert_eq!(made.get("stringData"), None);
    let patch = json!({"stringData": {"c": "y"}});
    let patched = kube.patch(&path, MERGE, &patch).await.ok();
    assert_eq!(
        patched["data"],
        json!({"a": "YQ==", "b": "eA==", "c": "eQ=="})
    );
    assert_eq!(patched.get("stringData"), None);
    let applied = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"},
        "stringData": {"d": "z"},
    });
    let forced = format!("{path}?fieldManager=test&force=true");
    let applied = kube.patch(&forced, APPLY, &applied).await.ok();
    assert_eq!(applied["data"]["d"], "eg==");
    let put = json!({"metadata": {"name": "a"}, "stringData": {"e": ""}});
    assert_eq!(kube.put(&path, &put).await.ok()["data"], json!({"e": ""}));
    let wrong = json!({"metadata": {"name": "b"}, "stringData": {"a": 1}});
    let refusal = kube.post(secrets, &wrong).await;
    assert_eq!(refusal.failure(), refused(400, "BadRequest"));
}
