//! Keys: what names an object. An ill-formed one cannot be built.

use std::{borrow::Borrow, fmt, sync::Arc};

use crate::limits::{MAX_COLLECTION_BYTES, MAX_NAME_BYTES, MAX_NAMESPACE_BYTES};

/// Why a name was refused. Says the field, the limit and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A required part is empty.
    #[error("{field} must not be empty")]
    Empty {
        /// The part of the key: `collection`, `namespace` or `name`.
        field: &'static str,
    },
    /// A part is longer than its limit.
    #[error("{field} is {size} bytes long; the limit is {limit}")]
    TooLong {
        /// The part of the key.
        field: &'static str,
        /// Its length in bytes.
        size: usize,
        /// The most bytes that are allowed.
        limit: usize,
    },
    /// A part has a character that is not allowed, or one that may not stand at an end.
    #[error("{field} {rule}")]
    IllFormed {
        /// The part of the key.
        field: &'static str,
        /// What is allowed.
        rule: &'static str,
    },
}

impl KeyError {
    /// The part of the key at fault: `collection`, `namespace` or `name`.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Empty { field } | Self::TooLong { field, .. } | Self::IllFormed { field, .. } => {
                field
            }
        }
    }
}

fn check(
    field: &'static str,
    text: &str,
    limit: usize,
    inner: fn(u8) -> bool,
    rule: &'static str,
) -> Result<(), KeyError> {
    if text.is_empty() {
        return Err(KeyError::Empty { field });
    }
    if text.len() > limit {
        return Err(KeyError::TooLong {
            field,
            size: text.len(),
            limit,
        });
    }
    let bytes = text.as_bytes();
    let ends_well =
        bytes[0].is_ascii_alphanumeric() && bytes[bytes.len() - 1].is_ascii_alphanumeric();
    if !ends_well || !bytes.iter().all(|b| inner(*b)) {
        return Err(KeyError::IllFormed { field, rule });
    }
    Ok(())
}

/// The name of a collection: `resource` or `resource.group`, as Kubernetes has them.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Collection(Arc<str>);

impl Collection {
    /// Checks and takes a collection's name.
    ///
    /// # Errors
    /// [`KeyError`] unless it is 1 to 253 bytes of `a-z`, `0-9`, `-` and `.`, with
    /// alphanumeric ends.
    pub fn new(name: &str) -> Result<Self, KeyError> {
        check(
            "collection",
            name,
            MAX_COLLECTION_BYTES,
            |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.',
            "must consist of a-z, 0-9, '-' and '.', and begin and end with a-z or 0-9",
        )?;
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Collection {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where an object stands within its collection. Ordered by (namespace, name): the order
/// of every list.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    namespace: Arc<str>,
    name: Arc<str>,
}

impl ObjectName {
    /// Checks and takes a namespace (empty: none) and a name.
    ///
    /// # Errors
    /// [`KeyError`]: a namespace is an RFC 1123 label of up to 63 bytes; a name is 1 to
    /// 253 bytes of `A-Z`, `a-z`, `0-9`, `-`, `_`, `.` and `:` with alphanumeric ends,
    /// which covers what Kubernetes allows, RBAC's path segments included.
    pub fn new(namespace: &str, name: &str) -> Result<Self, KeyError> {
        check_namespace(namespace)?;
        check(
            "name",
            name,
            MAX_NAME_BYTES,
            |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':'),
            "must consist of A-Z, a-z, 0-9, '-', '_', '.' and ':', and begin and end with a letter or digit",
        )?;
        Ok(Self {
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    /// A bound for range searches: `name` is a prefix, a name with something appended,
    /// or empty, so the rules of a whole name do not hold.
    pub(crate) fn bound(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The namespace; empty for objects outside any.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same name with `namespace` sharing another key's allocation of the same text:
    /// a million keys of one namespace hold it once.
    pub(crate) fn with_namespace(&self, namespace: Arc<str>) -> Self {
        debug_assert_eq!(*namespace, *self.namespace);
        Self {
            namespace,
            name: self.name.clone(),
        }
    }

    /// The namespace's allocation, to be shared.
    pub(crate) fn shared_namespace(&self) -> &Arc<str> {
        &self.namespace
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Checks a namespace; the empty one is allowed.
///
/// # Errors
/// [`KeyError`] unless it is empty or an RFC 1123 label of up to 63 bytes.
pub fn check_namespace(namespace: &str) -> Result<(), KeyError> {
    if namespace.is_empty() {
        return Ok(());
    }
    check(
        "namespace",
        namespace,
        MAX_NAMESPACE_BYTES,
        |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-',
        "must consist of a-z, 0-9 and '-', and begin and end with a-z or 0-9",
    )
}

/// The full key of an object: collection / namespace / name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The collection.
    pub collection: Collection,
    /// The place within it.
    pub object: ObjectName,
}

impl Key {
    /// Checks and takes the three parts.
    ///
    /// # Errors
    /// [`KeyError`], as [`Collection::new`] and [`ObjectName::new`].
    pub fn new(collection: &str, namespace: &str, name: &str) -> Result<Self, KeyError> {
        Ok(Self {
            collection: Collection::new(collection)?,
            object: ObjectName::new(namespace, name)?,
        })
    }

    /// The namespace; empty for objects outside any.
    pub fn namespace(&self) -> &str {
        self.object.namespace()
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.object.name()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:?}", self.collection, self.object)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
