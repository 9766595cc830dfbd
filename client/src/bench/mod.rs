//! `listwatch bench`: the loads that a state-sync server has to bear, against Listwatch and,
//! for comparison, against etcd.
//!
//! # What is equal for both
//! Connections, streams, tasks, HTTP/2 windows, the stubs' code generator, and what is done
//! with an event: eight bytes of its value are read and its latency recorded. Each load and each
//! round gets a server of its own with an empty folder, where bench starts the servers.
//!
//! # What is not
//! An object of Listwatch is larger on the wire than a key of etcd (it has a uid and a time of
//! its own), and is decoded as such. A WatchMany response names every watch that it is for, so
//! that what several of them want is decoded once; etcd sends it once for each.
//!
//! Latency is counted from when a write was *scheduled*: a server that stalls the writer does
//! not hide what it did to those who would have written meanwhile. Where writers write as fast as
//! they can, a write is scheduled when the one before it is acknowledged.

mod connection;
pub(crate) mod latency;
mod loads;
pub(crate) mod process;
pub(crate) mod report;
pub(crate) mod server;
pub(crate) mod target;
pub(crate) mod watching;
pub(crate) mod writing;

/// etcd's stubs.
#[allow(clippy::all, missing_docs, unreachable_pub)]
mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}

use std::{path::PathBuf, time::Duration};

pub use self::{
    loads::Load,
    process::raise_descriptor_limit,
    report::{Case, Machine, Measure, Report},
    target::{System, Target},
};
use self::{report::Collected, server::Server};

/// What to run against what.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The servers; with two, ratios are reported, first to second.
    pub targets: Vec<Target>,
    /// The loads, in order.
    pub loads: Vec<Load>,
    /// How often each load runs against each target. The order of the targets alternates.
    pub rounds: usize,
    /// How long a load is measured.
    pub duration: Duration,
    /// How long it runs before.
    pub warmup: Duration,
    /// Bytes of a value.
    pub object_bytes: usize,
    /// Writes a second, where a load has a rate.
    pub rate: u32,
    /// Watches; `None`: as many as the load has by itself.
    pub watches: Option<usize>,
    /// Clients that write at a time; `None`: as the load has it.
    pub writers: Option<usize>,
    /// Objects of the loads that read or follow a large state; `None`: as the load has it.
    pub objects: Option<usize>,
    /// Watches of the same stream differ, so that the server cannot serve them as one.
    pub distinct: bool,
    /// Where servers that are started here get their folders.
    pub data_parent: PathBuf,
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            loads: Vec::new(),
            rounds: 1,
            duration: Duration::from_secs(10),
            warmup: Duration::from_secs(2),
            object_bytes: 512,
            rate: 200,
            watches: None,
            writers: None,
            objects: None,
            distinct: false,
            data_parent: std::env::temp_dir(),
        }
    }
}

/// Why a load could not be run.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The target is not understood, or its binary is not there.
    #[error("{0}")]
    Target(String),
    /// The server did not start, or ended.
    #[error("{0}")]
    Server(String),
    /// A call failed that the load needs.
    #[error("{what}: {status}")]
    Call {
        /// What was tried.
        what: &'static str,
        /// What came back.
        status: Box<tonic::Status>,
    },
    /// No connection came about.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// Where to.
        address: String,
        /// Why not.
        error: tonic::transport::Error,
    },
    /// Something did not come that should have.
    #[error("{0}")]
    Missing(String),
}

impl BenchError {
    fn call(what: &'static str) -> impl FnOnce(tonic::Status) -> Self {
        move |status| Self::Call {
            what,
            status: Box::new(status),
        }
    }
}

/// Runs the loads; `progress` hears what is being done.
///
/// # Errors
/// [`BenchError`] if a server cannot be had or fails under a load.
pub async fn run(
    options: &BenchOptions,
    mut progress: impl FnMut(&str),
) -> Result<Report, BenchError> {
    let mut collected = Collected::new(options);
    for load in &options.loads {
        for round in 0..options.rounds {
            let mut order: Vec<_> = options.targets.iter().enumerate().collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for (place, target) in order {
                if !load.suits(target.system()) {
                    continue;
                }
                progress(&format!(
                    "{} against {target}, round {} of {}",
                    load.name(),
                    round + 1,
                    options.rounds
                ));
                let server = Server::of(target, &options.data_parent).await?;
                let ran = load.run(&server, options).await;
                server.stop().await;
                collected.add(place, *load, ran?);
            }
        }
    }
    Ok(collected.report())
}
