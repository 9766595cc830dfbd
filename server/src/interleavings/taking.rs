//! Seats are never more than there are, and each is given back once.

use super::*;
use crate::{
    peer::Peer,
    seats::{Full, Seats},
};

#[test]
fn seats_are_never_oversold_and_all_come_back() {
    in_any_order(|| async {
        let seats = Seats::new(2, 1);
        let held = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let order = std::sync::atomic::Ordering::SeqCst;
        let takers: Vec<_> = [1, 1, 2, 3]
            .into_iter()
            .map(|client| {
                let (seats, held) = (seats.clone(), held.clone());
                spawn(async move {
                    let peer = Peer::Tcp(([10, 0, 0, client], 1).into());
                    for _ in 0..2 {
                        let Ok(seat) = seats.take(peer.client()) else {
                            continue;
                        };
                        assert!(held.fetch_add(1, order) < 2, "one too many");
                        pause().await;
                        held.fetch_sub(1, order);
                        drop(seat);
                    }
                })
            })
            .collect();
        all(takers).await;
        assert_eq!(seats.taken(), 0);
        assert!(seats.knows_no_client());
    });
}

#[test]
fn a_seat_that_is_free_is_refused_only_while_others_are_being_turned_away() {
    in_any_order(|| async {
        let seats = Seats::new(1, 1);
        let first = seats.take(None).unwrap();
        let turned_away: Vec<_> = (0..2)
            .map(|_| {
                let seats = seats.clone();
                spawn(async move {
                    if let Err(full) = seats.take(None) {
                        assert_eq!(full, Full::Altogether);
                    }
                })
            })
            .collect();
        drop(first);
        all(turned_away).await;
        // Nobody is left to take it: it is to be had.
        assert!(seats.take(None).is_ok());
    });
}
