//! Flags that several commands share.

use std::{
    io::{self, BufRead, BufReader},
    path::PathBuf,
};

use clap::{Args, ValueEnum};
use listwatch::v1::{Consistency, FieldRequirement, LabelRequirement, Selector, View, consistency};

use super::{documents, manifest, output::Format, selector, tally::complain};

/// What `-l` parses to.
#[derive(Clone, Debug, Default)]
pub(super) struct Labels(pub(super) Vec<LabelRequirement>);

/// What `--field-selector` parses to.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(pub(super) Vec<FieldRequirement>);

/// Which objects of a collection.
#[derive(Args, Debug)]
pub(super) struct SelectorArgs {
    /// Only this namespace; without it objects of all namespaces and of none
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// All namespaces, which is the default
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Only objects with such labels: a=b,c!=d,e in (x,y),f notin (z),g,!h
    #[arg(short = 'l', long = "selector", value_name = "SELECTOR", value_parser = labels)]
    labels: Option<Labels>,
    /// Only objects with such fields: spec.nodeName=a,status.phase!=Running
    #[arg(long, value_name = "SELECTOR", value_parser = fields)]
    field_selector: Option<Fields>,
    /// Only objects whose name starts so
    #[arg(long, value_name = "PREFIX")]
    name_prefix: Option<String>,
}

impl SelectorArgs {
    /// The selector of the API; `name` is empty for all.
    pub(super) fn selector(&self, collection: &str, name: &str) -> Selector {
        Selector {
            collection: collection.into(),
            namespace: self.namespace.clone().unwrap_or_default(),
            name: name.into(),
            name_prefix: self.name_prefix.clone().unwrap_or_default(),
            labels: self.labels.clone().unwrap_or_default().0,
            fields: self.field_selector.clone().unwrap_or_default().0,
        }
    }

    /// What `-n` says.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

fn labels(text: &str) -> Result<Labels, String> {
    selector::parse_labels(text).map(Labels)
}

fn fields(text: &str) -> Result<Fields, String> {
    selector::parse_fields(text).map(Fields)
}

/// How objects are shown.
#[derive(Args, Debug)]
pub(super) struct OutputArgs {
    /// How to write the objects
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Format,
    /// Labels as another column of the table
    #[arg(long)]
    pub(super) show_labels: bool,
    /// How much of each object to ask for; without it, what the output format shows
    #[arg(long, value_enum)]
    view: Option<ViewArg>,
}

impl OutputArgs {
    /// What to ask the server for.
    pub(super) fn view(&self) -> View {
        match self.view {
            None => self.output.view(),
            Some(ViewArg::Full) => View::Full,
            Some(ViewArg::Metadata) => View::Metadata,
            Some(ViewArg::Key) => View::Key,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ViewArg {
    /// Everything
    Full,
    /// Everything but the value
    Metadata,
    /// Only key, uid and revision
    Key,
}

/// Of which moment to read.
#[derive(Args, Debug)]
pub(super) struct ReadArgs {
    /// The state at exactly this revision
    #[arg(long, value_name = "REVISION", conflicts_with = "min_revision")]
    at_revision: Option<i64>,
    /// The state at this revision or a later one; waits for it
    #[arg(long, value_name = "REVISION")]
    min_revision: Option<i64>,
}

impl ReadArgs {
    /// The consistency of the API; unset means the newest state.
    pub(super) fn consistency(&self) -> Option<Consistency> {
        let kind = match (self.at_revision, self.min_revision) {
            (Some(revision), _) => consistency::Kind::ExactRevision(revision),
            (_, Some(revision)) => consistency::Kind::MinRevision(revision),
            _ => return None,
        };
        Some(Consistency { kind: Some(kind) })
    }
}

/// Documents to read.
#[derive(Args, Debug)]
pub(super) struct FileArgs {
    /// A YAML or JSON file, a folder of such, or - for standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// Also the folders below
    #[arg(short = 'R', long, requires = "files")]
    pub(super) recursive: bool,
}

impl FileArgs {
    /// The objects of all the documents in order; each one that cannot be had with the
    /// reason. Warnings go to standard error.
    pub(super) fn objects<'a>(
        &'a self,
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = manifest::Item> + 'a {
        let stdin = || -> Box<dyn BufRead> { Box::new(BufReader::new(io::stdin())) };
        documents::read(&self.files, self.recursive, stdin).flat_map(move |document| {
            for warning in &document.warnings {
                complain(&format!("warning: {}: {warning}", document.origin));
            }
            match document.content {
                Ok(content) => manifest::objects(document.origin, content, namespace),
                Err(why) => vec![(document.origin, Err(why))],
            }
        })
    }
}
