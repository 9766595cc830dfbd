//! Tests of the whole product, through its public API. Named after the promises that they
//! hold: see `tests/README.md`.

// A test binary is nobody's library.
#![allow(unreachable_pub)]

mod admin;
mod bad_input;
mod error_reasons;
mod harness;
mod histories;
mod known_faults;
mod process;
mod read_promises;
mod resume_promises;
mod simulation;
mod tidy;
mod validator;
mod watch_promises;
mod writes;
