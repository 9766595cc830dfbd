//! `listwatch`: the command line.

fn main() {}
