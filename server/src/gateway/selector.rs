//! What a list or watch of a target covers.

use std::sync::Arc;

use super::{
    fields::{self, FieldSelector},
    labels,
    path::{Part, Target},
    status::{Failed, Failure},
};
use crate::{
    limits::{MAX_NAME_BYTES, MAX_SELECTOR_REQUIREMENTS},
    selector::{Field, SelectableFields, Selector},
};

/// The selector of a target, with what the query says of labels and fields.
pub(crate) fn selector(
    target: &Target,
    label_selector: &str,
    field_selector: &str,
    known: &SelectableFields,
) -> Result<Arc<Selector>, Failed> {
    let kind = &target.kind;
    let refused = |error: labels::SelectorError| Failure::bad_request(error.to_string());
    let labels = labels::parse(label_selector).map_err(refused)?;
    let fields = FieldSelector::parse(field_selector, kind).map_err(refused)?;
    let declared = fields::selected_by(kind, known);
    let fields = fields.requirements(&declared).map_err(refused)?;
    if labels.len() + fields.len() > MAX_SELECTOR_REQUIREMENTS {
        let message =
            format!("the selectors have more than {MAX_SELECTOR_REQUIREMENTS} requirements");
        return Err(Failure::bad_request(message));
    }
    if fields
        .iter()
        .any(|field| field.value.len() > MAX_NAME_BYTES)
    {
        let message = format!("a field is compared with more than {MAX_NAME_BYTES} bytes");
        return Err(Failure::bad_request(message));
    }
    let name = match &target.object {
        Part::Collection => None,
        Part::Object(name) | Part::Status(name) | Part::Scale(name) => Some(name.as_str()),
    };
    let other_name = fields.iter().any(|requirement| {
        requirement.field == Field::Name
            && name.is_some_and(|name| (requirement.value == name) == requirement.not_equal)
    });
    if other_name {
        let message = "fieldSelector metadata.name doesn't match requested name";
        return Err(Failure::bad_request(message));
    }
    let namespace = Some(target.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let collection = kind.collection.clone();
    Ok(Arc::new(Selector::new(
        collection, namespace, name, "", labels, fields, declared,
    )))
}
