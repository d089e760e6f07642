//! `millrace import`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_client::feed::{FeedOptions, feed};
use millrace_mail::{MailGroup, MailImport};
use serde_json::json;

use crate::cli::{ArchiveKind, ImportMail, NodeArguments};
use crate::commands::feed::{FeedBar, FeedSource, text};
use crate::error::Error;
use crate::lines::LineReader;
use crate::output::{CommandOutput, note};

/// Maximum number of unusable messages that are listed individually.
const LISTED_MESSAGES_MAX: u64 = 10;

/// Feeds an archive's messages. The exit status is 1 if a message could not be used or fed.
pub async fn run(
    node: &NodeArguments,
    arguments: &ImportMail,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let group = MailGroup::new(&arguments.group)?;
    let archive = &arguments.path;
    let import = match arguments.archive {
        ArchiveKind::Mbox if archive.as_os_str() == "-" => {
            MailImport::mbox_from(Box::new(std::io::BufReader::new(std::io::stdin())), archive, "inbox")
        }
        ArchiveKind::Mbox => MailImport::mbox(archive)?,
        ArchiveKind::Maildir => MailImport::maildir(archive)?,
    };
    let unusable = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&unusable);
    let operations = import.filter_map(move |message| match message {
        Ok(message) => Some(message.operation(&group)),
        Err(error) => {
            if counted.fetch_add(1, Ordering::Relaxed) < LISTED_MESSAGES_MAX {
                note(format_args!("skipped: {error}"));
            }
            None
        }
    });
    let name = archive.display().to_string();
    let bar = FeedBar::new(None, arguments.quiet || output.is_json());
    let report =
        feed(&node.url, &name, LineReader::new(operations), &FeedOptions::default(), None, |progress| {
            bar.show(progress);
        })
        .await;
    bar.end();
    let report = report?;
    let unusable = unusable.load(Ordering::Relaxed);
    let progress = &report.progress;
    let unused = match unusable {
        0 => None,
        1 => Some("1 message could not be used".to_owned()),
        count => Some(format!("{count} messages could not be used")),
    };
    let fed = progress.done + progress.ignored + progress.condition_not_met + progress.failed;
    let is_nothing = fed == 0 && report.stop.is_none();
    output.print(
        || match unused {
            None if is_nothing => format!("{name}: it has no messages, so nothing was imported"),
            Some(unused) if is_nothing => format!("{name}: nothing was imported: {unused}"),
            None => text(&name, &report, FeedSource::Made),
            Some(unused) => format!("{}\n{unused}", text(&name, &report, FeedSource::Made)),
        },
        &json!({ "input": name, "done": progress.done, "failed": progress.failed, "unusable": unusable }),
    );
    Ok(if progress.failed == 0 && unusable == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
