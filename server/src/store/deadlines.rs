//! Which objects end by themselves, and when.

use std::{
    collections::{BTreeMap, HashMap},
    time::SystemTime,
};

use super::{Key, log::Slot};

/// The deadlines of the newest versions.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    by_time: BTreeMap<(SystemTime, Slot), (Key, u32)>,
    by_slot: HashMap<Slot, SystemTime>,
}

/// An object whose time has come.
#[derive(Clone, Debug)]
pub(super) struct Due {
    pub(super) key: Key,
    /// Its version then: a newer one has another deadline.
    pub(super) slot: Slot,
}

impl Deadlines {
    pub(super) fn set(&mut self, slot: Slot, key: Key, size: u32, time: SystemTime) {
        self.by_slot.insert(slot, time);
        self.by_time.insert((time, slot), (key, size));
    }

    /// The version is superseded.
    pub(super) fn clear(&mut self, slot: Slot) {
        if let Some(time) = self.by_slot.remove(&slot) {
            self.by_time.remove(&(time, slot));
        }
    }

    pub(super) fn next(&self) -> Option<SystemTime> {
        self.by_time.keys().next().map(|(time, _)| *time)
    }

    /// What is due by now, earliest first, up to a number of objects and bytes.
    pub(super) fn due(&self, now: SystemTime, objects: usize, bytes: usize) -> Vec<Due> {
        let mut taken = 0usize;
        self.by_time
            .iter()
            .take_while(|((time, _), _)| *time <= now)
            .take(objects)
            .take_while(|(_, (_, size))| {
                let first = taken == 0;
                taken += *size as usize;
                first || taken <= bytes
            })
            .map(|((_, slot), (key, _))| Due {
                key: key.clone(),
                slot: *slot,
            })
            .collect()
    }
}
