//! Clients that watch: they keep a copy by the API's rules, leave and come back, and record
//! every response.

use std::sync::{Arc, atomic::Ordering};

use listwatch::v1::{self, CatchUp, DeliveryMode, watch_request::Start};
use tonic::Code;

use super::{
    load::COLLECTION,
    record::{Record, raw},
};
use crate::harness::dice::Dice;
use crate::{
    harness::{PATIENCE, everything, labelled, millis},
    validator::{Copy, End, Recording},
};

/// What a watch asks for.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: &'static str,
    selector: v1::Selector,
    mode: DeliveryMode,
    catch_up: CatchUp,
    send_previous: bool,
}

/// Several selectors, both ways of delivery, both ways of catching up.
pub fn specs() -> Vec<Spec> {
    let all = everything(COLLECTION);
    let some = v1::Selector {
        name_prefix: "o1".into(),
        ..all.clone()
    };
    let web = labelled(COLLECTION, "app", "web");
    let (every, latest) = (DeliveryMode::EveryChange, DeliveryMode::Latest);
    let (net, exact) = (CatchUp::Net, CatchUp::Exact);
    let spec = |name, selector, mode, catch_up, send_previous| Spec {
        name,
        selector,
        mode,
        catch_up,
        send_previous,
    };
    vec![
        spec("all", all.clone(), every, net, true),
        spec("web", web.clone(), every, net, false),
        spec("some", some, every, net, true),
        spec("latest", all.clone(), latest, net, false),
        spec("latest web", web, latest, net, false),
        spec("exact", all, every, exact, false),
    ]
}

/// A client, from one stream to the next.
pub struct Follower {
    pub spec: Spec,
    pub copy: Copy,
    dice: Dice,
}

impl Follower {
    pub fn new(spec: Spec, seed: u64) -> Self {
        Self {
            spec,
            copy: Copy::default(),
            dice: Dice::new(seed),
        }
    }

    /// Whether it stays away for a round.
    pub fn stays_away(&mut self) -> bool {
        self.dice.one_in(2)
    }

    /// What it watches.
    pub fn selector(&self) -> v1::Selector {
        self.spec.selector.clone()
    }

    fn request(&self) -> v1::WatchRequest {
        let token = self.copy.token.clone();
        v1::WatchRequest {
            selector: Some(self.spec.selector.clone()),
            start: (!token.is_empty()).then_some(Start::ResumeToken(token)),
            delivery_mode: self.spec.mode.into(),
            catch_up: self.spec.catch_up.into(),
            send_previous: self.spec.send_previous,
            bookmark_interval: millis(1000),
            ..v1::WatchRequest::default()
        }
    }

    /// Watches, with interruptions of its own, until the server is gone; with a revision,
    /// until the copy is that of it or newer.
    pub async fn run(mut self, address: String, record: Arc<Record>, until: Option<i64>) -> Self {
        loop {
            let left = if until.is_none() && self.dice.one_in(2) {
                1 + self.dice.below(30)
            } else {
                u32::MAX
            };
            let end = self.stream(&address, &record, until, left).await;
            let reached = until.is_some_and(|end| self.copy.settled && self.copy.revision >= end);
            let gone = end == End::Cut && left == u32::MAX;
            if reached || record.is_stopped() || until.is_none() && gone {
                return self;
            }
        }
    }

    /// One stream, of at most so many responses.
    async fn stream(
        &mut self,
        address: &str,
        record: &Record,
        until: Option<i64>,
        mut left: u32,
    ) -> End {
        let request = self.request();
        let mut recording = Recording {
            request: request.clone(),
            held: self.copy.objects.clone(),
            since: self.copy.revision,
            settled: self.copy.settled,
            ..Recording::default()
        };
        let mut client = raw(address);
        recording.end = match client.watch(request).await {
            Err(status) => End::of(&status),
            Ok(stream) => {
                let mut stream = stream.into_inner();
                loop {
                    let reached =
                        until.is_some_and(|end| self.copy.settled && self.copy.revision >= end);
                    if left == 0 || reached || record.is_stopped() {
                        break End::Cut;
                    }
                    left -= 1;
                    let next = tokio::time::timeout(PATIENCE, stream.message()).await;
                    match next.expect("the watch is silent") {
                        Ok(None) => break End::Ended,
                        Err(status) => break End::of(&status),
                        Ok(Some(response)) => {
                            self.copy.apply(&response);
                            if let Some(bookmark) = &response.bookmark {
                                record.see(bookmark.revision.max(bookmark.latest_revision));
                            }
                            recording.responses.push(response);
                        }
                    }
                }
            }
        };
        self.copy.disconnect();
        let end = recording.end.clone();
        if let End::Failed(Code::OutOfRange, _) = &end {
            self.copy = Copy::default();
        }
        recording.compacted = record.compacted.load(Ordering::SeqCst);
        record.streams.lock().unwrap().push(recording);
        end
    }
}
