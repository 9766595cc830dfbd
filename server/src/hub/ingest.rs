//! Taking commits up from the store: the only place where a cache changes.

use std::sync::{Arc, Weak};

use tokio::sync::broadcast::error::RecvError;

use super::Hub;
use crate::{
    limits::{INGEST_CHUNK, REREAD_PAUSE},
    store::{Collection, Commit, Event, Feed, Revision, Store, StoreError},
};

impl Hub {
    /// Fills the caches with the present state and returns the revision that they show.
    pub(super) async fn load(&self) -> Result<Revision, StoreError> {
        let start = self.store.progress().revision;
        let mut at = Revision::ZERO;
        // What changes while this runs is either read here already, at its newer
        // revision, or comes through the feed: applying it again there is harmless only
        // if it is left out, which `apply` does by revision.
        loop {
            let chunk = self.store.live_since(None, at, INGEST_CHUNK).await?;
            for commit in &chunk.commits {
                for event in &commit.events {
                    let entry = self.entry(&event.object.key.collection, || start);
                    if let Some(window) = &entry.window
                        && event.object.revision <= start
                    {
                        window.write().load(event.object.clone());
                    }
                }
            }
            at = chunk.scanned_to;
            if at >= start || at >= chunk.head {
                return Ok(start);
            }
        }
    }

    /// Applies one commit to the collections that it touches, makes it visible, and only
    /// then wakes the watchers.
    fn apply(&self, commit: &Commit) {
        let mut by_collection: Vec<(&Collection, Vec<Event>)> = Vec::new();
        for event in &commit.events {
            let name = &event.object.key.collection;
            match by_collection.iter_mut().find(|(known, _)| *known == name) {
                Some((_, events)) => events.push(event.clone()),
                None => by_collection.push((name, vec![event.clone()])),
            }
        }
        let mut touched = Vec::with_capacity(by_collection.len());
        for (name, events) in by_collection {
            // A collection first heard of now was empty up to the commit before.
            let entry = self.entry(name, || commit.revision.previous());
            if let Some(window) = &entry.window {
                window.write().apply(commit.revision, commit.time, events);
            }
            touched.push(entry);
        }
        self.applied.send_replace(commit.revision);
        for entry in touched {
            entry.changed.send_replace(commit.revision);
        }
    }
}

/// Follows the feed until the store closes or the hub is dropped. Whatever the feed does
/// not have, because this fell behind it, is read from the log: no commit is left out.
pub(super) async fn run(
    hub: Weak<Hub>,
    store: Arc<dyn Store>,
    mut feed: Feed,
    mut applied: Revision,
) {
    loop {
        let commits = match feed.recv().await {
            Ok(commits) => commits,
            Err(RecvError::Lagged(_)) => Arc::default(),
            Err(RecvError::Closed) => return,
        };
        let Some(hub) = hub.upgrade() else { return };
        for commit in commits.iter() {
            if commit.revision == applied.next() {
                hub.apply(commit);
                applied = commit.revision;
            }
        }
        // Loading and reading the log run ahead of the feed; a gap is left by falling behind.
        let seen = commits.last().map_or(Revision::MAX, |last| last.revision);
        if seen <= applied {
            continue;
        }
        while let Err(error) = reread(&hub, store.as_ref(), &mut applied).await {
            if error == StoreError::Closed {
                return;
            }
            // Readers are told that this server is behind. It may pass: a disk that
            // fails for a moment, a store that is being reopened.
            tracing::error!(%error, "cannot read the log; changes are not served until it can be");
            tokio::time::sleep(REREAD_PAUSE).await;
        }
    }
}

/// Applies what the log has after `applied`, and moves it along.
async fn reread(hub: &Hub, store: &dyn Store, applied: &mut Revision) -> Result<(), StoreError> {
    loop {
        let chunk = store.read_log(None, *applied, INGEST_CHUNK).await?;
        for commit in &chunk.commits {
            hub.apply(commit);
        }
        *applied = chunk.scanned_to;
        if chunk.scanned_to >= chunk.head {
            return Ok(());
        }
    }
}
