//! Tests of the whole product, through its public API. Named after the promises that they
//! hold: see `tests/README.md`.

mod bad_input;
mod error_reasons;
mod harness;
mod tidy;
mod watch_promises;
mod writes;
