//! Watches, told line by line.

use futures::StreamExt as _;
use listwatch_client::{
    Client, Event, WatchOptions,
    v1::Resource,
    watcher,
    watcher::{Change, Disconnect, Point, WatcherError},
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    json::{error_json, milliseconds, to_json},
    tell,
};

/// What a watch is told to do.
#[derive(Clone, Copy)]
pub(crate) enum Control {
    Pause,
    Resume,
    Close,
}

/// Starts a watch on a task of its own.
pub(crate) fn start(
    name: String,
    client: Client,
    options: WatchOptions,
) -> mpsc::UnboundedSender<Control> {
    let (sender, mut control) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut watcher = watcher(client, options);
        let mut paused = false;
        loop {
            tokio::select! {
                biased;
                control = control.recv() => match control {
                    Some(Control::Pause) => paused = true,
                    Some(Control::Resume) => paused = false,
                    Some(Control::Close) | None => {
                        drop(watcher);
                        tell(&json!({"watch": name, "ended": "closed"}));
                        return;
                    }
                },
                event = watcher.next(), if !paused => match event {
                    Some(Ok(event)) => tell_event(&name, &event),
                    Some(Err(error)) => {
                        let how = match error {
                            WatcherError::Expired(_) => "expired",
                            _ => "refused",
                        };
                        let error = error_json(error.client_error());
                        tell(&json!({"watch": name, "ended": how, "error": error}));
                        return;
                    }
                    None => return,
                },
            }
        }
    });
    sender
}

fn tell_event(name: &str, event: &Event) {
    let object = |object: &Resource| to_json("Resource", object);
    let mut line = match event {
        Event::InitBegin => json!({"event": "init_begin"}),
        Event::InitApply(new) => json!({"event": "init_apply", "object": object(new)}),
        Event::InitDone(at) => point("init_done", at),
        Event::Resumed(at) => point("resumed", at),
        Event::NetBegin => json!({"event": "net_begin"}),
        Event::ManifestBegin => json!({"event": "manifest_begin"}),
        Event::CaughtUp(at) => point("caught_up", at),
        Event::Apply {
            object: new,
            previous,
            change,
        } => {
            let change = match change {
                Change::Added => "added",
                Change::Upserted => "upserted",
                _ => "modified",
            };
            let mut line = json!({"event": "apply", "object": object(new), "change": change});
            if let Some(previous) = previous {
                line["previous"] = object(previous);
            }
            line
        }
        Event::Delete {
            object: old,
            previous,
            cause,
        } => {
            let cause = cause.as_str_name();
            let mut line = json!({"event": "delete", "object": object(old), "cause": cause});
            if let Some(previous) = previous {
                line["previous"] = object(previous);
            }
            line
        }
        Event::Unchanged(same) => json!({"event": "unchanged", "object": object(same)}),
        Event::Bookmark(at) => point("bookmark", at),
        Event::Disconnected { cause, retry_in } => disconnected(cause, *retry_in),
        _ => json!({"event": "unknown"}),
    };
    line["watch"] = json!(name);
    tell(&line);
}

fn point(kind: &str, point: &Point) -> Value {
    json!({
        "event": kind,
        "revision": point.revision,
        "resume_token": point.resume_token.as_str(),
        "latest_revision": point.latest_revision,
    })
}

fn disconnected(cause: &Disconnect, retry_in: std::time::Duration) -> Value {
    let mut line = json!({"event": "disconnected", "retry_in": milliseconds(retry_in)});
    line["cause"] = json!(match cause {
        Disconnect::Ended => "ended",
        Disconnect::GoingAway => "going_away",
        Disconnect::Silent(_) => "silent",
        Disconnect::NoResponse(_) => "no_response",
        Disconnect::NoProgress(_) => "no_progress",
        Disconnect::Error(error) => {
            line["error"] = error_json(error);
            "error"
        }
        _ => "unknown",
    });
    line
}
