//! Watch: a cursor, a few timers, and what they become on the wire.
//!
//! The stream is pulled: the transport asks for the next response when the client's flow
//! control has room for it. Nothing is buffered here, and a reader that has stopped costs
//! a cursor.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{Stream, stream};
use listwatch::v1::{self, BookmarkKind, watch_request::Start};
use tokio::{
    sync::watch as signal,
    time::{Instant, sleep_until},
};
use tonic::Status;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    Responses, Service,
    request::{self, Consistency, Invalid},
    status, token, wire,
};
use crate::{
    hub::{
        Begin, CatchUp, Cursor, Delivery, DeliveryKind, DeliveryMode, Position, StartPoint, Step,
    },
    limits::{MAX_BATCH_DELAY, MAX_BOOKMARK_INTERVAL, MAX_TOKEN_BYTES, MIN_BOOKMARK_INTERVAL},
    store::StoreId,
};

/// How a watch's responses look and when they come.
struct Shape {
    view: v1::View,
    send_previous: bool,
    bookmark_interval: Duration,
    max_batch_delay: Duration,
    /// End after the initial state.
    initial_only: bool,
    /// What a response may hold: see [`Shape::events`].
    max_response_bytes: usize,
}

impl Shape {
    /// A step's events. One revision is never split, and its deletions and previous
    /// versions can be far larger than what was sent to make it: rather than a message that
    /// the client refuses, again and again, it gets one without the previous versions, or
    /// even without the values of what is deleted.
    fn events(&self, step: &Step) -> Vec<v1::WatchEvent> {
        let previous = |d: &Delivery| d.previous.as_ref().map_or(0, |p| p.content.value.len());
        let objects: usize = step
            .deliveries
            .iter()
            .map(|d| d.object.content.value.len())
            .sum();
        let whole = objects + step.deliveries.iter().map(previous).sum::<usize>();
        let with_previous = self.send_previous && whole <= self.max_response_bytes;
        let with_values = objects <= self.max_response_bytes;
        let event = |delivery: &Delivery| {
            let gone = matches!(delivery.kind, DeliveryKind::Deleted(_));
            let view = match self.view {
                v1::View::Unspecified | v1::View::Full if gone && !with_values => {
                    v1::View::Metadata
                }
                view => view,
            };
            wire::event(delivery, view, with_previous)
        };
        step.deliveries.iter().map(event).collect()
    }
}

impl Service {
    pub(super) async fn open_watch(
        &self,
        request: v1::WatchRequest,
    ) -> Result<Responses<v1::WatchResponse>, Status> {
        let shape = self.shape(&request).map_err(status::invalid)?;
        let mode = delivery_mode(request.delivery_mode).map_err(status::invalid)?;
        let catch_up = catch_up(request.catch_up).map_err(status::invalid)?;
        let selector = request::selector(request.selector, &self.options.fields);
        let selector = Arc::new(selector.map_err(status::invalid)?);
        let start = self
            .start_point(request.start, catch_up, selector.hash())
            .await?;
        if *self.going_away.borrow() {
            return Err(status::not_ready("the server is going away"));
        }
        let cursor = self
            .hub
            .watch(selector, start, mode)
            .await
            .map_err(status::hub)?;
        let mut jitter = Jitter(match self.options.seed {
            Some(seed) => seed ^ self.watches_opened.fetch_add(1, Ordering::Relaxed) << 32,
            None => rand::random(),
        });
        let watch = Watch {
            store: self.store().id(),
            cursor,
            shape,
            ends_at: Instant::now() + self.options.min_watch_life.mul_f64(1.0 + jitter.next()),
            quiet_since: Instant::now(),
            quiet_for: Duration::ZERO,
            coalesced: 0,
            going_away: self.going_away.clone(),
            jitter,
            over: false,
        };
        Ok(Box::pin(watch.into_stream()))
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
            view: request::view(request.view)?,
            send_previous: request.send_previous,
            bookmark_interval: bookmark_interval
                .clamp(MIN_BOOKMARK_INTERVAL, MAX_BOOKMARK_INTERVAL),
            max_batch_delay,
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
                let damaged = token::TokenError::Damaged;
                let read = if text.len() > MAX_TOKEN_BYTES {
                    Err(damaged)
                } else {
                    token::read_resume_token(&text, store, selector)
                };
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

/// Random numbers that spread watches over time, so that those opened together neither end
/// nor speak together. Eight bytes, since there is one for each watch.
struct Jitter(u64);

impl Jitter {
    /// The next one, in `0.0..1.0`.
    fn next(&mut self) -> f64 {
        self.0 = xxh3_64(&self.0.to_le_bytes());
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What woke a waiting watch.
enum Wake {
    Changed,
    /// It is time for a bookmark or for the end.
    Due,
    GoingAway,
    Stopped,
}

struct Watch {
    store: StoreId,
    cursor: Cursor,
    shape: Shape,
    /// When the watch ends to spread clients again.
    ends_at: Instant,
    /// When the last response was given.
    quiet_since: Instant,
    /// How long to stay silent from then on: the bookmark interval, a little varied.
    quiet_for: Duration,
    /// Changes left out since the last bookmark.
    coalesced: u64,
    going_away: signal::Receiver<bool>,
    jitter: Jitter,
    /// The last response has been given.
    over: bool,
}

impl Watch {
    fn into_stream(self) -> impl Stream<Item = Result<v1::WatchResponse, Status>> + Send {
        stream::unfold(self, |mut watch| async move {
            if watch.over {
                return None;
            }
            let response = watch.next().await;
            watch.over |= response.is_err();
            watch.quiet_since = Instant::now();
            let vary = 1.0 - 0.1 * watch.jitter.next();
            watch.quiet_for = watch.shape.bookmark_interval.mul_f64(vary);
            Some((response, watch))
        })
    }

    /// The next response: what there is to deliver, or a bookmark when it is time.
    async fn next(&mut self) -> Result<v1::WatchResponse, Status> {
        let mut held_back = false;
        loop {
            if *self.going_away.borrow() {
                return Ok(self.last(BookmarkKind::GoingAway));
            }
            let now = Instant::now();
            // Also for one that never rests; what it has still to get, it gets next time.
            if now >= self.ends_at && self.cursor.position().is_some() {
                return Ok(self.last(BookmarkKind::Progress));
            }
            let step = self.cursor.step().await.map_err(status::hub)?;
            self.coalesced += step.coalesced;
            if let Some(response) = self.response(&step) {
                return Ok(response);
            }
            if now >= self.quiet_since + self.quiet_for {
                return Ok(self.only_bookmark(BookmarkKind::Progress));
            }
            if !step.idle {
                // Much was read and nothing matched: let others run.
                tokio::task::yield_now().await;
                continue;
            }
            match self.wait().await {
                Wake::Changed if !held_back && !self.shape.max_batch_delay.is_zero() => {
                    held_back = true;
                    self.hold_back().await;
                }
                // What is due is found at the next turn, after another step: a bookmark
                // says where the store is now, not where it was an interval ago.
                Wake::Changed | Wake::GoingAway | Wake::Due => {}
                Wake::Stopped => {
                    return Err(status::not_ready("the server is not taking up changes"));
                }
            }
        }
    }

    async fn wait(&mut self) -> Wake {
        let bookmark_at = self.quiet_since + self.quiet_for;
        tokio::select! {
            biased;
            gone = self.going_away.wait_for(|gone| *gone) => {
                // The sender is gone with the server.
                if gone.is_ok() { Wake::GoingAway } else { Wake::Stopped }
            }
            changed = self.cursor.changed() => {
                if changed.is_ok() { Wake::Changed } else { Wake::Stopped }
            }
            () = sleep_until(bookmark_at.min(self.ends_at)) => {
                Wake::Due
            }
        }
    }

    /// Gives more events the time to come, as the client asked.
    async fn hold_back(&mut self) {
        let until = Instant::now() + self.shape.max_batch_delay;
        tokio::select! {
            () = sleep_until(until.min(self.ends_at)) => {}
            _ = self.going_away.wait_for(|gone| *gone) => {}
        }
    }

    /// A step as a response; `None` if it has nothing to say.
    fn response(&mut self, step: &Step) -> Option<v1::WatchResponse> {
        if step.deliveries.is_empty() && step.begins.is_none() && !step.completes {
            return None;
        }
        let events = self.shape.events(step);
        let kind = match (step.begins, step.completes) {
            (_, true) => BookmarkKind::InitialStateEnd,
            (Some(Begin::InitialState), _) => BookmarkKind::InitialStateBegin,
            (Some(Begin::Resumed), _) => BookmarkKind::Resumed,
            (Some(Begin::NetDifference), _) => BookmarkKind::NetBegin,
            (Some(Begin::Manifest), _) => BookmarkKind::ManifestBegin,
            (None, false) => BookmarkKind::Progress,
        };
        self.over |= step.completes && self.shape.initial_only;
        // Midway through an initial state there is no position to promise.
        let promises = kind != BookmarkKind::Progress || self.cursor.position().is_some();
        let bookmark = promises.then(|| self.bookmark(kind));
        Some(v1::WatchResponse { events, bookmark })
    }

    fn only_bookmark(&mut self, kind: BookmarkKind) -> v1::WatchResponse {
        v1::WatchResponse {
            events: Vec::new(),
            bookmark: Some(self.bookmark(kind)),
        }
    }

    fn last(&mut self, kind: BookmarkKind) -> v1::WatchResponse {
        self.over = true;
        self.only_bookmark(kind)
    }

    /// A promise for the cursor's position; without one (midway through an initial
    /// state), revision 0 and no token: nothing is promised yet.
    fn bookmark(&mut self, kind: BookmarkKind) -> v1::Bookmark {
        let position = self.cursor.position();
        let hash = self.cursor.selector().hash();
        let latest = self.cursor.latest();
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
