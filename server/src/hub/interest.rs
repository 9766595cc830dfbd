//! Who wants to hear of what: an event wakes the watches that it can concern, and costs
//! nothing for the others.
//!
//! Each watch is filed once, under the most telling thing that its selector demands: a
//! name, else the values of a label or field, else a namespace, else everything. What is looked
//! up for an event is a superset of those who want it; the selector itself decides.

use std::{collections::HashMap, sync::Arc, task::Waker};

use super::Standing;
use crate::{
    limits::MAX_FILED_VALUES,
    selector::{Demand, FieldPath, FieldValues, Selector},
    store::{Event, Object, Revision},
    sync::{
        AtomicWaker, Mutex,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

/// The place where a watch sleeps.
#[derive(Debug, Default)]
pub(super) struct Waiter {
    /// The first revision with an event for it since it last looked; 0: none. A watch that
    /// finds 0 has seen everything that concerns it, and stands where the hub stands.
    first: AtomicU64,
    /// Where it stands while there may be more for it beyond; 0: it stands where the hub
    /// stands, if it is not marked.
    draining_from: AtomicU64,
    /// What it is at: a [`Standing`].
    standing: AtomicU8,
    waker: AtomicWaker,
}

impl Waiter {
    /// Whom to wake.
    pub(super) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// The first revision of interest since the last call, if there is one.
    pub(super) fn take(&self) -> Option<Revision> {
        match self.first.swap(0, Ordering::AcqRel) {
            0 => None,
            first => Some(Revision::new(first)),
        }
    }

    /// There is a revision of interest.
    pub(super) fn is_marked(&self) -> bool {
        self.first.load(Ordering::Acquire) != 0
    }

    /// Notes where it stands; `None`: it has taken everything up to the next mark.
    pub(super) fn stands_at(&self, position: Option<Revision>) {
        let position = position.map_or(0, |p| p.get().max(1));
        self.draining_from.store(position, Ordering::Relaxed);
    }

    /// Notes what it is at.
    pub(super) fn stands(&self, standing: Standing) {
        self.standing.store(standing as u8, Ordering::Relaxed);
    }

    /// What it is at.
    pub(super) fn standing(&self) -> Standing {
        Standing::from_place(self.standing.load(Ordering::Relaxed))
    }

    /// What it has taken, roughly; `None`: everything.
    pub(super) fn reached(&self) -> Option<Revision> {
        let draining = self.draining_from.load(Ordering::Relaxed);
        if draining > 0 {
            return Some(Revision::new(draining));
        }
        let first = self.first.load(Ordering::Relaxed);
        (first > 0).then(|| Revision::new(first).previous())
    }

    /// Notes a revision of interest; true if there was none yet.
    fn mark(&self, revision: Revision) -> bool {
        let unmarked = self.first.load(Ordering::Relaxed) == 0;
        unmarked
            && self
                .first
                .compare_exchange(0, revision.get(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }
}

type Sleepers = HashMap<u64, Arc<Waiter>>;

/// The register of a collection's watches.
#[derive(Default)]
pub(super) struct Interest(Mutex<Register>);

#[derive(Default)]
struct Register {
    next: u64,
    everything: Sleepers,
    namespaces: HashMap<Arc<str>, Sleepers>,
    names: HashMap<Arc<str>, Sleepers>,
    labels: HashMap<(Arc<str>, Arc<str>), Sleepers>,
    /// By field, then by its value.
    fields: HashMap<FieldPath, HashMap<Arc<str>, Sleepers>>,
    /// The collection's declared fields, as the newest watch that asked for one knew them:
    /// what is read of an object is read for all who will ask.
    declared: Arc<[FieldPath]>,
}

/// Where a watch is filed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Heading {
    Everything,
    Namespace(Arc<str>),
    Name(Arc<str>),
    Label(Arc<str>, Vec<Arc<str>>),
    Field(FieldPath, Arc<str>),
}

/// A watch's entry in the register; taken out with [`Interest::forget`].
#[derive(Debug)]
pub(super) struct Filed {
    id: u64,
    heading: Heading,
    pub(super) waiter: Arc<Waiter>,
}

fn heading(selector: &Selector) -> Heading {
    match selector.demand(MAX_FILED_VALUES) {
        Demand::Name(name) => Heading::Name(name.into()),
        Demand::Label(key, values) => {
            let values = values.iter().map(|v| v.as_str().into()).collect();
            Heading::Label(key.into(), values)
        }
        Demand::Field(path, value) => Heading::Field(path.clone(), value.into()),
        Demand::Namespace(namespace) => Heading::Namespace(namespace.into()),
        Demand::Nothing => Heading::Everything,
    }
}

impl Interest {
    /// Files a watch.
    pub(super) fn file(&self, selector: &Selector) -> Filed {
        let waiter = Arc::new(Waiter::default());
        let heading = heading(selector);
        let mut register = self.0.lock();
        let id = register.next;
        register.next += 1;
        if matches!(heading, Heading::Field(..)) {
            register.declared = selector.declared().clone();
        }
        register.under(&heading, |sleepers| {
            sleepers.insert(id, waiter.clone());
        });
        Filed {
            id,
            heading,
            waiter,
        }
    }

    /// Takes a watch out.
    pub(super) fn forget(&self, filed: &Filed) {
        self.0.lock().under(&filed.heading, |sleepers| {
            sleepers.remove(&filed.id);
        });
    }

    /// Marks everyone whom these events can concern, and adds those to `woken` who are to
    /// be woken once the events are visible.
    pub(super) fn mark(&self, revision: Revision, events: &[Event], woken: &mut Vec<Arc<Waiter>>) {
        let register = self.0.lock();
        let mut mark = |sleepers: &Sleepers| {
            for waiter in sleepers.values() {
                if waiter.mark(revision) {
                    woken.push(waiter.clone());
                }
            }
        };
        mark(&register.everything);
        for event in events {
            let key = &event.object.key;
            if let Some(sleepers) = register.namespaces.get(key.namespace()) {
                mark(sleepers);
            }
            if let Some(sleepers) = register.names.get(key.name()) {
                mark(sleepers);
            }
            // Both versions: one that stops matching is news too. Of a version that is
            // not known, everyone may have to hear.
            let previous = event.previous.as_deref();
            if event.previous_revision.is_some() && previous.is_none() {
                register.labels.values().for_each(&mut mark);
                let by_value = register.fields.values().flat_map(HashMap::values);
                by_value.for_each(&mut mark);
                continue;
            }
            for object in [Some(&*event.object), previous].into_iter().flatten() {
                register.mark_content(object, &mut mark);
            }
        }
    }

    /// Marks everyone, as of a revision whose events are not known.
    pub(super) fn mark_all(&self, revision: Revision, woken: &mut Vec<Arc<Waiter>>) {
        self.0.lock().everyone(|waiter| {
            if waiter.mark(revision) {
                woken.push(waiter.clone());
            }
        });
    }

    /// What each watch has taken; `None`: everything. One that is filed under several values
    /// is met as often.
    pub(super) fn reached(&self, mut visit: impl FnMut(Option<Revision>)) {
        self.0.lock().everyone(|waiter| visit(waiter.reached()));
    }

    /// Wakes everyone, for a reason that is not an event.
    pub(super) fn wake_all(&self) {
        self.0.lock().everyone(|waiter| waiter.wake());
    }
}

impl Register {
    fn everyone(&self, visit: impl FnMut(&Arc<Waiter>)) {
        let filed = [&self.everything]
            .into_iter()
            .chain(self.namespaces.values())
            .chain(self.names.values())
            .chain(self.labels.values())
            .chain(self.fields.values().flat_map(HashMap::values));
        filed.flat_map(Sleepers::values).for_each(visit);
    }

    fn mark_content(&self, object: &Object, mark: &mut impl FnMut(&Sleepers)) {
        if !self.labels.is_empty() {
            for (key, value) in &object.content.labels {
                let pair = (key.as_str().into(), value.as_str().into());
                if let Some(sleepers) = self.labels.get(&pair) {
                    mark(sleepers);
                }
            }
        }
        for (path, by_value) in &self.fields {
            let value = FieldValues::read(object, &self.declared, path);
            if let Some(sleepers) = by_value.get(value.as_deref().unwrap_or("")) {
                mark(sleepers);
            }
        }
    }

    /// Changes the sleepers under a heading; headings without any are not kept.
    fn under(&mut self, heading: &Heading, mut change: impl FnMut(&mut Sleepers)) {
        fn at<K: std::hash::Hash + Eq + Clone>(
            map: &mut HashMap<K, Sleepers>,
            key: &K,
            change: &mut impl FnMut(&mut Sleepers),
        ) {
            let sleepers = map.entry(key.clone()).or_default();
            change(sleepers);
            if sleepers.is_empty() {
                map.remove(key);
            }
        }
        match heading {
            Heading::Everything => change(&mut self.everything),
            Heading::Namespace(namespace) => at(&mut self.namespaces, namespace, &mut change),
            Heading::Name(name) => at(&mut self.names, name, &mut change),
            Heading::Label(key, values) => {
                for value in values {
                    at(&mut self.labels, &(key.clone(), value.clone()), &mut change);
                }
            }
            Heading::Field(path, value) => {
                let by_value = self.fields.entry(path.clone()).or_default();
                at(by_value, value, &mut change);
                if by_value.is_empty() {
                    self.fields.remove(path);
                }
            }
        }
    }
}
