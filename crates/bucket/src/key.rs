use millrace_document::{DocumentId, Group};

/// The place of a document in the order in which documents are stored, as bytes that compare in that order:
///
/// | bytes | what |
/// |---|---|
/// | 4 | the low 32 bits of the location, bit-reversed, big-endian |
/// | … | [`Group::key`], then a 0 byte (no id has control characters) |
/// | 4 | the other 26 bits of the location, bit-reversed, big-endian, in the top bits |
/// | … | the id |
///
/// A store that keeps versions adds its own suffix, beginning with a 0 byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SortKey(Vec<u8>);

impl SortKey {
    /// The key of a document.
    pub fn new(id: &DocumentId) -> Self {
        let reversed = id.location().reversed();
        let mut bytes = Vec::with_capacity(id.as_str().len() + 40);
        bytes.extend_from_slice(&((reversed >> 32) as u32).to_be_bytes());
        bytes.extend_from_slice(id.group().key().as_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&(reversed as u32).to_be_bytes());
        bytes.extend_from_slice(id.as_str().as_bytes());
        SortKey(bytes)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What every [`SortKey`] of `group` begins with, and no key of another group does; `None` for [`Group::None`], whose
/// documents lie everywhere.
pub fn group_prefix(group: &Group) -> Option<Vec<u8>> {
    let low = group.location_bits()?;
    let mut bytes = low.reverse_bits().to_be_bytes().to_vec();
    bytes.extend_from_slice(group.key().as_bytes());
    bytes.push(0);
    Some(bytes)
}
