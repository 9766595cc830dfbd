//! Watch: a cursor, a few timers, and what they become on the wire.
//!
//! The stream is pulled: the transport asks for the next response when the client's flow
//! control has room for it. Nothing is buffered here, and a reader that has stopped costs
//! a cursor.

use std::{sync::Arc, time::Duration};

use futures::{Stream, stream};
use listwatch::v1::{self, BookmarkKind, watch_request::Start};
use rand::Rng as _;
use tokio::{
    sync::watch as signal,
    time::{Instant, sleep_until},
};
use tonic::Status;

use super::{
    Responses, Service,
    request::{self, Consistency, Invalid},
    status, token, wire,
};
use crate::{
    hub::{Begin, CatchUp, Cursor, DeliveryMode, Position, StartPoint, Step},
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
        let watch = Watch {
            store: self.store().id(),
            cursor,
            shape,
            ends_at: Instant::now() + jittered_life(self.options.min_watch_life),
            quiet_since: Instant::now(),
            quiet_for: Duration::ZERO,
            coalesced: 0,
            going_away: self.going_away.clone(),
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

/// Spread over twice the time, so that watches opened together do not end together.
fn jittered_life(least: Duration) -> Duration {
    least.mul_f64(1.0 + rand::rng().random::<f64>())
}

/// What woke a waiting watch.
enum Wake {
    Changed,
    Bookmark,
    TimeIsUp,
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
            // Bookmarks of watches that were opened together drift apart.
            let vary = rand::rng().random_range(0.9..1.0);
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
            let step = self.cursor.step().await.map_err(status::hub)?;
            self.coalesced += step.coalesced;
            if let Some(response) = self.response(&step) {
                return Ok(response);
            }
            if now >= self.ends_at {
                return Ok(self.last(BookmarkKind::Progress));
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
                Wake::Changed | Wake::GoingAway => {}
                Wake::Bookmark => return Ok(self.only_bookmark(BookmarkKind::Progress)),
                Wake::TimeIsUp => return Ok(self.last(BookmarkKind::Progress)),
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
                if bookmark_at <= self.ends_at { Wake::Bookmark } else { Wake::TimeIsUp }
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
        let (view, previous) = (self.shape.view, self.shape.send_previous);
        let events = step
            .deliveries
            .iter()
            .map(|d| wire::event(d, view, previous))
            .collect();
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
