//! Taking commits up from the store: the only place where a cache changes.

use std::sync::{Arc, Weak};

use tokio::sync::broadcast::error::RecvError;

use super::Hub;
use crate::{
    limits::INGEST_CHUNK,
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

/// Follows the feed until the store closes or the hub is dropped. One that falls behind
/// the feed reads the log, so that no commit is ever left out.
pub(super) async fn run(
    hub: Weak<Hub>,
    store: Arc<dyn Store>,
    mut feed: Feed,
    mut applied: Revision,
) {
    loop {
        match feed.recv().await {
            Ok(commits) => {
                let Some(hub) = hub.upgrade() else { return };
                for commit in commits.iter().filter(|c| c.revision > applied) {
                    // The feed's first commits may be such as loading has seen; after
                    // them none may be missing.
                    debug_assert_eq!(commit.revision, applied.next());
                    hub.apply(commit);
                }
                applied = applied.max(hub.applied());
            }
            Err(RecvError::Lagged(_)) => match reread(&hub, store.as_ref(), applied).await {
                Ok(Some(reached)) => applied = reached,
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "cannot read the log; this server stops serving changes");
                    return;
                }
            },
            Err(RecvError::Closed) => return,
        }
    }
}

async fn reread(
    hub: &Weak<Hub>,
    store: &dyn Store,
    mut applied: Revision,
) -> Result<Option<Revision>, StoreError> {
    loop {
        let chunk = store.read_log(None, applied, INGEST_CHUNK).await?;
        let Some(hub) = hub.upgrade() else {
            return Ok(None);
        };
        for commit in &chunk.commits {
            hub.apply(commit);
        }
        applied = chunk.scanned_to;
        if chunk.scanned_to >= chunk.head {
            return Ok(Some(applied));
        }
    }
}
