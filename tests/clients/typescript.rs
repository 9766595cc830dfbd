//! `client/typescript`, for Node and for browsers.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tokio::{process::Command, sync::OnceCell};

use super::{agent::AgentCommand, conformance::conforms, made, source};
use crate::harness::{daemon, tools};

/// A copy of the package with what it depends on, compiled.
async fn built() -> &'static Path {
    static BUILT: OnceCell<PathBuf> = OnceCell::const_new();
    BUILT.get_or_init(build).await
}

async fn build() -> PathBuf {
    let (from, folder) = (source("typescript"), made("typescript-client"));
    tools::npm_ci(&from, &folder).await;
    for entry in fs::read_dir(&from).unwrap() {
        let name = entry.unwrap().file_name();
        if ["node_modules", "dist", "build"]
            .iter()
            .all(|made| name != *made)
        {
            let _ = fs::remove_dir_all(folder.join(&name));
            let mut cp = Command::new("cp");
            tools::run("cp", cp.arg("-R").arg(from.join(&name)).arg(&folder)).await;
        }
    }
    tools::run("npm", &mut npm(&folder, &["run", "build"])).await;
    folder
}

fn npm(folder: &Path, arguments: &[&str]) -> Command {
    let mut npm = Command::new("npm");
    npm.args(arguments).current_dir(folder);
    npm.env("LISTWATCHD", daemon::binary("listwatchd"));
    npm
}

/// The folder of `protoc-gen-es`.
pub async fn tools_folder() -> PathBuf {
    built().await.join("node_modules/.bin")
}

pub async fn agent() -> AgentCommand {
    let script = built().await.join("conformance/agent.mjs");
    vec!["node".into(), script.into()]
}

#[tokio::test]
async fn the_typescript_client_conforms() {
    conforms(&agent().await).await;
}

/// Those against a server, and those in headless Chromium over gRPC-web; among them the README's
/// program.
#[tokio::test]
async fn the_typescript_clients_own_tests_and_types_hold() {
    let folder = built().await;
    for script in ["check", "test", "test:server", "test:browser"] {
        tools::run("npm", &mut npm(folder, &["run", script])).await;
    }
}
