//! `client/python`: as its users install it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tokio::{process::Command, sync::OnceCell};

use super::{agent::AgentCommand, conformance::conforms, made, quickstart, shortest_start, source};
use crate::harness::{
    daemon::{Daemon, free_address},
    tools,
};

const PACKAGES: [&str; 11] = [
    "setuptools",
    "wheel",
    "grpcio",
    "protobuf",
    "googleapis-common-protos",
    "pytest>=7",
    "mypy==2.4.1",
    "ruff==0.17.6",
    "types-grpcio",
    "types-protobuf",
    "pyyaml",
];

/// An environment with the client installed, and its interpreter.
async fn installed() -> &'static Path {
    static PYTHON: OnceCell<PathBuf> = OnceCell::const_new();
    PYTHON.get_or_init(install).await
}

async fn install() -> PathBuf {
    let (_, python) = tools::python_with("python-client", &PACKAGES).await;
    // A copy, since building leaves folders beside the source.
    let copy = made("python-client-source");
    let _ = fs::remove_dir_all(&copy);
    let mut cp = Command::new("cp");
    tools::run("cp", cp.arg("-R").arg(source("python")).arg(&copy)).await;
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    pip.args(["--no-deps", "--no-build-isolation", "--force-reinstall"]);
    tools::run("pip", pip.arg(&copy)).await;
    python
}

fn python(interpreter: &Path) -> Command {
    let mut python = Command::new(interpreter);
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    python.current_dir(source("python"));
    python
}

pub async fn agent(script: &str) -> AgentCommand {
    let script = source("python").join("conformance").join(script);
    vec![
        installed().await.into(),
        // No bytecode beside the source.
        "-B".into(),
        script.into(),
    ]
}

#[tokio::test]
async fn the_python_client_conforms() {
    conforms(&agent("agent.py").await).await;
}

#[tokio::test]
async fn the_python_client_conforms_under_asyncio() {
    conforms(&agent("agent_asyncio.py").await).await;
}

#[tokio::test]
async fn the_python_clients_own_tests_types_and_style_hold() {
    let interpreter = installed().await;
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    let _daemon = Daemon::start(&folder.path().join("data"), &address, &[]).await;
    for arguments in [
        &["-m", "pytest", "-q", "-p", "no:cacheprovider"][..],
        &["-m", "mypy", "--cache-dir", "/dev/null"],
        &["-m", "ruff", "check", "--no-cache", "."],
        &["-m", "ruff", "format", "--no-cache", "--check", "."],
    ] {
        let mut python = python(interpreter);
        // Without it, the tests that take a server are skipped.
        python.env("LISTWATCH_ADDRESS", &address);
        let printed = tools::run("python", python.args(arguments)).await;
        assert!(!printed.contains("skipped"), "{printed}");
    }
}

#[tokio::test]
async fn the_python_quickstart_runs_as_it_stands() {
    let script = made("quickstart.py");
    let program = shortest_start("python", "python");
    fs::write(&script, program).unwrap();
    let mut start = python(installed().await);
    let printed = quickstart("python", {
        start.arg(&script);
        start
    })
    .await;
    assert_eq!(printed.lines().count(), 5, "{printed}");
}
