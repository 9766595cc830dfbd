//! Watches: chunked lines, from a version or with the state first.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use listwatch::v1;
use listwatch_server::{RequestOptions, ServerOptions, ServiceOptions};
use serde_json::json;

use super::client::{CONFIG_MAPS, Kube, Lines, PODS, event, names, refused, version};
use crate::harness::{PATIENCE, remove};

const END: &str = "k8s.io/initial-events-end";

#[tokio::test]
async fn a_watch_goes_on_from_the_version_of_a_list() {
    let kube = Kube::start().await;
    kube.config_map("a").await;
    let list = kube.get(CONFIG_MAPS).await.ok();
    let created = kube.config_map("b").await;
    let path = format!(
        "{CONFIG_MAPS}?watch=true&resourceVersion={}",
        version(&list)
    );
    let mut watch = kube.watch(&path).await;
    let added = watch.next().await.unwrap();
    assert_eq!(added["type"], "ADDED");
    assert_eq!(added["object"], created);
    let mut change = created.clone();
    change["data"]["k"] = "w".into();
    let changed = kube.put(&format!("{CONFIG_MAPS}/b"), &change).await.ok();
    let modified = watch.next().await.unwrap();
    assert_eq!(modified["type"], "MODIFIED");
    assert_eq!(modified["object"], changed);
    kube.delete(&format!("{CONFIG_MAPS}/a")).await.ok();
    let deleted = watch.next().await.unwrap();
    assert_eq!(deleted["type"], "DELETED");
    assert_eq!(deleted["object"]["metadata"]["name"], "a");
    assert_eq!(deleted["object"]["data"], json!({"k": "v"}));
    assert_eq!(version(&deleted["object"]), kube.0.revision().to_string());
    // Each version is one to go on from.
    let path = format!(
        "{CONFIG_MAPS}?watch=1&resourceVersion={}",
        version(&modified["object"])
    );
    assert_eq!(kube.watch(&path).await.event().await, event("DELETED", "a"));
}

#[tokio::test]
async fn a_watch_without_a_version_begins_with_the_state() {
    let kube = Kube::start().await;
    kube.config_map("b").await;
    kube.config_map("a").await;
    for query in [
        "watch=1",
        "watch=1&resourceVersion=0",
        "watch=1&allowWatchBookmarks=false",
    ] {
        let mut watch = kube.watch(&format!("{CONFIG_MAPS}?{query}")).await;
        let state = watch.events(2).await;
        assert_eq!(state, [event("ADDED", "a"), event("ADDED", "b")], "{query}");
    }
    // The older form of the path.
    for path in [
        "/api/v1/watch/namespaces/default/configmaps",
        "/api/v1/watch/configmaps",
        "/api/v1/watch/namespaces/default/configmaps/a",
    ] {
        assert_eq!(
            kube.watch(path).await.event().await,
            event("ADDED", "a"),
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_end_of_the_state_is_marked_for_clients_that_take_bookmarks() {
    let kube = Kube::start().await;
    kube.config_map("a").await;
    let at = kube.0.revision();
    let streaming = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    for from in [
        String::new(),
        "&resourceVersion=0".into(),
        format!("&resourceVersion={at}"),
    ] {
        let query = format!("{streaming}{from}&allowWatchBookmarks=true");
        let mut watch = kube.watch(&format!("{CONFIG_MAPS}?{query}")).await;
        assert_eq!(watch.event().await, event("ADDED", "a"));
        let mark = watch.next().await.unwrap();
        assert_eq!(mark["type"], "BOOKMARK");
        assert_eq!(mark["object"]["kind"], "ConfigMap");
        assert_eq!(mark["object"]["apiVersion"], "v1");
        assert_eq!(
            mark["object"]["metadata"]["annotations"],
            json!({END: "true"})
        );
        assert_eq!(version(&mark["object"]), at.to_string());
    }
    // Without a state, only news.
    let none = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = kube.watch(&format!("{CONFIG_MAPS}?{none}")).await;
    kube.config_map("b").await;
    assert_eq!(watch.event().await, event("ADDED", "b"));
    // An empty state has an end too.
    let query = format!("{PODS}?{streaming}&allowWatchBookmarks=true");
    let mark = kube.watch(&query).await.next().await.unwrap();
    assert_eq!(mark["type"], "BOOKMARK");
}

#[tokio::test]
async fn bookmarks_are_for_those_who_take_them_and_advance_without_events() {
    let service = ServiceOptions {
        bookmark_interval: Duration::from_millis(50),
        ..ServiceOptions::default()
    };
    let kube = Kube::with(ServerOptions {
        service,
        ..ServerOptions::default()
    })
    .await;
    kube.config_map("a").await;
    let since = kube.0.revision();
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={since}");
    let mut with = kube.watch(&format!("{path}&allowWatchBookmarks=1")).await;
    let mut without = kube.watch(&path).await;
    kube.pod("elsewhere").await;
    loop {
        let mark = with.next().await.unwrap();
        assert_eq!(mark["type"], "BOOKMARK");
        assert_eq!(mark["object"]["metadata"].get("annotations"), None);
        if version(&mark["object"]) == (since + 1).to_string() {
            break;
        }
    }
    kube.config_map("b").await;
    assert_eq!(without.event().await, event("ADDED", "b"));
}

#[tokio::test]
async fn the_changes_of_one_revision_arrive_in_order_and_together() {
    let kube = Kube::start().await;
    let since = kube.config_map("z").await;
    let path = format!(
        "/api/v1/configmaps?watch=1&resourceVersion={}",
        version(&since)
    );
    let mut watch = kube.watch(&path).await;
    let put = |name| crate::harness::put(crate::harness::resource("configmaps", name, "{}", &[]));
    let gone = remove(crate::harness::key("configmaps", "z"));
    let revision = kube
        .0
        .batch(vec![put("b"), put("a"), gone])
        .await
        .to_string();
    for expected in [
        event("ADDED", "b"),
        event("ADDED", "a"),
        event("DELETED", "z"),
    ] {
        let next = watch.next().await.unwrap();
        assert_eq!(next["type"], expected.0.as_str());
        assert_eq!(next["object"]["metadata"]["name"], expected.1.as_str());
        assert_eq!(version(&next["object"]), revision);
    }
}

#[tokio::test]
async fn a_watch_ends_well_after_the_time_that_it_asks_for() {
    let kube = Kube::start().await;
    let map = kube.config_map("a").await;
    let path = format!(
        "{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion={}",
        version(&map)
    );
    assert_eq!(kube.watch(&path).await.next().await, None);
    // With a last bookmark for those who take them.
    let mut watch = kube
        .watch(&format!("{path}&allowWatchBookmarks=true"))
        .await;
    assert_eq!(watch.next().await.unwrap()["type"], "BOOKMARK");
    assert_eq!(watch.next().await, None);
}

#[tokio::test]
async fn watches_end_well_when_the_server_goes_away() {
    let kube = Kube::start().await;
    let map = kube.config_map("a").await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&map));
    let mut watch = kube.watch(&path).await;
    let mut bookmarked = kube
        .watch(&format!("{path}&allowWatchBookmarks=true"))
        .await;
    kube.0.server.drain();
    assert_eq!(watch.next().await, None);
    assert_eq!(bookmarked.next().await.unwrap()["type"], "BOOKMARK");
    assert_eq!(bookmarked.next().await, None);
    let joined = tokio::time::timeout(PATIENCE, kube.0.server.join()).await;
    joined.expect("the server does not end").unwrap();
}

#[tokio::test]
async fn a_version_that_is_compacted_or_of_another_history_is_gone() {
    let kube = Kube::start().await;
    let first = kube.config_map("a").await;
    kube.config_map("b").await;
    kube.config_map("c").await;
    let now = kube.0.revision();
    kube.0.compact(now).await;
    for since in [version(&first), (now + 1000).to_string()] {
        let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={since}");
        let mut watch = kube.watch(&path).await;
        let error = watch.next().await.unwrap();
        assert_eq!(error["type"], "ERROR");
        assert_eq!(error["object"]["kind"], "Status");
        assert_eq!(error["object"]["code"], 410);
        assert_eq!(error["object"]["reason"], "Expired");
        assert_eq!(watch.next().await, None);
    }
    // With the state first, it may come yet.
    let streaming = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let path = format!("{CONFIG_MAPS}?{streaming}&resourceVersion={}", now + 1000);
    let error = kube.watch(&path).await.next().await.unwrap();
    assert_eq!(error["object"]["code"], 504);
    let cause = &error["object"]["details"]["causes"][0];
    assert_eq!(cause["reason"], "ResourceVersionTooLarge");
}

#[tokio::test]
async fn watches_over_http_take_seats_and_are_registered_like_all_others() {
    let requests = RequestOptions {
        max_watches: 1,
        max_watches_per_client: Some(1),
        ..RequestOptions::default()
    };
    let kube = Kube::with(ServerOptions {
        requests,
        ..ServerOptions::default()
    })
    .await;
    let path = format!("{PODS}?watch=1&labelSelector=app%3Dweb");
    let watch = kube.watch_as(&path, &[("user-agent", "kubectl/v1")]).await;
    let refusal = kube.get(&path).await;
    assert_eq!(refusal.failure(), refused(429, "TooManyRequests"));
    assert_eq!(refusal.headers["retry-after"], "1");
    let request = v1::ListWatchesRequest::default();
    let open = kube.0.client.watches(request).await.unwrap().watches;
    assert_eq!(open.len(), 1);
    assert_eq!(open[0].user_agent, "kubectl/v1");
    drop(watch);
    while kube.0.server.load().watches > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    kube.watch(&path).await;
}

#[tokio::test]
async fn options_that_do_not_fit_a_watch_are_refused_before_it_begins() {
    let kube = Kube::start().await;
    for (query, code, reason) in [
        ("resourceVersionMatch=NotOlderThan", 422, "Invalid"),
        ("sendInitialEvents=true", 422, "Invalid"),
        (
            "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
            422,
            "Invalid",
        ),
        ("continue=abc", 422, "Invalid"),
        ("resourceVersion=x", 400, "BadRequest"),
        ("timeoutSeconds=x", 400, "BadRequest"),
        ("fieldSelector=spec.nope%3D1", 400, "BadRequest"),
    ] {
        let refusal = kube.get(&format!("{PODS}?watch=1&{query}")).await;
        assert_eq!(refusal.failure(), refused(code, reason), "{query}");
    }
    let other = "/api/v1/watch/namespaces/default/pods/a?fieldSelector=metadata.name%3Db";
    assert_eq!(kube.get(other).await.failure(), refused(400, "BadRequest"));
}

#[tokio::test]
async fn a_reader_that_stops_holds_nobody_up_and_gets_all_when_it_goes_on() {
    let kube = Kube::start().await;
    let first = kube.config_map("a").await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", version(&first));
    let mut slow = kube.watch(&path).await;
    let text = "x".repeat(20_000);
    for n in 0..200 {
        let map = json!({"metadata": {"name": format!("m{n}")}, "data": {"text": text}});
        kube.post(CONFIG_MAPS, &map).await.ok();
    }
    for n in 0..200 {
        assert_eq!(slow.event().await, event("ADDED", &format!("m{n}")));
    }
}

#[tokio::test]
async fn http_2_carries_many_watches_and_requests_over_one_connection() {
    let kube = Kube::start().await;
    kube.config_map("a").await;
    let io = kube.0.server.in_memory().connect().await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(io))
        .await
        .unwrap();
    tokio::spawn(connection);
    let ask = async |path: &str| {
        let uri = format!("http://test{path}");
        let request = Request::get(uri).body(Full::<Bytes>::default()).unwrap();
        let response = sender.clone().send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body()
    };
    let mut watches = Vec::new();
    for _ in 0..20 {
        watches.push(Lines::of(ask(&format!("{CONFIG_MAPS}?watch=1")).await));
    }
    let list = ask(CONFIG_MAPS).await.collect().await.unwrap().to_bytes();
    let list = serde_json::from_slice(&list).unwrap();
    assert_eq!(names(&list), ["a"]);
    kube.config_map("b").await;
    for watch in &mut watches {
        assert_eq!(
            watch.events(2).await,
            [event("ADDED", "a"), event("ADDED", "b")]
        );
    }
}
