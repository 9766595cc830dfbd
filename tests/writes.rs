//! What each write promises: its conditions, its answer, and all or none.

use listwatch::v1::{self, BookmarkKind, batch_operation::Kind, watch_request::Start};
use tonic::Code;

use crate::harness::{Harness, everything, key, reason, resource, short, watch};

fn create(name: &str, value: &str) -> v1::CreateRequest {
    v1::CreateRequest {
        resource: Some(resource("pods", name, value, &[])),
        ..v1::CreateRequest::default()
    }
}

fn update(name: &str, value: &str) -> v1::UpdateRequest {
    v1::UpdateRequest {
        resource: Some(resource("pods", name, value, &[])),
        ..v1::UpdateRequest::default()
    }
}

fn delete(name: &str) -> v1::DeleteRequest {
    v1::DeleteRequest {
        key: Some(key("pods", name)),
        ..v1::DeleteRequest::default()
    }
}

fn check(name: &str, revision: i64) -> Kind {
    Kind::Check(v1::CheckRevision {
        key: Some(key("pods", name)),
        revision,
    })
}

fn batch(kinds: impl IntoIterator<Item = Kind>) -> v1::BatchRequest {
    let operation = |kind| v1::BatchOperation { kind: Some(kind) };
    v1::BatchRequest {
        operations: kinds.into_iter().map(operation).collect(),
        ..v1::BatchRequest::default()
    }
}

async fn get(harness: &Harness, name: &str) -> v1::Resource {
    let request = v1::GetRequest {
        key: Some(key("pods", name)),
        ..v1::GetRequest::default()
    };
    let read = harness.raw.clone().get(request).await.unwrap();
    read.into_inner().resource.unwrap()
}

async fn create_in(harness: &Harness, request: v1::CreateRequest) -> v1::Resource {
    let answer = harness.raw.clone().create(request).await.unwrap();
    answer.into_inner().resource.unwrap()
}

async fn update_in(harness: &Harness, request: v1::UpdateRequest) -> v1::Resource {
    let answer = harness.raw.clone().update(request).await.unwrap();
    answer.into_inner().resource.unwrap()
}

#[tokio::test]
async fn an_update_keeps_uid_and_create_revision_and_a_new_object_has_its_own() {
    let harness = Harness::start().await;
    let first = create_in(&harness, create("a", "1")).await;
    assert_eq!((first.revision, first.create_revision), (1, 1));
    let second = update_in(&harness, update("a", "2")).await;
    assert_eq!((second.revision, second.create_revision), (2, 1));
    assert_eq!(second.uid, first.uid);
    let gone = harness.delete("pods", "a").await;
    assert_eq!((gone.revision, gone.create_revision), (3, 1));
    assert_eq!(gone.uid, first.uid);
    let again = create_in(&harness, create("a", "4")).await;
    assert_eq!((again.revision, again.create_revision), (4, 4));
    assert_ne!(again.uid, first.uid);
}

#[tokio::test]
async fn an_answer_to_a_write_has_all_but_the_value() {
    let harness = Harness::start().await;
    let mut wanted = resource("pods", "a", "the value", &[("app", "x")]);
    wanted.content_type = "text/plain".into();
    let request = v1::CreateRequest {
        resource: Some(wanted),
        ttl: Some(prost_types::Duration {
            seconds: 3600,
            nanos: 0,
        }),
        ..v1::CreateRequest::default()
    };
    let written = create_in(&harness, request).await;
    let read = get(&harness, "a").await;
    assert_eq!(read.value, "the value");
    assert!(written.value.is_empty());
    assert!(written.expire_time.is_some() && written.update_time.is_some());
    let value = read.value.clone();
    assert_eq!(v1::Resource { value, ..written }, read);
}

#[tokio::test]
async fn what_the_server_sets_is_ignored_on_input() {
    let harness = Harness::start().await;
    let mut forged = resource("pods", "a", "1", &[]);
    forged.uid = "not a uid, and 'quoted'".into();
    forged.revision = -77;
    forged.create_revision = i64::MAX;
    forged.update_time = Some(prost_types::Timestamp {
        seconds: i64::MIN,
        nanos: i32::MIN,
    });
    let request = v1::CreateRequest {
        resource: Some(forged.clone()),
        ..v1::CreateRequest::default()
    };
    let first = create_in(&harness, request).await;
    assert_eq!((first.revision, first.create_revision), (1, 1));
    assert_eq!(first.uid.len(), 36);
    assert!(first.update_time.unwrap().seconds > 0);
    let request = v1::UpdateRequest {
        resource: Some(forged),
        if_revision: Some(1),
        ..v1::UpdateRequest::default()
    };
    let second = update_in(&harness, request).await;
    assert_eq!((second.revision, second.create_revision), (2, 1));
    assert_eq!(second.uid, first.uid);
}

#[tokio::test]
async fn an_object_read_and_written_back_keeps_its_deadline() {
    let harness = Harness::start().await;
    let request = v1::CreateRequest {
        ttl: Some(prost_types::Duration {
            seconds: 3600,
            nanos: 0,
        }),
        ..create("a", "1")
    };
    create_in(&harness, request).await;
    let read = get(&harness, "a").await;
    let back = v1::UpdateRequest {
        resource: Some(read.clone()),
        if_revision: Some(read.revision),
        ..v1::UpdateRequest::default()
    };
    assert_eq!(
        update_in(&harness, back).await.expire_time,
        read.expire_time
    );
    // A ttl sets it anew, whatever the object says; without either there is none.
    let longer = v1::UpdateRequest {
        resource: Some(read.clone()),
        ttl: Some(prost_types::Duration {
            seconds: 7200,
            nanos: 0,
        }),
        ..v1::UpdateRequest::default()
    };
    let longer = update_in(&harness, longer).await.expire_time.unwrap();
    assert!(longer.seconds > read.expire_time.unwrap().seconds + 3000);
    assert_eq!(
        update_in(&harness, update("a", "x")).await.expire_time,
        None
    );
}

#[tokio::test]
async fn an_update_needs_the_object_unless_it_may_be_missing() {
    let harness = Harness::start().await;
    let refused = harness
        .raw
        .clone()
        .update(update("a", "1"))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let upsert = |value| v1::UpdateRequest {
        allow_missing: true,
        ..update("a", value)
    };
    assert_eq!(update_in(&harness, upsert("1")).await.create_revision, 1);
    assert_eq!(update_in(&harness, upsert("2")).await.create_revision, 1);
    assert_eq!(get(&harness, "a").await.value, "2");
}

#[tokio::test]
async fn a_conditional_write_happens_at_that_revision_only() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let at = |revision, value| v1::UpdateRequest {
        if_revision: Some(revision),
        ..update("a", value)
    };
    assert_eq!(update_in(&harness, at(1, "2")).await.revision, 2);
    let refused = harness.raw.clone().update(at(1, "3")).await.unwrap_err();
    assert_eq!(reason(&refused), "REVISION_MISMATCH");
    let deletion = |if_revision| v1::DeleteRequest {
        if_revision: Some(if_revision),
        ..delete("a")
    };
    let refused = harness.raw.clone().delete(deletion(1)).await.unwrap_err();
    assert_eq!(reason(&refused), "REVISION_MISMATCH");
    assert_eq!(get(&harness, "a").await.value, "2");
    harness.raw.clone().delete(deletion(2)).await.unwrap();
}

#[tokio::test]
async fn a_deletion_gives_the_last_state_with_its_own_revision() {
    let harness = Harness::start().await;
    let mut full = resource("pods", "a", "last words", &[("app", "x")]);
    full.content_type = "text/plain".into();
    let request = v1::CreateRequest {
        resource: Some(full.clone()),
        ..v1::CreateRequest::default()
    };
    let written = create_in(&harness, request).await;
    let gone = harness.delete("pods", "a").await;
    assert_eq!(gone.revision, 2);
    assert_eq!((gone.value, gone.labels), (full.value, full.labels));
    assert_eq!(
        (gone.uid, gone.content_type),
        (written.uid, full.content_type)
    );
}

#[tokio::test]
async fn a_deletion_of_what_is_absent_is_an_error_unless_it_may_be() {
    let harness = Harness::start().await;
    let refused = harness.raw.clone().delete(delete("a")).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let may_be_missing = v1::DeleteRequest {
        allow_missing: true,
        ..delete("a")
    };
    let answer = harness
        .raw
        .clone()
        .delete(may_be_missing.clone())
        .await
        .unwrap();
    assert_eq!(answer.into_inner().resource, None);
    // Whatever else was demanded of it.
    let with_conditions = v1::DeleteRequest {
        if_revision: Some(5),
        if_uid: Some("00000000-0000-4000-8000-000000000000".into()),
        ..may_be_missing
    };
    harness.raw.clone().delete(with_conditions).await.unwrap();
    assert_eq!(
        harness.store.progress().revision.get(),
        0,
        "nothing was written"
    );
}

#[tokio::test]
async fn a_deletion_by_uid_spares_a_new_object_of_the_same_name() {
    let harness = Harness::start().await;
    let first = harness.put("pods", "a", "1").await;
    harness.delete("pods", "a").await;
    let second = harness.put("pods", "a", "2").await;
    let by_uid = |uid: &str| v1::DeleteRequest {
        if_uid: Some(uid.into()),
        allow_missing: true,
        ..delete("a")
    };
    let refused = harness
        .raw
        .clone()
        .delete(by_uid(&first.uid))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Aborted);
    assert_eq!(get(&harness, "a").await.value, "2");
    harness
        .raw
        .clone()
        .delete(by_uid(&second.uid))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_batch_is_one_revision_and_one_response_of_a_watch() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    harness.put("pods", "b", "1").await;
    harness.put("pods", "c", "1").await;
    let mut watching = harness.watch_all("pods").await;
    watching.until(BookmarkKind::InitialStateEnd).await;
    let request = batch([
        Kind::Update(update("a", "2")),
        Kind::Delete(delete("b")),
        Kind::Create(create("d", "2")),
        check("c", 3),
        check("nobody", 0),
    ]);
    let answer = harness
        .raw
        .clone()
        .batch(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.revision, 4);
    let revisions: Vec<_> = answer.resources.iter().map(|r| r.revision).collect();
    assert_eq!(revisions, [4, 4, 4, 3, 0]);
    let names: Vec<_> = answer
        .resources
        .iter()
        .map(|r| r.key.clone().unwrap().name)
        .collect();
    assert_eq!(names, ["a", "b", "d", "c", "nobody"]);
    assert!(answer.resources.iter().all(|r| r.value.is_empty()));
    let only_key = v1::Resource {
        key: Some(key("pods", "nobody")),
        ..v1::Resource::default()
    };
    assert_eq!(answer.resources[4], only_key);
    let response = watching.next().await.unwrap().unwrap();
    assert_eq!(
        short(std::slice::from_ref(&response)),
        ["~a@4", "-b@4", "+d@4"]
    );
    assert_eq!(response.bookmark.unwrap().revision, 4);
}

#[tokio::test]
async fn a_batch_is_done_whole_or_not_at_all() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    harness.put("pods", "b", "1").await;
    let before = harness.list("pods").await;
    let absent_delete = delete("nobody");
    let stale = v1::UpdateRequest {
        if_revision: Some(9),
        ..update("b", "2")
    };
    let wrong_uid = v1::DeleteRequest {
        if_uid: Some("00000000-0000-4000-8000-000000000000".into()),
        ..delete("b")
    };
    let faults = [
        (Kind::Create(create("b", "2")), "OBJECT_EXISTS"),
        (Kind::Update(update("nobody", "2")), "OBJECT_NOT_FOUND"),
        (Kind::Delete(absent_delete), "OBJECT_NOT_FOUND"),
        (Kind::Update(stale), "REVISION_MISMATCH"),
        (Kind::Delete(wrong_uid), "UID_MISMATCH"),
        (check("b", 1), "REVISION_MISMATCH"),
        (check("b", 0), "OBJECT_EXISTS"),
        (check("nobody", 5), "REVISION_MISMATCH"),
    ];
    for (fault, wanted) in faults {
        // The fault last, first, and in the middle.
        let fine = [
            Kind::Update(update("a", "2")),
            Kind::Create(create("c", "2")),
        ];
        for place in 0..=2 {
            let mut kinds = fine.to_vec();
            kinds.insert(place, fault.clone());
            let refused = harness.raw.clone().batch(batch(kinds)).await.unwrap_err();
            assert_eq!(reason(&refused), wanted);
            let after = harness.list("pods").await;
            assert_eq!(
                (after.revision, after.resources),
                (2, before.resources.clone())
            );
        }
    }
}

#[tokio::test]
async fn a_batch_of_checks_alone_writes_nothing() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    harness.put("pods", "b", "1").await;
    let request = batch([check("a", 1), check("nobody", 0)]);
    let answer = harness
        .raw
        .clone()
        .batch(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.revision, 2, "the revision at which they held");
    assert_eq!(harness.store.progress().revision.get(), 2);
}

#[tokio::test]
async fn a_batch_reaches_over_collections_and_namespaces() {
    let harness = Harness::start().await;
    let mut node = create("n", "1");
    node.resource
        .as_mut()
        .unwrap()
        .key
        .as_mut()
        .unwrap()
        .collection = "nodes".into();
    let mut elsewhere = create("a", "1");
    elsewhere
        .resource
        .as_mut()
        .unwrap()
        .key
        .as_mut()
        .unwrap()
        .namespace = "other".into();
    let kinds = [
        Kind::Create(create("a", "1")),
        Kind::Create(node),
        Kind::Create(elsewhere),
    ];
    let answer = harness
        .raw
        .clone()
        .batch(batch(kinds))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.revision, 1);
    assert_eq!(harness.list("pods").await.resources.len(), 2);
    assert_eq!(harness.list("nodes").await.resources.len(), 1);
}

/// Sends each write twice under one id, with something else written in between, and
/// compares the answers.
#[tokio::test]
async fn a_request_id_gives_the_first_answer_again_for_every_write() {
    let harness = Harness::start().await;
    let labelled = |name: &str, value: &str| {
        let mut resource = resource("pods", name, value, &[("app", "x"), ("tier", "y")]);
        resource.content_type = "text/plain".into();
        Some(resource)
    };
    let ttl = Some(prost_types::Duration {
        seconds: 3600,
        nanos: 0,
    });
    let create = v1::CreateRequest {
        resource: labelled("a", "1"),
        ttl,
        request_id: "create".into(),
    };
    let first = harness
        .raw
        .clone()
        .create(create.clone())
        .await
        .unwrap()
        .into_inner();
    let update = v1::UpdateRequest {
        resource: labelled("a", "2"),
        ttl,
        request_id: "update".into(),
        ..v1::UpdateRequest::default()
    };
    let second = harness
        .raw
        .clone()
        .update(update.clone())
        .await
        .unwrap()
        .into_inner();
    let batch = v1::BatchRequest {
        operations: [
            Kind::Create(v1::CreateRequest {
                resource: labelled("b", "3"),
                ttl,
                ..v1::CreateRequest::default()
            }),
            check("a", 2),
            check("nobody", 0),
        ]
        .map(|kind| v1::BatchOperation { kind: Some(kind) })
        .to_vec(),
        request_id: "batch".into(),
    };
    let third = harness
        .raw
        .clone()
        .batch(batch.clone())
        .await
        .unwrap()
        .into_inner();
    let delete = v1::DeleteRequest {
        request_id: "delete".into(),
        ..delete("a")
    };
    let fourth = harness
        .raw
        .clone()
        .delete(delete.clone())
        .await
        .unwrap()
        .into_inner();
    let nothing = v1::DeleteRequest {
        key: Some(key("pods", "nobody")),
        allow_missing: true,
        request_id: "nothing".into(),
        ..v1::DeleteRequest::default()
    };
    harness.raw.clone().delete(nothing.clone()).await.unwrap();
    // The names are taken by others meanwhile; the answers stay the same.
    harness.put("pods", "a", "another").await;
    harness.put("pods", "b", "another").await;
    harness.put("pods", "nobody", "another").await;
    let newest = harness.store.progress().revision;
    for _ in 0..2 {
        let raw = &harness.raw;
        assert_eq!(
            raw.clone()
                .create(create.clone())
                .await
                .unwrap()
                .into_inner(),
            first
        );
        assert_eq!(
            raw.clone()
                .update(update.clone())
                .await
                .unwrap()
                .into_inner(),
            second
        );
        assert_eq!(
            raw.clone().batch(batch.clone()).await.unwrap().into_inner(),
            third
        );
        assert_eq!(
            raw.clone()
                .delete(delete.clone())
                .await
                .unwrap()
                .into_inner(),
            fourth
        );
        let again = raw
            .clone()
            .delete(nothing.clone())
            .await
            .unwrap()
            .into_inner();
        assert_eq!(again.resource, None);
    }
    assert_eq!(
        harness.store.progress().revision,
        newest,
        "nothing was written again"
    );
    assert_eq!(get(&harness, "nobody").await.value, "another");
}

/// Also when the history that the first answer came from is gone: who wrote what, and at
/// which revision, is what a retry needs to know.
#[tokio::test]
async fn a_replayed_answer_outlives_compaction() {
    let harness = Harness::start().await;
    let request = v1::CreateRequest {
        resource: Some(resource("pods", "a", "1", &[("app", "x")])),
        request_id: "mine".into(),
        ..v1::CreateRequest::default()
    };
    let first = create_in(&harness, request.clone()).await;
    let last = harness.put("pods", "a", "2").await;
    harness.compact(last.revision).await;
    assert_eq!(create_in(&harness, request).await, first);
}

#[tokio::test]
async fn a_refused_request_does_not_use_up_its_id() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let request = v1::CreateRequest {
        request_id: "mine".into(),
        ..create("a", "2")
    };
    harness
        .raw
        .clone()
        .create(request.clone())
        .await
        .unwrap_err();
    harness.delete("pods", "a").await;
    assert_eq!(create_in(&harness, request).await.revision, 3);
    assert_eq!(get(&harness, "a").await.value, "2");
}

/// Many writers of the same request at once: it happens once, and all hear the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_sent_many_times_at_once_happens_once() {
    let harness = Harness::start().await;
    let mut sent = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mut raw = harness.raw.clone();
        let request = v1::CreateRequest {
            request_id: "mine".into(),
            ..create("a", "1")
        };
        sent.spawn(async move { raw.create(request).await.unwrap().into_inner() });
    }
    let answers = sent.join_all().await;
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(harness.store.progress().revision.get(), 1);
}

/// Compare-and-set under contention: as many increments as were acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn conditional_updates_lose_no_increment() {
    let harness = Harness::start().await;
    harness.put("pods", "counter", "0").await;
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let mut raw = harness.raw.clone();
        writers.spawn(async move {
            let mut done = 0;
            while done < 10 {
                let read = v1::GetRequest {
                    key: Some(key("pods", "counter")),
                    ..v1::GetRequest::default()
                };
                let read = raw.get(read).await.unwrap().into_inner().resource.unwrap();
                let number: u64 = std::str::from_utf8(&read.value).unwrap().parse().unwrap();
                let request = v1::UpdateRequest {
                    if_revision: Some(read.revision),
                    ..update("counter", &(number + 1).to_string())
                };
                match raw.update(request).await {
                    Ok(_) => done += 1,
                    Err(status) => assert_eq!(reason(&status), "REVISION_MISMATCH"),
                }
            }
        });
    }
    writers.join_all().await;
    assert_eq!(get(&harness, "counter").await.value, "80");
}

#[tokio::test]
async fn a_watch_shows_the_same_object_as_a_read() {
    let harness = Harness::start().await;
    let mut watching = harness
        .watch(watch("pods", Some(Start::Now(true))))
        .await
        .unwrap();
    let mut full = resource("pods", "a", "v", &[("app", "x")]);
    full.content_type = "text/plain".into();
    let request = v1::CreateRequest {
        resource: Some(full),
        ..v1::CreateRequest::default()
    };
    create_in(&harness, request).await;
    let seen = watching.through(1).await;
    let event = seen.iter().flat_map(|r| &r.events).next().unwrap();
    assert_eq!(event.resource, Some(get(&harness, "a").await));
    let request = v1::ListRequest {
        selector: Some(everything("pods")),
        ..v1::ListRequest::default()
    };
    let listed = harness
        .raw
        .clone()
        .list(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(event.resource.as_ref(), listed.resources.first());
}
