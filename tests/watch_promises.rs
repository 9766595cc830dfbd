//! What every watch promises: ordered, unique, reliable, atomic, resumable, bookmarkable.

use listwatch::v1::{self, BookmarkKind, watch_request::Start};

use crate::harness::{Harness, reason, short, token, watch};

#[tokio::test]
async fn a_watch_gives_the_state_and_then_every_change_in_order() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    harness.put("pods", "b", "1").await;
    let mut watch = harness.watch_all("pods").await;
    let initial = watch.until(BookmarkKind::InitialStateEnd).await;
    assert_eq!(
        initial[0].bookmark.as_ref().unwrap().kind(),
        BookmarkKind::InitialStateBegin
    );
    assert_eq!(short(&initial), ["=a@1", "=b@2"]);
    harness.put("pods", "a", "2").await;
    harness.put("other", "x", "2").await;
    harness.delete("pods", "b").await;
    let last = harness.put("pods", "b", "3").await;
    let changes = watch.through(last.revision).await;
    assert_eq!(short(&changes), ["~a@3", "-b@5", "+b@6"]);
}

#[tokio::test]
async fn a_watch_resumes_from_any_bookmark() {
    let harness = Harness::start().await;
    let mut first = harness.watch_all("pods").await;
    let mut tokens = vec![token(&first.until(BookmarkKind::InitialStateEnd).await)];
    let mut expected = Vec::new();
    for n in 1..=10 {
        let written = harness.put("pods", &format!("p{n}"), "x").await;
        expected.push(format!("+p{n}@{}", written.revision));
        tokens.push(token(&first.through(written.revision).await));
    }
    for (from, token) in tokens.iter().enumerate().take(10) {
        let mut again = harness.resume("pods", token).await;
        let responses = again.through(10).await;
        assert_eq!(
            responses[0].bookmark.as_ref().unwrap().kind(),
            BookmarkKind::Resumed
        );
        assert_eq!(short(&responses), expected[from..], "from {from}");
    }
}

#[tokio::test]
async fn an_exact_watch_from_compacted_history_is_refused_with_the_reason() {
    let harness = Harness::start().await;
    let mut before = harness.watch_all("pods").await;
    let old = token(&before.until(BookmarkKind::InitialStateEnd).await);
    for n in 0..400 {
        harness.put("pods", "a", &n.to_string()).await;
    }
    harness.compact(390).await;
    let mut request = watch("pods", Some(Start::ResumeToken(old)));
    request.catch_up = v1::CatchUp::Exact.into();
    let refused = harness.watch(request).await.err().expect("an error");
    assert_eq!(refused.code(), tonic::Code::OutOfRange);
    assert_eq!(reason(&refused), "REVISION_COMPACTED");
}
