//! `ambientctl media …`: settings, one command, one fenced line on stdout.
//!
//! Whoever called may be a program that reads stdout alone, so words and settings that are wrong end in an envelope too.

use std::ffi::OsString;
use std::io::{self, Write as _};

use ambient_ctl::output::{Exit, Failure, Printer};
use ambient_engine::backend::inprocess::media_config;
use ambient_engine::ingest::youtube_config;
use ambient_media::sub::{Envelope, MediaCommand, Progress, Surroundings};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Runs one command.
pub(crate) fn run(command: MediaCommand, printer: Printer) -> Exit {
    let envelope = answer(command, printer)
        .unwrap_or_else(|failure| Envelope::failure("BadSettings", failure.text().trim_end().to_owned()));
    tell(&envelope, printer)
}

/// The answer to words that are no command of this part; `None` when they were meant for another part, or asked for help.
pub(crate) fn bad_words(error: &clap::Error, words: impl IntoIterator<Item = OsString>) -> Option<Exit> {
    let is_ours = words.into_iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"))? == "media";
    (is_ours && error.use_stderr()).then(|| tell(&Envelope::bad_words(error), Printer::default()))
}

fn tell(envelope: &Envelope, printer: Printer) -> Exit {
    printer.data(&envelope.to_string());
    if envelope.is_ok() { Exit::Ok } else { Exit::Unhealthy }
}

fn answer(command: MediaCommand, printer: Printer) -> Result<Envelope, Failure> {
    let environment = crate::process_environment::take(None)?;
    let settings = environment.settings(&[], &printer)?;
    crate::logs::start(&settings.logs)?;
    let around = Surroundings::new(media_config(&settings), youtube_config(&settings), &settings);
    let internal = |error| Failure::new(Exit::Internal, error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(internal)?;
    runtime.block_on(async {
        let stop = CancellationToken::new();
        let (mut terminate, mut interrupt, mut hangup) = (
            signal(SignalKind::terminate()).map_err(internal)?,
            signal(SignalKind::interrupt()).map_err(internal)?,
            signal(SignalKind::hangup()).map_err(internal)?,
        );
        let work = command.run(&around, &to_stderr, &stop);
        tokio::pin!(work);
        // Children have process groups of their own and would outlive us: they are ended first.
        tokio::select! {
            envelope = &mut work => return Ok(envelope),
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
        stop.cancel();
        Ok(work.await)
    })
}

fn to_stderr(progress: Progress) {
    let _reader_may_be_gone = writeln!(io::stderr().lock(), "{progress}");
}
