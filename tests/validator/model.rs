//! What the recorded writes say must be true: every version of every key, by revision.

use std::collections::BTreeMap;

use listwatch::v1::{self, DeleteCause, EventType, LabelOperator};

/// Collection, namespace, name.
pub type Name = (String, String, String);

/// The name of a resource.
pub fn name_of(resource: &v1::Resource) -> Name {
    let key = resource.key.clone().unwrap_or_default();
    (key.collection, key.namespace, key.name)
}

/// One version of a key; without a resource: it was deleted, and why.
#[derive(Clone, Debug)]
struct Version {
    revision: i64,
    resource: Option<v1::Resource>,
    cause: DeleteCause,
}

/// Every acknowledged write, in revision order.
#[derive(Clone, Debug, Default)]
pub struct Model {
    keys: BTreeMap<Name, Vec<Version>>,
    events: BTreeMap<i64, Vec<Name>>,
    /// The highest revision that history was compacted to.
    pub compacted: i64,
}

/// A state, by name.
pub type State = BTreeMap<Name, v1::Resource>;

/// What one change is to one selector.
#[derive(Clone, Debug)]
pub struct Expected {
    pub revision: i64,
    pub name: Name,
    pub kind: EventType,
    pub resource: v1::Resource,
    pub previous: Option<v1::Resource>,
    pub cause: DeleteCause,
}

impl Model {
    /// A put as it was answered, with the value that was sent.
    pub fn put(&mut self, resource: v1::Resource) {
        let revision = resource.revision;
        self.add(
            name_of(&resource),
            revision,
            Some(resource),
            DeleteCause::Unspecified,
        );
    }

    /// A deletion as it was answered.
    pub fn delete(&mut self, name: Name, revision: i64, cause: DeleteCause) {
        self.add(name, revision, None, cause);
    }

    fn add(
        &mut self,
        name: Name,
        revision: i64,
        resource: Option<v1::Resource>,
        cause: DeleteCause,
    ) {
        self.events.entry(revision).or_default().push(name.clone());
        let version = Version {
            revision,
            resource,
            cause,
        };
        self.keys.entry(name).or_default().push(version);
    }

    /// The newest revision.
    pub fn revision(&self) -> i64 {
        self.events.keys().next_back().copied().unwrap_or(0)
    }

    /// Every change of every revision, in order: the revision, the name, what it became, and
    /// why it was deleted.
    pub fn changes(
        &self,
    ) -> impl Iterator<Item = (i64, &Name, Option<&v1::Resource>, DeleteCause)> {
        self.events.iter().flat_map(move |(&revision, names)| {
            names.iter().map(move |name| {
                let now = self.version(name, revision);
                (revision, name, now, self.cause(name, revision))
            })
        })
    }

    /// Every name that there ever was.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.keys.keys()
    }

    /// Whether a revision changed a name.
    pub fn changed(&self, name: &Name, revision: i64) -> bool {
        let names = self.events.get(&revision);
        names.is_some_and(|names| names.contains(name))
    }

    /// Whether a revision in (after, upto] changed a name.
    pub fn changed_within(&self, name: &Name, after: i64, upto: i64) -> bool {
        let mut versions = self.keys.get(name).into_iter().flatten();
        versions.any(|version| version.revision > after && version.revision <= upto)
    }

    /// What a name has been since a revision, up to another.
    pub fn states(
        &self,
        name: &Name,
        since: i64,
        upto: i64,
    ) -> impl Iterator<Item = &v1::Resource> {
        let versions = self.keys.get(name).map_or(&[][..], |versions| versions);
        let first = versions.partition_point(|v| v.revision <= since);
        let first = first.saturating_sub(1);
        let versions = versions[first..].iter();
        let versions = versions.take_while(move |v| v.revision <= upto);
        versions.filter_map(|v| v.resource.as_ref())
    }

    /// The object of a name as of a revision.
    pub fn version(&self, name: &Name, at: i64) -> Option<&v1::Resource> {
        let versions = self.keys.get(name)?;
        let after = versions.partition_point(|v| v.revision <= at);
        versions.get(after.checked_sub(1)?)?.resource.as_ref()
    }

    /// What a selector covers as of a revision.
    pub fn at(&self, revision: i64, selector: &v1::Selector) -> State {
        self.keys
            .keys()
            .filter_map(|name| Some((name.clone(), self.version(name, revision)?.clone())))
            .filter(|(_, resource)| matches(selector, resource))
            .collect()
    }

    /// What a watch of every change gets for the revisions in (after, upto].
    pub fn expected(&self, selector: &v1::Selector, after: i64, upto: i64) -> Vec<Expected> {
        let mut expected = Vec::new();
        if upto <= after {
            return expected;
        }
        for (&revision, names) in self.events.range(after + 1..=upto) {
            for name in names {
                expected.extend(self.transition(selector, revision, name));
            }
        }
        expected
    }

    fn transition(&self, selector: &v1::Selector, revision: i64, name: &Name) -> Option<Expected> {
        let before = self.version(name, revision - 1);
        let now = self.version(name, revision);
        let matched = before.filter(|r| matches(selector, r));
        let matching = now.filter(|r| matches(selector, r));
        let gone = |last: &v1::Resource| v1::Resource {
            revision,
            ..last.clone()
        };
        let (kind, resource, cause) = match (matched, matching) {
            (None, None) => return None,
            (None, Some(now)) => (EventType::Added, now.clone(), DeleteCause::Unspecified),
            (Some(_), Some(now)) => (EventType::Modified, now.clone(), DeleteCause::Unspecified),
            (Some(last), None) if now.is_some() => {
                (EventType::Deleted, gone(last), DeleteCause::Unselected)
            }
            (Some(last), None) => (EventType::Deleted, gone(last), self.cause(name, revision)),
        };
        Some(Expected {
            revision,
            name: name.clone(),
            kind,
            resource,
            previous: before.cloned(),
            cause,
        })
    }

    /// Why a name was deleted at a revision.
    pub fn cause(&self, name: &Name, revision: i64) -> DeleteCause {
        let versions = self.keys.get(name).into_iter().flatten();
        let version = versions.into_iter().find(|v| v.revision == revision);
        version.map(|v| v.cause).unwrap_or_default()
    }
}

/// What a deletion shows of an object, but for its revision and time, which are the deletion's.
pub fn same_state(a: &v1::Resource, b: &v1::Resource) -> bool {
    let at_one_time = v1::Resource {
        revision: b.revision,
        update_time: b.update_time,
        ..a.clone()
    };
    at_one_time == *b
}

/// What the key alone decides.
pub fn matches_name(selector: &v1::Selector, resource: &v1::Resource) -> bool {
    let (collection, namespace, name) = name_of(resource);
    collection == selector.collection
        && (selector.namespace.is_empty() || namespace == selector.namespace)
        && (selector.name.is_empty() || name == selector.name)
        && name.starts_with(&selector.name_prefix)
}

/// Whether a selector covers an object: the API's words, written down a second time.
pub fn matches(selector: &v1::Selector, resource: &v1::Resource) -> bool {
    matches_name(selector, resource)
        && selector.labels.iter().all(|requirement| {
            let value = resource.labels.get(&requirement.key);
            let listed = value.is_some_and(|v| requirement.values.contains(v));
            match requirement.operator() {
                LabelOperator::In => listed,
                LabelOperator::NotIn => !listed,
                LabelOperator::Exists => value.is_some(),
                LabelOperator::NotExists => value.is_none(),
                LabelOperator::Unspecified => false,
            }
        })
}
