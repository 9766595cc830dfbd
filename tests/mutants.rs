//! The promises that `scripts/mutants` tries the hub's mutants against: part of `it`, since each
//! mutant costs a build. Not run by `cargo test` without its name.

// A test binary is nobody's library, and much of the harness is for what is left out here.
#![allow(unreachable_pub, dead_code, clippy::unwrap_used, clippy::expect_used)]

mod error_reasons;
mod harness;
mod histories;
#[path = "limits/lag.rs"]
mod lag;
mod metrics;
mod open_watches;
mod read_promises;
mod resume_promises;
mod simulation;
mod stalled_readers;
mod validator;
mod watch_many;
mod watch_options;
mod watch_promises;
