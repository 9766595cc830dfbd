//! Power cuts at chosen moments of a load. A disk is made of what the server synced and of any
//! part of what it did not, and the next server starts over that. `scripts/power-cuts ROUNDS
//! [SEED]` runs more rounds; with `POWER_KEEP=FOLDER`, disks and traces stay there.

mod disk;
mod tools;
mod trace;

use std::{
    fs,
    io::Read as _,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use self::{
    disk::Disk,
    trace::{CALLS, Step, Trace},
};
use super::{
    load::{COLLECTION, list},
    record::raw,
    rounds::{FLAGS, Run, number},
};
use listwatch::v1;

use crate::harness::{
    PATIENCE,
    daemon::{Daemon, free_address},
    dice::Dice,
    put, resource,
};

const ROUNDS: u64 = 6;
const SEED: u64 = 20_261_203;

/// Where disks and traces stay, for who looks into a failure.
fn kept() -> Option<PathBuf> {
    std::env::var_os("POWER_KEEP").map(PathBuf::from)
}

/// A machine: its disk, and the server on it, all of whose calls are traced.
struct Machine {
    folder: PathBuf,
    disks: u32,
    ends: u32,
    disk: Disk,
    trace: PathBuf,
}

impl Machine {
    fn new(folder: &Path) -> Self {
        fs::create_dir(folder.join("disk-0")).unwrap();
        Self::over(folder)
    }

    /// With a disk that has all that is in its folder.
    fn over(folder: &Path) -> Self {
        let root = folder.join("disk-0");
        Self {
            folder: folder.to_owned(),
            disks: 0,
            ends: 0,
            disk: Disk::of(&root),
            trace: folder.join("trace"),
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.join(format!("disk-{}", self.disks))
    }

    /// To start a server with, so that what it does is known. `more`: for strace.
    fn within(&self, more: &[&str]) -> Vec<String> {
        let trace = self.trace.to_string_lossy();
        let words = [
            "strace",
            "-D",
            "-f",
            "-q",
            "-x",
            "-y",
            "-s",
            "100000000",
            "-e",
            "signal=none",
            "-e",
            CALLS,
            "-o",
            &trace,
        ];
        words
            .iter()
            .chain(more)
            .map(|word| (*word).to_owned())
            .collect()
    }

    /// Ends the server, and follows what it did.
    async fn kill(&mut self, daemon: Daemon) {
        let steps = self.steps(daemon).await;
        self.disk.follow(&steps);
        self.disk.killed();
        let differences = self.disk.differences();
        assert!(
            differences.is_empty(),
            "the trace leaves out: {differences:#?}"
        );
    }

    /// Ends the server, and gives what it did.
    async fn steps(&mut self, daemon: Daemon) -> Vec<Step> {
        daemon.kill_9();
        self.traced().await
    }

    /// What a process did that has ended.
    async fn traced(&mut self) -> Vec<Step> {
        let started = tokio::time::Instant::now();
        while is_running_with(&self.trace) {
            assert!(started.elapsed() < PATIENCE, "strace does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // None, if it was killed even before.
        let text = fs::read_to_string(&self.trace).unwrap_or_default();
        if kept().is_some() {
            let _ = fs::rename(
                &self.trace,
                self.folder.join(format!("trace-{}", self.ends)),
            );
            self.ends += 1;
        }
        let _ = fs::remove_file(&self.trace);
        Trace::default().steps(&text)
    }

    fn data(&self) -> PathBuf {
        self.root().join("data")
    }

    /// Ends the server, mostly by a power cut.
    async fn end(&mut self, daemon: Daemon, run: &mut Run, round: u64) {
        self.kill(daemon).await;
        let left = if run.dice.one_in(4) {
            "all, as the power was not cut".to_owned()
        } else {
            self.cut(&mut run.dice)
        };
        run.data = self.data();
        run.what = format!(
            "POWER_SEED={}, round {round}, of what was not synced is left: {left}",
            run.seed
        );
    }

    /// Another disk, with what a power cut left of this one.
    fn cut(&mut self, dice: &mut Dice) -> String {
        let old = self.root();
        self.disks += 1;
        let left = self.disk.cut(dice, &self.root());
        if kept().is_some() {
            // As it is before the next server changes it.
            Disk::of(&self.root()).all(&self.root().with_extension("cut"));
        } else {
            fs::remove_dir_all(old).unwrap();
        }
        self.disk = Disk::of(&self.root());
        left
    }
}

/// Whether there is a process with this path as an argument.
fn is_running_with(path: &Path) -> bool {
    let path = path.to_str().unwrap().as_bytes();
    fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == path)
    })
}

/// What the server is at when it ends. Names of files tell what it is doing.
const CALLS_OF_INTEREST: &[&str] = &[
    "mkdir(",
    "/conf\"",
    "MANIFEST.new\", \"",
    "unlink",
    "ftruncate(",
    ".generating\"",
    "rmdir",
];

impl Machine {
    /// Waits until the server has made such a call so often from now on.
    async fn calls(&self, text: &str, times: usize) {
        let mut trace = fs::File::open(&self.trace).unwrap();
        let (mut new, mut found) = (Vec::new(), 0);
        trace.read_to_end(&mut new).unwrap();
        let started = tokio::time::Instant::now();
        while found < times && started.elapsed() < Duration::from_secs(5) {
            new.clear();
            trace.read_to_end(&mut new).unwrap();
            found += new
                .windows(text.len())
                .filter(|w| *w == text.as_bytes())
                .count();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_or_seen_is_lost_however_often_the_power_is_cut() {
    let rounds = number("POWER_ROUNDS", ROUNDS);
    let seed = number("POWER_SEED", SEED);
    println!("{rounds} rounds, POWER_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let folder = kept().unwrap_or_else(|| folder.path().to_owned());
    let mut machine = Machine::new(&folder);
    let mut run = Run::new(machine.data(), seed);
    for round in 0..rounds {
        let within = machine.within(&[]);
        let within = words(&within);
        // Sometimes it does not get to its opening's end.
        while run.dice.one_in(3) {
            let opening = Daemon::spawn_within(&within, &run.data, &run.address, FLAGS);
            tokio::time::sleep(run.dice.millis(400)).await;
            machine.end(opening, &mut run, round).await;
            println!("{}", run.what);
        }
        let daemon = run.start_within(&within).await;
        let load = run.load();
        if run.dice.one_in(2) {
            let acknowledgements = 1 + u64::from(run.dice.below(300));
            run.written(acknowledgements).await;
        } else {
            let call = run
                .dice
                .below(u32::try_from(CALLS_OF_INTEREST.len()).unwrap());
            let times = 1 + run.dice.below(3) as usize;
            machine.calls(CALLS_OF_INTEREST[call as usize], times).await;
            tokio::time::sleep(run.dice.millis(20)).await;
        }
        machine.end(daemon, &mut run, round).await;
        println!("{}", run.what);
        run.gather(load).await;
        if round % 10 == 9 {
            println!("{}: {}", run.what, run.report());
        }
    }
    let _daemon = run.start().await;
    run.converge().await;
    println!("{rounds} rounds: {}", run.report());
}

impl Machine {
    /// A disk beside this one, with what a power cut would leave now: a server over it has all that it
    /// should have.
    async fn would_keep(&self, run: &mut Run, what: &str) {
        let aside = self.folder.join("aside");
        let left = self.disk.cut(&mut run.dice, &aside);
        run.what = format!("{what}, of what was not synced is left: {left}");
        let data = std::mem::replace(&mut run.data, aside.join("data"));
        // Whether a write that nobody was told of is there may differ from cut to cut.
        let known = run.audit.clone();
        run.start().await.kill_9();
        run.audit = known;
        run.data = data;
        fs::remove_dir_all(aside).unwrap();
    }
}

/// The server renames its manifest and is killed before the disk has the name. The next opens with the
/// new one, and takes away what only the old one needs; in the one after it more is written.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_server_has_not_synced_the_next_ones_do_not_build_on() {
    const CUTS: usize = 10;
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Machine::new(folder.path());
    let mut run = Run::new(machine.data(), SEED);
    // Each rename is done, and returns later.
    let within = machine.within(&["-e", "inject=rename:delay_exit=300000"]);
    let daemon = run.start_within(&words(&within)).await;
    let manifest = run.data.join("MANIFEST");
    let manifest = || fs::metadata(&manifest).unwrap().ino();
    let (before, load) = (manifest(), run.load());
    let started = tokio::time::Instant::now();
    while manifest() == before {
        assert!(started.elapsed() < PATIENCE, "no segment is sealed");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    machine.kill(daemon).await;
    run.gather(load).await;
    assert!(machine.disk.is_at_stake("data", "MANIFEST"));

    let within = machine.within(&[]);
    let mut opening = Daemon::spawn_within(&words(&within), &run.data, &run.address, FLAGS);
    opening.ready().await;
    let steps = machine.steps(opening).await;
    for more in steps.chunks(steps.len().div_ceil(CUTS)) {
        machine.disk.follow(more);
        machine.would_keep(&mut run, "cut while it opens").await;
    }
    machine.disk.killed();

    let daemon = run.start_within(&words(&within)).await;
    let load = run.load();
    run.written(20).await;
    machine.kill(daemon).await;
    run.gather(load).await;
    for _ in 0..CUTS {
        machine.would_keep(&mut run, "cut after more writes").await;
    }
    let _daemon = run.start().await;
    run.converge().await;
}

fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// sled uses parts of its file again when it takes what replaced them for stable, and that is before any
/// sync: a write that is larger than such a part, cut off before its own, takes nothing else with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_write_that_the_power_is_cut_in_takes_nothing_else_with_it() {
    const SMALL: usize = 30;
    let folder = tempfile::tempdir().unwrap();
    let mut machine = Machine::new(folder.path());
    let within = machine.within(&[]);
    let (data, address) = (machine.data(), free_address());
    let flags = ["--segment-size", "8MiB"];
    let mut daemon = Daemon::spawn_within(&words(&within), &data, &address, &flags);
    daemon.ready().await;
    let mut client = raw(&address);
    let object = |name: String, bytes| put(resource(COLLECTION, &name, &"x".repeat(bytes), &[]));
    let write = |names: Vec<(String, usize)>| v1::BatchRequest {
        operations: names
            .into_iter()
            .map(|(name, bytes)| v1::BatchOperation {
                kind: Some(object(name, bytes)),
            })
            .collect(),
        ..v1::BatchRequest::default()
    };
    for n in 0..SMALL {
        client
            .batch(write(vec![(format!("small{n}"), 900)]))
            .await
            .unwrap();
    }
    let text = fs::read_to_string(&machine.trace).unwrap();
    let before = Trace::default().steps(&text).len();
    let large = (0..6).map(|w| {
        let (mut client, names) = (
            client.clone(),
            (0..100).map(|n| (format!("large{w}-{n}"), 16_000)),
        );
        let request = write(names.collect());
        tokio::spawn(async move { client.batch(request).await })
    });
    for written in large.collect::<Vec<_>>() {
        written.await.unwrap().unwrap();
    }
    // sled writes more, in what it calls its garbage collection.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let steps = machine.steps(daemon).await;
    let (first, then) = steps.split_at(before);
    machine.disk.follow(first);
    let mut dice = Dice::new(SEED);
    let aside = folder.path().join("aside");
    for (n, step) in then.iter().enumerate() {
        machine.disk.follow(std::slice::from_ref(step));
        // Some of the moments after a write.
        let written = matches!(step, Step::Succeeded(_, done) if *done > 1000);
        if !written || !dice.one_in(4) {
            continue;
        }
        let left = machine.disk.cut(&mut dice, &aside);
        let daemon = Daemon::start(&aside.join("data"), &free_address(), &flags).await;
        let listed = list(&mut raw(&daemon.address), 1000, 0).await.unwrap();
        let names = listed.pages.iter().flat_map(|page| &page.resources);
        let names = names.filter_map(|r| Some(r.key.as_ref()?.name.starts_with("small")));
        let small = names.filter(|small| *small).count();
        assert_eq!(small, SMALL, "{n}: {left}");
        fs::remove_dir_all(&aside).unwrap();
    }
}
