//! Any bytes for any request: an answer, never a fault of the server's, and no change
//! unless the answer is OK.

use std::time::{Duration, SystemTime};

use listwatch::v1::{
    self, ErrorReason, batch_operation::Kind, consistency::Kind as Consistent, watch_request::Start,
};
use listwatch_server::{
    ServerOptions, ServiceOptions, clock::Clock, hub::HubOptions, store::StoreOptions,
};
use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    test_runner::{Config, TestRunner},
};
use prost::Message as _;
use tokio::runtime::Runtime;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::{
    Bed,
    wire::{METHODS, send_bytes},
};
use crate::harness::Harness;

/// Text as a client might send it: fitting, nearly so, and anything.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-c]{1,2}",
        1 => Just("pods".to_owned()),
        1 => Just("default".to_owned()),
        1 => Just(String::new()),
        1 => any::<String>(),
    ]
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![-2i64..12, any::<i64>()]
}

fn key() -> impl Strategy<Value = Option<v1::Key>> {
    let key = (text(), text(), text()).prop_map(|(collection, namespace, name)| v1::Key {
        collection,
        namespace,
        name,
    });
    proptest::option::weighted(0.9, key)
}

fn resource() -> impl Strategy<Value = Option<v1::Resource>> {
    let labels = btree_map(text(), text(), 0..3);
    let value = vec(any::<u8>(), 0..20);
    let time = proptest::option::weighted(0.2, (any::<i64>(), any::<i32>()));
    let parts = (key(), labels, value, text(), time, text(), number());
    let resource =
        parts.prop_map(
            |(key, labels, value, content_type, time, uid, revision)| v1::Resource {
                key,
                labels,
                value: value.into(),
                content_type,
                expire_time: time.map(|(seconds, nanos)| prost_types::Timestamp { seconds, nanos }),
                uid,
                revision,
                create_revision: revision,
                update_time: None,
            },
        );
    proptest::option::weighted(0.9, resource)
}

fn duration() -> impl Strategy<Value = Option<prost_types::Duration>> {
    let duration = (number(), -2i32..2_000_000_000);
    let duration = duration.prop_map(|(seconds, nanos)| prost_types::Duration { seconds, nanos });
    proptest::option::weighted(0.3, duration)
}

fn selector() -> impl Strategy<Value = Option<v1::Selector>> {
    let label = (text(), -1i32..6, vec(text(), 0..3));
    let label = label.prop_map(|(key, operator, values)| v1::LabelRequirement {
        key,
        operator,
        values,
    });
    let path = prop_oneof![Just("metadata.name".to_owned()), text()];
    let field = (path, any::<bool>(), text());
    let field = field.prop_map(|(path, not_equal, value)| v1::FieldRequirement {
        path,
        not_equal,
        value,
    });
    let parts = (
        text(),
        text(),
        text(),
        text(),
        vec(label, 0..2),
        vec(field, 0..2),
    );
    let selector = parts.prop_map(
        |(collection, namespace, name, name_prefix, labels, fields)| v1::Selector {
            collection,
            namespace,
            name,
            name_prefix,
            labels,
            fields,
        },
    );
    proptest::option::weighted(0.9, selector)
}

fn consistency() -> impl Strategy<Value = Option<v1::Consistency>> {
    let kind = prop_oneof![
        any::<bool>().prop_map(Consistent::Any),
        number().prop_map(Consistent::MinRevision),
        number().prop_map(Consistent::ExactRevision),
    ];
    let consistency = proptest::option::of(kind).prop_map(|kind| v1::Consistency { kind });
    proptest::option::weighted(0.4, consistency)
}

fn create() -> impl Strategy<Value = v1::CreateRequest> {
    (resource(), duration(), text()).prop_map(|(resource, ttl, request_id)| v1::CreateRequest {
        resource,
        ttl,
        request_id,
    })
}

fn update() -> impl Strategy<Value = v1::UpdateRequest> {
    let if_revision = proptest::option::weighted(0.3, number());
    let parts = (resource(), if_revision, any::<bool>(), duration(), text());
    parts.prop_map(
        |(resource, if_revision, allow_missing, ttl, request_id)| v1::UpdateRequest {
            resource,
            if_revision,
            allow_missing,
            ttl,
            request_id,
        },
    )
}

fn delete() -> impl Strategy<Value = v1::DeleteRequest> {
    let if_revision = proptest::option::weighted(0.3, number());
    let if_uid = proptest::option::weighted(0.2, text());
    let parts = (key(), if_revision, if_uid, any::<bool>(), text());
    parts.prop_map(
        |(key, if_revision, if_uid, allow_missing, request_id)| v1::DeleteRequest {
            key,
            if_revision,
            if_uid,
            allow_missing,
            request_id,
        },
    )
}

fn batch() -> impl Strategy<Value = v1::BatchRequest> {
    let without_id = |mut request: v1::CreateRequest| {
        request.request_id.clear();
        request
    };
    let kind = prop_oneof![
        create().prop_map(move |r| Kind::Create(without_id(r))),
        update().prop_map(|r| Kind::Update(v1::UpdateRequest {
            request_id: String::new(),
            ..r
        })),
        delete().prop_map(Kind::Delete),
        (key(), number())
            .prop_map(|(key, revision)| Kind::Check(v1::CheckRevision { key, revision })),
    ];
    let operation =
        proptest::option::weighted(0.95, kind).prop_map(|kind| v1::BatchOperation { kind });
    (vec(operation, 0..4), text()).prop_map(|(operations, request_id)| v1::BatchRequest {
        operations,
        request_id,
    })
}

fn list() -> impl Strategy<Value = v1::ListRequest> {
    let token = prop_oneof![3 => Just(String::new()), 1 => any::<String>()];
    let parts = (selector(), -2i32..5, token, consistency(), -1i32..5);
    parts.prop_map(
        |(selector, page_size, page_token, consistency, view)| v1::ListRequest {
            selector,
            page_size,
            page_token,
            consistency,
            view,
        },
    )
}

fn watch() -> impl Strategy<Value = v1::WatchRequest> {
    let start = prop_oneof![
        (consistency(), any::<bool>()).prop_map(|(consistency, only)| Start::InitialState(
            v1::InitialState { consistency, only }
        )),
        any::<String>().prop_map(Start::ResumeToken),
        number().prop_map(Start::AfterRevision),
        any::<bool>().prop_map(Start::Now),
    ];
    let start = proptest::option::weighted(0.8, start);
    let enums = (-1i32..5, -1i32..4, -1i32..4);
    let parts = (
        selector(),
        start,
        enums,
        any::<bool>(),
        duration(),
        duration(),
    );
    parts.prop_map(
        |(selector, start, (view, delivery_mode, catch_up), send_previous, every, delay)| {
            v1::WatchRequest {
                selector,
                start,
                view,
                delivery_mode,
                send_previous,
                bookmark_interval: every,
                max_batch_delay: delay,
                catch_up,
            }
        },
    )
}

/// A method and the bytes of a request that makes sense at least in part.
fn sensible() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let get = (key(), consistency(), -1i32..5);
    let get = get.prop_map(|(key, consistency, view)| v1::GetRequest {
        key,
        consistency,
        view,
    });
    let compact = (number(), any::<bool>());
    let compact = compact.prop_map(|(revision, wait)| v1::CompactRequest { revision, wait });
    prop_oneof![
        get.prop_map(|r| (METHODS[0], r.encode_to_vec())),
        list().prop_map(|r| (METHODS[1], r.encode_to_vec())),
        watch().prop_map(|r| (METHODS[2], r.encode_to_vec())),
        create().prop_map(|r| (METHODS[4], r.encode_to_vec())),
        update().prop_map(|r| (METHODS[5], r.encode_to_vec())),
        delete().prop_map(|r| (METHODS[6], r.encode_to_vec())),
        batch().prop_map(|r| (METHODS[7], r.encode_to_vec())),
        compact.prop_map(|r| (METHODS[8], r.encode_to_vec())),
    ]
}

/// The same with some bytes altered and the end perhaps missing.
fn damaged() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let changes = vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let cut = proptest::option::weighted(0.2, any::<prop::sample::Index>());
    (sensible(), changes, cut).prop_map(|((method, mut bytes), changes, cut)| {
        for (place, byte) in changes {
            if !bytes.is_empty() {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
        }
        if let Some(cut) = cut
            && !bytes.is_empty()
        {
            bytes.truncate(cut.index(bytes.len()));
        }
        (method, bytes)
    })
}

fn noise() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    (
        prop::sample::select(METHODS.to_vec()),
        vec(any::<u8>(), 0..200),
    )
}

async fn bed() -> Bed {
    let hub = HubOptions {
        // Requests for a revision far ahead are common here.
        revision_wait: Duration::from_millis(1),
        ..HubOptions::default()
    };
    // Time stands still, so that nothing expires and changes the state on its own.
    let now = SystemTime::now();
    let clock = Clock::new(move || now);
    let service = ServiceOptions {
        clock: clock.clone(),
        ..ServiceOptions::default()
    };
    let options = ServerOptions {
        hub,
        service,
        ..ServerOptions::default()
    };
    let store = StoreOptions {
        clock,
        ..StoreOptions::default()
    };
    Bed::on(Harness::with(options, store).await).await
}

async fn check(bed: &Bed, method: &str, message: &[u8]) {
    let before = bed.harness.store.progress();
    let Err(status) = send_bytes(&bed.channel, method, message).await else {
        return;
    };
    let what = format!("{method} {message:?}: {status:?}");
    let faults = [
        Code::Internal,
        Code::Unknown,
        Code::DataLoss,
        Code::Cancelled,
    ];
    assert!(!faults.contains(&status.code()), "{what}");
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("{what}"));
    assert_eq!(info.domain, "listwatch", "{what}");
    let name = format!("ERROR_REASON_{}", info.reason);
    assert!(ErrorReason::from_str_name(&name).is_some(), "{what}");
    assert_eq!(bed.harness.store.progress(), before, "{what}");
}

fn try_many(cases: u32, requests: impl Strategy<Value = (&'static str, Vec<u8>)> + Send + 'static) {
    // Strategies of strategies are large values, and a test's thread has a small stack.
    let thread = std::thread::Builder::new().stack_size(64 << 20);
    let done = thread.spawn(move || try_here(cases, &requests)).unwrap();
    if let Err(panic) = done.join() {
        std::panic::resume_unwind(panic);
    }
}

fn try_here(cases: u32, requests: &impl Strategy<Value = (&'static str, Vec<u8>)>) {
    let runtime = Runtime::new().unwrap();
    let bed = runtime.block_on(bed());
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new(config).run(requests, |(method, message)| {
        runtime.block_on(Box::pin(check(&bed, method, &message)));
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    // And it still does its work.
    runtime.block_on(async {
        bed.harness.put("pods", "still", "here").await;
        let listed = bed.harness.list("pods").await.resources;
        assert!(
            listed
                .iter()
                .any(|r| r.key.as_ref().unwrap().name == "still")
        );
    });
}

#[test]
fn any_bytes_get_an_answer_that_is_no_fault() {
    try_many(1000, noise());
}

#[test]
fn any_request_gets_an_answer_that_is_no_fault() {
    try_many(3000, sensible());
}

#[test]
fn any_damaged_request_gets_an_answer_that_is_no_fault() {
    try_many(2000, damaged());
}
