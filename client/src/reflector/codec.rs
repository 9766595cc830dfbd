//! From a resource's bytes to a value.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use listwatch::v1::Resource;
use serde::de::DeserializeOwned;

/// Why a value cannot be decoded.
pub type DecodeError = Box<dyn std::error::Error + Send + Sync>;

type Decode<T> = dyn Fn(&Resource) -> Result<T, DecodeError> + Send + Sync;

/// Decodes the values of a reflector's objects.
pub struct Codec<T> {
    decode: Arc<Decode<T>>,
    /// Whether decoded values may hold on to the bytes that they come from.
    pub(super) keeps_bytes: bool,
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        Self {
            decode: self.decode.clone(),
            keeps_bytes: self.keeps_bytes,
        }
    }
}

impl<T> fmt::Debug for Codec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec").finish_non_exhaustive()
    }
}

impl<T> Codec<T> {
    /// By a function of your own. An error keeps the object out of the snapshot and does
    /// not stop the reflector.
    pub fn new(
        decode: impl Fn(&Resource) -> Result<T, DecodeError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            decode: Arc::new(decode),
            keeps_bytes: true,
        }
    }

    pub(super) fn decode(&self, resource: &Resource) -> Result<T, DecodeError> {
        (self.decode)(resource)
    }
}

impl<T: DeserializeOwned> Codec<T> {
    /// Values are JSON.
    #[must_use]
    pub fn json() -> Self {
        Self {
            decode: Arc::new(|resource| Ok(serde_json::from_slice(&resource.value)?)),
            keeps_bytes: false,
        }
    }
}

impl<T: prost::Message + Default> Codec<T> {
    /// Values are protobuf messages.
    #[must_use]
    pub fn protobuf() -> Self {
        Self::new(|resource| Ok(T::decode(resource.value.clone())?))
    }
}

impl Codec<Bytes> {
    /// Values are taken as they are.
    #[must_use]
    pub fn raw() -> Self {
        Self::new(|resource| Ok(resource.value.clone()))
    }
}

impl Codec<()> {
    /// Values are left aside: for `VIEW_METADATA` and `VIEW_KEY`.
    #[must_use]
    pub fn metadata() -> Self {
        Self {
            decode: Arc::new(|_| Ok(())),
            keeps_bytes: false,
        }
    }
}
