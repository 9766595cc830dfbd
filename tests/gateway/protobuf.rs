//! Bodies in Kubernetes' Protobuf: what kubectl and client-go's typed clients send.

use std::{fs, path::Path, process::Stdio};

use http::Method;
use serde_json::{Value, json};
use tokio::{process::Command, time::timeout};

use super::{
    client::{CONFIG_MAPS, Kube, refused},
    client_go,
    kubectl::Kubectl,
};
use crate::harness::{PATIENCE, tools};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// Without what a server sets, and what Go writes of fields that are not there.
fn given(mut object: Value) -> Value {
    for field in ["apiVersion", "kind", "status"] {
        object.as_object_mut().unwrap().remove(field);
    }
    let metadata = object["metadata"].as_object_mut().unwrap();
    for field in ["creationTimestamp", "generation", "resourceVersion", "uid"] {
        metadata.remove(field);
    }
    metadata.insert("namespace".into(), "default".into());
    drop_null(&mut object);
    object
}

fn drop_null(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_null);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_null),
        _ => {}
    }
}

#[tokio::test]
async fn what_kubectl_creates_is_what_it_says_that_it_creates() {
    let kubectl = Kubectl::start().await;
    for (kind, name, arguments) in [
        ("configmap", "m", "create configmap m --from-literal=a=b"),
        ("namespace", "n", "create namespace n"),
        ("secret", "s", "create secret generic s --from-literal=a=b"),
        (
            "deployment",
            "d",
            "create deployment d --image=nginx:1 --replicas=2 --port=80",
        ),
        (
            "pod",
            "p",
            "run p --image=shell:1 --env=A=b --port=80 -- sleep 1",
        ),
        ("job", "j", "create job j --image=shell:1 -- echo hi"),
        (
            "cronjob",
            "c",
            "create cronjob c --image=shell:1 --schedule=@hourly",
        ),
        (
            "role",
            "r",
            "create role r --verb=get,list --resource=pods,deployments.apps",
        ),
        (
            "rolebinding",
            "b",
            "create rolebinding b --role=r --user=u --group=g",
        ),
        (
            "clusterrole",
            "r",
            "create clusterrole r --verb=get --non-resource-url=/up",
        ),
        (
            "clusterrolebinding",
            "b",
            "create clusterrolebinding b --clusterrole=r --user=u",
        ),
        ("serviceaccount", "a", "create serviceaccount a"),
        (
            "service",
            "v",
            "create service clusterip v --tcp=80:8080 --tcp=81:http",
        ),
        (
            "service",
            "e",
            "expose deployment d --name=e --port=80 --target-port=http",
        ),
        ("quota", "q", "create quota q --hard=cpu=100m,pods=2"),
        (
            "pdb",
            "w",
            "create poddisruptionbudget w --selector=app=d --min-available=50%",
        ),
        (
            "ingress",
            "i",
            "create ingress i --rule=a.io/b=v:80,tls=t --default-backend=v:80",
        ),
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let command = arguments.iter().position(|argument| *argument == "--");
        let (flags, command) = arguments.split_at(command.unwrap_or(arguments.len()));
        let dry = [flags, &["--dry-run=client", "-o", "json"], command].concat();
        let said = kubectl.run(&dry).await;
        kubectl.run(&arguments).await;
        let stored = kubectl.json(&["get", kind, name]).await;
        let said = serde_json::from_str(&said).unwrap();
        assert_eq!(given(stored), given(said), "{arguments:?}");
    }
}

#[tokio::test]
async fn what_go_s_typed_client_writes_is_what_its_json_would_be() {
    let program = client_go::build("typed", "./typed").await;
    let kubectl = Kubectl::start().await;
    let mut typed = Command::new(program);
    let address = kubectl.server.local_addr().unwrap();
    typed.arg("-server").arg(format!("http://{address}"));
    typed.stdout(Stdio::piped()).kill_on_drop(true);
    let output = timeout(PATIENCE * 2, typed.spawn().unwrap().wait_with_output()).await;
    let output = output.expect("the client does not end").unwrap();
    assert!(output.status.success(), "it says why");
    let said = String::from_utf8(output.stdout).unwrap();
    let said: Vec<Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [mut pod, lease, revision] = <[Value; 3]>::try_from(said).unwrap();
    let stored = kubectl.json(&["get", "pod", "p"]).await;
    assert_eq!(
        stored["status"],
        json!({
            "phase": "Running",
            "startTime": "2001-09-09T01:46:40Z",
            "containerStatuses": [{
                "name": "c", "state": {"running": {}}, "lastState": {}, "ready": false,
                "restartCount": 0, "image": "", "imageID": "",
            }],
        })
    );
    pod["metadata"]["labels"] = json!({"updated": "yes"});
    assert_eq!(given(stored), given(pod));
    for (kind, name, said) in [("lease", "l", lease), ("controllerrevision", "r", revision)] {
        let stored = kubectl.json(&["get", kind, name]).await;
        assert_eq!(given(stored), given(said));
    }
    assert_eq!(kubectl.run(&["get", "configmaps", "-o", "name"]).await, "");
}

/// A field of bytes, short enough for a length of one byte.
fn field(number: u8, held: &[u8]) -> Vec<u8> {
    let length = u8::try_from(held.len()).unwrap();
    assert!(length < 128);
    [&[number << 3 | 2, length], held].concat()
}

fn body(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let told = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &told), field(2, raw)].concat()
}

#[tokio::test]
async fn a_protobuf_body_that_is_none_or_another_kind_s_is_refused() {
    let kube = Kube::start().await;
    let headers = [("content-type", PROTOBUF)];
    let post = async |body: Vec<u8>| kube.ask(Method::POST, CONFIG_MAPS, &headers, body).await;
    let named = field(1, &field(1, b"a"));
    for (bad, why) in [
        (b"{}".to_vec(), "does not appear to be a protobuf message"),
        (b"k8s\0\xff".to_vec(), "(must be of type ConfigMap)"),
        (
            body("v1", "ConfigMap", &field(1, &[0x0a])),
            "metadata: failed to decode",
        ),
        (body("v1", "ConfigMap", &[8, 1]), "metadata: wrong wireType"),
        (body("v1", "Secret", &named), "cannot be handled as a"),
        (body("v2", "ConfigMap", &named), "cannot be handled as a"),
    ] {
        let refusal = post(bad).await;
        assert_eq!(refusal.failure(), refused(400, "BadRequest"));
        let message = refusal.json()["message"].to_string();
        assert!(message.contains(why), "{message}");
    }
    assert_eq!(kube.0.revision(), 0);
    let made = post(body("v1", "ConfigMap", &named)).await.ok();
    assert_eq!(made["metadata"]["name"], "a");
    // It need not say what it is.
    let named = field(1, &field(1, b"b"));
    assert_eq!(post(body("", "", &named)).await.ok()["kind"], "ConfigMap");
    let options = body("v1", "DeleteOptions", &field(5, b"All"));
    let path = format!("{CONFIG_MAPS}/a");
    let dry = kube.ask(Method::DELETE, &path, &headers, options).await;
    dry.ok();
    let options = body("v1", "Pod", b"");
    let refusal = kube.ask(Method::DELETE, &path, &headers, options).await;
    assert_eq!(refusal.failure(), refused(400, "BadRequest"));
    assert_eq!(kube.0.list("configmaps").await.resources.len(), 2);
}

#[tokio::test]
async fn a_defined_kind_takes_no_protobuf() {
    let kube = Kube::start().await;
    let definition = json!({
        "metadata": {"name": "tabs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster",
            "names": {"plural": "tabs", "singular": "tab", "kind": "Tab"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    kube.post(definitions, &definition).await.ok();
    let tab = body("example.com/v1", "Tab", b"");
    let headers = [("content-type", PROTOBUF)];
    let tabs = "/apis/example.com/v1/tabs";
    let refusal = kube.ask(Method::POST, tabs, &headers, tab).await;
    assert_eq!(refusal.failure(), refused(415, "UnsupportedMediaType"));
}

#[tokio::test]
async fn the_table_of_messages_is_what_its_script_makes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let kinds = "../../server/src/gateway/kinds/builtin.rs";
    let mut script = tools::go(
        &root.join("scripts/kubernetes-fields"),
        &["run", ".", kinds],
    );
    let made = tools::run("Go", &mut script).await;
    let table = root.join("server/src/gateway/messages/fields.txt");
    let kept = fs::read_to_string(table).unwrap();
    assert!(
        made == kept,
        "fields.txt is not what scripts/kubernetes-fields makes"
    );
}
