//! Label selectors as query parameters have them: `app=web,tier!=db,zone in (a, b),!canary`.

#[cfg(test)]
use serde_json::Value;

use super::names;
use crate::{
    limits::{MAX_REQUIREMENT_VALUES, MAX_SELECTOR_REQUIREMENTS},
    selector::{LabelCondition, LabelRequirement},
};

/// Why a selector was refused: 400 BadRequest with this message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SelectorError {
    /// It does not follow the grammar.
    #[error("unable to parse the selector: {0}")]
    Grammar(String),
    /// A key or value that no label can have.
    #[error("unable to parse the selector: {part} {text:?} {rule}")]
    Word {
        /// `key` or `value`.
        part: &'static str,
        /// As written.
        text: String,
        /// What it must be.
        rule: &'static str,
    },
    /// A field that objects of this kind are not selected by.
    #[error("field label not supported: {0}")]
    Field(String),
    /// More conditions than one selector may have.
    #[error("the selector has more than {limit} {what}")]
    TooLong {
        /// `requirements` or `values`.
        what: &'static str,
        /// The most there may be.
        limit: usize,
    },
}

/// Reads a label selector; empty text selects everything.
///
/// # Errors
/// [`SelectorError`]. `key>1` and `key<1`, which only node affinity uses, are refused.
pub(crate) fn parse(text: &str) -> Result<Vec<LabelRequirement>, SelectorError> {
    let mut parser = Parser {
        tokens: tokens(text),
        at: 0,
    };
    let mut requirements = Vec::new();
    if parser.peek() == &Token::End {
        return Ok(requirements);
    }
    loop {
        if requirements.len() == MAX_SELECTOR_REQUIREMENTS {
            return Err(SelectorError::TooLong {
                what: "requirements",
                limit: MAX_SELECTOR_REQUIREMENTS,
            });
        }
        requirements.push(parser.requirement()?);
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Comma => {}
            other => return Err(unexpected(&other, "',' or the end")),
        }
    }
}

/// An object's labels fulfil all of the requirements.
#[cfg(test)]
fn matches(requirements: &[LabelRequirement], object: &Value) -> bool {
    let labels = object.pointer("/metadata/labels");
    requirements.iter().all(|requirement| {
        let label = labels.and_then(|labels| labels.get(&requirement.key));
        requirement
            .condition
            .holds_for(label.and_then(Value::as_str))
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Not,
    Equal,
    NotEqual,
    Greater,
    Less,
    Open,
    Close,
    Comma,
    End,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let token = match c {
            c if c.is_ascii_whitespace() => continue,
            '(' => Token::Open,
            ')' => Token::Close,
            ',' => Token::Comma,
            '>' => Token::Greater,
            '<' => Token::Less,
            '!' if chars.next_if_eq(&'=').is_some() => Token::NotEqual,
            '!' => Token::Not,
            '=' => {
                chars.next_if_eq(&'=');
                Token::Equal
            }
            first => {
                let mut word = String::from(first);
                while let Some(c) = chars.next_if(|c| {
                    !c.is_ascii_whitespace()
                        && !matches!(c, '(' | ')' | ',' | '>' | '<' | '!' | '=')
                }) {
                    word.push(c);
                }
                Token::Word(word)
            }
        };
        tokens.push(token);
    }
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn requirement(&mut self) -> Result<LabelRequirement, SelectorError> {
        if self.peek() == &Token::Not {
            self.next();
            let key = self.key()?;
            let condition = LabelCondition::NotExists;
            return Ok(LabelRequirement { key, condition });
        }
        let key = self.key()?;
        let condition = match self.peek().clone() {
            Token::Equal => {
                self.next();
                LabelCondition::In(vec![self.value()?])
            }
            Token::NotEqual => {
                self.next();
                LabelCondition::NotIn(vec![self.value()?])
            }
            Token::Word(word) if word == "in" => {
                self.next();
                LabelCondition::In(self.values()?)
            }
            Token::Word(word) if word == "notin" => {
                self.next();
                LabelCondition::NotIn(self.values()?)
            }
            Token::Comma | Token::End => LabelCondition::Exists,
            other => return Err(unexpected(&other, "an operator, ',' or the end")),
        };
        Ok(LabelRequirement { key, condition })
    }

    fn key(&mut self) -> Result<String, SelectorError> {
        match self.next() {
            Token::Word(key) => match names::qualified(&key) {
                Ok(()) => Ok(key),
                Err(rule) => Err(SelectorError::Word {
                    part: "key",
                    text: key,
                    rule,
                }),
            },
            other => Err(unexpected(&other, "a key")),
        }
    }

    /// After an operator: a word, or nothing, which is the empty value.
    fn value(&mut self) -> Result<String, SelectorError> {
        let value = match self.peek().clone() {
            Token::Word(word) => {
                self.next();
                word
            }
            _ => String::new(),
        };
        names::label_value(&value).map_or_else(
            |rule| {
                Err(SelectorError::Word {
                    part: "value",
                    text: value.clone(),
                    rule,
                })
            },
            |()| Ok(value.clone()),
        )
    }

    /// `(a, b)`; between two commas stands the empty value.
    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        match self.next() {
            Token::Open => {}
            other => return Err(unexpected(&other, "'('")),
        }
        if self.peek() == &Token::Close {
            let problem = "'in' and 'notin' need at least one value";
            return Err(SelectorError::Grammar(problem.to_owned()));
        }
        let mut values = Vec::new();
        loop {
            if values.len() == MAX_REQUIREMENT_VALUES {
                return Err(SelectorError::TooLong {
                    what: "values",
                    limit: MAX_REQUIREMENT_VALUES,
                });
            }
            values.push(self.value()?);
            match self.next() {
                Token::Comma => {}
                Token::Close => break,
                other => return Err(unexpected(&other, "',' or ')'")),
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

fn unexpected(found: &Token, expected: &str) -> SelectorError {
    let found = match found {
        Token::Word(word) => format!("{word:?}"),
        Token::Not => "'!'".into(),
        Token::Equal => "'='".into(),
        Token::NotEqual => "'!='".into(),
        Token::Greater => "'>'".into(),
        Token::Less => "'<'".into(),
        Token::Open => "'('".into(),
        Token::Close => "')'".into(),
        Token::Comma => "','".into(),
        Token::End => "the end".into(),
    };
    SelectorError::Grammar(format!("found {found}, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selector: &str, labels: Value) -> bool {
        matches(
            &parse(selector).unwrap(),
            &json!({"metadata": {"labels": labels}}),
        )
    }

    #[test]
    fn every_form_selects_what_it_says() {
        let web = || json!({"app": "web", "zone": "a", "empty": "", "in": "x"});
        for (selector, expected) in [
            ("", true),
            ("  ", true),
            ("app", true),
            ("!app", false),
            ("! canary", true),
            ("app=web", true),
            ("app==web", true),
            (" app = web , zone = a ", true),
            ("app!=web", false),
            ("tier!=db", true),
            ("tier=", false),
            ("empty=", true),
            ("empty!=", false),
            ("zone in (a,b)", true),
            ("zone in (b, c)", false),
            ("zone notin (b,c)", true),
            ("tier notin (db)", true),
            ("tier in (db)", false),
            ("empty in (,x)", true),
            ("zone in (a,),app", true),
            ("in in (x)", true),
            ("in", true),
            ("app=web,zone=b", false),
            ("example.com/part=x", false),
        ] {
            assert_eq!(selects(selector, web()), expected, "{selector:?}");
        }
        assert!(matches(
            &parse("!a,b!=c").unwrap(),
            &json!({"metadata": {}})
        ));
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for selector in [
            "a,",
            ",a",
            "a,,b",
            "=",
            "!",
            "a in",
            "a in b",
            "a in (",
            "a in (b",
            "a in ()",
            "a b",
            "a=b=c",
            "(a)",
            "a in (b c)",
            "a>1",
            "a<1",
            "!a=b",
            "-a",
            "a/",
            "/a",
            "a/b/c",
            "A.B/c/d",
            "a=-b",
            "a=b-",
            "a=ü",
            "ü",
            "a=(b)",
            "!!a",
        ] {
            assert!(parse(selector).is_err(), "{selector:?}");
        }
        assert!(parse(&format!("a={}", "x".repeat(64))).is_err());
        assert!(parse(&vec!["a"; 65].join(",")).is_err());
        assert!(parse(&format!("a in ({})", vec!["x"; 257].join(","))).is_err());
    }

    #[test]
    fn values_are_sorted_so_that_equal_selectors_are_equal() {
        assert_eq!(parse("a in (z,b,z)").unwrap(), parse("a in (b,z)").unwrap());
    }
}
