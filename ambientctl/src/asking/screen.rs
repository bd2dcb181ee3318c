//! What goes to the terminal while a question is answered: tool calls and progress to stderr, the answer to stdout.
//!
//! On a terminal the answer comes while it is written, as rendered Markdown. Elsewhere stdout holds the answer alone, as
//! the model wrote it, once it is known to be the answer: a remark before a tool call is not, and goes to stderr.

use std::io::{self, IsTerminal as _};

use serde_json::{Map, Value};

use super::markdown::{Blocks, Look, printable};
use super::turn::Watch;
use crate::engine_client::{ContentBlock, Event, EventBody, RetryStatus};
use crate::output::Printer;

/// Columns where the terminal does not tell.
const USUAL_COLUMNS: u16 = 80;
/// Characters of a line about a tool.
const LONGEST_NOTE: usize = 200;
/// Hundredths between two words about the same thing.
const STEP_PERCENT: u8 = 10;

/// Shows one run.
#[derive(Debug)]
pub(super) struct Screen {
    printer: Printer,
    shows_thinking: bool,
    /// How stdout looks, if it is a terminal that shows Markdown.
    terminal: Option<Look>,
    notes_are_styled: bool,
    /// The message that is coming.
    coming: Option<Coming>,
    /// The last whole message that is not on the terminal.
    held: Option<String>,
    progress: Option<(String, Option<u8>)>,
}

#[derive(Debug)]
struct Coming {
    id: String,
    shown: String,
    blocks: Blocks,
}

impl Screen {
    /// A screen as this process has it. `is_markdown` is false for answers of a given form, which are shown as they are.
    pub(super) fn new(printer: Printer, shows_thinking: bool, has_colour: bool, is_markdown: bool) -> Self {
        let is_shown = is_markdown && !printer.json && io::stdout().is_terminal();
        Self {
            printer,
            shows_thinking,
            terminal: is_shown.then(|| Look { columns: columns(), is_styled: has_colour }),
            notes_are_styled: has_colour && io::stderr().is_terminal(),
            coming: None,
            held: None,
            progress: None,
        }
    }

    /// Something to know on the way.
    pub(super) fn note(&self, text: &str) {
        let text = printable(text);
        if self.notes_are_styled {
            self.printer.note(&format!("\u{1b}[2m{text}\u{1b}[0m"));
        } else {
            self.printer.note(&text);
        }
    }

    /// Shows the answer, as far as it is not shown yet.
    pub(super) fn answer(&self, answer: &str) {
        if self.terminal.is_none() {
            self.printer.data(answer.trim_end());
        }
    }

    /// Leaves the terminal as it should be when a run ended in the middle of a message.
    pub(super) fn finish(&mut self) {
        if let Some(coming) = self.coming.take() {
            self.printer.raw(coming.blocks.finish().as_bytes());
        }
    }

    fn begin(&mut self, id: &str) {
        self.finish();
        if let Some(look) = self.terminal {
            self.coming = Some(Coming { id: id.to_owned(), shown: String::new(), blocks: Blocks::new(look) });
        }
    }

    fn piece(&mut self, id: &str, text: &str) {
        if let Some(coming) = self.coming.as_mut().filter(|coming| coming.id == id) {
            coming.shown.push_str(text);
            self.printer.raw(coming.blocks.push(text).as_bytes());
        }
    }

    fn message(&mut self, id: &str, text: String) {
        if self.terminal.is_none() {
            self.held = Some(text);
            return;
        }
        // What was shown of it may be only its beginning, where the connection broke.
        let rest = match &self.coming {
            Some(coming) if coming.id == id => text.strip_prefix(coming.shown.as_str()).map(str::to_owned),
            Some(_) | None => None,
        };
        if rest.is_none() {
            self.begin(id);
        }
        self.piece(id, rest.as_deref().unwrap_or(&text));
        self.finish();
    }

    fn tool(&mut self, name: &str, input: &Map<String, Value>) {
        if let Some(remark) = self.held.take().filter(|remark| !remark.trim().is_empty()) {
            self.note(remark.trim());
        }
        self.note(&shortened(&call_text(name, input)));
    }

    fn waits(&mut self, message: &str, percent: Option<u8>) {
        let step = percent.map(|percent| percent / STEP_PERCENT);
        let now = Some((message.to_owned(), step));
        if self.progress != now {
            self.progress = now;
            self.note(&match percent {
                Some(percent) => format!("{message}: {percent} %"),
                None => message.to_owned(),
            });
        }
    }
}

impl Watch for Screen {
    fn saw(&mut self, event: &Event) {
        let id = event.id.as_deref().unwrap_or_default();
        match &event.body {
            EventBody::PreviewStart { event } => self.begin(&event.id),
            EventBody::PreviewText { event_id, delta } => {
                self.piece(event_id, &ContentBlock::text_of(std::slice::from_ref(&delta.content)));
            }
            EventBody::Message { content } => self.message(id, ContentBlock::text_of(content)),
            EventBody::Thinking { content: Some(content) } if self.shows_thinking => {
                self.note(ContentBlock::text_of(content).trim());
            }
            EventBody::ToolUse { name, input } => self.tool(name, input),
            EventBody::ToolResult { content, is_error: true, .. } => {
                self.note(&shortened(&format!("  failed: {}", ContentBlock::text_of(content))));
            }
            EventBody::Progress { message, percent } => self.waits(message, *percent),
            EventBody::Failed { error } if error.retry_status == RetryStatus::Retrying => {
                self.note(&shortened(&format!("trying again: {}", error.message)));
            }
            EventBody::Thinking { .. }
            | EventBody::ToolResult { .. }
            | EventBody::Running {}
            | EventBody::Rescheduled {}
            | EventBody::Idle { .. }
            | EventBody::Terminated {}
            | EventBody::Deleted {}
            | EventBody::Failed { .. }
            | EventBody::ModelRequestEnd { .. }
            | EventBody::Other => {}
        }
    }
}

/// A call as one line: `focus_clip(start_time=4.0, end_time=12.0)`.
pub(crate) fn call_text(name: &str, input: &Map<String, Value>) -> String {
    let arguments: Vec<String> = input.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{name}({})", arguments.join(", "))
}

/// A text as one line that is not too long.
pub(crate) fn shortened(text: &str) -> String {
    let line = text.trim_end().replace('\n', " ");
    match line.char_indices().nth(LONGEST_NOTE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn columns() -> usize {
    let told = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| size.ws_col);
    usize::from(if told == 0 { USUAL_COLUMNS } else { told })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_is_one_short_line() {
        let input = json!({"query": "a\nb", "start_time": 4.0});
        let Value::Object(input) = input else { unreachable!("it is written as an object") };
        assert_eq!(call_text("search_clip", &input), r#"search_clip(query="a\nb", start_time=4.0)"#);
        assert_eq!(shortened(&"ä".repeat(LONGEST_NOTE + 5)).chars().count(), LONGEST_NOTE + 1);
        assert_eq!(shortened("a\nb\n"), "a b");
    }
}
