//! Local state of a node across restarts: the last cluster state, the node's name, and the number that
//! identifies its directory.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millrace_cluster::ClusterState;
use millrace_env::{Disk, RealDisk, read_file, replace_file};
use millrace_index_placement::PlacementTable;

use crate::Error;
use crate::membership::MembershipShared;

/// Local state in the node's own directory.
pub(crate) struct MemberLocalState {
    directory: PathBuf,
    /// Random number, created with the directory.
    pub(crate) home: u64,
    /// The last cluster state, if there is a readable one.
    pub(crate) state: Option<Arc<ClusterState>>,
    /// The last table of copies of indexes, if there is a readable one.
    pub(crate) placement: Option<Arc<PlacementTable>>,
}

/// File with the node's name.
const NAME: &str = "name";

/// File with the directory's number.
const HOME: &str = "home";

/// File with the last cluster state.
const STATE: &str = "state";

/// File with the last table of copies of indexes.
pub(crate) const PLACEMENT: &str = "index-copies";

/// Owner of the directory: the name of a node of a cluster, empty if none was written; `None` if it does not
/// belong to such a node.
///
/// # Errors
/// [`Error::Disk`].
pub fn resident(directory: &Path) -> Result<Option<String>, Error> {
    let read = |file: &str| read_file(&RealDisk, &directory.join(file)).map_err(failed);
    match read(NAME)? {
        Some(name) => Ok(Some(String::from_utf8_lossy(&name).trim().to_owned())),
        None => Ok(read(HOME)?.map(|_| String::new())),
    }
}

/// Protocol of the last cluster state that a node has kept in its directory; `None` if it has no readable
/// one. All nodes of the cluster know it, since no older version is admitted from that state on.
///
/// # Errors
/// [`Error::Disk`].
pub fn kept_protocol(directory: &Path) -> Result<Option<u16>, Error> {
    Ok(kept_state(directory)?.map(|state| state.protocol()))
}

/// The last cluster state in a directory, if there is a readable one.
fn kept_state(directory: &Path) -> Result<Option<ClusterState>, Error> {
    let state = read_file(&RealDisk, &directory.join(STATE)).map_err(failed)?;
    Ok(state.and_then(|bytes| match ClusterState::from_json(&bytes) {
        Ok(state) => Some(state),
        Err(error) => {
            tracing::warn!(%error, "the last cluster state is not known any more");
            None
        }
    }))
}

fn failed(error: io::Error) -> Error {
    Error::Disk(error.to_string())
}

impl MemberLocalState {
    /// Opens the directory of the node with this name; a directory of another node is refused.
    pub(crate) fn open(directory: &Path, name: &str) -> Result<Self, Error> {
        let disk = RealDisk;
        let fail = failed;
        disk.create_directory(directory).map_err(fail)?;
        match resident(directory)?.as_deref() {
            Some(other) if !other.is_empty() && other != name => {
                let (directory, owner) = (directory.to_owned(), other.to_owned());
                return Err(Error::Resident { directory, owner, name: name.to_owned() });
            }
            _ => {}
        }
        let path = directory.join(HOME);
        let home = match read_file(&disk, &path).map_err(fail)? {
            Some(bytes) => std::str::from_utf8(&bytes)
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .ok_or_else(|| Error::Disk(format!("{} should hold a number; delete it", path.display())))?,
            None => {
                let home = random();
                replace_file(&disk, &path, home.to_string().as_bytes()).map_err(fail)?;
                home
            }
        };
        let state = kept_state(directory)?.map(Arc::new);
        let placement = read_file(&disk, &directory.join(PLACEMENT)).map_err(fail)?;
        let placement = placement.and_then(|bytes| match PlacementTable::from_json(&bytes) {
            Ok(table) => Some(Arc::new(table)),
            Err(error) => {
                tracing::warn!(%error, "the last table of copies of indexes is not known any more");
                None
            }
        });
        Ok(MemberLocalState { directory: directory.to_owned(), home, state, placement })
    }

    /// Makes this node the owner of the directory from now on.
    pub(crate) fn take(&self, name: &str) -> Result<(), Error> {
        match resident(&self.directory)? {
            Some(own) if own == name => Ok(()),
            _ => replace_file(&RealDisk, &self.directory.join(NAME), name.as_bytes()).map_err(failed),
        }
    }

    /// Stores every state that becomes known, until the node leaves.
    pub(crate) async fn follow(directory: PathBuf, shared: Arc<MembershipShared>) {
        let mut states = shared.states();
        loop {
            tokio::select! {
                changed = states.changed() => if changed.is_err() { return },
                () = shared.wait_until_left() => return,
            }
            let Some(state) = states.borrow_and_update().clone() else { continue };
            let path = directory.join(STATE);
            let write = move || replace_file(&RealDisk, &path, &state.to_json());
            match tokio::task::spawn_blocking(write).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the cluster state could not be kept on disk"),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The process ends.
                Err(_) => return,
            }
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// A unique random number.
pub(crate) fn random() -> u64 {
    // The keys of each instance are random.
    RandomState::new().hash_one(std::process::id()) | 1
}
