//! `client/go`.

use tokio::{process::Command, sync::OnceCell};

use super::{agent::AgentCommand, conformance::conforms, made, source};
use crate::harness::{
    daemon::{Daemon, free_address},
    tools,
};

fn go(arguments: &[&str]) -> Command {
    tools::go(&source("go"), arguments)
}

pub async fn agent() -> AgentCommand {
    static BUILT: OnceCell<AgentCommand> = OnceCell::const_new();
    let build = async || {
        let program = made("go-client/agent");
        let mut build = go(&["build", "-o"]);
        tools::run("Go", build.arg(&program).arg("./conformance/agent")).await;
        vec![program.into()]
    };
    BUILT.get_or_init(build).await.clone()
}

#[tokio::test]
async fn the_go_client_conforms() {
    conforms(&agent().await).await;
}

/// Among them the README's program, against this server.
#[tokio::test]
async fn the_go_clients_own_tests_and_vet_pass_and_its_quickstart_runs_as_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    let _daemon = Daemon::start(&folder.path().join("data"), &address, &[]).await;
    let mut tests = go(&["test", "-race", "-count=1", "./..."]);
    tools::run("Go", tests.env("LISTWATCH_ADDRESS", &address)).await;
    tools::run("Go", &mut go(&["vet", "./..."])).await;
    let mut fmt = Command::new("gofmt");
    let unformatted = tools::run("gofmt", fmt.arg("-l").arg(source("go"))).await;
    assert_eq!(unformatted, "");
}
