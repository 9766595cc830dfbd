//! Who watches what, as the server says it.

use std::time::Duration;

use listwatch::v1::{
    self, BookmarkKind, OpenWatch, WatchState, admin_service_client::AdminServiceClient,
    watch_many_request::Kind,
};
use listwatch_server::ServerOptions;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use crate::harness::{
    Harness, PATIENCE, daemon::binary, everything, labelled, millis, narrow, options, reason, watch,
};

async fn page(harness: &Harness, request: v1::ListWatchesRequest) -> v1::ListWatchesResponse {
    harness.client.watches(request).await.unwrap()
}

async fn open(harness: &Harness) -> Vec<OpenWatch> {
    page(harness, Default::default()).await.watches
}

/// Waits until the open watches are as they should be.
async fn open_when(harness: &Harness, so: impl Fn(&[OpenWatch]) -> bool) -> Vec<OpenWatch> {
    let waited = tokio::time::timeout(PATIENCE, async {
        loop {
            let watches = open(harness).await;
            if so(&watches) {
                return watches;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    match waited.await {
        Ok(watches) => watches,
        Err(_) => panic!("still {:?}", open(harness).await),
    }
}

#[tokio::test]
async fn a_watch_is_listed_from_its_opening_to_its_end() {
    let harness = Harness::start().await;
    assert_eq!(open(&harness).await, []);
    harness.put("pods", "a", "1").await;
    let mut request = watch("pods", None);
    let mut selector = labelled("pods", "app", "web");
    selector.namespace = "default".into();
    selector.fields = vec![v1::FieldRequirement {
        path: "metadata.name".into(),
        not_equal: true,
        value: "b".into(),
    }];
    request.selector = Some(selector.clone());
    request.view = v1::View::Metadata.into();
    request.delivery_mode = v1::DeliveryMode::Latest.into();
    let mut held = harness.watch(request).await.unwrap();
    held.until(BookmarkKind::InitialStateEnd).await;
    harness
        .put_labelled("pods", "c", "1", &[("app", "web")])
        .await;
    held.through(2).await;
    let watches = open_when(&harness, |w| w[0].state() == WatchState::Live).await;
    let [listed] = &watches[..] else {
        panic!("{watches:?}")
    };
    assert_eq!(listed.selector.as_ref(), Some(&selector));
    assert_eq!(listed.view(), v1::View::Metadata);
    assert_eq!(listed.delivery_mode(), v1::DeliveryMode::Latest);
    assert_eq!(listed.client, "memory");
    assert!(
        listed.user_agent.starts_with("tonic/"),
        "{}",
        listed.user_agent
    );
    assert!(listed.open_time.is_some());
    assert_eq!(
        (listed.revision, listed.lag_revisions, listed.backlog_bytes),
        (2, 0, 0)
    );
    assert_eq!((listed.sent_events, listed.watch_count), (1, 1));
    assert!(listed.sent_bytes > 0);
    drop(held);
    open_when(&harness, <[_]>::is_empty).await;
}

#[tokio::test]
async fn a_slow_watch_shows_how_far_behind_it_is() {
    let harness = Harness::with(options(|o| o.hub = narrow()), Default::default()).await;
    let mut slow = harness.watch_all("pods").await;
    slow.until(BookmarkKind::InitialStateEnd).await;
    let mut quiet = harness.watch_all("others").await;
    quiet.until(BookmarkKind::InitialStateEnd).await;
    let filler = "x".repeat(50_000);
    for n in 0..100 {
        harness.put("pods", &format!("p{n}"), &filler).await;
    }
    let watches = open_when(&harness, |w| w[0].backlog_bytes > 0).await;
    let (behind, other) = (&watches[0], &watches[1]);
    assert!(behind.lag_revisions > 0 && behind.lag_revisions == 100 - behind.revision);
    let each = 50_000;
    assert!(behind.backlog_bytes >= behind.lag_revisions * each);
    assert!(behind.lag.is_some());
    // What is written elsewhere is nothing to the other, however much it is.
    assert_eq!(
        (other.lag_revisions, other.backlog_bytes, other.revision),
        (0, 0, 100)
    );
    slow.through(100).await;
    let caught_up = |w: &[OpenWatch]| w[0].backlog_bytes == 0 && w[0].state() == WatchState::Live;
    let watches = open_when(&harness, caught_up).await;
    assert_eq!(watches[0].sent_events, 100);
}

#[tokio::test]
async fn pages_name_every_watch_once() {
    let harness = Harness::start().await;
    let mut held = Vec::new();
    for n in 0..25 {
        let collection = if n % 5 == 0 { "jobs" } else { "pods" };
        held.push(harness.watch_all(collection).await);
    }
    let mut request = v1::ListWatchesRequest {
        page_size: 10,
        ..Default::default()
    };
    let mut numbers = Vec::new();
    let mut sizes = Vec::new();
    loop {
        let page = page(&harness, request.clone()).await;
        sizes.push(page.watches.len());
        numbers.extend(page.watches.iter().map(|w| w.number));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(sizes, [10, 10, 5]);
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let jobs = v1::ListWatchesRequest {
        collection: "jobs".into(),
        page_size: 5,
        ..Default::default()
    };
    let jobs = page(&harness, jobs).await;
    assert_eq!((jobs.watches.len(), jobs.next_page_token.as_str()), (5, ""));
}

#[tokio::test]
async fn a_page_of_large_selectors_stays_a_message_that_clients_accept() {
    let harness = Harness::start().await;
    let mut held = Vec::new();
    for n in 0..12 {
        let mut request = watch("pods", None);
        let values = (0..256).map(|v| format!("{n}-{v}-{}", "x".repeat(240)));
        let requirement = v1::LabelRequirement {
            key: "app".into(),
            operator: v1::LabelOperator::In.into(),
            values: values.collect(),
        };
        let requirement = |key: usize| v1::LabelRequirement {
            key: format!("k{key}"),
            ..requirement.clone()
        };
        request.selector.as_mut().unwrap().labels = (0..40).map(requirement).collect();
        held.push(harness.watch(request).await.unwrap());
    }
    let channel = tonic::transport::Endpoint::from_static("http://in-memory")
        .connect_with_connector(harness.server.in_memory())
        .await
        .unwrap();
    let mut admin = AdminServiceClient::new(channel);
    let mut request = v1::ListWatchesRequest::default();
    let mut found = 0;
    loop {
        let page = admin
            .list_watches(request.clone())
            .await
            .unwrap()
            .into_inner();
        found += page.watches.len();
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(found, held.len());
}

#[tokio::test]
async fn bad_requests_for_the_listing_are_refused() {
    let harness = Harness::start().await;
    let refused = async |request: v1::ListWatchesRequest| -> Status {
        let error = harness.client.watches(request).await.expect_err("an error");
        error.failure().unwrap().status().clone()
    };
    let request = v1::ListWatchesRequest::default();
    for (request, why) in [
        (
            v1::ListWatchesRequest {
                page_size: -1,
                ..request.clone()
            },
            "FIELD_INVALID",
        ),
        (
            v1::ListWatchesRequest {
                collection: "NO!".into(),
                ..request.clone()
            },
            "FIELD_INVALID",
        ),
        (
            v1::ListWatchesRequest {
                page_token: "x".into(),
                ..request.clone()
            },
            "TOKEN_INVALID",
        ),
        (
            v1::ListWatchesRequest {
                page_token: "-1".into(),
                ..request
            },
            "TOKEN_INVALID",
        ),
    ] {
        let status = refused(request).await;
        assert_eq!(
            (status.code(), reason(&status).as_str()),
            (Code::InvalidArgument, why)
        );
    }
}

#[tokio::test]
async fn watches_of_one_stream_that_are_served_as_one_are_listed_so() {
    let harness = Harness::start().await;
    let (requests, receiver) = mpsc::channel(10);
    let mut stubs = harness.raw.clone();
    let opened = stubs.watch_many(ReceiverStream::new(receiver)).await;
    let mut stream = opened.unwrap().into_inner();
    let reading = tokio::spawn(async move { while let Ok(Some(_)) = stream.message().await {} });
    for watch_id in 0..4 {
        let mut request = watch(if watch_id < 3 { "pods" } else { "jobs" }, None);
        request.bookmark_interval = millis(100);
        let kind = Some(Kind::Watch(request));
        requests
            .send(v1::WatchManyRequest { watch_id, kind })
            .await
            .unwrap();
    }
    let joined = |w: &[OpenWatch]| w.iter().map(|w| w.watch_count).collect::<Vec<_>>() == [3, 1];
    open_when(&harness, joined).await;
    let kind = Some(Kind::Cancel(v1::CancelWatch {}));
    requests
        .send(v1::WatchManyRequest { watch_id: 0, kind })
        .await
        .unwrap();
    let left = |w: &[OpenWatch]| w.iter().map(|w| w.watch_count).collect::<Vec<_>>() == [2, 1];
    open_when(&harness, left).await;
    drop(requests);
    reading.abort();
    open_when(&harness, <[_]>::is_empty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_lists_who_watches_what() {
    let server = listwatch_server::Server::builder()
        .listen("127.0.0.1:0")
        .options(ServerOptions::default())
        .start()
        .await
        .unwrap();
    let address = server.local_addr().unwrap().to_string();
    let client = listwatch_client::Client::connect(address.clone())
        .await
        .unwrap();
    let request = v1::WatchRequest {
        selector: Some(v1::Selector {
            name: "a".into(),
            ..everything("pods")
        }),
        ..Default::default()
    };
    let mut held = client.watch(request).await.unwrap();
    held.message().await.unwrap();
    let shown = async |format: &str| {
        let mut command = tokio::process::Command::new(binary("listwatch"));
        command.args(["--server", &address, "status", "--watches", "-o", format]);
        let output = command.output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let table = shown("table").await;
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("COLLECTION"), "{table}");
    assert!(
        lines[1].starts_with("pods") && lines[1].contains("name=a"),
        "{table}"
    );
    assert!(lines[1].contains("127.0.0.1:"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&shown("json").await).unwrap();
    assert_eq!(json[0]["collection"], "pods");
    assert!(
        json[0]["userAgent"]
            .as_str()
            .unwrap()
            .starts_with("listwatch-client/")
    );
    assert_eq!(json[0]["watchCount"], 1);
}
