//! WatchMany: many watches on one stream.
//!
//! Each watch is a [`WatchFrames`] of its own, with its own cursor: one that is far behind
//! delays no other, and the end of one is not the stream's. Watches that want the same and have
//! come to the same point become one, whose responses are sent once for all of them.

use std::{
    collections::{HashMap, VecDeque},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker, ready},
};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{
    Stream, StreamExt as _,
    future::BoxFuture,
    stream::{FusedStream as _, FuturesUnordered},
};
use listwatch::v1::{self, watch_many_request::Kind};
use prost::Message as _;
use tonic::{Status, Streaming};

use super::{
    Service,
    connection::Connection,
    edge,
    frame::{self, PREFIX_BYTES},
    request::{self, Invalid},
    status,
    watch::Wants,
    watch_frames::WatchFrames,
};
use crate::{
    limits::{MAX_OPENING_WATCHES, MAX_WATCHES_PER_STREAM},
    seats::Seat,
    store::Revision,
    sync::{
        AtomicWaker, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// How often a watch is tried to be joined with another when it has caught up. Events that
/// come in between keep two apart for a moment; watches that nothing joins must not be
/// compared with each other for ever.
const JOIN_ATTEMPTS: u8 = 8;

/// Which members have something to do.
#[derive(Default)]
struct Ready {
    places: Mutex<VecDeque<usize>>,
    stream: AtomicWaker,
}

/// Wakes one member of a stream.
struct MemberWaker {
    place: usize,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for MemberWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.ready.places.lock().push_back(self.place);
            self.ready.stream.wake();
        }
    }
}

/// One watch, or several that have become one.
struct Member {
    ids: Vec<i64>,
    frames: WatchFrames,
    waker: Arc<MemberWaker>,
    /// See [`Kin`].
    wants: Option<Wants>,
    /// How often it is still tried to join it with another: at first, while it catches up.
    joins_left: u8,
}

/// Members that want the same.
#[derive(Default)]
struct Kin {
    places: Vec<usize>,
    /// One has caught up: perhaps with another.
    may_join: bool,
}

/// Where an open id stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Being opened, by the attempt of this number.
    Opening(u64),
    /// The member at this place.
    Open(usize),
}

/// An open id. Those that have become one are still as many watches to the limits.
struct OpenId {
    place: Place,
    _seat: Seat,
}

type Opening = BoxFuture<'static, (i64, u64, Result<WatchFrames, Status>)>;

/// A WatchMany stream as a stream of gRPC frames.
pub(crate) struct ManyFrames {
    service: Service,
    requests: Streaming<v1::WatchManyRequest>,
    /// The client sends no more requests; its watches go on.
    requests_ended: bool,
    opening: FuturesUnordered<Opening>,
    attempts: u64,
    /// Every open id.
    ids: HashMap<i64, OpenId>,
    members: Vec<Option<Member>>,
    free: Vec<usize>,
    ready: Arc<Ready>,
    kin: HashMap<Wants, Kin>,
    /// Those of whom some may be one by now.
    may_join: Vec<Wants>,
    /// Answers to requests, to be sent first.
    answers: VecDeque<Bytes>,
    /// Requests were taken since a watch had its turn.
    has_asked: bool,
    /// Completes when the server goes away.
    leaving: BoxFuture<'static, ()>,
    /// It takes no more watches: those that it has end, each at its time, and then it does.
    is_leaving: bool,
    connection: Arc<Connection>,
    ended: bool,
}

impl Service {
    pub(super) fn open_watches(
        &self,
        requests: Streaming<v1::WatchManyRequest>,
        connection: Arc<Connection>,
    ) -> Result<ManyFrames, Status> {
        if self.is_leaving() {
            return Err(status::leaving());
        }
        Ok(ManyFrames::new(self.clone(), requests, connection))
    }
}

impl ManyFrames {
    fn new(
        service: Service,
        requests: Streaming<v1::WatchManyRequest>,
        connection: Arc<Connection>,
    ) -> Self {
        let mut departure = service.departure.clone();
        let leaving = Box::pin(async move {
            // The sender's end comes with the server's.
            let _ = departure.wait_for(Option::is_some).await.map(drop);
        });
        Self {
            service,
            requests,
            requests_ended: false,
            opening: FuturesUnordered::new(),
            attempts: 0,
            ids: HashMap::new(),
            members: Vec::new(),
            free: Vec::new(),
            ready: Arc::default(),
            kin: HashMap::new(),
            may_join: Vec::new(),
            answers: VecDeque::new(),
            has_asked: false,
            leaving,
            is_leaving: false,
            connection,
            ended: false,
        }
    }

    /// The next frame, or the status that ends the stream.
    pub(super) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, Status>> {
        self.ready.stream.register(context.waker());
        if self.ended {
            return Poll::Ready(Err(Status::ok("")));
        }
        if self.connection.is_leaving() && !self.is_leaving {
            self.is_leaving = true;
            // The stream was woken; its watches were not.
            for member in self.members.iter().flatten() {
                member.waker.wake_by_ref();
            }
        }
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Poll::Ready(Ok(answer));
            }
            // Whoever asks without a pause must not keep events from its own watches.
            if std::mem::take(&mut self.has_asked)
                && let Some(frame) = self.poll_members()
            {
                return Poll::Ready(Ok(frame));
            }
            let asked = match self.poll_requests(context) {
                Ok(asked) => asked,
                Err(status) => {
                    self.ended = true;
                    return Poll::Ready(Err(status));
                }
            };
            self.has_asked = asked;
            if asked | self.poll_opening(context) {
                continue;
            }
            if let Some(frame) = self.poll_members() {
                return Poll::Ready(Ok(frame));
            }
            if let Some(wants) = self.may_join.pop() {
                self.join_alike(wants);
                continue;
            }
            self.is_leaving = self.is_leaving || self.leaving.as_mut().poll(context).is_ready();
            if (self.requests_ended || self.is_leaving) && self.ids.is_empty() {
                self.ended = true;
                return Poll::Ready(Err(Status::ok("")));
            }
            return Poll::Pending;
        }
    }

    /// Takes requests as they come; true if there were any.
    fn poll_requests(&mut self, context: &mut Context<'_>) -> Result<bool, Status> {
        let mut any = false;
        while !self.requests_ended && self.has_room() {
            match self.requests.poll_next_unpin(context) {
                Poll::Pending => break,
                Poll::Ready(None) => self.requests_ended = true,
                Poll::Ready(Some(request)) => {
                    any = true;
                    let limit = self.service.options.max_request_bytes();
                    let request = request.map_err(|status| edge::explained(status, limit))?;
                    self.take(request)?;
                }
            }
        }
        Ok(any)
    }

    /// What a client asks is answered before it may ask more.
    fn has_room(&self) -> bool {
        self.opening.len() < MAX_OPENING_WATCHES && self.answers.len() < MAX_OPENING_WATCHES
    }

    fn take(&mut self, request: v1::WatchManyRequest) -> Result<(), Status> {
        let id = request.watch_id;
        match request.kind {
            None => Err(status::invalid(Invalid::new(
                "kind",
                "is required: watch, cancel or bookmark",
            ))),
            Some(Kind::Watch(watch)) => self.open(id, watch),
            // Of a watch that is not open: it may just have ended.
            Some(Kind::Cancel(_)) => {
                self.cancel(id);
                Ok(())
            }
            Some(Kind::Bookmark(_)) => {
                let bookmark = self.member(id).and_then(|m| m.frames.bookmark_now());
                if let Some(bookmark) = bookmark {
                    self.answers.push_back(many(&[id], &bookmark, None));
                }
                Ok(())
            }
        }
    }

    fn open(&mut self, id: i64, watch: v1::WatchRequest) -> Result<(), Status> {
        if self.ids.contains_key(&id) {
            let problem = format!("{id} is open on this stream already");
            return Err(status::invalid(Invalid::new("watch_id", problem)));
        }
        let (open, limit) = (self.ids.len() + 1, MAX_WATCHES_PER_STREAM);
        request::at_most("watch_id", "watches on one stream", open, limit)
            .map_err(status::invalid)?;
        let leaving = self.is_leaving.then(status::leaving);
        let seat = leaving.map_or_else(
            || Ok(self.service.watches.seat(self.connection.peer())?),
            Err,
        );
        let seat = match seat {
            Ok(seat) => seat,
            // It is this watch that cannot be, not the stream.
            Err(status) => {
                self.service.rpcs.refuse_watch(&status);
                let end = status::watch_end(&status);
                self.answers
                    .push_back(many(&[id], &Bytes::new(), Some(end)));
                return Ok(());
            }
        };
        self.attempts += 1;
        let attempt = self.attempts;
        let place = Place::Opening(attempt);
        self.ids.insert(id, OpenId { place, _seat: seat });
        let (service, connection) = (self.service.clone(), self.connection.clone());
        self.opening.push(Box::pin(async move {
            let opened = service.open_watch(watch, connection).await;
            (id, attempt, opened)
        }));
        Ok(())
    }

    fn member(&mut self, id: i64) -> Option<&mut Member> {
        match self.ids.get(&id)?.place {
            Place::Opening(_) => None,
            Place::Open(place) => self.members.get_mut(place)?.as_mut(),
        }
    }

    fn cancel(&mut self, id: i64) {
        let member = self.member(id);
        let bookmark = member.and_then(|member| member.frames.bookmark_now());
        let Some(OpenId { place, .. }) = self.ids.remove(&id) else {
            return;
        };
        let end = v1::WatchEnd::default();
        self.answers
            .push_back(many(&[id], &bookmark.unwrap_or_default(), Some(end)));
        if let Place::Open(place) = place
            && let Some(member) = self.members.get_mut(place).and_then(Option::as_mut)
        {
            member.ids.retain(|known| *known != id);
            member.frames.stands_for(member.ids.len());
            if member.ids.is_empty() {
                self.remove(place);
            }
        }
    }

    fn remove(&mut self, place: usize) {
        if let Some(member) = self.members.get_mut(place).and_then(Option::take) {
            for id in member.ids {
                self.ids.remove(&id);
            }
            self.free.push(place);
            if let Some(wants) = member.wants
                && let Some(kin) = self.kin.get_mut(&wants)
            {
                kin.places.retain(|known| *known != place);
                if kin.places.is_empty() {
                    self.kin.remove(&wants);
                }
            }
        }
    }

    /// Takes in watches that are open now; true if there were any.
    fn poll_opening(&mut self, context: &mut Context<'_>) -> bool {
        let mut any = false;
        while !self.opening.is_terminated() {
            let Poll::Ready(Some(opened)) = self.opening.poll_next_unpin(context) else {
                break;
            };
            any = true;
            let (id, attempt, opened) = opened;
            // It may have been cancelled meanwhile, and even opened anew.
            let Some(open) = self.ids.get_mut(&id) else {
                continue;
            };
            if open.place != Place::Opening(attempt) {
                continue;
            }
            match opened {
                Ok(frames) => {
                    let place = self.free.pop().unwrap_or(self.members.len());
                    open.place = Place::Open(place);
                    self.insert(place, id, frames);
                }
                Err(status) => {
                    self.ids.remove(&id);
                    self.service.rpcs.refuse_watch(&status);
                    let end = status::watch_end(&status);
                    self.answers
                        .push_back(many(&[id], &Bytes::new(), Some(end)));
                }
            }
        }
        any
    }

    fn insert(&mut self, place: usize, id: i64, frames: WatchFrames) {
        let waker = Arc::new(MemberWaker {
            place,
            queued: AtomicBool::new(false),
            ready: self.ready.clone(),
        });
        waker.wake_by_ref();
        let wants = frames.wants();
        if let Some(wants) = wants {
            self.kin.entry(wants).or_default().places.push(place);
        }
        let member = Member {
            wants,
            ids: vec![id],
            frames,
            waker,
            joins_left: JOIN_ATTEMPTS,
        };
        if place == self.members.len() {
            self.members.push(Some(member));
        } else {
            self.members[place] = Some(member);
        }
    }

    /// The next frame of a member that has one.
    fn poll_members(&mut self) -> Option<Bytes> {
        loop {
            let place = self.ready.places.lock().pop_front()?;
            let Some(member) = self.members.get_mut(place).and_then(Option::as_mut) else {
                continue;
            };
            member.waker.queued.store(false, Ordering::Release);
            let waker = Waker::from(member.waker.clone());
            match member.frames.poll_frame(&mut Context::from_waker(&waker)) {
                Poll::Pending => {
                    // It has caught up: perhaps with another that wants the same.
                    if member.joins_left > 0
                        && let Some(wants) = member.wants
                        && let Some(kin) = self.kin.get_mut(&wants)
                        && kin.places.len() > 1
                    {
                        member.joins_left -= 1;
                        if !std::mem::replace(&mut kin.may_join, true) {
                            self.may_join.push(wants);
                        }
                    }
                }
                Poll::Ready(Ok(frame)) => {
                    // It may have more; the others first.
                    member.waker.wake_by_ref();
                    return Some(many(&member.ids, &frame::message(&frame), None));
                }
                Poll::Ready(Err(status)) => {
                    let end = status::watch_end(&status);
                    let frame = many(&member.ids, &Bytes::new(), Some(end));
                    self.remove(place);
                    return Some(frame);
                }
            }
        }
    }

    /// Makes one of watches that want the same and stand at the same point.
    fn join_alike(&mut self, wants: Wants) {
        let Some(kin) = self.kin.get_mut(&wants) else {
            return;
        };
        kin.may_join = false;
        let mut standing: HashMap<Revision, usize> = HashMap::new();
        let (members, ids, free) = (&mut self.members, &mut self.ids, &mut self.free);
        kin.places.retain(|place| {
            let Some(member) = &mut members[*place] else {
                return false;
            };
            let Some(position) = member.frames.rests_at() else {
                return true;
            };
            let Some(first) = standing.get(&position).copied() else {
                standing.insert(position, *place);
                return true;
            };
            member.frames.joined();
            let joined = std::mem::take(&mut member.ids);
            members[*place] = None;
            free.push(*place);
            for id in &joined {
                if let Some(open) = ids.get_mut(id) {
                    open.place = Place::Open(first);
                }
            }
            if let Some(first) = &mut members[first] {
                first.ids.extend(joined);
                first.frames.stands_for(first.ids.len());
            }
            false
        });
    }
}

/// A `WatchManyResponse` as a gRPC frame, around an encoded `WatchResponse`.
fn many(ids: &[i64], response: &Bytes, end: Option<v1::WatchEnd>) -> Bytes {
    let outer = v1::WatchManyResponse {
        watch_ids: ids.to_vec(),
        response: None,
        end,
    };
    let length = outer.encoded_len() + response.len() + 16;
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.put_bytes(0, PREFIX_BYTES);
    // A BytesMut grows: there is always room.
    let _ = outer.encode(&mut frame);
    if !response.is_empty() {
        // Field 2, length-delimited.
        frame.put_u8(0x12);
        let _ = prost::encode_length_delimiter(response.len(), &mut frame);
        frame.put_slice(response);
    }
    frame::seal(frame)
}

/// The frames as messages, for callers that are no HTTP transport.
impl Stream for ManyFrames {
    type Item = Result<v1::WatchManyResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let frame = ready!(self.poll_frame(context));
        Poll::Ready(frame::decoded(frame))
    }
}
