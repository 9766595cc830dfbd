//! A copy that is always a consistent snapshot.

use std::time::Duration;

use bytes::Bytes;
use listwatch_client::{
    Codec, Notice, ObjectKey, Reflector, Snapshot, reflector,
    reflector::{Connection, ReflectorBuilder, Status as Health, Subscription, WaitError},
    v1::{Bookmark, BookmarkKind, EventType, Resource},
};
use prost::Message as _;
use tonic::{Code, Status};

use crate::{
    mock::{Mock, OpenWatch, bookmark, event, object, refusal},
    watcher::options,
};

pub(crate) const LONG: Duration = Duration::from_secs(3600);

pub(crate) fn build(mock: &Mock) -> ReflectorBuilder<Bytes> {
    reflector(mock.client.clone(), options(), Codec::raw())
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("n", name)
}

/// A reflector that holds `objects`, and the server's end of its stream.
pub(crate) async fn ready(
    mock: &mut Mock,
    builder: ReflectorBuilder<Bytes>,
    revision: i64,
    objects: Vec<Resource>,
) -> (Reflector<Bytes>, OpenWatch) {
    let reflector = builder.spawn();
    let open = mock.next_watch().await.accept();
    open.initial_state(revision, objects).await;
    reflector.wait_until_ready(LONG).await.unwrap();
    (reflector, open)
}

pub(crate) fn names<T>(snapshot: &Snapshot<T>) -> Vec<(String, i64)> {
    snapshot
        .iter()
        .map(|o| (o.key().name.clone(), o.revision()))
        .collect()
}

pub(crate) fn held(expected: &[(&str, i64)]) -> Vec<(String, i64)> {
    expected
        .iter()
        .map(|(name, revision)| ((*name).to_owned(), *revision))
        .collect()
}

/// What a notice says, in short.
pub(crate) fn shown(notice: &Notice<Bytes>) -> String {
    match notice {
        Notice::Added(o) => format!("+{}@{}", o.uid(), o.revision()),
        Notice::Updated { old, new } => {
            format!("{}@{}>{}", old.uid(), old.revision(), new.revision())
        }
        Notice::Deleted(o) => format!("-{}@{}", o.uid(), o.revision()),
        Notice::Undecodable(o) => format!("?{}@{}", o.resource().uid, o.resource().revision),
        Notice::Synced => "synced".into(),
        _ => "other".into(),
    }
}

/// Until the status is so; not for ever, so that a test that is wrong ends.
pub(crate) async fn until(
    status: &mut tokio::sync::watch::Receiver<Health>,
    holds: impl FnMut(&Health) -> bool,
) {
    let reached = tokio::time::timeout(LONG, status.wait_for(holds)).await;
    assert!(matches!(reached, Ok(Ok(_))), "never so");
}

/// All that waits for a handler.
pub(crate) async fn drain(handler: &mut Subscription<Bytes>) -> Vec<String> {
    let mut notices = Vec::new();
    while let Ok(Some(notice)) =
        tokio::time::timeout(Duration::from_millis(1), handler.next()).await
    {
        notices.push(shown(&notice));
    }
    notices
}

#[tokio::test(start_paused = true)]
async fn the_copy_follows_every_change() {
    let mut mock = Mock::start().await;
    let state = vec![object("a", "ua", 1, "one"), object("b", "ub", 2, "two")];
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, state).await;
    assert_eq!(names(&reflector.snapshot()), held(&[("a", 1), ("b", 2)]));
    open.changes(
        8,
        vec![
            event(EventType::Modified, object("a", "ua", 6, "uno")),
            event(EventType::Deleted, object("b", "ub", 7, "two")),
            event(EventType::Added, object("c", "uc", 8, "three")),
        ],
    )
    .await;
    let snapshot = reflector.wait_for_revision(8, LONG).await.unwrap();
    assert_eq!(names(&snapshot), held(&[("a", 6), ("c", 8)]));
    assert_eq!(&snapshot.get(&key("a")).unwrap().value()[..], b"uno");
    assert_eq!(snapshot.revision(), 8);
    assert_eq!(snapshot.resume_token().unwrap().as_str(), "t8");
    assert_eq!(snapshot.namespace("n").count(), 2);
    assert_eq!(snapshot.namespace("m").count(), 0);
    assert!(reflector.get(&key("b")).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_stays_as_it_is() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "ua", 1, "")]).await;
    let before = reflector.snapshot();
    open.changes(6, vec![event(EventType::Deleted, object("a", "ua", 6, ""))])
        .await;
    let after = reflector.wait_for_revision(6, LONG).await.unwrap();
    assert_eq!(names(&before), held(&[("a", 1)]));
    assert!(after.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_of_an_initial_state_is_seen_before_all_of_it() {
    let mut mock = Mock::start().await;
    let reflector = build(&mock).spawn();
    let open = mock.next_watch().await.accept();
    open.bookmark(BookmarkKind::InitialStateBegin, 5).await;
    open.send(
        vec![event(EventType::Existing, object("a", "ua", 1, ""))],
        None,
    )
    .await;
    let waited = reflector.wait_until_ready(Duration::from_secs(1)).await;
    assert!(matches!(waited, Err(WaitError::Timeout { .. })));
    assert!(reflector.snapshot().is_empty());
    open.send(
        vec![event(EventType::Existing, object("b", "ub", 1, ""))],
        Some(bookmark(BookmarkKind::InitialStateEnd, 5)),
    )
    .await;
    let snapshot = reflector.wait_until_ready(LONG).await.unwrap();
    assert_eq!(names(&snapshot), held(&[("a", 1), ("b", 1)]));
}

#[tokio::test(start_paused = true)]
async fn k9s_4186_an_initial_state_that_never_ends_is_an_error_by_a_deadline() {
    let mut mock = Mock::start().await;
    let reflector = build(&mock).spawn();
    let server = tokio::spawn(async move {
        loop {
            let open = mock.next_watch().await.accept();
            open.bookmark(BookmarkKind::InitialStateBegin, 5).await;
            tokio::spawn(async move { open.dropped().await });
        }
    });
    let error = reflector
        .wait_until_ready(Duration::from_secs(300))
        .await
        .unwrap_err();
    let WaitError::Timeout { status, .. } = &error else {
        panic!("{error:?}")
    };
    assert!(status.is_stale() && !status.ready);
    assert!(error.to_string().contains("not within 300s"), "{error}");
    server.abort();
}

#[tokio::test(start_paused = true)]
async fn a_revisions_changes_become_visible_together() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![]).await;
    // One revision over two responses, the bookmark only behind the second.
    open.send(
        vec![event(EventType::Added, object("a", "ua", 6, ""))],
        None,
    )
    .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(reflector.snapshot().is_empty());
    open.changes(6, vec![event(EventType::Added, object("b", "ub", 6, ""))])
        .await;
    let snapshot = reflector.wait_for_revision(6, LONG).await.unwrap();
    assert_eq!(snapshot.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn changes_without_a_bookmark_are_not_kept_back_for_long() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "ua", 1, "")]).await;
    open.send(
        vec![event(EventType::Deleted, object("a", "ua", 6, ""))],
        None,
    )
    .await;
    let snapshot = reflector
        .wait_for_revision(6, Duration::from_secs(1))
        .await
        .unwrap();
    assert!(snapshot.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_old_state_is_served_and_marked_stale_while_reconnecting() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "ua", 1, "")]).await;
    assert!(!reflector.status().is_stale());
    assert!(matches!(reflector.status().connection, Connection::Live));
    open.fail(Status::unavailable("gone")).await;
    let mut status = reflector.watch_status();
    until(&mut status, |s| s.is_stale()).await;
    assert!(matches!(
        reflector.status().connection,
        Connection::Disconnected { .. }
    ));
    assert_eq!(reflector.snapshot().len(), 1);
    assert!(reflector.status().ready, "it stays usable");

    // Back, but two revisions behind: still stale until they have come.
    let open = mock.next_watch().await.accept();
    let resumed = Bookmark {
        latest_revision: 7,
        ..bookmark(BookmarkKind::Resumed, 5)
    };
    open.send(vec![], Some(resumed)).await;
    until(&mut status, |s| matches!(s.connection, Connection::Live)).await;
    assert!(reflector.status().is_stale());
    assert_eq!(reflector.status().lag().revisions, 2);
    open.changes(7, vec![event(EventType::Added, object("b", "ub", 7, ""))])
        .await;
    until(&mut status, |s| !s.is_stale()).await;
    assert_eq!(reflector.status().lag().revisions, 0);
    assert_eq!(reflector.snapshot().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_age_of_a_silent_copy_grows() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, _open) = ready(&mut mock, builder, 5, vec![]).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(reflector.status().lag().age.unwrap() >= Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn unchanged_objects_cause_no_event_after_a_relist() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let state = vec![
        object("changed", "u1", 1, ""),
        object("gone", "u2", 2, ""),
        object("reborn", "u3", 3, ""),
        object("same", "u4", 4, "x"),
    ];
    let (reflector, open) = ready(&mut mock, builder, 5, state).await;
    let mut handler = reflector.subscribe();
    assert_eq!(
        drain(&mut handler).await,
        ["+u1@1", "+u2@2", "+u3@3", "+u4@4", "synced"]
    );
    let before = reflector.get(&key("same")).unwrap();

    open.fail(refusal(Code::OutOfRange, "REVISION_COMPACTED", None))
        .await;
    let call = mock.next_watch().await;
    assert!(call.wants_initial_state());
    let open = call.accept();
    open.initial_state(
        20,
        vec![
            object("changed", "u1", 11, ""),
            object("new", "u5", 12, ""),
            object("reborn", "u6", 13, ""),
            object("same", "u4", 4, "x"),
        ],
    )
    .await;
    reflector.wait_for_revision(20, LONG).await.unwrap();
    let expected = ["u1@1>11", "-u2@2", "+u5@12", "-u3@3", "+u6@13"];
    assert_eq!(drain(&mut handler).await, expected);
    let after = reflector.get(&key("same")).unwrap();
    assert!(
        std::sync::Arc::ptr_eq(&before, &after),
        "not even decoded again"
    );
    assert_eq!(reflector.status().initial_states, 2);
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_breaks_leaves_the_old_state() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "ua", 1, "")]).await;
    open.fail(refusal(Code::OutOfRange, "STORE_CHANGED", None))
        .await;
    let open = mock.next_watch().await.accept();
    open.bookmark(BookmarkKind::InitialStateBegin, 2).await;
    open.send(
        vec![event(EventType::Existing, object("b", "ub", 1, ""))],
        None,
    )
    .await;
    open.fail(Status::unavailable("killed")).await;
    let call = mock.next_watch().await;
    assert_eq!(names(&reflector.snapshot()), held(&[("a", 1)]));
    assert!(
        call.wants_initial_state(),
        "the old token is of another store"
    );
    // A restored store is behind; the copy follows it back.
    let open = call.accept();
    open.initial_state(2, vec![object("b", "ub", 1, "")]).await;
    let mut status = reflector.watch_status();
    until(&mut status, |s| !s.is_stale()).await;
    assert_eq!(names(&reflector.snapshot()), held(&[("b", 1)]));
    assert_eq!(reflector.snapshot().revision(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_restored_store_that_repeats_a_revision_is_told_apart_by_its_time() {
    let mut mock = Mock::start().await;
    let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let written = |seconds, value| Resource {
        update_time: at(seconds),
        ..object("a", "u", 6, value)
    };
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 6, vec![written(100, "lost")]).await;
    open.fail(refusal(Code::OutOfRange, "STORE_CHANGED", None))
        .await;
    let open = mock.next_watch().await.accept();
    open.initial_state(6, vec![written(200, "kept")]).await;
    let mut status = reflector.watch_status();
    until(&mut status, |s| s.initial_states == 2).await;
    assert_eq!(&reflector.get(&key("a")).unwrap().value()[..], b"kept");
}

#[tokio::test(start_paused = true)]
async fn another_uid_under_a_held_key_ends_the_old_object_first() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "u1", 1, "")]).await;
    let mut handler = reflector.subscribe();
    drain(&mut handler).await;
    open.changes(
        9,
        vec![event(EventType::Upserted, object("a", "u2", 9, ""))],
    )
    .await;
    reflector.wait_for_revision(9, LONG).await.unwrap();
    assert_eq!(drain(&mut handler).await, ["-u1@1", "+u2@9"]);
    // And a late word about the old one's end does not end the new one.
    open.changes(
        10,
        vec![event(EventType::Deleted, object("a", "u1", 8, ""))],
    )
    .await;
    reflector.wait_for_revision(10, LONG).await.unwrap();
    assert_eq!(reflector.snapshot().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_net_difference_is_seen_as_a_whole_also_in_the_middle_of_a_stream() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let state = vec![object("a", "ua", 1, ""), object("b", "ub", 2, "")];
    let (reflector, open) = ready(&mut mock, builder, 5, state).await;
    let mut handler = reflector.subscribe();
    drain(&mut handler).await;
    // Events before NET_BEGIN in one response are whole revisions of their own.
    open.send(
        vec![event(EventType::Added, object("c", "uc", 6, ""))],
        Some(bookmark(BookmarkKind::NetBegin, 6)),
    )
    .await;
    open.changes(8, vec![event(EventType::Deleted, object("a", "ua", 8, ""))])
        .await;
    let mut status = reflector.watch_status();
    until(&mut status, |s| matches!(s.connection, Connection::Syncing)).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(reflector.status().is_stale());
    assert_eq!(
        names(&reflector.snapshot()),
        held(&[("a", 1), ("b", 2), ("c", 6)])
    );
    open.send(
        vec![
            event(EventType::Upserted, object("b", "ub", 9, "")),
            event(EventType::Deleted, object("never-held", "ux", 9, "")),
        ],
        Some(bookmark(BookmarkKind::InitialStateEnd, 9)),
    )
    .await;
    let snapshot = reflector.wait_for_revision(9, LONG).await.unwrap();
    assert_eq!(names(&snapshot), held(&[("b", 9), ("c", 6)]));
    assert_eq!(drain(&mut handler).await, ["+uc@6", "-ua@1", "ub@2>9"]);
    assert!(!reflector.status().is_stale());
}

#[tokio::test(start_paused = true)]
async fn what_a_manifest_does_not_name_is_gone() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let state = vec![
        object("changed", "u1", 1, ""),
        object("gone", "u2", 2, ""),
        object("same", "u3", 3, "kept"),
    ];
    let (reflector, open) = ready(&mut mock, builder, 5, state).await;
    let mut handler = reflector.subscribe();
    drain(&mut handler).await;
    open.fail(Status::unavailable("gone")).await;
    let call = mock.next_watch().await;
    assert_eq!(call.token(), Some("t5"));
    let open = call.accept();
    open.bookmark(BookmarkKind::ManifestBegin, 5).await;
    open.send(
        vec![
            event(EventType::Upserted, object("changed", "u1", 30, "")),
            event(EventType::Upserted, object("new", "u4", 31, "")),
            event(EventType::Unchanged, object("same", "u3", 3, "")),
        ],
        Some(bookmark(BookmarkKind::InitialStateEnd, 40)),
    )
    .await;
    let snapshot = reflector.wait_for_revision(40, LONG).await.unwrap();
    assert_eq!(
        names(&snapshot),
        held(&[("changed", 30), ("new", 31), ("same", 3)])
    );
    assert_eq!(&snapshot.get(&key("same")).unwrap().value()[..], b"kept");
    assert_eq!(drain(&mut handler).await, ["u1@1>30", "-u2@2", "+u4@31"]);
    assert_eq!(reflector.status().initial_states, 1, "no relist");
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_contradicts_the_copy_leads_to_a_new_initial_state() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "ua", 1, "")]).await;
    open.fail(Status::unavailable("gone")).await;
    let open = mock.next_watch().await.accept();
    open.bookmark(BookmarkKind::ManifestBegin, 5).await;
    open.send(
        vec![event(
            EventType::Unchanged,
            object("never-held", "ux", 2, ""),
        )],
        None,
    )
    .await;
    let call = mock.next_watch().await;
    assert!(call.wants_initial_state());
    let open = call.accept();
    open.initial_state(9, vec![object("b", "ub", 7, "")]).await;
    let snapshot = reflector.wait_for_revision(9, LONG).await.unwrap();
    assert_eq!(names(&snapshot), held(&[("b", 7)]));
}

#[tokio::test(start_paused = true)]
async fn indexes_agree_with_the_snapshot() {
    let mut mock = Mock::start().await;
    let builder = build(&mock).index("letters", |object| {
        String::from_utf8_lossy(object.value())
            .chars()
            .map(String::from)
            .collect()
    });
    let state = vec![object("a", "ua", 1, "xy"), object("b", "ub", 2, "x")];
    let (reflector, open) = ready(&mut mock, builder, 5, state).await;
    let found = |snapshot: &Snapshot<Bytes>, letter: &str| -> Vec<String> {
        snapshot
            .indexed("letters", letter)
            .map(|o| o.key().name.clone())
            .collect()
    };
    let first = reflector.snapshot();
    assert_eq!(found(&first, "x"), ["a", "b"]);
    assert_eq!(found(&first, "y"), ["a"]);
    assert_eq!(first.indexed("no such index", "x").count(), 0);
    open.changes(
        7,
        vec![
            event(EventType::Modified, object("a", "ua", 6, "z")),
            event(EventType::Deleted, object("b", "ub", 7, "")),
        ],
    )
    .await;
    let second = reflector.wait_for_revision(7, LONG).await.unwrap();
    assert_eq!(second.index_values("letters").collect::<Vec<_>>(), ["z"]);
    assert_eq!(found(&second, "z"), ["a"]);
    assert_eq!(
        found(&first, "x"),
        ["a", "b"],
        "the old snapshot has its old index"
    );
}

#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_decoded_is_reported_and_stops_nothing() {
    #[derive(Debug, serde::Deserialize)]
    struct Thing {
        size: u32,
    }
    let mut mock = Mock::start().await;
    let builder = reflector(mock.client.clone(), options(), Codec::<Thing>::json());
    let reflector = builder
        .index("size", |o| vec![o.value().size.to_string()])
        .spawn();
    let open = mock.next_watch().await.accept();
    let good = object("good", "u1", 1, r#"{"size": 3}"#);
    open.initial_state(5, vec![object("bad", "u2", 2, "not json"), good])
        .await;
    let snapshot = reflector.wait_until_ready(LONG).await.unwrap();
    assert_eq!(names(&snapshot), held(&[("good", 1)]));
    let bad = snapshot.undecodable().next().unwrap();
    assert_eq!(
        (bad.key().name.as_str(), reflector.status().undecodable),
        ("bad", 1)
    );
    assert!(bad.last().is_none());

    // A held object goes bad, and then well again: handlers never hear of an end.
    let mut handler = reflector.subscribe();
    open.changes(
        6,
        vec![event(EventType::Modified, object("good", "u1", 6, "{"))],
    )
    .await;
    let snapshot = reflector.wait_for_revision(6, LONG).await.unwrap();
    assert!(snapshot.is_empty());
    assert_eq!(snapshot.index_values("size").count(), 0);
    let last = snapshot
        .undecodable()
        .find(|o| o.key().name == "good")
        .unwrap()
        .last()
        .cloned();
    assert_eq!(last.unwrap().value().size, 3);
    let fixed = object("good", "u1", 7, r#"{"size": 4}"#);
    // What waits is told before the next change comes.
    let mut told = Vec::new();
    for _ in 0..4 {
        told.push(handler.next().await.unwrap());
    }
    assert!(
        told.iter()
            .any(|n| matches!(n, Notice::Added(o) if o.value().size == 3))
    );
    assert!(
        told.iter()
            .any(|n| matches!(n, Notice::Undecodable(o) if o.key().name == "good"))
    );
    open.changes(7, vec![event(EventType::Modified, fixed)])
        .await;
    match handler.next().await.unwrap() {
        Notice::Updated { old, new } => assert_eq!((old.value().size, new.value().size), (3, 4)),
        other => panic!("{other:?}"),
    }
    assert_eq!(reflector.status().undecodable, 1);
}

#[tokio::test(start_paused = true)]
async fn values_are_decoded_as_protobuf() {
    let mut mock = Mock::start().await;
    let builder = reflector(
        mock.client.clone(),
        options(),
        Codec::<Bookmark>::protobuf(),
    );
    let reflector = builder.spawn();
    let open = mock.next_watch().await.accept();
    let value = Bookmark {
        revision: 42,
        ..Bookmark::default()
    }
    .encode_to_vec();
    let resource = Resource {
        value: value.into(),
        ..object("a", "u", 1, "")
    };
    open.initial_state(5, vec![resource]).await;
    let snapshot = reflector.wait_until_ready(LONG).await.unwrap();
    assert_eq!(snapshot.get(&key("a")).unwrap().value().revision, 42);
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_stops_the_reflector_and_says_why() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "ua", 1, "")]).await;
    let mut handler = reflector.subscribe();
    open.fail(Status::permission_denied("not any more")).await;
    let error = reflector.wait_for_revision(99, LONG).await.unwrap_err();
    assert!(error.to_string().contains("not any more"), "{error}");
    assert!(matches!(
        reflector.status().connection,
        Connection::Stopped(Some(_))
    ));
    assert!(reflector.status().is_stale());
    assert_eq!(
        reflector.snapshot().len(),
        1,
        "what it held can still be read"
    );
    assert_eq!(shown(&handler.next().await.unwrap()), "+ua@1");
    assert_eq!(shown(&handler.next().await.unwrap()), "synced");
    assert!(handler.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn dropping_a_reflector_ends_its_stream_and_leaves_its_readers() {
    let mut mock = Mock::start().await;
    let builder = build(&mock);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "ua", 1, "")]).await;
    let reader = reflector.reader();
    drop(reflector);
    open.dropped().await;
    assert_eq!(reader.snapshot().len(), 1);
    let error = reader.wait_for_revision(6, LONG).await.unwrap_err();
    assert!(matches!(error, WaitError::Stopped(None)), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_codec_that_panics_is_noticed() {
    let mut mock = Mock::start().await;
    let codec = Codec::<()>::new(|_| panic!("a fault of the user's"));
    let reflector = reflector(mock.client.clone(), options(), codec).spawn();
    let open = mock.next_watch().await.accept();
    open.initial_state(5, vec![object("a", "ua", 1, "")]).await;
    let error = reflector.wait_until_ready(LONG).await.unwrap_err();
    assert!(matches!(error, WaitError::Stopped(None)), "{error:?}");
}
