//! What was measured, for people and for programs.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{self, Write},
    time::SystemTime,
};

use serde::Serialize;

use super::{BenchOptions, Load};

/// One figure.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// What it is of.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// How much it is.
    pub value: f64,
}

impl Measure {
    pub(super) fn new(name: &'static str, unit: &'static str, value: f64) -> Self {
        Self { name, unit, value }
    }
}

/// A load in one of its forms, in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Such as `64 clients`.
    pub name: String,
    /// Its figures.
    pub measures: Vec<Measure>,
}

/// The machine that it was measured on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Processors that this program may use.
    pub cores: usize,
    /// Of all its memory; 0 where that cannot be seen.
    pub memory_bytes: u64,
    /// Its operating system.
    pub system: String,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let memory = fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
            let total = text.lines().next()?.split_whitespace().nth(1)?;
            total.parse::<u64>().ok()
        });
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory.unwrap_or(0) * 1024,
            system: format!("{} {}", std::env::consts::OS, kernel.trim())
                .trim()
                .to_owned(),
        }
    }
}

/// A figure over all rounds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compared {
    /// The load.
    pub load: &'static str,
    /// Its form.
    pub case: String,
    /// What the figure is of.
    pub measure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// For each target, the figure of each round.
    pub rounds: Vec<Vec<f64>>,
    /// For each target, the median.
    pub medians: Vec<Option<f64>>,
    /// The first target's median by the second's.
    pub ratio: Option<f64>,
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// When it was finished, as seconds since 1970.
    pub time: u64,
    /// This program's version.
    pub version: &'static str,
    /// On what.
    pub machine: Machine,
    /// What it ran against.
    pub targets: Vec<String>,
    /// Seconds that each load was measured.
    pub seconds: f64,
    /// The figures, in the order of the loads.
    pub figures: Vec<Compared>,
}

/// Figures as they come in.
pub(super) struct Collected {
    targets: Vec<String>,
    seconds: f64,
    order: Vec<(Load, String, &'static str, &'static str)>,
    values: BTreeMap<(&'static str, String, &'static str), Vec<Vec<f64>>>,
}

impl Collected {
    pub(super) fn new(options: &BenchOptions) -> Self {
        Self {
            targets: options.targets.iter().map(ToString::to_string).collect(),
            seconds: options.duration.as_secs_f64(),
            order: Vec::new(),
            values: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, target: usize, load: Load, cases: Vec<Case>) {
        for case in cases {
            for measure in case.measures {
                let key = (load.name(), case.name.clone(), measure.name);
                let values = self.values.entry(key).or_insert_with(|| {
                    self.order
                        .push((load, case.name.clone(), measure.name, measure.unit));
                    vec![Vec::new(); self.targets.len()]
                });
                if let Some(values) = values.get_mut(target) {
                    values.push(measure.value);
                }
            }
        }
    }

    pub(super) fn report(mut self) -> Report {
        let figures = self.order.iter().map(|(load, case, measure, unit)| {
            let key = (load.name(), case.clone(), *measure);
            let rounds = self.values.remove(&key).unwrap_or_default();
            let medians: Vec<_> = rounds.iter().map(|values| median(values)).collect();
            let ratio = match medians[..] {
                [Some(first), Some(second)] if second > 0.0 => Some(first / second),
                _ => None,
            };
            Compared {
                load: load.name(),
                case: case.clone(),
                measure,
                unit,
                rounds,
                medians,
                ratio,
            }
        });
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Report {
            time: now.as_secs(),
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::this(),
            figures: figures.collect(),
            targets: self.targets,
            seconds: self.seconds,
        }
    }
}

pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (
        sorted.get(sorted.len().checked_sub(1)? / 2)?,
        sorted.get(sorted.len() / 2)?,
    );
    Some(f64::midpoint(*low, *high))
}

impl Report {
    /// Writes it as aligned columns.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let machine = &self.machine;
        writeln!(
            out,
            "{} cores, {:.0} GiB, {}; medians of {:.0} s each; latency from the scheduled time",
            machine.cores,
            machine.memory_bytes as f64 / (1u64 << 30) as f64,
            machine.system,
            self.seconds,
        )?;
        let mut last = "";
        for figure in &self.figures {
            if figure.load != last {
                last = figure.load;
                write!(out, "\n{:<58}", figure.load)?;
                for target in &self.targets {
                    write!(out, "{target:>16}")?;
                }
                writeln!(
                    out,
                    "{}",
                    if self.targets.len() == 2 {
                        "   ratio"
                    } else {
                        ""
                    }
                )?;
            }
            let mut line = format!("  {:<26}{:<30}", figure.case, name_of(figure));
            for median in &figure.medians {
                let _ = write!(
                    line,
                    "{:>16}",
                    median.map(number).unwrap_or_else(|| "-".into())
                );
            }
            if let Some(ratio) = figure.ratio {
                let _ = write!(line, "{ratio:>8.2}");
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn name_of(figure: &Compared) -> String {
    match figure.unit {
        "" => figure.measure.to_owned(),
        unit => format!("{}, {unit}", figure.measure),
    }
}

/// Three digits that mean something.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => {
            let digits = format!("{value:.0}");
            let mut grouped = String::new();
            for (place, digit) in digits.chars().enumerate() {
                if place > 0 && (digits.len() - place) % 3 == 0 && !grouped.ends_with('-') {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            grouped
        }
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short_and_medians_are_in_the_middle() {
        let shown = [0.123, 5.0, 12.34, 123.4, 1234.0, 1_234_567.0, -1234.0].map(number);
        assert_eq!(
            shown,
            [
                "0.12",
                "5.00",
                "12.3",
                "123",
                "1,234",
                "1,234,567",
                "-1,234"
            ]
        );
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
