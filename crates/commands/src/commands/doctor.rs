//! `millrace doctor`.

mod upgrading;

use std::path::Path;
use std::process::ExitCode;

use millrace_env::RealDisk;
use millrace_index::CheckedCopy;
use millrace_store::{CheckFinding, CheckReport, TailRepair};
use serde_json::{Value, json};

use crate::cli::DoctorArguments;
use crate::document_counts::counted;
use crate::error::Error;
use crate::output::CommandOutput;

/// Directories of indexes in a data directory: those that lie with the documents, and copies of placed ones.
const INDEXES: [&str; 2] = ["indexes", "placed-indexes"];

/// Checks every file of a data directory; with `--repair-tail`, truncates damaged logs first; with
/// `--upgrade`, upgrades its segments instead. The exit status is 1 if there are findings.
pub fn run(
    arguments: &DoctorArguments,
    check_application: fn(&Path) -> Vec<CheckFinding>,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    if arguments.upgrade {
        return upgrading::run(&arguments.data_dir, arguments.force_protocol, output);
    }
    let repairs = match arguments.repair_tail {
        true => millrace_store::repair_tail(&arguments.data_dir)?,
        false => Vec::new(),
    };
    let mut report = millrace_store::check(&arguments.data_dir)?;
    report.findings.extend(check_application(&arguments.data_dir));
    let copies = INDEXES.map(|name| millrace_index::check_copies(&RealDisk, &arguments.data_dir.join(name)));
    let checkup = DataDirectoryCheckup { repairs, report, copies: copies.concat() };
    output.print(|| checkup.text(), &checkup.json());
    Ok(if checkup.findings().next().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Results of the checks of a data directory.
struct DataDirectoryCheckup {
    repairs: Vec<TailRepair>,
    report: CheckReport,
    /// Copies of indexes.
    copies: Vec<CheckedCopy>,
}

impl DataDirectoryCheckup {
    /// Findings in the files of the store and of the application, then those in copies of indexes.
    fn findings(&self) -> impl Iterator<Item = CheckFinding> {
        let faults =
            self.copies.iter().flat_map(|copy| copy.faults.iter().map(move |fault| (&copy.directory, fault)));
        let of_copies = faults.map(|(directory, fault)| CheckFinding {
            path: directory.clone(),
            offset: None,
            meaning: fault.to_string(),
            cure: "start the node: it makes the copy again, from another one or from the documents"
                .to_owned(),
        });
        self.report.findings.iter().cloned().chain(of_copies)
    }

    /// Bytes of all copies of indexes.
    fn index_bytes(&self) -> u64 {
        self.copies.iter().map(|copy| copy.bytes).sum()
    }

    fn json(&self) -> Value {
        let findings: Value = self
            .findings()
            .map(|finding| {
                json!({
                    "path": finding.path.display().to_string(), "offset": finding.offset, "meaning": finding.meaning,
                    "cure": finding.cure,
                })
            })
            .collect();
        let repaired: Value = self
            .repairs
            .iter()
            .map(|repair| {
                json!({
                    "path": repair.log.display().to_string(), "offset": repair.end, "bytes": repair.bytes,
                    "copy": repair.copy.display().to_string(),
                })
            })
            .collect();
        let report = &self.report;
        json!({
            "repaired": repaired, "files": report.files, "bytes": report.bytes, "versions": report.versions,
            "documents": report.documents, "index-copies": self.copies.len(), "index-bytes": self.index_bytes(),
            "findings": findings,
        })
    }

    fn text(&self) -> String {
        let repairs = self.repairs.iter().map(|repair| {
            let (log, end, bytes, copy) =
                (repair.log.display(), repair.end, repair.bytes, repair.copy.display());
            format!(
                "{log}: cut at byte {end}; {bytes} bytes of acknowledged writes were cut, and are in {copy}"
            )
        });
        let mut lines: Vec<String> = repairs.collect();
        let repaired = lines.len();
        lines.extend(self.findings().map(|finding| {
            let at = finding.offset.map_or(String::new(), |offset| format!(", byte {offset}"));
            format!("{}{at}: {}\n  {}", finding.path.display(), finding.meaning, finding.cure)
        }));
        let verdict = match lines.len() - repaired {
            0 => "all is well".to_owned(),
            1 => "1 thing is wrong".to_owned(),
            count => format!("{count} things are wrong"),
        };
        let report = &self.report;
        lines.extend(report.documents.as_ref().map(counted));
        if !self.copies.is_empty() {
            lines.push(format!("{} copies of indexes, {} bytes", self.copies.len(), self.index_bytes()));
        }
        lines.push(format!(
            "{} files, {} bytes, {} versions of documents in segments: {verdict}",
            report.files, report.bytes, report.versions
        ));
        lines.join("\n")
    }
}
