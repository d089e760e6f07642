//! Files of an application package, from an archive or a directory.
//!
//! Archives come from the network: paths must stay inside the package, and the unpacked size is bounded by
//! the size of the archive.

mod ignore;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use crate::Error;
use crate::services::indexes::EXTENSION_FILE;
use ignore::IgnorePatterns;

/// Files of a package by path, with forward slashes.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Maximum number of files of a package.
pub const FILES_MAX: usize = 10_000;
/// Maximum size of all files together, in bytes.
const BYTES_MAX: u64 = 2 << 30;
/// Unpacked size in bytes allowed for any archive; a larger size must not exceed [`RATIO_MAX`] times the
/// archive.
const UNPACKED_FREE: u64 = 64 << 20;
/// Maximum ratio of the unpacked size to the size of the archive.
const RATIO_MAX: u64 = 50;
/// Maximum nesting of directories.
const DEPTH_MAX: usize = 32;

/// Reads a zip archive.
pub(crate) fn from_zip(archive: &[u8]) -> Result<Files, Error> {
    unzipped(Cursor::new(archive), archive.len() as u64)
}

/// Reads a zip archive in a file.
pub(crate) fn from_zip_file(archive: &fs::File) -> Result<Files, Error> {
    let bytes = bytes_of(archive)?;
    unzipped(BufReader::new(archive), bytes)
}

fn unzipped(archive: impl Read + Seek, bytes: u64) -> Result<Files, Error> {
    let mut zip = zip::ZipArchive::new(archive)
        .map_err(|error| Error::Package(format!(
            "this is not a zip archive ({error}): send one of the directory that has services.xml, as 'millrace deploy DIRECTORY' does"
        )))?;
    let mut files = CollectedFiles::new(bytes);
    for index in 0..zip.len() {
        let entry = zip
            .by_index(index)
            .map_err(|error| Error::Package(format!("read entry {index} of the zip archive: {error}")))?;
        if entry.is_dir() {
            continue;
        }
        let path = entry
            .name()
            .map_err(|error| Error::Package(format!("read the name of entry {index}: {error}")))?
            .into_owned();
        if entry.is_symlink() {
            return Err(link(&path));
        }
        files.add(&path, Some(entry.size()), entry)?;
    }
    files.finish()
}

/// Reads a gzipped tar archive.
pub(crate) fn from_tar_gz(archive: &[u8]) -> Result<Files, Error> {
    untarred(archive, archive.len() as u64)
}

/// Reads a tar archive compressed by gzip, in a file.
pub(crate) fn from_tar_gz_file(mut archive: &fs::File) -> Result<Files, Error> {
    let bytes = bytes_of(archive)?;
    archive.seek(SeekFrom::Start(0)).map_err(|error| Error::Package(format!("read the archive: {error}")))?;
    untarred(BufReader::new(archive), bytes)
}

fn bytes_of(archive: &fs::File) -> Result<u64, Error> {
    let metadata = archive.metadata();
    Ok(metadata.map_err(|error| Error::Package(format!("read the archive: {error}")))?.len())
}

fn untarred(archive: impl BufRead, bytes: u64) -> Result<Files, Error> {
    let broken = |error: std::io::Error| Error::Package(format!("read the tar archive: {error}"));
    let mut files = CollectedFiles::new(bytes);
    // Headers and skipped entries are unpacked too, so the whole stream is bounded, not only what is kept.
    let stream = flate2::bufread::MultiGzDecoder::new(archive).take(files.left.saturating_add(UNPACKED_FREE));
    let mut tar = tar::Archive::new(stream);
    for entry in tar.entries().map_err(broken)? {
        let entry = entry.map_err(broken)?;
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        match entry.header().entry_type() {
            tar::EntryType::Regular | tar::EntryType::Continuous => {
                files.add(&path, Some(entry.size()), entry)?;
            }
            tar::EntryType::Symlink | tar::EntryType::Link => return Err(link(&path)),
            _ => {}
        }
    }
    files.finish()
}

/// Reads a directory. Names that start with a dot are skipped, and so are the paths in `.vespaignore`.
///
/// A Maven project without services.xml in its root is read from `src/main/application`.
pub(crate) fn from_dir(directory: &Path) -> Result<Files, Error> {
    let nested = directory.join("src/main/application");
    let root = if !directory.join("services.xml").exists() && nested.join("services.xml").exists() {
        nested.as_path()
    } else {
        directory
    };
    // Before all files are read: the directory may be any.
    if !root.join("services.xml").is_file() {
        return Err(Error::Package(format!(
            "no services.xml in {}, so it is not an application package; name the directory in which that file is",
            directory.display()
        )));
    }
    let patterns = fs::read_to_string(root.join(".vespaignore")).unwrap_or_default();
    let ignore = IgnorePatterns::parse(&patterns)?;
    let mut files = CollectedFiles { files: Files::new(), left: BYTES_MAX };
    walk(root, "", 0, &ignore, &mut files)?;
    files.finish()
}

fn walk(
    directory: &Path,
    prefix: &str,
    depth: usize,
    ignore: &IgnorePatterns,
    files: &mut CollectedFiles,
) -> Result<(), Error> {
    let broken =
        |path: &Path, error: std::io::Error| Error::Package(format!("read {}: {error}", path.display()));
    if depth > DEPTH_MAX {
        return Err(Error::Package(format!(
            "{} lies more than {DEPTH_MAX} directories deep",
            directory.display()
        )));
    }
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| broken(directory, error))? {
        entries.push(entry.map_err(|error| broken(directory, error))?.path());
    }
    entries.sort();
    for path in entries {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return Err(Error::Package(format!("the name {} is not UTF-8 text", path.display())));
        };
        let inner = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        let is_dir = path.is_dir();
        if name.starts_with('.') || ignore.matches(&inner, is_dir) {
            continue;
        }
        if is_dir {
            walk(&path, &inner, depth + 1, ignore, files)?;
        } else {
            files.add(&inner, None, fs::File::open(&path).map_err(|error| broken(&path, error))?)?;
        }
    }
    Ok(())
}

fn link(path: &str) -> Error {
    Error::Package(format!("'{path}' is a link: put the file itself into the archive"))
}

/// Maximum size in bytes that an archive or a compressed file of `packed_bytes` may unpack to.
pub(crate) fn unpacked_bytes_max(packed_bytes: u64) -> u64 {
    BYTES_MAX.min(UNPACKED_FREE.max(packed_bytes.saturating_mul(RATIO_MAX)))
}

/// Files read so far, with the remaining limits.
struct CollectedFiles {
    files: Files,
    left: u64,
}

impl CollectedFiles {
    fn new(archive_bytes: u64) -> Self {
        CollectedFiles { files: Files::new(), left: unpacked_bytes_max(archive_bytes) }
    }

    /// Reads a file. `declared`: its size in bytes by its archive, which is checked before anything is read.
    fn add(&mut self, path: &str, declared: Option<u64>, content: impl Read) -> Result<(), Error> {
        let path = inside(path)?;
        // `ext/` is reserved for the user's own files.
        if path.starts_with("ext/") && path != EXTENSION_FILE {
            return Ok(());
        }
        if self.files.len() == FILES_MAX {
            return Err(Error::Package(format!(
                "more than {FILES_MAX} files: name those that are not needed in .vespaignore"
            )));
        }
        let too_much = || {
            Error::Package(format!(
                "the archive unpacks to too much at {path}: at most {} MiB, or {RATIO_MAX} times its own size",
                UNPACKED_FREE >> 20
            ))
        };
        if declared.is_some_and(|size| size > self.left) {
            return Err(too_much());
        }
        let bytes_max = declared.unwrap_or(self.left);
        // Without growing, which would take twice the room.
        let mut bytes = Vec::with_capacity(declared.map_or(0, |size| size as usize));
        let read = content
            .take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| Error::Package(format!("read {path}: {error}")))?;
        if declared.is_some_and(|size| read as u64 > size) {
            return Err(Error::Package(format!("{path} is longer than the archive says: pack it again")));
        }
        self.left = self.left.checked_sub(read as u64).ok_or_else(too_much)?;
        self.files.insert(path, bytes);
        Ok(())
    }

    fn finish(self) -> Result<Files, Error> {
        if self.files.is_empty() {
            return Err(Error::Package(
                "it has no files: a package holds services.xml and schemas/".to_owned(),
            ));
        }
        Ok(self.files)
    }
}

/// The path without `./`, if it stays inside the package.
fn inside(path: &str) -> Result<String, Error> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let leaves =
        path.starts_with('/') || path.contains(['\\', '\0']) || parts.contains(&"..") || parts.is_empty();
    if leaves || parts.len() > DEPTH_MAX {
        return Err(Error::Package(format!(
            "the path '{}' does not stay inside the package",
            path.escape_debug()
        )));
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (path, bytes) in entries {
            zip.start_file(*path, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn tar_gz(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut tar =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (path, bytes) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_cksum();
            tar.append(&header, *bytes).unwrap();
        }
        tar.into_inner().unwrap().finish().unwrap()
    }

    fn check(entries: &[(&str, &[u8])], expected: Result<&[&str], &str>) {
        for files in [from_zip(&zip(entries)), from_tar_gz(&tar_gz(entries))] {
            match (&files, expected) {
                (Ok(files), Ok(paths)) => assert_eq!(files.keys().collect::<Vec<_>>(), paths),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (files, expected) => panic!("{files:?} is not {expected:?}"),
            }
        }
    }

    #[test]
    fn archives_stay_inside_the_package() {
        check(
            &[("./services.xml", b"x"), ("schemas/a.sd", b"y"), ("ext/z", b"")],
            Ok(&["schemas/a.sd", "services.xml"]),
        );
        check(&[("../services.xml", b"x")], Err("does not stay inside"));
        check(&[("/etc/passwd", b"x")], Err("does not stay inside"));
        check(&[("a/../../b", b"x")], Err("does not stay inside"));
        check(&[], Err("no files"));
    }

    #[test]
    fn bombs_are_refused() {
        let zeros = vec![0_u8; (UNPACKED_FREE + 1) as usize];
        check(&[("bomb", &zeros)], Err("unpacks to too much at bomb"));
    }

    #[test]
    fn a_file_takes_no_memory_beyond_its_declared_size() {
        struct UntouchedReader;
        impl Read for UntouchedReader {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                panic!("a file that is too large is refused before it is read");
            }
        }
        let mut files = CollectedFiles::new(10);
        let refused =
            files.add("bomb", Some(UNPACKED_FREE + 1), UntouchedReader).expect_err("it is too large");
        assert!(refused.to_string().contains("unpacks to too much at bomb"), "{refused}");
        let refused = files.add("lie", Some(3), &b"longer"[..]).expect_err("it is longer");
        assert!(refused.to_string().contains("longer than the archive says"), "{refused}");
        files.add("whole", Some(5), &b"whole"[..]).expect("it is as long as declared");
        assert_eq!(files.files["whole"].capacity(), 5);
    }

    #[test]
    fn broken_archives_are_refused() {
        assert!(from_zip(b"PK\x03\x04 broken").is_err());
        assert!(from_tar_gz(b"\x1f\x8b broken").is_err());
    }

    #[test]
    fn directories_honour_vespaignore() {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("services.xml", ""),
            (".vespaignore", "# notes\n*.md\nraw/\n"),
            ("a.md", ""),
            (".hidden", ""),
            ("x/b.md", ""),
        ] {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir_all(directory.path().join("raw")).unwrap();
        fs::write(directory.path().join("raw/data"), "").unwrap();
        let files = from_dir(directory.path()).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["services.xml", "x/b.md"]);
    }

    #[test]
    fn directories_without_services_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        // More than a package may have, in no space.
        fs::File::create(directory.path().join("disk.img")).unwrap().set_len(BYTES_MAX + 1).unwrap();
        for path in [directory.path().to_owned(), directory.path().join("nope")] {
            let refused = from_dir(&path).expect_err("it is not a package").to_string();
            assert!(
                refused.contains("no services.xml in") && refused.contains("name the directory"),
                "{refused}"
            );
        }
    }
}
