//! What a watcher tells, and what may be concluded from it.

use std::{fmt, sync::Arc, time::Duration};

use listwatch::v1::{Bookmark, DeleteCause, Resource};

use crate::error::ClientError;

/// One step of a [`Watcher`](super::Watcher).
///
/// A copy kept by these rules equals the server's state at every [`Point`]:
///
/// - Between [`InitBegin`](Event::InitBegin) and [`InitDone`](Event::InitDone), and between
///   [`NetBegin`](Event::NetBegin) or [`ManifestBegin`](Event::ManifestBegin) and
///   [`CaughtUp`](Event::CaughtUp), work on a second copy, and swap it in at the end. If
///   [`Disconnected`](Event::Disconnected) or another begin comes first, throw it away.
/// - Everything else applies to the copy itself, in order.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Everything that exists follows as [`InitApply`](Event::InitApply), and what you hold
    /// may be out of date. Go on serving it until [`InitDone`](Event::InitDone).
    InitBegin,
    /// Part of the initial state.
    InitApply(Resource),
    /// What came since [`InitBegin`](Event::InitBegin) is all there is at this point. What
    /// you held and was not named is gone.
    InitDone(Point),
    /// A stream goes on where the last one stopped: what you hold was right at this point, and
    /// every change since follows. `latest_revision` says how far the store is ahead.
    Resumed(Point),
    /// The net difference since your last point follows: one
    /// [`Apply`](Event::Apply) or [`Delete`](Event::Delete) for each key that changed, up
    /// to [`CaughtUp`](Event::CaughtUp). Revisions are torn in between.
    NetBegin,
    /// The deletions since your last point are forgotten: what changed follows as
    /// [`Apply`](Event::Apply) and what did not as [`Unchanged`](Event::Unchanged). At
    /// [`CaughtUp`](Event::CaughtUp), what was not named is gone.
    ManifestBegin,
    /// The net difference or the manifest is complete.
    CaughtUp(Point),
    /// The object exists and is in this state.
    Apply {
        /// The state after the change.
        object: Resource,
        /// The state before it, if asked for and still known.
        previous: Option<Resource>,
        /// What the server says about how it came about.
        change: Change,
    },
    /// The object is gone, or no longer matches the selector. It may be one that you never
    /// held.
    Delete {
        /// Its last state under the view, with the revision of the deletion.
        object: Resource,
        /// The state before, if asked for and still known.
        previous: Option<Resource>,
        /// Why.
        cause: DeleteCause,
    },
    /// Of a manifest: the object is there and is as it was at your last point. Key, uid
    /// and revision only.
    Unchanged(Resource),
    /// Everything up to this point has been told.
    Bookmark(Point),
    /// The stream is lost; another will be opened by itself. What you hold grows stale.
    Disconnected {
        /// Why.
        cause: Disconnect,
        /// When the next stream will be opened.
        retry_in: Duration,
    },
}

/// How an object came to be as [`Event::Apply`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It was created, or matches the selector from now on.
    Added,
    /// It was there before.
    Modified,
    /// Only your own copy can tell. Another uid under a key that you hold means that the
    /// old object was deleted first.
    Upserted,
}

/// A place in the history from which a watch can go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Everything up to this revision has been told.
    pub revision: i64,
    /// Starts a watch of the same selector here.
    pub resume_token: ResumeToken,
    /// The store's newest revision when this was sent.
    pub latest_revision: i64,
    /// How many changes `DELIVERY_MODE_LATEST` left out since the last point.
    pub coalesced: i64,
}

impl From<Bookmark> for Point {
    fn from(bookmark: Bookmark) -> Self {
        Self {
            revision: bookmark.revision,
            resume_token: ResumeToken(bookmark.resume_token.into()),
            latest_revision: bookmark.latest_revision,
            coalesced: bookmark.coalesced_count,
        }
    }
}

/// The server's opaque name for a point in the history of one selector.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResumeToken(Arc<str>);

impl ResumeToken {
    /// One that was kept as text.
    pub fn new(token: impl Into<Arc<str>>) -> Self {
        Self(token.into())
    }

    /// To keep it as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ResumeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResumeToken({})", self.0)
    }
}

/// Why a stream was lost.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Disconnect {
    /// The server ended it with OK.
    #[error("the server ended the stream")]
    Ended,
    /// The server said that it is going away.
    #[error("the server is going away")]
    GoingAway,
    /// Nothing came for two and a half bookmark intervals: the connection is dead, whatever
    /// the operating system says.
    #[error("silent for {0:?}")]
    Silent(Duration),
    /// The first response did not come in time.
    #[error("no response within {0:?}")]
    NoResponse(Duration),
    /// The initial state (or what catches up) made no progress and did not end.
    #[error("the initial state made no progress for {0:?}")]
    NoProgress(Duration),
    /// [`Watcher::restart`](super::Watcher::restart) was called.
    #[error("restarted")]
    Restarted,
    /// An error that goes away by itself, or with a new initial state.
    #[error(transparent)]
    Error(Arc<ClientError>),
}

/// Why a watcher ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatcherError {
    /// The server refuses the watch as it stands (credentials, arguments, limits): a retry
    /// does not help.
    #[error("the watch was refused: {0}")]
    Refused(#[source] ClientError),
    /// The history after the start is gone and the options say
    /// [`OnExpired::Fail`](super::OnExpired::Fail). Start with the initial state.
    #[error("the history is gone: {0}")]
    Expired(#[source] ClientError),
}

impl WatcherError {
    /// What the server said.
    #[must_use]
    pub fn client_error(&self) -> &ClientError {
        match self {
            Self::Refused(error) | Self::Expired(error) => error,
        }
    }
}
