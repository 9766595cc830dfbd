use proptest::prelude::*;
use prost::encoding::{encode_key, encode_varint};
use serde_json::json;

use super::*;

/// A message put together by hand.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn number(mut self, number: u32, value: i64) -> Self {
        encode_key(number, WireType::Varint, &mut self.0);
        encode_varint(value.cast_unsigned(), &mut self.0);
        self
    }

    fn bytes(mut self, number: u32, value: impl AsRef<[u8]>) -> Self {
        encode_key(number, WireType::LengthDelimited, &mut self.0);
        encode_varint(value.as_ref().len() as u64, &mut self.0);
        self.0.extend_from_slice(value.as_ref());
        self
    }

    fn double(mut self, number: u32, value: f64) -> Self {
        encode_key(number, WireType::SixtyFourBit, &mut self.0);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn message(self, number: u32, value: Self) -> Self {
        self.bytes(number, value.0)
    }
}

fn new() -> Bytes {
    Bytes::default()
}

const CORE: &str = "io.k8s.api.core.v1";

fn decoded(name: &str, bytes: Bytes) -> Result<Value, MessageError> {
    let name = match name.contains('.') {
        true => name.to_owned(),
        false => format!("{CORE}.{name}"),
    };
    decode(message(&name).unwrap(), &bytes.0).map(Value::Object)
}

fn json_of(name: &str, bytes: Bytes) -> Value {
    decoded(name, bytes).unwrap()
}

#[test]
fn a_config_map_is_what_its_json_would_be() {
    let meta = new()
        .bytes(1, "a")
        .bytes(2, "")
        .bytes(8, "")
        .message(11, new().bytes(1, "app").bytes(2, "web"));
    let map = new()
        .message(1, meta)
        .message(2, new().bytes(1, "k").bytes(2, "v"))
        .message(2, new().bytes(1, "empty"))
        .message(3, new().bytes(1, "b").bytes(2, [0, 255]))
        .number(4, 0);
    assert_eq!(
        json_of("ConfigMap", map),
        json!({
            "metadata": {"name": "a", "labels": {"app": "web"}},
            "data": {"k": "v", "empty": ""},
            "binaryData": {"b": "AP8="},
            "immutable": false,
        })
    );
}

#[test]
fn a_message_that_json_has_the_fields_of_is_flattened() {
    let volume = new()
        .bytes(1, "v")
        .message(2, new().message(6, new().bytes(1, "s")));
    let volume = json_of("Volume", volume);
    assert_eq!(volume, json!({"name": "v", "secret": {"secretName": "s"}}));
    let port = new().number(1, 1).bytes(3, "http");
    let probe = new()
        .message(1, new().message(2, new().bytes(1, "/up").message(2, port)))
        .number(2, 5)
        .number(3, 0);
    assert_eq!(
        json_of("Probe", probe),
        json!({"httpGet": {"path": "/up", "port": "http"}, "initialDelaySeconds": 5})
    );
    let key = new().message(1, new().bytes(1, "s")).bytes(2, "k");
    let key = json_of("SecretKeySelector", key);
    assert_eq!(key, json!({"name": "s", "key": "k"}));
    let container = new().message(1, new().bytes(1, "c")).bytes(2, "of");
    let container = json_of("EphemeralContainer", container);
    assert_eq!(container, json!({"name": "c", "targetContainerName": "of"}));
}

#[test]
fn zeros_are_left_out_where_go_leaves_them_out() {
    let status = new()
        .bytes(1, "c")
        .number(4, 0)
        .number(5, 0)
        .bytes(6, "")
        .number(9, 0);
    assert_eq!(
        json_of("ContainerStatus", status),
        json!({"name": "c", "ready": false, "restartCount": 0, "image": "", "started": false})
    );
    // The last one counts, if it comes twice.
    let pod = new().bytes(3, "Always").bytes(3, "");
    assert_eq!(json_of("PodSpec", pod), json!({}));
}

#[test]
fn amounts_numbers_and_times_are_written_as_kubernetes_writes_them() {
    let amount = |text: &str| new().bytes(1, "cpu").message(2, new().bytes(1, text));
    let resources = new().message(1, amount("100m")).message(2, amount(""));
    assert_eq!(
        json_of("ResourceRequirements", resources),
        json!({"limits": {"cpu": "100m"}, "requests": {"cpu": "0"}})
    );
    let port = new()
        .number(3, 80)
        .message(4, new().number(1, 0).number(2, -1));
    assert_eq!(
        json_of("ServicePort", port),
        json!({"port": 80, "targetPort": -1})
    );
    let time = new().number(1, 1_000_000_000).number(2, 123_456_789);
    let lease = new().message(4, time).number(2, 15);
    assert_eq!(
        json_of("io.k8s.api.coordination.v1.LeaseSpec", lease),
        json!({"renewTime": "2001-09-09T01:46:40.123456Z", "leaseDurationSeconds": 15})
    );
    let time = new().number(1, 1_000_000_000).number(2, 9);
    assert_eq!(
        json_of("PodCondition", new().message(4, time)),
        json!({"lastTransitionTime": "2001-09-09T01:46:40Z"})
    );
    let user = new().number(2, -1).number(2, 1 << 40);
    assert_eq!(
        json_of("PodSecurityContext", user),
        json!({"runAsUser": 1_i64 << 40})
    );
    // Packed and not.
    let groups = new().number(4, 7).bytes(4, [1, 2]);
    assert_eq!(
        json_of("PodSecurityContext", groups),
        json!({"supplementalGroups": [7, 1, 2]})
    );
}

#[test]
fn json_in_a_message_is_json() {
    let revision = new()
        .message(2, new().bytes(1, r#"{"a":[1]}"#))
        .number(3, 2);
    assert_eq!(
        json_of("io.k8s.api.apps.v1.ControllerRevision", revision),
        json!({"data": {"a": [1]}, "revision": 2})
    );
    let managed = new().message(7, new().bytes(1, r#"{"f:data":{}}"#));
    assert_eq!(
        json_of(
            "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry",
            managed
        ),
        json!({"fieldsV1": {"f:data": {}}})
    );
    let nested = format!("{}{}", "[".repeat(120), "]".repeat(120));
    let deep = new().message(2, new().bytes(1, nested));
    let error = decoded("io.k8s.api.apps.v1.ControllerRevision", deep);
    assert_eq!(error, Err(MessageError::TooDeep));
}

#[test]
fn a_schema_s_alternatives_are_told_apart() {
    let text = || new().bytes(5, "string");
    let schema = new()
        .bytes(5, "object")
        .double(9, 2.0)
        .double(11, 0.5)
        .message(20, new().bytes(1, "\"a\""))
        .message(24, new().message(2, text()).message(2, text()))
        .message(29, new().bytes(1, "x").message(2, text()))
        .message(30, new().number(1, 0))
        .message(32, new().bytes(1, "d").message(2, new().bytes(2, "x")))
        .message(33, new().number(1, 1).message(2, text()))
        .number(38, 1);
    assert_eq!(
        json_of(JSON_SCHEMA, schema),
        json!({
            "type": "object", "maximum": 2, "minimum": 0.5, "enum": ["a"],
            "items": [{"type": "string"}, {"type": "string"}],
            "properties": {"x": {"type": "string"}},
            "additionalProperties": false,
            "dependencies": {"d": ["x"]},
            "additionalItems": {"type": "string"},
            "x-kubernetes-preserve-unknown-fields": true,
        })
    );
}

#[test]
fn fields_that_are_not_known_are_skipped() {
    let mut bytes = new()
        .number(900, 1)
        .bytes(901, "x")
        .double(902, 1.0)
        .bytes(1, "s");
    encode_key(903, WireType::ThirtyTwoBit, &mut bytes.0);
    bytes.0.extend_from_slice(&[1, 2, 3, 4]);
    encode_key(904, WireType::StartGroup, &mut bytes.0);
    let mut bytes = bytes.number(1, 1);
    encode_key(904, WireType::EndGroup, &mut bytes.0);
    assert_eq!(json_of("SecretReference", bytes), json!({"name": "s"}));
}

#[test]
fn a_message_in_parts_is_put_together() {
    let pod = new()
        .message(2, new().bytes(3, "Never"))
        .message(2, new().bytes(10, "n"));
    assert_eq!(
        json_of("Pod", pod),
        json!({"spec": {"restartPolicy": "Never", "nodeName": "n"}})
    );
}

#[test]
fn what_is_malformed_is_refused_and_says_where() {
    let error = |name: &str, bytes: Bytes| decoded(name, bytes).unwrap_err().to_string();
    let container = |container: Bytes| new().message(2, new().message(2, container));
    let said = error("Pod", container(new().number(1, 1)));
    assert_eq!(
        said,
        "spec.containers.name: wrong wireType = 0 for the field"
    );
    let said = error("Pod", container(new().bytes(1, [0xff])));
    assert_eq!(said, "spec.containers.name: a string is not UTF-8");
    let time = new().message(8, new().number(1, i64::MAX));
    let said = error("Pod", new().message(1, time));
    assert_eq!(said, "metadata.creationTimestamp: the time is out of range");
    let said = error(JSON_SCHEMA, new().double(9, f64::NAN));
    assert_eq!(said, "maximum: the number is not finite");
    let said = error(
        "io.k8s.api.apps.v1.ControllerRevision",
        new().message(2, new().bytes(1, "{")),
    );
    assert!(said.starts_with("data: not JSON: "), "{said}");
    for bytes in [
        &b"\x0a"[..],
        b"\x0a\x05ab",
        b"\x00",
        b"\x0c",
        b"\x07",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        decoded("Pod", Bytes(bytes.to_vec())).unwrap_err();
    }
}

#[test]
fn every_truncation_is_refused_or_a_shorter_message() {
    let meta = new()
        .bytes(1, "a")
        .message(8, new().number(1, 1).number(2, 0));
    let spec = new().message(2, new().bytes(1, "c").bytes(2, "i"));
    let pod = new().message(1, meta).message(2, spec).0;
    let pods = message("io.k8s.api.core.v1.Pod").unwrap();
    let whole = (0..=pod.len()).filter(|end| decode(pods, &pod[..*end]).is_ok());
    // Nothing, metadata alone, all.
    assert_eq!(whole.count(), 3);
}

#[test]
fn messages_within_messages_end_somewhere() {
    // `not` within `not`.
    let nested = |depth| (0..depth).fold(new(), |inner, _| new().message(28, inner));
    decoded(JSON_SCHEMA, nested(MAX_DEPTH - 1)).unwrap();
    let error = decoded(JSON_SCHEMA, nested(MAX_DEPTH));
    assert_eq!(error, Err(MessageError::TooDeep));
    let error = decoded(JSON_SCHEMA, nested(2_000));
    assert_eq!(error, Err(MessageError::TooDeep));
    // What is taken can be read again.
    let deepest = decoded(JSON_SCHEMA, nested(MAX_DEPTH - 1)).unwrap();
    let again: Value = serde_json::from_str(&deepest.to_string()).unwrap();
    assert_eq!(again, deepest);
}

/// Bytes that are a message more often than not: keys of small fields, then anything.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let piece = (
        1_u32..45,
        any::<bool>(),
        prop::collection::vec(any::<u8>(), 0..40),
    );
    prop::collection::vec(piece, 0..20).prop_map(|pieces| {
        let mut bytes = new();
        for (number, is_number, held) in pieces {
            bytes = match is_number {
                true => bytes.number(number, held.len() as i64),
                false => bytes.bytes(number, held),
            };
        }
        bytes.0
    })
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop_oneof![nearly(), prop::collection::vec(any::<u8>(), 0..300)]) {
        for name in ["io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.PodSpec", JSON_SCHEMA] {
            if let Ok(fields) = decode(message(name).unwrap(), &bytes) {
                let text = Value::Object(fields).to_string();
                prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
            }
        }
    }
}
