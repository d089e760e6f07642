use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A cache line, and the unit of allocation: so every buffer begins at a multiple of 64 bytes.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Immutable bytes that begin at a multiple of 64, shared by reference. Cloning costs a counter.
#[derive(Clone)]
pub struct Buffer {
    memory: Arc<Memory>,
    len: usize,
}

/// Where bytes lie; those of a buffer begin at a multiple of 64, and zeros fill its last line.
enum Memory {
    Lines(Vec<Line>),
    /// From `start` on: a vector of bytes can be filled without being written before, but not be told where to begin.
    Bytes {
        bytes: Vec<u8>,
        start: usize,
    },
}

impl Memory {
    fn padded(&self) -> &[u8] {
        match self {
            Memory::Lines(lines) => bytemuck::cast_slice::<Line, u8>(lines),
            Memory::Bytes { bytes, start } => &bytes[*start..],
        }
    }
}

impl Buffer {
    /// A copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> Self {
        let mut builder = BufferBuilder::with_capacity(bytes.len());
        builder.extend(bytes);
        builder.finish()
    }

    /// A buffer of `len` bytes that `fill` writes, for reading from files without a second copy. What it does not write is 0.
    ///
    /// # Errors
    /// Those of `fill`.
    pub fn fill_with<E>(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut lines = zeroed(len);
        fill(&mut bytemuck::cast_slice_mut::<Line, u8>(&mut lines)[..len])?;
        Ok(Buffer::of_lines(lines, len))
    }

    /// A buffer of `len` bytes that `read` adds to a vector, for reading much from files: its memory is not written before. `read` is
    /// told how many bytes to add: `len` and the padding up to a whole line of 64.
    ///
    /// # Panics
    /// `read` has added more or less.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn read_with<E>(
        len: usize,
        read: impl FnOnce(usize, &mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let padded = len.next_multiple_of(64);
        let mut bytes: Vec<u8> = Vec::with_capacity(padded + 64);
        let start = bytes.as_ptr().align_offset(64);
        bytes.resize(start, 0);
        read(padded, &mut bytes)?;
        assert_eq!(bytes.len(), start + padded, "as many bytes are read as were asked for");
        if bytes[start..].as_ptr().align_offset(64) != 0 {
            // The vector has moved, though there was room.
            return Ok(Buffer { len, ..Buffer::copy_from(&bytes[start..]) });
        }
        Ok(Buffer { memory: Arc::new(Memory::Bytes { bytes, start }), len })
    }

    fn of_lines(lines: Vec<Line>, len: usize) -> Self {
        Buffer { memory: Arc::new(Memory::Lines(lines)), len }
    }

    /// Buffers of these lengths, all of which `fill` writes, for reading neighbours from a file at once. The slices that it is
    /// given are whole lines of 64 bytes: what lies past a buffer's length is padding, which is not part of the buffer.
    ///
    /// # Errors
    /// Those of `fill`.
    pub fn fill_many<E>(
        lens: &[usize],
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<Vec<Self>, E> {
        let mut buffers: Vec<Vec<Line>> = lens.iter().map(|len| zeroed(*len)).collect();
        let mut slices: Vec<&mut [u8]> =
            buffers.iter_mut().map(|lines| bytemuck::cast_slice_mut::<Line, u8>(lines)).collect();
        fill(&mut slices)?;
        let buffer = |(lines, len): (Vec<Line>, &usize)| Buffer::of_lines(lines, *len);
        Ok(buffers.into_iter().zip(lens).map(buffer).collect())
    }

    /// The bytes, and the zeros up to the next multiple of 64.
    pub fn padded(&self) -> &[u8] {
        self.memory.padded()
    }

    /// Bytes of memory it takes.
    pub fn capacity(&self) -> usize {
        match &*self.memory {
            Memory::Lines(lines) => lines.capacity() * 64,
            Memory::Bytes { bytes, .. } => bytes.capacity(),
        }
    }
}

/// Lines for so many bytes, all zero. Large ones come from the system as they are, which writes them only when they are used.
fn zeroed(bytes: usize) -> Vec<Line> {
    bytemuck::allocation::zeroed_vec(bytes.div_ceil(64))
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory.padded()[..self.len]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// Builds a [`Buffer`] from its beginning to its end.
#[derive(Default)]
pub struct BufferBuilder {
    lines: Vec<Line>,
    len: usize,
}

impl BufferBuilder {
    /// Empty, with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        BufferBuilder { lines: Vec::with_capacity(bytes.div_ceil(64)), len: 0 }
    }

    /// Adds bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.lines.resize(end.div_ceil(64), Line([0; 64]));
        bytemuck::cast_slice_mut::<Line, u8>(&mut self.lines)[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    /// Adds zeros up to the next multiple of 64.
    pub fn align(&mut self) {
        self.len = self.len.next_multiple_of(64);
        self.lines.resize(self.len / 64, Line([0; 64]));
    }

    /// The buffer.
    pub fn finish(self) -> Buffer {
        Buffer::of_lines(self.lines, self.len)
    }
}
