//! JSON that survives being printed: read as structured data only if nothing of it is
//! lost on the way there and back.

use serde_json::Value;

/// Digits of a decimal number that a 64-bit float holds for sure.
const FLOAT_DIGITS: usize = 15;

/// Leaves room below the nesting that the JSON and YAML readers allow (128).
const MAX_DEPTH: usize = 100;

/// Nothing if the bytes are no JSON, or such as cannot be held exactly: numbers with more
/// digits than fit, the same key twice, or a nesting that could not be read back.
pub(super) fn parse(bytes: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let keys = exact_keys(bytes)?;
    (keys == count_keys(&value)).then_some(value)
}

/// Whether two values are the same JSON: spaces and the order of keys aside.
pub(super) fn is_same(a: &[u8], b: &[u8]) -> bool {
    a == b || matches!((parse(a), parse(b)), (Some(a), Some(b)) if a == b)
}

fn count_keys(value: &Value) -> usize {
    match value {
        Value::Object(entries) => entries.len() + entries.values().map(count_keys).sum::<usize>(),
        Value::Array(items) => items.iter().map(count_keys).sum(),
        _ => 0,
    }
}

/// The number of keys in valid JSON, or nothing if a number or the nesting is too much.
fn exact_keys(json: &[u8]) -> Option<usize> {
    let (mut keys, mut depth, mut at) = (0, 0, 0);
    while let Some(&byte) = json.get(at) {
        at += 1;
        match byte {
            b'"' => {
                while json.get(at).is_some_and(|byte| *byte != b'"') {
                    at += if json[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b':' => keys += 1,
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return None;
                }
            }
            b'}' | b']' => depth -= 1,
            b'-' | b'0'..=b'9' => {
                let length = json[at..]
                    .iter()
                    .take_while(|byte| {
                        matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')
                    })
                    .count();
                let number = std::str::from_utf8(&json[at - 1..at + length]).ok()?;
                if !is_exact(number) {
                    return None;
                }
                at += length;
            }
            _ => {}
        }
    }
    Some(keys)
}

fn is_exact(number: &str) -> bool {
    if !number.contains(['.', 'e', 'E']) {
        return number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    }
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    digits.trim_start_matches('0').len() <= FLOAT_DIGITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_that_can_be_held_exactly_is_structured() {
        for exact in [
            r#"{"a": [1, -2, 0.5, 1e3, 18446744073709551615], "b:": "1234567890123456789012"}"#,
            r#"{"a\"": {":": "}"}}"#,
            "null",
            " 0 ",
        ] {
            assert!(parse(exact.as_bytes()).is_some(), "{exact}");
        }
        let deep = "[".repeat(101) + &"]".repeat(101);
        for inexact in [
            "",
            "{",
            "1 2",
            "18446744073709551616",
            "0.12345678901234567890",
            r#"{"a": 1, "a": 1}"#,
            r#"[{"x": {"a": 1, "a": 2}}]"#,
            &deep,
        ] {
            assert!(parse(inexact.as_bytes()).is_none(), "{inexact}");
        }
    }

    #[test]
    fn spaces_and_order_make_no_difference_but_values_do() {
        assert!(is_same(br#"{"a":1,"b":2}"#, br#"{ "b": 2, "a": 1 }"#));
        assert!(is_same(b"\xff", b"\xff"));
        assert!(!is_same(br#"{"a":1}"#, br#"{"a":"1"}"#));
        assert!(!is_same(
            b"12345678901234567890123",
            b"12345678901234567890124"
        ));
    }
}
