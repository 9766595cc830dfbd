//! `client/java`, built by Maven in its own folder.

use std::fs;

use tokio::{process::Command, sync::OnceCell};

use super::{agent::AgentCommand, conformance::conforms, made, quickstart, shortest_start, source};
use crate::harness::tools;

/// Builds the client, which runs its tests too, and its agent.
async fn built() {
    static BUILT: OnceCell<()> = OnceCell::const_new();
    let build = async || {
        let mut mvn = Command::new("mvn");
        mvn.args(["-B", "-q", "verify"]).current_dir(source("java"));
        tools::run("Maven", &mut mvn).await;
    };
    BUILT.get_or_init(build).await;
}

pub async fn agent() -> AgentCommand {
    built().await;
    let jar = source("java").join("conformance-agent/target/agent.jar");
    vec!["java".into(), "-jar".into(), jar.into()]
}

#[tokio::test]
async fn the_java_client_builds_and_conforms() {
    conforms(&agent().await).await;
}

#[tokio::test]
async fn the_java_quickstart_runs_as_it_stands() {
    built().await;
    let folder = made("java-quickstart");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("Quickstart.java");
    fs::write(&program, shortest_start("java", "java")).unwrap();
    let mut java = Command::new("java");
    let classes = source("java").join("conformance-agent/target/lib/*");
    java.arg("-cp").arg(classes).arg(&program);
    let printed = quickstart("java", java).await;
    assert_eq!(printed, "applied quickstart\ndeleted quickstart\n");
}
