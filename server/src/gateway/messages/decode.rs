//! A message as the JSON that Kubernetes makes of it.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use prost::{
    DecodeError,
    bytes::Buf,
    encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field},
};
use serde_json::{Map, Number, Value};

use super::{Field, Holds, JSON_SCHEMA, Many, Message, message, time};

/// Objects and lists within each other. What is stored is read as JSON again, which ends at
/// 128.
const MAX_DEPTH: usize = 100;

/// Why a body is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageError {
    /// It does not begin as all of them do.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoMagic,
    /// The message is in a form that is not read.
    #[error("the message is encoded as {0:?}, which is not known")]
    Encoded(String),
    /// Its bytes are not those of a message.
    #[error("{0}")]
    Malformed(#[from] DecodeError),
    /// A field is of another wire type than its type has.
    #[error("wrong wireType = {0} for the field")]
    WireType(u8),
    /// A string is not one.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// A time that JSON cannot write.
    #[error("the time is out of range")]
    Time,
    /// A number that JSON cannot write.
    #[error("the number is not finite")]
    NotFinite,
    /// What should be JSON within the message is none.
    #[error("not JSON: {0}")]
    NotJson(String),
    /// Messages within messages, and so on.
    #[error("exceeded max depth of {MAX_DEPTH}")]
    TooDeep,
    /// The table has no such message.
    #[error("the message {0} is not known")]
    Unknown(&'static str),
    /// Any of these, and where.
    #[error("{path}: {error}")]
    At {
        /// The fields that lead there.
        path: String,
        /// What is wrong there.
        error: Box<MessageError>,
    },
}

impl MessageError {
    fn within(self, name: &str) -> Self {
        match self {
            Self::At { path, error } => Self::At {
                path: format!("{name}.{path}"),
                error,
            },
            // Nothing but the first hundred names would be told.
            Self::TooDeep => self,
            error => Self::At {
                path: name.to_owned(),
                error: Box::new(error),
            },
        }
    }
}

/// A message as JSON: all but what stands around it (`apiVersion` and `kind`).
pub(crate) fn decode(of: &'static Message, raw: &[u8]) -> Result<Map<String, Value>, MessageError> {
    let mut fields = Map::new();
    merge(of, raw, MAX_DEPTH, &mut fields)?;
    Ok(fields)
}

/// What is on the wire after a key.
#[derive(Clone, Copy)]
enum Wire<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    /// Takes one; `None` for what no field of Kubernetes has, which is skipped.
    fn take(
        rest: &mut &'a [u8],
        number: u32,
        wire_type: WireType,
    ) -> Result<Option<Self>, DecodeError> {
        let whole = *rest;
        match wire_type {
            WireType::Varint => decode_varint(rest).map(|number| Some(Self::Number(number))),
            WireType::LengthDelimited => {
                // Also checks that all of it is there.
                skip_field(wire_type, number, rest, DecodeContext::default())?;
                let mut field = &whole[..whole.len() - rest.len()];
                decode_varint(&mut field)?;
                Ok(Some(Self::Bytes(field)))
            }
            _ => {
                skip_field(wire_type, number, rest, DecodeContext::default())?;
                let mut field = &whole[..whole.len() - rest.len()];
                Ok(match wire_type {
                    WireType::SixtyFourBit => Some(Self::Fixed(field.get_u64_le())),
                    _ => None,
                })
            }
        }
    }

    fn number(self) -> Result<u64, MessageError> {
        match self {
            Self::Number(number) => Ok(number),
            other => Err(other.unfit()),
        }
    }

    fn bytes(self) -> Result<&'a [u8], MessageError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(other.unfit()),
        }
    }

    fn text(self) -> Result<String, MessageError> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| MessageError::NotUtf8)?;
        Ok(text.to_owned())
    }

    fn unfit(self) -> MessageError {
        MessageError::WireType(match self {
            Self::Number(_) => 0,
            Self::Fixed(_) => 1,
            Self::Bytes(_) => 2,
        })
    }
}

/// The fields of a message, one after the other.
fn each<'a>(
    mut rest: &'a [u8],
    mut take: impl FnMut(u32, Wire<'a>) -> Result<(), MessageError>,
) -> Result<(), MessageError> {
    while !rest.is_empty() {
        let (number, wire_type) = decode_key(&mut rest)?;
        if let Some(wire) = Wire::take(&mut rest, number, wire_type)? {
            take(number, wire)?;
        }
    }
    Ok(())
}

fn deeper(left: usize) -> Result<usize, MessageError> {
    left.checked_sub(1).ok_or(MessageError::TooDeep)
}

/// Adds a message to what was there, as Protobuf does where one comes in parts.
fn merge(
    of: &'static Message,
    raw: &[u8],
    left: usize,
    into: &mut Map<String, Value>,
) -> Result<(), MessageError> {
    let left = deeper(left)?;
    each(raw, |number, wire| match of.numbered(number) {
        Some(field) => add(field, wire, left, into).map_err(|error| match field.inline {
            true => error,
            false => error.within(field.name),
        }),
        None => Ok(()),
    })
}

fn add(
    field: &'static Field,
    wire: Wire<'_>,
    left: usize,
    into: &mut Map<String, Value>,
) -> Result<(), MessageError> {
    match (field.many, field.holds) {
        (Many::One, Holds::Message(name)) if field.inline => {
            merge(known(name)?, wire.bytes()?, left, into)
        }
        (Many::One, Holds::Message(name)) => {
            let had = into.entry(field.name);
            let had = had.or_insert_with(|| Value::Object(Map::new()));
            match had {
                Value::Object(had) => merge(known(name)?, wire.bytes()?, left, had),
                _ => Ok(()),
            }
        }
        (Many::One, holds) => {
            match value(holds, wire, left)? {
                Some(value) if field.keeps_zero || !is_zero(holds, &value) => {
                    into.insert(field.name.to_owned(), value);
                }
                // It may have been there before.
                _ => drop(into.remove(field.name)),
            }
            Ok(())
        }
        (Many::List, holds) => {
            let left = deeper(left)?;
            let list = into.entry(field.name);
            let Value::Array(list) = list.or_insert_with(|| Value::Array(Vec::new())) else {
                return Ok(());
            };
            match (holds, wire) {
                // Numbers may come as one field.
                (Holds::Int32 | Holds::Int64 | Holds::Flag, Wire::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        let wire = Wire::Number(decode_varint(&mut packed)?);
                        list.extend(value(holds, wire, left)?);
                    }
                }
                _ => list.push(value(holds, wire, left)?.unwrap_or_default()),
            }
            Ok(())
        }
        (Many::Map, holds) => {
            let left = deeper(left)?;
            let mut key = String::new();
            let mut held = None;
            each(wire.bytes()?, |number, wire| {
                match number {
                    1 => key = wire.text()?,
                    2 => held = value(holds, wire, left)?,
                    _ => {}
                }
                Ok(())
            })?;
            let held = match held {
                Some(value) => value,
                None => zero(holds, left)?,
            };
            let map = into.entry(field.name);
            if let Value::Object(map) = map.or_insert_with(|| Value::Object(Map::new())) {
                map.insert(key, held);
            }
            Ok(())
        }
    }
}

fn known(name: &'static str) -> Result<&'static Message, MessageError> {
    message(name).ok_or(MessageError::Unknown(name))
}

/// What a map holds under a key without a value.
fn zero(holds: Holds, left: usize) -> Result<Value, MessageError> {
    let wire = match holds {
        Holds::Flag | Holds::Int32 | Holds::Int64 => Wire::Number(0),
        Holds::Double => Wire::Fixed(0),
        _ => Wire::Bytes(b""),
    };
    Ok(value(holds, wire, left)?.unwrap_or_default())
}

/// What Go leaves out of JSON where it may.
fn is_zero(holds: Holds, value: &Value) -> bool {
    match holds {
        // These are structs there, which are never left out.
        Holds::Quantity | Holds::IntOrString => false,
        _ => match value {
            Value::Bool(flag) => !flag,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            _ => false,
        },
    }
}

/// One value; `None` where JSON would have `null`.
fn value(holds: Holds, wire: Wire<'_>, left: usize) -> Result<Option<Value>, MessageError> {
    Ok(Some(match holds {
        Holds::Text => wire.text()?.into(),
        Holds::Flag => (wire.number()? != 0).into(),
        Holds::Int32 => int32(wire)?.into(),
        Holds::Int64 => int64(wire)?.into(),
        Holds::Double => match wire {
            Wire::Fixed(bits) => double(f64::from_bits(bits))?,
            other => return Err(other.unfit()),
        },
        Holds::Bytes => BASE64_STANDARD.encode(wire.bytes()?).into(),
        Holds::Time => return point_in_time(wire.bytes()?, false),
        Holds::MicroTime => return point_in_time(wire.bytes()?, true),
        Holds::Quantity => quantity(wire.bytes()?)?,
        Holds::IntOrString => int_or_string(wire.bytes()?)?,
        Holds::Raw => return raw(wire.bytes()?, left),
        Holds::SchemaOrList | Holds::SchemaOrFlag | Holds::SchemaOrTexts => {
            alternative(holds, wire.bytes()?, left)?
        }
        Holds::Message(name) => {
            let mut fields = Map::new();
            merge(known(name)?, wire.bytes()?, left, &mut fields)?;
            fields.into()
        }
    }))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a negative number is written with 64 bits, of which the lower ones are it"
)]
fn int32(wire: Wire<'_>) -> Result<i32, MessageError> {
    wire.number().map(|number| number as i32)
}

fn int64(wire: Wire<'_>) -> Result<i64, MessageError> {
    wire.number().map(u64::cast_signed)
}

/// A whole number is written as one, as Go does.
fn double(number: f64) -> Result<Value, MessageError> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it has been checked to fit"
    )]
    if number.fract() == 0.0 && number.abs() < EXACT {
        return Ok((number as i64).into());
    }
    let number = Number::from_f64(number).ok_or(MessageError::NotFinite)?;
    Ok(Value::Number(number))
}

/// Nothing at all is Go's zero time, which is `null`.
fn point_in_time(bytes: &[u8], exact: bool) -> Result<Option<Value>, MessageError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    each(bytes, |number, wire| {
        match number {
            1 => seconds = int64(wire)?,
            2 => nanos = int32(wire)?,
            _ => {}
        }
        Ok(())
    })?;
    let micros = u32::try_from(nanos / 1000).map_err(|_| MessageError::Time)?;
    if micros >= 1_000_000 {
        return Err(MessageError::Time);
    }
    let text = time::rfc3339(seconds, exact.then_some(micros));
    Ok(Some(text.ok_or(MessageError::Time)?.into()))
}

fn quantity(bytes: &[u8]) -> Result<Value, MessageError> {
    let mut text = String::new();
    each(bytes, |number, wire| {
        if number == 1 {
            text = wire.text()?;
        }
        Ok(())
    })?;
    if text.is_empty() {
        text.push('0');
    }
    Ok(text.into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, MessageError> {
    let (mut is_text, mut number_held, mut text) = (false, 0, String::new());
    each(bytes, |number, wire| {
        match number {
            1 => is_text = wire.number()? == 1,
            2 => number_held = int32(wire)?,
            3 => text = wire.text()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(match is_text {
        true => text.into(),
        false => number_held.into(),
    })
}

/// JSON in a message.
fn raw(bytes: &[u8], left: usize) -> Result<Option<Value>, MessageError> {
    let mut json: &[u8] = b"";
    each(bytes, |number, wire| {
        if number == 1 {
            json = wire.bytes()?;
        }
        Ok(())
    })?;
    if json.is_empty() {
        return Ok(None);
    }
    let value = serde_json::from_slice(json);
    let value = value.map_err(|error| MessageError::NotJson(error.to_string()))?;
    match is_deeper(&value, left) {
        true => Err(MessageError::TooDeep),
        false => Ok(Some(value)),
    }
}

fn is_deeper(value: &Value, left: usize) -> bool {
    let inner = |value: &Value| left == 0 || is_deeper(value, left - 1);
    match value {
        Value::Array(items) => left == 0 || items.iter().any(inner),
        Value::Object(fields) => left == 0 || fields.values().any(inner),
        _ => false,
    }
}

/// A schema, or what may be there in its place.
fn alternative(holds: Holds, bytes: &[u8], left: usize) -> Result<Value, MessageError> {
    let schema_of = |wire: Wire<'_>, left| {
        let schema = value(Holds::Message(JSON_SCHEMA), wire, left)?;
        Ok::<_, MessageError>(schema.unwrap_or_default())
    };
    let (mut schema, mut flag, mut list) = (None, false, Vec::new());
    each(bytes, |number, wire| {
        match (holds, number) {
            (Holds::SchemaOrFlag, 1) => flag = wire.number()? != 0,
            (Holds::SchemaOrFlag, 2) | (_, 1) => schema = Some(schema_of(wire, left)?),
            (Holds::SchemaOrList, 2) => list.push(schema_of(wire, deeper(left)?)?),
            (Holds::SchemaOrTexts, 2) => list.push(wire.text()?.into()),
            _ => {}
        }
        Ok(())
    })?;
    Ok(match (holds, schema) {
        (Holds::SchemaOrFlag, None) => flag.into(),
        (Holds::SchemaOrFlag, Some(schema)) => schema,
        (_, Some(schema)) if list.is_empty() => schema,
        (_, None) if list.is_empty() => Value::Null,
        _ => list.into(),
    })
}

#[cfg(test)]
mod tests;
