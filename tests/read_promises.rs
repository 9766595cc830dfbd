//! What lists and reads promise: one revision, the consistency that was asked for, and a
//! clear word when history is gone.

use listwatch::v1::{self, consistency::Kind};
use listwatch_client::ClientError;
use listwatch_server::ServerOptions;

use crate::{
    harness::{Harness, everything, faulty::FaultyStore, key, labelled, reason, short},
    validator::{Listed, Model, assert_kept, check_list},
};

fn list(kind: Option<Kind>) -> v1::ListRequest {
    v1::ListRequest {
        selector: Some(everything("pods")),
        consistency: kind.map(|kind| v1::Consistency { kind: Some(kind) }),
        ..v1::ListRequest::default()
    }
}

async fn refusal<T: std::fmt::Debug>(
    answer: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> (tonic::Code, String) {
    let refused = answer.await.expect_err("an error");
    (refused.code(), reason(&refused))
}

#[tokio::test]
async fn all_pages_of_a_list_show_one_revision_while_writes_go_on() {
    let harness = Harness::start().await;
    let mut model = Model::default();
    let put = async |model: &mut Model, name: &str, app: &str| {
        let mut written = harness
            .put_labelled("pods", name, app, &[("app", app)])
            .await;
        written.value = app.as_bytes().to_vec().into();
        model.put(written);
    };
    for n in 0..40 {
        put(
            &mut model,
            &format!("p{n:02}"),
            if n % 3 == 0 { "db" } else { "web" },
        )
        .await;
    }
    for selector in [everything("pods"), labelled("pods", "app", "web")] {
        let acknowledged = model.revision();
        let mut pages = Vec::new();
        let mut request = v1::ListRequest {
            selector: Some(selector.clone()),
            page_size: 7,
            ..v1::ListRequest::default()
        };
        loop {
            let page = harness.client.list(request.clone()).await.unwrap();
            request.page_token.clone_from(&page.next_page_token);
            // Behind and ahead of where the pages stand; the size may change as well.
            put(&mut model, "p00", "web").await;
            put(&mut model, "p39", "db").await;
            put(&mut model, &format!("q{}", pages.len()), "web").await;
            request.page_size += 1;
            pages.push(page);
            if request.page_token.is_empty() {
                break;
            }
        }
        assert!(pages.len() > 2);
        let listed = Listed {
            selector,
            pages,
            acknowledged,
        };
        assert_kept(&check_list(&model, &listed), "pages under writes");
    }
}

#[tokio::test]
async fn a_list_says_how_many_remain_and_is_right() {
    let harness = Harness::start().await;
    for n in 0..10 {
        harness.put("pods", &format!("p{n}"), "x").await;
    }
    let pages = harness.pages(everything("pods"), 4).await;
    let remaining: Vec<_> = pages.iter().map(|page| page.remaining_count).collect();
    assert_eq!(remaining, [Some(6), Some(2), Some(0)]);
    // Where it is not cheap to know, nothing is said rather than a guess.
    let pages = harness.pages(labelled("pods", "app", "web"), 4).await;
    assert!(
        pages
            .iter()
            .all(|p| p.remaining_count.is_none_or(|n| n == 0))
    );
}

#[tokio::test]
async fn a_list_at_an_exact_revision_shows_that_state() {
    let harness = Harness::start().await;
    for n in 1..=10 {
        harness.put("pods", "a", &n.to_string()).await;
    }
    harness.compact(4).await;
    for revision in 4..=10 {
        let request = list(Some(Kind::ExactRevision(revision)));
        let listed = harness.client.list(request).await.unwrap();
        assert_eq!(listed.revision, revision);
        assert_eq!(listed.resources[0].value, revision.to_string());
        let get = v1::GetRequest {
            key: Some(key("pods", "a")),
            consistency: Some(v1::Consistency {
                kind: Some(Kind::ExactRevision(revision)),
            }),
            ..v1::GetRequest::default()
        };
        let got = harness.client.get(get).await.unwrap();
        assert_eq!(got.resource.unwrap().revision, revision);
    }
    let mut raw = harness.raw.clone();
    let compacted = refusal(raw.list(list(Some(Kind::ExactRevision(3))))).await;
    assert_eq!(
        compacted,
        (tonic::Code::OutOfRange, "REVISION_COMPACTED".into())
    );
    let future = refusal(raw.list(list(Some(Kind::ExactRevision(11))))).await;
    assert_eq!(
        future,
        (tonic::Code::OutOfRange, "REVISION_IN_FUTURE".into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_read_at_a_minimum_revision_waits_for_it_or_is_refused() {
    let harness = Harness::start().await;
    harness.put("pods", "a", "1").await;
    let mut raw = harness.raw.clone();
    let refused = refusal(raw.list(list(Some(Kind::MinRevision(2))))).await;
    assert_eq!(refused, (tonic::Code::Unavailable, "NOT_READY".into()));
    let waits = raw.list(list(Some(Kind::MinRevision(2))));
    let writes = async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        harness.put("pods", "a", "2").await
    };
    let (listed, written) = tokio::join!(waits, writes);
    assert_eq!(listed.unwrap().into_inner().revision, written.revision);
}

#[tokio::test(start_paused = true)]
async fn a_read_sees_every_write_that_was_acknowledged_before_it() {
    // Also one that the caches have not taken up yet.
    let late = std::time::Duration::from_millis(300);
    let harness = Harness::over(FaultyStore::late(late), ServerOptions::default()).await;
    for n in 0..20 {
        let written = harness.put("pods", "a", &n.to_string()).await;
        let any = list(Some(Kind::Any(true)));
        let any = harness.client.list(any).await.unwrap();
        assert!(
            any.revision < written.revision,
            "the newest here, without waiting"
        );
        let listed = harness.client.list(list(None)).await.unwrap();
        assert!(listed.revision >= written.revision);
        assert_eq!(listed.resources[0].value, n.to_string());
        let written = harness.put("pods", "a", &n.to_string()).await;
        let mut watch = harness.watch_all("pods").await;
        let state = watch.until(v1::BookmarkKind::InitialStateEnd).await;
        assert_eq!(short(&state), [format!("=a@{}", written.revision)]);
        let get = v1::GetRequest {
            key: Some(key("pods", "a")),
            ..v1::GetRequest::default()
        };
        let written = harness.put("pods", "a", &n.to_string()).await;
        assert_eq!(
            harness
                .client
                .get(get)
                .await
                .unwrap()
                .resource
                .unwrap()
                .revision,
            written.revision
        );
    }
}

#[tokio::test]
async fn a_page_token_expires_with_its_revision_and_says_so() {
    let harness = Harness::start().await;
    for n in 0..10 {
        harness.put("pods", &format!("p{n}"), "x").await;
    }
    let mut request = list(None);
    request.page_size = 4;
    let first = harness.client.list(request.clone()).await.unwrap();
    request.page_token = first.next_page_token;
    harness.put("pods", "p0", "y").await;
    // Compacted up to its revision it is still good, beyond it no more.
    harness.compact(10).await;
    harness.client.list(request.clone()).await.unwrap();
    harness.compact(11).await;
    let expired = refusal(harness.raw.clone().list(request.clone())).await;
    assert_eq!(
        expired,
        (tonic::Code::OutOfRange, "REVISION_COMPACTED".into())
    );
    let error = harness.client.list(request.clone()).await.unwrap_err();
    assert!(matches!(error, ClientError::Expired(_)), "{error:?}");
    let other = Harness::start().await;
    let changed = refusal(other.raw.clone().list(request)).await;
    assert_eq!(changed, (tonic::Code::OutOfRange, "STORE_CHANGED".into()));
}
