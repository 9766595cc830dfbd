//! The bars that the store on disk has to clear, measured:
//! `cargo run --release -p listwatch-server --example store_bars [folder] [events] [abcd]`.
//!
//! (a) durable puts a second; (b) space after churn; (c) writes during a compaction;
//! (d) opening time and memory of a large store.

#![allow(clippy::print_stdout)]

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use listwatch_server::store::{
    Content, Key, Operation, PageLimit, PutCondition, Revision, SledStore, Store, StoreOptions,
    WriteBatch,
};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const VALUE_BYTES: usize = 512;
const MIB: f64 = 1024.0 * 1024.0;

fn put(key: Key, seed: u64) -> WriteBatch {
    // Values that no compression or sparse file flatters.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let value: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    })
    .take(VALUE_BYTES)
    .collect();
    WriteBatch {
        operations: vec![Operation::Put {
            key,
            condition: PutCondition::Any,
            content: Content {
                value: Bytes::from(value),
                ..Content::default()
            },
        }],
        request: None,
        ..WriteBatch::default()
    }
}

fn key(i: u64) -> Outcome<Key> {
    Ok(Key::new("pods", "default", &format!("pod-{i:08}"))?)
}

fn open(folder: &Path) -> Outcome<Arc<SledStore>> {
    Ok(Arc::new(SledStore::open(folder, StoreOptions::default())?))
}

/// Writers that put until told to stop; each takes the next number.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    /// `keys`: how many names are written over and over.
    fn start(store: &Arc<SledStore>, writers: u64, keys: u64, most: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicU64::new(0));
        let next = Arc::new(AtomicU64::new(0));
        let tasks = (0..writers)
            .map(|_| {
                let (store, stop) = (store.clone(), stop.clone());
                let (next, done) = (next.clone(), done.clone());
                tokio::spawn(async move {
                    while !stop.load(Ordering::Relaxed) {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        if i >= most {
                            return;
                        }
                        let Ok(key) = key(i % keys) else { return };
                        if let Err(error) = store.commit(put(key, i)).await {
                            println!("a put failed: {error}");
                            return;
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        Self { stop, done, tasks }
    }

    async fn rate_over(&self, time: Duration) -> f64 {
        let (before, begun) = (self.done.load(Ordering::Relaxed), Instant::now());
        tokio::time::sleep(time).await;
        let done = self.done.load(Ordering::Relaxed) - before;
        done as f64 / begun.elapsed().as_secs_f64()
    }

    async fn wait(self) {
        for task in self.tasks {
            let _ = task.await;
        }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wait().await;
    }
}

fn disk_bytes(folder: &Path) -> Outcome<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == "BALLAST" {
            continue;
        }
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() {
            disk_bytes(&entry.path())?
        } else {
            meta.blocks() * 512
        };
    }
    Ok(bytes)
}

fn resident_bytes() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = line
        .and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .ok_or("no VmRSS")?;
    Ok(kib * 1024)
}

async fn puts_a_second(folder: &Path) -> Outcome {
    println!("(a) durable puts of {VALUE_BYTES} bytes");
    for writers in [1, 64, 256] {
        let folder = folder.join(format!("a-{writers}"));
        let store = open(&folder)?;
        let load = Load::start(&store, writers, 100_000, u64::MAX);
        load.rate_over(Duration::from_secs(1)).await;
        let rate = load.rate_over(Duration::from_secs(5)).await;
        load.end().await;
        store.close().await;
        println!("    {writers:>3} writers: {rate:>7.0} a second");
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

async fn space_after_churn(folder: &Path) -> Outcome {
    const LIVE: u64 = 100_000;
    println!("(b) space after five rounds of churn over {LIVE} objects; at most 3x + a segment");
    let folder = folder.join("b");
    let store = open(&folder)?;
    let segment = StoreOptions::default().segment_bytes as f64;
    let live = (LIVE * (VALUE_BYTES as u64 + 40)) as f64;
    for round in 1..=5 {
        Load::start(&store, 64, LIVE, 5 * LIVE).wait().await;
        let before = disk_bytes(&folder)? as f64;
        let begun = Instant::now();
        store.compact(store.progress().revision, true).await?;
        let after = disk_bytes(&folder)? as f64;
        println!(
            "    round {round}: {:.0} MiB -> {:.0} MiB in {:.1} s; live {:.0} MiB; {:.2}x live, {:.2}x of the bar",
            before / MIB,
            after / MIB,
            begun.elapsed().as_secs_f64(),
            live / MIB,
            after / live,
            after / (3.0 * live + segment),
        );
    }
    store.close().await;
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// How long the rate without a compaction is measured, before it and after it.
const QUIET: Duration = Duration::from_secs(10);

async fn writes_during_compaction(folder: &Path) -> Outcome {
    println!("(c) puts a second during a compaction; at least 70 %");
    for writers in [64, 256] {
        let folder = folder.join("c");
        let store = open(&folder)?;
        Load::start(&store, 64, 200_000, 800_000).wait().await;
        let load = Load::start(&store, writers, 200_000, u64::MAX);
        load.rate_over(Duration::from_secs(1)).await;
        let before = load.rate_over(QUIET).await;
        let compacting = {
            let store = store.clone();
            tokio::spawn(async move {
                let begun = Instant::now();
                let done = store.compact(store.progress().revision, true).await;
                (begun.elapsed(), done)
            })
        };
        let (mut rates, mut slowest) = (Vec::new(), f64::MAX);
        while !compacting.is_finished() {
            let rate = load.rate_over(Duration::from_millis(250)).await;
            slowest = slowest.min(rate);
            rates.push(rate);
        }
        let (took, done) = compacting.await?;
        done?;
        let during = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
        // A compaction takes a minute or two, in which the machine may get faster or slower.
        let after = load.rate_over(QUIET).await;
        load.end().await;
        println!(
            "    {writers:>3} writers: {before:.0} before, {during:.0} during {:.1} s, {after:.0} after ({:.0} %), slowest quarter second {slowest:.0}",
            took.as_secs_f64(),
            200.0 * during / (before + after),
        );
        store.close().await;
        drop(store);
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

async fn opening(folder: &Path, events: u64) -> Outcome {
    println!("(d) opening {events} events of {VALUE_BYTES} bytes, each of its own object");
    let folder = folder.join("d");
    let store = open(&folder)?;
    let begun = Instant::now();
    Load::start(&store, 256, events, events).wait().await;
    println!(
        "    written in {:.1} s; {:.0} MiB on disk",
        begun.elapsed().as_secs_f64(),
        disk_bytes(&folder)? as f64 / MIB
    );
    store.close().await;
    drop(store);
    // In a process of its own: memory that the writing left behind is not counted.
    let output = std::process::Command::new(std::env::current_exe()?)
        .arg(&folder)
        .arg("--open-only")
        .output()?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    fs::remove_dir_all(&folder)?;
    Ok(())
}

async fn open_only(folder: &Path) -> Outcome {
    let empty = resident_bytes()?;
    let begun = Instant::now();
    let store = open(folder)?;
    let took = begun.elapsed().as_secs_f64();
    let resident = resident_bytes()?;
    let objects = store.status().object_count;
    println!(
        "    opened in {took:.2} s: {objects} objects, {:.0} MiB resident, {:.0} bytes an object",
        resident as f64 / MIB,
        (resident - empty) as f64 / objects.max(1) as f64
    );
    let begun = Instant::now();
    let at = store.progress().revision;
    for i in 0..1000 {
        store.get(&key(i * 7919 % objects)?, at).await?;
    }
    let gets = begun.elapsed();
    let begun = Instant::now();
    let (mut after, mut read) = (Revision::ZERO, 0);
    let limit = PageLimit {
        items: 1000,
        bytes: 2 << 20,
    };
    while after < at {
        let chunk = store.live_since(None, after, limit).await?;
        read += chunk.commits.iter().map(|c| c.events.len()).sum::<usize>();
        after = chunk.scanned_to;
    }
    println!(
        "    1000 scattered gets in {:.2} s; all {read} objects read in {:.2} s; {:.0} MiB resident then",
        gets.as_secs_f64(),
        begun.elapsed().as_secs_f64(),
        resident_bytes()? as f64 / MIB
    );
    store.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments
        .first()
        .map_or_else(|| std::env::temp_dir().join("store_bars"), PathBuf::from);
    if arguments.get(1).is_some_and(|a| a == "--open-only") {
        return open_only(&folder).await;
    }
    let events = match arguments.get(1) {
        Some(events) => events.parse()?,
        None => 1_000_000,
    };
    fs::create_dir_all(&folder)?;
    let parts = arguments.get(2).map_or("abcd", String::as_str);
    if parts.contains('a') {
        puts_a_second(&folder).await?;
    }
    if parts.contains('b') {
        space_after_churn(&folder).await?;
    }
    if parts.contains('c') {
        writes_during_compaction(&folder).await?;
    }
    if parts.contains('d') {
        opening(&folder, events).await?;
    }
    Ok(())
}
