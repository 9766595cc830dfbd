//! One object, read for its cells: what is absent or of another type reads as nothing.

use std::time::{Duration, SystemTime};

use serde_json::Value;

pub(super) const NONE: &str = "<none>";
pub(super) const UNKNOWN: &str = "<unknown>";

/// An object and the moment at which it is looked at.
pub(super) struct Row<'a> {
    object: &'a Value,
    now: SystemTime,
}

impl<'a> Row<'a> {
    pub(super) fn new(object: &'a Value, now: SystemTime) -> Self {
        Self { object, now }
    }

    pub(super) fn object(&self) -> &'a Value {
        self.object
    }

    /// What is at a JSON pointer.
    pub(super) fn at(&self, path: &str) -> Option<&'a Value> {
        self.object.pointer(path)
    }

    pub(super) fn text(&self, path: &str) -> &'a str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The same, with a word for nothing.
    pub(super) fn text_or(&self, path: &str, absent: &'static str) -> &'a str {
        match self.text(path) {
            "" => absent,
            text => text,
        }
    }

    pub(super) fn number(&self, path: &str) -> i64 {
        self.at(path).and_then(Value::as_i64).unwrap_or_default()
    }

    pub(super) fn flag(&self, path: &str) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or_default()
    }

    pub(super) fn list(&self, path: &str) -> &'a [Value] {
        let list = self.at(path).and_then(Value::as_array);
        list.map(Vec::as_slice).unwrap_or_default()
    }

    /// How many items or fields there are.
    pub(super) fn count(&self, path: &str) -> usize {
        match self.at(path) {
            Some(Value::Object(fields)) => fields.len(),
            Some(Value::Array(items)) => items.len(),
            _ => 0,
        }
    }

    pub(super) fn name(&self) -> &'a str {
        self.text("/metadata/name")
    }

    /// The object's age.
    pub(super) fn age(&self) -> String {
        self.since("/metadata/creationTimestamp")
    }

    /// How long the time at this path is past.
    pub(super) fn since(&self, path: &str) -> String {
        self.past(self.text(path))
            .unwrap_or_else(|| UNKNOWN.to_owned())
    }

    /// How long a time is past; `None` if it is no time.
    pub(super) fn past(&self, time: &str) -> Option<String> {
        let time = humantime::parse_rfc3339(time).ok()?;
        Some(match self.now.duration_since(time) {
            Ok(age) => short(age),
            // Clocks differ a little.
            Err(ahead) if ahead.duration() <= Duration::from_secs(1) => "0s".to_owned(),
            Err(_) => "<invalid>".to_owned(),
        })
    }

    /// Between two times; the present where the second is missing.
    pub(super) fn between(&self, from: &str, to: &str) -> Option<String> {
        let from = humantime::parse_rfc3339(self.text(from)).ok()?;
        let to = humantime::parse_rfc3339(self.text(to)).unwrap_or(self.now);
        Some(short(to.duration_since(from).unwrap_or_default()))
    }

    /// The status of the condition of this type; empty if there is none.
    pub(super) fn condition(&self, kind: &str) -> &'a str {
        let conditions = self.list("/status/conditions");
        let found = conditions.iter().find(|c| text(c, "type") == kind);
        found.map(|c| text(c, "status")).unwrap_or_default()
    }

    /// Names and images of the containers of a pod specification.
    pub(super) fn containers(&self, spec: &str) -> (String, String) {
        let containers = self.list(&format!("{spec}/containers"));
        (
            joined(containers.iter().map(|c| text(c, "name"))),
            joined(containers.iter().map(|c| text(c, "image"))),
        )
    }

    /// A selector, of labels or of `matchLabels` and `matchExpressions`, as text.
    pub(super) fn selector(&self, path: &str) -> String {
        let Some(selector) = self.at(path) else {
            return NONE.to_owned();
        };
        let structured = ["matchLabels", "matchExpressions"]
            .iter()
            .any(|field| selector.get(field).is_some());
        let labels = if structured {
            selector.get("matchLabels").unwrap_or(&Value::Null)
        } else {
            selector
        };
        let mut parts: Vec<String> = labels
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for expression in expressions.into_iter().flatten() {
            let key = text(expression, "key");
            let values = expression.get("values").and_then(Value::as_array);
            let values = joined(values.into_iter().flatten().filter_map(Value::as_str));
            parts.push(match text(expression, "operator") {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.to_owned(),
                _ => format!("!{key}"),
            });
        }
        if parts.is_empty() {
            NONE.to_owned()
        } else {
            parts.join(",")
        }
    }
}

/// A field of a part of an object.
pub(super) fn text<'a>(of: &'a Value, field: &str) -> &'a str {
    of.get(field).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn joined<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().collect::<Vec<_>>().join(",")
}

/// Up to three, and how many more there are.
pub(super) fn few(texts: &[String]) -> String {
    const SHOWN: usize = 3;
    match texts.len() {
        0 => NONE.to_owned(),
        n if n <= SHOWN => texts.join(","),
        n => format!("{} + {} more...", texts[..SHOWN].join(","), n - SHOWN),
    }
}

/// A duration in one or two units, as kubectl writes ages: precise where it is short.
pub(super) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let years = days / 365;
    let two = |major: u64, unit: char, minor: u64, rest: char| {
        if minor == 0 {
            format!("{major}{unit}")
        } else {
            format!("{major}{unit}{minor}{rest}")
        }
    };
    match () {
        () if minutes < 2 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, 'd', hours % 24, 'h'),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, 'y', days % 365, 'd'),
        () => format!("{years}y"),
    }
}
