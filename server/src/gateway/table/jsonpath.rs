//! The part of JSONPath that printer columns use: fields, indices, `[*]`, and filters for
//! equality such as `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// Steps of one path: they come from a definition, and each can multiply the work.
const MAX_STEPS: usize = 32;
/// What one path may find: a cell is one line.
const MAX_FOUND: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    Every,
    Filter { field: Vec<String>, value: String },
}

/// A path that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonPath(Vec<Step>);

impl JsonPath {
    /// `None` if it is more than this reader understands: its cells are empty.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text
            .strip_prefix('{')
            .map_or(Some(text), |t| t.strip_suffix('}'))?;
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if steps.len() == MAX_STEPS {
                return None;
            }
            let step;
            if let Some(after) = rest.strip_prefix('[') {
                (step, rest) = bracket(after)?;
            } else {
                (step, rest) = field(rest.strip_prefix('.')?)?;
            }
            steps.push(step);
        }
        Some(Self(steps))
    }

    /// What it finds.
    pub(super) fn find<'a>(&self, object: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![object];
        for step in &self.0 {
            let mut next = Vec::new();
            for value in found {
                step.follow(value, &mut next);
                next.truncate(MAX_FOUND);
            }
            found = next;
        }
        found
    }
}

impl Step {
    fn follow<'a>(&self, value: &'a Value, found: &mut Vec<&'a Value>) {
        match self {
            Self::Field(name) => found.extend(value.get(name)),
            Self::Index(at) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let at = if *at < 0 {
                    usize::try_from(at.unsigned_abs())
                        .ok()
                        .and_then(|back| items.len().checked_sub(back))
                } else {
                    usize::try_from(*at).ok()
                };
                found.extend(at.and_then(|at| items.get(at)));
            }
            Self::Every => match value {
                Value::Array(items) => found.extend(items.iter().take(MAX_FOUND)),
                Value::Object(fields) => found.extend(fields.values().take(MAX_FOUND)),
                _ => {}
            },
            Self::Filter { field, value: want } => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let fits = |item: &&Value| {
                    let read = field.iter().try_fold(*item, |at, name| at.get(name));
                    match read {
                        Some(Value::String(text)) => text == want,
                        Some(scalar @ (Value::Bool(_) | Value::Number(_))) => {
                            let text = scalar.to_string();
                            text == *want
                        }
                        _ => false,
                    }
                };
                found.extend(items.iter().filter(fits).take(MAX_FOUND));
            }
        }
    }
}

/// A name up to the next dot or bracket; a backslash takes the character after it as it is.
fn field(text: &str) -> Option<(Step, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' => {
                end = at;
                break;
            }
            c => name.push(c),
        }
    }
    let rest = &text[end..];
    match name.as_str() {
        "" => None,
        "*" => Some((Step::Every, rest)),
        _ => Some((Step::Field(name), rest)),
    }
}

/// What stands in brackets, and what follows them.
fn bracket(text: &str) -> Option<(Step, &str)> {
    if let Some(rest) = text.strip_prefix("*]") {
        return Some((Step::Every, rest));
    }
    if let Some(filter) = text.strip_prefix("?(") {
        let (condition, rest) = filter.split_once(")]")?;
        let (path, value) = condition.split_once("==")?;
        let field = path.trim().strip_prefix("@.")?;
        let value = unquoted(value.trim()).unwrap_or(value.trim());
        return Some((
            Step::Filter {
                field: field.split('.').map(str::to_owned).collect(),
                value: value.to_owned(),
            },
            rest,
        ));
    }
    let (inner, rest) = text.split_once(']')?;
    match unquoted(inner) {
        Some(name) => Some((Step::Field(name.to_owned()), rest)),
        None => Some((Step::Index(inner.parse().ok()?), rest)),
    }
}

fn unquoted(text: &str) -> Option<&str> {
    ['"', '\'']
        .iter()
        .find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_printer_columns_find_what_they_mean() {
        let object = json!({
            "spec": {"replicas": 3, "list": ["a", "b"], "hosts": [{"n": "x"}, {"n": "y"}]},
            "metadata": {"annotations": {"a.b/c": "dotted"}},
            "status": {"conditions": [
                {"type": "Other", "status": "False"},
                {"type": "Ready", "status": "True", "n": {"m": 7}},
            ]},
        });
        for (path, expected) in [
            (".spec.replicas", json!([3])),
            ("{.spec.replicas}", json!([3])),
            ("$.spec.replicas", json!([3])),
            (".spec.list[1]", json!(["b"])),
            (".spec.list[-1]", json!(["b"])),
            (".spec.list[-3]", json!([])),
            (".spec.list[*]", json!(["a", "b"])),
            (".spec.hosts[*].n", json!(["x", "y"])),
            (".metadata.annotations.a\\.b/c", json!(["dotted"])),
            (".metadata.annotations['a.b/c']", json!(["dotted"])),
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                json!(["True"]),
            ),
            (
                ".status.conditions[?(@.type == 'Ready')].status",
                json!(["True"]),
            ),
            (".status.conditions[?(@.n.m==7)].type", json!(["Ready"])),
            (".status.nothing[*].x", json!([])),
        ] {
            let path_read = JsonPath::parse(path).unwrap();
            assert_eq!(json!(path_read.find(&object)), expected, "{path}");
        }
    }

    #[test]
    fn what_is_not_understood_is_told() {
        for path in [
            "spec",
            ".",
            "..a",
            ".a[",
            ".a[x]",
            ".a[?(@.b>1)]",
            ".a[1:2]",
            "{.a",
            ".a\\",
        ] {
            assert_eq!(JsonPath::parse(path), None, "{path}");
        }
        assert_eq!(JsonPath::parse(&".a".repeat(33)), None);
        let wide = json!(vec![vec![vec![vec![0; 20]; 20]; 20]; 2]);
        let every = JsonPath::parse("[*][*][*][*]").unwrap();
        assert_eq!(every.find(&wide).len(), MAX_FOUND);
    }
}
