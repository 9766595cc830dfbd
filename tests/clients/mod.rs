//! The clients, whatever their language, do what `client/conformance/README.md` lists.

pub mod conformance;
