//! gRPC messages put together from ready-encoded parts.
//!
//! `WatchResponse.events` is a repeated field: encoded entries that stand one after the other are
//! a response. So an event is encoded once, and a response is a copy of bytes.

use bytes::{BufMut as _, Bytes, BytesMut};
use listwatch::v1;
use prost::Message as _;
use tonic::{Code, Status};

use super::encoding::EventEntry;
use crate::hub::{Delivery, DeliveryKind, ENCODINGS};

/// The length-prefix of a gRPC message: a compression flag and four bytes of length.
pub(super) const PREFIX_BYTES: usize = 5;

/// How a watch wants its events.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) view: v1::View,
    pub(super) previous: bool,
    /// Deletions show the value that is gone.
    pub(super) deleted_values: bool,
}

/// A `WatchResponse` in the making.
pub(super) struct WatchFrame(BytesMut);

/// A bookmark with its token is smaller.
const BOOKMARK_BYTES: usize = 256;

impl WatchFrame {
    pub(super) fn new(deliveries: &[Delivery], look: Look) -> Self {
        // Exactly as much as it takes: it may be long in the hands of a reader that has stopped.
        let events: usize = deliveries.iter().map(|d| event_bytes(d, look)).sum();
        let mut frame = BytesMut::with_capacity(PREFIX_BYTES + events + BOOKMARK_BYTES);
        frame.put_bytes(0, PREFIX_BYTES);
        for delivery in deliveries {
            match shared(delivery, look) {
                Some(bytes) => frame.extend_from_slice(bytes),
                None => entry(delivery, look).encode(&mut frame),
            }
        }
        Self(frame)
    }

    pub(super) fn bookmark(&mut self, bookmark: v1::Bookmark) {
        self.message(&v1::WatchResponse {
            events: Vec::new(),
            bookmark: Some(bookmark),
        });
    }

    /// Fields of a response: appended, they are part of this one.
    fn message(&mut self, part: &v1::WatchResponse) {
        self.0.reserve(part.encoded_len());
        // A BytesMut grows: there is always room.
        let _ = part.encode(&mut self.0);
    }

    /// The message with its prefix, as it goes into a DATA frame.
    pub(super) fn finish(self) -> Bytes {
        seal(self.0)
    }
}

/// Fills in the prefix of a message that stands behind room for it.
pub(super) fn seal(mut frame: BytesMut) -> Bytes {
    // Far below u32::MAX: a response is one commit or a few dozen KiB.
    let length = (frame.len() - PREFIX_BYTES) as u32;
    frame[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    frame.freeze()
}

/// A frame as its message, and a status as the end of a stream.
pub(super) fn decoded<M: prost::Message + Default>(
    frame: Result<Bytes, Status>,
) -> Option<Result<M, Status>> {
    match frame {
        Ok(frame) => {
            let decoded = M::decode(message(&frame));
            Some(decoded.map_err(|error| Status::internal(error.to_string())))
        }
        Err(status) if status.code() == Code::Ok => None,
        Err(status) => Some(Err(status)),
    }
}

/// The message of a frame.
pub(super) fn message(frame: &Bytes) -> Bytes {
    frame.slice(PREFIX_BYTES..)
}

fn event_bytes(delivery: &Delivery, look: Look) -> usize {
    match shared(delivery, look) {
        Some(bytes) => bytes.len(),
        None => entry(delivery, look).encoded_len(),
    }
}

/// The encoding that all watches of this view share, if they do.
fn shared(delivery: &Delivery, look: Look) -> Option<&Bytes> {
    if look.previous && delivery.previous.is_some() {
        return None;
    }
    let encode = || {
        let entry = entry(delivery, look);
        let mut bytes = Vec::with_capacity(entry.encoded_len());
        entry.encode(&mut bytes);
        bytes.into()
    };
    delivery.encoded_once(slot(view_of(delivery, look)), encode)
}

fn entry(delivery: &Delivery, look: Look) -> EventEntry<'_> {
    EventEntry::new(delivery, view_of(delivery, look), look.previous)
}

fn view_of(delivery: &Delivery, look: Look) -> v1::View {
    let gone = matches!(delivery.kind, DeliveryKind::Deleted(_));
    if gone && !look.deleted_values && look.view != v1::View::Key {
        return v1::View::Metadata;
    }
    look.view
}

/// Where the encoding of a view is shared.
fn slot(view: v1::View) -> usize {
    const { assert!(ENCODINGS > 2) };
    match view {
        v1::View::Key => 0,
        v1::View::Metadata => 1,
        v1::View::Full | v1::View::Unspecified => 2,
    }
}
