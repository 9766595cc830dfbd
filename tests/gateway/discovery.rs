//! What is served, and kinds that are defined on the way.

use http::Method;
use serde_json::{Value, json};

use super::client::{Kube, event, refused};

#[tokio::test]
async fn clients_find_out_what_is_served() {
    let kube = Kube::start().await;
    let version = kube.get("/version").await.ok();
    assert!(
        version["gitVersion"]
            .as_str()
            .unwrap()
            .contains("listwatch")
    );
    assert_eq!(kube.get("/api").await.ok()["versions"], json!(["v1"]));
    let groups = kube.get("/apis").await.ok();
    assert_eq!(groups["kind"], "APIGroupList");
    let core = kube.get("/api/v1").await.ok();
    assert_eq!(core["kind"], "APIResourceList");
    let resources = core["resources"].as_array().unwrap();
    assert!(resources.iter().any(|r| r["name"] == "pods/status"));
    assert_eq!(kube.get("/apis/apps").await.ok()["kind"], "APIGroup");
    let apps = kube.get("/apis/apps/v1").await.ok();
    assert_eq!(apps["groupVersion"], "apps/v1");
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let all = kube
        .ask(Method::GET, "/apis", &[("accept", accept)], "")
        .await;
    assert!(
        all.headers["content-type"]
            .to_str()
            .unwrap()
            .contains("apidiscovery")
    );
    assert_eq!(all.ok()["kind"], "APIGroupDiscoveryList");
    for path in [
        "/apis/none.io",
        "/apis/apps/v9",
        "/api/v9",
        "/openapi/v9",
        "/openapi",
    ] {
        assert_eq!(
            kube.get(path).await.failure(),
            refused(404, "NotFound"),
            "{path}"
        );
    }
    let refusal = kube.post("/apis", &json!({})).await;
    assert_eq!(refusal.failure(), refused(405, "MethodNotAllowed"));
}

#[tokio::test]
async fn schemas_are_found_by_the_addresses_of_their_index() {
    let kube = Kube::start().await;
    let index = kube.get("/openapi/v3").await.ok();
    let address = index["paths"]["apis/apps/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap();
    assert_eq!(kube.get(address).await.ok()["openapi"], "3.0.0");
    assert_eq!(kube.get("/openapi/v2").await.ok()["swagger"], "2.0");
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let second = async |accept: &str| {
        let accept = [("accept", accept)];
        kube.ask(Method::GET, "/openapi/v2", &accept, "").await
    };
    let told = second(protobuf).await;
    assert_eq!(told.status, 200);
    // Go's parser of media types takes no `@` in one.
    let answered = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!(told.headers["content-type"], answered);
    assert!(told.body.starts_with(b"\x0a\x032.0"));
    let refusal = second("text/html").await;
    assert_eq!(refusal.failure(), refused(406, "NotAcceptable"));
}

fn definition(version: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "crontabs", "singular": "crontab", "kind": "CronTab"},
            "versions": [{
                "name": version, "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {"cron": {"type": "string"}}},
                        "status": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": true,
                        },
                    },
                }},
            }],
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const TABS: &str = "/apis/example.com/v1/namespaces/default/crontabs";

#[tokio::test]
async fn a_definition_brings_a_kind_and_takes_it_away() {
    let kube = Kube::start().await;
    assert_eq!(kube.get(TABS).await.failure(), refused(404, "NotFound"));
    let defined = kube.post(DEFINITIONS, &definition("v1")).await.ok();
    let conditions = defined["status"]["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .any(|c| c["type"] == "Established" && c["status"] == "True")
    );
    let tab = json!({
        "apiVersion": "example.com/v1", "kind": "CronTab",
        "metadata": {"name": "a"}, "spec": {"cron": "* *"}, "status": {"x": 1},
    });
    let mut watch = {
        kube.post(TABS, &tab).await.ok();
        kube.watch(&format!("{TABS}?watch=1")).await
    };
    assert_eq!(watch.event().await, event("ADDED", "a"));
    let made = kube.get(&format!("{TABS}/a")).await.ok();
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(made.get("status"), None);
    let status = json!({"status": {"x": 1}});
    let path = format!("{TABS}/a/status");
    let patched = kube
        .patch(&path, "application/merge-patch+json", &status)
        .await
        .ok();
    assert_eq!(patched["status"], json!({"x": 1}));
    let strategic = "application/strategic-merge-patch+json";
    let refusal = kube
        .patch(&format!("{TABS}/a"), strategic, &json!({}))
        .await;
    assert_eq!(refusal.failure(), refused(415, "UnsupportedMediaType"));
    let groups = kube.get("/apis").await.ok();
    assert!(groups.to_string().contains("example.com"));

    // Another version in its place, over gRPC.
    kube.0
        .client
        .update(listwatch::v1::UpdateRequest {
            resource: Some(listwatch::v1::Resource {
                key: Some(listwatch::v1::Key {
                    collection: "customresourcedefinitions.apiextensions.k8s.io".into(),
                    namespace: String::new(),
                    name: "crontabs.example.com".into(),
                }),
                value: definition("v2").to_string().into(),
                ..listwatch::v1::Resource::default()
            }),
            ..listwatch::v1::UpdateRequest::default()
        })
        .await
        .unwrap();
    assert_eq!(kube.get(TABS).await.failure(), refused(404, "NotFound"));
    let newer = "/apis/example.com/v2/namespaces/default/crontabs/a";
    assert_eq!(kube.get(newer).await.ok()["apiVersion"], "example.com/v2");
    kube.delete(&format!("{DEFINITIONS}/crontabs.example.com"))
        .await
        .ok();
    assert_eq!(kube.get(newer).await.failure(), refused(404, "NotFound"));
    let groups = kube.get("/apis").await.ok();
    assert!(!groups.to_string().contains("example.com"));
}

#[tokio::test]
async fn a_definition_that_is_none_is_invalid() {
    let kube = Kube::start().await;
    for (pointer, value) in [
        ("/spec/group", json!("")),
        ("/spec/names/plural", json!("others")),
        ("/spec/versions", json!([])),
        ("/spec/scope", json!("Galactic")),
    ] {
        let mut definition = definition("v1");
        *definition.pointer_mut(pointer).unwrap() = value;
        let refusal = kube.post(DEFINITIONS, &definition).await;
        assert_eq!(refusal.failure(), refused(422, "Invalid"), "{pointer}");
    }
    assert_eq!(kube.0.revision(), 0);
}
