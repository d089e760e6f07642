//! Fixed-size parts of the file, and the encoding of numbers. `docs/format.md` shows the whole.

use xxhash_rust::xxh3::xxh3_64;

/// First bytes of the header.
pub(crate) const HEADER_MAGIC: [u8; 8] = *b"MILLSEG\x01";
/// First bytes of the trailer.
pub(crate) const TRAILER_MAGIC: [u8; 8] = *b"\x01GESLLIM";

/// Version of the format of a file. A program reads all that it knows, and writes any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SegmentFormat {
    /// Version 1: columns lie in the file as they are in memory.
    Plain = 1,
    /// Version 2: columns can be compressed.
    Compressed = 2,
    /// Version 3: types with more than a few documents have a filter of their ids.
    #[default]
    Filtered = 3,
}

impl SegmentFormat {
    /// The newest version.
    pub(crate) const NEWEST: SegmentFormat = SegmentFormat::Filtered;

    pub(crate) fn version(self) -> u32 {
        self as u32
    }

    /// The format of a version; `None` for one that this program does not know.
    pub(crate) fn of_version(version: u32) -> Option<Self> {
        [SegmentFormat::Plain, SegmentFormat::Compressed, SegmentFormat::Filtered]
            .into_iter()
            .find(|format| format.version() == version)
    }
}

/// Size of the header and of the trailer, in bytes.
pub(crate) const BLOCK: usize = 64;
/// Alignment of every piece of a column, in bytes.
pub(crate) const ALIGN: usize = 64;

/// First bytes of every file.
pub(crate) fn header(format: SegmentFormat) -> [u8; BLOCK] {
    let mut header = [0; BLOCK];
    header[..8].copy_from_slice(&HEADER_MAGIC);
    header[8..12].copy_from_slice(&format.version().to_le_bytes());
    header
}

/// Last bytes of every file: the position of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileTrailer {
    pub format: SegmentFormat,
    pub catalog_offset: u64,
    pub catalog_length: u64,
    pub catalog_checksum: u64,
}

impl FileTrailer {
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut bytes = [0; BLOCK];
        bytes[..8].copy_from_slice(&TRAILER_MAGIC);
        bytes[8..12].copy_from_slice(&self.format.version().to_le_bytes());
        bytes[16..24].copy_from_slice(&self.catalog_offset.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.catalog_length.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.catalog_checksum.to_le_bytes());
        let checksum = xxh3_64(&bytes[..56]);
        bytes[56..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Decodes a trailer; `Err` contains the reason.
    pub fn decode(bytes: &[u8; BLOCK]) -> Result<Self, &'static str> {
        let mut reader = FormatReader::new(bytes);
        if reader.array() != Some(TRAILER_MAGIC) {
            return Err("the file does not end as a segment does; it may have been cut");
        }
        if xxh3_64(&bytes[..56])
            != u64::from_le_bytes(*bytes.last_chunk().expect("a block is longer than 8 bytes"))
        {
            return Err("the trailer does not fit its checksum");
        }
        let fields = (|| {
            let format = SegmentFormat::of_version(reader.u32()?)?;
            reader.u32()?;
            Some(FileTrailer {
                format,
                catalog_offset: reader.u64()?,
                catalog_length: reader.u64()?,
                catalog_checksum: reader.u64()?,
            })
        })();
        fields.ok_or("the trailer has another version than the header")
    }
}

/// Reads numbers and text; `None` at the end of the bytes.
pub(crate) struct FormatReader<'a> {
    bytes: &'a [u8],
}

impl<'a> FormatReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        FormatReader { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads text after its length in 16 bits.
    pub fn text(&mut self) -> Option<&'a str> {
        let length = self.u16()?;
        std::str::from_utf8(self.take(length.into())?).ok()
    }
}

/// Writes text after its length in 16 bits. Names and group keys are parts of ids, which are shorter.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len())
        .expect("names and group keys are shorter than ids, which are shorter than 64 KiB");
    out.extend(length.to_le_bytes());
    out.extend(text.as_bytes());
}
