//! From the responses of one stream to events.

use std::collections::HashSet;

use listwatch::v1::{BookmarkKind, EventType, Key, Resource, WatchEvent, WatchResponse};

use super::event::{Change, Event, Point};
use crate::error::ClientError;

/// Where a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first response is outstanding. It says which of the others follows.
    Opened {
        /// Whether the request asked for the initial state.
        initial: bool,
    },
    /// Between INITIAL_STATE_BEGIN and INITIAL_STATE_END.
    Initial,
    /// Between NET_BEGIN and INITIAL_STATE_END.
    Net,
    /// Between MANIFEST_BEGIN and INITIAL_STATE_END.
    Manifest,
    /// Every change as it comes.
    Live,
}

impl Phase {
    /// Whether the stream owes an end of what it has begun.
    pub(super) fn is_syncing(self) -> bool {
        matches!(self, Self::Initial | Self::Net | Self::Manifest)
    }
}

/// What had been told after the last point when the stream before this one broke. A stream
/// that resumes from that point tells it again.
#[derive(Debug, Default)]
pub(super) struct Told {
    last_revision: i64,
    /// Those of `last_revision`: it may have been told by half.
    keys: HashSet<Key>,
}

impl Told {
    pub(super) fn record(&mut self, object: &Resource) {
        if object.revision > self.last_revision {
            self.last_revision = object.revision;
            self.keys.clear();
        }
        if object.revision == self.last_revision {
            self.keys.extend(object.key.clone());
        }
    }

    /// Adds what an earlier stream told.
    pub(super) fn absorb(&mut self, earlier: Self) {
        if earlier.last_revision > self.last_revision {
            *self = earlier;
        } else if earlier.last_revision == self.last_revision {
            self.keys.extend(earlier.keys);
        }
    }

    pub(super) fn clear(&mut self) {
        self.last_revision = 0;
        self.keys.clear();
    }

    pub(super) fn includes(&self, object: &Resource) -> bool {
        object.revision < self.last_revision
            || object.revision == self.last_revision
                && object
                    .key
                    .as_ref()
                    .is_some_and(|key| self.keys.contains(key))
    }
}

/// What a response meant.
#[derive(Debug, Default)]
pub(super) struct Translated {
    pub(super) events: Vec<Event>,
    pub(super) going_away: bool,
}

/// Translates a response, `phase` being what the stream was in before and is in after it.
pub(super) fn translate(
    phase: &mut Phase,
    response: WatchResponse,
    already_told: &Told,
) -> Result<Translated, ClientError> {
    let mut events = Vec::with_capacity(response.events.len() + 1);
    if matches!(phase, Phase::Opened { .. }) && !response.events.is_empty() {
        return Err(ClientError::Protocol("events before the first bookmark"));
    }
    for event in response.events {
        if let Some(event) = translate_event(*phase, event)
            && !(*phase == Phase::Live && repeats(&event, already_told))
        {
            events.push(event);
        }
    }
    let mut going_away = false;
    if let Some(bookmark) = response.bookmark {
        let kind = bookmark.kind();
        going_away = kind == BookmarkKind::GoingAway;
        let (next, event) = take_bookmark(*phase, kind, bookmark.into())?;
        *phase = next;
        events.extend(event);
    }
    Ok(Translated { events, going_away })
}

fn repeats(event: &Event, already_told: &Told) -> bool {
    match event {
        Event::Apply { object, .. } | Event::Delete { object, .. } => already_told.includes(object),
        _ => false,
    }
}

fn take_bookmark(
    phase: Phase,
    kind: BookmarkKind,
    point: Point,
) -> Result<(Phase, Option<Event>), ClientError> {
    Ok(match (kind, phase) {
        (BookmarkKind::InitialStateBegin, _) => (Phase::Initial, Some(Event::InitBegin)),
        (BookmarkKind::NetBegin, _) => (Phase::Net, Some(Event::NetBegin)),
        (BookmarkKind::ManifestBegin, _) => (Phase::Manifest, Some(Event::ManifestBegin)),
        // Not even its first word: the position stays what it was.
        (BookmarkKind::GoingAway, Phase::Opened { .. }) => (phase, None),
        (_, Phase::Opened { initial: true }) => {
            return Err(ClientError::Protocol(
                "an initial state without its beginning",
            ));
        }
        (BookmarkKind::InitialStateEnd, Phase::Opened { initial: false } | Phase::Live) => {
            return Err(ClientError::Protocol("the end of what never began"));
        }
        (_, Phase::Opened { initial: false }) => (Phase::Live, Some(Event::Resumed(point))),
        (BookmarkKind::InitialStateEnd, Phase::Initial) => {
            (Phase::Live, Some(Event::InitDone(point)))
        }
        (BookmarkKind::InitialStateEnd, Phase::Net | Phase::Manifest) => {
            (Phase::Live, Some(Event::CaughtUp(point)))
        }
        // A sign of life. Its token would skip what is still owed, or, in a net difference,
        // name a point at which no consistent copy exists.
        (_, Phase::Initial | Phase::Net | Phase::Manifest) => (phase, None),
        (_, Phase::Live) => (phase, Some(Event::Bookmark(point))),
    })
}

fn translate_event(phase: Phase, event: WatchEvent) -> Option<Event> {
    let (kind, cause) = (event.r#type(), event.delete_cause());
    // Of a newer server: nothing that this client could act on.
    let object = event.resource.filter(|object| object.key.is_some())?;
    let previous = event.previous;
    Some(match (kind, phase) {
        (EventType::Deleted, _) => Event::Delete {
            object,
            previous,
            cause,
        },
        (EventType::Unchanged, _) => Event::Unchanged(object),
        (_, Phase::Initial) => Event::InitApply(object),
        (EventType::Added, _) => Event::Apply {
            object,
            previous,
            change: Change::Added,
        },
        (EventType::Upserted | EventType::Existing, _) => Event::Apply {
            object,
            previous,
            change: Change::Upserted,
        },
        // prost gives unknown types as UNSPECIFIED; the API says what they mean.
        (EventType::Modified | EventType::Unspecified, _) => Event::Apply {
            object,
            previous,
            change: Change::Modified,
        },
    })
}
