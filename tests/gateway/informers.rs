//! Informers of other languages: real programs, over a real server that is killed and comes
//! back. The programs are in `tests/kubernetes_clients/`.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use listwatch::v1::CompactRequest;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::{Instant, sleep, timeout},
};

use super::{client::CONFIG_MAPS, kube_rs};
use crate::harness::{
    PATIENCE,
    daemon::{Daemon, free_address},
};

/// Where the programs are.
pub fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/kubernetes_clients")
        .join(name)
}

/// An object by name, and of its content what every client keeps.
type Copy = BTreeMap<String, Value>;

fn copy(objects: &[Value]) -> Copy {
    let kept = |object: &Value| {
        let metadata = &object["metadata"];
        let kept = json!({
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "labels": metadata["labels"],
            "data": object["data"],
        });
        (metadata["name"].as_str().unwrap().to_owned(), kept)
    };
    let copy: Copy = objects.iter().map(kept).collect();
    assert_eq!(copy.len(), objects.len(), "an object is there twice");
    copy
}

/// What an informer has, and how it came to it.
#[derive(Debug, Deserialize)]
struct Report {
    /// It had a complete state.
    synced: bool,
    cache: Vec<Value>,
    /// What its events come to.
    copy: Vec<Value>,
    lists: usize,
    /// Watches that began with the state.
    #[serde(default)]
    streams: usize,
    /// All others.
    watches: usize,
    /// Watches that were told that their version is gone.
    gone: usize,
}

impl Report {
    /// Complete states that it has read.
    fn states(&self) -> usize {
        self.lists + self.streams
    }
}

/// A running program.
struct Informer {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

impl Informer {
    fn start(mut program: Command, log: PathBuf) -> Self {
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        program.stderr(File::create(&log).unwrap());
        let mut child = program.kill_on_drop(true).spawn().unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            _child: child,
            log,
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    async fn report(&mut self) -> Report {
        // If it has ended, there is no line.
        let _ = self.stdin.write_all(b"\n").await;
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("the informer is silent").unwrap();
        let line = line.unwrap_or_else(|| panic!("the informer has ended: {}", self.log()));
        serde_json::from_str(&line).unwrap()
    }
}

/// A server, an informer of its config maps, and what the server's list says of them.
struct Scene {
    data: TempDir,
    address: String,
    daemon: Option<Daemon>,
    informer: Informer,
}

impl Scene {
    /// `program` makes an informer of a server's URL.
    async fn start(program: impl FnOnce(&str) -> Command) -> Self {
        let data = tempfile::tempdir().unwrap();
        let address = free_address();
        let daemon = Daemon::start(&data.path().join("store"), &address, &[]).await;
        let program = program(&format!("http://{address}"));
        let informer = Informer::start(program, data.path().join("informer"));
        Self {
            data,
            address,
            daemon: Some(daemon),
            informer,
        }
    }

    fn daemon(&mut self) -> Daemon {
        self.daemon.take().unwrap()
    }

    /// Starts the server again, where the informer looks for it or elsewhere.
    async fn comes_back(&mut self, address: &str) {
        let store = self.data.path().join("store");
        self.daemon = Some(Daemon::start(&store, address, &[]).await);
    }

    /// A client of the server that runs now.
    fn client(&self) -> Client {
        let address = &self.daemon.as_ref().unwrap().address;
        kube_rs::client(address.parse().unwrap())
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client())
    }

    async fn create(&self, name: &str) {
        kube_rs::create(&self.maps(), name).await;
    }

    async fn change(&self, name: &str, value: &str) {
        let patch = Patch::Merge(json!({
            "metadata": {"labels": {"changed": "yes"}}, "data": {"k": value},
        }));
        let params = PatchParams::default();
        self.maps().patch(name, &params, &patch).await.unwrap();
    }

    async fn delete(&self, name: &str) {
        let params = DeleteParams::default();
        self.maps().delete(name, &params).await.unwrap();
    }

    async fn compact(&self) {
        let address = &self.daemon.as_ref().unwrap().address;
        let client = listwatch_client::Client::connect(address.clone()).await;
        let client = client.unwrap();
        let revision = client.status().await.unwrap().revision;
        let request = CompactRequest {
            revision,
            wait: true,
        };
        let done = client.compact(request).await.unwrap();
        assert_eq!(done.compact_revision, revision);
    }

    async fn listed(&self) -> Copy {
        let request = Request::get(CONFIG_MAPS).body(Vec::new()).unwrap();
        let list: Value = self.client().request(request).await.unwrap();
        copy(list["items"].as_array().unwrap())
    }

    /// Waits until the informer has what the server lists: these.
    async fn agree(&mut self, names: &[&str]) -> Report {
        let listed = self.listed().await;
        assert!(listed.keys().eq(names), "{listed:?}");
        let started = Instant::now();
        loop {
            let report = self.informer.report().await;
            let is_there = copy(&report.cache) == listed && copy(&report.copy) == listed;
            if is_there && report.synced {
                return report;
            }
            assert!(
                started.elapsed() < PATIENCE * 2,
                "{report:#?} is not {listed:#?}: {}",
                self.informer.log()
            );
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// The life of an informer: it lists an empty store, watches, loses its connection, and meets
/// a version that is gone. Returns how many lists, and how many streams, it took.
pub async fn keeps_a_copy(program: impl FnOnce(&str) -> Command) -> (usize, usize) {
    let mut scene = Scene::start(program).await;
    let address = scene.address.clone();
    let first = scene.agree(&[]).await;
    assert_eq!(first.states(), 1, "{first:?}");
    scene.create("a").await;
    scene.create("b").await;
    scene.create("c").await;
    scene.change("b", "w").await;
    scene.delete("a").await;
    let watched = scene.agree(&["b", "c"]).await;
    assert_eq!(watched.states(), 1, "{watched:?}");

    // It goes on where it was: after a crash, and after a server that went away in order.
    let mut before = watched;
    for (name, names) in [("d", &["b", "c", "d"][..]), ("e", &["b", "c", "d", "e"])] {
        match name {
            "d" => scene.daemon().kill_9(),
            _ => assert!(scene.daemon().terminate().await.success()),
        }
        scene.comes_back(&address).await;
        scene.create(name).await;
        scene.change("b", name).await;
        let after = scene.agree(names).await;
        assert!(after.watches > before.watches, "{after:?}");
        assert_eq!((after.states(), after.gone), (1, 0), "{after:?}");
        before = after;
    }
    scene.delete("c").await;
    scene.agree(&["b", "d", "e"]).await;

    // It cannot, since its version is compacted, and begins anew.
    scene.daemon().kill_9();
    scene.comes_back(&free_address()).await;
    scene.delete("d").await;
    scene.change("b", "x").await;
    scene.create("f").await;
    scene.compact().await;
    scene.daemon().kill_9();
    scene.comes_back(&address).await;
    let after = scene.agree(&["b", "e", "f"]).await;
    assert!(after.gone > 0, "{after:?}");
    assert_eq!(after.states(), 2, "{after:?}");

    scene.create("g").await;
    scene.delete("b").await;
    let last = scene.agree(&["e", "f", "g"]).await;
    assert_eq!(last.states(), 2, "{last:?}");
    (last.lists, last.streams)
}
