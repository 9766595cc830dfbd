//! `/livez` and `/readyz`: named checks, as Kubernetes' and etcd's.
//!
//! Not live: a restart would help. Not ready: requests are better sent elsewhere. A store that is
//! full is both live and ready: reads, watches and deletions go on, and a restart frees no room.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    hub::Hub,
    limits::PROBE_PATIENCE,
    store::{PageLimit, StoreError},
};

/// Which question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// `/livez`
    Live,
    /// `/readyz`
    Ready,
}

/// One thing that is looked at.
#[derive(Clone, Copy, Debug)]
enum Check {
    /// The server answers at all.
    Ping,
    /// The store can be read.
    Storage,
    /// The disk has kept what was written. After it failed to, writes are refused, and only a
    /// restart looks at what it has.
    Disk,
    /// The hub takes up what is committed.
    Hub,
    /// The server is not going away.
    Draining,
}

impl Probe {
    fn checks(self) -> &'static [Check] {
        match self {
            Self::Live => &[Check::Ping, Check::Disk, Check::Hub],
            Self::Ready => &[
                Check::Ping,
                Check::Storage,
                Check::Disk,
                Check::Hub,
                Check::Draining,
            ],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Live => "livez",
            Self::Ready => "readyz",
        }
    }
}

impl Check {
    fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Storage => "storage",
            Self::Disk => "disk",
            Self::Hub => "hub",
            Self::Draining => "draining",
        }
    }
}

/// What the checks look at.
#[derive(Clone, Debug)]
pub(super) struct Probes {
    hub: Arc<Hub>,
    draining: Arc<AtomicBool>,
}

/// The outcome: whether all is well, and the words for it.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) well: bool,
    pub(super) text: String,
}

impl Probes {
    pub(super) fn new(hub: Arc<Hub>, draining: Arc<AtomicBool>) -> Self {
        Self { hub, draining }
    }

    /// Makes the checks but those that are named in `exclude`.
    pub(super) async fn ask(&self, probe: Probe, exclude: &[&str], verbose: bool) -> Verdict {
        let mut well = true;
        let mut text = String::new();
        // Writing to a String does not fail.
        for check in probe.checks() {
            let name = check.name();
            if exclude.contains(&name) {
                let _ = writeln!(text, "[+]{name} excluded: ok");
                continue;
            }
            match self.make(*check, probe).await {
                Ok(()) => {
                    let _ = writeln!(text, "[+]{name} ok");
                }
                Err(why) => {
                    well = false;
                    let _ = writeln!(text, "[-]{name} failed: {why}");
                }
            }
        }
        let known = |name: &str| probe.checks().iter().any(|check| check.name() == name);
        for name in exclude.iter().filter(|name| !known(name)) {
            let name: String = name.chars().take(64).filter(|c| !c.is_control()).collect();
            let _ = writeln!(text, "warn: there is no check {name:?} to exclude");
        }
        let outcome = if well { "passed" } else { "failed" };
        let _ = writeln!(text, "{} check {outcome}", probe.name());
        if well && !verbose {
            "ok".clone_into(&mut text);
        }
        Verdict { well, text }
    }

    async fn make(&self, check: Check, probe: Probe) -> Result<(), String> {
        let patiently = async {
            match (check, probe) {
                (Check::Ping, _) => Ok(()),
                (Check::Storage, _) => self.read_store().await,
                (Check::Disk, _) => self.hub.store().status().failure.map_or(Ok(()), Err),
                (Check::Hub, Probe::Live) if self.hub.is_stopped() => {
                    Err("no changes are taken up any more".to_owned())
                }
                (Check::Hub, Probe::Live) => Ok(()),
                (Check::Hub, Probe::Ready) => {
                    self.hub.settle().await.map(drop).map_err(|e| e.to_string())
                }
                (Check::Draining, _) if self.draining.load(Ordering::SeqCst) => {
                    Err("the server is going away".to_owned())
                }
                (Check::Draining, _) => Ok(()),
            }
        };
        tokio::time::timeout(PROBE_PATIENCE, patiently)
            .await
            .unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }

    /// At the newest revision: nothing is to be read there, but whoever reads goes the same way.
    async fn read_store(&self) -> Result<(), String> {
        const LITTLE: PageLimit = PageLimit { items: 1, bytes: 1 };
        let store = self.hub.store();
        let read = async {
            let newest = store.read_revision().await?;
            store.read_log(None, newest, LITTLE).await
        };
        match read.await {
            Ok(_) => Ok(()),
            // A compaction to the newest revision came between.
            Err(StoreError::Compacted { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}
