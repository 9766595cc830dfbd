//! From the text of a document to JSON, keeping to YAML 1.2.
//!
//! A key that stands twice in a mapping is against YAML's rules, yet manifests have it and
//! Kubernetes takes them: the last one counts, with a warning.

use std::{cell::RefCell, fmt};

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess as _,
    Visitor,
};
use serde_json::{Map, Value};

/// What merges another mapping into the one that it stands in.
const MERGE_KEY: &str = "<<";

/// What a text holds, or why it cannot be read, and the warnings about it. Reasons count
/// lines from the start of the text.
pub(super) type Parsed = (Result<Value, String>, Vec<String>);

/// One YAML document.
pub(super) fn yaml(text: &str) -> Parsed {
    let tree = Tree::new(true);
    let parsed = tree.deserialize(serde_yaml_ng::Deserializer::from_str(text));
    (
        parsed.map_err(|error| one_line(&error)),
        tree.warnings.into_inner(),
    )
}

/// JSON documents behind each other, up to the first that cannot be read.
pub(super) fn json(text: &str) -> Vec<Parsed> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let mut documents = Vec::new();
    while parser.end().is_err() {
        let tree = Tree::new(false);
        let parsed = tree
            .deserialize(&mut parser)
            .map_err(|error| one_line(&error));
        let is_broken = parsed.is_err();
        documents.push((parsed, tree.warnings.into_inner()));
        if is_broken {
            break;
        }
    }
    documents
}

fn one_line(error: &dyn fmt::Display) -> String {
    error.to_string().replace('\n', " ")
}

/// Builds a JSON value from what either parser sees.
struct Tree {
    merges: bool,
    warnings: RefCell<Vec<String>>,
}

impl Tree {
    fn new(merges: bool) -> Self {
        Self {
            merges,
            warnings: RefCell::default(),
        }
    }

    fn merge<E: Error>(&self, object: &mut Map<String, Value>, merged: Value) -> Result<(), E> {
        match merged {
            Value::Object(merged) => {
                for (key, value) in merged {
                    object.entry(key).or_insert(value);
                }
                Ok(())
            }
            // Earlier ones win, as the merge key's definition has it.
            Value::Array(several) => several.into_iter().try_for_each(|one| match one {
                Value::Object(_) => self.merge(object, one),
                _ => Err(E::custom("<< merges something that is no mapping")),
            }),
            _ => Err(E::custom("<< merges something that is no mapping")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for &Tree {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &Tree {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what JSON can hold")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_f64<E: Error>(self, it: f64) -> Result<Value, E> {
        match serde_json::Number::from_f64(it) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(E::custom(format!("{it} is a number that JSON cannot hold"))),
        }
    }

    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_string<E>(self, it: String) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        let mut merges = Vec::new();
        while let Some(key) = entries.next_key_seed(MapKey)? {
            let value = entries.next_value_seed(self)?;
            if self.merges && key == MERGE_KEY {
                merges.push(value);
            } else if object.insert(key.clone(), value).is_some() {
                let warning = format!("the key {key:?} stands twice: the last one counts");
                self.warnings.borrow_mut().push(warning);
            }
        }
        for merged in merges {
            self.merge(&mut object, merged)?;
        }
        Ok(Value::Object(object))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Value, A::Error> {
        let (tag, content) = tagged.variant::<String>()?;
        // The parser wants the content taken before it hears of an error.
        content.newtype_variant_seed(self)?;
        Err(A::Error::custom(format!(
            "has the tag !{tag}, which JSON cannot hold"
        )))
    }
}

/// As Kubernetes does it: keys that are numbers or booleans become text.
struct MapKey;

impl<'de> DeserializeSeed<'de> for MapKey {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for MapKey {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that is text or a number")
    }

    fn visit_bool<E>(self, it: bool) -> Result<String, E> {
        Ok(it.to_string())
    }

    fn visit_i64<E>(self, it: i64) -> Result<String, E> {
        Ok(it.to_string())
    }

    fn visit_u64<E>(self, it: u64) -> Result<String, E> {
        Ok(it.to_string())
    }

    fn visit_f64<E>(self, it: f64) -> Result<String, E> {
        Ok(it.to_string())
    }

    fn visit_str<E>(self, it: &str) -> Result<String, E> {
        Ok(it.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn value(text: &str) -> Value {
        yaml(text).0.unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    #[test]
    fn yaml_is_read_as_yaml_has_it() {
        assert_eq!(
            value("base: &b {x: 1, y: 2}\nuse:\n  <<: *b\n  y: 3\nsame: *b\n"),
            json!({"base": {"x": 1, "y": 2}, "use": {"x": 1, "y": 3}, "same": {"x": 1, "y": 2}})
        );
        assert_eq!(
            value("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b], z: 3}\n")["c"],
            json!({"x": 1, "y": 2, "z": 3})
        );
        assert_eq!(
            value("1: a\ntrue: b\nbig: 18446744073709551615\nf: 1.5\nn: ~\noct: 0o644\n"),
            json!({"1": "a", "true": "b", "big": 18446744073709551615u64, "f": 1.5, "n": null,
                   "oct": 420})
        );
        assert_eq!(
            value("a: !!str 5\nb: \"5\"\nc: '<<'\nd: no\ne: >\n  x\n  y\nf: 2024-01-01\n"),
            json!({"a": "5", "b": "5", "c": "<<", "d": "no", "e": "x y\n", "f": "2024-01-01"})
        );
        assert_eq!(value("- {}\n- []\n- -1\n"), json!([{}, [], -1]));
    }

    #[test]
    fn what_json_cannot_hold_is_refused_with_the_reason() {
        for (text, reason) in [
            ("a: .inf\n", "cannot hold"),
            ("a: !secret x\n", "tag !secret"),
            ("a: !secret {b: 1}\n", "tag !secret"),
            ("? [a]\n: b\n", "text or a number"),
            ("? ~\n: b\n", "text or a number"),
            ("a: *nowhere\n", "unknown anchor"),
            ("a:\n\t- b\n", "cannot start any token"),
            ("a: {<<: 5}\n", "no mapping"),
            ("a: 123456789012345678901234567890123\n", ""),
        ] {
            match yaml(text).0 {
                Err(why) => assert!(why.contains(reason) && !why.contains('\n'), "{text}: {why}"),
                // A number of that size becomes a float, as in JSON parsers.
                Ok(value) => assert!(reason.is_empty() && value["a"].is_f64(), "{text}: {value}"),
            }
        }
    }

    #[test]
    fn a_key_that_stands_twice_is_warned_of_and_the_last_one_counts() {
        let (parsed, warnings) = yaml("spec:\n  a: {x: 1}\n  b: 2\n  a: {x: 3}\n");
        assert_eq!(parsed, Ok(json!({"spec": {"a": {"x": 3}, "b": 2}})));
        assert_eq!(
            warnings,
            ["the key \"a\" stands twice: the last one counts"]
        );
        let (parsed, warnings) = json("{\"a\": 1, \"a\": 2}").remove(0);
        assert_eq!((parsed, warnings.len()), (Ok(json!({"a": 2})), 1));
        assert_eq!(yaml("1: a\n\"1\": b\n").1.len(), 1);
    }

    #[test]
    fn a_bomb_of_aliases_is_refused_before_it_goes_off() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let aliases = vec![format!("*a{}", level - 1); 9].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(yaml(&text).0.is_err());
    }

    #[test]
    fn nesting_without_end_is_an_error_and_no_crash() {
        assert!(yaml(&"[".repeat(100_000)).0.is_err());
        assert!(json(&"[".repeat(100_000))[0].0.is_err());
        assert!(yaml(&"- ".repeat(10_000)).0.is_err());
    }
}
