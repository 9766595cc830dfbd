//! What reads bytes from outside, one function each: `cargo fuzz` gives them what it can
//! think of (see `fuzz/`), and the tests below what it has found. No part of the API.
//!
//! They look inside the crate. What can be checked through the API is in `fuzz/src`.

use crate::{gateway, service, store};

/// Records of the log: [`store::fuzzing`].
pub fn record(data: &[u8]) {
    store::fuzzing::records(data);
}

/// The MANIFEST of a store.
pub fn manifest(data: &[u8]) {
    store::fuzzing::manifest(data);
}

/// Resume tokens and page tokens, which are also `continue` over HTTP.
pub fn token(data: &[u8]) {
    service::fuzzing::tokens(data);
}

/// Selectors as the API has them.
pub fn selector(data: &[u8]) {
    service::fuzzing::selectors(data);
}

/// Label selectors and field selectors as Kubernetes writes them.
pub fn selector_text(data: &[u8]) {
    gateway::fuzzing::selector_text(data);
}

/// Paths and queries of the gateway.
pub fn target(data: &[u8]) {
    gateway::fuzzing::target(data);
}

/// Bodies of the gateway: JSON, YAML, Kubernetes' Protobuf, patches.
pub fn body(data: &[u8]) {
    gateway::fuzzing::bodies(data);
}

#[cfg(test)]
#[path = "../../fuzz/src/replay.rs"]
mod kept;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::kept;

    macro_rules! replayed {
        ($($test:ident: $check:ident),* $(,)?) => {
            $(#[test]
            fn $test() {
                let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz");
                kept::replay(&fuzz, stringify!($check), super::$check);
            })*
        };
    }

    replayed! {
        records_of_any_bytes_are_read_as_written_or_refused: record,
        manifests_of_any_bytes_are_read_as_written_or_refused: manifest,
        tokens_of_any_bytes_are_read_as_made_or_refused: token,
        selectors_of_any_bytes_select_what_they_say_or_are_refused: selector,
        selector_texts_mean_the_same_when_written_again: selector_text,
        paths_and_queries_of_any_bytes_are_read_or_refused: target,
        bodies_of_any_bytes_are_read_or_refused: body,
    }
}
