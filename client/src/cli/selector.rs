//! Label and field selectors in Kubernetes' syntax, as `-l` and `--field-selector` take them.

use std::{iter::Peekable, str::CharIndices};

use listwatch::v1::{FieldRequirement, LabelOperator, LabelRequirement};

/// Reads `a=b,c!=d,e in (x,y),f notin (z),g,!h`.
///
/// Values may stand in double quotes, since Listwatch's labels hold any text, also such
/// with commas and spaces.
pub(super) fn parse_labels(text: &str) -> Result<Vec<LabelRequirement>, String> {
    let mut scanner = Scanner::new(text);
    let mut requirements = Vec::new();
    if scanner.at_end() {
        return Ok(requirements);
    }
    loop {
        requirements.push(scanner.requirement()?);
        if scanner.at_end() {
            return Ok(requirements);
        }
        scanner.expect(',')?;
    }
}

/// Reads `spec.nodeName=a,status.phase!=Running`. As in Kubernetes, `\,`, `\=` and `\\`
/// stand for the characters themselves.
pub(super) fn parse_fields(text: &str) -> Result<Vec<FieldRequirement>, String> {
    split_fields(text)?
        .into_iter()
        .filter(|term| !term.is_empty())
        .map(field)
        .collect()
}

/// One term of a field selector, as characters that say whether they were escaped.
type Term = Vec<(char, bool)>;

fn split_fields(text: &str) -> Result<Vec<Term>, String> {
    let mut terms = vec![Term::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => push(&mut terms, (escaped, true)),
                Some(other) => {
                    return Err(format!(
                        "\\{other} is no escape: only \\\\, \\, and \\= are"
                    ));
                }
                None => return Err("ends with a lone \\".into()),
            },
            ',' => terms.push(Term::new()),
            c => push(&mut terms, (c, false)),
        }
    }
    Ok(terms)
}

fn push(terms: &mut [Term], c: (char, bool)) {
    if let Some(term) = terms.last_mut() {
        term.push(c);
    }
}

fn field(term: Term) -> Result<FieldRequirement, String> {
    let text = |part: &[(char, bool)]| part.iter().map(|(c, _)| c).collect::<String>();
    let Some(equals) = term.iter().position(|c| *c == ('=', false)) else {
        return Err(format!("{:?} has no =, == or !=", text(&term)));
    };
    let not_equal = equals > 0 && term[equals - 1] == ('!', false);
    let path = text(&term[..if not_equal { equals - 1 } else { equals }]);
    let double = !not_equal && term.get(equals + 1) == Some(&('=', false));
    let value = text(&term[equals + if double { 2 } else { 1 }..]);
    let path = path.trim();
    if path.is_empty() {
        return Err(format!("{:?} names no field", text(&term)));
    }
    Ok(FieldRequirement {
        path: path.into(),
        not_equal,
        value,
    })
}

struct Scanner<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            chars: text.char_indices().peekable(),
        }
    }

    fn requirement(&mut self) -> Result<LabelRequirement, String> {
        if self.take('!') {
            let key = self.key()?;
            return Ok(requirement(key, LabelOperator::NotExists, vec![]));
        }
        let key = self.key()?;
        self.skip_space();
        let (operator, values) = match self.chars.peek().map(|(_, c)| *c) {
            None | Some(',') => (LabelOperator::Exists, vec![]),
            Some('=') => {
                self.chars.next();
                self.take_adjacent('=');
                (LabelOperator::In, vec![self.value()?])
            }
            Some('!') => {
                self.chars.next();
                if !self.take_adjacent('=') {
                    return Err(format!("after {key:?}: ! stands before a key, != after it"));
                }
                (LabelOperator::NotIn, vec![self.value()?])
            }
            Some('<' | '>') => {
                return Err(format!("after {key:?}: < and > are not supported"));
            }
            Some(_) => match self.word() {
                "in" => (LabelOperator::In, self.set()?),
                "notin" => (LabelOperator::NotIn, self.set()?),
                other => {
                    return Err(format!(
                        "after {key:?}: expected =, ==, !=, in, notin or a comma, found {other:?}"
                    ));
                }
            },
        };
        Ok(requirement(key, operator, values))
    }

    fn key(&mut self) -> Result<String, String> {
        self.skip_space();
        let at = self.position();
        let key = self.word();
        if key.is_empty() {
            return Err(format!("no label key at {:?}", &self.text[at..]));
        }
        Ok(key.into())
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        self.expect('(')?;
        let mut values = vec![self.value()?];
        while self.take(',') {
            values.push(self.value()?);
        }
        self.expect(')')?;
        Ok(values)
    }

    fn value(&mut self) -> Result<String, String> {
        self.skip_space();
        if !self.take('"') {
            return Ok(self.word().into());
        }
        let mut value = String::new();
        while let Some((_, c)) = self.chars.next() {
            match c {
                '"' => return Ok(value),
                '\\' => value.extend(self.chars.next().map(|(_, c)| c)),
                c => value.push(c),
            }
        }
        Err("a quoted value does not end".into())
    }

    /// Everything up to a separator; may be empty.
    fn word(&mut self) -> &'a str {
        let start = self.position();
        let ends = |c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | '=' | '!' | '"');
        while self
            .chars
            .next_if(|(_, c)| !ends(*c) && !matches!(c, '<' | '>'))
            .is_some()
        {}
        &self.text[start..self.position()]
    }

    fn position(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn skip_space(&mut self) {
        while self.chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
    }

    fn at_end(&mut self) -> bool {
        self.skip_space();
        self.chars.peek().is_none()
    }

    fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        self.take_adjacent(wanted)
    }

    fn take_adjacent(&mut self, wanted: char) -> bool {
        self.chars.next_if(|(_, c)| *c == wanted).is_some()
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.take(wanted) {
            return Ok(());
        }
        match self.position() {
            at if at == self.text.len() => Err(format!("expected {wanted:?} at the end")),
            at => Err(format!("expected {wanted:?} at {:?}", &self.text[at..])),
        }
    }
}

fn requirement(key: String, operator: LabelOperator, values: Vec<String>) -> LabelRequirement {
    LabelRequirement {
        key,
        operator: operator as i32,
        values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<(String, LabelOperator, Vec<String>)> {
        let parsed = parse_labels(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        parsed
            .into_iter()
            .map(|r| (r.key.clone(), r.operator(), r.values))
            .collect()
    }

    fn one(
        key: &str,
        operator: LabelOperator,
        values: &[&str],
    ) -> (String, LabelOperator, Vec<String>) {
        (
            key.into(),
            operator,
            values.iter().map(|v| v.to_string()).collect(),
        )
    }

    #[test]
    fn label_selectors_are_read_as_kubernetes_reads_them() {
        use LabelOperator::{Exists, In, NotExists, NotIn};
        assert_eq!(
            labels("a=b,c!=d,e in (x,y),f notin (z),g,!h"),
            [
                one("a", In, &["b"]),
                one("c", NotIn, &["d"]),
                one("e", In, &["x", "y"]),
                one("f", NotIn, &["z"]),
                one("g", Exists, &[]),
                one("h", NotExists, &[]),
            ]
        );
        assert_eq!(labels(""), []);
        assert_eq!(labels("a==b"), [one("a", In, &["b"])]);
        assert_eq!(
            labels(" a = b , ! c "),
            [one("a", In, &["b"]), one("c", NotExists, &[])]
        );
        assert_eq!(labels("a=,b"), [one("a", In, &[""]), one("b", Exists, &[])]);
        assert_eq!(
            labels("a in(x),b"),
            [one("a", In, &["x"]), one("b", Exists, &[])]
        );
        assert_eq!(labels("a in (x,)"), [one("a", In, &["x", ""])]);
        assert_eq!(labels("in in (in)"), [one("in", In, &["in"])]);
        assert_eq!(
            labels("app.kubernetes.io/name=redis"),
            [one("app.kubernetes.io/name", In, &["redis"])]
        );
        assert_eq!(labels(r#"a="x, \"y\"""#), [one("a", In, &[r#"x, "y""#])]);
    }

    #[test]
    fn a_bad_label_selector_is_refused_with_the_reason() {
        for (text, reason) in [
            (",", "no label key"),
            ("a,", "no label key"),
            ("=b", "no label key"),
            ("a b", "expected =, =="),
            ("a in x", "expected '('"),
            ("a in (x", "expected ')' at the end"),
            ("a=b c=d", "expected ','"),
            ("a!b", "!= after it"),
            ("a>1", "not supported"),
            ("a=b=c", "expected ','"),
            ("a=\"b", "does not end"),
        ] {
            let why = parse_labels(text).unwrap_err();
            assert!(why.contains(reason), "{text}: {why}");
        }
    }

    #[test]
    fn field_selectors_know_their_escapes() {
        let fields = parse_fields(r"spec.nodeName=n1,status.phase!=Running,a==b\,c\=d,e=").unwrap();
        let found: Vec<_> = fields
            .iter()
            .map(|f| (f.path.as_str(), f.not_equal, f.value.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                ("spec.nodeName", false, "n1"),
                ("status.phase", true, "Running"),
                ("a", false, "b,c=d"),
                ("e", false, ""),
            ]
        );
        assert_eq!(parse_fields("").unwrap(), []);
        for bad in ["a", "=b", "!=b", r"a=\n", r"a=b\"] {
            assert!(parse_fields(bad).is_err(), "{bad}");
        }
    }
}
