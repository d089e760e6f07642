//! Uploads of packages: written to disk as they arrive, so that a large one takes no memory, then unpacked.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;

use axum::extract::Request;
use hyper::HeaderMap;
use hyper::body::Body as _;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};
use millrace_node::Error;
use millrace_schema::{ApplicationDraft, PackageMistakes};

use super::sessions::SessionReservation;
use crate::GatewayState;
use crate::http::{self, BodyReader, BudgetReservation};

/// Packages contain models and may be larger than other requests by this factor.
pub(super) const PACKAGE_FACTOR: usize = 10;

/// Bytes of an upload in memory, reserved for its duration.
const WINDOW_BYTES: usize = 1 << 20;

/// Size in bytes that an archive may always unpack to, and the ratio beyond that; larger ones are refused.
const UNPACKED_FREE: usize = 64 << 20;
const UNPACKED_RATIO: usize = 50;

/// Format of an archive.
#[derive(Clone, Copy)]
enum PackageArchive {
    Zip,
    TarGz,
}

impl PackageArchive {
    fn from_headers(headers: &HeaderMap) -> Result<Self, Error> {
        let content_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .map(|value| value.trim().to_ascii_lowercase());
        match content_type.as_deref() {
            Some("application/zip") => Ok(PackageArchive::Zip),
            Some("application/x-gzip" | "application/gzip") => Ok(PackageArchive::TarGz),
            other => Err(Error::BadRequest(format!(
                "content-type is {}; send the package as application/zip, or as application/x-gzip (a tar)",
                other.map_or("missing".to_owned(), |other| format!("'{other}'"))
            ))),
        }
    }
}

/// A received archive, in a file that is deleted with this.
pub(super) struct PackageUpload {
    archive: PackageArchive,
    file: File,
    /// Size of the archive.
    bytes: u64,
    disk: SessionReservation,
}

/// Receives the archive in the body.
///
/// # Errors
/// It is too large, of another format, or arrives too slowly; there is no space for it.
pub(super) async fn receive(node: &Arc<GatewayState>, request: Request) -> Result<PackageUpload, Error> {
    let (parts, body) = request.into_parts();
    let archive = PackageArchive::from_headers(&parts.headers)?;
    let directory = node.sessions().directory().to_owned();
    let file = node.pool().run(move || tempfile::tempfile_in(directory)).await?.map_err(unwritten)?;
    let mut receiving = PackageUpload { archive, file, bytes: 0, disk: node.sessions().disk_share() };
    if parts.headers.contains_key(CONTENT_ENCODING) {
        // An archive is already compressed; an additionally compressed body has the limits of other requests.
        let body = http::read_body(node, &parts.headers, body, node.body_bounds()).await?;
        return receiving.write(node, body.to_vec()).await;
    }
    let bytes = node.settings().request_bytes_max.saturating_mul(PACKAGE_FACTOR);
    let bounds = http::BodyBounds { bytes, ..node.body_bounds() };
    if body.size_hint().lower() > bytes as u64 {
        return Err(Error::TooLarge { limit: bytes, setting: bounds.setting });
    }
    let mut window = node.budget().share();
    window.grow(WINDOW_BYTES).await?;
    let (mut reader, mut waiting): (BodyReader, Vec<u8>) = (BodyReader::new(node, body, bounds), Vec::new());
    while let Some(data) = reader.next().await? {
        waiting.extend_from_slice(&data);
        if waiting.len() >= WINDOW_BYTES / 2 {
            receiving = receiving.write(node, std::mem::take(&mut waiting)).await?;
        }
    }
    receiving.write(node, waiting).await
}

impl PackageUpload {
    async fn write(mut self, node: &GatewayState, bytes: Vec<u8>) -> Result<Self, Error> {
        self.disk.grow(bytes.len() as u64)?;
        self.bytes += bytes.len() as u64;
        let written = node.pool().run(move || self.file.write_all(&bytes).map(|()| self)).await?;
        written.map_err(unwritten)
    }

    /// Unpacks the archive. Returns it with its share of the memory for work, which is held as long as the
    /// package is read.
    ///
    /// # Errors
    /// It is not an archive, or its content is not a package; there is no room for it.
    pub(super) async fn unpacked(
        self,
        node: &GatewayState,
    ) -> Result<(ApplicationDraft, BudgetReservation), Error> {
        let packed = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let room = node.budget().package(packed.saturating_mul(UNPACKED_RATIO).max(UNPACKED_FREE)).await?;
        let read = move || match self.archive {
            PackageArchive::Zip => ApplicationDraft::from_zip_file(&self.file),
            PackageArchive::TarGz => ApplicationDraft::from_tar_gz_file(&self.file),
        };
        let (read, room) = node.pool().run(room.held_by(read)).await?;
        Ok((read.map_err(PackageMistakes::from)?, room))
    }
}

fn unwritten(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::StorageFull => {
            Error::DiskFull(format!("the package cannot be written: {error}; make room on the disk"))
        }
        _ => Error::Internal(format!("the package cannot be written: {error}")),
    }
}
