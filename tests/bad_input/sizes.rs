//! Values at the limit, over it, and far over it.

use listwatch::v1::{self, batch_operation::Kind};
use listwatch_server::{ServerOptions, ServiceOptions, limits, store::StoreOptions};

use super::{Bed, metadata};
use crate::harness::{Harness, reason, resource};

const MAX_OBJECT_BYTES: usize = 1000;

async fn small() -> Bed {
    let service = ServiceOptions {
        max_object_bytes: MAX_OBJECT_BYTES,
        max_batch_operations: 5,
        ..ServiceOptions::default()
    };
    let options = ServerOptions {
        service,
        ..ServerOptions::default()
    };
    Bed::on(Harness::with(options, StoreOptions::default()).await).await
}

fn value(name: &str, bytes: usize) -> v1::Resource {
    v1::Resource {
        value: vec![b'x'; bytes].into(),
        ..resource("pods", name, "", &[])
    }
}

fn create(name: &str, bytes: usize) -> v1::CreateRequest {
    v1::CreateRequest {
        resource: Some(value(name, bytes)),
        ..v1::CreateRequest::default()
    }
}

fn update(name: &str, bytes: usize) -> v1::UpdateRequest {
    v1::UpdateRequest {
        resource: Some(value(name, bytes)),
        allow_missing: true,
        ..v1::UpdateRequest::default()
    }
}

fn batch(kinds: Vec<Kind>) -> v1::BatchRequest {
    let operation = |kind| v1::BatchOperation { kind: Some(kind) };
    v1::BatchRequest {
        operations: kinds.into_iter().map(operation).collect(),
        ..v1::BatchRequest::default()
    }
}

#[tokio::test]
async fn a_value_may_be_as_large_as_the_limit_and_not_a_byte_larger() {
    let bed = small().await;
    let (most, over) = (MAX_OBJECT_BYTES, MAX_OBJECT_BYTES + 1);
    bed.refuses_size(create("new", over), "resource.value", most, over)
        .await;
    bed.refuses_size(update("a", over), "resource.value", most, over)
        .await;
    let in_batch = batch(vec![
        Kind::Create(create("n", 1)),
        Kind::Create(create("m", over)),
    ]);
    bed.refuses_size(in_batch, "operations[1].create.resource.value", most, over)
        .await;
    let in_batch = batch(vec![Kind::Update(update("a", over))]);
    bed.refuses_size(in_batch, "operations[0].update.resource.value", most, over)
        .await;
    bed.accepts(create("new", most)).await;
    bed.accepts(update("a", most)).await;
    bed.accepts(batch(vec![Kind::Create(create("m", most))]))
        .await;
}

#[tokio::test]
async fn the_default_limit_of_a_value_is_one_and_a_half_mebibytes() {
    let bed = Bed::new().await;
    let most = 1536 * 1024;
    bed.refuses_size(create("new", most + 1), "resource.value", most, most + 1)
        .await;
    bed.accepts(create("new", most)).await;
    let read = bed.harness.list("pods").await.resources;
    let new = read.iter().find(|r| r.key.as_ref().unwrap().name == "new");
    assert_eq!(new.unwrap().value.len(), most);
}

/// Also far above what is decoded at all, where the transport would otherwise answer in
/// its own words (RESOURCE_EXHAUSTED or OUT_OF_RANGE, which mean something else here).
#[tokio::test]
async fn a_request_above_the_decode_limit_is_too_large_as_well() {
    let bed = Bed::new().await;
    let limit = 2 * limits::MAX_BATCH_BYTES;
    for bytes in [limit + 1, 20 << 20] {
        let status = bed.fails(create("new", bytes)).await;
        assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status:?}");
        assert_eq!(reason(&status), "TOO_LARGE");
        assert_eq!(metadata(&status, "field"), "request");
        assert_eq!(metadata(&status, "limit"), limit.to_string());
        let size: usize = metadata(&status, "size").parse().unwrap();
        assert!(size > bytes && size < bytes + 200, "{size}");
    }
}

#[tokio::test]
async fn a_batch_has_a_limited_number_of_operations() {
    let bed = small().await;
    let of = |count| {
        let kinds = (0..count).map(|n| Kind::Create(create(&format!("n{n}"), 1)));
        batch(kinds.collect())
    };
    bed.refuses_size(of(6), "operations", 5, 6).await;
    bed.accepts(of(5)).await;
    let default = Bed::new().await;
    default.refuses_size(of(129), "operations", 128, 129).await;
    default.accepts(of(128)).await;
}

#[tokio::test]
async fn a_batch_has_a_limited_number_of_bytes() {
    let bed = Bed::new().await;
    let of = |bytes| {
        let kinds = ["n", "m"].map(|name| Kind::Create(create(name, bytes)));
        batch(kinds.to_vec())
    };
    let limit = limits::MAX_BATCH_BYTES;
    let status = bed
        .refuses_as("TOO_LARGE", of(limit / 2), "operations")
        .await;
    assert_eq!(metadata(&status, "limit"), limit.to_string());
    let size: usize = metadata(&status, "size").parse().unwrap();
    assert!(size > limit);
    bed.accepts(of(limit / 2 - 1024)).await;
}
