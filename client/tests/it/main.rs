//! The promises of the client library, against a server that does exactly what a test
//! says, over an in-memory transport and on tokio's paused clock.

// clippy.toml allows these in test functions; here they are in their helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod calls;
mod handlers;
mod lists;
mod mock;
mod model;
mod persisted;
mod reflector;
mod resuming;
mod watcher;
