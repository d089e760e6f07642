//! Compression of columns in files.
//!
//! A column that is scanned is decompressed as a whole when it is decoded ([`Compression::Whole`]). A column
//! whose values are shown rather than scanned stays compressed in memory, in blocks that are decompressed
//! when one of their documents is read first ([`Compression::Blocks`]).

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use zstd::bulk::{Compressor, Decompressor};

use crate::fixed::u32_at;
use crate::presence::presence_bytes;
use crate::{AlignedBuffer, BLOCKS, BufferBuilder, BytesColumn, Column, Error, WHOLE, compact_tokens};

/// Compression of a column in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// The whole column by LZ4 if it is small, so that most of it is header and padding. For columns that
    /// scans read at the speed of memory.
    Small,
    /// The whole column by LZ4. [`Column::decode`] returns the plain column.
    Whole,
    /// The bytes of a [`BytesColumn`] by Zstandard, in blocks of documents. [`Column::decode`] returns a
    /// column that decompresses a block when it is read first. Small columns, and those of other kinds, are
    /// as with [`Compression::Small`].
    Blocks,
}

/// Plain bytes after which a block ends; the last document of a block may be longer. A hit costs the
/// decompression of one block.
const BLOCK_BYTES: usize = 16 << 10;
/// Columns with fewer bytes stay plain: decompression would take longer than reading them.
const BYTES_MIN: usize = 1 << 10;
/// Level of Zstandard. In blocks of this size level 3 takes 1.5 times as long for 1.6 % fewer bytes of mails.
const LEVEL: i32 = 1;
/// Maximum ratio of plain to compressed bytes that LZ4 can reach.
const LZ4_RATIO_MAX: usize = 255;
/// Whole columns with fewer bytes stay plain: they take two lines of a file at most.
const WHOLE_MIN: usize = 129;
/// Bytes of the header of a column that is compressed as a whole.
const WHOLE_HEAD: usize = 16;
/// Bytes of the largest small column.
const SMALL_MAX: usize = 4 << 10;
/// The first codec of each layout: Zstandard of blocks, LZ4 of whole columns.
const CODEC: u8 = 1;
/// LZ4 of the compact form of words.
const COMPACT_TOKENS: u8 = 2;

thread_local! {
    /// The state of a compressor takes longer to make than most blocks take to compress.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

impl Column {
    /// Returns the bytes for a file: compressed, if that saves at least an eighth. [`Column::decode`] reads
    /// them. Calls `pause` between portions of work of some ten microseconds.
    pub fn stored(&self, compression: Compression, mut pause: impl FnMut()) -> AlignedBuffer {
        match (compression, self) {
            (Compression::Blocks, Column::Bytes(column)) if column.is_compressed() => column.buffer().clone(),
            (Compression::Blocks, Column::Bytes(column)) => match blocks_of(column, &mut pause) {
                Some(blocks) => blocks,
                None => self.stored(Compression::Small, pause),
            },
            (_, Column::Bytes(column)) if column.is_compressed() => {
                let plain = Column::Bytes(column.decompressed());
                pause();
                plain.stored(compression, pause)
            }
            (Compression::Small | Compression::Blocks, column) if column.encoded().len() > SMALL_MAX => {
                column.encoded().clone()
            }
            (Compression::Small | Compression::Whole | Compression::Blocks, column) => {
                let stored = whole(column);
                pause();
                stored
            }
            (Compression::None, column) => column.encoded().clone(),
        }
    }

    /// Bytes of the column in memory, with all of its blocks decompressed.
    pub fn memory_bytes(&self) -> usize {
        let beside = match self {
            Column::Bytes(column) if column.is_compressed() => column.plain_bytes(),
            Column::Tokens(column) => column.sample_bytes(),
            _ => 0,
        };
        self.encoded().capacity() + beside
    }

    /// Decompresses all blocks, without keeping them.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if a block is damaged. A column whose checksum was compared has none.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Column::Bytes(column) => column.check_blocks(),
            Column::Fixed(_) | Column::Tokens(_) => Ok(()),
        }
    }
}

/// Bytes of a column in memory, from the beginning of its stored form; `None`: it is not compressed, and has
/// as many as in the file. `head` is at least 12 bytes long.
pub fn plain_bytes(head: &[u8]) -> Option<u64> {
    matches!(head.first(), Some(&WHOLE | &BLOCKS)).then(|| u32_at(head, 8) as u64)
}

/// The column by LZ4, or as it is.
fn whole(column: &Column) -> AlignedBuffer {
    let plain = column.encoded();
    if plain.len() < WHOLE_MIN {
        return plain.clone();
    }
    let compact;
    let (codec, bytes): (u8, &[u8]) = match column {
        Column::Tokens(column) => {
            compact = compact_tokens::encode(column);
            (COMPACT_TOKENS, &compact)
        }
        Column::Fixed(_) | Column::Bytes(_) => (CODEC, plain),
    };
    let compressed = lz4_flex::block::compress(bytes);
    if !is_worthwhile(WHOLE_HEAD + compressed.len(), plain.len()) {
        return plain.clone();
    }
    let mut out = BufferBuilder::with_capacity(WHOLE_HEAD + compressed.len());
    out.extend(&[WHOLE, codec, 0, 0]);
    for number in [column.len(), plain.len(), bytes.len()] {
        out.extend(&(number as u32).to_le_bytes());
    }
    out.extend(&compressed);
    out.finish()
}

fn is_worthwhile(compressed: usize, plain: usize) -> bool {
    compressed.next_multiple_of(64) <= plain - plain / 8
}

/// Decompresses a column of layout [`WHOLE`].
pub(crate) fn decode_whole(buffer: &AlignedBuffer) -> Result<AlignedBuffer, Error> {
    if buffer.len() < WHOLE_HEAD || !matches!(buffer[1], CODEC | COMPACT_TOKENS) {
        return Err(Error::Corrupt("a compressed column of an unknown kind"));
    }
    let (plain, length, compressed) = (u32_at(buffer, 8), u32_at(buffer, 12), &buffer[WHOLE_HEAD..]);
    if length > compressed.len().saturating_mul(LZ4_RATIO_MAX) {
        return Err(Error::Corrupt("a compressed column is longer than its bytes can make it"));
    }
    let bytes =
        AlignedBuffer::fill_with(length, |out| match lz4_flex::block::decompress_into(compressed, out) {
            Ok(written) if written == length => Ok(()),
            _ => Err(Error::Corrupt("a compressed column is damaged")),
        })?;
    match buffer[1] {
        COMPACT_TOKENS => compact_tokens::decode(&bytes, plain),
        _ if length == plain => Ok(bytes),
        _ => Err(Error::Corrupt("a compressed column has not the length that its header says")),
    }
}

/// The bytes of the column in compressed blocks; `None` if that saves nothing.
fn blocks_of(column: &BytesColumn, pause: &mut dyn FnMut()) -> Option<AlignedBuffer> {
    let (plain, offsets, data) = (column.buffer(), column.offsets(), column.data());
    if data.len() < BYTES_MIN {
        return None;
    }
    let (mut firsts, mut starts, mut compressed) = (vec![0u32], vec![0u32], Vec::new());
    let mut begin = 0;
    for document in 0..column.len() {
        let end = offsets[document + 1] as usize;
        if end - begin < BLOCK_BYTES && document + 1 < column.len() {
            continue;
        }
        let block = compress(&data[begin..end])?;
        pause();
        compressed.extend_from_slice(&block);
        // Compressed bytes that do not fit are more than the plain ones, which do.
        let start = u32::try_from(compressed.len()).ok()?;
        firsts.push(document as u32 + 1);
        starts.push(start);
        begin = end;
    }
    let head = 64 + presence_bytes(column.len()) + ((column.len() + 1) * 4).next_multiple_of(64);
    let table = (4 + firsts.len() * 8).next_multiple_of(64);
    if !is_worthwhile(head + table + compressed.len(), plain.len()) {
        return None;
    }
    let mut out = BufferBuilder::with_capacity(head + table + compressed.len());
    out.extend(&[BLOCKS, CODEC, 0, 0]);
    out.extend(&(column.len() as u32).to_le_bytes());
    out.extend(&(data.len() as u32).to_le_bytes());
    // The record of the layout of the values, the presence and the offsets are those of the plain column.
    out.extend(&plain[12..head]);
    out.extend(&(firsts.len() as u32 - 1).to_le_bytes());
    out.extend(bytemuck::cast_slice(&firsts));
    out.extend(bytemuck::cast_slice(&starts));
    out.align();
    out.extend(&compressed);
    Some(out.finish())
}

fn compress(plain: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        if compressor.is_none() {
            *compressor = Compressor::new(LEVEL).ok();
        }
        compressor.as_mut()?.compress(plain).ok()
    })
}

/// Decompresses a block of a known length.
fn decompress(compressed: &[u8], length: usize) -> Result<Box<[u8]>, Error> {
    let mut plain = Vec::with_capacity(length);
    let written = DECOMPRESSOR.with_borrow_mut(|decompressor| {
        if decompressor.is_none() {
            *decompressor = Decompressor::new().ok();
        }
        decompressor.as_mut()?.decompress_to_buffer(compressed, &mut plain).ok()
    });
    match written {
        Some(written) if written == length => Ok(plain.into_boxed_slice()),
        _ => Err(Error::Corrupt("a block of a compressed column is damaged")),
    }
}

/// The blocks of a compressed [`BytesColumn`]. Clones share what is decompressed.
#[derive(Debug, Clone)]
pub(crate) struct CompressedBlocks {
    /// Offset of the table in the buffer, after its count.
    table: usize,
    /// Offset of the compressed bytes.
    bytes: usize,
    decompressed: Arc<Decompressed>,
}

#[derive(Debug)]
struct Decompressed {
    blocks: Box<[OnceLock<Box<[u8]>>]>,
    whole: OnceLock<Box<[u8]>>,
}

impl CompressedBlocks {
    /// Reads the table after the offsets, which end at `at`, and are those of `documents` documents.
    pub(crate) fn decode(buffer: &AlignedBuffer, at: usize, documents: usize) -> Result<Self, Error> {
        let short = Error::Corrupt("shorter than its table of blocks");
        if buffer[1] != CODEC {
            return Err(Error::Corrupt("a compressed column of an unknown kind"));
        }
        let count = buffer.get(at..at + 4).map(|_| u32_at(buffer, at)).ok_or(short.clone())?;
        // A block has at least one document, so this cannot overflow.
        if count == 0 || count > documents {
            return Err(Error::Corrupt("it has not as many blocks as documents allow"));
        }
        let bytes = at + (4 + (count + 1) * 8).next_multiple_of(64);
        if buffer.len() < bytes {
            return Err(short);
        }
        let blocks = CompressedBlocks {
            table: at + 4,
            bytes,
            decompressed: Arc::new(Decompressed {
                blocks: (0..count).map(|_| OnceLock::new()).collect(),
                whole: OnceLock::new(),
            }),
        };
        let (firsts, starts) = blocks.table(buffer);
        let ascends = |numbers: &[u32], end: usize| {
            numbers[0] == 0 && numbers.is_sorted_by(|a, b| a < b) && numbers[count] as usize == end
        };
        if !ascends(firsts, documents) || !ascends(starts, buffer.len() - bytes) {
            return Err(Error::Corrupt("its blocks do not ascend to its end"));
        }
        Ok(blocks)
    }

    /// First documents and starts of the blocks, followed by the ends of the last.
    fn table<'b>(&self, buffer: &'b AlignedBuffer) -> (&'b [u32], &'b [u32]) {
        let count = self.decompressed.blocks.len() + 1;
        bytemuck::cast_slice(&buffer[self.table..self.table + count * 8]).split_at(count)
    }

    fn block(&self, buffer: &AlignedBuffer, offsets: &[u32], number: usize) -> Result<Box<[u8]>, Error> {
        let (firsts, starts) = self.table(buffer);
        let length = offsets[firsts[number + 1] as usize] - offsets[firsts[number] as usize];
        let compressed = self.bytes + starts[number] as usize..self.bytes + starts[number + 1] as usize;
        decompress(&buffer[compressed], length as usize)
    }

    /// Bytes of a document.
    ///
    /// # Panics
    /// The block is damaged, although the checksum of its column was right.
    pub(crate) fn get(&self, buffer: &AlignedBuffer, offsets: &[u32], index: usize) -> &[u8] {
        let (from, to) = (offsets[index] as usize, offsets[index + 1] as usize);
        if let Some(whole) = self.decompressed.whole.get() {
            return &whole[from..to];
        }
        let (firsts, _) = self.table(buffer);
        let number = firsts.partition_point(|first| *first as usize <= index) - 1;
        let begin = offsets[firsts[number] as usize] as usize;
        let block = self.decompressed.blocks[number]
            .get_or_init(|| self.block(buffer, offsets, number).expect(UNDAMAGED));
        &block[from - begin..to - begin]
    }

    /// Bytes of all documents.
    ///
    /// # Panics
    /// A block is damaged, although the checksum of its column was right.
    pub(crate) fn whole(&self, buffer: &AlignedBuffer, offsets: &[u32]) -> &[u8] {
        self.decompressed.whole.get_or_init(|| {
            let mut whole = Vec::with_capacity(offsets.last().map_or(0, |end| *end as usize));
            for (number, known) in self.decompressed.blocks.iter().enumerate() {
                match known.get() {
                    Some(block) => whole.extend_from_slice(block),
                    None => whole.extend_from_slice(&self.block(buffer, offsets, number).expect(UNDAMAGED)),
                }
            }
            whole.into_boxed_slice()
        })
    }

    pub(crate) fn check(&self, buffer: &AlignedBuffer, offsets: &[u32]) -> Result<(), Error> {
        (0..self.decompressed.blocks.len())
            .try_for_each(|number| self.block(buffer, offsets, number).map(drop))
    }
}

/// Reason why a block can be decompressed.
const UNDAMAGED: &str = "the checksum of a column is compared before a block of it is read, so that a damaged \
                         block was written by an error of the program";
