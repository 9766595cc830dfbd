//! The clients, whatever their language, do what `client/conformance/README.md` lists; their own
//! tests pass; what their READMEs show runs; and what one writes the others read.

mod agent;
mod api;
mod conformance;
mod go;
mod interop;
mod readme;
mod shell;

use std::path::{Path, PathBuf};

use tokio::process::Command;

use self::agent::AgentCommand;
use crate::harness::{
    daemon::{Daemon, free_address},
    tools,
};

/// A language's folder in the source.
fn source(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("client")
        .join(language)
}

/// A folder of its own under the target folder.
fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A language, and how its agent is started.
async fn languages() -> Vec<(&'static str, AgentCommand)> {
    vec![
        ("rust", conformance::rust_agent()),
        ("go", go::agent().await),
    ]
}

/// Runs what a README shows against a server of its own; returns what it printed.
#[allow(dead_code)]
async fn quickstart(language: &str, mut program: Command) -> String {
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    let daemon = Daemon::start(&folder.path().join("data"), &address, &[]).await;
    program.env("LISTWATCH_ADDRESS", &daemon.address);
    tools::run(language, &mut program).await
}

/// The quickstart of a README, which is as short as the README says.
#[allow(dead_code)]
fn shortest_start(language: &str, block: &str) -> String {
    let path = format!("client/{language}/README.md");
    let program = readme::block(&path, block);
    let lines = program.lines().count();
    assert!(lines <= 20, "{path}: {lines} lines");
    program
}

#[test]
fn every_client_has_the_servers_version() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, said) in [
        (
            "python/pyproject.toml",
            format!("\nversion = \"{version}\"\n"),
        ),
        ("go/version.go", format!("\"{version}\"")),
        (
            "typescript/package.json",
            format!("\n  \"version\": \"{version}\",\n"),
        ),
        ("java/pom.xml", format!("<version>{version}</version>")),
    ] {
        let text = std::fs::read_to_string(source(file)).unwrap();
        assert!(text.contains(&said), "{file} says no {said:?}");
    }
}
