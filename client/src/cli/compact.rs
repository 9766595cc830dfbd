//! `listwatch compact`: drops history.

use std::io::Write;

use clap::Args;
use listwatch::v1::CompactRequest;

use super::{exit::CommandError, session::Server};

/// Flags of `compact`.
#[derive(Args, Debug)]
pub(super) struct CompactArgs {
    /// History before this revision is dropped; the state at it stays readable
    revision: i64,
    /// Return only when the space has been given back
    #[arg(long)]
    wait: bool,
}

/// Compacts and says up to where.
pub(super) async fn run(
    args: CompactArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let session = &server.connect().await?;
    let request = CompactRequest {
        revision: args.revision,
        wait: args.wait,
    };
    let done = session
        .compact(request)
        .await
        .map_err(|error| CommandError::call(&error))?;
    writeln!(out, "compacted up to revision {}", done.compact_revision)
        .map_err(CommandError::output)
}
