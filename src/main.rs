//! The one binary of Ambient: parse the words, read `.env`, dispatch, give an exit code. Everything else has its own crate.

mod cli;
mod initial_block;
mod logs;
mod media;
mod process_environment;
mod serve;

use std::process::ExitCode;

use ambient_ctl::output::{Exit, Failure, Printer};
use clap::Parser as _;

use crate::cli::Cli;

fn main() -> ExitCode {
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
    match words.command {
        cli::Command::Serve(args) => {
            let environment = process_environment::take(args.env_file.as_deref())?;
            serve::run(&args, &environment, printer)
        }
        cli::Command::Health(args) => {
            let environment = process_environment::take(None)?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .map_err(|error| Failure::new(Exit::Internal, error))?;
            runtime.block_on(ambient_ctl::commands::health::run(&args, &environment, &printer))
        }
        cli::Command::Media(command) => Ok(media::run(command, printer)),
        cli::Command::Completions(args) => Ok(ambient_ctl::commands::completions::run(&args, Cli::words(), &printer)),
    }
}
