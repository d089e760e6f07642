//! `millrace doctor`.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::Doctor;
use crate::error::Error;
use crate::output::Output;

/// Checks every file of a data directory. The exit status is 1 when something is wrong.
pub fn run(arguments: &Doctor, output: &Output) -> Result<ExitCode, Error> {
    let report = millrace_store::check(&arguments.data_dir)?;
    let findings: Value = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "path": finding.path.display().to_string(), "offset": finding.offset, "meaning": finding.meaning,
                "cure": finding.cure,
            })
        })
        .collect();
    let value = json!({
        "files": report.files, "bytes": report.bytes, "documents": report.documents, "findings": findings,
    });
    let text = || {
        let mut lines: Vec<String> = report
            .findings
            .iter()
            .map(|finding| {
                let at = finding.offset.map_or(String::new(), |offset| format!(", byte {offset}"));
                format!("{}{at}: {}\n  {}", finding.path.display(), finding.meaning, finding.cure)
            })
            .collect();
        let verdict = match report.findings.len() {
            0 => "all is well".to_owned(),
            1 => "1 thing is wrong".to_owned(),
            count => format!("{count} things are wrong"),
        };
        lines.push(format!(
            "{} files, {} bytes, {} versions of documents: {verdict}",
            report.files, report.bytes, report.documents
        ));
        lines.join("\n")
    };
    output.print(text, &value);
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
