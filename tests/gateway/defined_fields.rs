//! Fields that a definition lets its objects be selected by.

use listwatch::v1;
use serde_json::{Value, json};

use super::client::{Kube, event, refused, version};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SHIRTS: &str = "/apis/example.com/v1/namespaces/default/shirts";

fn definition(fields: &[&str]) -> Value {
    let fields: Vec<Value> = fields
        .iter()
        .map(|path| json!({"jsonPath": path}))
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shirts.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "shirts", "kind": "Shirt"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "selectableFields": fields,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {
                            "colour": {"type": "string"}, "size": {"type": "integer"},
                            "long": {"type": "boolean"}, "tags": {"type": "array"},
                        }},
                        "status": {"type": "object", "properties": {
                            "phase": {"type": "string"},
                        }},
                    },
                }},
            }],
        },
    })
}

fn shirt(name: &str, colour: &str, size: i64) -> Value {
    json!({"metadata": {"name": name}, "spec": {"colour": colour, "size": size, "long": true}})
}

async fn defined(fields: &[&str]) -> Kube {
    let kube = Kube::start().await;
    kube.post(DEFINITIONS, &definition(fields)).await.ok();
    for (name, colour, size) in [("a", "red", 1), ("b", "blue", 2), ("c", "red", 2)] {
        kube.post(SHIRTS, &shirt(name, colour, size)).await.ok();
    }
    kube
}

async fn define_again(kube: &Kube, fields: &[&str]) {
    let path = format!("{DEFINITIONS}/shirts.example.com");
    kube.put(&path, &definition(fields)).await.ok();
}

fn selected(selector: &str) -> String {
    let selector = selector.replace('=', "%3D").replace('!', "%21");
    format!("{SHIRTS}?fieldSelector={selector}")
}

#[tokio::test]
async fn lists_select_by_the_fields_of_the_definition() {
    let kube = defined(&[".spec.colour", ".spec.size", ".spec.long", ".status.phase"]).await;
    for (selector, expected) in [
        ("spec.colour=red", &["a", "c"][..]),
        ("spec.colour!=red", &["b"]),
        ("spec.size=2", &["b", "c"]),
        ("spec.colour=red,spec.size=2", &["c"]),
        ("spec.long=true", &["a", "b", "c"]),
        ("status.phase=", &["a", "b", "c"]),
        ("metadata.name=a", &["a"]),
        ("metadata.namespace=default,spec.colour=blue", &["b"]),
        ("spec.colour=green", &[]),
    ] {
        assert_eq!(
            kube.names(&selected(selector)).await,
            expected,
            "{selector}"
        );
    }
    let phase = json!({"status": {"phase": "worn"}});
    kube.put(&format!("{SHIRTS}/a/status"), &phase).await.ok();
    assert_eq!(kube.names(&selected("status.phase=worn")).await, ["a"]);
    for selector in ["spec.tags=x", "spec.nothing=x", "spec=x", "metadata.uid=x"] {
        for suffix in ["", "&watch=1"] {
            let refusal = kube.get(&format!("{}{suffix}", selected(selector))).await;
            assert_eq!(refusal.failure(), refused(400, "BadRequest"), "{selector}");
            let message = refusal.json()["message"].to_string();
            assert!(message.contains("field label not supported"), "{message}");
        }
    }
    // Pages go on by the same selector.
    let first = kube
        .get(&format!("{}&limit=1", selected("spec.colour=red")))
        .await
        .ok();
    let next = first["metadata"]["continue"].as_str().unwrap();
    let rest = format!("{}&limit=1&continue={next}", selected("spec.colour=red"));
    assert_eq!(kube.names(&rest).await, ["c"]);
    // And so does the deletion of all.
    kube.delete(&selected("spec.colour=red")).await.ok();
    assert_eq!(kube.names(SHIRTS).await, ["b"]);
}

#[tokio::test]
async fn objects_that_enter_or_leave_the_selection_are_added_or_deleted() {
    let kube = defined(&[".spec.colour"]).await;
    let mut red = kube
        .watch(&format!("{}&watch=1", selected("spec.colour=red")))
        .await;
    let initial = red.events(2).await;
    assert_eq!(initial, [event("ADDED", "a"), event("ADDED", "c")]);
    let mut others = kube
        .watch(&format!("{}&watch=1", selected("spec.colour!=red")))
        .await;
    assert_eq!(others.event().await, event("ADDED", "b"));
    let path = format!("{SHIRTS}/a");
    kube.put(&path, &shirt("a", "red", 9)).await.ok();
    assert_eq!(red.event().await, event("MODIFIED", "a"));
    let changed = kube.put(&path, &shirt("a", "blue", 9)).await.ok();
    let gone = red.next().await.unwrap();
    assert_eq!(
        (&gone["type"], &gone["object"]["spec"]["colour"]),
        (&json!("DELETED"), &json!("red"))
    );
    assert_eq!(version(&gone["object"]), version(&changed));
    assert_eq!(others.event().await, event("ADDED", "a"));
    kube.put(&path, &shirt("a", "red", 9)).await.ok();
    assert_eq!(red.event().await, event("ADDED", "a"));
    assert_eq!(others.event().await, event("DELETED", "a"));
    kube.delete(&path).await.ok();
    assert_eq!(red.event().await, event("DELETED", "a"));
    kube.delete(&format!("{SHIRTS}/b")).await.ok();
    assert_eq!(others.event().await, event("DELETED", "b"));
}

#[tokio::test]
async fn a_definition_applied_again_changes_what_can_be_selected_by() {
    let kube = defined(&[".spec.colour"]).await;
    let mut red = kube
        .watch(&format!("{}&watch=1", selected("spec.colour=red")))
        .await;
    red.events(2).await;
    assert_eq!(kube.get(&selected("spec.size=2")).await.status, 400);
    // Fields come, change places and go; the objects were read by the old ones.
    define_again(&kube, &[".spec.size", ".spec.colour"]).await;
    assert_eq!(kube.names(&selected("spec.size=2")).await, ["b", "c"]);
    assert_eq!(kube.names(&selected("spec.colour=red")).await, ["a", "c"]);
    let mut large = kube
        .watch(&format!("{}&watch=1", selected("spec.size=2")))
        .await;
    large.events(2).await;
    // What was opened before goes on as it was opened.
    kube.post(SHIRTS, &shirt("d", "red", 2)).await.ok();
    assert_eq!(red.event().await, event("ADDED", "d"));
    assert_eq!(large.event().await, event("ADDED", "d"));
    define_again(&kube, &[".spec.long"]).await;
    assert_eq!(kube.get(&selected("spec.colour=red")).await.status, 400);
    assert_eq!(kube.names(&selected("spec.long=true")).await.len(), 4);
    kube.put(&format!("{SHIRTS}/d"), &shirt("d", "blue", 1))
        .await
        .ok();
    assert_eq!(red.event().await, event("DELETED", "d"));
    assert_eq!(large.event().await, event("DELETED", "d"));
    kube.put(&format!("{SHIRTS}/d"), &shirt("d", "red", 2))
        .await
        .ok();
    assert_eq!(red.event().await, event("ADDED", "d"));
    assert_eq!(large.event().await, event("ADDED", "d"));
    define_again(&kube, &[]).await;
    assert_eq!(kube.get(&selected("spec.long=true")).await.status, 400);
    assert_eq!(kube.names(&selected("metadata.name=d")).await, ["d"]);
}

#[tokio::test]
async fn a_field_that_cannot_be_selected_by_is_refused() {
    let kube = Kube::start().await;
    for fields in [
        &[".spec.tags"][..],
        &[".spec"],
        &[".spec.nothing"],
        &["spec.colour"],
        &[".spec.colour[0]"],
        &[".metadata.name"],
        &[".spec.colour", ".spec.colour"],
        &[".spec.colour"; 9],
    ] {
        let refusal = kube.post(DEFINITIONS, &definition(fields)).await;
        assert_eq!(refusal.failure(), refused(422, "Invalid"), "{fields:?}");
        let causes = refusal.json()["details"]["causes"].to_string();
        assert!(causes.contains("selectableFields"), "{causes}");
    }
    assert_eq!(kube.0.revision(), 0);
}

#[tokio::test]
async fn fields_of_a_definition_are_for_selectors_over_http() {
    let kube = defined(&[".spec.colour"]).await;
    // Over gRPC, fields are those of the server's configuration.
    let selector = v1::Selector {
        collection: "shirts.example.com".into(),
        fields: vec![v1::FieldRequirement {
            path: "spec.colour".into(),
            value: "red".into(),
            ..v1::FieldRequirement::default()
        }],
        ..v1::Selector::default()
    };
    let request = v1::ListRequest {
        selector: Some(selector),
        ..v1::ListRequest::default()
    };
    assert!(kube.0.client.list(request).await.is_err());
    assert_eq!(kube.names(&selected("spec.colour=red")).await, ["a", "c"]);
}
