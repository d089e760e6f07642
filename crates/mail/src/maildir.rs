//! Maildirs: a file for each message, in `cur` and `new` of each folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// Maximum nesting of folders.
const DEPTH_MAX: usize = 16;

/// A message file, with its folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MaildirEntry {
    pub folder: String,
    pub path: PathBuf,
}

/// All message files below a maildir, by folder and name. Links are not followed.
///
/// Folders are named by Maildir++ (`.Archive.2024` is `archive/2024`) or by their directories; the root is
/// `inbox`.
pub(crate) fn entries(root: &Path) -> Result<Vec<MaildirEntry>, Error> {
    let mut entries = Vec::new();
    collect(root, "", 0, &mut entries)?;
    if entries.is_empty() && !root.join("cur").is_dir() && !root.join("new").is_dir() {
        let source =
            io::Error::new(io::ErrorKind::NotFound, "not a maildir: it has no directory 'cur' or 'new'");
        return Err(Error::Read { path: root.to_owned(), source });
    }
    entries.sort();
    Ok(entries)
}

fn collect(
    directory: &Path,
    folder: &str,
    depth: usize,
    entries: &mut Vec<MaildirEntry>,
) -> Result<(), Error> {
    let broken = |path: &Path, source| Error::Read { path: path.to_owned(), source };
    for entry in fs::read_dir(directory).map_err(|source| broken(directory, source))? {
        let entry = entry.map_err(|source| broken(directory, source))?;
        let path = entry.path();
        if !entry.file_type().map_err(|source| broken(&path, source))?.is_dir() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.as_str() {
            "cur" | "new" => files(&path, if folder.is_empty() { "inbox" } else { folder }, entries)?,
            "tmp" => {}
            _ if depth < DEPTH_MAX => {
                let own = name.trim_start_matches('.').replace('.', "/").to_lowercase();
                let inner = if folder.is_empty() { own } else { format!("{folder}/{own}") };
                collect(&path, &inner, depth + 1, entries)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn files(directory: &Path, folder: &str, entries: &mut Vec<MaildirEntry>) -> Result<(), Error> {
    let broken = |path: &Path, source| Error::Read { path: path.to_owned(), source };
    for entry in fs::read_dir(directory).map_err(|source| broken(directory, source))? {
        let entry = entry.map_err(|source| broken(directory, source))?;
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if !hidden && entry.file_type().map_err(|source| broken(&path, source))?.is_file() {
            entries.push(MaildirEntry { folder: folder.to_owned(), path });
        }
    }
    Ok(())
}
