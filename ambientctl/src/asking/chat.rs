//! `ambientctl chat VIDEO`: one session, and a question for each line of stdin.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::json;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::lines::lines;
use super::opening::{Subject, until_signal};
use super::screen::Screen;
use super::turn::{Turn, turn};
use super::{AskError, ChatArgs};
use crate::engine_client::{Block, EngineClient, Message, Session};
use crate::output::{Exit, Failure, Printer};
use crate::signals::{Signals, TERMINATE};

/// Lines that end the conversation.
const FAREWELLS: &[&str] = &["/exit", "/quit", ":q"];
const PROMPT: &str = "> ";

/// A conversation that can begin: its files are there and were read.
#[derive(Clone, Debug)]
pub struct Conversation {
    subject: Subject,
    shows_thinking: bool,
}

impl Conversation {
    /// Checks the words and reads the files that they name; the video itself is only looked for.
    ///
    /// # Errors
    /// When a file cannot be read, or is not what it is to be.
    pub fn prepare(args: &ChatArgs) -> Result<Self, AskError> {
        let subject = Subject::prepare(&args.video, args.subtitles.as_deref(), &args.answer)?;
        Ok(Self { subject, shows_thinking: args.show_thinking })
    }
}

/// Answers line after line until stdin ends, or a line says `/exit`. A signal interrupts the answer under way; a second
/// one, or one while nothing is asked, leaves. With `--json` each answer is a document of one line.
///
/// A question that fails does not end the conversation; the exit code tells of it where nobody watched.
///
/// # Errors
/// When the session cannot be opened, or the engine does not answer any more.
pub async fn chat(
    conversation: &Conversation,
    engine: &EngineClient,
    signals: &mut Signals,
    printer: Printer,
    has_colour: bool,
) -> Result<Exit, Failure> {
    let stop = CancellationToken::new();
    let opening = conversation.subject.open(engine, &stop, printer);
    let session = until_signal(signals, &stop, |text| printer.note(text), opening).await?;
    let mut talk = Talk {
        conversation,
        engine,
        session,
        printer,
        has_colour,
        is_live: io::stdin().is_terminal() && io::stderr().is_terminal(),
        subtitles: conversation.subject.subtitles.clone(),
    };
    let mut questions = lines();
    let mut exit = Exit::Ok;
    loop {
        let Some(question) = talk.question(&mut questions, signals).await else { return Ok(Exit::Interrupted) };
        match question.as_deref() {
            None => return Ok(exit),
            Some(word) if FAREWELLS.contains(&word) => return Ok(exit),
            Some("") => {}
            Some(question) => match talk.answer(question, signals).await {
                Ok(()) => {}
                Err(Stop::Leave) => return Ok(Exit::Interrupted),
                Err(Stop::GoOn(failure)) => {
                    printer.failure(&failure);
                    if !talk.is_live {
                        exit = Exit::Unhealthy;
                    }
                }
                Err(Stop::End(failure)) => return Err(failure),
            },
        }
    }
}

/// A conversation under way.
struct Talk<'a> {
    conversation: &'a Conversation,
    engine: &'a EngineClient,
    session: Session,
    printer: Printer,
    has_colour: bool,
    /// Whether a person types and reads.
    is_live: bool,
    /// Told with the first question.
    subtitles: Option<Block>,
}

/// Why a question has no answer, and what follows from that.
enum Stop {
    /// The user wants to go.
    Leave,
    /// The next question may be asked.
    GoOn(Failure),
    /// No further question has any use.
    End(Failure),
}

impl Talk<'_> {
    /// The next line; the inner `None` is the end of stdin, the outer one a user who wants to leave.
    async fn question(
        &self,
        questions: &mut Receiver<io::Result<String>>,
        signals: &mut Signals,
    ) -> Option<Option<String>> {
        let mut was_told = false;
        loop {
            self.prompt();
            tokio::select! {
                line = questions.recv() => return Some(line.and_then(|line| self.readable(line))),
                name = signals.next() => {
                    if was_told || !self.is_live || name == TERMINATE {
                        return None;
                    }
                    was_told = true;
                    self.printer.note("\nonce more leaves, as does /exit");
                }
            }
        }
    }

    fn readable(&self, line: io::Result<String>) -> Option<String> {
        line.map_err(|error| self.printer.warning(&format!("stdin cannot be read any more: {error}"))).ok()
    }

    fn prompt(&self) {
        if self.is_live {
            let mut stderr = io::stderr().lock();
            let _terminal_may_be_gone = write!(stderr, "{PROMPT}").and_then(|()| stderr.flush());
        }
    }

    async fn answer(&mut self, question: &str, signals: &mut Signals) -> Result<(), Stop> {
        let content = self.subtitles.iter().cloned().chain([Block::Text { text: question.to_owned() }]).collect();
        let message = Message { content, output_structure: None };
        let stop = CancellationToken::new();
        let mut screen = Screen::new(self.printer, self.conversation.shows_thinking, self.has_colour, true);
        let work = async {
            let turn = turn(self.engine, &self.session.id, &message, &stop, &mut screen).await?;
            screen.finish();
            Ok(turn)
        };
        let turn = match until_signal(signals, &stop, |text| self.printer.note(text), work).await {
            Ok(turn) => turn,
            Err(AskError::Interrupted) => return Err(Stop::Leave),
            Err(error) => return Err(Stop::End(error.into())),
        };
        // Whatever became of it, the session has them now.
        self.subtitles = None;
        self.tell(&turn, &screen).map_err(|error| Stop::GoOn(error.into()))
    }

    fn tell(&self, turn: &Turn, screen: &Screen) -> Result<(), AskError> {
        let answer = turn.answer()?;
        if self.printer.json {
            let document = json!({ "answer": answer, "usage": turn.usage, "tool_calls": turn.calls });
            self.printer.data(&document.to_string());
        } else {
            screen.answer(answer);
        }
        Ok(())
    }
}
