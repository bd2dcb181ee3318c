//! The grammar of every `.env` of the product: Docker Compose's, to the letter.
//!
//! Reading has two steps. [`Document::parse`] takes the text apart and keeps where every piece stands, so that an editor can
//! change one value and leave each other byte alone. [`Document::evaluate`] then gives the variables, with the `$`
//! references looked up in the process environment first and in the file above second, as Compose does. One statement that
//! cannot be read fails the whole file: half a configuration is worse than none.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::interpolate::{InterpolateError, Lookup, Template};

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

/// Blank, but no line break: what may stand around a name and before a value.
fn is_blank(letter: char) -> bool {
    matches!(letter, '\t' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{85}' | '\u{a0}')
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A place in the text.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    /// Up to where line breaks are counted in `line`.
    counted: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        let at = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
        Self { text, at, line: 1, counted: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn line(&mut self) -> usize {
        self.line += self.text[self.counted..self.at].matches('\n').count();
        self.counted = self.at;
        self.line
    }

    /// Goes over white space and comment lines; `false` at the end of the file.
    fn skip_to_statement(&mut self) -> bool {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start().len();
            if !self.rest().starts_with('#') {
                return !self.rest().is_empty();
            }
            match self.rest().find('\n') {
                Some(line_end) => self.at += line_end,
                None => return false,
            }
        }
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(is_blank).len();
    }

    fn statement(&mut self) -> Result<Statement, DotenvError> {
        let exported = self.rest().strip_prefix("export").is_some_and(|after| {
            // Not every blank ends the word: this is the `\s` of the original's pattern.
            after.starts_with(['\t', '\n', '\u{c}', '\r', ' '])
        });
        if exported {
            self.at += "export".len();
            self.skip_blanks();
        }
        let line = self.line();
        let failed = |problem| DotenvError { line, problem };
        let start = self.at;
        if self.rest().is_empty() {
            return Err(failed(Problem::NoName));
        }
        let Some((length, end)) = name_end(self.rest()).map_err(failed)? else {
            // A bare word at the very end, without a line break.
            let value = self.value().map_err(failed)?;
            return Ok(Statement { line, name: String::new(), name_span: start..start, exported, value: Some(value) });
        };
        let name = self.rest()[..length].trim_end();
        if name.contains(' ') {
            return Err(failed(Problem::NameSpace));
        }
        let name_span = start..start + name.len();
        self.at += length;
        let value = if end == '\n' {
            None
        } else {
            self.at += end.len_utf8();
            self.skip_blanks();
            Some(self.value().map_err(failed)?)
        };
        Ok(Statement { line, name: name.to_owned(), name_span, exported, value })
    }

    fn value(&mut self) -> Result<RawValue, Problem> {
        let (span, quoting, content) = match self.rest().chars().next() {
            Some('\'') => {
                let (span, text) = self.quoted('\'')?;
                (span, Quoting::Single, Content::Literal(text))
            }
            Some('"') => {
                let (span, text) = self.quoted('"')?;
                (span, Quoting::Double, template(&expand_escapes(&text))?)
            }
            _ => {
                let line = self.rest().split('\n').next().unwrap_or_default();
                let start = self.at;
                let value = line.split(" #").next().unwrap_or_default().trim_end();
                self.at += line.len();
                (start..start + value.len(), Quoting::Bare, template(value)?)
            }
        };
        Ok(RawValue { span, quoting, content })
    }

    /// Reads to the closing quote. A backslash before the quote makes it data and disappears; every other backslash stays.
    fn quoted(&mut self, quote: char) -> Result<(Range<usize>, String), Problem> {
        let start = self.at;
        let mut text = String::new();
        let mut escaped = false;
        for (offset, letter) in self.rest().char_indices().skip(1) {
            if letter == quote && !escaped {
                self.at += offset + quote.len_utf8();
                return Ok((start..self.at, text));
            }
            if letter == '\\' && !escaped {
                escaped = true;
                continue;
            }
            if escaped && letter != quote {
                text.push('\\');
            }
            escaped = false;
            text.push(letter);
        }
        Err(Problem::Unterminated)
    }
}

/// Where a name ends and what ends it; `None` when the text ends first.
fn name_end(text: &str) -> Result<Option<(usize, char)>, Problem> {
    for (at, letter) in text.char_indices() {
        match letter {
            '=' | ':' | '\n' => return Ok(Some((at, letter))),
            '_' | '.' | '-' | '[' | ']' => {}
            _ if is_blank(letter) || letter.is_alphabetic() || letter.is_numeric() => {}
            _ => return Err(Problem::NameCharacter(letter)),
        }
    }
    Ok(None)
}

fn template(text: &str) -> Result<Content, Problem> {
    Template::parse(text).map(Content::Template).map_err(Problem::Expression)
}

/// Replaces the escapes of double quotes. `\$` becomes `$$`, which the references' grammar then makes a dollar.
fn expand_escapes(text: &str) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let mut letters = after.chars();
        let plain = match letters.next() {
            Some('a') => "\u{7}",
            Some('b') => "\u{8}",
            Some('f') => "\u{c}",
            Some('n') => "\n",
            Some('r') => "\r",
            Some('t') => "\t",
            Some('v') => "\u{b}",
            Some('"') => "\"",
            Some('\\') => "\\",
            Some('$') => "$$",
            Some('0') => {
                rest = octal(letters.as_str(), &mut expanded);
                continue;
            }
            _ => {
                expanded.push('\\');
                rest = after;
                continue;
            }
        };
        expanded.push_str(plain);
        rest = letters.as_str();
    }
    expanded.push_str(rest);
    expanded
}

/// Writes the character of up to three octal digits after `\0`, and returns what follows. When there are fewer than three,
/// or they are no octal number of one byte, Compose keeps the backslash and the digits, and drops the `0`.
fn octal<'a>(after: &'a str, expanded: &mut String) -> &'a str {
    let count = after.bytes().take(3).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = after.split_at(count);
    match u8::from_str_radix(digits, 8) {
        Ok(code) if count == 3 => expanded.push(char::from(code)),
        _ => {
            expanded.push('\\');
            expanded.push_str(digits);
        }
    }
    rest
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

    #[test]
    fn octal_escapes_that_are_no_byte_keep_their_digits() {
        let read = |text: &str| {
            let evaluated = Document::parse(text).unwrap().evaluate(&|_: &str| None).unwrap();
            evaluated.variables.get("A").map(|variable| variable.value.clone())
        };
        assert_eq!(read("A=\"\\0101\"\n").as_deref(), Some("A"));
        assert_eq!(read("A=\"\\012\"\n").as_deref(), Some("\\12"));
        assert_eq!(read("A=\"\\0777\"\n").as_deref(), Some("\\777"));
        assert_eq!(read("A=\"\\0351\"\n").as_deref(), Some("é"));
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
