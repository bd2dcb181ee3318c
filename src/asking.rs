//! `ambientctl ask`, `chat` and `mcp`: the commands that bring their own engine with them.

use ambient_ctl::asking::{AskArgs, ChatArgs, Conversation, Question};
use ambient_ctl::engine_client::EngineClient;
use ambient_ctl::environment::Environment;
use ambient_ctl::mcp::McpArgs;
use ambient_ctl::output::{Exit, Failure, Printer};
use ambient_ctl::signals::Signals;
use ambient_settings::Settings;

use crate::private_engine::{self, PrivateEngine, with_key_hint};
use crate::start;

/// Asks one question.
///
/// # Errors
/// When words or settings are wrong, the engine does not start, or there is no answer.
pub(crate) fn ask(mut args: AskArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let settings = private_engine::settings(environment, &mut args.answer, args.show_thinking, printer)?;
    // Before there is an engine: whoever misspelt a file need not wait to hear it.
    let question = Question::prepare(&args)?;
    let (has_key, has_colour) = (private_engine::has_key(&settings, args.answer.fast), has_colour(environment));
    let asked = with_engine(settings, async |engine, signals| {
        ambient_ctl::asking::ask(&question, engine, signals, printer, has_colour).await
    });
    asked.map_err(|failure| with_key_hint(failure, has_key))
}

/// Answers questions from stdin.
///
/// # Errors
/// When words or settings are wrong, the engine does not start, or cannot be asked.
pub(crate) fn chat(mut args: ChatArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let settings = private_engine::settings(environment, &mut args.answer, args.show_thinking, printer)?;
    let conversation = Conversation::prepare(&args)?;
    let has_colour = has_colour(environment);
    with_engine(settings, async |engine, signals| {
        ambient_ctl::asking::chat(&conversation, engine, signals, printer, has_colour).await
    })
}

/// Serves the Model Context Protocol on stdin and stdout, with an engine that runs or one of its own.
///
/// # Errors
/// When words or settings are wrong, or the engine does not start or answer.
pub(crate) fn mcp(mut args: McpArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    // stdout belongs to the protocol, failures of the start included.
    let printer = Printer { json: false, ..printer };
    if let Some(engine) = args.running_engine()? {
        let overrides: Vec<_> = private_engine::quietly(environment).into_iter().collect();
        let settings = environment.settings(&overrides, &printer)?;
        crate::logs::start(&settings.logs)?;
        return start::on_threads(settings.server.worker_threads, async {
            let mut signals = listen()?;
            engine.health().await?;
            ambient_ctl::mcp::serve(&engine, &args, &mut signals).await
        });
    }
    let settings = private_engine::settings(environment, &mut args.answer, false, printer)?;
    with_engine(settings, async |engine, signals| ambient_ctl::mcp::serve(engine, &args, signals).await)
}

/// Runs a command with an engine of its own, which ends with it.
fn with_engine(
    settings: Settings,
    command: impl AsyncFnOnce(&EngineClient, &mut Signals) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    crate::logs::start(&settings.logs)?;
    start::on_threads(settings.server.worker_threads, async {
        let mut signals = listen()?;
        let engine = tokio::select! {
            started = PrivateEngine::start(settings) => started?,
            _name = signals.next() => return Ok(Exit::Interrupted),
        };
        let ended = command(engine.client(), &mut signals).await;
        tokio::select! {
            () = engine.end() => {}
            // What is left is removed by the next command.
            _name = signals.next() => {}
        }
        ended
    })
}

fn listen() -> Result<Signals, Failure> {
    Signals::new().map_err(|error| Failure::new(Exit::Internal, error))
}

/// Whether codes may go to a terminal: not where `NO_COLOR` holds something, nor to one that shows none.
fn has_colour(environment: &Environment) -> bool {
    environment.variable("NO_COLOR").is_none_or(|value| value.is_empty())
        && environment.variable("TERM").is_none_or(|name| name != "dumb")
}
