//! `millrace feed`.

use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use millrace_client::FeedPosition;
use millrace_client::feed::{
    FeedOptions, FeedProgress, FeedReport, FeedStop, ResumeFile, TableInput, check_start, feed, feed_table,
    reach,
};
use serde_json::{Value, json};

use crate::cli::{FeedArguments, NodeArguments};
use crate::error::Error;
use crate::input::CommandInput;
use crate::output::{CommandOutput, counted, note};
use crate::table_file::TableFile;

/// Number of failures with the same reason that are listed individually.
const LISTED_PER_REASON_MAX: usize = 3;

/// Feeds all files. The exit status is 1 if an operation failed.
pub async fn run(
    node: &NodeArguments,
    arguments: &FeedArguments,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    let options = FeedOptions {
        connections: arguments.connections,
        in_flight_max: arguments.in_flight,
        patience: Duration::from_secs(arguments.patience),
        timeout: arguments.timeout,
        stop_at_failure: arguments.stop_at_failure,
        streams: !arguments.single_requests,
    };
    let mut resume = arguments.resume.as_deref().map(ResumeFile::open).transpose()?;
    let mut clean = true;
    for path in &arguments.files {
        check_start_of(path, resume.as_ref())?;
    }
    for path in &arguments.files {
        let source = match TableFile::open(path)? {
            Some(table) => FeedFile::Table(table),
            None => FeedFile::Lines(CommandInput::open_operations(path)?),
        };
        reach(&node.url, options.patience, |away| {
            note(format_args!("note: {away}; trying for {} seconds (--patience)", arguments.patience));
        })
        .await?;
        let bar = FeedBar::new(source.size(), arguments.quiet || output.is_json());
        let (url, show) = (arguments.within.url(node), |progress: &FeedProgress| bar.show(progress));
        let name = source.name(path);
        let report = match source {
            FeedFile::Lines(CommandInput { name, stream, .. }) => {
                feed(&url, &name, stream, &options, resume.as_mut(), show).await
            }
            FeedFile::Table(table) => {
                let first_row = resume.as_ref().map_or(0, |resume| resume.offset(&name));
                let (parameters, columns) = (arguments.table.parameters(), table.columns()?.into());
                let (name, parts) = (name.clone(), table.parts(first_row));
                let table = TableInput { name, parameters, columns, first_row, parts };
                feed_table(&url, table, &options, resume.as_mut(), show).await
            }
        };
        bar.end();
        let mut report = report?;
        if arguments.within.group.is_some() {
            // The server gives it to ids without one.
            report.progress.without_group = 0;
        }
        clean &= report.progress.failed == 0 && report.stop.is_none();
        output.print(|| text(&name, &report, FeedSource::File), &value(&name, &report));
        if !clean && arguments.stop_at_failure {
            break;
        }
    }
    match resume {
        Some(resume) if clean => resume.finish()?,
        _ => {}
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Checks that a file is there and begins with an operation, before anything of other files is stored. A
/// table has columns instead, and a pipe can be read only once: these are checked when their turn comes.
fn check_start_of(path: &Path, resume: Option<&ResumeFile>) -> Result<(), Error> {
    if path.as_os_str() != "-" && (path.is_dir() || !path.exists()) {
        return CommandInput::open(path).map(drop);
    }
    let is_begun = resume.is_some_and(|resume| resume.offset(&path.display().to_string()) > 0);
    if is_begun || !path.is_file() || TableFile::open(path)?.is_some() {
        return Ok(());
    }
    let CommandInput { name, stream, .. } = CommandInput::open_operations(path)?;
    Ok(check_start(&name, stream)?)
}

/// A file to be fed.
enum FeedFile {
    Lines(CommandInput),
    Table(TableFile),
}

impl FeedFile {
    fn name(&self, path: &Path) -> String {
        match self {
            FeedFile::Lines(input) => input.name.clone(),
            FeedFile::Table(_) => path.display().to_string(),
        }
    }

    fn size(&self) -> Option<u64> {
        match self {
            FeedFile::Lines(input) => input.size,
            FeedFile::Table(table) => table.size,
        }
    }
}

/// Progress of a feed, for people.
pub struct FeedBar(ProgressBar);

impl FeedBar {
    /// Creates a bar for an input of this many bytes, if the size is known.
    pub fn new(size: Option<u64>, hidden: bool) -> Self {
        let bar = match (hidden, size) {
            (true, _) => ProgressBar::hidden(),
            (false, Some(size)) => ProgressBar::new(size),
            (false, None) => ProgressBar::new_spinner(),
        };
        let template = match size {
            Some(_) => "{bar:30} {percent:>3} %  {bytes_per_sec:>12}  {msg}  ETA {eta}",
            None => "{spinner} {bytes:>10}  {bytes_per_sec:>12}  {msg}",
        };
        // The templates are constants, and valid.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        FeedBar(bar)
    }

    /// Shows the progress of the feed.
    pub fn show(&self, progress: &FeedProgress) {
        let elapsed = self.0.elapsed().as_secs_f64().max(1e-3);
        self.0.set_position(progress.read_bytes);
        self.0.set_message(format!(
            "{}, {:.0}/s, {}",
            counted(progress.done, "document", "documents"),
            progress.done as f64 / elapsed,
            counted(progress.failed, "error", "errors")
        ));
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// Consequence of a document without a group for queries.
pub const WITHOUT_GROUP: &str = "without a group in the id, a document is found by no query with streaming.groupname, only by those over all groups \
                                 (streaming.selection=true); write id:NAMESPACE:TYPE:g=GROUP:NAME";

/// Explanation for a document that the node ignored.
pub const IGNORED: &str =
    "the selection of its document type in services.xml does not take it, so it was not stored";

/// Origin of the operations of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedSource {
    /// A file, or a pipe, whose lines people can look up.
    File,
    /// Generated operations, identified only by their ids.
    Made,
}

/// Formats a report for people.
pub fn text(name: &str, report: &FeedReport, source: FeedSource) -> String {
    let position_in = |position: FeedPosition| match source {
        FeedSource::File if position.is_row() => format!("{name}: row {}", position.line),
        FeedSource::File => format!("{name}:{}:{}", position.line, position.column),
        FeedSource::Made => name.to_owned(),
    };
    let progress = &report.progress;
    let mut alike: HashMap<&str, usize> = HashMap::new();
    let shown = report.failures.iter().filter(|failure| {
        let of_message = alike.entry(&failure.message).or_default();
        *of_message += 1;
        *of_message <= LISTED_PER_REASON_MAX
    });
    let mut lines: Vec<String> = shown
        .map(|failure| {
            let id = if failure.id.is_empty() { String::new() } else { format!("{}: ", failure.id) };
            format!("failed: {}: {id}{}", position_in(failure.position), failure.message)
        })
        .collect();
    let hidden = progress.failed.saturating_sub(lines.len() as u64);
    if hidden > 0 {
        lines.push(format!("… and {hidden} more"));
    }
    match report.stop {
        Some(FeedStop::Unreadable(position)) => lines.push(format!(
            "{name} was not read from {} {} on: mend it there, and feed the rest",
            if position.is_row() { "row" } else { "line" },
            position.line
        )),
        Some(FeedStop::AtFailure) => {
            lines.push("stopped at a failure: what follows it was not fed".to_owned())
        }
        Some(FeedStop::NodeAway) => {
            lines.push("the node was away for too long (--patience): the rest was not fed".to_owned());
        }
        None => {}
    }
    if let Some((position, id)) = &report.first_ignored {
        lines.push(format!(
            "{} ignored, the first {}: {id}: {IGNORED}",
            progress.ignored,
            position_in(*position)
        ));
    }
    let ignored = match progress.ignored {
        0 => String::new(),
        count => format!(" {count} ignored,"),
    };
    let seconds = report.elapsed.as_secs_f64();
    lines.push(format!(
        "{name}: {} done, {} failed,{ignored} {} conditions not met in {seconds:.1} s: {:.0} documents/s, {:.1} MB/s; latency {:.1} ms, \
         at most {:.1} ms; {} retries",
        progress.done,
        progress.failed,
        progress.condition_not_met,
        report.rate(),
        progress.sent_bytes as f64 / 1e6 / seconds.max(1e-9),
        report.latency_mean.as_secs_f64() * 1e3,
        report.latency_max.as_secs_f64() * 1e3,
        progress.retried,
    ));
    if progress.without_group > 0 {
        lines.push(format!("note: {} of them have no group: {WITHOUT_GROUP}", progress.without_group));
    }
    lines.join("\n")
}

fn value(name: &str, report: &FeedReport) -> Value {
    let progress = &report.progress;
    let failures: Value = report
        .failures
        .iter()
        .map(|failure| {
            json!({
                "input": failure.input, "line": failure.position.line, "column": failure.position.column,
                "id": failure.id, "status": failure.status, "message": failure.message,
            })
        })
        .collect();
    json!({
        "input": name,
        "done": progress.done,
        "without_group": progress.without_group,
        "failed": progress.failed,
        "ignored": progress.ignored,
        "condition_not_met": progress.condition_not_met,
        "retried": progress.retried,
        "bytes": progress.sent_bytes,
        "seconds": report.elapsed.as_secs_f64(),
        "documents_per_second": report.rate(),
        "latency_mean_ms": report.latency_mean.as_secs_f64() * 1e3,
        "latency_max_ms": report.latency_max.as_secs_f64() * 1e3,
        "complete": report.stop.is_none(),
        "failures": failures,
    })
}
