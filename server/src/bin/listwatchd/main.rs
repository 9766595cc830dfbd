//! `listwatchd`: reads flags and starts the library.

mod backup;
mod config_file;
mod flags;
mod kinds_file;
mod limit_flags;
mod logging;

use std::{io, process::ExitCode};

use clap::{CommandFactory as _, FromArgMatches as _};
use flags::{Flags, Serve, Task};
use listwatch_server::{Server, ServerError};
use tokio::sync::watch;

/// A write allocates dozens of small things on one thread that another frees: with this
/// allocator it takes an eighth less of the processor.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The task failed; standard error says why.
const FAILED: u8 = 1;
/// The flags, the environment or the config file are not understood.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let command = match config_file::as_defaults(Flags::command()) {
        Ok(command) => command,
        Err(error) => return complain(USAGE, &error),
    };
    let flags = match Flags::from_arg_matches(&command.get_matches()) {
        Ok(flags) => flags,
        Err(error) => error.exit(),
    };
    listwatch_server::raise_descriptor_limit();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return complain(FAILED, &format!("cannot start threads: {error}")),
    };
    // Only what serves is traced.
    let collector = match flags.task {
        None => logging::collector(flags.serve.otlp_endpoint.as_deref()),
        Some(_) => None,
    };
    let started = {
        let _within = runtime.enter();
        logging::start(flags.log_format, collector.as_deref())
    };
    let traces = match started {
        Ok(traces) => traces,
        Err(error) => return complain(USAGE, &error),
    };
    let result = match flags.task {
        None => runtime.block_on(serve(flags.serve, traces.is_some())),
        Some(Task::Export(export)) => runtime.block_on(backup::export(export, flags.serve)),
        Some(Task::Import(import)) => backup::import(import, flags.serve),
        Some(Task::Repair) => backup::repair(flags.serve),
        Some(Task::Completions { shell }) => {
            clap_complete::generate(
                shell,
                &mut Flags::command(),
                "listwatchd",
                &mut io::stdout(),
            );
            Ok(())
        }
    };
    drop(traces);
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(FAILED, &error),
    }
}

async fn serve(flags: Serve, traces: bool) -> Result<(), String> {
    let (folder, ephemeral) = (flags.data_dir.clone(), flags.ephemeral);
    let kinds_file = flags.kinds.clone();
    let store_options = flags.store_options();
    let builder = Server::builder().listen(&flags.listen);
    let builder = if ephemeral {
        builder.ephemeral(store_options)
    } else {
        builder.data_dir(&folder, store_options)
    };
    let builder = match &flags.metrics_listen {
        Some(address) => builder.metrics_listen(address),
        None => builder,
    };
    let mut options = flags.server_options()?;
    options.service.traces = traces;
    let signals = signals()?;
    let builder = builder
        .options(options)
        .shutdown(reached(signals.clone(), 1, "going away"))
        .shutdown_now(reached(signals, 2, "ending at once"));
    let server = builder
        .start()
        .await
        .map_err(|error| match (error, &kinds_file) {
            (error @ ServerError::Kind(_), Some(file)) => format!("{}: {error}", file.display()),
            (error, _) => error.to_string(),
        })?;
    let address = server
        .local_addr()
        .map(|a| a.to_string())
        .unwrap_or_default();
    let kept_in = if ephemeral {
        "memory".to_owned()
    } else {
        folder.display().to_string()
    };
    tracing::info!(%address, store = %kept_in, revision = %server.hub().applied(), "serving");
    server.join().await.map_err(|error| error.to_string())?;
    tracing::info!("stopped");
    Ok(())
}

/// How many SIGTERM or SIGINT have come.
fn signals() -> Result<watch::Receiver<u32>, String> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).map_err(|error| format!("cannot handle signals: {error}"));
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    let (count, counted) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            count.send_modify(|count| *count += 1);
        }
    });
    Ok(counted)
}

/// Completes with the signal of this number: the first asks to go away, the second not to wait.
async fn reached(mut signals: watch::Receiver<u32>, number: u32, what: &str) {
    // The counting task ends with the runtime only.
    if signals.wait_for(|count| *count >= number).await.is_ok() {
        tracing::info!("{what}");
    }
}

fn complain(code: u8, error: &str) -> ExitCode {
    use io::Write as _;
    // Where even standard error is closed, the exit code is all that is left to say.
    let _ = writeln!(io::stderr(), "listwatchd: {error}");
    ExitCode::from(code)
}
