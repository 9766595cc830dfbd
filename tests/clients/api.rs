//! The API as a contract: `scripts/api`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tokio::process::Command;

use crate::harness::tools;

/// buf, from PyPI.
pub const BUF: &str = "buf-bin==1.75.0";

/// A run of `scripts/api`: its success, and what it printed.
async fn api(arguments: &[&str]) -> (bool, String) {
    let (_, python) = tools::python_with("buf", &[BUF]).await;
    run(&[python.parent().unwrap()], arguments).await
}

async fn run(tools: &[&Path], arguments: &[&str]) -> (bool, String) {
    let inherited = std::env::var_os("PATH").unwrap();
    let inherited = std::env::split_paths(&inherited);
    let paths = tools.iter().map(|&tool| tool.to_owned()).chain(inherited);
    let mut script = Command::new(root().join("scripts/api"));
    script.args(arguments);
    script.env("PATH", std::env::join_paths(paths).unwrap());
    let output = script.kill_on_drop(true).output().await.unwrap();
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    (output.status.success(), printed)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A copy of `proto/` with one change.
fn changed(from: &str, to: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = "listwatch/v1/listwatch.proto".into();
    let text = fs::read_to_string(root().join("proto").join(&file)).unwrap();
    assert!(text.contains(from), "{from}");
    let copy = folder.path().join(&file);
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    fs::write(copy, text.replacen(from, to, 1)).unwrap();
    folder
}

#[tokio::test]
async fn the_api_is_linted_formatted_and_breaks_nobody() {
    let (good, printed) = api(&["check"]).await;
    assert!(good, "{printed}");
}

/// Each of these is found, so that the test above says something.
#[tokio::test]
async fn a_lint_a_format_and_a_break_are_found() {
    for (from, to, told) in [
        (
            "rpc Get(GetRequest) returns (GetResponse);",
            "rpc get(GetRequest) returns (GetResponse);",
            "RPC",
        ),
        ("  Key key = 1;", "    Key key = 1;", "Key key = 1;"),
        ("int64 revision = 3;", "int32 revision = 3;", "revision"),
        ("string uid = 2;", "reserved 2;", "uid"),
    ] {
        let folder = changed(from, to);
        let folder = folder.path().to_str().unwrap();
        let (good, printed) = api(&["check", folder]).await;
        assert!(!good, "{to} is not found");
        assert!(printed.contains(told), "{to}: {printed}");
    }
}
