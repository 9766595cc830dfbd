//! A watch as a stream of frames.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use futures::{Stream, future::BoxFuture};
use listwatch::v1::{self, BookmarkKind};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use super::{
    frame,
    watch::{Wants, Watch},
};
use crate::{
    hub::{Closing, Cursor, HubError, Step},
    limits::MAX_STEPS_A_POLL,
    seats::Seat,
    store::{Revision, StoreError},
};

/// What a watch can do next.
pub(crate) enum Next<E> {
    /// Give this response.
    Frame(Bytes),
    /// Read from the store first.
    Read,
    /// Nothing before news come, or this moment.
    Wait(Instant),
    /// Nothing any more: what ends the stream.
    End(E),
}

/// A watch that goes on when its transport asks, one response at a time.
pub(crate) trait Pulled: Send + 'static {
    /// What stands at the end of the stream.
    type End;

    /// Goes on as far as memory goes.
    fn next(&mut self) -> Next<Self::End>;

    /// What a step comes to.
    fn take(&mut self, step: &Step, now: Instant) -> Next<Self::End>;

    /// What a failure to read comes to.
    fn failed(&mut self, error: HubError) -> Next<Self::End>;

    /// The end of what has ended already.
    fn over() -> Self::End;

    /// Its place in the history.
    fn cursor(&mut self) -> &mut Cursor;

    /// When it first has something to say of its own.
    fn wakes_first_at(&self) -> Instant;

    /// When it must go with the server or the connection.
    fn leaves_at(&self, now: Instant) -> Option<Instant>;

    /// News are let wait for a moment.
    fn is_held_back(&self) -> bool;
}

/// A watch that is reading from the store; it comes back with what it found.
type Reading<W> = BoxFuture<'static, (Box<W>, Result<Step, HubError>)>;

/// A watch as a stream of frames. Small while it waits: what reading the store needs is
/// there only meanwhile.
pub(crate) struct PulledFrames<W> {
    /// `None` while it is reading.
    watch: Option<Box<W>>,
    reading: Option<Reading<W>>,
    timer: Pin<Box<Sleep>>,
    /// Its place among all watches, where the stream does not keep it.
    _seat: Option<Seat>,
}

/// A watch over gRPC.
pub(crate) type WatchFrames = PulledFrames<Watch>;

impl WatchFrames {
    /// See [`Watch::wants`].
    pub(super) fn wants(&self) -> Option<Wants> {
        self.watch.as_ref()?.wants()
    }

    /// See [`Watch::rests_at`].
    pub(super) fn rests_at(&mut self) -> Option<Revision> {
        self.watch.as_mut()?.rests_at()
    }

    /// It is the work of so many watches of its stream.
    pub(super) fn stands_for(&self, watches: usize) {
        if let Some(watch) = &self.watch {
            watch.berth.registered.stands_for(watches);
        }
    }

    /// Another goes on in its place.
    pub(super) fn joined(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.closing = Closing::Joined;
        }
    }

    /// A bookmark for where it stands, as an encoded response; `None` while it is reading.
    pub(super) fn bookmark_now(&mut self) -> Option<Bytes> {
        let watch = self.watch.as_mut()?;
        // What came since its last step may be nothing to it.
        let _ = watch.cursor.rest();
        let frame = watch.only_bookmark(BookmarkKind::Progress);
        Some(frame::message(&frame))
    }
}

impl<W: Pulled> PulledFrames<W> {
    pub(crate) fn new(watch: W) -> Self {
        Self {
            timer: Box::pin(sleep_until(watch.wakes_first_at())),
            watch: Some(Box::new(watch)),
            reading: None,
            _seat: None,
        }
    }

    /// The same, keeping its place among all watches until it is dropped.
    pub(crate) fn seated(self, seat: Seat) -> Self {
        Self {
            _seat: Some(seat),
            ..self
        }
    }

    /// The next frame, or what ends the stream.
    pub(crate) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, W::End>> {
        // Much may be read of which nothing matches: others get their turn.
        for _ in 0..MAX_STEPS_A_POLL {
            let next = match self.poll_next_step(context) {
                Poll::Ready(next) => next,
                Poll::Pending => return Poll::Pending,
            };
            match next {
                Next::Frame(frame) => return Poll::Ready(Ok(frame)),
                Next::End(end) => return Poll::Ready(Err(end)),
                Next::Read => self.read(),
                Next::Wait(until) => {
                    if self.poll_wait(until, context).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_next_step(&mut self, context: &mut Context<'_>) -> Poll<Next<W::End>> {
        if let Some(reading) = &mut self.reading {
            let (mut watch, step) = ready!(reading.as_mut().poll(context));
            self.reading = None;
            let next = match step {
                Ok(step) => watch.take(&step, Instant::now()),
                Err(error) => watch.failed(error),
            };
            self.watch = Some(watch);
            return Poll::Ready(next);
        }
        Poll::Ready(match &mut self.watch {
            Some(watch) => watch.next(),
            None => Next::End(W::over()),
        })
    }

    fn read(&mut self) {
        if let Some(mut watch) = self.watch.take() {
            self.reading = Some(Box::pin(async move {
                let step = watch.cursor().step().await;
                (watch, step)
            }));
        }
    }

    /// Ready when the moment or news have come, or the moment to leave: the server's going
    /// wakes every watch, the connection's its streams.
    fn poll_wait(&mut self, until: Instant, context: &mut Context<'_>) -> Poll<()> {
        let Some(watch) = &mut self.watch else {
            return Poll::Ready(());
        };
        let held_back = watch.is_held_back();
        let news = watch.cursor().poll_news(context.waker());
        if news.is_ready() && !held_back {
            return Poll::Ready(());
        }
        let leaves_at = watch.leaves_at(Instant::now());
        let until = leaves_at.map_or(until, |at| until.min(at));
        if self.timer.deadline() != until {
            self.timer.as_mut().reset(until);
        }
        self.timer.as_mut().poll(context)
    }
}

/// The frames as messages, for callers that are no HTTP transport.
impl Stream for WatchFrames {
    type Item = Result<v1::WatchResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let frame = ready!(self.poll_frame(context));
        Poll::Ready(frame::decoded(frame))
    }
}

/// Why a watch ends that could not read.
pub(crate) fn closed_by(error: &HubError) -> Closing {
    match error {
        HubError::Store(StoreError::Compacted { .. } | StoreError::Forgotten { .. }) => {
            Closing::Compacted
        }
        HubError::Stopped | HubError::Store(StoreError::Closed) => Closing::Stopped,
        HubError::Store(_) | HubError::Behind { .. } => Closing::Error,
    }
}
