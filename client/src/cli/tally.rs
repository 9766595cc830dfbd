//! Counting what went wrong in work that goes on after a failure.

use std::io::{self, Write as _};

use super::exit::{CommandError, Exit};

/// The result of work on many objects: each failure is reported where it happens.
#[derive(Default)]
pub(super) struct Tally {
    done: u64,
    failed: u64,
    first: Option<Exit>,
    is_mixed: bool,
}

impl Tally {
    /// One more is done.
    pub(super) fn done(&mut self) {
        self.done += 1;
    }

    /// One more has failed; says so. Hands the failure on if there is no use in going on.
    pub(super) fn failed(&mut self, mut failure: CommandError) -> Result<(), CommandError> {
        if failure.exit == Exit::Unavailable || failure.message.is_empty() {
            if self.done > 0 && failure.exit == Exit::Unavailable {
                failure
                    .message
                    .push_str(&format!("; stopped here, {} done", self.done));
            }
            return Err(failure);
        }
        complain(&failure.message);
        self.failed += 1;
        self.is_mixed |= self.first.is_some_and(|first| first != failure.exit);
        self.first.get_or_insert(failure.exit);
        Ok(())
    }

    /// The exit code of the whole: that of the failures if nothing else happened, else 1.
    pub(super) fn finish(self) -> Result<(), CommandError> {
        match self.first {
            None => Ok(()),
            Some(exit) if self.done == 0 && !self.is_mixed => Err(CommandError::said(exit)),
            Some(_) => Err(CommandError::said(Exit::Failed)),
        }
    }

    /// How many have failed.
    pub(super) fn failures(&self) -> u64 {
        self.failed
    }
}

/// One line on standard error.
pub(super) fn complain(message: &str) {
    // If even that is gone, the exit code still tells.
    let _ = writeln!(io::stderr(), "listwatch: {message}");
}
