//! From the store's types to the wire's, under a view.

use std::time::SystemTime;

use bytes::Bytes;
use listwatch::v1;

use crate::{
    selector::{LabelCondition, Selector},
    store::{Key, Object},
};

/// A key.
pub(crate) fn key(key: &Key) -> v1::Key {
    v1::Key {
        collection: key.collection.as_str().to_owned(),
        namespace: key.namespace().to_owned(),
        name: key.name().to_owned(),
    }
}

/// An object, as much of it as the view shows.
pub(crate) fn resource(object: &Object, view: v1::View) -> v1::Resource {
    let mut resource = v1::Resource {
        key: Some(key(&object.key)),
        uid: object.uid.to_string(),
        revision: object.revision.to_wire(),
        ..v1::Resource::default()
    };
    if view == v1::View::Key {
        return resource;
    }
    resource.create_revision = object.create_revision.to_wire();
    resource.update_time = Some(timestamp(object.update_time));
    resource.labels = object.content.labels.clone();
    resource.content_type = object.content.content_type.as_ref().to_owned();
    resource.expire_time = object.content.expire_time.map(timestamp);
    if view != v1::View::Metadata {
        resource.value = object.content.value.clone();
    }
    resource
}

/// The answer to a write.
pub(crate) fn written(object: &Object) -> v1::Resource {
    v1::Resource {
        value: Bytes::new(),
        ..resource(object, v1::View::Metadata)
    }
}

/// A selector, as a request would have it.
pub(crate) fn selector(selector: &Selector) -> v1::Selector {
    let labels = selector.labels().iter().map(|requirement| {
        let (operator, values): (_, &[String]) = match &requirement.condition {
            LabelCondition::In(values) => (v1::LabelOperator::In, values),
            LabelCondition::NotIn(values) => (v1::LabelOperator::NotIn, values),
            LabelCondition::Exists => (v1::LabelOperator::Exists, &[]),
            LabelCondition::NotExists => (v1::LabelOperator::NotExists, &[]),
        };
        v1::LabelRequirement {
            key: requirement.key.clone(),
            operator: operator.into(),
            values: values.to_vec(),
        }
    });
    let fields = selector.fields().iter();
    let fields = fields.map(|requirement| v1::FieldRequirement {
        path: requirement.field.path().to_owned(),
        not_equal: requirement.not_equal,
        value: requirement.value.clone(),
    });
    v1::Selector {
        collection: selector.collection().to_string(),
        namespace: selector.namespace().unwrap_or_default().to_owned(),
        name: selector.name().unwrap_or_default().to_owned(),
        name_prefix: selector.name_prefix().to_owned(),
        labels: labels.collect(),
        fields: fields.collect(),
    }
}

/// A point in time.
pub(crate) fn timestamp(time: SystemTime) -> prost_types::Timestamp {
    time.into()
}
