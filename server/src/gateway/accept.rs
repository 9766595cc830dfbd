//! What a client accepts: in which form objects are shown, and whether they are packed.

use http::{HeaderMap, header};

use super::{
    media,
    status::{Failed, Failure},
};

/// How objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Object,
    /// Only their metadata: `PartialObjectMetadata`.
    Metadata,
    /// As rows of a table.
    Table,
}

/// What a client takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) form: Form,
    pub(crate) gzip: bool,
}

const OFFERED: &str = "application/json";

impl Accepted {
    /// The first that can be given, of what the client prefers. Protobuf cannot: clients
    /// that ask for it take JSON too, as a rule.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, Failed> {
        let gzip = is_gzip_accepted(headers);
        let mut wanted: Vec<&str> = listed(headers, header::ACCEPT).collect();
        wanted.retain(|range| !range.is_empty());
        // Equals stay in their order.
        wanted.sort_by(|a, b| quality(b).total_cmp(&quality(a)));
        if wanted.is_empty() {
            let form = Form::Object;
            return Ok(Self { form, gzip });
        }
        let form = wanted.iter().find_map(|range| form(range));
        let form = form.ok_or_else(|| Failure::not_acceptable(OFFERED))?;
        Ok(Self { form, gzip })
    }
}

/// Whether responses may be packed.
pub(crate) fn is_gzip_accepted(headers: &HeaderMap) -> bool {
    let mut codings = listed(headers, header::ACCEPT_ENCODING);
    codings.any(|coding| takes(coding, "gzip") || takes(coding, "*"))
}

fn listed(headers: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

fn quality(range: &str) -> f64 {
    let parameters = range.split(';').skip(1).map(str::trim);
    let quality = parameters.filter_map(|parameter| parameter.strip_prefix("q="));
    let quality = quality.filter_map(|q| q.parse().ok()).next();
    quality.unwrap_or(1.0)
}

fn takes(coding: &str, name: &str) -> bool {
    let coded = coding.split(';').next().unwrap_or_default().trim();
    coded.eq_ignore_ascii_case(name) && quality(coding) > 0.0
}

/// What a media range comes to; `None` if it is nothing that can be given.
fn form(text: &str) -> Option<Form> {
    let range = media::ranges(text).next()?;
    if quality(text) <= 0.0 || !range.takes_json() {
        return None;
    }
    let is_known = range.group == "meta.k8s.io" && matches!(range.version, "v1" | "v1beta1");
    match range.kind {
        "" => Some(Form::Object),
        "Table" if is_known => Some(Form::Table),
        "PartialObjectMetadata" | "PartialObjectMetadataList" if is_known => Some(Form::Metadata),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(accept: &str) -> Option<Form> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        Accepted::of(&headers).ok().map(|accepted| accepted.form)
    }

    #[test]
    fn the_first_form_that_can_be_given_is() {
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let kubectl =
            format!("{table},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json");
        for (accept, form) in [
            ("", Some(Form::Object)),
            ("*/*", Some(Form::Object)),
            ("application/json", Some(Form::Object)),
            ("application/json, */*", Some(Form::Object)),
            ("application/vnd.kubernetes.protobuf", None),
            (
                "application/vnd.kubernetes.protobuf, application/json",
                Some(Form::Object),
            ),
            (
                "application/vnd.kubernetes.protobuf,application/json;q=0",
                None,
            ),
            ("text/html", None),
            (&kubectl, Some(Form::Table)),
            (
                "application/json;q=0.5,application/json;as=Table;v=v1;g=meta.k8s.io",
                Some(Form::Table),
            ),
            ("application/json;as=Table;v=v2;g=meta.k8s.io", None),
            (
                "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
                Some(Form::Metadata),
            ),
        ] {
            assert_eq!(accepted(accept), form, "{accept}");
        }
    }

    #[test]
    fn gzip_is_for_those_who_ask_for_it() {
        for (coding, gzip) in [
            ("gzip", true),
            ("deflate, gzip;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("identity", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, coding.parse().unwrap());
            assert_eq!(Accepted::of(&headers).unwrap().gzip, gzip, "{coding}");
        }
    }
}
