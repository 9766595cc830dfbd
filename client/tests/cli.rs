//! What the `listwatch` command promises, tried on the built program.

// The fake and the runs stand outside of test functions, where clippy.toml allows it.
#![allow(clippy::unwrap_used)]

#[path = "cli/apply.rs"]
mod apply;
#[path = "cli/backup.rs"]
mod backup;
#[path = "cli/fake.rs"]
mod fake;
#[path = "cli/objects.rs"]
mod objects;
#[path = "cli/run.rs"]
mod run;
#[path = "cli/shell.rs"]
mod shell;
#[path = "cli/watch.rs"]
mod watch;
