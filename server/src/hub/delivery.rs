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

#[cfg(test)]
mod tests {
    use std::{cell::Cell, time::SystemTime};

    use super::*;
    use crate::{
        selector::{LabelCondition, LabelRequirement},
        store::{Collection, Content, Key, Revision},
    };

    fn object(uid: u128, revision: u64, app: &str) -> Arc<Object> {
        let content = Content {
            labels: [("app".to_owned(), app.to_owned())].into(),
            ..Content::default()
        };
        Arc::new(Object::new(
            Key::new("pods", "", "a").unwrap(),
            Uid(uid),
            Revision::new(revision),
            Revision::new(1),
            SystemTime::UNIX_EPOCH,
            content,
        ))
    }

    fn event(change: Change, object: &Arc<Object>, previous: Option<&Arc<Object>>) -> Event {
        Event {
            change,
            object: object.clone(),
            previous_revision: previous.map(|previous| previous.revision),
            previous: previous.cloned(),
        }
    }

    /// Whose `app` is this.
    fn apps(app: &str) -> Selector {
        let label = LabelRequirement {
            key: "app".into(),
            condition: LabelCondition::In(vec![app.into()]),
        };
        let pods = Collection::new("pods").unwrap();
        Selector::new(pods, None, None, "", vec![label], vec![], Arc::default())
    }

    fn all() -> Selector {
        Selector::all(Collection::new("pods").unwrap())
    }

    /// An object that is created as `web`, becomes `db`, and is deleted.
    fn life() -> Vec<Arc<SharedCommit>> {
        let deleted = Change::Deleted(DeleteCause::Request);
        let (web, db, gone) = (object(1, 1, "web"), object(1, 2, "db"), object(1, 3, "db"));
        let events = [
            event(Change::Created, &web, None),
            event(Change::Updated, &db, Some(&web)),
            event(deleted, &gone, Some(&db)),
        ];
        let commits = events.into_iter().map(|event| Commit {
            revision: event.object.revision,
            time: SystemTime::UNIX_EPOCH,
            events: vec![event],
            trace: None,
        });
        commits.map(SharedCommit::new).collect()
    }

    fn kinds(deliveries: &[Delivery]) -> Vec<DeliveryKind> {
        deliveries.iter().map(|delivery| delivery.kind).collect()
    }

    const DELETED: DeliveryKind = DeliveryKind::Deleted(Some(DeleteCause::Request));

    #[test]
    fn a_change_that_is_the_same_for_all_is_encoded_once_and_another_never_taken_for_it() {
        let commits = life();
        let encoded = |deliveries: &[Delivery]| -> Vec<bool> {
            let once = deliveries.iter().map(|delivery| {
                let new = Cell::new(false);
                let made = delivery.encoded_once(0, || {
                    new.set(true);
                    Bytes::from(format!("{:?}", delivery.kind))
                });
                if let Some(made) = made {
                    assert_eq!(*made, format!("{:?}", delivery.kind));
                }
                made.is_some() && !new.get()
            });
            once.collect()
        };
        let everything = every_change(&all(), &commits);
        assert_eq!(encoded(&everything), [false, false, false]);
        assert_eq!(encoded(&every_change(&all(), &commits)), [true, true, true]);
        let web = every_change(&apps("web"), &commits);
        assert_eq!(
            kinds(&web),
            [DeliveryKind::Added, DeliveryKind::Deleted(None)]
        );
        assert_eq!(encoded(&web), [true, false]);
        let db = every_change(&apps("db"), &commits);
        assert_eq!(kinds(&db), [DeliveryKind::Added, DELETED]);
        assert_eq!(encoded(&db), [false, true]);
        // Nothing else is shared with those of another view.
        assert!(everything[0].encoded_once(1, Bytes::new).is_some());
    }

    #[test]
    fn what_several_changes_come_to_is_one_change_from_the_first_to_the_last() {
        let commits = life();
        let (deliveries, left_out) = latest(&all(), &commits[..2]);
        assert_eq!(kinds(&deliveries), [DeliveryKind::Added]);
        assert_eq!(deliveries[0].object.revision, Revision::new(2));
        assert_eq!(left_out, 1);
        let (deliveries, left_out) = latest(&all(), &commits[1..]);
        assert_eq!(kinds(&deliveries), [DELETED]);
        let previous = deliveries[0].previous.as_ref().unwrap();
        assert_eq!(previous.revision, Revision::new(1));
        assert_eq!(left_out, 1);
        // It came and went.
        let (deliveries, left_out) = latest(&all(), &commits);
        assert_eq!((deliveries.len(), left_out), (0, 3));
        // One that is made anew under the same name is another.
        let mut commits = life();
        let anew = object(2, 4, "web");
        commits.push(SharedCommit::new(Commit {
            revision: anew.revision,
            time: SystemTime::UNIX_EPOCH,
            events: vec![event(Change::Created, &anew, None)],
            trace: None,
        }));
        let (deliveries, _) = latest(&all(), &commits[1..]);
        assert_eq!(kinds(&deliveries), [DELETED, DeliveryKind::Added]);
        // What a selector does not cover is no change that was left out.
        let (deliveries, left_out) = latest(&apps("web"), &commits[1..3]);
        assert_eq!((kinds(&deliveries), left_out), (vec![DELETED], 0));
    }

    #[test]
    fn a_net_difference_deletes_what_may_have_matched() {
        let commits = life();
        let net = |selector: Selector| -> Vec<DeliveryKind> {
            let events = commits.iter().flat_map(|c| &c.commit.events);
            let deliveries = events.filter_map(|event| net(&selector, event));
            kinds(&deliveries.collect::<Vec<_>>())
        };
        let upserted = DeliveryKind::Upserted;
        let gone = DeliveryKind::Deleted(None);
        assert_eq!(net(all()), [upserted, upserted, DELETED]);
        assert_eq!(net(apps("web")), [upserted, gone, DELETED]);
        assert_eq!(net(apps("db")), [gone, upserted, DELETED]);
        let pods = Collection::new("pods").unwrap();
        let named = Selector::new(pods, None, Some("b"), "", vec![], vec![], Arc::default());
        assert_eq!(net(named), []);
    }
}
