//! Clients, partitions, restarts and compactions in simulated time, from a seed: every call
//! and every stream is recorded, and the validator checks them all.
//!
//! Each seed runs in a process of its own, in which the operating system's randomness is fixed
//! as well (`fixed_random.c`): the same seed gives the same log, to the letter. A failure
//! names its seed and prints that log: `SIMULATION_SEED=n cargo test --test it simulation`
//! runs it again. `scripts/simulate 2000` tries many.

// The process of a seed tells its parent what it has met.
#![allow(clippy::print_stdout)]

mod late_feed;
mod readers;
mod server;
mod watchers;
mod world;
mod writers;

use std::{
    collections::BTreeMap,
    env,
    ops::Range,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Arc, OnceLock, mpsc},
    time::Duration,
};

use futures::FutureExt as _;
use listwatch_server::store::{Revision, Store as _};
use tokio::sync::Notify;

use self::{
    server::{BOOKMARKS, serve},
    watchers::{follow, specs},
    world::{Outside, Plan, Streamed, World, resource_of},
    writers::write,
};
use crate::harness::dice::Dice;
use crate::validator::{
    End, Recording, State, Violation,
    calls::{check_calls, check_kept},
    check_watch,
    identity::check_identity,
    name_of,
    travel::{check_silence, check_travel},
};

/// Seeds of an ordinary run, in three parts that run side by side.
const SEEDS: u64 = 210;
const WRITERS: [&str; 3] = ["writer-a", "writer-b", "writer-c"];
/// Simulated.
const LONGEST_RUN: Duration = Duration::from_secs(900);
/// For a seed, which takes seconds. Not simulated.
const PATIENCE: Duration = Duration::from_secs(300);
/// How late a bookmark may be: the network's latency there and back, and the simulation's step.
const LATE: Duration = Duration::from_millis(400);
/// Who is cut off notices within this time that it is back.
const AFTERMATH: Duration = Duration::from_secs(4);

/// What is mended later.
enum Mend {
    Repair(String),
    Release(String),
    Bounce,
}

/// One run: what the observer knows at its end.
fn simulate(seed: u64) -> (World, Vec<Violation>) {
    let mut dice = Dice::new(seed);
    let plan = Plan::of(seed);
    let world = World::new(&plan);
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .simulation_duration(LONGEST_RUN)
        .tick_duration(Duration::from_millis(10))
        .max_message_latency(Duration::from_millis(50))
        .enable_random_order()
        .build();
    let drain = Arc::new(Notify::new());
    let (outside, asked) = (world.clone(), drain.clone());
    sim.host("server", move || serve(outside.clone(), asked.clone()));
    let mut names: Vec<String> = Vec::new();
    let mut stream = 0;
    let mut next = || {
        stream += 1;
        Dice::new(seed ^ stream << 40)
    };
    world.lock().writing = WRITERS.len() as u32;
    for who in WRITERS {
        sim.client(who, write(world.clone(), who, next()));
        names.push(who.into());
    }
    for who in ["reader-a", "reader-b"] {
        sim.client(who, readers::read(world.clone(), who, next()));
        names.push(who.into());
    }
    sim.client(
        "reflector",
        readers::reflect(world.clone(), "reflector", next()),
    );
    names.push("reflector".into());
    for spec in specs(plan.crowd) {
        names.push(spec.name.clone());
        sim.client(spec.name.clone(), follow(world.clone(), spec, next()));
    }
    let mut mends: Vec<(Duration, Mend)> = Vec::new();
    let mut new_stores = 0;
    loop {
        match sim.step() {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => panic!("seed {seed}: {error}\n{}", world.lock().trace),
        }
        let now = sim.elapsed();
        world.set_elapsed(now);
        world.lock().drain();
        for (_, mend) in mends.extract_if(.., |(at, _)| *at <= now) {
            match mend {
                Mend::Repair(name) => sim.repair(name, "server"),
                Mend::Release(name) => sim.release(name, "server"),
                Mend::Bounce => sim.bounce("server"),
            }
        }
        if !dice.one_in(60) || world.written() {
            continue;
        }
        let later = now + Duration::from_millis(500) + dice.millis(5000);
        let name = names[dice.below(names.len() as u32) as usize].clone();
        let trouble = |who: &str, what: &str| {
            let mut outside = world.lock();
            outside.say("fault", &format!("{what} {who}, until {later:?}"));
            outside.troubles.push((who.into(), now, later + AFTERMATH));
        };
        match dice.below(16) {
            0 | 1 => {
                trouble(&name, "cut off");
                sim.partition(name.as_str(), "server");
                mends.push((later, Mend::Repair(name)));
            }
            2 => {
                // Half open: one side goes on and hears nothing.
                let inwards = dice.one_in(2);
                trouble(&name, if inwards { "unheard" } else { "deaf" });
                if inwards {
                    sim.partition_oneway(name.as_str(), "server");
                } else {
                    sim.partition_oneway("server", name.as_str());
                }
                mends.push((later, Mend::Repair(name)));
            }
            3 => {
                trouble(&name, "held up");
                sim.hold(name.as_str(), "server");
                mends.push((later, Mend::Release(name)));
            }
            4 | 5 => {
                // All at once lose their streams, and come back.
                trouble("", "restarted at once");
                sim.crash("server");
                sim.bounce("server");
            }
            6 => {
                trouble("", "crashed");
                sim.crash("server");
                mends.push((later, Mend::Bounce));
            }
            7 => {
                trouble("", "drained");
                drain.notify_one();
                mends.push((later, Mend::Bounce));
            }
            8 => {
                let millis = i64::from(dice.below(20_000)) - 10_000;
                trouble("clock", &format!("off by {millis} ms"));
                world.set_clock_off(millis);
            }
            9 => world.lock().back_up(),
            10 if new_stores < 2 => {
                new_stores += 1;
                let restored = dice.one_in(2);
                trouble("", if restored { "restored" } else { "made anew" });
                sim.crash("server");
                world.replace_store(restored);
                sim.bounce("server");
            }
            _ => compact(&world, dice.below(6)),
        }
    }
    drop(sim);
    let mut outside = world.lock();
    outside.back_up();
    let found = check(&mut outside);
    drop(outside);
    (world, found)
}

/// Forgets what is older than some revisions ago.
fn compact(world: &World, back: u32) {
    let mut outside = world.lock();
    let epoch = outside.epochs.last_mut().unwrap();
    let revision = epoch.log.revision() - i64::from(back);
    if revision <= epoch.base {
        return;
    }
    let at = Revision::from_wire(revision).unwrap();
    let compacted = epoch.store.compact(at, true).now_or_never().unwrap();
    // It may be compacted so far already.
    if compacted.is_ok() {
        epoch.log.compacted = epoch.log.compacted.max(revision);
        outside.say("fault", &format!("compacted to {revision}"));
    }
}

/// A stream that was open while the store was made anew is of one of those.
fn either(found: impl Fn(usize) -> Vec<Violation>, first: usize, last: usize) -> Vec<Violation> {
    let mut results = (first..=last).map(found);
    let one = results.next().unwrap_or_default();
    if one.is_empty() || results.any(|other| other.is_empty()) {
        return Vec::new();
    }
    one
}

fn check(outside: &mut Outside) -> Vec<Violation> {
    let mut found = std::mem::take(&mut outside.found);
    for stream in &outside.streams {
        let check = |epoch: usize| check_watch(&outside.epochs[epoch].log, &stream.recording);
        found.extend(either(check, stream.first, stream.last));
        let troubles = outside.troubles.iter();
        let excused: Vec<_> = troubles
            .filter(|(who, ..)| who.is_empty() || *who == stream.client)
            .map(|(_, from, until)| (*from, *until))
            .collect();
        let last = stream.spoke.last().copied().unwrap_or_default();
        let silent = check_silence(&stream.spoke, last, BOOKMARKS, LATE, &excused);
        found.extend(silent);
    }
    for (number, epoch) in outside.epochs.iter().enumerate() {
        let calls = outside.calls_of(number);
        found.extend(check_calls(&epoch.log, epoch.base, &calls));
        found.extend(check_identity(&epoch.log, epoch.base));
    }
    found.extend(check_travel(&outside.seen));
    found.extend(check_told(&outside.streams));
    // What the last store holds itself, whatever its feed told.
    let number = outside.epochs.len() - 1;
    if let Some(kept) = &outside.backup {
        let objects = kept.objects.iter().map(|object| resource_of(object));
        let state: State = objects.map(|object| (name_of(&object), object)).collect();
        found.extend(check_kept(&state, kept.revision, &outside.calls_of(number)));
    }
    let log = &outside.newest().log;
    for spec in specs(outside.plan.crowd) {
        let right = outside.ends.get(&spec.name).is_some_and(|copy| {
            let wanted = log.at(copy.revision, &spec.selector);
            copy.objects.keys().eq(wanted.keys())
        });
        if !right {
            let what = format!("{} ended with another state", spec.name);
            found.push(Violation { check: 12, what });
        }
    }
    found
}

/// STORE_CHANGED only to whom had begun with another store. Check 14.
fn check_told(streams: &[Streamed]) -> Vec<Violation> {
    let changed = End::Failed(tonic::Code::OutOfRange, "STORE_CHANGED".into());
    let mut began: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for stream in streams {
        let first = *began.entry(&stream.client).or_insert(stream.first);
        if stream.recording.end != changed {
            continue;
        }
        if first == stream.last {
            let (client, since) = (&stream.client, stream.recording.since);
            let what = format!("{client} at {since} was told of another store; there was none");
            found.push(Violation { check: 14, what });
        }
        began.remove(&stream.client[..]);
    }
    found
}

#[test]
fn check_14_who_is_told_of_another_store_though_there_is_none() {
    let stream = |epoch, reason: Option<&str>| Streamed {
        client: "all".into(),
        first: epoch,
        last: epoch,
        recording: Recording {
            end: reason.map_or(End::Cut, |reason| {
                End::Failed(tonic::Code::OutOfRange, reason.into())
            }),
            ..Recording::default()
        },
        spoke: Vec::new(),
        ended: Duration::ZERO,
    };
    let told = Some("STORE_CHANGED");
    let kept = [
        stream(0, None),
        stream(1, told),
        stream(1, None),
        stream(2, told),
    ];
    assert_eq!(check_told(&kept), []);
    let broken = [stream(0, None), stream(1, told), stream(1, told)];
    assert_eq!(check_told(&broken).len(), 1);
}

/// What one seed met: streams, those that went on, those that were told of another store,
/// compactions, writes that were refused, objects that expired, commits that the feed held back.
fn met(outside: &Outside) -> [u64; 7] {
    let streams = outside.streams.iter();
    let resumed = streams
        .clone()
        .filter(|s| s.recording.since > 0 && !s.recording.responses.is_empty());
    let changed = End::Failed(tonic::Code::OutOfRange, "STORE_CHANGED".into());
    let told = streams.clone().filter(|s| s.recording.end == changed);
    let lines = |what: &str| outside.trace.matches(what).count() as u64;
    [
        streams.len() as u64,
        resumed.count() as u64,
        told.count() as u64,
        lines("fault compacted"),
        lines("Refused"),
        lines("Deleted(Expired)"),
        lines("fault the feed is late"),
    ]
}

/// Runs one seed, in this process.
fn run(seed: u64) -> World {
    let (world, found) = simulate(seed);
    let outside = world.lock();
    let text: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert!(
        found.is_empty(),
        "{}\nseed {seed}:\n{}",
        outside.trace,
        text.join("\n")
    );
    println!("met {:?}", met(&outside));
    drop(outside);
    world
}

/// What lays the fixed randomness over a process; compiled once.
fn fixed_random() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/simulation/fixed_random.c"
        );
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixed_random.so");
        // Runs beside this one may build it as well.
        let new = library.with_extension(std::process::id().to_string());
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&new)
            .arg(source);
        let built = cc.status().expect("cc is there");
        assert!(built.success(), "{cc:?}");
        std::fs::rename(&new, &library).unwrap();
        library
    })
}

/// Runs one seed in a process of its own, where chance is fixed.
fn run_apart(seed: u64, log: Option<&Path>) -> Output {
    let mut child = Command::new(env::current_exe().unwrap());
    child
        .args(["--exact", "simulation::one_seed", "--nocapture"])
        .env("SIMULATION_SEED", seed.to_string())
        .env("RUST_BACKTRACE", "0")
        .env_remove("SIMULATION_LOG");
    if let Some(log) = log {
        child.env("SIMULATION_LOG", log);
    }
    if cfg!(target_os = "linux") {
        child.env("LD_PRELOAD", fixed_random());
    }
    child.output().unwrap()
}

/// The seed that the environment asks for, or the first; in this process.
#[test]
fn one_seed() {
    let seed = env::var("SIMULATION_SEED").map_or(0, |seed| seed.parse().unwrap());
    // What turns in place lets no simulated time pass: no limit within the simulation ends it.
    let (_ended, ends) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        if ends.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("seed {seed} does not end");
            std::process::exit(1);
        }
    });
    let world = run(seed);
    if let Ok(path) = env::var("SIMULATION_LOG") {
        std::fs::write(path, &world.lock().trace).unwrap();
    }
}

/// The seeds to try: `SIMULATION_SEEDS=FIRST..LAST`, or `SIMULATION_SEED` alone.
fn seeds() -> Range<u64> {
    let number = |text: &str| -> u64 { text.parse().expect("a number") };
    if let Ok(seed) = env::var("SIMULATION_SEED") {
        return number(&seed)..number(&seed) + 1;
    }
    let Ok(seeds) = env::var("SIMULATION_SEEDS") else {
        return 0..SEEDS;
    };
    let (first, last) = seeds.split_once("..").expect("FIRST..LAST");
    number(first)..number(last)
}

/// Tries a third of the seeds; fails with the log of each that fails.
fn run_part(part: u64) {
    let mut sum = [0; 7];
    let mut failed = Vec::new();
    let mine = seeds().filter(|seed| seed % 3 == part);
    for seed in mine.clone() {
        let output = run_apart(seed, None);
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(met) = text.lines().find_map(|line| line.strip_prefix("met ")) else {
            println!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
            failed.push(seed);
            continue;
        };
        let met = met.trim_matches(['[', ']']).split(", ");
        for (sum, one) in sum.iter_mut().zip(met) {
            *sum += one.parse::<u64>().unwrap();
        }
    }
    println!(
        "streams, resumed, told of another store, compactions, refusals, expired, late: {sum:?}"
    );
    assert!(failed.is_empty(), "run again: SIMULATION_SEED={failed:?}");
    // A simulation in which nothing goes wrong shows nothing.
    let is_much = mine.count() > 20;
    assert!(!is_much || sum.iter().all(|count| *count > 0), "{sum:?}");
}

#[test]
fn copies_converge_and_no_promise_breaks_under_faults_a() {
    run_part(0);
}

#[test]
fn copies_converge_and_no_promise_breaks_under_faults_b() {
    run_part(1);
}

#[test]
fn copies_converge_and_no_promise_breaks_under_faults_c() {
    run_part(2);
}

#[test]
#[cfg(target_os = "linux")]
fn the_same_seed_gives_the_same_log_twice() {
    let folder = tempfile::tempdir().unwrap();
    for seed in seeds().take(6) {
        let logs = [0, 1].map(|run| {
            let log = folder.path().join(format!("{seed}-{run}"));
            let output = run_apart(seed, Some(&log));
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "seed {seed}: {stderr}");
            std::fs::read_to_string(log).unwrap()
        });
        assert!(logs[0].lines().count() > 100, "a log of next to nothing");
        let lines = logs[0].lines().zip(logs[1].lines());
        let other = lines.enumerate().find(|(_, (one, two))| one != two);
        assert!(logs[0] == logs[1], "seed {seed}: {other:#?}");
    }
}
