//! A restarted program gets only the difference.

use std::{fs, path::Path, time::Duration};

use bytes::Bytes;
use listwatch_client::{
    Codec, Persistence, Select, WatchOptions, reflector,
    reflector::{ReflectorBuilder, Restore},
    v1::{BookmarkKind, EventType},
};
use tonic::Code;

use crate::{
    mock::{Mock, bookmark, event, object, refusal},
    reflector::{LONG, build, drain, held, key, names, ready, until},
};

fn persisting(mock: &Mock, path: &Path) -> ReflectorBuilder<Bytes> {
    build(mock).persist(Persistence::new(path).interval(Duration::from_secs(10)))
}

/// A file with a and b at revision 5.
async fn saved(path: &Path) {
    let mut mock = Mock::start().await;
    let builder = persisting(&mock, path);
    let state = vec![object("a", "ua", 1, "one"), object("b", "ub", 2, "two")];
    let (reflector, _open) = ready(&mut mock, builder, 5, state).await;
    reflector.shutdown().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_restarted_reflector_gets_only_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    saved(&path).await;

    let mut mock = Mock::start().await;
    let reflector = persisting(&mock, &path).spawn();
    let mut handler = reflector.subscribe();
    let call = mock.next_watch().await;
    assert_eq!(call.token(), Some("t5"), "no initial state");
    // The old state is there at once, and says that it is old.
    assert_eq!(names(&reflector.snapshot()), held(&[("a", 1), ("b", 2)]));
    assert_eq!(&reflector.get(&key("a")).unwrap().value()[..], b"one");
    let status = reflector.status();
    assert_eq!(
        status.restore,
        Restore::Restored {
            revision: 5,
            objects: 2
        }
    );
    assert!(status.is_stale() && !status.ready);
    let told = drain(&mut handler).await;
    assert_eq!(
        told,
        ["+ua@1", "+ub@2"],
        "and nothing says that this is all"
    );

    let open = call.accept();
    open.bookmark(BookmarkKind::NetBegin, 5).await;
    open.send(
        vec![event(EventType::Deleted, object("b", "ub", 8, ""))],
        Some(bookmark(BookmarkKind::InitialStateEnd, 9)),
    )
    .await;
    let snapshot = reflector.wait_until_ready(LONG).await.unwrap();
    assert_eq!(names(&snapshot), held(&[("a", 1)]));
    assert_eq!(drain(&mut handler).await, ["-ub@2", "synced"]);
}

#[tokio::test(start_paused = true)]
async fn state_is_saved_by_itself_while_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut mock = Mock::start().await;
    let builder = persisting(&mock, &path);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![object("a", "ua", 1, "")]).await;
    let mut status = reflector.watch_status();
    until(&mut status, |s| s.last_save.is_some()).await;
    let first = fs::read(&path).unwrap();
    open.changes(
        6,
        vec![event(EventType::Modified, object("a", "ua", 6, ""))],
    )
    .await;
    let at = status.borrow().last_save;
    until(&mut status, |s| s.last_save != at).await;
    assert_ne!(fs::read(&path).unwrap(), first);
    // A process that is killed now leaves this file: dropping saves nothing.
    drop(reflector);

    let mut mock = Mock::start().await;
    let reflector = persisting(&mock, &path).spawn();
    assert_eq!(mock.next_watch().await.token(), Some("t6"));
    assert_eq!(names(&reflector.snapshot()), held(&[("a", 6)]));
}

#[tokio::test(start_paused = true)]
async fn a_damaged_file_is_named_and_leads_to_a_fresh_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    saved(&path).await;
    let good = fs::read(&path).unwrap();
    let mut damaged: Vec<Vec<u8>> = vec![vec![], b"hello".to_vec(), vec![0; 4096]];
    for cut in [1, 7, 8, 12, good.len() / 2, good.len() - 1] {
        damaged.push(good[..cut].to_vec());
    }
    for flip in 0..good.len() {
        let mut bytes = good.clone();
        bytes[flip] ^= 0x10;
        damaged.push(bytes);
    }
    for bytes in damaged {
        fs::write(&path, &bytes).unwrap();
        let mut mock = Mock::start().await;
        let reflector = persisting(&mock, &path).spawn();
        assert!(mock.next_watch().await.wants_initial_state());
        assert!(reflector.snapshot().is_empty());
        let Restore::Refused {
            path: named,
            problem,
        } = reflector.status().restore
        else {
            panic!("{:?}", reflector.status().restore);
        };
        assert_eq!(named, path);
        assert!(problem.contains("state: "), "{problem}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_of_another_selector_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    saved(&path).await;
    let mut mock = Mock::start().await;
    let options = WatchOptions::new(Select::all("things").namespace("other"));
    let builder = reflector(mock.client.clone(), options, Codec::raw());
    let reflector = builder.persist(Persistence::new(&path)).spawn();
    assert!(mock.next_watch().await.wants_initial_state());
    assert!(matches!(
        reflector.status().restore,
        Restore::Refused { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn a_saved_token_that_the_server_refuses_leads_to_a_fresh_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    for (code, reason) in [
        (Code::InvalidArgument, "TOKEN_INVALID"),
        (Code::OutOfRange, "STORE_CHANGED"),
        (Code::OutOfRange, "REVISION_COMPACTED"),
    ] {
        saved(&path).await;
        let mut mock = Mock::start().await;
        let reflector = persisting(&mock, &path).spawn();
        mock.next_watch().await.refuse(refusal(code, reason, None));
        let call = mock.next_watch().await;
        assert!(call.wants_initial_state(), "{reason}");
        assert_eq!(reflector.snapshot().len(), 2, "served until then");
        let open = call.accept();
        open.initial_state(3, vec![object("c", "uc", 3, "")]).await;
        let snapshot = reflector.wait_until_ready(LONG).await.unwrap();
        assert_eq!(names(&snapshot), held(&[("c", 3)]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_cannot_be_written_is_an_error_of_saving_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing").join("state");
    let mut mock = Mock::start().await;
    let builder = persisting(&mock, &path);
    let (reflector, open) = ready(&mut mock, builder, 5, vec![]).await;
    tokio::time::sleep(Duration::from_secs(11)).await;
    open.changes(6, vec![event(EventType::Added, object("a", "ua", 6, ""))])
        .await;
    assert_eq!(reflector.wait_for_revision(6, LONG).await.unwrap().len(), 1);
    let error = reflector.shutdown().await.unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}
