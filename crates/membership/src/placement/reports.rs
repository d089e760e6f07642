//! Reports of nodes about their copies, as notes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_cluster::Incarnation;
use millrace_index_placement::{CopyProgress, NodeCopyReports};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::{INTERVALS, interval_after};
use crate::{ClusterMembership, CoordinationSnapshot, Error};

/// First part of the names of the notes.
const NOTES: &str = "index-copies/";

/// Size of a note, about: a node with very many copies has several.
const PART_BYTES: usize = 512 << 10;

/// Size of a report about a copy without its reason, at most.
const REPORT_BYTES: usize = 192;

/// Pause between two publications if the progress of a copy has changed, at least.
const PAUSE: Duration = INTERVALS.0;

/// The same while a copy is made, for its figures.
const WORKING_PAUSE: Duration = Duration::from_secs(2);

/// The same for figures of copies that have everything.
const QUIET_PAUSE: Duration = Duration::from_secs(30);

/// Pause after a failure of coordination.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Value of a note.
#[derive(Debug, Serialize, Deserialize)]
struct SharedReports {
    /// Run of the process that has written it.
    run: Incarnation,
    /// Version of the table that the node knows, if coordination has an older one; 0 otherwise.
    #[serde(default, skip_serializing_if = "is_zero")]
    table: u64,
    /// The reports.
    copies: NodeCopyReports,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Reports of a node, from all of its notes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct NodeReports {
    /// Version of the table that the node knows, if coordination had an older one; 0 otherwise.
    pub table: u64,
    pub copies: NodeCopyReports,
}

/// Notes with reports that were read, so that each is parsed once.
#[derive(Default)]
pub(super) struct ReadReports {
    /// Revision of each note, by name, with its content if it could be read.
    notes: BTreeMap<String, (u64, Option<Arc<SharedReports>>)>,
}

impl ReadReports {
    /// Reports of all nodes, by their names. Those of an earlier run of a process do not count once the node
    /// runs again.
    pub fn reports_by_node(&mut self, snapshot: &CoordinationSnapshot) -> BTreeMap<String, NodeReports> {
        self.notes.retain(|name, _| snapshot.notes.contains_key(name));
        let mut all: BTreeMap<String, NodeReports> = BTreeMap::new();
        for (name, note) in &snapshot.notes {
            let Some(node) = node_of(name) else { continue };
            let known = self.notes.get(name).filter(|(changed, _)| *changed == note.changed);
            let reports = match known {
                Some((_, reports)) => reports.clone(),
                None => {
                    let read = serde_json::from_slice(&note.value);
                    let read = read.inspect_err(
                        |error| tracing::warn!(%error, name, "a report about copies of indexes cannot be read"),
                    );
                    let read = read.ok().map(Arc::new);
                    self.notes.insert(name.clone(), (note.changed, read.clone()));
                    read
                }
            };
            let Some(reports) = reports else { continue };
            let runs = snapshot.members.get(node).map(|member| member.registration.incarnation);
            if runs.is_some_and(|runs| runs != reports.run) {
                continue;
            }
            let of_node = all.entry(node.to_owned()).or_default();
            of_node.table = of_node.table.max(reports.table);
            of_node.copies.copies.extend(reports.copies.copies.clone());
        }
        all
    }
}

/// The node that a note with reports is of.
pub(super) fn node_of(note: &str) -> Option<&str> {
    let (node, _) = note.strip_prefix(NOTES)?.split_once('/')?;
    Some(node)
}

/// Name of a note of a node.
fn note_name(node: &str, part: usize) -> String {
    format!("{NOTES}{node}/{part}")
}

/// The notes of a node, at least one.
fn values(run: Incarnation, table: u64, reports: &NodeCopyReports) -> Vec<Vec<u8>> {
    let mut parts = vec![NodeCopyReports::default()];
    let mut bytes = 0;
    for (copy, report) in &reports.copies {
        let size = REPORT_BYTES
            + match &report.progress {
                CopyProgress::Failed(reason) => reason.len(),
                _ => 0,
            };
        if bytes + size > PART_BYTES {
            parts.push(NodeCopyReports::default());
            bytes = 0;
        }
        bytes += size;
        if let Some(part) = parts.last_mut() {
            part.copies.insert(*copy, report.clone());
        }
    }
    let value = |copies| {
        let shared = SharedReports { run, table, copies };
        serde_json::to_vec(&shared).expect("numbers and texts always have a JSON form")
    };
    parts.into_iter().map(value).collect()
}

/// Pause between the publication of some reports and that of others: the leader waits for progress, figures
/// are for people.
fn pause(published: &NodeCopyReports, next: &NodeCopyReports) -> Duration {
    let progress = |reports: &NodeCopyReports| {
        let copies = reports.copies.iter();
        copies.map(|(copy, report)| (*copy, report.progress.clone())).collect::<Vec<_>>()
    };
    if progress(published) != progress(next) {
        PAUSE
    } else if next.copies.values().any(|report| report.progress == CopyProgress::Working) {
        WORKING_PAUSE
    } else {
        QUIET_PAUSE
    }
}

impl ClusterMembership {
    /// Publishes the reports of this node about its copies as they change, until the node leaves. A node that
    /// never had a copy publishes nothing.
    pub async fn publish_copy_reports(&self, mut reports: watch::Receiver<Arc<NodeCopyReports>>) {
        let mut snapshots = self.snapshots();
        // The last publication: its beginning, the time until the next one, and the reports.
        let mut published: Option<(Instant, Duration, Arc<NodeCopyReports>)> = None;
        loop {
            let next = Arc::clone(&reports.borrow_and_update());
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            let mut wait = None;
            if let Some(notes) = self.unpublished(&snapshot, &next) {
                let due = published.as_ref().map_or(Duration::ZERO, |(began, interval, published)| {
                    pause(published, &next).max(*interval).saturating_sub(began.elapsed())
                });
                wait = Some(due);
                if due.is_zero() {
                    let began = Instant::now();
                    match self.write_notes(&snapshot, notes).await {
                        Ok(()) => {
                            published = Some((began, interval_after(began.elapsed()), next));
                            continue;
                        }
                        Err(error) => {
                            tracing::debug!(%error, "publishing reports about copies of indexes");
                            wait = Some(RETRY_PAUSE);
                        }
                    }
                }
            }
            let waited = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = waited => {}
                changed = reports.changed() => if changed.is_err() { return },
                changed = snapshots.changed() => if changed.is_err() { return },
                () = self.shared().wait_until_left() => return,
            }
        }
    }

    /// Notes that differ from those of coordination; `None` values are to be deleted.
    fn unpublished(
        &self,
        snapshot: &CoordinationSnapshot,
        reports: &NodeCopyReports,
    ) -> Option<Vec<(String, Option<Vec<u8>>)>> {
        let node = &*self.settings().name;
        let own = snapshot.notes.keys().filter(|name| node_of(name) == Some(node));
        let own: Vec<&String> = own.collect();
        // Before coordination has answered, it is not known what it has.
        if (reports.copies.is_empty() && own.is_empty()) || !snapshot.members.contains_key(node) {
            return None;
        }
        let known = self.shared().placement.known().map_or(0, |table| table.version());
        let there = snapshot.placement.table().map_or(0, |table| table.version());
        let table = if known > there { known } else { 0 };
        let values = values(self.incarnation(), table, reports);
        let names: Vec<String> = (0..values.len()).map(|part| note_name(node, part)).collect();
        let gone = own.into_iter().filter(|name| !names.contains(name)).map(|name| (name.clone(), None));
        let written = names.iter().cloned().zip(values.into_iter().map(Some));
        let differs = |(name, value): &(String, Option<Vec<u8>>)| {
            snapshot.notes.get(name).map(|note| &*note.value) != value.as_deref()
        };
        let notes: Vec<_> = written.chain(gone).filter(differs).collect();
        (!notes.is_empty()).then_some(notes)
    }

    async fn write_notes(
        &self,
        snapshot: &CoordinationSnapshot,
        notes: Vec<(String, Option<Vec<u8>>)>,
    ) -> Result<(), Error> {
        for (name, value) in notes {
            let changed = snapshot.notes.get(&name).map(|note| note.changed);
            // If it was changed meanwhile, the next round sees it.
            self.note(&name, changed, &[(name.clone(), value)]).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use millrace_index_placement::{CopyId, NodeCopyReport};

    use super::*;
    use crate::NodeNote;

    fn reports(copies: u64, change: impl Fn(u64, &mut NodeCopyReport)) -> NodeCopyReports {
        let report = |copy| {
            let progress = CopyProgress::CaughtUp;
            let mut report = NodeCopyReport {
                progress,
                bytes: 5,
                entries: 2,
                done: 1.0,
                seconds_left: None,
                lag: None,
                verified: None,
            };
            change(copy, &mut report);
            (CopyId(copy), report)
        };
        NodeCopyReports { copies: (0..copies).map(report).collect() }
    }

    #[test]
    fn many_copies_are_in_several_notes_that_are_read_together() {
        let run = Incarnation::new(7);
        let all = reports(20_000, |copy, report| {
            if copy % 2 == 0 {
                report.progress = CopyProgress::Failed("x".repeat(240).into());
            }
        });
        let values = values(run, 3, &all);
        assert!(values.len() > 1 && values.iter().all(|value| value.len() < 1 << 20), "{}", values.len());
        let note = |(part, value): (usize, Vec<u8>)| {
            (note_name("n0", part), NodeNote { value: value.into(), changed: part as u64 + 1 })
        };
        let notes = values.into_iter().enumerate().map(note);
        let snapshot = CoordinationSnapshot { notes: notes.collect(), ..CoordinationSnapshot::default() };
        let mut read = ReadReports::default();
        for _ in 0..2 {
            let found = read.reports_by_node(&snapshot);
            assert_eq!(
                found,
                BTreeMap::from([("n0".to_owned(), NodeReports { table: 3, copies: all.clone() })])
            );
        }
        // A note that is none is left out, and others count.
        let mut snapshot = snapshot;
        let wrong = NodeNote { value: b"{}".as_slice().into(), changed: 99 };
        snapshot.notes.insert(note_name("n0", 0), wrong);
        let left = read.reports_by_node(&snapshot)["n0"].copies.copies.len();
        assert!(left > 0 && left < 20_000, "{left}");
        snapshot.notes.clear();
        assert!(read.reports_by_node(&snapshot).is_empty() && read.notes.is_empty());
    }

    #[test]
    fn progress_is_published_sooner_than_figures() {
        let ready = reports(2, |_, _| ());
        let larger = reports(2, |_, report| report.bytes = 900);
        let working = |bytes| {
            reports(2, move |_, report| (report.progress, report.bytes) = (CopyProgress::Working, bytes))
        };
        for (published, next, expected) in [
            (&reports(0, |_, _| ()), &ready, PAUSE),
            (&working(1), &ready, PAUSE),
            (&ready, &reports(3, |_, _| ()), PAUSE),
            (&working(1), &working(2), WORKING_PAUSE),
            (&ready, &larger, QUIET_PAUSE),
        ] {
            assert_eq!(pause(published, next), expected, "{published:?} {next:?}");
        }
    }
}
