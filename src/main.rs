//! The one binary of Ambient: parse the words, read `.env`, dispatch, give an exit code. Everything else has its own crate.

mod asking;
mod cli;
mod inherited_files;
mod initial_block;
mod logs;
mod media;
mod private_engine;
mod private_folder;
mod process_environment;
mod sandboxd;
mod serve;
mod start;

use std::process::ExitCode;

use ambient_ctl::output::{Exit, Failure, Printer};
use clap::Parser as _;

use crate::cli::Cli;

fn main() -> ExitCode {
    inherited_files::keep_back();
    let words = match Cli::try_parse() {
        Ok(words) => words,
        Err(stop) => {
            // `--help` and `--version` come this way too, with code 0.
            let _reader_may_be_gone = stop.print();
            if let Some(exit) = media::bad_words(&stop, std::env::args_os()) {
                return exit.into();
            }
            return u8::try_from(stop.exit_code()).map_or(Exit::Usage.into(), ExitCode::from);
        }
    };
    // Before anything else is set up: this process is to become a sandbox.
    if let cli::Command::SandboxdAgent(stage) = words.command {
        return sandboxd::agent(stage);
    }
    let printer = Printer { json: words.json, quiet: words.quiet };
    match dispatch(words, printer) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            printer.failure(&failure);
            failure.exit().into()
        }
    }
}

fn dispatch(words: Cli, printer: Printer) -> Result<Exit, Failure> {
    use ambient_ctl::commands;
    use cli::Command;

    // The files of an installation are its own; `.env` of the working directory is read for the engine alone.
    match words.command {
        Command::Serve(args) => {
            let environment = process_environment::take(args.env_file.as_deref())?;
            serve::run(&args, &environment, printer)
        }
        Command::Ask(args) => asking::ask(args, &process_environment::take(None)?, printer),
        Command::Chat(args) => asking::chat(args, &process_environment::take(None)?, printer),
        Command::Mcp(args) => asking::mcp(args, &process_environment::take(None)?, printer),
        Command::Health(args) => {
            let environment = process_environment::take(None)?;
            wait_for(commands::health::run(&args, &environment, &printer))
        }
        Command::Sandboxd(args) => {
            let environment = process_environment::take(None)?;
            sandboxd::run(args, &environment, printer)
        }
        Command::SandboxdAgent(_) => unreachable!("`main` returned with it"),
        Command::Media(command) => Ok(media::run(command, printer)),
        Command::Install(args) => {
            wait_for(commands::install::run(&args, &process_environment::without_file(), printer))
        }
        Command::Status(args) => wait_for(commands::status::run(&args, &process_environment::without_file(), printer)),
        Command::Logs(args) => wait_for(commands::logs::run(&args, &process_environment::without_file(), printer)),
        Command::Start(args) => {
            wait_for(commands::lifecycle::start(&args, &process_environment::without_file(), printer))
        }
        Command::Stop(args) => {
            wait_for(commands::lifecycle::stop(&args, &process_environment::without_file(), printer))
        }
        Command::Restart(args) => {
            wait_for(commands::lifecycle::restart(&args, &process_environment::without_file(), printer))
        }
        Command::Update(args) => {
            wait_for(commands::lifecycle::update(&args, &process_environment::without_file(), printer))
        }
        Command::Uninstall(args) => {
            wait_for(commands::uninstall::run(&args, &process_environment::without_file(), printer))
        }
        Command::Config(args) => wait_for(commands::config::run(&args, &process_environment::without_file(), &printer)),
        Command::Open(args) => commands::open::run(&args, &process_environment::without_file(), printer),
        Command::Version(args) => Ok(commands::version::run(&args, &process_environment::without_file(), printer)),
        Command::Template(args) => {
            wait_for(commands::template::run(&args, &process_environment::without_file(), printer))
        }
        Command::Doctor(args) => wait_for(commands::doctor::run(&args, &process_environment::without_file(), printer)),
        Command::Verify(args) => wait_for(commands::verify::run(&args, &process_environment::without_file(), printer)),
        Command::Completions(args) => Ok(commands::completions::run(&args, Cli::words(), &printer)),
    }
}

/// Runs a command that waits for others. One thread is enough: none of them computes.
fn wait_for(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Internal, error))?;
    let ended = runtime.block_on(command);
    // The look-up of a name, or a disk that does not answer, holds nobody any more.
    runtime.shutdown_background();
    ended
}
