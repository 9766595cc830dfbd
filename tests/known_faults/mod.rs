//! Faults that others had, tried on this server. Which report is which test, and which tests
//! elsewhere stand for the others, is in `tests/README.md`.

mod lost_events;
mod many;
mod time_travel;

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use futures::StreamExt as _;
use hyper_util::rt::TokioIo;
use listwatch::v1::{
    self, BookmarkKind, CatchUp, DeleteCause, watch_many_request::Kind, watch_request::Start,
};
use listwatch_client::{
    Client, Event, WatchOptions,
    reflector::{Codec, reflector},
    watcher,
};
use listwatch_server::{
    InMemoryConnector, ServerOptions,
    backup::{self, ExportReader},
    clock::Clock,
    store::{
        Content, Key, MemoryStore, Operation, PutCondition, SledStore, Store, StoreOptions,
        WriteBatch,
    },
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Endpoint};

use crate::{
    harness::{
        Harness, PATIENCE, everything, key, kinds, millis, put, reason, remove, resource, short,
        token, watch,
    },
    validator::{Copy, name_of},
};

/// Clients behind this go to one server now and to another later.
#[derive(Clone)]
struct Switchboard(Arc<Mutex<InMemoryConnector>>);

impl Switchboard {
    fn to(harness: &Harness) -> Self {
        Self(Arc::new(Mutex::new(harness.server.in_memory())))
    }

    fn switch(&self, harness: &Harness) {
        *self.0.lock().unwrap() = harness.server.in_memory();
    }

    fn client(&self) -> Client {
        let board = self.clone();
        let connector = tower::service_fn(move |_| {
            let connector = board.0.lock().unwrap().clone();
            async move { connector.connect().await.map(TokioIo::new) }
        });
        let endpoint = Endpoint::from_static("http://in-memory");
        Client::from_channel(endpoint.connect_with_connector_lazy(connector))
    }
}

/// A store whose identity is `seed`: two of one seed are one store at two moments.
fn store_of(seed: u64) -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(StoreOptions {
        seed: Some(seed),
        ..StoreOptions::default()
    }))
}

/// Windows of `events`, which do not grow.
fn window(events: usize) -> ServerOptions {
    let mut options = ServerOptions::default();
    options.hub.default_cache_size = events;
    options.hub.window_span = Duration::ZERO;
    options
}

fn revisions(response: &v1::WatchResponse) -> impl Iterator<Item = i64> {
    let resources = response.events.iter().filter_map(|e| e.resource.as_ref());
    resources.map(|resource| resource.revision)
}
