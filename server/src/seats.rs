//! So many at a time, and so many of them for one client.

use std::{collections::HashMap, sync::Arc};

use crate::{
    peer::Client,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A number of seats.
#[derive(Debug)]
pub(crate) struct Seats {
    max: usize,
    max_per_client: usize,
    taken: AtomicUsize,
    clients: Mutex<HashMap<Client, usize>>,
}

/// Why there is no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All are taken.
    Altogether,
    /// The client's share is.
    ForClient,
}

/// A taken seat; free again when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    client: Option<Client>,
}

impl Seats {
    pub(crate) fn new(max: usize, max_per_client: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            max_per_client,
            taken: AtomicUsize::new(0),
            clients: Mutex::default(),
        })
    }

    /// A seat, if there is one. Who is no client in particular has no share to stay within.
    pub(crate) fn take(self: &Arc<Self>, client: Option<Client>) -> Result<Seat, Full> {
        if self.taken.fetch_add(1, Ordering::Relaxed) >= self.max {
            self.taken.fetch_sub(1, Ordering::Relaxed);
            return Err(Full::Altogether);
        }
        // From here on the seat gives back what it took.
        let mut seat = Seat {
            seats: self.clone(),
            client: None,
        };
        if let Some(client) = client {
            let mut clients = self.clients.lock();
            let taken = clients.entry(client).or_default();
            if *taken >= self.max_per_client {
                if *taken == 0 {
                    clients.remove(&client);
                }
                return Err(Full::ForClient);
            }
            *taken += 1;
            seat.client = Some(client);
        }
        Ok(seat)
    }

    pub(crate) fn taken(&self) -> usize {
        // For a moment, those who are turned away count too.
        self.taken.load(Ordering::Relaxed).min(self.max)
    }

    /// Nothing is kept of clients that hold none.
    #[cfg(test)]
    pub(crate) fn knows_no_client(&self) -> bool {
        self.clients.lock().is_empty()
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn max_per_client(&self) -> usize {
        self.max_per_client
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(client) = self.client {
            let mut clients = self.seats.clients.lock();
            if let Some(taken) = clients.get_mut(&client) {
                *taken -= 1;
                // No trace of clients that are gone.
                if *taken == 0 {
                    clients.remove(&client);
                }
            }
        }
        self.seats.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::Peer;

    fn client(address: &str) -> Option<Client> {
        Peer::Tcp(address.parse().unwrap()).client()
    }

    #[test]
    fn a_client_gets_its_share_and_the_rest_is_for_others() {
        let seats = Seats::new(4, 2);
        let (one, two) = (client("10.0.0.1:1"), client("10.0.0.2:1"));
        let held = [seats.take(one).unwrap(), seats.take(one).unwrap()];
        assert_eq!(seats.take(one).unwrap_err(), Full::ForClient);
        let others = [seats.take(two).unwrap(), seats.take(None).unwrap()];
        assert_eq!(seats.taken(), 4);
        assert_eq!(seats.take(two).unwrap_err(), Full::Altogether);
        drop(held);
        seats.take(one).unwrap();
        drop(others);
        assert_eq!(seats.taken(), 0);
        assert!(seats.knows_no_client());
    }

    #[test]
    fn whoever_is_turned_away_leaves_no_trace() {
        let seats = Seats::new(1, 0);
        assert_eq!(
            seats.take(client("10.0.0.1:1")).unwrap_err(),
            Full::ForClient
        );
        assert_eq!(seats.taken(), 0);
        assert!(seats.knows_no_client());
        seats.take(None).unwrap();
    }
}
