//! `millrace doctor`.

use std::process::ExitCode;

use millrace_env::RealDisk;
use millrace_store::CheckFinding;
use serde_json::{Value, json};

use crate::cli::DoctorArguments;
use crate::document_counts::counted;
use crate::error::Error;
use crate::output::CommandOutput;

/// Directories of indexes in a data directory: those that lie with the documents, and copies of placed ones.
const INDEXES: [&str; 2] = ["indexes", "placed-indexes"];

/// Checks every file of a data directory; with `--repair-tail`, truncates damaged logs first. The exit status
/// is 1 if there are findings.
pub fn run(arguments: &DoctorArguments, output: &CommandOutput) -> Result<ExitCode, Error> {
    let repairs = match arguments.repair_tail {
        true => millrace_store::repair_tail(&arguments.data_dir)?,
        false => Vec::new(),
    };
    let report = millrace_store::check(&arguments.data_dir)?;
    let copies = INDEXES.map(|name| millrace_index::check_copies(&RealDisk, &arguments.data_dir.join(name)));
    let copies = copies.concat();
    let faults = copies.iter().flat_map(|copy| copy.faults.iter().map(move |fault| (&copy.directory, fault)));
    let of_copies = faults.map(|(directory, fault)| CheckFinding {
        path: directory.clone(),
        offset: None,
        meaning: fault.to_string(),
        cure: "start the node: it makes the copy again, from another one or from the documents".to_owned(),
    });
    let all_findings: Vec<CheckFinding> = report.findings.iter().cloned().chain(of_copies).collect();
    let findings: Value = all_findings
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
        "documents": report.documents, "index-copies": copies.len(),
        "index-bytes": copies.iter().map(|copy| copy.bytes).sum::<u64>(), "findings": findings,
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
        let findings = all_findings.iter().map(|finding| {
            let at = finding.offset.map_or(String::new(), |offset| format!(", byte {offset}"));
            format!("{}{at}: {}\n  {}", finding.path.display(), finding.meaning, finding.cure)
        });
        lines.extend(findings);
        let verdict = match all_findings.len() {
            0 => "all is well".to_owned(),
            1 => "1 thing is wrong".to_owned(),
            count => format!("{count} things are wrong"),
        };
        lines.extend(report.documents.as_ref().map(counted));
        if !copies.is_empty() {
            let (count, bytes) = (copies.len(), copies.iter().map(|copy| copy.bytes).sum::<u64>());
            lines.push(format!("{count} copies of indexes, {bytes} bytes"));
        }
        lines.push(format!(
            "{} files, {} bytes, {} versions of documents in segments: {verdict}",
            report.files, report.bytes, report.versions
        ));
        lines.join("\n")
    };
    output.print(text, &value);
    Ok(if all_findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
