//! A watch's berth: what every open watch has of the server, whatever it looks like on the
//! wire. It is registered, hears when it is to go, and has random numbers of its own.

use std::sync::{Arc, atomic::Ordering};

use listwatch::v1;
use tokio::{sync::watch as signal, time::Instant};
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Service,
    connection::Connection,
    departure::{Departure, DeparturePlace},
    watch_register::Registered,
};
use crate::hub::{Closing, Cursor};

/// Random numbers that spread watches over time, so that those opened together neither end
/// nor speak together. Eight bytes, since there is one for each watch.
pub(crate) struct Jitter(u64);

impl Jitter {
    /// The next one, in `0.0..1.0`.
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = xxh3_64(&self.0.to_le_bytes());
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// See the module.
pub(crate) struct Berth {
    pub(crate) registered: Registered,
    pub(crate) jitter: Jitter,
    departure: signal::Receiver<Option<Departure>>,
    /// When it leaves as the server does.
    place: DeparturePlace,
    connection: Arc<Connection>,
}

impl Berth {
    /// When the watch must go, since the server or the connection will not be there much
    /// longer, and why.
    pub(crate) fn leaves_at(&self, now: Instant) -> Option<(Instant, Closing)> {
        if self.connection.is_leaving() {
            return Some((now, Closing::ConnectionAge));
        }
        let departure = *self.departure.borrow();
        departure.map(|departure| (departure.moment(self.place), Closing::Drain))
    }
}

impl Service {
    /// Enters a watch that begins.
    pub(crate) fn berth(
        &self,
        cursor: &Cursor,
        view: v1::View,
        connection: Arc<Connection>,
    ) -> Berth {
        let number = 1 + self.watches_opened.fetch_add(1, Ordering::Relaxed);
        let opened_at = self.options.clock.now();
        Berth {
            registered: self
                .register
                .enter(number, cursor, view, connection.clone(), opened_at),
            jitter: Jitter(match self.options.seed {
                Some(seed) => seed ^ number << 32,
                None => rand::random(),
            }),
            departure: self.departure.clone(),
            place: DeparturePlace::of(number),
            connection,
        }
    }
}
