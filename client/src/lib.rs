//! The Listwatch client.

pub mod cli;
