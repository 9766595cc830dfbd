//! So many watches at a time, and so many of them for one client.
//!
//! A watch's seat is part of the watch, so it is taken until the stream has ended: limits on
//! requests in the usual way let go when the headers are sent, which is when a watch begins.

use std::sync::Arc;

use tonic::Status;

use super::{
    connection::{Connection, LongStream},
    status,
};
use crate::{
    limits::MAX_WATCH_STREAMS_PER_CONNECTION,
    peer::Peer,
    refusals::{Refusal, Refusals},
    seats::{Full, Seat, Seats},
};

/// There are too many watches: in words.
#[derive(Debug)]
pub(crate) struct Crowded(pub(crate) String);

impl From<Crowded> for Status {
    fn from(crowded: Crowded) -> Self {
        status::too_many_watches(&crowded.0)
    }
}

/// Who may open a watch.
#[derive(Clone, Debug)]
pub(crate) struct WatchLimit {
    seats: Arc<Seats>,
    refusals: Arc<Refusals>,
}

impl WatchLimit {
    pub(crate) fn new(max: usize, max_per_client: usize, refusals: Arc<Refusals>) -> Self {
        Self {
            seats: Seats::new(max, max_per_client),
            refusals,
        }
    }

    /// Watches that are open.
    pub(crate) fn open(&self) -> usize {
        self.seats.taken()
    }

    /// A stream for watches, one or many.
    pub(crate) fn stream(&self, connection: &Arc<Connection>) -> Result<LongStream, Crowded> {
        connection.open_stream().ok_or_else(|| {
            self.refusals.add(Refusal::WatchesPerConnection);
            let limit = MAX_WATCH_STREAMS_PER_CONNECTION;
            Crowded(format!(
                "this connection holds {limit} streams of watches; open another, or use WatchMany"
            ))
        })
    }

    /// A place for one watch.
    pub(crate) fn seat(&self, peer: Peer) -> Result<Seat, Crowded> {
        self.seats.take(peer.client()).map_err(|full| match full {
            Full::Altogether => {
                self.refusals.add(Refusal::Watches);
                let limit = self.seats.max();
                Crowded(format!("the server holds {limit} watches"))
            }
            Full::ForClient => {
                self.refusals.add(Refusal::WatchesPerClient);
                let limit = self.seats.max_per_client();
                Crowded(format!("this client holds {limit} watches"))
            }
        })
    }
}
