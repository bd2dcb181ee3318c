//! `ambientctl completions SHELL`: the completion script of a shell, made from the words that this binary knows.

use clap_complete::Shell;

use crate::output::{Exit, Printer};

/// Words of `ambientctl completions`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The shell to complete in
    shell: Shell,
}

/// Prints the script for `command`, the whole command line of the binary.
pub fn run(args: &Args, mut command: clap::Command, printer: &Printer) -> Exit {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    printer.raw(&script);
    Exit::Ok
}
