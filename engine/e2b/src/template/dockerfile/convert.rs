//! Instructions of a Dockerfile as steps of a template.

use std::collections::BTreeMap;

use super::lines::{Instruction, bad, is_blank, is_json, mark, parse, raw_words};
use super::words::Lexer;
use super::{heredoc, lines};
use crate::error::Error;
use crate::template::shell::join;

/// What a Dockerfile asks for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::template) struct Converted {
    pub(in crate::template) image: String,
    pub(in crate::template) steps: Vec<Planned>,
    pub(in crate::template) start_command: Option<String>,
    /// What was left out, for whoever wonders.
    pub(in crate::template) notices: Vec<String>,
}

/// One step, before files are looked at.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::template) enum Planned {
    Run { command: String, user: Option<String> },
    Copy { source: String, dest: String, owner: Option<String>, mode: Option<u32> },
    Env(Vec<(String, String)>),
    Workdir(String),
    User(String),
}

/// A command in one of Docker's two forms.
#[derive(Debug)]
enum Launch {
    Exec(Vec<String>),
    Shell(String),
}

/// Flags that change nothing in a build of E2B.
const RUN_IGNORED: [&str; 4] = ["mount", "network", "security", "device"];
const COPY_IGNORED: [&str; 6] = ["link", "exclude", "parents", "keep-git-dir", "checksum", "unpack"];

pub(in crate::template) fn convert(text: &str) -> Result<Converted, Error> {
    let parsed = parse(text)?;
    let mut converter = Converter { escape: parsed.escape, ..Converter::default() };
    let froms: Vec<_> = parsed.instructions.iter().filter(|one| one.name == "FROM").collect();
    let from = match froms.as_slice() {
        [from] => *from,
        [] => return Err(Error::BadTemplate { message: "the Dockerfile has no FROM".to_owned() }),
        [_, second, ..] => return Err(bad(second.line, "a second FROM; builds of several stages are not supported")),
    };
    converter.out.image = converter.from(from)?;
    // Docker begins as root in `/`.
    converter.out.steps.extend([Planned::User("root".to_owned()), Planned::Workdir("/".to_owned())]);
    for instruction in &parsed.instructions {
        if instruction.line < from.line && instruction.name != "ARG" {
            return Err(bad(instruction.line, format_args!("{} before FROM", instruction.name)));
        }
        converter.take(instruction)?;
    }
    Ok(converter.finish())
}

#[derive(Default)]
struct Converter {
    escape: char,
    out: Converted,
    variables: BTreeMap<String, String>,
    has_user: bool,
    has_workdir: bool,
    command: Option<Launch>,
    entrypoint: Option<Launch>,
}

impl Converter {
    fn take(&mut self, one: &Instruction) -> Result<(), Error> {
        match one.name.as_str() {
            "RUN" => self.run(one)?,
            "COPY" | "ADD" => self.copy(one)?,
            "ENV" => self.env(one)?,
            "ARG" => self.arg(one)?,
            "WORKDIR" => {
                let path = self.single(one)?;
                self.out.steps.push(Planned::Workdir(path));
                self.has_workdir = true;
            }
            "USER" => {
                let name = self.single(one)?;
                self.out.steps.push(Planned::User(name));
                self.has_user = true;
            }
            "CMD" => self.command = self.launch(one)?,
            "ENTRYPOINT" => self.entrypoint = self.launch(one)?,
            // FROM has been taken; the rest tells of an image what a template does not keep.
            "FROM" | "EXPOSE" | "VOLUME" | "LABEL" | "MAINTAINER" => {}
            other => self.out.notices.push(format!("line {}: {other} has no meaning in a template", one.line)),
        }
        Ok(())
    }

    fn finish(mut self) -> Converted {
        let command = match (self.entrypoint.take(), self.command.take()) {
            (Some(Launch::Exec(mut words)), command) => {
                match command {
                    Some(Launch::Exec(more)) => words.extend(more),
                    Some(Launch::Shell(line)) => words.extend(["/bin/sh".to_owned(), "-c".to_owned(), line]),
                    None => {}
                }
                Some(join(&words))
            }
            // An entry point for the shell takes no arguments.
            (Some(Launch::Shell(line)), _) | (None, Some(Launch::Shell(line))) => Some(line),
            (None, Some(Launch::Exec(words))) => Some(join(&words)),
            (None, None) => None,
        };
        self.out.start_command = command.filter(|command| !command.trim().is_empty());
        if !self.has_user {
            self.out.steps.push(Planned::User("user".to_owned()));
        }
        if !self.has_workdir {
            self.out.steps.push(Planned::Workdir("/home/user".to_owned()));
        }
        self.out
    }

    fn from(&mut self, one: &Instruction) -> Result<String, Error> {
        self.flags(one, &[], &["platform"])?;
        let words: Vec<_> = one.rest.split(is_blank).filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            [image] => self.expand(one, image),
            [image, as_word, _stage] if as_word.eq_ignore_ascii_case("as") => self.expand(one, image),
            _ => Err(bad(one.line, "FROM takes an image, and `AS` with a name at most")),
        }
    }

    fn run(&mut self, one: &Instruction) -> Result<(), Error> {
        self.flags(one, &[], &RUN_IGNORED)?;
        let command = match launch_of(one)? {
            None => return Err(bad(one.line, "RUN without a command")),
            Some(Launch::Exec(words)) if words.is_empty() => return Err(bad(one.line, "RUN without a command")),
            Some(Launch::Exec(words)) => join(&words),
            Some(Launch::Shell(line)) if one.heredocs.is_empty() => line,
            Some(Launch::Shell(line)) => heredoc::run(&line, &one.heredocs),
        };
        self.out.steps.push(Planned::Run { command, user: None });
        Ok(())
    }

    fn copy(&mut self, one: &Instruction) -> Result<(), Error> {
        let flags = self.flags(one, &["chown", "chmod", "from"], &COPY_IGNORED)?;
        if flags.contains_key("from") {
            return Err(bad(one.line, format_args!("{} --from; builds of several stages are not supported", one.name)));
        }
        let owner = flags.get("chown").map(|owner| self.expand(one, owner)).transpose()?;
        let mode = flags.get("chmod").map(|mode| self.mode(one, mode)).transpose()?;
        let words = match strings(one)? {
            Some(words) => words,
            None => raw_words(&one.rest, self.escape),
        };
        let Some((dest, sources)) = words.split_last().filter(|(_, sources)| !sources.is_empty()) else {
            return Err(bad(one.line, format_args!("{} takes a source and a destination at least", one.name)));
        };
        if mark(dest).is_some() {
            return Err(bad(one.line, "a here-document is no destination"));
        }
        let dest = self.expand(one, dest)?;
        for source in sources {
            if let Some(named) = mark(source) {
                let Some(heredoc) = one.heredocs.iter().find(|heredoc| heredoc.name == named.name) else {
                    return Err(bad(one.line, format_args!("no text for the here-document `{}`", named.name)));
                };
                let command = heredoc::copy(heredoc, &dest, owner.as_deref(), mode, one.line)?;
                // Docker copies as root, whoever the user is.
                self.out.steps.push(Planned::Run { command, user: Some("root".to_owned()) });
                continue;
            }
            let source = self.expand(one, source)?;
            if one.name == "ADD" && is_remote(&source) {
                return Err(bad(one.line, format_args!("ADD from `{source}`; only files of the context can be added")));
            }
            let (dest, owner) = (dest.clone(), owner.clone());
            self.out.steps.push(Planned::Copy { source, dest, owner, mode });
        }
        Ok(())
    }

    fn mode(&self, one: &Instruction, text: &str) -> Result<u32, Error> {
        let lexer = Lexer { variables: Some(&self.variables), ..Lexer::plain(self.escape) };
        let resolved = lexer.word(text).map_err(|reason| bad(one.line, reason))?;
        let is_octal = matches!(resolved.len(), 3 | 4) && resolved.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
        match u32::from_str_radix(&resolved, 8) {
            Ok(mode) if is_octal => Ok(mode),
            _ => Err(bad(one.line, format_args!("`{text}` is no octal mode such as 0755"))),
        }
    }

    fn env(&mut self, one: &Instruction) -> Result<(), Error> {
        self.flags(one, &[], &[])?;
        let words = raw_words(&one.rest, self.escape);
        let mut pairs = Vec::new();
        match words.first() {
            None => return Err(bad(one.line, "ENV takes a variable at least")),
            // The form of old: a name, and the rest of the line.
            Some(first) if !first.contains('=') => {
                let Some(at) = one.rest.find(is_blank) else {
                    return Err(bad(one.line, format_args!("ENV `{first}` without a value")));
                };
                pairs.push((one.rest[..at].to_owned(), one.rest[at..].trim_start_matches(is_blank).to_owned()));
            }
            Some(_) => {
                for word in &words {
                    let Some((name, value)) = word.split_once('=') else {
                        return Err(bad(one.line, format_args!("`{word}` has no `=`")));
                    };
                    pairs.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        self.variables(one, pairs)
    }

    fn arg(&mut self, one: &Instruction) -> Result<(), Error> {
        self.flags(one, &[], &[])?;
        let words = raw_words(&one.rest, self.escape);
        if words.is_empty() {
            return Err(bad(one.line, "ARG takes a variable at least"));
        }
        let pairs = words
            .iter()
            .map(|word| word.split_once('=').unwrap_or((word, "")))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        self.variables(one, pairs)
    }

    fn variables(&mut self, one: &Instruction, raw: Vec<(String, String)>) -> Result<(), Error> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (name, raw_value) in raw {
            let name = self.expand(one, &name)?;
            if name.is_empty() {
                return Err(bad(one.line, format_args!("{} with an empty name", one.name)));
            }
            let value = self.expand(one, &raw_value)?;
            let lexer = Lexer { variables: Some(&self.variables), ..Lexer::plain(self.escape) };
            match lexer.word(&raw_value) {
                Ok(known) => self.variables.insert(name.clone(), known),
                // What only the build's shell can work out is not known here.
                Err(_reason) => self.variables.remove(&name),
            };
            match pairs.iter_mut().find(|(known, _)| *known == name) {
                Some((_, old)) => *old = value,
                None => pairs.push((name, value)),
            }
        }
        self.out.steps.push(Planned::Env(pairs));
        Ok(())
    }

    fn launch(&mut self, one: &Instruction) -> Result<Option<Launch>, Error> {
        self.flags(one, &[], &[])?;
        launch_of(one)
    }

    fn single(&mut self, one: &Instruction) -> Result<String, Error> {
        self.flags(one, &[], &[])?;
        if one.rest.is_empty() {
            return Err(bad(one.line, format_args!("{} takes one argument", one.name)));
        }
        self.expand(one, &one.rest)
    }

    fn expand(&self, one: &Instruction, text: &str) -> Result<String, Error> {
        Lexer::plain(self.escape).word(text).map_err(|reason| bad(one.line, reason))
    }

    /// The flags that are heeded; those that are not are told.
    fn flags<'a>(
        &mut self,
        one: &'a Instruction,
        heeded: &[&str],
        ignored: &[&str],
    ) -> Result<BTreeMap<&'a str, &'a str>, Error> {
        let mut values = BTreeMap::new();
        for flag in &one.flags {
            let body = flag.trim_start_matches("--");
            let (name, value) = body.split_once('=').map_or((body, None), |(name, value)| (name, Some(value)));
            if ignored.contains(&name) {
                self.out.notices.push(format!("line {}: {} --{name} is ignored", one.line, one.name));
                continue;
            }
            if !heeded.contains(&name) {
                return Err(bad(one.line, format_args!("the unknown flag `--{name}`")));
            }
            let Some(value) = value else {
                return Err(bad(one.line, format_args!("the flag `--{name}` without a value")));
            };
            if values.insert(name, value).is_some() {
                return Err(bad(one.line, format_args!("the flag `--{name}` twice")));
            }
        }
        Ok(values)
    }
}

/// A command in either form, `None` when there is none.
fn launch_of(one: &Instruction) -> Result<Option<Launch>, Error> {
    Ok(match strings(one)? {
        Some(words) => Some(Launch::Exec(words)),
        None if one.rest.is_empty() => None,
        None => Some(Launch::Shell(one.rest.clone())),
    })
}

/// The strings of an instruction in JSON, `None` when it is a line.
fn strings(one: &lines::Instruction) -> Result<Option<Vec<String>>, Error> {
    if !is_json(&one.rest) {
        return Ok(None);
    }
    serde_json::from_str(&one.rest)
        .map(Some)
        .map_err(|_not_strings| bad(one.line, "an array that holds something else than strings"))
}

fn is_remote(source: &str) -> bool {
    let Some((scheme, _)) = source.split_once("://") else { return false };
    let mut chars = scheme.chars();
    chars.next().is_some_and(|ch| ch.is_ascii_alphabetic())
        && chars.all(|ch| ch.is_ascii_alphanumeric() || matches!(ch, '+' | '.' | '-'))
}
