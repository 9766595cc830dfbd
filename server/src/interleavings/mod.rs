//! The orders in which threads and tasks can come, tried on the code that serves: see
//! [`crate::sync`]. `scripts/interleavings` runs these.
//!
//! Time stands still: no timer ever fires. So whoever waits for news that were there already is
//! found, as a deadlock, where a server would go on at the next bookmark or deadline. What is not
//! tried are the weaker orders of memory: every atomic is sequentially consistent here.
//!
//! A failure prints its schedule; `INTERLEAVINGS_SCHEDULE=… scripts/interleavings NAME` runs that
//! alone. `INTERLEAVINGS` is the number of orders that each test tries, `INTERLEAVINGS_SEED` picks
//! others.

mod collections;
mod starting;
mod streams;
mod taking;
mod watching;

use std::{
    collections::BTreeMap, future::poll_fn, str::FromStr, sync::Arc, task::Poll, time::Duration,
};

use shuttle::{
    Config, FailurePersistence, Runner,
    future::{JoinHandle, block_on, spawn},
    scheduler::{PctScheduler, RandomScheduler, ReplayScheduler, Scheduler},
};

use crate::{
    clock::Clock,
    hub::{
        Begin, Cursor, Delivery, DeliveryKind, DeliveryMode, Hub, HubError, HubOptions, StartPoint,
        StateReader, Step,
    },
    limits::RESPONSE_CHUNK,
    selector::{LabelCondition, LabelRequirement, Selector},
    store::{
        Collection, Content, DeleteCause, Key, MemoryStore, Operation, PutCondition, Revision,
        Store, StoreOptions, WriteBatch,
    },
};

/// Orders that a test tries, unless it is told: enough to find every fault that is listed in
/// `tests/README.md`.
const ORDERS: usize = 2000;

/// Places where two that come in an unlucky order must meet, in the orders that are not drawn
/// at random at each step.
const DEPTH: usize = 3;

/// Tries many orders, half of them drawn step by step, half as PCT has it: with priorities that
/// change a few times, which finds what needs one to wait for long.
fn in_any_order<F: Future<Output = ()> + 'static>(story: impl Fn() -> F + Send + Sync + 'static) {
    fn set<T: FromStr>(name: &str) -> Option<T> {
        std::env::var(name).ok()?.parse().ok()
    }
    // Timers need one; as nobody drives it, they never fire. Never dropped: its end would wake
    // those whom a failed order has left behind.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let _entered = Box::leak(Box::new(runtime.unwrap())).enter();
    let story = Arc::new(story);
    let run = |scheduler: Box<dyn Scheduler + Send>| {
        let mut config = Config::new();
        config.stack_size = 1 << 20;
        config.failure_persistence = FailurePersistence::Print;
        let story = story.clone();
        Runner::new(scheduler, config).run(move || block_on(story()));
    };
    if let Some(schedule) = set::<String>("INTERLEAVINGS_SCHEDULE") {
        return run(Box::new(ReplayScheduler::new_from_encoded(&schedule)));
    }
    let orders = set("INTERLEAVINGS").unwrap_or(ORDERS).max(2);
    let seed = set("INTERLEAVINGS_SEED").unwrap_or(1);
    run(Box::new(RandomScheduler::new_from_seed(seed, orders / 2)));
    run(Box::new(PctScheduler::new_from_seed(
        seed,
        DEPTH,
        orders / 2,
    )));
}

/// A store in memory at a moment that does not pass, the same in each order.
fn store() -> Arc<dyn Store> {
    let moment = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    Arc::new(MemoryStore::new(StoreOptions {
        clock: Clock::new(move || moment),
        seed: Some(1),
        ..StoreOptions::default()
    }))
}

/// Windows of so many events, which do not grow; 0: none.
fn windows(events: usize) -> HubOptions {
    HubOptions {
        default_cache_size: events,
        window_span: Duration::ZERO,
        ..HubOptions::default()
    }
}

async fn hub(events: usize) -> Arc<Hub> {
    Hub::start(store(), windows(events)).await.unwrap()
}

fn key(collection: &str, name: &str) -> Key {
    Key::new(collection, "default", name).unwrap()
}

/// Writes one object and returns the revision.
async fn put(store: &Arc<dyn Store>, key: Key, value: &str) -> Revision {
    let mut content = Content {
        value: value.as_bytes().to_vec().into(),
        ..Content::default()
    };
    content
        .labels
        .insert("even".into(), (value.len() % 2 == 0).to_string());
    write(
        store,
        Operation::Put {
            key,
            condition: PutCondition::Any,
            content,
        },
    )
    .await
}

async fn delete(store: &Arc<dyn Store>, key: Key) -> Revision {
    let delete = Operation::Delete {
        key,
        if_revision: None,
        if_uid: None,
        allow_missing: false,
        cause: DeleteCause::Request,
    };
    write(store, delete).await
}

async fn write(store: &Arc<dyn Store>, operation: Operation) -> Revision {
    let batch = WriteBatch {
        operations: vec![operation],
        ..WriteBatch::default()
    };
    store.commit(batch).await.unwrap().revision
}

fn everything(collection: &str) -> Arc<Selector> {
    Arc::new(Selector::all(Collection::new(collection).unwrap()))
}

/// Those whose value has an even length: filed under a label.
fn even(collection: &str) -> Arc<Selector> {
    let label = LabelRequirement {
        key: "even".into(),
        condition: LabelCondition::In(vec!["true".into()]),
    };
    let collection = Collection::new(collection).unwrap();
    let (labels, fields) = (vec![label], Vec::new());
    Arc::new(Selector::new(
        collection,
        None,
        None,
        "",
        labels,
        fields,
        Arc::default(),
    ))
}

/// What exists, by name: its revision and value.
type State = BTreeMap<String, (Revision, Vec<u8>)>;

/// What a reader has to give at its revision.
async fn read(hub: &Hub, mut reader: StateReader) -> State {
    let mut state = State::new();
    while !reader.is_done() {
        for object in reader.next(hub, RESPONSE_CHUNK).await.unwrap().objects {
            let value = object.content.value.to_vec();
            state.insert(object.key.name().to_owned(), (object.revision, value));
        }
    }
    state
}

/// What the store holds of a selector at a revision.
async fn stored(store: &Arc<dyn Store>, selector: &Selector, at: Revision) -> State {
    let range = selector.range(std::ops::Bound::Unbounded);
    let page = store.list(&range, at, RESPONSE_CHUNK).await.unwrap();
    assert!(page.next.is_none(), "more than a page");
    let matching = page
        .objects
        .iter()
        .filter(|object| selector.matches(object));
    matching
        .map(|object| {
            let value = object.content.value.to_vec();
            (object.key.name().to_owned(), (object.revision, value))
        })
        .collect()
}

/// A client: it follows a watch and keeps a copy.
struct Follower {
    cursor: Cursor,
    copy: State,
    /// Names of a manifest that is being delivered.
    named: Option<Vec<String>>,
    /// Of the changes delivered one by one, in the order in which they came.
    changes: Vec<Revision>,
}

impl Follower {
    async fn open(
        hub: &Arc<Hub>,
        selector: Arc<Selector>,
        start: StartPoint,
        mode: DeliveryMode,
    ) -> Result<Self, HubError> {
        let cursor = hub.watch(selector, start, mode).await?;
        Ok(Self {
            cursor,
            copy: State::new(),
            named: None,
            changes: Vec::new(),
        })
    }

    /// Goes on until everything up to a revision is there.
    async fn reach(&mut self, wanted: Revision) -> Result<(), HubError> {
        loop {
            let step = self.cursor.step().await?;
            let idle = step.idle;
            self.take(step);
            let position = self.cursor.position();
            if position.is_some_and(|at| at.revision >= wanted && at.settles_at <= at.revision) {
                return Ok(());
            }
            if idle {
                poll_fn(|context| self.cursor.poll_news(context.waker())).await;
            }
        }
    }

    fn take(&mut self, step: Step) {
        match step.begins {
            Some(Begin::InitialState) => self.copy.clear(),
            Some(Begin::Manifest) => self.named = Some(Vec::new()),
            _ => {}
        }
        for delivery in step.deliveries {
            self.deliver(&delivery);
        }
        if step.completes
            && let Some(named) = self.named.take()
        {
            self.copy.retain(|name, _| named.contains(name));
        }
    }

    fn deliver(&mut self, delivery: &Delivery) {
        let object = &delivery.object;
        let name = object.key.name().to_owned();
        if let Some(named) = &mut self.named {
            named.push(name.clone());
        }
        match delivery.kind {
            DeliveryKind::Unchanged => return,
            DeliveryKind::Added | DeliveryKind::Modified | DeliveryKind::Deleted(_) => {
                let last = self.changes.last().copied().unwrap_or_default();
                assert!(object.revision > last, "{} after {last}", object.revision);
                self.changes.push(object.revision);
            }
            DeliveryKind::Existing | DeliveryKind::Upserted => {}
        }
        if let DeliveryKind::Deleted(_) = delivery.kind {
            self.copy.remove(&name);
        } else {
            let value = object.content.value.to_vec();
            self.copy.insert(name, (object.revision, value));
        }
    }
}

/// Lets others come in between, as often as the order has it.
async fn pause() {
    let mut paused = false;
    poll_fn(|context| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits for tasks that were spawned.
async fn all(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.await.unwrap();
    }
}
