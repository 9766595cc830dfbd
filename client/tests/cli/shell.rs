//! What shells and scripts rely on.

use std::process::{Command, Stdio};

use crate::{
    fake::Fake,
    run::{command, end, listwatch},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_away_is_no_error() {
    let fake = Fake::start().await;
    for name in ["a", "b", "c"] {
        listwatch(&fake, &["put", "pods", name, "--value", "v"]).ok();
    }
    for args in [
        &["list", "pods", "--page-size", "1"][..],
        &["list", "pods", "-o", "json"],
        &["get", "pods", "a", "b", "-o", "yaml"],
        &["watch", "pods"],
        &["status"],
        &["export", "-"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let mut child = command(&fake, args).spawn().unwrap();
        drop(child.stdout.take());
        let ran = end(child);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        assert!(!ran.err.contains("cannot write"), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_server_that_is_not_there_is_exit_code_5_with_what_to_do() {
    let output = Command::new(env!("CARGO_BIN_EXE_listwatch"))
        .args(["--server", "127.0.0.1:1", "list", "pods"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(
        err.lines().count() == 1 && err.contains("LISTWATCH_SERVER"),
        "{err}"
    );
}

#[test]
fn a_wrong_command_line_is_called_wrong_also_without_a_server() {
    for args in [
        &["get", "pods"][..],
        &["watch", "pods", "x/a", "-n", "y"],
        &["--server", "ftp://x", "status"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_listwatch"))
            .env("LISTWATCH_SERVER", "127.0.0.1:1")
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_is_for_people_and_for_programs() {
    let fake = Fake::start().await;
    let text = listwatch(&fake, &["status"]).ok();
    assert!(text.contains("COLLECTION"), "{text}");
    let json = listwatch(&fake, &["status", "-o", "json"]).ok();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["limits"]["maxBatchOperations"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_shell_gets_its_completions() {
    let fake = Fake::start().await;
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(
            listwatch(&fake, &["completions", shell])
                .ok()
                .contains("watch")
        );
    }
}
