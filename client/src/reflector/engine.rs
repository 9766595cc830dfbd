//! The task behind a reflector: from events to snapshots.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until},
};

use super::{
    Shared,
    copy::{Applied, Copy},
    persist::{self, Identity, PersistError, Persistence},
    snapshot::Snapshot,
    status::{Connection, Restore},
};
use crate::{
    client::Client,
    watcher::{Event, Point, ResumeToken, Start, WatchOptions, Watcher, WatcherError, watcher},
};

/// How long changes wait for the bookmark that completes their revision. Listwatch's servers
/// send it with them; one that does not must not keep changes back until the next
/// interval ends.
const SETTLE: Duration = Duration::from_millis(100);

type SaveResult = Result<(), PersistError>;

/// Answered with the result of the last save.
pub(super) type Shutdown = oneshot::Receiver<oneshot::Sender<SaveResult>>;

pub(super) struct Engine<T> {
    pub(super) shared: Arc<Shared<T>>,
    pub(super) copy: Copy<T>,
    pub(super) identity: Identity,
    pub(super) persistence: Option<Persistence>,
    pub(super) progress: Progress,
}

/// Where the published and the current state are.
#[derive(Debug, Default)]
pub(super) struct Progress {
    revision: i64,
    resume_token: Option<ResumeToken>,
    /// The stream broke while changes waited for their bookmark: they may be half of a
    /// revision, of which the next stream tells the other half.
    torn: bool,
    /// What a resumed stream has to reach before the copy is in step again.
    target: Option<i64>,
    /// The point that was last saved.
    saved: Option<(i64, ResumeToken)>,
}

impl<T: Send + Sync + 'static> Engine<T> {
    pub(super) async fn run(mut self, client: Client, options: WatchOptions, shutdown: Shutdown) {
        let options = self.restore(options).await;
        let mut watcher = watcher(client, options);
        let period = self
            .persistence
            .as_ref()
            .map_or(Duration::MAX, |to| to.interval);
        let period = period.clamp(Duration::from_millis(1), Duration::from_secs(86_400 * 365));
        let mut tick = interval_at(Instant::now() + period, period);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut saving: Option<JoinHandle<SaveResult>> = None;
        let mut settle_at: Option<Instant> = None;
        tokio::pin!(shutdown);
        loop {
            let settled = async {
                match settle_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                asked = &mut shutdown => {
                    if let Some(saving) = saving.take() {
                        // Its result is that of an older state.
                        let _ = saving.await;
                    }
                    let result = match self.begin_save() {
                        Some(saving) => joined(saving.await),
                        None => Ok(()),
                    };
                    if let Ok(answer) = asked {
                        // Whoever asked may have left.
                        let _ = answer.send(result);
                    }
                    return;
                }
                event = watcher.next() => match event {
                    Some(Ok(event)) => {
                        self.take(event, &mut watcher);
                        if watcher.response_is_done() {
                            settle_at = self.end_response(settle_at);
                        }
                    }
                    Some(Err(error)) => return self.stop(error),
                    None => return,
                },
                () = settled => {
                    settle_at = None;
                    self.publish();
                }
                _ = tick.tick(), if saving.is_none() => saving = self.begin_save(),
                result = wait_for(&mut saving) => {
                    saving = None;
                    self.end_save(&joined(result));
                }
            }
        }
    }

    /// Starts with what an earlier run saved, if there is such.
    async fn restore(&mut self, options: WatchOptions) -> WatchOptions {
        let Some(persistence) = &self.persistence else {
            return options;
        };
        let (path, identity) = (persistence.path.clone(), self.identity.clone());
        let loaded = tokio::task::spawn_blocking({
            let path = path.clone();
            move || persist::load(&path, &identity)
        });
        let problem = match loaded.await {
            Ok(Ok(Some(saved))) => {
                let restore = Restore::Restored {
                    revision: saved.revision,
                    objects: saved.resources.len(),
                };
                self.copy.restore(saved.resources);
                self.progress.revision = saved.revision;
                self.progress.resume_token = Some(saved.resume_token.clone());
                self.progress.saved = Some((saved.revision, saved.resume_token.clone()));
                self.publish();
                self.shared
                    .status
                    .send_modify(|status| status.restore = restore);
                let mut options = options.start(Start::Token(saved.resume_token));
                options.token_is_optional = true;
                return options;
            }
            Ok(Ok(None)) => return options,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(%problem, "saved reflector state cannot be used: starting anew");
        self.shared.status.send_modify(|status| {
            status.restore = Restore::Refused { path, problem };
        });
        options
    }

    fn take(&mut self, event: Event, watcher: &mut Watcher) {
        match &event {
            Event::InitBegin | Event::NetBegin | Event::ManifestBegin => {
                // Before it in the same response are whole revisions.
                if !self.progress.torn {
                    self.publish();
                }
                self.behind(Connection::Syncing);
            }
            Event::Disconnected { cause, retry_in } => {
                self.progress.torn = self.copy.has_changes();
                self.progress.target = None;
                let retry_at = Instant::now() + *retry_in;
                self.behind(Connection::Disconnected {
                    cause: cause.clone(),
                    retry_at,
                });
            }
            _ => {}
        }
        let point = match &event {
            Event::InitDone(point)
            | Event::CaughtUp(point)
            | Event::Resumed(point)
            | Event::Bookmark(point) => Some(point.clone()),
            _ => None,
        };
        let resumed = matches!(event, Event::Resumed(_));
        let initial = matches!(event, Event::InitDone(_));
        let applied = self.copy.apply(event);
        if applied == Applied::Contradiction {
            tracing::warn!(
                "the server names objects as unchanged that are not held: starting over"
            );
            watcher.restart();
            return;
        }
        if let Some(point) = point {
            if resumed {
                self.progress.target = Some(point.latest_revision.max(point.revision));
            } else {
                self.progress.torn = false;
            }
            self.reach(point, applied == Applied::Swapped, initial);
        }
    }

    /// Takes a point: everything up to it is in the copy.
    fn reach(&mut self, point: Point, swapped: bool, initial: bool) {
        if !point.resume_token.as_str().is_empty() {
            self.progress.resume_token = Some(point.resume_token);
        }
        // Back only with a whole new state, which may be of another store.
        self.progress.revision = match swapped {
            true => point.revision,
            false => self.progress.revision.max(point.revision),
        };
        if !self.progress.torn {
            self.publish();
        }
        let in_step = swapped
            || match self.progress.target {
                Some(target) => self.progress.revision >= target,
                None => true,
            };
        if in_step {
            self.progress.target = None;
        }
        let newly_ready = in_step && !self.shared.status.borrow().ready;
        self.shared.status.send_modify(|status| {
            status.latest_revision = point.latest_revision.max(point.revision);
            status.connection = Connection::Live;
            status.initial_states += u64::from(initial);
            if in_step {
                status.stale_since = None;
                status.ready = true;
            }
        });
        if newly_ready {
            self.shared.mark_synced();
        }
    }

    /// All of a response has been taken. Changes without a bookmark wait for it a moment.
    fn end_response(&mut self, settle_at: Option<Instant>) -> Option<Instant> {
        let now = Instant::now();
        self.shared.status.send_modify(|status| {
            if !matches!(status.connection, Connection::Disconnected { .. }) {
                status.last_response = Some(now);
            }
        });
        if self.copy.has_changes() && !self.progress.torn {
            settle_at.or(Some(now + SETTLE))
        } else {
            None
        }
    }

    fn behind(&self, connection: Connection) {
        let now = Instant::now();
        self.shared.status.send_modify(|status| {
            status.stale_since.get_or_insert(now);
            status.connection = connection;
        });
    }

    /// Lets readers see the current state.
    fn publish(&mut self) {
        let shown = self.shared.snapshot.load();
        let progress = &self.progress;
        let changed = self.copy.has_changes();
        if !changed
            && shown.revision == progress.revision
            && shown.resume_token == progress.resume_token
        {
            return;
        }
        let changes = self.copy.publish();
        // Without a bookmark, the changes themselves say how far the state is.
        self.progress.revision = self.progress.revision.max(self.copy.newest_revision());
        let snapshot = Snapshot {
            contents: self.copy.current().clone(),
            revision: self.progress.revision,
            resume_token: self.progress.resume_token.clone(),
        };
        let (revision, undecodable) = (snapshot.revision, snapshot.contents.undecodable.len());
        self.shared.publish(snapshot, &changes);
        self.shared.status.send_modify(|status| {
            status.revision = revision;
            status.undecodable = undecodable;
            status.latest_revision = status.latest_revision.max(revision);
        });
    }

    /// Saves what is published, unless that is saved already. On a thread for blocking work.
    fn begin_save(&mut self) -> Option<JoinHandle<SaveResult>> {
        let path = self.persistence.as_ref()?.path.clone();
        let snapshot = self.shared.snapshot.load_full();
        let point = (snapshot.revision, snapshot.resume_token.clone()?);
        if self.progress.saved.as_ref() == Some(&point) {
            return None;
        }
        self.progress.saved = Some(point);
        let identity = self.identity.clone();
        Some(tokio::task::spawn_blocking(move || {
            persist::save(&path, &identity, &snapshot)
        }))
    }

    fn end_save(&mut self, result: &SaveResult) {
        match result {
            Ok(()) => {
                let now = Instant::now();
                self.shared
                    .status
                    .send_modify(|status| status.last_save = Some(now));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot save reflector state");
                self.progress.saved = None;
            }
        }
    }

    fn stop(&self, error: WatcherError) {
        tracing::warn!(%error, "reflector stopped");
        self.behind(Connection::Stopped(Some(Arc::new(error))));
    }
}

impl<T> Drop for Engine<T> {
    /// However the task ends, also by a panic of a codec, readers and handlers learn of it.
    fn drop(&mut self) {
        self.shared.close();
    }
}

async fn wait_for(
    saving: &mut Option<JoinHandle<SaveResult>>,
) -> Result<SaveResult, tokio::task::JoinError> {
    match saving {
        Some(saving) => saving.await,
        None => std::future::pending().await,
    }
}

fn joined(result: Result<SaveResult, tokio::task::JoinError>) -> SaveResult {
    result.unwrap_or_else(|error| {
        Err(PersistError::Io {
            path: "".into(),
            source: std::io::Error::other(error),
        })
    })
}
