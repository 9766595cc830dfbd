//! A store in a data folder (placeholder until the segmented log lands).

use std::path::Path;

use super::{MemoryStore, Object, Revision, StoreError, StoreOptions};

/// A store in a data folder.
#[derive(Debug)]
pub struct SledStore;

impl SledStore {
    /// Not built yet.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: &Path, _: StoreOptions) -> Result<MemoryStore, StoreError> {
        Err(StoreError::Unusable(
            "data folders are not built yet; start with --ephemeral".into(),
        ))
    }

    /// Not built yet.
    ///
    /// # Errors
    /// Always.
    pub fn restore<E>(
        _: &Path,
        _: StoreOptions,
        _: Revision,
        _: impl Iterator<Item = Result<Object, E>>,
    ) -> Result<(), StoreError> {
        Err(StoreError::Unusable(
            "data folders are not built yet".into(),
        ))
    }

    /// Not built yet.
    ///
    /// # Errors
    /// Always.
    pub fn repair(_: &Path, _: StoreOptions) -> Result<String, StoreError> {
        Err(StoreError::Unusable(
            "data folders are not built yet".into(),
        ))
    }
}
