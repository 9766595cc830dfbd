//! Go's `client-go`: `tests/kubernetes_clients/go/`.

use std::path::{Path, PathBuf};

use tokio::{process::Command, sync::OnceCell};

use super::informers::{keeps_a_copy, sources};
use crate::harness::tools;

/// The informer, built under the target folder. Go keeps what it has fetched and compiled.
async fn program() -> &'static Path {
    static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
    PROGRAM.get_or_init(|| build("informer", ".")).await
}

/// Builds one of the programs.
pub async fn build(name: &str, package: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes-go");
    let program = folder.join(name);
    let mut go = tools::go(&sources("go"), &["build", "-o"]);
    tools::run("Go", go.arg(&program).arg(package)).await;
    program
}

/// Runs an informer over the typed or the dynamic client; returns how many lists, and how many
/// streams, it took.
async fn informer(client: &str, streams: bool) -> (usize, usize) {
    let program = program().await;
    keeps_a_copy(|server| {
        let mut informer = Command::new(program);
        informer.args(["-server", server, "-client", client]);
        informer.env("KUBE_FEATURE_WatchListClient", streams.to_string());
        informer
    })
    .await
}

#[tokio::test]
async fn client_gos_typed_informer_that_lists_and_watches_keeps_a_copy() {
    assert_eq!(informer("typed", false).await, (2, 0));
}

#[tokio::test]
async fn client_gos_dynamic_informer_that_lists_and_watches_keeps_a_copy() {
    assert_eq!(informer("dynamic", false).await, (2, 0));
}

#[tokio::test]
async fn client_gos_typed_informer_that_streams_its_lists_keeps_a_copy() {
    assert_eq!(informer("typed", true).await, (0, 2));
}

#[tokio::test]
async fn client_gos_dynamic_informer_that_streams_its_lists_keeps_a_copy() {
    assert_eq!(informer("dynamic", true).await, (0, 2));
}
