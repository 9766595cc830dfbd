//! What fuzzing has found interesting, and what it has found, once more: see `fuzz/README.md`.

#[path = "../fuzz/src/lib.rs"]
mod checks;

use std::{fs, path::Path};

/// Gives a check everything that is kept for it, and an empty input.
#[allow(
    clippy::print_stdout,
    reason = "says which input it is, if the check fails"
)]
fn replay(name: &str, check: fn(&[u8])) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    check(&[]);
    let mut count = 0;
    for folder in ["corpus", "regressions"] {
        let Ok(entries) = fs::read_dir(fuzz.join(folder).join(name)) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let data = fs::read(&path).unwrap();
            println!("{}", path.display());
            check(&data);
            count += 1;
        }
    }
    assert!(count > 0, "nothing is kept for {name}");
}

#[test]
fn requests_of_any_bytes_are_answered_or_refused_without_a_change() {
    replay("request", checks::request);
}

#[test]
fn exports_of_any_bytes_are_restored_whole_or_refused() {
    replay("import", checks::import);
}

#[test]
fn http_requests_of_any_bytes_are_answered_or_refused_without_a_change() {
    replay("gateway", checks::gateway);
}

#[test]
fn the_server_goes_on_answering_whatever_bytes_come_on_its_port() {
    replay("port", checks::port);
}
