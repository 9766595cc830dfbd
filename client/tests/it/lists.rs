//! Lists longer than a page.

use futures::TryStreamExt as _;
use listwatch_client::{
    ClientError,
    v1::{ListRequest, ListResponse},
};
use tonic::Code;

use crate::mock::{Mock, object, refusal};

fn page(name: &str, next: &str) -> ListResponse {
    ListResponse {
        resources: vec![object(name, name, 1, "")],
        next_page_token: next.into(),
        revision: 9,
        resume_token: "t9".into(),
        remaining_count: None,
    }
}

#[tokio::test(start_paused = true)]
async fn all_pages_come_in_order_and_once() {
    let mock = Mock::start().await;
    mock.pages([page("a", "1"), page("b", "2"), page("c", "")]);
    let listing = mock
        .client
        .list_all(ListRequest::default())
        .collect()
        .await
        .unwrap();
    let uids: Vec<&str> = listing.resources.iter().map(|r| r.uid.as_str()).collect();
    assert_eq!(uids, ["a", "b", "c"]);
    assert_eq!((listing.revision, listing.resume_token.as_str()), (9, "t9"));
    let asked: Vec<String> = mock.seen().into_iter().map(|s| s.page_token).collect();
    assert_eq!(asked, ["", "1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_starts_over_when_collected() {
    let mock = Mock::start().await;
    mock.pages([page("old", "1"), page("a", "1"), page("b", "")]);
    mock.succeed_next();
    mock.fail_next([refusal(Code::OutOfRange, "REVISION_COMPACTED", None)]);
    let listing = mock
        .client
        .list_all(ListRequest::default())
        .collect()
        .await
        .unwrap();
    let uids: Vec<&str> = listing.resources.iter().map(|r| r.uid.as_str()).collect();
    assert_eq!(uids, ["a", "b"], "nothing of the first attempt is mixed in");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_always_expires_is_an_error() {
    let mock = Mock::start().await;
    mock.fail_next((0..10).map(|_| refusal(Code::OutOfRange, "REVISION_COMPACTED", None)));
    let error = mock
        .client
        .list_all(ListRequest::default())
        .collect()
        .await
        .unwrap_err();
    assert!(matches!(error, ClientError::Expired(_)));
    assert_eq!(mock.seen().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_expires_on_the_way_is_an_error_when_streamed() {
    let mock = Mock::start().await;
    mock.pages([page("a", "1")]);
    mock.succeed_next();
    mock.fail_next([refusal(Code::OutOfRange, "REVISION_COMPACTED", None)]);
    let mut resources = Box::pin(
        mock.client
            .list_all(ListRequest::default())
            .into_resources(),
    );
    assert_eq!(resources.try_next().await.unwrap().unwrap().uid, "a");
    assert!(matches!(
        resources.try_next().await,
        Err(ClientError::Expired(_))
    ));
    assert!(resources.try_next().await.unwrap().is_none());
}
