//! What a process takes, from `/proc`. Elsewhere than on Linux there is nothing to see.

use std::{fs, time::Duration};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A process at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// Processor time so far, of all its threads.
    pub(crate) cpu: Duration,
    /// Resident memory, in bytes.
    pub(crate) resident: u64,
    /// The most that it was since the last [`reset_peak`].
    pub(crate) peak: u64,
}

/// Raises this process's soft limit on open files to the hard one: a load needs thousands.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // What cannot be raised shows as a connection that cannot be opened.
    let _ = setrlimit(Resource::Nofile, raised);
}

/// What a process takes now; `None` if that cannot be seen.
pub(crate) fn usage(pid: u32) -> Option<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ticks = rustix::param::clock_ticks_per_second();
    Some(Usage {
        cpu: Duration::from_secs_f64(cpu_ticks(&stat)? as f64 / ticks as f64),
        resident: kilobytes(&status, "VmRSS:")? * 1024,
        peak: kilobytes(&status, "VmHWM:")? * 1024,
    })
}

/// Makes the peak the present. Without the right to, it stays what it was: false.
pub(crate) fn reset_peak(pid: u32) -> bool {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").is_ok()
}

/// User and system time. The name before may hold anything, brackets too.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(number(11)? + number(12)?)
}

fn kilobytes(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_where_linux_has_them() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 1 0 0 0 120 30 0 0 20 0 9 0 100 1 1";
        assert_eq!(cpu_ticks(stat), Some(150));
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        assert_eq!(kilobytes(status, "VmHWM:"), Some(2048));
        assert_eq!(kilobytes(status, "VmRSS:"), Some(1024));
    }
}
