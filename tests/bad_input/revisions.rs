//! Revisions that are negative, zero or in the future.

use listwatch::v1::{
    self, batch_operation::Kind as Operation, consistency::Kind, watch_request::Start,
};
use tonic::Code;

use super::{Bed, Call, metadata};
use crate::harness::{everything, key, reason, resource, watch};

fn get(kind: Kind) -> Call {
    v1::GetRequest {
        key: Some(key("pods", "a")),
        consistency: Some(v1::Consistency { kind: Some(kind) }),
        ..v1::GetRequest::default()
    }
    .into()
}

fn list(kind: Kind) -> Call {
    v1::ListRequest {
        selector: Some(everything("pods")),
        consistency: Some(v1::Consistency { kind: Some(kind) }),
        ..v1::ListRequest::default()
    }
    .into()
}

fn watch_from(kind: Kind) -> Call {
    let initial = v1::InitialState {
        consistency: Some(v1::Consistency { kind: Some(kind) }),
        only: false,
    };
    watch("pods", Some(Start::InitialState(initial))).into()
}

fn after(revision: i64) -> Call {
    watch("pods", Some(Start::AfterRevision(revision))).into()
}

fn update(if_revision: i64) -> v1::UpdateRequest {
    v1::UpdateRequest {
        resource: Some(resource("pods", "a", "new", &[])),
        if_revision: Some(if_revision),
        ..v1::UpdateRequest::default()
    }
}

fn delete(if_revision: i64) -> v1::DeleteRequest {
    v1::DeleteRequest {
        key: Some(key("pods", "a")),
        if_revision: Some(if_revision),
        ..v1::DeleteRequest::default()
    }
}

fn check(revision: i64) -> v1::CheckRevision {
    v1::CheckRevision {
        key: Some(key("pods", "a")),
        revision,
    }
}

fn batch(kind: Operation) -> Call {
    v1::BatchRequest {
        operations: vec![v1::BatchOperation { kind: Some(kind) }],
        ..v1::BatchRequest::default()
    }
    .into()
}

fn compact(revision: i64) -> Call {
    let wait = true;
    v1::CompactRequest { revision, wait }.into()
}

#[tokio::test]
async fn negative_revisions_are_refused_everywhere() {
    let bed = Bed::new().await;
    for number in [-1, i64::MIN] {
        let exact = || Kind::ExactRevision(number);
        let min = || Kind::MinRevision(number);
        let table = [
            (get(exact()), "consistency.exact_revision"),
            (get(min()), "consistency.min_revision"),
            (list(exact()), "consistency.exact_revision"),
            (list(min()), "consistency.min_revision"),
            (watch_from(min()), "initial_state.consistency.min_revision"),
            (
                watch_from(exact()),
                "initial_state.consistency.exact_revision",
            ),
            (after(number), "after_revision"),
            (update(number).into(), "if_revision"),
            (delete(number).into(), "if_revision"),
            (
                batch(Operation::Update(update(number))),
                "operations[0].update.if_revision",
            ),
            (
                batch(Operation::Delete(delete(number))),
                "operations[0].delete.if_revision",
            ),
            (
                batch(Operation::Check(check(number))),
                "operations[0].check.revision",
            ),
            (compact(number), "revision"),
        ];
        for (call, field) in table {
            bed.refuses(call, field).await;
        }
    }
}

#[tokio::test]
async fn revision_zero_is_refused_where_it_means_nothing() {
    let bed = Bed::new().await;
    let table = [
        (get(Kind::ExactRevision(0)), "consistency.exact_revision"),
        (list(Kind::ExactRevision(0)), "consistency.exact_revision"),
        (after(0), "after_revision"),
        (update(0).into(), "if_revision"),
        (delete(0).into(), "if_revision"),
        (
            batch(Operation::Update(update(0))),
            "operations[0].update.if_revision",
        ),
        (compact(0), "revision"),
    ];
    for (call, field) in table {
        bed.refuses(call, field).await;
    }
    // At least zero is any revision, and a check of zero asks for absence.
    bed.accepts(get(Kind::MinRevision(0))).await;
    bed.accepts(list(Kind::MinRevision(0))).await;
    let absent = v1::CheckRevision {
        key: Some(key("pods", "nobody")),
        revision: 0,
    };
    bed.accepts(batch(Operation::Check(absent))).await;
}

#[tokio::test]
async fn a_future_revision_is_out_of_range_with_the_newest_one() {
    let bed = Bed::new().await;
    for number in [6, i64::MAX] {
        let table = [
            get(Kind::ExactRevision(number)),
            list(Kind::ExactRevision(number)),
            after(number),
            compact(number),
        ];
        for call in table {
            let status = bed.fails(call.clone()).await;
            assert_eq!(status.code(), Code::OutOfRange, "{call:?} {status:?}");
            assert_eq!(reason(&status), "REVISION_IN_FUTURE", "{call:?}");
            assert_eq!(metadata(&status, "latest_revision"), "5", "{call:?}");
        }
    }
}

#[tokio::test]
async fn a_condition_on_a_future_revision_does_not_hold() {
    let bed = Bed::new().await;
    for number in [6, i64::MAX] {
        let table = [
            update(number).into(),
            delete(number).into(),
            batch(Operation::Update(update(number))),
            batch(Operation::Delete(delete(number))),
            batch(Operation::Check(check(number))),
        ];
        for call in table {
            let status = bed.fails(call).await;
            assert_eq!(status.code(), Code::Aborted);
            assert_eq!(reason(&status), "REVISION_MISMATCH");
            assert_eq!(metadata(&status, "revision"), "4");
        }
    }
}

#[tokio::test]
async fn a_watch_of_an_exact_state_is_refused() {
    let bed = Bed::new().await;
    let call = watch_from(Kind::ExactRevision(3));
    bed.refuses(call, "initial_state.consistency.exact_revision")
        .await;
}

#[tokio::test]
async fn a_oneof_that_is_set_to_false_is_refused() {
    let bed = Bed::new().await;
    let any = || Kind::Any(false);
    bed.refuses(get(any()), "consistency.any").await;
    bed.refuses(list(any()), "consistency.any").await;
    bed.refuses(watch_from(any()), "initial_state.consistency.any")
        .await;
    bed.refuses(watch("pods", Some(Start::Now(false))), "now")
        .await;
    bed.accepts(get(Kind::Any(true))).await;
}
