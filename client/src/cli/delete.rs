//! `listwatch delete`: objects by name, or those that files describe.

use std::io::Write;

use clap::Args;
use listwatch::v1::{DeleteRequest, Key};
use tonic::Code;

use super::{
    args::FileArgs,
    exit::CommandError,
    get::not_found_hint,
    output::key_name,
    session::{Server, Session},
    tally::Tally,
    target,
};

/// Flags of `delete`.
#[derive(Args, Debug)]
pub(super) struct DeleteArgs {
    /// COLLECTION NAME…, where a name may be NAMESPACE/NAME; or keys as -o name prints
    /// them
    #[arg(
        value_name = "COLLECTION NAME",
        required_unless_present = "files",
        conflicts_with = "files"
    )]
    objects: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    /// The namespace of the names, and of manifests that name none
    #[arg(short, long)]
    namespace: Option<String>,
    /// Only if the object has this revision
    #[arg(long, value_name = "REVISION", conflicts_with = "files")]
    if_revision: Option<i64>,
    /// Only if the object has this uid
    #[arg(long, value_name = "UID", conflicts_with = "files")]
    if_uid: Option<String>,
    /// An object that is not there is no failure
    #[arg(long)]
    ignore_not_found: bool,
}

/// Deletes each and complains about each that could not be.
pub(super) async fn run(
    args: DeleteArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let namespace = args.namespace.as_deref();
    let mut tally = Tally::default();
    if args.files.files.is_empty() {
        let keys = target::keys(&args.objects, namespace)?;
        if keys.len() > 1 && (args.if_revision.is_some() || args.if_uid.is_some()) {
            return Err(CommandError::usage(
                "--if-revision and --if-uid go with one object",
            ));
        }
        let session = &server.connect().await?;
        for key in keys {
            delete(&args, key, session, &mut tally, out).await?;
        }
        return tally.finish();
    }
    let session = &server.connect().await?;
    for (origin, object) in args.files.objects(namespace) {
        match object {
            Ok(object) if object.is_generated => {
                let why = "generateName tells no name to delete".into();
                tally.failed(CommandError::document(origin, why))?;
            }
            Ok(object) => {
                let key = object.resource.key.unwrap_or_default();
                delete(&args, key, session, &mut tally, out).await?;
            }
            Err(why) => tally.failed(CommandError::document(origin, why))?,
        }
    }
    tally.finish()
}

async fn delete(
    args: &DeleteArgs,
    key: Key,
    session: &Session,
    tally: &mut Tally,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let request = DeleteRequest {
        key: Some(key.clone()),
        if_revision: args.if_revision,
        if_uid: args.if_uid.clone(),
        allow_missing: args.ignore_not_found,
        ..DeleteRequest::default()
    };
    match session.delete(request).await {
        Ok(deleted) => {
            tally.done();
            let what = if deleted.is_some() {
                "deleted"
            } else {
                "not there"
            };
            writeln!(out, "{} {what}", key_name(Some(&key))).map_err(CommandError::output)?;
            out.flush().map_err(CommandError::output)
        }
        Err(error) => {
            let mut failure = CommandError::call_about(&error, Some(&key));
            if error.code() == Code::NotFound {
                failure.message.push_str(not_found_hint(&key));
            }
            tally.failed(failure)
        }
    }
}
