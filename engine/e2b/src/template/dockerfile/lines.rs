//! A Dockerfile as instructions: comments, continued lines, flags, here-documents.

use super::words::Lexer;
use crate::error::Error;

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    /// Its keyword in upper case.
    pub(super) name: String,
    /// Its flags as they stand, with `--`.
    pub(super) flags: Vec<String>,
    /// What follows the flags.
    pub(super) rest: String,
    /// Its here-documents in order.
    pub(super) heredocs: Vec<Heredoc>,
    /// The line on which it begins, from 1.
    pub(super) line: usize,
}

/// A text that stands in the Dockerfile itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heredoc {
    /// The word that ends it.
    pub(super) name: String,
    /// Its lines as they stand.
    pub(super) content: String,
    /// `<<-`: tabs at the beginning of its lines do not count.
    pub(super) strips_tabs: bool,
    /// Whether variables in it have a meaning: the word was not quoted.
    pub(super) expands: bool,
}

impl Heredoc {
    /// The text that is meant.
    pub(super) fn text(&self) -> String {
        if !self.strips_tabs {
            return self.content.clone();
        }
        self.content.split_inclusive('\n').map(|line| line.trim_start_matches('\t')).collect()
    }
}

/// A Dockerfile's instructions and the sign that escapes in it.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) instructions: Vec<Instruction>,
    pub(super) escape: char,
}

/// What may begin an instruction.
const KEYWORDS: [&str; 18] = [
    "ADD",
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "MAINTAINER",
    "ONBUILD",
    "RUN",
    "SHELL",
    "STOPSIGNAL",
    "USER",
    "VOLUME",
    "WORKDIR",
];

/// The error of a Dockerfile, with the line it is on.
pub(super) fn bad(line: usize, reason: impl std::fmt::Display) -> Error {
    Error::BadTemplate { message: format!("line {line} of the Dockerfile: {reason}") }
}

/// Reads a Dockerfile.
pub(super) fn parse(text: &str) -> Result<Parsed, Error> {
    let text = text.trim_start_matches('\u{FEFF}');
    let mut lines = text.split_inclusive('\n').enumerate().map(|(index, line)| (index + 1, line));
    let mut directives = Directives { escape: '\\', open: true, seen: Vec::new() };
    let mut instructions = Vec::new();
    while let Some((start, raw)) = lines.next() {
        let first = without_end(raw).trim_start();
        directives.take(first, start)?;
        if first.is_empty() || first.starts_with('#') {
            continue;
        }
        let (mut line, mut continues) = cut_continuation(first, directives.escape);
        while continues {
            let Some((_, raw)) = lines.next() else { break };
            let next = without_end(raw);
            // Comments and empty lines within an instruction are skipped.
            if next.trim().is_empty() || next.trim_start().starts_with('#') {
                continue;
            }
            let (part, goes_on) = cut_continuation(next, directives.escape);
            line.push_str(&part);
            continues = goes_on;
        }
        let mut instruction = split(&line, directives.escape, start)?;
        if matches!(instruction.name.as_str(), "ADD" | "COPY" | "RUN")
            && line.contains("<<")
            && !is_json(&instruction.rest)
        {
            for mut heredoc in marks(&line) {
                loop {
                    let Some((_, raw)) = lines.next() else {
                        return Err(bad(start, "a here-document without its end"));
                    };
                    let end = without_end(raw);
                    let end = if heredoc.strips_tabs { end.trim_start_matches('\t') } else { end };
                    if end == heredoc.name {
                        break;
                    }
                    heredoc.content.push_str(raw);
                }
                instruction.heredocs.push(heredoc);
            }
        }
        instructions.push(instruction);
    }
    Ok(Parsed { instructions, escape: directives.escape })
}

fn without_end(line: &str) -> &str {
    line.trim_end_matches(['\r', '\n'])
}

/// Whether an instruction's rest is an array of JSON rather than a line for the shell.
pub(super) fn is_json(rest: &str) -> bool {
    rest.starts_with('[') && serde_json::from_str::<Vec<serde_json::Value>>(rest).is_ok()
}

/// `# name=value` lines at the very beginning.
struct Directives {
    escape: char,
    open: bool,
    seen: Vec<String>,
}

impl Directives {
    fn take(&mut self, line: &str, number: usize) -> Result<(), Error> {
        if !self.open {
            return Ok(());
        }
        let pair = line.strip_prefix('#').and_then(|rest| rest.split_once('='));
        let known = pair
            .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim()))
            .filter(|(name, value)| matches!(name.as_str(), "syntax" | "escape" | "check") && !value.is_empty());
        let Some((name, value)) = known else {
            self.open = false;
            return Ok(());
        };
        if self.seen.contains(&name) {
            return Err(bad(number, format_args!("a second `{name}` directive")));
        }
        if name == "escape" {
            self.escape = match value {
                "`" => '`',
                "\\" => '\\',
                _ => return Err(bad(number, format_args!("`{value}` cannot be the escape, only \\ or ` can"))),
            };
        }
        self.seen.push(name);
        Ok(())
    }
}

/// Takes the escape from a line's end, if it is one: not itself escaped.
fn cut_continuation(line: &str, escape: char) -> (String, bool) {
    let trimmed = line.trim_end_matches([' ', '\t']);
    match trimmed.strip_suffix(escape) {
        Some(before) if !before.ends_with(escape) => (before.to_owned(), true),
        _ => (line.to_owned(), false),
    }
}

fn split(line: &str, escape: char, number: usize) -> Result<Instruction, Error> {
    let line = line.trim();
    let (word, rest) = match line.find(is_blank) {
        Some(at) => (&line[..at], line[at..].trim_start_matches(is_blank)),
        None => (line, ""),
    };
    let name = word.to_uppercase();
    if !KEYWORDS.contains(&name.as_str()) {
        return Err(bad(number, format_args!("the unknown instruction `{word}`")));
    }
    let (flags, rest) = flags(rest, escape);
    Ok(Instruction { name, flags, rest: rest.trim().to_owned(), heredocs: Vec::new(), line: number })
}

pub(super) fn is_blank(ch: char) -> bool {
    matches!(ch, ' ' | '\t' | '\r' | '\u{B}' | '\u{C}')
}

/// Takes `--flag` and `--flag=value` words from the front.
fn flags(line: &str, escape: char) -> (Vec<String>, &str) {
    let mut flags = Vec::new();
    let mut rest = line.trim_start();
    while rest.starts_with("--") {
        let mut word = String::new();
        let mut quote = None;
        let mut chars = rest.char_indices();
        let mut end = rest.len();
        while let Some((at, ch)) = chars.next() {
            match quote {
                None if ch.is_whitespace() => {
                    end = at;
                    break;
                }
                None if ch == '\'' || ch == '"' => quote = Some(ch),
                Some(open) if ch == open => quote = None,
                _ if ch == escape => word.extend(chars.next().map(|(_, escaped)| escaped)),
                _ => word.push(ch),
            }
        }
        rest = rest[end..].trim_start();
        if word == "--" {
            break;
        }
        flags.push(word);
    }
    (flags, rest)
}

/// Words of a line with their quotes and escapes, which are resolved later.
pub(super) fn raw_words(line: &str, escape: char) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(ch) = chars.next() {
        if quote.is_none() && ch.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let current = word.get_or_insert_default();
        if ch == escape && quote != Some('\'') {
            if let Some(escaped) = chars.next() {
                current.extend([ch, escaped]);
            }
            continue;
        }
        match quote {
            None if ch == '\'' || ch == '"' => quote = Some(ch),
            Some(open) if ch == open => quote = None,
            _ => {}
        }
        current.push(ch);
    }
    words.extend(word);
    words
}

/// The here-documents that a line begins.
fn marks(line: &str) -> Vec<Heredoc> {
    let lexer = Lexer { keep_quotes: true, keep_escapes: true, ..Lexer::plain('\\') };
    lexer.words(line).map(|words| words.iter().filter_map(|word| mark(word)).collect()).unwrap_or_default()
}

/// `<<NAME`, `<<-NAME`, `3<<"NAME"`.
pub(super) fn mark(word: &str) -> Option<Heredoc> {
    let rest = word.trim_start_matches(|ch: char| ch.is_ascii_digit()).strip_prefix("<<")?;
    let (strips_tabs, rest) = rest.strip_prefix('-').map_or((false, rest), |rest| (true, rest));
    let rest = rest.trim_start_matches([' ', '\t', '\r', '\u{C}']);
    if rest.is_empty() || rest.contains('<') {
        return None;
    }
    let names = Lexer::plain('\\').words(rest).ok()?;
    let raw = Lexer { keep_quotes: true, ..Lexer::plain('\\') }.words(rest).ok()?;
    let ([name], [raw]) = (names.as_slice(), raw.as_slice()) else { return None };
    let quotes = |text: &str| text.matches(['\'', '"']).count();
    Some(Heredoc { name: name.clone(), content: String::new(), strips_tabs, expands: quotes(name) == quotes(raw) })
}

#[cfg(test)]
mod tests {
    use super::{parse, raw_words};

    #[test]
    fn lines_become_instructions() {
        let text = "# escape=`\n# a comment\nfrom debian:12 as x\nRUN a `\n  # within\n\n  && b\ncopy --chown=u:g --chmod=0755 a b c/\nRUN <<EOF cat\n1\n2\nEOF\nRUN cat <<-'X' <<Y\n\tq\n\tX\nr\nY\n";
        let parsed = parse(text).unwrap();
        let shown: Vec<_> = parsed
            .instructions
            .iter()
            .map(|one| (one.line, one.name.as_str(), one.flags.len(), one.rest.as_str(), one.heredocs.len()))
            .collect();
        assert_eq!(parsed.escape, '`');
        assert_eq!(
            shown,
            [
                (3, "FROM", 0, "debian:12 as x", 0),
                (4, "RUN", 0, "a   && b", 0),
                (8, "COPY", 2, "a b c/", 0),
                (9, "RUN", 0, "<<EOF cat", 1),
                (13, "RUN", 0, "cat <<-'X' <<Y", 2),
            ]
        );
        assert_eq!(parsed.instructions[3].heredocs[0].content, "1\n2\n");
        let quoted = &parsed.instructions[4].heredocs[0];
        assert_eq!((quoted.text().as_str(), quoted.expands), ("q\n", false));
        assert!(parsed.instructions[4].heredocs[1].expands);
    }

    #[test]
    fn faults_name_their_line() {
        for (text, line) in
            [("FROM a\nRUM x", "line 2"), ("FROM a\nRUN <<E\nx", "line 2"), ("# escape=x\nFROM a", "line 1")]
        {
            assert!(parse(text).unwrap_err().to_string().contains(line), "{text}");
        }
    }

    #[test]
    fn raw_words_keep_their_quotes() {
        assert_eq!(raw_words(r#"a "b c" d\ e 'f\' """#, '\\'), ["a", r#""b c""#, r"d\ e", r"'f\'", r#""""#]);
    }
}
