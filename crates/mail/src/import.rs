use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::maildir::{self, MaildirEntry};
use crate::mbox::{MboxMessages, RawMessage};
use crate::threads::ConversationThreads;
use crate::{Error, MailMessage, mime};

/// Maximum size of a message file, in bytes.
const FILE_MAX: u64 = 64 << 20;

/// Messages of an archive, read one at a time; an unusable one is an error in its place.
///
/// After [`Error::Message`] the next message follows; after [`Error::Read`] of an mbox file nothing does.
pub struct MailImport {
    source: ArchiveSource,
    threads: ConversationThreads,
}

enum ArchiveSource {
    Mbox { messages: MboxMessages<Box<dyn BufRead + Send>>, path: PathBuf, folder: String, count: usize },
    Maildir(std::vec::IntoIter<MaildirEntry>),
}

impl MailImport {
    /// Reads an mbox file; its messages are in a folder named after it.
    ///
    /// # Errors
    /// The file cannot be opened, or is a directory.
    pub fn mbox(path: &Path) -> Result<Self, Error> {
        let broken = |source| Error::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(broken)?;
        if path.is_dir() {
            let reason = "it is a directory, which a maildir may be; an mbox is a file";
            return Err(broken(io::Error::new(io::ErrorKind::IsADirectory, reason)));
        }
        let folder =
            path.file_stem().map_or_else(|| "inbox".to_owned(), |stem| stem.to_string_lossy().to_lowercase());
        Ok(Self::mbox_from(Box::new(BufReader::with_capacity(1 << 18, file)), path, &folder))
    }

    /// Reads mbox data from another source, such as standard input; `path` is for messages only.
    pub fn mbox_from(reader: Box<dyn BufRead + Send>, path: &Path, folder: &str) -> Self {
        let messages = MboxMessages::new(reader);
        let source =
            ArchiveSource::Mbox { messages, path: path.to_owned(), folder: folder.to_owned(), count: 0 };
        MailImport { source, threads: ConversationThreads::default() }
    }

    /// Reads a maildir and the folders in it.
    ///
    /// # Errors
    /// The directory cannot be read, or is not a maildir.
    pub fn maildir(root: &Path) -> Result<Self, Error> {
        if root.is_file() {
            let reason = "it is a file, which an mbox may be; a maildir is a directory";
            let source = io::Error::new(io::ErrorKind::NotADirectory, reason);
            return Err(Error::Read { path: root.to_owned(), source });
        }
        Ok(MailImport {
            source: ArchiveSource::Maildir(maildir::entries(root)?.into_iter()),
            threads: ConversationThreads::default(),
        })
    }
}

impl Iterator for MailImport {
    type Item = Result<MailMessage, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let (raw, folder, place) = match &mut self.source {
            ArchiveSource::Mbox { messages, path, folder, count } => {
                let message = messages.next()?;
                *count += 1;
                let place = format!("{}, message {count}", path.display());
                match message {
                    Ok(RawMessage::Whole(raw)) => (raw, folder.clone(), place),
                    Ok(RawMessage::TooLarge) => return Some(too_large(place)),
                    Err(source) => return Some(Err(Error::Read { path: path.clone(), source })),
                }
            }
            ArchiveSource::Maildir(entries) => {
                let MaildirEntry { folder, path } = entries.next()?;
                let place = path.display().to_string();
                match read_file(&path) {
                    Ok(Some(raw)) => (raw, folder, place),
                    Ok(None) => return Some(too_large(place)),
                    Err(error) => return Some(Err(error)),
                }
            }
        };
        Some(mime::read(&raw, &folder, &mut self.threads).map_err(|reason| Error::Message { place, reason }))
    }
}

fn too_large(place: String) -> Result<MailMessage, Error> {
    Err(Error::Message { place, reason: "it is larger than 64 MiB" })
}

/// Content of a message file; `None` if it is too large.
fn read_file(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let broken = |source| Error::Read { path: path.to_owned(), source };
    let mut raw = Vec::new();
    let file = File::open(path).map_err(broken)?;
    file.take(FILE_MAX + 1).read_to_end(&mut raw).map_err(broken)?;
    Ok((raw.len() as u64 <= FILE_MAX).then_some(raw))
}
