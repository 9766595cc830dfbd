//! The kinds that are served: the built-in ones, those of the configuration, and those that
//! a CustomResourceDefinition brought.

mod builtin;
mod crd;
mod declared;
mod merge_keys;
mod scale;

use std::{
    cmp::Ordering,
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use serde_json::Value;

pub use self::declared::{DeclarationError, DeclaredKind};
pub(crate) use self::{
    crd::CrdError,
    merge_keys::{ListRule, MergeKeys},
    scale::Scaling,
};
use crate::{selector::FieldPath, store::Collection};

/// What clients may do with a kind, as discovery names it.
pub(crate) const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
/// The verbs of a namespace: to delete all of them at once is no one's wish.
const VERBS_NAMESPACE: &[&str] = &[
    "create", "delete", "get", "list", "patch", "update", "watch",
];
/// The verbs of a subresource: `/status`, `/scale`.
pub(crate) const STATUS_VERBS: &[&str] = &["get", "patch", "update"];

/// One kind in one version.
///
/// All versions of a resource share a collection: an object is stored as it was written, and
/// shown under the `apiVersion` that is asked for (Kubernetes' conversion strategy `None`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kind {
    /// The API group; empty for the core group.
    pub(crate) group: String,
    /// The version, such as `v1`.
    pub(crate) version: String,
    /// The plural name, as in URLs.
    pub(crate) resource: String,
    /// The singular name, for command lines.
    pub(crate) singular: String,
    /// The kind, such as `Pod`.
    pub(crate) kind: String,
    /// The kind of a list of them.
    pub(crate) list_kind: String,
    /// Its objects live in namespaces.
    pub(crate) namespaced: bool,
    /// Further names for command lines.
    pub(crate) short_names: Vec<String>,
    /// Groups of kinds that a command line can name at once, such as `all`.
    pub(crate) categories: Vec<String>,
    /// It has a `/status` subresource: the main resource leaves the status alone, and the
    /// subresource all but the status.
    pub(crate) status: bool,
    /// It has a `/scale` subresource.
    pub(crate) scaling: Option<Scaling>,
    /// What clients may do with it.
    pub(crate) verbs: &'static [&'static str],
    /// Where its objects are stored.
    pub(crate) collection: Collection,
    /// How its lists are merged.
    pub(crate) merge_keys: MergeKeys,
    /// It is compiled in: Kubernetes' own types and rules are known for it.
    pub(crate) builtin: bool,
    /// It is built in or of the configuration: no CustomResourceDefinition may change it.
    pub(crate) is_fixed: bool,
    /// Of several versions, the one that objects are kept in.
    pub(crate) storage: bool,
    /// The schema that its CustomResourceDefinition gives.
    pub(crate) schema: Option<Arc<Value>>,
    /// The columns that its CustomResourceDefinition gives, as written there.
    pub(crate) columns: Vec<PrinterColumn>,
    /// Fields beyond `metadata.name` and `metadata.namespace` that field selectors may name
    /// because its CustomResourceDefinition says so; dotted, without a leading dot.
    pub(crate) selectable: Vec<String>,
    /// All fields that it is selected by, once they have been asked for: those of `selectable`,
    /// and what the server declares of the collection.
    pub(crate) fields: OnceLock<Arc<[FieldPath]>>,
}

/// A column of `additionalPrinterColumns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrinterColumn {
    /// The heading.
    pub(crate) name: String,
    /// `integer`, `number`, `string`, `boolean` or `date`.
    pub(crate) kind: String,
    /// A refinement of the type, such as `int64`; mostly empty.
    pub(crate) format: String,
    /// What it means.
    pub(crate) description: String,
    /// 0: always shown. Above: only where there is room.
    pub(crate) priority: i32,
    /// A simple JSONPath, such as `.spec.replicas`.
    pub(crate) path: String,
}

impl Kind {
    /// `GROUP/VERSION`, or only the version in the core group: an object's `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `resource` or `resource.group`: what messages call it.
    pub(crate) fn qualified(&self) -> &str {
        self.collection.as_str()
    }

    /// How strategic merge patches treat it: a kind whose Go type Kubernetes does not know
    /// takes none (415 UnsupportedMediaType), and clients then send a JSON merge patch.
    pub(crate) fn takes_strategic_merge(&self) -> bool {
        self.builtin
    }

    fn place(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.resource)
    }
}

/// Why kinds were not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KindsError {
    /// The resource is built in, or of the configuration.
    #[error("{0} is built in or of the server's configuration, and cannot be defined anew")]
    Fixed(String),
    /// Another resource of the group has that kind.
    #[error("the kind {kind} of the group {group} is taken by {by}")]
    KindTaken {
        /// The kind.
        kind: String,
        /// Its group.
        group: String,
        /// The resource that has it.
        by: String,
    },
    /// There are as many as there may be.
    #[error("there are {0} kinds already, which is the limit")]
    TooMany(usize),
}

/// The most kinds, in all versions: discovery documents list every one of them.
pub(crate) const MAX_KINDS: usize = 2_000;

/// All kinds that are served: read by every request, changed rarely.
#[derive(Debug)]
pub(crate) struct Kinds {
    current: ArcSwap<Registry>,
}

impl Kinds {
    /// The built-in kinds.
    pub(crate) fn builtin() -> Self {
        Self {
            current: ArcSwap::from_pointee(Registry::of(builtin::kinds())),
        }
    }

    /// The kinds as they are now. Requests that look twice keep this between looks.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.current.load_full()
    }

    /// The kind served at this place; the core group is empty.
    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<Arc<Kind>> {
        self.current.load().find(group, version, resource).cloned()
    }

    /// The kind whose objects are in this collection, in the version they are kept in.
    #[cfg(test)]
    pub(crate) fn in_collection(&self, collection: &str) -> Option<Arc<Kind>> {
        self.current.load().in_collection(collection).cloned()
    }

    /// Adds kinds; those of a resource replace the versions that it had.
    ///
    /// # Errors
    /// [`KindsError`]: then nothing has changed.
    pub(crate) fn set(&self, kinds: &[Kind]) -> Result<(), KindsError> {
        let mut refused = None;
        self.current.rcu(|registry| match registry.with(kinds) {
            Ok(next) => {
                refused = None;
                Arc::new(next)
            }
            Err(error) => {
                refused = Some(error);
                Arc::clone(registry)
            }
        });
        refused.map_or(Ok(()), Err)
    }

    /// Whether [`Kinds::set`] would take them, as things are.
    ///
    /// # Errors
    /// [`KindsError`]: why not.
    pub(crate) fn would_take(&self, kinds: &[Kind]) -> Result<(), KindsError> {
        self.current.load().with(kinds).map(drop)
    }

    /// Takes away all versions of a resource that is not fixed. True if there were any.
    pub(crate) fn remove(&self, group: &str, resource: &str) -> bool {
        let is_it =
            |kind: &Kind| !kind.is_fixed && kind.group == group && kind.resource == resource;
        let before = self.current.rcu(|registry| {
            let left = registry.kinds.iter().filter(|kind| !is_it(kind)).cloned();
            Registry::of(left)
        });
        before.kinds.iter().any(|kind| is_it(kind))
    }

    /// The kinds that a CustomResourceDefinition describes: one for each served version.
    ///
    /// # Errors
    /// [`CrdError`]: what of it is wrong, for a 422 Status.
    pub(crate) fn from_crd(crd: &Value) -> Result<Vec<Kind>, CrdError> {
        crd::kinds(crd)
    }
}

/// The kinds at one moment.
#[derive(Debug)]
pub(crate) struct Registry {
    /// Ordered by group, version, resource.
    kinds: Vec<Arc<Kind>>,
    by_collection: HashMap<Collection, Arc<Kind>>,
    groups: Vec<Group>,
}

/// A group and its versions, the preferred one first.
#[derive(Debug)]
pub(crate) struct Group {
    /// Its name; empty for the core group.
    pub(crate) name: String,
    /// Its versions, the preferred one first; never none.
    pub(crate) versions: Vec<GroupVersion>,
}

/// A version of a group, and what is in it.
#[derive(Debug)]
pub(crate) struct GroupVersion {
    /// The version.
    pub(crate) name: String,
    /// Its kinds, ordered by resource.
    pub(crate) kinds: Vec<Arc<Kind>>,
    /// Of its OpenAPI document, which never changes: another registry has another version.
    pub(crate) document_hash: OnceLock<u64>,
}

impl Registry {
    fn of(kinds: impl IntoIterator<Item = Arc<Kind>>) -> Self {
        let mut kinds: Vec<Arc<Kind>> = kinds.into_iter().collect();
        kinds.sort_by(|a, b| a.place().cmp(&b.place()));
        let mut by_collection: HashMap<Collection, Arc<Kind>> = HashMap::new();
        for kind in &kinds {
            let known = by_collection
                .entry(kind.collection.clone())
                .or_insert_with(|| Arc::clone(kind));
            if kind.storage && !known.storage {
                *known = Arc::clone(kind);
            }
        }
        let groups = groups(&kinds);
        Self {
            kinds,
            by_collection,
            groups,
        }
    }

    fn with(&self, added: &[Kind]) -> Result<Self, KindsError> {
        for kind in added {
            let clash = self.kinds.iter().find(|known| {
                known.group == kind.group
                    && known.resource != kind.resource
                    && (known.kind == kind.kind || known.kind == kind.list_kind)
            });
            if let Some(clash) = clash {
                return Err(KindsError::KindTaken {
                    kind: kind.kind.clone(),
                    group: kind.group.clone(),
                    by: clash.resource.clone(),
                });
            }
            if self
                .in_collection(kind.qualified())
                .is_some_and(|known| known.is_fixed)
            {
                return Err(KindsError::Fixed(kind.qualified().to_owned()));
            }
        }
        let stays = |known: &Arc<Kind>| !added.iter().any(|a| a.collection == known.collection);
        let kept = self.kinds.iter().filter(|known| stays(known)).cloned();
        let next = Self::of(kept.chain(added.iter().cloned().map(Arc::new)));
        if next.kinds.len() > MAX_KINDS {
            return Err(KindsError::TooMany(self.kinds.len()));
        }
        Ok(next)
    }

    /// The kind served at this place; the core group is empty.
    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Kind>> {
        let at = self
            .kinds
            .binary_search_by(|kind| kind.place().cmp(&(group, version, resource)))
            .ok()?;
        self.kinds.get(at)
    }

    /// The kind whose objects are in this collection, in the version they are kept in.
    pub(crate) fn in_collection(&self, collection: &str) -> Option<&Arc<Kind>> {
        self.by_collection.get(collection)
    }

    /// The kind of an object with this `apiVersion` and `kind`.
    #[cfg(test)]
    pub(crate) fn of_object(&self, api_version: &str, kind: &str) -> Option<&Arc<Kind>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.group(group)?
            .versions
            .iter()
            .find(|known| known.name == version)?
            .kinds
            .iter()
            .find(|known| known.kind == kind)
    }

    /// All kinds, ordered by group, version and resource.
    pub(crate) fn kinds(&self) -> &[Arc<Kind>] {
        &self.kinds
    }

    /// All groups, in the order of discovery: the core group first, then those that clients
    /// should find a short name in first.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// A group; the core group is empty.
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// A version of a group.
    pub(crate) fn group_version(&self, group: &str, version: &str) -> Option<&GroupVersion> {
        let versions = &self.group(group)?.versions;
        versions.iter().find(|known| known.name == version)
    }
}

fn groups(kinds: &[Arc<Kind>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for kind in kinds {
        let at = match groups.iter().position(|g| g.name == kind.group) {
            Some(at) => at,
            None => {
                groups.push(Group {
                    name: kind.group.clone(),
                    versions: Vec::new(),
                });
                groups.len() - 1
            }
        };
        let group = &mut groups[at];
        match group.versions.iter_mut().find(|v| v.name == kind.version) {
            Some(version) => version.kinds.push(Arc::clone(kind)),
            None => group.versions.push(GroupVersion {
                name: kind.version.clone(),
                kinds: vec![Arc::clone(kind)],
                document_hash: OnceLock::new(),
            }),
        }
    }
    for group in &mut groups {
        group
            .versions
            .sort_by(|a, b| version_order(&a.name, &b.name));
    }
    groups.sort_by_key(|group| builtin::group_place(&group.name));
    groups
}

/// Kubernetes' order of versions: stable before beta before alpha, later before earlier,
/// then all that are not of this form, by name.
pub(crate) fn version_order(a: &str, b: &str) -> Ordering {
    match (parse_version(a), parse_version(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// (stability, major, minor) of `v1`, `v2beta3`; `None` for anything else.
fn parse_version(text: &str) -> Option<(u8, u32, u32)> {
    let rest = text.strip_prefix('v')?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (major, rest) = rest.split_at_checked(end)?;
    let major = major.parse().ok()?;
    let (stability, minor) = if rest.is_empty() {
        return Some((2, major, 0));
    } else if let Some(minor) = rest.strip_prefix("beta") {
        (1, minor)
    } else {
        (0, rest.strip_prefix("alpha")?)
    };
    Some((stability, major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests;
