//! Clients that read, with each consistency, and the reflector of the Rust client.

use std::{sync::Arc, time::Duration};

use listwatch::v1::{self, consistency};
use listwatch_client::{Client, Codec, Select, WatchOptions, reflector};
use tonic::Code;

use super::{
    server::{BOOKMARKS, SILENCE, channel, dial},
    world::World,
    writers::{NAMES, place},
};
use crate::{
    harness::{dice::Dice, everything, key},
    validator::{
        State, Violation,
        calls::{Call, Consistency, Kind, Read},
        name_of,
    },
};

/// Reads again and again: objects, and lists of a few pages.
pub async fn read(world: World, who: &'static str, mut dice: Dice) -> turmoil::Result {
    while !world.written() {
        let mut client = dial();
        let revision = world.lock().newest().revision();
        let consistency = match dice.below(6) {
            0 | 1 => Consistency::Linearizable,
            2 => Consistency::AtLeast(revision.max(1)),
            3 => Consistency::Exactly((revision - i64::from(dice.below(3))).max(1)),
            _ => Consistency::Cached,
        };
        let wire = match consistency {
            Consistency::Linearizable => None,
            Consistency::AtLeast(revision) => Some(consistency::Kind::MinRevision(revision)),
            Consistency::Exactly(revision) => Some(consistency::Kind::ExactRevision(revision)),
            Consistency::Cached => Some(consistency::Kind::Any(true)),
        };
        let wire = wire.map(|kind| v1::Consistency { kind: Some(kind) });
        let (first, called_at) = (world.epoch(), world.moment());
        let answer = if dice.one_in(2) {
            get(&mut client, dice.below(NAMES), wire).await
        } else {
            list(&mut client, &mut dice, wire).await
        };
        if let Some((selector, revision, shown)) = answer {
            let names: Vec<_> = shown
                .iter()
                .map(|r| format!("{}@{}", name_of(r).2, r.revision))
                .collect();
            let text = format!("read {consistency:?} at {revision}: {names:?}");
            // Only the first page's moment counts for who must be seen.
            let call = Call {
                client: who.into(),
                called_at,
                returned_at: Some(world.moment()),
                kind: Kind::Read(Read {
                    consistency,
                    selector,
                    revision,
                    shown: shown.iter().map(|r| (name_of(r), r.clone())).collect(),
                }),
            };
            if !matches!(consistency, Consistency::Exactly(_)) {
                world.note_seen(who, first, called_at, revision, shown);
            }
            world.note_call(first, call, &text);
        }
        tokio::time::sleep(dice.millis(500)).await;
    }
    Ok(())
}

type Answer = Option<(v1::Selector, i64, Vec<v1::Resource>)>;
type Stub =
    listwatch::v1::list_watch_service_client::ListWatchServiceClient<tonic::transport::Channel>;

async fn get(client: &mut Stub, number: u32, consistency: Option<v1::Consistency>) -> Answer {
    let (collection, name) = place(number);
    let request = v1::GetRequest {
        key: Some(key(collection, &name)),
        consistency,
        ..v1::GetRequest::default()
    };
    let selector = v1::Selector {
        name,
        ..everything(collection)
    };
    match tokio::time::timeout(SILENCE, client.get(request)).await {
        Ok(Ok(answer)) => {
            let answer = answer.into_inner();
            Some((selector, answer.revision, Vec::from_iter(answer.resource)))
        }
        Ok(Err(status)) if status.code() == Code::NotFound => {
            let details = tonic_types::StatusExt::get_details_error_info(&status)?;
            let revision = details.metadata.get("revision")?.parse().ok()?;
            Some((selector, revision, Vec::new()))
        }
        _ => None,
    }
}

async fn list(client: &mut Stub, dice: &mut Dice, consistency: Option<v1::Consistency>) -> Answer {
    let selector = everything("pods");
    let mut request = v1::ListRequest {
        selector: Some(selector.clone()),
        page_size: 3,
        consistency,
        ..v1::ListRequest::default()
    };
    let (mut shown, mut at) = (Vec::new(), None);
    loop {
        let page = tokio::time::timeout(SILENCE, client.list(request.clone())).await;
        let page = page.ok()?.ok()?.into_inner();
        // Two revisions, or two objects of a name, are found as another state than either's.
        let revision = *at.get_or_insert(page.revision);
        shown.extend(page.resources);
        if page.revision != revision {
            return Some((selector, page.revision, shown));
        }
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return Some((selector, revision, shown));
        }
        tokio::time::sleep(dice.millis(300)).await;
    }
}

/// The Rust client's reflector: whatever happens, its snapshot is a state that there was, and
/// at the end it is the store's.
pub async fn reflect(world: World, who: &'static str, dice: Dice) -> turmoil::Result {
    let dice = Arc::new(std::sync::Mutex::new(dice));
    let client = Client::builder().client(channel());
    let options = WatchOptions::new(Select::all("pods"))
        .bookmark_interval(BOOKMARKS)
        .first_response_timeout(SILENCE)
        .randomness(Arc::new(move || {
            f64::from(dice.lock().unwrap().below(1000)) / 1000.0
        }));
    let reflector = reflector(client, options, Codec::raw()).spawn();
    let mut before = (0, 0);
    loop {
        tokio::time::sleep(Duration::from_millis(250)).await;
        let snapshot = reflector.snapshot();
        if !reflector.status().ready {
            continue;
        }
        let revision = snapshot.revision();
        let shown: State = snapshot
            .iter()
            .map(|object| {
                let key = object.key();
                let resource = v1::Resource {
                    key: Some(v1::Key {
                        collection: "pods".into(),
                        namespace: key.namespace.to_string(),
                        name: key.name.to_string(),
                    }),
                    uid: object.uid().into(),
                    revision: object.revision(),
                    create_revision: object.create_revision(),
                    update_time: object.update_time(),
                    labels: object.labels().clone().into_iter().collect(),
                    value: object.value().clone(),
                    content_type: object.content_type().into(),
                    expire_time: object.expire_time(),
                };
                (name_of(&resource), resource)
            })
            .collect();
        let mut outside = world.lock();
        // Of one of the stores that there were, not of an older one than before.
        let was = |epoch: usize| {
            let epoch = &outside.epochs[epoch];
            let wanted = epoch.log.at(revision, &everything("pods"));
            revision <= epoch.revision()
                && wanted.len() == shown.len()
                && wanted.values().zip(shown.values()).all(|(a, b)| a == b)
        };
        let found = (0..outside.epochs.len()).rev().find(|epoch| was(*epoch));
        match found {
            Some(epoch) if (epoch, revision) >= before => {
                if (epoch, revision) > before {
                    let text = format!("holds store {epoch} at {revision}");
                    outside.say(who, &text);
                }
                before = (epoch, revision);
                let newest = outside.epochs.len() - 1;
                let done = outside.writing == 0
                    && epoch == newest
                    && revision >= outside.newest().revision();
                if done {
                    return Ok(());
                }
            }
            other => {
                let what = format!(
                    "the reflector holds {shown:?} at {revision}: {other:?} after {before:?}"
                );
                outside.say(who, &what);
                outside.found.push(Violation { check: 12, what });
                return Ok(());
            }
        }
    }
}
