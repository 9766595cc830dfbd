//! What can go wrong in a store.

use super::{Revision, Uid};

/// A read or a maintenance call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The revision is below the compacted one. No retry helps; list again or catch up.
    #[error("revision {requested} is compacted; history starts at {compacted}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// The oldest readable revision.
        compacted: Revision,
        /// The newest revision.
        revision: Revision,
    },
    /// The revision is below the tombstone horizon: a difference would miss deletions.
    #[error("deletions up to revision {forgotten} are forgotten; {requested} is older")]
    Forgotten {
        /// What was asked for.
        requested: Revision,
        /// The tombstone horizon.
        forgotten: Revision,
    },
    /// The revision does not exist yet. A retry helps if another server is ahead.
    #[error("revision {requested} is in the future; the newest is {latest}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// The newest revision.
        latest: Revision,
    },
    /// What is on disk is not what was written. Says what is missing and what to do.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// The store cannot be opened as asked: held by another process, of an unknown
    /// format, not a store. Says what to do.
    #[error("{0}")]
    Unusable(String),
    /// The operating system refused. A retry may help.
    #[error("{context}: {message}")]
    Io {
        /// What was being done, with the path.
        context: String,
        /// What the operating system said.
        message: String,
    },
    /// The store is closed or closing.
    #[error("the store is closed")]
    Closed,
}

/// A commit failed. Nothing was written, except as [`CommitError::Uncertain`] says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// The name is taken.
    #[error("operation {operation}: the object exists at revision {revision}")]
    Exists {
        /// Index of the operation in the batch.
        operation: usize,
        /// The revision of the object that has the name.
        revision: Revision,
    },
    /// The object is absent.
    #[error("operation {operation}: the object does not exist")]
    NotFound {
        /// Index of the operation in the batch.
        operation: usize,
    },
    /// The object is at another revision, or absent (`current` is `None`) where a
    /// revision was demanded by a check.
    #[error("operation {operation}: the object is at another revision")]
    RevisionMismatch {
        /// Index of the operation in the batch.
        operation: usize,
        /// Where the object is now; `None`: it is absent.
        current: Option<Revision>,
    },
    /// The name was taken by a new object.
    #[error("operation {operation}: the object has another uid")]
    UidMismatch {
        /// Index of the operation in the batch.
        operation: usize,
        /// The uid that the object has now.
        current: Uid,
    },
    /// The request id was used for another request within the replay window.
    #[error("the request id was used for another request")]
    RequestIdReused,
    /// No room. Deleting and compacting still work; retry when there is room.
    #[error("the store is full: {0}")]
    StorageFull(String),
    /// The disk failed on the way: whether the batch is stored shows when the store is
    /// next opened. Retry with the same request id.
    #[error("the write failed on its way to the disk: {0}")]
    Uncertain(String),
    /// The store cannot take writes at all.
    #[error(transparent)]
    Store(#[from] StoreError),
}
