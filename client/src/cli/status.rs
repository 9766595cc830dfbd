//! `listwatch status`: the server's figures.

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use listwatch::v1::GetStatusResponse;
use serde::Serialize;

use super::{exit::CommandError, output::write_yaml, session::Server, table::Table, watches};

/// Flags of `status`.
#[derive(Args, Debug)]
pub(super) struct StatusArgs {
    /// How to write them
    #[arg(short, long, value_enum, default_value_t)]
    output: StatusFormat,
    /// The open watches instead: who watches what, since when, and how far behind it is
    #[arg(long)]
    watches: bool,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum StatusFormat {
    /// Aligned columns for people
    #[default]
    Table,
    /// One JSON object
    Json,
    /// One YAML document
    Yaml,
}

/// Prints them.
pub(super) async fn run(
    args: StatusArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let session = &server.connect().await?;
    if args.watches {
        return watches::run(session, args.output, out).await;
    }
    let status = session
        .status()
        .await
        .map_err(|error| CommandError::call(&error))?;
    let form = StatusForm::new(&status);
    let written = match args.output {
        StatusFormat::Table => write_table(&status, out),
        StatusFormat::Json => serde_json::to_writer_pretty(&mut *out, &form)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out)),
        StatusFormat::Yaml => write_yaml(out, &form),
    };
    written.map_err(CommandError::output)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusForm<'a> {
    version: &'a str,
    store_id: &'a str,
    revision: i64,
    compact_revision: i64,
    tombstone_revision: i64,
    object_count: i64,
    watch_count: i64,
    database_bytes: i64,
    database_quota_bytes: i64,
    storage_full: bool,
    features: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<LimitsForm>,
    collections: Vec<CollectionForm<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LimitsForm {
    max_object_bytes: i64,
    max_batch_operations: i32,
    max_page_size: i32,
    max_labels: i32,
    max_selector_requirements: i32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CollectionForm<'a> {
    collection: &'a str,
    object_count: i64,
    watch_count: i64,
    cache_bytes: i64,
    cache_events: i64,
    cache_capacity: i64,
    cache_oldest_revision: i64,
    cache_hits: i64,
    cache_misses: i64,
}

impl<'a> StatusForm<'a> {
    fn new(status: &'a GetStatusResponse) -> Self {
        let collections = status.collections.iter().map(|it| CollectionForm {
            collection: &it.collection,
            object_count: it.object_count,
            watch_count: it.watch_count,
            cache_bytes: it.cache_bytes,
            cache_events: it.cache_events,
            cache_capacity: it.cache_capacity,
            cache_oldest_revision: it.cache_oldest_revision,
            cache_hits: it.cache_hits,
            cache_misses: it.cache_misses,
        });
        Self {
            version: &status.version,
            store_id: &status.store_id,
            revision: status.revision,
            compact_revision: status.compact_revision,
            tombstone_revision: status.tombstone_revision,
            object_count: status.object_count,
            watch_count: status.watch_count,
            database_bytes: status.database_bytes,
            database_quota_bytes: status.database_quota_bytes,
            storage_full: status.storage_full,
            features: &status.features,
            limits: status.limits.as_ref().map(|it| LimitsForm {
                max_object_bytes: it.max_object_bytes,
                max_batch_operations: it.max_batch_operations,
                max_page_size: it.max_page_size,
                max_labels: it.max_labels,
                max_selector_requirements: it.max_selector_requirements,
            }),
            collections: collections.collect(),
        }
    }
}

fn write_table(status: &GetStatusResponse, out: &mut dyn Write) -> io::Result<()> {
    let quota = match status.database_quota_bytes {
        0 => String::new(),
        quota => format!(" of {}", bytes(quota)),
    };
    let full = if status.storage_full {
        ": FULL, writes are refused"
    } else {
        ""
    };
    for (name, value) in [
        ("version", status.version.clone()),
        ("store", status.store_id.clone()),
        ("revision", status.revision.to_string()),
        ("compacted up to", status.compact_revision.to_string()),
        (
            "deletions known since",
            status.tombstone_revision.to_string(),
        ),
        ("objects", status.object_count.to_string()),
        ("watches", status.watch_count.to_string()),
        (
            "database",
            format!("{}{quota}{full}", bytes(status.database_bytes)),
        ),
    ] {
        writeln!(out, "{name:<22} {value}")?;
    }
    if status.collections.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut table = Table::new(&[
        "COLLECTION",
        "OBJECTS",
        "WATCHES",
        "CACHE",
        "EVENTS",
        "HITS",
        "MISSES",
    ]);
    let rows = status.collections.iter().map(|it| {
        vec![
            it.collection.clone(),
            it.object_count.to_string(),
            it.watch_count.to_string(),
            bytes(it.cache_bytes),
            format!("{}/{}", it.cache_events, it.cache_capacity),
            it.cache_hits.to_string(),
            it.cache_misses.to_string(),
        ]
    });
    table.write(out, rows.collect())
}

/// A size for people.
pub(super) fn bytes(count: i64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = count as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        unit => format!("{size:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_short() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 40), "3.0 TiB");
    }
}
