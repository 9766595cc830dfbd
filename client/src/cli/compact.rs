//! `listwatch compact`: drops history.

use std::io::Write;

use clap::Args;
use listwatch::v1::CompactRequest;

use super::{exit::Failure, session::Session};

/// Flags of `compact`.
#[derive(Args, Debug)]
pub struct CompactArgs {
    /// History before this revision is dropped; the state at it stays readable
    revision: i64,
    /// Return only when the space has been given back
    #[arg(long)]
    wait: bool,
}

/// Compacts and says up to where.
pub async fn run(args: CompactArgs, session: &Session, out: &mut dyn Write) -> Result<(), Failure> {
    let request = CompactRequest { revision: args.revision, wait: args.wait };
    let done = session.compact(request).await.map_err(|status| Failure::call(&status))?;
    writeln!(out, "compacted up to revision {}", done.compact_revision).map_err(Failure::output)
}
