//! JavaScript's `@kubernetes/client-node`: `tests/kubernetes_clients/node/`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tokio::{process::Command, sync::OnceCell};

use super::informers::{keeps_a_copy, sources};
use crate::harness::tools;

/// The program beside its packages, which are fetched the first time and kept under the
/// target folder.
async fn program() -> &'static Path {
    static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
    PROGRAM.get_or_init(install).await
}

async fn install() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubernetes-node");
    let from = sources("node");
    tools::npm_ci(&from, &folder).await;
    let mut node = Command::new("node");
    tools::run("Node 20 or later", node.arg("--version")).await;
    let program = folder.join("informer.mjs");
    fs::copy(from.join("informer.mjs"), &program).unwrap();
    program
}

#[tokio::test]
async fn the_javascript_clients_informer_keeps_a_copy_through_thick_and_thin() {
    let program = program().await;
    let states = keeps_a_copy(|server| {
        let mut node = Command::new("node");
        node.arg(program).arg(server);
        node
    });
    assert_eq!(states.await, (2, 0));
}
