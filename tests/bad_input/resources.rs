//! What a write may hold: labels, content type, deadlines, request ids.

use std::time::{Duration, SystemTime};

use listwatch::v1::{self, batch_operation::Kind};

use super::{Bed, Call};
use crate::harness::{key, resource};

/// Every request that writes this resource, and the path of the resource's message.
fn writes(resource: &v1::Resource, ttl: Option<prost_types::Duration>) -> Vec<(Call, String)> {
    let create = v1::CreateRequest {
        resource: Some(resource.clone()),
        ttl,
        ..v1::CreateRequest::default()
    };
    let update = v1::UpdateRequest {
        resource: Some(resource.clone()),
        allow_missing: true,
        ttl,
        ..v1::UpdateRequest::default()
    };
    let batch = |kind| v1::BatchRequest {
        operations: vec![v1::BatchOperation { kind: Some(kind) }],
        ..v1::BatchRequest::default()
    };
    vec![
        (create.clone().into(), String::new()),
        (update.clone().into(), String::new()),
        (
            batch(Kind::Create(create)).into(),
            "operations[0].create.".into(),
        ),
        (
            batch(Kind::Update(update)).into(),
            "operations[0].update.".into(),
        ),
    ]
}

fn new(name: &str) -> v1::Resource {
    resource("pods", name, "x", &[])
}

fn labelled(label: &str, value: &str) -> v1::Resource {
    resource("pods", "new", "x", &[(label, value)])
}

#[tokio::test]
async fn label_keys_are_those_of_kubernetes() {
    let bed = Bed::new().await;
    for label in [
        "", "/", "a/", "/a", "-a", "a-", "_a", ".a", "a b", "a/b/c", "A/b", "-x/b", "x-/b",
        "x_y/b", "é", "a\0", "a\n", "a:b", "ä/b",
    ] {
        for (call, path) in writes(&labelled(label, "v"), None) {
            bed.refuses(call, &format!("{path}resource.labels")).await;
        }
    }
    let long_name = "a".repeat(64);
    let long_prefix = format!("{}/a", "p".repeat(254));
    for (label, limit, size) in [(long_name, 63, 64), (long_prefix, 253, 254)] {
        for (call, path) in writes(&labelled(&label, "v"), None) {
            let field = format!("{path}resource.labels");
            bed.refuses_size(call, &field, limit, size).await;
        }
    }
    let longest = format!("{}/{}", "p".repeat(253), "n".repeat(63));
    for (call, _) in writes(&labelled(&longest, "v"), None)
        .into_iter()
        .skip(1)
        .take(1)
    {
        bed.accepts(call).await;
    }
}

#[tokio::test]
async fn label_values_are_short_text() {
    let bed = Bed::new().await;
    for value in ["a\nb", "\0", "\u{7f}", "tab\t", "\u{85}"] {
        for (call, path) in writes(&labelled("app", value), None) {
            bed.refuses(call, &format!("{path}resource.labels")).await;
        }
    }
    for (call, path) in writes(&labelled("app", &"v".repeat(254)), None) {
        let field = format!("{path}resource.labels");
        bed.refuses_size(call, &field, 253, 254).await;
    }
    for value in ["", "日本語", "two words", &"v".repeat(253)] {
        let (call, _) = writes(&labelled("app", value), None).swap_remove(1);
        bed.accepts(call).await;
    }
}

#[tokio::test]
async fn an_object_has_at_most_64_labels() {
    let bed = Bed::new().await;
    let with = |count: usize| v1::Resource {
        labels: (0..count).map(|n| (format!("l{n}"), "v".into())).collect(),
        ..new("new")
    };
    for (call, path) in writes(&with(65), None) {
        let field = format!("{path}resource.labels");
        bed.refuses_size(call, &field, 64, 65).await;
    }
    bed.accepts(writes(&with(64), None).swap_remove(0).0).await;
}

#[tokio::test]
async fn a_content_type_is_short_printable_ascii() {
    let bed = Bed::new().await;
    let with = |text: &str| v1::Resource {
        content_type: text.into(),
        ..new("new")
    };
    for text in ["a\nb", "\0", "é", "text/plain\u{7f}"] {
        for (call, path) in writes(&with(text), None) {
            bed.refuses(call, &format!("{path}resource.content_type"))
                .await;
        }
    }
    for (call, path) in writes(&with(&"t".repeat(256)), None) {
        let field = format!("{path}resource.content_type");
        bed.refuses_size(call, &field, 255, 256).await;
    }
    for text in ["", "application/json; charset=utf-8", &"t".repeat(255)] {
        bed.accepts(writes(&with(text), None).swap_remove(1).0)
            .await;
    }
}

#[tokio::test]
async fn a_ttl_is_positive_and_at_most_ten_years() {
    let bed = Bed::new().await;
    let ttl = |seconds, nanos| prost_types::Duration { seconds, nanos };
    let ten_years = 10 * 365 * 24 * 3600;
    for bad in [
        ttl(0, 0),
        ttl(-1, 0),
        ttl(0, -1),
        ttl(-1, -1),
        ttl(1, -2_000_000_000),
        ttl(i64::MIN, 0),
        ttl(i64::MIN, i32::MIN),
        ttl(ten_years, 1),
        ttl(ten_years + 1, 0),
        ttl(i64::MAX, 0),
        ttl(i64::MAX, i32::MAX),
    ] {
        for (call, path) in writes(&new("new"), Some(bad)) {
            bed.refuses(call, &format!("{path}ttl")).await;
        }
    }
    // Signs that disagree, and nanos out of range, are no Duration at all.
    for bad in [
        ttl(1, -1),
        ttl(1, 1_000_000_000),
        ttl(1, i32::MAX),
        ttl(60, i32::MIN),
    ] {
        for (call, path) in writes(&new("new"), Some(bad)) {
            bed.refuses(call, &format!("{path}ttl")).await;
        }
    }
    for good in [ttl(1, 0), ttl(0, 999_999_999), ttl(ten_years, 0)] {
        bed.accepts(writes(&new("new"), Some(good)).swap_remove(1).0)
            .await;
    }
}

#[tokio::test]
async fn an_expire_time_is_a_time_in_the_coming_ten_years() {
    let bed = Bed::new().await;
    let at = |seconds, nanos| v1::Resource {
        expire_time: Some(prost_types::Timestamp { seconds, nanos }),
        ..new("new")
    };
    let since_1970 = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        since.unwrap().as_secs() as i64
    };
    let now = since_1970(SystemTime::now());
    let day = 24 * 3600;
    for bad in [
        at(0, 0),
        at(-1, 0),
        at(now - 1, 0),
        at(now + 3651 * day, 0),
        at(i64::MIN, 0),
        at(i64::MAX, 0),
        at(i64::MAX, i32::MAX),
        at(i64::MIN, i32::MIN),
        // Not in a Timestamp's range, or not normal.
        at(now + day, -1),
        at(now + day, 1_000_000_000),
        at(now + day, i32::MAX),
        at(now + day, i32::MIN),
    ] {
        for (call, path) in writes(&bad, None) {
            bed.refuses(call, &format!("{path}resource.expire_time"))
                .await;
        }
    }
    let ahead = since_1970(SystemTime::now() + Duration::from_secs(3600));
    bed.accepts(writes(&at(ahead, 5), None).swap_remove(0).0)
        .await;
}

/// Every write with a request id.
fn with_id(id: &str) -> [Call; 4] {
    let id = id.to_owned();
    [
        v1::CreateRequest {
            resource: Some(new("new")),
            request_id: id.clone(),
            ..v1::CreateRequest::default()
        }
        .into(),
        v1::UpdateRequest {
            resource: Some(new("a")),
            request_id: id.clone(),
            ..v1::UpdateRequest::default()
        }
        .into(),
        v1::DeleteRequest {
            key: Some(key("pods", "b")),
            request_id: id.clone(),
            ..v1::DeleteRequest::default()
        }
        .into(),
        v1::BatchRequest {
            operations: vec![v1::BatchOperation {
                kind: Some(Kind::Check(v1::CheckRevision {
                    key: Some(key("pods", "nobody")),
                    revision: 0,
                })),
            }],
            request_id: id,
        }
        .into(),
    ]
}

#[tokio::test]
async fn a_request_id_is_short_text_without_control_characters() {
    let bed = Bed::new().await;
    for id in ["a\nb", "\0", "\u{7f}", "\u{9f}"] {
        for call in with_id(id) {
            bed.refuses(call, "request_id").await;
        }
    }
    for call in with_id(&"i".repeat(129)) {
        bed.refuses_size(call, "request_id", 128, 129).await;
    }
    for (n, call) in with_id("").into_iter().enumerate() {
        let call = match call {
            Call::Create(request) => Call::Create(v1::CreateRequest {
                request_id: "i".repeat(128),
                ..request
            }),
            Call::Update(request) => Call::Update(v1::UpdateRequest {
                request_id: "ø".repeat(64),
                ..request
            }),
            other => other,
        };
        bed.accepts(call).await;
        assert!(n < 4);
    }
}

#[tokio::test]
async fn a_request_id_is_refused_for_any_other_request() {
    let bed = Bed::new().await;
    bed.accepts(with_id("mine")[0].clone()).await;
    // Other methods, and the same method with something else in it.
    let [_, update, delete, batch] = with_id("mine");
    let other_value = v1::CreateRequest {
        resource: Some(resource("pods", "new", "other", &[])),
        request_id: "mine".into(),
        ..v1::CreateRequest::default()
    };
    let other_ttl = v1::CreateRequest {
        resource: Some(new("new")),
        ttl: Some(prost_types::Duration {
            seconds: 60,
            nanos: 0,
        }),
        request_id: "mine".into(),
    };
    for call in [update, delete, batch, other_value.into(), other_ttl.into()] {
        bed.refuses_as("REQUEST_ID_REUSED", call, "request_id")
            .await;
    }
    bed.accepts(with_id("mine")[0].clone()).await;
    bed.accepts(with_id("another")[1].clone()).await;
}
