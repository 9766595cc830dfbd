//! Patches in the forms that Kubernetes takes, applied to an object that is at hand.

mod field_set;
mod json_patch;
pub(crate) mod server_side;
mod strategic;

use serde_json::Value;

use super::kinds::MergeKeys;

/// The forms of a patch, by the content type of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// RFC 6902: a list of operations.
    Json,
    /// RFC 7386: the fields to change, `null` for those to remove.
    Merge,
    /// The same with lists merged item by item, which Kubernetes' own kinds take.
    Strategic,
}

impl PatchKind {
    /// Of a content type without its parameters. Server-side apply is none of them.
    pub(crate) fn of(content_type: &str) -> Option<Self> {
        match content_type {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            _ => None,
        }
    }
}

/// Why a patch was refused. The object is as it was; only another patch, or another object,
/// gets further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PatchError {
    /// It is no patch of this form: 400 BadRequest.
    #[error("{0}")]
    Malformed(String),
    /// It does not fit the object, or a test in it failed: 422 Invalid.
    #[error("{0}")]
    Unfit(String),
    /// It does more than one request may: 413 RequestEntityTooLarge.
    #[error("{0}")]
    TooLarge(String),
}

impl PatchError {
    /// The code of the Status.
    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Malformed(_) => 400,
            Self::Unfit(_) => 422,
            Self::TooLarge(_) => 413,
        }
    }

    /// The reason of the Status.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "BadRequest",
            Self::Unfit(_) => "Invalid",
            Self::TooLarge(_) => "RequestEntityTooLarge",
        }
    }
}

/// The object as the patch makes it. `keys`: how lists of the kind are merged.
///
/// # Errors
/// [`PatchError`].
pub(crate) fn apply(
    form: PatchKind,
    current: &Value,
    patch: &Value,
    keys: &MergeKeys,
) -> Result<Value, PatchError> {
    match form {
        PatchKind::Json => json_patch::apply(current, patch),
        PatchKind::Merge => merge(current, patch),
        PatchKind::Strategic => strategic::apply(current, patch, keys),
    }
}

fn merge(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        return Err(PatchError::Malformed(
            "a merge patch must be a JSON object".to_owned(),
        ));
    }
    let mut merged = current.clone();
    ::json_patch::merge(&mut merged, patch);
    Ok(merged)
}

#[cfg(test)]
mod tests;
