//! Taking commits up from the store: the only place where a cache changes.

use std::{
    collections::HashSet,
    ops::Bound,
    sync::{Arc, Weak},
};

use tokio::sync::broadcast::error::RecvError;

use super::Hub;
use crate::{
    limits::INGEST_CHUNK,
    selector::Selector,
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
                    self.change(
                        &event.object.key.collection,
                        || start,
                        |entry| {
                            if let Some(window) = &entry.window
                                && event.object.revision <= start
                            {
                                window.write().load(event.object.clone());
                            }
                        },
                    );
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
            self.change(
                name,
                || commit.revision.previous(),
                |entry| {
                    if let Some(window) = &entry.window {
                        window.write().apply(commit.revision, commit.time, events);
                    }
                },
            );
            touched.push(name);
        }
        self.applied.send_replace(commit.revision);
        for name in touched {
            // Looked up again: a watcher that came meanwhile may have made a new entry; one
            // that comes later sees what is applied.
            if let Some(entry) = self.existing(name) {
                entry.changed.send_replace(commit.revision);
            }
        }
    }

    /// Takes the present state in place of commits that are compacted, and returns its
    /// revision. Watches that needed them find their position below the window's floor.
    async fn reload(&self) -> Result<Revision, StoreError> {
        let revision = self.store.progress().revision;
        let _pin = self.store.pin(revision)?;
        let mut names: HashSet<Collection> = self.collections.read().keys().cloned().collect();
        let stored = self.store.status().collections;
        names.extend(stored.into_iter().map(|(name, _)| name));
        let mut states = Vec::with_capacity(names.len());
        for name in names {
            let mut range = Selector::all(name.clone()).range(Bound::Unbounded);
            let mut objects = Vec::new();
            loop {
                let page = self.store.list(&range, revision, INGEST_CHUNK).await?;
                objects.extend(page.objects);
                match page.next {
                    Some(next) => range.after = Bound::Excluded(next),
                    None => break,
                }
            }
            states.push((name, objects));
        }
        for (name, objects) in &states {
            self.change(
                name,
                || revision,
                |entry| {
                    if let Some(window) = &entry.window {
                        window.write().restart(revision, objects);
                    }
                },
            );
        }
        self.applied.send_replace(revision);
        for (name, _) in &states {
            if let Some(entry) = self.existing(name) {
                entry.changed.send_replace(revision);
            }
        }
        Ok(revision)
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
                // The feed's first commits may be such as loading has seen; after them
                // none may be missing.
                for commit in commits.iter() {
                    if commit.revision > applied {
                        debug_assert_eq!(commit.revision, applied.next());
                        hub.apply(commit);
                        applied = commit.revision;
                    }
                }
            }
            Err(RecvError::Lagged(_)) => match take_up(&hub, store.as_ref(), applied).await {
                Ok(Some(reached)) => applied = reached,
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "cannot read the log; this server stops serving changes");
                    if let Some(hub) = hub.upgrade() {
                        hub.stop();
                    }
                    return;
                }
            },
            Err(RecvError::Closed) => {
                if let Some(hub) = hub.upgrade() {
                    hub.stop();
                }
                return;
            }
        }
    }
}

/// What the feed has dropped, from the log, or from the state if that is compacted too.
async fn take_up(
    hub: &Weak<Hub>,
    store: &dyn Store,
    applied: Revision,
) -> Result<Option<Revision>, StoreError> {
    loop {
        match reread(hub, store, applied).await {
            Err(StoreError::Compacted { .. }) => {}
            other => return other,
        }
        tracing::warn!(%applied, "compaction has overtaken the watch caches; loading them again");
        let Some(hub) = hub.upgrade() else {
            return Ok(None);
        };
        match hub.reload().await {
            // Once more: compaction came between the revision and its pin.
            Err(StoreError::Compacted { .. }) => {}
            other => return other.map(Some),
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
