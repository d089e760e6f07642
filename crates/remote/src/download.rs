use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::header::CONTENT_LENGTH;
use tempfile::NamedTempFile;

use crate::sha256::Sha256Hasher;
use crate::{DownloadFailure, Error, OutboundHttp, Sha256Digest};

/// Maximum time without data, after which the other side counts as gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Bytes of a file between two checks of the free space of the disk.
const SPACE_INTERVAL: u64 = 16 << 20;

/// A file of another service.
#[derive(Debug, Clone)]
pub struct FileSource {
    /// Its address.
    pub url: String,
    /// Expected digest, if known.
    pub sha256: Option<Sha256Digest>,
    /// Maximum size in bytes.
    pub bytes_max: u64,
    /// Bytes of the disk that must stay free.
    pub disk_reserve: u64,
}

/// Downloads a file, unless it exists: a file at `path` is complete.
///
/// Two concurrent downloads of one file write two temporary files, and the one that ends last replaces the
/// other.
///
/// # Errors
/// [`Error::Download`]: the address may not be connected to or does not answer with a file; the file is cut
/// off, too large, or has another digest; it cannot be written, or would use the reserve of the disk.
pub fn download(http: &OutboundHttp, source: &FileSource, path: &Path) -> Result<(), Error> {
    if path.is_file() {
        return Ok(());
    }
    let (client, wanted, to) = (http.clone(), source.clone(), path.to_owned());
    let fetched = http.wait(async move { fetch(&client, &wanted, &to).await });
    let outcome = fetched.unwrap_or(Err(DownloadFailure::Stopping));
    outcome.map_err(|reason| Error::Download { url: source.url.clone(), reason })
}

async fn fetch(http: &OutboundHttp, source: &FileSource, path: &Path) -> Result<(), DownloadFailure> {
    let silent = || DownloadFailure::Silent(SILENCE.as_secs());
    let response = tokio::time::timeout(SILENCE, http.get(&source.url)).await.map_err(|_| silent())??;
    let announced: Option<u64> =
        response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let mut file = PartialFile::create(source, path)?;
    file.check_room(announced.unwrap_or(0))?;
    let mut body = response.into_body();
    while let Some(frame) = tokio::time::timeout(SILENCE, body.frame()).await.map_err(|_| silent())? {
        let frame = frame.map_err(|error| DownloadFailure::Broken(error.to_string()))?;
        let Some(data) = frame.data_ref() else { continue };
        file.append(data)?;
    }
    match announced {
        Some(announced) if announced != file.length => {
            Err(DownloadFailure::Short { length: file.length, announced })
        }
        _ => file.complete(),
    }
}

/// Partial download, under a separate name until it is complete. It is removed if it is not completed.
struct PartialFile<'s> {
    source: &'s FileSource,
    path: &'s Path,
    directory: &'s Path,
    file: NamedTempFile,
    hasher: Sha256Hasher,
    length: u64,
}

impl<'s> PartialFile<'s> {
    fn create(source: &'s FileSource, path: &'s Path) -> Result<Self, DownloadFailure> {
        let directory = path.parent().ok_or_else(|| DownloadFailure::Path(path.to_owned()))?;
        let failed = |error: std::io::Error| disk_failure(directory, &error);
        fs::create_dir_all(directory).map_err(failed)?;
        let file = tempfile::Builder::new().prefix("partial-").tempfile_in(directory).map_err(failed)?;
        Ok(PartialFile { source, path, directory, file, hasher: Sha256Hasher::new(), length: 0 })
    }

    fn append(&mut self, data: &[u8]) -> Result<(), DownloadFailure> {
        let before = self.length / SPACE_INTERVAL;
        let length = self.length + data.len() as u64;
        if length > self.source.bytes_max || length / SPACE_INTERVAL != before {
            self.check_room(data.len() as u64)?;
        }
        self.file.write_all(data).map_err(|error| self.failed(&error))?;
        self.hasher.update(data);
        self.length = length;
        Ok(())
    }

    /// Checks that `more` bytes may be written.
    fn check_room(&self, more: u64) -> Result<(), DownloadFailure> {
        let FileSource { bytes_max, disk_reserve, .. } = *self.source;
        if self.length.saturating_add(more) > bytes_max {
            return Err(DownloadFailure::TooLarge(bytes_max));
        }
        let space = rustix::fs::statvfs(self.directory).map_err(|error| self.failed(&error.into()))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < disk_reserve.saturating_add(more) {
            let directory = self.directory.to_owned();
            return Err(DownloadFailure::Space { directory, free, reserve: disk_reserve });
        }
        Ok(())
    }

    fn complete(self) -> Result<(), DownloadFailure> {
        let (found, wanted) = (self.hasher.finish(), self.source.sha256);
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            return Err(DownloadFailure::Digest { found, wanted });
        }
        let failed = |error: std::io::Error| disk_failure(self.path, &error);
        self.file.as_file().sync_all().map_err(failed)?;
        self.file.persist(self.path).map_err(|error| failed(error.error))?;
        fs::File::open(self.directory).and_then(|directory| directory.sync_all()).map_err(failed)
    }

    fn failed(&self, error: &std::io::Error) -> DownloadFailure {
        disk_failure(self.path, error)
    }
}

fn disk_failure(path: &Path, error: &std::io::Error) -> DownloadFailure {
    DownloadFailure::Disk { path: path.to_owned(), reason: error.to_string() }
}
