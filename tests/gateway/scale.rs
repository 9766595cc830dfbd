//! The `/scale` subresource.

use http::Method;
use serde_json::{Value, json};

use super::client::{Kube, event, refused, version};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POOLS: &str = "/apis/example.com/v1/namespaces/default/pools";
const MERGE: &str = "application/merge-patch+json";

async fn deployment(kube: &Kube, name: &str) -> Value {
    let deployment = json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "replicas": 2,
            "selector": {
                "matchLabels": {"app": "web"},
                "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "a"]}],
            },
        },
    });
    let made = kube.post(DEPLOYMENTS, &deployment).await.ok();
    let status = json!({"status": {"replicas": 1}});
    let path = format!("{DEPLOYMENTS}/{name}/status");
    kube.patch(&path, MERGE, &status).await.ok();
    made
}

fn pools() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "pools.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "pools", "kind": "Pool"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size.nodes",
                        "statusReplicasPath": ".status.nodes",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

#[tokio::test]
async fn a_scale_shows_the_replicas_of_its_object() {
    let kube = Kube::start().await;
    let made = deployment(&kube, "web").await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    let scale = kube.get(&path).await.ok();
    let now = kube.get(&format!("{DEPLOYMENTS}/web")).await.ok();
    assert_eq!(
        scale,
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {
                "name": "web", "namespace": "default", "uid": made["metadata"]["uid"],
                "resourceVersion": version(&now),
                "creationTimestamp": made["metadata"]["creationTimestamp"],
            },
            "spec": {"replicas": 2},
            "status": {"replicas": 1, "selector": "app=web,tier in (a,b)"},
        })
    );
    let accept = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let table = kube.ask(Method::GET, &path, &accept, "").await.ok();
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let columns: Vec<_> = columns.map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(table["rows"][0]["cells"][1], 2);

    // One replica where nothing is said, and labels as selector.
    let controller = json!({
        "metadata": {"name": "old"}, "spec": {"selector": {"b": "2", "a": "1"}},
    });
    kube.post(CONTROLLERS, &controller).await.ok();
    let scale = kube.get(&format!("{CONTROLLERS}/old/scale")).await.ok();
    assert_eq!(scale["spec"], json!({"replicas": 1}));
    assert_eq!(
        scale["status"],
        json!({"replicas": 0, "selector": "a=1,b=2"})
    );
}

#[tokio::test]
async fn to_write_a_scale_is_to_write_the_replicas_of_its_object() {
    let kube = Kube::start().await;
    let before = deployment(&kube, "web").await;
    let mut watch = kube.watch(&format!("{DEPLOYMENTS}?watch=1")).await;
    assert_eq!(watch.event().await, event("ADDED", "web"));
    let path = format!("{DEPLOYMENTS}/web/scale");
    let mut scale = kube.get(&path).await.ok();
    scale["spec"]["replicas"] = json!(5);
    scale["status"]["replicas"] = json!(100);
    let answer = kube.put(&path, &scale).await.ok();
    assert_eq!(
        (&answer["kind"], &answer["spec"]),
        (&json!("Scale"), &json!({"replicas": 5}))
    );
    assert_eq!(answer["status"]["replicas"], 1);
    let changed = watch.next().await.unwrap();
    assert_eq!(changed["object"]["kind"], "Deployment");
    assert_eq!(changed["object"]["spec"]["replicas"], 5);
    assert_eq!(changed["object"]["status"], json!({"replicas": 1}));
    assert_eq!(changed["object"]["metadata"]["generation"], 2);
    assert_eq!(version(&changed["object"]), version(&answer));
    let selector = &before["spec"]["selector"];
    assert_eq!(&changed["object"]["spec"]["selector"], selector);
    assert_eq!(
        changed["object"]["metadata"]["labels"],
        json!({"app": "web"})
    );

    // By patches of each form.
    let add = json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]);
    for (form, patch, replicas) in [
        (MERGE, json!({"spec": {"replicas": 3}}), 3),
        ("application/json-patch+json", add, 4),
        (
            "application/strategic-merge-patch+json",
            json!({"spec": {"replicas": 6}}),
            6,
        ),
        // What is not said is none, as clients leave out a zero.
        (MERGE, json!({"spec": null}), 0),
    ] {
        let patched = kube.patch(&path, form, &patch).await.ok();
        assert_eq!(patched["spec"]["replicas"], replicas, "{form}");
        let whole = kube.get(&format!("{DEPLOYMENTS}/web")).await.ok();
        assert_eq!(whole["spec"]["replicas"], replicas, "{form}");
    }
    let least = json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {}});
    assert_eq!(kube.put(&path, &least).await.ok()["spec"]["replicas"], 0);
    // Only told.
    let dry = format!("{path}?dryRun=All");
    let told = kube
        .patch(&dry, MERGE, &json!({"spec": {"replicas": 9}}))
        .await
        .ok();
    assert_eq!(told["spec"]["replicas"], 9);
    assert_eq!(kube.get(&path).await.ok()["spec"]["replicas"], 0);
}

#[tokio::test]
async fn a_scale_that_cannot_be_is_refused_and_changes_nothing() {
    let kube = Kube::start().await;
    deployment(&kube, "web").await;
    let path = format!("{DEPLOYMENTS}/web/scale");
    let scale = kube.get(&path).await.ok();
    let revision = kube.0.revision();
    for (pointer, value, code, reason) in [
        ("/spec/replicas", json!(-1), 422, "Invalid"),
        ("/spec/replicas", json!("3"), 400, "BadRequest"),
        ("/spec/replicas", json!(1.5), 400, "BadRequest"),
        (
            "/spec/replicas",
            json!(3_000_000_000_u64),
            400,
            "BadRequest",
        ),
        ("/spec", json!([]), 400, "BadRequest"),
        ("/kind", json!("Deployment"), 400, "BadRequest"),
        ("/apiVersion", json!("autoscaling/v2"), 400, "BadRequest"),
        ("/metadata/name", json!("other"), 400, "BadRequest"),
        ("/metadata/namespace", json!("other"), 400, "BadRequest"),
        ("/metadata/resourceVersion", json!("1"), 409, "Conflict"),
        ("/metadata/resourceVersion", json!("x"), 422, "Invalid"),
        ("/metadata/uid", json!("other"), 409, "Conflict"),
    ] {
        let mut bad = scale.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        let refusal = kube.put(&path, &bad).await;
        assert_eq!(refusal.failure(), refused(code, reason), "{pointer}");
    }
    let negative = json!({"spec": {"replicas": -1}});
    let refusal = kube.patch(&path, MERGE, &negative).await;
    assert_eq!(refusal.failure(), refused(422, "Invalid"));
    assert_eq!(
        refusal.json()["details"]["causes"][0]["field"],
        "spec.replicas"
    );
    let old = json!({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 1}});
    let refusal = kube.patch(&path, MERGE, &old).await;
    assert_eq!(refusal.failure(), refused(409, "Conflict"));
    let apply = kube
        .patch(&path, "application/apply-patch+yaml", &scale)
        .await;
    assert_eq!(apply.failure(), refused(415, "UnsupportedMediaType"));
    for (method, path, code, reason) in [
        (
            Method::GET,
            format!("{DEPLOYMENTS}/none/scale"),
            404,
            "NotFound",
        ),
        (Method::DELETE, path.clone(), 405, "MethodNotAllowed"),
        (Method::POST, path.clone(), 405, "MethodNotAllowed"),
        (Method::GET, format!("{path}/more"), 404, "NotFound"),
        (
            Method::GET,
            "/api/v1/namespaces/default/pods/a/scale".into(),
            404,
            "NotFound",
        ),
        (
            Method::GET,
            "/apis/apps/v1/namespaces/default/daemonsets/a/scale".into(),
            404,
            "NotFound",
        ),
    ] {
        let refusal = kube.ask(method, &path, &[], "").await;
        assert_eq!(refusal.failure(), refused(code, reason), "{path}");
    }
    let none = format!("{DEPLOYMENTS}/none/scale");
    let refusal = kube
        .patch(&none, MERGE, &json!({"spec": {"replicas": 1}}))
        .await;
    assert_eq!(refusal.failure(), refused(404, "NotFound"));
    assert_eq!(
        refusal.json()["message"],
        "deployments.apps \"none\" not found"
    );
    // Fields that a Scale does not have.
    let odd = json!({"spec": {"replicas": 2, "template": {}}});
    let refusal = kube
        .patch(&format!("{path}?fieldValidation=Strict"), MERGE, &odd)
        .await;
    assert_eq!(refusal.failure(), refused(400, "BadRequest"));
    let warned = kube.patch(&path, MERGE, &odd).await;
    assert!(warned.headers.contains_key("warning"));
    assert_eq!(kube.0.revision(), revision);
}

#[tokio::test]
async fn writers_of_a_scale_and_of_its_object_lose_nothing() {
    let kube = Kube::start().await;
    deployment(&kube, "web").await;
    let whole = format!("{DEPLOYMENTS}/web");
    let scale = format!("{whole}/scale");
    let by_scale = async {
        for n in 1..=20 {
            kube.patch(&scale, MERGE, &json!({"spec": {"replicas": n}}))
                .await
                .ok();
        }
    };
    let by_object = async {
        for n in 1..=20 {
            let patch = json!({"metadata": {"annotations": {format!("a{n}"): "x"}}});
            kube.patch(&whole, MERGE, &patch).await.ok();
        }
    };
    tokio::join!(by_scale, by_object);
    let last = kube.get(&whole).await.ok();
    assert_eq!(last["spec"]["replicas"], 20);
    let annotations = last["metadata"]["annotations"].as_object().unwrap();
    assert_eq!(annotations.len(), 20);
}

#[tokio::test]
async fn a_definition_says_where_its_kind_keeps_replicas() {
    let kube = Kube::start().await;
    kube.post(DEFINITIONS, &pools()).await.ok();
    let pool = json!({"metadata": {"name": "a"}, "spec": {"size": {"zones": 2}}});
    kube.post(POOLS, &pool).await.ok();
    let path = format!("{POOLS}/a/scale");
    // It has not been said how many.
    assert_eq!(kube.get(&path).await.failure(), refused(422, "Invalid"));
    let scaled = kube
        .patch(&path, MERGE, &json!({"spec": {"replicas": 3}}))
        .await
        .ok();
    assert_eq!(scaled["spec"], json!({"replicas": 3}));
    let status = json!({"status": {"nodes": 2, "selector": "pool=a"}});
    kube.put(&format!("{POOLS}/a/status"), &status).await.ok();
    let scale = kube.get(&path).await.ok();
    assert_eq!(
        scale["status"],
        json!({"replicas": 2, "selector": "pool=a"})
    );
    let whole = kube.get(&format!("{POOLS}/a")).await.ok();
    assert_eq!(whole["spec"], json!({"size": {"zones": 2, "nodes": 3}}));
    let strategic = "application/strategic-merge-patch+json";
    let refusal = kube.patch(&path, strategic, &json!({})).await;
    assert_eq!(refusal.failure(), refused(415, "UnsupportedMediaType"));
    let odd = json!({"metadata": {"name": "b"}, "spec": {"size": "large"}});
    kube.post(POOLS, &odd).await.ok();
    let odd = format!("{POOLS}/b/scale");
    let refusal = kube
        .patch(&odd, MERGE, &json!({"spec": {"replicas": 3}}))
        .await;
    assert_eq!(refusal.failure(), refused(422, "Invalid"));

    for (pointer, value, field) in [
        (
            "specReplicasPath",
            json!(".status.nodes"),
            "specReplicasPath",
        ),
        ("specReplicasPath", json!(".spec"), "specReplicasPath"),
        ("specReplicasPath", json!(".spec.a[0]"), "specReplicasPath"),
        ("specReplicasPath", json!(null), "specReplicasPath"),
        (
            "statusReplicasPath",
            json!(".spec.nodes"),
            "statusReplicasPath",
        ),
        (
            "labelSelectorPath",
            json!(".metadata.labels"),
            "labelSelectorPath",
        ),
    ] {
        let mut bad = pools();
        let scale = "/spec/versions/0/subresources/scale";
        bad.pointer_mut(scale).unwrap()[pointer] = value.clone();
        let refusal = kube
            .put(&format!("{DEFINITIONS}/pools.example.com"), &bad)
            .await;
        assert_eq!(
            refusal.failure(),
            refused(422, "Invalid"),
            "{pointer} {value}"
        );
        let fields = refusal.json()["details"]["causes"].to_string();
        assert!(fields.contains(field), "{pointer} {value}: {fields}");
    }
    // No number is text, whatever it would mean.
    let mut bad = pools();
    bad["spec"]["versions"][0]["subresources"]["scale"]["statusReplicasPath"] = json!(7);
    let definition = format!("{DEFINITIONS}/pools.example.com");
    let refusal = kube.put(&definition, &bad).await;
    assert_eq!(refusal.failure(), refused(400, "BadRequest"));

    let mut without = pools();
    without["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    kube.put(&format!("{DEFINITIONS}/pools.example.com"), &without)
        .await
        .ok();
    assert_eq!(kube.get(&path).await.failure(), refused(404, "NotFound"));
}

#[tokio::test]
async fn discovery_tells_what_can_be_scaled() {
    let kube = Kube::start().await;
    kube.post(DEFINITIONS, &pools()).await.ok();
    for (path, name) in [
        ("/apis/apps/v1", "deployments/scale"),
        ("/apis/apps/v1", "replicasets/scale"),
        ("/apis/apps/v1", "statefulsets/scale"),
        ("/api/v1", "replicationcontrollers/scale"),
        ("/apis/example.com/v1", "pools/scale"),
    ] {
        let told = kube.get(path).await.ok();
        let resources = told["resources"].as_array().unwrap();
        let found = resources.iter().find(|r| r["name"] == name).unwrap();
        let expected = json!({
            "name": name, "singularName": "", "namespaced": true,
            "group": "autoscaling", "version": "v1", "kind": "Scale",
            "verbs": ["get", "patch", "update"],
        });
        assert_eq!(found, &expected);
    }
}
