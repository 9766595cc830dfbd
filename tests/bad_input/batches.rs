//! Batches that cannot be done as a whole.

use listwatch::v1::{self, batch_operation::Kind};

use super::Bed;
use crate::harness::{key, resource};

fn create(name: &str) -> v1::CreateRequest {
    v1::CreateRequest {
        resource: Some(resource("pods", name, "x", &[])),
        ..v1::CreateRequest::default()
    }
}

fn update(name: &str) -> v1::UpdateRequest {
    v1::UpdateRequest {
        resource: Some(resource("pods", name, "x", &[])),
        ..v1::UpdateRequest::default()
    }
}

fn delete(name: &str) -> v1::DeleteRequest {
    v1::DeleteRequest {
        key: Some(key("pods", name)),
        ..v1::DeleteRequest::default()
    }
}

fn check(name: &str, revision: i64) -> v1::CheckRevision {
    v1::CheckRevision {
        key: Some(key("pods", name)),
        revision,
    }
}

fn batch(kinds: impl IntoIterator<Item = Kind>) -> v1::BatchRequest {
    let operation = |kind| v1::BatchOperation { kind: Some(kind) };
    v1::BatchRequest {
        operations: kinds.into_iter().map(operation).collect(),
        ..v1::BatchRequest::default()
    }
}

#[tokio::test]
async fn an_operation_without_a_kind_is_refused() {
    let bed = Bed::new().await;
    let mut request = batch([Kind::Create(create("new"))]);
    request.operations.push(v1::BatchOperation { kind: None });
    bed.refuses(request, "operations[1].kind").await;
}

#[tokio::test]
async fn an_operation_without_its_message_is_refused_by_its_path() {
    let bed = Bed::new().await;
    let table = [
        (
            Kind::Create(v1::CreateRequest::default()),
            "create.resource",
        ),
        (
            Kind::Update(v1::UpdateRequest::default()),
            "update.resource",
        ),
        (Kind::Delete(v1::DeleteRequest::default()), "delete.key"),
        (Kind::Check(v1::CheckRevision::default()), "check.key"),
    ];
    for (kind, path) in table {
        bed.refuses(batch([kind]), &format!("operations[0].{path}"))
            .await;
    }
}

#[tokio::test]
async fn a_key_may_stand_in_a_batch_once() {
    let bed = Bed::new().await;
    let again = [
        Kind::Create(create("a")),
        Kind::Update(update("a")),
        Kind::Delete(delete("a")),
        Kind::Check(check("a", 4)),
    ];
    for first in &again {
        for second in &again {
            let between = Kind::Create(create("new"));
            let request = batch([first.clone(), between, second.clone()]);
            bed.refuses(request, "operations[2].key").await;
        }
    }
    // The same name elsewhere is another key.
    let mut other_namespace = create("a");
    other_namespace
        .resource
        .as_mut()
        .unwrap()
        .key
        .as_mut()
        .unwrap()
        .namespace = "other".into();
    let mut other_collection = create("a");
    other_collection
        .resource
        .as_mut()
        .unwrap()
        .key
        .as_mut()
        .unwrap()
        .collection = "other".into();
    let request = batch([
        Kind::Update(update("a")),
        Kind::Create(other_namespace),
        Kind::Create(other_collection),
    ]);
    bed.accepts(request).await;
}

#[tokio::test]
async fn an_operation_inside_a_batch_has_no_request_id_of_its_own() {
    let bed = Bed::new().await;
    let id = || "id".to_owned();
    let table = [
        (
            Kind::Create(v1::CreateRequest {
                request_id: id(),
                ..create("new")
            }),
            "create",
        ),
        (
            Kind::Update(v1::UpdateRequest {
                request_id: id(),
                ..update("a")
            }),
            "update",
        ),
        (
            Kind::Delete(v1::DeleteRequest {
                request_id: id(),
                ..delete("a")
            }),
            "delete",
        ),
    ];
    for (kind, part) in table {
        bed.refuses(batch([kind]), &format!("operations[0].{part}.request_id"))
            .await;
    }
}

#[tokio::test]
async fn allow_missing_and_if_revision_exclude_each_other_in_an_update() {
    let bed = Bed::new().await;
    for (name, if_revision) in [("a", 4), ("a", 1), ("nobody", 1)] {
        let both = v1::UpdateRequest {
            if_revision: Some(if_revision),
            allow_missing: true,
            ..update(name)
        };
        bed.refuses(both.clone(), "allow_missing").await;
        let request = batch([Kind::Update(both)]);
        bed.refuses(request, "operations[0].update.allow_missing")
            .await;
    }
}

#[tokio::test]
async fn if_uid_must_look_like_a_uid() {
    let bed = Bed::new().await;
    for uid in [
        "",
        "x",
        "00000000-0000-0000-0000-00000000000",
        "00000000-0000-0000-0000-0000000000000",
        "00000000-0000-0000-0000-00000000000G",
        "00000000-0000-0000-0000-00000000000A",
        "000000000000-0000-0000-0000-00000000",
        "ééééééééé-éééé-éééé",
    ] {
        let request = v1::DeleteRequest {
            if_uid: Some(uid.into()),
            ..delete("a")
        };
        bed.refuses(request.clone(), "if_uid").await;
        bed.refuses(
            batch([Kind::Delete(request)]),
            "operations[0].delete.if_uid",
        )
        .await;
    }
}
