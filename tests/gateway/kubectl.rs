//! The real `kubectl` against a server on a port.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Output, Stdio},
};

use http::Request;
use http_body_util::Full;
use listwatch_server::{DeclaredKind, Server, ServerHandle, ServerOptions};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use super::client::send;
use crate::harness::PATIENCE;

/// A server, and a kubectl that knows nothing but it.
pub struct Kubectl {
    pub server: ServerHandle,
    home: tempfile::TempDir,
}

impl Kubectl {
    pub async fn start() -> Self {
        Self::with(ServerOptions::default()).await
    }

    async fn with(options: ServerOptions) -> Self {
        let server = Server::builder()
            .listen("127.0.0.1:0")
            .options(options)
            .start()
            .await
            .unwrap();
        let home = tempfile::tempdir().unwrap();
        Self { server, home }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let address = self.server.local_addr().unwrap();
        let mut command = Command::new("kubectl");
        command
            .arg("--server")
            .arg(format!("http://{address}"))
            .args(arguments)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", "/dev/null")
            .kill_on_drop(true);
        command
    }

    async fn output(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let missing = "kubectl is missing: scripts/test installs it (Debian's kubernetes-client)";
        let mut child = command.spawn().expect(missing);
        let mut stdin = child.stdin.take().unwrap();
        // It may end without having read it all.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = timeout(PATIENCE * 2, child.wait_with_output()).await;
        output.expect("kubectl does not end").unwrap()
    }

    /// What a command prints that must succeed.
    pub async fn feed(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input).await;
        let out = String::from_utf8(output.stdout).unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "kubectl {arguments:?}:\n{out}\n{err}"
        );
        out
    }

    pub async fn run(&self, arguments: &[&str]) -> String {
        self.feed(arguments, "").await
    }

    /// What a command says that must fail.
    pub async fn fails(&self, arguments: &[&str], input: &str) -> String {
        let output = self.output(arguments, input).await;
        assert!(!output.status.success(), "kubectl {arguments:?} succeeds");
        String::from_utf8(output.stderr).unwrap()
    }

    pub async fn json(&self, arguments: &[&str]) -> Value {
        let out = self.run(&[arguments, &["-o", "json"]].concat()).await;
        serde_json::from_str(&out).unwrap()
    }

    /// The lines of a command that goes on.
    fn lines(&self, arguments: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
        let mut child = self
            .command(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    }

    /// Writes a file for `-f`.
    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

async fn line(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let next = timeout(PATIENCE, lines.next_line()).await;
    next.expect("kubectl is silent")
        .unwrap()
        .expect("kubectl has ended")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn pod(name: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
    })
    .to_string()
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: a, image: 'a:1'}
      - {name: b, image: 'b:1'}
";

#[tokio::test]
async fn kubectl_finds_out_what_is_served() {
    let kubectl = Kubectl::start().await;
    let resources = kubectl.run(&["api-resources"]).await;
    for word in [
        "pods",
        "deployments",
        "apps/v1",
        "customresourcedefinitions",
        "Lease",
    ] {
        assert!(resources.contains(word), "{word}:\n{resources}");
    }
    let versions = kubectl.run(&["api-versions"]).await;
    assert!(
        versions.lines().any(|line| line == "batch/v1"),
        "{versions}"
    );
    assert!(kubectl.run(&["version"]).await.contains("listwatch"));
    // By short names and categories.
    assert_eq!(kubectl.run(&["get", "po,svc,deploy"]).await, "");
    assert_eq!(kubectl.run(&["get", "all"]).await, "");
}

#[tokio::test]
async fn kubectl_creates_gets_labels_patches_and_deletes() {
    let kubectl = Kubectl::start().await;
    let created = kubectl.feed(&["create", "-f", "-"], &pod("a")).await;
    assert_eq!(created, "pod/a created\n");
    let again = kubectl.fails(&["create", "-f", "-"], &pod("a")).await;
    assert!(again.contains("AlreadyExists"), "{again}");
    let table = kubectl.run(&["get", "pods"]).await;
    let mut rows = table.lines();
    let head: Vec<_> = rows.next().unwrap().split_whitespace().collect();
    assert_eq!(head, ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert!(rows.next().unwrap().starts_with("a "), "{table}");
    assert!(
        kubectl
            .run(&["get", "pods", "-o", "wide"])
            .await
            .contains("NODE")
    );
    assert!(
        kubectl
            .run(&["get", "pod", "a", "-o", "yaml"])
            .await
            .contains("image: nginx:1")
    );
    assert_eq!(kubectl.run(&["get", "pods", "-o", "name"]).await, "pod/a\n");
    assert_eq!(
        kubectl.json(&["get", "pods"]).await["items"][0]["kind"],
        "Pod"
    );

    kubectl.run(&["label", "pod", "a", "app=web"]).await;
    kubectl.run(&["annotate", "pod", "a", "note=x"]).await;
    assert_eq!(
        kubectl
            .run(&["get", "pods", "-l", "app in (web)", "-o", "name"])
            .await,
        "pod/a\n"
    );
    let by_field = [
        "get",
        "pods",
        "--field-selector",
        "metadata.name=b",
        "-o",
        "name",
    ];
    assert_eq!(kubectl.run(&by_field).await, "");
    let merge = r#"{"spec":{"nodeName":"n1"}}"#;
    kubectl
        .run(&["patch", "pod", "a", "--type", "merge", "-p", merge])
        .await;
    let strategic = r#"{"spec":{"containers":[{"name":"c","image":"nginx:2"}]}}"#;
    kubectl.run(&["patch", "pod", "a", "-p", strategic]).await;
    let operations = r#"[{"op":"add","path":"/metadata/labels/tier","value":"front"}]"#;
    kubectl
        .run(&["patch", "pod", "a", "--type", "json", "-p", operations])
        .await;
    let pod = kubectl.json(&["get", "pod", "a"]).await;
    assert_eq!(
        pod["metadata"]["labels"],
        json!({"app": "web", "tier": "front"})
    );
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(
        pod["spec"]["containers"],
        json!([{"name": "c", "image": "nginx:2"}])
    );
    let described = kubectl.run(&["describe", "pod", "a"]).await;
    assert!(
        described.contains("nginx:2") && described.contains("note: x"),
        "{described}"
    );

    let mut changed = pod;
    changed["metadata"]["annotations"]["note"] = "y".into();
    kubectl
        .feed(&["replace", "-f", "-"], &changed.to_string())
        .await;
    changed["metadata"]["annotations"]["note"] = "z".into();
    let stale = kubectl
        .fails(&["replace", "-f", "-"], &changed.to_string())
        .await;
    assert!(
        stale.contains("Conflict") || stale.contains("modified"),
        "{stale}"
    );

    assert_eq!(
        kubectl.run(&["delete", "pod", "a"]).await,
        "pod \"a\" deleted\n"
    );
    let gone = kubectl.fails(&["get", "pod", "a"], "").await;
    assert!(gone.contains("NotFound"), "{gone}");
}

#[tokio::test]
async fn kubectl_applies_on_either_side() {
    let kubectl = Kubectl::start().await;
    let file = kubectl.file("web.yaml", DEPLOYMENT);
    let path = text(&file);
    assert_eq!(
        kubectl.run(&["apply", "-f", path]).await,
        "deployment.apps/web created\n"
    );
    assert_eq!(
        kubectl.run(&["apply", "-f", path]).await,
        "deployment.apps/web unchanged\n"
    );
    // One of two containers is left out, the other changed.
    let changed = DEPLOYMENT.replace("      - {name: b, image: 'b:1'}\n", "");
    fs::write(
        &file,
        changed
            .replace("a:1", "a:2")
            .replace("replicas: 2", "replicas: 3"),
    )
    .unwrap();
    assert_eq!(
        kubectl.run(&["apply", "-f", path]).await,
        "deployment.apps/web configured\n"
    );
    let web = kubectl.json(&["get", "deployment", "web"]).await;
    assert_eq!(web["spec"]["replicas"], 3);
    let containers = &web["spec"]["template"]["spec"]["containers"];
    assert_eq!(*containers, json!([{"name": "a", "image": "a:2"}]));
    let diff = kubectl.fails(&["get", "deployment", "other"], "").await;
    assert!(diff.contains("NotFound"));

    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {k: v}\n";
    let applied = kubectl
        .feed(&["apply", "--server-side", "-f", "-"], map)
        .await;
    assert_eq!(applied, "configmap/m serverside-applied\n");
    kubectl
        .feed(
            &["apply", "--server-side", "-f", "-"],
            &map.replace("v}", "w}"),
        )
        .await;
    assert_eq!(
        kubectl.json(&["get", "configmap", "m"]).await["data"],
        json!({"k": "w"})
    );
    let dry = ["apply", "--dry-run=server", "-f", "-"];
    kubectl.feed(&dry, &map.replace("v}", "x}")).await;
    assert_eq!(
        kubectl.json(&["get", "configmap", "m"]).await["data"],
        json!({"k": "w"})
    );
    kubectl.run(&["delete", "-f", path]).await;
}

#[tokio::test]
async fn kubectl_watches_and_waits() {
    let kubectl = Kubectl::start().await;
    kubectl.feed(&["create", "-f", "-"], &pod("a")).await;
    let (_child, mut lines) = kubectl.lines(&["get", "pods", "-w", "-o", "name"]);
    assert_eq!(line(&mut lines).await, "pod/a");
    let (_other, mut table) = kubectl.lines(&["get", "pods", "-w"]);
    assert!(line(&mut table).await.starts_with("NAME"));
    assert!(line(&mut table).await.starts_with("a "));
    kubectl.feed(&["create", "-f", "-"], &pod("b")).await;
    assert_eq!(line(&mut lines).await, "pod/b");
    assert!(line(&mut table).await.starts_with("b "));

    let waiting = kubectl
        .command(&["wait", "--for=delete", "pod/a", "--timeout=60s"])
        .spawn();
    let mut waiting = waiting.unwrap();
    kubectl.run(&["delete", "pod", "a", "--wait=true"]).await;
    let status = timeout(PATIENCE * 2, waiting.wait()).await;
    assert!(status.expect("it waits for ever").unwrap().success());
    assert_eq!(line(&mut lines).await, "pod/a");

    let waiting = kubectl.command(&["wait", "--for=condition=Ready", "pod/b", "--timeout=60s"]);
    let mut waiting = { waiting }.spawn().unwrap();
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let path = "/api/v1/namespaces/default/pods/b/status";
    let merge = "application/merge-patch+json";
    let request = Request::patch(path)
        .header("host", "test")
        .header("content-type", merge);
    let request = request.body(Full::from(status.to_string())).unwrap();
    assert_eq!(send(&kubectl.server, request).await.status(), 200);
    let status = timeout(PATIENCE * 2, waiting.wait()).await;
    assert!(status.expect("it waits for ever").unwrap().success());
}

#[tokio::test]
async fn kubectl_defines_kinds_and_uses_them() {
    let kubectl = Kubectl::start().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "crontabs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {
                "plural": "crontabs", "singular": "crontab", "kind": "CronTab",
                "shortNames": ["ct"],
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": [
                    {"name": "Cron", "type": "string", "jsonPath": ".spec.cron"},
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": {"cron": {"type": "string"}}},
                    },
                }},
            }],
        },
    });
    kubectl
        .feed(&["apply", "-f", "-"], &definition.to_string())
        .await;
    let established = [
        "wait",
        "--for=condition=Established",
        "crd/crontabs.example.com",
    ];
    kubectl.run(&established).await;
    let tab = json!({
        "apiVersion": "example.com/v1", "kind": "CronTab",
        "metadata": {"name": "a"}, "spec": {"cron": "*/5"},
    });
    kubectl.feed(&["apply", "-f", "-"], &tab.to_string()).await;
    let table = kubectl.run(&["get", "ct"]).await;
    assert!(table.contains("CRON") && table.contains("*/5"), "{table}");
    let mut changed = tab;
    changed["spec"]["cron"] = "*/6".into();
    let applied = kubectl
        .feed(&["apply", "-f", "-"], &changed.to_string())
        .await;
    assert_eq!(applied, "crontab.example.com/a configured\n");
    kubectl.run(&["delete", "crontab", "a"]).await;
}

#[tokio::test]
async fn kubectl_scales() {
    let kubectl = Kubectl::start().await;
    kubectl.feed(&["apply", "-f", "-"], DEPLOYMENT).await;
    let scaled = kubectl
        .run(&["scale", "deployment", "web", "--replicas=3"])
        .await;
    assert_eq!(scaled, "deployment.apps/web scaled\n");
    let web = kubectl.json(&["get", "deployment", "web"]).await;
    assert_eq!(web["spec"]["replicas"], 3);
    let down = [
        "scale",
        "deploy/web",
        "--current-replicas=3",
        "--replicas=0",
    ];
    kubectl.run(&down).await;
    let web = kubectl.json(&["get", "deployment", "web"]).await;
    assert_eq!(web["spec"]["replicas"], 0);
    let refusal = kubectl.fails(&down, "").await;
    assert!(refusal.contains("replicas to be 3"), "{refusal}");
    let version = web["metadata"]["resourceVersion"].as_str().unwrap();
    let at = format!("--resource-version={version}");
    let up = ["scale", "deploy/web", at.as_str(), "--replicas=2"];
    kubectl.run(&up).await;
    let refusal = kubectl.fails(&up, "").await;
    assert!(
        refusal.contains("resource version to be") || refusal.contains("modified"),
        "{refusal}"
    );
    let shown = kubectl
        .json(&["get", "deploy", "web", "--subresource=scale"])
        .await;
    assert_eq!(
        (&shown["kind"], &shown["spec"]),
        (&json!("Scale"), &json!({"replicas": 2}))
    );
    let table = kubectl
        .run(&["get", "deploy", "web", "--subresource=scale"])
        .await;
    assert!(table.contains("DESIRED"), "{table}");
    let patch = r#"{"spec":{"replicas":7}}"#;
    let patch = [
        "patch",
        "deploy",
        "web",
        "--subresource=scale",
        "--type=merge",
        "-p",
        patch,
    ];
    kubectl.run(&patch).await;
    let web = kubectl.json(&["get", "deployment", "web"]).await;
    assert_eq!(web["spec"]["replicas"], 7);
    let none = kubectl
        .fails(&["scale", "deployment", "none", "--replicas=1"], "")
        .await;
    assert!(
        none.to_lowercase().contains("not found") || none.contains("no objects"),
        "{none}"
    );
}

#[tokio::test]
async fn kubectl_uses_kinds_of_the_configuration() {
    let mut orders = DeclaredKind::new("shop.example", "v1", "orders", "Order");
    orders.short_names = vec!["ord".into()];
    orders.fields = vec!["spec.customer".into()];
    let options = ServerOptions {
        kinds: vec![orders],
        ..ServerOptions::default()
    };
    let kubectl = Kubectl::with(options).await;
    let resources = kubectl
        .run(&["api-resources", "--api-group=shop.example"])
        .await;
    assert!(
        resources.contains("orders") && resources.contains("ord "),
        "{resources}"
    );
    let mut order = json!({
        "apiVersion": "shop.example/v1", "kind": "Order", "metadata": {"name": "a"},
        "spec": {"customer": "x"},
    });
    let apply = ["apply", "-f", "-"];
    let applied = kubectl.feed(&apply, &order.to_string()).await;
    assert_eq!(applied, "order.shop.example/a created\n");
    order["spec"] = json!({"customer": "y", "lines": [1]});
    let applied = kubectl.feed(&apply, &order.to_string()).await;
    assert_eq!(applied, "order.shop.example/a configured\n");
    let by_field = [
        "get",
        "ord",
        "--field-selector",
        "spec.customer=y",
        "-o",
        "name",
    ];
    assert_eq!(kubectl.run(&by_field).await, "order.shop.example/a\n");
    let table = kubectl.run(&["get", "orders"]).await;
    assert!(
        table.starts_with("NAME") && table.contains("\na "),
        "{table}"
    );
    kubectl.run(&["explain", "order"]).await;
    kubectl.run(&["delete", "order", "a"]).await;
}

#[tokio::test]
async fn kubectl_is_told_what_is_wrong_with_its_input() {
    let kubectl = Kubectl::start().await;
    let bad = pod("Not-A-Name");
    let refusal = kubectl
        .fails(&["create", "--validate=false", "-f", "-"], &bad)
        .await;
    assert!(refusal.contains("is invalid: metadata.name"), "{refusal}");
    let refusal = kubectl.fails(&["get", "pods", "-l", "a in b"], "").await;
    assert!(!refusal.is_empty());
    let refusal = kubectl
        .fails(&["get", "pods", "--field-selector", "x=y"], "")
        .await;
    assert!(refusal.contains("field label not supported"), "{refusal}");
    assert_eq!(kubectl.run(&["get", "pods", "-o", "name"]).await, "");
}

#[tokio::test]
async fn kubectl_explains_what_is_below_the_top_level() {
    let kubectl = Kubectl::start().await;
    let containers = kubectl.run(&["explain", "pod.spec.containers"]).await;
    for field in ["image", "livenessProbe", "volumeMounts", "-required-"] {
        assert!(containers.contains(field), "{field}:\n{containers}");
    }
    let spec = kubectl.run(&["explain", "deployment.spec"]).await;
    for field in ["replicas", "strategy", "<PodTemplateSpec>"] {
        assert!(spec.contains(field), "{field}:\n{spec}");
    }
    let all = kubectl.run(&["explain", "cronjob", "--recursive"]).await;
    for field in ["schedule", "secretKeyRef", "topologySpreadConstraints"] {
        assert!(all.contains(field), "{field}:\n{all}");
    }
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "tabs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "tabs", "singular": "tab", "kind": "Tab"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "cron": {"type": "string", "description": "When."},
                    }},
                }}},
            }],
        },
    });
    kubectl
        .feed(&["create", "-f", "-"], &definition.to_string())
        .await;
    let cron = kubectl.run(&["explain", "tabs.spec.cron"]).await;
    assert!(cron.contains("When."), "{cron}");
}

#[tokio::test]
async fn kubectl_is_told_of_fields_that_are_not_there_or_of_another_type() {
    let kubectl = Kubectl::start().await;
    let wrong = DEPLOYMENT.replace("image: 'b:1'", "imagee: 'b:1'");
    let refusal = kubectl.fails(&["apply", "-f", "-"], &wrong).await;
    let said = "strict decoding error: unknown field \"spec.template.spec.containers[1].imagee\"";
    assert!(refusal.contains(said), "{refusal}");
    let wrong = DEPLOYMENT.replace("replicas: 2", "replicas: two");
    let refusal = kubectl.fails(&["create", "-f", "-"], &wrong).await;
    let said = "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas \
                of type int32";
    assert!(refusal.contains(said), "{refusal}");
    let unchecked = ["create", "--validate=false", "-f", "-"];
    kubectl
        .feed(&unchecked, &DEPLOYMENT.replace("replicas: 2", "copies: 2"))
        .await;
}
