//! `listwatch watch`: the objects of a collection, and then every change.

use std::io::{self, Write};

use clap::{ArgGroup, Args};
use futures::StreamExt as _;
use listwatch::v1::{
    Bookmark, BookmarkKind, CatchUp, Consistency, DeliveryMode, EventType, InitialState, Selector,
    View, WatchEvent, WatchRequest, consistency, watch_request,
};
use tokio::time::{Instant, timeout_at};

use super::{
    args::{OutputArgs, SelectorArgs},
    events::Events,
    exit::{CommandError, Exit, one_line},
    session::{Server, Session},
    tally::complain,
    target,
};
use crate::watcher::{
    Change, Disconnect, Event, OnExpired, Point, ResumeToken, Start, WatchOptions, watcher,
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

/// Watches until something ends it. Reconnects by itself, and says so on standard error.
pub(super) async fn run(
    args: WatchArgs,
    server: &Server,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let deadline = server.timeout.map(|timeout| Instant::now() + timeout);
    let view = args.output.view();
    let selector = selector(&args)?;
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
    let watching = async {
        match args.initial_only {
            true => initial_state(&args, selector, view, session, &mut shown).await,
            false => follow(&args, selector, view, session, &mut shown).await,
        }
    };
    match deadline {
        None => watching.await,
        Some(deadline) => match timeout_at(deadline, watching).await {
            Ok(ended) => ended,
            Err(_) if args.initial_only => {
                let why = "the initial state is not complete (raise --timeout)";
                Err(CommandError::new(Exit::Unavailable, why))
            }
            Err(_) => shown.timed_out(),
        },
    }
}

/// What exists, by one raw watch that the server ends.
async fn initial_state(
    args: &WatchArgs,
    selector: Selector,
    view: View,
    session: &Session,
    shown: &mut Shown<'_>,
) -> Result<(), CommandError> {
    let initial = InitialState {
        consistency: args.consistency(),
        only: true,
    };
    let request = WatchRequest {
        selector: Some(selector),
        start: Some(watch_request::Start::InitialState(initial)),
        view: view as i32,
        ..WatchRequest::default()
    };
    let failed = |error| CommandError::call(&error);
    let mut stream = session.client().watch(request).await.map_err(failed)?;
    let mut is_complete = false;
    while let Some(response) = stream.message().await.map_err(failed)? {
        let kind = response.bookmark.as_ref().map(Bookmark::kind);
        is_complete |= kind == Some(BookmarkKind::InitialStateEnd);
        for event in &response.events {
            if shown.event(event).map_err(CommandError::output)? {
                return Ok(());
            }
        }
        if let Some(bookmark) = &response.bookmark {
            shown
                .events
                .bookmark(bookmark)
                .map_err(CommandError::output)?;
        }
        shown.events.flush().map_err(CommandError::output)?;
    }
    match is_complete {
        true => Ok(()),
        false => Err(CommandError::new(
            Exit::Unavailable,
            "the server ended the stream before the initial state was complete (try again)",
        )),
    }
}

/// Every change, by the library's watcher.
async fn follow(
    args: &WatchArgs,
    selector: Selector,
    view: View,
    session: &Session,
    shown: &mut Shown<'_>,
) -> Result<(), CommandError> {
    let mut watcher = watcher(session.client().clone(), options(args, selector, view));
    while let Some(event) = watcher.next().await {
        let event = event.map_err(|error| CommandError::call(error.client_error()))?;
        if let Event::Disconnected { cause, retry_in } = &event {
            // A stream that ends in good order is everyday life.
            if !matches!(cause, Disconnect::Ended | Disconnect::GoingAway) {
                let cause = one_line(&cause.to_string());
                let seconds = retry_in.as_secs_f64();
                complain(&format!(
                    "watch interrupted: {cause}; going on in {seconds:.1} s"
                ));
            }
            continue;
        }
        if shown.step(event).map_err(CommandError::output)? {
            return Ok(());
        }
        // What belongs together is handed on together.
        if watcher.response_is_done() {
            shown.events.flush().map_err(CommandError::output)?;
        }
    }
    Ok(())
}

fn selector(args: &WatchArgs) -> Result<Selector, CommandError> {
    let mut selector = args.selector.selector(&args.collection, "");
    if let Some(name) = &args.name {
        let key = target::key(&args.collection, name, args.selector.namespace())?;
        selector.namespace = key.namespace;
        selector.name = key.name;
    }
    Ok(selector)
}

fn options(args: &WatchArgs, selector: Selector, view: View) -> WatchOptions {
    let start = match (&args.resume, args.after_revision, args.now) {
        (Some(token), _, _) => Start::Token(ResumeToken::new(token.as_str())),
        (_, Some(revision), _) => Start::AfterRevision(revision),
        (_, _, true) => Start::Now,
        _ => Start::InitialState,
    };
    // Who names a point in history wants what is after it: to start over in silence with
    // the current state would look like the same and be something else.
    let names_a_point = matches!(start, Start::Token(_) | Start::AfterRevision(_));
    let mut options = WatchOptions::new(selector)
        .view(view)
        .start(start)
        .send_previous(args.previous)
        .delivery_mode(match args.latest {
            true => DeliveryMode::Latest,
            false => DeliveryMode::EveryChange,
        })
        .catch_up(if args.exact {
            CatchUp::Exact
        } else {
            CatchUp::Net
        })
        .on_expired(match names_a_point || args.exact {
            true => OnExpired::Fail,
            false => OnExpired::StartOver,
        });
    if let Some(consistency) = args.consistency() {
        options = options.consistency(consistency);
    }
    options
}

impl WatchArgs {
    fn consistency(&self) -> Option<Consistency> {
        let kind = consistency::Kind::MinRevision(self.min_revision?);
        Some(Consistency { kind: Some(kind) })
    }
}

struct Shown<'w> {
    events: Events<'w>,
    /// How many events are still wanted, if that was said.
    left: Option<u64>,
}

impl Shown<'_> {
    /// Shows an event; true if that was the last that was wanted.
    fn event(&mut self, event: &WatchEvent) -> io::Result<bool> {
        self.events.event(event)?;
        match &mut self.left {
            None => Ok(false),
            Some(left) => {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.events.flush()?;
                }
                Ok(*left == 0)
            }
        }
    }

    /// Shows a step of the watcher in the API's words.
    fn step(&mut self, step: Event) -> io::Result<bool> {
        let (kind, resource, previous, cause) = match step {
            Event::InitBegin => return self.begin(BookmarkKind::InitialStateBegin),
            Event::NetBegin => return self.begin(BookmarkKind::NetBegin),
            Event::ManifestBegin => return self.begin(BookmarkKind::ManifestBegin),
            Event::InitDone(point) | Event::CaughtUp(point) => {
                return self.point(BookmarkKind::InitialStateEnd, point);
            }
            Event::Resumed(point) => return self.point(BookmarkKind::Resumed, point),
            Event::Bookmark(point) => return self.point(BookmarkKind::Progress, point),
            Event::InitApply(object) => (EventType::Existing, object, None, 0),
            Event::Unchanged(object) => (EventType::Unchanged, object, None, 0),
            Event::Apply {
                object,
                previous,
                change,
            } => {
                let kind = match change {
                    Change::Added => EventType::Added,
                    Change::Modified => EventType::Modified,
                    _ => EventType::Upserted,
                };
                (kind, object, previous, 0)
            }
            Event::Delete {
                object,
                previous,
                cause,
            } => (EventType::Deleted, object, previous, cause as i32),
            // What later versions of the library tell on top.
            _ => return Ok(false),
        };
        self.event(&WatchEvent {
            r#type: kind as i32,
            resource: Some(resource),
            previous,
            delete_cause: cause,
        })
    }

    fn begin(&mut self, kind: BookmarkKind) -> io::Result<bool> {
        let bookmark = Bookmark {
            kind: kind as i32,
            ..Bookmark::default()
        };
        self.events.bookmark(&bookmark).map(|()| false)
    }

    fn point(&mut self, kind: BookmarkKind, point: Point) -> io::Result<bool> {
        let bookmark = Bookmark {
            revision: point.revision,
            resume_token: point.resume_token.as_str().into(),
            kind: kind as i32,
            latest_revision: point.latest_revision,
            coalesced_count: point.coalesced,
        };
        self.events.bookmark(&bookmark).map(|()| false)
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
