//! `millrace corpus`.

use std::process::ExitCode;

use millrace_mail::corpus::{Corpus as Mails, Settings};

use crate::cli::Corpus;
use crate::output::print_all;

/// Prints a made-up mail corpus as operations of a feed.
pub fn run(arguments: &Corpus) -> ExitCode {
    let settings = Settings {
        seed: arguments.seed,
        mails: arguments.mails.max(arguments.mailboxes),
        mailboxes: arguments.mailboxes.max(1),
    };
    for mail in Mails::new(settings) {
        print_all(format!("{}\n", mail.operation()).as_bytes());
    }
    ExitCode::SUCCESS
}
