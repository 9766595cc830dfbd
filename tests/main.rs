//! Tests of the whole product, through its public API. Named after the promises that they
//! hold: see `tests/README.md`.

// A test binary is nobody's library, and its helpers fail as its tests do.
#![allow(unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

mod admin;
mod bad_input;
mod bench;
mod clients;
mod command_line;
mod compare;
mod drain;
mod embedding;
mod error_reasons;
mod faults;
mod fuzz_corpus;
mod gateway;
mod grpc_web;
mod harness;
mod histories;
mod known_faults;
mod limits;
mod metrics;
mod open_watches;
mod process;
mod python;
mod read_promises;
mod resume_promises;
mod simulation;
mod stalled_readers;
mod tidy;
mod track_record;
mod validator;
mod watch_many;
mod watch_options;
mod watch_promises;
mod writes;
