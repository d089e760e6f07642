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

/// Number of bytes by which the form of an input is known.
const FIRST_BYTES: usize = 6;

/// First bytes of inputs that are not texts, and what they are.
const BINARY_FORMATS: [(&[u8], &str); 6] = [
    (b"PAR1", TABLE),
    (b"ARROW1", TABLE),
    (&[0xff; 4], TABLE),
    (b"BZh", "packed by bzip2; unpack it, or pack it by gzip or zstd"),
    (b"\xfd7zXZ", "packed by xz; unpack it, or pack it by gzip or zstd"),
    (b"PK\x03\x04", "a zip archive; unpack it, or pack its files by gzip or zstd"),
];

const TABLE: &str = "a table, which is read from a file and as it is: name the file";

/// A file or standard input, decompressed if it is gzip or Zstandard.
pub struct CommandInput {
    /// Name in messages.
    pub name: String,
    /// Number of bytes to read, if known.
    pub size: Option<u64>,
    /// Content.
    pub stream: Box<dyn Read + Send>,
    /// Form of an input that is certainly not a text, with the cure.
    other_form: Option<&'static str>,
}

/// An input, decompressed.
struct UnpackedInput {
    stream: Box<dyn Read + Send>,
    is_packed: bool,
    other_form: Option<&'static str>,
}

impl CommandInput {
    /// Opens a file, or standard input for `-`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let fail = |source| Error::File { path: path.to_owned(), source };
        if path.as_os_str() == "-" {
            let UnpackedInput { stream, other_form, .. } = unpacked(io::stdin()).map_err(fail)?;
            return Ok(CommandInput { name: "standard input".to_owned(), size: None, stream, other_form });
        }
        let file = File::open(path).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        if metadata.is_dir() {
            return Err(fail(io::Error::other("it is a directory; name the files in it")));
        }
        let size = metadata.len();
        let UnpackedInput { stream, is_packed, other_form } = unpacked(file).map_err(fail)?;
        let (name, size) = (path.display().to_string(), (!is_packed).then_some(size));
        Ok(CommandInput { name, size, stream, other_form })
    }

    /// Opens a file of operations, or standard input for `-`.
    ///
    /// # Errors
    /// It cannot be read, or its first bytes are those of another form.
    pub fn open_operations(path: &Path) -> Result<Self, Error> {
        let input = Self::open(path)?;
        match input.other_form {
            Some(form) => Err(Error::Argument(format!("{}: it is {form}", input.name))),
            None => Ok(input),
        }
    }
}

/// Decompresses the bytes if they are gzip or Zstandard, as the first bytes show.
fn unpacked(mut bytes: impl Read + Send + 'static) -> io::Result<UnpackedInput> {
    let mut first = Vec::with_capacity(FIRST_BYTES);
    bytes.by_ref().take(FIRST_BYTES as u64).read_to_end(&mut first)?;
    let is_gzip = first.starts_with(&GZIP);
    let is_zstd = first.starts_with(&ZSTD)
        || matches!(&*first, [0x50..=0x5f, rest @ ..] if rest.starts_with(&ZSTD_SKIPPED));
    let other_form = BINARY_FORMATS.iter().find(|(form, _)| first.starts_with(form)).map(|(_, form)| *form);
    let all = Cursor::new(first).chain(bytes);
    let stream: Box<dyn Read + Send> = match (is_gzip, is_zstd) {
        (true, _) => Box::new(MultiGzDecoder::new(all)),
        (_, true) => Box::new(ZstdReader::new(all, "it is not a whole zstd stream")),
        _ => Box::new(all),
    };
    Ok(UnpackedInput { stream, is_packed: is_gzip || is_zstd, other_form })
}
