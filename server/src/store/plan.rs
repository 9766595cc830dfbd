//! What a batch would do: its conditions against the state, and the entries it writes.
//!
//! Batches of one group commit are planned one after the other, each against the state
//! that those before it leave, although nothing of them is on disk yet.

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use rand::{RngCore, SeedableRng, rngs::StdRng};

use super::{
    Change, CommitError, Committed, Content, DeleteCause, Key, Object, Operation, PutCondition,
    Revision, StoreId, Uid, WriteBatch,
    deadlines::Due,
    index::{Current, Index},
    log::{Entry, Room, Slot},
    replay::{Outcome, Replay, Replays, Request, without_content},
};

/// The writer's own state: what only the one who commits needs.
pub(super) struct Planner {
    random: StdRng,
    /// Times never go back, whatever the clock does.
    last_time: SystemTime,
    pub(super) replays: Replays,
}

/// Batches planned so far, to be written together.
pub(super) struct Group {
    pub(super) revision: Revision,
    pub(super) time: SystemTime,
    pub(super) entries: Vec<Entry>,
    /// Names that the group changes; `None`: deleted.
    touched: HashMap<Key, Option<Current>>,
    /// Answers with a request id, remembered once they are durable.
    requests: Vec<(Arc<Request>, Revision)>,
    room: Room,
}

struct Plan<'a> {
    index: &'a Index,
    touched: &'a HashMap<Key, Option<Current>>,
    time: SystemTime,
    revision: Revision,
    entries: Vec<Entry>,
    now: Vec<(Key, Option<Current>)>,
}

/// A seeded source, or one from the system.
pub(super) fn random(seed: Option<u64>) -> StdRng {
    match seed {
        Some(seed) => StdRng::seed_from_u64(seed),
        None => StdRng::from_os_rng(),
    }
}

fn bits(random: &mut StdRng) -> u128 {
    u128::from(random.next_u64()) << 64 | u128::from(random.next_u64())
}

/// A new store's identity.
pub(super) fn new_store_id(random: &mut StdRng) -> StoreId {
    StoreId(bits(random).max(1))
}

impl Planner {
    pub(super) fn new(random: StdRng, last_time: SystemTime, replays: Replays) -> Self {
        Self {
            random,
            last_time,
            replays,
        }
    }

    /// Starts a group after a revision.
    pub(super) fn group(&mut self, revision: Revision, now: SystemTime, room: Room) -> Group {
        self.last_time = self.last_time.max(now);
        self.replays.forget_old(self.last_time);
        Group {
            revision,
            time: self.last_time,
            entries: Vec::new(),
            touched: HashMap::new(),
            requests: Vec::new(),
            room,
        }
    }

    /// Adds a batch to the group, if its conditions hold; all of it or nothing.
    pub(super) fn add(
        &mut self,
        index: &Index,
        group: &mut Group,
        batch: &WriteBatch,
    ) -> Result<Committed, CommitError> {
        match self.find_replay(group, batch) {
            Replay::New => {}
            Replay::Answered(answer) => return Ok(answer),
            Replay::Reused => return Err(CommitError::RequestIdReused),
        }
        group.check_room(batch)?;
        let mut plan = Plan {
            index,
            touched: &group.touched,
            time: group.time,
            revision: group.revision.next(),
            entries: Vec::new(),
            now: Vec::new(),
        };
        let mut objects = Vec::with_capacity(batch.operations.len());
        for (i, operation) in batch.operations.iter().enumerate() {
            objects.push(plan.operation(i, operation, &mut self.random)?);
        }
        let Plan { entries, now, .. } = plan;
        Ok(group.take(entries, now, objects, batch))
    }

    /// Adds the deletion of what has expired and is still the version that expired.
    pub(super) fn add_expired(&mut self, index: &Index, group: &mut Group, due: &[Due]) {
        let mut plan = Plan {
            index,
            touched: &group.touched,
            time: group.time,
            revision: group.revision.next(),
            entries: Vec::new(),
            now: Vec::new(),
        };
        for item in due {
            if let Some(current) = plan.current(&item.key)
                && current.revision == item.slot.revision
            {
                plan.delete(&item.key, current, DeleteCause::Expired);
            }
        }
        let Plan { entries, now, .. } = plan;
        group.take(entries, now, Vec::new(), &WriteBatch::default());
    }

    /// The group is durable: its answers are remembered.
    pub(super) fn committed(&mut self, group: &mut Group) {
        for (request, revision) in group.requests.drain(..) {
            self.replays.remember(request, revision, group.time);
        }
    }

    fn find_replay(&self, group: &Group, batch: &WriteBatch) -> Replay {
        let Some(asked) = &batch.request else {
            return Replay::New;
        };
        // The same id twice within one group: rare, and short to look through.
        let pending = group.requests.iter().find(|(r, _)| r.id.id == asked.id);
        match pending {
            Some((request, revision)) => {
                let mut alone = Replays::new(std::time::Duration::MAX, 1);
                alone.remember(request.clone(), *revision, group.time);
                alone.find(batch)
            }
            None => self.replays.find(batch),
        }
    }
}

impl Group {
    fn check_room(&self, batch: &WriteBatch) -> Result<(), CommitError> {
        let puts = batch
            .operations
            .iter()
            .any(|operation| matches!(operation, Operation::Put { .. }));
        match &self.room {
            Room::Ample => Ok(()),
            Room::Deletions(why) if puts => Err(CommitError::StorageFull(why.clone())),
            Room::Deletions(_) => Ok(()),
            Room::Nothing(why) => Err(CommitError::StorageFull(why.clone())),
        }
    }

    fn take(
        &mut self,
        mut entries: Vec<Entry>,
        now: Vec<(Key, Option<Current>)>,
        objects: Vec<Option<Arc<Object>>>,
        batch: &WriteBatch,
    ) -> Committed {
        if !entries.is_empty() {
            self.revision = self.revision.next();
        }
        if let Some(first) = entries.first_mut() {
            first.trace.clone_from(&batch.trace);
        }
        if let Some(id) = &batch.request {
            let outcome = |object: &Arc<Object>| Outcome {
                uid: object.uid,
                revision: object.revision,
                create_revision: object.create_revision,
            };
            let request = Arc::new(Request {
                id: id.clone(),
                outcomes: objects.iter().map(|o| o.as_ref().map(outcome)).collect(),
            });
            if let Some(first) = entries.first_mut() {
                first.request = Some(request.clone());
            }
            self.requests.push((request, self.revision));
        }
        self.entries.extend(entries);
        self.touched.extend(now);
        Committed {
            revision: self.revision,
            objects,
            replayed: false,
        }
    }
}

impl Plan<'_> {
    fn current(&self, key: &Key) -> Option<Current> {
        match self.touched.get(key) {
            Some(touched) => *touched,
            None => self.index.current(key),
        }
    }

    fn operation(
        &mut self,
        i: usize,
        operation: &Operation,
        random: &mut StdRng,
    ) -> Result<Option<Arc<Object>>, CommitError> {
        let current = self.current(operation.key());
        match operation {
            Operation::Put {
                key,
                condition,
                content,
            } => {
                check_put(i, *condition, current)?;
                Ok(Some(self.put(key, current, content, random)))
            }
            Operation::Delete {
                key,
                if_revision,
                if_uid,
                allow_missing,
                cause,
            } => {
                let Some(current) = current else {
                    return if *allow_missing {
                        Ok(None)
                    } else {
                        Err(CommitError::NotFound { operation: i })
                    };
                };
                if if_uid.is_some_and(|uid| uid != current.uid) {
                    return Err(CommitError::UidMismatch {
                        operation: i,
                        current: current.uid,
                    });
                }
                if if_revision.is_some_and(|revision| revision != current.revision) {
                    return Err(CommitError::RevisionMismatch {
                        operation: i,
                        current: Some(current.revision),
                    });
                }
                Ok(Some(self.delete(key, current, *cause)))
            }
            Operation::Check { revision, .. } => match (revision, current) {
                (None, None) => Ok(None),
                (None, Some(current)) => Err(CommitError::Exists {
                    operation: i,
                    revision: current.revision,
                }),
                (Some(wanted), Some(current)) if *wanted == current.revision => {
                    let outcome = Outcome {
                        uid: current.uid,
                        revision: current.revision,
                        create_revision: current.create_revision,
                    };
                    Ok(Some(Arc::new(without_content(
                        operation, outcome, self.time,
                    ))))
                }
                (Some(_), current) => Err(CommitError::RevisionMismatch {
                    operation: i,
                    current: current.map(|c| c.revision),
                }),
            },
        }
    }

    fn put(
        &mut self,
        key: &Key,
        current: Option<Current>,
        content: &Content,
        random: &mut StdRng,
    ) -> Arc<Object> {
        let (uid, create_revision, change) = match current {
            Some(current) => (current.uid, current.create_revision, Change::Updated),
            None => (
                Uid::from_random(bits(random)),
                self.revision,
                Change::Created,
            ),
        };
        let object = Arc::new(Object::new(
            key.clone(),
            uid,
            self.revision,
            create_revision,
            self.time,
            content.clone(),
        ));
        let now = Current {
            uid,
            revision: self.revision,
            create_revision,
        };
        self.write(change, object.clone(), current, Some(now));
        object
    }

    fn delete(&mut self, key: &Key, current: Current, cause: DeleteCause) -> Arc<Object> {
        let object = Arc::new(Object::new(
            key.clone(),
            current.uid,
            self.revision,
            current.create_revision,
            self.time,
            Content::default(),
        ));
        self.write(Change::Deleted(cause), object.clone(), Some(current), None);
        object
    }

    fn write(
        &mut self,
        change: Change,
        object: Arc<Object>,
        before: Option<Current>,
        now: Option<Current>,
    ) {
        self.now.push((object.key.clone(), now));
        self.entries.push(Entry {
            slot: Slot {
                revision: self.revision,
                index: u32::try_from(self.entries.len()).unwrap_or(u32::MAX),
            },
            change,
            object,
            previous_revision: before.map(|b| b.revision),
            request: None,
            trace: None,
        });
    }
}

fn check_put(
    i: usize,
    condition: PutCondition,
    current: Option<Current>,
) -> Result<(), CommitError> {
    match (condition, current) {
        (PutCondition::Any, _)
        | (PutCondition::Absent, None)
        | (PutCondition::Present, Some(_)) => Ok(()),
        (PutCondition::Absent, Some(current)) => Err(CommitError::Exists {
            operation: i,
            revision: current.revision,
        }),
        (PutCondition::Present | PutCondition::At(_), None) => {
            Err(CommitError::NotFound { operation: i })
        }
        (PutCondition::At(wanted), Some(current)) if wanted == current.revision => Ok(()),
        (PutCondition::At(_), Some(current)) => Err(CommitError::RevisionMismatch {
            operation: i,
            current: Some(current.revision),
        }),
    }
}
