//! What the server promises of any bytes, through its public API: one function each, called by
//! a fuzz target of the same name and, with the inputs that are kept in `corpus/` and
//! `regressions/`, by the tests at the root (`tests/fuzz_corpus.rs`), which compile this too.
//!
//! What looks inside the server is in `server/src/fuzzing.rs`.

mod bed;
mod gateway;
mod import;
mod port;
mod request;

pub use self::{gateway::gateway, import::import, port::port, request::request};
