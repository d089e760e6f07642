//! Reports of a node about its copies, as it publishes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{CopyId, CopyProgress, CopyReport, Error};

/// Bytes of a reason that are published.
const REASON_BYTES: usize = 240;

/// Reports of a node about all copies that it has or makes, and about those that it has removed while the
/// table still names them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeCopyReports {
    /// The reports, by the numbers of the copies.
    pub copies: BTreeMap<CopyId, NodeCopyReport>,
}

/// Report about one copy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenReport", into = "WrittenReport")]
pub struct NodeCopyReport {
    /// Its progress.
    pub progress: CopyProgress,
    /// Size of its files.
    pub bytes: u64,
    /// Number of its entries, about.
    pub entries: u64,
    /// Share of the present work that is done, from 0 to 1: bytes of a copy that comes by file, buckets of
    /// one that is read from documents. 1 for a copy that has everything.
    pub done: f64,
    /// Seconds that the work should still take, if that is known.
    pub seconds_left: Option<u64>,
    /// Lag in seconds of a copy that has everything but the last changes, if it is long, or more than the
    /// settings accept.
    pub lag: Option<u64>,
    /// The last comparison with the documents that has come to its end.
    pub verified: Option<VerifiedCopy>,
}

/// Comparison of a copy with the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "(u64, u64)", from = "(u64, u64)")]
pub struct VerifiedCopy {
    /// Time of its end, in milliseconds since 1970.
    pub ended_ms: u64,
    /// Number of documents in which the copy differed; it has read them again.
    pub repaired: u64,
}

impl From<VerifiedCopy> for (u64, u64) {
    fn from(verified: VerifiedCopy) -> Self {
        (verified.ended_ms, verified.repaired)
    }
}

impl From<(u64, u64)> for VerifiedCopy {
    fn from((ended_ms, repaired): (u64, u64)) -> Self {
        VerifiedCopy { ended_ms, repaired }
    }
}

/// Published form of a report: the members have names of one letter, since a node can have thousands.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenReport {
    #[serde(rename = "p")]
    progress: WrittenProgress,
    #[serde(rename = "b", default)]
    bytes: u64,
    #[serde(rename = "e", default)]
    entries: u64,
    /// Parts in a thousand.
    #[serde(rename = "d", default)]
    done: u16,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    seconds_left: Option<u64>,
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    lag: Option<u64>,
    #[serde(rename = "v", default, skip_serializing_if = "Option::is_none")]
    verified: Option<VerifiedCopy>,
    #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
    reason: Option<Arc<str>>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum WrittenProgress {
    #[serde(rename = "w")]
    Working,
    #[serde(rename = "c")]
    CaughtUp,
    #[serde(rename = "f")]
    Failed,
    #[serde(rename = "g")]
    Gone,
}

impl From<NodeCopyReport> for WrittenReport {
    fn from(report: NodeCopyReport) -> Self {
        let (progress, reason) = match report.progress {
            CopyProgress::Working => (WrittenProgress::Working, None),
            CopyProgress::CaughtUp => (WrittenProgress::CaughtUp, None),
            CopyProgress::Failed(reason) => {
                let end =
                    (0..=REASON_BYTES.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end));
                (WrittenProgress::Failed, Some(Arc::from(&reason[..end.unwrap_or(0)])))
            }
            CopyProgress::Gone => (WrittenProgress::Gone, None),
        };
        WrittenReport {
            progress,
            bytes: report.bytes,
            entries: report.entries,
            done: (report.done.clamp(0.0, 1.0) * 1000.0) as u16,
            seconds_left: report.seconds_left,
            lag: report.lag,
            verified: report.verified,
            reason,
        }
    }
}

impl From<WrittenReport> for NodeCopyReport {
    fn from(written: WrittenReport) -> Self {
        NodeCopyReport {
            progress: match written.progress {
                WrittenProgress::Working => CopyProgress::Working,
                WrittenProgress::CaughtUp => CopyProgress::CaughtUp,
                WrittenProgress::Failed => CopyProgress::Failed(written.reason.unwrap_or_default()),
                WrittenProgress::Gone => CopyProgress::Gone,
            },
            bytes: written.bytes,
            entries: written.entries,
            done: f64::from(written.done) / 1000.0,
            seconds_left: written.seconds_left,
            lag: written.lag,
            verified: written.verified,
        }
    }
}

impl NodeCopyReports {
    /// Parses the output of [`NodeCopyReports::to_json`].
    ///
    /// # Errors
    /// Bytes that are not reports of a node.
    pub fn from_json(bytes: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(bytes).map_err(|error| Error::Reports { reason: error.to_string() })
    }

    /// The reports as JSON, some 40 bytes a copy.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and texts always have a JSON form")
    }

    /// The reports as the planner takes them.
    pub fn of_node(&self) -> BTreeMap<CopyId, CopyReport> {
        let copies = self.copies.iter();
        let reports = copies.map(|(copy, report)| {
            (*copy, CopyReport { progress: report.progress.clone(), bytes: report.bytes })
        });
        reports.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_as_they_were_written() {
        let report = |progress, done| NodeCopyReport {
            progress,
            bytes: 4096,
            entries: 12,
            done,
            seconds_left: (done < 1.0).then_some(9),
            lag: None,
            verified: None,
        };
        let late = NodeCopyReport {
            lag: Some(90),
            verified: Some(VerifiedCopy { ended_ms: 1_000, repaired: 2 }),
            ..report(CopyProgress::CaughtUp, 1.0)
        };
        let reports = NodeCopyReports {
            copies: BTreeMap::from([
                (CopyId(3), report(CopyProgress::Working, 0.25)),
                (CopyId(4), late),
                (CopyId(5), report(CopyProgress::Failed("no room".into()), 0.5)),
                (CopyId(6), report(CopyProgress::Gone, 1.0)),
            ]),
        };
        let json = reports.to_json();
        assert_eq!(
            String::from_utf8_lossy(&json),
            r#"{"3":{"p":"w","b":4096,"e":12,"d":250,"s":9},"4":{"p":"c","b":4096,"e":12,"d":1000,"l":90,"v":[1000,2]},"#
                .to_owned()
                + r#""5":{"p":"f","b":4096,"e":12,"d":500,"s":9,"r":"no room"},"6":{"p":"g","b":4096,"e":12,"d":1000}}"#
        );
        assert_eq!(NodeCopyReports::from_json(&json), Ok(reports));
        for wrong in ["", "[]", r#"{"a":{}}"#, r#"{"3":{"p":"x"}}"#, r#"{"3":{"p":"w","z":1}}"#] {
            assert!(NodeCopyReports::from_json(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn long_reasons_are_cut_between_characters() {
        let progress = CopyProgress::Failed("ä".repeat(REASON_BYTES).into());
        let report = NodeCopyReport {
            progress,
            bytes: 0,
            entries: 0,
            done: 0.0,
            seconds_left: None,
            lag: None,
            verified: None,
        };
        let reports = NodeCopyReports { copies: BTreeMap::from([(CopyId(1), report)]) };
        let read = NodeCopyReports::from_json(&reports.to_json()).expect("reports");
        let CopyProgress::Failed(reason) = &read.copies[&CopyId(1)].progress else { panic!("{read:?}") };
        assert_eq!(**reason, "ä".repeat(REASON_BYTES / 2));
    }
}
