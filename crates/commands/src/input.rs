//! Document input of commands.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use millrace_env::ZstdReader;

use crate::error::Error;

/// First bytes of every gzip file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// First bytes of every frame of Zstandard with content.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Bytes 2 to 4 of a frame of Zstandard without content. Its first one is from 0x50 to 0x5f.
const ZSTD_SKIPPED: [u8; 3] = [0x2a, 0x4d, 0x18];

/// A file or standard input, decompressed if it is gzip or Zstandard.
pub struct CommandInput {
    /// Name in messages.
    pub name: String,
    /// Number of bytes to read, if known.
    pub size: Option<u64>,
    /// Content.
    pub stream: Box<dyn Read + Send>,
}

impl CommandInput {
    /// Opens a file, or standard input for `-`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fail = |source| Error::File { path: path.to_owned(), source };
        if path.as_os_str() == "-" {
            let stream = unpacked(io::stdin()).map_err(fail)?.0;
            return Ok(CommandInput { name: "standard input".to_owned(), size: None, stream });
        }
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(fail(io::Error::other("it is a directory; name the files in it")));
        }
        let size = metadata.len();
        let (stream, packed) = unpacked(file).map_err(fail)?;
        Ok(CommandInput { name: path.display().to_string(), size: (!packed).then_some(size), stream })
    }
}

/// Decompresses the bytes if they are gzip or Zstandard, as the first bytes show. Returns true with them if
/// they were.
fn unpacked(mut bytes: impl Read + Send + 'static) -> io::Result<(Box<dyn Read + Send>, bool)> {
    let mut first = Vec::with_capacity(ZSTD.len());
    bytes.by_ref().take(ZSTD.len() as u64).read_to_end(&mut first)?;
    let is_gzip = first.starts_with(&GZIP);
    let is_zstd = first == ZSTD || matches!(&*first, [0x50..=0x5f, rest @ ..] if *rest == ZSTD_SKIPPED);
    let all = Cursor::new(first).chain(bytes);
    Ok(match (is_gzip, is_zstd) {
        (true, _) => (Box::new(MultiGzDecoder::new(all)), true),
        (_, true) => (Box::new(ZstdReader::new(all, "it is not a whole zstd stream")), true),
        _ => (Box::new(all), false),
    })
}
