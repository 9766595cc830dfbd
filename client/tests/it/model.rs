//! Whatever the history and wherever streams break: every snapshot that a reader can see is
//! the state of the store at the snapshot's revision, and handlers that apply what they are
//! told hold the same.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use listwatch_client::{
    Notice, Reflector,
    reflector::Subscription,
    v1::{Bookmark, BookmarkKind, EventType, Resource, WatchEvent},
};
use proptest::{collection::vec, prelude::*};
use tonic::{Code, Status};

use crate::{
    mock::{Mock, OpenWatch, WatchCall, bookmark, event, object, refusal},
    reflector::{LONG, build},
};

/// Name to uid, revision and value.
type State = BTreeMap<String, (String, i64, Vec<u8>)>;

/// One write of a revision: of the key with this number, a deletion if `true`.
type Write = (u8, bool);

#[derive(Debug, Clone)]
enum Step {
    /// A revision reaches a live stream.
    Live(Vec<Write>, Cut),
    /// The stream breaks, perhaps with half of a revision told; writes go on; the client
    /// comes back, perhaps only to be cut off again after so many events.
    Away {
        half: Vec<Write>,
        missed: Vec<Vec<Write>>,
        back: Back,
        cut_off: Option<usize>,
    },
    /// The stream stays, but gets the difference instead of the changes.
    Behind {
        missed: Vec<Vec<Write>>,
        manifest: bool,
    },
}

#[derive(Debug, Clone, Copy)]
enum Cut {
    Whole,
    Halves,
    WithoutBookmark,
}

#[derive(Debug, Clone, Copy)]
enum Back {
    Exact,
    Net,
    Manifest,
    Expired,
}

fn writes() -> impl Strategy<Value = Vec<Write>> {
    vec((0..6_u8, prop::bool::weighted(0.4)), 1..5)
}

fn step() -> impl Strategy<Value = Step> {
    let cut = prop_oneof![
        Just(Cut::Whole),
        Just(Cut::Halves),
        Just(Cut::WithoutBookmark)
    ];
    let back = prop_oneof![
        Just(Back::Exact),
        Just(Back::Net),
        Just(Back::Manifest),
        Just(Back::Expired)
    ];
    let half = prop_oneof![Just(vec![]), writes()];
    let missed = || vec(writes(), 0..5);
    prop_oneof![
        3 => (writes(), cut).prop_map(|(writes, cut)| Step::Live(writes, cut)),
        3 => (half, missed(), back, prop::option::of(0..5_usize))
            .prop_map(|(half, missed, back, cut_off)| Step::Away { half, missed, back, cut_off }),
        1 => (missed(), any::<bool>())
            .prop_map(|(missed, manifest)| Step::Behind { missed, manifest }),
    ]
}

/// The server as it should be.
struct Model {
    revision: i64,
    states: BTreeMap<i64, State>,
    log: Vec<WatchEvent>,
}

impl Model {
    fn new() -> Self {
        // 0 is what a reflector shows before anything came.
        let states = BTreeMap::from([(0, State::new()), (1, State::new())]);
        Self {
            revision: 1,
            states,
            log: Vec::new(),
        }
    }

    fn state(&self) -> &State {
        &self.states[&self.revision]
    }

    /// Takes the next revision and gives its events.
    fn commit(&mut self, writes: &[Write]) -> Vec<WatchEvent> {
        let mut state = self.state().clone();
        self.revision += 1;
        let revision = self.revision;
        let mut events: Vec<WatchEvent> = Vec::new();
        // A batch names a key once.
        for (key, delete) in writes.iter().copied().collect::<BTreeMap<_, _>>() {
            let name = format!("k{key}");
            let held = state.get(&name).cloned();
            // Its last digit is what it is indexed by.
            let value = format!("{name} at {revision}, {}", (i64::from(key) + revision) % 2);
            match (held, delete) {
                (None, true) => {}
                (Some((uid, ..)), true) => {
                    state.remove(&name);
                    events.push(event(EventType::Deleted, object(&name, &uid, revision, "")));
                }
                (held, false) => {
                    let kind = if held.is_some() {
                        EventType::Modified
                    } else {
                        EventType::Added
                    };
                    let uid = held.map_or_else(|| format!("{name}-{revision}"), |held| held.0);
                    events.push(event(kind, object(&name, &uid, revision, &value)));
                    state.insert(name, (uid, revision, value.into_bytes()));
                }
            }
        }
        self.states.insert(revision, state);
        self.log.extend(events.iter().cloned());
        events
    }

    fn since(&self, revision: i64) -> Vec<WatchEvent> {
        let later = |e: &&WatchEvent| e.resource.as_ref().unwrap().revision > revision;
        self.log.iter().filter(later).cloned().collect()
    }

    /// The newest change of each key since, in order of revision.
    fn net(&self, revision: i64) -> Vec<WatchEvent> {
        let mut newest = BTreeMap::new();
        for mut event in self.since(revision) {
            let resource = event.resource.clone().unwrap();
            if event.r#type() != EventType::Deleted {
                event.r#type = EventType::Upserted.into();
            }
            newest.insert(resource.key.unwrap().name, (resource.revision, event));
        }
        let mut events: Vec<_> = newest.into_values().collect();
        events.sort_by_key(|(revision, _)| *revision);
        events.into_iter().map(|(_, event)| event).collect()
    }

    fn existing(&self) -> impl Iterator<Item = Resource> {
        self.state().iter().map(|(name, (uid, revision, value))| {
            object(name, uid, *revision, std::str::from_utf8(value).unwrap())
        })
    }

    fn manifest(&self, since: i64) -> Vec<WatchEvent> {
        self.existing()
            .map(|resource| match resource.revision > since {
                true => event(EventType::Upserted, resource),
                false => event(
                    EventType::Unchanged,
                    Resource {
                        value: Bytes::new(),
                        ..resource
                    },
                ),
            })
            .collect()
    }
}

/// What a handler holds that does as it is told.
#[derive(Default)]
struct Told(State);

impl Told {
    fn take(&mut self, notice: Notice<Bytes>) {
        let version = |o: &listwatch_client::Obj<Bytes>| {
            (o.uid().to_owned(), o.revision(), o.value().to_vec())
        };
        match notice {
            Notice::Added(new) => {
                let before = self.0.insert(new.key().name.clone(), version(&new));
                assert_eq!(before, None, "added what is there");
            }
            Notice::Updated { old, new } => {
                assert_eq!(old.uid(), new.uid());
                assert!(old.revision() < new.revision(), "an update that is none");
                let before = self.0.insert(new.key().name.clone(), version(&new));
                assert_eq!(before, Some(version(&old)), "old is not what was told");
            }
            Notice::Deleted(old) => {
                let before = self.0.remove(&old.key().name);
                assert_eq!(before, Some(version(&old)), "deleted is not what was told");
            }
            Notice::Synced => {}
            other => panic!("{other:?}"),
        }
    }
}

struct Run {
    mock: Mock,
    model: Model,
    reflector: Reflector<Bytes>,
    handlers: [(Subscription<Bytes>, Told); 2],
}

impl Run {
    /// Whatever is visible now must be a state that the store had.
    fn check(&self) {
        let snapshot = self.reflector.snapshot();
        let expected = self.model.states.get(&snapshot.revision());
        let expected = expected.unwrap_or_else(|| panic!("no revision {}", snapshot.revision()));
        let shown: State = snapshot
            .iter()
            .map(|o| {
                (
                    o.key().name.clone(),
                    (o.uid().to_owned(), o.revision(), o.value().to_vec()),
                )
            })
            .collect();
        assert_eq!(&shown, expected, "at {}", snapshot.revision());
        for parity in ["0", "1"] {
            let indexed: Vec<_> = snapshot
                .indexed("parity", parity)
                .map(|o| (o.key().name.clone(), o.revision()))
                .collect();
            let expected: Vec<_> = expected
                .iter()
                .filter(|(_, (_, _, value))| value.ends_with(parity.as_bytes()))
                .map(|(name, (_, revision, _))| (name.clone(), *revision))
                .collect();
            assert_eq!(indexed, expected, "index at {}", snapshot.revision());
        }
    }

    async fn look(&self) {
        // Lets the reflector take what was sent, without moving the clock.
        for _ in 0..40 {
            tokio::task::yield_now().await;
            self.check();
        }
    }

    async fn arrived(&mut self) {
        let waited = self
            .reflector
            .wait_for_revision(self.model.revision, LONG)
            .await;
        assert_eq!(waited.unwrap().revision(), self.model.revision);
        self.check();
        let (fast, told) = &mut self.handlers[0];
        drain(fast, told).await;
        assert_eq!(&told.0, self.model.state(), "the fast handler");
    }

    async fn live(&mut self, open: &OpenWatch, writes: &[Write], cut: Cut) {
        let mut events = self.model.commit(writes);
        let revision = self.model.revision;
        match cut {
            Cut::Whole => open.changes(revision, events).await,
            Cut::Halves => {
                let rest = events.split_off(events.len() / 2);
                open.send(events, None).await;
                self.look().await;
                open.changes(revision, rest).await;
            }
            Cut::WithoutBookmark if events.is_empty() => open.changes(revision, events).await,
            Cut::WithoutBookmark => open.send(events, None).await,
        }
        self.look().await;
        self.arrived().await;
    }

    /// Answers a client that comes back; the stream that it then has.
    async fn back(&mut self, call: WatchCall, how: Back, cut_off: Option<usize>) -> OpenWatch {
        let Some(token) = call.token() else {
            assert!(call.wants_initial_state());
            let events = self
                .model
                .existing()
                .map(|o| event(EventType::Existing, o))
                .collect();
            return self
                .catch_up(call, BookmarkKind::InitialStateBegin, events, cut_off)
                .await;
        };
        let since: i64 = token.trim_start_matches('t').parse().unwrap();
        let (kind, events) = match how {
            Back::Exact => (BookmarkKind::Resumed, self.model.since(since)),
            Back::Net => (BookmarkKind::NetBegin, self.model.net(since)),
            Back::Manifest => (BookmarkKind::ManifestBegin, self.model.manifest(since)),
            Back::Expired => {
                call.refuse(refusal(Code::OutOfRange, "REVISION_COMPACTED", None));
                let call = self.mock.next_watch().await;
                return Box::pin(self.back(call, how, cut_off)).await;
            }
        };
        self.catch_up(call, kind, events, cut_off).await
    }

    async fn catch_up(
        &mut self,
        call: WatchCall,
        kind: BookmarkKind,
        mut events: Vec<WatchEvent>,
        cut_off: Option<usize>,
    ) -> OpenWatch {
        let begin = match call.token() {
            Some(token) => token.trim_start_matches('t').parse().unwrap(),
            None => self.model.revision,
        };
        let open = call.accept();
        let latest_revision = self.model.revision;
        open.send(
            vec![],
            Some(Bookmark {
                latest_revision,
                ..bookmark(kind, begin)
            }),
        )
        .await;
        if let Some(count) = cut_off {
            events.truncate(count);
            open.send(events, None).await;
            self.look().await;
            open.fail(Status::unavailable("cut off")).await;
            let call = self.mock.next_watch().await;
            self.check();
            let how = match kind {
                BookmarkKind::Resumed => Back::Net,
                BookmarkKind::NetBegin => Back::Exact,
                _ => Back::Manifest,
            };
            return Box::pin(self.back(call, how, None)).await;
        }
        let rest = events.split_off(events.len() / 2);
        // Half of what catches up is no revision's end.
        if kind != BookmarkKind::Resumed {
            open.send(events, Some(bookmark(BookmarkKind::Progress, begin)))
                .await;
        } else {
            open.send(events, None).await;
        }
        self.look().await;
        let end = match kind {
            BookmarkKind::Resumed => BookmarkKind::Progress,
            _ => BookmarkKind::InitialStateEnd,
        };
        open.send(rest, Some(bookmark(end, self.model.revision)))
            .await;
        self.look().await;
        open
    }

    async fn run(mut self, mut open: OpenWatch, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Live(writes, cut) => self.live(&open, &writes, cut).await,
                Step::Away {
                    half,
                    missed,
                    back,
                    cut_off,
                } => {
                    if !half.is_empty() {
                        let mut events = self.model.commit(&half);
                        events.truncate(events.len().div_ceil(2));
                        open.send(events, None).await;
                        self.look().await;
                    }
                    open.fail(Status::unavailable("gone")).await;
                    for writes in missed {
                        self.model.commit(&writes);
                    }
                    let call = self.mock.next_watch().await;
                    self.check();
                    open = self.back(call, back, cut_off).await;
                }
                Step::Behind { missed, manifest } => {
                    let since = self.model.revision;
                    for writes in missed {
                        self.model.commit(&writes);
                    }
                    let (kind, events) = match manifest {
                        true => (BookmarkKind::ManifestBegin, self.model.manifest(since)),
                        false => (BookmarkKind::NetBegin, self.model.net(since)),
                    };
                    open.bookmark(kind, since).await;
                    open.send(events, None).await;
                    self.look().await;
                    open.bookmark(BookmarkKind::InitialStateEnd, self.model.revision)
                        .await;
                }
            }
            self.arrived().await;
        }
        let (slow, told) = &mut self.handlers[1];
        drain(slow, told).await;
        assert_eq!(&told.0, self.model.state(), "the slow handler");
    }
}

async fn drain(handler: &mut Subscription<Bytes>, told: &mut Told) {
    while let Ok(Some(notice)) =
        tokio::time::timeout(Duration::from_millis(1), handler.next()).await
    {
        told.take(notice);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_visible_state_is_one_that_the_store_had(steps in vec(step(), 1..14)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut mock = Mock::start().await;
            let builder = build(&mock).index("parity", |object| {
                vec![object.value().last().map(|b| char::from(*b).to_string()).unwrap_or_default()]
            });
            let reflector = builder.spawn();
            let open = mock.next_watch().await.accept();
            open.initial_state(1, vec![]).await;
            let handlers = [(); 2].map(|()| (reflector.subscribe(), Told::default()));
            let run = Run { mock, model: Model::new(), reflector, handlers };
            run.run(open, steps).await;
        });
    }
}
