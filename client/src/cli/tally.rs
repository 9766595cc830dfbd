//! Counting what went wrong in work that goes on after a failure.

use std::io::{self, Write as _};

use super::exit::{Exit, Failure};

/// The result of work on many objects: each failure is reported where it happens.
#[derive(Default)]
pub struct Tally {
    done: u64,
    failed: u64,
    first: Option<Exit>,
    is_mixed: bool,
}

impl Tally {
    /// One more is done.
    pub fn done(&mut self) {
        self.done += 1;
    }

    /// One more has failed; says so. Hands the failure on if there is no use in going on.
    pub fn failed(&mut self, failure: Failure) -> Result<(), Failure> {
        if failure.exit == Exit::Unavailable || failure.message.is_empty() {
            return Err(failure);
        }
        complain(&failure.message);
        self.failed += 1;
        self.is_mixed |= self.first.is_some_and(|first| first != failure.exit);
        self.first.get_or_insert(failure.exit);
        Ok(())
    }

    /// The exit code of the whole: that of the failures if nothing else happened, else 1.
    pub fn finish(self) -> Result<(), Failure> {
        match self.first {
            None => Ok(()),
            Some(exit) if self.done == 0 && !self.is_mixed => Err(Failure::said(exit)),
            Some(_) => Err(Failure::said(Exit::Failed)),
        }
    }

    /// How many have failed.
    pub fn failures(&self) -> u64 {
        self.failed
    }
}

/// One line on standard error.
pub fn complain(message: &str) {
    // If even that is gone, the exit code still tells.
    let _ = writeln!(io::stderr(), "listwatch: {message}");
}
