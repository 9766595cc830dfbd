//! A watch that goes on by itself.

mod event;
mod options;
mod phase;
mod verdict;

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt as _, Stream, future::BoxFuture};
use listwatch::v1::WatchResponse;
use tokio::time::{Instant, Sleep, sleep_until};

pub use self::{
    event::{Change, Disconnect, Event, Point, ResumeToken, WatcherError},
    options::{
        DEFAULT_BOOKMARK_INTERVAL, DEFAULT_FIRST_RESPONSE_TIMEOUT, DEFAULT_PROGRESS_TIMEOUT,
        OnExpired, Start, WatchOptions,
    },
};
use self::{
    phase::{Phase, Told, translate},
    verdict::{Verdict, verdict},
};
use crate::{
    backoff::Backoff,
    client::{Client, ResponseStream},
    error::ClientError,
};

/// A stream that ends sooner counts as a failure, however politely it ends: a server (or a
/// proxy) that ends every stream at once would otherwise be called in a tight loop.
const SHORTEST_GOOD_STREAM: Duration = Duration::from_secs(1);
/// A stream of this length has proved that the server is well: the next failure is a new one.
const HEALTHY_AFTER: Duration = Duration::from_secs(120);
/// Spreads those that reconnect without backoff, since a server that goes away sends all its
/// clients at one moment.
const RECONNECT_SPREAD: Duration = Duration::from_millis(200);
/// However soon the server says.
const SHORTEST_RETRY_AFTER: Duration = Duration::from_millis(100);
/// How often the same position is tried on servers that are behind it (a lagging replica
/// catches up within the minute that this takes) before it is given up.
const MAX_ATTEMPTS_AHEAD: u32 = 5;
/// How often to start over for a reason that is not known.
const MAX_UNEXPLAINED: u32 = 5;

/// Watches what `options` say until dropped: reconnects, resumes, starts over.
pub fn watcher(client: Client, options: WatchOptions) -> Watcher {
    Watcher {
        backoff: options.new_backoff(),
        next_start: options.start.clone(),
        position: None,
        client,
        options,
        told: Told::default(),
        syncing: false,
        ready: VecDeque::new(),
        attempts_ahead: 0,
        unexplained: 0,
        hasty: 0,
        state: State::Disconnected,
    }
}

/// A stream of [`Event`]s that does not end by itself, except with a [`WatcherError`]. Made by
/// [`watcher()`]. Dropping it ends the watch.
#[must_use = "streams do nothing unless polled"]
pub struct Watcher {
    client: Client,
    options: WatchOptions,
    /// Where the next stream starts while there is no position.
    next_start: Start,
    /// The last point whose events have all been given out.
    position: Option<ResumeToken>,
    /// What has been given out since.
    told: Told,
    /// Whether what is given out belongs to an initial state or catches up: that is told
    /// again as a whole after a disconnection, and `told` does not concern it.
    syncing: bool,
    /// Of the last response, what has not been given out.
    ready: VecDeque<Event>,
    backoff: Backoff,
    /// In a row.
    attempts_ahead: u32,
    /// In a row.
    unexplained: u32,
    /// Reconnections without backoff in a row that led to a short stream.
    hasty: u32,
    state: State,
}

enum State {
    /// No stream, and no reason to wait. Entered at first and after [`State::Waiting`]; left
    /// by the next poll.
    Disconnected,
    /// The request is on its way. Left by the response's headers, an error, or the
    /// deadline of the first response.
    Opening {
        call: BoxFuture<'static, Result<ResponseStream<WatchResponse>, ClientError>>,
        phase: Phase,
        deadline: Pin<Box<Sleep>>,
    },
    /// Responses come, or are awaited. Left by any [`Disconnect`].
    Streaming(Box<Open>),
    /// The next attempt has its time. Left when it comes.
    Waiting(Pin<Box<Sleep>>),
    /// An error was given out that no retry cures. Never left.
    Ended,
}

/// An open stream.
struct Open {
    responses: ResponseStream<WatchResponse>,
    phase: Phase,
    /// What streams before this one told after the point at which this one starts.
    repeats: Told,
    /// Since the first response; none before.
    since: Option<Instant>,
    /// Until when the next response must come.
    silence: Pin<Box<Sleep>>,
    /// Until when the next event must come, while the phase is one that ends.
    progress: Pin<Box<Sleep>>,
}

impl Watcher {
    /// The last point whose events have all been given out: where to go on after a restart
    /// of the program.
    #[must_use]
    pub fn resume_token(&self) -> Option<&ResumeToken> {
        self.position.as_ref()
    }

    /// Whether every event of the last response has been given out. Events of one response
    /// belong together: publish a copy here, not between them.
    #[must_use]
    pub fn response_is_done(&self) -> bool {
        self.ready.is_empty()
    }

    /// Forgets the position and goes on with a new initial state, after backoff. For when
    /// the copy has turned out not to be what the server takes it for.
    pub fn restart(&mut self) {
        if !matches!(self.state, State::Ended) {
            self.ready.clear();
            self.start_over();
            let delay = self.backoff.next_delay();
            self.wait(Disconnect::Restarted, delay);
        }
    }

    fn start_over(&mut self) {
        self.position = None;
        self.next_start = Start::InitialState;
        self.told.clear();
        // A revision that was asked for at the start is of the past, perhaps of another store.
        self.options.forget_consistency();
    }

    fn open(&self) -> State {
        let start = match &self.position {
            Some(token) => Start::Token(token.clone()),
            None => self.next_start.clone(),
        };
        let request = self.options.request(&start);
        let client = self.client.clone();
        State::Opening {
            call: async move { client.watch(request).await }.boxed(),
            phase: Phase::Opened {
                initial: start == Start::InitialState,
            },
            deadline: Box::pin(sleep_until(
                Instant::now() + self.options.first_response_timeout,
            )),
        }
    }

    fn starts_with_state(&self) -> bool {
        self.position.is_none() && self.next_start == Start::InitialState
    }

    fn silence_limit(&self) -> Duration {
        self.options.bookmark_interval.mul_f64(2.5)
    }

    /// Gives out the next event of the last response, and with a point takes its token: not
    /// before, since whoever stops reading here has not seen what comes before the point.
    fn next_ready(&mut self) -> Option<Event> {
        let event = self.ready.pop_front()?;
        match &event {
            Event::InitDone(point)
            | Event::CaughtUp(point)
            | Event::Resumed(point)
            | Event::Bookmark(point) => {
                if !point.resume_token.as_str().is_empty() {
                    self.position = Some(point.resume_token.clone());
                }
                self.told.clear();
                self.syncing = false;
            }
            Event::InitBegin | Event::NetBegin | Event::ManifestBegin => self.syncing = true,
            Event::Disconnected { .. } => self.syncing = false,
            Event::Apply { object, .. } | Event::Delete { object, .. } if !self.syncing => {
                self.told.record(object);
            }
            _ => {}
        }
        Some(event)
    }

    fn take_response(&mut self, open: &mut Open, response: WatchResponse) -> Option<Disconnect> {
        let now = Instant::now();
        open.since.get_or_insert(now);
        self.attempts_ahead = 0;
        open.silence.as_mut().reset(now + self.silence_limit());
        let was_syncing = open.phase.is_syncing();
        let progressed = !response.events.is_empty();
        let translated = match translate(&mut open.phase, response, &open.repeats) {
            Ok(translated) => translated,
            Err(error) => return Some(Disconnect::Error(Arc::new(error))),
        };
        if progressed || open.phase.is_syncing() && !was_syncing {
            open.progress
                .as_mut()
                .reset(now + self.options.progress_timeout);
        }
        if open.phase == Phase::Live {
            self.unexplained = 0;
        }
        if translated.events.iter().any(is_point_beyond_the_start) {
            open.repeats.clear();
        }
        self.ready.extend(translated.events);
        translated.going_away.then_some(Disconnect::GoingAway)
    }

    /// Decides when and from where to go on. An error means that no way leads on.
    fn lose(&mut self, cause: Disconnect, lived: Option<Duration>) -> Result<(), WatcherError> {
        let good = lived.is_some_and(|lived| lived >= SHORTEST_GOOD_STREAM);
        if lived.is_some_and(|lived| lived >= HEALTHY_AFTER) {
            self.backoff.reset();
        }
        if good {
            self.hasty = 0;
        }
        let cause = match cause {
            Disconnect::Error(error) => return self.lose_by_error(error),
            other => other,
        };
        let delay = match cause {
            Disconnect::Ended if good => self.backoff.jittered(RECONNECT_SPREAD),
            Disconnect::GoingAway if self.hasty == 0 => {
                if !good {
                    self.hasty += 1;
                }
                self.backoff.jittered(RECONNECT_SPREAD)
            }
            _ => self.backoff.next_delay(),
        };
        self.wait(cause, delay);
        Ok(())
    }

    fn lose_by_error(&mut self, error: Arc<ClientError>) -> Result<(), WatcherError> {
        let has_token = self.position.is_some() || matches!(self.next_start, Start::Token(_));
        let refused = |error: Arc<ClientError>| Err(WatcherError::Refused(unshare(error)));
        let fails = self.options.on_expired == OnExpired::Fail;
        let mut retry_after = None;
        match verdict(&error) {
            Verdict::Refused => return refused(error),
            Verdict::Resume(delay) => retry_after = delay,
            Verdict::Ahead(delay) => {
                self.attempts_ahead += 1;
                retry_after = delay;
                if self.attempts_ahead >= MAX_ATTEMPTS_AHEAD {
                    if fails {
                        return Err(WatcherError::Expired(unshare(error)));
                    }
                    self.attempts_ahead = 0;
                    self.start_over();
                }
            }
            Verdict::BadToken => {
                // One that this watcher was given by the server went bad with the server.
                let may_start_over = self.position.is_some() || self.options.token_is_optional;
                if !has_token || !may_start_over || fails {
                    return refused(error);
                }
                self.start_over();
            }
            Verdict::StartOver | Verdict::Unexplained if fails => {
                return Err(WatcherError::Expired(unshare(error)));
            }
            Verdict::StartOver if !self.starts_with_state() => self.start_over(),
            Verdict::DataLoss => self.start_over(),
            // An initial state cannot expire, unless it was asked for at a revision.
            Verdict::StartOver | Verdict::Unexplained => {
                self.unexplained += 1;
                if self.unexplained >= MAX_UNEXPLAINED {
                    return refused(error);
                }
                self.start_over();
            }
        }
        let delay = match retry_after {
            // At least what the server says, and not everyone at the same moment.
            Some(delay) => {
                let delay = delay.max(SHORTEST_RETRY_AFTER);
                delay + self.backoff.jittered(delay / 10)
            }
            None => self.backoff.next_delay(),
        };
        self.wait(Disconnect::Error(error), delay);
        Ok(())
    }

    fn wait(&mut self, cause: Disconnect, delay: Duration) {
        tracing::debug!(%cause, ?delay, "watch stream lost");
        self.ready.push_back(Event::Disconnected {
            cause,
            retry_in: delay,
        });
        self.state = State::Waiting(Box::pin(sleep_until(Instant::now() + delay)));
    }
}

/// The error itself, if no one has kept the event that shows it; no one can have: it was not
/// given out.
fn unshare(error: Arc<ClientError>) -> ClientError {
    Arc::try_unwrap(error).unwrap_or(ClientError::Protocol("an error that is in use elsewhere"))
}

/// Whether what an earlier stream told is now behind.
fn is_point_beyond_the_start(event: &Event) -> bool {
    matches!(
        event,
        Event::InitDone(_) | Event::CaughtUp(_) | Event::Bookmark(_)
    )
}

/// What polling an open stream came to.
enum Step {
    Response(WatchResponse),
    Lost(Disconnect),
}

impl Open {
    fn poll(&mut self, options: &WatchOptions, cx: &mut Context<'_>) -> Poll<Step> {
        // Responses before deadlines: who reads late has not been left in silence.
        match Pin::new(&mut self.responses).poll_next(cx) {
            Poll::Ready(Some(Ok(response))) => return Poll::Ready(Step::Response(response)),
            Poll::Ready(Some(Err(error))) => {
                return Poll::Ready(Step::Lost(Disconnect::Error(Arc::new(error))));
            }
            Poll::Ready(None) => return Poll::Ready(Step::Lost(Disconnect::Ended)),
            Poll::Pending => {}
        }
        if self.silence.poll_unpin(cx).is_ready() {
            return Poll::Ready(Step::Lost(match self.phase {
                Phase::Opened { .. } => Disconnect::NoResponse(options.first_response_timeout),
                _ => Disconnect::Silent(options.bookmark_interval.mul_f64(2.5)),
            }));
        }
        if self.phase.is_syncing() && self.progress.poll_unpin(cx).is_ready() {
            return Poll::Ready(Step::Lost(Disconnect::NoProgress(options.progress_timeout)));
        }
        Poll::Pending
    }
}

impl Stream for Watcher {
    type Item = Result<Event, WatcherError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(event) = this.next_ready() {
                return Poll::Ready(Some(Ok(event)));
            }
            let (lost, lived) = match &mut this.state {
                State::Ended => return Poll::Ready(None),
                State::Disconnected => {
                    this.state = this.open();
                    continue;
                }
                State::Waiting(until) => match until.poll_unpin(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => {
                        this.state = State::Disconnected;
                        continue;
                    }
                },
                State::Opening {
                    call,
                    phase,
                    deadline,
                } => match call.poll_unpin(cx) {
                    Poll::Ready(Err(error)) => (Disconnect::Error(Arc::new(error)), None),
                    Poll::Ready(Ok(responses)) => {
                        let now = Instant::now();
                        let first_response = deadline.deadline();
                        this.state = State::Streaming(Box::new(Open {
                            responses,
                            phase: *phase,
                            repeats: std::mem::take(&mut this.told),
                            since: None,
                            silence: Box::pin(sleep_until(first_response)),
                            progress: Box::pin(sleep_until(now + this.options.progress_timeout)),
                        }));
                        continue;
                    }
                    Poll::Pending => match deadline.poll_unpin(cx) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(()) => (
                            Disconnect::NoResponse(this.options.first_response_timeout),
                            None,
                        ),
                    },
                },
                State::Streaming(open) => match open.poll(&this.options, cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(step) => {
                        // Taken out while it is worked on, since the rest of `this` is needed too.
                        let State::Streaming(mut open) =
                            std::mem::replace(&mut this.state, State::Disconnected)
                        else {
                            continue;
                        };
                        let lost = match step {
                            Step::Lost(cause) => Some(cause),
                            Step::Response(response) => this.take_response(&mut open, response),
                        };
                        match lost {
                            Some(cause) => {
                                this.told.absorb(open.repeats);
                                (cause, open.since.map(|since| since.elapsed()))
                            }
                            None => {
                                this.state = State::Streaming(open);
                                continue;
                            }
                        }
                    }
                },
            };
            // The old stream goes before a new one comes: two would count twice against
            // the server's limits.
            this.state = State::Disconnected;
            if let Err(error) = this.lose(lost, lived) {
                this.state = State::Ended;
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Disconnected => "Disconnected".into(),
            State::Opening { .. } => "Opening".into(),
            State::Streaming(open) => format!("Streaming({:?})", open.phase),
            State::Waiting(_) => "Waiting".into(),
            State::Ended => "Ended".to_owned(),
        };
        f.debug_struct("Watcher")
            .field("state", &state)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
