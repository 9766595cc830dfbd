//! `listwatchd`: reads flags and starts the library.

fn main() {}
