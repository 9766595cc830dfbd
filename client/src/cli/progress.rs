//! A line on standard error that says how far long work has come.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// Often enough to look alive, seldom enough to cost nothing.
const INTERVAL: Duration = Duration::from_millis(200);

/// Work shorter than this shows nothing at all.
const QUIET_START: Duration = Duration::from_millis(500);

/// Counts done work on one line that is overwritten in place. Shows nothing unless
/// standard error is a terminal; the line is wiped when this is dropped.
pub(super) struct Progress {
    what: &'static str,
    done: u64,
    total: Option<u64>,
    started: Instant,
    shown: Option<Instant>,
    enabled: bool,
}

impl Progress {
    /// `what` follows the number: "objects written".
    pub(super) fn new(what: &'static str) -> Self {
        Self {
            what,
            done: 0,
            total: None,
            started: Instant::now(),
            shown: None,
            enabled: io::stderr().is_terminal(),
        }
    }

    /// Progress of work whose output would show by itself on a terminal.
    pub(super) fn unless_output_is_seen(what: &'static str) -> Self {
        let mut progress = Self::new(what);
        progress.enabled &= !io::stdout().is_terminal();
        progress
    }

    /// The number at which the work will be done.
    pub(super) fn total(&mut self, total: u64) {
        self.total = Some(total);
    }

    /// So much more is done.
    pub(super) fn add(&mut self, more: u64) {
        self.done += more;
        let due = match self.shown {
            Some(shown) => shown.elapsed() >= INTERVAL,
            None => self.started.elapsed() >= QUIET_START,
        };
        if self.enabled && due {
            self.shown = Some(Instant::now());
            let seconds = self.started.elapsed().as_secs_f64();
            let line = line(self.done, self.total, self.what, seconds);
            // A terminal that is gone is no reason to stop the work.
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
        }
    }

    /// Wipes the line, so that something else can be written.
    pub(super) fn clear(&mut self) {
        if self.shown.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(done: u64, total: Option<u64>, what: &str, seconds: f64) -> String {
    let rate = (done as f64 / seconds.max(0.001)) as u64;
    match total {
        Some(total) if total >= done && total > 0 => {
            format!(
                "{done} of {total} {what} ({}%, {rate}/s)",
                done * 100 / total
            )
        }
        _ => format!("{done} {what} ({rate}/s)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_fast() {
        assert_eq!(
            line(50, Some(200), "objects", 2.0),
            "50 of 200 objects (25%, 25/s)"
        );
        assert_eq!(line(50, None, "objects", 2.0), "50 objects (25/s)");
        assert_eq!(line(0, Some(0), "objects", 0.0), "0 objects (0/s)");
    }
}
