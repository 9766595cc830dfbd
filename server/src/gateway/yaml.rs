//! YAML, in which a few bytes can name a value that stands there once, again and again.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// What aliases may add to what a text says by itself.
const MAX_ADDED: usize = 1024 * 1024;
/// Above this the scanner's time, which grows with the square of the depth, is felt: 100,000
/// take it 20 seconds. What can be read at all is not deeper than 128.
const MAX_OPEN: usize = 5_000;
/// A character of an escape is up to three bytes long.
const ESCAPED: usize = 2;

/// The value that a text says.
pub(crate) fn read(text: &[u8]) -> Result<Value, serde_yaml_ng::Error> {
    if depth(text) > MAX_OPEN {
        return Err(Error::custom("exceeded max depth"));
    }
    let mut left = text.len().saturating_mul(ESCAPED).saturating_add(MAX_ADDED);
    Weigh(&mut left).deserialize(serde_yaml_ng::Deserializer::from_slice(text))?;
    serde_yaml_ng::from_slice(text)
}

/// The most brackets that are open at once, those in texts too.
fn depth(text: &[u8]) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in text {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Takes what a value needs from what is left, without making the value.
struct Weigh<'a>(&'a mut usize);

impl Weigh<'_> {
    fn take<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        // Every value has at least one byte in a text without aliases.
        match self.0.checked_sub(bytes.max(1)) {
            Some(left) => {
                *self.0 = left;
                Ok(())
            }
            None => Err(E::custom("document contains excessive aliasing")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Weigh<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Weigh<'_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value")
    }

    fn visit_bool<E: Error>(mut self, _: bool) -> Result<(), E> {
        self.take(1)
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<(), E> {
        self.take(1)
    }

    fn visit_u64<E: Error>(mut self, _: u64) -> Result<(), E> {
        self.take(1)
    }

    fn visit_f64<E: Error>(mut self, _: f64) -> Result<(), E> {
        self.take(1)
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.take(1)
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.take(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        self.take(1)?;
        while items.next_element_seed(Weigh(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        self.take(1)?;
        while fields.next_key_seed(Weigh(&mut *self.0))?.is_some() {
            fields.next_value_seed(Weigh(&mut *self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn very_deep_texts_are_not_even_scanned() {
        let began = std::time::Instant::now();
        assert!(read("[".repeat(1_000_000).as_bytes()).is_err());
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
        let text = format!("a: |\n  {}\n", "[".repeat(MAX_OPEN));
        assert!(read(text.as_bytes()).is_ok());
    }

    #[test]
    fn aliases_are_followed_as_long_as_they_add_little() {
        let text = "a: &a {b: [1, -1, 1.5, true, null, \"\\P\"]}\nc: *a\n";
        let value = json!({"b": [1, -1, 1.5, true, null, "\u{2029}"]});
        assert_eq!(
            read(text.as_bytes()).unwrap(),
            json!({"a": value, "c": value})
        );
        let long = format!(
            "a: &a {}\nb: [{}]\n",
            "x".repeat(20_000),
            "*a,".repeat(5000)
        );
        let wide = format!(
            "a: &a [{}]\nb: [{}]\n",
            "1,".repeat(5000),
            "*a,".repeat(5000)
        );
        for text in [long, wide] {
            let refused = read(text.as_bytes()).unwrap_err().to_string();
            assert!(refused.contains("excessive aliasing"), "{refused}");
        }
    }
}
