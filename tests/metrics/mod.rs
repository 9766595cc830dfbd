//! What is seen of a server from outside: metrics, probes, traces.

mod collector;
mod kubernetes;
pub mod scrape;

use std::{fs, path::Path};

use listwatch::v1::{self, BookmarkKind, EventType, watch_request::Start};
use listwatch_client::Client;
use listwatch_server::{Server, ServerOptions, store::StoreOptions};
use prost::Message as _;
use tokio::io::AsyncWriteExt as _;
use tonic::transport::Endpoint;
use tower::ServiceExt as _;

use self::{
    collector::{Collector, attribute},
    scrape::{Scrape, ask, get},
};
use crate::harness::{
    Harness, daemon,
    daemon::{Daemon, free_address},
    key, put, reason, remove, resource, uncached, watch,
};

#[tokio::test]
async fn quilkin_263_ten_thousand_collection_names_leave_the_number_of_series_bounded() {
    let harness = Harness::start().await;
    let mut after_first = 0;
    for hundred in 0..100 {
        let puts = (0..100).map(|n| put(resource(&format!("c{hundred}-{n}"), "a", "x", &[])));
        harness.batch(puts.collect()).await;
        if hundred == 1 {
            after_first = Scrape::of(&harness.server).await.series.len();
        }
    }
    // Nor do names that are only watched, by clients who may ask for anything.
    let mut watching = Vec::new();
    for n in 0..300 {
        let mut watch = harness.watch_all(&format!("made-up-{n}")).await;
        watch.until(BookmarkKind::InitialStateEnd).await;
        watching.push(watch);
    }
    let scrape = Scrape::of(&harness.server).await;
    assert_eq!(scrape.sum("lw_objects", &[]), 10_000.0);
    assert_eq!(
        scrape.sum("lw_objects", &[("collection", "_other")]),
        9_900.0
    );
    assert_eq!(scrape.sum("lw_watches", &[("collection", "_other")]), 300.0);
    assert_eq!(scrape.sum("lw_watches_opened_total", &[]), 300.0);
    // The watches added what is counted of `_other`; the collections nothing.
    let now = scrape.series.len();
    assert!(now < after_first + 100, "{after_first}, then {now}");
    assert!(now < 4000, "{now}");
    // Ended watches leave nothing behind, and their counts do not go back.
    drop(watching);
    let closed = |scrape: &Scrape| scrape.sum("lw_watches_closed_total", &[]);
    let scrape = until(&harness, |scrape| closed(scrape) == 300.0).await;
    assert_eq!(scrape.sum("lw_watches", &[]), 0.0);
    assert_eq!(scrape.sum("lw_watches_opened_total", &[]), 300.0);
}

#[tokio::test]
async fn watches_are_counted_by_where_they_stand_until_they_end() {
    // What has no cache is read from the log, change by change.
    let harness = Harness::with(uncached(), StoreOptions::default()).await;
    let mut watches = Vec::new();
    for (collection, state) in [("pods", "lagging"), ("nodes", "live")] {
        harness.put(collection, "a", "1").await;
        let mut watch = harness.watch_all(collection).await;
        watch.until(BookmarkKind::InitialStateEnd).await;
        let last = harness.put(collection, "a", "2").await;
        watch.through(last.revision).await;
        watches.push(watch);
        let stands = |scrape: &Scrape| {
            scrape.sum(
                "lw_watches",
                &[("collection", collection), ("state", state)],
            )
        };
        let scrape = until(&harness, |scrape| stands(scrape) == 1.0).await;
        assert_eq!(scrape.sum("lw_watches", &[("collection", collection)]), 1.0);
    }
    drop(watches);
    until(&harness, |scrape| scrape.sum("lw_watches", &[]) == 0.0).await;
}

/// Asks again until it is so: what ends on the other side of a connection ends in time.
async fn until(harness: &Harness, wanted: impl Fn(&Scrape) -> bool) -> Scrape {
    for _ in 0..3000 {
        let scrape = Scrape::of(&harness.server).await;
        if wanted(&scrape) {
            return scrape;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!(
        "it does not come to that: {:#?}",
        Scrape::of(&harness.server).await
    );
}

/// Names of metrics of ours in an expression, each with the labels that stand behind it.
fn metrics_in(text: &str) -> Vec<(String, Vec<String>)> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(word) {
        rest = &rest[start..];
        let end = rest.find(|c| !word(c)).unwrap_or(rest.len());
        let name = &rest[..end];
        rest = &rest[end..];
        if !name.starts_with("lw_") && !name.starts_with("process_") {
            continue;
        }
        let inside = rest.strip_prefix('{').and_then(|r| r.split_once('}'));
        let labels = inside.map_or("", |(inside, _)| inside);
        let label = |pair: &str| pair.split_once('=').map(|(l, _)| l.trim().to_owned());
        found.push((
            name.to_owned(),
            labels.split(',').filter_map(label).collect(),
        ));
    }
    found
}

#[tokio::test]
async fn the_dashboard_and_the_alerts_name_metrics_that_exist() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    let read = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
    let dashboard = read("grafana/listwatch.json");
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let mut expressions = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            expressions.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        expressions.push(variable["query"].as_str().unwrap().to_owned());
    }
    let alerts: serde_json::Value =
        serde_yaml_ng::from_str(&read("prometheus/alerts.yaml")).unwrap();
    for group in alerts["groups"].as_array().unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            expressions.push(rule["expr"].as_str().unwrap().to_owned());
        }
    }

    let harness = Harness::start().await;
    let mut watching = harness.watch_all("pods").await;
    let revision = harness.put("pods", "a", "1").await.revision;
    watching.through(revision).await;
    drop(watching);
    assert_eq!(get(&harness.server, "/version").await.0, 200);
    let closed = |scrape: &Scrape| scrape.sum("lw_watches_closed_total", &[]) > 0.0;
    let scrape = until(&harness, closed).await;
    let mut named = 0;
    for (name, labels) in expressions.iter().flat_map(|e| metrics_in(e)) {
        named += 1;
        assert!(scrape.has(&name), "{name} does not exist");
        // What Prometheus itself adds.
        let own = |label: &&String| !["instance", "job", "le"].contains(&label.as_str());
        for label in labels.iter().filter(own) {
            assert!(
                scrape.has_label(&name, label),
                "{name} has no label {label}"
            );
        }
    }
    assert!(named > 80, "only {named} are named");
    // And nothing is measured that no one looks at.
    let shown = expressions.join(" ");
    for name in scrape.types.keys() {
        assert!(
            shown.contains(name) || name == "process_start_time_seconds",
            "{name} is on no panel and in no alert"
        );
    }
}

#[tokio::test]
async fn readyz_says_no_before_the_watches_are_told() {
    let harness = Harness::start().await;
    let beside = Server::builder()
        .store(harness.store.clone())
        .metrics_listen("127.0.0.1:0")
        .start()
        .await
        .unwrap();
    let page = |path: &'static str| {
        let address = beside.metrics_addr().unwrap();
        async move {
            let connection = tokio::net::TcpStream::connect(address).await.unwrap();
            ask(connection, "GET", path).await
        }
    };
    assert_eq!(page("/readyz").await, (200, "ok".to_owned()));
    // A request whose second half does not come keeps the server from ending.
    let mut keeps = beside.in_memory().connect().await.unwrap();
    let half = "POST /listwatch.v1.ListWatchService/Watch HTTP/1.1\r\nhost: test\r\n\
                content-type: application/grpc\r\ncontent-length: 100\r\n\r\n";
    keeps.write_all(half.as_bytes()).await.unwrap();
    let inflight = |text: &str| Scrape::read(text).sum("lw_requests_inflight", &[]);
    while inflight(&page("/metrics").await.1) == 0.0 {}

    let endpoint = Endpoint::from_static("http://in-memory");
    let channel = endpoint.connect_with_connector(beside.in_memory()).await;
    let mut told = v1::list_watch_service_client::ListWatchServiceClient::new(channel.unwrap());
    let mut told = told.watch(watch("pods", None)).await.unwrap().into_inner();
    beside.drain();
    loop {
        let response = told.message().await.unwrap().expect("a bookmark");
        let kind = response.bookmark.map(|bookmark| bookmark.kind());
        if kind == Some(BookmarkKind::GoingAway) {
            break;
        }
    }
    let (status, text) = page("/readyz?verbose").await;
    assert_eq!(status, 503, "{text}");
    assert!(text.contains("[-]draining failed"), "{text}");
    assert!(text.contains("[+]storage ok"), "{text}");
    // It goes away, which is no reason to kill it.
    assert_eq!(page("/livez").await.0, 200);
    // As Kubernetes called it first.
    assert_eq!(page("/healthz").await.0, 200);
    assert_eq!(page("/readyz?exclude=draining").await.0, 200);
    drop(keeps);
    beside.join().await.unwrap();
}

#[tokio::test]
async fn etcd_14497_16779_a_full_store_stays_live() {
    let store = StoreOptions {
        quota_bytes: 10_000,
        ..StoreOptions::default()
    };
    let harness = Harness::with(ServerOptions::default(), store).await;
    let refused = loop {
        let request = v1::UpdateRequest {
            resource: Some(resource("pods", "a", &"x".repeat(1000), &[])),
            allow_missing: true,
            ..v1::UpdateRequest::default()
        };
        if let Err(status) = harness.raw.clone().update(request).await {
            break status;
        }
    };
    assert_eq!(reason(&refused), "STORAGE_FULL");
    for path in ["/livez", "/readyz"] {
        let (status, text) = get(&harness.server, path).await;
        assert_eq!((status, text.as_str()), (200, "ok"), "{path}");
    }
    let scrape = Scrape::of(&harness.server).await;
    assert_eq!(scrape.sum("lw_store_full", &[]), 1.0);
    let refusals = scrape.sum("lw_requests_refused_total", &[("reason", "STORAGE_FULL")]);
    assert_eq!(refusals, 1.0);
    let labels = [("code", "RESOURCE_EXHAUSTED")];
    assert_eq!(scrape.sum("lw_rpc_duration_seconds_count", &labels), 1.0);
}

#[tokio::test]
async fn counters_agree_with_what_was_delivered() {
    let harness = Harness::start().await;
    harness.put("pods", "old", "1").await;
    let mut watching = harness.watch_all("pods").await;
    let mut responses = watching.until(BookmarkKind::InitialStateEnd).await;
    harness.put("pods", "a", "1").await;
    harness.put("pods", "a", "2").await;
    let both = vec![
        put(resource("pods", "b", "1", &[])),
        remove(key("pods", "old")),
    ];
    let revision = harness.batch(both).await;
    // Another's events are another's.
    harness.put("leases", "a", "1").await;
    responses.extend(watching.through(revision).await);

    let scrape = Scrape::of(&harness.server).await;
    let pods = ("collection", "pods");
    let events = || responses.iter().flat_map(|response| &response.events);
    for (name, kind) in [
        ("existing", EventType::Existing),
        ("added", EventType::Added),
        ("modified", EventType::Modified),
        ("deleted", EventType::Deleted),
    ] {
        let delivered = events().filter(|event| event.r#type() == kind).count();
        let counted = scrape.sum("lw_events_sent_total", &[pods, ("type", name)]);
        assert_eq!(counted, delivered as f64, "{name}");
        assert!(delivered > 0);
    }
    let total = scrape.sum("lw_events_sent_total", &[]);
    assert_eq!(total, events().count() as f64);
    let bookmarks = responses.iter().filter(|r| r.bookmark.is_some()).count();
    assert_eq!(
        scrape.sum("lw_bookmarks_sent_total", &[pods]),
        bookmarks as f64
    );
    // As gRPC frames: a prefix of five bytes each.
    let bytes: usize = responses.iter().map(|r| r.encoded_len() + 5).sum();
    assert_eq!(
        scrape.sum("lw_event_bytes_sent_total", &[pods]),
        bytes as f64
    );
    // Those after the initial state came from the commit to the wire.
    assert_eq!(scrape.sum("lw_event_delivery_seconds_count", &[]), 4.0);
    for (change, count) in [("created", 4.0), ("updated", 1.0), ("deleted", 1.0)] {
        let written = scrape.sum("lw_changes_written_total", &[("change", change)]);
        assert_eq!(written, count, "{change}");
    }
    assert_eq!(scrape.sum("lw_commit_seconds_count", &[]), 5.0);
    // Nothing waits for a disk where there is none.
    assert_eq!(scrape.sum("lw_fsync_seconds_count", &[]), 0.0);
    let revision = harness.revision() as f64;
    assert_eq!(scrape.sum("lw_revision", &[]), revision);
    assert_eq!(scrape.sum("lw_cache_revision", &[]), revision);
    let live = [pods, ("state", "live")];
    assert_eq!(scrape.sum("lw_watches", &live), 1.0);
    let method = ("method", "listwatch.v1.ListWatchService/Update");
    let puts = scrape.sum("lw_rpc_duration_seconds_count", &[method, ("code", "OK")]);
    assert_eq!(puts, 4.0);
}

#[tokio::test]
async fn starts_and_ends_of_watches_are_counted_by_their_reason() {
    let harness = Harness::start().await;
    let token = harness.list("pods").await.resume_token;
    harness.put("pods", "a", "1").await;
    let only = Start::InitialState(v1::InitialState {
        only: true,
        ..v1::InitialState::default()
    });
    let mut complete = harness.watch(watch("pods", Some(only))).await.unwrap();
    while complete.next().await.unwrap().is_some() {}
    let mut resumed = harness.resume("pods", &token).await;
    resumed.through(1).await;
    drop(resumed);
    let mut drained = harness
        .watch(watch("pods", Some(Start::Now(true))))
        .await
        .unwrap();
    drained.until(BookmarkKind::Resumed).await;
    let closed = |scrape: &Scrape, why| scrape.sum("lw_watches_closed_total", &[("reason", why)]);
    let scrape = until(&harness, |scrape| closed(scrape, "client") == 1.0).await;
    assert_eq!(closed(&scrape, "complete"), 1.0);
    assert_eq!(closed(&scrape, "drain"), 0.0);
    for start in ["initial_state", "resume", "now"] {
        let opened = scrape.sum("lw_watches_opened_total", &[("start", start)]);
        assert_eq!(opened, 1.0, "{start}");
    }
    assert_eq!(scrape.sum("lw_watch_resumes_total", &[]), 1.0);
    assert_eq!(
        scrape.sum("lw_watch_resumes_total", &[("step", "window")]),
        1.0
    );
}

#[tokio::test]
async fn a_reader_that_stalls_shows_in_the_lag_and_one_that_reads_on_does_not() {
    const WRITES: usize = 200;
    let harness = Harness::start().await;
    harness.put("pods", "first", "x").await;
    let now = Some(Start::Now(true));
    let mut stalled = harness.watch(watch("pods", now)).await.unwrap();
    // More than any window of flow control holds.
    let value = "x".repeat(64 * 1024);
    for n in 0..WRITES {
        harness.put("pods", &format!("p{n}"), &value).await;
    }
    let pods = [("collection", "pods")];
    let lag = |scrape: &Scrape| scrape.sum("lw_watch_lag_revisions_max", &pods);
    let scrape = until(&harness, |scrape| lag(scrape) > 0.0).await;
    assert!(lag(&scrape) <= WRITES as f64);
    stalled.through(harness.revision()).await;
    until(&harness, |scrape| lag(scrape) == 0.0).await;
}

#[tokio::test]
async fn two_servers_of_one_process_count_apart() {
    let (one, other) = (Harness::start().await, Harness::start().await);
    one.put("pods", "a", "1").await;
    let scrape = Scrape::of(&other.server).await;
    assert_eq!(scrape.sum("lw_revision", &[]), 0.0);
    assert_eq!(scrape.sum("lw_changes_written_total", &[]), 0.0);
    assert_eq!(scrape.sum("lw_rpc_duration_seconds_count", &[]), 0.0);
    assert_eq!(Scrape::of(&one.server).await.sum("lw_revision", &[]), 1.0);
}

#[tokio::test]
async fn the_pages_are_there_beside_grpc_and_only_to_be_read() {
    let harness = Harness::start().await;
    for path in ["/metrics", "/livez", "/readyz?verbose"] {
        let connection = harness.server.in_memory().connect().await.unwrap();
        assert_eq!(ask(connection, "POST", path).await.0, 405, "{path}");
    }
    // Over HTTP/2, on a connection that gRPC calls use.
    let endpoint = Endpoint::from_static("http://in-memory");
    let channel = endpoint
        .connect_with_connector(harness.server.in_memory())
        .await
        .unwrap();
    let request = http::Request::get("http://in-memory/metrics").body(tonic::body::Body::empty());
    let response = channel.clone().oneshot(request.unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let content_type = &response.headers()["content-type"];
    assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
    Client::from_channel(channel).status().await.unwrap();
    // Whoever asks for what is not there is counted, under no name of their choice.
    assert_eq!(get(&harness.server, "/made-up").await.0, 415);
    let scrape = Scrape::of(&harness.server).await;
    let refused = scrape.sum("lw_requests_refused_total", &[("reason", "NOT_GRPC")]);
    assert_eq!(refused, 1.0);
    assert!(
        !scrape
            .series
            .keys()
            .any(|(_, labels)| labels.contains("made-up"))
    );
    // Each check by its name, and a name that is none.
    let (status, text) = get(
        &harness.server,
        "/readyz?verbose&exclude=hub&exclude=nonsense",
    )
    .await;
    assert_eq!(status, 200);
    for line in [
        "[+]ping ok",
        "[+]storage ok",
        "[+]hub excluded",
        "[+]draining ok",
        "nonsense",
    ] {
        assert!(text.contains(line), "{line} is not in {text}");
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn traced<T>(message: T, flags: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    let parent = format!("00-{TRACE}-{SPAN}-{flags}").parse().unwrap();
    request.metadata_mut().insert("traceparent", parent);
    request
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_trace_leads_from_the_write_to_the_delivery() {
    let (collector, address) = Collector::start().await;
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--otlp-endpoint", &address];
    let listen = free_address();
    let mut server = Daemon::start(&folder.path().join("data"), &listen, &flags).await;
    let endpoint = Endpoint::from_shared(format!("http://{listen}")).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let mut stubs = v1::list_watch_service_client::ListWatchServiceClient::new(channel);
    let watching = watch("pods", Some(Start::Now(true)));
    let mut watching = stubs.watch(watching).await.unwrap().into_inner();
    watching.message().await.unwrap().expect("a bookmark");
    let create = |name: &str| v1::CreateRequest {
        resource: Some(resource("pods", name, "x", &[])),
        ..v1::CreateRequest::default()
    };
    // The caller of the first does not record; of the second it does.
    stubs.create(traced(create("quiet"), "00")).await.unwrap();
    stubs.create(traced(create("loud"), "01")).await.unwrap();
    let mut delivered = 0;
    while delivered < 2 {
        delivered += watching.message().await.unwrap().unwrap().events.len();
    }

    let method = "listwatch.v1.ListWatchService/Create";
    let write = collector.wait_for(|span| span.name == method).await;
    assert_eq!(hex(&write.trace_id), TRACE);
    assert_eq!(hex(&write.parent_span_id), SPAN);
    assert_eq!(
        attribute(&write, "rpc.system.name").as_deref(),
        Some("grpc")
    );
    let code = attribute(&write, "rpc.response.status_code");
    assert_eq!(code.as_deref(), Some("Ok"));
    let deliver = |span: &_| attribute(span, "listwatch.collection").is_some();
    let delivery = collector.wait_for(deliver).await;
    assert_eq!(delivery.trace_id, write.trace_id);
    assert_eq!(delivery.parent_span_id, write.span_id);
    let links: Vec<_> = delivery.links.iter().map(|link| &link.span_id).collect();
    assert_eq!(links, [&write.span_id]);
    assert_eq!(
        attribute(&delivery, "listwatch.revision").as_deref(),
        Some("2")
    );

    drop(watching);
    assert!(server.terminate().await.success());
    // What was not recorded at its beginning is not recorded here.
    let spans = collector.all();
    assert_eq!(spans.iter().filter(|span| span.name == method).count(), 1);
    assert_eq!(spans.iter().filter(|span| deliver(span)).count(), 1);
}

#[tokio::test]
async fn without_a_collector_nothing_is_kept_of_a_trace() {
    let harness = Harness::start().await;
    let mut feed = harness.store.subscribe();
    let create = v1::CreateRequest {
        resource: Some(resource("pods", "a", "x", &[])),
        ..v1::CreateRequest::default()
    };
    let mut stubs = harness.raw.clone();
    stubs.create(traced(create, "01")).await.unwrap();
    let commits = feed.recv().await.unwrap();
    assert!(commits.iter().all(|commit| commit.trace.is_none()));
    assert_eq!(harness.list("pods").await.resources.len(), 1);
}

#[tokio::test]
async fn a_collector_that_is_no_address_is_refused_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = tokio::process::Command::new(daemon::binary("listwatchd"));
    command.args(["--otlp-endpoint", "localhost", "--data-dir"]);
    let output = command.arg(folder.path()).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("--otlp-endpoint"), "{error}");
}

#[tokio::test]
async fn a_disk_shows_in_the_times_of_commits() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::builder()
        .data_dir(folder.path(), StoreOptions::default())
        .start()
        .await
        .unwrap();
    let endpoint = Endpoint::from_static("http://in-memory");
    let channel = endpoint
        .connect_with_connector(server.in_memory())
        .await
        .unwrap();
    let client = Client::from_channel(channel);
    for n in 0..3 {
        let request = v1::CreateRequest {
            resource: Some(resource("pods", &format!("p{n}"), "x", &[])),
            ..v1::CreateRequest::default()
        };
        client.create(request).await.unwrap();
    }
    let request = v1::CompactRequest {
        revision: 3,
        wait: true,
    };
    client.compact(request).await.unwrap();
    let scrape = Scrape::of(&server).await;
    for (name, count) in [
        ("lw_commit_seconds_count", 3.0),
        ("lw_fsync_seconds_count", 3.0),
        ("lw_commit_group_batches_sum", 3.0),
        ("lw_compacted_revision", 3.0),
    ] {
        assert_eq!(scrape.sum(name, &[]), count, "{name}");
    }
    assert!(scrape.sum("lw_compaction_seconds_count", &[]) > 0.0);
    assert!(scrape.sum("lw_fsync_seconds_sum", &[]) > 0.0);
    assert!(scrape.sum("lw_fsync_seconds_sum", &[]) <= scrape.sum("lw_commit_seconds_sum", &[]));
}
