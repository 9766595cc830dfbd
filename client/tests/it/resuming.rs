//! Where a watcher goes on after a broken stream, and what it tells again.

use std::time::Duration;

use futures::StreamExt as _;
use listwatch_client::{
    Event,
    v1::{BookmarkKind, EventType},
    watcher,
    watcher::{OnExpired, ResumeToken, Start, WatcherError},
};
use tonic::{Code, Status};

use crate::{
    mock::{Mock, event, object, refusal},
    watcher::{next, next_disconnect, options, watch},
};

#[tokio::test(start_paused = true)]
async fn a_broken_stream_is_resumed_from_the_last_point_that_was_read() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let server = tokio::spawn(async move {
        let open = mock.next_watch().await.accept();
        open.initial_state(5, vec![]).await;
        open.changes(6, vec![event(EventType::Added, object("a", "u", 6, ""))])
            .await;
        open.fail(Status::unavailable("gone")).await;
        let call = mock.next_watch().await;
        assert_eq!(call.token(), Some("t6"));
        let open = call.accept();
        open.bookmark(BookmarkKind::Resumed, 6).await;
        (mock, open)
    });
    next_disconnect(&mut watcher).await;
    assert!(matches!(next(&mut watcher).await, Event::Resumed(p) if p.revision == 6));
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn changes_after_the_last_bookmark_are_told_once() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let modified =
        |name: &str, revision| event(EventType::Modified, object(name, name, revision, ""));
    let server = tokio::spawn(async move {
        let open = mock.next_watch().await.accept();
        open.initial_state(5, vec![]).await;
        // Revision 7 is told by half when the stream breaks.
        open.send(vec![modified("a", 6), modified("a", 7)], None)
            .await;
        open.fail(Status::unavailable("gone")).await;
        let call = mock.next_watch().await;
        assert_eq!(call.token(), Some("t5"));
        let open = call.accept();
        open.bookmark(BookmarkKind::Resumed, 5).await;
        // And breaks again in the middle of what is repeated.
        open.send(vec![modified("a", 6)], None).await;
        open.fail(Status::unavailable("gone")).await;
        let open = mock.next_watch().await.accept();
        open.bookmark(BookmarkKind::Resumed, 5).await;
        let events = vec![
            modified("a", 6),
            modified("a", 7),
            modified("b", 7),
            modified("a", 8),
        ];
        open.changes(8, events).await;
        (mock, open)
    });
    let mut told = Vec::new();
    loop {
        match next(&mut watcher).await {
            Event::Apply { object, .. } => told.push((object.uid, object.revision)),
            Event::Bookmark(_) => break,
            _ => {}
        }
    }
    let expected = [("a", 6), ("a", 7), ("b", 7), ("a", 8)];
    assert_eq!(
        told,
        expected.map(|(name, revision)| (name.to_owned(), revision))
    );
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_broken_initial_state_begins_anew() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let server = tokio::spawn(async move {
        let open = mock.next_watch().await.accept();
        open.bookmark(BookmarkKind::InitialStateBegin, 5).await;
        open.send(
            vec![event(EventType::Existing, object("a", "u", 1, ""))],
            None,
        )
        .await;
        open.fail(Status::unavailable("killed")).await;
        let call = mock.next_watch().await;
        assert!(call.wants_initial_state());
        (mock, call)
    });
    next_disconnect(&mut watcher).await;
    let waiting = tokio::spawn(async move { next(&mut watcher).await });
    server.await.unwrap();
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_broken_net_difference_is_asked_for_again_from_its_start() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let server = tokio::spawn(async move {
        let open = mock.next_watch().await.accept();
        open.initial_state(5, vec![]).await;
        open.fail(Status::unavailable("gone")).await;
        for kind in [BookmarkKind::NetBegin, BookmarkKind::ManifestBegin] {
            let call = mock.next_watch().await;
            assert_eq!(call.token(), Some("t5"));
            let open = call.accept();
            open.bookmark(kind, 5).await;
            let upserted = event(EventType::Upserted, object("a", "u", 9, ""));
            open.changes(9, vec![upserted]).await;
            open.fail(Status::unavailable("gone")).await;
        }
        let call = mock.next_watch().await;
        assert_eq!(
            call.token(),
            Some("t5"),
            "9 was inside, where no copy is consistent"
        );
        let open = call.accept();
        open.bookmark(BookmarkKind::NetBegin, 5).await;
        open.bookmark(BookmarkKind::InitialStateEnd, 12).await;
        (mock, open)
    });
    loop {
        if let Event::CaughtUp(point) = next(&mut watcher).await {
            assert_eq!(point.revision, 12);
            break;
        }
    }
    assert_eq!(watcher.resume_token().unwrap().as_str(), "t12");
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn expired_history_leads_to_a_new_initial_state_with_backoff() {
    for (code, reason) in [
        (Code::OutOfRange, "REVISION_COMPACTED"),
        (Code::OutOfRange, "STORE_CHANGED"),
        (Code::DataLoss, "STORE_DAMAGED"),
    ] {
        let mut mock = Mock::start().await;
        let options = options().start(Start::Token(ResumeToken::new("t1")));
        let mut watcher = watcher(mock.client.clone(), options);
        let server = tokio::spawn(async move {
            let call = mock.next_watch().await;
            assert_eq!(call.token(), Some("t1"));
            call.refuse(refusal(code, reason, None));
            let call = mock.next_watch().await;
            assert!(call.wants_initial_state(), "{reason}");
            let open = call.accept();
            open.initial_state(5, vec![]).await;
            (mock, open)
        });
        assert_eq!(
            next_disconnect(&mut watcher).await.1,
            Duration::from_millis(800)
        );
        assert!(matches!(next(&mut watcher).await, Event::InitBegin));
        server.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn expired_history_is_an_error_for_who_wants_every_change() {
    let mut mock = Mock::start().await;
    let options = options()
        .start(Start::AfterRevision(1))
        .on_expired(OnExpired::Fail);
    let mut watcher = watcher(mock.client.clone(), options);
    let server = tokio::spawn(async move {
        let call = mock.next_watch().await;
        call.refuse(refusal(Code::OutOfRange, "REVISION_COMPACTED", None));
        mock
    });
    let error = watcher.next().await.unwrap().unwrap_err();
    assert!(matches!(error, WatcherError::Expired(_)), "{error:?}");
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_token_from_the_future_is_tried_a_few_times_and_then_given_up() {
    let mut mock = Mock::start().await;
    let options = options().start(Start::Token(ResumeToken::new("t1000")));
    let mut watcher = watcher(mock.client.clone(), options);
    let reading = tokio::spawn(async move { while watcher.next().await.is_some() {} });
    for _ in 0..5 {
        let call = mock.next_watch().await;
        assert_eq!(call.token(), Some("t1000"));
        call.refuse(refusal(Code::OutOfRange, "REVISION_IN_FUTURE", None));
    }
    assert!(mock.next_watch().await.wants_initial_state());
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_token_of_the_users_own_that_is_invalid_is_an_error() {
    let mut mock = Mock::start().await;
    let options = options().start(Start::Token(ResumeToken::new("nonsense")));
    let mut watcher = watcher(mock.client.clone(), options);
    let server = tokio::spawn(async move {
        let call = mock.next_watch().await;
        call.refuse(refusal(Code::InvalidArgument, "TOKEN_INVALID", None));
        mock
    });
    assert!(watcher.next().await.unwrap().is_err());
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_keeps_expiring_for_no_known_reason_is_an_error_at_last() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    // As tonic says of a response over the client's limit.
    let server = tokio::spawn(async move {
        for _ in 0..5 {
            mock.next_watch()
                .await
                .refuse(Status::out_of_range("message length too large"));
        }
        mock
    });
    while let Some(item) = watcher.next().await {
        if let Err(error) = item {
            assert!(matches!(error, WatcherError::Refused(_)), "{error:?}");
        }
    }
    server.await.unwrap();
}
