//! What the commands that measure share: a runtime of their own, and how figures are written.

use std::{
    fmt,
    io::{self, Write},
    time::Duration,
};

use clap::ValueEnum;
use serde::Serialize;
use tokio::sync::oneshot;

use super::exit::{CommandError, Exit};

/// How long what was started may take to end when the command is interrupted.
const ENDING: Duration = Duration::from_secs(5);

/// How to write figures.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum FigureFormat {
    /// Aligned columns for people
    #[default]
    Table,
    /// One JSON document, with each round
    Json,
}

/// How a measurement hears that it is interrupted, so that it can tidy up.
pub(super) struct Interruption {
    pub(super) tell: oneshot::Sender<()>,
    /// How long it may take over it; a second interruption ends it at once.
    pub(super) patience: Duration,
}

/// Runs a measurement on all processors: the command line's own runtime has one. What it has
/// started is ended, also when this is interrupted.
pub(super) async fn measure<T, E>(
    measurement: impl Future<Output = Result<T, E>> + Send + 'static,
    interruption: Option<Interruption>,
    failed: impl FnOnce(&E) -> CommandError,
) -> Result<T, CommandError>
where
    T: Send + 'static,
    E: Send + 'static,
{
    crate::bench::raise_descriptor_limit();
    let because = |why: &dyn fmt::Display| CommandError::new(Exit::Failed, why.to_string());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| because(&format_args!("cannot start: {error}")))?;
    let mut running = runtime.spawn(measurement);
    let measured = tokio::select! {
        measured = &mut running => Some(measured),
        _ = tokio::signal::ctrl_c() => match interruption {
            None => None,
            Some(Interruption { tell, patience }) => {
                // Where no one listens any more, it has just ended.
                let _ = tell.send(());
                tokio::select! {
                    ended = tokio::time::timeout(patience, &mut running) => ended.ok(),
                    _ = tokio::signal::ctrl_c() => None,
                }
            }
        },
    };
    let Some(measured) = measured else {
        // It waits, which a thread that runs tasks must not.
        let ending = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(ENDING));
        ending.await.map_err(|error| because(&error))?;
        return Err(because(&"interrupted"));
    };
    runtime.shutdown_background();
    match measured {
        Ok(measured) => measured.map_err(|error| failed(&error)),
        Err(error) => Err(because(&error)),
    }
}

impl FigureFormat {
    /// Writes a report; `table`: for people.
    pub(super) fn write<R: Serialize>(
        self,
        report: &R,
        table: impl FnOnce(&R, &mut dyn Write) -> io::Result<()>,
        out: &mut dyn Write,
    ) -> Result<(), CommandError> {
        let written = match self {
            Self::Table => table(report, out),
            Self::Json => serde_json::to_writer_pretty(&mut *out, report)
                .map_err(io::Error::from)
                .and_then(|()| writeln!(out)),
        };
        written.map_err(CommandError::output)
    }
}
