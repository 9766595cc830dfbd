//! Clients that write, read and compact until they are stopped or the server is gone, and
//! record what they were told.

use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

use listwatch::v1::{self, list_watch_service_client::ListWatchServiceClient};
use listwatch_client::Client;
use tonic::{Code, transport::Channel};

use super::record::{Call, Outcome, Record, raw};
use crate::harness::dice::Dice;
use crate::{
    harness::{everything, key, millis, put, remove, resource},
    validator::{Listed, name_of},
};

/// The one collection that is written, so that the log has each revision.
pub const COLLECTION: &str = "load";
const NAMES: u32 = 40;

/// Writes batches, one after the other, as fast as it can.
pub struct Writer {
    number: usize,
    written: u64,
    dice: Dice,
    /// Of unknown outcome, to be sent again with the same id.
    pending: Option<String>,
}

impl Writer {
    pub fn new(number: usize, seed: u64) -> Self {
        Self {
            number,
            written: 0,
            dice: Dice::new(seed ^ (number as u64 + 1) << 32),
            pending: None,
        }
    }

    /// Until stopped, or until an outcome is unknown: then the server is gone.
    pub async fn run(mut self, address: String, record: Arc<Record>) -> Self {
        let mut client = raw(&address);
        while !record.is_stopped() {
            let id = match self.pending.take() {
                Some(id) => id,
                None => self.next(&record),
            };
            let outcome = call(&mut client, &record, &id).await;
            if matches!(outcome, Outcome::Unknown) {
                // Sometimes a client gives up and never learns what became of it.
                self.pending = (!self.dice.one_in(3)).then_some(id);
                break;
            }
        }
        self
    }

    /// Records the next batch as called.
    fn next(&mut self, record: &Record) -> String {
        self.written += 1;
        let id = format!("w{}-{}", self.number, self.written);
        let mut names = Vec::new();
        for _ in 0..=self.dice.below(3) {
            let name = format!("o{}", self.dice.below(NAMES));
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let (mut operations, mut wanted) = (Vec::new(), Vec::new());
        for (n, name) in names.into_iter().enumerate() {
            let labels: &[_] = match self.dice.below(4) {
                0 | 1 => &[("app", "web")],
                2 => &[("app", "db")],
                _ => &[],
            };
            let value = format!("{id} {}", "x".repeat(self.dice.below(900) as usize));
            let object = resource(COLLECTION, &name, &value, labels);
            let deletes = n > 0 && self.dice.one_in(2);
            let mut kind = if deletes {
                remove(key(COLLECTION, &name))
            } else {
                put(object.clone())
            };
            match &mut kind {
                v1::batch_operation::Kind::Delete(delete) => delete.allow_missing = true,
                v1::batch_operation::Kind::Update(update) if self.dice.one_in(16) => {
                    update.ttl = millis(300);
                }
                _ => {}
            }
            wanted.push((name_of(&object), (!deletes).then_some(object)));
            operations.push(v1::BatchOperation { kind: Some(kind) });
        }
        let call = Call {
            request: v1::BatchRequest {
                operations,
                request_id: id.clone(),
            },
            wanted,
            called: record.tick(),
            returned: None,
            outcome: Outcome::Unknown,
        };
        record.calls.lock().unwrap().insert(id.clone(), call);
        id
    }
}

/// Sends a recorded batch, and records what came of it.
pub async fn call(
    client: &mut ListWatchServiceClient<Channel>,
    record: &Record,
    id: &str,
) -> Outcome {
    let request = record.calls.lock().unwrap()[id].request.clone();
    let outcome = match client.batch(request).await {
        Ok(answer) => {
            let answer = answer.into_inner();
            Outcome::Acknowledged(answer.revision, answer.resources)
        }
        Err(status) => match (status.code(), crate::harness::reason(&status).as_str()) {
            (_, "" | "WRITE_UNCERTAIN") | (Code::DeadlineExceeded, _) => Outcome::Unknown,
            (_, reason) => Outcome::Refused(reason.to_owned()),
        },
    };
    if let Outcome::Acknowledged(revision, _) = outcome {
        record.see(revision);
        record.acknowledgements.fetch_add(1, Ordering::SeqCst);
    }
    let mut calls = record.calls.lock().unwrap();
    if let Some(call) = calls.get_mut(id) {
        call.returned = Some(record.tick());
        call.outcome = outcome.clone();
    }
    outcome
}

/// Reads again and again: single objects, and lists in pages.
pub async fn read(address: String, record: Arc<Record>, seed: u64) {
    let mut client = raw(&address);
    let mut dice = Dice::new(seed);
    while !record.is_stopped() {
        let acknowledged = record.seen();
        let listed = if dice.one_in(2) {
            let name = format!("o{}", dice.below(NAMES));
            get(&mut client, &name, acknowledged).await
        } else {
            list(&mut client, 7, acknowledged).await
        };
        let Some(listed) = listed else { break };
        record.see(listed.pages[0].revision);
        record.lists.lock().unwrap().push(listed);
    }
}

/// One object, as a list of at most one.
pub async fn get(
    client: &mut ListWatchServiceClient<Channel>,
    name: &str,
    acknowledged: i64,
) -> Option<Listed> {
    let request = v1::GetRequest {
        key: Some(key(COLLECTION, name)),
        ..v1::GetRequest::default()
    };
    let (resources, revision) = match client.get(request).await {
        Ok(answer) => {
            let answer = answer.into_inner();
            (answer.resource.into_iter().collect(), answer.revision)
        }
        Err(status) if status.code() == Code::NotFound => {
            use tonic_types::StatusExt as _;
            let details = status.get_error_details();
            let revision = details.error_info()?.metadata.get("revision")?;
            (Vec::new(), revision.parse().ok()?)
        }
        Err(_) => return None,
    };
    Some(Listed {
        selector: v1::Selector {
            namespace: "default".into(),
            name: name.into(),
            ..everything(COLLECTION)
        },
        pages: vec![v1::ListResponse {
            resources,
            revision,
            ..v1::ListResponse::default()
        }],
        acknowledged,
    })
}

/// All pages, unless the server goes or compaction comes between two of them.
pub async fn list(
    client: &mut ListWatchServiceClient<Channel>,
    page_size: i32,
    acknowledged: i64,
) -> Option<Listed> {
    let mut listed = Listed {
        selector: everything(COLLECTION),
        pages: Vec::new(),
        acknowledged,
    };
    let mut request = v1::ListRequest {
        selector: Some(listed.selector.clone()),
        page_size,
        ..v1::ListRequest::default()
    };
    loop {
        let page = client.list(request.clone()).await.ok()?.into_inner();
        request.page_token.clone_from(&page.next_page_token);
        listed.pages.push(page);
        if request.page_token.is_empty() {
            return Some(listed);
        }
    }
}

/// Compacts again and again, up to a revision whose log has been looked at.
pub async fn compact(address: String, record: Arc<Record>, upto: i64, seed: u64) {
    let client = Client::builder().endpoint(address).connect_lazy().unwrap();
    let mut dice = Dice::new(seed);
    let mut revision = record.compacted.load(Ordering::SeqCst);
    while !record.is_stopped() {
        revision = upto.min(revision + 1 + i64::from(dice.below(600)));
        if revision > 0 {
            record.compacted.fetch_max(revision, Ordering::SeqCst);
            let request = v1::CompactRequest {
                revision,
                wait: true,
            };
            if client.compact(request).await.is_err() {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
