//! Kinds of the server's configuration.

use std::fs;

use http::Method;
use listwatch::v1;
use listwatch_server::{DeclaredKind, Server, ServerError, ServerOptions};
use serde_json::{Value, json};

use super::client::{Kube, event, refused};
use crate::harness::{
    daemon::{Daemon, free_address},
    options, put, resource,
};

const ORDERS: &str = "/apis/shop.example/v1/namespaces/default/orders";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn orders() -> DeclaredKind {
    let mut orders = DeclaredKind::new("shop.example", "v1", "orders", "Order");
    orders.short_names = vec!["ord".into()];
    orders.categories = vec!["all".into()];
    orders.status = true;
    orders.fields = vec!["spec.customer".into()];
    orders
}

fn with_orders() -> ServerOptions {
    options(|o| {
        let mut regions = DeclaredKind::new("shop.example", "v1", "regions", "Region");
        regions.namespaced = false;
        o.kinds = vec![orders(), regions];
    })
}

fn order(name: &str, customer: &str) -> Value {
    json!({
        "apiVersion": "shop.example/v1", "kind": "Order", "metadata": {"name": name},
        "spec": {"customer": customer, "lines": [{"any": {"thing": 1}}]},
    })
}

/// A definition of the resource that the configuration declares.
fn definition(resource: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{resource}.shop.example")},
        "spec": {
            "group": "shop.example", "scope": "Cluster",
            "names": {"plural": resource, "kind": kind},
            "versions": [{
                "name": "v2", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
}

#[tokio::test]
async fn a_declared_kind_is_served_like_any_other() {
    let kube = Kube::with(with_orders()).await;
    let mut watch = kube.watch(&format!("{ORDERS}?watch=1")).await;
    let made = kube.post(ORDERS, &order("a", "x")).await.ok();
    // Of what is in it, nothing is dropped.
    assert_eq!(made["spec"], order("a", "x")["spec"]);
    assert_eq!(made["metadata"]["generation"], 1);
    assert_eq!(watch.event().await, event("ADDED", "a"));
    let path = format!("{ORDERS}/a");
    let status = kube
        .put(
            &format!("{path}/status"),
            &json!({"status": {"paid": true}}),
        )
        .await
        .ok();
    assert_eq!(status["status"], json!({"paid": true}));
    assert_eq!(watch.event().await, event("MODIFIED", "a"));
    let merge = "application/merge-patch+json";
    let patch = json!({"spec": {"customer": "y"}, "status": null});
    let patched = kube.patch(&path, merge, &patch).await.ok();
    assert_eq!(patched["spec"]["customer"], "y");
    assert_eq!(patched["status"], json!({"paid": true}));
    let apply = format!("{ORDERS}/b?fieldManager=test");
    let applied = kube
        .patch(&apply, "application/apply-patch+yaml", &order("b", "x"))
        .await;
    assert_eq!(applied.status, 201);
    assert_eq!(kube.names(ORDERS).await, ["a", "b"]);
    let chosen = format!("{ORDERS}?fieldSelector=spec.customer%3Dx");
    assert_eq!(kube.names(&chosen).await, ["b"]);
    let other = format!("{ORDERS}?fieldSelector=spec.lines%3Dx");
    let refusal = kube.get(&other);
    assert_eq!(refusal.await.failure(), refused(400, "BadRequest"));
    kube.delete(&path).await.ok();
    let list = kube.get("/apis/shop.example/v1/orders").await.ok();
    assert_eq!(
        (&list["kind"], list["items"].as_array().unwrap().len()),
        (&json!("OrderList"), 1)
    );
    // Outside namespaces.
    let region = json!({"metadata": {"name": "north"}});
    kube.post("/apis/shop.example/v1/regions", &region)
        .await
        .ok();
    let wrong = kube.post("/apis/shop.example/v1/namespaces/default/regions", &region);
    assert_eq!(wrong.await.failure(), refused(404, "NotFound"));
}

#[tokio::test]
async fn discovery_and_schemas_tell_of_declared_kinds() {
    let kube = Kube::with(with_orders()).await;
    assert!(
        kube.get("/apis")
            .await
            .ok()
            .to_string()
            .contains("shop.example")
    );
    let version = kube.get("/apis/shop.example/v1").await.ok();
    let names = version["resources"].as_array().unwrap().iter();
    let names: Vec<_> = names
        .into_iter()
        .map(|r| r["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["orders", "orders/status", "regions"]);
    assert_eq!(version["resources"][0]["shortNames"], json!(["ord"]));
    assert_eq!(version["resources"][0]["categories"], json!(["all"]));
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let all = kube
        .ask(Method::GET, "/apis", &[("accept", accept)], "")
        .await;
    assert!(all.ok().to_string().contains("\"orders\""));
    let document = kube.get("/openapi/v3/apis/shop.example/v1").await.ok();
    let schema = &document["components"]["schemas"]["example.shop.v1.Order"];
    assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], true);
}

#[tokio::test]
async fn grpc_sees_declared_kinds_and_selects_by_their_fields() {
    let kube = Kube::with(with_orders()).await;
    kube.post(ORDERS, &order("a", "x")).await.ok();
    kube.post(ORDERS, &order("b", "y")).await.ok();
    let by_customer = v1::ListRequest {
        selector: Some(v1::Selector {
            collection: "orders.shop.example".into(),
            fields: vec![v1::FieldRequirement {
                path: "spec.customer".into(),
                value: "y".into(),
                ..v1::FieldRequirement::default()
            }],
            ..v1::Selector::default()
        }),
        ..v1::ListRequest::default()
    };
    let listed = kube.0.client.list(by_customer).await.unwrap();
    let names: Vec<_> = listed
        .resources
        .into_iter()
        .map(|r| r.key.unwrap().name)
        .collect();
    assert_eq!(names, ["b"]);
}

#[tokio::test]
async fn no_definition_takes_the_place_of_a_declared_kind() {
    let kube = Kube::with(with_orders()).await;
    kube.post(ORDERS, &order("a", "x")).await.ok();
    // The resource, or its kind under another name.
    for definition in [definition("orders", "Order"), definition("others", "Order")] {
        let refusal = kube.post(DEFINITIONS, &definition).await;
        assert_eq!(refusal.failure(), refused(422, "Invalid"));
    }
    assert_eq!(kube.get(DEFINITIONS).await.ok()["items"], json!([]));
    // Over gRPC any object is stored; the configuration goes on to count.
    let definitions = "customresourcedefinitions.apiextensions.k8s.io";
    let mut stored = resource(definitions, "orders.shop.example", "", &[]);
    if let Some(key) = &mut stored.key {
        key.namespace.clear();
    }
    stored.value = definition("orders", "Order").to_string().into();
    kube.0.batch(vec![put(stored)]).await;
    assert_eq!(kube.names(ORDERS).await, ["a"]);
    let other = "/apis/shop.example/v2/orders";
    assert_eq!(kube.get(other).await.failure(), refused(404, "NotFound"));
    // It can be removed, and nothing goes with it.
    kube.delete(&format!("{DEFINITIONS}/orders.shop.example"))
        .await
        .ok();
    assert_eq!(kube.names(ORDERS).await, ["a"]);
    // The group takes further kinds.
    kube.post(DEFINITIONS, &definition("parcels", "Parcel"))
        .await
        .ok();
    assert_eq!(kube.names("/apis/shop.example/v2/parcels").await, [""; 0]);
}

#[tokio::test]
async fn no_definition_takes_the_place_of_a_built_in_kind() {
    let kube = Kube::start().await;
    let mut definition = definition("ingresses", "Ingress");
    definition["metadata"]["name"] = json!("ingresses.networking.k8s.io");
    definition["spec"]["group"] = json!("networking.k8s.io");
    let refusal = kube.post(DEFINITIONS, &definition).await;
    assert_eq!(refusal.failure(), refused(422, "Invalid"));
    assert_eq!(kube.0.revision(), 0);
}

#[tokio::test]
async fn a_server_does_not_start_with_kinds_that_are_wrong() {
    let mut bad = orders();
    bad.resource = "Orders".into();
    let kinds = vec![orders(), bad];
    let started = Server::builder()
        .options(options(|o| o.kinds = kinds))
        .start()
        .await;
    let Err(ServerError::Kind(error)) = started else {
        panic!("it starts, or fails otherwise: {started:?}");
    };
    assert_eq!(
        (error.place, error.name.as_str()),
        (1, "Orders.shop.example")
    );
    assert!(
        error.problems.starts_with("resource: Invalid value"),
        "{error}"
    );
}

#[tokio::test]
async fn the_daemon_reads_kinds_of_a_file_and_names_what_is_wrong_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kinds.yaml");
    let flags = ["--kinds", file.to_str().unwrap()];
    let good = "- {group: shop.example, version: v1, resource: orders, kind: Order}\n";
    let of_pods = "- {group: networking.k8s.io, version: v1, resource: ingresses, kind: I}\n";
    for (text, expected) in [
        (None, "No such file"),
        (
            Some(format!("{good}- {{group: shop.example}}\n")),
            "kinds[1]: missing field `version`",
        ),
        (
            Some(good.replace("}", ", scale: 1}")),
            "kinds[0]: unknown field `scale`",
        ),
        (
            Some(good.replace("orders", "Orders")),
            "kinds[0] (Orders.shop.example): resource:",
        ),
        (
            Some(format!("{good}{of_pods}")),
            "kinds[1] (ingresses.networking.k8s.io): resource:",
        ),
        (Some(format!("{good}{good}")), "is declared twice"),
    ] {
        if let Some(text) = &text {
            fs::write(&file, text).unwrap();
        }
        let data = folder.path().join("data");
        let mut daemon = Daemon::spawn(&data, &free_address(), &flags);
        assert_eq!(daemon.ended().await.code(), Some(1));
        let log = daemon.log();
        assert!(
            log.contains(expected) && log.contains("kinds.yaml"),
            "{expected}: {log}"
        );
    }
    fs::write(&file, good).unwrap();
    let data = folder.path().join("data");
    let daemon = Daemon::start(&data, &free_address(), &flags).await;
    let stream = tokio::net::TcpStream::connect(&daemon.address)
        .await
        .unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(ORDERS).header("host", "test");
    let request = request
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
}
