//! What the hub measures: by collection, for a bounded number of them.
//!
//! A collection gets figures of its own when it first holds something. Once
//! [`MAX_NAMED_COLLECTIONS`] have theirs, and for what is only watched, there is one set for
//! all: whoever makes up names makes no series.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;

use super::Revision;
use crate::{
    hub::DeliveryKind,
    limits::MAX_NAMED_COLLECTIONS,
    measure::{Counter, Histogram, Level, NUMBERS, TIMES},
    store::Collection,
};

/// Measured of all collections since the hub was started.
#[derive(Debug)]
pub struct HubFigures {
    named: RwLock<HashMap<Collection, Arc<CollectionFigures>>>,
    other: Arc<CollectionFigures>,
    /// From the time of a commit until its events are handed to the transport, of watches
    /// that had caught up.
    pub delivery: Histogram,
    /// Revisions that watches are behind, sampled.
    pub lag: Histogram,
}

impl Default for HubFigures {
    fn default() -> Self {
        Self {
            named: RwLock::default(),
            other: Arc::default(),
            delivery: Histogram::of_times(TIMES),
            lag: Histogram::of_numbers(NUMBERS),
        }
    }
}

impl HubFigures {
    /// The figures of a collection that holds something.
    pub(super) fn claim(&self, name: &Collection) -> Arc<CollectionFigures> {
        if let Some(known) = self.named.read().get(name) {
            return known.clone();
        }
        let mut named = self.named.write();
        if named.len() >= MAX_NAMED_COLLECTIONS && !named.contains_key(name) {
            return self.other.clone();
        }
        named.entry(name.clone()).or_default().clone()
    }

    /// For collections without figures of their own.
    pub(super) fn other(&self) -> &Arc<CollectionFigures> {
        &self.other
    }

    /// The collection has figures of its own.
    pub fn is_named(&self, name: &Collection) -> bool {
        self.named.read().contains_key(name)
    }

    /// All figures, in the order of names; `None`: those of all other collections.
    pub fn by_collection(&self) -> Vec<(Option<Collection>, Arc<CollectionFigures>)> {
        let named = self.named.read();
        let named = named.iter().map(|(n, f)| (Some(n.clone()), f.clone()));
        let mut all: Vec<_> = named.collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.push((None, self.other.clone()));
        all
    }
}

/// Counts of one collection, or of all that have none of their own.
#[derive(Debug, Default)]
pub struct CollectionFigures {
    opened: [Counter; Opening::NAMES.len()],
    closed: [Counter; Closing::NAMES.len()],
    sent: [Counter; EVENT_TYPES.len()],
    /// Bytes of responses.
    pub sent_bytes: Counter,
    /// Bookmarks sent, with events or alone.
    pub bookmarks: Counter,
    /// Changes that watches of the newest state left out.
    pub coalesced: Counter,
    /// Times that a watch found its place in the window.
    pub hits: Counter,
    /// Times that it had to read the log.
    pub misses: Counter,
}

/// The types of event that are sent, as the API names them.
pub const EVENT_TYPES: [&str; 6] = [
    "existing",
    "added",
    "modified",
    "deleted",
    "unchanged",
    "upserted",
];

impl DeliveryKind {
    /// Its place in [`EVENT_TYPES`].
    pub(crate) fn place(self) -> usize {
        match self {
            Self::Existing => 0,
            Self::Added => 1,
            Self::Modified => 2,
            Self::Deleted(_) => 3,
            Self::Unchanged => 4,
            Self::Upserted => 5,
        }
    }
}

impl CollectionFigures {
    pub(super) fn open(&self, opening: Opening) {
        self.opened[opening as usize].inc();
    }

    /// A watch has ended.
    pub fn close(&self, closing: Closing) {
        self.closed[closing as usize].inc();
    }

    /// Events were sent; a number for each of [`EVENT_TYPES`].
    pub fn send(&self, events: &[u32; EVENT_TYPES.len()]) {
        for (counter, count) in self.sent.iter().zip(events) {
            counter.add(u64::from(*count));
        }
    }

    /// Watches opened, by how they started.
    pub fn opened(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        named(&Opening::NAMES, &self.opened)
    }

    /// Watches that ended, by why.
    pub fn closed(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        named(&Closing::NAMES, &self.closed)
    }

    /// Events sent, by type.
    pub fn sent(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        named(&EVENT_TYPES, &self.sent)
    }
}

fn named<'a>(
    names: &'a [&'static str],
    counters: &'a [Counter],
) -> impl Iterator<Item = (&'static str, u64)> + 'a {
    names.iter().copied().zip(counters.iter().map(Counter::get))
}

/// How a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// With everything that exists.
    InitialState = 0,
    /// After a point that the client had reached.
    Resume = 1,
    /// With what comes.
    Now = 2,
}

impl Opening {
    const NAMES: [&'static str; 3] = ["initial_state", "resume", "now"];
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Closing {
    /// The client hung up, or its connection broke.
    #[default]
    Client = 0,
    /// It was asked for the initial state only, which is complete.
    Complete = 1,
    /// It has lived as long as watches do.
    Lifetime = 2,
    /// The server is going away.
    Drain = 3,
    /// History is compacted that it still needed.
    Compacted = 4,
    /// The server has stopped taking up changes.
    Stopped = 5,
    /// It was too far behind.
    Slow = 6,
    /// The store failed.
    Error = 7,
    /// It goes on as part of another of the same stream that wants the same.
    Joined = 8,
    /// Its connection has come of age.
    ConnectionAge = 9,
}

impl Closing {
    const NAMES: [&'static str; 10] = [
        "client",
        "complete",
        "lifetime",
        "drain",
        "compacted",
        "stopped",
        "slow",
        "error",
        "joined",
        "connection_age",
    ];
}

/// What a watch is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The state is being sent.
    Initial = 0,
    /// What it missed is being sent.
    CatchingUp = 1,
    /// It follows the window.
    Live = 2,
    /// It has fallen behind the window and reads the log.
    Lagging = 3,
}

impl Standing {
    /// From its number.
    pub(super) fn from_place(place: u8) -> Self {
        match place {
            0 => Self::Initial,
            1 => Self::CatchingUp,
            2 => Self::Live,
            _ => Self::Lagging,
        }
    }

    /// Their names, in order.
    pub const NAMES: [&'static str; 4] = ["initial", "catching_up", "live", "lagging"];
}

/// How many watches are at what.
#[derive(Debug, Default)]
pub(super) struct Standings([Level; Standing::NAMES.len()]);

impl Standings {
    pub(super) fn enter(&self, standing: Standing) {
        self.0[standing as usize].rise();
    }

    pub(super) fn leave(&self, standing: Standing) {
        self.0[standing as usize].fall();
    }

    pub(super) fn read(&self) -> [u64; Standing::NAMES.len()] {
        [0, 1, 2, 3].map(|place: usize| self.0[place].get())
    }
}

/// Revisions that one watch is behind.
pub(super) fn lag(applied: Revision, reached: Option<Revision>) -> u64 {
    reached.map_or(0, |reached| applied.get().saturating_sub(reached.get()))
}
