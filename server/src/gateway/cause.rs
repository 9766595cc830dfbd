//! What is wrong with a field of an object: one cause of a 422 Status.

use serde_json::{Value, json};

/// The kinds of fault that Kubernetes tells apart, by the `reason` of a StatusCause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The field must be given.
    Required,
    /// Its value is ill-formed, or contradicts another.
    Invalid,
    /// It must be unique, and is there twice.
    Duplicate,
    /// It is none of the values that there are.
    NotSupported,
    /// It must not be given here.
    Forbidden,
    /// It is longer than allowed.
    TooLong,
    /// It is of another JSON type.
    TypeInvalid,
}

impl Fault {
    /// The `reason` on the wire.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Duplicate => "Duplicate value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
        }
    }
}

/// One fault of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// What kind of fault.
    pub(crate) fault: Fault,
    /// The field, such as `metadata.labels`.
    pub(crate) field: String,
    /// The fault in words, without the field.
    pub(crate) message: String,
}

impl Cause {
    /// A fault of `value` at `field`; `problem` says what is wrong or what would be right.
    pub(crate) fn of_value(
        fault: Fault,
        field: impl Into<String>,
        value: &Value,
        problem: &str,
    ) -> Self {
        let mut shown = value.to_string();
        if shown.len() > MAX_SHOWN_BYTES {
            let end = (0..=MAX_SHOWN_BYTES)
                .rev()
                .find(|end| shown.is_char_boundary(*end));
            shown.truncate(end.unwrap_or(0));
            shown.push('…');
        }
        Self {
            fault,
            field: field.into(),
            message: join(&format!("{}: {shown}", fault.words()), problem),
        }
    }

    /// A fault that has no value to show.
    pub(crate) fn new(fault: Fault, field: impl Into<String>, problem: &str) -> Self {
        Self {
            fault,
            field: field.into(),
            message: join(fault.words(), problem),
        }
    }

    /// A field that must be given.
    pub(crate) fn required(field: impl Into<String>, problem: &str) -> Self {
        Self::new(Fault::Required, field, problem)
    }

    /// An ill-formed value.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, problem: &str) -> Self {
        Self::of_value(Fault::Invalid, field, value, problem)
    }

    /// As an entry of `details.causes`.
    pub(crate) fn to_json(&self) -> Value {
        json!({"reason": self.fault.reason(), "message": self.message, "field": self.field})
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// The message of a Status that has these causes, after `KIND "NAME" is invalid: `.
pub(crate) fn summary(causes: &[Cause]) -> String {
    match causes {
        [one] => one.to_string(),
        many => {
            let all: Vec<String> = many.iter().map(ToString::to_string).collect();
            format!("[{}]", all.join(", "))
        }
    }
}

/// So many are looked for and told: one request can have a million faults, whose causes take
/// gigabytes.
pub(crate) const MAX_CAUSES: usize = 100;

/// A value is shown so far: messages are for people, and the value can be a megabyte.
const MAX_SHOWN_BYTES: usize = 256;

fn join(head: &str, problem: &str) -> String {
    if problem.is_empty() {
        head.to_owned()
    } else {
        format!("{head}: {problem}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_reads_as_kubernetes_writes_it() {
        let cause = Cause::invalid("metadata.name", &json!("A"), "must be lower case");
        assert_eq!(
            cause.to_string(),
            r#"metadata.name: Invalid value: "A": must be lower case"#
        );
        assert_eq!(
            cause.to_json(),
            json!({
                "reason": "FieldValueInvalid",
                "message": r#"Invalid value: "A": must be lower case"#,
                "field": "metadata.name",
            })
        );
        let missing = Cause::required("spec.group", "");
        assert_eq!(
            summary(&[cause, missing]),
            r#"[metadata.name: Invalid value: "A": must be lower case, spec.group: Required value]"#
        );
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let cause = Cause::invalid("x", &json!("é".repeat(1000)), "too much");
        assert!(cause.message.len() < 300);
        assert!(cause.message.ends_with("…: too much"));
    }
}
