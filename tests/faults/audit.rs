//! Compares what clients saw with the log that a restarted server has.
//!
//! | check | promise |
//! | --- | --- |
//! | acknowledged | a write that was acknowledged is in the log, at its revision, as it was answered |
//! | once | a request is in the log at most once, however often it was sent |
//! | whole | a batch is in the log with all of its operations, or not at all |
//! | refused | what was refused is not in the log |
//! | order | a write that returned before another was called has the lower revision |
//! | never back | the revision is not below any that a client was shown |
//! | no gap | each revision is in the log |
//! | 1-14 | of the validator, for every watch and list, against the log |

use std::collections::{BTreeMap, BTreeSet};

use listwatch::v1::{self, DeleteCause, EventType, watch_request::Start};

use super::{
    load::COLLECTION,
    record::{Call, Outcome, Record, raw},
};
use crate::{
    harness::{PATIENCE, everything, millis, watch},
    validator::{End, Listed, Model, Name, Recording, check_list, check_watch, name_of},
};

/// What the log has said so far, over all rounds.
#[derive(Clone, Default)]
pub struct Audit {
    pub model: Model,
    /// Up to where the log is in the model.
    pub revision: i64,
    /// From where it goes on.
    token: String,
    /// Request id → the revision at which the log has it.
    logged: BTreeMap<String, i64>,
    pub figures: Figures,
}

/// What was looked at, so that a run can show that it was not idle.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub events: usize,
    pub acknowledged: usize,
    pub unknown: usize,
    pub unknown_found: usize,
    pub responses: usize,
    pub lists: usize,
    /// How streams began.
    pub starts: BTreeMap<String, usize>,
}

impl Audit {
    /// Reads the log on, to the newest revision.
    pub async fn read_log(&mut self, address: &str) -> Vec<String> {
        let mut found = Vec::new();
        let request = v1::GetStatusRequest {};
        let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}"));
        let channel = channel.unwrap().connect().await.unwrap();
        let mut admin = v1::admin_service_client::AdminServiceClient::new(channel);
        let head = admin.get_status(request).await.unwrap().into_inner();
        let head = head.revision;
        if head < self.revision {
            found.push(format!(
                "the revision went back from {} to {head}",
                self.revision
            ));
        }
        if self.token.is_empty() {
            assert_eq!(head, 0, "the first server has an empty log");
            let request = v1::ListRequest {
                selector: Some(everything(COLLECTION)),
                ..v1::ListRequest::default()
            };
            let empty = raw(address).list(request).await.unwrap().into_inner();
            self.token = empty.resume_token;
        }
        let mut request = watch(COLLECTION, Some(Start::ResumeToken(self.token.clone())));
        request.catch_up = v1::CatchUp::Exact.into();
        request.bookmark_interval = millis(1000);
        let stream = raw(address).watch(request).await;
        let mut stream = stream.expect("the log is there").into_inner();
        let mut log: BTreeMap<i64, Vec<v1::WatchEvent>> = BTreeMap::new();
        while self.revision < head {
            let next = tokio::time::timeout(PATIENCE, stream.message()).await;
            let response = next
                .expect("the log comes")
                .unwrap()
                .expect("the watch ended");
            for event in response.events {
                let revision = event.resource.as_ref().map_or(0, |r| r.revision);
                log.entry(revision).or_default().push(event);
            }
            if let Some(bookmark) = response.bookmark {
                self.revision = self.revision.max(bookmark.revision);
                self.token = bookmark.resume_token;
            }
        }
        let first = self.model.revision() + 1;
        for revision in first..=self.revision {
            if !log.contains_key(&revision) {
                found.push(format!("no gap: revision {revision} is not in the log"));
            }
        }
        for (revision, events) in log {
            self.take(revision, events, &mut found);
        }
        found
    }

    /// Takes a revision's events into the model, and notes whose they are.
    fn take(&mut self, revision: i64, events: Vec<v1::WatchEvent>, found: &mut Vec<String>) {
        let mut ids = BTreeSet::new();
        for event in events {
            self.figures.events += 1;
            let resource = event.resource.clone().unwrap_or_default();
            if event.r#type() == EventType::Deleted {
                let cause = event.delete_cause();
                self.model.delete(name_of(&resource), revision, cause);
                if cause == DeleteCause::Expired {
                    ids.insert(None);
                }
            } else {
                ids.insert(request_of(&resource));
                self.model.put(resource);
            }
        }
        let mut ids = ids.into_iter();
        match (ids.next(), ids.next()) {
            (Some(Some(id)), None) => {
                if let Some(before) = self.logged.insert(id.clone(), revision) {
                    found.push(format!("once: {id} is at {before} and again at {revision}"));
                }
            }
            (Some(None), None) => {}
            _ => found.push(format!("whole: {revision} is not of one request")),
        }
    }

    /// Compares all that was recorded, and forgets the streams and lists.
    pub fn check(&mut self, record: &Record) -> Vec<String> {
        let mut found = Vec::new();
        let newest = self.revision;
        if record.seen() > newest {
            found.push(format!(
                "never back: {} was seen, and the log ends at {newest}",
                record.seen()
            ));
        }
        let mut calls = record.calls.lock().unwrap();
        self.check_calls(&calls, &mut found);
        // Those that are settled for good.
        calls.retain(|_, call| matches!(call.outcome, Outcome::Unknown));
        drop(calls);
        for listed in std::mem::take(&mut *record.lists.lock().unwrap()) {
            self.check_list(&listed, &mut found);
        }
        for recording in std::mem::take(&mut *record.streams.lock().unwrap()) {
            self.check_stream(&recording, &mut found);
        }
        found
    }

    fn check_list(&mut self, listed: &Listed, found: &mut Vec<String>) {
        self.figures.lists += 1;
        let violations = check_list(&self.model, listed);
        found.extend(violations.iter().map(ToString::to_string));
        let read = listed.pages.iter().map(|page| page.revision).max();
        if read > Some(self.revision) {
            found.push(format!("never back: read at {read:?}, which is gone"));
        }
    }

    fn check_stream(&mut self, recording: &Recording, found: &mut Vec<String>) {
        self.figures.responses += recording.responses.len();
        let first = recording
            .responses
            .first()
            .and_then(|r| r.bookmark.as_ref());
        let start = match first {
            Some(bookmark) => bookmark.kind().as_str_name().to_owned(),
            None => format!("{:?}", recording.end),
        };
        *self.figures.starts.entry(start).or_default() += 1;
        let violations = check_watch(&self.model, recording);
        let of = recording.request.selector.clone().unwrap_or_default();
        found.extend(violations.iter().map(|violation| {
            let mode = recording.request.delivery_mode();
            format!("{violation} ({mode:?} of {of:?} since {})", recording.since)
        }));
        if let End::Failed(code, reason) = &recording.end
            && reason != "REVISION_COMPACTED"
        {
            found.push(format!(
                "a watch since {} ended with {code:?} {reason}",
                recording.since
            ));
        }
    }

    fn check_calls(&mut self, calls: &BTreeMap<String, Call>, found: &mut Vec<String>) {
        // (called, returned, revision) of what was acknowledged.
        let mut order = Vec::new();
        for (id, call) in calls {
            let logged = self.logged.get(id).copied();
            match &call.outcome {
                Outcome::Acknowledged(revision, answers) => {
                    self.figures.acknowledged += 1;
                    if logged != Some(*revision) {
                        found.push(format!(
                            "acknowledged: {id} was answered {revision}, the log has it at {logged:?}"
                        ));
                    }
                    order.push((call.called, call.returned, *revision));
                    self.check_answers(id, call, *revision, answers, found);
                }
                Outcome::Refused(reason) => {
                    if let Some(at) = logged {
                        found.push(format!("refused: {id} ({reason}) is in the log at {at}"));
                    }
                }
                Outcome::Unknown => {
                    self.figures.unknown += 1;
                    self.figures.unknown_found += usize::from(logged.is_some());
                }
            }
            if let Some(revision) = logged {
                self.check_whole(id, call, revision, found);
            }
        }
        out_of_order(&mut order, found);
    }

    /// The operations of a batch are all there, at its revision.
    fn check_whole(&self, id: &str, call: &Call, revision: i64, found: &mut Vec<String>) {
        for (name, wanted) in &call.wanted {
            let stored = self.model.version(name, revision);
            let right = match (stored, wanted) {
                (None, None) => true,
                (Some(stored), Some(wanted)) => {
                    stored.revision == revision
                        && stored.value == wanted.value
                        && stored.labels == wanted.labels
                }
                _ => false,
            };
            if !right {
                found.push(format!("whole: {id} at {revision}: {name:?} is {stored:?}"));
            }
        }
    }

    fn check_answers(
        &self,
        id: &str,
        call: &Call,
        revision: i64,
        answers: &[v1::Resource],
        found: &mut Vec<String>,
    ) {
        for ((name, wanted), answer) in call.wanted.iter().zip(answers) {
            let stored = self.model.version(name, revision);
            let same = match (wanted, stored) {
                (Some(_), Some(stored)) => {
                    stored.uid == answer.uid && stored.create_revision == answer.create_revision
                }
                (None, None) => true,
                _ => false,
            };
            if !same {
                found.push(format!(
                    "acknowledged: {id} was answered {answer:?} for {name:?}, stored is {stored:?}"
                ));
            }
        }
        if answers.len() != call.wanted.len() {
            found.push(format!("acknowledged: {id} got {} answers", answers.len()));
        }
    }

    /// What is there now, as a copy of everything should have it.
    pub fn state(&self, selector: &v1::Selector) -> BTreeMap<Name, v1::Resource> {
        self.model.at(self.revision, selector)
    }
}

/// return(a) before call(b) ⇒ revision(a) < revision(b).
fn out_of_order(order: &mut [(u64, Option<u64>, i64)], found: &mut Vec<String>) {
    order.sort_unstable();
    let mut returns: Vec<_> = order
        .iter()
        .filter_map(|(_, returned, revision)| Some(((*returned)?, *revision)))
        .collect();
    returns.sort_unstable();
    let mut returns = returns.into_iter().peekable();
    let mut highest = 0;
    for (called, _, revision) in order.iter() {
        while let Some((_, before)) = returns.next_if(|(returned, _)| returned < called) {
            highest = highest.max(before);
        }
        if highest >= *revision {
            found.push(format!(
                "order: {revision} was called after {highest} had returned"
            ));
        }
    }
}

/// The request that wrote an object, from its value.
fn request_of(resource: &v1::Resource) -> Option<String> {
    let value = std::str::from_utf8(&resource.value).ok()?;
    let (id, _) = value.split_once(' ')?;
    Some(id.to_owned())
}
