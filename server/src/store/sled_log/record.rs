//! The on-disk form of an entry.
//!
//! One entry is one or more sled records, all written in one batch with the rest of its
//! group, so that a crash leaves all or none. A value is cut into parts because sled moves
//! large records into files that it never syncs.
//!
//! ```text
//! key    | revision u64 BE | index u32 BE | part u16 BE |            14 bytes
//! value  | version u8 = 1 | checksum u64 BE | payload ... |
//!
//! part 0     payload = | parts u16 BE | first bytes of the record |
//! part n>0   payload = | further bytes of the record |
//! checksum           = xxh3-64 of key and payload
//! record             = the protobuf message `Record` below
//!
//! key    | ff ff ff ff ff ff ff ff |                     the segment's summary, sorts last
//! value  | version u8 = 1 | checksum u64 BE | the protobuf message `Summary` below |
//! ```
//!
//! The set hash of a segment is the XOR of the checksums of all its parts.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::{Bytes, BytesMut};
use prost::Message;
use xxhash_rust::xxh3::Xxh3;

use crate::store::{
    Change, Content, DeleteCause, Key, Object, RequestId, Revision, Uid,
    log::{Entry, Slot},
    replay::{Outcome, Request},
};

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 1 + 8;
pub(super) const KEY_BYTES: usize = 8 + 4 + 2;
pub(super) const SUMMARY_KEY: [u8; 8] = [0xff; 8];

const CREATED: u32 = 1;
const UPDATED: u32 = 2;
const DELETED: u32 = 3;
const EXPIRED: u32 = 4;
/// The event is compacted; what is left is the answer to its request.
const ANSWERED: u32 = 5;

/// An entry of the log.
#[derive(Clone, PartialEq, Message)]
struct Record {
    /// What happened: 1 created, 2 updated, 3 deleted on request, 4 deleted as expired,
    /// 5 compacted, kept for `request` alone.
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    collection: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "4")]
    name: String,
    /// 16 bytes, big endian.
    #[prost(bytes = "bytes", tag = "5")]
    uid: Bytes,
    #[prost(uint64, tag = "6")]
    create_revision: u64,
    /// 0: there was no version before.
    #[prost(uint64, tag = "7")]
    previous_revision: u64,
    /// Nanoseconds since 1970.
    #[prost(sint64, tag = "8")]
    time: i64,
    #[prost(btree_map = "string, string", tag = "9")]
    labels: BTreeMap<String, String>,
    #[prost(bytes = "bytes", tag = "10")]
    value: Bytes,
    #[prost(string, tag = "11")]
    content_type: String,
    /// Nanoseconds since 1970.
    #[prost(sint64, optional, tag = "12")]
    expire_time: Option<i64>,
    /// On the first entry of a commit that came with a request id.
    #[prost(message, optional, tag = "13")]
    request: Option<RequestRecord>,
}

#[derive(Clone, PartialEq, Message)]
struct RequestRecord {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(fixed64, tag = "2")]
    fingerprint: u64,
    #[prost(message, repeated, tag = "3")]
    outcomes: Vec<OutcomeRecord>,
}

/// The answer to one operation; revision 0: absent.
#[derive(Clone, PartialEq, Message)]
struct OutcomeRecord {
    #[prost(bytes = "bytes", tag = "1")]
    uid: Bytes,
    #[prost(uint64, tag = "2")]
    revision: u64,
    #[prost(uint64, tag = "3")]
    create_revision: u64,
}

/// What a segment holds; written with each group, so that it can be checked.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Summary {
    /// The newest revision.
    #[prost(uint64, tag = "1")]
    pub(super) revision: u64,
    /// Number of parts.
    #[prost(uint64, tag = "2")]
    pub(super) records: u64,
    /// Set hash of the parts.
    #[prost(fixed64, tag = "3")]
    pub(super) hash: u64,
    /// Bytes of keys and values.
    #[prost(uint64, tag = "4")]
    pub(super) bytes: u64,
    /// The compacted revision when this was written.
    #[prost(uint64, tag = "5")]
    pub(super) compacted: u64,
}

/// One sled record.
pub(super) struct Part {
    pub(super) key: [u8; KEY_BYTES],
    pub(super) value: Vec<u8>,
    pub(super) checksum: u64,
}

impl Part {
    pub(super) fn bytes(&self) -> u64 {
        (KEY_BYTES + self.value.len()) as u64
    }
}

/// What a record turned out to be.
pub(super) enum Stored {
    Entry(Entry),
    /// Only the answer to a request is left.
    Answer(Slot, Arc<Request>, SystemTime),
}

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error("its checksum is wrong")]
    Checksum,
    #[error("it is cut short")]
    Short,
    #[error("its format version {0} is unknown; it was written by a newer listwatchd")]
    Version(u8),
    #[error("it is ill-formed: {0}")]
    IllFormed(String),
}

fn checksum(key: &[u8], payload: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(key);
    hash.update(payload);
    hash.digest()
}

pub(super) fn key_of(slot: Slot, part: u16) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&slot.revision.get().to_be_bytes());
    key[8..12].copy_from_slice(&slot.index.to_be_bytes());
    key[12..].copy_from_slice(&part.to_be_bytes());
    key
}

/// The slot and part that a key stands for.
pub(super) fn parse_key(key: &[u8]) -> Option<(Slot, u16)> {
    let key: &[u8; KEY_BYTES] = key.try_into().ok()?;
    let (revision, rest) = key.split_first_chunk::<8>()?;
    let (index, part) = rest.split_first_chunk::<4>()?;
    let slot = Slot {
        revision: Revision::new(u64::from_be_bytes(*revision)),
        index: u32::from_be_bytes(*index),
    };
    Some((slot, u16::from_be_bytes(part.try_into().ok()?)))
}

fn seal(key: &[u8], payload_parts: &[&[u8]]) -> (Vec<u8>, u64) {
    let length: usize = payload_parts.iter().map(|p| p.len()).sum();
    let mut hash = Xxh3::new();
    hash.update(key);
    for part in payload_parts {
        hash.update(part);
    }
    let checksum = hash.digest();
    let mut value = Vec::with_capacity(HEADER_BYTES + length);
    value.push(VERSION);
    value.extend_from_slice(&checksum.to_be_bytes());
    for part in payload_parts {
        value.extend_from_slice(part);
    }
    (value, checksum)
}

/// The payload of a sled value, once its version and checksum are right.
pub(super) fn open<'a>(key: &[u8], value: &'a [u8]) -> Result<(&'a [u8], u64), RecordError> {
    let (version, rest) = value.split_first().ok_or(RecordError::Short)?;
    if *version != VERSION {
        return Err(RecordError::Version(*version));
    }
    let (sum, payload) = rest.split_first_chunk::<8>().ok_or(RecordError::Short)?;
    let sum = u64::from_be_bytes(*sum);
    if checksum(key, payload) != sum {
        return Err(RecordError::Checksum);
    }
    Ok((payload, sum))
}

/// The number of parts and the first bytes of the record, of part 0's payload.
pub(super) fn first_part(payload: &[u8]) -> Result<(u16, &[u8]), RecordError> {
    let (parts, rest) = payload.split_first_chunk::<2>().ok_or(RecordError::Short)?;
    Ok((u16::from_be_bytes(*parts), rest))
}

fn parts(slot: Slot, record: &Record, part_bytes: usize) -> Vec<Part> {
    let encoded = record.encode_to_vec();
    let chunks: Vec<&[u8]> = encoded.chunks(part_bytes.max(1)).collect();
    let count = u16::try_from(chunks.len())
        .unwrap_or(u16::MAX)
        .to_be_bytes();
    chunks
        .iter()
        .zip(0u16..)
        .map(|(chunk, i)| {
            let key = key_of(slot, i);
            let payload: &[&[u8]] = if i == 0 { &[&count, chunk] } else { &[chunk] };
            let (value, checksum) = seal(&key, payload);
            Part {
                key,
                value,
                checksum,
            }
        })
        .collect()
}

pub(super) fn encode(entry: &Entry, part_bytes: usize) -> Vec<Part> {
    let object = &entry.object;
    let record = Record {
        kind: match entry.change {
            Change::Created => CREATED,
            Change::Updated => UPDATED,
            Change::Deleted(DeleteCause::Request) => DELETED,
            Change::Deleted(DeleteCause::Expired) => EXPIRED,
        },
        collection: object.key.collection.as_str().to_owned(),
        namespace: object.key.namespace().to_owned(),
        name: object.key.name().to_owned(),
        uid: uid_bytes(object.uid),
        create_revision: object.create_revision.get(),
        previous_revision: entry.previous_revision.map_or(0, Revision::get),
        time: nanos(object.update_time),
        labels: object.content.labels.clone(),
        value: object.content.value.clone(),
        content_type: object.content.content_type.to_string(),
        expire_time: object.content.expire_time.map(nanos),
        request: entry.request.as_deref().map(request_record),
    };
    parts(entry.slot, &record, part_bytes)
}

/// What compaction leaves of an entry whose request may still be repeated.
pub(super) fn encode_answer(
    slot: Slot,
    request: &Request,
    time: SystemTime,
    part_bytes: usize,
) -> Vec<Part> {
    let record = Record {
        kind: ANSWERED,
        time: nanos(time),
        request: Some(request_record(request)),
        ..Record::default()
    };
    parts(slot, &record, part_bytes)
}

pub(super) fn decode(slot: Slot, bytes: Bytes) -> Result<Stored, RecordError> {
    let ill = |what: String| RecordError::IllFormed(what);
    let record = Record::decode(bytes).map_err(|error| ill(error.to_string()))?;
    let time = from_nanos(record.time);
    let request = match record.request {
        Some(request) => Some(Arc::new(request_of(request)?)),
        None => None,
    };
    let change = match record.kind {
        CREATED => Change::Created,
        UPDATED => Change::Updated,
        DELETED => Change::Deleted(DeleteCause::Request),
        EXPIRED => Change::Deleted(DeleteCause::Expired),
        ANSWERED => {
            let request = request.ok_or_else(|| ill("an answer without its request".into()))?;
            return Ok(Stored::Answer(slot, request, time));
        }
        other => return Err(ill(format!("kind {other}"))),
    };
    let key = Key::new(&record.collection, &record.namespace, &record.name)
        .map_err(|error| ill(error.to_string()))?;
    let content = Content {
        labels: record.labels,
        value: record.value,
        content_type: record.content_type.into(),
        expire_time: record.expire_time.map(from_nanos),
    };
    let object = Object::new(
        key,
        uid_of(&record.uid)?,
        slot.revision,
        Revision::new(record.create_revision),
        time,
        content,
    );
    let previous = record.previous_revision;
    Ok(Stored::Entry(Entry {
        slot,
        change,
        object: Arc::new(object),
        previous_revision: (previous > 0).then_some(Revision::new(previous)),
        request,
        trace: None,
    }))
}

pub(super) fn encode_summary(summary: &Summary) -> Vec<u8> {
    seal(&SUMMARY_KEY, &[&summary.encode_to_vec()]).0
}

pub(super) fn decode_summary(value: &[u8]) -> Result<Summary, RecordError> {
    let (payload, _) = open(&SUMMARY_KEY, value)?;
    Summary::decode(payload).map_err(|error| RecordError::IllFormed(error.to_string()))
}

/// Puts the parts of one record together, as a scan meets them.
#[derive(Default)]
pub(super) struct Assembly {
    begun: Option<(Slot, u16, u16, BytesMut)>,
}

impl Assembly {
    /// Takes the next part; gives the record when it is whole.
    pub(super) fn take(
        &mut self,
        slot: Slot,
        part: u16,
        payload: &[u8],
    ) -> Result<Option<Bytes>, RecordError> {
        let (parts, next, mut bytes) = match self.begun.take() {
            None if part == 0 => {
                let (parts, chunk) = first_part(payload)?;
                if parts <= 1 {
                    return Ok(Some(Bytes::copy_from_slice(chunk)));
                }
                self.begun = Some((slot, parts, 1, BytesMut::from(chunk)));
                return Ok(None);
            }
            Some((begun, parts, next, bytes)) if begun == slot && next == part => {
                (parts, next, bytes)
            }
            _ => return Err(RecordError::IllFormed("a part is missing".into())),
        };
        bytes.extend_from_slice(payload);
        if next + 1 == parts {
            return Ok(Some(bytes.freeze()));
        }
        self.begun = Some((slot, parts, next + 1, bytes));
        Ok(None)
    }

    /// Forgets a record that was not completed. Whether there was one.
    pub(super) fn abandon(&mut self) -> bool {
        self.begun.take().is_some()
    }
}

fn uid_bytes(uid: Uid) -> Bytes {
    Bytes::copy_from_slice(&uid.0.to_be_bytes())
}

fn uid_of(bytes: &[u8]) -> Result<Uid, RecordError> {
    let bytes = bytes
        .try_into()
        .map_err(|_| RecordError::IllFormed("uid".into()))?;
    Ok(Uid(u128::from_be_bytes(bytes)))
}

fn request_record(request: &Request) -> RequestRecord {
    let outcome = |outcome: &Option<Outcome>| {
        outcome.map_or_else(OutcomeRecord::default, |o| OutcomeRecord {
            uid: uid_bytes(o.uid),
            revision: o.revision.get(),
            create_revision: o.create_revision.get(),
        })
    };
    RequestRecord {
        id: request.id.id.to_string(),
        fingerprint: request.id.fingerprint,
        outcomes: request.outcomes.iter().map(outcome).collect(),
    }
}

fn request_of(record: RequestRecord) -> Result<Request, RecordError> {
    let outcome = |o: OutcomeRecord| {
        if o.revision == 0 {
            return Ok(None);
        }
        Ok(Some(Outcome {
            uid: uid_of(&o.uid)?,
            revision: Revision::new(o.revision),
            create_revision: Revision::new(o.create_revision),
        }))
    };
    Ok(Request {
        id: RequestId {
            id: record.id.into(),
            fingerprint: record.fingerprint,
        },
        outcomes: record
            .outcomes
            .into_iter()
            .map(outcome)
            .collect::<Result<_, _>>()?,
    })
}

/// Nanoseconds since 1970, within what 64 bits hold (years 1678 to 2262).
fn nanos(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |n| -n),
    }
}

fn from_nanos(nanos: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanos.unsigned_abs());
    let time = if nanos >= 0 {
        UNIX_EPOCH.checked_add(distance)
    } else {
        UNIX_EPOCH.checked_sub(distance)
    };
    time.unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: Slot = Slot {
        revision: Revision::new(7),
        index: 2,
    };

    fn entry(time: SystemTime, value: &[u8]) -> Entry {
        let object = Object::new(
            Key::new("pods", "default", "a").unwrap(),
            Uid(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            SLOT.revision,
            Revision::new(3),
            time,
            Content {
                value: Bytes::copy_from_slice(value),
                expire_time: Some(time),
                ..Content::default()
            },
        );
        Entry {
            slot: SLOT,
            change: Change::Updated,
            object: Arc::new(object),
            previous_revision: Some(Revision::new(1)),
            request: None,
            trace: None,
        }
    }

    /// What a scan makes of parts, in this order.
    fn read<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Result<Option<Stored>, RecordError> {
        let mut assembly = Assembly::default();
        let mut whole = None;
        for part in parts {
            let (slot, number) = parse_key(&part.key).expect("a key");
            let (payload, checksum) = open(&part.key, &part.value)?;
            assert_eq!(checksum, part.checksum);
            whole = assembly.take(slot, number, payload)?;
        }
        whole.map(|bytes| decode(SLOT, bytes)).transpose()
    }

    fn read_entry(parts: &[Part]) -> Entry {
        match read(parts) {
            Ok(Some(Stored::Entry(entry))) => entry,
            Ok(_) => panic!("no entry"),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn times_before_and_after_1970_come_back() {
        let odd = Duration::new(1_700_000_000, 123_456_789);
        for time in [UNIX_EPOCH, UNIX_EPOCH + odd, UNIX_EPOCH - odd] {
            let found = read_entry(&encode(&entry(time, b"x"), 4096)).object;
            assert_eq!(found.update_time, time);
            assert_eq!(found.content.expire_time, Some(time));
        }
        // Beyond what 64 bits hold: the end of it, on the same side.
        let far = Duration::from_secs(1 << 40);
        for time in [UNIX_EPOCH + far, UNIX_EPOCH - far] {
            let found = read_entry(&encode(&entry(time, b"x"), 4096)).object;
            assert_eq!(found.update_time > UNIX_EPOCH, time > UNIX_EPOCH);
        }
    }

    #[test]
    fn only_all_parts_of_a_record_in_their_order_make_it() {
        let value: Vec<u8> = (0..=255).collect();
        let parts = encode(&entry(UNIX_EPOCH, &value), 64);
        assert!(parts.len() >= 4, "{}", parts.len());
        let found = read_entry(&parts);
        assert_eq!(found.object.content.value, value);
        assert_eq!(found.previous_revision, Some(Revision::new(1)));
        for (i, part) in parts.iter().enumerate() {
            assert_eq!(part.key, key_of(SLOT, i as u16));
            assert_eq!(part.bytes() as usize, KEY_BYTES + part.value.len());
            let without = parts.iter().take(i).chain(parts.iter().skip(i + 1));
            let lost_end = i + 1 == parts.len();
            match read(without) {
                // A scan sees by what follows that the end is missing.
                Ok(None) => assert!(lost_end),
                Ok(Some(_)) => panic!("whole without part {i}"),
                Err(RecordError::IllFormed(_)) => assert!(!lost_end),
                Err(error) => panic!("{error}"),
            }
            let twice = parts.iter().take(i + 1).chain(parts.iter().skip(i));
            assert!(read(twice).is_err(), "part {i} twice");
        }
        // The next part, of another record.
        let mut others = entry(UNIX_EPOCH, &value);
        others.slot.index += 1;
        let others = encode(&others, 64);
        let mixed = parts.iter().take(2).chain(others.iter().skip(2));
        assert!(matches!(read(mixed), Err(RecordError::IllFormed(_))));
    }

    #[test]
    fn a_record_that_was_abandoned_is_told_from_none() {
        let parts = encode(&entry(UNIX_EPOCH, &[0; 300]), 64);
        let mut assembly = Assembly::default();
        assert!(!assembly.abandon());
        let (payload, _) = open(&parts[0].key, &parts[0].value).unwrap();
        assert!(assembly.take(SLOT, 0, payload).unwrap().is_none());
        assert!(assembly.abandon());
        assert!(!assembly.abandon());
    }

    #[test]
    fn a_record_of_a_newer_version_or_altered_says_which() {
        let part = encode(&entry(UNIX_EPOCH, b"x"), 4096).remove(0);
        let refused = |value: &[u8]| open(&part.key, value).expect_err("an error");
        for place in 0..part.value.len() {
            let mut value = part.value.clone();
            value[place] ^= 4;
            match refused(&value) {
                RecordError::Version(found) => assert_eq!((place, found), (0, VERSION ^ 4)),
                RecordError::Checksum => assert_ne!(place, 0),
                error => panic!("{error}"),
            }
        }
        assert!(matches!(refused(&[]), RecordError::Short));
        assert!(matches!(refused(&part.value[..5]), RecordError::Short));
        // Under another key it is as wrong.
        let key = key_of(SLOT, 1);
        assert!(matches!(
            open(&key, &part.value),
            Err(RecordError::Checksum)
        ));
    }

    #[test]
    fn an_answer_comes_back_with_what_was_absent() {
        let outcome = Outcome {
            uid: Uid(9),
            revision: SLOT.revision,
            create_revision: Revision::new(3),
        };
        let request = Request {
            id: RequestId {
                id: "r".into(),
                fingerprint: 5,
            },
            outcomes: vec![Some(outcome), None],
        };
        let time = UNIX_EPOCH + Duration::from_secs(8);
        let parts = encode_answer(SLOT, &request, time, 4096);
        let Ok(Some(Stored::Answer(slot, found, at))) = read(&parts) else {
            panic!("no answer");
        };
        assert_eq!((slot, &*found, at), (SLOT, &request, time));
    }
}
