//! Files that are small enough to be read and written whole.

use std::io;
use std::path::Path;

use crate::Disk;

/// Returns the content of a file; `None` if there is none.
///
/// # Errors
/// Those of the system.
pub fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = vec![0; usize::try_from(file.len()?).map_err(io::Error::other)?];
    file.read_at(0, &mut [&mut bytes])?;
    Ok(Some(bytes))
}

/// Replaces a file durably: a crash leaves the old one or the new one, and never a part of one.
///
/// # Errors
/// Those of the system. After an error, either the old file or the new one is there.
pub fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    let next = Path::new(&next);
    let mut file = disk.create(next)?;
    file.append(bytes)?;
    file.sync()?;
    drop(file);
    disk.rename(next, path)?;
    sync_name(disk, path)
}

/// Makes the name of a file or directory durable. A parent directory without read permission is left as it
/// is: another user made the name there, before.
///
/// # Errors
/// Those of the system.
pub fn sync_name(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    let Some(directory) = path.parent() else { return Ok(()) };
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    match disk.sync_directory(directory) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        outcome => outcome,
    }
}
