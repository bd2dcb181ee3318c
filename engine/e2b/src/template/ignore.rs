//! Which files of a context are left out, by Docker's rules for `.dockerignore`.
//!
//! Patterns are anchored at the context's root, a directory that matches takes its content along, `!` brings back, and the last match wins.

use crate::error::Error;

/// Patterns in their order.
#[derive(Debug, Default)]
pub(super) struct Ignore {
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    brings_back: bool,
    /// One per segment of the pattern.
    segments: Vec<String>,
    tokens: Vec<Token>,
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Literal(char),
    /// `?`: one character of a name.
    One,
    /// `*`: any characters of a name.
    Some,
    /// `**`: anything at the end of a pattern.
    Rest,
    /// `**/`: any directories, none as well.
    Directories,
    /// `[a-z]`.
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Ignore {
    /// Reads patterns as they stand in a file or were given.
    pub(super) fn new<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, Error> {
        let mut patterns = Vec::new();
        for line in lines {
            let text = line.trim();
            if text.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = |reason| Error::BadTemplate { message: format!("the ignore pattern `{text}`: {reason}") };
            let (brings_back, body) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest.trim()));
            if body.is_empty() {
                return Err(bad("it brings back nothing"));
            }
            let cleaned = clean(body);
            let tokens = tokens(&cleaned).ok_or_else(|| bad("it breaks off"))?;
            let segments = cleaned.split('/').map(str::to_owned).collect();
            patterns.push(Pattern { brings_back, segments, tokens });
        }
        Ok(Self { patterns })
    }

    /// Whether a path, relative to the context with `/` between its names, is left out.
    pub(super) fn leaves_out(&self, path: &str) -> bool {
        let mut parent_matched = vec![false; self.patterns.len()];
        let mut left_out = false;
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let current = &path[..end];
            left_out = false;
            for (pattern, matched) in self.patterns.iter().zip(&mut parent_matched) {
                // A pattern that matched a directory matches what is below. Else one that can change nothing is not asked, and counts as not matching.
                if !*matched {
                    *matched = pattern.brings_back == left_out && pattern.matches(current);
                }
                if *matched {
                    left_out = !pattern.brings_back;
                }
            }
        }
        left_out
    }

    /// Whether something below a directory that is left out may be brought back.
    pub(super) fn may_bring_back_below(&self, directory: &str) -> bool {
        let names: Vec<_> = directory.split('/').collect();
        self.patterns.iter().filter(|pattern| pattern.brings_back).any(|pattern| pattern.may_match_below(&names))
    }
}

impl Pattern {
    fn matches(&self, path: &str) -> bool {
        let chars: Vec<char> = path.chars().collect();
        matches(&self.tokens, &chars)
    }

    fn may_match_below(&self, names: &[&str]) -> bool {
        for (index, name) in names.iter().enumerate() {
            let Some(segment) = self.segments.get(index) else { return false };
            if segment.contains("**") {
                return true;
            }
            if !segment.contains(['*', '?', '[', '\\']) && segment != name {
                return false;
            }
        }
        self.segments.len() > names.len()
    }
}

/// One name of a pattern for files that are wanted, such as `*.py`; `[!a]` means the same as `[^a]`.
#[derive(Debug)]
pub(super) struct Glob(Vec<Token>);

impl Glob {
    /// Reads a name with wildcards; `None` when it breaks off.
    pub(super) fn new(name: &str) -> Option<Self> {
        tokens(&name.replace("[!", "[^")).map(Self)
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let chars: Vec<char> = name.chars().collect();
        matches(&self.0, &chars)
    }
}

/// A path without empty and `.` names, `..` taken out where that is possible, and without the `/` in front.
fn clean(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." if names.last().is_some_and(|last| *last != "..") => {
                names.pop();
            }
            ".." if path.starts_with('/') => {}
            name => names.push(name),
        }
    }
    match names.join("/") {
        empty if empty.is_empty() => if path.starts_with('/') { "/" } else { "." }.to_owned(),
        cleaned => cleaned,
    }
}

fn tokens(pattern: &str) -> Option<Vec<Token>> {
    let mut chars = pattern.chars().peekable();
    let mut tokens = Vec::new();
    while let Some(ch) = chars.next() {
        tokens.push(match ch {
            '*' if chars.peek() == Some(&'*') => {
                chars.next();
                if chars.peek() == Some(&'/') {
                    chars.next();
                }
                if chars.peek().is_none() { Token::Rest } else { Token::Directories }
            }
            '*' => Token::Some,
            '?' => Token::One,
            '\\' => Token::Literal(chars.next()?),
            '[' => class(&mut chars)?,
            ch => Token::Literal(ch),
        });
    }
    Some(tokens)
}

fn class(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Token> {
    let negated = chars.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && chars.next_if_eq(&']').is_some() {
            return Some(Token::Class { negated, ranges });
        }
        let low = class_char(chars)?;
        let high = if chars.next_if_eq(&'-').is_some() { class_char(chars)? } else { low };
        ranges.push((low, high));
    }
}

fn class_char(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match chars.next()? {
        '-' | ']' => None,
        '\\' => chars.next(),
        ch => Some(ch),
    }
}

fn matches(tokens: &[Token], path: &[char]) -> bool {
    let Some((token, tokens)) = tokens.split_first() else { return path.is_empty() };
    let next_is = |fits: &dyn Fn(char) -> bool| path.first().is_some_and(|&ch| fits(ch)) && matches(tokens, &path[1..]);
    match token {
        Token::Literal(literal) => next_is(&|ch| ch == *literal),
        Token::One => next_is(&|ch| ch != '/'),
        Token::Class { negated, ranges } => {
            next_is(&|ch| ranges.iter().any(|&(low, high)| (low..=high).contains(&ch)) != *negated)
        }
        Token::Rest => true,
        Token::Some => {
            let name_end = path.iter().position(|&ch| ch == '/').unwrap_or(path.len());
            (0..=name_end).any(|end| matches(tokens, &path[end..]))
        }
        Token::Directories => {
            let ends = path.iter().enumerate().filter(|&(_, &ch)| ch == '/').map(|(at, _)| at + 1);
            [0].into_iter().chain(ends).any(|end| matches(tokens, &path[end..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Ignore;

    #[test]
    fn patterns_are_anchored_and_the_last_match_wins() {
        for (patterns, path, left_out) in [
            (&["*.log"][..], "a.log", true),
            (&["*.log"], "sub/a.log", false),
            (&["**/*.log"], "sub/deep/a.log", true),
            (&["**/*.log"], "a.log", true),
            (&["/sub/"], "sub/a", true),
            (&["sub/**"], "sub/a", true),
            (&["sub/**"], "sub", false),
            (&["*", "!keep"], "keep", false),
            (&["*", "!keep"], "keep/below", false),
            (&["dir", "!dir/keep"], "dir/keep", false),
            (&["dir", "!dir/keep"], "dir/other", true),
            (&["!keep", "keep"], "keep", true),
            (&["a[0-9]?"], "a5x", true),
            (&["a[^0-9]"], "a5", false),
            (&[r"a\*"], "a*", true),
            (&[r"a\*"], "ab", false),
            (&["./x/../y"], "y", true),
            (&["#x"], "#x", false),
        ] {
            let ignore = Ignore::new(patterns.iter().copied()).unwrap();
            assert_eq!(ignore.leaves_out(path), left_out, "{patterns:?} {path}");
        }
    }

    #[test]
    fn a_directory_is_walked_for_what_may_come_back() {
        let ignore = Ignore::new(["*", "!a/b/*.txt", "!c/*/d"]).unwrap();
        for (directory, may) in [("a", true), ("a/b", true), ("a/c", false), ("c/x", true), ("z", false)] {
            assert_eq!(ignore.may_bring_back_below(directory), may, "{directory}");
        }
    }

    #[test]
    fn broken_patterns_are_refused() {
        for pattern in ["[", "[a", "a\\", "!", "[]a]", "[a-]"] {
            assert!(Ignore::new([pattern]).is_err(), "{pattern}");
        }
    }
}
