//! What a request knows of the connection that it came over, and a long stream hears of it.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    task::Waker,
};

use http::{HeaderMap, header::USER_AGENT};

use crate::{
    limits::{MAX_USER_AGENT_BYTES, MAX_WATCH_STREAMS_PER_CONNECTION},
    peer::Peer,
    sync::{
        AtomicWaker, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// A connection, in the extensions of each of its requests.
#[derive(Debug)]
pub(crate) struct Connection {
    peer: Peer,
    user_agent: OnceLock<Box<str>>,
    leaving: AtomicBool,
    streams: Mutex<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    next: u64,
    open: HashMap<u64, Arc<AtomicWaker>>,
}

impl Connection {
    pub(crate) fn new(peer: Peer) -> Arc<Self> {
        Arc::new(Self {
            peer,
            user_agent: OnceLock::new(),
            leaving: AtomicBool::new(false),
            streams: Mutex::default(),
        })
    }

    /// The connection of a request; of one that was not made over any, one that never ends.
    pub(crate) fn of(extensions: &http::Extensions) -> Arc<Self> {
        let known = extensions.get::<Arc<Self>>().cloned();
        known.unwrap_or_else(|| Self::new(Peer::Unknown))
    }

    pub(crate) fn peer(&self) -> Peer {
        self.peer
    }

    /// What the client calls itself; empty until it has.
    pub(super) fn user_agent(&self) -> &str {
        self.user_agent.get().map_or("", |agent| agent)
    }

    /// Takes the client's name for itself from its first watch.
    pub(crate) fn introduce(&self, headers: &HeaderMap) {
        self.user_agent.get_or_init(|| {
            let agent = headers.get(USER_AGENT).and_then(|a| a.to_str().ok());
            let agent = agent.unwrap_or_default();
            // A header's text is ASCII: it can be cut anywhere.
            agent[..agent.len().min(MAX_USER_AGENT_BYTES)].into()
        });
    }

    /// The connection is about to be closed: its long streams are woken to say so.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::SeqCst);
        self.streams
            .lock()
            .open
            .values()
            .for_each(|stream| stream.wake());
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::SeqCst)
    }

    #[cfg(test)]
    pub(crate) fn holds_no_stream(&self) -> bool {
        self.streams.lock().open.is_empty()
    }

    /// A stream that is held open; `None` if there are so many that calls would find no stream.
    pub(crate) fn open_stream(self: &Arc<Self>) -> Option<LongStream> {
        let mut streams = self.streams.lock();
        if streams.open.len() >= MAX_WATCH_STREAMS_PER_CONNECTION {
            return None;
        }
        let (id, waker) = (streams.next, Arc::new(AtomicWaker::new()));
        streams.next += 1;
        streams.open.insert(id, waker.clone());
        Some(LongStream {
            connection: self.clone(),
            id,
            waker,
        })
    }
}

/// A stream that is held open: woken when its connection is leaving.
#[derive(Debug)]
pub(crate) struct LongStream {
    connection: Arc<Connection>,
    id: u64,
    waker: Arc<AtomicWaker>,
}

impl LongStream {
    /// Whom to wake. Touches nothing that streams share.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }
}

impl Drop for LongStream {
    fn drop(&mut self) {
        self.connection.streams.lock().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_leaving_connection_wakes_its_streams_and_only_those() {
        let (one, two) = (
            Connection::new(Peer::InMemory),
            Connection::new(Peer::InMemory),
        );
        let flags = [&one, &two].map(|connection| {
            let flag = Arc::new(Flag(AtomicBool::new(false)));
            let stream = connection.open_stream().unwrap();
            stream.register(&Waker::from(flag.clone()));
            (stream, flag)
        });
        one.leave();
        assert!(one.is_leaving() && !two.is_leaving());
        assert!(flags[0].1.0.load(Ordering::SeqCst));
        assert!(!flags[1].1.0.load(Ordering::SeqCst));
    }

    #[test]
    fn long_streams_leave_room_for_calls_and_are_forgotten_when_they_end() {
        let connection = Connection::new(Peer::InMemory);
        let held: Vec<_> = std::iter::from_fn(|| connection.open_stream()).collect();
        assert_eq!(held.len(), MAX_WATCH_STREAMS_PER_CONNECTION);
        drop(held);
        assert!(connection.holds_no_stream());
    }
}
