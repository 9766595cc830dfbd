//! Writing the events of a watch, in each of the formats of `-o`.

use std::io::{self, Write};

use listwatch::v1::{Bookmark, BookmarkKind, DeleteCause, EventType, WatchEvent};
use serde::Serialize;

use super::{
    form::Form,
    output::{Format, cells, columns, dash, key_name, now, write_yaml},
    table::Table,
};

/// Rows come one by one, so the columns start wide enough for usual names.
const NAMESPACE_WIDTH: usize = 12;
const NAME_WIDTH: usize = 32;

/// Events one after the other.
pub(super) struct Events<'w> {
    out: &'w mut dyn Write,
    format: Format,
    table: Table,
    show_labels: bool,
    show_bookmarks: bool,
    with_value: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventForm<'a> {
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete_cause: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<Form<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous: Option<Form<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkForm<'a> {
    r#type: &'static str,
    kind: String,
    revision: i64,
    latest_revision: i64,
    coalesced_count: i64,
    #[serde(skip_serializing_if = "str::is_empty")]
    resume_token: &'a str,
}

impl<'w> Events<'w> {
    /// For one watch.
    pub(super) fn new(
        out: &'w mut dyn Write,
        format: Format,
        show_labels: bool,
        show_bookmarks: bool,
        with_value: bool,
    ) -> Self {
        let mut headers = columns(&["TYPE"], show_labels);
        if show_bookmarks {
            headers.push("RESUME TOKEN");
        }
        let table = Table::new(&headers)
            .at_least(0, "MODIFIED".len())
            .at_least(1, NAMESPACE_WIDTH)
            .at_least(2, NAME_WIDTH);
        Self {
            out,
            format,
            table,
            show_labels,
            show_bookmarks,
            with_value,
        }
    }

    /// Writes one event.
    pub(super) fn event(&mut self, event: &WatchEvent) -> io::Result<()> {
        let kind = event_name(event.r#type);
        let key = event
            .resource
            .as_ref()
            .and_then(|resource| resource.key.as_ref());
        match self.format {
            Format::Table => {
                let resource = event.resource.clone().unwrap_or_default();
                let mut row = cells(&[&kind], &resource, self.show_labels, now());
                if self.show_bookmarks {
                    row.push("-".into());
                }
                self.table.write(self.out, vec![row])
            }
            Format::Name => writeln!(self.out, "{kind} {}", key_name(key)),
            Format::Json | Format::Yaml => {
                // Keys of unchanged objects come without the rest, whatever the view.
                let with_value = self.with_value && kind != "UNCHANGED";
                let cause = DeleteCause::try_from(event.delete_cause);
                let form = EventForm {
                    r#type: kind,
                    delete_cause: match cause {
                        Ok(DeleteCause::Unspecified) => None,
                        _ => Some(cause_name(event.delete_cause)),
                    },
                    object: event.resource.as_ref().map(|it| Form::new(it, with_value)),
                    previous: event.previous.as_ref().map(|it| Form::new(it, with_value)),
                };
                self.document(&form)
            }
        }
    }

    /// Writes a bookmark, if they were asked for.
    pub(super) fn bookmark(&mut self, bookmark: &Bookmark) -> io::Result<()> {
        if !self.show_bookmarks {
            return Ok(());
        }
        let kind = bookmark_name(bookmark.kind);
        match self.format {
            Format::Table => {
                let none = || "-".to_owned();
                let mut row = vec![
                    "BOOKMARK".into(),
                    none(),
                    kind,
                    bookmark.revision.to_string(),
                    none(),
                ];
                if self.show_labels {
                    row.push(none());
                }
                row.push(dash(bookmark.resume_token.clone()));
                self.table.write(self.out, vec![row])
            }
            Format::Name => writeln!(self.out, "BOOKMARK {kind} {}", bookmark.revision),
            Format::Json | Format::Yaml => self.document(&BookmarkForm {
                r#type: "BOOKMARK",
                kind,
                revision: bookmark.revision,
                latest_revision: bookmark.latest_revision,
                coalesced_count: bookmark.coalesced_count,
                resume_token: &bookmark.resume_token,
            }),
        }
    }

    /// Hands what was written to whoever reads.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn document(&mut self, form: &impl Serialize) -> io::Result<()> {
        if self.format == Format::Yaml {
            writeln!(self.out, "---")?;
            return write_yaml(self.out, form);
        }
        serde_json::to_writer(&mut *self.out, form)?;
        writeln!(self.out)
    }
}

/// A name without the prefix that protobuf wants; a number for what is newer than us.
fn event_name(number: i32) -> String {
    match EventType::try_from(number) {
        Ok(known) => known.as_str_name().trim_start_matches("EVENT_TYPE_").into(),
        Err(_) => format!("TYPE_{number}"),
    }
}

fn cause_name(number: i32) -> String {
    match DeleteCause::try_from(number) {
        Ok(known) => known
            .as_str_name()
            .trim_start_matches("DELETE_CAUSE_")
            .into(),
        Err(_) => format!("CAUSE_{number}"),
    }
}

fn bookmark_name(number: i32) -> String {
    match BookmarkKind::try_from(number) {
        Ok(BookmarkKind::Unspecified) => "PROGRESS".into(),
        Ok(known) => known
            .as_str_name()
            .trim_start_matches("BOOKMARK_KIND_")
            .into(),
        Err(_) => format!("KIND_{number}"),
    }
}

#[cfg(test)]
mod tests {
    use listwatch::v1::{Key, Resource};

    use super::*;

    fn printed(format: Format) -> String {
        let mut out = Vec::new();
        let mut events = Events::new(&mut out, format, false, true, true);
        let key = Key {
            collection: "pods".into(),
            namespace: "a".into(),
            name: "b".into(),
        };
        let resource = Resource {
            key: Some(key),
            revision: 5,
            ..Resource::default()
        };
        events
            .event(&WatchEvent {
                r#type: EventType::Deleted as i32,
                resource: Some(resource),
                delete_cause: DeleteCause::Expired as i32,
                previous: None,
            })
            .unwrap();
        events
            .event(&WatchEvent {
                r#type: 99,
                ..WatchEvent::default()
            })
            .unwrap();
        let bookmark = Bookmark {
            revision: 6,
            resume_token: "tok".into(),
            kind: BookmarkKind::InitialStateEnd as i32,
            ..Bookmark::default()
        };
        events.bookmark(&bookmark).unwrap();
        events.flush().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_events_are_one_object_a_line_with_type_and_cause() {
        let text = printed(Format::Json);
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["type"], "DELETED");
        assert_eq!(lines[0]["deleteCause"], "EXPIRED");
        assert_eq!(lines[0]["object"]["key"]["name"], "b");
        assert_eq!(lines[1]["type"], "TYPE_99");
        assert_eq!(lines[2]["kind"], "INITIAL_STATE_END");
        assert_eq!(lines[2]["resumeToken"], "tok");
    }

    #[test]
    fn tables_and_names_show_the_event_type_first() {
        let text = printed(Format::Table);
        assert!(text.starts_with("TYPE      NAMESPACE"), "{text}");
        assert!(text.contains("\nDELETED   a "), "{text}");
        assert!(text.trim_end().ends_with("tok"), "{text}");
        assert_eq!(
            printed(Format::Name).lines().next(),
            Some("DELETED pods/a/b")
        );
    }
}
