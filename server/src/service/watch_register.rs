//! Who watches what: the open watches, for `ListWatches`.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use listwatch::v1;
use prost::Message as _;
use tonic::Status;

use super::{Service, connection::Connection, request, status, token::TokenError, wire};
use crate::{
    hub::{Cursor, DeliveryMode, Hub, Standing, Whereabouts},
    limits::MAX_PAGE_BYTES,
    peer::Peer,
    selector::Selector,
    store::Collection,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// The open watches by number, which is the order in which they were opened.
#[derive(Debug, Default)]
pub(crate) struct WatchRegister(Mutex<BTreeMap<u64, Arc<Entry>>>);

#[derive(Debug)]
struct Entry {
    number: u64,
    selector: Arc<Selector>,
    mode: DeliveryMode,
    view: v1::View,
    connection: Arc<Connection>,
    opened_at: SystemTime,
    whereabouts: Whereabouts,
    sent_events: AtomicU64,
    sent_bytes: AtomicU64,
    /// Of how many watches it is the work.
    watches: AtomicU64,
}

/// A watch in the register, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    register: Arc<WatchRegister>,
    entry: Arc<Entry>,
}

impl WatchRegister {
    /// Enters a watch.
    pub(super) fn enter(
        self: &Arc<Self>,
        number: u64,
        cursor: &Cursor,
        view: v1::View,
        connection: Arc<Connection>,
        opened_at: SystemTime,
    ) -> Registered {
        let entry = Arc::new(Entry {
            number,
            selector: cursor.selector().clone(),
            mode: cursor.mode(),
            view,
            connection,
            opened_at,
            whereabouts: cursor.whereabouts(),
            sent_events: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            watches: AtomicU64::new(1),
        });
        self.0.lock().insert(number, entry.clone());
        Registered {
            register: self.clone(),
            entry,
        }
    }

    /// So many of the watches after a number, of a collection or of all, and whether there
    /// may be more.
    fn page(&self, of: Option<&Collection>, after: u64, most: usize) -> (Vec<Arc<Entry>>, bool) {
        let watches = self.0.lock();
        let mut found = watches
            .range(after.saturating_add(1)..)
            .map(|(_, entry)| entry)
            .filter(|entry| of.is_none_or(|name| entry.selector.collection() == name));
        let page: Vec<_> = found.by_ref().take(most).cloned().collect();
        (page, found.next().is_some())
    }
}

impl Registered {
    /// A response was sent.
    pub(crate) fn sent(&self, events: usize, bytes: usize) {
        let entry = &self.entry;
        entry
            .sent_events
            .fetch_add(events as u64, Ordering::Relaxed);
        entry.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// It is the work of so many watches.
    pub(super) fn stands_for(&self, watches: usize) {
        self.entry.watches.store(watches as u64, Ordering::Relaxed);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.register.0.lock().remove(&self.entry.number);
    }
}

impl Entry {
    fn report(&self, hub: &Hub) -> v1::OpenWatch {
        let reached = self.whereabouts.reached(hub);
        let backlog = self.whereabouts.backlog();
        let lag = hub.applied().get().saturating_sub(reached.get());
        let state = match self.whereabouts.standing() {
            Standing::Initial => v1::WatchState::Initial,
            Standing::CatchingUp => v1::WatchState::CatchingUp,
            Standing::Live => v1::WatchState::Live,
            Standing::Lagging => v1::WatchState::Lagging,
        };
        let mode = match self.mode {
            DeliveryMode::EveryChange => v1::DeliveryMode::EveryChange,
            DeliveryMode::Latest => v1::DeliveryMode::Latest,
        };
        v1::OpenWatch {
            number: self.number as i64,
            selector: Some(wire::selector(&self.selector)),
            client: match self.connection.peer() {
                Peer::Tcp(address) => address.to_string(),
                Peer::InMemory => "memory".to_owned(),
                Peer::Unknown => String::new(),
            },
            user_agent: self.connection.user_agent().to_owned(),
            open_time: Some(wire::timestamp(self.opened_at)),
            state: state.into(),
            delivery_mode: mode.into(),
            view: self.view.into(),
            revision: reached.to_wire(),
            lag_revisions: lag as i64,
            lag: backlog.age.try_into().ok(),
            backlog_bytes: backlog.bytes as i64,
            sent_events: self.sent_events.load(Ordering::Relaxed) as i64,
            sent_bytes: self.sent_bytes.load(Ordering::Relaxed) as i64,
            watch_count: self.watches.load(Ordering::Relaxed) as i64,
        }
    }
}

impl Service {
    pub(super) fn list_open_watches(
        &self,
        request: &v1::ListWatchesRequest,
    ) -> Result<v1::ListWatchesResponse, Status> {
        let collection = match request.collection.as_str() {
            "" => None,
            name => Some(Collection::new(name).map_err(|e| status::invalid(e.into()))?),
        };
        let size = request::page_size(request.page_size).map_err(status::invalid)?;
        let after = match request.page_token.as_str() {
            "" => 0,
            token => {
                let damaged = |_| status::token(&TokenError::Damaged, "page_token", "");
                token.parse::<u64>().map_err(damaged)?
            }
        };
        let (page, mut more) = self.register.page(collection.as_ref(), after, size);
        let (mut watches, mut bytes) = (Vec::new(), 0);
        for entry in page {
            let watch = entry.report(&self.hub);
            bytes += watch.encoded_len();
            // A selector can be as large as a request.
            if bytes > MAX_PAGE_BYTES && !watches.is_empty() {
                more = true;
                break;
            }
            watches.push(watch);
        }
        let last = watches.last().filter(|_| more);
        Ok(v1::ListWatchesResponse {
            next_page_token: last.map(|w| w.number.to_string()).unwrap_or_default(),
            watches,
        })
    }
}
