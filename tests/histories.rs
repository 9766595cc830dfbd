//! Random histories, selectors, compactions and disconnections: a copy kept through any of
//! the five resuming steps equals the server's state, and an exact watch has no gap.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use listwatch::v1::{self, CatchUp, DeleteCause, DeliveryMode, watch_request::Start};
use listwatch_server::{ServerOptions, clock::Clock, hub::ResumeStep, store::StoreOptions};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use crate::{
    harness::{Harness, Watching, labelled, millis, put, remove},
    validator::{Copy, End, Listed, Model, Recording, Violation, check_list, check_watch, name_of},
};

/// Histories of one run; each takes a few milliseconds. `HISTORIES=20` makes it fewer.
const CASES: u32 = 200;
const WATCHERS: usize = 4;
/// Two collections, two namespaces, five names.
const KEYS: u8 = 20;
/// Responses within which a watch must have caught up at the end.
const ENOUGH: usize = 2000;

#[derive(Clone, Debug)]
enum Op {
    Put {
        key: u8,
        labels: u8,
    },
    Delete {
        key: u8,
    },
    /// `None`: a deletion.
    Batch(Vec<(u8, Option<u8>)>),
    /// So much that the state as a whole is less than the difference.
    Flood,
    Compact {
        back: i64,
    },
    Advance {
        seconds: u64,
    },
    Read {
        watcher: usize,
        responses: usize,
    },
    Disconnect {
        watcher: usize,
    },
}

#[derive(Clone, Debug)]
struct Spec {
    selector: usize,
    mode: DeliveryMode,
    catch_up: CatchUp,
    send_previous: bool,
}

#[derive(Clone, Debug)]
struct Case {
    cache: usize,
    response_events: usize,
    max_tombstones: usize,
    tombstone_seconds: u64,
    specs: Vec<Spec>,
    ops: Vec<Op>,
}

fn op() -> impl Strategy<Value = Op> {
    let key = 0..KEYS;
    let watcher = 0..WATCHERS;
    let part = (key.clone(), prop::option::weighted(0.7, 0..4u8));
    prop_oneof![
        8 => (key.clone(), 0..4u8).prop_map(|(key, labels)| Op::Put { key, labels }),
        5 => key.prop_map(|key| Op::Delete { key }),
        2 => prop::collection::vec(part, 1..6).prop_map(Op::Batch),
        1 => Just(Op::Flood),
        5 => (0..6i64).prop_map(|back| Op::Compact { back }),
        1 => (1..60u64).prop_map(|seconds| Op::Advance { seconds }),
        8 => (watcher.clone(), 1..4usize)
            .prop_map(|(watcher, responses)| Op::Read { watcher, responses }),
        5 => watcher.prop_map(|watcher| Op::Disconnect { watcher }),
    ]
}

fn spec() -> impl Strategy<Value = Spec> {
    let mode = prop_oneof![Just(DeliveryMode::EveryChange), Just(DeliveryMode::Latest)];
    let catch_up = prop_oneof![1 => Just(CatchUp::Exact), 2 => Just(CatchUp::Net)];
    (0..7usize, mode, catch_up, any::<bool>()).prop_map(|(selector, mode, catch_up, previous)| {
        Spec {
            selector,
            mode,
            catch_up,
            send_previous: previous,
        }
    })
}

fn case() -> impl Strategy<Value = Case> {
    (
        prop::sample::select(vec![0, 1, 1, 5, 100]),
        prop::bool::weighted(0.3),
        1..4usize,
        prop::sample::select(vec![0, 0, 2, 1000, 1000]),
        prop::sample::select(vec![20, 1_000_000]),
        prop::collection::vec(spec(), WATCHERS),
        prop::collection::vec(op(), 30..120),
    )
        .prop_map(
            |(
                cache,
                floods,
                response_events,
                max_tombstones,
                tombstone_seconds,
                specs,
                mut ops,
            )| {
                ops.retain(|op| floods || !matches!(op, Op::Flood));
                Case {
                    cache,
                    response_events,
                    max_tombstones,
                    tombstone_seconds,
                    specs,
                    ops,
                }
            },
        )
}

fn key(number: u8) -> v1::Key {
    v1::Key {
        collection: if number % 4 == 3 { "other" } else { "pods" }.into(),
        namespace: ["blue", "red"][usize::from(number / 4 % 2)].into(),
        name: ["a1", "a2", "b1", "b2", "c"][usize::from(number % 5)].into(),
    }
}

fn labels(number: u8) -> Vec<(&'static str, &'static str)> {
    match number {
        1 => vec![("app", "web")],
        2 => vec![("app", "db")],
        3 => vec![("app", "web"), ("tier", "x")],
        _ => vec![],
    }
}

fn selector(number: usize) -> v1::Selector {
    let all = || v1::Selector {
        collection: "pods".into(),
        ..v1::Selector::default()
    };
    let web = |operator: v1::LabelOperator, key: &str, values: &[&str]| v1::LabelRequirement {
        key: key.into(),
        operator: operator.into(),
        values: values.iter().map(|v| (*v).to_owned()).collect(),
    };
    match number {
        0 => all(),
        1 => v1::Selector {
            namespace: "red".into(),
            ..all()
        },
        2 => v1::Selector {
            name: "a1".into(),
            ..all()
        },
        3 => v1::Selector {
            name_prefix: "a".into(),
            ..all()
        },
        4 => labelled("pods", "app", "web"),
        5 => v1::Selector {
            labels: vec![
                web(v1::LabelOperator::NotIn, "app", &["db"]),
                web(v1::LabelOperator::NotExists, "tier", &[]),
            ],
            ..all()
        },
        _ => v1::Selector {
            namespace: "blue".into(),
            labels: vec![web(v1::LabelOperator::Exists, "app", &[])],
            ..all()
        },
    }
}

/// A client: what it holds, and the stream that it reads.
struct Client {
    spec: Spec,
    copy: Copy,
    stream: Option<(Watching, Recording)>,
}

struct World {
    harness: Harness,
    model: Model,
    clock: Arc<AtomicU64>,
    clients: Vec<Client>,
    found: Vec<Violation>,
    writes: usize,
    /// Streams that were resumed in the middle of a net difference.
    midway: u64,
}

impl World {
    async fn new(case: &Case) -> Self {
        let clock = Arc::new(AtomicU64::new(1_000_000));
        let seconds = clock.clone();
        let now = Clock::new(move || {
            SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.load(Ordering::Relaxed))
        });
        let mut options = ServerOptions::default();
        options.service.clock = now.clone();
        options.hub.default_cache_size = case.cache;
        options.hub.window_span = Duration::ZERO;
        options.hub.response.items = case.response_events;
        let store = StoreOptions {
            clock: now,
            max_tombstones: case.max_tombstones,
            tombstone_retention: Duration::from_secs(case.tombstone_seconds),
            ..StoreOptions::default()
        };
        let clients = case.specs.iter().map(|spec| Client {
            spec: spec.clone(),
            copy: Copy::default(),
            stream: None,
        });
        Self {
            harness: Harness::with(options, store).await,
            model: Model::default(),
            clock,
            clients: clients.collect(),
            found: Vec::new(),
            writes: 0,
            midway: 0,
        }
    }

    fn resource(&mut self, key: v1::Key, number: u8) -> v1::Resource {
        self.writes += 1;
        v1::Resource {
            key: Some(key),
            value: self.writes.to_string().into_bytes().into(),
            labels: labels(number)
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
            ..v1::Resource::default()
        }
    }

    async fn batch(&mut self, parts: Vec<(v1::Key, Option<u8>)>) {
        let mut operations = Vec::new();
        let mut values = Vec::new();
        for (key, number) in parts {
            operations.push(match number {
                Some(number) => {
                    let resource = self.resource(key, number);
                    values.push(Some(resource.value.clone()));
                    put(resource)
                }
                None => {
                    values.push(None);
                    let v1::batch_operation::Kind::Delete(delete) = remove(key) else {
                        continue;
                    };
                    v1::batch_operation::Kind::Delete(v1::DeleteRequest {
                        allow_missing: true,
                        ..delete
                    })
                }
            });
        }
        let operations = operations
            .into_iter()
            .map(|kind| v1::BatchOperation { kind: Some(kind) })
            .collect();
        let request = v1::BatchRequest {
            operations,
            ..v1::BatchRequest::default()
        };
        let answer = self.harness.client.batch(request).await.unwrap();
        for (written, value) in answer.resources.into_iter().zip(values) {
            match value {
                Some(value) => self.model.put(v1::Resource { value, ..written }),
                // Absent: only the key.
                None if written.uid.is_empty() => {}
                None => {
                    let (name, revision) = (name_of(&written), written.revision);
                    self.model.delete(name, revision, DeleteCause::Request);
                }
            }
        }
    }

    async fn apply(&mut self, op: &Op) {
        match op {
            Op::Put {
                key: number,
                labels,
            } => {
                self.batch(vec![(key(*number), Some(*labels))]).await;
            }
            Op::Delete { key: number } => self.batch(vec![(key(*number), None)]).await,
            Op::Batch(parts) => {
                let mut distinct = std::collections::BTreeMap::new();
                distinct.extend(parts.iter().map(|(n, labels)| (name_key(*n), *labels)));
                let parts = distinct.into_iter().map(|((c, ns, n), labels)| {
                    let key = v1::Key {
                        collection: c,
                        namespace: ns,
                        name: n,
                    };
                    (key, labels)
                });
                self.batch(parts.collect()).await;
            }
            Op::Flood => {
                let parts = (0..70).map(|n| {
                    let key = v1::Key {
                        name: format!("a-flood{n}"),
                        ..key(0)
                    };
                    (key, Some(n as u8 % 4))
                });
                self.batch(parts.collect()).await;
            }
            Op::Compact { back } => {
                let revision = self.model.revision() - back;
                if revision > 0 {
                    self.harness.compact(revision).await;
                    self.model.compacted = self.model.compacted.max(revision);
                }
            }
            Op::Advance { seconds } => {
                self.clock.fetch_add(*seconds, Ordering::Relaxed);
            }
            Op::Read { watcher, responses } => {
                for _ in 0..*responses {
                    self.read(*watcher).await;
                }
            }
            Op::Disconnect { watcher } => self.end(*watcher, End::Cut),
        }
    }

    /// One response of one client, which connects first if it has to.
    async fn read(&mut self, watcher: usize) {
        let client = &mut self.clients[watcher];
        if client.stream.is_none() {
            let request = client.request();
            let recording = Recording {
                request: request.clone(),
                held: client.copy.objects.clone(),
                since: client.copy.revision,
                settled: client.copy.settled,
                ..Recording::default()
            };
            let resumes = !client.copy.token.is_empty();
            self.midway += u64::from(resumes && !client.copy.settled);
            match self.harness.watch(request).await {
                Ok(watching) => client.stream = Some((watching, recording)),
                Err(status) => {
                    self.finish(watcher, recording, End::of(&status));
                    return;
                }
            }
        }
        let client = &mut self.clients[watcher];
        let Some((watching, recording)) = &mut client.stream else {
            return;
        };
        match watching.next().await {
            Ok(Some(response)) => {
                client.copy.apply(&response);
                recording.responses.push(response);
                if client.copy.settled && client.copy.is_live() {
                    let wanted = self
                        .model
                        .at(client.copy.revision, &selector(client.spec.selector));
                    if client.copy.objects.keys().ne(wanted.keys()) {
                        let what = format!("the copy is not the state at {}", client.copy.revision);
                        self.found.push(Violation { check: 12, what });
                    }
                }
            }
            Ok(None) => self.end(watcher, End::Ended),
            Err(status) => self.end(watcher, End::of(&status)),
        }
    }

    fn end(&mut self, watcher: usize, end: End) {
        if let Some((_, recording)) = self.clients[watcher].stream.take() {
            self.finish(watcher, recording, end);
        }
    }

    fn finish(&mut self, watcher: usize, mut recording: Recording, end: End) {
        let client = &mut self.clients[watcher];
        client.copy.disconnect();
        let exact = client.spec.catch_up == CatchUp::Exact;
        match &end {
            // Start over: that is what an exact watch is told to do. The others try
            // again, and must get through.
            End::Failed(..) if exact => client.copy = Copy::default(),
            End::Failed(code, reason) if reason != "REVISION_COMPACTED" => {
                let what = format!("ended with {code:?} {reason}");
                self.found.push(Violation { check: 14, what });
            }
            _ => {}
        }
        recording.compacted = self.model.compacted;
        recording.end = end;
        self.found.extend(check_watch(&self.model, &recording));
    }

    /// Every client reads on until it has caught up, and holds the state.
    async fn settle(&mut self) {
        let head = self.model.revision();
        for watcher in 0..self.clients.len() {
            let mut read = 0;
            loop {
                self.read(watcher).await;
                let copy = &self.clients[watcher].copy;
                if copy.settled && copy.revision >= head {
                    break;
                }
                read += 1;
                if read > ENOUGH {
                    let what = format!("watcher {watcher} never catches up: at {}", copy.revision);
                    self.found.push(Violation { check: 12, what });
                    break;
                }
            }
            self.end(watcher, End::Cut);
            let client = &self.clients[watcher];
            let selector = selector(client.spec.selector);
            let pages = self.harness.pages(selector.clone(), 3).await;
            let listed: Vec<_> = pages.iter().flat_map(|p| &p.resources).cloned().collect();
            if !client.copy.objects.values().eq(&listed) {
                let what = format!("the copy of watcher {watcher} is not the server's list");
                self.found.push(Violation { check: 12, what });
            }
            let listed = Listed {
                selector,
                pages,
                acknowledged: head,
            };
            self.found.extend(check_list(&self.model, &listed));
        }
    }
}

fn name_key(number: u8) -> (String, String, String) {
    let key = key(number);
    (key.collection, key.namespace, key.name)
}

impl Client {
    fn request(&self) -> v1::WatchRequest {
        let token = self.copy.token.clone();
        v1::WatchRequest {
            selector: Some(selector(self.spec.selector)),
            start: (!token.is_empty()).then_some(Start::ResumeToken(token)),
            delivery_mode: self.spec.mode.into(),
            catch_up: self.spec.catch_up.into(),
            send_previous: self.spec.send_previous,
            bookmark_interval: millis(100),
            ..v1::WatchRequest::default()
        }
    }
}

/// How often each step has served, over all cases, and how often a token from the middle
/// of a net difference.
#[derive(Debug, Default)]
struct Served([AtomicU64; 6]);

const STEPS: [ResumeStep; 5] = [
    ResumeStep::Window,
    ResumeStep::Log,
    ResumeStep::NetDifference,
    ResumeStep::Manifest,
    ResumeStep::InitialState,
];

fn run(case: &Case, served: &Served) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut world = World::new(case).await;
        for op in &case.ops {
            world.apply(op).await;
        }
        world.settle().await;
        for (step, count) in STEPS.iter().zip(&served.0) {
            let resumes = world.harness.server.hub().resumes().of(*step);
            count.fetch_add(resumes, Ordering::Relaxed);
        }
        served.0[5].fetch_add(world.midway, Ordering::Relaxed);
        let found: Vec<_> = world.found.iter().map(ToString::to_string).collect();
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    })
}

#[test]
fn a_copy_kept_through_any_of_the_five_steps_equals_the_state() {
    let served = Served::default();
    let cases = std::env::var("HISTORIES").ok();
    let cases = cases.map_or(CASES, |n| n.parse().expect("HISTORIES is a number"));
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 2000,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&case(), |case| run(&case, &served))
        .unwrap_or_else(|error| panic!("{error}"));
    let counts: Vec<_> = served.0.iter().map(|n| n.load(Ordering::Relaxed)).collect();
    println!("resumed from window, log, net difference, manifest, state, midway: {counts:?}");
    assert!(counts.iter().all(|n| *n > 0), "{counts:?}");
}
