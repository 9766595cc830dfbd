//! What an event is to one selector.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;

use super::window::{ENCODINGS, SharedCommit};
use crate::{
    selector::Selector,
    store::{Change, Commit, DeleteCause, Event, Object, Uid},
};

/// One event as a client gets it.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What it says.
    pub kind: DeliveryKind,
    /// The object after it; of a deletion: the last state with the deletion's revision.
    pub object: Arc<Object>,
    /// The version before, where it is known.
    pub previous: Option<Arc<Object>>,
    /// The commit that it comes from and the event's place there, where it is one event.
    origin: Option<(Arc<SharedCommit>, usize)>,
    /// It is the same for every watch, and so is its encoding.
    verbatim: bool,
}

impl Delivery {
    pub(crate) fn alone(kind: DeliveryKind, object: Arc<Object>) -> Self {
        Self {
            kind,
            object,
            previous: None,
            origin: None,
            verbatim: false,
        }
    }

    /// It says of an event just what happened: the same for every selector.
    fn says(&self, event: &Event) -> bool {
        let same = match event.change {
            Change::Created => self.kind == DeliveryKind::Added,
            Change::Updated => self.kind == DeliveryKind::Modified,
            Change::Deleted(cause) => self.kind == DeliveryKind::Deleted(Some(cause)),
        };
        same && Arc::ptr_eq(&self.object, &event.object)
    }

    /// Its encoding without the previous version, made once for all watches that deliver
    /// the same; `None` if it is not shared. `view` counts the encodings, below
    /// [`ENCODINGS`].
    pub fn encoded_once(&self, view: usize, encode: impl FnOnce() -> Bytes) -> Option<&Bytes> {
        debug_assert!(view < ENCODINGS);
        let (commit, event) = self.origin.as_ref().filter(|_| self.verbatim)?;
        commit.encoded(*event, view, encode)
    }

    /// The commit that it comes from; `None` where it sums several up, or is state.
    pub fn commit(&self) -> Option<&Commit> {
        self.origin.as_ref().map(|(shared, _)| &shared.commit)
    }
}

/// The kinds of delivery: see `EventType` in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryKind {
    /// Part of the state.
    Existing,
    /// Created, or matches from now on.
    Added,
    /// Changed.
    Modified,
    /// Gone; `None`: it only stopped matching.
    Deleted(Option<DeleteCause>),
    /// Catching up: exists and has not changed.
    Unchanged,
    /// Catching up: exists and has changed.
    Upserted,
}

/// Every change of some commits that a selector covers.
pub(super) fn every_change(selector: &Selector, commits: &[Arc<SharedCommit>]) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    for shared in commits {
        for (place, event) in shared.commit.events.iter().enumerate() {
            if let Some(mut delivery) = transition(selector, event) {
                delivery.verbatim = delivery.says(event);
                delivery.origin = Some((shared.clone(), place));
                deliveries.push(delivery);
            }
        }
    }
    deliveries
}

/// What some commits come to for each object, and how many changes that leaves out.
pub(super) fn latest(selector: &Selector, commits: &[Arc<SharedCommit>]) -> (Vec<Delivery>, u64) {
    let events = commits.iter().flat_map(|shared| &shared.commit.events);
    let mut changes = 0;
    let wanted = events.filter(|e| selector.matches_name(&e.object.key.object));
    // A watch of every change would deliver it.
    let counted =
        wanted.inspect(|event| changes += u64::from(transition(selector, event).is_some()));
    let merged = merge(counted);
    let deliveries = merged
        .iter()
        .filter_map(|event| transition(selector, event));
    let deliveries: Vec<_> = deliveries.collect();
    let left_out = changes - deliveries.len() as u64;
    (deliveries, left_out)
}

/// What one change is to this selector. An object that starts to match is added, one
/// that stops is deleted, with its last matching state (Kubernetes' rule).
fn transition(selector: &Selector, event: &Event) -> Option<Delivery> {
    let object = &event.object;
    if !selector.matches_name(&object.key.object) {
        return None;
    }
    let matches = |object: &Object| selector.matches_content(object);
    let previous = event.previous.as_ref();
    // A previous version that is not known may have matched: a deletion too many is
    // allowed, one too few is not.
    let before = || previous.is_none_or(|p| matches(p));
    let deliver = |kind, object: &Arc<Object>| {
        let previous = previous.cloned();
        Some(Delivery {
            previous,
            ..Delivery::alone(kind, object.clone())
        })
    };
    match event.change {
        Change::Created if matches(object) => deliver(DeliveryKind::Added, object),
        Change::Created => None,
        Change::Deleted(cause) if before() => deliver(DeliveryKind::Deleted(Some(cause)), object),
        Change::Deleted(_) => None,
        Change::Updated => match (before(), matches(object)) {
            (true, true) => deliver(DeliveryKind::Modified, object),
            (false, true) => deliver(DeliveryKind::Added, object),
            (true, false) => {
                let last = previous.unwrap_or(object);
                let gone = last.deleted_at(object.revision, object.update_time);
                deliver(DeliveryKind::Deleted(None), &Arc::new(gone))
            }
            (false, false) => None,
        },
    }
}

/// One change of a net difference. What does not match now may have matched before,
/// and the old labels are gone: it is a deletion, of which a client may hear in vain.
pub(super) fn net(selector: &Selector, event: &Event) -> Option<Delivery> {
    let object = &event.object;
    if !selector.matches_name(&object.key.object) {
        return None;
    }
    let kind = match event.change {
        Change::Deleted(cause) => DeliveryKind::Deleted(Some(cause)),
        _ if selector.matches_content(object) => DeliveryKind::Upserted,
        _ => DeliveryKind::Deleted(None),
    };
    Some(Delivery::alone(kind, object.clone()))
}

/// Merges the events of each object (by uid) into one: from the version before the first
/// to the last. An object that came and went leaves nothing. Ordered by the last event.
fn merge<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<Event> {
    let mut merged: Vec<Option<Event>> = Vec::new();
    let mut place: HashMap<Uid, usize> = HashMap::new();
    for event in events {
        let earlier = place.insert(event.object.uid, merged.len());
        let earlier = earlier.and_then(|place| merged[place].take());
        merged.push(match earlier {
            None => Some(event.clone()),
            Some(earlier) if earlier.change == Change::Created && event.is_deletion() => None,
            Some(earlier) => Some(Event {
                change: match earlier.change {
                    Change::Created => Change::Created,
                    _ => event.change,
                },
                object: event.object.clone(),
                previous_revision: earlier.previous_revision,
                previous: earlier.previous,
            }),
        });
    }
    merged.into_iter().flatten().collect()
}
