//! Reflectors: what their subscribers are told, and what they show.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use listwatch_client::{
    Client, Codec, Notice, Obj, ObjectKey, Reflector, WatchOptions, reflector,
    reflector::{Connection, Reader, Subscription, WaitError},
};
use serde_json::{Map, Value, json};

use crate::{
    json::{Answer, error_json, milliseconds, misused, number},
    tell,
};

/// A reflector, and what is left of it when it is closed.
pub(crate) struct Reflecting {
    reflector: Option<Reflector<Bytes>>,
    reader: Reader<Bytes>,
}

impl Reflecting {
    /// Starts one, and tells its changes line by line.
    pub(crate) fn start(name: String, client: Client, options: WatchOptions) -> Self {
        let reflector = reflector(client, options, Codec::raw()).spawn();
        let reader = reflector.reader();
        let notices = reader.subscribe();
        tokio::spawn(tell_changes(name, notices));
        Self {
            reflector: Some(reflector),
            reader,
        }
    }

    pub(crate) fn reader(&self) -> Reader<Bytes> {
        self.reader.clone()
    }

    pub(crate) fn close(&mut self) {
        self.reflector = None;
    }
}

async fn tell_changes(name: String, mut notices: Subscription<Bytes>) {
    let mut next = notices.next().await;
    while let Some(notice) = next.take() {
        let tell_change = |key: &ObjectKey, old: Value, new: Value| {
            let change = json!({"key": key_name(key), "old": old, "new": new});
            tell(&json!({"reflector": name, "change": change}));
        };
        match notice {
            Notice::Added(new) => tell_change(new.key(), Value::Null, version(&new)),
            Notice::Updated { old, new } => tell_change(new.key(), version(&old), version(&new)),
            // Of a key that was taken anew, the other half is there already.
            Notice::Deleted(old) => match notices.next().now_or_never() {
                Some(Some(Notice::Added(new))) if new.key() == old.key() => {
                    tell_change(old.key(), version(&old), version(&new));
                }
                other => {
                    tell_change(old.key(), version(&old), Value::Null);
                    if let Some(other) = other {
                        next = other;
                        if next.is_none() {
                            return;
                        }
                        continue;
                    }
                }
            },
            Notice::Synced => tell(&json!({"reflector": name, "synced": true})),
            _ => {}
        }
        next = notices.next().await;
    }
}

fn version(object: &Obj<Bytes>) -> Value {
    json!({"uid": object.uid(), "revision": object.revision()})
}

fn key_name(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace, key.name)
}

/// What a reflector shows.
pub(crate) fn state(reader: &Reader<Bytes>) -> Value {
    let (status, snapshot) = (reader.status(), reader.snapshot());
    let objects: Map<String, Value> = snapshot
        .iter()
        .map(|object| (key_name(object.key()), json!(object.revision())))
        .collect();
    let stopped = match &status.connection {
        Connection::Stopped(Some(error)) => error_json(error.client_error()),
        _ => Value::Null,
    };
    json!({
        "ready": status.ready,
        "stale": status.is_stale(),
        "revision": snapshot.revision(),
        "objects": objects,
        "stopped": stopped,
    })
}

/// `wait_until_ready` and `wait_for_revision`.
pub(crate) async fn wait(reader: &Reader<Bytes>, command: &Value) -> Answer {
    let limit = Duration::from_millis(number(command, "timeout")?);
    let waited = match command["do"].as_str() {
        Some("wait_until_ready") => reader.wait_until_ready(limit).await,
        _ => {
            let revision = number(command, "revision")?;
            reader.wait_for_revision(revision, limit).await
        }
    };
    match waited {
        Ok(_) => Ok(state(reader)),
        Err(WaitError::Stopped(Some(error))) => Err(error_json(error.client_error())),
        Err(WaitError::Stopped(None)) => Err(misused("the reflector is closed")),
        Err(error) => Err(json!({
            "code": "TIMEOUT",
            "reason": "",
            "message": format!("{error} ({} ms)", milliseconds(limit)),
            "metadata": {},
            "retry_after": null,
        })),
    }
}
