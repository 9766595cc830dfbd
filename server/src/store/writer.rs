//! The one writer. On a log that waits for a disk it is a thread that drains a bounded
//! queue: whatever arrived while the last group was on its way to the disk is the next
//! group. On a log in memory the caller writes itself.

use std::{sync::Arc, thread::JoinHandle};

use tokio::sync::{mpsc, oneshot};

use super::{
    CommitError, StoreError,
    core::{Answer, Core, Request},
    log::Log,
    plan::Planner,
};
use crate::{
    limits::{COMMIT_QUEUE, MAX_GROUP_BATCHES, MAX_GROUP_BYTES},
    sync::Mutex,
};

struct Job {
    request: Request,
    answer: oneshot::Sender<Answer>,
}

/// See the module.
pub(super) enum Writer {
    /// The caller writes; `None`: closed.
    Inline(Box<Mutex<Option<Planner>>>),
    /// A thread writes.
    Thread(Thread),
}

/// The writing thread and the way to it.
pub(super) struct Thread {
    /// `None`: closed.
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// The callers write.
    pub(super) fn inline(planner: Planner) -> Self {
        Self::Inline(Box::new(Mutex::new(Some(planner))))
    }

    /// A thread writes.
    ///
    /// # Errors
    /// The operating system gives no thread.
    pub(super) fn thread<L: Log>(
        core: Arc<Core<L>>,
        mut planner: Planner,
    ) -> std::io::Result<Self> {
        let (queue, mut jobs) = mpsc::channel(COMMIT_QUEUE);
        let thread = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || {
                while let Some(first) = jobs.blocking_recv() {
                    write_group(&core, &mut planner, first, &mut jobs);
                }
            })?;
        Ok(Self::Thread(Thread {
            queue: Mutex::new(Some(queue)),
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// Has a request written; the answer comes once it is durable.
    pub(super) async fn write<L: Log>(&self, core: &Core<L>, request: Request) -> Answer {
        const CLOSED: CommitError = CommitError::Store(StoreError::Closed);
        match self {
            Self::Inline(planner) => match &mut *planner.lock() {
                Some(planner) => core.write(planner, &[request]).pop().unwrap_or(Err(CLOSED)),
                None => Err(CLOSED),
            },
            Self::Thread(thread) => {
                let queue = thread.queue.lock().clone().ok_or(CLOSED)?;
                let (answer, answered) = oneshot::channel();
                queue
                    .send(Job { request, answer })
                    .await
                    .map_err(|_| CLOSED)?;
                drop(queue);
                answered.await.unwrap_or_else(|_| {
                    Err(CommitError::Uncertain("the writer has stopped".into()))
                })
            }
        }
    }

    /// Takes no more requests and waits for those that were taken. Blocks.
    pub(super) fn stop(&self) {
        match self {
            Self::Inline(planner) => *planner.lock() = None,
            Self::Thread(thread) => {
                *thread.queue.lock() = None;
                if let Some(thread) = thread.thread.lock().take()
                    && thread.join().is_err()
                {
                    tracing::error!("the store's writer panicked");
                }
            }
        }
    }
}

fn write_group<L: Log>(
    core: &Core<L>,
    planner: &mut Planner,
    first: Job,
    jobs: &mut mpsc::Receiver<Job>,
) {
    let mut bytes = bytes(&first.request);
    let mut requests = vec![first.request];
    let mut waiting = vec![first.answer];
    while requests.len() < MAX_GROUP_BATCHES
        && bytes < MAX_GROUP_BYTES
        && let Ok(job) = jobs.try_recv()
    {
        bytes += self::bytes(&job.request);
        requests.push(job.request);
        waiting.push(job.answer);
    }
    let answers = core.write(planner, &requests);
    for (answer, waiting) in answers.into_iter().zip(waiting) {
        // The caller may have gone; its write stands all the same.
        let _ = waiting.send(answer);
    }
}

fn bytes(request: &Request) -> usize {
    match request {
        Request::Batch(batch) => batch
            .operations
            .iter()
            .map(|operation| match operation {
                super::Operation::Put { content, .. } => content.value.len() + 256,
                _ => 256,
            })
            .sum(),
        Request::Expire(due) => due.len() * 256,
    }
}
