//! Words with their style, and lines made of them.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;

use super::{Look, printable};

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "any of them may go with any other")]
pub(super) struct Style {
    pub(super) is_bold: bool,
    pub(super) is_italic: bool,
    pub(super) is_code: bool,
    pub(super) is_struck: bool,
}

impl Style {
    fn codes(self) -> String {
        let codes = [(self.is_bold, "1"), (self.is_italic, "3"), (self.is_code, "36"), (self.is_struck, "9")];
        let codes: Vec<&str> = codes.into_iter().filter_map(|(is_on, code)| is_on.then_some(code)).collect();
        codes.join(";")
    }
}

/// What stands on one line until it is too long.
#[derive(Debug)]
enum Part {
    /// Text without a space in it, with its codes, and its columns.
    Word { text: String, columns: usize },
    /// A line ends here whatever its length.
    Break,
}

/// A paragraph while it is put together.
#[derive(Debug, Default)]
pub(super) struct Paragraph {
    parts: Vec<Part>,
    /// Whether the last word goes on with what comes next.
    is_open: bool,
}

impl Paragraph {
    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Adds text; spaces in it end words.
    pub(super) fn push(&mut self, text: &str, style: Style, look: Look) {
        let text = printable(text);
        let codes = if look.is_styled { style.codes() } else { String::new() };
        for piece in text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end();
            if !word.is_empty() {
                self.word(word, &codes);
            }
            self.is_open &= word.len() == piece.len();
        }
    }

    /// Ends the line here.
    pub(super) fn line_break(&mut self) {
        self.parts.push(Part::Break);
        self.is_open = false;
    }

    fn word(&mut self, word: &str, codes: &str) {
        if !self.is_open || !matches!(self.parts.last(), Some(Part::Word { .. })) {
            self.parts.push(Part::Word { text: String::new(), columns: 0 });
        }
        self.is_open = true;
        let Some(Part::Word { text, columns }) = self.parts.last_mut() else { return };
        *columns += width(word);
        if codes.is_empty() {
            text.push_str(word);
        } else {
            let _a_string_takes_all = write!(text, "\u{1b}[{codes}m{word}\u{1b}[0m");
        }
    }

    /// The lines, none wider than `columns` where words allow it.
    pub(super) fn lines(self, columns: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let (mut line, mut used) = (String::new(), 0);
        for part in self.parts {
            match part {
                Part::Break => {
                    lines.push(std::mem::take(&mut line));
                    used = 0;
                }
                Part::Word { text, columns: wide } => {
                    if used > 0 && used + 1 + wide > columns {
                        lines.push(std::mem::take(&mut line));
                        used = 0;
                    }
                    if used > 0 {
                        line.push(' ');
                        used += 1;
                    }
                    line.push_str(&text);
                    used += wide;
                }
            }
        }
        if !line.is_empty() {
            lines.push(line);
        }
        lines
    }

    /// All of it on one line, and its columns.
    pub(super) fn line(self) -> (String, usize) {
        let words: Vec<(String, usize)> = self
            .parts
            .into_iter()
            .filter_map(|part| match part {
                Part::Word { text, columns } => Some((text, columns)),
                Part::Break => None,
            })
            .collect();
        let columns = words.iter().map(|(_, columns)| columns + 1).sum::<usize>().saturating_sub(1);
        (words.into_iter().map(|(text, _)| text).collect::<Vec<_>>().join(" "), columns)
    }
}

/// Columns of a text without codes.
fn width(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}
