//! Taking the text of a `.env` apart, statement by statement, with the place of each piece.

use std::ops::Range;

use super::{Content, DotenvError, Problem, Quoting, RawValue, Statement, escapes};
use crate::interpolate::Template;

/// Blank, but no line break: what may stand around a name and before a value.
fn is_blank(letter: char) -> bool {
    matches!(letter, '\t' | '\u{b}' | '\u{c}' | '\r' | ' ' | '\u{85}' | '\u{a0}')
}

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A place in the text.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    /// Up to where line breaks are counted in `line`.
    counted: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
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
    pub(super) fn skip_to_statement(&mut self) -> bool {
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

    pub(super) fn statement(&mut self) -> Result<Statement, DotenvError> {
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
                (span, Quoting::Double, template(&escapes::expand(&text))?)
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
