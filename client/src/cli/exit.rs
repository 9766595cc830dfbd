//! Exit codes, and what is said on standard error when something fails.

use std::{fmt, io};

use listwatch::v1::Key;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::output::key_name;

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
pub const EXIT_HELP: &str = "\
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
pub struct Failure {
    /// For the process.
    pub exit: Exit,
    /// For standard error, one line; empty if all has been said.
    pub message: String,
}

impl Failure {
    /// A failure with its reason and what to do next.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
        }
    }

    /// The command line is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// All has been said already.
    pub fn said(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// Writing to standard output failed. If only its reader went away, nothing is wrong.
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::said(Exit::Ok),
            _ => Self::new(
                Exit::Failed,
                format!("cannot write to standard output: {error}"),
            ),
        }
    }

    /// A file could not be read or written.
    pub fn file(name: impl fmt::Display, error: io::Error) -> Self {
        Self::new(Exit::Failed, format!("{name}: {error}"))
    }

    /// A document that is no object.
    pub fn document(origin: impl fmt::Display, why: String) -> Self {
        Self::new(Exit::Failed, format!("{origin}: {}", one_line(&why)))
    }

    /// The same as a part of work that goes on: 1 is its exit code, whatever the reason.
    /// Except where there is no going on.
    pub fn partly(self) -> Self {
        match self.exit {
            Exit::Ok | Exit::Unavailable => self,
            _ => Self { exit: Exit::Failed, ..self },
        }
    }

    /// The same failure, said about something.
    pub fn about(self, what: impl fmt::Display) -> Self {
        Self {
            message: format!("{what}: {}", self.message),
            ..self
        }
    }

    /// A call that the server, or the way to it, has failed.
    pub fn call(status: &Status) -> Self {
        let reason = reason(status);
        let exit = exit_of(status.code(), &reason);
        let mut message = one_line(status.message());
        if message.is_empty() {
            message = format!("the server answered {:?}", status.code());
        }
        let named = status
            .get_error_details_vec()
            .into_iter()
            .find_map(|detail| match detail {
                tonic_types::ErrorDetail::BadRequest(bad) => bad
                    .field_violations
                    .into_iter()
                    .next()
                    .map(|violation| violation.field),
                _ => None,
            });
        if let Some(field) = named.filter(|field| !field.is_empty() && !message.contains(field)) {
            message = format!("{field}: {message}");
        }
        if let Some(advice) = advice(status.code(), &reason) {
            message = format!("{message} ({advice})");
        }
        Self { exit, message }
    }

    /// A call about one object.
    pub fn call_about(status: &Status, key: Option<&Key>) -> Self {
        Self::call(status).about(key_name(key))
    }
}

/// `ErrorInfo.reason`, empty if the error is not Listwatch's own.
pub fn reason(status: &Status) -> String {
    match status.get_details_error_info() {
        Some(info) if info.domain == listwatch::ERROR_DOMAIN => info.reason,
        _ => String::new(),
    }
}

fn exit_of(code: Code, reason: &str) -> Exit {
    match (code, reason) {
        (_, "STORAGE_FULL") => Exit::Refused,
        (Code::NotFound, _) => Exit::NotFound,
        (Code::AlreadyExists | Code::Aborted, _) => Exit::Conflict,
        (Code::OutOfRange, _) => Exit::Expired,
        (Code::InvalidArgument | Code::Unimplemented, _) => Exit::Usage,
        (Code::PermissionDenied | Code::Unauthenticated, _) => Exit::Refused,
        (Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted, _) => {
            Exit::Unavailable
        }
        _ => Exit::Failed,
    }
}

/// What to do next, where the code does not say it by itself.
fn advice(code: Code, reason: &str) -> Option<&'static str> {
    Some(match (code, reason) {
        (_, "REVISION_COMPACTED") => "that history is gone: start from the current state",
        (_, "REVISION_IN_FUTURE") => "wait for the server to get there, or ask another",
        (_, "STORE_CHANGED") => "the store was made anew or restored: start from the current state",
        (_, "TOKEN_INVALID") => {
            "a token serves only the watch or list that gave it, with the same selector"
        }
        (_, "REVISION_MISMATCH" | "UID_MISMATCH") => {
            "someone else wrote it: read it, then write again"
        }
        (_, "STORAGE_FULL") => "delete objects and compact, or raise the quota",
        (_, "STORE_DAMAGED") => "see the server's log",
        (_, "WRITE_UNCERTAIN") => "whether it is stored shows when the server is back: read it",
        (_, "OBJECT_EXISTS") => "use put to replace it",
        (_, "TOO_MANY_REQUESTS" | "TOO_MANY_WATCHES" | "NOT_READY") => "try again",
        (Code::DeadlineExceeded, _) => "raise --timeout",
        (Code::Unimplemented, "") => "does --server name a Listwatch server of this version?",
        _ => return None,
    })
}

/// Errors are one line each; what a server sends cannot forge more of them, nor move
/// the cursor of a terminal.
pub fn one_line(text: &str) -> String {
    let words: Vec<_> = text
        .split(|c: char| c.is_control())
        .filter(|part| !part.is_empty())
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

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
            let failure = Failure::call(&status(code, reason));
            assert_eq!(failure.exit as u8, exit, "{code:?} {reason}");
            assert!(failure.message.starts_with("why so"), "{}", failure.message);
            assert!(EXIT_HELP.contains(&format!("\n  {exit}  ")));
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure() {
        let failure = Failure::output(io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::Ok, ""));
        assert_eq!(
            Failure::output(io::ErrorKind::StorageFull.into()).exit,
            Exit::Failed
        );
    }
}
