//! Where text goes: data to stdout, all else to stderr.

use std::io::{self, Write};

use super::Failure;

/// How a command speaks, chosen by the words `--json` and `--quiet`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Printer {
    /// One JSON document instead of text, failures too.
    pub json: bool,
    /// Neither notes nor warnings.
    pub quiet: bool,
}

impl Printer {
    /// The same without notes and warnings, for what another command says at a better time.
    #[must_use]
    pub fn quietly(self) -> Self {
        Self { quiet: true, ..self }
    }

    /// Data, and a line break. A reader that went away is no failure of the command.
    pub fn data(&self, text: &str) {
        let _reader_may_be_gone = self.line(text);
    }

    /// The same for a command that goes on and on: whether anybody still reads.
    #[must_use]
    pub fn line(&self, text: &str) -> bool {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{text}").and_then(|()| stdout.flush()).is_ok()
    }

    /// Data as it is, such as a script.
    pub fn raw(&self, bytes: &[u8]) {
        let mut stdout = io::stdout().lock();
        let _reader_may_be_gone = stdout.write_all(bytes).and_then(|()| stdout.flush());
    }

    /// Something that works, but perhaps not as meant.
    pub fn warning(&self, text: &str) {
        if !self.quiet {
            to_stderr(&format!("warning: {text}\n"));
        }
    }

    /// Something to know on the way; no data and no trouble.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            to_stderr(&format!("{text}\n"));
        }
    }

    /// Why the command failed. With `--json` it is the command's one document, on stdout like every other.
    pub fn failure(&self, failure: &Failure) {
        if self.json {
            self.data(&failure.json());
        } else {
            to_stderr(&failure.text());
        }
    }
}

fn to_stderr(text: &str) {
    let _reader_may_be_gone = io::stderr().lock().write_all(text.as_bytes());
}
