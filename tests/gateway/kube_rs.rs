//! kube-rs: its watcher and reflector, with lists and with streaming lists.

use std::{collections::BTreeSet, pin::pin, time::SystemTime};

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client, Config, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt as _, reflector, watcher},
};
use listwatch_server::{
    Server, ServerHandle,
    backup::{self, ExportReader},
    store::{SledStore, StoreOptions},
};
use serde_json::json;
use tokio::time::timeout;

use super::relay::Relay;
use crate::harness::PATIENCE;

struct Cluster {
    server: ServerHandle,
    relay: Relay,
}

impl Cluster {
    async fn start() -> Self {
        let server = Server::builder()
            .listen("127.0.0.1:0")
            .start()
            .await
            .unwrap();
        let relay = Relay::to(server.local_addr().unwrap()).await;
        Self { server, relay }
    }

    /// A client over the relay.
    fn client(&self) -> Client {
        client(self.relay.address)
    }

    /// Config maps, over connections that nothing cuts.
    fn maps(&self) -> Api<ConfigMap> {
        Api::default_namespaced(client(self.server.local_addr().unwrap()))
    }

    async fn compact(&self) {
        let store = self.server.hub().store();
        let newest = store.progress().revision;
        store.compact(newest, true).await.unwrap();
    }
}

pub fn client(address: std::net::SocketAddr) -> Client {
    let config = Config::new(format!("http://{address}").parse().unwrap());
    Client::try_from(config).unwrap()
}

fn map(name: &str) -> ConfigMap {
    let value = json!({"metadata": {"name": name}, "data": {"k": "v"}});
    serde_json::from_value(value).unwrap()
}

pub async fn create(maps: &Api<ConfigMap>, name: &str) {
    maps.create(&PostParams::default(), &map(name))
        .await
        .unwrap();
}

async fn delete(maps: &Api<ConfigMap>, name: &str) {
    maps.delete(name, &DeleteParams::default()).await.unwrap();
}

/// Goes on with a reflector until its store holds these names.
async fn until(
    reader: &reflector::Store<ConfigMap>,
    events: &mut (impl Stream<Item = watcher::Result<watcher::Event<ConfigMap>>> + Unpin),
    names: &[&str],
) -> usize {
    let wanted: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut inits = 0;
    loop {
        let held: BTreeSet<_> = reader.state().iter().map(|map| map.name_any()).collect();
        if held == wanted {
            return inits;
        }
        let event = timeout(PATIENCE * 2, events.next()).await;
        let event = event.unwrap_or_else(|_| panic!("it holds {held:?}, not {wanted:?}"));
        // A broken connection is an error that the watcher goes on from.
        if let Some(Ok(watcher::Event::Init)) = event {
            inits += 1;
        }
    }
}

/// Lists, watches, loses its connection, and meets a version that is gone.
async fn keeps_a_copy(config: watcher::Config) {
    let cluster = Cluster::start().await;
    let maps = cluster.maps();
    create(&maps, "a").await;
    create(&maps, "b").await;
    let (reader, writer) = reflector::store();
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
    let events = watcher(api, config).default_backoff();
    let mut events = pin!(reflector(writer, events));
    assert_eq!(until(&reader, &mut events, &["a", "b"]).await, 1);
    create(&maps, "c").await;
    delete(&maps, "a").await;
    assert_eq!(until(&reader, &mut events, &["b", "c"]).await, 0);

    // It goes on where it was.
    cluster.relay.cut();
    create(&maps, "d").await;
    assert_eq!(until(&reader, &mut events, &["b", "c", "d"]).await, 0);

    // It cannot, and begins anew.
    cluster.relay.cut();
    delete(&maps, "b").await;
    create(&maps, "e").await;
    cluster.compact().await;
    assert_eq!(until(&reader, &mut events, &["c", "d", "e"]).await, 1);
    create(&maps, "f").await;
    assert_eq!(until(&reader, &mut events, &["c", "d", "e", "f"]).await, 0);
}

#[tokio::test]
async fn a_reflector_that_lists_and_watches_keeps_a_copy_through_thick_and_thin() {
    keeps_a_copy(watcher::Config::default().page_size(1)).await;
}

#[tokio::test]
async fn a_reflector_that_streams_its_lists_keeps_a_copy_through_thick_and_thin() {
    keeps_a_copy(watcher::Config::default().streaming_lists()).await;
}

/// A backup is restored under informers that have seen more since; when they come back, the
/// restored store has been written to so much that it has got as far as they were.
#[tokio::test]
async fn etcd_16028_kubernetes_107457_informers_converge_after_a_backup_is_restored() {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let cluster = Cluster::start().await;
        let maps = cluster.maps();
        create(&maps, "a").await;
        create(&maps, "b").await;
        let mut file = Vec::new();
        let store = cluster.server.hub().store().clone();
        backup::write(store, SystemTime::now(), &mut file)
            .await
            .unwrap();
        create(&maps, "ghost").await;
        delete(&maps, "a").await;
        let (reader, writer) = reflector::store();
        let api: Api<ConfigMap> = Api::default_namespaced(cluster.client());
        let events = watcher(api, config).default_backoff();
        let mut events = pin!(reflector(writer, events));
        until(&reader, &mut events, &["b", "ghost"]).await;

        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let export = ExportReader::new(&file[..]).unwrap();
        let revision = export.restored_revision();
        let restored = SledStore::restore(&data, StoreOptions::default(), revision, export);
        drop(restored.unwrap());
        let restored = Server::builder()
            .listen("127.0.0.1:0")
            .data_dir(&data, StoreOptions::default())
            .start()
            .await
            .unwrap();
        let address = restored.local_addr().unwrap();
        let maps: Api<ConfigMap> = Api::default_namespaced(client(address));
        for name in ["c", "d", "e", "f"] {
            create(&maps, name).await;
        }
        cluster.relay.lead_to(address);
        cluster.relay.cut();
        until(&reader, &mut events, &["a", "b", "c", "d", "e", "f"]).await;
    }
}

#[tokio::test]
async fn kube_rs_reads_writes_and_patches() {
    let cluster = Cluster::start().await;
    let maps = cluster.maps();
    create(&maps, "a").await;
    let taken = maps
        .create(&PostParams::default(), &map("a"))
        .await
        .unwrap_err();
    assert!(matches!(taken, kube::Error::Api(status) if status.is_already_exists()));
    let patch = Patch::Merge(json!({"metadata": {"labels": {"app": "web"}}}));
    let patched = maps
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.labels()["app"], "web");
    let mut stale = map("a");
    stale.metadata.resource_version = Some("1".to_owned());
    let conflict = maps
        .replace("a", &PostParams::default(), &stale)
        .await
        .unwrap_err();
    assert!(matches!(conflict, kube::Error::Api(status) if status.is_conflict()));
    let applied = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}, "data": {"x": "y"},
    });
    let params = PatchParams::apply("test");
    maps.patch("b", &params, &Patch::Apply(applied))
        .await
        .unwrap();
    let selected = ListParams::default().labels("app=web");
    let selected = maps.list(&selected).await.unwrap();
    assert_eq!(selected.items.len(), 1);
    let metadata = maps
        .list_metadata(&ListParams::default().limit(1))
        .await
        .unwrap();
    assert_eq!(metadata.items.len(), 1);
    assert!(metadata.metadata.continue_.is_some());
    assert!(maps.get_opt("none").await.unwrap().is_none());

    let pods: Api<Pod> = Api::default_namespaced(cluster.client());
    let pod = json!({
        "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let status = Patch::Merge(json!({"status": {"phase": "Running"}}));
    let pod = pods
        .patch_status("p", &PatchParams::default(), &status)
        .await
        .unwrap();
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    let gone = pods.delete("p", &DeleteParams::default()).await.unwrap();
    assert!(gone.is_left());
    let everything = ListParams::default();
    maps.delete_collection(&DeleteParams::default(), &everything)
        .await
        .unwrap();
    assert!(maps.list(&everything).await.unwrap().items.is_empty());
    let version = client(cluster.relay.address)
        .apiserver_version()
        .await
        .unwrap();
    assert!(version.git_version.contains("listwatch"));
}
