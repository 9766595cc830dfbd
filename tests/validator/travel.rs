//! What clients saw of the time, over all their streams and reads, before and after restarts.
//!
//! | check | promise |
//! | --- | --- |
//! | 15 | no silence of a stream is longer than its bookmark interval |
//! | 24 | who has seen a revision of a store never sees that store at a lower one |
//! | 25 | a revision of a key in a store is one version, whoever sees it, and when |

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use listwatch::v1::{self, EventType};

use super::{
    Violation,
    model::{Name, name_of},
};

/// A client saw a store at a revision.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Who reads one thing after the other: a watch with its resumptions, a poller.
    pub client: String,
    /// Which history it was of.
    pub store: String,
    pub called_at: Duration,
    pub returned_at: Duration,
    pub revision: i64,
    /// Objects in the versions that they have at their revisions.
    pub shown: Vec<v1::Resource>,
}

/// The objects of a response that show a version as it is: not those of deletions, which show
/// the last state with the deletion's revision.
pub fn shown_by(response: &v1::WatchResponse) -> Vec<v1::Resource> {
    let events = response.events.iter();
    let whole = events
        .clone()
        .filter(|event| !matches!(event.r#type(), EventType::Deleted | EventType::Unchanged));
    let now = whole.filter_map(|event| event.resource.clone());
    now.chain(events.filter_map(|event| event.previous.clone()))
        .collect()
}

/// Checks 24 and 25, over everything that was seen.
pub fn check_travel(seen: &[Seen]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut lines: BTreeMap<(&str, &str), Vec<&Seen>> = BTreeMap::new();
    for one in seen {
        let line = lines.entry((&one.client, &one.store)).or_default();
        line.push(one);
    }
    for ((client, store), line) in lines {
        let mut returned: Vec<_> = line.iter().map(|s| (s.returned_at, s.revision)).collect();
        returned.sort_unstable();
        for one in line {
            let before = returned.partition_point(|(at, _)| *at < one.called_at);
            let highest = returned[..before]
                .iter()
                .map(|(_, revision)| *revision)
                .max();
            if let Some(highest) = highest.filter(|highest| one.revision < *highest) {
                let (at, revision) = (one.called_at, one.revision);
                let what =
                    format!("{client} saw {store} at {highest}, then, at {at:?}, at {revision}");
                found.push(Violation { check: 24, what });
            }
        }
    }
    let mut versions: BTreeMap<(&str, i64, Name), (&v1::Resource, &str)> = BTreeMap::new();
    for one in seen {
        for resource in &one.shown {
            let name = name_of(resource);
            match versions.entry((&one.store, resource.revision, name)) {
                Entry::Vacant(entry) => {
                    entry.insert((resource, &one.client));
                }
                Entry::Occupied(entry) => {
                    let (other, by) = entry.get();
                    if *other != resource {
                        let client = &one.client;
                        let what = format!("{client} saw {resource:?}, {by} saw {other:?}");
                        found.push(Violation { check: 25, what });
                    }
                }
            }
        }
    }
    found
}

/// Check 15, in simulated time: when a stream spoke, from its first bookmark to its end, and
/// when it could not have been heard (a fault of the network, a reader that paused). `slack`:
/// how late the network may be.
pub fn check_silence(
    spoke: &[Duration],
    until: Duration,
    interval: Duration,
    slack: Duration,
    excused: &[(Duration, Duration)],
) -> Vec<Violation> {
    let mut found = Vec::new();
    let next = spoke.iter().skip(1).copied().chain([until]);
    for (from, to) in spoke.iter().copied().zip(next) {
        let mut excused = excused.iter();
        let is_excused = excused.any(|(began, ended)| *began <= to && *ended >= from);
        if to > from + interval + slack && !is_excused {
            let what = format!("silence from {from:?} to {to:?}, bookmarks every {interval:?}");
            found.push(Violation { check: 15, what });
        }
    }
    found
}
