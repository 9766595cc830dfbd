//! `listwatch bench`: loads a server and says how it bears it.

use std::{io::Write, path::PathBuf, time::Duration};

use clap::Args;

use super::{
    exit::{CommandError, Exit},
    measuring::{FigureFormat, measure},
    session::Server,
    span,
    tally::complain,
};
use crate::bench::{self, BenchError, BenchOptions, Load, System, Target};

/// Flags of `bench`.
#[derive(Args, Debug)]
pub(super) struct BenchArgs {
    /// writes, fan-out-rate, fan-out-rate-many, fan-out-full, fan-out-full-100, selective,
    /// idle-memory, slow-readers, list, lagging, restart; all of them if none is named
    #[arg(value_name = "LOAD")]
    loads: Vec<Load>,
    /// What to load, instead of --server: http://HOST:PORT or etcd://HOST:PORT (with ,pid=PID for
    /// its processor time and memory), or listwatchd or etcd (or listwatchd=PATH, etcd=PATH) to
    /// start one with an empty folder for each load. Of two, the ratios are shown
    #[arg(long = "target", value_name = "TARGET")]
    targets: Vec<Target>,
    /// The process of --server on this machine, for its processor time and memory
    #[arg(long, value_name = "PID", conflicts_with = "targets")]
    pid: Option<u32>,
    /// How often each load runs against each target; medians are shown
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long each load is measured
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = span::parse)]
    duration: Duration,
    /// How long it runs before
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = span::parse)]
    warmup: Duration,
    /// Bytes of a value
    #[arg(long, default_value_t = 512, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(8..=1_000_000))]
    object_bytes: u32,
    /// Writes a second, of the loads that have a rate
    #[arg(long, default_value_t = 200, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: u32,
    /// Watches, instead of as many as the load has
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    watches: Option<u32>,
    /// Clients that write at a time, instead of as many as the load has
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    writers: Option<u32>,
    /// Objects of list, and revisions of lagging, instead of as many as they have
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    objects: Option<u32>,
    /// Watches of the same stream want the same in different words, so that none can be served
    /// together with another
    #[arg(long)]
    distinct: bool,
    /// Where servers that are started here get their folders
    #[arg(long, value_name = "FOLDER")]
    data_parent: Option<PathBuf>,
    /// How to write the figures
    #[arg(short, long, value_enum, default_value_t)]
    output: FigureFormat,
}

impl BenchArgs {
    fn options(&self, server: &Server) -> BenchOptions {
        let count = |flag: Option<u32>| flag.map(|count| count as usize);
        let targets = match &self.targets[..] {
            [] => vec![Target::Running {
                system: System::Listwatch,
                address: server.address.trim_start_matches("http://").to_owned(),
                pid: self.pid,
            }],
            named => named.to_vec(),
        };
        let defaults = BenchOptions::default();
        BenchOptions {
            // What one of several targets cannot have is left out; of one alone it is all.
            loads: match &self.loads[..] {
                [] => Load::ALL.to_vec(),
                named => named.to_vec(),
            },
            targets,
            rounds: self.rounds as usize,
            duration: self.duration,
            warmup: self.warmup,
            object_bytes: self.object_bytes as usize,
            rate: self.rate,
            watches: count(self.watches),
            writers: count(self.writers),
            objects: count(self.objects),
            distinct: self.distinct,
            data_parent: self.data_parent.clone().unwrap_or(defaults.data_parent),
        }
    }
}

/// Runs the loads and prints the figures.
pub(super) async fn run(
    args: BenchArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let options = args.options(server);
    let running = async move { bench::run(&options, complain).await };
    let report = measure(running, None, failed).await?;
    args.output.write(&report, bench::Report::write_table, out)
}

fn failed(error: &BenchError) -> CommandError {
    let exit = match error {
        BenchError::Target(_) => Exit::Usage,
        BenchError::Connect { .. } | BenchError::Server(_) => Exit::Unavailable,
        BenchError::Call { .. } | BenchError::Missing(_) => Exit::Failed,
    };
    CommandError::new(exit, error.to_string())
}
