//! Exit codes, and what is said on standard error when something fails.

use std::{fmt, io};

use listwatch::v1::{ErrorReason, Key};
use tonic_types::StatusExt as _;

use super::output::key_name;
use crate::ClientError;

/// What the process returns. Part of the interface: scripts depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// All is done. Also when the reader of the output went away (`| head`).
    Ok = 0,
    /// Some of the work failed, or all of it for a reason that has no code of its own.
    Failed = 1,
    /// The command line or what was asked for is wrong: trying again will not help.
    Usage = 2,
    /// An object is not there.
    NotFound = 3,
    /// An object is there already, or has another revision than the one given.
    Conflict = 4,
    /// The server cannot be reached, is not ready, is overloaded or took too long.
    Unavailable = 5,
    /// A revision or resume token is older than the kept history, of the future, or of
    /// another store: list again.
    Expired = 6,
    /// The server refuses: no permission, or its store is full.
    Refused = 7,
}

/// The text that `--help` ends with.
pub(super) const EXIT_HELP: &str = "\
Exit codes:
  0  all is done (also when the reader of the output went away, as with `| head`)
  1  some of the work failed; standard error names each piece
  2  the command line or the request is wrong: trying again will not help
  3  an object is not there
  4  conflict: the object exists already, or its revision is not the one given
  5  the server cannot be reached, is not ready, overloaded or took too long: try again
  6  a revision or resume token is older than the kept history, of the future or of
     another store: list again
  7  the server refuses: no permission, or its store is full";

/// Why a command ends early.
#[derive(Debug)]
pub(super) struct CommandError {
    /// For the process.
    pub(super) exit: Exit,
    /// For standard error, one line; empty if all has been said.
    pub(super) message: String,
}

impl CommandError {
    /// A failure with its reason and what to do next.
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }

    /// The command line is wrong.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// All has been said already.
    pub(super) fn said(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// Writing to standard output failed. If only its reader went away, nothing is wrong.
    pub(super) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::said(Exit::Ok),
            _ => Self::new(
                Exit::Failed,
                format!("cannot write to standard output: {error}"),
            ),
        }
    }

    /// A file could not be read or written.
    pub(super) fn file(name: impl fmt::Display, error: io::Error) -> Self {
        Self::new(Exit::Failed, format!("{name}: {error}"))
    }

    /// A document that is no object.
    pub(super) fn document(origin: impl fmt::Display, why: String) -> Self {
        Self::new(Exit::Failed, format!("{origin}: {}", one_line(&why)))
    }

    /// The same as a part of work that goes on: 1 is its exit code, whatever the reason.
    /// Except where there is no going on.
    pub(super) fn partly(self) -> Self {
        match self.exit {
            Exit::Ok | Exit::Unavailable => self,
            _ => Self {
                exit: Exit::Failed,
                ..self
            },
        }
    }

    /// The same failure, said about something.
    pub(super) fn about(self, what: impl fmt::Display) -> Self {
        Self {
            message: format!("{what}: {}", self.message),
            ..self
        }
    }

    /// A call that the server, or the way to it, has failed.
    pub(super) fn call(error: &ClientError) -> Self {
        let mut message = match (error, error.failure()) {
            // Here the library's words are needed to understand the transport's.
            (ClientError::Unavailable(_) | ClientError::Interrupted(_), _) => error.to_string(),
            (ClientError::Timeout(_), _) | (_, None) => error.to_string(),
            (_, Some(failure)) if failure.message().is_empty() => error.to_string(),
            (_, Some(failure)) => failure.message().to_owned(),
        };
        let violation = error.failure().and_then(|failure| {
            let bad = failure.status().get_details_bad_request()?;
            bad.field_violations.into_iter().next()
        });
        if let Some(field) = violation.map(|violation| violation.field)
            && !field.is_empty()
            && !message.contains(&field)
        {
            message = format!("{field}: {message}");
        }
        if let Some(advice) = advice(error) {
            message = format!("{message} ({advice})");
        }
        Self {
            exit: exit_of(error),
            message: one_line(&message),
        }
    }

    /// A call about one object.
    pub(super) fn call_about(error: &ClientError, key: Option<&Key>) -> Self {
        Self::call(error).about(key_name(key))
    }
}

fn exit_of(error: &ClientError) -> Exit {
    match error {
        ClientError::Endpoint { .. } | ClientError::Invalid(_) | ClientError::Unimplemented(_) => {
            Exit::Usage
        }
        ClientError::NotFound(_) => Exit::NotFound,
        ClientError::AlreadyExists(_) | ClientError::Conflict(_) => Exit::Conflict,
        ClientError::Expired(_) | ClientError::FutureRevision(_) => Exit::Expired,
        ClientError::Exhausted(failure) if failure.reason() == ErrorReason::StorageFull => {
            Exit::Refused
        }
        ClientError::Unauthenticated(_) | ClientError::PermissionDenied(_) => Exit::Refused,
        ClientError::Connect(_)
        | ClientError::Timeout(_)
        | ClientError::Unavailable(_)
        | ClientError::Interrupted(_)
        | ClientError::Exhausted(_) => Exit::Unavailable,
        ClientError::DataLoss(_) | ClientError::Other(_) | ClientError::Protocol(_) => Exit::Failed,
    }
}

/// What to do next, where the code does not say it by itself.
fn advice(error: &ClientError) -> Option<&'static str> {
    use ErrorReason as Reason;
    Some(match (error, error.reason()) {
        (_, Reason::RevisionCompacted) => "that history is gone: start from the current state",
        (_, Reason::RevisionInFuture) => "wait until the server is there, or ask another",
        (_, Reason::StoreChanged) => {
            "the store was made anew or restored: start from the current state"
        }
        (_, Reason::TokenInvalid) => {
            "a token serves only the list or watch that gave it, with the same selector"
        }
        (_, Reason::RevisionMismatch | Reason::UidMismatch) => {
            "someone else wrote it: read it, then write again"
        }
        (_, Reason::StorageFull) => "delete objects and compact, or raise the quota",
        (_, Reason::StoreDamaged) => "see the server's log",
        (_, Reason::WriteUncertain) => {
            "whether it is stored shows when the server is back: read it"
        }
        (_, Reason::ObjectExists) => "use put to replace it",
        (_, Reason::TooManyRequests | Reason::TooManyWatches | Reason::NotReady) => "try again",
        (ClientError::Timeout(_), _) => "raise --timeout",
        (ClientError::Unimplemented(_), Reason::Unspecified) => {
            "does --server name a Listwatch server of this version?"
        }
        (ClientError::Unavailable(_) | ClientError::Interrupted(_), Reason::Unspecified) => {
            "is the server running? try again"
        }
        _ => return None,
    })
}

/// Errors are one line each; what a server sends cannot forge more of them, nor move
/// the cursor of a terminal.
pub(super) fn one_line(text: &str) -> String {
    let words: Vec<_> = text
        .split(|c: char| c.is_control())
        .filter(|part| !part.is_empty())
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use tonic::{Code, Status};
    use tonic_types::ErrorDetails;

    use super::*;

    fn status(code: Code, reason: &str) -> Status {
        let details =
            ErrorDetails::with_error_info(reason, listwatch::ERROR_DOMAIN, HashMap::new());
        Status::with_error_details(code, "why\nso", details)
    }

    #[test]
    fn every_kind_of_error_has_its_exit_code_and_fits_on_a_line() {
        for (code, reason, exit) in [
            (Code::NotFound, "OBJECT_NOT_FOUND", 3),
            (Code::AlreadyExists, "OBJECT_EXISTS", 4),
            (Code::Aborted, "REVISION_MISMATCH", 4),
            (Code::Unavailable, "NOT_READY", 5),
            (Code::ResourceExhausted, "TOO_MANY_REQUESTS", 5),
            (Code::DeadlineExceeded, "", 5),
            (Code::OutOfRange, "REVISION_COMPACTED", 6),
            (Code::OutOfRange, "STORE_CHANGED", 6),
            (Code::InvalidArgument, "FIELD_INVALID", 2),
            (Code::ResourceExhausted, "STORAGE_FULL", 7),
            (Code::PermissionDenied, "", 7),
            (Code::Internal, "INTERNAL", 1),
        ] {
            let failure = CommandError::call(&status(code, reason).into());
            assert_eq!(failure.exit as u8, exit, "{code:?} {reason}");
            assert!(failure.message.contains("why so"), "{}", failure.message);
            assert!(EXIT_HELP.contains(&format!("\n  {exit}  ")));
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let failure = CommandError::output(io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Ok, ""));
        assert_eq!(
            CommandError::output(io::ErrorKind::StorageFull.into()).exit,
            Exit::Failed
        );
    }
}
