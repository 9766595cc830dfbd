//! Deletions: preconditions, finalizers, all at once.

use serde_json::{Value, json};

use super::client::{CONFIG_MAPS, Kube, PODS, event, refused, version};

#[tokio::test]
async fn a_deletion_holds_only_for_the_object_that_was_meant() {
    let kube = Kube::start().await;
    let map = kube.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let uid = map["metadata"]["uid"].clone();
    for preconditions in [
        json!({"uid": "00000000-0000-4000-8000-000000000000"}),
        json!({"resourceVersion": "999"}),
        json!({"uid": uid, "resourceVersion": "999"}),
    ] {
        let options = json!({"preconditions": preconditions});
        let refusal = kube.delete_with(&path, &options).await;
        assert_eq!(refusal.failure(), refused(409, "Conflict"));
    }
    assert_eq!(kube.get(&path).await.ok(), map);
    let options = json!({
        "kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
        "preconditions": {"uid": uid, "resourceVersion": version(&map)},
    });
    kube.delete_with(&path, &options).await.ok();
    assert_eq!(kube.get(&path).await.failure(), refused(404, "NotFound"));
}

#[tokio::test]
async fn an_object_with_finalizers_goes_when_the_last_of_them_has() {
    let kube = Kube::start().await;
    let given = json!({"metadata": {"name": "a", "finalizers": ["x.io/one", "x.io/two"]}});
    let created = kube.post(PODS, &given).await.ok();
    let path = format!("{PODS}/a");
    let mut watch = kube
        .watch(&format!(
            "{PODS}?watch=1&resourceVersion={}",
            version(&created)
        ))
        .await;

    let marked = kube.delete(&path).await.ok();
    assert_eq!(marked["kind"], "Pod");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    // Once is enough.
    assert_eq!(kube.delete(&path).await.ok(), marked);
    assert_eq!(watch.event().await, event("MODIFIED", "a"));

    // No one is let in who would hold it up further, and the mark stays.
    let mut wanted = marked.clone();
    wanted["metadata"]["finalizers"] = json!(["x.io/one", "x.io/two", "x.io/three"]);
    let refusal = kube.put(&path, &wanted).await;
    assert_eq!(refusal.failure(), refused(422, "Invalid"));
    wanted["metadata"]["finalizers"] = json!(["x.io/two"]);
    wanted["metadata"]["deletionTimestamp"] = Value::Null;
    let left = kube.put(&path, &wanted).await.ok();
    assert_eq!(
        left["metadata"]["deletionTimestamp"],
        marked["metadata"]["deletionTimestamp"]
    );
    assert_eq!(watch.event().await, event("MODIFIED", "a"));

    let mut wanted = left;
    wanted["metadata"]["finalizers"] = json!([]);
    let last = kube.put(&path, &wanted).await.ok();
    assert_eq!(last["metadata"]["name"], "a");
    assert_eq!(kube.get(&path).await.failure(), refused(404, "NotFound"));
    assert_eq!(watch.event().await, event("DELETED", "a"));
}

#[tokio::test]
async fn all_that_a_list_shows_is_deleted_at_once() {
    let kube = Kube::start().await;
    for name in ["a", "b", "c"] {
        let app = if name == "c" { "db" } else { "web" };
        kube.labelled_pod(name, &json!({"app": app})).await;
    }
    let elsewhere = json!({"metadata": {"name": "d", "labels": {"app": "web"}}});
    kube.post("/api/v1/namespaces/other/pods", &elsewhere)
        .await
        .ok();
    let done = kube
        .delete(&format!("{PODS}?labelSelector=app%3Dweb"))
        .await
        .ok();
    assert_eq!(done["status"], "Success");
    assert_eq!(kube.names("/api/v1/pods").await, ["c", "d"]);
    kube.delete(PODS).await.ok();
    assert_eq!(kube.names("/api/v1/pods").await, ["d"]);
    let everywhere = kube.delete("/api/v1/pods").await;
    assert_eq!(everywhere.failure(), refused(405, "MethodNotAllowed"));
}

#[tokio::test]
async fn options_that_there_are_not_are_refused_and_nothing_is_deleted() {
    let kube = Kube::start().await;
    let map = kube.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    for options in [
        json!({"propagationPolicy": "Sideways"}),
        json!({"dryRun": ["Most"]}),
        json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
    ] {
        let refusal = kube.delete_with(&path, &options).await;
        assert_eq!(refusal.failure(), refused(422, "Invalid"), "{options}");
    }
    let refusal = kube
        .delete(&format!("{path}?gracePeriodSeconds=soon"))
        .await;
    assert_eq!(refusal.failure(), refused(400, "BadRequest"));
    for options in [json!([1]), json!({"kind": "Pod"})] {
        let refusal = kube.delete_with(&path, &options).await;
        assert_eq!(refusal.failure(), refused(400, "BadRequest"), "{options}");
    }
    assert_eq!(kube.get(&path).await.ok(), map);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_deletion_never_overtakes_a_finalizer_that_is_being_set() {
    let kube = Kube::start().await;
    let merge = "application/merge-patch+json";
    let patch = json!({"metadata": {"finalizers": ["x.io/one"]}});
    for n in 0..200 {
        let name = format!("m{n}");
        kube.config_map(&name).await;
        let path = format!("{CONFIG_MAPS}/{name}");
        let (set, deleted) = tokio::join!(kube.patch(&path, merge, &patch), kube.delete(&path));
        assert!(deleted.status.is_success());
        // Whoever was told that it is held finds it held.
        let now = kube.get(&path).await;
        assert_eq!(now.status.is_success(), set.status.is_success(), "{n}");
    }
}
