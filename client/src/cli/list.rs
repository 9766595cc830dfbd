//! `listwatch list`: the objects of a collection, page by page.

use std::io::Write;

use clap::Args;
use listwatch::v1::ListRequest;

use super::{
    args::{OutputArgs, ReadArgs, SelectorArgs},
    exit::CommandError,
    output::{Format, ListEnd, Objects},
    progress::Progress,
    session::Server,
    tally::complain,
};

/// Flags of `list`.
#[derive(Args, Debug)]
pub(super) struct ListArgs {
    /// Such as pods or deployments.apps
    collection: String,
    #[command(flatten)]
    selector: SelectorArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    read: ReadArgs,
    /// Objects a request; 0 leaves it to the server
    #[arg(long, value_name = "N", default_value_t = 0)]
    page_size: i32,
}

/// Writes every page as it comes: the list is never held as a whole.
pub(super) async fn run(
    args: ListArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let session = &server.connect().await?;
    let view = args.output.view();
    let OutputArgs {
        output,
        show_labels,
        ..
    } = args.output;
    let mut objects = Objects::new(out, output, view, show_labels, false);
    let mut request = ListRequest {
        selector: Some(args.selector.selector(&args.collection, "")),
        page_size: args.page_size,
        page_token: String::new(),
        consistency: args.read.consistency(),
        view: view as i32,
    };
    // Output that scrolls past is progress enough; this is for `list > file`.
    let mut progress = Progress::unless_output_is_seen("objects");
    let end = loop {
        let page = session
            .list(request.clone())
            .await
            .map_err(|error| CommandError::call(&error))?;
        objects
            .write(&page.resources)
            .map_err(CommandError::output)?;
        progress.add(page.resources.len() as u64);
        if page.next_page_token.is_empty() {
            break ListEnd {
                revision: page.revision,
                resume_token: page.resume_token,
            };
        }
        request.page_token = page.next_page_token;
    };
    drop(progress);
    let revision = end.revision;
    let count = objects.finish(Some(end)).map_err(CommandError::output)?;
    if count == 0 && output == Format::Table {
        complain(&format!(
            "no objects in {} at revision {revision}",
            args.collection
        ));
    }
    Ok(())
}
