//! The one rendering of a failure: what happened, because of what, and what to do about it.

use std::error::Error;

use serde_json::json;

use super::Exit;

/// A command that could not do its work. The remedy is attached where the error meets the command.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    error: Box<dyn Error + Send + Sync>,
    details: Vec<String>,
    hints: Vec<String>,
}

impl Failure {
    /// A failure with its exit code.
    pub fn new(exit: Exit, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { exit, error: error.into(), details: Vec::new(), hints: Vec::new() }
    }

    /// The same with a remedy: a command to run or a setting to change.
    #[must_use]
    pub fn hint(mut self, remedy: impl Into<String>) -> Self {
        self.hints.push(remedy.into());
        self
    }

    /// The same with what somebody else said about it, such as the end of a log.
    #[must_use]
    pub fn detail(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(lines);
        self
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// The error and its causes on one line, without the remedies.
    pub fn summary(&self) -> String {
        let causes = self.causes();
        std::iter::once(self.error.to_string()).chain(causes).collect::<Vec<_>>().join(": ")
    }

    /// For people: the error, its causes a line each, then the remedies.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("error: {}", self.error)];
        lines.extend(self.causes().into_iter().map(|cause| format!("  because: {cause}")));
        lines.extend(self.details.iter().map(|detail| format!("  | {detail}")));
        if !self.hints.is_empty() {
            lines.push(String::new());
        }
        lines.extend(self.hints.iter().map(|hint| format!("hint: {hint}")));
        lines.push(String::new());
        lines.join("\n")
    }

    /// For programs: one document of a stable shape.
    pub fn json(&self) -> String {
        let error = json!({
            "message": self.error.to_string(),
            "causes": self.causes(),
            "details": self.details,
            "hints": self.hints,
            "exit_code": self.exit.code(),
        });
        json!({ "error": error }).to_string()
    }

    /// The chain of causes. A cause that only repeats what stands above it is left out.
    fn causes(&self) -> Vec<String> {
        let mut causes: Vec<String> = Vec::new();
        let mut above = self.error.to_string();
        let mut next = self.error.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !above.contains(&text) {
                causes.push(text.clone());
            }
            above = text;
            next = cause.source();
        }
        causes
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not start `{program}`")]
    struct Start {
        program: &'static str,
        #[source]
        source: io::Error,
    }

    fn refused() -> Failure {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, "permission denied");
        Failure::new(Exit::Unreachable, Start { program: "/usr/bin/ffmpeg", source })
            .hint("`chmod +x /usr/bin/ffmpeg`, or put another ffmpeg first in PATH")
    }

    #[test]
    fn a_failure_tells_its_cause_and_its_remedy() {
        assert_eq!(
            refused().text(),
            "error: could not start `/usr/bin/ffmpeg`\n  because: permission denied\n\n\
             hint: `chmod +x /usr/bin/ffmpeg`, or put another ffmpeg first in PATH\n"
        );
    }

    #[test]
    fn the_document_holds_the_same() {
        let document: serde_json::Value = serde_json::from_str(&refused().json()).unwrap();
        assert_eq!(document["error"]["message"], "could not start `/usr/bin/ffmpeg`");
        assert_eq!(document["error"]["causes"], serde_json::json!(["permission denied"]));
        assert_eq!(document["error"]["exit_code"], 3);
    }

    #[test]
    fn a_cause_that_repeats_its_effect_is_told_once() {
        let inner = io::Error::other("disk is full");
        let outer = io::Error::other(Start { program: "x", source: inner });
        // `io::Error::other` shows its payload's text and has the payload's source as its own.
        assert_eq!(Failure::new(Exit::Internal, outer).causes(), ["disk is full"]);
    }
}
