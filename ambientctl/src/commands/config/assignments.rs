//! The words of `config set`: keys and where their values come from.

use ambient_settings::find;

use super::files_failure;
use crate::files::FilesError;
use crate::files::dotenv::is_key;
use crate::output::{Exit, Failure};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The command line.
    Word(String),
    /// Standard input, to its end.
    Stdin,
    /// A prompt that does not show what is typed.
    Prompt,
}

#[derive(Debug, thiserror::Error)]
enum WordsError {
    #[error("`{0}` stands there twice")]
    Twice(String),
    #[error("more than one key takes its value from stdin")]
    StdinTwice,
    #[error("`{0}` has no value")]
    NoValue(String),
    #[error("could not read the value of `{key}`")]
    Read {
        key: String,
        #[source]
        source: std::io::Error,
    },
}

/// Takes the words apart: `KEY=VALUE`, or `KEY` and the word behind it, `-` being stdin; a last `KEY` alone is asked for.
pub(super) fn parse(words: &[String]) -> Result<Vec<(String, Source)>, Failure> {
    let usage = |error: WordsError| Failure::new(Exit::Usage, error);
    let mut assignments: Vec<(String, Source)> = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (key, source) = match word.split_once('=') {
            Some((key, value)) if is_key(key) => (key.to_owned(), Source::Word(value.to_owned())),
            _ => {
                let source = match words.next() {
                    Some(value) if value == "-" => Source::Stdin,
                    Some(value) => Source::Word(value.clone()),
                    None => Source::Prompt,
                };
                (word.clone(), source)
            }
        };
        if !is_key(&key) {
            return Err(files_failure(FilesError::Key(key)));
        }
        if assignments.iter().any(|(known, _)| *known == key) {
            return Err(usage(WordsError::Twice(key)));
        }
        if source == Source::Stdin && assignments.iter().any(|(_, source)| *source == Source::Stdin) {
            return Err(usage(WordsError::StdinTwice).hint("set one key at a time this way"));
        }
        assignments.push((key, source));
    }
    Ok(assignments)
}

/// What is asked and read, so that a test can answer.
pub(super) trait Ask {
    /// Standard input to its end.
    fn stdin(&mut self) -> std::io::Result<String>;
    /// Asks for a value without showing it; `None` when nobody is there to answer.
    fn hidden(&mut self, key: &str) -> std::io::Result<Option<String>>;
}

/// Gets every value.
pub(super) fn values(assignments: Vec<(String, Source)>, ask: &mut dyn Ask) -> Result<Vec<(String, String)>, Failure> {
    assignments
        .into_iter()
        .map(|(key, source)| {
            let failed = |source| Failure::new(Exit::Unhealthy, WordsError::Read { key: key.clone(), source });
            let value = match source {
                Source::Word(value) => value,
                Source::Stdin => without_line_end(ask.stdin().map_err(failed)?),
                Source::Prompt => ask.hidden(&key).map_err(failed)?.ok_or_else(|| {
                    Failure::new(Exit::Usage, WordsError::NoValue(key.clone()))
                        .hint(format!("`ambientctl config set {key} VALUE`, or `{key} -` to read it from stdin"))
                })?,
            };
            Ok((key, value))
        })
        .collect()
}

/// What a shell's `$(…)` would give, but for one line end only: a value may well end in an empty line.
fn without_line_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

/// Whether a value may be shown. Keys that are no settings are judged by their names.
pub(crate) fn is_secret(key: &str) -> bool {
    const TELLING: [&str; 8] =
        ["KEY", "SECRET", "PASSWORD", "PASSWD", "TOKEN", "CREDENTIAL", "DATABASE_URL", "REDIS_URL"];
    match find(key) {
        Some(setting) => setting.is_secret(),
        None => TELLING.iter().any(|word| key.to_ascii_uppercase().contains(word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Vec<(String, Source)>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        parse(&words).map_err(|failure| failure.text())
    }

    fn word(key: &str, value: &str) -> (String, Source) {
        (key.to_owned(), Source::Word(value.to_owned()))
    }

    #[test]
    fn all_ways_of_writing_an_assignment_mix() {
        assert_eq!(
            parsed(&["A", "1", "B=x=y", "C", "D=2"]),
            Ok(vec![word("A", "1"), word("B", "x=y"), word("C", "D=2")])
        );
        assert_eq!(parsed(&["A="]), Ok(vec![word("A", "")]));
        assert_eq!(
            parsed(&["A", "-", "B"]),
            Ok(vec![("A".to_owned(), Source::Stdin), ("B".to_owned(), Source::Prompt)])
        );
        for (words, expected) in [
            (vec!["A", "1", "A=2"], "`A` stands there twice"),
            (vec!["A", "-", "B", "-"], "more than one key takes its value from stdin"),
            (vec!["1A", "x"], "`1A` cannot be a key"),
            (vec![".*", "x"], "`.*` cannot be a key"),
        ] {
            assert!(parsed(&words).unwrap_err().contains(expected), "{words:?}");
        }
    }

    struct Answers(Option<&'static str>);

    impl Ask for Answers {
        fn stdin(&mut self) -> std::io::Result<String> {
            Ok("from stdin\n\n".to_owned())
        }

        fn hidden(&mut self, _key: &str) -> std::io::Result<Option<String>> {
            Ok(self.0.map(str::to_owned))
        }
    }

    #[test]
    fn values_come_from_where_they_are() {
        let sources = vec![("A".to_owned(), Source::Stdin), ("B".to_owned(), Source::Prompt)];
        let all = values(sources, &mut Answers(Some("typed"))).unwrap();
        assert_eq!(all, [("A".to_owned(), "from stdin\n".to_owned()), ("B".to_owned(), "typed".to_owned())]);
        let failure = values(vec![("B".to_owned(), Source::Prompt)], &mut Answers(None)).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        assert!(failure.text().contains("`B -` to read it from stdin"));
    }

    #[test]
    fn secrets_are_known_by_catalogue_or_by_name() {
        for key in ["LLM_API_KEY", "API_KEY", "POSTGRES_PASSWORD", "my_token", "AUTH_SECRET", "DATABASE_URL"] {
            assert!(is_secret(key), "{key}");
        }
        for key in ["LLM_BASE_URL", "AMBIENT_ENGINE_PORT", "SANDBOX_BACKEND"] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
