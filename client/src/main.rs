//! `listwatch`: the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(listwatch_client::cli::main() as u8)
}
