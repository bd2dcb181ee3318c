//! The grammar of every `.env` of the product: Docker Compose's, to the letter.
//!
//! Reading has two steps. [`Document::parse`] takes the text apart and keeps where every piece stands, so that an editor can
//! change one value and leave each other byte alone. [`Document::evaluate`] then gives the variables, with the `$`
//! references looked up in the process environment first and in the file above second, as Compose does. One statement that
//! cannot be read fails the whole file: half a configuration is worse than none.

mod escapes;
mod scanner;

use std::collections::BTreeMap;
use std::ops::Range;

use crate::interpolate::{InterpolateError, Lookup, Template};
use scanner::Scanner;

/// Why a file cannot be read. No text shows a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct DotenvError {
    /// The line of the statement, the first being 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A character that no name may hold.
    #[error(
        "unexpected character {0:?} in a variable name; a line is `NAME=value`, and a value of several lines needs quotes"
    )]
    NameCharacter(char),
    /// A blank between the letters of a name.
    #[error("a variable name cannot contain a space")]
    NameSpace,
    /// `export` at the very end of the file.
    #[error("`export` without a variable name")]
    NoName,
    /// A quote that nothing closes.
    #[error("unterminated quoted value")]
    Unterminated,
    /// A `$` expression that is invalid or asks for a name that is not set.
    #[error("{0}")]
    Expression(InterpolateError),
}

/// A file taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    statements: Vec<Statement>,
}

/// One statement of a file; ranges are byte offsets into the text that was parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The line on which the name stands, the first being 1.
    pub line: usize,
    /// The name; empty when a file ends in a bare word without a line break, which Compose takes for a value.
    pub name: String,
    /// Where the name stands, without `export` before it.
    pub name_span: Range<usize>,
    /// Whether `export` stands before the name.
    pub exported: bool,
    /// The value, or `None` for a name alone: its value is that of the process environment, if it has one.
    pub value: Option<RawValue>,
}

/// A value as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawValue {
    /// Where the value stands: with its quotes, without blanks around it and without a comment behind it.
    pub span: Range<usize>,
    /// How it is quoted.
    pub quoting: Quoting,
    content: Content,
}

/// How a value is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quoting {
    /// Not at all.
    Bare,
    /// With `'`: nothing inside is expanded.
    Single,
    /// With `"`: escapes and references inside are replaced.
    Double,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Literal(String),
    Template(Template),
}

/// A variable that a file sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its value.
    pub value: String,
    /// The line of the statement that set it last.
    pub line: usize,
}

/// What a file gives in a process environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evaluated {
    /// The variables by name; of several statements for one name the last counts.
    pub variables: BTreeMap<String, Variable>,
    /// References to names that nobody set and that have no default, with the line: they became empty.
    pub unset: Vec<(String, usize)>,
}

impl Document {
    /// Takes a file apart. A byte order mark at its start is no part of it.
    ///
    /// # Errors
    /// [`DotenvError`] for the first statement that cannot be read.
    pub fn parse(text: &str) -> Result<Self, DotenvError> {
        let mut scanner = Scanner::new(text);
        let mut statements = Vec::new();
        while scanner.skip_to_statement() {
            statements.push(scanner.statement()?);
        }
        Ok(Self { statements })
    }

    /// The statements in the order of the file.
    pub fn statements(&self) -> &[Statement] {
        &self.statements
    }

    /// The variables that the file sets, given the process environment.
    ///
    /// # Errors
    /// [`DotenvError`] for a required reference (`${NAME:?message}`) that is not set.
    pub fn evaluate(&self, environment: &Lookup<'_>) -> Result<Evaluated, DotenvError> {
        let mut evaluated = Evaluated::default();
        for statement in &self.statements {
            let line = statement.line;
            let value = match &statement.value {
                None => match environment(&statement.name) {
                    Some(value) => value,
                    None => continue,
                },
                Some(RawValue { content: Content::Literal(text), .. }) => text.clone(),
                Some(RawValue { content: Content::Template(template), .. }) => {
                    let lookup = |name: &str| {
                        environment(name).or_else(|| evaluated.variables.get(name).map(|above| above.value.clone()))
                    };
                    let value = template
                        .value(&lookup)
                        .map_err(|error| DotenvError { line, problem: Problem::Expression(error) })?;
                    let unset: Vec<_> = template
                        .plain_names()
                        .filter(|name| lookup(name).is_none())
                        .map(|name| (name.to_owned(), line))
                        .collect();
                    evaluated.unset.extend(unset);
                    value
                }
            };
            evaluated.variables.insert(statement.name.clone(), Variable { value, line });
        }
        Ok(evaluated)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problem(text: &str) -> Option<(usize, Problem)> {
        let none = |_: &str| None;
        Document::parse(text)
            .and_then(|document| document.evaluate(&none))
            .err()
            .map(|error| (error.line, error.problem))
    }

    #[test]
    fn an_error_names_the_line_of_its_statement() {
        assert_eq!(problem("A=1\n\nB='open\nC=3\n"), Some((3, Problem::Unterminated)));
        assert_eq!(problem("A='1\n2\n3'\nMY NAME=1\n"), Some((4, Problem::NameSpace)));
        assert_eq!(problem("# c\nA$=1\n"), Some((2, Problem::NameCharacter('$'))));
        assert_eq!(problem("A=1\nB=${\n"), Some((2, Problem::Expression(InterpolateError::Invalid))));
        assert_eq!(problem("A=1\nexport "), Some((2, Problem::NoName)));
        let required = InterpolateError::Required { variable: "X".to_owned(), message: "say why".to_owned() };
        assert_eq!(problem("A=1\nB=${X:?say why}\n"), Some((2, Problem::Expression(required))));
    }

    #[test]
    fn an_error_never_shows_a_value() {
        for text in
            ["A='canary\n", "A=\"canary ${\"\n", "A=${canary\n", "A=1\n\"canary\"\n", "A=it's ${X:?why} canary\n"]
        {
            let none = |_: &str| None;
            let error = Document::parse(text).and_then(|document| document.evaluate(&none)).unwrap_err();
            assert!(!error.to_string().contains("canary"), "{error}");
        }
    }

    #[test]
    fn every_piece_knows_where_it_stands() {
        let text = "\u{feff}# head\nexport A = 'x y' # note\nB=bare value # c\n\tC: \"two\nlines\"\nWORD\n";
        let document = Document::parse(text).unwrap();
        let pieces: Vec<_> = document
            .statements()
            .iter()
            .map(|statement| {
                let value = statement.value.as_ref().map(|value| (&text[value.span.clone()], value.quoting));
                (statement.line, &text[statement.name_span.clone()], statement.exported, value)
            })
            .collect();
        assert_eq!(
            pieces,
            [
                (2, "A", true, Some(("'x y'", Quoting::Single))),
                (3, "B", false, Some(("bare value", Quoting::Bare))),
                (4, "C", false, Some(("\"two\nlines\"", Quoting::Double))),
                (6, "WORD", false, None),
            ]
        );
    }

    #[test]
    fn references_that_became_empty_are_told_with_their_line() {
        let evaluated =
            Document::parse("A=1\nB=$A$NOPE\nC='$QUOTED'\nD=${E:-}\n").unwrap().evaluate(&|_: &str| None).unwrap();
        assert_eq!(evaluated.unset, [("NOPE".to_owned(), 2)]);
    }

    proptest! {
        #[test]
        fn pieces_stand_in_order_and_hold_what_was_read(text in "[A-C=:'\"\\\\$ {}#\n\r\té-]{0,40}") {
            if let Ok(document) = Document::parse(&text) {
                let mut end = 0;
                for statement in document.statements() {
                    prop_assert!(end <= statement.name_span.start);
                    prop_assert_eq!(&text[statement.name_span.clone()], &statement.name);
                    end = statement.name_span.end;
                    if let Some(value) = &statement.value {
                        prop_assert!(end <= value.span.start && value.span.end <= text.len());
                        let written = &text[value.span.clone()];
                        let quote = match value.quoting {
                            Quoting::Bare => "",
                            Quoting::Single => "'",
                            Quoting::Double => "\"",
                        };
                        prop_assert!(written.starts_with(quote) && written.ends_with(quote));
                        end = value.span.end;
                    }
                }
            }
        }

        #[test]
        fn what_stands_behind_a_comment_sign_is_never_read(comment in "[^\n]{0,40}") {
            let evaluated = Document::parse(&format!("A=1\n#{comment}\nB=x #{comment}\n")).unwrap().evaluate(&|_: &str| None).unwrap();
            prop_assert_eq!(evaluated.variables.len(), 2);
            prop_assert_eq!(&evaluated.variables["B"].value, "x");
        }

        #[test]
        fn no_text_panics(text in "(?s).{0,60}") {
            let _either = Document::parse(&text).and_then(|document| document.evaluate(&|_: &str| None));
        }
    }
}
