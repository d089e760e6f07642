//! `millrace import`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_client::feed::{Options, feed};
use millrace_mail::{Group, Import as Messages};

use super::feed::{Bar, text, value};
use super::lines::Lines;
use crate::cli::{Archive, Import, NodeArguments};
use crate::error::Error;
use crate::output::Output;

/// Feeds the messages of an archive. What cannot be used is named on standard error, and makes the exit status 1.
pub async fn run(node: &NodeArguments, arguments: &Import, output: &Output) -> Result<ExitCode, Error> {
    let (archive, messages) = match &arguments.archive {
        Archive::Mbox(from) => (from, Messages::mbox(&from.path)?),
        Archive::Maildir(from) => (from, Messages::maildir(&from.path)?),
    };
    let group = Group::new(&archive.group)?;
    let unusable = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&unusable);
    let operations = messages.filter_map(move |message| match message {
        Ok(message) => Some(message.operation(&group)),
        Err(error) => {
            counter.fetch_add(1, Ordering::Relaxed);
            eprintln!("left out: {}", chain(&error));
            None
        }
    });
    let name = archive.path.display().to_string();
    let bar = Bar::new(None, output.is_json());
    let fed = feed(&node.url, &name, Lines::new(operations), &Options::default(), None, |progress| {
        bar.show(progress)
    })
    .await;
    bar.end();
    let report = fed?;
    output.print(|| text(&name, &report), &value(&name, &report));
    let clean = report.progress.failed == 0 && unusable.load(Ordering::Relaxed) == 0;
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
