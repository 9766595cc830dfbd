//! The process in numbers, under the names that Prometheus' own clients use. From `/proc`:
//! where there is none, they have no values.

use std::{fmt, fs, time::SystemTime};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::sheet::Sheet;

#[derive(Debug)]
pub(super) struct ProcessSheet;

impl Collector for ProcessSheet {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        let stat = fs::read_to_string("/proc/self/stat").ok();
        let stat = stat.as_deref().and_then(Stat::read);
        let value = |value: Option<f64>| value.map(|value| (Vec::new(), value));
        let number = |value: Option<i64>| value.map(|value| (Vec::new(), value));
        sheet.counters(
            "process_cpu_seconds",
            "Processor time used, in user and kernel mode",
            value(stat.as_ref().map(|s| s.cpu_seconds)),
        )?;
        sheet.gauges(
            "process_start_time_seconds",
            "When the process was started, since the epoch",
            value(stat.as_ref().and_then(|s| start_time(s.started_after_boot))),
        )?;
        sheet.gauges(
            "process_resident_memory_bytes",
            "Memory that the process holds",
            number(resident_bytes()),
        )?;
        sheet.gauges(
            "process_open_fds",
            "Open file descriptors",
            number(
                fs::read_dir("/proc/self/fd")
                    .ok()
                    .map(|open| open.count() as i64),
            ),
        )?;
        sheet.gauges(
            "process_max_fds",
            "The most file descriptors that the process may open",
            number(max_descriptors()),
        )?;
        let version = env!("CARGO_PKG_VERSION");
        let debug = if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        };
        let labels = vec![("version", version), ("profile", debug)];
        sheet.gauges(
            "lw_build_info",
            "The server's version; always 1",
            [(labels, 1i64)],
        )
    }
}

struct Stat {
    cpu_seconds: f64,
    started_after_boot: f64,
}

impl Stat {
    /// Fields are numbered as in proc(5); the second, a name in parentheses, may hold anything.
    fn read(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        let second = rustix::param::clock_ticks_per_second() as f64;
        Some(Self {
            cpu_seconds: (ticks(14)? + ticks(15)?) / second,
            started_after_boot: ticks(22)? / second,
        })
    }
}

fn start_time(after_boot: f64) -> Option<f64> {
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let uptime: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()?;
    Some(now.as_secs_f64() - uptime + after_boot)
}

fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

fn max_descriptors() -> Option<i64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
