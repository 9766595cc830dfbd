//! `listwatch compare`: the same objects and the same watches over gRPC, over gRPC-web and over
//! HTTP with JSON lines as Kubernetes has them, side by side.
//!
//! # What is equal for all
//! The objects, and how they are written: against Listwatch over gRPC in every case, so that
//! only the way of the watches differs. The number of watches and what they select (one
//! namespace of one collection). Where bytes are counted: below HTTP, at the socket. The
//! latency, from the moment at which a write was scheduled, which travels in a label. At full
//! speed writers wait when the watches are a thousand events behind: it is the watches that are
//! measured, not how far writers can run ahead of them.
//!
//! # What each side decodes
//! - gRPC: `WatchResponse` by tonic and prost, over HTTP/2, up to 100 watches a connection. Key,
//!   uid, revision and labels become values of their own; the object's JSON stays bytes.
//! - gRPC-web: the same messages, taken out of the frames of the body, by prost.
//! - HTTP: each line by `serde_json` into a typed struct: type, apiVersion, kind, and the
//!   metadata with its labels and annotations become values of their own; spec, status and data
//!   stay as text (`RawValue`), which is checked to be JSON all the same.
//!
//! gRPC-web and HTTP have one HTTP/1.1 connection a watch, or share HTTP/2 connections among 100
//! if so asked.
//!
//! # What is not equal
//! A gRPC event has names and labels beside the object, whose JSON has them too: it is how
//! Listwatch stores manifests, whoever wrote them. After a compaction gRPC gets the net
//! difference; HTTP has to read the state again, which is its protocol. Processor time has that
//! of the writes in it, which are as many for a delivery on each side of Listwatch; of another
//! server they are HTTP's.

mod catching_up;
mod client;
mod frame;
mod http;
mod line;
mod loads;
mod objects;
mod picture;
mod report;
mod side;
mod stream;
mod watching;
mod wire;
mod writers;

use std::{
    path::PathBuf,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

pub use self::{
    objects::Objects,
    report::{Figure, Report},
    side::{Site, Transport},
};
use self::{
    report::Collected,
    side::{Host, Side},
};
use crate::bench::{BenchError, Target};

/// What to compare, and how.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// The Listwatch server.
    pub server: Target,
    /// Other servers of Kubernetes' API, beside it.
    pub targets: Vec<Site>,
    /// What is written.
    pub objects: Objects,
    /// How often everything runs; medians are shown.
    pub rounds: usize,
    /// How long each load is measured.
    pub duration: Duration,
    /// How long it runs before.
    pub warmup: Duration,
    /// Watches.
    pub watches: usize,
    /// Writes a second, where latency is measured, and while a client is away.
    pub rate: u32,
    /// Sizes of the state that a client begins with.
    pub states: Vec<usize>,
    /// How long a client is away.
    pub away: Duration,
    /// HTTP/2 also for gRPC-web and HTTP.
    pub http2: bool,
    /// Where a server that is started here gets its folder.
    pub data_parent: PathBuf,
}

/// Why nothing could be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The server could not be had.
    #[error(transparent)]
    Server(#[from] BenchError),
    /// A target is not there, or does not speak Kubernetes' API.
    #[error("{target}: {why}")]
    Target {
        /// Which.
        target: String,
        /// Why not.
        why: String,
    },
    /// The objects cannot be used.
    #[error("{0}")]
    Objects(String),
    /// It was interrupted. What was written has been taken away again.
    #[error("interrupted")]
    Interrupted,
    /// A request or a stream failed.
    #[error("{side}: {what}: {why}")]
    Failed {
        /// Of which side.
        side: String,
        /// What was being done.
        what: &'static str,
        /// What came of it.
        why: String,
    },
}

/// Compares; `progress` hears what is being done. When `interrupted` completes, it ends early and
/// takes away what it has written.
///
/// # Errors
/// [`CompareError`] if a server cannot be had, fails, or leaves something out, and if it was
/// interrupted.
pub async fn run(
    options: &CompareOptions,
    interrupted: impl Future<Output = ()> + Send,
    mut progress: impl FnMut(&str),
) -> Result<Report, CompareError> {
    // Before anything is started or written.
    for target in &options.targets {
        target.check(&options.objects).await?;
    }
    if let Some(site) = Site::running(&options.server) {
        site.check(&options.objects).await?;
    }
    let mut namespaces = Vec::new();
    let interrupted = pin!(interrupted);
    let report = rounds(options, interrupted, &mut namespaces, &mut progress).await;
    for site in namespaces {
        let dropped = site.drop_namespace().await;
        if report.is_ok() {
            dropped?;
        }
    }
    report
}

/// `namespaces` gets the sites where one was made: they go at the very end, since a server may
/// need a while for it.
async fn rounds(
    options: &CompareOptions,
    mut interrupted: Pin<&mut (impl Future<Output = ()> + Send)>,
    namespaces: &mut Vec<Site>,
    progress: &mut impl FnMut(&str),
) -> Result<Report, CompareError> {
    let sides = Side::all(options);
    let mut collected = Collected::new(options, &sides);
    for round in 0..options.rounds {
        // None has the first place in every round.
        for place in 0..sides.len() {
            let place = (place + round) % sides.len();
            let side = &sides[place];
            let mut tell = |what: &str| {
                let round = round + 1;
                progress(&format!(
                    "{side}, round {round} of {}: {what}",
                    options.rounds
                ));
            };
            let host = Arc::new(side.host(options).await?);
            if side.make_namespace(&host).await? {
                namespaces.push(host.site.clone());
            }
            let measured = tokio::select! {
                measured = loads::run(side, &host, options, &mut tell) => measured,
                () = &mut interrupted => Err(CompareError::Interrupted),
            };
            // What was written is taken away again, also after a failure; the failure counts.
            let mut cleared = host.clear(side, options).await;
            released(&host).await;
            if !host.is_own() && matches!(measured, Err(CompareError::Interrupted)) {
                // And what was on its way when the writers ended.
                cleared = host.clear(side, options).await;
            }
            collected.add(place, measured?);
            // What was measured is worth more than a clean end.
            if let Err(error) = cleared {
                tell(&error.to_string());
            }
        }
    }
    Ok(collected.report())
}

/// Waits until the last watch has let go of a server, so that nothing of it is left when the next
/// one begins.
async fn released(host: &Arc<Host>) {
    const PATIENCE: Duration = Duration::from_secs(5);
    const POLL: Duration = Duration::from_millis(5);
    let gone = async {
        while Arc::strong_count(host) > 1 {
            tokio::time::sleep(POLL).await;
        }
    };
    // What holds it longer lets go of it when the runtime ends.
    let _ = tokio::time::timeout(PATIENCE, gone).await;
}
