//! Texts in a Dockerfile as commands that a shell understands.

use super::lines::{Heredoc, bad, mark};
use crate::error::Error;
use crate::template::shell::quote;

/// The command of a `RUN` with here-documents. Alone, the text is the script; within a line, the line and its texts go to the shell as they are.
pub(super) fn run(line: &str, heredocs: &[Heredoc]) -> String {
    if let [heredoc] = heredocs
        && mark(line.trim()).is_some()
    {
        let content = heredoc.text();
        if !content.starts_with("#!") {
            return content;
        }
        let script = quote(&format!("/tmp/{}", heredoc.name));
        let end = end_word(&heredoc.name, &content);
        let content = with_newline(&content);
        return format!(
            "cat <<'{end}' >{script}\n{content}{end}\nchmod +x {script} && {script}\nE2B_EXIT=$?; rm -f {script}; exit $E2B_EXIT"
        );
    }
    let mut command = line.to_owned();
    for heredoc in heredocs {
        command.push('\n');
        command.push_str(&heredoc.content);
        command.push_str(&heredoc.name);
    }
    command
}

/// The command of a `COPY` whose source is a here-document: it writes the text, as root, to `dest` or into it.
pub(super) fn copy(
    heredoc: &Heredoc,
    dest: &str,
    owner: Option<&str>,
    mode: Option<u32>,
    line: usize,
) -> Result<String, Error> {
    const TARGET: &str = r#""$E2B_HEREDOC_DEST""#;
    let mut content = heredoc.text();
    if heredoc.expands {
        content = Body { chars: content.chars().collect(), at: 0, line }.read(None, false)?;
    }
    let end = end_word(&heredoc.name, &content);
    let opening = if heredoc.expands { end.clone() } else { format!("'{end}'") };
    let place = if dest.ends_with('/') {
        format!("E2B_HEREDOC_DEST={}\n", quote(&format!("{dest}{}", heredoc.name)))
    } else {
        let (dest, name) = (quote(dest), quote(&heredoc.name));
        format!("E2B_HEREDOC_DEST={dest}\nif [ -d {TARGET} ]; then E2B_HEREDOC_DEST={TARGET}/{name}; fi\n")
    };
    let content = with_newline(&content);
    let chown = owner.map_or_else(String::new, |owner| format!("\nchown {} {TARGET}", quote(owner)));
    let chmod = mode.map_or_else(String::new, |mode| format!("\nchmod {mode:o} {TARGET}"));
    Ok(format!("{place}mkdir -p \"$(dirname {TARGET})\" && cat <<{opening} >{TARGET}\n{content}{end}{chown}{chmod}"))
}

/// A word that ends a text and does not stand in it.
fn end_word(name: &str, content: &str) -> String {
    let plain: String = name.chars().map(|ch| if ch.is_ascii_alphanumeric() { ch } else { '_' }).collect();
    let mut word = format!("E2B_HEREDOC_{plain}");
    while content.contains(&word) {
        word.push('_');
    }
    word
}

fn with_newline(content: &str) -> String {
    let newline = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
    format!("{content}{newline}")
}

/// Rewrites a text so that the shell gives it the meaning that Docker does: variables are put in, the escape escapes whatever follows, and nothing else is
/// special, commands in it least of all.
struct Body {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Body {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn take(&mut self) -> Option<char> {
        let ch = self.peek()?;
        self.at += 1;
        Some(ch)
    }

    fn read(&mut self, stop: Option<char>, is_pattern: bool) -> Result<String, Error> {
        let mut text = String::new();
        while let Some(ch) = self.take() {
            match ch {
                _ if stop == Some(ch) => return Ok(text),
                '\\' => match self.take() {
                    Some(next) if is_pattern => text.extend(['\\', next]),
                    Some(next) => {
                        if matches!(next, '\\' | '`' | '$') || stop == Some(next) {
                            text.push('\\');
                        }
                        text.push(next);
                    }
                    None => {}
                },
                '$' => text.push_str(&self.variable()?),
                '`' => text.push_str("\\`"),
                _ => text.push(ch),
            }
        }
        match stop {
            Some(stop) => Err(bad(self.line, format_args!("a variable in a here-document ends before its `{stop}`"))),
            None => Ok(text),
        }
    }

    fn variable(&mut self) -> Result<String, Error> {
        if self.peek() != Some('{') {
            let name = self.name();
            return Ok(if name.is_empty() { "\\$".to_owned() } else { format!("${name}") });
        }
        self.take();
        if matches!(self.peek(), None | Some('{' | '}' | ':')) {
            return Err(bad(self.line, "a bad substitution in a here-document"));
        }
        let name = self.name();
        let ended = bad(self.line, "a variable in a here-document ends before its `}`");
        let Some(first) = self.take() else { return Err(ended) };
        let mut modifier = first.to_string();
        match first {
            '}' => return Ok(format!("${{{name}}}")),
            '/' => {
                if self.peek() == Some('/') {
                    modifier.extend(self.take());
                }
                let pattern = self.read(Some('/'), true)?;
                let text = self.read(Some('}'), true)?;
                return Ok(format!("${{{name}{modifier}{pattern}/{text}}}"));
            }
            ':' => match self.take() {
                Some(second) => modifier.push(second),
                None => return Err(ended),
            },
            _ => {}
        }
        let is_pattern = match modifier.as_str() {
            "+" | "-" | "?" | ":+" | ":-" | ":?" => false,
            "#" | "%" => true,
            _ => return Err(bad(self.line, format_args!("the unknown modifier `{modifier}` in a here-document"))),
        };
        let word = self.read(Some('}'), is_pattern)?;
        Ok(format!("${{{name}{modifier}{word}}}"))
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(ch) = self.peek() {
            let is_special = name.is_empty() && "@*#?-$!".contains(ch);
            let only_digits = !name.is_empty() && name.chars().all(|ch| ch.is_ascii_digit());
            let fits = if only_digits { ch.is_ascii_digit() } else { ch.is_alphanumeric() || ch == '_' };
            if !fits && !is_special {
                break;
            }
            name.push(ch);
            self.at += 1;
            if is_special {
                break;
            }
        }
        name
    }
}
