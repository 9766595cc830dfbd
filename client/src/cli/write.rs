//! `listwatch create` and `listwatch put`: one object from flags, or those of files.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _, Write},
    path::PathBuf,
    time::Duration,
};

use bytes::Bytes;
use clap::Args;
use listwatch::v1::{CreateRequest, Resource, UpdateRequest};

use super::{
    args::FileArgs,
    exit::CommandError,
    form::Form,
    output::{Format, key_name, write_yaml},
    session::{Server, Session},
    span,
    tally::Tally,
    target,
};
use crate::ClientError;

/// Flags of `create`.
#[derive(Args, Debug)]
pub(super) struct CreateArgs {
    #[command(flatten)]
    write: WriteArgs,
}

/// Flags of `put`.
#[derive(Args, Debug)]
pub(super) struct PutArgs {
    #[command(flatten)]
    write: WriteArgs,
    /// Only if the object has this revision; without it, whatever is there is replaced
    #[arg(long, value_name = "REVISION", conflicts_with = "files")]
    if_revision: Option<i64>,
}

#[derive(Args, Debug)]
struct WriteArgs {
    /// COLLECTION NAME, where the name may be NAMESPACE/NAME; or COLLECTION/NAMESPACE/NAME
    #[arg(value_name = "COLLECTION NAME", num_args = 1..=2, required_unless_present = "files",
          conflicts_with = "files")]
    object: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    /// The namespace of the object, and of manifests that name none
    #[arg(short, long)]
    namespace: Option<String>,
    /// The value as text
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["value_file", "files"])]
    value: Option<String>,
    /// The value as the bytes of a file; - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    value_file: Option<PathBuf>,
    /// Media type of the value, such as application/json
    #[arg(long, value_name = "TYPE", conflicts_with = "files")]
    content_type: Option<String>,
    /// A label; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label, conflicts_with = "files")]
    labels: Vec<(String, String)>,
    /// Deletes the object by itself after so long: 30s, 10m, 7d
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    ttl: Option<Duration>,
    /// What to print of each object written: its name and what happened, or what the
    /// server made of it (uid, revision)
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("write KEY=VALUE".into()),
    }
}

#[derive(Clone, Copy)]
enum Mode {
    Create,
    Put { if_revision: Option<i64> },
}

/// Writes objects that must not exist yet.
pub(super) async fn create(
    args: CreateArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    write(args.write, Mode::Create, server, out).await
}

/// Writes objects whatever is there, or only over a given revision.
pub(super) async fn put(
    args: PutArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    write(
        args.write,
        Mode::Put {
            if_revision: args.if_revision,
        },
        server,
        out,
    )
    .await
}

async fn write(
    args: WriteArgs,
    mode: Mode,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let ttl = match args.ttl {
        Some(ttl) => Some(
            ttl.try_into()
                .map_err(|_| CommandError::usage("--ttl is too long"))?,
        ),
        None => None,
    };
    let mut tally = Tally::default();
    if args.files.files.is_empty() {
        let resource = from_flags(&args)?;
        let session = &server.connect().await?;
        let result = store(session, mode, resource.clone(), ttl).await;
        report(result, resource, args.output, &mut tally, out)?;
        return tally.finish();
    }
    let session = &server.connect().await?;
    for (origin, object) in args.files.objects(args.namespace.as_deref()) {
        match object {
            Ok(object) => {
                let result = store(session, mode, object.resource.clone(), ttl).await;
                report(result, object.resource, args.output, &mut tally, out)?;
            }
            Err(why) => tally.failed(CommandError::document(origin, why))?,
        }
    }
    tally.finish()
}

fn from_flags(args: &WriteArgs) -> Result<Resource, CommandError> {
    let keys = target::keys(&args.object, args.namespace.as_deref())?;
    let [key] = <[_; 1]>::try_from(keys)
        .map_err(|_| CommandError::usage("one object a call: use -f for several"))?;
    let value = match (&args.value, &args.value_file) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(path)) if path.as_os_str() == "-" => {
            let mut value = Vec::new();
            io::stdin()
                .read_to_end(&mut value)
                .map_err(|error| CommandError::file("standard input", error))?;
            value
        }
        (None, Some(path)) => {
            fs::read(path).map_err(|error| CommandError::file(path.display(), error))?
        }
        (None, None) => {
            return Err(CommandError::usage(
                "no value: give --value, --value-file or -f",
            ));
        }
    };
    Ok(Resource {
        key: Some(key),
        labels: args.labels.iter().cloned().collect::<BTreeMap<_, _>>(),
        value: Bytes::from(value),
        content_type: args.content_type.clone().unwrap_or_default(),
        ..Resource::default()
    })
}

async fn store(
    session: &Session,
    mode: Mode,
    resource: Resource,
    ttl: Option<prost_types::Duration>,
) -> Result<(Resource, &'static str), ClientError> {
    let resource = Some(resource);
    match mode {
        Mode::Create => {
            let request = CreateRequest {
                resource,
                ttl,
                ..CreateRequest::default()
            };
            Ok((session.create(request).await?, "created"))
        }
        Mode::Put { if_revision } => {
            let request = UpdateRequest {
                resource,
                if_revision,
                allow_missing: if_revision.is_none(),
                ttl,
                ..UpdateRequest::default()
            };
            let written = session.update(request).await?;
            let is_new = written.create_revision == written.revision;
            Ok((written, if is_new { "created" } else { "replaced" }))
        }
    }
}

fn report(
    result: Result<(Resource, &'static str), ClientError>,
    wanted: Resource,
    format: Format,
    tally: &mut Tally,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    match result {
        Ok((written, what)) => {
            tally.done();
            print(&written, what, format, out).map_err(CommandError::output)
        }
        Err(error) => tally.failed(CommandError::call_about(&error, wanted.key.as_ref())),
    }
}

/// Says what became of an object: one line, or the object as the server has it now.
pub(super) fn print(
    written: &Resource,
    what: &str,
    format: Format,
    out: &mut dyn Write,
) -> io::Result<()> {
    let name = key_name(written.key.as_ref());
    match format {
        Format::Table => writeln!(out, "{name} {what}")?,
        Format::Name => writeln!(out, "{name}")?,
        Format::Json => {
            serde_json::to_writer(&mut *out, &Form::new(written, false))?;
            writeln!(out)?;
        }
        Format::Yaml => {
            writeln!(out, "---")?;
            write_yaml(out, &Form::new(written, false))?;
        }
    }
    out.flush()
}
