//! Ports of the loopback interface for the processes that tests and benchmarks start.

use std::fs::{File, TryLockError};
use std::io;
use std::net::TcpListener;
use std::ops::Range;
use std::path::Path;
use std::sync::Once;

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Ports below those that systems give to outgoing connections (from 32,768 on Linux, 49,152 elsewhere), so
/// that no connection takes one between the choice and the start of the process that listens there.
const PORTS: Range<u16> = 10_240..32_768;

/// Claims of this process, held until it ends.
static CLAIMS: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Chooses a TCP port of the loopback interface that is free, and that no other caller on this machine gets
/// while this process lives.
///
/// A claim is a locked file in the system's directory for temporary files. `scripts/ports.py` makes the same
/// claims.
///
/// # Errors
/// Those of the file system; [`io::ErrorKind::AddrInUse`] if all ports are taken.
pub fn free_port() -> io::Result<u16> {
    raise_file_limit();
    let directory = std::env::temp_dir().join("millrace-ports");
    std::fs::create_dir_all(&directory)?;
    let nanoseconds = crate::unix_time().subsec_nanos();
    let count = PORTS.len();
    let first = (std::process::id() as usize).wrapping_mul(7919).wrapping_add(nanoseconds as usize) % count;
    for port in PORTS.cycle().skip(first).take(count) {
        if let Some(claim) = claim(&directory, port)? {
            CLAIMS.lock().push(claim);
            return Ok(port);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "all ports for tests and benchmarks are taken"))
}

/// Raises the limit of open files, once, to the maximum that the system allows without privileges: each claim
/// is an open file, and an executable of tests starts hundreds of servers.
fn raise_file_limit() {
    static RAISED: Once = Once::new();
    RAISED.call_once(|| {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // If it is refused, a claim beyond the limit is an error that says so.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    });
}

/// Claims a port unless it is claimed or in use.
fn claim(directory: &Path, port: u16) -> io::Result<Option<File>> {
    let path = directory.join(port.to_string());
    let claim = File::options().write(true).create(true).truncate(false).open(path)?;
    match claim.try_lock() {
        Ok(()) => Ok(TcpListener::bind(("127.0.0.1", port)).is_ok().then_some(claim)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_port_is_given_once() {
        let ports: Vec<u16> = (0..200).map(|_| free_port().expect("a port is free")).collect();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len());
        assert!(ports.iter().all(|port| PORTS.contains(port)));
    }

    #[test]
    fn a_port_in_use_is_not_claimed() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        assert!(claim(directory.path(), port).expect("a file").is_none());
        drop(listener);
        let first = claim(directory.path(), port).expect("a file");
        assert!(first.is_some() && claim(directory.path(), port).expect("a file").is_none());
    }
}
