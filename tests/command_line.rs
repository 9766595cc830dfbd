//! The command line against real servers, as a user has them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::harness::daemon::{Daemon, binary, free_address};

fn listwatch(address: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary("listwatch"));
    command
        .args(["--server", address])
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn run(address: &str, arguments: &[&str]) -> Output {
    listwatch(address, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs it and returns its standard output; it must succeed.
fn ok(address: &str, arguments: &[&str]) -> String {
    let output = run(address, arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// A folder of manifests: two kinds, several documents, a List, JSON, comments only.
fn manifests(folder: &Path) {
    let write = |name: &str, content: &str| fs::write(folder.join(name), content).unwrap();
    write(
        "a.yaml",
        "# a comment\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: one\n  labels: {app: web}\n\
         spec: {nodeName: n1}\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: two, namespace: x}\n",
    );
    write(
        "b.json",
        r#"{"apiVersion":"v1","kind":"List","items":[
            {"apiVersion":"v1","kind":"Pod","metadata":{"name":"three"}},
            {"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}]}"#,
    );
    write("c.yml", "# nothing but a comment\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_watch_shows_every_object_of_an_applied_folder_once() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&folder.path().join("data"), &free_address(), &[]).await;
    let address = daemon.address.clone();
    let mut watch = listwatch(
        &address,
        &["watch", "pods", "-o", "name", "--until-events", "2"],
    )
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    let inputs = folder.path().join("in");
    fs::create_dir(&inputs).unwrap();
    manifests(&inputs);
    let said = ok(&address, &["apply", "-f", inputs.to_str().unwrap()]);
    for line in [
        "pods/default/one created",
        "deployments.apps/x/two created",
        "pods/default/three created",
        "namespaces/x created",
    ] {
        assert!(said.contains(line), "{line:?} is not in {said:?}");
    }
    let mut seen = String::new();
    watch
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut seen)
        .unwrap();
    assert!(watch.wait().unwrap().success());
    // Each line begins with the event's type.
    let names = seen
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(_, name)| name);
    let mut lines: Vec<_> = names.collect();
    lines.sort();
    assert_eq!(lines, ["pods/default/one", "pods/default/three"]);
    // Again: nothing has changed, and nothing is written.
    let again = ok(&address, &["apply", "-f", inputs.to_str().unwrap()]);
    assert_eq!(again.matches("unchanged").count(), 4, "{again}");
    let selected = ok(&address, &["list", "pods", "-l", "app=web", "-o", "name"]);
    assert_eq!(selected.trim(), "pods/default/one");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_document_is_named_and_the_others_are_applied() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&folder.path().join("data"), &free_address(), &[]).await;
    let file = folder.path().join("mixed.yaml");
    fs::write(
        &file,
        "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\n---\nkind: [\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {name: also-good}\n---\n\
         apiVersion: v1\nkind: Pod\nmetadata: {name: -bad-}\n",
    )
    .unwrap();
    let output = run(&daemon.address, &["apply", "-f", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let errors = text(&output.stderr);
    assert!(
        errors.contains("mixed.yaml") && errors.contains("document 2"),
        "{errors}"
    );
    assert!(errors.contains("document 4"), "{errors}");
    let names = ok(&daemon.address, &["list", "pods", "-o", "name"]);
    assert_eq!(names.trim(), "pods/default/also-good\npods/default/good");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_printed_can_be_applied_again_and_a_backup_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&folder.path().join("data"), &free_address(), &[]).await;
    let address = &daemon.address;
    let inputs = folder.path().join("in");
    fs::create_dir(&inputs).unwrap();
    manifests(&inputs);
    ok(address, &["apply", "-f", inputs.to_str().unwrap()]);
    let printed = ok(
        address,
        &["get", "pods", "one", "-n", "default", "-o", "yaml"],
    );
    let file = folder.path().join("one.yaml");
    fs::write(&file, printed).unwrap();
    let again = ok(address, &["apply", "-f", file.to_str().unwrap()]);
    assert!(again.contains("pods/default/one unchanged"), "{again}");

    let backup = folder.path().join("backup");
    ok(address, &["export", backup.to_str().unwrap()]);
    let pipe = folder.path().join("pipe");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let refused = run(address, &["export", pipe.to_str().unwrap()]);
    let said = text(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("no file"),
        "{said}"
    );
    let other = Daemon::start(&folder.path().join("other"), &free_address(), &[]).await;
    ok(&other.address, &["import", backup.to_str().unwrap()]);
    for collection in ["pods", "deployments.apps", "namespaces"] {
        let names = |at: &str| ok(at, &["list", collection, "-o", "name"]);
        assert_eq!(names(address), names(&other.address));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn exit_codes_say_what_went_wrong_and_a_closed_pipe_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&folder.path().join("data"), &free_address(), &[]).await;
    let address = &daemon.address;
    let code = |arguments: &[&str]| run(address, arguments).status.code();
    assert_eq!(code(&["get", "pods", "none", "-n", "default"]), Some(3));
    assert_eq!(code(&["no-such-command"]), Some(2));
    assert_eq!(code(&["list", "Not-A-Collection"]), Some(2));
    for n in 0..6 {
        let value = n.to_string();
        ok(
            address,
            &["put", "pods", "p", "-n", "default", "--value", &value],
        );
    }
    ok(address, &["compact", "5", "--wait"]);
    let expired = [
        "watch",
        "pods",
        "--after-revision",
        "1",
        "--exact",
        "--timeout",
        "20s",
    ];
    assert_eq!(code(&expired), Some(6));
    let nobody = free_address();
    let unreachable = run(&nobody, &["status", "--timeout", "2s"]);
    assert_eq!(unreachable.status.code(), Some(5));

    // Enough to fill a pipe, whose reader goes after the first line.
    let input: String = (0..3000).map(|n| format!("{{\"key\":{{\"collection\":\"many\",\"namespace\":\"default\",\"name\":\"a-rather-long-name-{n}\"}},\"valueText\":\"x\"}}\n---\n")).collect();
    let mut apply = listwatch(address, &["apply", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    apply
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    assert!(apply.wait().unwrap().success());
    let mut list = listwatch(address, &["list", "many", "-o", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(list.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    let output = list.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "");
}
