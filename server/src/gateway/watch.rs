//! Watches: a cursor of the hub, and the lines that Kubernetes' clients read of it.
//!
//! Pulled by the transport like every other watch: nothing is queued here, and a client that
//! has stopped reading costs a cursor. What a step of the cursor delivers goes out as one
//! piece, so that a revision's events arrive together and a burst costs one flush.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use listwatch::v1;
use tokio::time::Instant;
use tonic::body::Body;

use super::{
    Asked, Gateway,
    query::{ListOptions, Version},
    status::{Failed, Failure, json_response},
    view::{View, write_event},
};
use crate::{
    clock::Clock,
    hub::{
        CatchUp, Closing, Cursor, Delivery, DeliveryKind, DeliveryMode, ENCODINGS, HubError,
        Position, StartPoint, Step,
    },
    metrics::OpenHttpWatch,
    service::{Berth, Connection, LongStream, Next, Pulled, PulledFrames, account, closed_by},
    store::{Revision, StoreError},
};

/// Where the encoding of an event is shared: behind those of the gRPC views.
const ENCODING: usize = ENCODINGS - 1;
/// A bookmark's line is about so long.
const BOOKMARK_BYTES: usize = 256;

impl Gateway {
    pub(super) async fn watch(
        &self,
        asked: &Asked<'_>,
        connection: Arc<Connection>,
    ) -> Result<Response<Body>, Failed> {
        let options = ListOptions::of_watch(&asked.query)?;
        let selector = self.selector(&asked.target, &options)?;
        let view = self.view(asked)?;
        let limit = self.service.watch_limit();
        let seat = limit.seat(connection.peer())?;
        let stream = limit.stream(&connection)?;
        if self.service.is_leaving() {
            return Err(Failure::leaving());
        }
        let opened = match self.start_point(&options).await {
            Ok(start) => {
                let mode = DeliveryMode::EveryChange;
                self.hub().watch(selector, start, mode).await
            }
            Err(error) => Err(error),
        };
        let cursor = match opened {
            Ok(cursor) => cursor,
            Err(error @ (HubError::Stopped | HubError::Store(StoreError::Closed))) => {
                return Err(error.into());
            }
            // A watch that has been let in hears of all else within the stream.
            Err(error) => {
                let mut line = Vec::new();
                write_event("ERROR", &failed(&options, error).to_json(), &mut line);
                let line = async move { Ok::<_, Infallible>(Frame::data(Bytes::from(line))) };
                let body = StreamBody::new(futures::stream::once(line));
                return Ok(streamed(Body::new(body)));
            }
        };
        let mut berth = self.service.berth(&cursor, v1::View::Full, connection);
        let now = Instant::now();
        let settings = self.service.options();
        let life = options.timeout.unwrap_or_else(|| {
            let spread = 1.0 + berth.jitter.next();
            settings.min_watch_life.mul_f64(spread)
        });
        let watch = Watch {
            view,
            starts_with_state: options.initial_events == Some(true),
            bookmarks: options.bookmarks,
            bookmark_interval: settings.bookmark_interval,
            bookmark_at: now + settings.bookmark_interval,
            ends_at: now + life,
            ended: false,
            has_begun: false,
            in_step: false,
            closing: Closing::default(),
            clock: settings.clock.clone(),
            berth,
            cursor,
        };
        let frames = PulledFrames::new(watch).seated(seat);
        let open = self.figures.open_watch();
        Ok(streamed(Body::new(WatchBody {
            frames,
            stream,
            _open: open,
        })))
    }

    async fn start_point(&self, options: &ListOptions) -> Result<StartPoint, HubError> {
        let hub = self.hub();
        let with_state = options.initial_events == Some(true);
        match options.version {
            Version::At(revision) if with_state => {
                hub.wait_applied(revision).await?;
                Ok(StartPoint::InitialState)
            }
            Version::At(revision) => {
                let position = Position::settled(revision);
                Ok(StartPoint::After(position, CatchUp::Exact))
            }
            Version::Unset | Version::Any if !with_state => Ok(StartPoint::Now),
            Version::Any => Ok(StartPoint::InitialState),
            Version::Unset => {
                hub.settle().await?;
                Ok(StartPoint::InitialState)
            }
        }
    }
}

fn streamed(body: Body) -> Response<Body> {
    let mut response = json_response(StatusCode::OK, Bytes::new());
    *response.body_mut() = body;
    response
}

/// Why a watch cannot begin, as an event.
///
/// Kubernetes lets a watch from a revision of the future wait in silence for ever. That
/// happens after a restore, and the client then shows what is no more: here it hears that
/// its revision is gone, which every client takes for a reason to list again.
fn failed(options: &ListOptions, error: HubError) -> Failed {
    match (error, options.initial_events) {
        (HubError::Store(StoreError::Future { requested, latest }), None | Some(false)) => {
            Failure::expired(format!(
                "too large resource version: {requested}, current: {latest}: it is of another \
                 history; list again"
            ))
        }
        (error, _) => error.into(),
    }
}

/// The body of a watch's response. It ends without an end mark when the connection is to
/// be closed, and well in all other cases.
struct WatchBody {
    frames: PulledFrames<Watch>,
    stream: LongStream,
    _open: OpenHttpWatch,
}

impl http_body::Body for WatchBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.stream.register(context.waker());
        Poll::Ready(match ready!(self.frames.poll_frame(context)) {
            Ok(bytes) => Some(Ok(Frame::data(bytes))),
            Err(()) => None,
        })
    }
}

/// A watch as a state machine.
struct Watch {
    cursor: Cursor,
    view: View,
    /// It began with the state, whose end a bookmark marks.
    starts_with_state: bool,
    /// The client takes bookmarks.
    bookmarks: bool,
    bookmark_interval: Duration,
    bookmark_at: Instant,
    ends_at: Instant,
    /// The last line has been given.
    ended: bool,
    /// The first event has.
    has_begun: bool,
    /// It has had everything at some moment, so that what comes late now is late.
    in_step: bool,
    closing: Closing,
    clock: Clock,
    berth: Berth,
}

impl Pulled for Watch {
    type End = ();

    fn next(&mut self) -> Next<()> {
        if self.ended {
            return Next::End(());
        }
        let now = Instant::now();
        if let Some((_, why)) = self.berth.leaves_at(now).filter(|(at, _)| now >= *at) {
            return self.end(why);
        }
        if self.cursor.is_stopped() {
            return self.end(Closing::Stopped);
        }
        if now >= self.ends_at {
            return self.end(Closing::Lifetime);
        }
        // One that has asked for every change since long ago gets it, once. To others it is
        // as if the connection broke: they go on from what they have.
        if self.in_step && self.cursor.too_far_behind().is_some() {
            return self.end(Closing::Slow);
        }
        match self.cursor.try_step() {
            Some(step) => self.take(&step, now),
            None => Next::Read,
        }
    }

    fn take(&mut self, step: &Step, now: Instant) -> Next<()> {
        self.in_step |= step.idle;
        let ends_state = step.completes && self.starts_with_state && self.bookmarks;
        let is_due = self.bookmarks && now >= self.bookmark_at;
        if step.deliveries.is_empty() && !ends_state && !is_due {
            if step.begins.is_some() || step.completes {
                // Nothing to say of it; there may be more at once.
                return Next::Wait(now);
            }
            return Next::Wait(self.wakes_first_at());
        }
        // Exactly as much as it takes, where that is known: it may be long in the hands of a
        // reader that has stopped.
        let shared = step.deliveries.iter().enumerate();
        let shared = shared.filter_map(|(n, delivery)| {
            let is_first = n == 0 && !self.has_begun;
            self.shared(delivery, is_first).map(Bytes::len)
        });
        let mut lines = Vec::with_capacity(BOOKMARK_BYTES + shared.sum::<usize>());
        account::sent(&self.cursor, step, self.in_step, &self.clock);
        self.view.at(self.clock.now());
        for delivery in &step.deliveries {
            self.event(delivery, &mut lines);
        }
        if ends_state {
            self.starts_with_state = false;
            self.bookmark(true, &mut lines);
        } else if is_due {
            self.bookmark(false, &mut lines);
        }
        self.spoke(now);
        if lines.is_empty() {
            return Next::Wait(now);
        }
        Next::Frame(self.send(lines, step.deliveries.len()))
    }

    fn failed(&mut self, error: HubError) -> Next<()> {
        self.ended = true;
        self.closing = closed_by(&error);
        if let HubError::Stopped | HubError::Store(StoreError::Closed) = error {
            return Next::End(());
        }
        let mut line = Vec::new();
        write_event("ERROR", &Failed::from(error).to_json(), &mut line);
        Next::Frame(self.send(line, 0))
    }

    fn over() {}

    fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }

    fn wakes_first_at(&self) -> Instant {
        match self.bookmarks {
            true => self.bookmark_at.min(self.ends_at),
            false => self.ends_at,
        }
    }

    fn leaves_at(&self, now: Instant) -> Option<Instant> {
        self.berth.leaves_at(now).map(|(at, _)| at)
    }

    fn is_held_back(&self) -> bool {
        false
    }
}

impl Watch {
    /// Ends well, with a bookmark for clients that take it: so much they need not see again.
    fn end(&mut self, why: Closing) -> Next<()> {
        self.ended = true;
        self.closing = why;
        let mut line = Vec::new();
        if self.bookmarks {
            self.bookmark(false, &mut line);
        }
        match line.is_empty() {
            true => Next::End(()),
            false => Next::Frame(self.send(line, 0)),
        }
    }

    fn event(&mut self, delivery: &Delivery, lines: &mut Vec<u8>) {
        let Some(what) = event_type(delivery) else {
            return;
        };
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        match self.shared(delivery, is_first) {
            Some(line) => lines.extend_from_slice(line),
            None => self.view.event(what, &delivery.object, is_first, lines),
        }
    }

    /// The line that all who see the event whole share, if this one does.
    fn shared<'a>(&self, delivery: &'a Delivery, is_first: bool) -> Option<&'a Bytes> {
        let what = event_type(delivery).filter(|_| self.view.is_shared())?;
        delivery.encoded_once(ENCODING, || {
            let mut line = Vec::new();
            self.view.event(what, &delivery.object, is_first, &mut line);
            line.into()
        })
    }

    /// A bookmark for where it stands; nothing midway through the state.
    fn bookmark(&self, initial_end: bool, lines: &mut Vec<u8>) {
        let revision = self.cursor.position().map(|position| position.revision);
        // A store that nothing was ever written to has no revision to go on from.
        let Some(revision) = revision.filter(|r| initial_end || *r > Revision::ZERO) else {
            return;
        };
        self.cursor.figures().bookmarks.inc();
        self.view.bookmark(revision, initial_end, lines);
    }

    fn send(&self, lines: Vec<u8>, events: usize) -> Bytes {
        self.berth.registered.sent(events, lines.len());
        self.cursor.figures().sent_bytes.add(lines.len() as u64);
        lines.into()
    }

    fn spoke(&mut self, now: Instant) {
        let vary = 1.0 - 0.1 * self.berth.jitter.next();
        self.bookmark_at = now + self.bookmark_interval.mul_f64(vary);
    }
}

/// What Kubernetes calls it; `None`: only of catching up, which is never asked for here.
fn event_type(delivery: &Delivery) -> Option<&'static str> {
    match delivery.kind {
        DeliveryKind::Existing | DeliveryKind::Added => Some("ADDED"),
        DeliveryKind::Modified => Some("MODIFIED"),
        DeliveryKind::Deleted(_) => Some("DELETED"),
        DeliveryKind::Unchanged | DeliveryKind::Upserted => None,
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.cursor.figures().close(self.closing);
    }
}
