//! `millrace completions`.

use std::process::ExitCode;

use crate::cli::CompletionsArguments;
use crate::output::OutputStream;

/// Prints the completion script for a shell, of the whole program.
pub fn run(arguments: &CompletionsArguments, mut whole: clap::Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut whole, "millrace", &mut script);
    OutputStream::open().write(&script);
    ExitCode::SUCCESS
}
