//! Watch: a cursor, a few timers, and what they become on the wire.
//!
//! The stream is pulled: the transport asks for the next response when the client's flow
//! control has room for it. Nothing is buffered here, and a reader that has stopped costs
//! a cursor.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use listwatch::v1::{self, BookmarkKind, watch_request::Start};
use tokio::time::Instant;
use tonic::Status;

use super::{
    Service, account,
    berth::Berth,
    connection::Connection,
    frame::{Look, WatchFrame},
    request::{self, Consistency, Invalid},
    status, token,
    watch_frames::{Next, Pulled, WatchFrames, closed_by},
};
use crate::{
    clock::Clock,
    hub::{
        Backlog, Begin, CatchUp, Closing, Cursor, Delivery, DeliveryMode, HubError, Position,
        StartPoint, Step,
    },
    limits::{MAX_BATCH_DELAY, MAX_BOOKMARK_INTERVAL, MIN_BOOKMARK_INTERVAL},
    store::{Revision, StoreId},
};

/// How a watch's responses look and when they come.
struct Shape {
    look: Look,
    bookmark_interval: Duration,
    max_batch_delay: Duration,
    /// End after the initial state.
    initial_only: bool,
    /// What the client takes when it comes back.
    catch_up: CatchUp,
    /// What a response may hold: see [`Shape::look_at`].
    max_response_bytes: usize,
}

impl Shape {
    /// How a step's deliveries are shown. One revision is never split, and its deletions
    /// and previous versions can be far larger than what was sent to make it: rather than a
    /// message that the client refuses, again and again, it gets one without the previous
    /// versions, or even without the values of what is deleted.
    fn look_at(&self, deliveries: &[Delivery]) -> Look {
        let objects = deliveries.iter().map(|d| d.object.content.value.len());
        let objects: usize = objects.sum();
        let mut look = self.look;
        if look.previous {
            let previous = |d: &Delivery| d.previous.as_ref().map_or(0, |p| p.content.value.len());
            let whole = objects + deliveries.iter().map(previous).sum::<usize>();
            look.previous = whole <= self.max_response_bytes;
        }
        look.deleted_values = objects <= self.max_response_bytes;
        look
    }
}

impl Service {
    pub(super) async fn open_watch(
        &self,
        request: v1::WatchRequest,
        connection: Arc<Connection>,
    ) -> Result<WatchFrames, Status> {
        let shape = self.shape(&request).map_err(status::invalid)?;
        let mode = delivery_mode(request.delivery_mode).map_err(status::invalid)?;
        let selector = request::selector(request.selector, &self.options.fields);
        let selector = Arc::new(selector.map_err(status::invalid)?);
        let start = self
            .start_point(request.start, shape.catch_up, selector.hash())
            .await?;
        if self.is_leaving() {
            return Err(status::leaving());
        }
        let cursor = self
            .hub
            .watch(selector, start, mode)
            .await
            .map_err(status::hub)?;
        let mut berth = self.berth(&cursor, shape.look.view, connection);
        let now = Instant::now();
        let watch = Watch {
            store: self.store().id(),
            cursor,
            ends_at: now
                + self
                    .options
                    .min_watch_life
                    .mul_f64(1.0 + berth.jitter.next()),
            bookmark_at: now + shape.bookmark_interval,
            shape,
            held_until: None,
            has_waited: false,
            catching_up: false,
            coalesced: 0,
            berth,
            ending: None,
            in_step: false,
            closing: Closing::default(),
            clock: self.options.clock.clone(),
        };
        Ok(WatchFrames::new(watch))
    }

    fn shape(&self, request: &v1::WatchRequest) -> Result<Shape, Invalid> {
        let bookmark_interval = match request.bookmark_interval {
            None => self.options.bookmark_interval,
            Some(interval) => match request::duration("bookmark_interval", interval)? {
                Duration::ZERO => {
                    return Err(Invalid::new("bookmark_interval", "must be positive"));
                }
                interval => interval,
            },
        };
        let max_batch_delay = match request.max_batch_delay {
            None => Duration::ZERO,
            Some(delay) => request::duration("max_batch_delay", delay)?.min(MAX_BATCH_DELAY),
        };
        Ok(Shape {
            look: Look {
                view: request::view(request.view)?,
                previous: request.send_previous,
                deleted_values: true,
            },
            bookmark_interval: bookmark_interval
                .clamp(MIN_BOOKMARK_INTERVAL, MAX_BOOKMARK_INTERVAL),
            max_batch_delay,
            catch_up: catch_up(request.catch_up)?,
            initial_only: matches!(&request.start, Some(Start::InitialState(s)) if s.only),
            max_response_bytes: self.options.max_request_bytes(),
        })
    }

    async fn start_point(
        &self,
        start: Option<Start>,
        catch_up: CatchUp,
        selector: u64,
    ) -> Result<StartPoint, Status> {
        match start {
            None => {
                self.reach(Consistency::Linearizable).await?;
                Ok(StartPoint::InitialState)
            }
            Some(Start::InitialState(initial)) => {
                let wanted = request::consistency(initial.consistency)
                    .map_err(|e| status::invalid(e.within("initial_state")))?;
                if let Consistency::Exactly(_) = wanted {
                    let field = "initial_state.consistency.exact_revision";
                    let problem = "cannot be asked of a watch: list at that revision and \
                                   watch from the list's resume_token";
                    return Err(status::invalid(Invalid::new(field, problem)));
                }
                self.reach(wanted).await?;
                Ok(StartPoint::InitialState)
            }
            Some(Start::ResumeToken(text)) => {
                let store = self.store().id();
                let read = token::read_resume_token(&text, store, selector);
                let position =
                    read.map_err(|error| status::token(&error, "resume_token", store))?;
                Ok(StartPoint::After(position, catch_up))
            }
            Some(Start::AfterRevision(number)) => {
                let revision = request::positive_revision("after_revision", number);
                let revision = revision.map_err(status::invalid)?;
                Ok(StartPoint::After(Position::settled(revision), catch_up))
            }
            Some(Start::Now(true)) => Ok(StartPoint::Now),
            Some(Start::Now(false)) => Err(status::invalid(Invalid::new(
                "now",
                "must be true where it is set",
            ))),
        }
    }
}

fn delivery_mode(number: i32) -> Result<DeliveryMode, Invalid> {
    match v1::DeliveryMode::try_from(number) {
        Ok(v1::DeliveryMode::Unspecified | v1::DeliveryMode::EveryChange) => {
            Ok(DeliveryMode::EveryChange)
        }
        Ok(v1::DeliveryMode::Latest) => Ok(DeliveryMode::Latest),
        Err(_) => Err(request::unknown_enum("delivery_mode", number)),
    }
}

fn catch_up(number: i32) -> Result<CatchUp, Invalid> {
    match v1::CatchUp::try_from(number) {
        Ok(v1::CatchUp::Unspecified | v1::CatchUp::Net) => Ok(CatchUp::Net),
        Ok(v1::CatchUp::Exact) => Ok(CatchUp::Exact),
        Err(_) => Err(request::unknown_enum("catch_up", number)),
    }
}

/// How a watch ends.
#[derive(Debug)]
enum Ending {
    Well,
    /// Its client reads too slowly.
    TooSlow(Backlog),
}

impl Ending {
    fn status(&self) -> Status {
        match self {
            Self::Well => Status::ok(""),
            Self::TooSlow(backlog) => status::watch_too_slow(*backlog),
        }
    }
}

/// What a watch wants. Those that want the same can be one, once they stand at the same point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Wants {
    selector: u64,
    latest_only: bool,
    exact: bool,
    view: v1::View,
    previous: bool,
    bookmark_interval: Duration,
}

/// A watch as a state machine: everything that it holds while it waits.
pub(crate) struct Watch {
    store: StoreId,
    pub(super) cursor: Cursor,
    shape: Shape,
    /// When the watch ends to spread clients again.
    ends_at: Instant,
    /// When the next bookmark is due, if nothing is sent before: the bookmark interval
    /// after the last response, a little varied.
    pub(super) bookmark_at: Instant,
    /// Events are held back until then, as the client asked.
    pub(super) held_until: Option<Instant>,
    /// It has waited since the last response: what comes next may be held back.
    has_waited: bool,
    /// It has resumed, and has not yet said that it has caught up.
    catching_up: bool,
    /// Changes left out since the last bookmark.
    coalesced: u64,
    pub(super) berth: Berth,
    /// How it ends, once the last response has been given.
    ending: Option<Ending>,
    /// It has had everything at some moment, so that what comes late now is late.
    in_step: bool,
    /// Why it ends, if it ends now.
    pub(super) closing: Closing,
    clock: Clock,
}

impl Pulled for Watch {
    type End = Status;

    fn cursor(&mut self) -> &mut Cursor {
        &mut self.cursor
    }

    fn wakes_first_at(&self) -> Instant {
        self.bookmark_at
    }

    fn leaves_at(&self, now: Instant) -> Option<Instant> {
        self.berth.leaves_at(now).map(|(at, _)| at)
    }

    fn is_held_back(&self) -> bool {
        self.held_until.is_some()
    }

    fn over() -> Status {
        Status::ok("")
    }

    fn failed(&mut self, error: HubError) -> Next<Status> {
        self.ending = Some(Ending::Well);
        self.closing = closed_by(&error);
        Next::End(status::hub(error))
    }

    fn next(&mut self) -> Next<Status> {
        if let Some(ending) = &self.ending {
            return Next::End(ending.status());
        }
        let now = Instant::now();
        if let Some((_, why)) = self.berth.leaves_at(now).filter(|(at, _)| now >= *at) {
            self.closing = why;
            return Next::Frame(self.last(BookmarkKind::GoingAway, Ending::Well));
        }
        if self.cursor.is_stopped() {
            self.closing = Closing::Stopped;
            let status = status::not_ready("the server is not taking up changes");
            return Next::End(status);
        }
        // Also for one that never rests; what it has still to get, it gets next time.
        if now >= self.ends_at && self.cursor.position().is_some() {
            self.closing = Closing::Lifetime;
            return Next::Frame(self.last(BookmarkKind::Progress, Ending::Well));
        }
        if let Some(backlog) = self.hopeless() {
            self.closing = Closing::Slow;
            return Next::Frame(self.last(BookmarkKind::Progress, Ending::TooSlow(backlog)));
        }
        if let Some(until) = self.hold_back(now) {
            return Next::Wait(until);
        }
        match self.cursor.try_step() {
            Some(step) => self.take(&step, now),
            None => Next::Read,
        }
    }

    fn take(&mut self, step: &Step, now: Instant) -> Next<Status> {
        self.coalesced += step.coalesced;
        self.cursor.figures().coalesced.add(step.coalesced);
        self.in_step |= step.idle;
        if !step.deliveries.is_empty() || step.begins.is_some() || step.completes {
            return Next::Frame(self.response(step));
        }
        // A client that has come back is stale until it hears that nothing is missing.
        let caught_up = step.idle && std::mem::take(&mut self.catching_up);
        if caught_up || now >= self.bookmark_at {
            return Next::Frame(self.only_bookmark(BookmarkKind::Progress));
        }
        if step.idle {
            self.has_waited = true;
        }
        Next::Wait(self.bookmark_at.min(self.ends_at))
    }
}

impl Watch {
    /// What it has still to get, if that is too much for its client.
    fn hopeless(&self) -> Option<Backlog> {
        // One that has asked for every change since long ago gets it, once.
        let is_spared = self.shape.catch_up == CatchUp::Exact && !self.in_step;
        let coalesces = self.cursor.mode() == DeliveryMode::Latest;
        match is_spared || coalesces {
            true => None,
            false => self.cursor.too_far_behind(),
        }
    }

    /// `None`: it is never one with another.
    pub(super) fn wants(&self) -> Option<Wants> {
        let plain = self.shape.max_batch_delay.is_zero() && !self.shape.initial_only;
        plain.then(|| Wants {
            selector: self.cursor.selector().hash(),
            latest_only: self.cursor.mode() == DeliveryMode::Latest,
            exact: self.shape.catch_up == CatchUp::Exact,
            view: self.shape.look.view,
            previous: self.shape.look.previous,
            bookmark_interval: self.shape.bookmark_interval,
        })
    }

    /// Where it stands, if nothing is due and nothing is left to deliver.
    pub(super) fn rests_at(&mut self) -> Option<Revision> {
        if self.ending.is_some() || self.catching_up || self.coalesced > 0 {
            return None;
        }
        self.cursor.rest()
    }

    /// Until when events are held back, if they are.
    fn hold_back(&mut self, now: Instant) -> Option<Instant> {
        if self.shape.max_batch_delay.is_zero() || !self.has_waited {
            return None;
        }
        let until = match self.held_until {
            Some(until) => until,
            None if self.cursor.has_news() => {
                *self.held_until.insert(now + self.shape.max_batch_delay)
            }
            None => return None,
        };
        (now < until && now < self.ends_at).then(|| until.min(self.ends_at))
    }

    /// Something has been sent.
    fn sent(&mut self) {
        // Bookmarks of watches that were opened together drift apart.
        let vary = 1.0 - 0.1 * self.berth.jitter.next();
        self.bookmark_at = Instant::now() + self.shape.bookmark_interval.mul_f64(vary);
        self.has_waited = false;
        self.held_until = None;
    }

    fn response(&mut self, step: &Step) -> Bytes {
        let look = self.shape.look_at(&step.deliveries);
        let mut frame = WatchFrame::new(&step.deliveries, look);
        self.in_step &= step.begins.is_none();
        account::sent(&self.cursor, step, self.in_step, &self.clock);
        let kind = match (step.begins, step.completes) {
            (_, true) => BookmarkKind::InitialStateEnd,
            (Some(Begin::InitialState), _) => BookmarkKind::InitialStateBegin,
            (Some(Begin::Resumed), _) => BookmarkKind::Resumed,
            (Some(Begin::NetDifference), _) => BookmarkKind::NetBegin,
            (Some(Begin::Manifest), _) => BookmarkKind::ManifestBegin,
            (None, false) => BookmarkKind::Progress,
        };
        if step.completes && self.shape.initial_only {
            self.ending = Some(Ending::Well);
            self.closing = Closing::Complete;
        }
        self.catching_up |= kind == BookmarkKind::Resumed;
        // Midway through an initial state there is no position to promise.
        if kind != BookmarkKind::Progress || self.cursor.position().is_some() {
            frame.bookmark(self.bookmark(kind));
        }
        self.sent();
        self.finish(frame, step.deliveries.len())
    }

    fn finish(&self, frame: WatchFrame, events: usize) -> Bytes {
        let frame = frame.finish();
        self.berth.registered.sent(events, frame.len());
        self.cursor.figures().sent_bytes.add(frame.len() as u64);
        frame
    }

    pub(super) fn only_bookmark(&mut self, kind: BookmarkKind) -> Bytes {
        let mut frame = WatchFrame::new(&[], self.shape.look);
        frame.bookmark(self.bookmark(kind));
        self.sent();
        self.finish(frame, 0)
    }

    fn last(&mut self, kind: BookmarkKind, ending: Ending) -> Bytes {
        self.ending = Some(ending);
        self.only_bookmark(kind)
    }

    /// A promise for the cursor's position; without one (midway through an initial
    /// state), revision 0 and no token: nothing is promised yet.
    fn bookmark(&mut self, kind: BookmarkKind) -> v1::Bookmark {
        self.cursor.figures().bookmarks.inc();
        let mut position = self.cursor.position();
        let hash = self.cursor.selector().hash();
        let latest = self.cursor.latest();
        if let (Some(Ending::TooSlow(_)), CatchUp::Net) = (&self.ending, self.shape.catch_up)
            && let Some(position) = &mut position
        {
            // The client is to come back for the net difference up to here, not for every
            // change.
            position.settles_at = position.settles_at.max(latest);
        }
        v1::Bookmark {
            revision: position.map_or(0, |p| p.revision.to_wire()),
            resume_token: position
                .map(|p| token::resume_token(self.store, p, hash))
                .unwrap_or_default(),
            kind: kind.into(),
            latest_revision: latest
                .max(position.map(|p| p.revision).unwrap_or_default())
                .to_wire(),
            coalesced_count: std::mem::take(&mut self.coalesced) as i64,
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.cursor.figures().close(self.closing);
    }
}
