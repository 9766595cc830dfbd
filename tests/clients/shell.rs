//! List and watch from the shell, through reflection: what the README shows for `grpcurl`, and
//! the same with `buf curl`.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, BufReader},
    process::Command,
    time::timeout,
};

use super::readme;
use crate::harness::{
    PATIENCE,
    daemon::{Daemon, binary, free_address},
    tools,
};

const GRPCURL: &str = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3";

/// grpcurl, from the Go module proxy, kept under the target folder.
async fn grpcurl() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpcurl-1.9.3");
    let program = folder.join("grpcurl");
    if !program.exists() {
        let mut go = Command::new("go");
        go.args(["install", GRPCURL]).env("GOBIN", &folder);
        tools::run("Go", &mut go).await;
    }
    program
}

/// Runs a line of the shell with `program`'s folder first in PATH until its output holds what is
/// expected; returns the JSON documents that were printed.
async fn until(line: &str, program: &Path, expected: &str) -> Vec<Value> {
    let path = std::env::var("PATH").unwrap();
    let folder = program.parent().unwrap().display();
    let mut shell = Command::new("sh");
    shell.args([OsStr::new("-c"), OsStr::new(&format!("exec {line}"))]);
    shell.env("PATH", format!("{folder}:{path}"));
    shell.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = shell.kill_on_drop(true).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut printed = String::new();
    let read = async {
        let mut part = [0; 4096];
        loop {
            let length = output.read(&mut part).await.unwrap();
            printed += std::str::from_utf8(&part[..length]).unwrap();
            let documents = serde_json::Deserializer::from_str(&printed).into_iter();
            let whole: Vec<Value> = documents.map_while(Result::ok).collect();
            if printed.contains(expected) && !whole.is_empty() && printed.trim_end().ends_with('}')
            {
                return whole;
            }
            assert!(length > 0, "{line}: ended without {expected}: {printed}");
        }
    };
    timeout(PATIENCE, read)
        .await
        .unwrap_or_else(|_| panic!("{line}: no {expected}"))
}

async fn served() -> (tempfile::TempDir, Daemon) {
    let folder = tempfile::tempdir().unwrap();
    let address = free_address();
    let daemon = Daemon::start(&folder.path().join("data"), &address, &[]).await;
    let mut apply = std::process::Command::new(binary("listwatch"));
    apply.args(["--server", &address, "apply", "-f", "-"]);
    let mut apply = apply.stdin(Stdio::piped()).spawn().unwrap();
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"greeting","namespace":"demo"}}"#;
    std::io::Write::write_all(&mut apply.stdin.take().unwrap(), object.as_bytes()).unwrap();
    assert!(apply.wait().unwrap().success());
    (folder, daemon)
}

#[tokio::test]
async fn grpcurl_lists_and_watches_as_the_readme_says() {
    let program = grpcurl().await;
    let (_folder, daemon) = served().await;
    let lines = readme::lines_of("README.md", "grpcurl ");
    assert_eq!(lines.len(), 2, "the README shows a list and a watch");
    for line in lines {
        let line = line.replace("127.0.0.1:7450", &daemon.address);
        let is_watch = line.contains("/Watch");
        let end = if is_watch {
            "INITIAL_STATE_END"
        } else {
            "resumeToken"
        };
        let documents = until(&line, &program, end).await;
        let all = Value::from(documents).to_string();
        assert!(all.contains(r#""name":"greeting""#), "{line}: {all}");
    }
}

#[tokio::test]
async fn buf_curl_lists_and_watches_through_reflection() {
    let (_, python) = tools::python_with("buf", &[super::api::BUF]).await;
    let program = python.with_file_name("buf");
    let (_folder, daemon) = served().await;
    for (method, end) in [("List", "resumeToken"), ("Watch", "INITIAL_STATE_END")] {
        let line = format!(
            r#"buf curl --protocol grpc --http2-prior-knowledge -d '{{"selector":{{"collection":"configmaps"}}}}' http://{}/listwatch.v1.ListWatchService/{method}"#,
            daemon.address
        );
        let documents = until(&line, &program, end).await;
        let all = Value::from(documents).to_string();
        assert!(all.contains(r#""name":"greeting""#), "{line}: {all}");
    }
}
