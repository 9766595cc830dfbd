//! `listwatch completions`: what makes the shell complete commands and flags.

use std::io::Write;

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use super::exit::CommandError;

/// Flags of `completions`.
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// Which shell's language
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the script.
pub(super) fn run(
    args: &CompletionsArgs,
    mut command: Command,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let name = command.get_name().to_owned();
    // Into memory first: the generator panics when its output is a closed pipe.
    let mut script = Vec::new();
    generate(args.shell, &mut command, name, &mut script);
    out.write_all(&script).map_err(CommandError::output)
}
