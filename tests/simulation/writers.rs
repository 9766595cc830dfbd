//! Clients that write, against each other and on conditions.

use std::{collections::BTreeMap, time::Duration};

use listwatch::v1::{self, batch_operation};
use tonic::Code;

use super::{
    server::{SILENCE, dial},
    world::World,
};
use crate::{
    harness::{dice::Dice, key, resource},
    validator::{
        calls::{Call, Change, Condition, Kind, Outcome, Part, Write},
        name_of,
    },
};

/// Writes of each.
pub const WRITES: u32 = 28;
/// Names that they fight for; the last is of another collection.
pub const NAMES: u32 = 8;

/// A name and the collection that it is in.
pub fn place(number: u32) -> (&'static str, String) {
    let collection = if number == NAMES - 1 { "other" } else { "pods" };
    (collection, format!("p{number}"))
}

/// What one operation asks for, and how the validator puts it.
fn operation(
    world: &World,
    dice: &mut Dice,
    number: u32,
    value: &str,
) -> (batch_operation::Kind, Part) {
    let (collection, name) = place(number);
    let key = key(collection, &name);
    let labels: &[_] = match dice.below(4) {
        0 => &[],
        1 => &[("app", "db")],
        _ => &[("app", "web")],
    };
    let resource = resource(collection, &name, value, labels);
    let name = name_of(&resource);
    // What the newest version is, as someone told the writer, perhaps a while ago.
    let known = {
        let outside = world.lock();
        let log = &outside.newest().log;
        let stale = if dice.one_in(4) { 3 } else { 0 };
        log.version(&name, log.revision() - stale)
            .map(|r| r.revision)
    };
    let deletions = world.lock().plan.deletions;
    let ttl = dice.one_in(5).then(|| prost_types::Duration {
        seconds: i64::from(1 + dice.below(6)),
        nanos: 0,
    });
    let condition;
    let change;
    let kind = if dice.below(12) < deletions {
        change = Change::Delete;
        let allow_missing = dice.one_in(2);
        let if_revision = known.filter(|_| dice.one_in(3));
        condition = match if_revision {
            // Absent and allowed to be: also no failure.
            Some(_) if allow_missing => Condition::Any,
            Some(revision) => Condition::At(revision),
            None if allow_missing => Condition::Any,
            None => Condition::Present,
        };
        batch_operation::Kind::Delete(v1::DeleteRequest {
            key: Some(key),
            if_revision: if_revision.filter(|_| !allow_missing),
            allow_missing,
            ..v1::DeleteRequest::default()
        })
    } else if dice.one_in(12) {
        change = Change::Nothing;
        condition = known.map_or(Condition::Absent, Condition::At);
        let revision = known.unwrap_or(0);
        let key = Some(key);
        batch_operation::Kind::Check(v1::CheckRevision { key, revision })
    } else {
        change = Change::Put {
            resource: resource.clone(),
            expires: ttl.is_some(),
        };
        if dice.one_in(4) {
            condition = Condition::Absent;
            batch_operation::Kind::Create(v1::CreateRequest {
                resource: Some(resource),
                ttl,
                ..v1::CreateRequest::default()
            })
        } else {
            let if_revision = known.filter(|_| dice.one_in(2));
            let allow_missing = if_revision.is_none() && !dice.one_in(4);
            condition = match if_revision {
                Some(revision) => Condition::At(revision),
                None if allow_missing => Condition::Any,
                None => Condition::Present,
            };
            batch_operation::Kind::Update(v1::UpdateRequest {
                resource: Some(resource),
                if_revision,
                allow_missing,
                ttl,
                ..v1::UpdateRequest::default()
            })
        }
    };
    let part = Part {
        name,
        change,
        condition,
    };
    (kind, part)
}

/// Writes one after the other; each until it is answered, or patience ends.
pub async fn write(world: World, who: &'static str, mut dice: Dice) -> turmoil::Result {
    let mut client = dial();
    for n in 0..WRITES {
        world.lock().begun += 1;
        let mut places = BTreeMap::new();
        for _ in 0..=dice.below(3) {
            let number = dice.below(NAMES);
            let value = format!("{who}-{n}-{number}");
            places.insert(number, operation(&world, &mut dice, number, &value));
        }
        let (kinds, mut parts): (Vec<_>, Vec<_>) = places.into_values().unzip();
        let operations = kinds
            .into_iter()
            .map(|kind| v1::BatchOperation { kind: Some(kind) });
        let request = v1::BatchRequest {
            operations: operations.collect(),
            request_id: format!("{who}-{n}"),
        };
        let (first, called_at) = (world.epoch(), world.moment());
        let attempts = 1 + dice.below(8);
        let mut outcome = Outcome::Unknown;
        for _ in 0..attempts {
            match tokio::time::timeout(SILENCE, client.batch(request.clone())).await {
                Ok(Ok(answer)) => {
                    let answer = answer.into_inner();
                    outcome = Outcome::Written(answer.revision);
                    // Of a store that was there all the while: the one before may have done it.
                    let is_one = first == world.epoch();
                    for (part, answer) in parts.iter_mut().zip(&answer.resources) {
                        let is_absent = answer.uid.is_empty() && is_one;
                        if matches!(part.change, Change::Delete) && is_absent {
                            part.change = Change::Nothing;
                            part.condition = Condition::Absent;
                        }
                    }
                    break;
                }
                Ok(Err(status)) if is_refusal(status.code()) => {
                    outcome = Outcome::Refused;
                    break;
                }
                _ => {
                    // Whether it was done is not known: the same id asks for its answer.
                    client = dial();
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
        let returned_at = (outcome != Outcome::Unknown).then(|| world.moment());
        let names: Vec<_> = parts.iter().map(|part| &part.name.2).collect();
        let text = format!("write {n} {names:?} {outcome:?}");
        let call = Call {
            client: who.into(),
            called_at,
            returned_at,
            kind: Kind::Write(Write { parts, outcome }),
        };
        world.note_call(first, call, &text);
        tokio::time::sleep(dice.millis(800)).await;
    }
    world.lock().writing -= 1;
    Ok(())
}

/// A condition did not hold.
fn is_refusal(code: Code) -> bool {
    matches!(
        code,
        Code::Aborted | Code::AlreadyExists | Code::NotFound | Code::FailedPrecondition
    )
}
