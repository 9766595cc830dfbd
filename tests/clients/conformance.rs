//! `client/conformance/run.py`, over real and scripted servers.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use tokio::{
    process::Command,
    sync::{Mutex, OnceCell},
};

use super::agent::AgentCommand;
use crate::harness::{daemon, tools};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("client/conformance")
}

/// The runner, with the packages that it takes.
async fn runner() -> Command {
    static PYTHON: OnceCell<PathBuf> = OnceCell::const_new();
    let make = async || {
        let requirements = fs::read_to_string(folder().join("requirements.txt")).unwrap();
        let packages: Vec<&str> = requirements.lines().collect();
        tools::python_with("conformance", &packages).await.1
    };
    let mut runner = Command::new(PYTHON.get_or_init(make).await);
    // Nothing is left in the source tree.
    runner.env("PYTHONDONTWRITEBYTECODE", "1");
    runner.arg(folder().join("run.py"));
    runner.arg("--server").arg(daemon::binary("listwatchd"));
    runner
}

/// One run at a time: each keeps several servers and agents busy.
static TURN: Mutex<()> = Mutex::const_new(());

/// Runs every case with an agent, started by this command. They must all pass.
pub async fn conforms(agent: &[impl AsRef<OsStr>]) {
    let mut run = runner().await;
    run.arg("--").args(agent);
    let _turn = TURN.lock().await;
    tools::run("an agent", &mut run).await;
}

/// The Rust client's agent, built by the run of the tests or, for one test alone, here.
pub fn rust_agent() -> AgentCommand {
    vec![daemon::example("listwatch-client", "conformance_agent").into()]
}

#[tokio::test]
async fn the_rust_client_conforms() {
    conforms(&rust_agent()).await;
}

#[tokio::test]
async fn faults_of_a_client_are_found_by_the_cases_that_name_them() {
    let mut run = runner().await;
    run.arg("--self-check").arg("--").args(rust_agent());
    let _turn = TURN.lock().await;
    tools::run("the self-check", &mut run).await;
}
