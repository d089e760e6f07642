//! `millrace completions`.

use std::process::ExitCode;

use crate::cli::{Cli, Completions};
use crate::output::print_all;

/// Prints the completion script for a shell.
pub fn run(arguments: &Completions) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::whole(), "millrace", &mut script);
    print_all(&script);
    ExitCode::SUCCESS
}
