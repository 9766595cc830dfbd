//! What is read back from the disk, given any bytes.

// It fails as a test does.
#![allow(clippy::expect_used)]

use std::path::Path;

use bytes::Bytes;

use super::{
    manifest::{self, Manifest},
    record::{self, Assembly, Part, Stored},
};
use crate::store::{Revision, log::Slot};

/// The smallest and largest part that records are cut into here, in bytes.
const PART_BYTES: [usize; 2] = [16, 4096];

/// Bytes as sled gives them back: a record as it was sealed, damaged ones, parts in any
/// order. The first byte says which.
pub(crate) fn records(data: &[u8]) {
    let Some((form, rest)) = data.split_first() else {
        return;
    };
    match form % 4 {
        0 => unsealed(rest),
        1 => sealed(rest),
        2 => damaged(rest),
        _ => parts(rest),
    }
}

/// A value that nothing was done to: hardly ever is its checksum right.
fn unsealed(data: &[u8]) {
    let (key, value) = data.split_at(data.len().min(record::KEY_BYTES));
    if let Some((slot, part)) = record::parse_key(key) {
        assert_eq!(record::key_of(slot, part)[..], *key);
    }
    if let Ok((payload, _)) = record::open(key, value) {
        let _ = record::first_part(payload);
    }
    if let Ok(summary) = record::decode_summary(data) {
        let written = record::encode_summary(&summary);
        assert!(record::decode_summary(&written).is_ok_and(|again| again == summary));
    }
}

fn slot() -> Slot {
    Slot {
        revision: Revision::new(7),
        index: 3,
    }
}

fn written(stored: &Stored, part_bytes: usize) -> Vec<Part> {
    match stored {
        Stored::Entry(entry) => record::encode(entry, part_bytes),
        Stored::Answer(slot, request, time) => {
            record::encode_answer(*slot, request, *time, part_bytes)
        }
    }
}

/// A scan over these parts, as opening a segment does it.
fn read(parts: &[Part]) -> Stored {
    let mut assembly = Assembly::default();
    let mut whole = None;
    for part in parts {
        assert!(whole.is_none(), "the record has ended before its last part");
        let (slot, number) = record::parse_key(&part.key).expect("a key of ours");
        let (payload, sum) = record::open(&part.key, &part.value).expect("a part of ours");
        assert_eq!(sum, part.checksum);
        whole = assembly.take(slot, number, payload).expect("the next part");
    }
    assert!(!assembly.abandon());
    record::decode(slot(), whole.expect("a whole record")).expect("a record of ours")
}

/// A message behind a right checksum: what it says is said again by what is written of it.
fn sealed(data: &[u8]) {
    let Ok(stored) = record::decode(slot(), Bytes::copy_from_slice(data)) else {
        return;
    };
    for part_bytes in PART_BYTES {
        let first = written(&stored, part_bytes);
        let again = read(&first);
        match (&stored, &again) {
            (Stored::Entry(one), Stored::Entry(other)) => {
                assert_eq!(one.slot, other.slot);
                assert_eq!(one.change, other.change);
                assert_eq!(one.object, other.object);
                assert_eq!(one.previous_revision, other.previous_revision);
                assert_eq!(one.request, other.request);
            }
            (Stored::Answer(one, asked, at), Stored::Answer(other, asked_again, at_again)) => {
                assert_eq!((one, asked, at), (other, asked_again, at_again));
            }
            _ => panic!("an entry and an answer are told apart"),
        }
        let second = written(&again, part_bytes);
        let bytes = |parts: &[Part]| -> Vec<Vec<u8>> {
            parts.iter().map(|part| part.value.clone()).collect()
        };
        assert_eq!(bytes(&first), bytes(&second));
    }
}

/// One bit of a part that was written is another: it is noticed.
fn damaged(data: &[u8]) {
    let Some((place, data)) = data.split_first_chunk::<3>() else {
        return;
    };
    let Ok(stored) = record::decode(slot(), Bytes::copy_from_slice(data)) else {
        return;
    };
    let [place_high, place_low, bit] = *place;
    for mut part in written(&stored, PART_BYTES[0]) {
        let length = part.key.len() + part.value.len();
        let place = usize::from(u16::from_be_bytes([place_high, place_low])) % length;
        let flipped = 1 << (bit % 8);
        match part.value.get_mut(place.wrapping_sub(part.key.len())) {
            Some(byte) => *byte ^= flipped,
            None => part.key[place] ^= flipped,
        }
        assert!(record::open(&part.key, &part.value).is_err());
    }
}

/// Parts of any slots and numbers, in any order: `| slot | number | length | payload |`.
fn parts(mut data: &[u8]) {
    let mut assembly = Assembly::default();
    while let Some(([index, number, length], rest)) = data.split_first_chunk::<3>() {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        data = rest;
        let slot = Slot {
            revision: Revision::new(1),
            index: u32::from(*index),
        };
        match assembly.take(slot, u16::from(*number), payload) {
            Ok(Some(whole)) => drop(record::decode(slot, whole)),
            Ok(None) => {}
            // As a repair goes on.
            Err(_) => drop(assembly.abandon()),
        }
    }
}

/// A MANIFEST. After a zero stands only the message, whose checksum is made right.
pub(crate) fn manifest(data: &[u8]) {
    let folder = Path::new("store");
    let bytes = match data.split_first() {
        Some((0, message)) => manifest::seal(message),
        _ => data.to_vec(),
    };
    let Ok(manifest) = Manifest::parse(&bytes, folder) else {
        return;
    };
    let (_, _) = (manifest.id(), manifest.progress());
    let written = manifest.to_bytes();
    let again = Manifest::parse(&written, folder).expect("a manifest of ours");
    assert_eq!(again, manifest);
    let mut damaged = written;
    if let Some(byte) = damaged.last_mut() {
        *byte ^= 1;
        assert!(Manifest::parse(&damaged, folder).is_err());
    }
}
