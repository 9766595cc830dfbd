//! Tests of the whole product, through its public API. Named after the promises that they
//! hold: see `tests/README.md`.

#[allow(unreachable_pub)]
// A test binary is nobody's library.
#![allow(unreachable_pub)]

mod harness;
mod process;
mod tidy;
mod validator;
mod watch_promises;
