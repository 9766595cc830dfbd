//! The messages that Kubernetes' built-in kinds are made of: what their fields are called in
//! JSON, their numbers in Protobuf, and what they hold.
//!
//! `fields.txt` is made by `scripts/kubernetes-fields` of the Go types of Kubernetes. A line
//! without a space before it begins a message, by its name in OpenAPI documents; each line
//! after it is a field: its number, its name in JSON, its type, and what else is known of it.
//!
//! - The number is 0 for what stands around the message instead of in it.
//! - The name is `-` where JSON has the fields of the message in place of the message.
//! - `[]` before a type is a list, `{}` a map from strings. A message without dots is of the
//!   same package.
//! - `pointer`: a zero is a value, too; `zero`: so it is in JSON, which always has the field.
//! - `required`; `list=TYPE:KEYS`: `x-kubernetes-list-type` and its map keys;
//!   `patch=STRATEGY:KEY`: how strategic merge patches treat it.

mod decode;
mod envelope;
mod time;

use std::{collections::HashMap, sync::OnceLock};

use self::decode::MessageError;
pub(crate) use self::{
    decode::decode,
    envelope::{Envelope, MEDIA_TYPE},
};
use super::kinds::Kind;

static TEXT: &str = include_str!("fields.txt");

/// The message that deletions carry.
pub(crate) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
/// The message of a `/scale` subresource, whatever the kind that is scaled.
pub(crate) const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";
/// The message of a schema, which is in some values of schemas.
pub(crate) const JSON_SCHEMA: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";

/// What one value of a field is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// A string.
    Text,
    /// A boolean.
    Flag,
    /// An integer of 32 bits.
    Int32,
    /// An integer of 64 bits.
    Int64,
    /// A floating point number.
    Double,
    /// Bytes: base64 in JSON.
    Bytes,
    /// A time, to the second.
    Time,
    /// A time, to the microsecond.
    MicroTime,
    /// An amount, such as `100m`.
    Quantity,
    /// A number, or a name or percentage.
    IntOrString,
    /// JSON of any form.
    Raw,
    /// A schema, or a list of them.
    SchemaOrList,
    /// A schema, or whether anything is allowed.
    SchemaOrFlag,
    /// A schema, or a list of strings.
    SchemaOrTexts,
    /// Another message, by its name.
    Message(&'static str),
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Many {
    One,
    List,
    /// By name.
    Map,
}

/// One field of a message.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// In Protobuf; 0: it is not in the message itself.
    pub(crate) number: u32,
    /// In JSON.
    pub(crate) name: &'static str,
    pub(crate) holds: Holds,
    pub(crate) many: Many,
    /// JSON has the fields of the message in place of the message.
    pub(crate) inline: bool,
    /// JSON shows it even where it is zero.
    pub(crate) keeps_zero: bool,
    pub(crate) required: bool,
    /// `atomic`, `set` or `map`; empty: not said.
    pub(crate) list_type: &'static str,
    pub(crate) list_keys: Vec<&'static str>,
    /// Empty: not said.
    pub(crate) patch_strategy: &'static str,
    pub(crate) patch_key: &'static str,
}

/// A message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// As OpenAPI documents call it.
    pub(crate) name: &'static str,
    /// As Protobuf has them.
    fields: Vec<Field>,
}

impl Message {
    /// The field of a number.
    fn numbered(&self, number: u32) -> Option<&Field> {
        let mut fields = self.fields.iter();
        fields.find(|field| field.number == number && number != 0)
    }

    /// The fields that JSON has, in their order.
    pub(crate) fn json_fields(&'static self) -> Vec<&'static Field> {
        let mut all = Vec::new();
        for field in &self.fields {
            match (field.inline, field.holds) {
                (true, Holds::Message(name)) => {
                    all.extend(message(name).into_iter().flat_map(Self::json_fields));
                }
                _ => all.push(field),
            }
        }
        all
    }

    /// The field that JSON has under a name.
    pub(crate) fn json_field(&'static self, name: &str) -> Option<&'static Field> {
        self.fields
            .iter()
            .find_map(|field| match (field.inline, field.holds) {
                (true, Holds::Message(inner)) => message(inner)?.json_field(name),
                _ => (field.name == name).then_some(field),
            })
    }

    /// Its name without the package.
    pub(crate) fn short_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

/// A message by its name.
pub(crate) fn message(name: &str) -> Option<&'static Message> {
    static TABLE: OnceLock<HashMap<&'static str, Message>> = OnceLock::new();
    TABLE.get_or_init(|| read(TEXT)).get(name)
}

/// The message of a built-in kind's objects.
pub(crate) fn of_kind(kind: &Kind) -> Option<&'static Message> {
    kind.builtin.then(|| message(&name_of(kind))).flatten()
}

/// How OpenAPI documents call the message of a built-in kind.
pub(crate) fn name_of(kind: &Kind) -> String {
    let package = match kind.group.split('.').next() {
        None | Some("") => "io.k8s.api.core",
        Some("apiextensions") => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        Some(first) => return format!("io.k8s.api.{first}.{}.{}", kind.version, kind.kind),
    };
    format!("{package}.{}.{}", kind.version, kind.kind)
}

/// Reads the table. A test sees to it that no line is skipped.
fn read(text: &'static str) -> HashMap<&'static str, Message> {
    let mut messages = HashMap::new();
    let mut names = HashMap::new();
    let headings = text
        .lines()
        .filter(|line| !line.starts_with(['#', ' ']) && !line.is_empty());
    for name in headings.clone() {
        if let Some((package, short)) = name.rsplit_once('.') {
            names.insert((package, short), name);
        }
    }
    let mut current: Option<Message> = None;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match (line.strip_prefix(' '), &mut current) {
            (Some(line), Some(message)) => {
                let package = message
                    .name
                    .rsplit_once('.')
                    .map_or("", |(package, _)| package);
                let local = |name: &'static str| names.get(&(package, name)).copied();
                message.fields.extend(field(line, local));
            }
            (Some(_), None) => {}
            (None, _) => {
                let next = Message {
                    name: line,
                    fields: Vec::new(),
                };
                if let Some(done) = current.replace(next) {
                    messages.insert(done.name, done);
                }
            }
        }
    }
    messages.extend(current.map(|done| (done.name, done)));
    messages
}

fn field(
    line: &'static str,
    local: impl Fn(&'static str) -> Option<&'static str>,
) -> Option<Field> {
    let mut words = line.split(' ');
    let (number, name, kind) = (words.next()?, words.next()?, words.next()?);
    let (many, kind) = if let Some(item) = kind.strip_prefix("[]") {
        (Many::List, item)
    } else if let Some(value) = kind.strip_prefix("{}") {
        (Many::Map, value)
    } else {
        (Many::One, kind)
    };
    let mut field = Field {
        number: number.parse().ok()?,
        name,
        holds: holds(kind, local)?,
        many,
        inline: name == "-",
        keeps_zero: false,
        required: false,
        list_type: "",
        list_keys: Vec::new(),
        patch_strategy: "",
        patch_key: "",
    };
    for word in words {
        match word.split_once('=') {
            None if matches!(word, "pointer" | "zero") => field.keeps_zero = true,
            None if word == "required" => field.required = true,
            Some(("list", rule)) => {
                let (kind, keys) = rule.split_once(':').unwrap_or((rule, ""));
                field.list_type = kind;
                field.list_keys = keys.split(',').filter(|key| !key.is_empty()).collect();
            }
            Some(("patch", rule)) => {
                (field.patch_strategy, field.patch_key) =
                    rule.split_once(':').unwrap_or((rule, ""));
            }
            _ => return None,
        }
    }
    Some(field)
}

fn holds(
    word: &'static str,
    local: impl Fn(&'static str) -> Option<&'static str>,
) -> Option<Holds> {
    Some(match word {
        "string" => Holds::Text,
        "bool" => Holds::Flag,
        "int32" => Holds::Int32,
        "int64" => Holds::Int64,
        "double" => Holds::Double,
        "bytes" => Holds::Bytes,
        "time" => Holds::Time,
        "microTime" => Holds::MicroTime,
        "quantity" => Holds::Quantity,
        "intOrString" => Holds::IntOrString,
        "raw" => Holds::Raw,
        "schemaOrList" => Holds::SchemaOrList,
        "schemaOrFlag" => Holds::SchemaOrFlag,
        "schemaOrTexts" => Holds::SchemaOrTexts,
        name if name.contains('.') => Holds::Message(name),
        name => Holds::Message(local(name)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::kinds::Kinds;

    #[test]
    fn every_built_in_kind_has_its_message() {
        for kind in Kinds::builtin().registry().kinds() {
            let message = of_kind(kind);
            let message = message.unwrap_or_else(|| panic!("{}", name_of(kind)));
            assert!(message.json_field("metadata").is_some(), "{}", message.name);
        }
        assert!(message(DELETE_OPTIONS).is_some() && message(JSON_SCHEMA).is_some());
    }

    #[test]
    fn every_line_of_the_table_is_understood() {
        let table = read(TEXT);
        let lines = TEXT.lines().filter(|line| !line.starts_with('#')).count();
        let read: usize = table.values().map(|message| 1 + message.fields.len()).sum();
        assert_eq!(read, lines);
        for message in table.values() {
            for field in &message.fields {
                if let Holds::Message(name) = field.holds {
                    assert!(table.contains_key(name), "{}: {name}", message.name);
                }
                let same = message.fields.iter().filter(|f| f.number == field.number);
                assert!(same.count() == 1 || field.number == 0, "{}", message.name);
            }
        }
    }

    #[test]
    fn json_has_the_fields_of_some_messages_in_place_of_them() {
        let field = |of: &str, name: &str| {
            let field = message(of)?.json_field(name)?;
            Some((field.number, field.holds))
        };
        let secret = "io.k8s.api.core.v1.SecretVolumeSource";
        let volume = "io.k8s.api.core.v1.Volume";
        assert_eq!(field(volume, "secret"), Some((6, Holds::Message(secret))));
        assert_eq!(field(volume, "volumeSource"), None);
        let key = "io.k8s.api.core.v1.SecretKeySelector";
        assert_eq!(field(key, "name"), Some((1, Holds::Text)));
        let container = "io.k8s.api.core.v1.EphemeralContainer";
        assert_eq!(field(container, "image"), Some((2, Holds::Text)));
        let probe = "io.k8s.api.core.v1.Probe";
        assert!(field(probe, "httpGet").is_some() && field(probe, "periodSeconds").is_some());
    }
}
