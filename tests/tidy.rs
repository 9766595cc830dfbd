//! The shape of the code: what ARCHITECTURE.md promises of it.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

fn no_source_has(folder: &str, words: &[&str]) {
    for (path, text) in sources(folder) {
        for word in words {
            assert!(
                !text.contains(word),
                "{} must not use {word}",
                path.display()
            );
        }
    }
}

#[test]
fn the_store_knows_neither_hub_nor_transport() {
    no_source_has(
        "server/src/store",
        &[
            "crate::hub",
            "crate::service",
            "crate::server",
            "tonic",
            "hyper",
        ],
    );
}

#[test]
fn the_hub_knows_no_transport() {
    no_source_has(
        "server/src/hub",
        &[
            "crate::service",
            "crate::server",
            "tonic",
            "hyper",
            "listwatch::v1",
        ],
    );
}

#[test]
fn one_file_makes_statuses_of_errors() {
    for (path, text) in sources("server/src") {
        let makes_them = text.contains("with_error_details") || text.contains("ErrorDetails::");
        assert!(
            !makes_them || path.ends_with("service/status.rs"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn one_file_makes_kubernetes_statuses_of_errors() {
    for (path, text) in sources("server/src/gateway") {
        let makes_them = text.contains("\"Failure\"") || text.contains("UNPROCESSABLE_ENTITY");
        let is_it = path.ends_with("gateway/status.rs");
        assert!(!makes_them || is_it, "{}", path.display());
    }
}

#[test]
fn what_is_pure_of_the_gateway_knows_neither_store_nor_network() {
    for folder in ["kinds", "messages", "table", "patch", "openapi"] {
        let folder = format!("server/src/gateway/{folder}");
        let words = [
            "crate::hub",
            "crate::service",
            "crate::server",
            "tonic",
            "hyper",
        ];
        no_source_has(&folder, &words);
    }
}

#[test]
fn names_say_what_is_inside() {
    for folder in ["server/src", "client/src", "proto"] {
        for (path, _) in sources(folder) {
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            let vague = [
                "utils", "util", "common", "helpers", "helper", "manager", "misc",
            ];
            assert!(!vague.contains(&stem.as_str()), "{}", path.display());
        }
    }
}

#[test]
fn no_file_holds_more_than_one_thing() {
    const LIMIT: usize = 650;
    for folder in ["server/src", "client/src"] {
        for (path, text) in sources(folder) {
            // A suite of cases is as long as there are cases.
            let excused = path.components().any(|part| part.as_os_str() == "tests");
            let lines = text.lines().count();
            assert!(
                lines <= LIMIT || excused,
                "{} has {lines} lines",
                path.display()
            );
        }
    }
}
