//! The file of API keys.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown, lchown,
};
use std::path::{Path, PathBuf};

use millrace_access::AccessFile;
use rustix::fs::OFlags;

use crate::cli::TokenDirectory;
use crate::error::Error;
use crate::output;

/// Permissions of a file that is made: only its owner may read it.
const PRIVATE: u32 = 0o600;

/// Owner and permissions of the file of keys. The server may run as another user than a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileOwner {
    user: u32,
    group: u32,
    mode: u32,
    /// True if they are those of the file, and not of its directory.
    is_of_file: bool,
}

/// The file of API keys. Commands that change it take turns.
pub(super) struct KeyFile {
    path: PathBuf,
    /// True if an argument names it, and not only its directory.
    is_named: bool,
}

impl KeyFile {
    /// The file that the arguments name. There, a link stands for the file behind it, so that the file has
    /// one lock by each of its names. In a data directory, which can be another user's, no link is followed.
    pub(super) fn of(directory: &TokenDirectory) -> Self {
        let path = directory.access_file.clone().unwrap_or_else(|| directory.data_dir.join("access.toml"));
        let is_named = directory.access_file.is_some();
        let path = match is_named {
            true => fs::canonicalize(&path).unwrap_or(path),
            false => path,
        };
        KeyFile { path, is_named }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; without one, there are no keys.
    ///
    /// # Errors
    /// It cannot be read, or is malformed.
    pub(super) fn read(&self) -> Result<AccessFile, Error> {
        match self.text() {
            Ok(text) => Ok(AccessFile::parse(&text)?),
            Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(AccessFile::default())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the file of a server that may have no keys yet.
    ///
    /// # Errors
    /// Those of [`KeyFile::read`]; the directory does not exist, or a file that was named.
    pub(super) fn existing(&self) -> Result<AccessFile, Error> {
        match self.is_named || !self.directory().is_dir() {
            true => Ok(AccessFile::parse(&self.text()?)?),
            false => self.read(),
        }
    }

    /// Text of the file.
    fn text(&self) -> Result<String, Error> {
        let opened = open_regular(&self.path, OpenOptions::new().read(true));
        let file = opened.map_err(|source| self.failed(source))?;
        let cure = "name the file itself with --access-file, to the server as well";
        let file = file.ok_or_else(|| Error::Irregular { path: self.path.clone(), cure })?;
        io::read_to_string(file).map_err(|source| self.failed(source))
    }

    /// Changes the file in one step: no other command reads or replaces it meanwhile.
    ///
    /// # Errors
    /// That of `change`; or the file cannot be read or replaced. The file is as it was.
    pub(super) fn change(
        &self,
        change: impl FnOnce(&mut AccessFile) -> Result<(), Error>,
    ) -> Result<AccessFile, Error> {
        let _lock = self.lock()?;
        let mut file = self.read()?;
        change(&mut file)?;
        let text = file.text()?;
        // What the server would refuse is not written.
        AccessFile::parse(&text)?;
        self.replace(&text)?;
        Ok(file)
    }

    /// Waits for the lock, which lasts until the returned file is closed. It is a file of its own, which
    /// stays: that of the keys is replaced, so that two commands could each lock another one.
    fn lock(&self) -> Result<File, Error> {
        self.make_directory().map_err(|source| self.failed(source))?;
        let path = self.path.with_extension("toml.lock");
        let failed = |source| Error::File { path: path.clone(), source };
        let file = match OpenOptions::new().create_new(true).write(true).mode(PRIVATE).open(&path) {
            Ok(file) => {
                // Commands of the owner take turns, too, and have to write to the lock even if the file of
                // keys can only be read. If the lock cannot be given to the owner, neither can the file of
                // keys, which has a message.
                let owner = self.owner().map_err(|source| self.failed(source))?;
                let _ = FileOwner { mode: PRIVATE, ..owner }.give(&file);
                file
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let opened = open_regular(&path, OpenOptions::new().write(true)).map_err(failed)?;
                let cure = "remove it while no command of `millrace token` runs";
                opened.ok_or_else(|| Error::Irregular { path: path.clone(), cure })?
            }
            Err(source) => return Err(failed(source)),
        };
        file.lock().map_err(failed)?;
        Ok(file)
    }

    /// Makes the directory of the file, if it does not exist. What is made belongs to the owner of the
    /// directory above, whose server has to write there.
    fn make_directory(&self) -> io::Result<()> {
        let directory = self.directory();
        let missing: Vec<&Path> = directory
            .ancestors()
            .take_while(|above| !above.as_os_str().is_empty() && !above.exists())
            .collect();
        let Some(first) = missing.last() else { return Ok(()) };
        let above = first.parent().filter(|parent| !parent.as_os_str().is_empty());
        let owner = fs::metadata(above.unwrap_or(Path::new(".")))?;
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        for made in missing {
            let metadata = fs::metadata(made)?;
            if (metadata.uid(), metadata.gid()) != (owner.uid(), owner.gid()) {
                // One who may not keeps the directory, as the user of its own server.
                let _ = lchown(made, Some(owner.uid()), Some(owner.gid()));
            }
        }
        Ok(())
    }

    /// Owner and permissions for the file: its own, or the owner of its directory.
    fn owner(&self) -> io::Result<FileOwner> {
        let (metadata, is_of_file) = match fs::symlink_metadata(&self.path) {
            Ok(metadata) => (metadata, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (fs::metadata(self.directory())?, false),
            Err(error) => return Err(error),
        };
        let mode = if is_of_file { metadata.mode() & 0o777 } else { PRIVATE };
        Ok(FileOwner { user: metadata.uid(), group: metadata.gid(), mode, is_of_file })
    }

    /// Replaces the file in one step, under the lock. Its owner and its permissions stay; a new one belongs
    /// to the owner of its directory, who alone may read it.
    ///
    /// # Errors
    /// The replacement cannot be written, or cannot be given to the owner. The file is as it was.
    fn replace(&self, text: &str) -> Result<(), Error> {
        let failed = |source| self.failed(source);
        let owner = self.owner().map_err(failed)?;
        let partial = self.path.with_extension("toml.partial");
        // One that a command left behind, or a link that could stand for any file.
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let made = OpenOptions::new().create_new(true).write(true).mode(PRIVATE).open(&partial);
        let mut file = made.map_err(failed)?;
        if let Err(source) = owner.give(&file) {
            let user = owner.user;
            if owner.is_of_file {
                // What is left behind would be replaced by the next command.
                let _ = fs::remove_file(&partial);
                return Err(Error::KeyOwner { path: self.path.clone(), user, source });
            }
            // The superuser reads any file.
            if user != 0 {
                output::note(format_args!(
                    "note: {}: the directory belongs to the user {user}, to whom the file cannot be given ({source}); if a \
                     server of that user is to read it, give it to the user (chown)",
                    self.path.display()
                ));
            }
        }
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        written.and_then(|()| fs::rename(&partial, &self.path)).map_err(failed)?;
        File::open(self.directory()).and_then(|directory| directory.sync_all()).map_err(failed)
    }

    fn directory(&self) -> &Path {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::File { path: self.path.clone(), source }
    }
}

/// Opens a regular file. `None`: it is a link, which could stand for any file, or another kind of file, such
/// as a pipe, which would wait for its other end.
fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<Option<File>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    match options.custom_flags(flags).open(path) {
        Ok(file) => Ok(file.metadata()?.is_file().then_some(file)),
        Err(error) => match fs::symlink_metadata(path) {
            Ok(metadata) if !metadata.is_file() => Ok(None),
            _ => Err(error),
        },
    }
}

impl FileOwner {
    /// Gives a file to the owner, with the permissions.
    ///
    /// # Errors
    /// The user of the process may not.
    fn give(self, file: &File) -> io::Result<()> {
        let metadata = file.metadata()?;
        if (metadata.uid(), metadata.gid()) != (self.user, self.group) {
            match fchown(file, Some(self.user), Some(self.group)) {
                // A group without rights to the file does not matter.
                Err(_) if metadata.uid() == self.user && self.mode & 0o070 == 0 => {}
                given => given?,
            }
        }
        match metadata.mode() & 0o777 == self.mode {
            true => Ok(()),
            false => file.set_permissions(Permissions::from_mode(self.mode)),
        }
    }
}
