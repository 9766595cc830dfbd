//! gRPC messages put together from ready-encoded parts.
//!
//! `WatchResponse.events` is a repeated field: encoded entries that stand one after the other are
//! a response. So an event is encoded once, and a response is a copy of bytes.

use bytes::{BufMut as _, Bytes, BytesMut};
use listwatch::v1;
use prost::Message as _;
use tonic::{Code, Status};

use super::wire;
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

impl WatchFrame {
    pub(super) fn new(deliveries: &[Delivery], look: Look) -> Self {
        let mut frame = BytesMut::with_capacity(256 + 512 * deliveries.len());
        frame.put_bytes(0, PREFIX_BYTES);
        let mut frame = Self(frame);
        for delivery in deliveries {
            frame.event(delivery, look);
        }
        frame
    }

    fn event(&mut self, delivery: &Delivery, mut look: Look) {
        let gone = matches!(delivery.kind, DeliveryKind::Deleted(_));
        if gone && !look.deleted_values && look.view != v1::View::Key {
            look.view = v1::View::Metadata;
        }
        let encode = || entry(delivery, look).encode_to_vec().into();
        let with_previous = look.previous && delivery.previous.is_some();
        let shared = match with_previous {
            false => delivery.encoded_once(slot(look.view), encode),
            true => None,
        };
        match shared {
            Some(bytes) => self.0.extend_from_slice(bytes),
            None => self.message(&entry(delivery, look)),
        }
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

fn entry(delivery: &Delivery, look: Look) -> v1::WatchResponse {
    v1::WatchResponse {
        events: vec![wire::event(delivery, look.view, look.previous)],
        bookmark: None,
    }
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
