//! Commands by topic, as the help of the whole lists them.

use std::fmt::Write as _;

use clap::Command;

/// Topics, and the names of their commands.
const TOPICS: &[(&str, &[&str])] = &[
    ("Start", &["demo", "serve", "deploy", "status"]),
    ("Documents", &["feed", "get", "put", "update", "remove", "visit", "import", "corpus"]),
    ("Search", &["query", "compare"]),
    ("Groups, each one person's documents", &["groups", "group"]),
    ("Access", &["token"]),
    ("Operations", &["node", "cluster", "index", "snapshot", "fields", "doctor"]),
    ("Shell", &["completions", "help"]),
];

/// Width of the names of commands.
const NAME_WIDTH: usize = 13;

/// The command, with its commands listed by topic in its help.
pub(super) fn listed(whole: Command) -> Command {
    let mut text = String::new();
    for (topic, names) in TOPICS {
        // Writing to a text does not fail.
        let _ = writeln!(text, "{topic}:");
        for name in *names {
            let about = whole.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:NAME_WIDTH$}{}", about.lines().next().unwrap_or_default());
        }
        text.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Options:\n{{options}}{{after-help}}"
    );
    whole.help_template(template)
}

#[cfg(test)]
mod tests {
    use clap::Subcommand;

    use super::*;
    use crate::cli::MillraceCommand;

    #[test]
    fn every_command_has_a_topic() {
        // The program adds this one.
        let program = Command::new("millrace").subcommand(Command::new("serve"));
        let mut whole = MillraceCommand::augment_subcommands(program);
        whole.build();
        let mut names: Vec<&str> = whole.get_subcommands().map(Command::get_name).collect();
        let mut listed: Vec<&str> = TOPICS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        names.sort_unstable();
        listed.sort_unstable();
        assert_eq!(names, listed);
    }
}
