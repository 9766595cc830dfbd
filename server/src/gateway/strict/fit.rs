//! Whether a value fits its field, and what Go's decoder says of one that does not.

use base64::{DecodeError, Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::Place;
use crate::gateway::{
    messages::{Holds, Many},
    validation,
};

/// Checks a value that is not made of others.
pub(super) fn check(value: &Value, place: Place<'_>) -> Result<(), String> {
    let fits = match place.field.holds {
        Holds::Text => value.is_string(),
        Holds::Flag => value.is_boolean(),
        Holds::Int32 => is_int32(value),
        Holds::Int64 => value.is_i64(),
        Holds::Double => value.is_number(),
        Holds::Bytes => return bytes(value, place),
        Holds::Time | Holds::MicroTime => return time(value, place),
        Holds::Quantity => return quantity(value),
        Holds::IntOrString => value.is_string() || is_int32(value),
        Holds::Raw => true,
        Holds::SchemaOrFlag => value.is_boolean(),
        // Objects and lists of schemas have been looked into.
        Holds::Message(_) | Holds::SchemaOrList => false,
        Holds::SchemaOrTexts => value.is_array(),
    };
    match fits {
        true => Ok(()),
        false => Err(unfit(value, place)),
    }
}

fn is_int32(value: &Value) -> bool {
    value.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
}

/// A value of another type than the list or the map that the field is.
pub(super) fn unfit_whole(value: &Value, place: Place<'_>) -> String {
    let one = go_type(place.field.holds);
    let wanted = match place.field.many {
        Many::One => one,
        Many::List => format!("[]{one}"),
        Many::Map => format!("map[string]{one}"),
    };
    unmarshal(value, place, &wanted)
}

/// A value of another type than the field's, or than those in it.
fn unfit(value: &Value, place: Place<'_>) -> String {
    unmarshal(value, place, &go_type(place.field.holds))
}

fn unmarshal(value: &Value, place: Place<'_>, wanted: &str) -> String {
    let is = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "bool".to_owned(),
        Value::Number(number) if is_number(place.field.holds) => format!("number {number}"),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    let Place { of, path, .. } = place;
    format!("json: cannot unmarshal {is} into Go struct field {of}.{path} of type {wanted}")
}

fn is_number(holds: Holds) -> bool {
    matches!(holds, Holds::Int32 | Holds::Int64 | Holds::Double)
}

fn go_type(holds: Holds) -> String {
    match holds {
        Holds::Text => "string",
        Holds::Flag => "bool",
        Holds::Int32 => "int32",
        Holds::Int64 => "int64",
        Holds::Double => "float64",
        Holds::Bytes => "[]uint8",
        Holds::Time => "v1.Time",
        Holds::MicroTime => "v1.MicroTime",
        Holds::Quantity => "resource.Quantity",
        Holds::IntOrString => "intstr.IntOrString",
        Holds::Raw => "runtime.RawExtension",
        Holds::SchemaOrList => "v1.JSONSchemaPropsOrArray",
        Holds::SchemaOrFlag => "v1.JSONSchemaPropsOrBool",
        Holds::SchemaOrTexts => "v1.JSONSchemaPropsOrStringArray",
        Holds::Message(name) => {
            let mut parts = name.rsplit('.');
            let (name, package) = (parts.next(), parts.next());
            return format!(
                "{}.{}",
                package.unwrap_or_default(),
                name.unwrap_or_default()
            );
        }
    }
    .to_owned()
}

fn bytes(value: &Value, place: Place<'_>) -> Result<(), String> {
    let text = value.as_str().ok_or_else(|| unfit(value, place))?;
    // Go reads over the ends of lines.
    let text: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    BASE64_STANDARD.decode(&text).map(drop).map_err(|error| {
        let at = match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => at,
            DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
        };
        format!("illegal base64 data at input byte {at}")
    })
}

fn time(value: &Value, place: Place<'_>) -> Result<(), String> {
    let text = value.as_str().ok_or_else(|| unfit(value, place))?;
    match validation::is_time(value) {
        true => Ok(()),
        false => Err(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse it"
        )),
    }
}

fn quantity(value: &Value) -> Result<(), String> {
    let is_one = match value {
        Value::Number(_) => true,
        Value::String(text) => is_quantity(text),
        _ => false,
    };
    match is_one {
        true => Ok(()),
        false => Err("quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            .to_owned()),
    }
}

/// By the expression that Kubernetes names.
fn is_quantity(text: &str) -> bool {
    let signed = |text: &'_ str| text.strip_prefix(['+', '-']).map_or(text.len(), str::len);
    let number = &text[text.len() - signed(text)..];
    let rest = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if rest.len() == number.len() {
        return false;
    }
    let rest = rest.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let exponent = &rest[rest.len() - signed(rest)..];
    exponent.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_told_from_other_texts() {
        for text in [
            "0", "1", "100m", "1.5Gi", "-2", "+3k", "1e3", "1E-3", ".5", "1e-",
        ] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", "-", "x", "1 Gi", "1Gx", "m", "100m5x", "ä"] {
            assert!(!is_quantity(text), "{text}");
        }
    }
}
