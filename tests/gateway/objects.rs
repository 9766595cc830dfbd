//! Objects: written and read, over HTTP and gRPC.

use http::Method;
use listwatch::v1;
use serde_json::{Value, json};

use super::client::{CONFIG_MAPS, Kube, PODS, refused, version};
use crate::harness::{key, resource};

#[tokio::test]
async fn an_object_is_created_read_updated_and_deleted() {
    let kube = Kube::start().await;
    let given = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "labels": {"app": "web"}, "annotations": {"note": "x"}},
        "data": {"k": "v"},
    });
    let answer = kube.post(CONFIG_MAPS, &given).await;
    assert_eq!(answer.status, 201);
    let created = answer.ok();
    assert_eq!(created["metadata"]["namespace"], "default");
    assert_eq!(created["data"], json!({"k": "v"}));
    assert_eq!(created["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(created["metadata"]["annotations"], json!({"note": "x"}));
    let uid = created["metadata"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(uid.len(), 36);
    let time = created["metadata"]["creationTimestamp"].as_str().unwrap();
    assert!(time.ends_with('Z') && time.len() == 20, "{time}");

    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(kube.get(&path).await.ok(), created);
    let mut changed = created.clone();
    changed["data"]["k"] = "w".into();
    let updated = kube.put(&path, &changed).await.ok();
    assert_eq!(updated["data"], json!({"k": "w"}));
    assert_eq!(updated["metadata"]["uid"], uid.as_str());
    assert_ne!(version(&updated), version(&created));
    assert_eq!(
        updated["metadata"]["creationTimestamp"],
        created["metadata"]["creationTimestamp"]
    );

    let gone = kube.delete(&path).await.ok();
    assert_eq!(gone["kind"], "Status");
    assert_eq!(gone["status"], "Success");
    assert_eq!(gone["details"]["uid"], uid.as_str());
    assert_eq!(kube.get(&path).await.failure(), refused(404, "NotFound"));
    assert_eq!(kube.delete(&path).await.failure(), refused(404, "NotFound"));
    let missing = kube.put(&path, &json!({"data": {}})).await;
    assert_eq!(missing.failure(), refused(404, "NotFound"));
    let details = missing.json()["details"].clone();
    assert_eq!(details, json!({"name": "a", "kind": "configmaps"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_insists_on_no_version_is_never_told_of_a_conflict() {
    let kube = Kube::start().await;
    let object = kube.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let puts = (0..64).map(|n| {
        let mut change = object.clone();
        change["metadata"]["resourceVersion"].take();
        change["data"]["k"] = n.to_string().into();
        let (kube, path) = (&kube, &path);
        async move { kube.put(path, &change).await.status }
    });
    let statuses = futures::future::join_all(puts).await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
}

#[tokio::test]
async fn an_update_at_another_version_is_a_conflict_and_changes_nothing() {
    let kube = Kube::start().await;
    let first = kube.config_map("a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let mut change = first.clone();
    change["data"]["k"] = "1".into();
    let second = kube.put(&path, &change).await.ok();
    change["data"]["k"] = "2".into();
    let conflict = kube.put(&path, &change).await;
    assert_eq!(conflict.failure(), refused(409, "Conflict"));
    assert_eq!(kube.get(&path).await.ok(), second);
    // Without a version it is taken as it is.
    change["metadata"]["resourceVersion"].take();
    let third = kube.put(&path, &change).await.ok();
    assert_eq!(third["data"]["k"], "2");
    // Another object under the same name is not meant.
    change["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
    let conflict = kube.put(&path, &change).await;
    assert_eq!(conflict.failure(), refused(409, "Conflict"));
    // What changes nothing makes no version.
    let again = kube.put(&path, &third).await.ok();
    assert_eq!(again, third);
}

#[tokio::test]
async fn a_name_is_taken_once_and_generated_anew() {
    let kube = Kube::start().await;
    kube.config_map("a").await;
    let again = kube
        .post(CONFIG_MAPS, &json!({"metadata": {"name": "a"}}))
        .await;
    assert_eq!(again.failure(), refused(409, "AlreadyExists"));
    assert_eq!(again.json()["details"]["name"], "a");
    let wanted = json!({"metadata": {"generateName": "job-"}});
    let mut names = Vec::new();
    for _ in 0..5 {
        let made = kube.post(CONFIG_MAPS, &wanted).await.ok();
        assert_eq!(made["metadata"]["generateName"], "job-");
        names.push(made["metadata"]["name"].as_str().unwrap().to_owned());
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 5);
    assert!(
        names.iter().all(|n| n.starts_with("job-") && n.len() == 9),
        "{names:?}"
    );
}

#[tokio::test]
async fn what_is_written_over_grpc_is_read_over_http_and_the_other_way_round() {
    let kube = Kube::start().await;
    let value = json!({"spec": {"nodeName": "n1"}, "metadata": {"annotations": {"a": "b"}}});
    let written = kube
        .0
        .put_labelled("pods", "a", &value.to_string(), &[("app", "web")])
        .await;
    let pod = kube.get(&format!("{PODS}/a")).await.ok();
    assert_eq!(pod["kind"], "Pod");
    assert_eq!(pod["apiVersion"], "v1");
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(pod["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(pod["metadata"]["uid"], written.uid.as_str());
    assert_eq!(version(&pod), written.revision.to_string());
    assert!(pod["metadata"]["creationTimestamp"].is_string());

    let deployment =
        json!({"metadata": {"name": "d", "labels": {"l": "m"}}, "spec": {"replicas": 2}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let created = kube.post(path, &deployment).await.ok();
    let request = v1::GetRequest {
        key: Some(key("deployments.apps", "d")),
        ..v1::GetRequest::default()
    };
    let read = kube.0.client.get(request).await.unwrap().resource.unwrap();
    assert_eq!(read.labels["l"], "m");
    assert_eq!(read.content_type, "application/json");
    assert_eq!(read.uid, created["metadata"]["uid"].as_str().unwrap());
    let value: Value = serde_json::from_slice(&read.value).unwrap();
    assert_eq!(value["spec"]["replicas"], 2);
    assert_eq!(value["kind"], "Deployment");
    assert_eq!(value["apiVersion"], "apps/v1");

    // Not JSON, and shown all the same.
    let bytes = resource("pods", "opaque", "\u{1}", &[("app", "web")]);
    let operation = crate::harness::put(bytes);
    kube.0.batch(vec![operation]).await;
    let opaque = kube.get(&format!("{PODS}/opaque")).await.ok();
    assert_eq!(opaque["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(opaque.get("spec"), None);
}

#[tokio::test]
async fn the_status_is_written_apart_and_the_generation_counts_changes_of_the_spec() {
    let kube = Kube::start().await;
    let given = json!({
        "metadata": {"name": "p"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Failed"},
    });
    let created = kube.post(PODS, &given).await.ok();
    assert_eq!(created.get("status"), None);
    assert_eq!(created["metadata"]["generation"], 1);

    let path = format!("{PODS}/p");
    let status = format!("{path}/status");
    let wanted = json!({
        "metadata": {"name": "p", "labels": {"x": "y"}},
        "spec": {"nodeName": "other"}, "status": {"phase": "Running"},
    });
    let updated = kube.put(&status, &wanted).await.ok();
    assert_eq!(updated["status"], json!({"phase": "Running"}));
    assert_eq!(updated["spec"], json!({"nodeName": "n1"}));
    assert_eq!(updated["metadata"].get("labels"), None);
    assert_eq!(updated["metadata"]["generation"], 1);
    assert_eq!(kube.get(&status).await.ok(), updated);

    let mut wanted = updated.clone();
    wanted["spec"]["nodeName"] = "n2".into();
    wanted["status"]["phase"] = "Failed".into();
    let updated = kube.put(&path, &wanted).await.ok();
    assert_eq!(updated["status"], json!({"phase": "Running"}));
    assert_eq!(updated["spec"]["nodeName"], "n2");
    assert_eq!(updated["metadata"]["generation"], 2);
    let mut wanted = updated;
    wanted["metadata"]["labels"] = json!({"a": "b"});
    let updated = kube.put(&path, &wanted).await.ok();
    assert_eq!(updated["metadata"]["generation"], 2);

    let none = kube.get(&format!("{CONFIG_MAPS}/p/status")).await;
    assert_eq!(none.failure(), refused(404, "NotFound"));
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_and_changes_nothing() {
    let kube = Kube::start().await;
    let map = kube.config_map("a").await;
    let before = kube.0.revision();
    let wanted = json!({"metadata": {"name": "b"}, "data": {"k": "v"}});
    let dry = kube
        .post(&format!("{CONFIG_MAPS}?dryRun=All"), &wanted)
        .await;
    assert_eq!(dry.status, 201);
    assert!(dry.ok()["metadata"]["uid"].is_string());
    let taken = kube
        .post(&format!("{CONFIG_MAPS}?dryRun=All"), &map_named("a"))
        .await;
    assert_eq!(taken.failure(), refused(409, "AlreadyExists"));
    let path = format!("{CONFIG_MAPS}/a?dryRun=All");
    let mut change = map.clone();
    change["data"]["k"] = "w".into();
    assert_eq!(kube.put(&path, &change).await.ok()["data"]["k"], "w");
    kube.delete(&path).await.ok();
    kube.delete_with(&format!("{CONFIG_MAPS}/a"), &json!({"dryRun": ["All"]}))
        .await
        .ok();
    kube.delete(&format!("{CONFIG_MAPS}?dryRun=All")).await.ok();
    assert_eq!(kube.0.revision(), before);
    let odd = kube
        .post(&format!("{CONFIG_MAPS}?dryRun=Some"), &wanted)
        .await;
    assert_eq!(odd.failure(), refused(422, "Invalid"));
}

fn map_named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

#[tokio::test]
async fn a_body_may_be_yaml() {
    let kube = Kube::start().await;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: y\ndata:\n  a: |\n    text\n";
    let headers = [("content-type", "application/yaml; charset=utf-8")];
    let made = kube
        .ask(Method::POST, CONFIG_MAPS, &headers, yaml)
        .await
        .ok();
    assert_eq!(made["data"]["a"], "text\n");
}

#[tokio::test]
async fn kinds_outside_namespaces_have_paths_of_their_own() {
    let kube = Kube::start().await;
    let node = kube.post("/api/v1/nodes", &map_named("n1")).await.ok();
    assert_eq!(node["metadata"].get("namespace"), None);
    let path = "/api/v1/namespaces/team";
    let namespace = kube
        .post("/api/v1/namespaces", &map_named("team"))
        .await
        .ok();
    assert_eq!(kube.get(path).await.ok(), namespace);
    assert_eq!(kube.names("/api/v1/nodes").await, ["n1"]);
    let nowhere = kube.get("/api/v1/namespaces/team/nodes").await;
    assert_eq!(nowhere.failure(), refused(404, "NotFound"));
    let role = json!({"metadata": {"name": "system:node"}});
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    kube.post(roles, &role).await.ok();
    assert_eq!(kube.get(&format!("{roles}/system:node")).await.status, 200);
}

#[tokio::test]
async fn requests_take_the_same_seats_as_calls_and_say_when_to_come_again() {
    use listwatch_server::{RequestOptions, ServerOptions};
    let requests = RequestOptions {
        max_requests_inflight: 0,
        ..RequestOptions::default()
    };
    let kube = Kube::with(ServerOptions {
        requests,
        ..ServerOptions::default()
    })
    .await;
    let refusal = kube.get(PODS).await;
    assert_eq!(refusal.failure(), refused(429, "TooManyRequests"));
    assert_eq!(refusal.headers["retry-after"], "1");
    assert_eq!(refusal.json()["details"]["retryAfterSeconds"], 1);
    kube.config_map("a").await;
}
