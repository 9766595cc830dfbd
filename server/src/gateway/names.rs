//! What Kubernetes lets names, keys and values be. Each check gives the rule that was broken.

use crate::limits::{MAX_LABEL_NAME_BYTES, MAX_LABEL_PREFIX_BYTES, MAX_NAME_BYTES};

/// A DNS label, and a label's value in Kubernetes.
const MAX_SHORT_BYTES: usize = 63;

fn alphanumeric_ends(text: &str) -> bool {
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    ends(text.bytes().next()) && ends(text.bytes().next_back())
}

/// The key of a label or annotation, or a finalizer: `name` or `prefix/name`.
pub(crate) fn qualified(text: &str) -> Result<(), &'static str> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if name.len() > MAX_LABEL_NAME_BYTES || !alphanumeric_ends(name) || !name.bytes().all(inner) {
        return Err(
            "the name part must be 1 to 63 of A-Z, a-z, 0-9, '-', '_' and '.', with alphanumeric ends",
        );
    }
    match prefix {
        Some(prefix) if prefix.len() > MAX_LABEL_PREFIX_BYTES || subdomain(prefix).is_err() => {
            Err("the prefix part must be a DNS name of a-z, 0-9, '-' and '.'")
        }
        _ => Ok(()),
    }
}

/// The value of a label; may be empty.
pub(crate) fn label_value(text: &str) -> Result<(), &'static str> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let fits = text.len() <= MAX_SHORT_BYTES && alphanumeric_ends(text) && text.bytes().all(inner);
    if text.is_empty() || fits {
        Ok(())
    } else {
        Err("must be empty or up to 63 of A-Z, a-z, 0-9, '-', '_' and '.', with alphanumeric ends")
    }
}

/// An RFC 1123 label.
pub(crate) fn label(text: &str) -> Result<(), &'static str> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if text.len() <= MAX_SHORT_BYTES && alphanumeric_ends(text) && text.bytes().all(inner) {
        Ok(())
    } else {
        Err("must be an RFC 1123 label: up to 63 of a-z, 0-9 and '-', with alphanumeric ends")
    }
}

/// An RFC 1035 label: begins with a letter.
pub(crate) fn label_1035(text: &str) -> Result<(), &'static str> {
    if label(text).is_ok() && text.starts_with(|c: char| c.is_ascii_lowercase()) {
        Ok(())
    } else {
        Err(
            "must be an RFC 1035 label: up to 63 of a-z, 0-9 and '-', beginning with a letter and \
             ending with a letter or digit",
        )
    }
}

/// An RFC 1123 subdomain.
pub(crate) fn subdomain(text: &str) -> Result<(), &'static str> {
    let part = |part: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        alphanumeric_ends(part) && part.bytes().all(inner)
    };
    if text.len() <= MAX_NAME_BYTES && text.split('.').all(part) {
        Ok(())
    } else {
        Err(
            "must be a lowercase RFC 1123 subdomain: up to 253 of a-z, 0-9, '-' and '.', each part \
             with alphanumeric ends",
        )
    }
}

/// What can be a segment of a path: RBAC's names.
pub(crate) fn path_segment(text: &str) -> Result<(), &'static str> {
    if matches!(text, "." | "..") || text.contains(['/', '%']) {
        Err("must be neither '.' nor '..', and have no '/' and no '%'")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_takes_what_kubernetes_takes() {
        type Rule = fn(&str) -> Result<(), &'static str>;
        let cases: [(Rule, &[&str], &[&str]); 6] = [
            (
                qualified,
                &[
                    "a",
                    "A_b.c-d",
                    "example.com/a",
                    "kubernetes.io/Metadata.Name",
                ],
                &["", "-a", "a-", "/a", "a/", "a/b/c", "E.com/a", "a b"],
            ),
            (
                label_value,
                &["", "a", "A_b.c-9"],
                &["-a", "a.", "a b", "é"],
            ),
            (label, &["a", "0a", "a-b"], &["", "A", "a.b", "-a", "a-"]),
            (label_1035, &["a", "a-0"], &["0a", "", "a-"]),
            (
                subdomain,
                &["a", "a.b", "0.1-a"],
                &["", "a..b", ".a", "a-.b", "A"],
            ),
            (
                path_segment,
                &["a", "system:node", "A b"],
                &[".", "..", "a/b", "a%b"],
            ),
        ];
        for (rule, good, bad) in cases {
            for text in good {
                assert_eq!(rule(text), Ok(()), "{text:?}");
            }
            for text in bad {
                assert!(rule(text).is_err(), "{text:?}");
            }
        }
        assert!(qualified(&"a".repeat(64)).is_err());
        assert!(label(&"a".repeat(64)).is_err());
        assert!(subdomain(&"a".repeat(254)).is_err());
    }
}
