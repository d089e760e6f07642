//! Files of the active application, as a start reads them.

use std::io;
use std::path::Path;

use millrace_cluster::DroppedTypes;
use millrace_schema::ApplicationDraft;
use millrace_store::CheckFinding;

use super::{ACTIVE, APPLIED, TypeRemovals, drops_of, package_of};
use crate::StartError;
use crate::reindexing::LocalReindexings;

/// Cure for a file that is damaged or missing.
const RESTORE: &str = "put a copy of the directory back, or move it away and deploy the application again";

/// The active application of a data directory.
pub(super) struct StoredApplication {
    /// Its generation; 0 after it was deleted.
    pub generation: u64,
    pub removals: TypeRemovals,
    /// `None` after it was deleted.
    pub draft: Option<ApplicationDraft>,
}

impl StoredApplication {
    /// Reads the files of a directory; `None` if there was no application yet.
    pub fn read(directory: &Path) -> Result<Option<Self>, StartError> {
        let active = directory.join(ACTIVE);
        let text = match std::fs::read_to_string(&active) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(unread(&active, source)),
        };
        let generation: u64 = text.trim().parse().map_err(|_| {
            damaged(&active, format!("it should hold a generation, not '{}'", text.trim()), RESTORE)
        })?;
        let removals = TypeRemovals {
            known: read_drops(&drops_of(directory, generation))?,
            applied: read_drops(&directory.join(APPLIED))?,
            had_application: true,
        };
        let draft = match generation {
            0 => None,
            _ => Some(read_package(&package_of(directory, generation))?),
        };
        Ok(Some(StoredApplication { generation, removals, draft }))
    }
}

fn read_package(path: &Path) -> Result<ApplicationDraft, StartError> {
    let bytes = std::fs::read(path).map_err(|source| unread(path, source))?;
    ApplicationDraft::from_zip(&bytes).map_err(|error| damaged(path, error.to_string(), RESTORE))
}

/// Reads the removals in a file; none if it does not exist, since earlier versions wrote none.
fn read_drops(path: &Path) -> Result<DroppedTypes, StartError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(DroppedTypes::default()),
        Err(source) => return Err(unread(path, source)),
    };
    serde_json::from_slice(&bytes).map_err(|error| {
        let reason = format!("it should hold the document types that were removed, as JSON: {error}");
        damaged(path, reason, "put a copy of the directory back, or {} in it to start without them")
    })
}

fn damaged(path: &Path, reason: String, cure: &'static str) -> StartError {
    StartError::Application { path: path.to_owned(), reason, cure }
}

/// The error for a file that is missing, is not a file, or that the user may not read.
fn unread(path: &Path, source: io::Error) -> StartError {
    match source.kind() {
        io::ErrorKind::PermissionDenied => StartError::Directory { path: path.to_owned(), source },
        _ => damaged(path, source.to_string(), RESTORE),
    }
}

/// Checks the files of the application in a data directory that no process has open. A start refuses those
/// that are found; an application that this version does not accept is found by the start alone.
pub fn check_application(data_dir: &Path) -> Vec<CheckFinding> {
    let directory = data_dir.join("application");
    let application = StoredApplication::read(&directory).map(drop);
    let reindexing = LocalReindexings::open(&directory).map(drop);
    let faults = [application, reindexing].into_iter().filter_map(Result::err);
    faults.map(|fault| finding(fault, &directory)).collect()
}

fn finding(fault: StartError, directory: &Path) -> CheckFinding {
    let (path, reason, cure) = match fault {
        StartError::Application { path, reason, cure } | StartError::Reindexing { path, reason, cure } => {
            (path, reason, cure)
        }
        StartError::Directory { path, source } => {
            (path, source.to_string(), "let the user of the server read and write it")
        }
        other => (directory.to_owned(), other.to_string(), RESTORE),
    };
    let meaning = format!("{reason}: the server does not start");
    CheckFinding { path, offset: None, meaning, cure: cure.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_of_the_application_are_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join("application").join(name);
        assert!(check_application(directory.path()).is_empty(), "there is no application");
        std::fs::create_dir(directory.path().join("application")).expect("made");
        let whole = [("active", "0"), ("0.drops", "{}"), ("dropped", "{}"), ("reindexing", "{}")];
        let write_all = || {
            for (name, text) in whole {
                std::fs::write(path(name), text).expect("written");
            }
        };
        write_all();
        assert!(check_application(directory.path()).is_empty(), "the application was deleted");
        for (name, text, reason, cure) in [
            ("active", "", "it should hold a generation", "deploy the application again"),
            ("active", "7", "No such file", "deploy the application again"),
            ("0.drops", "{", "as JSON", "or {} in it"),
            ("dropped", "", "as JSON", "or {} in it"),
            ("reindexing", "{", "EOF", "remove the file"),
        ] {
            write_all();
            std::fs::write(path(name), text).expect("written");
            let found = check_application(directory.path());
            let [finding] = &found[..] else { panic!("{name}: {found:?}") };
            let named = if text == "7" { path("7.zip") } else { path(name) };
            assert_eq!(finding.path, named);
            assert!(finding.meaning.contains(reason) && finding.cure.contains(cure), "{finding:?}");
        }
        write_all();
        std::fs::write(path("active"), "7").expect("written");
        std::fs::write(path("7.zip"), "not an archive").expect("written");
        let found = check_application(directory.path());
        assert!(found.len() == 1 && found[0].meaning.contains("not a zip archive"), "{found:?}");
    }
}
