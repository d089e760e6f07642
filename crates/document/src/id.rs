use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::io::Write as _;

use md5::{Digest, Md5};

use crate::Error;

/// A group of documents that are read together, given by `g=` or `n=` in the document id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DocumentGroup {
    /// No group: the id is `id:ns:type::name`.
    None,
    /// `n=<number>`.
    Number(u64),
    /// `g=<name>`.
    Name(String),
}

impl DocumentGroup {
    /// Low 32 bits of the location, common to all documents of this group; `None` if each document has its
    /// own.
    ///
    /// A number gives its low 32 bits, a name the first four bytes (little-endian) of its MD5.
    pub fn location_bits(&self) -> Option<u32> {
        match self {
            DocumentGroup::None => None,
            DocumentGroup::Number(number) => Some(*number as u32),
            DocumentGroup::Name(name) => Some(LAST_NAME.with_borrow_mut(|last| last.bits_of(name))),
        }
    }

    /// Text of the group in sort keys: `""`, `n<number>`, `g<name>`.
    ///
    /// Different groups have different keys, even if their location bits are equal.
    pub fn key(&self) -> String {
        let mut bytes = Vec::new();
        self.write_key(&mut bytes);
        String::from_utf8(bytes).expect("a letter before a text or digits is a text")
    }

    /// The group in a message: `group 5`, `group 'ann'`, or `documents without a group`.
    pub fn in_words(&self) -> String {
        match self {
            DocumentGroup::None => "documents without a group".to_owned(),
            DocumentGroup::Number(number) => format!("group {number}"),
            DocumentGroup::Name(name) => format!("group '{name}'"),
        }
    }

    /// Appends [`DocumentGroup::key`] to bytes.
    pub fn write_key(&self, bytes: &mut Vec<u8>) {
        match self {
            DocumentGroup::None => {}
            DocumentGroup::Number(number) => write!(bytes, "n{number}").expect("a vector takes all bytes"),
            DocumentGroup::Name(name) => {
                bytes.push(b'g');
                bytes.extend_from_slice(name.as_bytes());
            }
        }
    }

    /// Parses a [`DocumentGroup::key`].
    pub fn from_key(key: &str) -> Option<Self> {
        match key.as_bytes().first() {
            None => Some(DocumentGroup::None),
            Some(b'n') => key[1..].parse().ok().map(DocumentGroup::Number),
            Some(b'g') => Some(DocumentGroup::Name(key[1..].to_owned())),
            Some(_) => None,
        }
    }
}

impl fmt::Display for DocumentGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DocumentGroup::None => Ok(()),
            DocumentGroup::Number(number) => write!(f, "n={number}"),
            DocumentGroup::Name(name) => write!(f, "g={name}"),
        }
    }
}

/// Position of a document among the buckets: 58 bits. The group, if there is one, determines the low 32.
///
/// Source: Vespa's documentation of buckets; the digest is MD5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location(u64);

impl Location {
    /// Number of bits of a location.
    pub const BITS: u32 = 58;

    /// Creates a location; bits above [`Location::BITS`] are dropped.
    pub const fn new(bits: u64) -> Self {
        Location(bits & ((1 << Self::BITS) - 1))
    }

    /// The bits. A bucket is defined by some of the lowest ones.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The location in the order of stored keys.
    pub const fn reversed(self) -> ReversedLocation {
        ReversedLocation(self.0.reverse_bits())
    }
}

/// A [`Location`] in the order of stored keys: lowest bit first, in the top 58 bits of the word.
///
/// In this order every bucket, at every split level, is one contiguous range. The lowest 6 bits are 0 in the
/// location of a document; in the end of a range they may be 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReversedLocation(u64);

impl ReversedLocation {
    /// The first of all.
    pub const FIRST: ReversedLocation = ReversedLocation(0);

    /// The last of all.
    pub const LAST: ReversedLocation = ReversedLocation(u64::MAX);

    /// The location with these bits, which are reversed already.
    pub const fn new(reversed: u64) -> Self {
        ReversedLocation(reversed)
    }

    /// First of the locations whose highest 32 bits, those that a group determines, are these.
    pub const fn first_of_group(high: u32) -> Self {
        ReversedLocation((high as u64) << 32)
    }

    /// The reversed bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The highest 32 bits, those that a group determines.
    pub const fn high(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The lowest 32 bits.
    pub const fn low(self) -> u32 {
        self.0 as u32
    }

    /// The location that is reversed.
    pub const fn location(self) -> Location {
        Location::new(self.0.reverse_bits())
    }

    /// The next one; `None` after the last.
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(ReversedLocation)
    }

    /// The one before; `None` before the first.
    pub fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(ReversedLocation)
    }
}

/// The name that a thread hashed last: documents of a group follow each other in writes, merges and visits.
#[derive(Default)]
struct HashedName {
    name: String,
    bits: u32,
}

thread_local! {
    static LAST_NAME: RefCell<HashedName> = RefCell::default();
}

impl HashedName {
    /// Location bits of a name.
    fn bits_of(&mut self, name: &str) -> u32 {
        if self.name != name || name.is_empty() {
            let digest = Md5::digest(name.as_bytes());
            self.bits = u32::from_le_bytes([digest[0], digest[1], digest[2], digest[3]]);
            self.name.clear();
            self.name.push_str(name);
        }
        self.bits
    }
}

/// A document id: `id:<namespace>:<type>:[g=<group>|n=<number>]:<name>`.
///
/// Validated on creation: no part is empty (except the key part), and there are no control characters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocumentId {
    text: String,
    namespace_end: u32,
    type_end: u32,
    key_end: u32,
    group: DocumentGroup,
}

impl DocumentId {
    /// Parses the text form.
    ///
    /// # Errors
    /// [`Error::Id`] with the missing part.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let fail = |reason| Error::Id { id: text.to_owned(), reason };
        let mut parts = text.splitn(5, ':');
        if parts.next() != Some("id") {
            return Err(fail("it does not begin with 'id:'"));
        }
        let namespace = parts.next().ok_or_else(|| fail("the namespace is missing"))?;
        let document_type = parts.next().ok_or_else(|| fail("the document type is missing"))?;
        let key = parts.next().ok_or_else(|| fail("the key part (which may be empty) is missing"))?;
        let name = parts.next().ok_or_else(|| fail("the document's own name is missing"))?;
        if namespace.is_empty() {
            return Err(fail("the namespace is empty"));
        }
        if document_type.is_empty() {
            return Err(fail("the document type is empty"));
        }
        if name.is_empty() {
            return Err(fail("the document's own name is empty"));
        }
        if text.len() > 65_535 {
            return Err(fail("it is longer than 65535 bytes"));
        }
        if has_control(text) {
            return Err(fail("it has a control character"));
        }
        let group = match key {
            "" => DocumentGroup::None,
            _ => match key.split_once('=') {
                Some(("g", "")) => return Err(fail("the group after 'g=' is empty")),
                Some(("g", name)) => DocumentGroup::Name(name.to_owned()),
                Some(("n", number)) => DocumentGroup::Number(
                    number.parse().map_err(|_| fail("what follows 'n=' is not a number of 64 bits"))?,
                ),
                Some(("G" | "N", _)) => return Err(fail("its g= and n= are written in lower case")),
                _ => {
                    return Err(fail(
                        "what stands before the name is neither empty, nor g=<group>, nor n=<number>",
                    ));
                }
            },
        };
        let namespace_end = 3 + namespace.len();
        let type_end = namespace_end + 1 + document_type.len();
        let key_end = type_end + 1 + key.len();
        Ok(DocumentId {
            text: text.to_owned(),
            namespace_end: namespace_end as u32,
            type_end: type_end as u32,
            key_end: key_end as u32,
            group,
        })
    }

    /// Creates an id from its parts.
    ///
    /// # Errors
    /// The errors of [`DocumentId::parse`]; also if a part other than the name contains ':', which would
    /// shift the following text into another part, and possibly into another group.
    pub fn new(
        namespace: &str,
        document_type: &str,
        group: &DocumentGroup,
        name: &str,
    ) -> Result<Self, Error> {
        let text = format!("id:{namespace}:{document_type}:{group}:{name}");
        let id = Self::parse(&text)?;
        if id.namespace() == namespace
            && id.document_type() == document_type
            && id.group == *group
            && id.name() == name
        {
            Ok(id)
        } else {
            Err(Error::Id { id: text, reason: "only the document's own name may have a ':' in it" })
        }
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.text[3..self.namespace_end as usize]
    }

    /// The document type's name.
    pub fn document_type(&self) -> &str {
        &self.text[self.namespace_end as usize + 1..self.type_end as usize]
    }

    /// The group.
    pub const fn group(&self) -> &DocumentGroup {
        &self.group
    }

    /// User-defined name of the document: the part after the last separator.
    pub fn name(&self) -> &str {
        &self.text[self.key_end as usize + 1..]
    }

    /// Text of the id where a group is implied: without the group, if it is this one. There, such a text is
    /// the id with the group.
    ///
    /// A number that is written in another way (`n=007`) stays: without it, the text would be another id.
    pub fn shown_within(&self, implied: Option<&DocumentGroup>) -> Cow<'_, str> {
        let (key_start, key_end) = (self.type_end as usize + 1, self.key_end as usize);
        match implied {
            Some(implied)
                if *implied != DocumentGroup::None
                    && self.text[key_start..key_end] == implied.to_string() =>
            {
                Cow::Owned(format!("{}{}", &self.text[..key_start], &self.text[key_end..]))
            }
            _ => Cow::Borrowed(&self.text),
        }
    }

    /// Location among the buckets. Costs one MD5 of the text (two with a group name).
    pub fn location(&self) -> Location {
        DocumentId::location_of(self.text.as_bytes(), &self.group)
    }

    /// Location of the document whose id has a text, and this group: [`DocumentId::location`], without
    /// parsing the text.
    pub fn location_of(text: &[u8], group: &DocumentGroup) -> Location {
        let digest = Md5::digest(text);
        let word =
            |at: usize| u32::from_le_bytes([digest[at], digest[at + 1], digest[at + 2], digest[at + 3]]);
        let low = group.location_bits().unwrap_or_else(|| word(0));
        Location::new(u64::from(word(8)) << 32 | u64::from(low))
    }
}

/// True if a text has a control character. Ids are read often: bytes that may be of one are looked for many
/// at a time.
fn has_control(text: &str) -> bool {
    let may_have = text.bytes().fold(false, |found, byte| found | !(b' '..=b'~').contains(&byte));
    may_have && text.chars().any(char::is_control)
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
