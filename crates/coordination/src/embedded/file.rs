//! File format: a line with a checksum of the rest, and the keys as JSON.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millrace_env::{Disk, read_file, replace_file};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::state::{EmbeddedState, KeySnapshot};
use crate::{Error, KeyEntry, StoreRevision};

#[derive(Serialize, Deserialize)]
struct FileContent {
    revision: StoreRevision,
    entries: Vec<WrittenEntry>,
}

#[derive(Serialize, Deserialize)]
struct WrittenEntry {
    key: String,
    /// Value in base64.
    value: String,
    created: StoreRevision,
    changed: StoreRevision,
}

/// Reads the keys; none if there is no file.
pub(super) fn read(disk: &dyn Disk, path: &Path) -> Result<EmbeddedState, Error> {
    let bytes = read_file(disk, path).map_err(|error| Error::Disk(error.to_string()))?;
    let Some(bytes) = bytes else { return Ok(EmbeddedState::default()) };
    let damaged = |reason: String| Error::Damaged { path: path.display().to_string(), reason };
    let line = bytes.iter().position(|byte| *byte == b'\n');
    let (checksum, body) = bytes.split_at(line.map_or(0, |line| line + 1));
    if checksum != checksum_line(body).as_bytes() {
        return Err(damaged("it does not fit its checksum".to_owned()));
    }
    let written: FileContent = serde_json::from_slice(body).map_err(|error| damaged(error.to_string()))?;
    let mut keys = KeySnapshot { revision: written.revision, ..KeySnapshot::default() };
    for WrittenEntry { key, value, created, changed } in written.entries {
        let value = STANDARD.decode(value).map_err(|error| damaged(format!("{key}: {error}")))?.into();
        keys.entries.insert(key.clone(), KeyEntry { key, value, created, changed, lease: None });
    }
    Ok(EmbeddedState::of(keys))
}

/// Writes the keys that are not bound to a lease.
pub(super) fn write(disk: &dyn Disk, path: &Path, keys: &KeySnapshot) -> Result<(), Error> {
    let kept = keys.entries.values().filter(|entry| entry.lease.is_none());
    let entries = kept
        .map(|entry| WrittenEntry {
            key: entry.key.clone(),
            value: STANDARD.encode(&entry.value),
            created: entry.created,
            changed: entry.changed,
        })
        .collect();
    let body = serde_json::to_vec(&FileContent { revision: keys.revision(), entries })
        .expect("numbers and texts always have a JSON form");
    let bytes = [checksum_line(&body).as_bytes(), &body].concat();
    replace_file(disk, path, &bytes).map_err(|error| Error::Disk(error.to_string()))
}

fn checksum_line(body: &[u8]) -> String {
    format!("{:016x}\n", xxh3_64(body))
}
