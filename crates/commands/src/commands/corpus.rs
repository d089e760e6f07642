//! `millrace corpus`.

use std::process::ExitCode;

use millrace_mail::corpus;

use crate::cli::CorpusArguments;
use crate::output::OutputStream;

/// Writes a synthetic mail corpus to standard output, as JSON lines for `millrace feed`.
pub fn run(arguments: &CorpusArguments) -> ExitCode {
    let settings =
        corpus::Settings { seed: arguments.seed, mails: arguments.mails, mailboxes: arguments.mailboxes };
    let mut output = OutputStream::open();
    for mail in corpus::MailCorpus::new(settings) {
        output.write(format!("{}\n", mail.operation()).as_bytes());
    }
    ExitCode::SUCCESS
}
