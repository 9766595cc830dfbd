//! Compact, GetStatus, Export, and the files that exports become; health and reflection.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use listwatch::v1::{self, export_response::Kind};
use listwatch_server::{
    Server, ServerOptions,
    backup::{self, BackupError, ExportReader},
    store::{Key, MemoryStore, Object, SledStore, Store, StoreOptions},
};
use prost::Message as _;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::harness::{Harness, PATIENCE, everything, key, reason, resource};

async fn channel(harness: &Harness) -> Channel {
    Endpoint::from_static("http://in-memory")
        .connect_with_connector(harness.server.in_memory())
        .await
        .unwrap()
}

async fn frames(harness: &Harness) -> Vec<Kind> {
    let mut export = harness.client.export().await.unwrap();
    let mut frames = Vec::new();
    loop {
        let frame = tokio::time::timeout(PATIENCE, export.message()).await;
        match frame.expect("the export is silent").unwrap() {
            Some(frame) => frames.push(frame.kind.unwrap()),
            None => return frames,
        }
    }
}

fn objects(frames: &[Kind]) -> Vec<v1::Resource> {
    let objects = frames.iter().filter_map(|frame| match frame {
        Kind::Objects(objects) => Some(objects.resources.clone()),
        _ => None,
    });
    objects.flatten().collect()
}

/// Some objects of several collections and namespaces, with all that an object can have.
async fn fill(harness: &Harness) {
    for n in 0..20 {
        let name = format!("n{n}");
        harness
            .put_labelled("pods", &name, "first", &[("app", "x")])
            .await;
        harness.put("nodes", &name, &"v".repeat(n)).await;
    }
    harness.put("pods", "n3", "second").await;
    harness.delete("nodes", "n4").await;
    harness.put("gone", "a", "1").await;
    harness.delete("gone", "a").await;
    let request = v1::CreateRequest {
        resource: Some(v1::Resource {
            key: Some(v1::Key {
                collection: "deployments.apps".into(),
                namespace: String::new(),
                name: "system:a".into(),
            }),
            content_type: "application/json".into(),
            ..v1::Resource::default()
        }),
        ttl: Some(prost_types::Duration {
            seconds: 3600,
            nanos: 0,
        }),
        ..v1::CreateRequest::default()
    };
    harness.client.create(request).await.unwrap();
}

#[tokio::test]
async fn an_export_is_a_header_the_objects_and_a_footer_that_adds_up() {
    let harness = Harness::start().await;
    fill(&harness).await;
    let frames = frames(&harness).await;
    let Kind::Header(header) = &frames[0] else {
        panic!("{:?}", frames[0]);
    };
    assert_eq!(header.format_version, 1);
    assert_eq!(header.store_id, harness.store.id().to_string());
    assert_eq!(header.revision, harness.store.progress().revision.to_wire());
    assert!(header.export_time.is_some() && !header.version.is_empty());
    let Some(Kind::Footer(footer)) = frames.last() else {
        panic!("no footer");
    };
    let resources = objects(&frames);
    assert_eq!(
        frames
            .iter()
            .filter(|f| matches!(f, Kind::Header(_)))
            .count(),
        1
    );
    assert_eq!(
        frames
            .iter()
            .filter(|f| matches!(f, Kind::Footer(_)))
            .count(),
        1
    );
    assert_eq!(footer.object_count, resources.len() as i64);
    assert_eq!(resources.len(), 20 + 19 + 1);
    let mut checksum = Xxh3::new();
    for resource in &resources {
        let bytes = resource.encode_to_vec();
        checksum.update(&(bytes.len() as u32).to_le_bytes());
        checksum.update(&bytes);
    }
    assert_eq!(footer.checksum, checksum.digest());
    assert_eq!(footer.header_checksum, xxh3_64(&header.encode_to_vec()));
    let names = |collection: &str| {
        let of = resources
            .iter()
            .filter(|r| r.key.as_ref().unwrap().collection == collection);
        of.cloned().collect::<Vec<_>>()
    };
    for collection in ["pods", "nodes", "deployments.apps", "gone"] {
        assert_eq!(
            names(collection),
            harness.list(collection).await.resources,
            "{collection}"
        );
    }
}

#[tokio::test]
async fn an_export_of_nothing_is_whole_too() {
    let harness = Harness::start().await;
    let frames = frames(&harness).await;
    assert!(
        matches!(frames[..], [Kind::Header(_), Kind::Footer(_)]),
        "{frames:?}"
    );
}

/// The state at the header's revision, whatever is written, deleted and compacted while
/// the export goes out.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_shows_one_revision_whatever_is_written_meanwhile() {
    let harness = Harness::start().await;
    // Two objects of each of many collections are always written at one revision.
    let pair = |n: usize, value: String| {
        let operation = |name: &str| v1::BatchOperation {
            kind: Some(v1::batch_operation::Kind::Update(v1::UpdateRequest {
                resource: Some(resource(&format!("c{n}"), name, &value, &[])),
                allow_missing: true,
                ..v1::UpdateRequest::default()
            })),
        };
        v1::BatchRequest {
            operations: vec![operation("left"), operation("right")],
            ..v1::BatchRequest::default()
        }
    };
    let large = "x".repeat(100_000);
    for n in 0..30 {
        harness
            .client
            .batch(pair(n, format!("0 {large}")))
            .await
            .unwrap();
    }
    for round in 1..=5 {
        let mut export = harness.client.export().await.unwrap();
        let first = export.message().await.unwrap().unwrap().kind.unwrap();
        let Kind::Header(header) = &first else {
            panic!("{first:?}");
        };
        let mut frames = vec![first.clone()];
        for n in 0..30 {
            harness
                .client
                .batch(pair(n, format!("{round} {large}")))
                .await
                .unwrap();
            if n % 3 == round % 3 {
                harness.delete(&format!("c{n}"), "left").await;
                harness.delete(&format!("c{n}"), "right").await;
            }
        }
        harness
            .compact(harness.store.progress().revision.to_wire())
            .await;
        while let Some(frame) = export.message().await.unwrap() {
            frames.push(frame.kind.unwrap());
        }
        let Some(Kind::Footer(footer)) = frames.last() else {
            panic!("no footer");
        };
        let resources = objects(&frames);
        assert_eq!(footer.object_count, resources.len() as i64);
        let mut pairs = BTreeMap::<_, Vec<_>>::new();
        for resource in resources {
            assert!(resource.revision <= header.revision);
            let collection = resource.key.unwrap().collection;
            pairs
                .entry(collection)
                .or_default()
                .push((resource.revision, resource.value));
        }
        let wanted = if round == 1 { 30 } else { 20 };
        assert_eq!(pairs.len(), wanted, "round {round}");
        for (collection, pair) in pairs {
            assert_eq!(pair.len(), 2, "{collection}");
            assert!(pair[0] == pair[1], "{collection} is torn");
        }
        for n in 0..30 {
            if n % 3 == round % 3 {
                continue;
            }
            let kept = harness.list(&format!("c{n}")).await.resources;
            assert_eq!(kept.len(), 2);
        }
    }
}

async fn exported() -> (Arc<MemoryStore>, Vec<u8>) {
    let store = Arc::new(MemoryStore::new(StoreOptions::default()));
    let harness = Harness::over(store.clone(), ServerOptions::default()).await;
    fill(&harness).await;
    let mut file = Vec::new();
    let count = backup::write(store.clone(), SystemTime::now(), &mut file)
        .await
        .unwrap();
    assert_eq!(count, 40);
    (store, file)
}

fn read(file: &[u8]) -> Result<Vec<Object>, BackupError> {
    ExportReader::new(file)?.collect()
}

#[tokio::test]
async fn a_file_gives_back_every_object_as_it_was() {
    let (store, file) = exported().await;
    let reader = ExportReader::new(&file[..]).unwrap();
    let revision = store.progress().revision;
    assert_eq!(reader.revision(), revision);
    assert_eq!(reader.header().store_id, store.id().to_string());
    let objects: Vec<Object> = reader.collect::<Result<_, _>>().unwrap();
    assert_eq!(objects.len(), 40);
    for object in objects {
        let stored = store.get(&object.key, revision).await.unwrap().unwrap();
        assert_eq!(object, *stored);
    }
}

#[track_caller]
fn refused(file: &[u8], how: &str) {
    match read(file) {
        Ok(objects) => panic!("{how}: taken, with {} objects", objects.len()),
        Err(BackupError::Damaged(message)) => {
            assert!(message.contains("export"), "{how}: {message}");
        }
        Err(other) => panic!("{how}: {other:?}"),
    }
}

#[tokio::test]
async fn a_file_cut_anywhere_is_refused() {
    let (_, file) = exported().await;
    for end in 0..file.len() {
        refused(&file[..end], &format!("cut at {end}"));
    }
}

#[tokio::test]
async fn a_file_with_any_byte_altered_is_refused() {
    let (_, file) = exported().await;
    for place in 0..file.len() {
        for flip in [0x01, 0x08, 0x80, 0xff] {
            let mut altered = file.clone();
            altered[place] ^= flip;
            refused(&altered, &format!("byte {place} ^ {flip:#x}"));
        }
    }
}

#[tokio::test]
async fn a_file_with_bytes_missing_or_added_is_refused() {
    let (_, file) = exported().await;
    for place in 0..file.len() {
        let missing = [&file[..place], &file[place + 1..]].concat();
        refused(&missing, &format!("without byte {place}"));
        let added = [&file[..place], b"\0", &file[place..]].concat();
        refused(&added, &format!("a zero at {place}"));
    }
    for tail in [&b"\0"[..], b"x", &file] {
        refused(&[&file[..], tail].concat(), "something behind the footer");
    }
}

#[test]
fn what_is_no_export_is_refused() {
    let garbage: [&[u8]; 8] = [
        b"",
        b"\0",
        b"hello, world",
        &[0xff; 100],
        &[0x80; 100],
        &[0; 100],
        // A frame that claims 4 GiB, and one that claims more than there is.
        b"\xff\xff\xff\xff\x0f",
        b"\x80\x80\x80\x20abc",
    ];
    for file in garbage {
        refused(file, &format!("{file:.20?}"));
    }
}

#[test]
fn an_export_of_an_unknown_version_is_refused_by_its_number() {
    let header = v1::ExportHeader {
        format_version: 2,
        ..v1::ExportHeader::default()
    };
    let frame = v1::ExportResponse {
        kind: Some(Kind::Header(header)),
    };
    let file = frame.encode_length_delimited_to_vec();
    let Err(error) = ExportReader::new(&file[..]) else {
        panic!("taken");
    };
    assert!(error.to_string().contains("format version 2"), "{error}");
}

/// What the store would keep as another time, or what leaves no revision for a write, is refused
/// before anything is made of it.
#[test]
fn an_export_of_times_and_revisions_that_no_store_keeps_is_refused() {
    let time = |seconds, nanos| Some(prost_types::Timestamp { seconds, nanos });
    let resource = |update_time, expire_time| v1::Resource {
        key: Some(key("pods", "a")),
        uid: "00000000-0000-4000-8000-000000000001".into(),
        revision: 1,
        create_revision: 1,
        update_time,
        expire_time,
        ..v1::Resource::default()
    };
    let first = |revision, resource| {
        let header = v1::ExportHeader {
            format_version: 1,
            revision,
            ..v1::ExportHeader::default()
        };
        let objects = v1::ExportObjects {
            resources: vec![resource],
        };
        let mut file = Vec::new();
        for kind in [Kind::Header(header), Kind::Objects(objects)] {
            let frame = v1::ExportResponse { kind: Some(kind) };
            file.extend(frame.encode_length_delimited_to_vec());
        }
        ExportReader::new(&file[..])?
            .next()
            .expect("an object or an error")
    };
    // The last second of 1677 and the first of 2263 are the nearest.
    for (seconds, nanos) in [
        (i64::MAX, i32::MAX),
        (i64::MIN, i32::MIN),
        (253_402_300_799, 999_999_999),
        (9_223_372_036, 854_775_808),
        (-9_223_372_037, 145_224_191),
    ] {
        for resource in [
            resource(time(seconds, nanos), None),
            resource(time(1, 0), time(seconds, nanos)),
        ] {
            let error = first(5, resource).unwrap_err().to_string();
            assert!(error.contains("bad time"), "{seconds}.{nanos}: {error}");
        }
    }
    for (seconds, nanos) in [
        (9_223_372_036, 854_775_807),
        (-9_223_372_037, 145_224_192),
        (0, 0),
    ] {
        let taken = first(5, resource(time(seconds, nanos), time(seconds, nanos)));
        assert!(taken.is_ok(), "{seconds}.{nanos}: {taken:?}");
    }
    for revision in [-1, i64::MIN, i64::MAX, i64::MAX / 2 + 1] {
        let error = first(revision, resource(None, None));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("impossible revision"), "{revision}: {error}");
    }
    assert!(first(i64::MAX / 2, resource(None, None)).is_ok());
}

#[tokio::test]
async fn a_compaction_answers_with_how_far_history_is_gone() {
    let harness = Harness::start().await;
    for n in 0..10 {
        harness.put("pods", "a", &n.to_string()).await;
    }
    let compact = async |revision| {
        let request = v1::CompactRequest {
            revision,
            wait: true,
        };
        harness
            .client
            .compact(request)
            .await
            .map(|answer| answer.compact_revision)
    };
    assert_eq!(compact(5).await.unwrap(), 5);
    // At or below it: nothing changes.
    assert_eq!(compact(5).await.unwrap(), 5);
    assert_eq!(compact(1).await.unwrap(), 5);
    assert_eq!(compact(10).await.unwrap(), 10);
    let refused = compact(11).await.unwrap_err();
    assert_eq!(refused.reason(), v1::ErrorReason::RevisionInFuture);
    assert_eq!(harness.client.status().await.unwrap().compact_revision, 10);
    // The newest state stays, whatever is compacted.
    assert_eq!(harness.list("pods").await.resources[0].value, "9");
}

#[tokio::test]
async fn the_status_says_what_there_is_and_what_the_limits_are() {
    let harness = Harness::start().await;
    let empty = harness.client.status().await.unwrap();
    assert_eq!(
        (empty.revision, empty.object_count, empty.watch_count),
        (0, 0, 0)
    );
    fill(&harness).await;
    harness.compact(10).await;
    let mut watching = harness.watch_all("pods").await;
    watching.next().await.unwrap();
    let status = harness.client.status().await.unwrap();
    let known = harness.store.progress();
    assert_eq!(status.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(status.store_id, harness.store.id().to_string());
    assert_eq!(status.revision, known.revision.to_wire());
    assert_eq!(status.compact_revision, 10);
    assert_eq!(status.object_count, 40);
    assert_eq!(status.watch_count, 1);
    assert!(status.database_bytes > 0 && !status.storage_full);
    let of = |name: &str| {
        status
            .collections
            .iter()
            .find(|c| c.collection == name)
            .unwrap()
    };
    assert_eq!((of("pods").object_count, of("pods").watch_count), (20, 1));
    assert_eq!((of("nodes").object_count, of("nodes").watch_count), (19, 0));
    let limits = status.limits.unwrap();
    assert_eq!(limits.max_object_bytes, 1536 * 1024);
    assert_eq!(limits.max_batch_operations, 128);
    assert_eq!(limits.max_page_size, 10_000);
    assert_eq!(limits.max_labels, 64);
    assert_eq!(limits.max_selector_requirements, 64);
    for feature in ["list", "watch", "catch-up", "batch", "ttl", "export"] {
        assert!(status.features.iter().any(|f| f == feature), "{feature}");
    }
}

#[tokio::test]
async fn health_says_serving_for_the_server_and_for_each_service() {
    let harness = Harness::start().await;
    let mut health = HealthClient::new(channel(&harness).await);
    for service in [
        "",
        "listwatch.v1.ListWatchService",
        "listwatch.v1.AdminService",
    ] {
        let request = HealthCheckRequest {
            service: service.into(),
        };
        let answer = health.check(request).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
    }
    let unknown = HealthCheckRequest {
        service: "unknown".into(),
    };
    let refused = health.check(unknown).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound);
    assert_eq!(reason(&refused), "", "health is another protocol");
}

/// Who asks for health on a stream hears of the end before the connection goes.
#[tokio::test]
async fn health_says_not_serving_when_the_server_drains() {
    let harness = Harness::start().await;
    let mut health = HealthClient::new(channel(&harness).await);
    let mut streams = Vec::new();
    for service in [
        "",
        "listwatch.v1.ListWatchService",
        "listwatch.v1.AdminService",
    ] {
        let request = HealthCheckRequest {
            service: service.into(),
        };
        let mut stream = health.watch(request).await.unwrap().into_inner();
        let first = stream.message().await.unwrap().unwrap();
        assert_eq!(first.status(), ServingStatus::Serving);
        streams.push((service, stream));
    }
    harness.server.drain();
    for (service, mut stream) in streams {
        let next = tokio::time::timeout(PATIENCE, stream.message()).await;
        let next = next.expect("no word of the end").unwrap().unwrap();
        assert_eq!(next.status(), ServingStatus::NotServing, "{service:?}");
        // And it ends, so that the connection need not wait for the grace.
        let end = tokio::time::timeout(PATIENCE, stream.message()).await;
        assert_eq!(end.expect("the stream stays open").unwrap(), None);
    }
}

#[tokio::test]
async fn reflection_lists_the_services_and_gives_their_files() {
    let harness = Harness::start().await;
    let mut reflection = ServerReflectionClient::new(channel(&harness).await);
    let request = |message_request| ServerReflectionRequest {
        host: String::new(),
        message_request: Some(message_request),
    };
    let requests = tokio_stream::iter([
        request(MessageRequest::ListServices(String::new())),
        request(MessageRequest::FileContainingSymbol(
            "listwatch.v1.WatchRequest".into(),
        )),
    ]);
    let answers = reflection.server_reflection_info(requests).await.unwrap();
    let mut answers = answers.into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("no list");
    };
    let names: Vec<_> = list.service.into_iter().map(|s| s.name).collect();
    for name in [
        "listwatch.v1.ListWatchService",
        "listwatch.v1.AdminService",
        "grpc.health.v1.Health",
    ] {
        assert!(
            names.iter().any(|n| n == name),
            "{name} is not in {names:?}"
        );
    }
    let Some(MessageResponse::FileDescriptorResponse(files)) =
        answers.message().await.unwrap().unwrap().message_response
    else {
        panic!("no file");
    };
    let file = prost_types::FileDescriptorProto::decode(&files.file_descriptor_proto[0][..]);
    assert_eq!(file.unwrap().package(), "listwatch.v1");
}

/// From one store through a file into a data folder, and served from there.
#[tokio::test]
async fn a_restored_store_has_every_object_under_a_new_identity() {
    let (store, file) = exported().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("restored");
    let export = ExportReader::new(&file[..]).unwrap();
    let revision = export.revision();
    let restored = SledStore::restore(&path, StoreOptions::default(), revision, export).unwrap();
    restored.close().await;
    drop(restored);
    let server = Server::builder()
        .data_dir(&path, StoreOptions::default())
        .start()
        .await
        .unwrap();
    let endpoint = Endpoint::from_static("http://in-memory");
    let channel = endpoint.connect_with_connector(server.in_memory()).await;
    let client = listwatch_client::Client::from_channel(channel.unwrap());
    let status = client.status().await.unwrap();
    assert_ne!(status.store_id, store.id().to_string());
    assert_eq!(status.revision, revision.to_wire());
    assert_eq!(status.object_count, 40);
    for collection in ["pods", "nodes", "deployments.apps", "gone"] {
        let request = v1::ListRequest {
            selector: Some(everything(collection)),
            ..v1::ListRequest::default()
        };
        for restored in client.list(request).await.unwrap().resources {
            let key = restored.key.clone().unwrap();
            let key = Key::new(&key.collection, &key.namespace, &key.name).unwrap();
            let before = store.get(&key, revision).await.unwrap().unwrap();
            assert_eq!(restored.uid, before.uid.to_string());
            assert_eq!(restored.revision, before.revision.to_wire());
            assert_eq!(restored.create_revision, before.create_revision.to_wire());
            assert_eq!(restored.value, before.content.value);
            assert_eq!(restored.labels, before.content.labels);
        }
    }
    // It goes on from where the export stood.
    let request = v1::CreateRequest {
        resource: Some(resource("pods", "next", "x", &[])),
        ..v1::CreateRequest::default()
    };
    let next = client.create(request).await.unwrap().resource.unwrap();
    assert_eq!(next.revision, revision.to_wire() + 1);
    drop(client);
    server.drain();
    let joined = tokio::time::timeout(PATIENCE, server.join()).await;
    joined.expect("the server does not end").unwrap();
}

/// A damaged file leaves no store that would open with part of the objects.
#[tokio::test]
async fn a_damaged_file_becomes_no_store() {
    let (_, file) = exported().await;
    let folder = tempfile::tempdir().unwrap();
    for (n, end) in [file.len() - 1, file.len() / 2].into_iter().enumerate() {
        let path = folder.path().join(n.to_string());
        let export = ExportReader::new(&file[..end]).unwrap();
        let revision = export.revision();
        let restored = SledStore::restore(&path, StoreOptions::default(), revision, export);
        assert!(matches!(restored, Err(BackupError::Damaged(_))));
        let opened = SledStore::open(&path, StoreOptions::default());
        assert!(opened.is_err(), "cut at {end}: it opens");
    }
}
