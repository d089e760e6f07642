//! The file of API keys.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use millrace_access::AccessFile;

use crate::cli::TokenDirectory;
use crate::error::Error;

/// The file of API keys. Commands that change it take turns.
pub(super) struct KeyFile {
    path: PathBuf,
    /// True if an argument names it, and not only its directory.
    is_named: bool,
}

impl KeyFile {
    /// The file that the arguments name. A link stands for the file behind it, so that the file has one lock
    /// by each of its names.
    pub(super) fn of(directory: &TokenDirectory) -> Self {
        let path = directory.access_file.clone().unwrap_or_else(|| directory.data_dir.join("access.toml"));
        let is_named = directory.access_file.is_some();
        KeyFile { path: fs::canonicalize(&path).unwrap_or(path), is_named }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; without one, there are no keys.
    ///
    /// # Errors
    /// It cannot be read, or is malformed.
    pub(super) fn read(&self) -> Result<AccessFile, Error> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(AccessFile::parse(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(AccessFile::default()),
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Reads the file of a server that may have no keys yet.
    ///
    /// # Errors
    /// As [`KeyFile::read`]; the directory does not exist, or a file that was named.
    pub(super) fn existing(&self) -> Result<AccessFile, Error> {
        match self.is_named || !self.directory().is_dir() {
            true => AccessFile::parse(&fs::read_to_string(&self.path).map_err(|source| self.failed(source))?)
                .map_err(Error::from),
            false => self.read(),
        }
    }

    /// Changes the file in one step: no other command reads or replaces it meanwhile.
    ///
    /// # Errors
    /// That of `change`; or the file cannot be read or replaced. The file is as it was.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut AccessFile) -> Result<(), Error>,
    ) -> Result<AccessFile, Error> {
        let _lock = self.lock().map_err(|source| self.failed(source))?;
        let mut file = self.read()?;
        change(&mut file)?;
        let text = file.text()?;
        // What the server would refuse is not written.
        AccessFile::parse(&text)?;
        self.replace(&text).map_err(|source| self.failed(source))?;
        Ok(file)
    }

    /// Waits for the lock, which lasts until the returned file is closed. It is a file of its own, which
    /// stays: that of the keys is replaced, so that two commands could each lock another one.
    fn lock(&self) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.directory())?;
        let path = self.path.with_extension("toml.lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        file.lock()?;
        Ok(file)
    }

    /// Replaces the file in one step, under the lock. Only its owner may read it.
    fn replace(&self, text: &str) -> io::Result<()> {
        let partial = self.path.with_extension("toml.partial");
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&partial)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&partial, &self.path)?;
        File::open(self.directory())?.sync_all()
    }

    fn directory(&self) -> &Path {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::File { path: self.path.clone(), source }
    }
}
