//! Taking commits up from the store: the only place where a cache changes.

use std::{
    collections::HashSet,
    ops::Bound,
    sync::{Arc, Weak},
};

use tokio::sync::broadcast::error::RecvError;

use super::{Hub, interest::Waiter, window::weight};
use crate::{
    limits::{INGEST_CHUNK, REREAD_PAUSE},
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

    /// Applies one commit to the collections that it touches, and notes whom to wake for it.
    fn apply(&self, commit: &Commit, woken: &mut Vec<Arc<Waiter>>) {
        let mut by_collection: Vec<(&Collection, Vec<Event>)> = Vec::new();
        for event in &commit.events {
            let name = &event.object.key.collection;
            match by_collection.iter_mut().find(|(known, _)| *known == name) {
                Some((_, events)) => events.push(event.clone()),
                None => by_collection.push((name, vec![event.clone()])),
            }
        }
        for (name, events) in by_collection {
            // A collection first heard of now was empty up to the commit before.
            self.change(
                name,
                || commit.revision.previous(),
                |entry| {
                    let bytes = events.iter().map(|e| weight(&e.object) as u64).sum();
                    entry.backlogs.note(commit.revision, bytes);
                    match &entry.window {
                        Some(window) => {
                            let shared = window.write().apply(Commit {
                                revision: commit.revision,
                                time: commit.time,
                                events,
                                trace: commit.trace.clone(),
                            });
                            let events = &shared.commit.events;
                            entry.interest.mark(commit.revision, events, woken);
                        }
                        None => entry.interest.mark(commit.revision, &events, woken),
                    }
                },
            );
        }
    }

    /// Makes what was applied visible, and only then wakes the watchers: of what the disk took
    /// at once they are woken once.
    ///
    /// Marked before it is visible: a watch without a mark has seen all that concerns it up to
    /// here. Woken after, so that it finds what it was woken for.
    fn show(&self, revision: Revision, woken: Vec<Arc<Waiter>>) {
        self.applied.send_replace(revision);
        for waiter in woken {
            waiter.wake();
        }
    }

    /// Takes the present state in place of commits that are compacted, and returns its
    /// revision. Watches that needed them find their position below the window's floor.
    pub(super) async fn reload(&self) -> Result<Revision, StoreError> {
        let (revision, _pin) = loop {
            let revision = self.store.progress().revision;
            match self.store.pin(revision) {
                Ok(pin) => break (revision, pin),
                // Written and compacted just now: there is a newer one.
                Err(StoreError::Compacted { .. }) => {}
                Err(error) => return Err(error),
            }
        };
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
        // What lies between is not known: it may concern every watch.
        let unknown = self.applied().next();
        let mut woken = Vec::new();
        for (name, objects) in &states {
            self.change(
                name,
                || revision,
                |entry| {
                    if let Some(window) = &entry.window {
                        window.write().restart(revision, objects);
                    }
                    entry.interest.mark_all(unknown, &mut woken);
                },
            );
        }
        self.show(revision, woken);
        Ok(revision)
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
            Err(RecvError::Closed) => {
                if let Some(hub) = hub.upgrade() {
                    hub.stop();
                }
                return;
            }
        };
        let Some(hub) = hub.upgrade() else { return };
        let (before, mut woken) = (applied, Vec::new());
        for commit in commits.iter() {
            if commit.revision == applied.next() {
                hub.apply(commit, &mut woken);
                applied = commit.revision;
            }
        }
        if applied > before {
            hub.show(applied, woken);
        }
        // Loading and reading the log run ahead of the feed; a gap is left by falling behind.
        let seen = commits.last().map_or(Revision::MAX, |last| last.revision);
        if seen <= applied {
            continue;
        }
        while let Err(error) = catch_up(&hub, store.as_ref(), &mut applied).await {
            if error == StoreError::Closed {
                hub.stop();
                return;
            }
            // Readers are told that this server is behind. It may pass: a disk that
            // fails for a moment, a store that is being reopened.
            tracing::error!(%error, "cannot read the log; changes are not served until it can be");
            tokio::time::sleep(REREAD_PAUSE).await;
        }
    }
}

/// Takes up what the feed has dropped, from the log, or from the state where compaction has
/// overtaken this too, and moves `applied` along.
async fn catch_up(hub: &Hub, store: &dyn Store, applied: &mut Revision) -> Result<(), StoreError> {
    loop {
        match reread(hub, store, applied).await {
            Err(StoreError::Compacted { .. }) => {
                tracing::warn!(%applied, "compaction has overtaken the watch caches; loading them again");
                *applied = hub.reload().await?;
            }
            other => return other,
        }
    }
}

/// Applies what the log has after `applied`, and moves it along.
async fn reread(hub: &Hub, store: &dyn Store, applied: &mut Revision) -> Result<(), StoreError> {
    loop {
        let chunk = store.read_log(None, *applied, INGEST_CHUNK).await?;
        let mut woken = Vec::new();
        for commit in &chunk.commits {
            hub.apply(commit, &mut woken);
        }
        if let Some(last) = chunk.commits.last() {
            hub.show(last.revision, woken);
        }
        *applied = chunk.scanned_to;
        if chunk.scanned_to >= chunk.head {
            return Ok(());
        }
    }
}
