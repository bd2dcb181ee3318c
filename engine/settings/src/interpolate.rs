//! The `$` grammar that Docker Compose uses both in `.env` values and in its YAML: `$X`, `${X}`, defaults, alternatives,
//! required names, and `$$` for a dollar.
//!
//! A template is parsed first and evaluated second, so that a mistake anywhere in it is found whatever is set, and so that
//! a default that is not needed is never evaluated (as in Compose since v5.0.2).

use std::iter::Peekable;
use std::str::CharIndices;

/// Looks names up; `None` is a name that is not set, which differs from one that is set to nothing.
pub type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Why a template has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterpolateError {
    /// Braces that are not closed or hold no proper name.
    #[error("invalid `$` expression; write `$$` for a dollar sign that is data")]
    Invalid,
    /// `${NAME:?message}` and the name is not set (or is empty, with the colon).
    #[error("required variable `{variable}` is missing a value{}", if message.is_empty() { String::new() } else { format!(": {message}") })]
    Required {
        /// The name.
        variable: String,
        /// The message, with its own references replaced.
        message: String,
    },
}

/// How deep defaults may nest: far more than anybody writes, and few enough for the stack.
const DEEPEST: usize = 100;

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Reference { name: String, rule: Rule },
}

/// What happens to a reference; `colon` treats an empty value like one that is not set.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Plain,
    Default { colon: bool, otherwise: Template },
    Alternative { colon: bool, instead: Template },
    Required { colon: bool, message: Template },
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// [`InterpolateError::Invalid`] for braces without an end or without a proper name in them.
    pub fn parse(text: &str) -> Result<Self, InterpolateError> {
        Self::parse_nested(text, 0)
    }

    fn parse_nested(text: &str, depth: usize) -> Result<Self, InterpolateError> {
        if depth > DEEPEST {
            return Err(InterpolateError::Invalid);
        }
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut letters = text.char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            if letter != '$' {
                plain.push(letter);
                continue;
            }
            match letters.peek() {
                Some((_, '$')) => {
                    letters.next();
                    plain.push('$');
                }
                Some((_, '{')) => {
                    let inside = at + 2;
                    let length = braced_length(&text[inside..]).ok_or(InterpolateError::Invalid)?;
                    flush(&mut plain, &mut pieces);
                    pieces.push(braced(&text[inside..inside + length], depth)?);
                    skip_to(&mut letters, inside + length + 1);
                }
                Some((_, first)) if starts_a_name(*first) => {
                    let name = leading_name(&text[at + 1..]);
                    flush(&mut plain, &mut pieces);
                    pieces.push(Piece::Reference { name: name.to_owned(), rule: Rule::Plain });
                    skip_to(&mut letters, at + 1 + name.len());
                }
                _ => plain.push('$'),
            }
        }
        flush(&mut plain, &mut pieces);
        Ok(Self(pieces))
    }

    /// The template's value.
    ///
    /// # Errors
    /// [`InterpolateError::Required`] for a required name without a value.
    pub fn value(&self, lookup: &Lookup<'_>) -> Result<String, InterpolateError> {
        let mut value = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => value.push_str(text),
                Piece::Reference { name, rule } => value.push_str(&rule.value(name, lookup)?),
            }
        }
        Ok(value)
    }

    /// The names outside defaults that become empty when they are not set: `$X` and `${X}`.
    pub fn plain_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Reference { name, rule: Rule::Plain } => Some(name.as_str()),
            Piece::Reference { .. } | Piece::Text(_) => None,
        })
    }
}

impl Rule {
    fn value(&self, name: &str, lookup: &Lookup<'_>) -> Result<String, InterpolateError> {
        let found = lookup(name);
        let counts = |colon: bool| found.as_deref().is_some_and(|value| !(colon && value.is_empty()));
        match self {
            Self::Default { colon, otherwise } if !counts(*colon) => otherwise.value(lookup),
            Self::Alternative { colon, instead } => {
                if counts(*colon) {
                    instead.value(lookup)
                } else {
                    Ok(String::new())
                }
            }
            Self::Required { colon, message } if !counts(*colon) => {
                Err(InterpolateError::Required { variable: name.to_owned(), message: message.value(lookup)? })
            }
            Self::Plain | Self::Default { .. } | Self::Required { .. } => Ok(found.unwrap_or_default()),
        }
    }
}

/// Parses and evaluates in one step.
///
/// # Errors
/// See [`Template::parse`] and [`Template::value`].
pub fn interpolate(text: &str, lookup: &Lookup<'_>) -> Result<String, InterpolateError> {
    Template::parse(text)?.value(lookup)
}

fn flush(plain: &mut String, pieces: &mut Vec<Piece>) {
    if !plain.is_empty() {
        pieces.push(Piece::Text(std::mem::take(plain)));
    }
}

fn skip_to(letters: &mut Peekable<CharIndices<'_>>, offset: usize) {
    while letters.next_if(|(at, _)| *at < offset).is_some() {}
}

fn starts_a_name(letter: char) -> bool {
    letter.is_ascii_alphabetic() || letter == '_'
}

/// The name at the start of `text`, empty when there is none.
fn leading_name(text: &str) -> &str {
    if !text.starts_with(starts_a_name) {
        return "";
    }
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len());
    &text[..end]
}

/// How many bytes stand between `${` and the brace that closes it; `None` when no brace does on that line.
///
/// Braces in between are counted the way Compose counts them: the letter behind an opening brace is passed over, so that
/// `{}` and `{{` count as one opening brace, and when the count never comes out even, the last brace of the line closes.
fn braced_length(text: &str) -> Option<usize> {
    let line = text.split('\n').next().unwrap_or_default();
    let last = line.rfind('}')?;
    let mut open = 1_usize;
    // The brace before `text` is an opening one too.
    let mut passed_over = true;
    for (at, byte) in line.bytes().enumerate() {
        match byte {
            _ if passed_over => passed_over = false,
            b'}' if open == 1 => return Some(at),
            b'}' => open -= 1,
            b'{' => {
                open += 1;
                passed_over = true;
            }
            _ => {}
        }
    }
    Some(last)
}

/// The inside of `${…}`: a name, or a name, an operator and a template.
fn braced(inside: &str, depth: usize) -> Result<Piece, InterpolateError> {
    let name = leading_name(inside);
    if name.is_empty() {
        return Err(InterpolateError::Invalid);
    }
    let rest = &inside[name.len()..];
    let (colon, operation) = rest.strip_prefix(':').map_or((false, rest), |after| (true, after));
    let mut letters = operation.chars();
    let inner = |text| Template::parse_nested(text, depth + 1);
    let rule = match letters.next() {
        None if !colon => Rule::Plain,
        Some('-') => Rule::Default { colon, otherwise: inner(letters.as_str())? },
        Some('+') => Rule::Alternative { colon, instead: inner(letters.as_str())? },
        Some('?') => Rule::Required { colon, message: inner(letters.as_str())? },
        _ => return Err(InterpolateError::Invalid),
    };
    Ok(Piece::Reference { name: name.to_owned(), rule })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(template: &str, expected: &Result<String, InterpolateError>) {
        let lookup = |name: &str| match name {
            "SET" => Some("value".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        assert_eq!(&interpolate(template, &lookup), expected, "{template}");
    }

    #[test]
    fn a_default_that_is_not_needed_is_not_evaluated() {
        check("${SET:-${OTHER:?not there}}", &Ok("value".to_owned()));
        check("${SET+${OTHER-x}}", &Ok("x".to_owned()));
        check("${OTHER+${OTHER:?not there}}", &Ok(String::new()));
    }

    #[test]
    fn braces_are_counted_as_compose_counts_them() {
        // The letter behind an opening brace is passed over, so `{}` opens and does not close.
        check("${OTHER:-{}", &Ok("{".to_owned()));
        check("${OTHER:-{{.Names}}}", &Ok("{{.Names}}".to_owned()));
        check("${SET:-{{.Names}}}", &Ok("value}".to_owned()));
        check("${OTHER:-a}\n}", &Ok("a\n}".to_owned()));
        check("${OTHER:-a\n}", &Err(InterpolateError::Invalid));
    }

    #[test]
    fn names_that_would_become_empty_are_told() {
        let template = Template::parse("$A ${B} ${C-x} ${D:+$E} text").unwrap();
        assert_eq!(template.plain_names().collect::<Vec<_>>(), ["A", "B"]);
    }

    #[test]
    fn nesting_without_end_is_refused_instead_of_filling_the_stack() {
        let levels = 20_000;
        let template = format!("{}x{}", "${A:-".repeat(levels), "}".repeat(levels));
        check(&template, &Err(InterpolateError::Invalid));
        let few = 50;
        check(&format!("{}x{}", "${A:-".repeat(few), "}".repeat(few)), &Ok("x".to_owned()));
    }

    proptest! {
        #[test]
        fn any_text_is_itself_once_its_dollars_are_doubled(text in "(?s).{0,40}") {
            let value = interpolate(&text.replace('$', "$$"), &|_: &str| unreachable!("there is no reference"));
            prop_assert_eq!(value, Ok(text));
        }

        #[test]
        fn a_value_is_put_in_as_it_is(value in "(?s).{0,40}") {
            let lookup = |_: &str| Some(value.clone());
            prop_assert_eq!(interpolate("[${X}][$X]", &lookup), Ok(format!("[{value}][{value}]")));
        }

        #[test]
        fn no_template_panics(template in "[$A-C{}:?+\n é-]{0,30}") {
            let _either = interpolate(&template, &|_: &str| None);
        }
    }
}
