//! From files, folders and standard input to documents: what `-f` reads.
//!
//! A file is cut into its YAML documents before any of them is parsed, so that one bad
//! document does not take those behind it along, and so that a stream of a million
//! documents is never held as a whole.

use std::{
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;

use super::parse::{self, Parsed};

/// Where a document was found; shown in front of whatever is said about it.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    file: Arc<str>,
    /// The document's number in the file, from 1, and the line it starts at.
    document: Option<(usize, usize)>,
    /// The positions inside nested lists, each from 1.
    items: Vec<usize>,
}

impl Origin {
    fn file(name: &str) -> Self {
        Self {
            file: name.into(),
            document: None,
            items: vec![],
        }
    }

    /// The place of the `index`th item (from 0) of the list found here.
    pub(super) fn item(&self, index: usize) -> Self {
        let mut items = self.items.clone();
        items.push(index + 1);
        Self {
            items,
            ..self.clone()
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some((number, line)) = self.document {
            write!(f, ": document {number} (line {line})")?;
        }
        for item in &self.items {
            write!(f, ", item {item}")?;
        }
        Ok(())
    }
}

/// One document.
pub(super) struct Document {
    /// Where it was found.
    pub(super) origin: Origin,
    /// What it holds, or why that cannot be read.
    pub(super) content: Result<Value, String>,
    /// What is wrong with it and still leaves one meaning.
    pub(super) warnings: Vec<String>,
}

impl Document {
    fn unreadable(name: &str, why: String) -> Self {
        Self {
            origin: Origin::file(name),
            content: Err(why),
            warnings: vec![],
        }
    }
}

/// The documents of all `paths` in order; `-` is `stdin`. Folders give their `*.yaml`,
/// `*.yml` and `*.json` files sorted by name, with `recursive` also those below.
pub(super) fn read<'a>(
    paths: &'a [PathBuf],
    recursive: bool,
    mut stdin: impl FnMut() -> Box<dyn BufRead> + 'a,
) -> impl Iterator<Item = Document> + 'a {
    paths
        .iter()
        .flat_map(move |path| match path.as_os_str() == "-" {
            true => vec![Ok(path.clone())],
            false => files(path, recursive),
        })
        .flat_map(move |file| -> Box<dyn Iterator<Item = Document>> {
            let opened = file.and_then(|path| {
                let name = path.display().to_string();
                if name == "-" {
                    return Ok(("standard input".to_owned(), stdin()));
                }
                match File::open(&path) {
                    Ok(file) => Ok((name, Box::new(BufReader::new(file)) as Box<dyn BufRead>)),
                    Err(error) => Err((name, error.to_string())),
                }
            });
            match opened {
                Ok((name, reader)) => Box::new(documents(&name, reader)),
                Err((name, why)) => Box::new([Document::unreadable(&name, why)].into_iter()),
            }
        })
}

type FileOrFailure = Result<PathBuf, (String, String)>;

fn files(path: &Path, recursive: bool) -> Vec<FileOrFailure> {
    if !path.is_dir() {
        return vec![Ok(path.to_owned())];
    }
    let mut found = Vec::new();
    walk(path, recursive, &mut found);
    if found.is_empty() {
        let why = match recursive {
            true => "holds no *.yaml, *.yml or *.json file",
            false => "holds no *.yaml, *.yml or *.json file (-R looks into the folders below)",
        };
        found.push(Err((path.display().to_string(), why.into())));
    }
    found
}

fn walk(folder: &Path, recursive: bool, found: &mut Vec<FileOrFailure>) {
    let failed = |error: io::Error| (folder.display().to_string(), error.to_string());
    let entries =
        match fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>()) {
            Ok(entries) => entries,
            Err(error) => return found.push(Err(failed(error))),
        };
    let mut entries: Vec<_> = entries
        .iter()
        .map(|entry| (entry.path(), entry.file_type()))
        .collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, kind) in entries {
        match kind {
            // Links to folders are not followed: they can lead round in circles.
            Ok(kind) if kind.is_dir() => {
                if recursive {
                    walk(&path, recursive, found);
                }
            }
            Ok(_) if is_document(&path) && !path.is_dir() => found.push(Ok(path)),
            Ok(_) => {}
            Err(error) => found.push(Err((path.display().to_string(), error.to_string()))),
        }
    }
}

fn is_document(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|name| {
        ["yaml", "yml", "json"]
            .iter()
            .any(|e| name.eq_ignore_ascii_case(e))
    })
}

/// The documents of one file called `name`. Documents that are empty or only comments
/// are left out.
pub(super) fn documents<R: BufRead>(
    name: &str,
    reader: R,
) -> impl Iterator<Item = Document> + use<R> {
    let file = Origin::file(name);
    let is_json = name.to_ascii_lowercase().ends_with(".json");
    let mut number = 0;
    let chunks = Chunks {
        reader,
        line: 0,
        held: None,
        has_failed: false,
    };
    chunks.flat_map(move |chunk| {
        let (line, parsed) = match chunk {
            Ok(chunk) => (chunk.line, parse(&chunk, is_json)),
            Err(error) => (0, vec![(Err(error.to_string()), vec![])]),
        };
        let mut found = Vec::with_capacity(parsed.len());
        for (content, warnings) in parsed {
            if let Ok(Value::Null) = content {
                continue;
            }
            number += 1;
            let origin = Origin {
                document: Some((number, line)),
                ..file.clone()
            };
            found.push(Document {
                origin,
                content,
                warnings,
            });
        }
        found
    })
}

/// The text of one YAML document, or of several JSON ones that follow each other.
struct Chunk {
    /// Of its first line, from 1.
    first_line: usize,
    /// Of its first line that holds more than a comment.
    line: usize,
    text: Vec<u8>,
}

/// Cuts at `---` and `...` lines: in YAML these end a document wherever they stand at the
/// start of a line, even inside a block of text.
struct Chunks<R> {
    reader: R,
    line: usize,
    /// The `---` line that ended the chunk before.
    held: Option<Vec<u8>>,
    /// Reading failed, and would again.
    has_failed: bool,
}

impl<R: BufRead> Iterator for Chunks<R> {
    type Item = io::Result<Chunk>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let mut chunk = Chunk {
            first_line: self.line.max(1),
            line: 0,
            text: Vec::new(),
        };
        let mut marked = false;
        loop {
            let line = match self.held.take() {
                Some(line) => line,
                None => {
                    let mut line = Vec::new();
                    match self.reader.read_until(b'\n', &mut line) {
                        Ok(0) => return (chunk.line > 0).then_some(Ok(chunk)),
                        Ok(_) => self.line += 1,
                        Err(error) => {
                            self.has_failed = true;
                            return Some(Err(error));
                        }
                    }
                    if self.line == 1 && line.starts_with(b"\xef\xbb\xbf") {
                        line.drain(..3);
                    }
                    line
                }
            };
            let starts = is_marker(&line, b"---");
            if starts && (chunk.line > 0 || marked) {
                self.held = Some(line);
                if chunk.line > 0 {
                    return Some(Ok(chunk));
                }
                // Nothing but comments between two markers.
                chunk = Chunk {
                    first_line: self.line,
                    line: 0,
                    text: Vec::new(),
                };
                marked = false;
                continue;
            }
            if is_marker(&line, b"...") {
                if chunk.line > 0 {
                    return Some(Ok(chunk));
                }
                chunk = Chunk {
                    first_line: self.line + 1,
                    line: 0,
                    text: Vec::new(),
                };
                marked = false;
                continue;
            }
            marked |= starts;
            let directive = !marked && line.starts_with(b"%");
            let content = if starts { &line[3..] } else { &line[..] };
            if chunk.line == 0 && !directive && !is_blank(content) {
                chunk.line = self.line;
            }
            chunk.text.extend_from_slice(&line);
        }
    }
}

fn is_marker(line: &[u8], marker: &[u8]) -> bool {
    line.strip_prefix(marker)
        .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

fn is_blank(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.is_empty() || line.starts_with(b"#")
}

fn parse(chunk: &Chunk, is_json: bool) -> Vec<Parsed> {
    let text = match std::str::from_utf8(&chunk.text) {
        Ok(text) => text,
        Err(_) => return vec![(Err("is not UTF-8 text".into()), vec![])],
    };
    let mut documents = Vec::new();
    if is_json || text.trim_start().starts_with('{') {
        documents = parse::json(text);
    }
    // YAML's flow style looks like JSON at first: `{kind: Pod}`.
    if !is_json && !matches!(documents.first(), Some((Ok(_), _))) {
        documents = vec![parse::yaml(text)];
    }
    for (content, _) in &mut documents {
        if let Err(why) = content {
            *why = reason(why, chunk);
        }
    }
    documents
}

/// The parser's reason, with lines counted in the file and not in the document.
fn reason(text: &str, chunk: &Chunk) -> String {
    const LINE: &str = " at line ";
    let mut parts = text.split(LINE);
    let mut reason = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = part.split_at(digits);
        reason.push_str(LINE);
        match number.parse::<usize>() {
            Ok(line) => reason.push_str(&(chunk.first_line + line.max(1) - 1).to_string()),
            Err(_) => reason.push_str(number),
        }
        reason.push_str(rest);
    }
    reason
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_text(name: &str, text: &str) -> Vec<(String, Result<Value, String>)> {
        documents(name, text.as_bytes())
            .map(|it| (it.origin.to_string(), it.content))
            .collect()
    }

    fn values(text: &str) -> Vec<Value> {
        read_text("f.yaml", text)
            .into_iter()
            .map(|(_, d)| d.unwrap())
            .collect()
    }

    #[test]
    fn documents_without_content_are_skipped_in_silence() {
        for text in [
            "",
            "\n",
            "# only this\n",
            "---\n",
            "---\n# c\n---\n\n---",
            "--- # c\n...\n---\n",
            "null\n",
        ] {
            assert_eq!(values(text), Vec::<Value>::new(), "{text:?}");
        }
        assert_eq!(
            values("# c\n---\n# d\na: 1\n---\n# e\n---\nb: 2\n...\n"),
            [json!({"a": 1}), json!({"b": 2})]
        );
    }

    #[test]
    fn a_file_holds_several_documents_in_every_way_yaml_knows() {
        let both = [json!({"a": 1}), json!({"b": 2})];
        for text in [
            "a: 1\n---\nb: 2",
            "---\na: 1\n---\nb: 2\n",
            "\u{feff}a: 1\r\n---\r\nb: 2\r\n",
            "%YAML 1.2\n---\na: 1\n...\n%YAML 1.2\n---\nb: 2\n",
            "--- {a: 1}\n--- {b: 2}\n",
            "{\"a\": 1}\n{\"b\": 2}\n",
            "{\"a\":1}{\"b\":2}",
            "{\n\t\"a\": 1}\n---\n{b: 2}\n",
        ] {
            assert_eq!(values(text), both, "{text:?}");
        }
    }

    #[test]
    fn a_marker_inside_a_line_or_indented_cuts_nothing() {
        assert_eq!(
            values("a: |\n  ---\n  x\nb: ----\n"),
            [json!({"a": "---\nx\n", "b": "----"})]
        );
    }

    #[test]
    fn a_bad_document_is_named_and_the_next_one_is_read() {
        let found = read_text("dir/f.yaml", "a: 1\n---\n# why\nb: [1\n---\nc: 3\n");
        assert_eq!(found[0].1, Ok(json!({"a": 1})));
        assert_eq!(found[1].0, "dir/f.yaml: document 2 (line 4)");
        assert!(
            found[1].1.as_ref().unwrap_err().contains("at line"),
            "{:?}",
            found[1]
        );
        assert_eq!(
            found[2],
            (
                "dir/f.yaml: document 3 (line 6)".into(),
                Ok(json!({"c": 3}))
            )
        );

        let found = read_text("f.yaml", "a: 1\n---\nb: x: y\n");
        assert!(
            found[1].1.as_ref().unwrap_err().contains("line 3 "),
            "{:?}",
            found[1]
        );
        let found = read_text("f.json", "{\"a\": 1}\n{\"b\": }\n");
        assert!(
            found[1].1.as_ref().unwrap_err().contains("line 2 "),
            "{:?}",
            found[1]
        );
    }

    #[test]
    fn text_that_is_not_utf8_is_an_error_and_no_panic() {
        let found: Vec<_> = documents("f.yaml", &b"a: \xff\n---\nb: 1\n"[..]).collect();
        assert_eq!(found[0].content, Err("is not UTF-8 text".into()));
        assert_eq!(found[1].content, Ok(json!({"b": 1})));
    }

    #[test]
    fn folders_are_read_sorted_and_only_as_deep_as_asked() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        put("b.yml", "b: 1");
        put("a.yaml", "a: 1");
        put("c.json", "{\"c\": 1}");
        put("notes.txt", "not: this");
        put("below/d.YAML", "d: 1");
        let read = |recursive| -> Vec<Value> {
            let paths = [folder.path().to_owned()];
            let found = super::read(&paths, recursive, || Box::new(io::empty()));
            found.map(|document| document.content.unwrap()).collect()
        };
        assert_eq!(
            read(false),
            [json!({"a": 1}), json!({"b": 1}), json!({"c": 1})]
        );
        // `below` sorts between `b.yml` and `c.json`.
        assert_eq!(read(true).len(), 4);
    }

    #[test]
    fn unreadable_paths_are_named_and_the_rest_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [
            folder.path().to_owned(),
            folder.path().join("gone.yaml"),
            "-".into(),
        ];
        let found: Vec<_> = super::read(&paths, false, || Box::new(&b"a: 1"[..])).collect();
        assert!(found[0].content.as_ref().unwrap_err().contains("holds no"));
        assert!(found[1].origin.to_string().ends_with("gone.yaml"));
        assert!(found[1].content.is_err());
        assert_eq!(found[2].content, Ok(json!({"a": 1})));
    }
}
