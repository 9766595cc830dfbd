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
}
