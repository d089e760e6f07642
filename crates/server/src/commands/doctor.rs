//! `millrace doctor`.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::DoctorArguments;
use crate::document_counts::counted;
use crate::error::Error;
use crate::output::CommandOutput;

/// Checks every file of a data directory; with `--repair-tail`, truncates damaged logs first. The exit status
/// is 1 if there are findings.
pub fn run(arguments: &DoctorArguments, output: &CommandOutput) -> Result<ExitCode, Error> {
    let repairs = match arguments.repair_tail {
        true => millrace_store::repair_tail(&arguments.data_dir)?,
        false => Vec::new(),
    };
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
    let repaired: Value = repairs
        .iter()
        .map(|repair| {
            json!({
                "path": repair.log.display().to_string(), "offset": repair.end, "bytes": repair.bytes,
                "copy": repair.copy.display().to_string(),
            })
        })
        .collect();
    let value = json!({
        "repaired": repaired, "files": report.files, "bytes": report.bytes, "versions": report.versions,
        "documents": report.documents, "findings": findings,
    });
    let text = || {
        let mut lines: Vec<String> = repairs
            .iter()
            .map(|repair| {
                let (log, end, bytes, copy) =
                    (repair.log.display(), repair.end, repair.bytes, repair.copy.display());
                format!("{log}: cut at byte {end}; {bytes} bytes of acknowledged writes were cut, and are in {copy}")
            })
            .collect();
        let findings = report.findings.iter().map(|finding| {
            let at = finding.offset.map_or(String::new(), |offset| format!(", byte {offset}"));
            format!("{}{at}: {}\n  {}", finding.path.display(), finding.meaning, finding.cure)
        });
        lines.extend(findings);
        let verdict = match report.findings.len() {
            0 => "all is well".to_owned(),
            1 => "1 thing is wrong".to_owned(),
            count => format!("{count} things are wrong"),
        };
        lines.extend(report.documents.as_ref().map(counted));
        lines.push(format!(
            "{} files, {} bytes, {} versions of documents in segments: {verdict}",
            report.files, report.bytes, report.versions
        ));
        lines.join("\n")
    };
    output.print(text, &value);
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
