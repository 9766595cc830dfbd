//! Label and field selectors as Kubernetes writes them.

use std::sync::Arc;

use super::{
    path::{Part, Target},
    status::{Failed, Failure},
};
use crate::{
    limits::{
        MAX_LABEL_NAME_BYTES, MAX_LABEL_PREFIX_BYTES, MAX_NAME_BYTES, MAX_REQUIREMENT_VALUES,
        MAX_SELECTOR_REQUIREMENTS,
    },
    selector::{
        Field, FieldPath, FieldRequirement, LabelCondition, LabelRequirement, SelectableFields,
        Selector,
    },
};

/// The longest value of a label in Kubernetes.
pub(crate) const MAX_VALUE_BYTES: usize = 63;

/// What a list or watch of a target covers.
pub(crate) fn selector(
    target: &Target,
    label_selector: &str,
    field_selector: &str,
    known: &SelectableFields,
) -> Result<Arc<Selector>, Failed> {
    let kind = &target.kind;
    let labels = labels(label_selector).map_err(|problem| {
        let message = format!("unable to parse requirement: {problem}");
        Failure::bad_request(message)
    })?;
    let declared = known.of(&kind.collection);
    let name = match &target.object {
        Part::Collection => None,
        Part::Object(name) | Part::Status(name) => Some(name.as_str()),
    };
    let fields = fields(field_selector, &declared, kind.qualified())?;
    let other_name = fields.iter().find(|requirement| {
        requirement.field == Field::Name
            && name.is_some_and(|name| (requirement.value == name) == requirement.not_equal)
    });
    if other_name.is_some() {
        let message = "fieldSelector metadata.name doesn't match requested name";
        return Err(Failure::bad_request(message));
    }
    if labels.len() + fields.len() > MAX_SELECTOR_REQUIREMENTS {
        let message =
            format!("the selectors have more than {MAX_SELECTOR_REQUIREMENTS} requirements");
        return Err(Failure::bad_request(message));
    }
    let namespace = Some(target.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    let collection = kind.collection.clone();
    Ok(Arc::new(Selector::new(
        collection, namespace, name, "", labels, fields, declared,
    )))
}

fn fields(
    text: &str,
    declared: &Arc<[FieldPath]>,
    of: &str,
) -> Result<Vec<FieldRequirement>, Failed> {
    let mut fields = Vec::new();
    for term in split_terms(text).map_err(Failure::bad_request)? {
        let FieldTerm {
            path,
            mut not_equal,
            mut value,
        } = term;
        let field = match path.as_str() {
            "metadata.name" => Field::Name,
            "metadata.namespace" => Field::Namespace,
            _ => match declared.iter().position(|known| known.as_str() == path) {
                Some(place) => Field::Declared(place, path.clone()),
                None => {
                    let message = format!("field label not supported: {path} (of {of})");
                    return Err(Failure::bad_request(message));
                }
            },
        };
        if value.len() > MAX_NAME_BYTES {
            let message = format!("the value for {path} is longer than {MAX_NAME_BYTES} bytes");
            return Err(Failure::bad_request(message));
        }
        // A flag that is not set is false.
        if value == "false" {
            "true".clone_into(&mut value);
            not_equal = !not_equal;
        }
        fields.push(FieldRequirement {
            field,
            not_equal,
            value,
        });
    }
    Ok(fields)
}

struct FieldTerm {
    path: String,
    not_equal: bool,
    value: String,
}

/// `a=b,c!=d`, with `\\`, `\,` and `\=` for what would end a value.
fn split_terms(text: &str) -> Result<Vec<FieldTerm>, String> {
    let mut terms = Vec::new();
    let mut term = String::new();
    let mut escaped = false;
    let mut finish = |term: &mut String| {
        let term = std::mem::take(term);
        match term.is_empty() {
            true => Ok(()),
            false => field_term(&term).map(|term| terms.push(term)),
        }
    };
    for c in text.chars() {
        match c {
            ',' if !escaped => finish(&mut term)?,
            _ => term.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    finish(&mut term)?;
    Ok(terms)
}

fn field_term(term: &str) -> Result<FieldTerm, String> {
    let invalid = || format!("invalid selector: '{term}'; can't understand '{term}'");
    let at = term.find(['=', '!']).ok_or_else(invalid)?;
    let (path, rest) = term.split_at(at);
    let (not_equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (true, value)
    } else if let Some(value) = rest.strip_prefix("==") {
        (false, value)
    } else {
        (false, rest.strip_prefix('=').ok_or_else(invalid)?)
    };
    let mut plain = String::new();
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                _ => return Err(format!("invalid selector: '{term}'; bad escape")),
            },
            '=' => return Err(invalid()),
            c => plain.push(c),
        }
    }
    Ok(FieldTerm {
        path: path.trim().to_owned(),
        not_equal,
        value: plain,
    })
}

/// A part of a label selector.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Comma,
    Open,
    Close,
    Not,
    Equals,
    NotEquals,
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let symbols = [
            ("!=", Token::NotEquals),
            ("==", Token::Equals),
            ("=", Token::Equals),
            ("!", Token::Not),
            (",", Token::Comma),
            ("(", Token::Open),
            (")", Token::Close),
        ];
        let symbol = symbols
            .into_iter()
            .find_map(|(sign, token)| Some((rest.strip_prefix(sign)?, token)));
        if let Some((after, token)) = symbol {
            tokens.push(token);
            rest = after.trim_start();
            continue;
        }
        if rest.starts_with(['<', '>']) {
            return Err("'<' and '>' are not supported for lists and watches".to_owned());
        }
        let end = rest
            .find(|c: char| c.is_whitespace() || "!=,()<>".contains(c))
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        tokens.push(Token::Word(word));
        rest = after.trim_start();
    }
    Ok(tokens)
}

/// The whole grammar: `a=b`, `a==b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`.
fn labels(text: &str) -> Result<Vec<LabelRequirement>, String> {
    let tokens = tokens(text)?;
    let mut rest = tokens.as_slice();
    let mut requirements = Vec::new();
    while !rest.is_empty() {
        let (requirement, after) = requirement(rest)?;
        requirements.push(requirement);
        rest = match after {
            [] => after,
            // What follows a comma must be a requirement.
            [Token::Comma] => return Err("found '', expected: identifier after ','".to_owned()),
            [Token::Comma, after @ ..] => after,
            _ => return Err(format!("found '{}', expected: ',' or end", shown(after))),
        };
    }
    Ok(requirements)
}

fn requirement<'a, 't>(
    tokens: &'t [Token<'a>],
) -> Result<(LabelRequirement, &'t [Token<'a>]), String> {
    let (condition, key, after) = match tokens {
        [Token::Not, Token::Word(key), after @ ..] => (LabelCondition::NotExists, *key, after),
        [Token::Word(key), Token::Equals, after @ ..] => {
            let (value, after) = one_value(after);
            (LabelCondition::In(vec![value]), *key, after)
        }
        [Token::Word(key), Token::NotEquals, after @ ..] => {
            let (value, after) = one_value(after);
            (LabelCondition::NotIn(vec![value]), *key, after)
        }
        [Token::Word(key), Token::Word("in"), after @ ..] => {
            let (values, after) = values(after)?;
            (LabelCondition::In(values), *key, after)
        }
        [Token::Word(key), Token::Word("notin"), after @ ..] => {
            let (values, after) = values(after)?;
            (LabelCondition::NotIn(values), *key, after)
        }
        [Token::Word(key)] => (LabelCondition::Exists, *key, &tokens[1..]),
        [Token::Word(key), Token::Comma, ..] => (LabelCondition::Exists, *key, &tokens[1..]),
        [Token::Word(_), after @ ..] => {
            let found = shown(after);
            return Err(format!("found '{found}', expected: in, notin, =, ==, !="));
        }
        _ => {
            let found = shown(tokens);
            return Err(format!("found '{found}', expected: !, identifier, or end"));
        }
    };
    check_key(key)?;
    if let LabelCondition::In(values) | LabelCondition::NotIn(values) = &condition {
        values.iter().try_for_each(|value| check_value(value))?;
    }
    let key = key.to_owned();
    Ok((LabelRequirement { key, condition }, after))
}

/// The value after `=`; nothing is the empty one.
fn one_value<'a, 't>(tokens: &'t [Token<'a>]) -> (String, &'t [Token<'a>]) {
    match tokens {
        [Token::Word(value), after @ ..] => ((*value).to_owned(), after),
        _ => (String::new(), tokens),
    }
}

fn values<'a, 't>(tokens: &'t [Token<'a>]) -> Result<(Vec<String>, &'t [Token<'a>]), String> {
    let [Token::Open, rest @ ..] = tokens else {
        return Err(format!("found '{}', expected: '('", shown(tokens)));
    };
    let (mut values, mut rest) = (Vec::new(), rest);
    loop {
        let (value, after) = one_value(rest);
        values.push(value);
        if values.len() > MAX_REQUIREMENT_VALUES {
            return Err(format!("more than {MAX_REQUIREMENT_VALUES} values"));
        }
        match after {
            [Token::Comma, after @ ..] => rest = after,
            [Token::Close, after @ ..] => return Ok((values, after)),
            _ => return Err(format!("found '{}', expected: ',' or ')'", shown(after))),
        }
    }
}

fn shown(tokens: &[Token<'_>]) -> String {
    match tokens.first() {
        None => String::new(),
        Some(Token::Word(word)) => word.chars().take(80).collect(),
        Some(Token::Comma) => ",".to_owned(),
        Some(Token::Open) => "(".to_owned(),
        Some(Token::Close) => ")".to_owned(),
        Some(Token::Not) => "!".to_owned(),
        Some(Token::Equals) => "=".to_owned(),
        Some(Token::NotEquals) => "!=".to_owned(),
    }
}

/// Kubernetes' rule for the key of a label or annotation.
pub(crate) fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let shown: String = key.chars().take(80).collect();
    let prefix_fits =
        prefix.is_none_or(|prefix| is_subdomain(prefix) && prefix.len() <= MAX_LABEL_PREFIX_BYTES);
    if name.is_empty() || name.len() > MAX_LABEL_NAME_BYTES || !is_plain(name) || !prefix_fits {
        return Err(format!(
            "{shown:?}: a name is at most {MAX_LABEL_NAME_BYTES} of A-Z, a-z, 0-9, '-', '_' and \
             '.', begins and ends with a letter or digit, and may have a DNS name and '/' before it"
        ));
    }
    Ok(())
}

/// Kubernetes' rule for the value of a label.
pub(crate) fn check_value(value: &str) -> Result<(), String> {
    if value.len() > MAX_VALUE_BYTES || !(value.is_empty() || is_plain(value)) {
        let shown: String = value.chars().take(80).collect();
        return Err(format!(
            "{shown:?}: a label's value is at most {MAX_VALUE_BYTES} of A-Z, a-z, 0-9, '-', '_' \
             and '.', and begins and ends with a letter or digit"
        ));
    }
    Ok(())
}

fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter()
        .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// A DNS name: labels of a-z, 0-9 and '-', with dots between.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.split('.').all(|label| {
        let bytes = label.as_bytes();
        let fits = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|end| end.is_some_and(|b| fits(b)))
            && bytes.iter().all(|b| fits(b) || *b == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<(String, LabelCondition)> {
        let labels = labels(text).unwrap();
        labels.into_iter().map(|l| (l.key, l.condition)).collect()
    }

    #[test]
    fn the_whole_grammar_of_label_selectors_is_read() {
        let owned = |values: &[&str]| values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>();
        let is = |values: &[&str]| LabelCondition::In(owned(values));
        let is_not = |values: &[&str]| LabelCondition::NotIn(owned(values));
        for (text, key, condition) in [
            ("a=b", "a", is(&["b"])),
            (" a == b ", "a", is(&["b"])),
            ("a!=b", "a", is_not(&["b"])),
            ("a=", "a", is(&[""])),
            ("a in (b)", "a", is(&["b"])),
            ("a in ( b , c,)", "a", is(&["b", "c", ""])),
            ("x.io/a notin (b,c)", "x.io/a", is_not(&["b", "c"])),
            ("a", "a", LabelCondition::Exists),
            ("!a", "a", LabelCondition::NotExists),
            ("! a", "a", LabelCondition::NotExists),
            ("in", "in", LabelCondition::Exists),
        ] {
            assert_eq!(parsed(text), vec![(key.to_owned(), condition)], "{text}");
        }
        assert_eq!(parsed("a=b,c notin (d),!e,f").len(), 4);
        assert!(parsed("").is_empty() && parsed("  ").is_empty());
    }

    #[test]
    fn what_is_no_label_selector_is_refused() {
        for text in [
            ",",
            "a,",
            ",a",
            "a,,b",
            "a b",
            "a in",
            "a in b",
            "a in (b",
            "a in (b c)",
            "=b",
            "!",
            "!a=b",
            "a=b c",
            "a=b=c",
            "a>1",
            "a<1",
            "-a=b",
            "a=-b",
            "a/b/c",
            "A/b=c",
            "a in (b))",
            "(a)",
            "é=b",
            "a=é",
            "!!a",
        ] {
            assert!(labels(text).is_err(), "{text}");
        }
        let long = format!("a in ({})", vec!["b"; 300].join(","));
        assert!(labels(&long).is_err());
    }

    #[test]
    fn field_selectors_are_read_with_their_escapes() {
        let terms = split_terms(r"a=b,c.d!=e,f==g\,h\=i\\,").unwrap();
        let terms: Vec<_> = terms
            .iter()
            .map(|t| (t.path.as_str(), t.not_equal, t.value.as_str()))
            .collect();
        let expected = [
            ("a", false, "b"),
            ("c.d", true, "e"),
            ("f", false, r"g,h=i\"),
        ];
        assert_eq!(terms, expected);
        for text in ["a", "a!b", "a=b=c", r"a=\x", "!a"] {
            assert!(split_terms(text).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_selector_is_too_odd_to_be_read(text in "[a-c/.!=,() \\\\<>é-]{0,30}") {
            let _ = labels(&text);
            let _ = split_terms(&text);
        }
    }
}
