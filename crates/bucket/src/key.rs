use millrace_document::{DocumentGroup, DocumentId, ReversedLocation};

/// Position of a document in the storage order, as bytes that compare in that order:
///
/// | bytes | content |
/// |---|---|
/// | 4 | the low 32 bits of the location, bit-reversed, big-endian |
/// | … | [`DocumentGroup::key`], then a 0 byte (ids have no control characters) |
/// | 4 | the other 26 bits of the location, bit-reversed, big-endian, in the top bits |
/// | … | the id |
///
/// A store that keeps versions adds its own suffix, which starts with a 0 byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentSortKey(Vec<u8>);

impl DocumentSortKey {
    /// The key of a document.
    pub fn new(id: &DocumentId) -> Self {
        Self::of_text(id.as_str(), id.group())
    }

    /// The key of the document whose id has a text, and this group: [`DocumentSortKey::new`], without parsing
    /// the text.
    pub fn of_text(text: &str, group: &DocumentGroup) -> Self {
        let mut bytes = Vec::with_capacity(text.len() + 40);
        DocumentSortKey::write(text, group, &mut bytes);
        DocumentSortKey(bytes)
    }

    /// Appends the bytes of [`DocumentSortKey::of_text`].
    pub fn write(text: &str, group: &DocumentGroup, bytes: &mut Vec<u8>) {
        let reversed = DocumentId::location_of(text.as_bytes(), group).reversed();
        bytes.extend_from_slice(&reversed.high().to_be_bytes());
        group.write_key(bytes);
        bytes.push(0);
        bytes.extend_from_slice(&reversed.low().to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// [`DocumentGroup::key`] of the document's group.
    pub fn group_key(&self) -> &str {
        let group = self.0[4..].split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(group).expect("a group's key is a text, and was written whole")
    }

    /// The reversed location of the document.
    pub fn reversed_location(&self) -> ReversedLocation {
        reversed_location(&self.0)
    }
}

/// The reversed location in a [`DocumentSortKey`], given as bytes. The key may be truncated: missing location
/// bits count as 0.
pub fn reversed_location(key: &[u8]) -> ReversedLocation {
    let bits = |bytes: &[u8]| bytes.first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes));
    let after_location = key.get(4..).unwrap_or_default();
    let mut around_zero = after_location.splitn(2, |byte| *byte == 0).skip(1);
    ReversedLocation::new(u64::from(bits(key)) << 32 | u64::from(around_zero.next().map_or(0, bits)))
}

/// Common prefix of the [`DocumentSortKey`]s of `group`, and of no other group; `None` for
/// [`DocumentGroup::None`], whose documents are in all places.
pub fn group_prefix(group: &DocumentGroup) -> Option<Vec<u8>> {
    let low = group.location_bits()?;
    let mut bytes = low.reverse_bits().to_be_bytes().to_vec();
    group.write_key(&mut bytes);
    bytes.push(0);
    Some(bytes)
}
