//! Events straight from the store's types to their encoding, with no message of the API in
//! between: states of hundreds of thousands of objects are the bulk of what a server encodes, and
//! there a message would be a dozen allocations an object.

use bytes::BufMut;
use listwatch::v1::{DeleteCause as Cause, EventType, View};
use prost::encoding::{
    self, WireType, btree_map, encode_key, encode_varint, encoded_len_varint, key_len,
};

use super::wire::timestamp;
use crate::{
    hub::{Delivery, DeliveryKind},
    store::{DeleteCause, Key, Object, Uid},
};

/// `WatchResponse.events`.
const EVENTS: u32 = 1;

/// An entry of `WatchResponse.events`, measured and not yet written.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventEntry<'a> {
    kind: EventType,
    cause: Cause,
    resource: Resource<'a>,
    previous: Option<Resource<'a>>,
    /// Of the event without what precedes it.
    bytes: usize,
}

impl<'a> EventEntry<'a> {
    pub(super) fn new(delivery: &'a Delivery, view: View, previous: bool) -> Self {
        let (kind, cause) = match delivery.kind {
            DeliveryKind::Existing => (EventType::Existing, Cause::Unspecified),
            DeliveryKind::Added => (EventType::Added, Cause::Unspecified),
            DeliveryKind::Modified => (EventType::Modified, Cause::Unspecified),
            DeliveryKind::Unchanged => (EventType::Unchanged, Cause::Unspecified),
            DeliveryKind::Upserted => (EventType::Upserted, Cause::Unspecified),
            DeliveryKind::Deleted(None) => (EventType::Deleted, Cause::Unselected),
            DeliveryKind::Deleted(Some(DeleteCause::Request)) => {
                (EventType::Deleted, Cause::Request)
            }
            DeliveryKind::Deleted(Some(DeleteCause::Expired)) => {
                (EventType::Deleted, Cause::Expired)
            }
        };
        let view = match kind {
            EventType::Unchanged => View::Key,
            _ => view,
        };
        let resource = Resource::new(&delivery.object, view);
        let before = delivery.previous.as_ref().filter(|_| previous);
        let previous = before.map(|object| Resource::new(object, view));
        let bytes = number_len(1, kind as i64)
            + message_len(2, resource.bytes)
            + previous.map_or(0, |previous| message_len(3, previous.bytes))
            + number_len(4, cause as i64);
        Self {
            kind,
            cause,
            resource,
            previous,
            bytes,
        }
    }

    pub(super) fn encoded_len(&self) -> usize {
        message_len(EVENTS, self.bytes)
    }

    pub(super) fn encode(&self, to: &mut impl BufMut) {
        message(EVENTS, self.bytes, to);
        number(1, self.kind as i64, to);
        message(2, self.resource.bytes, to);
        self.resource.encode(to);
        if let Some(previous) = &self.previous {
            message(3, previous.bytes, to);
            previous.encode(to);
        }
        number(4, self.cause as i64, to);
    }
}

#[derive(Clone, Copy, Debug)]
struct Resource<'a> {
    object: &'a Object,
    view: View,
    key_bytes: usize,
    bytes: usize,
}

/// The canonical form of a uid.
const UID_BYTES: usize = 36;

impl<'a> Resource<'a> {
    fn new(object: &'a Object, view: View) -> Self {
        let Key { collection, .. } = &object.key;
        let key_bytes = text_len(1, collection.as_str())
            + text_len(2, object.key.namespace())
            + text_len(3, object.key.name());
        let mut bytes = message_len(1, key_bytes)
            + message_len(2, UID_BYTES)
            + number_len(3, object.revision.to_wire());
        if view != View::Key {
            let content = &object.content;
            bytes += number_len(4, object.create_revision.to_wire())
                + encoding::message::encoded_len(5, &timestamp(object.update_time))
                + btree_map::encoded_len(
                    encoding::string::encoded_len,
                    encoding::string::encoded_len,
                    6,
                    &content.labels,
                )
                + text_len(8, &content.content_type)
                + content.expire_time.map_or(0, |time| {
                    encoding::message::encoded_len(9, &timestamp(time))
                });
            if view != View::Metadata && !content.value.is_empty() {
                bytes += message_len(7, content.value.len());
            }
        }
        Self {
            object,
            view,
            key_bytes,
            bytes,
        }
    }

    fn encode(&self, to: &mut impl BufMut) {
        let object = self.object;
        message(1, self.key_bytes, to);
        text(1, object.key.collection.as_str(), to);
        text(2, object.key.namespace(), to);
        text(3, object.key.name(), to);
        message(2, UID_BYTES, to);
        to.put_slice(&canonical(object.uid));
        number(3, object.revision.to_wire(), to);
        if self.view == View::Key {
            return;
        }
        let content = &object.content;
        number(4, object.create_revision.to_wire(), to);
        encoding::message::encode(5, &timestamp(object.update_time), to);
        btree_map::encode(
            encoding::string::encode,
            encoding::string::encoded_len,
            encoding::string::encode,
            encoding::string::encoded_len,
            6,
            &content.labels,
            to,
        );
        if self.view != View::Metadata && !content.value.is_empty() {
            message(7, content.value.len(), to);
            to.put_slice(&content.value);
        }
        text(8, &content.content_type, to);
        if let Some(time) = content.expire_time {
            encoding::message::encode(9, &timestamp(time), to);
        }
    }
}

fn canonical(uid: Uid) -> [u8; UID_BYTES] {
    let mut text = [b'-'; UID_BYTES];
    let mut rest = uid.0;
    for (place, digit) in text.iter_mut().enumerate().rev() {
        if !matches!(place, 8 | 13 | 18 | 23) {
            *digit = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
        }
    }
    text
}

// As Protobuf has it, numbers and texts that are zero or empty are left out.

fn message_len(tag: u32, bytes: usize) -> usize {
    key_len(tag) + encoded_len_varint(bytes as u64) + bytes
}

fn message(tag: u32, bytes: usize, to: &mut impl BufMut) {
    encode_key(tag, WireType::LengthDelimited, to);
    encode_varint(bytes as u64, to);
}

fn text_len(tag: u32, text: &str) -> usize {
    match text.len() {
        0 => 0,
        bytes => message_len(tag, bytes),
    }
}

fn text(tag: u32, text: &str, to: &mut impl BufMut) {
    if !text.is_empty() {
        message(tag, text.len(), to);
        to.put_slice(text.as_bytes());
    }
}

fn number_len(tag: u32, number: i64) -> usize {
    match number {
        0 => 0,
        number => key_len(tag) + encoded_len_varint(number as u64),
    }
}

fn number(tag: u32, number: i64, to: &mut impl BufMut) {
    if number != 0 {
        encode_key(tag, WireType::Varint, to);
        encode_varint(number as u64, to);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        time::{Duration, UNIX_EPOCH},
    };

    use listwatch::v1;
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;
    use crate::{
        service::wire,
        store::{Content, Revision},
    };

    fn object() -> impl Strategy<Value = Object> {
        let name = ("[a-z]{1,9}", "[a-z]{0,9}", "[a-z]{1,40}");
        let numbers = (any::<u128>(), any::<u64>(), any::<u64>());
        let times = (0u64..1 << 40, prop::option::of(0u64..1 << 40));
        let labels = prop::collection::btree_map("[a-z]{0,5}", ".{0,20}", 0..5);
        let value = prop::collection::vec(any::<u8>(), 0..300);
        (name, numbers, times, labels, value, ".{0,20}").prop_map(
            |(name, (uid, revision, created), times, labels, value, content_type)| {
                let at = |nanos| UNIX_EPOCH + Duration::from_nanos(nanos * 997);
                let content = Content {
                    labels,
                    value: value.into(),
                    content_type: content_type.into(),
                    expire_time: times.1.map(at),
                };
                Object::new(
                    Key::new(&name.0, &name.1, &name.2).unwrap(),
                    Uid(uid),
                    Revision::new(revision),
                    Revision::new(created),
                    at(times.0),
                    content,
                )
            },
        )
    }

    fn kinds() -> [(DeliveryKind, EventType, Cause); 8] {
        use DeliveryKind as Kind;
        [
            (Kind::Existing, EventType::Existing, Cause::Unspecified),
            (Kind::Added, EventType::Added, Cause::Unspecified),
            (Kind::Modified, EventType::Modified, Cause::Unspecified),
            (Kind::Unchanged, EventType::Unchanged, Cause::Unspecified),
            (Kind::Upserted, EventType::Upserted, Cause::Unspecified),
            (Kind::Deleted(None), EventType::Deleted, Cause::Unselected),
            (
                Kind::Deleted(Some(DeleteCause::Request)),
                EventType::Deleted,
                Cause::Request,
            ),
            (
                Kind::Deleted(Some(DeleteCause::Expired)),
                EventType::Deleted,
                Cause::Expired,
            ),
        ]
    }

    proptest! {
        #[test]
        fn an_event_is_encoded_as_its_message_would_be(
            object in object(),
            previous in prop::option::of(object()),
            wanted: bool,
            kind in 0..8usize,
            view in 0..4i32,
        ) {
            let view = View::try_from(view).unwrap();
            let (kind, event_type, cause) = kinds()[kind];
            let mut delivery = Delivery::alone(kind, Arc::new(object));
            delivery.previous = previous.map(Arc::new);
            let shown = if kind == DeliveryKind::Unchanged { View::Key } else { view };
            let message = v1::WatchResponse {
                events: vec![v1::WatchEvent {
                    r#type: event_type.into(),
                    resource: Some(wire::resource(&delivery.object, shown)),
                    previous: delivery
                        .previous
                        .as_ref()
                        .filter(|_| wanted)
                        .map(|object| wire::resource(object, shown)),
                    delete_cause: cause.into(),
                }],
                bookmark: None,
            };
            let entry = EventEntry::new(&delivery, view, wanted);
            let mut encoded = Vec::new();
            entry.encode(&mut encoded);
            prop_assert_eq!(encoded.len(), entry.encoded_len());
            prop_assert_eq!(encoded, message.encode_to_vec());
        }
    }
}
