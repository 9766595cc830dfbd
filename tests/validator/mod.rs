//! Checks recorded watches and lists against the recorded writes. It knows nothing of the
//! server: only what was sent, what came back, and the promises.
//!
//! | check | promise |
//! | --- | --- |
//! | 1 | every event matches the selector |
//! | 2 | the revision never goes back within a watch |
//! | 3 | a (revision, key) comes at most once |
//! | 4 | a revision's events are never split over two responses |
//! | 5 | after a bookmark nothing at or below it, and no bookmark below what was sent |
//! | 6 | the first event after R is the first of the model after R; who resumes begins at R |
//! | 7 | ADDED only if the key was not held, MODIFIED only if it was; each part of a stream has its types |
//! | 8 | nothing missing and nothing extra |
//! | 9 | the previous value is the model's |
//! | 10 | a list is the model at its one revision, which is no older than what was acknowledged |
//! | 11 | the initial state is the model at its bookmark |
//! | 12 | a net difference or a manifest takes the model from S to R |
//! | 13 | objects that start or stop matching are added or deleted, with the last matching state |
//! | 14 | OUT_OF_RANGE, or another way of catching up, only if compacted, and not midway; exact: never another way |
//!
//! Checks 16 to 23, of every call against the log, are in [`calls`]; 15, 24 and 25, of the time
//! as clients see it, in [`travel`]; 26, of the log itself, in [`identity`]; 27, of how a stream
//! ends, in `ending`.

pub mod calls;
mod copy;
mod ending;
pub mod identity;
mod latest;
mod model;
pub mod travel;

#[cfg(test)]
mod calls_tests;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fmt,
};

use listwatch::v1::{self, BookmarkKind, CatchUp, DeliveryMode, EventType};

use self::model::{Expected, matches_name, same_state};
pub use self::{
    copy::Copy,
    ending::End,
    model::{Model, Name, State, matches, name_of},
};

/// One stream, from the request to its end.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    pub request: v1::WatchRequest,
    /// What the client held when it asked: right at `since` if `settled`.
    pub held: State,
    /// The revision of the token or the request; 0 without.
    pub since: i64,
    /// The token was not from the middle of a net difference.
    pub settled: bool,
    pub responses: Vec<v1::WatchResponse>,
    pub end: End,
    /// The highest compaction that was asked for before the stream ended.
    pub compacted: i64,
}

/// One list, all its pages.
#[derive(Clone, Debug, Default)]
pub struct Listed {
    pub selector: v1::Selector,
    pub pages: Vec<v1::ListResponse>,
    /// The newest revision that was acknowledged before the call.
    pub acknowledged: i64,
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    pub check: u8,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "check {}: {}", self.check, self.what)
    }
}

/// Checks one list.
pub fn check_list(model: &Model, listed: &Listed) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut say = |what: String| found.push(Violation { check: 10, what });
    let Some(first) = listed.pages.first() else {
        return found;
    };
    let revision = first.revision;
    if revision < listed.acknowledged {
        say(format!(
            "read at {revision}, {} was acknowledged",
            listed.acknowledged
        ));
    }
    if let Some(other) = listed.pages.iter().find(|page| page.revision != revision) {
        say(format!("pages at {revision} and {}", other.revision));
    }
    let given: Vec<_> = listed.pages.iter().flat_map(|p| &p.resources).collect();
    if !given.is_sorted_by(|a, b| name_of(a) < name_of(b)) {
        say("not in the order of names".into());
    }
    let given: State = given.into_iter().map(|r| (name_of(r), r.clone())).collect();
    for what in differences(&given, &model.at(revision, &listed.selector)) {
        say(format!("{what} at {revision}"));
    }
    found
}

/// Checks one stream.
pub fn check_watch(model: &Model, recording: &Recording) -> Vec<Violation> {
    let mut check = Check::new(model, recording);
    check.run();
    check.found
}

/// Panics with everything that was found.
pub fn assert_kept(violations: &[Violation], context: impl fmt::Display) {
    let text: Vec<_> = violations.iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{context}\n{}", text.join("\n"));
}

fn differences(given: &State, wanted: &State) -> Vec<String> {
    let names: BTreeSet<_> = given.keys().chain(wanted.keys()).collect();
    let mut differences = Vec::new();
    for name in names {
        match (given.get(name), wanted.get(name)) {
            (None, Some(_)) => differences.push(format!("{name:?} is missing")),
            (Some(_), None) => differences.push(format!("{name:?} is too many")),
            (Some(a), Some(b)) if a != b => {
                differences.push(format!("{name:?} is {a:?} instead of {b:?}"));
            }
            _ => {}
        }
    }
    differences
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Opened,
    Initial,
    Net,
    Manifest,
    Live,
}

struct Check<'a> {
    model: &'a Model,
    recording: &'a Recording,
    selector: v1::Selector,
    latest: bool,
    stage: Stage,
    /// The client's copy, kept by the rules.
    copy: Copy,
    /// The highest bookmark.
    promised: i64,
    /// The revision of the last live or net event.
    reached: i64,
    seen: HashSet<(i64, Name)>,
    /// Of the initial state or the manifest under way.
    named: BTreeSet<Name>,
    /// The newest revision when the net difference under way began.
    newest_at_begin: i64,
    /// Live events since the last bookmark.
    pending: Vec<v1::WatchEvent>,
    any_live_event: bool,
    /// The names of the live events of this response, and whether they are held after them.
    touched: HashMap<Name, bool>,
    found: Vec<Violation>,
}

impl<'a> Check<'a> {
    fn new(model: &'a Model, recording: &'a Recording) -> Self {
        let copy = Copy::holding(recording.held.clone());
        Self {
            model,
            recording,
            selector: recording.request.selector.clone().unwrap_or_default(),
            latest: recording.request.delivery_mode() == DeliveryMode::Latest,
            stage: Stage::Opened,
            copy,
            promised: recording.since,
            reached: recording.since,
            seen: HashSet::new(),
            named: BTreeSet::new(),
            newest_at_begin: 0,
            pending: Vec::new(),
            any_live_event: false,
            touched: HashMap::new(),
            found: Vec::new(),
        }
    }

    fn say(&mut self, check: u8, what: impl Into<String>) {
        let what = what.into();
        self.found.push(Violation { check, what });
    }

    fn exact(&self) -> bool {
        self.recording.request.catch_up() == CatchUp::Exact
    }

    fn run(&mut self) {
        for response in &self.recording.responses {
            self.response(response);
        }
        self.after_the_last_bookmark();
        self.end();
    }

    /// What came last was true as well, and all up to it had come.
    fn after_the_last_bookmark(&mut self) {
        let given = std::mem::take(&mut self.pending);
        let last = given.last().and_then(|event| event.resource.as_ref());
        let Some(last) = last.map(|resource| resource.revision) else {
            return;
        };
        let expected = self.model.expected(&self.selector, self.promised, last);
        if self.latest {
            self.newest(&given, &expected, last);
        } else {
            self.every_change(&given, &expected);
        }
    }

    fn response(&mut self, response: &v1::WatchResponse) {
        let before = self.reached;
        self.touched.clear();
        for event in &response.events {
            self.event(event, before);
        }
        self.copy.apply(response);
        if let Some(bookmark) = &response.bookmark {
            self.bookmark(bookmark);
        }
    }

    fn event(&mut self, event: &v1::WatchEvent, reached_before_response: i64) {
        let Some(resource) = &event.resource else {
            return self.say(8, "an event without a resource");
        };
        let (name, revision, kind) = (name_of(resource), resource.revision, event.r#type());
        let whole = kind != EventType::Unchanged && kind != EventType::Deleted;
        if !matches_name(&self.selector, resource) || whole && !matches(&self.selector, resource) {
            self.say(1, format!("{name:?}@{revision} does not match"));
        }
        let stage = self.stage;
        let fits = match stage {
            Stage::Opened => true,
            Stage::Initial => kind == EventType::Existing,
            Stage::Manifest => matches!(kind, EventType::Unchanged | EventType::Upserted),
            Stage::Net => matches!(kind, EventType::Upserted | EventType::Deleted),
            Stage::Live => matches!(
                kind,
                EventType::Added | EventType::Modified | EventType::Deleted
            ),
        };
        if !fits {
            self.say(7, format!("{name:?}@{revision} is {kind:?} in {stage:?}"));
        }
        match stage {
            Stage::Opened => self.say(8, "an event before the first bookmark"),
            Stage::Initial | Stage::Manifest => {
                if !self.named.insert(name.clone()) {
                    self.say(3, format!("{name:?} comes twice in one state"));
                }
                if kind == EventType::Unchanged {
                    let held = self.copy.objects.get(&name);
                    if !held.is_some_and(|h| h.revision == revision && h.uid == resource.uid) {
                        self.say(
                            12,
                            format!("{name:?}@{revision} is called unchanged but was not held"),
                        );
                    }
                }
            }
            Stage::Net | Stage::Live => {
                // What changes while the difference is sent may follow as changes.
                let newest = self.newest_at_begin;
                if stage == Stage::Net && self.model.changed_within(&name, revision, newest) {
                    self.say(
                        12,
                        format!("{name:?}@{revision} was not the newest, at {newest}"),
                    );
                }
                if revision < self.reached {
                    let reached = self.reached;
                    self.say(2, format!("{name:?}@{revision} after {reached}"));
                }
                if !self.seen.insert((revision, name.clone())) {
                    self.say(3, format!("{name:?}@{revision} comes twice"));
                }
                if revision <= self.promised {
                    let promised = self.promised;
                    self.say(
                        5,
                        format!("{name:?}@{revision} after the bookmark {promised}"),
                    );
                }
                if self.stage == Stage::Live {
                    if revision == reached_before_response && self.any_live_event {
                        self.say(
                            4,
                            format!("{name:?}@{revision} belongs to an earlier response"),
                        );
                    }
                    self.any_live_event = true;
                    let held = self
                        .touched
                        .insert(name.clone(), kind != EventType::Deleted);
                    let held = held.unwrap_or_else(|| self.copy.objects.contains_key(&name));
                    if kind == EventType::Added && held || kind == EventType::Modified && !held {
                        self.say(
                            7,
                            format!("{name:?}@{revision} is {kind:?}, and was held: {held}"),
                        );
                    }
                    self.pending.push(event.clone());
                }
                self.reached = self.reached.max(revision);
            }
        }
    }

    fn bookmark(&mut self, bookmark: &v1::Bookmark) {
        let revision = bookmark.revision;
        let promises = !bookmark.resume_token.is_empty();
        if promises && revision < self.promised {
            let promised = self.promised;
            self.say(5, format!("the bookmark {revision} after {promised}"));
        }
        if promises && revision < self.reached {
            let reached = self.reached;
            self.say(
                5,
                format!("the bookmark {revision} below the event {reached}"),
            );
        }
        let (newest, left_out) = (bookmark.latest_revision, bookmark.coalesced_count);
        if newest < revision {
            self.say(
                5,
                format!("the bookmark {revision}, the newest is {newest}"),
            );
        }
        if left_out != 0 && !self.latest {
            self.say(8, format!("{left_out} left out of a watch of every change"));
        }
        let kind = bookmark.kind();
        if self.stage == Stage::Live {
            // A watch of the newest that begins anew has nothing to promise until that is complete.
            let begins = matches!(
                kind,
                BookmarkKind::InitialStateBegin | BookmarkKind::ManifestBegin
            );
            if promises {
                self.live_upto(bookmark);
            } else if begins && self.latest {
                self.after_the_last_bookmark();
            } else {
                self.say(5, format!("the live bookmark {revision} has no token"));
            }
        }
        if kind == BookmarkKind::NetBegin {
            self.newest_at_begin = newest;
        }
        match (kind, self.stage) {
            (BookmarkKind::InitialStateBegin, _) => self.begin(Stage::Initial),
            (BookmarkKind::NetBegin, _) => self.begin(Stage::Net),
            (BookmarkKind::ManifestBegin, _) => self.begin(Stage::Manifest),
            (BookmarkKind::Resumed, Stage::Opened) => {
                self.resumed(revision);
                self.stage = Stage::Live;
            }
            (BookmarkKind::InitialStateEnd, Stage::Initial | Stage::Net | Stage::Manifest) => {
                self.complete(revision);
            }
            (BookmarkKind::Resumed | BookmarkKind::InitialStateEnd, stage) => {
                self.say(8, format!("{kind:?} in {stage:?}"));
            }
            _ => {}
        }
        if promises {
            self.promised = self.promised.max(revision);
        }
    }

    /// Who goes on, goes on from where it was.
    fn resumed(&mut self, revision: i64) {
        use v1::watch_request::Start;
        match self.recording.request.start {
            None | Some(Start::InitialState(_)) => {
                self.say(11, format!("no state, but RESUMED at {revision}"));
            }
            Some(Start::Now(_)) => {}
            Some(_) if revision == self.recording.since => {}
            Some(_) => {
                let since = self.recording.since;
                self.say(6, format!("RESUMED at {revision}, having left at {since}"));
            }
        }
    }

    fn begin(&mut self, stage: Stage) {
        let resumes = !matches!(
            self.recording.request.start,
            None | Some(v1::watch_request::Start::InitialState(_))
        );
        let (since, compacted) = (self.recording.since, self.recording.compacted);
        if self.stage != Stage::Opened {
            if !self.latest {
                let at = self.stage;
                self.say(
                    14,
                    format!("a watch of every change got {stage:?} in {at:?}"),
                );
            }
        } else if resumes && self.recording.settled && since >= compacted {
            self.say(
                14,
                format!("{stage:?} for {since}, though compacted only at {compacted}"),
            );
        }
        if self.exact() && resumes && !self.latest {
            self.say(14, format!("an exact watch got {stage:?}"));
        }
        self.stage = stage;
        self.named.clear();
    }

    /// A state, a net difference or a manifest is complete: the copy must be right.
    fn complete(&mut self, revision: i64) {
        let check = if self.stage == Stage::Initial { 11 } else { 12 };
        let wanted = self.model.at(revision, &self.selector);
        for what in differences(&self.copy.objects, &wanted) {
            self.say(check, format!("{what} at {revision}"));
        }
        // Further checks start from what is right.
        self.copy.objects = wanted;
        self.stage = Stage::Live;
        self.reached = self.reached.max(revision);
        self.any_live_event = false;
    }

    /// Everything up to a bookmark of the live stream.
    fn live_upto(&mut self, bookmark: &v1::Bookmark) {
        let given = std::mem::take(&mut self.pending);
        let revision = bookmark.revision;
        let expected = self.model.expected(&self.selector, self.promised, revision);
        if self.latest {
            self.coalesced(&given, &expected, bookmark);
        } else {
            self.every_change(&given, &expected);
        }
        let wanted = self.model.at(revision, &self.selector);
        if self.found.is_empty() {
            for what in differences(&self.copy.objects, &wanted) {
                self.say(8, format!("{what} in the copy at {revision}"));
            }
        }
        self.copy.objects = wanted;
    }

    fn every_change(&mut self, given: &[v1::WatchEvent], expected: &[Expected]) {
        let place = |event: &v1::WatchEvent| {
            let resource = event.resource.clone().unwrap_or_default();
            (resource.revision, name_of(&resource))
        };
        if let (Some(given), Some(first)) = (given.first(), expected.first())
            && place(given).0 > first.revision
        {
            let first = (first.revision, &first.name);
            self.say(
                6,
                format!("began with {:?} instead of {first:?}", place(given)),
            );
        }
        for event in given {
            let place = place(event);
            let wanted = expected
                .iter()
                .find(|e| (e.revision, e.name.clone()) == place);
            match wanted {
                None => self.say(8, format!("{place:?} is too many")),
                Some(wanted) => self.compare(event, wanted),
            }
        }
        let given: HashSet<_> = given.iter().map(place).collect();
        for wanted in expected {
            if !given.contains(&(wanted.revision, wanted.name.clone())) {
                self.say(
                    8,
                    format!("{:?}@{} is missing", wanted.name, wanted.revision),
                );
            }
        }
    }

    fn compare(&mut self, event: &v1::WatchEvent, wanted: &Expected) {
        let resource = event.resource.clone().unwrap_or_default();
        let what = format!("{:?}@{}", wanted.name, wanted.revision);
        let is_right = match wanted.kind {
            EventType::Deleted => same_state(&resource, &wanted.resource),
            _ => resource == wanted.resource,
        };
        let transition = wanted.cause == v1::DeleteCause::Unselected
            || wanted.kind == EventType::Added && wanted.previous.is_some();
        if event.r#type() != wanted.kind || event.delete_cause() != wanted.cause {
            let check = if transition { 13 } else { 7 };
            let (given, wanted) = (
                (event.r#type(), event.delete_cause()),
                (wanted.kind, wanted.cause),
            );
            self.say(check, format!("{what} is {given:?} instead of {wanted:?}"));
        } else if !is_right {
            let check = if transition { 13 } else { 8 };
            self.say(
                check,
                format!("{what} shows {resource:?} instead of {:?}", wanted.resource),
            );
        }
        if self.recording.request.send_previous && event.previous != wanted.previous {
            self.say(
                9,
                format!("{what} was {:?}, not {:?}", wanted.previous, event.previous),
            );
        }
    }
}
