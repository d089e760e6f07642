use std::fs;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::Error;

/// Packs the application package in `directory` into a zip archive: all its files except hidden ones and
/// build output (`target`).
///
/// # Errors
/// The directory cannot be read, or has no services.xml.
pub fn pack(directory: &Path) -> Result<Vec<u8>, Error> {
    let root = root_of(directory)?;
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, path) in files(&root)? {
        let content = fs::read(&path).map_err(|source| Error::File { path: path.clone(), source })?;
        let fail = |reason: String| Error::Package { path: path.clone(), reason };
        archive.start_file(&name, SimpleFileOptions::default()).map_err(|error| fail(error.to_string()))?;
        archive.write_all(&content).map_err(|error| fail(error.to_string()))?;
    }
    let packed = archive
        .finish()
        .map_err(|error| Error::Package { path: directory.to_owned(), reason: error.to_string() })?;
    Ok(packed.into_inner())
}

/// Directory of services.xml: `directory` itself, or src/main/application below it.
fn root_of(directory: &Path) -> Result<PathBuf, Error> {
    let fail = |reason: &str| Error::Package { path: directory.to_owned(), reason: reason.to_owned() };
    match fs::metadata(directory) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(fail("it is a file; name the directory in which services.xml is")),
        Err(error) => {
            return Err(fail(&format!("{error}; name the directory in which services.xml is")));
        }
    }
    [directory.to_owned(), directory.join("src/main/application")]
        .into_iter()
        .find(|root| root.join("services.xml").is_file())
        .ok_or_else(|| fail("no services.xml in it, so it is not an application package"))
}

/// All files below `root`, by path in the package.
fn files(root: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut found = Vec::new();
    let mut directories = vec![(String::new(), root.to_owned())];
    while let Some((prefix, directory)) = directories.pop() {
        let fail = |source| Error::File { path: directory.clone(), source };
        for entry in fs::read_dir(&directory).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') || (prefix.is_empty() && name == "target") {
                continue;
            }
            match fs::metadata(entry.path()) {
                Ok(metadata) if metadata.is_dir() => {
                    directories.push((format!("{prefix}{name}/"), entry.path()));
                }
                Ok(_) => found.push((format!("{prefix}{name}"), entry.path())),
                Err(source) => return Err(Error::File { path: entry.path(), source }),
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_what_belongs() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for name in ["services.xml", "schemas/a.sd", ".git/config", "target/x.zip"] {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().expect("the name has a directory")).expect("a directory");
            fs::write(path, name).expect("a file");
        }
        let packed = pack(directory.path()).expect("a package");
        let archive = zip::ZipArchive::new(Cursor::new(packed)).expect("a zip archive");
        let mut names: Vec<String> =
            archive.file_names().map(|name| name.expect("UTF-8").into_owned()).collect();
        names.sort();
        assert_eq!(names, ["schemas/a.sd", "services.xml"]);
    }

    #[test]
    fn what_is_no_package_is_refused() {
        #[track_caller]
        fn check(path: &Path, expected: &str) {
            let error = pack(path).expect_err("it is none").to_string();
            assert!(error.contains(expected) && error.contains(&path.display().to_string()), "{error}");
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        check(directory.path(), "no services.xml in it");
        check(&directory.path().join("nope"), "No such file or directory");
        let file = directory.path().join("app.zip");
        fs::write(&file, "").expect("a file");
        check(&file, "it is a file; name the directory");
    }
}
