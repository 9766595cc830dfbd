//! A client in another language, made from the .proto alone: `python_client.py`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use listwatch_server::Server;
use tokio::{process::Command, sync::OnceCell};

use crate::harness::{PATIENCE, tools};

const PACKAGES: [&str; 5] = [
    "grpcio",
    "grpcio-tools",
    "grpcio-status",
    "grpcio-health-checking",
    "grpcio-reflection",
];

/// What a user of Python needs: the packages, and the modules made from the .proto.
struct Tools {
    python: PathBuf,
    stubs: PathBuf,
}

/// Makes them under the target folder; the packages are kept there for the next time.
async fn made() -> &'static Tools {
    static TOOLS: OnceCell<Tools> = OnceCell::const_new();
    TOOLS.get_or_init(make_tools).await
}

async fn make_tools() -> Tools {
    let (folder, python) = tools::python_with("python", &PACKAGES).await;
    let stubs = folder.join("stubs");
    let _ = fs::remove_dir_all(&stubs);
    fs::create_dir_all(&stubs).unwrap();
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let mut protoc = Command::new(&python);
    protoc.args(["-m", "grpc_tools.protoc"]);
    protoc.arg(format!("-I{}", proto.display()));
    protoc.arg(format!("--python_out={}", stubs.display()));
    protoc.arg(format!("--grpc_python_out={}", stubs.display()));
    protoc.arg("listwatch/v1/listwatch.proto");
    tools::run("grpcio-tools", &mut protoc).await;
    Tools { python, stubs }
}

/// Runs one task of the client against a server of its own, on a port.
async fn python(task: &str) {
    let made = made().await;
    let server = Server::builder()
        .listen("127.0.0.1:0")
        .start()
        .await
        .unwrap();
    let address = server.local_addr().unwrap().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python_client.py");
    let mut client = Command::new(&made.python);
    client.arg(script).arg(&made.stubs).args([&address, task]);
    let out = tools::run(task, &mut client).await;
    assert_eq!(out, format!("{task}: done\n"));
    server.drain();
    let joined = tokio::time::timeout(PATIENCE, server.join()).await;
    joined.expect("the server does not end").unwrap();
}

#[tokio::test]
async fn a_python_client_lists_watches_and_resumes() {
    python("list_and_watch").await;
}

#[tokio::test]
async fn a_python_client_reads_the_details_of_errors() {
    python("errors").await;
}

#[tokio::test]
async fn a_python_client_finds_health_and_reflection() {
    python("health_and_reflection").await;
}

#[tokio::test]
async fn a_python_client_reads_the_status_and_an_export() {
    python("admin").await;
}
