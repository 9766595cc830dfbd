//! The query of a request: what a list, a watch or a write is to be like.

use std::time::Duration;

use percent_encoding::percent_decode_str;

use super::{
    cause::{Cause, Fault},
    status::{Failed, Failure},
    write::Manner,
};
use crate::{
    limits::{GATEWAY_MAX_QUERY_BYTES, GATEWAY_MAX_WATCH_SECONDS, MAX_TOKEN_BYTES},
    store::Revision,
};

/// Names and values, decoded. Of a name that stands twice, the first counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self, Failed> {
        if text.len() > GATEWAY_MAX_QUERY_BYTES {
            let message = format!("the query is longer than {GATEWAY_MAX_QUERY_BYTES} bytes");
            return Err(Failure::bad_request(message));
        }
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(name)?, decoded(value)?))
        });
        pairs.collect::<Result<_, _>>().map(Self)
    }

    /// The value of a name; empty where there is none.
    pub(crate) fn get<'a>(&'a self, name: &str) -> &'a str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Every value of a name.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.0.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }

    /// True unless it is absent, or says that it is not: an empty value does not.
    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        let value = self.all(name).next()?;
        Some(!matches!(
            value.to_ascii_lowercase().as_str(),
            "false" | "0"
        ))
    }

    /// The number that a name says, if it says one.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Failed> {
        match self.get(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                let message = format!("query parameter {name}: {text:?} is no whole number");
                Failure::bad_request(message)
            }),
        }
    }
}

fn decoded(text: &str) -> Result<String, Failed> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    let decoded = decoded.map_err(|_| Failure::bad_request("the query is not UTF-8"))?;
    Ok(decoded.into_owned())
}

/// The `resourceVersion` of a list or watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// The newest.
    Unset,
    /// `0`: whatever this server has.
    Any,
    /// A certain one.
    At(Revision),
}

impl Version {
    /// Reads one; other texts than decimal numbers are refused.
    pub(crate) fn parse(text: &str) -> Result<Self, Failed> {
        match text {
            "" => Ok(Self::Unset),
            "0" => Ok(Self::Any),
            _ => match text.parse::<u64>() {
                // Above what the store can ever reach: the future, in any case.
                Ok(number) if text.bytes().all(|b| b.is_ascii_digit()) && number > 0 => {
                    Ok(Self::At(Revision::new(number)))
                }
                _ => Err(Failure::bad_request(format!(
                    "resourceVersion: Invalid value: {text:?}: must be a decimal number"
                ))),
            },
        }
    }
}

/// The `resourceVersionMatch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Exact,
    NotOlderThan,
}

/// Kubernetes' ListOptions, as far as the query can tell that they fit together.
#[derive(Clone, Debug)]
pub(crate) struct ListOptions {
    pub(crate) version: Version,
    pub(crate) version_match: Option<Match>,
    /// `None`: everything.
    pub(crate) limit: Option<usize>,
    pub(crate) next: String,
    pub(crate) label_selector: String,
    pub(crate) field_selector: String,
    pub(crate) bookmarks: bool,
    pub(crate) initial_events: Option<bool>,
    pub(crate) timeout: Option<Duration>,
}

impl ListOptions {
    /// The options of a list (or of a deletion of all that a list would show).
    pub(crate) fn of_list(query: &Query) -> Result<Self, Failed> {
        let options = Self::parse(query)?;
        let given = query.get("resourceVersionMatch");
        let forbidden = |field: &str, why: &str| Cause::new(Fault::Forbidden, field, why);
        let mut causes = Vec::new();
        if options.version_match.is_some() {
            let field = "resourceVersionMatch";
            if options.version == Version::Unset {
                let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                causes.push(forbidden(field, why));
            }
            if !options.next.is_empty() {
                let why = "resourceVersionMatch is forbidden when continue is provided";
                causes.push(forbidden(field, why));
            }
            if options.version_match == Some(Match::Exact) && options.version == Version::Any {
                let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                causes.push(forbidden(field, why));
            }
        } else if !given.is_empty() {
            causes.push(unknown_match(given));
        }
        if options.initial_events.is_some() {
            let why = "sendInitialEvents is forbidden for list";
            causes.push(forbidden("sendInitialEvents", why));
        }
        if !causes.is_empty() {
            return Err(Failure::invalid_options("ListOptions", &causes));
        }
        if !options.next.is_empty() && matches!(options.version, Version::At(_)) {
            let message = "specifying resource version is not allowed when using continue";
            return Err(Failure::bad_request(message));
        }
        Ok(options)
    }

    /// The options of a watch.
    pub(crate) fn of_watch(query: &Query) -> Result<Self, Failed> {
        let mut options = Self::parse(query)?;
        let given = query.get("resourceVersionMatch");
        let forbidden = |field: &str, why: &str| Cause::new(Fault::Forbidden, field, why);
        let mut causes = Vec::new();
        match options.initial_events {
            None if !given.is_empty() => {
                let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents \
                           is provided";
                causes.push(forbidden("resourceVersionMatch", why));
            }
            Some(_) if given.is_empty() => {
                let why = "sendInitialEvents requires setting resourceVersionMatch to \
                           NotOlderThan";
                causes.push(forbidden("resourceVersionMatch", why));
            }
            Some(_) if options.version_match != Some(Match::NotOlderThan) => {
                let supported = "supported values: \"NotOlderThan\"";
                let field = "resourceVersionMatch";
                causes.push(Cause::of_value(
                    Fault::NotSupported,
                    field,
                    &given.into(),
                    supported,
                ));
            }
            _ => {}
        }
        if !options.next.is_empty() {
            let why = "continue is forbidden for watch";
            causes.push(forbidden("continue", why));
        }
        if !causes.is_empty() {
            return Err(Failure::invalid_options("ListOptions", &causes));
        }
        if options.initial_events.is_none() && !matches!(options.version, Version::At(_)) {
            // Without a version to go on from, the state comes first.
            options.initial_events = Some(true);
        }
        Ok(options)
    }

    fn parse(query: &Query) -> Result<Self, Failed> {
        let limit = match query.number("limit")? {
            Some(limit) if limit > 0 => Some(usize::try_from(limit).unwrap_or(usize::MAX)),
            _ => None,
        };
        let timeout = match query.number("timeoutSeconds")? {
            Some(seconds) if seconds > 0 => {
                let seconds = seconds.unsigned_abs().min(GATEWAY_MAX_WATCH_SECONDS);
                Some(Duration::from_secs(seconds))
            }
            _ => None,
        };
        let next = query.get("continue");
        if next.len() > MAX_TOKEN_BYTES {
            return Err(invalid_token());
        }
        Ok(Self {
            version: Version::parse(query.get("resourceVersion"))?,
            version_match: match query.get("resourceVersionMatch") {
                "Exact" => Some(Match::Exact),
                "NotOlderThan" => Some(Match::NotOlderThan),
                _ => None,
            },
            limit,
            next: next.to_owned(),
            label_selector: query.get("labelSelector").to_owned(),
            field_selector: query.get("fieldSelector").to_owned(),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            initial_events: query.flag("sendInitialEvents"),
            timeout,
        })
    }
}

/// A continue token that is none.
pub(crate) fn invalid_token() -> Failed {
    Failure::bad_request("invalid continue token: it is not one of this server's")
}

fn unknown_match(given: &str) -> Cause {
    let supported = "supported values: \"Exact\", \"NotOlderThan\"";
    let field = "resourceVersionMatch";
    Cause::of_value(Fault::NotSupported, field, &given.into(), supported)
}

/// What becomes of fields that a kind does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// They are dropped.
    Drop,
    /// They are dropped, and the client is told.
    Warn,
    /// The request is refused.
    Refuse,
}

/// The options of a create, update or patch that the query holds.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    /// Everything but the write itself.
    pub(crate) dry_run: bool,
    /// Who writes; empty: unknown.
    pub(crate) field_manager: String,
    /// `fieldValidation`.
    pub(crate) unknown: Unknown,
    /// Fields are taken over from others who applied them.
    pub(crate) force: bool,
}

impl WriteOptions {
    /// How all but an apply writes.
    pub(super) fn plain(&self) -> Manner {
        Manner {
            dry_run: self.dry_run,
            applies: false,
        }
    }

    /// `options`: whose they are, such as `CreateOptions`.
    pub(crate) fn parse(query: &Query, options: &'static str) -> Result<Self, Failed> {
        let dry_run = dry_run(query.all("dryRun"), options)?;
        let unknown = match query.get("fieldValidation") {
            "Ignore" => Unknown::Drop,
            "" | "Warn" => Unknown::Warn,
            "Strict" => Unknown::Refuse,
            other => {
                let (field, known) = ("fieldValidation", ["Ignore", "Strict", "Warn"]);
                return Err(Failure::unsupported_option(options, field, other, &known));
            }
        };
        let field_manager = query.get("fieldManager");
        if field_manager.len() > 128 || field_manager.chars().any(char::is_control) {
            let problem = "must be printable and at most 128 bytes";
            let cause = Cause::invalid("fieldManager", &field_manager.into(), problem);
            return Err(Failure::invalid_options(options, &[cause]));
        }
        Ok(Self {
            dry_run,
            field_manager: field_manager.to_owned(),
            unknown,
            force: query.flag("force").unwrap_or(false),
        })
    }
}

/// Whether nothing is to be written.
pub(crate) fn dry_run<'a>(
    values: impl Iterator<Item = &'a str>,
    options: &str,
) -> Result<bool, Failed> {
    let mut dry = false;
    for value in values {
        match value {
            "All" => dry = true,
            "" => {}
            _ => {
                return Err(Failure::unsupported_option(
                    options,
                    "dryRun",
                    value,
                    &["All"],
                ));
            }
        }
    }
    Ok(dry)
}
