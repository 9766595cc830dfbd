//! What an `Accept` header asks for, in the form that Kubernetes' clients write it:
//! `application/json;as=Table;v=v1;g=meta.k8s.io,application/json`.

/// One alternative of an `Accept` header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range<'a> {
    /// The media type.
    pub(crate) media: &'a str,
    /// `as`: what the answer is turned into; empty: nothing.
    pub(crate) kind: &'a str,
    /// `g`: the group of that kind.
    pub(crate) group: &'a str,
    /// `v`: its version.
    pub(crate) version: &'a str,
}

impl Range<'_> {
    /// JSON fits it.
    pub(crate) fn takes_json(&self) -> bool {
        matches!(self.media, "application/json" | "application/*" | "*/*")
    }

    /// JSON fits it, and the answer is not turned into something else.
    pub(crate) fn is_plain_json(&self) -> bool {
        self.takes_json() && self.kind.is_empty()
    }
}

/// The alternatives in their order, which is what Kubernetes goes by instead of weights.
pub(crate) fn ranges(accept: &str) -> impl Iterator<Item = Range<'_>> {
    accept.split(',').map(|text| {
        let mut parts = text.split(';').map(str::trim);
        let mut range = Range {
            media: parts.next().unwrap_or_default(),
            ..Range::default()
        };
        for part in parts {
            match part.split_once('=') {
                Some(("as", value)) => range.kind = value,
                Some(("g", value)) => range.group = value,
                Some(("v", value)) => range.version = value,
                _ => {}
            }
        }
        range
    })
}

/// How objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// As they are.
    Object,
    /// As rows of a Table.
    Table,
    /// Only their metadata: PartialObjectMetadata, or a list of them.
    Metadata,
}

impl View {
    /// What the header asks for; `None` if it takes nothing that there is (406).
    pub(crate) fn accepted(accept: &str) -> Option<Self> {
        if accept.trim().is_empty() {
            return Some(Self::Object);
        }
        ranges(accept).find_map(|range| {
            if range.is_plain_json() {
                return Some(Self::Object);
            }
            let known = (range.media, range.group, range.version);
            if known != ("application/json", "meta.k8s.io", "v1") {
                return None;
            }
            match range.kind {
                "Table" => Some(Self::Table),
                "PartialObjectMetadata" | "PartialObjectMetadataList" => Some(Self::Metadata),
                _ => None,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_view_that_there_is_is_taken() {
        for (accept, view) in [
            ("", Some(View::Object)),
            ("*/*", Some(View::Object)),
            ("application/json", Some(View::Object)),
            ("application/json;stream=watch", Some(View::Object)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some(View::Table),
            ),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some(View::Object),
            ),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", None),
            (
                "application/json; as=PartialObjectMetadataList; g=meta.k8s.io; v=v1",
                Some(View::Metadata),
            ),
            (
                "application/vnd.kubernetes.protobuf, application/json",
                Some(View::Object),
            ),
            ("application/vnd.kubernetes.protobuf", None),
            ("text/html", None),
        ] {
            assert_eq!(View::accepted(accept), view, "{accept}");
        }
    }
}
