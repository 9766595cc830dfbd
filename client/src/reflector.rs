//! A copy of a collection that keeps itself in step with the server.

mod codec;
mod contents;
mod copy;
mod engine;
mod object;
pub(crate) mod persist;
mod queue;
mod snapshot;
mod status;

use std::{
    fmt,
    future::Future,
    ops::Deref,
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::{
    sync::{oneshot, watch},
    task::AbortHandle,
    time::timeout,
};

pub use self::{
    codec::{Codec, DecodeError},
    object::{Obj, ObjectKey, Undecodable},
    persist::{DEFAULT_SAVE_INTERVAL, PersistError, Persistence},
    queue::{Notice, Subscription},
    snapshot::Snapshot,
    status::{Connection, Lag, Restore, Status, WaitError},
};
use self::{
    contents::{Contents, Index},
    copy::Copy,
    engine::{Engine, Progress},
    persist::Identity,
    queue::{KeyChange, Queue},
};
use crate::{
    client::Client,
    watcher::{OnExpired, Start, WatchOptions},
};

/// Sets up a [`Reflector`] of what `options` select. Their start and what they say of expiry are
/// left aside: a reflector begins with the initial state, or where its [`Persistence`] says,
/// and starts over when history is gone.
pub fn reflector<T: Send + Sync + 'static>(
    client: Client,
    options: WatchOptions,
    codec: Codec<T>,
) -> ReflectorBuilder<T> {
    let options = options
        .start(Start::InitialState)
        .on_expired(OnExpired::StartOver);
    ReflectorBuilder {
        client,
        options,
        codec,
        indexes: Vec::new(),
        persistence: None,
    }
}

/// Sets up a [`Reflector`]. Made by [`reflector()`].
#[must_use = "a reflector does nothing until it is spawned"]
pub struct ReflectorBuilder<T> {
    client: Client,
    options: WatchOptions,
    codec: Codec<T>,
    indexes: Vec<Index<T>>,
    persistence: Option<Persistence>,
}

impl<T: Send + Sync + 'static> ReflectorBuilder<T> {
    /// Adds a secondary index: `function` gives the values under which an object is found
    /// by [`Snapshot::indexed`]. It must depend on nothing but the object.
    pub fn index(
        mut self,
        name: impl Into<String>,
        function: impl Fn(&Obj<T>) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.indexes.push(Index {
            name: name.into(),
            function: Box::new(function),
        });
        self
    }

    /// Saves state to a file and starts with what is saved there.
    pub fn persist(mut self, persistence: Persistence) -> Self {
        self.persistence = Some(persistence);
        self
    }

    /// Starts the reflector on the current tokio runtime.
    ///
    /// # Panics
    /// Outside of a runtime.
    #[must_use = "dropping a reflector stops it"]
    pub fn spawn(self) -> Reflector<T> {
        let contents = Contents::new(self.indexes.into());
        let snapshot = Snapshot {
            contents: contents.clone(),
            revision: 0,
            resume_token: None,
        };
        let shared = Arc::new(Shared {
            snapshot: ArcSwap::from_pointee(snapshot),
            status: watch::Sender::new(Status::new()),
            handlers: Mutex::new(Handlers {
                queues: Vec::new(),
                synced: false,
                closed: false,
            }),
        });
        let engine = Engine {
            shared: shared.clone(),
            copy: Copy::new(self.codec, self.persistence.is_some(), contents),
            identity: Identity {
                selector: self.options.selector.clone(),
                view: self.options.view.into(),
            },
            persistence: self.persistence,
            progress: Progress::default(),
        };
        let (shutdown, asked) = oneshot::channel();
        let task = tokio::spawn(engine.run(self.client, self.options, asked));
        Reflector {
            reader: Reader { shared },
            shutdown: Some(shutdown),
            task: task.abort_handle(),
        }
    }
}

impl<T> fmt::Debug for ReflectorBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorBuilder")
            .field("options", &self.options)
            .field("persistence", &self.persistence)
            .finish_non_exhaustive()
    }
}

/// Owns the task that keeps the copy in step; dropping it stops the task. All reading is
/// done through [`Reader`], to which this dereferences and of which there can be many.
#[derive(Debug)]
pub struct Reflector<T> {
    reader: Reader<T>,
    shutdown: Option<oneshot::Sender<oneshot::Sender<Result<(), PersistError>>>>,
    task: AbortHandle,
}

impl<T> Reflector<T> {
    /// A handle for reading, independent of this one's life.
    #[must_use]
    pub fn reader(&self) -> Reader<T> {
        self.reader.clone()
    }

    /// Stops the reflector and saves its state a last time, if it persists.
    ///
    /// # Errors
    /// If the state cannot be saved.
    pub async fn shutdown(mut self) -> Result<(), PersistError> {
        let (answer, result) = oneshot::channel();
        let asked = self
            .shutdown
            .take()
            .is_some_and(|shutdown| shutdown.send(answer).is_ok());
        if !asked {
            return Ok(());
        }
        // Without an answer it had stopped by itself.
        result.await.unwrap_or(Ok(()))
    }
}

impl<T> Deref for Reflector<T> {
    type Target = Reader<T>;

    fn deref(&self) -> &Reader<T> {
        &self.reader
    }
}

impl<T> Drop for Reflector<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Shared<T> {
    snapshot: ArcSwap<Snapshot<T>>,
    status: watch::Sender<Status>,
    /// Locked while a snapshot is published, so that who subscribes misses nothing between
    /// the snapshot and the queue. Never locked by readers.
    handlers: Mutex<Handlers<T>>,
}

struct Handlers<T> {
    queues: Vec<Weak<Queue<T>>>,
    synced: bool,
    closed: bool,
}

impl<T> Shared<T> {
    fn publish(&self, snapshot: Snapshot<T>, changes: &[KeyChange<T>]) {
        let mut handlers = self.handlers.lock();
        // First, so that a handler that looks finds at least what it was told.
        self.snapshot.store(Arc::new(snapshot));
        handlers.each(|queue| queue.push(changes));
    }

    fn mark_synced(&self) {
        let mut handlers = self.handlers.lock();
        handlers.synced = true;
        handlers.each(Queue::mark_synced);
    }

    fn close(&self) {
        self.status.send_modify(|status| {
            if !status.is_stopped() {
                status.connection = Connection::Stopped(None);
                status
                    .stale_since
                    .get_or_insert_with(tokio::time::Instant::now);
            }
        });
        let mut handlers = self.handlers.lock();
        handlers.closed = true;
        handlers.each(Queue::close);
    }
}

impl<T> Handlers<T> {
    fn each(&mut self, act: impl Fn(&Queue<T>)) {
        self.queues.retain(|queue| match queue.upgrade() {
            Some(queue) => {
                act(&queue);
                true
            }
            None => false,
        });
    }
}

/// Reads what a [`Reflector`] holds. Cheap to clone. Goes on working when the reflector has
/// stopped: then the last state stays, marked stale.
pub struct Reader<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Clone for Reader<T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<T> Reader<T> {
    /// The newest consistent state. Never waits.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot<T>> {
        self.shared.snapshot.load_full()
    }

    /// One object of the newest state. For several that fit together take a
    /// [`Reader::snapshot`].
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<Obj<T>>> {
        self.shared.snapshot.load().get(key).cloned()
    }

    /// How the reflector is doing.
    #[must_use]
    pub fn status(&self) -> Status {
        self.shared.status.borrow().clone()
    }

    /// Follows how the reflector is doing. Each look shows the newest status; those in
    /// between are not kept.
    #[must_use]
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.shared.status.subscribe()
    }

    /// Waits until the copy has been in step with the server for the first time.
    ///
    /// # Errors
    /// [`WaitError::Timeout`] if that takes longer than `limit`, as when the server never
    /// ends the initial state; [`WaitError::Stopped`] if the reflector has ended.
    pub async fn wait_until_ready(&self, limit: Duration) -> Result<Arc<Snapshot<T>>, WaitError> {
        self.wait(limit, |status| status.ready).await
    }

    /// Waits until the snapshot shows at least this revision: after a write, that of the
    /// write's answer, to read what was written. If the selector does not match what was
    /// written, only the next bookmark can tell, so allow for a bookmark interval.
    ///
    /// # Errors
    /// [`WaitError::Timeout`] if that takes longer than `limit`; [`WaitError::Stopped`] if
    /// the reflector has ended.
    pub async fn wait_for_revision(
        &self,
        revision: i64,
        limit: Duration,
    ) -> Result<Arc<Snapshot<T>>, WaitError> {
        self.wait(limit, |status| status.revision >= revision).await
    }

    async fn wait(
        &self,
        limit: Duration,
        holds: impl Fn(&Status) -> bool,
    ) -> Result<Arc<Snapshot<T>>, WaitError> {
        let mut status = self.shared.status.subscribe();
        let reached = timeout(limit, status.wait_for(|now| holds(now) || now.is_stopped())).await;
        let now = match reached {
            // The sender lives as long as this reader.
            Ok(Err(_closed)) => return Err(WaitError::Stopped(None)),
            Ok(Ok(now)) => now.clone(),
            Err(_elapsed) => {
                return Err(WaitError::Timeout {
                    timeout: limit,
                    status: Box::new(self.status()),
                });
            }
        };
        match (holds(&now), now.connection) {
            (false, Connection::Stopped(error)) => Err(WaitError::Stopped(error)),
            _ => Ok(self.snapshot()),
        }
    }

    /// Tells a handler of every object and then of every change, at its own pace.
    pub fn subscribe(&self) -> Subscription<T> {
        let queue = Arc::new(Queue::new());
        let mut handlers = self.shared.handlers.lock();
        let contents = &self.shared.snapshot.load().contents;
        let keys = contents.objects.keys().chain(contents.undecodable.keys());
        let existing: Vec<KeyChange<T>> = keys
            .map(|key| KeyChange {
                key: key.clone(),
                old: None,
                new: contents.visible(key),
                undecodable: contents.undecodable.get(key).cloned(),
            })
            .collect();
        queue.push(&existing);
        if handlers.synced {
            queue.mark_synced();
        }
        if handlers.closed {
            queue.close();
        }
        handlers.queues.push(Arc::downgrade(&queue));
        drop(handlers);
        Subscription { queue }
    }
}

impl<T: Send + Sync + 'static> Reader<T> {
    /// Runs `handler` for each notice, one after the other, on a task of its own, until the
    /// guard is dropped or the reflector stops.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn add_handler<F, Fut>(&self, mut handler: F) -> HandlerGuard
    where
        F: FnMut(Notice<T>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let mut subscription = self.subscribe();
        let task = tokio::spawn(async move {
            while let Some(notice) = subscription.next().await {
                handler(notice).await;
            }
        });
        HandlerGuard {
            task: task.abort_handle(),
        }
    }
}

impl<T> fmt::Debug for Reader<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("status", &self.shared.status.borrow())
            .finish()
    }
}

/// Keeps a handler running; dropping it ends the handler at its next await.
#[derive(Debug)]
#[must_use = "dropping the guard ends the handler"]
pub struct HandlerGuard {
    task: AbortHandle,
}

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        self.task.abort();
    }
}
