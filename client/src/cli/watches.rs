//! `listwatch status --watches`: who watches what.

use std::io::{self, Write};

use listwatch::v1::{
    FieldRequirement, LabelOperator, LabelRequirement, ListWatchesRequest, OpenWatch, Selector,
    WatchState,
};
use serde::Serialize;

use super::{
    exit::CommandError,
    output::{now, write_yaml},
    session::Session,
    span,
    status::{StatusFormat, bytes},
    table::Table,
};

/// Prints the open watches, those that are furthest behind first.
pub(super) async fn run(
    session: &Session,
    format: StatusFormat,
    out: &mut dyn Write,
) -> Result<(), CommandError> {
    let mut watches = Vec::new();
    let mut request = ListWatchesRequest::default();
    loop {
        let page = session.watches(request.clone()).await;
        let page = page.map_err(|error| CommandError::call(&error))?;
        watches.extend(page.watches);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    // The rest in the order in which they were opened.
    watches.sort_by_key(|watch| std::cmp::Reverse(watch.backlog_bytes));
    let forms = || watches.iter().map(WatchForm::new).collect::<Vec<_>>();
    let written = match format {
        StatusFormat::Table => write_table(&watches, out),
        StatusFormat::Json => serde_json::to_writer_pretty(&mut *out, &forms())
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out)),
        StatusFormat::Yaml => write_yaml(out, &forms()),
    };
    written.map_err(CommandError::output)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WatchForm<'a> {
    number: i64,
    collection: &'a str,
    selector: String,
    client: &'a str,
    user_agent: &'a str,
    open_time: String,
    state: &'static str,
    delivery_mode: &'static str,
    view: &'static str,
    revision: i64,
    lag_revisions: i64,
    lag_seconds: f64,
    backlog_bytes: i64,
    sent_events: i64,
    sent_bytes: i64,
    watch_count: i64,
}

impl<'a> WatchForm<'a> {
    fn new(watch: &'a OpenWatch) -> Self {
        let selector = watch.selector.as_ref();
        Self {
            number: watch.number,
            collection: selector.map_or("", |s| &s.collection),
            selector: selector.map(in_short).unwrap_or_default(),
            client: &watch.client,
            user_agent: &watch.user_agent,
            open_time: watch
                .open_time
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            state: state(watch),
            delivery_mode: watch.delivery_mode().as_str_name(),
            view: watch.view().as_str_name(),
            revision: watch.revision,
            lag_revisions: watch.lag_revisions,
            lag_seconds: lag_seconds(watch),
            backlog_bytes: watch.backlog_bytes,
            sent_events: watch.sent_events,
            sent_bytes: watch.sent_bytes,
            watch_count: watch.watch_count,
        }
    }
}

fn lag_seconds(watch: &OpenWatch) -> f64 {
    watch
        .lag
        .as_ref()
        .map_or(0.0, |lag| lag.seconds as f64 + f64::from(lag.nanos) / 1e9)
}

fn state(watch: &OpenWatch) -> &'static str {
    match watch.state() {
        WatchState::Unspecified => "unknown",
        WatchState::Initial => "initial",
        WatchState::CatchingUp => "catching up",
        WatchState::Live => "live",
        WatchState::Lagging => "lagging",
    }
}

fn write_table(watches: &[OpenWatch], out: &mut dyn Write) -> io::Result<()> {
    let now = now();
    let mut table = Table::new(&[
        "COLLECTION",
        "SELECTOR",
        "CLIENT",
        "AGE",
        "STATE",
        "LAG",
        "BEHIND",
        "BACKLOG",
        "SENT",
        "WATCHES",
    ]);
    let rows = watches.iter().map(|watch| {
        let selector = watch.selector.as_ref();
        let opened = watch.open_time.as_ref().map_or(now, |time| time.seconds);
        let selected = selector.map(in_short).filter(|text| !text.is_empty());
        vec![
            selector.map(|s| s.collection.clone()).unwrap_or_default(),
            selected.unwrap_or_else(|| "-".into()),
            watch.client.clone(),
            span::age(now - opened),
            state(watch).to_owned(),
            span::age(lag_seconds(watch) as i64),
            watch.lag_revisions.to_string(),
            bytes(watch.backlog_bytes),
            watch.sent_events.to_string(),
            watch.watch_count.to_string(),
        ]
    });
    table.write(out, rows.collect())
}

/// A selector in one word, in the syntax of the flags.
fn in_short(selector: &Selector) -> String {
    let mut parts = Vec::new();
    for (flag, value) in [
        ("namespace", &selector.namespace),
        ("name", &selector.name),
        ("prefix", &selector.name_prefix),
    ] {
        if !value.is_empty() {
            parts.push(format!("{flag}={value}"));
        }
    }
    parts.extend(selector.labels.iter().map(label));
    parts.extend(selector.fields.iter().map(field));
    parts.join(",")
}

fn label(requirement: &LabelRequirement) -> String {
    let key = &requirement.key;
    let values = || requirement.values.join("|");
    match requirement.operator() {
        LabelOperator::In => format!("{key}={}", values()),
        LabelOperator::NotIn => format!("{key}!={}", values()),
        LabelOperator::NotExists => format!("!{key}"),
        LabelOperator::Exists | LabelOperator::Unspecified => key.clone(),
    }
}

fn field(requirement: &FieldRequirement) -> String {
    let operator = if requirement.not_equal { "!=" } else { "=" };
    format!("{}{operator}{}", requirement.path, requirement.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_one_word() {
        let label = |key: &str, operator: LabelOperator, values: &[&str]| LabelRequirement {
            key: key.into(),
            operator: operator.into(),
            values: values.iter().map(|v| (*v).into()).collect(),
        };
        let selector = Selector {
            collection: "pods".into(),
            namespace: "web".into(),
            name_prefix: "a-".into(),
            labels: vec![
                label("app", LabelOperator::In, &["x", "y"]),
                label("old", LabelOperator::NotExists, &[]),
            ],
            fields: vec![FieldRequirement {
                path: "spec.nodeName".into(),
                not_equal: true,
                value: "n1".into(),
            }],
            ..Selector::default()
        };
        let short = "namespace=web,prefix=a-,app=x|y,!old,spec.nodeName!=n1";
        assert_eq!(in_short(&selector), short);
        assert_eq!(in_short(&Selector::default()), "");
    }
}
