//! Writing objects to standard output, in each of the formats of `-o`.

use std::{
    io::{self, Write},
    time::{SystemTime, UNIX_EPOCH},
};

use clap::ValueEnum;
use listwatch::v1::{Key, Resource, View};
use serde::Serialize;

use super::{form::Form, span, table::Table};

/// The formats of `-o`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Aligned columns for people
    #[default]
    Table,
    /// JSON; `watch` writes one object a line
    Json,
    /// YAML, one document an object
    Yaml,
    /// collection/namespace/name
    Name,
}

impl Format {
    /// What the server has to send for this format when the user does not say: no values
    /// for a table that shows none.
    pub(super) fn view(self) -> View {
        match self {
            Self::Table => View::Metadata,
            Self::Json | Self::Yaml => View::Full,
            Self::Name => View::Key,
        }
    }
}

/// `collection/namespace/name`; without a namespace `collection/name`.
pub(super) fn key_name(key: Option<&Key>) -> String {
    match key {
        None => "(an object without a key)".into(),
        Some(key) if key.namespace.is_empty() => format!("{}/{}", key.collection, key.name),
        Some(key) => format!("{}/{}/{}", key.collection, key.namespace, key.name),
    }
}

/// Objects one after the other, however many.
pub(super) struct Objects<'w> {
    out: &'w mut dyn Write,
    format: Format,
    table: Table,
    show_labels: bool,
    with_value: bool,
    /// JSON: one object by itself instead of `{"items": [...]}`.
    single: bool,
    count: u64,
}

impl<'w> Objects<'w> {
    /// `single`: the user asked for one object and gets it without a list around it.
    pub(super) fn new(
        out: &'w mut dyn Write,
        format: Format,
        view: View,
        show_labels: bool,
        single: bool,
    ) -> Self {
        Self {
            out,
            format,
            table: Table::new(&columns(&[], show_labels)),
            show_labels,
            with_value: matches!(view, View::Full | View::Unspecified),
            single,
            count: 0,
        }
    }

    /// Writes some more, and hands them to whoever reads.
    pub(super) fn write(&mut self, resources: &[Resource]) -> io::Result<()> {
        match self.format {
            Format::Table => {
                let now = now();
                let rows = resources
                    .iter()
                    .map(|it| cells(&[], it, self.show_labels, now));
                self.table.write(self.out, rows.collect())?;
            }
            Format::Name => {
                for resource in resources {
                    writeln!(self.out, "{}", key_name(resource.key.as_ref()))?;
                }
            }
            Format::Yaml => {
                for resource in resources {
                    if !self.single {
                        writeln!(self.out, "---")?;
                    }
                    write_yaml(self.out, &Form::new(resource, self.with_value))?;
                }
            }
            Format::Json => {
                for (resource, first) in resources
                    .iter()
                    .zip(std::iter::once(self.count == 0).chain(std::iter::repeat(false)))
                {
                    let form = Form::new(resource, self.with_value);
                    if self.single {
                        serde_json::to_writer_pretty(&mut *self.out, &form)?;
                        writeln!(self.out)?;
                    } else {
                        // One object a line: the whole is JSON, and grep finds its way.
                        self.out
                            .write_all(if first { b"{\"items\":[\n" } else { b",\n" })?;
                        serde_json::to_writer(&mut *self.out, &form)?;
                    }
                }
            }
        }
        self.count += resources.len() as u64;
        self.out.flush()
    }

    /// Ends the output; `end` is of a list. Returns how many objects there were.
    pub(super) fn finish(self, end: Option<ListEnd>) -> io::Result<u64> {
        match (self.format, end) {
            (Format::Json, end) if !self.single => {
                self.out.write_all(if self.count == 0 {
                    b"{\"items\":[]"
                } else {
                    b"\n]"
                })?;
                if let Some(end) = end {
                    let token = serde_json::to_string(&end.resume_token)?;
                    write!(
                        self.out,
                        ",\"revision\":{},\"resumeToken\":{token}",
                        end.revision
                    )?;
                }
                self.out.write_all(b"}\n")?;
            }
            // A comment, so that the stream stays one of objects.
            (Format::Yaml, Some(end)) => {
                writeln!(self.out, "# revision: {}", end.revision)?;
                writeln!(self.out, "# resumeToken: {}", end.resume_token)?;
            }
            _ => {}
        }
        self.out.flush()?;
        Ok(self.count)
    }
}

/// What a whole list is good for: a watch that starts right behind it.
pub(super) struct ListEnd {
    /// The one revision that the list shows.
    pub(super) revision: i64,
    /// Starts a watch of the same selector.
    pub(super) resume_token: String,
}

/// The columns of a table of objects, behind `before`.
pub(super) fn columns(before: &[&'static str], show_labels: bool) -> Vec<&'static str> {
    let mut columns = before.to_vec();
    columns.extend(["NAMESPACE", "NAME", "REVISION", "UPDATED"]);
    if show_labels {
        columns.push("LABELS");
    }
    columns
}

/// One row under [`columns`].
pub(super) fn cells(
    before: &[&str],
    resource: &Resource,
    show_labels: bool,
    now: i64,
) -> Vec<String> {
    let mut cells: Vec<String> = before.iter().map(|cell| (*cell).into()).collect();
    let (namespace, name) = match &resource.key {
        Some(key) => (key.namespace.as_str(), key.name.as_str()),
        None => ("", ""),
    };
    cells.push(dash(namespace.into()));
    cells.push(dash(name.into()));
    cells.push(resource.revision.to_string());
    let updated = resource
        .update_time
        .as_ref()
        .map(|time| span::age(now - time.seconds));
    cells.push(dash(updated.unwrap_or_default()));
    if show_labels {
        let labels: Vec<_> = resource
            .labels
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        cells.push(dash(labels.join(",")));
    }
    cells
}

/// An empty cell would make the columns ambiguous to `awk`.
pub(super) fn dash(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

/// Seconds since 1970 by this machine's clock.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// One YAML document, without the `---` before it.
pub(super) fn write_yaml(out: &mut dyn Write, document: &impl Serialize) -> io::Result<()> {
    let text = serde_yaml_ng::to_string(document).map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn resource(namespace: &str, name: &str) -> Resource {
        Resource {
            key: Some(Key {
                collection: "pods".into(),
                namespace: namespace.into(),
                name: name.into(),
            }),
            revision: 12,
            labels: [("a".into(), "b".into()), ("c".into(), "".into())].into(),
            content_type: "application/json".into(),
            value: Bytes::from_static(b"{\"x\": 1}"),
            ..Resource::default()
        }
    }

    fn printed(format: Format, single: bool, pages: &[&[Resource]]) -> String {
        let mut out = Vec::new();
        let mut objects = Objects::new(&mut out, format, View::Full, true, single);
        for page in pages {
            objects.write(page).unwrap();
        }
        objects.finish(None).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tables_are_aligned_and_have_no_empty_cell() {
        let page = [resource("default", "a"), resource("", "longer-name")];
        assert_eq!(
            printed(Format::Table, false, &[&page, &[]]),
            "NAMESPACE  NAME         REVISION  UPDATED  LABELS\n\
             default    a            12        -        a=b,c=\n\
             -          longer-name  12        -        a=b,c=\n"
        );
        assert_eq!(printed(Format::Table, false, &[&[]]), "");
    }

    #[test]
    fn a_list_is_one_json_document_however_many_pages_it_has() {
        for pages in [
            &[][..],
            &[&[resource("", "a")][..]],
            &[&[resource("", "a")], &[resource("", "b")]],
        ] {
            let text = printed(Format::Json, false, pages);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["items"].as_array().unwrap().len(), pages.len());
        }
        let one: serde_json::Value =
            serde_json::from_str(&printed(Format::Json, true, &[&[resource("", "a")]])).unwrap();
        assert_eq!(one["value"]["x"], 1);
        assert_eq!(one["key"]["name"], "a");
    }

    #[test]
    fn names_are_what_get_and_delete_take() {
        let page = [resource("default", "a"), resource("", "b")];
        assert_eq!(
            printed(Format::Name, false, &[&page]),
            "pods/default/a\npods/b\n"
        );
    }

    #[test]
    fn every_yaml_document_of_a_list_starts_with_a_marker() {
        let text = printed(
            Format::Yaml,
            false,
            &[&[resource("", "a")], &[resource("", "b")]],
        );
        assert_eq!(text.matches("---\n").count(), 2);
        assert!(text.contains("value:\n  x: 1\n"), "{text}");
    }
}
