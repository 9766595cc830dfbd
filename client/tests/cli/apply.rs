//! `apply`: manifests in, objects stored, every failure named.

use std::fs;

use crate::{
    fake::Fake,
    run::{listwatch, listwatch_with},
};

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, labels: {app: web}}\n";

#[tokio::test(flavor = "multi_thread")]
async fn applying_twice_writes_once() {
    let fake = Fake::start().await;
    let apply = || listwatch_with(&fake, &["apply", "-f", "-"], POD.as_bytes()).ok();
    assert_eq!(apply(), "pods/default/web created\n");
    assert_eq!(apply(), "pods/default/web unchanged\n");
    assert_eq!(fake.state().revision, 1);
    let changed = POD.replace("app: web", "app: api");
    let out = listwatch_with(&fake, &["apply", "-f", "-"], changed.as_bytes()).ok();
    assert_eq!(out, "pods/default/web configured\n");
    let out = listwatch_with(&fake, &["apply", "-n", "prod", "-f", "-"], POD.as_bytes()).ok();
    assert_eq!(out, "pods/prod/web created\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_everything_is_applied_and_each_bad_document_named() {
    let fake = Fake::start().await;
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put(
        "a.yaml",
        &format!(
            "# first\n---\n{POD}---\nkind: [broken\n---\n{}",
            POD.replace("web", "db")
        ),
    );
    put(
        "b.json",
        r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}},
        {"kind": "Service"},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": 1}}}]}"#,
    );
    put("c.yml", "cluster_name: not kubernetes\n");
    put("d.yaml", "# nothing\n");
    put("e.json", "");
    put("f.yaml", &POD.replace("web", "refused"));
    put("notes.txt", "not read");
    let ran = listwatch(&fake, &["apply", "-f", folder.path().to_str().unwrap()]);
    assert_eq!(ran.code, 1);
    assert_eq!(
        ran.out,
        "pods/default/web created\npods/default/db created\nservices/default/s created\n"
    );
    let complaints: Vec<_> = ran.err.lines().collect();
    assert_eq!(complaints.len(), 5, "{}", ran.err);
    for (line, parts) in complaints.iter().zip([
        [
            "a.yaml: document 2 (line 7)",
            "at line 8 column 1, while parsing a flow sequence at line 7 column 7",
        ],
        ["b.json: document 1 (line 1), item 2", "no apiVersion"],
        [
            "b.json: document 1 (line 1), item 3",
            "metadata.labels.a is 1, not text",
        ],
        ["c.yml: document 1 (line 1)", "has no kind"],
        [
            "f.yaml: document 1 (line 1)",
            "pods/default/refused: name is not allowed",
        ],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    assert_eq!(
        fake.names(),
        ["pods/default/db", "pods/default/web", "services/default/s"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_get_and_list_print_can_be_applied_again() {
    let fake = Fake::start().await;
    listwatch_with(&fake, &["apply", "-f", "-"], POD.as_bytes()).ok();
    for (name, value, kind) in [
        ("t", "text: [not yaml", "text/plain"),
        ("j", "{\"a\": 1.50}", "application/json"),
    ] {
        listwatch(
            &fake,
            &[
                "put",
                "pods",
                name,
                "--value",
                value,
                "--content-type",
                kind,
            ],
        )
        .ok();
    }
    listwatch_with(
        &fake,
        &["put", "pods", "b", "--value-file", "-", "--label", "v=1.10"],
        b"\xff\0",
    )
    .ok();
    let before = fake.state().objects.clone();
    for format in ["json", "yaml"] {
        for read in [
            &["list", "pods"][..],
            &["get", "pods", "t", "j", "b"],
            &["get", "pods/b"],
        ] {
            let printed = listwatch(&fake, &[read, &["-o", format]].concat()).ok();
            let again = listwatch_with(&fake, &["apply", "-f", "-"], printed.as_bytes()).ok();
            assert!(
                again.lines().all(|line| line.ends_with(" unchanged")),
                "{format}: {again}"
            );
            assert!(again.lines().count() >= 1);
        }
    }
    // Also into an empty store.
    let printed = listwatch(&fake, &["list", "pods", "-o", "yaml"]).ok();
    let other = Fake::start().await;
    listwatch_with(&other, &["apply", "-f", "-"], printed.as_bytes()).ok();
    let state = other.state();
    for (id, old) in before {
        let new = &state.objects[&id];
        assert_eq!(
            (&new.labels, &new.content_type),
            (&old.labels, &old.content_type)
        );
        if old.key.as_ref().unwrap().name != "j" {
            assert_eq!(new.value, old.value);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_in_between_is_never_overwritten_unseen() {
    let fake = Fake::start().await;
    listwatch_with(&fake, &["apply", "-f", "-"], POD.as_bytes()).ok();
    fake.state().conflicts = 3;
    let changed = POD.replace("app: web", "app: api");
    let out = listwatch_with(&fake, &["apply", "-f", "-"], changed.as_bytes()).ok();
    assert_eq!(out, "pods/default/web configured\n");
    assert_eq!(fake.state().conflicts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_names_make_a_new_object_each_time() {
    let fake = Fake::start().await;
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: work-}\n";
    for _ in 0..3 {
        let out = listwatch_with(&fake, &["apply", "-f", "-"], job.as_bytes()).ok();
        assert!(out.starts_with("jobs.batch/default/work-") && out.ends_with(" created\n"));
    }
    assert_eq!(fake.names().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_ready_is_waited_for() {
    let fake = Fake::start().await;
    fake.state().not_ready = 8;
    let out = listwatch_with(&fake, &["apply", "-f", "-"], POD.as_bytes()).ok();
    assert_eq!(out, "pods/default/web created\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_takes_the_same_files() {
    let fake = Fake::start().await;
    listwatch_with(&fake, &["apply", "-f", "-"], POD.as_bytes()).ok();
    let out = listwatch_with(&fake, &["delete", "-f", "-"], POD.as_bytes()).ok();
    assert_eq!(out, "pods/default/web deleted\n");
    assert!(fake.names().is_empty());
}
