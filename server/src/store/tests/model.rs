//! Random histories against a naive model that keeps every state.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Write(Vec<Write>),
    Compact(u64),
    Advance(u64),
    Expire,
    Reopen,
}

#[derive(Clone, Debug)]
struct Write {
    name: u8,
    kind: WriteKind,
}

#[derive(Clone, Debug)]
enum WriteKind {
    Put(u16, Option<u8>),
    Create(u16),
    /// Only at the present revision minus this.
    PutAt(u16, u64),
    Delete(bool),
    CheckAbsent,
}

fn write_strategy() -> impl Strategy<Value = Write> {
    let kind = prop_oneof![
        4 => (any::<u16>(), proptest::option::weighted(0.2, 1..20u8))
            .prop_map(|(value, ttl)| WriteKind::Put(value, ttl)),
        1 => any::<u16>().prop_map(WriteKind::Create),
        1 => (any::<u16>(), 0..2u64).prop_map(|(v, back)| WriteKind::PutAt(v, back)),
        3 => any::<bool>().prop_map(WriteKind::Delete),
        1 => Just(WriteKind::CheckAbsent),
    ];
    (0..8u8, kind).prop_map(|(name, kind)| Write { name, kind })
}

fn step_strategy() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => proptest::collection::vec(write_strategy(), 1..5).prop_map(Step::Write),
        2 => (0..8u64).prop_map(Step::Compact),
        3 => (1..15u64).prop_map(Step::Advance),
        2 => Just(Step::Expire),
        1 => Just(Step::Reopen),
    ]
}

/// (revision, create revision, value, deadline)
type Version = (u64, u64, String, Option<SystemTime>);
type ModelState = BTreeMap<String, Version>;

/// Every state, and every change: revision → name → object or deletion.
#[derive(Default)]
struct Model {
    states: Vec<ModelState>,
    progress: Progress,
}

impl Model {
    fn newest(&self) -> &ModelState {
        self.states.last().unwrap()
    }

    fn revision(&self) -> u64 {
        self.states.len() as u64 - 1
    }

    /// The state after a batch, or `None` if a condition fails or nothing is written.
    fn apply(&mut self, operations: &[Operation]) -> Result<bool, ()> {
        let mut state = self.newest().clone();
        let revision = self.revision() + 1;
        let mut wrote = false;
        for operation in operations {
            let name = operation.key().name().to_owned();
            let known = state.get(&name).cloned();
            match operation {
                Operation::Put {
                    condition, content, ..
                } => {
                    let holds = match (condition, &known) {
                        (PutCondition::Any, _) => true,
                        (PutCondition::Absent, known) => known.is_none(),
                        (PutCondition::Present, known) => known.is_some(),
                        (PutCondition::At(at), Some(known)) => known.0 == at.get(),
                        (PutCondition::At(_), None) => false,
                    };
                    if !holds {
                        return Err(());
                    }
                    let created = known.map_or(revision, |known| known.1);
                    let value = String::from_utf8(content.value.to_vec()).unwrap();
                    state.insert(name, (revision, created, value, content.expire_time));
                    wrote = true;
                }
                Operation::Delete { allow_missing, .. } => {
                    if known.is_none() && !allow_missing {
                        return Err(());
                    }
                    wrote |= state.remove(&name).is_some();
                }
                Operation::Check { .. } => {
                    if known.is_some() {
                        return Err(());
                    }
                }
            }
        }
        if wrote {
            self.states.push(state);
        }
        Ok(wrote)
    }
}

fn operations(writes: &[Write], model: &Model, clock: &TestClock) -> Vec<Operation> {
    let mut seen = std::collections::HashSet::new();
    let writes = writes.iter().filter(|write| seen.insert(write.name));
    let operation = |write: &Write| {
        let name = format!("o{}", write.name);
        match &write.kind {
            WriteKind::Put(value, ttl) => {
                let ttl = ttl.map(|ttl| clock.now() + Duration::from_secs(ttl.into()));
                let mut content = content(&value.to_string());
                content.expire_time = ttl;
                Operation::Put {
                    key: key(&name),
                    condition: PutCondition::Any,
                    content,
                }
            }
            WriteKind::Create(value) => put_if(&name, &value.to_string(), PutCondition::Absent),
            WriteKind::PutAt(value, back) => {
                let at = model.newest().get(&name).map_or(0, |known| known.0);
                let condition = PutCondition::At(r(at.saturating_sub(*back)));
                put_if(&name, &value.to_string(), condition)
            }
            WriteKind::Delete(allow_missing) => Operation::Delete {
                key: key(&name),
                if_revision: None,
                if_uid: None,
                allow_missing: *allow_missing,
                cause: DeleteCause::Request,
            },
            WriteKind::CheckAbsent => Operation::Check {
                key: key(&name),
                revision: None,
            },
        }
    };
    writes.map(operation).collect()
}

async fn check_reads(store: &dyn Store, model: &Model, small: PageLimit) {
    let progress = store.progress();
    assert_eq!(progress.revision.get(), model.revision());
    let compacted = progress.compacted.get();
    // Every retained state.
    for at in compacted..=model.revision() {
        let state = &model.states[usize::try_from(at).unwrap()];
        let (mut range, mut found) = (all_pods(), Vec::new());
        loop {
            let page = store.list(&range, r(at), small).await.unwrap();
            found.extend(page.objects);
            match page.next {
                Some(next) => range.after = Bound::Excluded(next),
                None => break,
            }
        }
        let found: Vec<_> = found
            .iter()
            .map(|o| {
                let value = String::from_utf8(o.content.value.to_vec()).unwrap();
                (
                    o.key.name().to_owned(),
                    (
                        o.revision.get(),
                        o.create_revision.get(),
                        value,
                        o.content.expire_time,
                    ),
                )
            })
            .collect();
        let expected: Vec<_> = state.clone().into_iter().collect();
        assert_eq!(found, expected, "the state at {at}");
    }
    if let Some(below) = compacted.checked_sub(1) {
        let read = store.list(&all_pods(), r(below), small).await;
        assert!(matches!(read, Err(StoreError::Compacted { .. })));
    }
    // The log turns each state into the next.
    for collection in [None, Some(Collection::new("pods").unwrap())] {
        let mut at = r(compacted);
        while at < progress.revision {
            let chunk = store
                .read_log(collection.as_ref(), at, small)
                .await
                .unwrap();
            for commit in &chunk.commits {
                let revision = usize::try_from(commit.revision.get()).unwrap();
                let (before, after) = (&model.states[revision - 1], &model.states[revision]);
                let mut state = before.clone();
                for event in &commit.events {
                    let name = event.object.key.name();
                    let previous = before.get(name);
                    assert_eq!(
                        event.previous_revision.map(Revision::get),
                        previous.map(|p| p.0)
                    );
                    let value = event.previous.as_ref().map(|p| p.content.value.clone());
                    assert_eq!(value.as_deref(), previous.map(|p| p.2.as_bytes()));
                    assert_eq!(event.change == Change::Created, previous.is_none());
                    if event.is_deletion() {
                        state.remove(name);
                    } else {
                        let object = &event.object;
                        let value = String::from_utf8(object.content.value.to_vec()).unwrap();
                        state.insert(
                            name.to_owned(),
                            (
                                object.revision.get(),
                                object.create_revision.get(),
                                value,
                                object.content.expire_time,
                            ),
                        );
                    }
                }
                assert_eq!(&state, after);
            }
            assert!(chunk.scanned_to > at);
            at = chunk.scanned_to;
        }
    }
    // A copy of any old state plus the net difference is the present state.
    let forgotten = progress.forgotten.get();
    for since in 0..=model.revision() {
        let mut copy: BTreeMap<String, u64> = model.states[usize::try_from(since).unwrap()]
            .iter()
            .map(|(name, version)| (name.clone(), version.0))
            .collect();
        let (mut at, mut last) = (r(since), 0);
        if since < forgotten {
            let refused = store.changes_since(None, at, small).await;
            assert!(matches!(refused, Err(StoreError::Forgotten { .. })));
            continue;
        }
        loop {
            let chunk = store.changes_since(None, at, small).await.unwrap();
            for event in chunk.commits.iter().flat_map(|c| &c.events) {
                let (name, revision) = (event.object.key.name(), event.object.revision.get());
                assert!(revision >= last && revision > since);
                last = revision;
                if event.is_deletion() {
                    copy.remove(name);
                } else {
                    copy.insert(name.to_owned(), revision);
                }
            }
            at = chunk.scanned_to;
            if at == chunk.head {
                break;
            }
        }
        let expected: BTreeMap<String, u64> = model
            .newest()
            .iter()
            .map(|(name, version)| (name.clone(), version.0))
            .collect();
        assert_eq!(copy, expected, "the difference since {since}");
        let live = store.live_since(None, r(since), PAGE).await.unwrap();
        let live: Vec<u64> = live
            .commits
            .iter()
            .flat_map(|c| &c.events)
            .map(|e| e.object.revision.get())
            .collect();
        let mut newer: Vec<u64> = model
            .newest()
            .values()
            .map(|v| v.0)
            .filter(|at| *at > since)
            .collect();
        newer.sort_unstable();
        assert_eq!(live, newer);
    }
    let status = store.status();
    assert_eq!(status.object_count, model.newest().len() as u64);
}

/// Opens the store under test, again and again if it is on disk.
type Opener<'a> = &'a dyn Fn(&StoreOptions) -> Option<Arc<dyn Store>>;

async fn run(steps: Vec<Step>, open: Opener<'_>) {
    let clock = TestClock::new();
    let options = StoreOptions {
        segment_bytes: 4096,
        tombstone_retention: Duration::from_secs(20),
        max_tombstones: 3,
        ..clock.options()
    };
    let mut store = open(&options).unwrap();
    let mut model = Model {
        states: vec![ModelState::new()],
        ..Model::default()
    };
    for step in steps {
        match step {
            Step::Write(writes) => {
                let operations = operations(&writes, &model, &clock);
                let expected = model.apply(&operations);
                let done = store.commit(batch(operations)).await;
                match (expected, done) {
                    (Ok(_), Ok(done)) => assert_eq!(done.revision.get(), model.revision()),
                    (Err(()), Err(_)) => {}
                    (expected, done) => panic!("{expected:?}, but {done:?}"),
                }
            }
            Step::Compact(back) => {
                let at = r(model.revision().saturating_sub(back));
                let done = store.compact(at, true).await.unwrap();
                assert_eq!(done, at.max(model.progress.compacted));
                let progress = store.progress();
                assert!(progress.forgotten >= model.progress.forgotten);
                assert!(progress.forgotten < progress.compacted.max(r(1)));
                model.progress = progress;
            }
            Step::Advance(seconds) => clock.advance(Duration::from_secs(seconds)),
            Step::Expire => {
                let now = clock.now();
                let due = |version: &Version| version.3.is_some_and(|time| time <= now);
                let mut state = model.newest().clone();
                let before = state.len();
                state.retain(|_, version| !due(version));
                if state.len() < before {
                    model.states.push(state);
                }
                store.expire_due().await.unwrap();
            }
            Step::Reopen => {
                let id = store.id();
                let progress = store.progress();
                // Only a store on disk has something to come back to.
                store.close().await;
                if let Some(again) = open(&options) {
                    store = again;
                    assert_eq!(store.id(), id);
                    assert_eq!(store.progress(), progress);
                } else {
                    return;
                }
            }
        }
    }
    let small = PageLimit {
        items: 2,
        bytes: 1000,
    };
    check_reads(&*store, &model, small).await;
    check_reads(&*store, &model, PAGE).await;
    store.close().await;
    if let Some(again) = open(&options) {
        check_reads(&*again, &model, small).await;
        again.close().await;
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn the_memory_store_equals_the_model(
        steps in proptest::collection::vec(
            step_strategy().prop_filter("nothing to reopen", |s| !matches!(s, Step::Reopen)),
            1..60,
        )
    ) {
        let opened = std::cell::Cell::new(false);
        let open = |options: &StoreOptions| -> Option<Arc<dyn Store>> {
            (!opened.replace(true)).then(|| Arc::new(MemoryStore::new(options.clone())) as _)
        };
        runtime().block_on(run(steps, &open));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_store_on_disk_equals_the_model(
        steps in proptest::collection::vec(step_strategy(), 1..80)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let open = |options: &StoreOptions| -> Option<Arc<dyn Store>> {
            Some(Arc::new(reopen(folder.path(), options)) as _)
        };
        runtime().block_on(run(steps, &open));
    }
}
