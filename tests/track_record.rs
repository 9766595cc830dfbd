//! `TRACK_RECORD.md` and what `scripts/reproduce` takes from `track_record.tsv` say the same,
//! and name what there is. That each row reproduces its fault says only a run of the script,
//! which needs the whole history.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::tidy::sources;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A row of the table that the script reads.
struct Row {
    id: u32,
    at: String,
    over: Vec<String>,
    fixed: String,
    command: String,
    expected: String,
}

fn table() -> Vec<Row> {
    let text = fs::read_to_string(path("tests/track_record.tsv")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<Row> = lines
        .map(|line| {
            let columns: Vec<&str> = line.split('\t').collect();
            let [id, at, over, fixed, command, expected] = columns[..] else {
                panic!("not six columns: {line}");
            };
            // The script's shell takes two tabs for one.
            assert!(columns.iter().all(|c| !c.is_empty()), "{line}");
            let over = over.split(' ').filter(|part| *part != "-");
            Row {
                id: id.parse().unwrap(),
                at: at.into(),
                over: over.map(Into::into).collect(),
                fixed: fixed.into(),
                command: command.into(),
                expected: expected.into(),
            }
        })
        .collect();
    assert!(!rows.is_empty());
    rows
}

/// The rows for readers: number, and everything after it.
fn described() -> BTreeMap<u32, String> {
    let text = fs::read_to_string(path("tests/TRACK_RECORD.md")).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let Some((id, rest)) = line.strip_prefix("| ").and_then(|l| l.split_once(" | ")) else {
            continue;
        };
        if let Ok(id) = id.parse() {
            assert!(rows.insert(id, rest.to_owned()).is_none(), "{id} twice");
        }
    }
    assert!(!rows.is_empty());
    rows
}

/// An abbreviated hash, or its parent.
fn is_commit(text: &str) -> bool {
    let hash = text.strip_suffix('^').unwrap_or(text);
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    (7..=40).contains(&hash.len()) && hash.chars().all(hex)
}

#[test]
fn every_row_names_commits_and_what_is_laid_over_them() {
    let mut used = BTreeSet::new();
    for row in table() {
        let id = row.id;
        for commit in [&row.at, &row.fixed] {
            assert!(is_commit(commit), "row {id}: {commit}");
        }
        for over in row.over {
            match over.split_once(':') {
                Some((commit, _)) => assert!(is_commit(commit), "row {id}: {over}"),
                None => {
                    let patch = path("tests/track_record").join(&over);
                    assert!(patch.is_file(), "row {id}: {over}");
                    used.insert(over);
                }
            }
        }
    }
    // Git keeps no empty folder.
    let there = fs::read_dir(path("tests/track_record"));
    for patch in there.into_iter().flatten() {
        let name = patch.unwrap().file_name().into_string().unwrap();
        assert!(used.contains(&name), "no row takes {name}");
    }
}

#[test]
fn every_row_runs_one_test_that_there_still_is() {
    let sources: String = ["tests", "server/src", "client/src", "client/tests"]
        .into_iter()
        .flat_map(sources)
        .map(|(_, text)| text)
        .collect();
    for row in table() {
        let (id, command) = (row.id, row.command);
        assert!(command.contains("cargo test --locked "), "row {id}");
        let test = command.rsplit([' ', ':']).next().unwrap();
        // The second: one that `replayed!` makes of its name and its check.
        let forms = [format!("fn {test}("), format!("    {test}: ")];
        assert!(
            forms.iter().any(|form| sources.contains(form)),
            "row {id}: there is no test {test}"
        );
        assert!(row.expected.len() > 5, "row {id}: that is found anywhere");
    }
}

#[test]
fn the_table_and_its_description_say_the_same() {
    let described = described();
    let table = table();
    let numbers: Vec<u32> = described.keys().copied().collect();
    let expected: Vec<u32> = (1..).take(numbers.len()).collect();
    assert_eq!(numbers, expected);
    let mut reproduced = BTreeSet::new();
    for row in table {
        let id = row.id;
        assert!(reproduced.insert(id), "row {id} stands twice");
        let text = &described[&id];
        let fixed = row.fixed.trim_end_matches('^');
        let test = row.command.rsplit([' ', ':']).next().unwrap();
        for said in [format!("`{fixed}`"), format!("`{test}`")] {
            assert!(text.contains(&said), "row {id} does not name {said}");
        }
        assert!(text.contains("verified on 20"), "row {id}: when?");
    }
    for (id, text) in described {
        let says_why = text.contains("not reproduced: ");
        assert_ne!(says_why, reproduced.contains(&id), "row {id}");
    }
}
