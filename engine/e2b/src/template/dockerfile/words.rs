//! Words of a Dockerfile: quotes and escapes are resolved as Docker does, variables are kept for the shell of the build.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

/// How words are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexer<'a> {
    pub(super) escape: char,
    /// Whether quotes stay in the result.
    pub(super) keep_quotes: bool,
    /// Whether escapes stay in the result.
    pub(super) keep_escapes: bool,
    /// Variables to put in; without them references stay as they are.
    pub(super) variables: Option<&'a BTreeMap<String, String>>,
}

/// A text read as one word, and as many.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lexed {
    pub(super) word: String,
    pub(super) words: Vec<String>,
}

impl Lexer<'_> {
    /// A lexer that resolves quotes and escapes and leaves variables alone.
    pub(super) fn plain(escape: char) -> Self {
        Self { escape, keep_quotes: false, keep_escapes: false, variables: None }
    }

    /// The text as one word, spaces and all.
    pub(super) fn word(&self, text: &str) -> Result<String, String> {
        self.lex(text).map(|lexed| lexed.word)
    }

    /// The text as words.
    pub(super) fn words(&self, text: &str) -> Result<Vec<String>, String> {
        self.lex(text).map(|lexed| lexed.words)
    }

    fn lex(&self, text: &str) -> Result<Lexed, String> {
        let mut reader = Reader { lexer: *self, chars: text.chars().peekable() };
        reader.until(None, self.keep_escapes).map_err(|reason| format!("`{text}`: {reason}"))
    }
}

/// Collects words while the one long word is collected too.
#[derive(Default)]
struct Collector {
    lexed: Lexed,
    current: String,
    in_word: bool,
}

impl Collector {
    fn bare(&mut self, ch: char) {
        self.lexed.word.push(ch);
        self.split_at(ch);
    }

    /// Text that no space in it can split.
    fn solid(&mut self, text: &str) {
        self.lexed.word.push_str(text);
        self.current.push_str(text);
        self.in_word = true;
    }

    /// A variable's value, whose spaces split.
    fn value(&mut self, text: &str) {
        self.lexed.word.push_str(text);
        text.chars().for_each(|ch| self.split_at(ch));
    }

    fn split_at(&mut self, ch: char) {
        if !ch.is_whitespace() {
            self.current.push(ch);
            self.in_word = true;
        } else if self.in_word && !self.current.is_empty() {
            self.lexed.words.push(std::mem::take(&mut self.current));
            self.in_word = false;
        }
    }

    fn finish(mut self) -> Lexed {
        if !self.current.is_empty() {
            self.lexed.words.push(self.current);
        }
        self.lexed
    }
}

struct Reader<'a> {
    lexer: Lexer<'a>,
    chars: Peekable<Chars<'a>>,
}

impl Reader<'_> {
    /// Reads up to a sign, or to the end of the text.
    fn until(&mut self, stop: Option<char>, keep_escapes: bool) -> Result<Lexed, String> {
        let mut collector = Collector::default();
        while let Some(&ch) = self.chars.peek() {
            if stop == Some(ch) {
                self.chars.next();
                return Ok(collector.finish());
            }
            match ch {
                '$' => collector.value(&self.variable()?),
                '\'' => collector.solid(&self.single_quoted()?),
                '"' => collector.solid(&self.double_quoted(keep_escapes)?),
                '<' => collector.solid(&self.angle()),
                _ if ch == self.lexer.escape => {
                    self.chars.next();
                    if keep_escapes {
                        collector.solid(ch.encode_utf8(&mut [0; 4]));
                    }
                    // At the end of the text it escapes nothing.
                    if let Some(escaped) = self.chars.next() {
                        collector.solid(escaped.encode_utf8(&mut [0; 4]));
                    }
                }
                _ => {
                    self.chars.next();
                    collector.bare(ch);
                }
            }
        }
        match stop {
            Some(stop) => Err(format!("it ends before the matching `{stop}`")),
            None => Ok(collector.finish()),
        }
    }

    /// Between single quotes nothing has a meaning.
    fn single_quoted(&mut self) -> Result<String, String> {
        let mut text = String::new();
        self.quote(&mut text);
        loop {
            match self.chars.peek() {
                None => return Err("it ends before the matching single quote".to_owned()),
                Some('\'') => {
                    self.quote(&mut text);
                    return Ok(text);
                }
                Some(_) => text.extend(self.chars.next()),
            }
        }
    }

    /// Between double quotes variables have a meaning, and the escape before a quote, a `$` or itself.
    fn double_quoted(&mut self, keep_escapes: bool) -> Result<String, String> {
        let mut text = String::new();
        self.quote(&mut text);
        loop {
            match self.chars.peek().copied() {
                None => return Err("it ends before the matching double quote".to_owned()),
                Some('"') => {
                    self.quote(&mut text);
                    return Ok(text);
                }
                Some('$') => text.push_str(&self.variable()?),
                Some(ch) if ch == self.lexer.escape => {
                    self.chars.next();
                    if keep_escapes {
                        text.push(ch);
                    }
                    match self.chars.peek().copied() {
                        None => {}
                        Some(next) if next == '"' || next == '$' || next == ch => text.extend(self.chars.next()),
                        Some(_) => text.push(ch),
                    }
                }
                Some(_) => text.extend(self.chars.next()),
            }
        }
    }

    fn quote(&mut self, text: &mut String) {
        let quote = self.chars.next();
        if self.lexer.keep_quotes {
            text.extend(quote);
        }
    }

    /// `<<` and the spaces behind it belong to the word behind them: the mark of a here-document.
    fn angle(&mut self) -> String {
        let mut text = String::from("<");
        self.chars.next();
        if self.chars.peek() == Some(&'<') {
            text.extend(self.chars.next());
            while let Some('\t' | '\r' | ' ') = self.chars.peek() {
                text.extend(self.chars.next());
            }
        }
        text
    }

    fn variable(&mut self) -> Result<String, String> {
        self.chars.next();
        if self.chars.peek() != Some(&'{') {
            let name = self.name();
            return Ok(match self.value(&name) {
                Some(value) if !name.is_empty() => value,
                _ => format!("${name}"),
            });
        }
        self.chars.next();
        match self.chars.peek() {
            None => return Err(missing_brace()),
            Some('{' | '}' | ':') => return Err("a bad substitution".to_owned()),
            Some(_) => {}
        }
        let name = self.name();
        let mut modifier = String::new();
        match self.chars.next() {
            None => return Err(missing_brace()),
            Some('}') => return Ok(self.value(&name).unwrap_or_else(|| format!("${{{name}}}"))),
            Some(ch) => modifier.push(ch),
        }
        if modifier == ":" {
            modifier.push(self.chars.next().ok_or_else(missing_brace)?);
        }
        let is_pattern = match modifier.as_str() {
            "/" => return self.replacement(&name),
            "+" | "-" | "?" | ":+" | ":-" | ":?" => false,
            "#" | "%" => true,
            _ => return Err(format!("the unknown modifier `{modifier}`")),
        };
        let word = self.until(Some('}'), is_pattern)?.word;
        self.modified(&name, &modifier, &word)
    }

    /// `${name/pattern/text}` and `${name//pattern/text}`.
    fn replacement(&mut self, name: &str) -> Result<String, String> {
        let mut operator = String::from("/");
        if self.chars.peek() == Some(&'/') {
            operator.extend(self.chars.next());
        }
        let pattern = self.until(Some('/'), true)?.word;
        let text = self.until(Some('}'), true)?.word;
        if self.lexer.variables.is_some() {
            return Err("a replacement, which only the build's shell can do".to_owned());
        }
        Ok(format!("${{{name}{operator}{pattern}/{text}}}"))
    }

    fn modified(&self, name: &str, modifier: &str, word: &str) -> Result<String, String> {
        if self.lexer.variables.is_none() {
            return Ok(format!("${{{name}{modifier}{word}}}"));
        }
        let value = self.lexer.variables.and_then(|variables| variables.get(name)).cloned();
        let set = value.filter(|value| !modifier.starts_with(':') || !value.is_empty());
        match (modifier.trim_start_matches(':'), set) {
            ("-", set) => Ok(set.unwrap_or_else(|| word.to_owned())),
            ("+", set) => Ok(set.map_or_else(String::new, |_| word.to_owned())),
            ("?", Some(value)) => Ok(value),
            ("?", None) => Err(format!("`{name}` is not set")),
            _ => Err("a pattern, which only the build's shell can apply".to_owned()),
        }
    }

    /// What stands for a variable, or `None` where references are kept.
    fn value(&self, name: &str) -> Option<String> {
        self.lexer.variables.map(|variables| variables.get(name).cloned().unwrap_or_default())
    }

    /// A name; digits, and each of the shell's special signs, are a whole name by themselves.
    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(&ch) = self.chars.peek() {
            if name.is_empty() && "@*#?-$!0".contains(ch) {
                self.chars.next();
                return ch.to_string();
            }
            let only_digits = !name.is_empty() && name.chars().all(char::is_numeric);
            let fits = if only_digits { ch.is_numeric() } else { ch.is_alphanumeric() || ch == '_' };
            if !fits {
                break;
            }
            name.push(ch);
            self.chars.next();
        }
        name
    }
}

fn missing_brace() -> String {
    "it ends before the matching `}`".to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Lexer;

    #[test]
    fn quotes_and_escapes_go_and_variables_stay() {
        for (text, word) in [
            ("plain", "plain"),
            (r#""a b"c"#, "a bc"),
            (r"a\ b", "a b"),
            (r"'a$B\n'", r"a$B\n"),
            (r#""a\"b\$c\n""#, r#"a"b$c\n"#),
            ("$A-${B}", "$A-${B}"),
            ("${A:-x 'y'}", "${A:-x y}"),
            ("${A/x/y}", "${A/x/y}"),
            ("${A#*/}", "${A#*/}"),
            ("$", "$"),
            ("$1a", "$1a"),
        ] {
            assert_eq!(Lexer::plain('\\').word(text).unwrap(), word, "{text}");
        }
        for text in ["'a", "\"a", "${A", "${}", "${A~b}", "${A:#b}"] {
            assert!(Lexer::plain('\\').word(text).is_err(), "{text}");
        }
    }

    #[test]
    fn variables_are_put_in_where_they_are_known() {
        let variables = BTreeMap::from([("A".to_owned(), "0755".to_owned()), ("E".to_owned(), String::new())]);
        let lexer = Lexer { variables: Some(&variables), ..Lexer::plain('\\') };
        for (text, word) in [
            ("$A", "0755"),
            ("${A}", "0755"),
            ("${B:-0644}", "0644"),
            ("${E:-x}", "x"),
            ("${E-x}", ""),
            ("${A:+y}", "y"),
            ("$B", ""),
        ] {
            assert_eq!(lexer.word(text).unwrap(), word, "{text}");
        }
        assert!(lexer.word("${B?}").is_err());
    }

    #[test]
    fn words_are_split_outside_quotes_only() {
        let lexer = Lexer { keep_quotes: true, keep_escapes: true, ..Lexer::plain('\\') };
        assert_eq!(lexer.words(r#"cat << "E F"  > x\ y"#).unwrap(), ["cat", r#"<< "E F""#, ">", r"x\ y"]);
    }
}
