//! Clients, partitions, restarts and compactions in simulated time, from a seed: every
//! stream is recorded, and the validator checks them all. A failure names its seed; run it
//! alone with `SIMULATION_SEED=n cargo test --test it simulation`. The seed fixes what is
//! written, what goes wrong, and when; the order within a moment is not all of it ours.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime},
};

use futures::FutureExt as _;
use hyper_util::rt::TokioIo;
use listwatch::v1::{
    self, CatchUp, DeleteCause, DeliveryMode, list_watch_service_client::ListWatchServiceClient,
    watch_request::Start,
};
use listwatch_server::{
    Server, ServerOptions,
    clock::Clock,
    store::{MemoryStore, Revision, Store, StoreOptions},
};
use tokio::sync::Notify;
use tonic::transport::{Channel, Endpoint};

use crate::{
    harness::{everything, key, labelled, millis, put, reason, remove, resource},
    validator::{Copy, End, Listed, Model, Recording, Violation, check_list, check_watch, name_of},
};

const SEEDS: u64 = 24;
const PORT: u16 = 7450;
/// Writes of one run; at half of them the store is made anew.
const WRITES: u32 = 80;
/// Simulated.
const LONGEST_RUN: Duration = Duration::from_secs(600);
/// After so much silence a client gives its stream up: two and a half bookmark intervals.
const SILENCE: Duration = Duration::from_millis(2500);
const BOOKMARKS_MILLIS: u64 = 1000;

/// Numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(n)) as u32
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }
}

/// What lies outside of the simulated machines: the disk, and what the observer knows.
struct Outside {
    /// What was written to each store that there was, in order.
    epochs: Vec<Model>,
    store: Arc<MemoryStore>,
    /// The writer waits for a new store.
    wants_new_store: bool,
    written: bool,
    streams: Vec<(usize, usize, Recording)>,
    lists: Vec<(usize, usize, Listed)>,
    /// What each client held at its end.
    ends: BTreeMap<String, Copy>,
    /// Why streams ended, for the record of a run.
    trace: Vec<String>,
}

#[derive(Clone)]
struct World(Arc<Mutex<Outside>>);

impl World {
    fn lock(&self) -> MutexGuard<'_, Outside> {
        self.0.lock().unwrap()
    }

    fn epoch(&self) -> usize {
        self.lock().epochs.len() - 1
    }
}

fn clock() -> Clock {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    Clock::new(move || start + turmoil::sim_elapsed().unwrap_or_default())
}

fn store(seed: u64, forgets: bool) -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(StoreOptions {
        clock: clock(),
        seed: Some(seed),
        max_tombstones: if forgets { 1 } else { 1000 },
        ..StoreOptions::default()
    }))
}

fn options(seed: u64, cache: usize) -> ServerOptions {
    let mut options = ServerOptions::default();
    options.service.clock = clock();
    options.service.seed = Some(seed);
    options.service.min_watch_life = Duration::from_secs(20);
    options.hub.default_cache_size = cache;
    options.hub.window_span = Duration::ZERO;
    options.hub.response.items = 2;
    options.compaction_interval = None;
    options.shutdown_grace = Duration::from_secs(1);
    options
}

async fn serve(world: World, options: ServerOptions, drain: Arc<Notify>) -> turmoil::Result {
    let address = (IpAddr::from(Ipv4Addr::UNSPECIFIED), PORT);
    let listener = turmoil::net::TcpListener::bind(address).await?;
    let incoming = futures::stream::unfold(listener, |listener| async {
        let accepted = listener.accept().await.map(|(connection, _)| connection);
        Some((accepted, listener))
    });
    let store: Arc<dyn Store> = world.lock().store.clone();
    let server = Server::builder()
        .store(store)
        .incoming(incoming)
        .options(options)
        .shutdown(async move { drain.notified().await })
        .start()
        .await?;
    server.join().await?;
    Ok(())
}

fn dial() -> ListWatchServiceClient<Channel> {
    let connector = tower::service_fn(|_| async {
        let stream = turmoil::net::TcpStream::connect(("server", PORT)).await?;
        Ok::<_, io::Error>(TokioIo::new(stream))
    });
    let channel = Endpoint::from_static("http://server")
        .connect_timeout(SILENCE)
        .connect_with_connector_lazy(connector);
    ListWatchServiceClient::new(channel)
}

/// Writes one after the other, each until it is acknowledged.
async fn write(world: World, mut dice: Dice) -> turmoil::Result {
    let mut client = dial();
    for n in 0..WRITES {
        if n == WRITES / 2 {
            world.lock().wants_new_store = true;
            while world.lock().wants_new_store {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
        let mut parts = BTreeMap::new();
        for _ in 0..=dice.below(3) {
            parts.insert(dice.below(8), dice.below(5));
        }
        let mut sent = Vec::new();
        let operations = parts.iter().map(|(name, what)| {
            let collection = if *name == 7 { "other" } else { "pods" };
            let name = format!("p{name}");
            let labels: &[_] = match what {
                1 | 2 => &[("app", "web")],
                3 => &[("app", "db")],
                _ => &[],
            };
            let resource = resource(collection, &name, &n.to_string(), labels);
            sent.push((*what > 0).then(|| resource.clone()));
            let mut kind = if *what > 0 {
                put(resource)
            } else {
                remove(key(collection, &name))
            };
            if let v1::batch_operation::Kind::Delete(delete) = &mut kind {
                delete.allow_missing = true;
            }
            v1::BatchOperation { kind: Some(kind) }
        });
        let request = v1::BatchRequest {
            operations: operations.collect(),
            request_id: format!("write-{n}"),
        };
        let answer = loop {
            let call = client.batch(request.clone());
            match tokio::time::timeout(SILENCE, call).await {
                Ok(Ok(answer)) => break answer.into_inner(),
                _ => {
                    // Whether it was done is not known: the same id asks for its answer.
                    client = dial();
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        };
        {
            let mut outside = world.lock();
            let model = outside.epochs.last_mut().unwrap();
            for (answer, sent) in answer.resources.into_iter().zip(sent) {
                match sent {
                    Some(sent) => model.put(v1::Resource {
                        uid: answer.uid,
                        revision: answer.revision,
                        create_revision: answer.create_revision,
                        ..sent
                    }),
                    None if answer.uid.is_empty() => {}
                    None => model.delete(name_of(&answer), answer.revision, DeleteCause::Request),
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(u64::from(dice.below(400)))).await;
    }
    world.lock().written = true;
    Ok(())
}

#[derive(Clone)]
struct Spec {
    name: &'static str,
    selector: v1::Selector,
    mode: DeliveryMode,
    catch_up: CatchUp,
}

fn specs() -> Vec<Spec> {
    let spec = |name, selector, mode, catch_up| Spec {
        name,
        selector,
        mode,
        catch_up,
    };
    vec![
        spec(
            "all",
            everything("pods"),
            DeliveryMode::EveryChange,
            CatchUp::Net,
        ),
        spec(
            "web",
            labelled("pods", "app", "web"),
            DeliveryMode::EveryChange,
            CatchUp::Net,
        ),
        spec(
            "latest",
            everything("pods"),
            DeliveryMode::Latest,
            CatchUp::Net,
        ),
        spec(
            "exact",
            everything("pods"),
            DeliveryMode::EveryChange,
            CatchUp::Exact,
        ),
    ]
}

/// Watches until all is written and this copy has it.
async fn follow(world: World, spec: Spec, mut dice: Dice) -> turmoil::Result {
    let mut copy = Copy::default();
    loop {
        let token = copy.token.clone();
        let request = v1::WatchRequest {
            selector: Some(spec.selector.clone()),
            start: (!token.is_empty()).then_some(Start::ResumeToken(token)),
            delivery_mode: spec.mode.into(),
            catch_up: spec.catch_up.into(),
            send_previous: true,
            bookmark_interval: millis(BOOKMARKS_MILLIS),
            ..v1::WatchRequest::default()
        };
        let mut recording = Recording {
            request: request.clone(),
            held: copy.objects.clone(),
            since: copy.revision,
            settled: copy.settled,
            ..Recording::default()
        };
        let epoch = world.epoch();
        // Sometimes a client leaves in the middle of something.
        let mut patience = if dice.one_in(3) {
            3 + dice.below(12)
        } else {
            u32::MAX
        };
        let mut done = false;
        let mut client = dial();
        let opened = tokio::time::timeout(SILENCE, client.watch(request)).await;
        recording.end = match opened {
            Err(_) => End::Cut,
            Ok(Err(status)) => End::Failed(status.code(), reason(&status)),
            Ok(Ok(stream)) => {
                let mut stream = stream.into_inner();
                loop {
                    if patience == 0 || done {
                        break End::Cut;
                    }
                    patience -= 1;
                    match tokio::time::timeout(SILENCE, stream.message()).await {
                        Err(_) => break End::Cut,
                        Ok(Ok(None)) => break End::Ended,
                        Ok(Err(status)) => break End::Failed(status.code(), reason(&status)),
                        Ok(Ok(Some(response))) => {
                            copy.apply(&response);
                            recording.responses.push(response);
                            let outside = world.lock();
                            let head = outside.epochs.last().unwrap().revision();
                            done = outside.written && copy.settled && copy.revision >= head;
                        }
                    }
                }
            }
        };
        copy.disconnect();
        let start_over = matches!(
            &recording.end,
            End::Failed(tonic::Code::OutOfRange, reason)
                if reason == "STORE_CHANGED" || spec.catch_up == CatchUp::Exact
        );
        if start_over {
            copy = Copy::default();
        }
        {
            let mut outside = world.lock();
            recording.compacted = outside.epochs.last().unwrap().compacted;
            let responses = recording.responses.len();
            outside.trace.push(format!(
                "{:?} {} {:?} after {responses}",
                turmoil::sim_elapsed(),
                spec.name,
                recording.end
            ));
            let last = outside.epochs.len() - 1;
            outside.streams.push((epoch, last, recording));
            if done {
                outside.ends.insert(spec.name.into(), copy);
                return Ok(());
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Lists again and again, a page at a time.
async fn list(world: World, mut dice: Dice) -> turmoil::Result {
    while !world.lock().written {
        let mut client = dial();
        let epoch = world.epoch();
        let acknowledged = world.lock().epochs[epoch].revision();
        let mut listed = Listed {
            selector: everything("pods"),
            pages: Vec::new(),
            acknowledged,
        };
        let mut request = v1::ListRequest {
            selector: Some(listed.selector.clone()),
            page_size: 3,
            ..v1::ListRequest::default()
        };
        let complete = loop {
            match tokio::time::timeout(SILENCE, client.list(request.clone())).await {
                Ok(Ok(page)) => {
                    let page = page.into_inner();
                    request.page_token.clone_from(&page.next_page_token);
                    listed.pages.push(page);
                    if request.page_token.is_empty() {
                        break true;
                    }
                    tokio::time::sleep(Duration::from_millis(u64::from(dice.below(300)))).await;
                }
                _ => break false,
            }
        };
        if complete {
            let last = world.epoch();
            world.lock().lists.push((epoch, last, listed));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// One run: what the observer knows at its end.
fn simulate(seed: u64) -> (World, Vec<Violation>) {
    let mut dice = Dice::new(seed);
    let forgets = dice.one_in(2);
    let cache = [0, 1, 100][dice.below(3) as usize];
    let world = World(Arc::new(Mutex::new(Outside {
        epochs: vec![Model::default()],
        store: store(seed, forgets),
        wants_new_store: false,
        written: false,
        streams: Vec::new(),
        lists: Vec::new(),
        ends: BTreeMap::new(),
        trace: Vec::new(),
    })));
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(LONGEST_RUN)
        .tick_duration(Duration::from_millis(10))
        .max_message_latency(Duration::from_millis(50))
        .enable_random_order()
        .build();
    let drain = Arc::new(Notify::new());
    let (outside, asked) = (world.clone(), drain.clone());
    sim.host("server", move || {
        serve(outside.clone(), options(seed, cache), asked.clone())
    });
    sim.client("writer", write(world.clone(), Dice::new(seed ^ 1 << 40)));
    sim.client("lister", list(world.clone(), Dice::new(seed ^ 1 << 41)));
    let mut names = vec!["writer", "lister"];
    for (n, spec) in specs().into_iter().enumerate() {
        names.push(spec.name);
        let dice = Dice::new(seed ^ (n as u64 + 2) << 42);
        sim.client(spec.name, follow(world.clone(), spec, dice));
    }
    // What goes wrong, and when it is mended.
    let mut mends: Vec<(Duration, Option<&str>)> = Vec::new();
    loop {
        match sim.step() {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => panic!("seed {seed}: {error}; {:#?}", world.lock().trace),
        }
        let now = sim.elapsed();
        mends.retain(|(at, name)| {
            let due = *at <= now;
            match name {
                Some(name) if due => sim.repair(*name, "server"),
                None if due => sim.bounce("server"),
                _ => {}
            }
            !due
        });
        let new_store = world.lock().wants_new_store;
        if new_store {
            sim.crash("server");
            let mut outside = world.lock();
            outside.store = store(seed ^ 1 << 50, forgets);
            outside.epochs.push(Model::default());
            outside.wants_new_store = false;
            drop(outside);
            sim.bounce("server");
        }
        if !dice.one_in(60) || world.lock().written {
            continue;
        }
        let later = now + Duration::from_millis(u64::from(500 + dice.below(5000)));
        match dice.below(8) {
            0..3 => {
                let name = names[dice.below(names.len() as u32) as usize];
                sim.partition(name, "server");
                mends.push((later, Some(name)));
            }
            3 => {
                sim.crash("server");
                sim.bounce("server");
            }
            4 => {
                drain.notify_one();
                mends.push((later, None));
            }
            _ => {
                let mut outside = world.lock();
                let model = outside.epochs.last_mut().unwrap();
                let back = i64::from(dice.below(6));
                let revision = model.revision() - back;
                if revision > 0 {
                    model.compacted = model.compacted.max(revision);
                    let at = Revision::from_wire(revision).unwrap();
                    outside
                        .store
                        .compact(at, true)
                        .now_or_never()
                        .unwrap()
                        .unwrap();
                }
            }
        }
    }
    drop(sim);
    let found = check(&world.lock());
    (world, found)
}

/// A stream that was open while the store was made anew is of one of the two.
fn either(found: impl Fn(usize) -> Vec<Violation>, first: usize, last: usize) -> Vec<Violation> {
    let mut results = (first..=last).map(found);
    let one = results.next().unwrap_or_default();
    if one.is_empty() || results.any(|other| other.is_empty()) {
        return Vec::new();
    }
    one
}

fn check(outside: &Outside) -> Vec<Violation> {
    let mut found = Vec::new();
    for (first, last, recording) in &outside.streams {
        let check = |epoch: usize| check_watch(&outside.epochs[epoch], recording);
        found.extend(either(check, *first, *last));
    }
    for (first, last, listed) in &outside.lists {
        let check = |epoch: usize| check_list(&outside.epochs[epoch], listed);
        found.extend(either(check, *first, *last));
    }
    let model = outside.epochs.last().unwrap();
    for spec in specs() {
        let held = outside.ends.get(spec.name);
        let wanted = model.at(model.revision(), &spec.selector);
        if held.is_none_or(|copy| copy.objects.keys().ne(wanted.keys())) {
            let what = format!("{} ended with another state", spec.name);
            found.push(Violation { check: 12, what });
        }
    }
    found
}

#[test]
fn copies_converge_and_no_promise_breaks_under_partitions_restarts_and_compaction() {
    let alone = std::env::var("SIMULATION_SEED").ok().map(|seed| {
        let seed: u64 = seed.parse().expect("SIMULATION_SEED is a number");
        seed..seed + 1
    });
    let (mut streams, mut resumed, mut refused) = (0, 0, 0);
    for seed in alone.unwrap_or(0..SEEDS) {
        let (world, found) = simulate(seed);
        let outside = world.lock();
        let text: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(
            found.is_empty(),
            "seed {seed}\n{}\n{:#?}",
            text.join("\n"),
            outside.trace
        );
        streams += outside.streams.len();
        for (_, _, recording) in &outside.streams {
            resumed += usize::from(recording.since > 0 && !recording.responses.is_empty());
            let changed = End::Failed(tonic::Code::OutOfRange, "STORE_CHANGED".into());
            refused += usize::from(recording.end == changed);
        }
    }
    println!("{streams} streams, {resumed} resumed, {refused} told of another store");
    assert!(streams == 0 || resumed > 0 && refused > 0);
}
