//! Bad input: the Status that kube-apiserver gives, and nothing changed.

use http::Method;
use listwatch_server::{ServerOptions, ServiceOptions};
use serde_json::json;

use super::client::{CONFIG_MAPS, Kube, PODS, refused};

#[tokio::test]
async fn what_is_no_object_of_the_kind_is_refused_and_nothing_is_written() {
    let kube = Kube::start().await;
    let map = kube.config_map("a").await;
    let before = kube.0.revision();
    let path = format!("{CONFIG_MAPS}/a");
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let other_name = json!({"metadata": {"name": "b"}}).to_string();
    for body in [
        "",
        "{",
        "nonsense",
        "[]",
        "3",
        "null",
        "\"text\"",
        "{\"metadata\":{\"name\":\"b\"}} trailing",
        "{\"metadata\":[]}",
        "{\"metadata\":{\"name\":3}}",
        "{\"metadata\":{\"name\":\"b\",\"labels\":{\"a\":1}}}",
        "{\"metadata\":{\"name\":\"b\",\"labels\":[]}}",
        "{\"metadata\":{\"name\":\"b\",\"finalizers\":\"x\"}}",
        "{\"metadata\":{\"name\":\"b\",\"creationTimestamp\":\"yesterday\"}}",
        "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"b\"}}",
        "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v2\",\"metadata\":{\"name\":\"b\"}}",
        "{\"kind\":4,\"metadata\":{\"name\":\"b\"}}",
        "{\"metadata\":{\"name\":\"b\",\"namespace\":\"other\"}}",
        "{\"metadata\":{\"name\":\"b\",\"resourceVersion\":\"3\"}}",
        deep.as_str(),
        "\u{feff}{}",
    ] {
        let refusal = kube
            .ask(Method::POST, CONFIG_MAPS, &[], body.to_owned())
            .await;
        let short: String = body.chars().take(60).collect();
        assert_eq!(refusal.failure(), refused(400, "BadRequest"), "{short}");
    }
    let refusal = kube.ask(Method::PUT, &path, &[], other_name).await;
    assert_eq!(refusal.failure(), refused(400, "BadRequest"));
    let not_text = vec![0xff, 0xfe, b'{', b'}'];
    let refusal = kube.ask(Method::POST, CONFIG_MAPS, &[], not_text).await;
    assert_eq!(refusal.failure(), refused(400, "BadRequest"));
    assert_eq!(kube.0.revision(), before);
    assert_eq!(kube.get(&path).await.ok(), map);
}

#[tokio::test]
async fn what_breaks_a_rule_is_invalid_with_its_causes_and_nothing_is_written() {
    let kube = Kube::start().await;
    let long = "x".repeat(300);
    let many: serde_json::Map<_, _> = (0..100).map(|n| (format!("l{n}"), json!("v"))).collect();
    for (metadata, field) in [
        (json!({}), "metadata.name"),
        (json!({"name": ""}), "metadata.name"),
        (json!({"name": "Upper"}), "metadata.name"),
        (json!({"name": "a/b"}), "metadata.name"),
        (json!({"name": "-a"}), "metadata.name"),
        (json!({"name": long}), "metadata.name"),
        (json!({"generateName": "Upper-"}), "metadata.generateName"),
        (
            json!({"name": "b", "labels": {"-a": "b"}}),
            "metadata.labels",
        ),
        (
            json!({"name": "b", "labels": {"a": long}}),
            "metadata.labels",
        ),
        (
            json!({"name": "b", "labels": {"a": "b c"}}),
            "metadata.labels",
        ),
        (json!({"name": "b", "labels": many}), "metadata.labels"),
        (
            json!({"name": "b", "annotations": {"a b": "c"}}),
            "metadata.annotations",
        ),
        (
            json!({"name": "b", "annotations": {"a": "x".repeat(300_000)}}),
            "metadata.annotations",
        ),
        (
            json!({"name": "b", "finalizers": ["a b"]}),
            "metadata.finalizers[0]",
        ),
    ] {
        let refusal = kube.post(CONFIG_MAPS, &json!({"metadata": metadata})).await;
        assert_eq!(refusal.failure(), refused(422, "Invalid"), "{field}");
        let status = refusal.json();
        assert_eq!(status["details"]["kind"], "ConfigMap");
        let causes = status["details"]["causes"].as_array().unwrap();
        assert!(
            causes.iter().any(|cause| cause["field"] == field),
            "{status}"
        );
    }
    let named = json!({"metadata": {"name": "a"}});
    let refusal = kube.post("/api/v1/namespaces/Upper/pods", &named).await;
    assert_eq!(refusal.failure(), refused(422, "Invalid"));
    assert_eq!(kube.0.revision(), 0);
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let service = ServiceOptions {
        max_object_bytes: 10_000,
        ..ServiceOptions::default()
    };
    let kube = Kube::with(ServerOptions {
        service,
        ..ServerOptions::default()
    })
    .await;
    let map = |bytes| json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(bytes)}});
    let refusal = kube.post(CONFIG_MAPS, &map(11_000)).await;
    assert_eq!(refusal.failure(), refused(413, "RequestEntityTooLarge"));
    let refusal = kube.post(CONFIG_MAPS, &map(8_000_000)).await;
    assert_eq!(refusal.failure(), refused(413, "RequestEntityTooLarge"));
    assert_eq!(kube.0.revision(), 0);
    kube.post(CONFIG_MAPS, &map(9_000)).await.ok();
    let query = "x".repeat(40_000);
    let refusal = kube.get(&format!("{PODS}?labelSelector={query}")).await;
    assert_eq!(refusal.failure(), refused(400, "BadRequest"));
}

#[tokio::test]
async fn paths_methods_and_formats_that_there_are_not_get_a_status() {
    let kube = Kube::start().await;
    kube.config_map("a").await;
    let named = format!("{CONFIG_MAPS}/a");
    for path in [
        "/api/v1/nothing",
        "/api/v9/pods",
        "/apis/none.io/v1/things",
        "/api/v1/namespaces/default/pods/a/log",
        "/api/v1/pods/a",
        "/apis/apps/v1/namespaces/default/deployments/d/status/x",
    ] {
        assert_eq!(
            kube.get(path).await.failure(),
            refused(404, "NotFound"),
            "{path}"
        );
    }
    for (method, path) in [
        (Method::PUT, CONFIG_MAPS),
        (Method::POST, named.as_str()),
        (Method::HEAD, CONFIG_MAPS),
        (Method::OPTIONS, named.as_str()),
        (Method::POST, "/api/v1/configmaps"),
        (Method::DELETE, "/api/v1/namespaces"),
    ] {
        let answer = kube.ask(method.clone(), path, &[], "{}").await;
        assert_eq!(answer.status, 405, "{method} {path}");
        if method != Method::HEAD {
            assert_eq!(answer.failure(), refused(405, "MethodNotAllowed"));
        }
    }
    let headers = [("content-type", "text/plain")];
    let refusal = kube.ask(Method::POST, CONFIG_MAPS, &headers, "{}").await;
    assert_eq!(refusal.failure(), refused(415, "UnsupportedMediaType"));
    let message = refusal.json()["message"].to_string();
    assert!(
        message.contains("application/vnd.kubernetes.protobuf"),
        "{message}"
    );
    for (query, code) in [("fieldValidation=Maybe", 422), ("dryRun=x", 422)] {
        let map = json!({"metadata": {"name": "b"}});
        let refusal = kube.post(&format!("{CONFIG_MAPS}?{query}"), &map).await;
        assert_eq!(refusal.failure().0, code, "{query}");
    }
    // gRPC is not in the way.
    assert_eq!(kube.0.list("configmaps").await.resources.len(), 1);
}

#[tokio::test]
async fn fields_that_a_kind_does_not_have_are_dropped_told_or_refused_as_the_client_wishes() {
    let kube = Kube::start().await;
    let map = |name: &str| json!({"metadata": {"name": name}, "data": {"k": "v"}, "datum": 1});
    let path = |validation| format!("{CONFIG_MAPS}?fieldValidation={validation}&fieldManager=test");
    let refusal = kube.post(&path("Strict"), &map("a")).await;
    assert_eq!(refusal.failure(), refused(400, "BadRequest"));
    let message = refusal.json()["message"].to_string();
    assert!(
        message.contains("unknown field") && message.contains("datum"),
        "{message}"
    );
    assert_eq!(kube.0.revision(), 0);
    for (validation, warns) in [("Warn", true), ("", true), ("Ignore", false)] {
        let name = format!("a{}", validation.to_lowercase());
        let made = kube.post(&path(validation), &map(&name)).await;
        assert_eq!(made.headers.contains_key("warning"), warns, "{validation}");
        let made = made.ok();
        assert_eq!(made.get("datum"), None);
        let changed = kube
            .put(&format!("{CONFIG_MAPS}/{name}"), &map(&name))
            .await;
        assert!(
            changed.headers["warning"]
                .to_str()
                .unwrap()
                .contains("datum")
        );
        assert_eq!(changed.ok(), made);
        let patch = json!({"datum": 2});
        let strict = format!("{CONFIG_MAPS}/{name}?fieldValidation=Strict");
        let patched = kube
            .patch(&strict, "application/merge-patch+json", &patch)
            .await;
        assert_eq!(patched.failure(), refused(400, "BadRequest"));
    }
}
