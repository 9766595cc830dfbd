//! The store as the server has it: its feed is late.
//!
//! In a real server a commit is acknowledged by the writer's thread, and the hub takes it up
//! from the feed when its task comes to run. In simulated time both are one step. So here the
//! feed holds commits back for a while, and all that come after them: what the hub shows
//! meanwhile is old, and whoever may not see that has to wait. Where the feed keeps little, what
//! was held back is too much for it at once, and the hub reads the log.

use std::{sync::Arc, time::Duration};

use listwatch_server::store::Store;

use super::world::World;
use crate::harness::faulty::FaultyStore;

/// Bookmarks keep to their interval also then.
const LATEST_MILLIS: u32 = 500;

/// The newest store, as it is over the disk that stays.
pub fn store(world: &World) -> Arc<dyn Store> {
    let outside = world.lock();
    let store = outside.newest().store.clone();
    let (late, feed) = (outside.plan.late, outside.plan.feed);
    if late == 0 {
        return store;
    }
    let world = world.clone();
    let delays = move || {
        let mut outside = world.lock();
        if !outside.lateness.one_in(late) {
            return Duration::ZERO;
        }
        let delay = Duration::from_millis(1) + outside.lateness.millis(LATEST_MILLIS);
        outside.say("fault", &format!("the feed is late by {delay:?}"));
        delay
    };
    FaultyStore::late_over(store, feed, Box::new(delays))
}
