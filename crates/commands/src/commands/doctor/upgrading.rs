//! `millrace doctor --upgrade`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use millrace_cluster::{CLUSTER_DIRECTORY, FILTERED_SEGMENTS};
use millrace_env::{BoundedDisk, RealDisk};
use millrace_indexing::DocumentColumns;
use millrace_schema::Application;
use millrace_store::{StoreOptions, UpgradeReport, upgrade_segments};
use serde_json::{Value, json};

use crate::error::Error;
use crate::output::CommandOutput;

/// Protocol from which on all nodes know the newest format of segments.
const NEEDED_PROTOCOL: u16 = FILTERED_SEGMENTS;

/// Bytes of the cache for directories and keys.
const CACHE_BYTES: u64 = 64 << 20;

/// Maximum number of segment files that are open at a time.
const OPEN_FILES_MAX: usize = 256;

/// Upgrades the segments of a data directory. The exit status is 1 if one stays as it is.
pub(super) fn run(data_dir: &Path, is_forced: bool, output: &CommandOutput) -> Result<ExitCode, Error> {
    check_owner(data_dir)?;
    if !is_forced {
        check_protocol(data_dir)?;
    }
    let layout = Arc::new(columns(data_dir)?);
    let options = StoreOptions {
        cache_bytes: CACHE_BYTES,
        disk: Arc::new(BoundedDisk::new(Arc::new(RealDisk), OPEN_FILES_MAX)),
        ..StoreOptions::new(data_dir)
    };
    let bar = bar(output);
    let upgraded = upgrade_segments(options, layout, &mut |progress| {
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    let report = upgraded?;
    output.print(|| text(&report), &value(&report));
    Ok(if report.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Refuses to make files that the server could not read.
fn check_owner(data_dir: &Path) -> Result<(), Error> {
    let path = data_dir.join("manifest");
    let user = match fs::metadata(&path) {
        Ok(metadata) => metadata.uid(),
        // The store reports it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::File { path, source }),
    };
    match rustix::process::geteuid().as_raw() {
        own if own == user => Ok(()),
        own => Err(Error::DataOwner { path, user, own }),
    }
}

/// Refuses a format that nodes of the cluster may not know.
fn check_protocol(data_dir: &Path) -> Result<(), Error> {
    let directory = data_dir.join(CLUSTER_DIRECTORY);
    if millrace_membership::resident(&directory)?.is_none() {
        return Ok(());
    }
    let standing = match millrace_membership::kept_protocol(&directory)? {
        Some(protocol) if protocol >= NEEDED_PROTOCOL => return Ok(()),
        Some(protocol) => format!("protocol {protocol}"),
        None => "none".to_owned(),
    };
    Err(Error::ClusterProtocol { path: data_dir.to_owned(), standing, needed: NEEDED_PROTOCOL })
}

/// Columns of the documents, by the active application.
fn columns(data_dir: &Path) -> Result<DocumentColumns, Error> {
    let directory = data_dir.join("application");
    let active = directory.join("active");
    let generation = match fs::read_to_string(&active) {
        Ok(text) => text.trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(DocumentColumns::default()),
        Err(source) => return Err(Error::File { path: active, source }),
    };
    let Ok(generation) = generation.parse::<u64>() else {
        let reason = format!("it should hold a generation, not '{generation}'");
        return Err(Error::Application { path: active, reason });
    };
    if generation == 0 {
        return Ok(DocumentColumns::default());
    }
    let path = directory.join(format!("{generation}.zip"));
    let package = fs::read(&path).map_err(|source| Error::File { path: path.clone(), source })?;
    match Application::from_zip(&package) {
        Ok(application) => Ok(DocumentColumns::new(&application)),
        Err(mistakes) => Err(Error::Application { path, reason: mistakes.to_string() }),
    }
}

/// Bar of the bytes that are written again, on a terminal.
fn bar(output: &CommandOutput) -> ProgressBar {
    if output.is_json() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    // The template is a constant, and valid.
    if let Ok(style) =
        ProgressStyle::with_template("{bar:30} {percent:>3} %  {bytes} of {total_bytes}  ETA {eta}")
    {
        bar.set_style(style);
    }
    bar
}

fn value(report: &UpgradeReport) -> Value {
    let failures: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
    json!({
        "upgraded": report.upgraded, "current": report.current, "bytes-before": report.bytes_before,
        "bytes-after": report.bytes_after, "failures": failures,
    })
}

fn text(report: &UpgradeReport) -> String {
    let UpgradeReport { upgraded, current, bytes_before, bytes_after, .. } = report;
    let mut lines: Vec<String> = report.failures.iter().map(ToString::to_string).collect();
    let left = lines.len();
    lines.push(match upgraded {
        0 if left == 0 => format!("nothing to do: all {current} files of segments have the newest format"),
        upgraded => format!(
            "{upgraded} files of segments upgraded, {current} had the newest format; all of them took {}, and take {}",
            HumanBytes(*bytes_before),
            HumanBytes(*bytes_after)
        ),
    });
    if left > 0 {
        lines.push(format!(
            "{left} damaged files stay as they are; look at them with: millrace doctor DATA_DIR"
        ));
    }
    lines.join("\n")
}
