//! `listwatch get`: objects by name.

use std::io::Write;

use clap::Args;
use listwatch::v1::{GetRequest, Key};
use tonic::Code;

use super::{
    args::{OutputArgs, ReadArgs},
    exit::CommandError,
    output::Objects,
    session::Server,
    tally::Tally,
    target,
};

/// Flags of `get`.
#[derive(Args, Debug)]
pub(super) struct GetArgs {
    /// COLLECTION NAME…, where a name may be NAMESPACE/NAME; or keys as -o name prints
    /// them
    #[arg(required = true, value_name = "COLLECTION NAME")]
    objects: Vec<String>,
    /// The namespace of the names; without it objects outside any namespace
    #[arg(short, long)]
    namespace: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    read: ReadArgs,
}

/// Prints each object that is there and complains about each that is not.
pub(super) async fn run(
    args: GetArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let keys = target::keys(&args.objects, args.namespace.as_deref())?;
    let session = &server.connect().await?;
    let view = args.output.view();
    let OutputArgs {
        output,
        show_labels,
        ..
    } = args.output;
    let mut objects = Objects::new(out, output, view, show_labels, keys.len() == 1);
    let mut tally = Tally::default();
    for key in keys {
        let request = GetRequest {
            key: Some(key.clone()),
            consistency: args.read.consistency(),
            view: view as i32,
        };
        match session.get(request).await {
            Ok(found) => {
                let found: Vec<_> = found.resource.into_iter().collect();
                objects.write(&found).map_err(CommandError::output)?;
                tally.done();
            }
            Err(error) => {
                let mut failure = CommandError::call_about(&error, Some(&key));
                if error.code() == Code::NotFound {
                    failure.message.push_str(not_found_hint(&key));
                }
                tally.failed(failure)?;
            }
        }
    }
    objects.finish(None).map_err(CommandError::output)?;
    tally.finish()
}

/// The usual reason why an object is not found.
pub(super) fn not_found_hint(key: &Key) -> &'static str {
    match key.namespace.is_empty() {
        true => " (outside any namespace: -n NAMESPACE or NAMESPACE/NAME names one)",
        false => "",
    }
}
