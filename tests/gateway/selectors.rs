//! Selectors: what lists show of, and watches hear of.

use serde_json::{Value, json};

use super::client::{Kube, PODS, event, refused, version};

fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    let bytes = text.bytes();
    let parts = bytes.map(|b| match plain(b) {
        true => char::from(b).to_string(),
        false => format!("%{b:02X}"),
    });
    parts.collect()
}

#[tokio::test]
async fn label_selectors_have_their_whole_grammar() {
    let kube = Kube::start().await;
    kube.labelled_pod("a", &json!({"app": "web", "tier": "front"}))
        .await;
    kube.labelled_pod("b", &json!({"app": "web"})).await;
    kube.labelled_pod("c", &json!({"app": "db", "x.io/canary": ""}))
        .await;
    for (selector, expected) in [
        ("app=web", &["a", "b"][..]),
        ("app==web", &["a", "b"]),
        ("app!=web", &["c"]),
        ("app in (web, db)", &["a", "b", "c"]),
        ("app notin (web)", &["c"]),
        ("tier", &["a"]),
        ("!tier", &["b", "c"]),
        ("x.io/canary", &["c"]),
        ("x.io/canary=", &["c"]),
        ("app=web,tier!=front", &["b"]),
        ("tier notin (back)", &["a", "b", "c"]),
        ("app=none", &[]),
    ] {
        let path = format!("{PODS}?labelSelector={}", encoded(selector));
        assert_eq!(kube.names(&path).await, expected, "{selector}");
    }
    for selector in [
        "app in web",
        "=x",
        "app=web,",
        "a b",
        "-a=b",
        "app=-",
        "a>1",
    ] {
        let path = format!("{PODS}?labelSelector={}", encoded(selector));
        let refusal = kube.get(&path).await;
        assert_eq!(refusal.failure(), refused(400, "BadRequest"), "{selector}");
        let refusal = kube.get(&format!("{path}&watch=1")).await;
        assert_eq!(refusal.failure(), refused(400, "BadRequest"), "{selector}");
    }
}

#[tokio::test]
async fn field_selectors_name_the_fields_of_the_kind() {
    let kube = Kube::start().await;
    for (name, node) in [("a", "n1"), ("b", "n1"), ("c", "n2")] {
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node}});
        kube.post(PODS, &pod).await.ok();
    }
    let running = json!({"status": {"phase": "Running"}});
    kube.put(&format!("{PODS}/a/status"), &running).await.ok();
    for (selector, expected) in [
        ("metadata.name=a", &["a"][..]),
        ("metadata.name!=a", &["b", "c"]),
        ("metadata.namespace=default", &["a", "b", "c"]),
        ("metadata.namespace=other", &[]),
        ("spec.nodeName=n1", &["a", "b"]),
        ("spec.nodeName=n1,status.phase=Running", &["a"]),
        ("status.phase!=Running", &["b", "c"]),
        ("status.phase=", &["b", "c"]),
    ] {
        for pods in [PODS, "/api/v1/pods"] {
            let path = format!("{pods}?fieldSelector={}", encoded(selector));
            assert_eq!(kube.names(&path).await, expected, "{selector}");
        }
    }
    let events = "/api/v1/namespaces/default/events";
    for (name, pod) in [("e1", "a"), ("e2", "b")] {
        let given = json!({
            "metadata": {"name": name}, "type": "Normal", "reason": "Started",
            "involvedObject": {"kind": "Pod", "name": pod, "namespace": "default"},
        });
        kube.post(events, &given).await.ok();
    }
    let of_a = "involvedObject.name=a,involvedObject.kind=Pod,involvedObject.namespace=default";
    let path = format!("{events}?fieldSelector={}", encoded(of_a));
    assert_eq!(kube.names(&path).await, ["e1"]);
    for selector in [
        "spec.nope=1",
        "metadata.labels.a=b",
        "spec.nodeName",
        "a=b=c",
    ] {
        let path = format!("{PODS}?fieldSelector={}", encoded(selector));
        let refusal = kube.get(&path).await;
        assert_eq!(refusal.failure(), refused(400, "BadRequest"), "{selector}");
    }
}

#[tokio::test]
async fn objects_that_enter_or_leave_a_selector_are_added_or_deleted() {
    let kube = Kube::start().await;
    let pod = kube.labelled_pod("a", &json!({"app": "web"})).await;
    let node = encoded("spec.nodeName=n1");
    let since = version(&pod);
    let by_label = format!("{PODS}?watch=1&resourceVersion={since}&labelSelector=app%3Dweb");
    let by_field = format!("{PODS}?watch=1&resourceVersion={since}&fieldSelector={node}");
    let (mut labels, mut fields) = (kube.watch(&by_label).await, kube.watch(&by_field).await);
    let path = format!("{PODS}/a");
    let change = async |labels: Value, node: &str| {
        let pod = json!({"metadata": {"labels": labels}, "spec": {"nodeName": node}});
        kube.put(&path, &pod).await.ok()
    };
    change(json!({"app": "web"}), "n1").await;
    assert_eq!(labels.event().await, event("MODIFIED", "a"));
    assert_eq!(fields.event().await, event("ADDED", "a"));
    let moved = change(json!({"app": "db"}), "n1").await;
    let gone = labels.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    // As it was when it last matched, at the version that took it away.
    assert_eq!(gone["object"]["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(version(&gone["object"]), version(&moved));
    assert_eq!(fields.event().await, event("MODIFIED", "a"));
    change(json!({"app": "web"}), "n2").await;
    assert_eq!(labels.event().await, event("ADDED", "a"));
    assert_eq!(fields.event().await, event("DELETED", "a"));
    kube.delete(&path).await.ok();
    assert_eq!(labels.event().await, event("DELETED", "a"));
    // Nothing to those who saw it go already.
    let pod = json!({"metadata": {"name": "b"}, "spec": {"nodeName": "n1"}});
    kube.post(PODS, &pod).await.ok();
    assert_eq!(fields.event().await, event("ADDED", "b"));
}
