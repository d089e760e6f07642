use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A cache line, the unit of allocation. Every buffer therefore starts at a multiple of 64 bytes.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

/// Immutable bytes aligned to 64, shared by reference. Cloning increments a counter.
#[derive(Clone)]
pub struct AlignedBuffer {
    memory: Arc<BufferMemory>,
    len: usize,
}

/// Storage of bytes. Those of a buffer are aligned to 64 bytes, and zeros fill the last line.
enum BufferMemory {
    Lines(Vec<CacheLine>),
    /// Bytes from `start` on. A vector can be filled without being initialized, but its alignment cannot be
    /// chosen.
    Bytes {
        bytes: Vec<u8>,
        start: usize,
    },
}

impl BufferMemory {
    fn padded(&self) -> &[u8] {
        match self {
            BufferMemory::Lines(lines) => bytemuck::cast_slice::<CacheLine, u8>(lines),
            BufferMemory::Bytes { bytes, start } => &bytes[*start..],
        }
    }
}

impl AlignedBuffer {
    /// A copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> Self {
        let mut builder = BufferBuilder::with_capacity(bytes.len());
        builder.extend(bytes);
        builder.finish()
    }

    /// Creates a buffer of `len` bytes filled by `fill`, for reading files without a second copy. Bytes that
    /// `fill` does not write are 0.
    ///
    /// # Errors
    /// Errors of `fill`.
    pub fn fill_with<E>(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut lines = zeroed(len);
        fill(&mut bytemuck::cast_slice_mut::<CacheLine, u8>(&mut lines)[..len])?;
        Ok(AlignedBuffer::of_lines(lines, len))
    }

    /// Creates a buffer of `len` bytes that `read` appends to a vector, for large reads: the memory is not
    /// initialized first. The argument of `read` is the number of bytes to append: `len` plus the padding to
    /// a whole line of 64.
    ///
    /// # Panics
    /// `read` has appended a different number of bytes.
    ///
    /// # Errors
    /// Errors of `read`.
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
            // The vector was reallocated although it had enough capacity.
            return Ok(AlignedBuffer { len, ..AlignedBuffer::copy_from(&bytes[start..]) });
        }
        Ok(AlignedBuffer { memory: Arc::new(BufferMemory::Bytes { bytes, start }), len })
    }

    fn of_lines(lines: Vec<CacheLine>, len: usize) -> Self {
        AlignedBuffer { memory: Arc::new(BufferMemory::Lines(lines)), len }
    }

    /// Creates buffers of these lengths, all filled by `fill`, for reading adjacent parts of a file at once.
    /// The slices passed to it are whole lines of 64 bytes: bytes past a buffer's length are padding and not
    /// part of the buffer.
    ///
    /// # Errors
    /// Errors of `fill`.
    pub fn fill_many<E>(
        lens: &[usize],
        fill: impl FnOnce(&mut [&mut [u8]]) -> Result<(), E>,
    ) -> Result<Vec<Self>, E> {
        let mut buffers: Vec<Vec<CacheLine>> = lens.iter().map(|len| zeroed(*len)).collect();
        let mut slices: Vec<&mut [u8]> =
            buffers.iter_mut().map(|lines| bytemuck::cast_slice_mut::<CacheLine, u8>(lines)).collect();
        fill(&mut slices)?;
        let buffer = |(lines, len): (Vec<CacheLine>, &usize)| AlignedBuffer::of_lines(lines, *len);
        Ok(buffers.into_iter().zip(lens).map(buffer).collect())
    }

    /// The bytes, followed by zeros up to the next multiple of 64.
    pub fn padded(&self) -> &[u8] {
        self.memory.padded()
    }

    /// Size of its memory in bytes.
    pub fn capacity(&self) -> usize {
        match &*self.memory {
            BufferMemory::Lines(lines) => lines.capacity() * 64,
            BufferMemory::Bytes { bytes, .. } => bytes.capacity(),
        }
    }
}

/// Zeroed lines for this number of bytes. Large allocations come zeroed from the system, which provides pages
/// on first use.
fn zeroed(bytes: usize) -> Vec<CacheLine> {
    bytemuck::allocation::zeroed_vec(bytes.div_ceil(64))
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.memory.padded()[..self.len]
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// Builder of an [`AlignedBuffer`] by appending.
#[derive(Default)]
pub struct BufferBuilder {
    lines: Vec<CacheLine>,
    len: usize,
}

impl BufferBuilder {
    /// Creates an empty builder with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        BufferBuilder { lines: Vec::with_capacity(bytes.div_ceil(64)), len: 0 }
    }

    /// Appends bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.lines.resize(end.div_ceil(64), CacheLine([0; 64]));
        bytemuck::cast_slice_mut::<CacheLine, u8>(&mut self.lines)[self.len..end].copy_from_slice(bytes);
        self.len = end;
    }

    /// Appends zeros up to the next multiple of 64.
    pub fn align(&mut self) {
        self.len = self.len.next_multiple_of(64);
        self.lines.resize(self.len / 64, CacheLine([0; 64]));
    }

    /// Returns the buffer.
    pub fn finish(self) -> AlignedBuffer {
        AlignedBuffer::of_lines(self.lines, self.len)
    }
}
