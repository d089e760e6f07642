//! Command line of the program.

use clap::{CommandFactory, Parser, Subcommand};
use millrace_commands::{CommonOptions, MillraceCommand};

use crate::settings::ServeArguments;

/// Personal search at massive scale: one person's documents per query, all of them, exactly.
#[derive(Parser)]
#[command(name = "millrace", version, max_term_width = 110, after_help = EXAMPLES)]
pub struct CommandLine {
    #[command(flatten)]
    pub options: CommonOptions,
    #[command(subcommand)]
    pub command: ProgramCommand,
}

impl CommandLine {
    /// All commands, each with the options that its help shows.
    pub fn whole() -> clap::Command {
        millrace_commands::whole(CommandLine::command())
    }
}

const EXAMPLES: &str = "\
Examples:
  millrace serve --app examples/mail         # start a server, data in ./data
  millrace deploy examples/mail              # deploy to a server that runs
  millrace feed mails.jsonl                  # feed documents
  millrace query 'select * from mail where default contains \"budget\"' \\
      streaming.groupname=me                 # search
  millrace get id:mail:mail:g=me:1           # show one document
  millrace visit --selection 'mail.folder == \"inbox\"' > inbox.jsonl

'millrace COMMAND --help' explains each, with examples.";

/// Command: `serve`, or one of the others.
#[derive(Subcommand)]
pub enum ProgramCommand {
    /// Start a server.
    #[command(after_help = "\
Examples:
  millrace serve
  millrace serve --data-dir /var/lib/millrace --app examples/mail
  millrace serve --config millrace.toml --listen 0.0.0.0 --insecure

Every option can stand in the TOML file, under its own name (data-dir = \"/var/lib/millrace\"), or in \
an environment variable (MILLRACE_DATA_DIR). A flag counts more than a variable, and that more than the file.")]
    Serve(Box<ServeArguments>),
    #[command(flatten)]
    Other(MillraceCommand),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A terminal of 80 columns shows them unwrapped, and they can be copied.
    #[test]
    fn examples_are_not_wide() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for example in help.lines().filter(|line| line.starts_with("  ")) {
                assert!(example.chars().count() <= 80, "{}: {example}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&CommandLine::whole());
    }
}
