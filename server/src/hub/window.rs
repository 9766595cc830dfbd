//! The watch cache of one collection: its current state and the window of its recent
//! events.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use imbl::OrdMap;

use crate::{
    limits::{MAX_WINDOW_BYTES, MAX_WINDOW_EVENTS},
    store::{Change, Commit, Event, Object, ObjectName, PageLimit, Revision},
};

/// A state that stays as it is while the collection goes on: sharing, not copying.
pub(crate) type State = OrdMap<ObjectName, Arc<Object>>;

/// What a read of the window found.
pub(crate) enum WindowRead {
    /// The window reaches back far enough; these commits follow. `all`: no more do.
    Commits {
        commits: Vec<Arc<SharedCommit>>,
        all: bool,
    },
    /// The position is older than the window.
    Behind,
}

/// The events of one commit in one collection, and how they look on the wire: encoded by the
/// first watch that sends them, shared by the others.
#[derive(Debug)]
pub(crate) struct SharedCommit {
    pub(crate) commit: Commit,
    /// A cell for each event and view.
    encoded: Vec<[OnceLock<Bytes>; ENCODINGS]>,
}

/// Encodings of an event that are shared: the views of gRPC, and Kubernetes' JSON.
pub const ENCODINGS: usize = 4;

impl SharedCommit {
    pub(crate) fn new(commit: Commit) -> Arc<Self> {
        let encoded = commit.events.iter().map(|_| Default::default()).collect();
        Arc::new(Self { commit, encoded })
    }

    /// An event's encoding, made if need be.
    pub(crate) fn encoded(
        &self,
        event: usize,
        view: usize,
        encode: impl FnOnce() -> Bytes,
    ) -> Option<&Bytes> {
        let cell = self.encoded.get(event)?.get(view)?;
        Some(cell.get_or_init(encode))
    }
}

/// State and recent events of one collection. Changed by the hub alone, in revision order.
pub(crate) struct Window {
    state: State,
    /// The newest revision that changed the state.
    revision: Revision,
    commits: VecDeque<Arc<SharedCommit>>,
    /// Every event after this is here.
    floor: Revision,
    events: usize,
    bytes: usize,
    state_bytes: usize,
    capacity: usize,
    sizing: Sizing,
}

/// How the window grows and shrinks: as Kubernetes' watch cache does, so that it covers a
/// set time whatever the rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizing {
    /// Events at least.
    pub(crate) minimum: usize,
    /// The time that it should cover.
    pub(crate) span: Duration,
}

impl Window {
    pub(crate) fn new(sizing: Sizing, floor: Revision) -> Self {
        Self {
            state: State::new(),
            revision: floor,
            commits: VecDeque::new(),
            floor,
            events: 0,
            bytes: 0,
            state_bytes: 0,
            capacity: sizing.minimum,
            sizing,
        }
    }

    /// Takes an object into the state without an event: filling at start.
    pub(crate) fn load(&mut self, object: Arc<Object>) {
        self.state_bytes += weight(&object);
        if let Some(old) = self.state.insert(object.key.object.clone(), object) {
            self.state_bytes -= weight(&old);
        }
    }

    /// Begins anew with the state at a revision: events before it are not to be had.
    pub(crate) fn restart(&mut self, revision: Revision, objects: &[Arc<Object>]) {
        let capacity = self.capacity;
        *self = Self::new(self.sizing, revision);
        self.capacity = capacity;
        for object in objects {
            self.load(object.clone());
        }
    }

    /// Applies the next commit's events of this collection and returns them with their
    /// previous versions filled in.
    pub(crate) fn apply(
        &mut self,
        Commit {
            revision,
            time,
            mut events,
            trace,
        }: Commit,
    ) -> Arc<SharedCommit> {
        for event in &mut events {
            let name = event.object.key.object.clone();
            let previous = if event.is_deletion() {
                self.state.remove(&name)
            } else {
                self.state_bytes += weight(&event.object);
                self.state.insert(name, event.object.clone())
            };
            if let Some(previous) = &previous {
                self.state_bytes -= weight(previous);
                if event.is_deletion() {
                    event.object = Arc::new(previous.deleted_at(revision, time));
                }
            }
            // A name deleted and created again within one commit cannot be: a key stands
            // in a batch once. So what was there is the previous version, if it is alive.
            event.previous = match event.change {
                Change::Created => None,
                Change::Updated | Change::Deleted(_) => previous,
            };
        }
        self.revision = revision;
        let commit = SharedCommit::new(Commit {
            revision,
            time,
            events,
            trace,
        });
        self.push(commit.clone());
        commit
    }

    fn push(&mut self, commit: Arc<SharedCommit>) {
        let now = commit.commit.time;
        self.events += commit.commit.events.len();
        self.bytes += commit_weight(&commit.commit);
        self.commits.push_back(commit);
        if self.events > self.capacity {
            self.resize(now);
        }
        // The newest commit stays, however large: those who are in step read it here.
        while self.commits.len() > 1
            && (self.events > self.capacity || self.bytes > MAX_WINDOW_BYTES)
        {
            if let Some(oldest) = self.commits.pop_front() {
                self.events -= oldest.commit.events.len();
                self.bytes -= commit_weight(&oldest.commit);
                self.floor = oldest.commit.revision;
            }
        }
    }

    /// Full: doubles if the oldest event is younger than the span; halves if three
    /// quarters back is already older than it.
    fn resize(&mut self, now: SystemTime) {
        let age_at = |index: usize| {
            self.commits
                .get(index)
                .and_then(|c| now.duration_since(c.commit.time).ok())
                .unwrap_or_default()
        };
        if age_at(0) < self.sizing.span {
            self.capacity = (self.capacity * 2).min(MAX_WINDOW_EVENTS.max(self.sizing.minimum));
        } else if age_at(self.commits.len() * 3 / 4) > self.sizing.span {
            self.capacity = (self.capacity / 2).max(self.sizing.minimum);
        }
    }

    /// Commits after a position, each whole, as many as fit; at least one.
    pub(crate) fn read(&self, after: Revision, limit: PageLimit) -> WindowRead {
        if after < self.floor {
            return WindowRead::Behind;
        }
        let start = self.commits.partition_point(|c| c.commit.revision <= after);
        let mut taken = Vec::new();
        let (mut events, mut bytes) = (0, 0);
        for commit in self.commits.range(start..) {
            bytes += response_weight(&commit.commit);
            if !taken.is_empty() && (events >= limit.items || bytes > limit.bytes) {
                return WindowRead::Commits {
                    commits: taken,
                    all: false,
                };
            }
            events += commit.commit.events.len();
            taken.push(commit.clone());
        }
        WindowRead::Commits {
            commits: taken,
            all: true,
        }
    }

    /// A position from which the window can be read.
    pub(crate) fn covers(&self, after: Revision) -> bool {
        after >= self.floor
    }

    /// Holds nothing and has held nothing.
    pub(crate) fn is_untouched(&self) -> bool {
        self.state.is_empty() && self.commits.is_empty()
    }

    pub(crate) fn floor(&self) -> Revision {
        self.floor
    }

    pub(crate) fn revision(&self) -> Revision {
        self.revision
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn sizes(&self) -> WindowSizes {
        WindowSizes {
            events: self.events,
            capacity: self.capacity,
            bytes: self.state_bytes + self.bytes,
        }
    }
}

/// Sizes of a window, for status.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowSizes {
    pub(crate) events: usize,
    pub(crate) capacity: usize,
    pub(crate) bytes: usize,
}

/// Bytes that an object holds, roughly: what it owns and what its struct takes.
pub(crate) fn weight(object: &Object) -> usize {
    const FIXED: usize = 256;
    let labels: usize = object
        .content
        .labels
        .iter()
        .map(|(k, v)| k.len() + v.len() + 48)
        .sum();
    FIXED + object.key.name().len() + object.content.value.len() + labels
}

/// What the window adds beyond the state: the superseded versions it keeps alive.
fn commit_weight(commit: &Commit) -> usize {
    commit.events.iter().map(|e| 96 + weight(&e.object)).sum()
}

/// What a commit takes in a response, previous versions included.
pub(crate) fn response_weight(commit: &Commit) -> usize {
    let previous = |e: &Event| e.previous.as_ref().map_or(0, |p| weight(p));
    commit
        .events
        .iter()
        .map(|e| weight(&e.object) + previous(e))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Content, Key, Uid};

    fn event(name: &str, revision: u64) -> Event {
        let object = Object::new(
            Key::new("pods", "", name).unwrap(),
            Uid(1),
            Revision::new(revision),
            Revision::new(1),
            SystemTime::UNIX_EPOCH,
            Content::default(),
        );
        let change = Change::Updated;
        Event {
            change,
            object: Arc::new(object),
            previous_revision: None,
            previous: None,
        }
    }

    fn window_after(seconds_between: u64, commits: u64) -> Window {
        let sizing = Sizing {
            minimum: 4,
            span: Duration::from_secs(75),
        };
        let mut window = Window::new(sizing, Revision::ZERO);
        for n in 1..=commits {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(n * seconds_between);
            window.apply(Commit {
                revision: Revision::new(n),
                time,
                events: vec![event("a", n)],
                trace: None,
            });
        }
        window
    }

    #[test]
    fn the_window_grows_until_it_covers_its_span_and_shrinks_when_it_is_quiet() {
        let mut window = window_after(1, 200);
        assert!(
            window.capacity >= 64,
            "75 s at one event a second need 75: {}",
            window.capacity
        );
        assert!(window.covers(Revision::new(140)));
        for n in 201..=2000u64 {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(200 + (n - 200) * 60);
            window.apply(Commit {
                revision: Revision::new(n),
                time,
                events: vec![event("a", n)],
                trace: None,
            });
        }
        assert_eq!(window.capacity, 4);
    }

    #[test]
    fn a_position_below_the_floor_is_behind_and_never_a_silent_gap() {
        let window = window_after(3600, 20);
        let limit = crate::limits::RESPONSE_CHUNK;
        assert!(matches!(
            window.read(Revision::new(3), limit),
            WindowRead::Behind
        ));
        let WindowRead::Commits { commits, .. } = window.read(window.floor(), limit) else {
            panic!("the floor itself is readable")
        };
        assert_eq!(commits[0].commit.revision, window.floor().next());
        assert_eq!(commits.last().unwrap().commit.revision, Revision::new(20));
    }

    /// Objects of a collection, as events of them follow each other.
    struct History {
        window: Window,
        revision: u64,
    }

    impl History {
        fn new(minimum: usize, span_secs: u64) -> Self {
            let span = Duration::from_secs(span_secs);
            let window = Window::new(Sizing { minimum, span }, Revision::ZERO);
            let revision = 0;
            Self { window, revision }
        }

        fn apply(&mut self, at_secs: u64, events: Vec<Event>) -> Arc<SharedCommit> {
            self.revision += 1;
            self.window.apply(Commit {
                revision: Revision::new(self.revision),
                time: SystemTime::UNIX_EPOCH + Duration::from_secs(at_secs),
                events,
                trace: None,
            })
        }

        fn update(&mut self, at_secs: u64) {
            let event = event("a", self.revision + 1);
            self.apply(at_secs, vec![event]);
        }
    }

    fn object(name: &str, value: &Bytes) -> Arc<Object> {
        let content = Content {
            value: value.clone(),
            labels: [("app".to_owned(), "none".to_owned())].into(),
            ..Content::default()
        };
        Arc::new(Object::new(
            Key::new("pods", "", name).unwrap(),
            Uid(1),
            Revision::new(1),
            Revision::new(1),
            SystemTime::UNIX_EPOCH,
            content,
        ))
    }

    fn change(change: Change, object: Arc<Object>) -> Event {
        Event {
            change,
            object,
            previous_revision: None,
            previous: None,
        }
    }

    /// What an object of a name of one letter, with that label and a value of so many bytes,
    /// weighs.
    const fn weighs(value: usize) -> usize {
        256 + 1 + value + ("app".len() + "none".len() + 48)
    }

    #[test]
    fn what_a_window_says_that_it_holds_is_what_it_holds() {
        let value = |bytes: usize| Bytes::from(vec![b'x'; bytes]);
        let mut history = History::new(6, 0);
        history.window.load(object("a", &value(1)));
        history.window.load(object("b", &value(20)));
        history.window.load(object("a", &value(3)));
        assert_eq!(history.window.sizes().bytes, weighs(20) + weighs(3));
        let deleted = Change::Deleted(crate::store::DeleteCause::Request);
        let steps = [
            vec![("a", Change::Updated, 7)],
            vec![("c", Change::Created, 11), ("b", deleted, 0)],
            vec![("a", deleted, 0)],
            vec![("b", Change::Created, 13), ("c", Change::Updated, 17)],
            vec![("b", Change::Updated, 19)],
            vec![("b", deleted, 0)],
            vec![("c", deleted, 0)],
        ];
        let mut state = std::collections::BTreeMap::from([("a", 3), ("b", 20)]);
        let mut commits: VecDeque<(u64, usize, usize)> = VecDeque::new();
        for step in steps {
            let mut weight = 0;
            let events = step.iter().map(|(name, kind, bytes)| {
                // A deletion keeps the last state.
                let bytes = match kind {
                    Change::Deleted(_) => state.remove(name).unwrap(),
                    _ => {
                        state.insert(name, *bytes);
                        *bytes
                    }
                };
                weight += 96 + weighs(bytes);
                change(*kind, object(name, &value(bytes)))
            });
            let events: Vec<_> = events.collect();
            let count = events.len();
            history.apply(0, events);
            commits.push_back((history.revision, count, weight));
            let total = |commits: &VecDeque<(u64, usize, usize)>| -> usize {
                commits.iter().map(|(_, events, _)| events).sum()
            };
            while total(&commits) > 6 {
                commits.pop_front();
            }
            let window = &history.window;
            let sizes = window.sizes();
            assert_eq!(sizes.events, total(&commits));
            let held: usize = state.values().map(|bytes| weighs(*bytes)).sum();
            let superseded: usize = commits.iter().map(|(_, _, weight)| weight).sum();
            assert_eq!(sizes.bytes, held + superseded);
            let first = commits.front().unwrap().0;
            assert_eq!(window.floor(), Revision::new(first - 1));
            assert_eq!(window.revision(), Revision::new(history.revision));
            assert_eq!(window.state().len(), state.len());
            assert!(!window.is_untouched());
            assert!(window.covers(window.floor()));
            assert!(first == 1 || !window.covers(Revision::new(first - 2)));
        }
        assert!(commits.front().unwrap().0 > 1, "some have gone");
    }

    #[test]
    fn a_window_keeps_so_many_bytes_and_the_newest_commit_however_large() {
        let third = MAX_WINDOW_BYTES / 3 - 96 - weighs(0);
        // Shared by all: only their weights are large.
        let value = Bytes::from(vec![b'x'; third + 1 + MAX_WINDOW_BYTES % 3]);
        let mut history = History::new(100, 0);
        let mut put = |bytes: usize| {
            let object = object("a", &value.slice(..bytes));
            history.apply(0, vec![change(Change::Updated, object)]);
            (history.window.sizes().events, history.window.floor().get())
        };
        assert_eq!(put(third), (1, 0));
        assert_eq!(put(third), (2, 0));
        // As many as it may hold; and one byte more.
        assert_eq!(put(third + MAX_WINDOW_BYTES % 3), (3, 0));
        assert_eq!(put(third), (3, 1));
        assert_eq!(put(third + 1), (2, 3));
        assert_eq!(put(0), (3, 3));
        let large = Bytes::from(vec![b'x'; MAX_WINDOW_BYTES + 1]);
        let event = |value| change(Change::Updated, object("a", value));
        history.apply(0, vec![event(&large)]);
        assert_eq!(history.window.sizes().events, 1);
        assert_eq!(history.window.floor(), Revision::new(6));
        let limit = PageLimit { items: 1, bytes: 1 };
        let read = history.window.read(Revision::new(6), limit);
        let WindowRead::Commits { commits, all } = read else {
            panic!("it is there");
        };
        assert_eq!((commits.len(), all), (1, true));
    }

    #[test]
    fn a_window_that_is_full_doubles_within_its_span_and_halves_beyond_it() {
        let full = |times: &[u64]| {
            let mut history = History::new(4, 10);
            for at in times {
                history.update(*at);
            }
            (history.window.capacity, history.window.events)
        };
        assert_eq!(full(&[0, 0, 0, 0]), (4, 4), "it is not full");
        assert_eq!(full(&[0, 0, 0, 0, 9]), (8, 5));
        // The oldest is as old as the span.
        assert_eq!(full(&[0, 0, 0, 0, 10]), (4, 4));
        // Three quarters back of nine is the seventh.
        let with_seventh = |at| [0, 0, 0, 0, 0, 0, at, 14, 15];
        assert_eq!(full(&with_seventh(5)), (8, 8), "it is as old as the span");
        assert_eq!(full(&with_seventh(4)), (4, 4), "it is older");
        assert_eq!(full(&with_seventh(6)), (8, 8));
        // Of seventeen it is the thirteenth; half of sixteen is eight.
        let mut times = [0; 17];
        times[13..].fill(20);
        times[12] = 9;
        assert_eq!(full(&times), (8, 8));
        // It is never smaller than it has to be, and never larger than it may.
        assert_eq!(full(&[0, 0, 0, 0, 99, 200, 300]), (4, 4));
        let mut history = History::new(4, 10);
        for _ in 0..MAX_WINDOW_EVENTS * 2 {
            history.update(0);
        }
        let sizes = history.window.sizes();
        assert_eq!(sizes.capacity, MAX_WINDOW_EVENTS);
        assert_eq!(sizes.events, MAX_WINDOW_EVENTS);
    }

    #[test]
    fn a_read_is_of_whole_commits_up_to_its_limit_and_says_whether_there_are_more() {
        let mut history = History::new(100, 0);
        for events in [2, 1, 3] {
            let event = |n: usize| {
                let name = ["a", "b", "c"][n];
                change(Change::Updated, object(name, &Bytes::new()))
            };
            history.apply(0, (0..events).map(event).collect());
        }
        let read = |after: u64, items: usize, bytes: usize| {
            let limit = PageLimit { items, bytes };
            match history.window.read(Revision::new(after), limit) {
                WindowRead::Commits { commits, all } => {
                    let revisions = commits.iter().map(|c| c.commit.revision.get());
                    (revisions.collect::<Vec<_>>(), all)
                }
                WindowRead::Behind => panic!("{after} is there"),
            }
        };
        let most = usize::MAX;
        assert_eq!(read(0, most, most), (vec![1, 2, 3], true));
        assert_eq!(read(1, most, most), (vec![2, 3], true));
        assert_eq!(read(3, most, most), (vec![], true));
        // At least one, and no more once there are as many.
        assert_eq!(read(0, 1, most), (vec![1], false));
        assert_eq!(read(0, 2, most), (vec![1], false));
        assert_eq!(read(0, 3, most), (vec![1, 2], false));
        assert_eq!(read(0, 4, most), (vec![1, 2, 3], true));
        assert_eq!(read(2, 1, most), (vec![3], true));
        // Those of the second have versions before them, of which the client may want to know.
        let two = (2 + 2) * weighs(0);
        assert_eq!(read(0, most, 1), (vec![1], false));
        assert_eq!(read(0, most, two - 1), (vec![1], false));
        assert_eq!(read(0, most, two), (vec![1, 2], false));
    }

    #[test]
    fn a_window_that_begins_anew_keeps_its_size_and_nothing_else() {
        let mut history = History::new(4, 10);
        assert!(history.window.is_untouched());
        for _ in 0..5 {
            history.update(0);
        }
        let objects = [object("x", &Bytes::new()), object("y", &Bytes::new())];
        history.window.restart(Revision::new(9), &objects);
        let window = &history.window;
        let sizes = window.sizes();
        assert_eq!((sizes.events, sizes.capacity), (0, 8));
        assert_eq!(sizes.bytes, 2 * weighs(0));
        assert_eq!((window.floor().get(), window.state().len()), (9, 2));
        assert!(!window.is_untouched());
        let behind = window.read(Revision::new(8), crate::limits::RESPONSE_CHUNK);
        assert!(matches!(behind, WindowRead::Behind));
        history.window.restart(Revision::new(10), &[]);
        assert!(history.window.is_untouched());
    }
}
