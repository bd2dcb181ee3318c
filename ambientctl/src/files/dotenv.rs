//! Changing values in the text of a `.env`, and nothing else in it.
//!
//! The text is taken apart by the one parser of the product; an edit replaces the bytes of a value and leaves comments,
//! order, `export`, duplicates, blank lines, line ends and a byte order mark as they are. The result is read back before it
//! is given out: the key has its value, and every other statement is what it was.

use std::ops::Range;

use ambient_settings::dotenv::{Document, DotenvError, Quoting, Statement};
use ambient_settings::quote;

use super::FilesError;

/// What shall become of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish<'a> {
    /// It has this value.
    Set(&'a str),
    /// It is not there.
    Unset,
}

/// Why an edit was refused. No text shows a value.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The text as it stands cannot be read.
    #[error(transparent)]
    Unreadable(#[from] DotenvError),
    /// See [`FilesError::Key`], [`FilesError::Value`] and [`FilesError::Entangled`].
    #[error(transparent)]
    Refused(FilesError),
}

/// Whether all readers of a `.env` and of a compose file take `key` for a name.
pub fn is_key(key: &str) -> bool {
    let mut bytes = key.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The text with all wishes granted, in their order. The same text comes back when everything is so already.
///
/// # Errors
/// See [`EditError`]; the text is then to be left as it is.
pub fn edited(text: &str, wishes: &[(&str, Wish<'_>)]) -> Result<String, EditError> {
    let mut text = text.to_owned();
    for (key, wish) in wishes {
        if !is_key(key) {
            return Err(EditError::Refused(FilesError::Key((*key).to_owned())));
        }
        let document = Document::parse(&text)?;
        text = match wish {
            Wish::Set(value) => set(&text, &document, key, value)?,
            Wish::Unset => unset(&text, &document, key)?,
        };
    }
    Ok(text)
}

/// What a key's value is, wherever it comes from; `None` when the file does not set it.
///
/// # Errors
/// When the text cannot be read.
pub fn value_of(text: &str, key: &str) -> Result<Option<String>, DotenvError> {
    // References are of no interest here, so that one to a required name that is not set does no harm.
    let evaluated = Document::parse(text)?.evaluate(&|_: &str| Some("x".to_owned()))?;
    Ok(evaluated.variables.get(key).map(|variable| variable.value.clone()))
}

fn set(text: &str, document: &Document, key: &str, value: &str) -> Result<String, EditError> {
    let encoded =
        quote::encode(value).map_err(|reason| EditError::Refused(FilesError::Value { key: key.to_owned(), reason }))?;
    let Some(statement) = document.statements().iter().rfind(|statement| statement.name == key) else {
        let new = appended(text, key, &encoded);
        return proven(text, document, new, key, Some(value)).ok_or_else(|| entangled(key, 1));
    };
    if is_already(text, document, statement, value)? {
        return Ok(text.to_owned());
    }
    // What follows on the line may belong to a bare value (`A="x"# note`), but never to one in quotes.
    let always_quoted = format!("'{value}'");
    let mut candidates = vec![encoded.as_str()];
    if !encoded.starts_with(['\'', '"']) {
        candidates.push(&always_quoted);
    }
    candidates
        .into_iter()
        .find_map(|written| {
            let new = match &statement.value {
                Some(old) => spliced(text, old.span.clone(), written),
                None => spliced(text, statement.name_span.end..statement.name_span.end, &format!("={written}")),
            };
            proven(text, document, new, key, Some(value))
        })
        .ok_or_else(|| entangled(key, statement.line))
}

fn unset(text: &str, document: &Document, key: &str) -> Result<String, EditError> {
    let statements = document.statements();
    let mut new = text.to_owned();
    let mut line = 1;
    for (index, statement) in statements.iter().enumerate().rev().filter(|(_, statement)| statement.name == key) {
        line = statement.line;
        let around = removed_range(text, statements, index);
        new.replace_range(around, "");
    }
    if new == text {
        return Ok(new);
    }
    proven(text, document, new, key, None).ok_or_else(|| entangled(key, line))
}

/// Whether the key has this value already, as bytes that stand there and not by way of a reference.
fn is_already(text: &str, document: &Document, statement: &Statement, value: &str) -> Result<bool, DotenvError> {
    let Some(raw) = &statement.value else { return Ok(false) };
    let refers = raw.quoting != Quoting::Single && text[raw.span.clone()].replace("\\$", "").contains('$');
    if refers {
        return Ok(false);
    }
    let evaluated = document.evaluate(&|_: &str| Some("x".to_owned()))?;
    Ok(evaluated.variables.get(&statement.name).is_some_and(|variable| variable.value == value))
}

fn appended(text: &str, key: &str, encoded: &str) -> String {
    let line_end = line_end(text);
    let missing = if text.is_empty() || text.ends_with('\n') || text == "\u{feff}" { "" } else { line_end };
    format!("{text}{missing}{key}={encoded}{line_end}")
}

/// What ends a line in this file.
fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

fn spliced(text: &str, span: Range<usize>, replacement: &str) -> String {
    let mut new = text.to_owned();
    new.replace_range(span, replacement);
    new
}

/// Where a statement with its `export` begins.
fn start_of(text: &str, statement: &Statement) -> usize {
    let name = statement.name_span.start;
    if statement.exported { text[..name].rfind("export").unwrap_or(name) } else { name }
}

fn end_of(statement: &Statement) -> usize {
    statement.value.as_ref().map_or(statement.name_span.end, |value| value.span.end)
}

/// What to take away so that a statement is gone: its whole line with its comment, or, when other statements share the
/// line, the statement alone.
fn removed_range(text: &str, statements: &[Statement], index: usize) -> Range<usize> {
    let statement = &statements[index];
    let (start, end) = (start_of(text, statement), end_of(statement));
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_start =
        if text[line_start..].starts_with('\u{feff}') { line_start + '\u{feff}'.len_utf8() } else { line_start };
    let line_end = text[end..].find('\n').map_or(text.len(), |at| end + at + 1);
    let shares_its_line = |other: &Statement| end_of(other) > line_start && start_of(text, other) < line_end;
    let before = index.checked_sub(1).and_then(|before| statements.get(before)).is_some_and(shares_its_line);
    let after = statements.get(index + 1).filter(|after| shares_its_line(after));
    match after {
        Some(after) => start..start_of(text, after),
        None if before => start..end,
        None => line_start..line_end,
    }
}

/// The new text, if it says what it should: the key has the value or is gone, and all else is as it was, letter by letter.
fn proven(old_text: &str, old: &Document, new_text: String, key: &str, value: Option<&str>) -> Option<String> {
    let new = Document::parse(&new_text).ok()?;
    let evaluated = new.evaluate(&|_: &str| Some("x".to_owned())).ok()?;
    let found = evaluated.variables.get(key).map(|variable| variable.value.as_str());
    if found != value {
        return None;
    }
    (others(old_text, old, key) == others(&new_text, &new, key)).then_some(new_text)
}

/// Every statement but those that may change, as written: all of other keys, and all but the last of `key`. A last word
/// without a line break is a value of the empty name to Compose; once a line follows, it is a name.
fn others<'a>(text: &'a str, document: &'a Document, key: &str) -> Vec<(&'a str, bool, Option<&'a str>)> {
    document
        .statements()
        .iter()
        .filter(|statement| statement.name != key)
        .map(|statement| {
            let value = statement.value.as_ref().map(|value| &text[value.span.clone()]);
            match value {
                Some(word) if statement.name.is_empty() => (word, statement.exported, None),
                _ => (statement.name.as_str(), statement.exported, value),
            }
        })
        .collect()
}

fn entangled(key: &str, line: usize) -> EditError {
    EditError::Refused(FilesError::Entangled { key: key.to_owned(), line })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, wishes: &[(&str, Wish<'_>)], expected: &str) {
        assert_eq!(edited(text, wishes).unwrap(), expected, "from {text:?}");
    }

    fn read(text: &str, key: &str) -> Option<String> {
        value_of(text, key).unwrap()
    }

    #[test]
    fn only_the_value_changes_and_all_around_it_stays() {
        let text = "\u{feff}# head\r\n\r\nexport A = 'x y' # note\r\nB=1\r\nA-B: 2\r\n\r\n# tail";
        let expected = "\u{feff}# head\r\n\r\nexport A = z # note\r\nB=1\r\nA-B: 2\r\n\r\n# tail";
        check(text, &[("A", Wish::Set("z"))], expected);
        check(text, &[("NEW", Wish::Set("z"))], &format!("{text}\r\nNEW=z\r\n"));
    }

    #[test]
    fn the_last_of_several_assignments_is_the_one_that_counts() {
        check("A=1\nB=$A\nA=2\n", &[("A", Wish::Set("3"))], "A=1\nB=$A\nA=3\n");
        check("A=1\nB=$A\nA=2 # x\n", &[("A", Wish::Unset)], "B=$A\n");
    }

    #[test]
    fn a_value_that_is_so_already_is_left_alone() {
        for text in ["A=x\n", "A='x'\n", "export A = \"x\" # c\n", "A=x"] {
            check(text, &[("A", Wish::Set("x"))], text);
        }
        check("B=x\nA=$B\n", &[("A", Wish::Set("x"))], "B=x\nA=x\n");
        check("A=\"\\$B\"\n", &[("A", Wish::Set("$B"))], "A=\"\\$B\"\n");
    }

    #[test]
    fn a_missing_last_line_break_is_added_first() {
        check("A=1", &[("B", Wish::Set("2"))], "A=1\nB=2\n");
        check("A=1", &[("A", Wish::Set("2"))], "A=2");
        check("", &[("B", Wish::Set("2"))], "B=2\n");
        check("\u{feff}", &[("B", Wish::Set("2"))], "\u{feff}B=2\n");
        check("A=1\nWORD", &[("B", Wish::Set("2"))], "A=1\nWORD\nB=2\n");
        check("# note", &[("B", Wish::Set("2"))], "# note\nB=2\n");
    }

    #[test]
    fn a_bare_name_gets_a_value() {
        check("A\nB=1\n", &[("A", Wish::Set("x y"))], "A='x y'\nB=1\n");
        check("export A\n", &[("A", Wish::Set("1"))], "export A=1\n");
    }

    #[test]
    fn what_follows_on_the_line_never_becomes_part_of_the_value() {
        check("A=\"x\"# note\n", &[("A", Wish::Set("y"))], "A='y'# note\n");
        check("A=x # note\n", &[("A", Wish::Set(""))], "A='' # note\n");
        check("A=\"1\" B=2\n", &[("A", Wish::Set("3"))], "A='3' B=2\n");
        check("A=\"1\" B=2\n", &[("B", Wish::Set("x y"))], "A=\"1\" B='x y'\n");
        check("A=\"1\" B=2 # c\nC=3\n", &[("A", Wish::Unset)], "B=2 # c\nC=3\n");
        check("A=\"1\" B=2 # c\nC=3\n", &[("B", Wish::Unset)], "A=\"1\"  # c\nC=3\n");
    }

    #[test]
    fn comments_that_are_none_are_told_from_those_that_are() {
        // What Compose takes for the value is what is replaced.
        check(
            "A=   # note\nB=x #y\nC=\"x\" # note\n",
            &[("D", Wish::Set("1"))],
            "A=   # note\nB=x #y\nC=\"x\" # note\nD=1\n",
        );
        assert_eq!(read("A=   # note\n", "A").as_deref(), Some("# note"));
        check("A=   # note\n", &[("A", Wish::Set("1"))], "A=   1\n");
        check("B=x #y\n", &[("B", Wish::Set("a #b"))], "B='a #b' #y\n");
    }

    #[test]
    fn removing_takes_the_line_with_its_comment_and_no_other() {
        check("# a\nA=1 # gone\n# b\nB=2\n", &[("A", Wish::Unset)], "# a\n# b\nB=2\n");
        check("A='1\n2'\nB=2\n", &[("A", Wish::Unset)], "B=2\n");
        check("B=2\r\nexport A=1\r\n", &[("A", Wish::Unset)], "B=2\r\n");
        check("\u{feff}A=1\nB=2", &[("A", Wish::Unset)], "\u{feff}B=2");
        check("B=2\nA=1", &[("A", Wish::Unset)], "B=2\n");
        check("B=2\n", &[("A", Wish::Unset)], "B=2\n");
    }

    #[test]
    fn hard_values_come_back_as_they_are() {
        let pem = "-----BEGIN KEY-----\nMII=\n+/a\n-----END KEY-----\n";
        for value in [
            "pa$w0rd",
            "a$$b",
            "x${Y}z",
            "end$",
            "C:\\dir\\",
            "it's \\' ok",
            "a\\nb",
            pem,
            "a #b",
            "\"",
            "é\t",
            "a\r\nb",
            " x ",
        ] {
            let text = edited("# c\nA=1\n", &[("A", Wish::Set(value)), ("Z", Wish::Set(value))]).unwrap();
            assert_eq!(read(&text, "A").as_deref(), Some(value));
            assert_eq!(read(&text, "Z").as_deref(), Some(value));
            assert_eq!(Document::parse(&text).unwrap().statements().len(), 2, "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_refused_without_its_value() {
        let refused =
            |text: &str, key: &str, value: &str| edited(text, &[(key, Wish::Set(value))]).unwrap_err().to_string();
        for value in ["`canary'", "canary`\\", "canary\0"] {
            let message = refused("A=1\n", "A", value);
            assert!(message.starts_with("the value of `A` holds") && !message.contains("canary"), "{message}");
        }
        for key in ["", "1A", "A-B", "A B", "Ä", "A=B", ".*"] {
            assert!(refused("A=1\n", key, "x").contains("cannot be a key"), "{key}");
        }
        assert_eq!(refused("A=1\nB='open\n", "A", "2"), "line 2: unterminated quoted value");
    }

    #[test]
    fn a_required_reference_elsewhere_does_not_stop_an_edit() {
        check("A=${X:?say why}\n", &[("B", Wish::Set("1"))], "A=${X:?say why}\nB=1\n");
    }

    /// Lines that a `.env` may hold.
    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            Just("# comment = 'x".to_owned()),
            Just("  # indented".to_owned()),
            Just("WORD".to_owned()),
            (
                "(export )?[A-D] ?[=:] ?",
                prop_oneof!["[a-z0-9 $B#\\\\]{0,6}", "'[a-z $\"#\n\\\\]{0,5}x'", "\"[a-z '#\n]{0,6}\""],
                "(| # note|#x|\t# y|  )"
            )
                .prop_map(|(name, value, after)| format!("{name}{value}{after}")),
        ]
    }

    proptest! {
        #[test]
        fn any_file_keeps_all_but_the_one_value(
            lines in prop::collection::vec(line(), 0..8),
            ends in prop::sample::select(vec!["\n", "\r\n"]),
            last in prop::bool::ANY,
            key in "[A-E]",
            value in "[ -~\n\ré'\"\\\\$#]{0,10}",
        ) {
            let mut text = lines.join(ends);
            if last { text.push_str(ends); }
            let Ok(before) = Document::parse(&text) else { return Ok(()) };
            if let Ok(new) = edited(&text, &[(&key, Wish::Set(&value))]) {
                let read_back = read(&new, &key);
                prop_assert_eq!(read_back.as_deref(), Some(value.as_str()));
                // Outside of one place, byte for byte the same.
                let same_start = text.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
                let same_end = text.bytes().rev().zip(new.bytes().rev()).take_while(|(a, b)| a == b).count();
                let changed = text.len().saturating_sub(same_start + same_end);
                let longest = before.statements().iter().filter(|s| s.name == key).filter_map(|s| s.value.as_ref()).map(|v| v.span.len()).max().unwrap_or(0);
                prop_assert!(changed <= longest, "{:?} became {:?}", text, new);
                // And there and back again.
                let again = edited(&new, &[(&key, Wish::Set(&value))]).unwrap();
                prop_assert_eq!(again, new);
            }
            if let Ok(new) = edited(&text, &[(&key, Wish::Unset)]) {
                prop_assert_eq!(read(&new, &key), None);
                let is_comment = |line: &&str| line.trim_start().starts_with('#');
                let quoted = text.contains(['\'', '"']);
                if !quoted {
                    prop_assert_eq!(text.lines().filter(is_comment).count(), new.lines().filter(is_comment).count());
                }
            }
        }
    }
}
