//! Keys and selectors that name nothing.

use listwatch::v1::{self, batch_operation::Kind};

use super::{Bed, Call};

struct BadKey {
    collection: String,
    namespace: String,
    name: String,
    /// The part at fault.
    part: &'static str,
    /// The limit that it exceeds, if that is its fault.
    limit: Option<usize>,
}

fn bad_keys() -> Vec<BadKey> {
    let mut bad = Vec::new();
    let mut add = |part, text: &str, limit| {
        let or = |this, other: &str| {
            if part == this {
                text.to_owned()
            } else {
                other.to_owned()
            }
        };
        bad.push(BadKey {
            collection: or("collection", "pods"),
            namespace: or("namespace", "default"),
            name: or("name", "a"),
            part,
            limit,
        });
    };
    for text in [
        "", "Pods", "pods_", "-pods", "pods-", ".pods", "pods.", "po ds", "po/ds", "po:ds", "pöds",
        "pods\0", "pods\n", "日本",
    ] {
        add("collection", text, None);
    }
    add("collection", &"p".repeat(254), Some(253));
    add("collection", &"p".repeat(100_000), Some(253));
    for text in [
        "Default", "a.b", "a_b", "-a", "a-", "a b", "a/b", "ä", "a\0", "\n",
    ] {
        add("namespace", text, None);
    }
    add("namespace", &"n".repeat(64), Some(63));
    for text in [
        "",
        "-a",
        "a-",
        "_a",
        "a_",
        ".",
        "..",
        "a.",
        ":a",
        "a:",
        "a b",
        "a/b",
        "a\\b",
        "a*",
        "a%b",
        "ä",
        "a\0b",
        "a\nb",
        "\u{200b}a",
        "a\u{202e}b",
    ] {
        add("name", text, None);
    }
    add("name", &"n".repeat(254), Some(253));
    // 200 characters, but 400 bytes: the limit is one of bytes.
    add("name", &"é".repeat(200), Some(253));
    bad
}

/// Every request that takes a key, and the path of the key within it.
fn with_key(key: Option<v1::Key>) -> Vec<(Call, String)> {
    let resource = Some(v1::Resource {
        key: key.clone(),
        ..v1::Resource::default()
    });
    let create = v1::CreateRequest {
        resource: resource.clone(),
        ..v1::CreateRequest::default()
    };
    let update = v1::UpdateRequest {
        resource,
        allow_missing: true,
        ..v1::UpdateRequest::default()
    };
    let delete = v1::DeleteRequest {
        key: key.clone(),
        allow_missing: true,
        ..v1::DeleteRequest::default()
    };
    let get = v1::GetRequest {
        key: key.clone(),
        ..v1::GetRequest::default()
    };
    let check = v1::CheckRevision { key, revision: 0 };
    let batch = |kind, path: &str| {
        // Behind one that could be done, which must then not be done.
        let fine = v1::CreateRequest {
            resource: Some(crate::harness::resource("pods", "fine", "", &[])),
            ..v1::CreateRequest::default()
        };
        let operations = [Kind::Create(fine), kind]
            .map(|kind| v1::BatchOperation { kind: Some(kind) })
            .to_vec();
        let batch = v1::BatchRequest {
            operations,
            ..v1::BatchRequest::default()
        };
        (batch.into(), format!("operations[1].{path}"))
    };
    vec![
        (get.into(), "key".into()),
        (create.clone().into(), "resource.key".into()),
        (update.clone().into(), "resource.key".into()),
        (delete.clone().into(), "key".into()),
        batch(Kind::Create(create), "create.resource.key"),
        batch(Kind::Update(update), "update.resource.key"),
        batch(Kind::Delete(delete), "delete.key"),
        batch(Kind::Check(check), "check.key"),
    ]
}

/// Every request that takes a selector.
fn with_selector(selector: Option<v1::Selector>) -> [Call; 2] {
    let list = v1::ListRequest {
        selector: selector.clone(),
        ..v1::ListRequest::default()
    };
    let watch = v1::WatchRequest {
        selector,
        ..v1::WatchRequest::default()
    };
    [list.into(), watch.into()]
}

#[tokio::test]
async fn every_request_with_a_key_refuses_an_empty_long_or_ill_formed_one() {
    let bed = Bed::new().await;
    for bad in bad_keys() {
        let key = v1::Key {
            collection: bad.collection.clone(),
            namespace: bad.namespace.clone(),
            name: bad.name.clone(),
        };
        let size = match bad.part {
            "collection" => bad.collection.len(),
            "namespace" => bad.namespace.len(),
            _ => bad.name.len(),
        };
        for (call, path) in with_key(Some(key.clone())) {
            let field = format!("{path}.{}", bad.part);
            match bad.limit {
                Some(limit) => bed.refuses_size(call, &field, limit, size).await,
                None => bed.refuses(call, &field).await,
            }
        }
    }
}

#[tokio::test]
async fn every_request_with_a_key_refuses_to_go_without() {
    let bed = Bed::new().await;
    for (call, path) in with_key(None) {
        bed.refuses(call, &path).await;
    }
    for (call, path) in with_key(Some(v1::Key::default())) {
        bed.refuses(call, &format!("{path}.collection")).await;
    }
}

#[tokio::test]
async fn every_request_with_a_selector_refuses_an_ill_formed_one() {
    let bed = Bed::new().await;
    for bad in bad_keys() {
        // In a selector, an empty name matches all.
        if bad.part == "name" && bad.name.is_empty() {
            continue;
        }
        let size = match bad.part {
            "collection" => bad.collection.len(),
            "namespace" => bad.namespace.len(),
            _ => bad.name.len(),
        };
        let field = format!("selector.{}", bad.part);
        let selector = v1::Selector {
            collection: bad.collection,
            namespace: bad.namespace,
            name: bad.name,
            ..v1::Selector::default()
        };
        for call in with_selector(Some(selector)) {
            match bad.limit {
                Some(limit) => bed.refuses_size(call, &field, limit, size).await,
                None => bed.refuses(call, &field).await,
            }
        }
    }
    for call in with_selector(None) {
        bed.refuses(call, "selector").await;
    }
}

#[tokio::test]
async fn a_name_prefix_must_begin_a_name() {
    let bed = Bed::new().await;
    let with = |prefix: &str, name: &str| {
        with_selector(Some(v1::Selector {
            collection: "pods".into(),
            name: name.into(),
            name_prefix: prefix.into(),
            ..v1::Selector::default()
        }))
    };
    for prefix in ["-", ".a", "a b", "a/", "ä", "a\0", "a\n-", "*"] {
        for call in with(prefix, "") {
            bed.refuses(call, "selector.name_prefix").await;
        }
    }
    let long = "p".repeat(254);
    for call in with(&long, "") {
        bed.refuses_size(call, "selector.name_prefix", 253, 254)
            .await;
    }
    for call in with("a", "a") {
        bed.refuses(call, "selector.name_prefix").await;
    }
    // The beginning of a name need not end as a whole one does.
    for prefix in ["a", "a-", "a.", "a:", "a_", "A", &"p".repeat(253)] {
        for call in with(prefix, "") {
            bed.accepts(call).await;
        }
    }
}

#[tokio::test]
async fn keys_at_the_limits_are_taken() {
    let bed = Bed::new().await;
    let longest = v1::Key {
        collection: "c".repeat(253),
        namespace: "n".repeat(63),
        name: "N".repeat(253),
    };
    let shortest = v1::Key {
        collection: "c".into(),
        namespace: String::new(),
        name: "0".into(),
    };
    // As Kubernetes has them, RBAC's names too.
    let usual = v1::Key {
        collection: "clusterroles.rbac.authorization.k8s.io".into(),
        namespace: String::new(),
        name: "system:controller:job-controller".into(),
    };
    for key in [longest, shortest, usual] {
        let resource = v1::Resource {
            key: Some(key.clone()),
            ..v1::Resource::default()
        };
        let create = v1::CreateRequest {
            resource: Some(resource),
            ..v1::CreateRequest::default()
        };
        bed.accepts(create).await;
        let get = v1::GetRequest {
            key: Some(key.clone()),
            ..v1::GetRequest::default()
        };
        bed.accepts(get).await;
        for call in with_selector(Some(v1::Selector {
            collection: key.collection,
            namespace: key.namespace,
            name: key.name,
            ..v1::Selector::default()
        })) {
            bed.accepts(call).await;
        }
    }
}
