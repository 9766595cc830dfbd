//! Collections and their watches in numbers.

use std::{collections::HashMap, fmt, sync::Arc};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use super::sheet::{Labels, Sheet};
use crate::{
    hub::{CollectionFigures, Hub, ResumeStep, Standing},
    store::Collection,
};

/// The label of all collections that have none of their own.
const OTHER: &str = "_other";

/// Levels of one collection, or of all others together.
#[derive(Default)]
struct Levels {
    objects: u64,
    standings: [u64; Standing::NAMES.len()],
    cache_events: u64,
    cache_capacity: u64,
    cache_bytes: u64,
    /// `None`: of several collections.
    cache_oldest: Option<i64>,
    lag: u64,
}

pub(super) struct HubSheet(pub(super) Arc<Hub>);

impl fmt::Debug for HubSheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HubSheet")
    }
}

impl Collector for HubSheet {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut sheet = Sheet(encoder);
        let figures = self.0.figures().by_collection();
        let figures: Vec<_> = figures
            .iter()
            .map(|(name, figures)| (label(name.as_ref()), figures.as_ref()))
            .collect();
        self.levels(&mut sheet, &figures)?;
        counts(&mut sheet, &figures)?;
        self.totals(&mut sheet)
    }
}

fn label(name: Option<&Collection>) -> &str {
    name.map_or(OTHER, Collection::as_str)
}

impl HubSheet {
    fn read_levels(&self) -> HashMap<Option<Collection>, Levels> {
        let hub = &self.0;
        let named = |name: &Collection| hub.figures().is_named(name).then(|| name.clone());
        let mut levels: HashMap<_, Levels> = HashMap::new();
        for count in hub.counts() {
            let name = named(&count.collection);
            let oldest = name.is_some().then(|| count.cache_oldest.to_wire());
            let level = levels.entry(name).or_default();
            for (sum, watches) in level.standings.iter_mut().zip(count.standings) {
                *sum += watches;
            }
            level.cache_events += count.cache_events as u64;
            level.cache_capacity += count.cache_capacity as u64;
            level.cache_bytes += count.cache_bytes as u64;
            level.cache_oldest = oldest;
        }
        for (name, objects) in hub.store().status().collections {
            levels.entry(named(&name)).or_default().objects += objects;
        }
        hub.lags(|name, lag| {
            let level = levels.entry(named(name)).or_default();
            level.lag = level.lag.max(lag);
        });
        levels
    }

    fn levels(&self, sheet: &mut Sheet<'_>, figures: &[(&str, &CollectionFigures)]) -> fmt::Result {
        let mut read: HashMap<String, Levels> = self
            .read_levels()
            .into_iter()
            .map(|(name, levels)| (label(name.as_ref()).to_owned(), levels))
            .collect();
        let levels: Vec<(&str, Levels)> = figures
            .iter()
            .map(|(name, _)| (*name, read.remove(*name).unwrap_or_default()))
            .collect();
        let of = |value: fn(&Levels) -> u64| {
            levels
                .iter()
                .map(move |(name, level)| (collection(name), value(level) as i64))
        };
        sheet.gauges("lw_objects", "Objects that exist", of(|l| l.objects))?;
        sheet.gauges(
            "lw_cache_events",
            "Events in the watch cache's window",
            of(|l| l.cache_events),
        )?;
        sheet.gauges(
            "lw_cache_capacity",
            "Events that the window can hold now; 0: no cache",
            of(|l| l.cache_capacity),
        )?;
        sheet.gauges(
            "lw_cache_bytes",
            "Bytes of the watch cache, state and window, roughly",
            of(|l| l.cache_bytes),
        )?;
        let oldest = levels
            .iter()
            .filter_map(|(name, level)| Some((collection(name), level.cache_oldest?)));
        sheet.gauges(
            "lw_cache_oldest_revision",
            "A watch can start after this revision without reading the log",
            oldest,
        )?;
        sheet.gauges(
            "lw_watch_lag_revisions_max",
            "Revisions that the slowest watch is behind",
            of(|l| l.lag),
        )?;
        let watches = levels.iter().flat_map(|(name, level)| {
            let states = Standing::NAMES.into_iter().zip(level.standings);
            states.map(move |(state, count)| {
                (vec![("collection", *name), ("state", state)], count as i64)
            })
        });
        sheet.gauges("lw_watches", "Open watches, by what they are at", watches)
    }

    fn totals(&self, sheet: &mut Sheet<'_>) -> fmt::Result {
        const STEPS: [(&str, ResumeStep); 5] = [
            ("window", ResumeStep::Window),
            ("log", ResumeStep::Log),
            ("net_difference", ResumeStep::NetDifference),
            ("manifest", ResumeStep::Manifest),
            ("initial_state", ResumeStep::InitialState),
        ];
        let resumes = self.0.resumes();
        sheet.counters(
            "lw_watch_resumes",
            "Watches resumed, by the step that served",
            STEPS.map(|(name, step)| (vec![("step", name)], resumes.of(step))),
        )?;
        sheet.gauge(
            "lw_cache_revision",
            "Everything up to this revision is in the watch caches",
            self.0.applied().to_wire(),
        )?;
        sheet.histogram(
            "lw_event_delivery_seconds",
            "Time from an event's commit until it is handed to the transport, of watches that had caught up",
            &self.0.figures().delivery.read(),
        )?;
        sheet.histogram(
            "lw_watch_lag_revisions",
            "Revisions that watches are behind, sampled every 5 s",
            &self.0.figures().lag.read(),
        )
    }
}

fn collection(name: &str) -> Labels<'_> {
    vec![("collection", name)]
}

fn counts(sheet: &mut Sheet<'_>, figures: &[(&str, &CollectionFigures)]) -> fmt::Result {
    /// One value a collection.
    fn of<'a>(
        figures: &'a [(&'a str, &'a CollectionFigures)],
        value: fn(&CollectionFigures) -> u64,
    ) -> impl Iterator<Item = (Labels<'a>, u64)> {
        figures
            .iter()
            .map(move |(name, figures)| (collection(name), value(figures)))
    }
    /// Several, by another label; what never happened makes no series.
    fn by<'a, I: Iterator<Item = (&'static str, u64)> + 'a>(
        figures: &'a [(&'a str, &'a CollectionFigures)],
        label: &'static str,
        values: fn(&'a CollectionFigures) -> I,
    ) -> impl Iterator<Item = (Labels<'a>, u64)> {
        figures.iter().flat_map(move |(name, figures)| {
            values(figures)
                .filter(|(_, count)| *count > 0)
                .map(move |(value, count)| (vec![("collection", *name), (label, value)], count))
        })
    }
    sheet.counters(
        "lw_cache_hits",
        "Times that a watch found its place in the window",
        of(figures, |f| f.hits.get()),
    )?;
    sheet.counters(
        "lw_cache_misses",
        "Times that a watch had to read the log",
        of(figures, |f| f.misses.get()),
    )?;
    sheet.counters(
        "lw_watches_opened",
        "Watches opened, by how they started",
        by(figures, "start", |f| f.opened()),
    )?;
    sheet.counters(
        "lw_watches_closed",
        "Watches that ended, by why",
        by(figures, "reason", |f| f.closed()),
    )?;
    sheet.counters(
        "lw_events_sent",
        "Events sent to watches, by type",
        by(figures, "type", |f| f.sent()),
    )?;
    sheet.counters(
        "lw_event_bytes_sent",
        "Bytes of responses to watches",
        of(figures, |f| f.sent_bytes.get()),
    )?;
    sheet.counters(
        "lw_bookmarks_sent",
        "Bookmarks sent, with events or alone",
        of(figures, |f| f.bookmarks.get()),
    )?;
    sheet.counters(
        "lw_changes_coalesced",
        "Changes that watches of the newest state left out",
        of(figures, |f| f.coalesced.get()),
    )
}
