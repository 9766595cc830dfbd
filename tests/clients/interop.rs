//! What one language writes, every other reads, to the bit.

use std::{fs, io::Write as _, path::Path, time::SystemTime};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use listwatch::v1::{ExportFooter, ExportHeader, ExportResponse, export_response};
use prost::Message as _;
use serde_json::{Value, json};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{agent::Agent, languages};
use crate::harness::daemon::{Daemon, binary, free_address};

/// The first integer that a double cannot hold.
const BEYOND_DOUBLES: i64 = (1 << 53) + 1;

/// A data folder whose next revisions are beyond what a double can hold: JavaScript's numbers
/// would round them.
fn with_large_revisions(folder: &Path) {
    let header = ExportHeader {
        format_version: 1,
        store_id: "0d5b2a0e-6c1f-4f0c-9d39-1f5f9e3c6a77".into(),
        revision: BEYOND_DOUBLES,
        export_time: Some(SystemTime::now().into()),
        version: "0.1.0".into(),
    };
    let footer = ExportFooter {
        object_count: 0,
        checksum: Xxh3::new().digest(),
        header_checksum: xxh3_64(&header.encode_to_vec()),
    };
    let export = folder.join("export");
    let mut file = fs::File::create(&export).unwrap();
    for kind in [
        export_response::Kind::Header(header),
        export_response::Kind::Footer(footer),
    ] {
        let frame = ExportResponse { kind: Some(kind) };
        file.write_all(&frame.encode_length_delimited_to_vec())
            .unwrap();
    }
    let mut import = std::process::Command::new(binary("listwatchd"));
    import.arg("--data-dir").arg(folder.join("data"));
    let output = import.arg("import").arg(&export).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
}

fn key(name: &str) -> Value {
    json!({"collection": "things.example.dev", "namespace": "interop", "name": name})
}

/// Objects that a careless client would bend.
fn objects(language: &str) -> Vec<Value> {
    let every_byte: Vec<u8> = (0..=255).collect();
    // All bytes, and more than one HTTP/2 window of them.
    let one_mib: Vec<u8> = (0..1 << 20).map(|i: u32| (i ^ (i >> 8)) as u8).collect();
    let value = |bytes: &[u8]| STANDARD.encode(bytes);
    let today = prost_types::Timestamp::from(SystemTime::now());
    let expire_time = prost_types::Timestamp {
        seconds: today.seconds + 300 * 24 * 3600,
        nanos: 123_456_789,
    };
    vec![
        json!({
            "key": key(&format!("{language}-every-field")),
            "labels": {
                "plain": "text",
                "example.dev/greek": "Καλημέρα κόσμε",
                "astral": "😀 𝔘𝔫𝔦𝔠𝔬𝔡𝔢",
                "combining": "e\u{301} \u{5e9}\u{5dc}\u{5d5}\u{5dd}",
                "quotes": "\"'\\</script>",
                "empty": "",
            },
            "value": value(&every_byte),
            "contentType": "application/vnd.example+thing; charset=\"utf-8\"",
            "expireTime": expire_time.to_string(),
        }),
        json!({"key": key(&format!("{language}-Empty.Value_1:x"))}),
        json!({"key": key(&format!("{language}-one-mib")), "value": value(&one_mib)}),
    ]
}

/// ProtoJSON may leave out what is empty, and write a fraction of 3, 6 or 9 digits.
fn normal(resource: &Value) -> Value {
    let mut resource = resource.clone();
    let fields = resource.as_object_mut().expect("a resource");
    for time in ["updateTime", "expireTime"] {
        if let Some(Value::String(text)) = fields.get_mut(time) {
            let (whole, fraction) = match text.trim_end_matches('Z').split_once('.') {
                Some((whole, fraction)) => (whole.to_owned(), fraction.to_owned()),
                None => (text.trim_end_matches('Z').to_owned(), String::new()),
            };
            *text = format!("{whole}.{}Z", fraction.trim_end_matches('0'));
        }
    }
    fields.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    });
    resource
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_language_writes_every_other_reads_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    with_large_revisions(folder.path());
    let address = free_address();
    let _daemon = Daemon::start(&folder.path().join("data"), &address, &[]).await;
    let selector = json!({"collection": "things.example.dev"});

    let mut agents = Vec::new();
    for (language, command) in languages().await {
        let mut agent = Agent::start(language, &command);
        agent.run("connect", json!({"address": address})).await;
        let watch = json!({"name": "w", "selector": selector});
        agent.run("watch", watch).await;
        agent.event("init_done").await;
        agents.push(agent);
    }

    for writer in 0..agents.len() {
        let language = agents[writer].language;
        for object in objects(language) {
            let written = agents[writer]
                .run("create", json!({"resource": object}))
                .await;
            let revision = written["resource"]["revision"].as_str().unwrap();
            assert!(revision.parse::<i64>().unwrap() > BEYOND_DOUBLES);

            // What was written is there; the server adds its own.
            let mut expected = normal(&object);
            for field in ["uid", "revision", "createRevision", "updateTime"] {
                expected[field] = written["resource"][field].clone();
            }
            let expected = normal(&expected);
            for reader in &mut agents {
                let between = format!("from {language} to {}", reader.language);
                let read = reader.run("get", json!({"key": object["key"]})).await;
                assert_eq!(normal(&read["resource"]), expected, "{between}: get");
                let told = reader.event("apply").await;
                assert_eq!(normal(&told["object"]), expected, "{between}: watch");
                let point = reader.event("bookmark").await;
                // In JSON as a number: what the reader's own arithmetic made of it.
                let text = point["revision"].to_string();
                assert_eq!(text, revision, "{between}: revision of a point");
            }
        }
    }
}
