//! Calls of clients, as the clients saw them, against the log. The single writer gives a
//! total order, so linearizability needs no search: each write is at its revision.
//!
//! | check | promise |
//! | --- | --- |
//! | 16 | what was acknowledged is in the log, as it was sent, once |
//! | 17 | a write that began after another call had returned has a higher revision |
//! | 18 | a read is no older than what it asks for: whatever anyone knew before it began |
//! | 19 | a read shows the log at its revision |
//! | 20 | no call knows of a write that had not begun when the call returned |
//! | 21 | a write of unknown outcome is in the log whole and once, or not at all |
//! | 22 | a condition held just before the write that it let through, and failed at a moment of the call that it refused |
//! | 23 | nothing is in the log that nobody asked for |

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use listwatch::v1::{self, DeleteCause};

use super::{
    Violation, differences,
    model::{Model, Name, State},
};

/// One call, from when the client made it until it had the answer. Retries under one request
/// id are one call.
#[derive(Clone, Debug)]
pub struct Call {
    pub client: String,
    /// Any clock that all clients share.
    pub called_at: Duration,
    /// `None`: no answer.
    pub returned_at: Option<Duration>,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub enum Kind {
    Write(Write),
    Read(Read),
    /// A watch told of this revision.
    Heard(i64),
}

/// A batch, or a batch of one.
#[derive(Clone, Debug)]
pub struct Write {
    pub parts: Vec<Part>,
    pub outcome: Outcome,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// At this revision; where it changed nothing, the revision that it saw.
    Written(i64),
    /// For a condition that did not hold; nothing was written.
    Refused,
    /// Certainly nothing was written, for whatever reason.
    Failed,
    /// No answer, or one that leaves it open.
    Unknown,
}

/// What a write does to one name.
#[derive(Clone, Debug)]
pub struct Part {
    pub name: Name,
    pub change: Change,
    pub condition: Condition,
}

// A few in memory at a time, and most are puts.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub enum Change {
    /// The value is like no other write's: that is how a write is found in the log.
    Put {
        resource: v1::Resource,
        /// It expires.
        expires: bool,
    },
    Delete,
    /// A check; or, as the answer said, there was nothing to delete.
    Nothing,
}

/// What must be under the name for the write to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    Any,
    Absent,
    Present,
    At(i64),
}

/// A state or an object, read at one revision.
#[derive(Clone, Debug)]
pub struct Read {
    pub consistency: Consistency,
    pub selector: v1::Selector,
    pub revision: i64,
    pub shown: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Consistency {
    Linearizable,
    AtLeast(i64),
    Exactly(i64),
    /// Whatever the server has.
    Cached,
}

impl Condition {
    fn holds(self, now: Option<&v1::Resource>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => now.is_none(),
            Self::Present => now.is_some(),
            Self::At(revision) => now.is_some_and(|now| now.revision == revision),
        }
    }
}

impl Write {
    /// Whether it takes a revision of its own if it is done.
    fn changes(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|part| !matches!(part.change, Change::Nothing))
    }

    fn puts(&self) -> impl Iterator<Item = (&Name, &v1::Resource)> {
        self.parts.iter().filter_map(|part| match &part.change {
            Change::Put { resource, .. } => Some((&part.name, resource)),
            _ => None,
        })
    }
}

impl Call {
    /// The revision that the client knew of from then on.
    fn revision(&self) -> Option<i64> {
        match &self.kind {
            Kind::Read(read) => Some(read.revision),
            Kind::Heard(revision) => Some(*revision),
            Kind::Write(write) => match write.outcome {
                Outcome::Written(revision) => Some(revision),
                _ => None,
            },
        }
    }
}

/// Checks calls against the whole log of the one history that they were answered from.
/// `base`: the log begins after this revision (a store made from a backup), with the state
/// that it has there.
pub fn check_calls(log: &Model, base: i64, calls: &[Call]) -> Vec<Violation> {
    let mut check = Check {
        log,
        base,
        calls,
        known: known(calls),
        places: places(log, base),
        begun: BTreeMap::new(),
        found: Vec::new(),
    };
    check.begun = check.begun();
    for call in calls {
        match &call.kind {
            Kind::Write(write) => check.write(call, write),
            Kind::Read(read) => check.read(call, read),
            Kind::Heard(revision) => check.existed(call, *revision),
        }
    }
    check.nobodys();
    check.found
}

/// The state of a store whose log is not at hand (an export, a list after a crash) against the
/// calls: whatever was acknowledged is there, unless something newer took its place. Check 16.
pub fn check_kept(state: &State, revision: i64, calls: &[Call]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut say = |what: String| found.push(Violation { check: 16, what });
    let mut newest: BTreeMap<&Name, (i64, &Change)> = BTreeMap::new();
    let mut open: Vec<&Part> = Vec::new();
    for call in calls {
        let Kind::Write(write) = &call.kind else {
            continue;
        };
        match write.outcome {
            Outcome::Written(at) => {
                if at > revision {
                    say(format!("{at} was acknowledged, the store is at {revision}"));
                }
                for part in &write.parts {
                    if matches!(part.change, Change::Nothing) {
                        continue;
                    }
                    let entry = newest.entry(&part.name).or_insert((at, &part.change));
                    if at >= entry.0 {
                        *entry = (at, &part.change);
                    }
                }
            }
            Outcome::Unknown => open.extend(&write.parts),
            Outcome::Refused | Outcome::Failed => {}
        }
    }
    for (name, (at, change)) in newest {
        let held = state.get(name);
        let by_unknown = open.iter().any(|part| {
            part.name == *name
                && match (&part.change, held) {
                    (Change::Put { resource, .. }, Some(held)) => resource.value == held.value,
                    // Put and gone again, or deleted.
                    (Change::Delete | Change::Put { expires: true, .. }, None) => true,
                    _ => false,
                }
        });
        let right = match (change, held) {
            (Change::Put { resource, .. }, Some(held)) if held.revision == at => {
                resource.value == held.value && resource.labels == held.labels
            }
            (Change::Put { expires: true, .. } | Change::Delete, None) => true,
            (_, Some(held)) => held.revision > at && by_unknown,
            (_, None) => by_unknown,
        };
        if !right {
            let held = held.map(|held| held.revision);
            say(format!(
                "{name:?}@{at} was acknowledged, the store has {held:?}"
            ));
        }
    }
    found
}

/// What anyone knew at a moment: by time, the highest revision that had been returned.
fn known(calls: &[Call]) -> BTreeMap<Duration, i64> {
    let mut returned: Vec<_> = calls
        .iter()
        .filter_map(|call| Some((call.returned_at?, call.revision()?)))
        .collect();
    returned.sort_unstable();
    let mut highest = 0;
    let mut known = BTreeMap::new();
    for (at, revision) in returned {
        highest = highest.max(revision);
        known.insert(at, highest);
    }
    known
}

/// Where each value is in the log, above what it began with.
fn places(log: &Model, base: i64) -> HashMap<Vec<u8>, BTreeSet<(i64, Name)>> {
    let mut places: HashMap<_, BTreeSet<_>> = HashMap::new();
    for (revision, name, now, _) in log.changes() {
        if let Some(now) = now
            && revision > base
        {
            let value = places.entry(now.value.to_vec()).or_default();
            value.insert((revision, name.clone()));
        }
    }
    places
}

struct Check<'a> {
    log: &'a Model,
    base: i64,
    calls: &'a [Call],
    known: BTreeMap<Duration, i64>,
    places: HashMap<Vec<u8>, BTreeSet<(i64, Name)>>,
    /// When the last of the writes up to a revision began: before that, nobody can have
    /// known of the revision.
    begun: BTreeMap<i64, (Duration, i64)>,
    found: Vec<Violation>,
}

impl Check<'_> {
    fn say(&mut self, check: u8, call: &Call, what: impl std::fmt::Display) {
        let (client, at) = (&call.client, call.called_at);
        let what = format!("{client}'s call at {at:?}: {what}");
        self.found.push(Violation { check, what });
    }

    /// The highest revision that was returned to anyone before a moment.
    fn known_before(&self, moment: Duration) -> i64 {
        let known = self.known.range(..moment).next_back();
        known.map_or(0, |(_, revision)| *revision)
    }

    /// The revision that a write has in the log.
    fn place(&self, write: &Write) -> Option<i64> {
        if let Outcome::Written(revision) = write.outcome {
            return write.changes().then_some(revision);
        }
        let (_, first) = write.puts().next()?;
        let places = self.places.get(&first.value[..])?;
        places.first().map(|(revision, _)| *revision)
    }

    fn begun(&self) -> BTreeMap<i64, (Duration, i64)> {
        let mut begun: BTreeMap<i64, (Duration, i64)> = BTreeMap::new();
        for call in self.calls {
            if let Kind::Write(write) = &call.kind
                && let Some(revision) = self.place(write)
            {
                begun.insert(revision, (call.called_at, revision));
            }
        }
        let mut latest = (Duration::ZERO, 0);
        for entry in begun.values_mut() {
            latest = latest.max(*entry);
            *entry = latest;
        }
        begun
    }

    /// A call that returned may not know what began later.
    fn no_foresight(&mut self, call: &Call, revision: i64, check: u8) {
        let Some(returned_at) = call.returned_at else {
            return;
        };
        let begun = self.begun.range(..=revision).next_back();
        if let Some((_, &(began, which))) = begun
            && began > returned_at
        {
            let what = format!(
                "at {revision}, returned at {returned_at:?}, but {which} began at {began:?}"
            );
            self.say(check, call, what);
        }
    }

    fn write(&mut self, call: &Call, write: &Write) {
        match write.outcome {
            Outcome::Written(revision) => {
                let known = self.known_before(call.called_at);
                if revision < known || revision == known && write.changes() {
                    let what = format!("written at {revision}, {known} was known before");
                    self.say(17, call, what);
                }
                self.no_foresight(call, revision, 17);
                self.recorded(call, write, revision, 16);
                self.condition_held(call, write, revision);
            }
            Outcome::Refused => {
                self.in_no_place(call, write);
                self.condition_failed(call, write);
            }
            Outcome::Failed => self.in_no_place(call, write),
            Outcome::Unknown => {
                let Some(revision) = self.place(write) else {
                    return;
                };
                let known = self.known_before(call.called_at);
                if revision <= known {
                    let what = format!("is at {revision}, {known} was known before");
                    self.say(21, call, what);
                }
                self.recorded(call, write, revision, 21);
                self.condition_held(call, write, revision);
            }
        }
    }

    /// A write is in the log at its revision, whole, and nowhere else.
    fn recorded(&mut self, call: &Call, write: &Write, revision: i64, check: u8) {
        for part in &write.parts {
            let name = &part.name;
            match &part.change {
                Change::Put { resource, .. } => {
                    let now = self.log.version(name, revision);
                    let right = now.is_some_and(|now| {
                        (now.revision, &now.value, &now.labels)
                            == (revision, &resource.value, &resource.labels)
                    });
                    if !right {
                        self.say(check, call, format!("{name:?}@{revision} is {now:?}"));
                    }
                    let places = self.places.get(&resource.value[..]);
                    let places = places.cloned().unwrap_or_default();
                    if places.len() > 1 {
                        self.say(check, call, format!("is in the log at {places:?}"));
                    }
                }
                Change::Delete => {
                    let deleted = self.log.changed(name, revision)
                        && self.log.version(name, revision).is_none();
                    // Of an unknown outcome: there may have been nothing to delete.
                    let absent = write.outcome == Outcome::Unknown
                        && self.log.version(name, revision).is_none();
                    if !deleted && !absent {
                        self.say(
                            check,
                            call,
                            format!("{name:?} is not deleted at {revision}"),
                        );
                    }
                }
                Change::Nothing => {}
            }
        }
    }

    fn in_no_place(&mut self, call: &Call, write: &Write) {
        if let Some(revision) = self.place(write) {
            self.say(21, call, format!("failed, and is in the log at {revision}"));
        }
    }

    fn condition_held(&mut self, call: &Call, write: &Write, revision: i64) {
        let before = if write.changes() {
            revision - 1
        } else {
            revision
        };
        for part in &write.parts {
            let now = self.log.version(&part.name, before);
            if !part.condition.holds(now) {
                let (name, condition) = (&part.name, part.condition);
                let now = now.map(|now| now.revision);
                let what = format!("{condition:?} of {name:?} let through at {before}: {now:?}");
                self.say(22, call, what);
            }
        }
    }

    /// At one of the revisions that the call can have met, a condition did not hold.
    fn condition_failed(&mut self, call: &Call, write: &Write) {
        let from = self.known_before(call.called_at).max(self.base);
        let until = self.begun.iter().find(|(_, (began, _))| {
            let returned = call.returned_at;
            returned.is_some_and(|returned| *began > returned)
        });
        let until = until.map_or(self.log.revision(), |(revision, _)| revision - 1);
        let failed = (from..=until.max(from)).any(|revision| {
            let mut parts = write.parts.iter();
            parts.any(|part| !part.condition.holds(self.log.version(&part.name, revision)))
        });
        if !failed {
            let what = format!("refused, and its condition held from {from} to {until}");
            self.say(22, call, what);
        }
    }

    fn read(&mut self, call: &Call, read: &Read) {
        let revision = read.revision;
        let wrong = match read.consistency {
            Consistency::Linearizable => {
                let known = self.known_before(call.called_at);
                (revision < known).then(|| format!("{known} was known before"))
            }
            Consistency::AtLeast(least) => {
                (revision < least).then(|| format!("at least {least} was asked for"))
            }
            Consistency::Exactly(exact) => {
                (revision != exact).then(|| format!("exactly {exact} was asked for"))
            }
            Consistency::Cached => None,
        };
        if let Some(wrong) = wrong {
            self.say(18, call, format!("read at {revision}, {wrong}"));
        }
        self.existed(call, revision);
        let wanted = self.log.at(revision, &read.selector);
        for what in differences(&read.shown, &wanted) {
            self.say(19, call, format!("{what} at {revision}"));
        }
    }

    /// A revision was there when the call returned.
    fn existed(&mut self, call: &Call, revision: i64) {
        if revision > self.log.revision().max(self.base) {
            self.say(20, call, format!("saw {revision}, which never was"));
        }
        self.no_foresight(call, revision, 20);
    }

    /// Every change of the log is somebody's.
    fn nobodys(&mut self) {
        let mut asked: HashMap<(i64, &Name), &Change> = HashMap::new();
        let mut deleting: Vec<(&Name, i64)> = Vec::new();
        let mut expiring: BTreeSet<&[u8]> = BTreeSet::new();
        for call in self.calls {
            let Kind::Write(write) = &call.kind else {
                continue;
            };
            let place = self.place(write);
            for part in &write.parts {
                if let Change::Put { resource, expires } = &part.change
                    && *expires
                {
                    expiring.insert(&resource.value);
                }
                if let Some(revision) = place {
                    asked.insert((revision, &part.name), &part.change);
                } else if write.outcome == Outcome::Unknown && matches!(part.change, Change::Delete)
                {
                    deleting.push((&part.name, self.known_before(call.called_at)));
                }
            }
        }
        let mut found = Vec::new();
        for (revision, name, now, cause) in self.log.changes() {
            if revision <= self.base {
                continue;
            }
            let change = asked.get(&(revision, name)).copied();
            let right = match (now, cause) {
                (Some(_), _) => matches!(change, Some(Change::Put { .. })),
                (None, DeleteCause::Expired) => {
                    let last = self.log.version(name, revision - 1);
                    last.is_some_and(|last| {
                        // Of what the log began with, nobody here said when it ends.
                        let is_given = last.revision <= self.base && last.expire_time.is_some();
                        is_given || expiring.contains(&last.value[..])
                    })
                }
                (None, _) if matches!(change, Some(Change::Delete)) => true,
                (None, _) => {
                    let by = deleting
                        .iter()
                        .position(|(n, after)| *n == name && revision > *after);
                    // Each of them deletes once.
                    by.map(|by| deleting.swap_remove(by)).is_some()
                }
            };
            if !right {
                let what = format!("{name:?}@{revision} is in the log, and nobody's: {cause:?}");
                found.push(Violation { check: 23, what });
            }
        }
        self.found.extend(found);
    }
}
