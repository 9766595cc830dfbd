//! The `listwatch` command line: one module a command, one a concern.
//!
//! Not part of the library's stable interface; it is public so that `main.rs` stays a
//! shell around [`run`], and so that other programs can embed the commands.

mod apply;
mod archive;
mod args;
mod bench;
mod compact;
mod compare;
mod completions;
mod delete;
mod documents;
mod events;
mod exact_json;
mod exit;
mod export;
mod form;
mod get;
mod import;
mod kinds;
mod list;
mod manifest;
mod measuring;
mod output;
mod parse;
mod progress;
mod selector;
mod session;
mod span;
mod status;
mod table;
mod tally;
mod target;
mod watch;
mod watches;
mod write;

pub use self::exit::Exit;

use std::{
    io::{self, BufWriter, Write},
    time::Duration,
};

use clap::{Args, CommandFactory as _, Parser, Subcommand};

use self::{
    exit::{CommandError, EXIT_HELP},
    session::Server,
    tally::complain,
};

/// Where a server listens by itself.
const DEFAULT_SERVER: &str = "127.0.0.1:7450";

/// Lists, watches and writes the objects of a Listwatch server.
#[derive(Debug, Parser)]
#[command(name = "listwatch", version, after_help = EXIT_HELP, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Args, Debug)]
struct GlobalArgs {
    /// The server [default: 127.0.0.1:7450; compare starts one of its own]
    #[arg(
        short,
        long,
        global = true,
        env = "LISTWATCH_SERVER",
        hide_env_values = true,
        value_name = "HOST:PORT"
    )]
    server: Option<String>,
    /// How long one call may take, retries included (30s if not given); for watch and
    /// export how long all of it may take
    #[arg(long, global = true, value_name = "DURATION", value_parser = span::parse)]
    timeout: Option<Duration>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show objects by name
    Get(get::GetArgs),
    /// Show the objects of a collection
    List(list::ListArgs),
    /// Show the objects of a collection, or one of them, and then every change
    Watch(watch::WatchArgs),
    /// Write objects that must not exist yet
    Create(write::CreateArgs),
    /// Write objects, replacing what is there
    Put(write::PutArgs),
    /// Delete objects
    Delete(delete::DeleteArgs),
    /// Make the stored objects what files say; Kubernetes manifests or what -o yaml prints
    Apply(apply::ApplyArgs),
    /// Drop history
    Compact(compact::CompactArgs),
    /// Show the server's revisions, sizes, limits and watches
    Status(status::StatusArgs),
    /// Write all objects, as of one revision, to a file: the backup of a running server
    Export(export::ExportArgs),
    /// Write the objects of an export to a running server as ordinary changes
    Import(import::ImportArgs),
    /// Load a server and show how it bears it, beside etcd if you like
    Bench(bench::BenchArgs),
    /// Run the same watches over gRPC, gRPC-web and HTTP (Kubernetes' wire format), side by side
    Compare(compare::CompareArgs),
    /// Write a completion script for a shell
    Completions(completions::CompletionsArgs),
}

/// Runs one command. Output goes to `out`, complaints to standard error.
pub async fn run(cli: Cli, out: &mut dyn Write) -> Exit {
    let Err(error) = dispatch(cli, out).await else {
        return Exit::Ok;
    };
    if !error.message.is_empty() {
        complain(&error.message);
    }
    error.exit
}

async fn dispatch(cli: Cli, out: &mut dyn Write) -> Result<(), CommandError> {
    if let Command::Completions(args) = &cli.command {
        return completions::run(args, Cli::command(), out);
    }
    let is_named = cli.global.server.is_some();
    let server = &Server {
        address: cli
            .global
            .server
            .unwrap_or_else(|| DEFAULT_SERVER.to_owned()),
        timeout: cli.global.timeout,
    };
    match cli.command {
        Command::Get(args) => get::run(args, server, out).await,
        Command::List(args) => list::run(args, server, out).await,
        Command::Watch(args) => watch::run(args, server, out).await,
        Command::Create(args) => write::create(args, server, out).await,
        Command::Put(args) => write::put(args, server, out).await,
        Command::Delete(args) => delete::run(args, server, out).await,
        Command::Apply(args) => apply::run(args, server, out).await,
        Command::Compact(args) => compact::run(args, server, out).await,
        Command::Status(args) => status::run(args, server, out).await,
        Command::Export(args) => export::run(args, server, out).await,
        Command::Import(args) => import::run(args, server, out).await,
        Command::Bench(args) => bench::run(args, server, out).await,
        Command::Compare(args) => compare::run(args, is_named.then_some(server), out).await,
        Command::Completions(_) => Ok(()),
    }
}

/// The whole program: reads the command line and runs it on a runtime of its own.
pub fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // `--help | head` is no error either.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Ok
            };
        }
    };
    // The connection has a thread of its own: a reader that stops reading our output
    // (a pager) must not keep us from answering the server's pings.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("cannot start: {error}"));
            return Exit::Failed;
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let exit = runtime.block_on(run(cli, &mut out));
    let flushed = out.flush().map_err(CommandError::output);
    // What could not be flushed is not worth another try when this is dropped.
    let _ = out.into_parts();
    // Streams that are still open are cut off, not waited for.
    runtime.shutdown_background();
    match flushed {
        Err(error) if error.exit != Exit::Ok && exit == Exit::Ok => {
            complain(&error.message);
            error.exit
        }
        _ => exit,
    }
}
