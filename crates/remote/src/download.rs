use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::header::CONTENT_LENGTH;

use crate::{Error, Http};

/// Nothing more comes for so long: the other side is gone.
const SILENCE: Duration = Duration::from_secs(60);

/// Fetches a file, unless it is there: what is at `path` came whole. It may have `bytes_max` bytes.
///
/// # Errors
/// [`Error::Download`]: the address does not answer with a file, it is cut off or too large, or cannot be written.
pub fn download(http: &Http, url: &str, path: &Path, bytes_max: u64) -> Result<(), Error> {
    if path.is_file() {
        return Ok(());
    }
    let fail = |reason: String| Error::Download { url: url.to_owned(), reason };
    let partial = path.with_extension("partial");
    let (client, address, file) = (http.clone(), url.to_owned(), partial.clone());
    let fetched = http.wait(async move { fetch(&client, &address, &file, bytes_max).await });
    let outcome = fetched
        .unwrap_or_else(|| Err("the node is stopping".to_owned()))
        .and_then(|()| place(&partial, path).map_err(|error| error.to_string()));
    outcome.map_err(|reason| {
        // What stays behind is written over by the next try.
        let _ = fs::remove_file(&partial);
        fail(reason)
    })
}

/// Gives a file its name, durably.
fn place(partial: &Path, path: &Path) -> std::io::Result<()> {
    fs::rename(partial, path)?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

async fn fetch(http: &Http, url: &str, path: &Path, bytes_max: u64) -> Result<(), String> {
    let silent = || format!("nothing came for {} s", SILENCE.as_secs());
    let response = tokio::time::timeout(SILENCE, http.get(url)).await.map_err(|_| silent())??;
    let announced: Option<u64> =
        response.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let too_large = || format!("it is larger than {bytes_max} bytes");
    if announced.is_some_and(|length| length > bytes_max) {
        return Err(too_large());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let write = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = BufWriter::new(File::create(path).map_err(write)?);
    let mut body = response.into_body();
    let mut length = 0_u64;
    while let Some(frame) = tokio::time::timeout(SILENCE, body.frame()).await.map_err(|_| silent())? {
        let frame = frame.map_err(|error| format!("it was cut off: {error}"))?;
        let Some(data) = frame.data_ref() else { continue };
        length += data.len() as u64;
        if length > bytes_max {
            return Err(too_large());
        }
        file.write_all(data).map_err(write)?;
    }
    match announced {
        Some(announced) if announced != length => {
            Err(format!("it was cut off: {length} of {announced} bytes came"))
        }
        _ => file.into_inner().map_err(|error| write(error.into_error()))?.sync_all().map_err(write),
    }
}
