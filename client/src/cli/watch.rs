//! `listwatch watch`: the objects of a collection, and then every change.

use std::io::Write;

use clap::{ArgGroup, Args};
use listwatch::v1::{
    CatchUp, Consistency, DeliveryMode, InitialState, View, WatchRequest, WatchResponse,
    consistency, watch_request::Start,
};
use tokio::time::{Instant, timeout_at};

use super::{
    args::{OutputArgs, SelectorArgs},
    events::Events,
    exit::{CommandError, Exit},
    session::Server,
    target,
};

/// Flags of `watch`.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("start").args(["resume", "after_revision", "now", "initial_only"])))]
pub(super) struct WatchArgs {
    /// Such as pods or deployments.apps
    collection: String,
    /// Only this object; may be NAMESPACE/NAME
    name: Option<String>,
    #[command(flatten)]
    selector: SelectorArgs,
    #[command(flatten)]
    output: OutputArgs,
    /// Go on after the point that a bookmark's or a list's resume token names
    #[arg(long, value_name = "TOKEN")]
    resume: Option<String>,
    /// Only changes after this revision
    #[arg(long, value_name = "REVISION")]
    after_revision: Option<i64>,
    /// Only changes from now on
    #[arg(long)]
    now: bool,
    /// Only what exists, and then end
    #[arg(long)]
    initial_only: bool,
    /// Start with a state that is at least of this revision; waits for it
    #[arg(long, value_name = "REVISION", conflicts_with_all = ["resume", "after_revision", "now"])]
    min_revision: Option<i64>,
    /// Every change since the start, or exit code 6 if that history is compacted; without
    /// it the server sends the net difference
    #[arg(long)]
    exact: bool,
    /// Leave out all but the newest change of an object while this reader is behind
    #[arg(long)]
    latest: bool,
    /// Also show bookmarks and their resume tokens
    #[arg(long)]
    bookmarks: bool,
    /// Also the state before each change (json and yaml)
    #[arg(long)]
    previous: bool,
    /// End after so many events; exit code 1 if --timeout comes first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    until_events: Option<u64>,
}

/// Watches until something ends it.
pub(super) async fn run(
    args: WatchArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let deadline = server.timeout.map(|timeout| Instant::now() + timeout);
    let view = args.output.view();
    let request = request(&args, view)?;
    let session = &server.connect().await?;
    let mut shown = Shown {
        events: Events::new(
            out,
            args.output.output,
            args.output.show_labels,
            args.bookmarks,
            matches!(view, View::Full | View::Unspecified),
        ),
        left: args.until_events,
    };
    let mut stream = session
        .client()
        .watch(request)
        .await
        .map_err(|error| CommandError::call(&error))?;
    loop {
        let next = match deadline {
            None => stream.message().await,
            Some(deadline) => match timeout_at(deadline, stream.message()).await {
                Ok(next) => next,
                Err(_) => return shown.timed_out(),
            },
        };
        match next.map_err(|error| CommandError::call(&error))? {
            Some(response) => {
                if shown.response(response).map_err(CommandError::output)? {
                    return Ok(());
                }
            }
            None if args.initial_only => return Ok(()),
            None => {
                return Err(CommandError::new(
                    Exit::Unavailable,
                    "the server ended the watch",
                ));
            }
        }
    }
}

fn request(args: &WatchArgs, view: View) -> Result<WatchRequest, CommandError> {
    let mut selector = args.selector.selector(&args.collection, "");
    if let Some(name) = &args.name {
        let key = target::key(&args.collection, name, args.selector.namespace())?;
        selector.namespace = key.namespace;
        selector.name = key.name;
    }
    let start = match (&args.resume, args.after_revision, args.now) {
        (Some(token), _, _) => Start::ResumeToken(token.clone()),
        (_, Some(revision), _) => Start::AfterRevision(revision),
        (_, _, true) => Start::Now(true),
        _ => Start::InitialState(InitialState {
            consistency: args.min_revision.map(|it| Consistency {
                kind: Some(consistency::Kind::MinRevision(it)),
            }),
            only: args.initial_only,
        }),
    };
    let mode = if args.latest {
        DeliveryMode::Latest
    } else {
        DeliveryMode::EveryChange
    };
    Ok(WatchRequest {
        selector: Some(selector),
        start: Some(start),
        view: view as i32,
        delivery_mode: mode as i32,
        send_previous: args.previous,
        catch_up: if args.exact {
            CatchUp::Exact
        } else {
            CatchUp::Net
        } as i32,
        ..WatchRequest::default()
    })
}

struct Shown<'w> {
    events: Events<'w>,
    /// How many events are still wanted, if that was said.
    left: Option<u64>,
}

impl Shown<'_> {
    /// Shows a response; true if that was all that was wanted.
    fn response(&mut self, response: WatchResponse) -> std::io::Result<bool> {
        for event in &response.events {
            self.events.event(event)?;
            if let Some(left) = &mut self.left {
                *left -= 1;
                if *left == 0 {
                    self.events.flush()?;
                    return Ok(true);
                }
            }
        }
        if let Some(bookmark) = &response.bookmark {
            self.events.bookmark(bookmark)?;
        }
        self.events.flush()?;
        Ok(false)
    }

    fn timed_out(&self) -> Result<(), CommandError> {
        match self.left {
            None => Ok(()),
            Some(left) => Err(CommandError::new(
                Exit::Failed,
                format!("{left} of the awaited events did not come in time"),
            )),
        }
    }
}
