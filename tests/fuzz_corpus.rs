//! What fuzzing has found interesting, and what it has found, once more: see `fuzz/README.md`.

#[path = "../fuzz/src/lib.rs"]
mod checks;

#[path = "../fuzz/src/replay.rs"]
mod kept;

use std::path::Path;

fn replay(name: &str, check: fn(&[u8])) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    kept::replay(&fuzz, name, check);
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
