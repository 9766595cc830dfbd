//! What was measured, for people and for programs.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::SystemTime,
};

use serde::Serialize;

use super::{CompareOptions, picture, side::Side};
use crate::bench::{
    Machine,
    report::{median, number},
};

/// One figure of one side in one round.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    name: String,
    unit: &'static str,
    value: f64,
}

impl Measured {
    pub(super) fn new(name: impl Into<String>, unit: &'static str, value: f64) -> Self {
        Self {
            name: name.into(),
            unit,
            value,
        }
    }
}

/// A figure of all sides, over all rounds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figure {
    /// What it is of.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// For each side, the figure of each round; empty where a side has none.
    pub rounds: Vec<Vec<f64>>,
    /// For each side, the median.
    pub medians: Vec<Option<f64>>,
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
    /// What stands side by side.
    pub sides: Vec<String>,
    /// Seconds that each load was measured.
    pub seconds: f64,
    /// Watches.
    pub watches: usize,
    /// Writes a second, of the fixed rate.
    pub rate: u32,
    /// Seconds that a client was away.
    pub away: f64,
    /// The collection that the objects are in.
    pub collection: String,
    /// Bytes of the first object, as JSON.
    pub object_bytes: usize,
    /// gRPC-web and HTTP used HTTP/2.
    pub http2: bool,
    /// The figures, in their order.
    pub figures: Vec<Figure>,
}

/// Figures as they come in.
pub(super) struct Collected {
    report: Report,
    places: BTreeMap<String, usize>,
}

impl Collected {
    pub(super) fn new(options: &CompareOptions, sides: &[Side]) -> Self {
        let report = Report {
            time: 0,
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::this(),
            sides: sides.iter().map(ToString::to_string).collect(),
            seconds: options.duration.as_secs_f64(),
            watches: options.watches,
            rate: options.rate,
            away: options.away.as_secs_f64(),
            collection: options.objects.collection().to_owned(),
            object_bytes: options.objects.json(0, 0).len(),
            http2: options.http2,
            figures: Vec::new(),
        };
        Self {
            report,
            places: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, side: usize, measured: Vec<Measured>) {
        let Report { figures, sides, .. } = &mut self.report;
        for measured in measured {
            let place = *self.places.entry(measured.name.clone()).or_insert_with(|| {
                figures.push(Figure {
                    name: measured.name,
                    unit: measured.unit,
                    rounds: vec![Vec::new(); sides.len()],
                    medians: Vec::new(),
                });
                figures.len() - 1
            });
            if let Some(values) = figures.get_mut(place).and_then(|f| f.rounds.get_mut(side)) {
                values.push(measured.value);
            }
        }
    }

    pub(super) fn report(mut self) -> Report {
        for figure in &mut self.report.figures {
            figure.medians = figure.rounds.iter().map(|values| median(values)).collect();
        }
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        self.report.time = now.as_secs();
        self.report
    }
}

impl Figure {
    /// Name and unit.
    pub(super) fn title(&self) -> String {
        match self.unit {
            "" => self.name.clone(),
            unit => format!("{}, {unit}", self.name),
        }
    }
}

impl Report {
    /// What it was measured with, in one line.
    pub(super) fn setting(&self) -> String {
        let Self { machine, .. } = self;
        format!(
            "{} cores, {:.0} GiB, {}; {} watches of {}, objects of {} bytes; medians of {:.0} s \
             each; {} writes/s where the rate is fixed, latency from the scheduled time; gRPC-web \
             and HTTP over {}; away: {} s",
            machine.cores,
            machine.memory_bytes as f64 / (1u64 << 30) as f64,
            machine.system,
            self.watches,
            self.collection,
            self.object_bytes,
            self.seconds,
            self.rate,
            if self.http2 {
                "HTTP/2"
            } else {
                "HTTP/1.1, a connection each"
            },
            number(self.away),
        )
    }

    /// Writes it as aligned columns.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}\n", self.setting())?;
        let titles: Vec<_> = self.figures.iter().map(Figure::title).collect();
        let first = titles.iter().map(String::len).max().unwrap_or(0);
        let width = |side: &str| side.chars().count().max(12) + 2;
        let mut line = format!("{:<first$}", "");
        for side in &self.sides {
            line += &format!("{side:>width$}", width = width(side));
        }
        writeln!(out, "{}", line.trim_end())?;
        for (title, figure) in titles.iter().zip(&self.figures) {
            let mut line = format!("{title:<first$}");
            for (side, median) in self.sides.iter().zip(&figure.medians) {
                let shown = median.map(number).unwrap_or_else(|| "-".into());
                line += &format!("{shown:>width$}", width = width(side));
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// It as a picture: SVG, a panel a figure.
    #[must_use]
    pub fn picture(&self) -> String {
        picture::draw(self)
    }
}
