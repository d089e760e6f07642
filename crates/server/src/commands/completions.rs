//! `millrace completions`.

use std::process::ExitCode;

use crate::cli::{CommandLine, CompletionsArguments};
use crate::output::OutputStream;

/// Prints the completion script for a shell.
pub fn run(arguments: &CompletionsArguments) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut CommandLine::whole(), "millrace", &mut script);
    OutputStream::open().write(&script);
    ExitCode::SUCCESS
}
