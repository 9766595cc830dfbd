//! What lies outside of the simulated machines: the disk, what the observer knows, and the
//! log of the run.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use futures::FutureExt as _;
use listwatch::v1::{self, DeleteCause};
use listwatch_server::{
    clock::Clock,
    store::{self, Change, Feed, MemoryStore, Object, Revision, Store, StoreOptions},
};

use crate::harness::dice::Dice;
use crate::validator::{
    Copy, Model, Name, Recording, Violation,
    calls::{Call, Kind},
    name_of,
    travel::Seen,
};

/// How one run differs from another; all of it from the seed.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Deletions are forgotten at once.
    pub forgets: bool,
    /// The size of the watch caches.
    pub cache: usize,
    /// Of twelve changes, so many are deletions.
    pub deletions: u32,
    /// Watchers that come and go together.
    pub crowd: u32,
    /// Of so many commits one is told late; 0: none.
    pub late: u32,
    /// Groups of commits by which the hub may fall behind the feed, where that is late.
    pub feed: usize,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 1 << 60);
        Self {
            seed,
            forgets: dice.one_in(2),
            cache: [0, 1, 100][dice.below(3) as usize],
            deletions: [2, 3, 8][dice.below(3) as usize],
            crowd: if dice.one_in(8) { 20 } else { 1 },
            late: [0, 3, 12][dice.below(3) as usize],
            feed: [1, 256][dice.below(2) as usize],
        }
    }
}

/// One history: a store from when it was made until the next took its place.
pub struct Epoch {
    pub store: Arc<MemoryStore>,
    /// Everything that the store wrote, as its feed told.
    pub log: Model,
    /// The revision that it began at: that of the backup that it was made from.
    pub base: i64,
    feed: Feed,
}

impl Epoch {
    fn new(store: Arc<MemoryStore>, backup: Option<&Backup>) -> Self {
        let mut log = Model::default();
        let base = backup.map_or(0, |backup| backup.revision);
        log.compacted = base;
        for object in backup.iter().flat_map(|backup| &backup.objects) {
            log.put(resource_of(object));
        }
        Self {
            feed: store.subscribe(),
            store,
            log,
            base,
        }
    }

    /// The newest revision.
    pub fn revision(&self) -> i64 {
        self.log.revision().max(self.base)
    }

    pub fn id(&self) -> String {
        self.store.id().to_string()
    }
}

/// What a store held once.
pub struct Backup {
    pub revision: i64,
    pub objects: Vec<Arc<Object>>,
}

/// A stream, and the epochs in which it began and ended.
pub struct Streamed {
    pub client: String,
    pub first: usize,
    pub last: usize,
    pub recording: Recording,
    /// When responses came; empty where the reader paused.
    pub spoke: Vec<Duration>,
    pub ended: Duration,
}

pub struct Outside {
    pub plan: Plan,
    pub epochs: Vec<Epoch>,
    pub backup: Option<Backup>,
    /// Writes that have been begun.
    pub begun: u32,
    /// Writers that are at work.
    pub writing: u32,
    pub streams: Vec<Streamed>,
    /// Calls, with the epochs in which they began and ended.
    pub calls: Vec<(usize, usize, Call)>,
    /// What was seen, by epoch.
    pub seen: Vec<Seen>,
    /// What each watch held at its end.
    pub ends: BTreeMap<String, Copy>,
    /// When the network or the server was out of order, and for whom (empty: all).
    pub troubles: Vec<(String, Duration, Duration)>,
    /// What was found while it ran.
    pub found: Vec<Violation>,
    /// Everything that happened, in order.
    pub trace: String,
    /// By how much the feed is late.
    pub lateness: Dice,
    /// What [`World::moment`] said last.
    last_moment: Duration,
    time: Arc<Time>,
}

/// The simulation's time, and the server's idea of it.
#[derive(Debug, Default)]
struct Time {
    /// For who asks from outside of the simulation.
    elapsed_millis: AtomicU64,
    /// By how much the server's wall clock is off.
    off_millis: AtomicI64,
}

impl Time {
    fn elapsed(&self) -> Duration {
        let outside = || Duration::from_millis(self.elapsed_millis.load(Ordering::Relaxed));
        turmoil::sim_elapsed().unwrap_or_else(outside)
    }

    fn clock(self: &Arc<Self>) -> Clock {
        let time = self.clone();
        Clock::new(move || {
            let now = time.elapsed();
            let off = time.off_millis.load(Ordering::Relaxed);
            let by = Duration::from_millis(off.unsigned_abs());
            if off < 0 {
                start() + now - by
            } else {
                start() + now + by
            }
        })
    }
}

#[derive(Clone)]
pub struct World(Arc<Mutex<Outside>>);

/// The simulated wall clock begins here.
fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000)
}

impl World {
    pub fn new(plan: &Plan) -> Self {
        let time = Arc::new(Time::default());
        let store = Arc::new(MemoryStore::new(store_options(plan, 0, time.clock())));
        let world = Self(Arc::new(Mutex::new(Outside {
            plan: plan.clone(),
            epochs: vec![Epoch::new(store, None)],
            backup: None,
            begun: 0,
            writing: 0,
            streams: Vec::new(),
            calls: Vec::new(),
            seen: Vec::new(),
            ends: BTreeMap::new(),
            troubles: Vec::new(),
            found: Vec::new(),
            trace: String::new(),
            lateness: Dice::new(plan.seed ^ 1 << 61),
            last_moment: Duration::ZERO,
            time,
        })));
        world.say("plan", &format!("{plan:?}"));
        world
    }

    pub fn lock(&self) -> MutexGuard<'_, Outside> {
        self.0.lock().unwrap()
    }

    /// The server's wall clock.
    pub fn clock(&self) -> Clock {
        self.lock().time.clock()
    }

    /// The simulation has come so far.
    pub fn set_elapsed(&self, elapsed: Duration) {
        let millis = elapsed.as_millis() as u64;
        let time = self.lock().time.clone();
        time.elapsed_millis.store(millis, Ordering::Relaxed);
    }

    /// The server's wall clock jumps.
    pub fn set_clock_off(&self, millis: i64) {
        let time = self.lock().time.clone();
        time.off_millis.store(millis, Ordering::Relaxed);
    }

    pub fn epoch(&self) -> usize {
        self.lock().epochs.len() - 1
    }

    /// Everything has been written.
    pub fn written(&self) -> bool {
        let outside = self.lock();
        outside.writing == 0 && outside.begun > 0
    }

    /// Now: a little later at each call, so that what happened first is known also within a
    /// millisecond, and between machines.
    pub fn moment(&self) -> Duration {
        self.lock().moment()
    }

    /// Adds to the log of the run.
    pub fn say(&self, who: &str, what: &str) {
        self.lock().say(who, what);
    }

    /// Notes a call that began in an epoch and is over.
    pub fn note_call(&self, first: usize, call: Call, text: &str) {
        let mut outside = self.lock();
        outside.say(&call.client, text);
        let last = outside.epochs.len() - 1;
        outside.calls.push((first, last, call));
    }

    /// Notes what a watch was told.
    pub fn note_heard(&self, first: usize, call: Call) {
        let mut outside = self.lock();
        let last = outside.epochs.len() - 1;
        outside.calls.push((first, last, call));
    }

    /// Notes what a client was shown between two moments, if the store was the same.
    pub fn note_seen(
        &self,
        client: &str,
        first: usize,
        called_at: Duration,
        revision: i64,
        shown: Vec<v1::Resource>,
    ) {
        let mut outside = self.lock();
        if first + 1 != outside.epochs.len() {
            return;
        }
        let seen = Seen {
            client: client.into(),
            store: outside.epochs[first].id(),
            called_at,
            returned_at: outside.moment(),
            revision,
            shown,
        };
        outside.seen.push(seen);
    }

    /// A store takes the place of the present one: empty, or made from the backup.
    pub fn replace_store(&self, from_backup: bool) {
        let clock = self.clock();
        let mut outside = self.lock();
        let outside = &mut *outside;
        outside.drain();
        let number = outside.epochs.len() as u64;
        let options = store_options(&outside.plan, number, clock);
        let backup = outside.backup.as_ref().filter(|_| from_backup);
        let store = match backup {
            None => MemoryStore::new(options),
            Some(backup) => {
                let revision = Revision::from_wire(backup.revision).unwrap();
                MemoryStore::restored(options, revision, backup.objects.iter().cloned()).unwrap()
            }
        };
        outside.epochs.push(Epoch::new(Arc::new(store), backup));
        outside.backup = None;
    }
}

fn store_options(plan: &Plan, number: u64, clock: Clock) -> StoreOptions {
    StoreOptions {
        clock,
        seed: Some(plan.seed ^ (number + 1) << 50),
        max_tombstones: if plan.forgets { 1 } else { 1000 },
        ..StoreOptions::default()
    }
}

impl Outside {
    pub fn moment(&mut self) -> Duration {
        let now = self.time.elapsed();
        self.last_moment = now.max(self.last_moment + Duration::from_nanos(1));
        self.last_moment
    }

    pub fn say(&mut self, who: &str, what: &str) {
        let now = self.time.elapsed();
        writeln!(self.trace, "{:>9.3} {who} {what}", now.as_secs_f64()).unwrap();
    }

    pub fn newest(&self) -> &Epoch {
        self.epochs.last().unwrap()
    }

    /// Takes up what the store wrote.
    pub fn drain(&mut self) {
        let mut lines = Vec::new();
        let epoch = self.epochs.last_mut().unwrap();
        while let Ok(commits) = epoch.feed.try_recv() {
            for commit in commits.iter() {
                for event in &commit.events {
                    let object = &event.object;
                    let name = name_of(&resource_of(object));
                    lines.push(format!(
                        "{} {} {:?} {}",
                        commit.revision,
                        name.2,
                        event.change,
                        String::from_utf8_lossy(&object.content.value),
                    ));
                    let Change::Deleted(cause) = event.change else {
                        epoch.log.put(resource_of(object));
                        continue;
                    };
                    let revision = commit.revision.to_wire();
                    let last = epoch.log.version(&name, revision);
                    let expires = last.and_then(|last| last.expire_time);
                    let cause = match cause {
                        store::DeleteCause::Request => DeleteCause::Request,
                        store::DeleteCause::Expired => DeleteCause::Expired,
                    };
                    let early =
                        expires.is_none_or(|at| timestamp(commit.time) < (at.seconds, at.nanos));
                    if cause == DeleteCause::Expired && early {
                        let what = format!("{name:?}@{revision} expired before {expires:?}");
                        self.found.push(Violation { check: 23, what });
                    }
                    epoch.log.delete(name, revision, cause);
                }
            }
        }
        for line in lines {
            self.say("store", &line);
        }
    }

    /// Keeps what the store holds now.
    pub fn back_up(&mut self) {
        self.drain();
        let epoch = self.newest();
        let at = epoch.store.progress().revision;
        let names: Vec<Name> = epoch.log.names().cloned().collect();
        let get = |(collection, namespace, name): &Name| {
            let key = store::Key::new(collection, namespace, name).unwrap();
            epoch.store.get(&key, at).now_or_never().unwrap().unwrap()
        };
        let objects = names.iter().filter_map(get).collect();
        self.backup = Some(Backup {
            revision: at.to_wire(),
            objects,
        });
    }

    /// The calls of one epoch. Of what began in one and ended in another nobody knows which of
    /// them answered: a write of those may have been done in each.
    pub fn calls_of(&self, epoch: usize) -> Vec<Call> {
        let mut calls = Vec::new();
        for (first, last, call) in &self.calls {
            if !(*first..=*last).contains(&epoch) {
                continue;
            }
            let mut call = call.clone();
            if first < last {
                let Kind::Write(write) = &mut call.kind else {
                    continue;
                };
                write.outcome = crate::validator::calls::Outcome::Unknown;
                call.returned_at = None;
            }
            calls.push(call);
        }
        calls
    }
}

pub fn timestamp(time: SystemTime) -> (i64, i32) {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    (since.as_secs() as i64, since.subsec_nanos() as i32)
}

/// An object of the store as the API shows it.
pub fn resource_of(object: &Object) -> v1::Resource {
    let wire = |time| {
        let (seconds, nanos) = timestamp(time);
        prost_types::Timestamp { seconds, nanos }
    };
    v1::Resource {
        key: Some(v1::Key {
            collection: object.key.collection.as_str().into(),
            namespace: object.key.namespace().into(),
            name: object.key.name().into(),
        }),
        uid: object.uid.to_string(),
        revision: object.revision.to_wire(),
        create_revision: object.create_revision.to_wire(),
        update_time: Some(wire(object.update_time)),
        labels: object.content.labels.clone().into_iter().collect(),
        value: object.content.value.clone(),
        content_type: object.content.content_type.to_string(),
        expire_time: object.content.expire_time.map(wire),
    }
}

/// A response in one line, every event of it.
pub fn line_of(response: &v1::WatchResponse) -> String {
    let mut line = String::new();
    for event in &response.events {
        let resource = event.resource.as_ref();
        let name = resource
            .and_then(|r| r.key.as_ref())
            .map(|k| k.name.as_str());
        let revision = resource.map_or(0, |r| r.revision);
        let value = resource.map(|r| String::from_utf8_lossy(&r.value));
        let (name, value) = (name.unwrap_or_default(), value.unwrap_or_default());
        write!(line, "{:?} {name}@{revision}={value} ", event.r#type()).unwrap();
    }
    if let Some(bookmark) = &response.bookmark {
        write!(line, "| {:?} {}", bookmark.kind(), bookmark.revision).unwrap();
    }
    line
}
