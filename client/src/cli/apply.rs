//! `listwatch apply`: makes the stored objects what files say.

use std::io::Write;

use clap::Args;
use listwatch::v1::{CreateRequest, GetRequest, Resource, UpdateRequest, View};
use tonic::Code;

use super::{
    args::FileArgs,
    exact_json,
    exit::CommandError,
    form,
    manifest::Desired,
    output::Format,
    progress::Progress,
    session::{Server, Session},
    tally::Tally,
    write::print,
};
use crate::ClientError;

/// How often a write is tried again because someone else wrote at the same time.
const MAX_ATTEMPTS: usize = 10;

/// Flags of `apply`.
#[derive(Args, Debug)]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    files: FileArgs,
    /// The namespace of manifests that name none
    #[arg(short, long)]
    namespace: Option<String>,
    /// What to print of each object: its name and what happened, or what the server made
    /// of it (uid, revision)
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Applies every document in order. A bad one is named and the others are applied.
pub(super) async fn run(
    args: ApplyArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    if args.files.files.is_empty() {
        return Err(CommandError::usage(
            "name what to apply: -f FILE, -f FOLDER or -f -",
        ));
    }
    let session = &server.connect().await?;
    let mut tally = Tally::default();
    let mut progress = Progress::unless_output_is_seen("objects applied");
    for (origin, object) in args.files.objects(args.namespace.as_deref()) {
        let object = match object {
            Ok(object) => object,
            Err(why) => {
                progress.clear();
                tally.failed(CommandError::document(origin, why).partly())?;
                continue;
            }
        };
        match apply(session, &object).await {
            Ok((stored, outcome)) => {
                tally.done();
                progress.add(1);
                print(&stored, outcome, args.output, out).map_err(CommandError::output)?;
            }
            Err(error) => {
                progress.clear();
                let failure = CommandError::call_about(&error, object.resource.key.as_ref());
                tally.failed(failure.about(origin).partly())?;
            }
        }
    }
    tally.finish()
}

/// Stores the object unless it is stored so already. Never overwrites what another
/// writer put there between the read and the write.
async fn apply(
    session: &Session,
    object: &Desired,
) -> Result<(Resource, &'static str), ClientError> {
    let mut object = object.clone();
    let mut last = None;
    for _ in 0..MAX_ATTEMPTS {
        let stored = match object.is_generated {
            // A made-up name is a new object, always.
            true => None,
            false => find(session, &object.resource).await?,
        };
        let outcome = match stored {
            None => {
                let resource = Some(object.resource.clone());
                let request = CreateRequest {
                    resource,
                    ..CreateRequest::default()
                };
                session
                    .create(request)
                    .await
                    .map(|stored| (stored, "created"))
            }
            Some(stored) if is_same(&stored, &object.resource) => return Ok((stored, "unchanged")),
            Some(stored) => {
                let request = UpdateRequest {
                    resource: Some(object.resource.clone()),
                    if_revision: Some(stored.revision),
                    ..UpdateRequest::default()
                };
                session
                    .update(request)
                    .await
                    .map(|stored| (stored, "configured"))
            }
        };
        match outcome {
            Ok(done) => return Ok(done),
            Err(error)
                if matches!(
                    error.code(),
                    Code::AlreadyExists | Code::Aborted | Code::NotFound
                ) =>
            {
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
        if object.is_generated {
            object = object.renamed();
        }
    }
    Err(last.unwrap_or(ClientError::Protocol(
        "a write neither succeeded nor failed",
    )))
}

async fn find(session: &Session, wanted: &Resource) -> Result<Option<Resource>, ClientError> {
    let request = GetRequest {
        key: wanted.key.clone(),
        consistency: None,
        view: View::Full as i32,
    };
    match session.get(request).await {
        Ok(found) => Ok(found.resource),
        Err(error) if error.code() == Code::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_same(stored: &Resource, wanted: &Resource) -> bool {
    let same_value = match form::is_json(&wanted.content_type) {
        true => exact_json::is_same(&stored.value, &wanted.value),
        false => stored.value == wanted.value,
    };
    same_value
        && stored.labels == wanted.labels
        && stored.content_type == wanted.content_type
        && stored.expire_time == wanted.expire_time
}
