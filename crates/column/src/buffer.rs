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
    lines: Arc<Vec<Line>>,
    len: usize,
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
        Ok(Buffer { lines: Arc::new(lines), len })
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
        let buffer = |(lines, len): (Vec<Line>, &usize)| Buffer { lines: Arc::new(lines), len: *len };
        Ok(buffers.into_iter().zip(lens).map(buffer).collect())
    }

    /// The bytes, and the zeros up to the next multiple of 64.
    pub fn padded(&self) -> &[u8] {
        bytemuck::cast_slice::<Line, u8>(&self.lines)
    }

    /// Bytes of memory it takes.
    pub fn capacity(&self) -> usize {
        self.lines.capacity() * 64
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
        &bytemuck::cast_slice::<Line, u8>(&self.lines)[..self.len]
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
        Buffer { lines: Arc::new(self.lines), len: self.len }
    }
}
