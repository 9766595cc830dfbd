//! `listwatch import`: the objects of an export, written to a running server.
//!
//! They are ordinary changes: each gets a new revision and watchers see it. The exact
//! state, with its revisions and uids, is what `listwatchd import` restores.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek as _, Write},
    path::PathBuf,
};

use clap::Args;
use listwatch::v1::{
    BatchOperation, BatchRequest, Resource, UpdateRequest, batch_operation, export_response::Kind,
};
use prost::Message as _;

use super::{
    archive::{Verifier, read_frame},
    exit::CommandError,
    output,
    progress::Progress,
    session::{Server, Session},
    tally::Tally,
};

/// Operations a batch, if the server does not say how many it takes.
const DEFAULT_BATCH: usize = 100;

/// Together below the 4 MiB that gRPC servers take by default.
const MAX_BATCH_BYTES: usize = 3 << 20;

/// Flags of `import`.
#[derive(Args, Debug)]
pub(super) struct ImportArgs {
    /// What `listwatch export` wrote; - for standard input
    file: PathBuf,
}

/// Reads the file twice: nothing is written before all of it has proved whole.
pub(super) async fn run(
    args: ImportArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let (name, mut file) = open(&args.file)?;
    let bad = |why: String| CommandError::document(&name, why);
    let mut progress = Progress::new("objects checked");
    let count = verify(&mut BufReader::new(&mut file), &mut progress).map_err(bad)?;
    drop(progress);
    file.rewind()
        .map_err(|error| CommandError::file(&name, error))?;

    let session = &server.connect().await?;
    let status = session
        .status()
        .await
        .map_err(|error| CommandError::call(&error))?;
    let limit = status
        .limits
        .map_or(0, |limits| limits.max_batch_operations);
    let limit = usize::try_from(limit)
        .ok()
        .filter(|limit| *limit > 0)
        .unwrap_or(DEFAULT_BATCH);

    let mut writer = Writer {
        session,
        limit,
        pending: Vec::new(),
        pending_bytes: 0,
        tally: Tally::default(),
        progress: Progress::new("objects imported"),
        written: 0,
        expired: 0,
    };
    writer.progress.total(count);
    let result = writer.write_all(&mut BufReader::new(&mut file), &bad).await;
    writer.progress.clear();
    let Writer {
        tally,
        written,
        expired,
        ..
    } = writer;
    let mut summary = format!("imported {written} of {count} objects");
    if expired > 0 {
        summary.push_str(&format!(", {expired} had expired"));
    }
    if tally.failures() > 0 {
        summary.push_str(&format!(", {} failed", tally.failures()));
    }
    writeln!(out, "{summary}").map_err(CommandError::output)?;
    result.and_then(|()| tally.finish())
}

/// Standard input is kept in a file without a name, since it can be read only once.
fn open(path: &PathBuf) -> Result<(String, File), CommandError> {
    let name = path.display().to_string();
    if name != "-" {
        let file = File::open(path).map_err(|error| CommandError::file(&name, error))?;
        if !file.metadata().is_ok_and(|about| about.is_dir()) {
            return Ok((name, file));
        }
        return Err(CommandError::usage(format!(
            "{name} is a folder, not an export"
        )));
    }
    let name = "standard input".to_owned();
    let copied = tempfile::tempfile().and_then(|mut file| {
        io::copy(&mut io::stdin().lock(), &mut file)?;
        file.rewind()?;
        Ok(file)
    });
    copied
        .map_err(|error| CommandError::file("keeping standard input in a temporary file", error))
        .map(|file| (name, file))
}

fn verify(input: &mut dyn Read, progress: &mut Progress) -> Result<u64, String> {
    let mut verifier = Verifier::new();
    while let Some(frame) = read_frame(input)? {
        verifier.frame(&frame)?;
        if let Some(Kind::Objects(objects)) = &frame.kind {
            progress.add(objects.resources.len() as u64);
        }
    }
    verifier.finish()
}

struct Writer<'a> {
    session: &'a Session,
    limit: usize,
    pending: Vec<BatchOperation>,
    pending_bytes: usize,
    tally: Tally,
    progress: Progress,
    written: u64,
    expired: u64,
}

impl Writer<'_> {
    async fn write_all(
        &mut self,
        input: &mut dyn Read,
        bad: &impl Fn(String) -> CommandError,
    ) -> Result<(), CommandError> {
        while let Some(frame) = read_frame(input).map_err(bad)? {
            let Some(Kind::Objects(objects)) = frame.kind else {
                continue;
            };
            for resource in objects.resources {
                self.push(resource).await?;
            }
        }
        self.flush().await
    }

    async fn push(&mut self, resource: Resource) -> Result<(), CommandError> {
        // The server would refuse it, and with it the batch.
        let now = output::now();
        if resource
            .expire_time
            .as_ref()
            .is_some_and(|time| time.seconds <= now)
        {
            self.expired += 1;
            self.progress.add(1);
            return Ok(());
        }
        let operation = operation(resource);
        let bytes = operation.encoded_len();
        if self.pending.len() >= self.limit || self.pending_bytes + bytes > MAX_BATCH_BYTES {
            self.flush().await?;
        }
        self.pending_bytes += bytes;
        self.pending.push(operation);
        Ok(())
    }

    /// Writes what is pending. If the server refuses the batch, its objects are tried one
    /// by one, so that the bad one is named and the others are written.
    async fn flush(&mut self) -> Result<(), CommandError> {
        let operations = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        if operations.is_empty() {
            return Ok(());
        }
        let count = operations.len() as u64;
        let request = BatchRequest {
            operations: operations.clone(),
            ..BatchRequest::default()
        };
        match self.session.batch(request).await {
            Ok(_) => {
                self.written += count;
                self.tally.done();
                self.progress.add(count);
                return Ok(());
            }
            Err(error) if error.is_retryable() => return Err(CommandError::call(&error)),
            Err(_) => {}
        }
        for operation in operations {
            let Some(batch_operation::Kind::Update(request)) = operation.kind else {
                continue;
            };
            let key = request
                .resource
                .as_ref()
                .and_then(|resource| resource.key.clone());
            match self.session.update(request).await {
                Ok(_) => {
                    self.written += 1;
                    self.tally.done();
                }
                Err(error) => {
                    self.progress.clear();
                    let error = CommandError::call_about(&error, key.as_ref());
                    self.tally.failed(error.partly())?;
                }
            }
            self.progress.add(1);
        }
        Ok(())
    }
}

fn operation(resource: Resource) -> BatchOperation {
    // What the server sets is left out: here it belongs to another history.
    let resource = Resource {
        uid: String::new(),
        revision: 0,
        create_revision: 0,
        update_time: None,
        ..resource
    };
    let update = UpdateRequest {
        resource: Some(resource),
        allow_missing: true,
        ..UpdateRequest::default()
    };
    BatchOperation {
        kind: Some(batch_operation::Kind::Update(update)),
    }
}
