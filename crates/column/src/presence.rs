use crate::BufferBuilder;

/// The documents of a chunk that have a value: one bit per document, lowest first, in words of 64.
#[derive(Debug, Clone, Copy)]
pub struct Presence<'a> {
    words: &'a [u64],
    len: usize,
}

impl<'a> Presence<'a> {
    #[inline]
    pub(crate) fn new(words: &'a [u64], len: usize) -> Self {
        Presence { words, len }
    }

    /// True if the document at `index` has a value.
    #[inline]
    pub fn get(&self, index: usize) -> bool {
        self.words[index / 64] >> (index % 64) & 1 == 1
    }

    /// The words; bits past the last document are 0.
    #[inline]
    pub fn words(&self) -> &'a [u64] {
        self.words
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Collector of the bits while a column is built.
#[derive(Default)]
pub(crate) struct PresenceBuilder {
    words: Vec<u64>,
    len: usize,
}

impl PresenceBuilder {
    pub(crate) fn push(&mut self, present: bool) {
        if self.len.is_multiple_of(64) {
            self.words.push(0);
        }
        self.words[self.len / 64] |= u64::from(present) << (self.len % 64);
        self.len += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn write(&self, out: &mut BufferBuilder) {
        out.extend(bytemuck::cast_slice(&self.words));
        out.align();
    }
}

/// Size in bytes of the bits of `count` documents in an encoded column, including padding.
#[inline]
pub(crate) fn presence_bytes(count: usize) -> usize {
    (count.div_ceil(64) * 8).next_multiple_of(64)
}
