//! How a stream ended, and whether it may.

use std::error::Error as _;

use listwatch::v1::{self, BookmarkKind, watch_request::Start};
use tonic::Code;
use tonic_types::StatusExt as _;

use super::Check;

/// How a recorded watch ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum End {
    /// The client left, or the connection broke.
    #[default]
    Cut,
    /// With OK.
    Ended,
    /// With a status of the server's: its code and reason.
    Failed(Code, String),
}

impl End {
    /// Of an error that a client got. What it made itself of a connection that broke has a
    /// cause within the client.
    pub fn of(status: &tonic::Status) -> Self {
        let details = status.get_error_details();
        let reason = details.error_info().map(|info| info.reason.clone());
        match reason {
            None if status.source().is_some() => Self::Cut,
            reason => Self::Failed(status.code(), reason.unwrap_or_default()),
        }
    }
}

impl Check<'_> {
    /// Checks 14 and 27.
    pub(super) fn end(&mut self) {
        match &self.recording.end {
            End::Cut => {}
            End::Ended => self.ended_well(),
            End::Failed(code, reason) => {
                let known = format!("ERROR_REASON_{reason}");
                if v1::ErrorReason::from_str_name(&known).is_none() || *code == Code::Ok {
                    self.say(27, format!("ended by {code:?} for {reason:?}"));
                }
                if *code == Code::OutOfRange && reason == "REVISION_COMPACTED" {
                    self.compacted();
                }
            }
        }
    }

    /// Only after its life, the state that was all it was for, or a word of the server's
    /// going; with a bookmark that says how far it came.
    fn ended_well(&mut self) {
        let last = self.recording.responses.last();
        let bookmark = last.and_then(|last| last.bookmark.as_ref());
        let kind = bookmark.map(v1::Bookmark::kind);
        let is_for_state = matches!(
            &self.recording.request.start,
            Some(Start::InitialState(state)) if state.only
        );
        let may = match kind {
            Some(BookmarkKind::GoingAway | BookmarkKind::Progress) => true,
            Some(BookmarkKind::InitialStateEnd) => is_for_state,
            _ => false,
        };
        if !may {
            self.say(27, format!("ended with OK after {kind:?}"));
        }
    }

    fn compacted(&mut self) {
        let (at, compacted) = (self.promised, self.recording.compacted);
        if at >= compacted && self.recording.settled {
            self.say(
                14,
                format!("refused at {at} though compacted only at {compacted}"),
            );
        }
    }
}
