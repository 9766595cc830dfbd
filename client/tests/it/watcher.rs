//! A watch that goes on by itself: when it reconnects, how patiently, and when it gives up.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use listwatch_client::{
    Client, Event, Select, WatchOptions, Watcher,
    v1::{BookmarkKind, DeleteCause, EventType, WatchEvent},
    watcher,
    watcher::{Change, Disconnect, WatcherError},
};
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::mock::{Mock, event, object, refusal};

const SECOND: Duration = Duration::from_secs(1);

/// Jitter at its longest: delays are then their bounds.
pub(crate) fn options() -> WatchOptions {
    WatchOptions::new(Select::all("things")).randomness(Arc::new(|| 1.0))
}

pub(crate) fn watch(client: &Client) -> Watcher {
    watcher(client.clone(), options())
}

pub(crate) async fn next(watcher: &mut Watcher) -> Event {
    watcher
        .next()
        .await
        .expect("a watcher does not end")
        .expect("no error that ends it")
}

pub(crate) async fn next_disconnect(watcher: &mut Watcher) -> (Disconnect, Duration) {
    loop {
        if let Event::Disconnected { cause, retry_in } = next(watcher).await {
            return (cause, retry_in);
        }
    }
}

/// Reads on a task, so that a test can look at the server's side alone.
fn read_on(mut watcher: Watcher) -> tokio::task::JoinHandle<Option<WatcherError>> {
    tokio::spawn(async move {
        while let Some(item) = watcher.next().await {
            if let Err(error) = item {
                return Some(error);
            }
        }
        None
    })
}

#[tokio::test(start_paused = true)]
async fn the_initial_state_and_then_every_change() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let server = tokio::spawn(async move {
        let call = mock.next_watch().await;
        assert!(call.wants_initial_state());
        let open = call.accept();
        open.initial_state(5, vec![object("a", "u1", 3, "")]).await;
        open.changes(
            7,
            vec![
                event(EventType::Added, object("b", "u2", 6, "")),
                event(EventType::Modified, object("a", "u1", 7, "")),
                WatchEvent {
                    delete_cause: DeleteCause::Expired.into(),
                    ..event(EventType::Deleted, object("b", "u2", 7, ""))
                },
            ],
        )
        .await;
        (mock, open)
    });
    assert!(matches!(next(&mut watcher).await, Event::InitBegin));
    assert!(matches!(next(&mut watcher).await, Event::InitApply(o) if o.uid == "u1"));
    assert!(watcher.resume_token().is_none(), "not before its end");
    assert!(matches!(next(&mut watcher).await, Event::InitDone(p) if p.revision == 5));
    assert!(matches!(
        next(&mut watcher).await,
        Event::Apply {
            change: Change::Added,
            ..
        }
    ));
    assert!(!watcher.response_is_done());
    assert!(matches!(
        next(&mut watcher).await,
        Event::Apply {
            change: Change::Modified,
            ..
        }
    ));
    assert_eq!(
        watcher.resume_token().unwrap().as_str(),
        "t5",
        "only with the bookmark"
    );
    let deleted = next(&mut watcher).await;
    assert!(matches!(
        deleted,
        Event::Delete {
            cause: DeleteCause::Expired,
            ..
        }
    ));
    assert!(matches!(next(&mut watcher).await, Event::Bookmark(p) if p.revision == 7));
    assert!(watcher.response_is_done());
    assert_eq!(watcher.resume_token().unwrap().as_str(), "t7");
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unknown_event_type_with_an_object_is_a_change() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let server = tokio::spawn(async move {
        let open = mock.next_watch().await.accept();
        open.initial_state(1, vec![]).await;
        let unknown = |resource| WatchEvent {
            r#type: 99,
            resource,
            ..WatchEvent::default()
        };
        let known = Some(object("a", "u", 2, ""));
        open.changes(2, vec![unknown(None), unknown(known)]).await;
        (mock, open)
    });
    next(&mut watcher).await;
    next(&mut watcher).await;
    assert!(matches!(
        next(&mut watcher).await,
        Event::Apply {
            change: Change::Modified,
            ..
        }
    ));
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn external_dns_1458_silence_over_two_and_a_half_intervals_reconnects() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let started = tokio::spawn(async move {
        let open = mock.next_watch().await.accept();
        open.initial_state(5, vec![]).await;
        (mock, open)
    });
    let before = Instant::now();
    let (cause, _) = next_disconnect(&mut watcher).await;
    assert!(
        matches!(cause, Disconnect::Silent(limit) if limit == 25 * SECOND),
        "{cause}"
    );
    assert!(before.elapsed() >= 25 * SECOND && before.elapsed() < 26 * SECOND);
    let (mut mock, open) = started.await.unwrap();
    open.dropped().await;
    let reading = read_on(watcher);
    assert_eq!(mock.next_watch().await.token(), Some("t5"));
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn bookmarks_within_two_and_a_half_intervals_keep_a_stream() {
    let mut mock = Mock::start().await;
    let reading = read_on(watch(&mock.client));
    let open = mock.next_watch().await.accept();
    open.initial_state(5, vec![]).await;
    for revision in 6..20 {
        assert!(mock.no_watch_within(24 * SECOND).await);
        open.bookmark(BookmarkKind::Progress, revision).await;
    }
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_does_not_take_its_own_slowness_for_silence() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let server = tokio::spawn(async move {
        let open = mock.next_watch().await.accept();
        open.initial_state(5, vec![]).await;
        open.bookmark(BookmarkKind::Progress, 6).await;
        (mock, open)
    });
    next(&mut watcher).await;
    tokio::time::sleep(300 * SECOND).await;
    assert!(matches!(next(&mut watcher).await, Event::InitDone(_)));
    tokio::time::sleep(300 * SECOND).await;
    assert!(matches!(next(&mut watcher).await, Event::Bookmark(_)));
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_answers_is_given_up() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let (cause, _) = next_disconnect(&mut watcher).await;
    assert!(
        matches!(cause, Disconnect::NoResponse(limit) if limit == 30 * SECOND),
        "{cause}"
    );
    // Also when the headers came.
    let _held = mock.next_watch().await;
    let accepting = tokio::spawn(async move {
        let open = mock.next_watch().await.accept();
        (mock, open)
    });
    let (cause, _) = next_disconnect(&mut watcher).await;
    assert!(matches!(cause, Disconnect::NoResponse(_)), "{cause}");
    accepting.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_initial_state_that_makes_no_progress_is_given_up() {
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
        // Signs of life, and nothing else.
        loop {
            open.bookmark(BookmarkKind::Progress, 5).await;
            tokio::time::sleep(10 * SECOND).await;
        }
    });
    let before = Instant::now();
    let (cause, _) = next_disconnect(&mut watcher).await;
    assert!(
        matches!(cause, Disconnect::NoProgress(limit) if limit == 60 * SECOND),
        "{cause}"
    );
    assert!(before.elapsed() < 62 * SECOND);
    assert!(
        watcher.resume_token().is_none(),
        "a token from inside would skip the rest"
    );
    server.abort();
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_dies_at_once_backs_off() {
    let mut mock = Mock::start().await;
    let reading = read_on(watch(&mock.client));
    let mut last = None;
    let mut delays = Vec::new();
    for round in 0..8 {
        let call = mock.next_watch().await;
        if let Some(last) = last.replace(call.at) {
            delays.push(call.at.duration_since(last).as_millis());
        }
        let open = call.accept();
        // Politely or not, with a word or without: it lived for less than a second.
        if round % 2 == 0 {
            open.initial_state(5, vec![]).await;
        }
        if round % 3 == 0 {
            open.fail(Status::unavailable("bye")).await;
        } else {
            open.end();
        }
    }
    let bounds = [800, 1600, 3200, 6400, 12800, 25600, 30000];
    for (delay, bound) in delays.iter().zip(bounds) {
        assert!((bound..bound + 50).contains(delay), "{delays:?}");
    }
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_well_after_a_second_is_followed_at_once() {
    let mut mock = Mock::start().await;
    let reading = read_on(watch(&mock.client));
    let open = mock.next_watch().await.accept();
    open.initial_state(5, vec![]).await;
    tokio::time::sleep(2 * SECOND).await;
    let before = Instant::now();
    open.end();
    let call = mock.next_watch().await;
    assert!(call.at - before <= Duration::from_millis(250));
    assert_eq!(call.token(), Some("t5"));
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn two_minutes_of_health_reset_the_backoff() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let server = tokio::spawn(async move {
        for _ in 0..4 {
            mock.next_watch().await.refuse(Status::unavailable("down"));
        }
        let open = mock.next_watch().await.accept();
        open.initial_state(5, vec![]).await;
        for revision in 6..20 {
            tokio::time::sleep(10 * SECOND).await;
            open.bookmark(BookmarkKind::Progress, revision).await;
        }
        open.fail(Status::unavailable("down")).await;
        mock
    });
    let mut delays = Vec::new();
    for _ in 0..5 {
        delays.push(next_disconnect(&mut watcher).await.1.as_millis());
    }
    assert_eq!(delays, [800, 1600, 3200, 6400, 800]);
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn retry_info_overrides_the_delay() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let delay = 77 * SECOND;
    let server = tokio::spawn(async move {
        for (code, reason) in [
            (Code::Unavailable, "NOT_READY"),
            (Code::ResourceExhausted, "TOO_MANY_WATCHES"),
        ] {
            mock.next_watch()
                .await
                .refuse(refusal(code, reason, Some(delay)));
        }
        // Nothing is no licence for a tight loop.
        let now = Some(Duration::ZERO);
        mock.next_watch()
            .await
            .refuse(refusal(Code::Unavailable, "NOT_READY", now));
        mock
    });
    for _ in 0..2 {
        let (_, retry_in) = next_disconnect(&mut watcher).await;
        assert!(
            retry_in >= delay && retry_in <= delay + delay / 10,
            "{retry_in:?}"
        );
    }
    let (_, retry_in) = next_disconnect(&mut watcher).await;
    assert!(retry_in >= Duration::from_millis(100), "{retry_in:?}");
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn errors_that_no_retry_cures_end_it() {
    let mut mock = Mock::start().await;
    for (code, reason) in [
        (Code::Unauthenticated, ""),
        (Code::PermissionDenied, ""),
        (Code::InvalidArgument, "FIELD_INVALID"),
        (Code::Unimplemented, "UNSUPPORTED"),
        (Code::ResourceExhausted, "STORAGE_FULL"),
        (Code::NotFound, "OBJECT_NOT_FOUND"),
    ] {
        let reading = read_on(watch(&mock.client));
        mock.next_watch().await.refuse(refusal(code, reason, None));
        let error = reading.await.unwrap().expect("an error");
        assert!(matches!(error, WatcherError::Refused(_)), "{error:?}");
        assert_eq!(error.client_error().code(), code);
    }
    assert!(mock.no_watch_within(120 * SECOND).await);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_ended_stays_ended() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let server = tokio::spawn(async move {
        mock.next_watch()
            .await
            .refuse(Status::permission_denied("no"));
        mock
    });
    assert!(watcher.next().await.unwrap().is_err());
    assert!(watcher.next().await.is_none());
    watcher.restart();
    assert!(watcher.next().await.is_none());
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_transport_and_of_the_moment_are_retried() {
    let mut mock = Mock::start().await;
    let reading = read_on(watch(&mock.client));
    for status in [
        Status::unavailable("connection refused"),
        Status::cancelled("goaway"),
        Status::internal("h2 protocol error"),
        Status::aborted("moment"),
        Status::deadline_exceeded("late"),
        Status::unknown("who knows"),
        refusal(Code::Internal, "INTERNAL", None),
    ] {
        mock.next_watch().await.refuse(status);
    }
    mock.next_watch().await;
    assert!(!reading.is_finished());
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_away_is_left_without_backoff() {
    let mut mock = Mock::start().await;
    let reading = read_on(watch(&mock.client));
    let open = mock.next_watch().await.accept();
    open.initial_state(5, vec![]).await;
    tokio::time::sleep(2 * SECOND).await;
    let before = Instant::now();
    open.bookmark(BookmarkKind::GoingAway, 6).await;
    let call = mock.next_watch().await;
    assert!(call.at - before <= Duration::from_millis(250));
    assert_eq!(call.token(), Some("t6"), "its last bookmark counts");
    open.dropped().await;
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn servers_that_all_go_away_are_not_called_in_a_tight_loop() {
    let mut mock = Mock::start().await;
    let reading = read_on(watch(&mock.client));
    let before = Instant::now();
    for _ in 0..8 {
        let open = mock.next_watch().await.accept();
        open.initial_state(5, vec![]).await;
        open.bookmark(BookmarkKind::GoingAway, 5).await;
        open.dropped().await;
    }
    assert!(before.elapsed() > 20 * SECOND, "{:?}", before.elapsed());
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_breaks_the_protocol_is_left_with_backoff() {
    let mut mock = Mock::start().await;
    let mut watcher = watch(&mock.client);
    let server = tokio::spawn(async move {
        let open = mock.next_watch().await.accept();
        let stray = event(EventType::Added, object("a", "u", 2, ""));
        open.send(vec![stray], None).await;
        let open2 = mock.next_watch().await.accept();
        open2.bookmark(BookmarkKind::Resumed, 2).await;
        (mock, open, open2)
    });
    for delay in [800, 1600] {
        let (cause, retry_in) = next_disconnect(&mut watcher).await;
        assert!(matches!(cause, Disconnect::Error(_)), "{cause}");
        assert_eq!(retry_in.as_millis(), delay);
    }
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_is_sent() {
    use listwatch_client::v1::{CatchUp, DeliveryMode, View, watch_request};
    use listwatch_client::watcher::{ResumeToken, Start};
    let mut mock = Mock::start().await;
    let options = options()
        .view(View::Metadata)
        .delivery_mode(DeliveryMode::Latest)
        .catch_up(CatchUp::Exact)
        .send_previous(true)
        .bookmark_interval(3 * SECOND)
        .max_batch_delay(SECOND);
    let starts = [
        (
            Start::Token(ResumeToken::new("t1")),
            watch_request::Start::ResumeToken("t1".into()),
        ),
        (
            Start::AfterRevision(4),
            watch_request::Start::AfterRevision(4),
        ),
        (Start::Now, watch_request::Start::Now(true)),
    ];
    for (start, expected) in starts {
        let reading = read_on(watcher(mock.client.clone(), options.clone().start(start)));
        let request = mock.next_watch().await.request;
        assert_eq!(request.start, Some(expected));
        assert_eq!(
            request.selector.as_ref().map(|s| s.collection.as_str()),
            Some("things")
        );
        assert_eq!(request.view(), View::Metadata);
        assert_eq!(request.delivery_mode(), DeliveryMode::Latest);
        assert_eq!(request.catch_up(), CatchUp::Exact);
        assert!(request.send_previous);
        assert_eq!(request.bookmark_interval.map(|d| d.seconds), Some(3));
        assert_eq!(request.max_batch_delay.map(|d| d.seconds), Some(1));
        reading.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_watcher_ends_its_stream() {
    let mut mock = Mock::start().await;
    let reading = read_on(watch(&mock.client));
    let open = mock.next_watch().await.accept();
    open.initial_state(5, vec![]).await;
    reading.abort();
    open.dropped().await;
    assert!(mock.no_watch_within(60 * SECOND).await);
}
