//! `listwatch export`: every object as of one revision, into a file.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{BufWriter, Write},
    path::PathBuf,
};

use clap::Args;
use listwatch::v1::export_response::Kind;
use tokio::time::{Instant, timeout_at};

use super::{
    archive::{Verifier, write_frame},
    exit::{CommandError, Exit},
    progress::Progress,
    session::{Server, Session},
    tally::complain,
};
use crate::reflector::persist::sync_folder;

/// Flags of `export`.
#[derive(Args, Debug)]
pub(super) struct ExportArgs {
    /// The file; - for standard output
    file: PathBuf,
}

/// Writes to a file beside the wanted one, which appears only when it is whole and on
/// disk.
pub(super) async fn run(
    args: ExportArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let session = &server.connect().await?;
    if args.file.as_os_str() == "-" {
        let count = export(session, out, CommandError::output).await?;
        out.flush().map_err(CommandError::output)?;
        complain(&format!("exported {count} objects"));
        return Ok(());
    }
    // A device would be replaced, not written.
    if fs::metadata(&args.file).is_ok_and(|there| !there.is_file()) {
        let why = "it is there and is no file: name another, or - for standard output";
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
        return Err(CommandError::file(args.file.display(), error));
    }
    let mut partial = OsString::from(&args.file);
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let failed = |error| CommandError::file(partial.display(), error);
    let mut file = BufWriter::new(File::create(&partial).map_err(failed)?);
    let exported = export(session, &mut file, failed).await;
    let finished = exported.and_then(|count| {
        file.flush().map_err(failed)?;
        file.get_ref().sync_all().map_err(failed)?;
        fs::rename(&partial, &args.file)
            .and_then(|()| sync_folder(&args.file))
            .map_err(|error| CommandError::file(args.file.display(), error))?;
        Ok(count)
    });
    match finished {
        Ok(count) => writeln!(out, "exported {count} objects to {}", args.file.display())
            .map_err(CommandError::output),
        Err(error) => {
            // The reason for being here is worth more than the reason for not tidying up.
            let _ = fs::remove_file(&partial);
            Err(error)
        }
    }
}

async fn export(
    session: &Session,
    out: &mut dyn Write,
    failed: impl Fn(std::io::Error) -> CommandError,
) -> Result<u64, CommandError> {
    let deadline = session.timeout().map(|timeout| Instant::now() + timeout);
    let mut progress = Progress::new("objects exported");
    let mut verifier = Verifier::new();
    let mut stream = session
        .export()
        .await
        .map_err(|error| CommandError::call(&error))?;
    loop {
        let next = match deadline {
            None => stream.message().await,
            Some(deadline) => timeout_at(deadline, stream.message()).await.map_err(|_| {
                CommandError::new(
                    Exit::Unavailable,
                    "the export is not complete (raise --timeout)",
                )
            })?,
        };
        let Some(frame) = next.map_err(|error| CommandError::call(&error))? else {
            break;
        };
        let broken = |why| CommandError::new(Exit::Failed, format!("the server's export {why}"));
        verifier.frame(&frame).map_err(broken)?;
        if let Some(Kind::Objects(objects)) = &frame.kind {
            progress.add(objects.resources.len() as u64);
        }
        write_frame(out, &frame).map_err(&failed)?;
    }
    verifier
        .finish()
        .map_err(|why| CommandError::new(Exit::Failed, format!("the server's export {why}")))
}
