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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_are_read_in_their_order() {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json;q=0.9,*/*";
        let read: Vec<_> = ranges(accept).collect();
        assert_eq!(
            read[0],
            Range {
                media: "application/json",
                kind: "Table",
                group: "meta.k8s.io",
                version: "v1",
            }
        );
        assert!(read[0].takes_json() && !read[0].is_plain_json());
        assert!(read[1].is_plain_json() && read[2].is_plain_json());
        assert!(!ranges("text/html").any(|range| range.takes_json()));
    }
}
