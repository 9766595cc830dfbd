//! What to watch, and how patiently.

use std::{fmt, sync::Arc, time::Duration};

use listwatch::v1::{
    CatchUp, Consistency, DeliveryMode, InitialState, Selector, View, WatchRequest, watch_request,
};

use super::event::ResumeToken;
use crate::backoff::{Backoff, BackoffOptions, Randomness, thread_randomness};

/// How often the server is asked to say where it is. With the 2.5 intervals of silence
/// that are put up with, a dead connection is noticed after 25 s.
pub const DEFAULT_BOOKMARK_INTERVAL: Duration = Duration::from_secs(10);
/// From opening a stream to its first response.
pub const DEFAULT_FIRST_RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two events of an initial state that has not ended.
pub const DEFAULT_PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

/// Where a watcher begins.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Start {
    /// With everything that exists.
    #[default]
    InitialState,
    /// After the point that a bookmark or a list of the same selector named.
    Token(ResumeToken),
    /// After this revision.
    AfterRevision(i64),
    /// With the first change after the server takes the request.
    Now,
}

/// What a watcher does when the history after its position is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnExpired {
    /// Goes on with a new initial state.
    #[default]
    StartOver,
    /// Ends with [`WatcherError::Expired`](super::WatcherError::Expired).
    Fail,
}

/// What to watch and how. `WatchOptions::new(Select::all("pods"))` has sensible defaults
/// for all the rest.
#[derive(Clone)]
#[must_use]
pub struct WatchOptions {
    pub(crate) selector: Selector,
    pub(crate) view: View,
    pub(crate) start: Start,
    delivery_mode: DeliveryMode,
    catch_up: CatchUp,
    consistency: Option<Consistency>,
    send_previous: bool,
    max_batch_delay: Option<Duration>,
    pub(super) bookmark_interval: Duration,
    pub(super) first_response_timeout: Duration,
    pub(super) progress_timeout: Duration,
    pub(super) on_expired: OnExpired,
    backoff: BackoffOptions,
    randomness: Randomness,
    /// The start token is a convenience, as one read from a file: an invalid one is as good
    /// as none.
    pub(crate) token_is_optional: bool,
}

impl WatchOptions {
    /// The initial state and then every change of what `selector` matches.
    pub fn new(selector: impl Into<Selector>) -> Self {
        Self {
            selector: selector.into(),
            view: View::Full,
            start: Start::InitialState,
            delivery_mode: DeliveryMode::EveryChange,
            catch_up: CatchUp::Net,
            consistency: None,
            send_previous: false,
            max_batch_delay: None,
            bookmark_interval: DEFAULT_BOOKMARK_INTERVAL,
            first_response_timeout: DEFAULT_FIRST_RESPONSE_TIMEOUT,
            progress_timeout: DEFAULT_PROGRESS_TIMEOUT,
            on_expired: OnExpired::StartOver,
            backoff: BackoffOptions::default(),
            randomness: Arc::new(thread_randomness),
            token_is_optional: false,
        }
    }

    /// How much of each object to send. Default: all.
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Where to begin. Default: with the initial state.
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Default: every change.
    pub fn delivery_mode(mut self, mode: DeliveryMode) -> Self {
        self.delivery_mode = mode;
        self
    }

    /// What to get when the history is compacted. Default: the net difference.
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Of the initial state. Default: linearizable.
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = Some(consistency);
        self
    }

    /// Asks for the state before each change.
    pub fn send_previous(mut self, send: bool) -> Self {
        self.send_previous = send;
        self
    }

    /// Lets the server hold events back this long for fewer, larger responses.
    pub fn max_batch_delay(mut self, delay: Duration) -> Self {
        self.max_batch_delay = Some(delay);
        self
    }

    /// The longest silence that the server is asked to keep. After two and a half such
    /// intervals of it the watcher opens another stream, so it must be within the server's
    /// limits. Default: 10 s.
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.bookmark_interval = interval;
        self
    }

    /// How long the first response of a stream may take. Default: 30 s.
    pub fn first_response_timeout(mut self, timeout: Duration) -> Self {
        self.first_response_timeout = timeout;
        self
    }

    /// How long an initial state, or what catches up, may go without an event and without
    /// its end. Default: 60 s.
    pub fn progress_timeout(mut self, timeout: Duration) -> Self {
        self.progress_timeout = timeout;
        self
    }

    /// Default: start over.
    pub fn on_expired(mut self, on_expired: OnExpired) -> Self {
        self.on_expired = on_expired;
        self
    }

    /// Delays between attempts. Default: 800 ms, doubled up to 30 s, with full jitter.
    pub fn backoff(mut self, options: BackoffOptions) -> Self {
        self.backoff = options;
        self
    }

    /// Where the jitter comes from. For tests.
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    pub(super) fn forget_consistency(&mut self) {
        self.consistency = None;
    }

    pub(super) fn new_backoff(&self) -> Backoff {
        Backoff::new(self.backoff, self.randomness.clone())
    }

    pub(super) fn request(&self, start: &Start) -> WatchRequest {
        let start = match start {
            Start::InitialState => watch_request::Start::InitialState(InitialState {
                consistency: self.consistency,
                only: false,
            }),
            Start::Token(token) => watch_request::Start::ResumeToken(token.as_str().into()),
            Start::AfterRevision(revision) => watch_request::Start::AfterRevision(*revision),
            Start::Now => watch_request::Start::Now(true),
        };
        WatchRequest {
            selector: Some(self.selector.clone()),
            start: Some(start),
            view: self.view.into(),
            delivery_mode: self.delivery_mode.into(),
            send_previous: self.send_previous,
            bookmark_interval: to_proto(self.bookmark_interval),
            max_batch_delay: self.max_batch_delay.and_then(to_proto),
            catch_up: self.catch_up.into(),
        }
    }
}

/// What does not fit is longer than anyone waits: left to the server's default.
fn to_proto(duration: Duration) -> Option<prost_types::Duration> {
    duration.try_into().ok()
}

impl fmt::Debug for WatchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchOptions")
            .field("selector", &self.selector)
            .field("view", &self.view)
            .field("start", &self.start)
            .field("delivery_mode", &self.delivery_mode)
            .field("catch_up", &self.catch_up)
            .field("bookmark_interval", &self.bookmark_interval)
            .finish_non_exhaustive()
    }
}
