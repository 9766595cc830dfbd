//! Kubernetes' own client for Python: `kubernetes_client.py`.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use listwatch_server::{Server, store::Revision};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::Command,
    sync::OnceCell,
    time::timeout,
};

use super::relay::Relay;
use crate::harness::{PATIENCE, tools};

/// Fetched from the package index the first time, and kept under the target folder.
const PACKAGE: &str = "kubernetes==37.0.2";

async fn python() -> &'static Path {
    static PYTHON: OnceCell<PathBuf> = OnceCell::const_new();
    PYTHON.get_or_init(install).await
}

async fn install() -> PathBuf {
    tools::python_with("kubernetes-python", &[PACKAGE]).await.1
}

/// Runs one task of the client, and does what it asks for on the way: it writes a word a
/// line, and reads one when that is done.
async fn task(name: &str) {
    let python = python().await;
    let server = Server::builder()
        .listen("127.0.0.1:0")
        .start()
        .await
        .unwrap();
    let relay = Relay::to(server.local_addr().unwrap()).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway/kubernetes_client.py");
    let mut client = Command::new(python);
    client
        .arg(script)
        .arg(format!("http://{}", relay.address))
        .arg(name);
    client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut client = client.spawn().unwrap();
    let mut answers = client.stdin.take().unwrap();
    let mut words = BufReader::new(client.stdout.take().unwrap()).lines();
    loop {
        let word = timeout(PATIENCE * 2, words.next_line()).await;
        match word.expect("the client is silent").unwrap().as_deref() {
            Some("cut") => relay.cut(),
            Some("compact") => {
                let store = server.hub().store();
                let newest = store.progress().revision;
                assert!(newest > Revision::ZERO);
                store.compact(newest, true).await.unwrap();
            }
            Some("done") => break,
            other => panic!("{name}: {other:?}"),
        }
        answers.write_all(b"ok\n").await.unwrap();
    }
    let status = timeout(PATIENCE, client.wait()).await;
    assert!(status.expect("the client does not end").unwrap().success());
}

#[tokio::test]
async fn the_python_client_reads_writes_and_hears_of_errors() {
    task("objects").await;
}

#[tokio::test]
async fn the_python_clients_watch_goes_on_after_a_broken_connection() {
    task("broken_connection").await;
}

#[tokio::test]
async fn the_python_clients_watch_hears_that_its_version_is_gone_and_lists_again() {
    task("expired").await;
}
