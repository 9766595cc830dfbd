//! Names that stand twice in one object of a body. As for Kubernetes, the last one counts,
//! and the client is told of it, or refused where it asked for `fieldValidation=Strict`.

use std::{collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{
    field_path::{item, join},
    kinds::Kind,
    query::Unknown,
    status::{Failed, Failure},
    strict,
};

/// Paths that are told: a message is for people.
const MAX_TOLD: usize = 100;

/// What a client is told of a body that has been read, or why it is refused.
pub(crate) fn check(
    kind: &Kind,
    media_type: &str,
    body: &[u8],
    unknown: Unknown,
) -> Result<Vec<String>, Failed> {
    if unknown == Unknown::Drop {
        return Ok(Vec::new());
    }
    let told = doubled(media_type, body);
    let told = told.iter().map(|path| format!("duplicate field {path:?}"));
    let told: Vec<_> = told.collect();
    match unknown {
        Unknown::Refuse if !told.is_empty() => {
            Err(Failure::bad_request(strict::refused(kind, &told)))
        }
        _ => Ok(told),
    }
}

/// The paths of the names that stand twice. What cannot be read tells of none: it is refused
/// elsewhere.
fn doubled(media_type: &str, body: &[u8]) -> Vec<String> {
    let mut told = Vec::new();
    let walk = Walk {
        at: &At::Whole,
        told: &mut told,
    };
    let is_yaml = media_type.ends_with("yaml");
    let read = match is_yaml {
        true => walk
            .deserialize(serde_yaml_ng::Deserializer::from_slice(body))
            .is_ok(),
        false if media_type.is_empty() || media_type.ends_with("json") => walk
            .deserialize(&mut serde_json::Deserializer::from_slice(body))
            .is_ok(),
        false => false,
    };
    match read {
        true => told,
        false => Vec::new(),
    }
}

/// Where a value is. Its path is written only if it is told, which is rare: every body that is
/// written passes here.
enum At<'a> {
    Whole,
    Field(&'a At<'a>, &'a str),
    Item(&'a At<'a>, usize),
}

impl At<'_> {
    fn path(&self) -> String {
        match self {
            Self::Whole => String::new(),
            Self::Field(above, name) => join(&above.path(), name),
            Self::Item(above, place) => item(&above.path(), *place),
        }
    }
}

struct Walk<'a> {
    at: &'a At<'a>,
    told: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for place in 0.. {
            let at = At::Item(self.at, place);
            let told = &mut *self.told;
            if items.next_element_seed(Walk { at: &at, told })?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut known = HashSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            let at = At::Field(self.at, &name);
            if known.contains(&name) && self.told.len() < MAX_TOLD {
                self.told.push(at.path());
            }
            let told = &mut *self.told;
            fields.next_value_seed(Walk { at: &at, told })?;
            known.insert(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_stand_twice_are_found() {
        let json = br#"{"a": 1, "b": [{"c": null, "d": "x", "c": true}], "a": {"a": -1.5}}"#;
        assert_eq!(doubled("application/json", json), ["b[0].c", "a"]);
        assert_eq!(doubled("", br#"{"a": {"b": 1}, "b": {"b": 2}}"#), [""; 0]);
        assert_eq!(doubled("application/json", br#"{"a": 1, "a": 2"#), [""; 0]);
        assert_eq!(
            doubled("application/yaml", b"a:\n  b: 1\n  b: x\n"),
            ["a.b"]
        );
        assert_eq!(doubled("text/plain", br#"{"a": 1, "a": 2}"#), [""; 0]);
        let many = format!("{{{}\"a\": 1}}", "\"a\": 1,".repeat(1000));
        assert_eq!(doubled("application/json", many.as_bytes()).len(), MAX_TOLD);
    }
}
