//! The flags of `listwatchd`, and the options that they become.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use bytesize::ByteSize;
use clap::{ArgAction, Args, Parser, Subcommand};
use listwatch_server::{
    Origin, ServerOptions, ServiceOptions,
    hub::HubOptions,
    limits::CEILING_OBJECT_BYTES,
    selector::SelectableFields,
    store::{Collection, StoreOptions},
};

use crate::{kinds_file, limit_flags::Limits, logging::LogFormat};

/// The Listwatch server: a versioned object store with List and Watch over gRPC.
///
/// Every flag can also be set by a variable (LISTWATCH_ and the flag's name in capitals,
/// '_' for '-') or by its name in the file that --config names. Exit codes: 0 ended as
/// asked, 1 failed, 2 flags not understood.
#[derive(Debug, Parser)]
#[command(name = "listwatchd", version, args_conflicts_with_subcommands = false)]
pub(crate) struct Flags {
    #[command(flatten)]
    pub(crate) serve: Serve,

    /// How log lines look
    #[arg(
        long,
        global = true,
        env = "LISTWATCH_LOG_FORMAT",
        value_enum,
        default_value = "text"
    )]
    pub(crate) log_format: LogFormat,

    /// Read settings from this TOML file; names are those of the flags
    #[arg(long, global = true, env = "LISTWATCH_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) task: Option<Task>,
}

/// What is done instead of serving.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Write all objects of the data folder to a file (of a running server: `listwatch export`)
    Export(Export),
    /// Make a new store in an empty data folder from an export; it gets a new store id
    Import(Import),
    /// Save what is readable of a damaged data folder into a new store; the old one is kept
    Repair,
    /// Print a completion script
    Completions {
        /// For which shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// The file to write; '-' is standard output
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The export to read; '-' is standard input
    pub(crate) file: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The address to listen on
    #[arg(
        long,
        env = "LISTWATCH_LISTEN",
        default_value = "127.0.0.1:7450",
        value_name = "ADDRESS"
    )]
    pub(crate) listen: String,

    /// Also serve /metrics, /livez and /readyz at this address, until the server has ended
    #[arg(long, env = "LISTWATCH_METRICS_LISTEN", value_name = "ADDRESS")]
    pub(crate) metrics_listen: Option<String>,

    /// Send traces to this OpenTelemetry collector (OTLP over gRPC), such as
    /// http://127.0.0.1:4317; by default OTEL_EXPORTER_OTLP_ENDPOINT says where, if anywhere
    #[arg(long, env = "LISTWATCH_OTLP_ENDPOINT", value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,

    /// The folder that holds the store; made if need be
    #[arg(
        long,
        global = true,
        env = "LISTWATCH_DATA_DIR",
        default_value = "./listwatch-data",
        value_name = "FOLDER"
    )]
    pub(crate) data_dir: PathBuf,

    /// Keep everything in memory, gone when the server ends
    #[arg(long, env = "LISTWATCH_EPHEMERAL", action = ArgAction::Set, num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    pub(crate) ephemeral: bool,

    /// Events that a collection's watch cache holds at least; it grows and shrinks by itself
    #[arg(
        long,
        env = "LISTWATCH_DEFAULT_WATCH_CACHE_SIZE",
        default_value_t = 100,
        value_name = "EVENTS"
    )]
    pub(crate) default_watch_cache_size: usize,

    /// The same for single collections, such as pods=5000,leases=0 (0: no cache, read the log)
    #[arg(long, env = "LISTWATCH_WATCH_CACHE_SIZES", value_delimiter = ',', value_parser = cache_size, value_name = "COLLECTION=EVENTS")]
    pub(crate) watch_cache_sizes: Vec<(Collection, usize)>,

    /// The longest silence of a watch that asks for no interval of its own
    #[arg(long, env = "LISTWATCH_WATCH_BOOKMARK_FREQUENCY", default_value = "1m", value_parser = duration, value_name = "DURATION")]
    pub(crate) watch_bookmark_frequency: Duration,

    /// A watch ends, after a bookmark, at a random time between this and twice this
    #[arg(long, env = "LISTWATCH_MIN_REQUEST_TIMEOUT", default_value = "30m", value_parser = duration, value_name = "DURATION")]
    pub(crate) min_request_timeout: Duration,

    /// How often history is compacted; 0: never
    #[arg(long, alias = "etcd-compaction-interval", env = "LISTWATCH_COMPACTION_INTERVAL", default_value = "5m", value_parser = duration_or_zero, value_name = "DURATION")]
    pub(crate) compaction_interval: Duration,

    /// How much history compaction leaves
    #[arg(long, env = "LISTWATCH_HISTORY_RETENTION", default_value = "5m", value_parser = duration_or_zero, value_name = "DURATION")]
    pub(crate) history_retention: Duration,

    /// How long deletions are remembered at least, so that clients that were away hear of them
    #[arg(long, env = "LISTWATCH_TOMBSTONE_RETENTION", default_value = "24h", value_parser = duration_or_zero, value_name = "DURATION")]
    pub(crate) tombstone_retention: Duration,

    /// The most deletions that are remembered
    #[arg(
        long,
        env = "LISTWATCH_MAX_TOMBSTONES",
        default_value_t = 1_000_000,
        value_name = "COUNT"
    )]
    pub(crate) max_tombstones: usize,

    /// The largest value of an object
    #[arg(long, env = "LISTWATCH_MAX_OBJECT_SIZE", default_value = "1536KiB", value_parser = object_size, value_name = "SIZE")]
    pub(crate) max_object_size: usize,

    /// Operations of one batch
    #[arg(long, env = "LISTWATCH_MAX_BATCH_OPERATIONS", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "COUNT")]
    pub(crate) max_batch_operations: u32,

    /// Refuse puts when the store takes more than this; 0: as long as the disk has room
    #[arg(long, env = "LISTWATCH_STORAGE_QUOTA", default_value = "8GiB", value_parser = size, value_name = "SIZE")]
    pub(crate) storage_quota: u64,

    /// A new segment of the log begins when the newest holds this much
    #[arg(long, env = "LISTWATCH_SEGMENT_SIZE", default_value = "64MiB", value_parser = size, value_name = "SIZE")]
    pub(crate) segment_size: u64,

    /// Fields that selectors may name, such as pods=spec.nodeName,pods=status.phase
    #[arg(long, env = "LISTWATCH_SELECTABLE_FIELDS", value_delimiter = ',', value_parser = field, value_name = "COLLECTION=PATH")]
    pub(crate) selectable_fields: Vec<(Collection, String)>,

    /// Serve the kinds of this file over HTTP beside the built-in ones: a list, YAML or JSON, of
    /// group, version, resource, kind, namespaced, shortNames, categories, status, fields
    #[arg(long, env = "LISTWATCH_KINDS", value_name = "FILE")]
    pub(crate) kinds: Option<PathBuf>,

    /// How long open connections get to end when the server is asked to stop; watches end one
    /// after the other over most of it. A second signal stops at once
    #[arg(long, env = "LISTWATCH_SHUTDOWN_GRACE", default_value = "30s", value_parser = duration_or_zero, value_name = "DURATION")]
    pub(crate) shutdown_grace: Duration,

    /// Web pages of these origins may call this server from a browser (gRPC-web, JSON), such as
    /// https://dashboard.example,http://localhost:3000, or * for any; by default none
    #[arg(
        long,
        env = "LISTWATCH_CORS_ALLOWED_ORIGINS",
        value_delimiter = ',',
        value_name = "ORIGIN"
    )]
    pub(crate) cors_allowed_origins: Vec<Origin>,

    #[command(flatten)]
    pub(crate) limits: Limits,
}

impl Serve {
    pub(crate) fn store_options(&self) -> StoreOptions {
        StoreOptions {
            tombstone_retention: self.tombstone_retention,
            max_tombstones: self.max_tombstones,
            quota_bytes: self.storage_quota,
            segment_bytes: self.segment_size,
            ..StoreOptions::default()
        }
    }

    pub(crate) fn server_options(&self) -> Result<ServerOptions, String> {
        let mut fields = SelectableFields::default();
        for (collection, path) in &self.selectable_fields {
            fields.declare(collection.clone(), [path.as_str()]);
        }
        let cache_sizes: HashMap<_, _> = self.watch_cache_sizes.iter().cloned().collect();
        if cache_sizes.len() != self.watch_cache_sizes.len() {
            return Err("--watch-cache-sizes names a collection twice".to_owned());
        }
        if self.cors_allowed_origins.len() > Origin::MAX_COUNT {
            let most = Origin::MAX_COUNT;
            return Err(format!("--cors-allowed-origins names more than {most}"));
        }
        Ok(ServerOptions {
            hub: HubOptions {
                default_cache_size: self.default_watch_cache_size,
                cache_sizes,
                lag_limit: self.limits.lag(),
                ..HubOptions::default()
            },
            service: ServiceOptions {
                max_object_bytes: self.max_object_size,
                max_batch_operations: self.max_batch_operations as usize,
                bookmark_interval: self.watch_bookmark_frequency,
                min_watch_life: self.min_request_timeout,
                fields,
                ..ServiceOptions::default()
            },
            connections: self.limits.connections(),
            requests: self.limits.requests(),
            compaction_interval: (!self.compaction_interval.is_zero())
                .then_some(self.compaction_interval),
            history_retention: self.history_retention,
            shutdown_grace: self.shutdown_grace,
            cors_allowed_origins: self.cors_allowed_origins.clone(),
            kinds: match &self.kinds {
                Some(file) => kinds_file::read(file)?,
                None => Vec::new(),
            },
        })
    }
}

pub(crate) fn duration_or_zero(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    humantime::parse_duration(text).map_err(|error| format!("{error}; write 30s, 5m or 24h"))
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    match duration_or_zero(text)? {
        Duration::ZERO => Err("must be positive".to_owned()),
        duration => Ok(duration),
    }
}

pub(crate) fn size(text: &str) -> Result<u64, String> {
    let size: ByteSize = text
        .parse()
        .map_err(|error| format!("{error}; write 512MiB or 8GiB"))?;
    Ok(size.as_u64())
}

fn object_size(text: &str) -> Result<usize, String> {
    let limit = CEILING_OBJECT_BYTES;
    match usize::try_from(size(text)?) {
        Ok(size @ 1..) if size <= limit => Ok(size),
        _ => Err(format!("must be between 1 and {limit} bytes")),
    }
}

fn pair(text: &str) -> Result<(Collection, &str), String> {
    let (collection, value) = text.split_once('=').ok_or("write COLLECTION=VALUE")?;
    let collection = Collection::new(collection).map_err(|error| error.to_string())?;
    Ok((collection, value))
}

fn cache_size(text: &str) -> Result<(Collection, usize), String> {
    let (collection, size) = pair(text)?;
    let size = size
        .parse()
        .map_err(|_| format!("{size:?} is no number of events"))?;
    Ok((collection, size))
}

fn field(text: &str) -> Result<(Collection, String), String> {
    let (collection, path) = pair(text)?;
    if path.is_empty() || path.len() > 253 || path.split('.').any(str::is_empty) {
        return Err(format!("{path:?} is no path such as spec.nodeName"));
    }
    Ok((collection, path.to_owned()))
}
