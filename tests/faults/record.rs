//! What the clients of a real server saw: every call with its outcome, every list, every
//! response of every watch. `audit` compares it with the log afterwards.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
};

use listwatch::v1::{self, list_watch_service_client::ListWatchServiceClient};
use tonic::transport::{Channel, Endpoint};

use crate::{
    harness::PATIENCE,
    validator::{Listed, Name, Recording},
};

/// How a write ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Acknowledged at a revision, with what was answered for each operation.
    Acknowledged(i64, Vec<v1::Resource>),
    /// Refused: nothing may have been written.
    Refused(String),
    /// The connection broke, or the server does not know itself.
    Unknown,
}

/// One batch of writes, told apart by its request id. The first operation is always a put
/// whose value begins with the id, so that the log tells whose revision it is.
#[derive(Clone, Debug)]
pub struct Call {
    pub request: v1::BatchRequest,
    /// What is to be there afterwards: `None`, nothing.
    pub wanted: Vec<(Name, Option<v1::Resource>)>,
    /// Places in the one order of all calls and returns.
    pub called: u64,
    pub returned: Option<u64>,
    pub outcome: Outcome,
}

/// Shared by all clients of a run.
#[derive(Debug, Default)]
pub struct Record {
    ticks: AtomicU64,
    /// The newest revision that any answer has shown.
    seen: AtomicI64,
    /// The highest compaction that was asked for.
    pub compacted: AtomicI64,
    pub acknowledgements: AtomicU64,
    stop: AtomicBool,
    pub calls: Mutex<BTreeMap<String, Call>>,
    pub lists: Mutex<Vec<Listed>>,
    pub streams: Mutex<Vec<Recording>>,
}

impl Record {
    /// A place in the order of calls and returns.
    pub fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    /// The newest revision that a client knew of at some moment before this one.
    pub fn seen(&self) -> i64 {
        self.seen.load(Ordering::SeqCst)
    }

    pub fn see(&self, revision: i64) {
        self.seen.fetch_max(revision, Ordering::SeqCst);
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    pub fn go_on(&self) {
        self.stop.store(false, Ordering::SeqCst);
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// How many writes were acknowledged so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledgements.load(Ordering::SeqCst)
    }
}

/// The bare stubs, over a connection of their own, made when it is needed.
pub fn raw(address: &str) -> ListWatchServiceClient<Channel> {
    let channel = Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .connect_timeout(PATIENCE)
        .connect_lazy();
    ListWatchServiceClient::new(channel).max_decoding_message_size(64 << 20)
}
