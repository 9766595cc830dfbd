//! One server after another over one folder, under load, each of which comes to an end.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    audit::Audit,
    follow::{Follower, specs},
    load::{Writer, compact, read},
    record::Record,
};
use crate::harness::dice::Dice;
use crate::harness::{
    PATIENCE,
    daemon::{Daemon, free_address},
};

const WRITERS: usize = 4;

/// Small segments, a short memory of deletions, a window of ten events.
pub const FLAGS: &[&str] = &[
    "--segment-size",
    "256KiB",
    "--max-tombstones",
    "20",
    "--default-watch-cache-size",
    "10",
    "--compaction-interval",
    "0",
];

/// A number from the environment.
pub fn number(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
        Err(_) => otherwise,
    }
}

/// The clients and what they know, from one server to the next.
pub struct Run {
    pub data: PathBuf,
    pub address: String,
    pub record: Arc<Record>,
    pub audit: Audit,
    pub dice: Dice,
    pub seed: u64,
    writers: Vec<Writer>,
    followers: Vec<Follower>,
    /// The log up to here was audited before the last round: it may be compacted.
    compactable: i64,
    /// What was found, with where.
    pub what: String,
}

/// The clients of a round, at work.
pub struct Load {
    writers: Vec<tokio::task::JoinHandle<Writer>>,
    others: Vec<tokio::task::JoinHandle<()>>,
    followers: Vec<tokio::task::JoinHandle<Follower>>,
    away: Vec<Follower>,
}

impl Run {
    pub fn new(data: PathBuf, seed: u64) -> Self {
        let followers = specs().into_iter().zip(1..);
        Self {
            data,
            address: free_address(),
            record: Arc::default(),
            audit: Audit::default(),
            dice: Dice::new(seed),
            seed,
            writers: (0..WRITERS).map(|n| Writer::new(n, seed)).collect(),
            followers: followers
                .map(|(spec, n)| Follower::new(spec, seed ^ n << 16))
                .collect(),
            compactable: 0,
            what: format!("seed {seed}"),
        }
    }

    /// A server over the folder, which has all that it should have.
    pub async fn start(&mut self) -> Daemon {
        self.start_within(&[]).await
    }

    /// The same, started by a program that becomes the server.
    pub async fn start_within(&mut self, around: &[&str]) -> Daemon {
        let mut daemon = Daemon::spawn_within(around, &self.data, &self.address, FLAGS);
        daemon.ready().await;
        self.look().await;
        daemon
    }

    /// Reads the log on, and compares with it all that was seen.
    pub async fn look(&mut self) {
        let before = self.audit.revision;
        let mut found = self.audit.read_log(&self.address).await;
        found.extend(self.audit.check(&self.record));
        self.compactable = before;
        assert!(
            found.is_empty(),
            "{}: {} breaches\n{}",
            self.what,
            found.len(),
            found[..found.len().min(20)].join("\n")
        );
    }

    /// Sets all clients to work.
    pub fn load(&mut self) -> Load {
        self.record.go_on();
        let (address, record) = (&self.address, &self.record);
        let writers = std::mem::take(&mut self.writers).into_iter();
        let writers = writers.map(|w| tokio::spawn(w.run(address.clone(), record.clone())));
        let (mut followers, mut away) = (Vec::new(), Vec::new());
        for mut follower in std::mem::take(&mut self.followers) {
            if follower.stays_away() {
                away.push(follower);
            } else {
                let following = follower.run(address.clone(), record.clone(), None);
                followers.push(tokio::spawn(following));
            }
        }
        let seed = u64::from(self.dice.below(u32::MAX));
        let compacting = compact(address.clone(), record.clone(), self.compactable, seed);
        let mut others = vec![tokio::spawn(compacting)];
        for n in 1..=2 {
            others.push(tokio::spawn(read(
                address.clone(),
                record.clone(),
                seed ^ n,
            )));
        }
        Load {
            writers: writers.collect(),
            others,
            followers,
            away,
        }
    }

    /// Waits until so many more writes have been acknowledged.
    pub async fn written(&self, more: u64) {
        let enough = self.record.acknowledged() + more;
        let all = async {
            while self.record.acknowledged() < enough {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let waited = tokio::time::timeout(2 * PATIENCE, all).await;
        waited.unwrap_or_else(|_| panic!("{}: the writers stand still", self.what));
    }

    /// Takes the clients back, which have been stopped or have lost their server.
    pub async fn gather(&mut self, load: Load) {
        self.record.stop();
        let all = async {
            for writer in load.writers {
                self.writers.push(writer.await.unwrap());
            }
            for follower in load.followers {
                self.followers.push(follower.await.unwrap());
            }
            for other in load.others {
                other.await.unwrap();
            }
        };
        let gathered = tokio::time::timeout(2 * PATIENCE, all).await;
        gathered.expect("clients do not notice that their server is gone");
        self.followers.extend(load.away);
    }

    /// At the end: every copy becomes the present state, from wherever it stood.
    pub async fn converge(&mut self) {
        // Nothing expires any more once everything that could has.
        let mut before = -1;
        while before != self.audit.revision {
            before = self.audit.revision;
            tokio::time::sleep(Duration::from_millis(400)).await;
            self.look().await;
        }
        self.record.go_on();
        let head = self.audit.revision;
        let mut ended = Vec::new();
        for follower in std::mem::take(&mut self.followers) {
            let run = follower.run(self.address.clone(), self.record.clone(), Some(head));
            ended.push(run.await);
        }
        self.look().await;
        for follower in &ended {
            let wanted = self.audit.state(&follower.selector());
            let held = &follower.copy.objects;
            let name = follower.spec.name;
            assert!(
                held.len() == wanted.len()
                    && held
                        .iter()
                        .all(|(n, r)| wanted.get(n).is_some_and(|w| w.revision == r.revision)),
                "{}: {name} ended with another state",
                self.what
            );
        }
        self.followers = ended;
    }

    /// For the record of a run.
    pub fn report(&self) -> String {
        let figures = &self.audit.figures;
        let compacted = self.record.compacted.load(Ordering::SeqCst);
        format!(
            "{} revisions, {} events, {} acknowledged, {} times an unknown outcome ({} of them \
             stored), {} lists, {} responses, compacted to {compacted}; streams: {:?}",
            self.audit.revision,
            figures.events,
            figures.acknowledged,
            figures.unknown,
            figures.unknown_found,
            figures.lists,
            figures.responses,
            figures.starts
        )
    }
}
