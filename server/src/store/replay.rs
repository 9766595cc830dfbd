//! Requests answered before: the same id again gives the first answer.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{Committed, Content, Object, Operation, RequestId, Revision, Uid, WriteBatch};

/// What a request did, as far as its answer needs it. Kept in the log with the first
/// event of the commit, so that it survives a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) id: RequestId,
    /// One for each operation; `None`: absent.
    pub(super) outcomes: Vec<Option<Outcome>>,
}

impl Request {
    pub(super) fn size(&self) -> usize {
        self.id.id.len() + 40 + 36 * self.outcomes.len()
    }
}

/// What became of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) uid: Uid,
    pub(super) revision: Revision,
    pub(super) create_revision: Revision,
}

struct Answered {
    request: Arc<Request>,
    revision: Revision,
    time: SystemTime,
}

/// The requests of the last minutes, bounded by age and count.
pub(super) struct Replays {
    by_id: HashMap<Arc<str>, Answered>,
    oldest_first: VecDeque<Arc<str>>,
    window: Duration,
    most: usize,
}

/// What the window knows of a request.
pub(super) enum Replay {
    /// Nothing: it is new.
    New,
    /// It was answered so.
    Answered(Committed),
    /// Its id was used for something else.
    Reused,
}

impl Replays {
    pub(super) fn new(window: Duration, most: usize) -> Self {
        Self {
            by_id: HashMap::new(),
            oldest_first: VecDeque::new(),
            window,
            most,
        }
    }

    /// Looks a request up.
    pub(super) fn find(&self, batch: &WriteBatch) -> Replay {
        let Some(asked) = &batch.request else {
            return Replay::New;
        };
        let Some(known) = self.by_id.get(&asked.id) else {
            return Replay::New;
        };
        let same = known.request.id.fingerprint == asked.fingerprint
            && known.request.outcomes.len() == batch.operations.len();
        if !same {
            return Replay::Reused;
        }
        let objects = batch
            .operations
            .iter()
            .zip(&known.request.outcomes)
            .map(|(operation, outcome)| {
                outcome.map(|outcome| Arc::new(as_answered(operation, outcome, known.time)))
            })
            .collect();
        Replay::Answered(Committed {
            revision: known.revision,
            objects,
            replayed: true,
        })
    }

    /// Remembers an answer, and forgets those that are too old or too many.
    pub(super) fn remember(&mut self, request: Arc<Request>, revision: Revision, time: SystemTime) {
        let id = request.id.id.clone();
        let answered = Answered {
            request,
            revision,
            time,
        };
        if self.by_id.insert(id.clone(), answered).is_none() {
            self.oldest_first.push_back(id);
        }
        self.forget_old(time);
    }

    /// Forgets what is older than the window.
    pub(super) fn forget_old(&mut self, now: SystemTime) {
        while let Some(id) = self.oldest_first.front() {
            let old = self.by_id.get(id).is_none_or(|answered| {
                now.duration_since(answered.time)
                    .is_ok_and(|age| age > self.window)
            });
            if !old && self.oldest_first.len() <= self.most {
                break;
            }
            self.by_id.remove(id);
            self.oldest_first.pop_front();
        }
    }
}

/// An object as a replayed answer shows it: the request is the same, so what it wrote is
/// too, but for a deadline counted from another moment.
fn as_answered(operation: &Operation, outcome: Outcome, time: SystemTime) -> Object {
    let mut object = without_content(operation, outcome, time);
    if let Operation::Put { content, .. } = operation {
        object.content = Content {
            value: Default::default(),
            ..content.clone()
        };
    }
    object
}

/// An object as a check and the answer to a deletion show it.
pub(super) fn without_content(operation: &Operation, outcome: Outcome, time: SystemTime) -> Object {
    Object::new(
        operation.key().clone(),
        outcome.uid,
        outcome.revision,
        outcome.create_revision,
        time,
        Content::default(),
    )
}
