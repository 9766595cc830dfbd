//! The `listwatch` command line.

pub mod documents;
pub mod exact_json;
pub mod exit;
pub mod form;
pub mod kinds;
pub mod manifest;
pub mod output;
pub mod progress;
pub mod selector;
pub mod span;
pub mod table;
