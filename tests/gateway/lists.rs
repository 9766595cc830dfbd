//! Lists: which version they show, page by page.

use http::Method;
use listwatch_server::store::Revision;
use serde_json::{Value, json};

use super::client::{CONFIG_MAPS, Kube, PODS, names, refused, version};

async fn filled(count: usize) -> Kube {
    let kube = Kube::start().await;
    for n in 0..count {
        kube.pod(&format!("p{n}")).await;
    }
    kube
}

#[tokio::test]
async fn a_list_shows_a_namespace_or_all_and_its_version() {
    let kube = filled(2).await;
    let elsewhere = json!({"metadata": {"name": "q"}});
    kube.post("/api/v1/namespaces/other/pods", &elsewhere)
        .await
        .ok();
    let list = kube.get("/api/v1/pods").await.ok();
    assert_eq!(list["kind"], "PodList");
    assert_eq!(list["apiVersion"], "v1");
    assert_eq!(version(&list), kube.0.revision().to_string());
    assert_eq!(names(&list), ["p0", "p1", "q"]);
    assert_eq!(list["items"][0]["kind"], "Pod");
    assert_eq!(kube.names(PODS).await, ["p0", "p1"]);
    assert_eq!(list["metadata"].get("continue"), None);
    assert_eq!(kube.names(CONFIG_MAPS).await, [] as [&str; 0]);
}

#[tokio::test]
async fn all_pages_show_one_version_and_say_how_many_remain() {
    let kube = filled(5).await;
    let first = kube.get(&format!("{PODS}?limit=2")).await.ok();
    assert_eq!(names(&first), ["p0", "p1"]);
    // Changes meanwhile are not seen.
    kube.pod("p11").await;
    kube.delete(&format!("{PODS}/p3")).await.ok();
    let next = |list: &Value| list["metadata"]["continue"].as_str().unwrap().to_owned();
    let second = kube
        .get(&format!("{PODS}?limit=2&continue={}", next(&first)))
        .await
        .ok();
    assert_eq!(names(&second), ["p2", "p3"]);
    assert_eq!(version(&second), version(&first));
    let third = kube
        .get(&format!("{PODS}?limit=2&continue={}", next(&second)))
        .await
        .ok();
    assert_eq!(names(&third), ["p4"]);
    assert_eq!(third["metadata"].get("continue"), None);
    // Of a whole collection it is known how many are left.
    let all = kube.get("/api/v1/pods?limit=2").await.ok();
    assert_eq!(all["metadata"]["remainingItemCount"], 3);
    // The last page is the last, although it is full.
    let exactly = kube.get(&format!("{PODS}?limit=5")).await.ok();
    assert_eq!(exactly["metadata"].get("continue"), None);
}

#[tokio::test]
async fn the_version_decides_what_is_shown() {
    let kube = filled(2).await;
    let at = kube.0.revision();
    kube.pod("p2").await;
    let old = ["p0", "p1"];
    let new = ["p0", "p1", "p2"];
    for (query, expected) in [
        (String::new(), &new[..]),
        ("resourceVersion=0".into(), &new[..]),
        (format!("resourceVersion={at}"), &new[..]),
        (
            format!("resourceVersion={at}&resourceVersionMatch=NotOlderThan"),
            &new[..],
        ),
        (
            format!("resourceVersion={at}&resourceVersionMatch=Exact"),
            &old[..],
        ),
        // Clients of old, who page without saying how.
        (format!("resourceVersion={at}&limit=10"), &old[..]),
        // Whatever is here is not paged.
        ("resourceVersion=0&limit=1".into(), &new[..]),
        (
            format!("resourceVersion={at}&resourceVersionMatch=NotOlderThan&limit=10"),
            &new[..],
        ),
    ] {
        let list = kube.get(&format!("{PODS}?{query}")).await.ok();
        assert_eq!(names(&list), expected, "{query}");
        let shown: i64 = version(&list).parse().unwrap();
        assert_eq!(shown == at, expected == old, "{query}");
    }
}

#[tokio::test]
async fn a_version_that_is_not_yet_or_no_more_is_told_from_others() {
    let kube = filled(3).await;
    let future = kube.0.revision() + 100;
    for query in [
        "",
        "&resourceVersionMatch=NotOlderThan",
        "&resourceVersionMatch=Exact",
    ] {
        let refusal = kube
            .get(&format!("{PODS}?resourceVersion={future}{query}"))
            .await;
        assert_eq!(refusal.failure(), refused(504, "Timeout"), "{query}");
        let status = refusal.json();
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("Too large resource version"), "{message}");
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["reason"], "ResourceVersionTooLarge");
        assert_eq!(status["details"]["retryAfterSeconds"], 1);
    }
    let first = kube.get(&format!("{PODS}?limit=1")).await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    kube.pod("p9").await;
    let now = kube.0.revision();
    kube.0.compact(now).await;
    kube.0
        .server
        .hub()
        .wait_applied(Revision::new(now as u64))
        .await
        .unwrap();
    let exact = format!(
        "{PODS}?resourceVersion={}&resourceVersionMatch=Exact",
        now - 2
    );
    assert_eq!(kube.get(&exact).await.failure(), refused(410, "Expired"));
    // The page's version is gone; the rest can be had as it is now.
    let expired = kube.get(&format!("{PODS}?limit=1&continue={token}")).await;
    assert_eq!(expired.failure(), refused(410, "Expired"));
    let token = expired.json()["metadata"]["continue"]
        .as_str()
        .unwrap()
        .to_owned();
    let rest = kube.get(&format!("{PODS}?continue={token}")).await.ok();
    assert_eq!(names(&rest), ["p1", "p2", "p9"]);
}

#[tokio::test]
async fn options_that_do_not_fit_together_are_refused() {
    let kube = filled(2).await;
    let page = kube.get(&format!("{PODS}?limit=1")).await.ok();
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let going_on = format!("continue={token}&resourceVersionMatch=Exact&resourceVersion=1");
    for (query, code, reason) in [
        ("resourceVersionMatch=Exact", 422, "Invalid"),
        (
            "resourceVersion=1&resourceVersionMatch=Nearly",
            422,
            "Invalid",
        ),
        (
            "resourceVersion=0&resourceVersionMatch=Exact",
            422,
            "Invalid",
        ),
        ("sendInitialEvents=true", 422, "Invalid"),
        (going_on.as_str(), 422, "Invalid"),
        (
            &format!("continue={token}&resourceVersion=1"),
            400,
            "BadRequest",
        ),
        ("continue=bm90IGEgdG9rZW4", 400, "BadRequest"),
        ("continue=%ff", 400, "BadRequest"),
        ("resourceVersion=x", 400, "BadRequest"),
        ("resourceVersion=-1", 400, "BadRequest"),
        ("resourceVersion=%2B1", 400, "BadRequest"),
        ("limit=many", 400, "BadRequest"),
        // Of another list.
        (
            &format!("continue={token}&labelSelector=a"),
            400,
            "BadRequest",
        ),
    ] {
        let refusal = kube.get(&format!("{PODS}?{query}")).await;
        assert_eq!(refusal.failure(), refused(code, reason), "{query}");
    }
}

#[tokio::test]
async fn a_large_list_comes_in_pieces_and_packed_for_those_who_ask() {
    let kube = Kube::start().await;
    let text = "x".repeat(40_000);
    for n in 0..20 {
        let map = json!({"metadata": {"name": format!("m{n:02}")}, "data": {"text": text}});
        kube.post(CONFIG_MAPS, &map).await.ok();
    }
    let plain = kube.get(CONFIG_MAPS).await;
    assert_eq!(plain.headers.get("content-encoding"), None);
    assert_eq!(names(&plain.ok()).len(), 20);
    let packed = kube
        .ask(Method::GET, CONFIG_MAPS, &[("accept-encoding", "gzip")], "")
        .await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    assert!(packed.body.len() < plain.body.len() / 10);
    let mut unpacked = Vec::new();
    let mut reader = flate2::read::GzDecoder::new(&packed.body[..]);
    std::io::Read::read_to_end(&mut reader, &mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    // What is small is not worth it.
    let small = format!("{CONFIG_MAPS}/m00");
    let small = kube
        .ask(Method::GET, &small, &[("accept-encoding", "gzip")], "")
        .await;
    assert_eq!(small.headers.get("content-encoding"), None);
}

#[tokio::test]
async fn what_a_client_accepts_is_what_it_gets() {
    let kube = filled(1).await;
    let get = async |accept: &str| kube.ask(Method::GET, PODS, &[("accept", accept)], "").await;
    let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = get(metadata).await.ok();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["apiVersion"], "meta.k8s.io/v1");
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(list["items"][0]["metadata"]["name"], "p0");
    assert_eq!(list["items"][0].get("spec"), None);
    let both = "application/vnd.kubernetes.protobuf, application/json";
    assert_eq!(get(both).await.ok()["kind"], "PodList");
    let neither = get("application/vnd.kubernetes.protobuf").await;
    assert_eq!(neither.failure(), refused(406, "NotAcceptable"));
}

#[tokio::test]
async fn lists_objects_and_watches_come_as_tables_for_those_who_ask() {
    let kube = filled(2).await;
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let headers = [("accept", accept)];
    let table = async |path: &str| kube.ask(Method::GET, path, &headers, "").await.ok();
    let all = table(&format!("{PODS}?limit=1")).await;
    assert_eq!(all["kind"], "Table");
    assert_eq!(all["columnDefinitions"][0]["name"], "Name");
    assert_eq!(all["rows"].as_array().unwrap().len(), 1);
    assert_eq!(all["rows"][0]["cells"][0], "p0");
    assert_eq!(all["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert!(all["metadata"]["continue"].is_string());
    let one = table(&format!("{PODS}/p1?includeObject=Object")).await;
    assert_eq!(one["rows"][0]["object"]["kind"], "Pod");
    let bare = table(&format!("{PODS}?includeObject=None")).await;
    assert_eq!(bare["rows"][1].get("object"), None);
    let odd = kube.get(&format!("{PODS}?includeObject=Some")).await;
    assert_eq!(odd.failure(), refused(400, "BadRequest"));
    let empty = table("/api/v1/nodes").await;
    assert_eq!(empty["rows"], json!([]));

    let mut watch = kube.watch_as(&format!("{PODS}?watch=1"), &headers).await;
    let (first, second) = (watch.next().await.unwrap(), watch.next().await.unwrap());
    assert_eq!(first["object"]["rows"][0]["cells"][0], "p0");
    assert!(first["object"]["columnDefinitions"].is_array());
    assert_eq!(second["object"]["rows"][0]["cells"][0], "p1");
    assert!(second["object"]["columnDefinitions"].is_null());
    // What was written down for others first is not what this one gets.
    let mut plain = kube.watch(&format!("{PODS}?watch=1")).await;
    plain.events(2).await;
    kube.pod("p2").await;
    assert_eq!(plain.next().await.unwrap()["object"]["kind"], "Pod");
    assert_eq!(watch.next().await.unwrap()["object"]["kind"], "Table");
}
