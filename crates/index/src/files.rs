//! Names of the files in the directory of a copy.

use std::path::{Path, PathBuf};

use millrace_env::Disk;

use crate::Error;

/// Name of the plan of an import.
pub(crate) const PLAN: &str = "import";

/// A run.
pub(crate) fn run_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:08}.run"))
}

/// A run of which parcels are missing, or have not been checked as a whole.
pub(crate) fn part_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:08}.part"))
}

/// A run that is being written in place of another.
pub(crate) fn next_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:08}.run.next"))
}

/// Refuses files that cannot fit, before they are begun: they would take the space of others, and fail.
pub(crate) fn check_space(disk: &dyn Disk, directory: &Path, needed: u64) -> Result<(), Error> {
    let asked = disk.free_space(directory);
    let free = asked.map_err(|error| Error::io("ask for free space of", directory, &error))?;
    match needed > free {
        true => Err(Error::NoSpace { path: directory.to_owned(), needed, free }),
        false => Ok(()),
    }
}

/// Removes all files of runs and imports but those that are kept: they were left by a crash, or by an import
/// that was given up. Returns true if there were any.
pub(crate) fn remove_others(disk: &dyn Disk, directory: &Path, kept: &[PathBuf]) -> Result<bool, Error> {
    let failed = |error: std::io::Error| Error::io("list", directory, &error);
    let mut found = false;
    for path in disk.list(directory).map_err(failed)? {
        let is_known = path.extension().is_some_and(|kind| kind == "run" || kind == "next" || kind == "part");
        if (is_known || path.file_name().is_some_and(|name| name == PLAN)) && !kept.contains(&path) {
            disk.unlink(&path).map_err(|error| Error::io("remove", &path, &error))?;
            found = true;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use millrace_env::RealDisk;

    use super::*;

    #[test]
    fn other_files_are_removed_below_a_relative_path_too() {
        let absolute = tempfile::tempdir().expect("a directory");
        let here = std::env::current_dir().expect("it is there");
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = up.join(absolute.path().strip_prefix("/").expect("it is absolute"));
        for directory in [absolute.path(), &relative] {
            let kept = run_path(directory, 1);
            for path in [&kept, &run_path(directory, 2), &part_path(directory, 3), &directory.join("marks")] {
                std::fs::write(path, b"").expect("written");
            }
            let found = remove_others(&RealDisk, directory, std::slice::from_ref(&kept));
            assert!(found.expect("they are removed"), "{}", directory.display());
            let left = RealDisk.list(directory).expect("listed");
            assert_eq!(left, [kept, directory.join("marks")]);
            assert!(!remove_others(&RealDisk, directory, &left).expect("nothing is to be removed"));
        }
    }
}
