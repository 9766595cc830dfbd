//! Selectors and keys without the ceremony of protobuf messages.

use listwatch::v1::{FieldRequirement, Key, LabelOperator, LabelRequirement, Selector};

/// The key of an object. An empty `namespace` is that of objects outside any.
#[must_use]
pub fn key(
    collection: impl Into<String>,
    namespace: impl Into<String>,
    name: impl Into<String>,
) -> Key {
    Key {
        collection: collection.into(),
        namespace: namespace.into(),
        name: name.into(),
    }
}

/// Says which objects a list or a watch covers: `Select::all("pods").namespace("web")`.
#[derive(Debug, Clone, PartialEq)]
pub struct Select {
    selector: Selector,
}

impl Select {
    /// All objects of a collection.
    #[must_use]
    pub fn all(collection: impl Into<String>) -> Self {
        Self {
            selector: Selector {
                collection: collection.into(),
                ..Selector::default()
            },
        }
    }

    /// Those of one namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.selector.namespace = namespace.into();
        self
    }

    /// Those with this name.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.selector.name = name.into();
        self
    }

    /// Those whose name starts so.
    #[must_use]
    pub fn name_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.selector.name_prefix = prefix.into();
        self
    }

    /// Those with this label.
    #[must_use]
    pub fn label(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels(key, LabelOperator::In, vec![value.into()])
    }

    /// Those whose label meets a requirement; several must all hold.
    #[must_use]
    pub fn labels(
        mut self,
        key: impl Into<String>,
        operator: LabelOperator,
        values: Vec<String>,
    ) -> Self {
        self.selector.labels.push(LabelRequirement {
            key: key.into(),
            operator: operator.into(),
            values,
        });
        self
    }

    /// Those whose field, as the server's configuration extracts it, has this value.
    #[must_use]
    pub fn field(mut self, path: impl Into<String>, value: impl Into<String>) -> Self {
        self.selector.fields.push(FieldRequirement {
            path: path.into(),
            not_equal: false,
            value: value.into(),
        });
        self
    }
}

impl From<Select> for Selector {
    fn from(select: Select) -> Self {
        select.selector
    }
}
