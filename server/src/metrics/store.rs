//! The store in numbers.

use std::{fmt, sync::Arc};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::sheet::Sheet;
use crate::store::{Store, StoreFigures};

pub(super) struct StoreSheet(pub(super) Arc<dyn Store>);

impl fmt::Debug for StoreSheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreSheet")
    }
}

impl Collector for StoreSheet {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        let known = self.0.progress();
        sheet.gauge(
            "lw_revision",
            "The newest revision, on disk",
            known.revision.to_wire(),
        )?;
        sheet.gauge(
            "lw_compacted_revision",
            "History before this revision is gone",
            known.compacted.to_wire(),
        )?;
        sheet.gauge(
            "lw_tombstone_horizon_revision",
            "Deletions at or below this revision are forgotten",
            known.forgotten.to_wire(),
        )?;
        let sizes = self.0.status();
        sheet.gauge(
            "lw_tombstones",
            "Deletions still remembered",
            sizes.tombstone_count as i64,
        )?;
        sheet.gauge(
            "lw_db_size_bytes",
            "Bytes that the store takes",
            sizes.database_bytes as i64,
        )?;
        sheet.gauge(
            "lw_db_quota_bytes",
            "Puts are refused above this size; 0: no quota",
            sizes.quota_bytes as i64,
        )?;
        sheet.gauge(
            "lw_store_full",
            "1 while puts are refused for want of room",
            i64::from(sizes.full),
        )?;
        match self.0.figures() {
            Some(figures) => work(&mut sheet, &figures),
            None => Ok(()),
        }
    }
}

fn work(sheet: &mut Sheet<'_>, figures: &StoreFigures) -> fmt::Result {
    sheet.histogram(
        "lw_commit_seconds",
        "Time of a group commit, from taking it up until it is visible",
        &figures.commit.read(),
    )?;
    sheet.histogram(
        "lw_fsync_seconds",
        "Part of a group commit that waits for the disk",
        &figures.sync.read(),
    )?;
    sheet.histogram(
        "lw_commit_group_batches",
        "Requests that one group commit made durable",
        &figures.group.read(),
    )?;
    sheet.counter(
        "lw_commit_failures",
        "Group commits that failed",
        figures.failed.get(),
    )?;
    sheet.histogram(
        "lw_compaction_seconds",
        "Time of freeing the room of what was compacted",
        &figures.compaction.read(),
    )?;
    let written = StoreFigures::CHANGES.into_iter().zip(figures.written());
    let written = written.map(|(kind, count)| (vec![("change", kind)], count));
    sheet.counters("lw_changes_written", "Changes written, by kind", written)
}
