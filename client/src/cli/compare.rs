//! `listwatch compare`: the same watches over gRPC, gRPC-web and HTTP, side by side.

use std::{fs, io::Write, path::PathBuf, time::Duration};

use clap::Args;
use listwatch::v1::Resource;
use serde_json::Value;
use tokio::sync::oneshot;

use super::{
    args::FileArgs,
    exit::{CommandError, Exit},
    kinds,
    measuring::{FigureFormat, Interruption, measure},
    session::Server,
    span,
    tally::complain,
};
use crate::{
    bench::{BenchError, System, Target},
    compare::{self, CompareError, CompareOptions, Objects, Report, Site},
};

/// As many servers stand beside Listwatch.
const MAX_TARGETS: usize = 8;
/// The largest token file that is read.
const MAX_TOKEN_BYTES: u64 = 64 * 1024;

/// How long it may take to take away what was written, when the command is interrupted.
const TIDYING: Duration = Duration::from_secs(60);

const DECODES: &str = "\
What each side decodes: gRPC and gRPC-web the whole message, by prost: key, uid, revision and
labels as values, the object's JSON as bytes. HTTP each line, by serde_json: type, apiVersion,
kind and all metadata as values, spec, status and data as JSON text that is checked and not
taken apart. Bytes are counted at the socket, for all the same way. gRPC shares a connection
among 100 watches; gRPC-web and HTTP have one each over HTTP/1.1, or share them with --http2.

What is written is in the namespace listwatch-compare, and is deleted at the end, also when
the command is interrupted once. A server that
--server names is told to drop its history once: use one that has nothing else to do.";

/// Flags of `compare`.
#[derive(Args, Debug)]
#[command(after_help = DECODES)]
pub(super) struct CompareArgs {
    #[command(flatten)]
    files: FileArgs,
    /// Another server of Kubernetes' API to put beside it, such as http://127.0.0.1:8001 (with
    /// ,pid=PID for its processor time and memory); may be given several times
    #[arg(long = "target", value_name = "URL")]
    targets: Vec<Site>,
    /// A file with the bearer token that the targets are called with
    #[arg(long, value_name = "FILE", requires = "targets")]
    token_file: Option<PathBuf>,
    /// How often everything runs; medians are shown
    #[arg(long, default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long each load is measured
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = span::parse)]
    duration: Duration,
    /// How long it runs before
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = span::parse)]
    warmup: Duration,
    /// Watches of each load
    #[arg(long, default_value_t = 100, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    watches: u32,
    /// Writes a second, where latency is measured and while a client is away
    #[arg(long, default_value_t = 100, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Objects of the states that clients begin with
    #[arg(long, default_value = "10000,100000", value_delimiter = ',', value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    objects: Vec<u32>,
    /// How long a client is away before it comes back
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = span::parse)]
    away: Duration,
    /// HTTP/2 for gRPC-web and HTTP too, with 100 watches a connection
    #[arg(long)]
    http2: bool,
    /// Also draw the figures: a file of SVG
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Where a server that is started here gets its folder
    #[arg(long, value_name = "FOLDER")]
    data_parent: Option<PathBuf>,
    /// How to write the figures
    #[arg(short, long, value_enum, default_value_t)]
    output: FigureFormat,
}

impl CompareArgs {
    fn options(&self, server: Option<&Server>) -> Result<CompareOptions, CommandError> {
        if self.targets.len() > MAX_TARGETS {
            let why = format!("there are more than {MAX_TARGETS} targets");
            return Err(CommandError::usage(why));
        }
        let mut targets = self.targets.clone();
        if let Some(file) = &self.token_file {
            let token = token(file).map_err(CommandError::usage)?;
            for target in &mut targets {
                *target = target
                    .clone()
                    .with_token(&token)
                    .map_err(CommandError::usage)?;
            }
        }
        let server = match server {
            None => "listwatchd".to_owned(),
            Some(server) if server.address.contains("://") => server.address.clone(),
            Some(server) => format!("http://{}", server.address),
        };
        let server: Target = server.parse().map_err(CommandError::usage)?;
        if server.system() != System::Listwatch {
            return Err(CommandError::usage(format!(
                "{server} is no Listwatch server"
            )));
        }
        Ok(CompareOptions {
            server,
            targets,
            objects: self.read().map_err(|error| failed(&error))?,
            rounds: self.rounds as usize,
            duration: self.duration,
            warmup: self.warmup,
            watches: self.watches as usize,
            rate: self.rate,
            states: self.objects.iter().map(|count| *count as usize).collect(),
            away: self.away,
            http2: self.http2,
            data_parent: self.data_parent.clone().unwrap_or_else(std::env::temp_dir),
        })
    }

    /// What is written: the manifests, or pods.
    fn read(&self) -> Result<Objects, CompareError> {
        if self.files.files.is_empty() {
            return Objects::pods();
        }
        let mut collection = String::new();
        let mut manifests = Vec::new();
        // One more than is allowed shows that there are too many.
        for (origin, object) in self.files.objects(None).take(Objects::MAX_MANIFESTS + 1) {
            let bad = |why: &str| CompareError::Objects(format!("{origin}: {why}"));
            let resource: Resource = object.map_err(|why| bad(&why))?.resource;
            let manifest: Value = serde_json::from_slice(&resource.value)
                .map_err(|_| bad("is no manifest of Kubernetes"))?;
            let text = |name: &str| {
                manifest
                    .get(name)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
            };
            if text("apiVersion").is_empty() || text("kind").is_empty() {
                return Err(bad("is no manifest of Kubernetes"));
            }
            if !kinds::is_namespaced(text("apiVersion"), text("kind")) {
                return Err(bad("is of a kind without namespaces"));
            }
            if collection.is_empty() {
                collection = kinds::collection(text("apiVersion"), text("kind"));
            }
            manifests.push(manifest);
        }
        Objects::of(&collection, manifests)
    }
}

fn token(file: &PathBuf) -> Result<String, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let size = fs::metadata(file).map_err(|error| failed(&error))?.len();
    if size > MAX_TOKEN_BYTES {
        return Err(failed(&"too large for a token"));
    }
    fs::read_to_string(file).map_err(|error| failed(&error))
}

/// Compares, prints the figures, and draws them if so asked.
pub(super) async fn run(
    args: CompareArgs,
    server: Option<&Server>,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let options = args.options(server)?;
    let (tell, told) = oneshot::channel();
    let running = async move {
        let interrupted = async {
            // Without anyone to say so, it never is.
            if told.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        compare::run(&options, interrupted, complain).await
    };
    let patience = TIDYING;
    let report = measure(running, Some(Interruption { tell, patience }), failed).await?;
    args.output.write(&report, Report::write_table, out)?;
    draw(&report, args.picture)
}

fn draw(report: &Report, file: Option<PathBuf>) -> Result<(), CommandError> {
    let Some(file) = file else { return Ok(()) };
    fs::write(&file, report.picture())
        .map_err(|error| CommandError::new(Exit::Failed, format!("{}: {error}", file.display())))
}

fn failed(error: &CompareError) -> CommandError {
    let exit = match error {
        CompareError::Objects(_) | CompareError::Server(BenchError::Target(_)) => Exit::Usage,
        CompareError::Target { .. }
        | CompareError::Server(BenchError::Connect { .. } | BenchError::Server(_)) => {
            Exit::Unavailable
        }
        CompareError::Server(_) | CompareError::Failed { .. } | CompareError::Interrupted => {
            Exit::Failed
        }
    };
    CommandError::new(exit, error.to_string())
}
