//! Tests of the whole product, through its public API. Named after the promises that they
//! hold: see `tests/README.md`.

#[allow(unreachable_pub)]
mod harness;
mod process;
mod tidy;
mod watch_promises;
