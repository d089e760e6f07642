//! Continuations: which lists begin at a later entry, as text that users hand back and need not understand.
//!
//! A list is known by a hash of the path to it: the places of lists in the request and the keys of the groups on the way.
//! The text is hexadecimal with the letters A to P, so that it is a word in any query language: for each list 8 bytes of
//! hash and 4 bytes of offset.

use std::collections::HashMap;

use crate::Error;
use crate::datum::Datum;

/// Decodes continuations in the order given; a later one overrides an earlier one for the same list.
pub(crate) fn decode_all(continuations: &[String]) -> Result<HashMap<u64, usize>, Error> {
    let mut offsets = HashMap::new();
    for text in continuations {
        let wrong = || {
            Error::invalid(format!(
                "'{text}' is not a continuation; pass on what a result gave as \"this\", \"next\" or \"prev\""
            ))
        };
        let nibbles = text
            .bytes()
            .map(|letter| letter.checked_sub(b'A').filter(|nibble| *nibble < 16))
            .collect::<Option<Vec<u8>>>()
            .ok_or_else(wrong)?;
        let (entries, rest) = nibbles.as_chunks::<24>();
        if !rest.is_empty() {
            return Err(wrong());
        }
        for entry in entries {
            let number =
                |nibbles: &[u8]| nibbles.iter().fold(0u64, |number, nibble| number << 4 | u64::from(*nibble));
            offsets.insert(number(&entry[..16]), number(&entry[16..]) as usize);
        }
    }
    Ok(offsets)
}

/// The text for lists and their offsets.
pub(crate) fn encode(offsets: impl IntoIterator<Item = (u64, usize)>) -> String {
    let letters = |number: u64, count: usize| {
        (0..count).rev().map(move |place| char::from(b'A' + (number >> (4 * place) & 15) as u8))
    };
    offsets
        .into_iter()
        .flat_map(|(list, offset)| letters(list, 16).chain(letters(offset.min(u32::MAX as usize) as u64, 8)))
        .collect()
}

/// The path to a list, as a hash (FNV-1a) that is the same on every machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path(pub(crate) u64);

impl Path {
    pub(crate) const ROOT: Path = Path(0xcbf2_9ce4_8422_2325);

    pub(crate) fn list(self, place: usize) -> Path {
        self.bytes(&(place as u64).to_le_bytes())
    }

    pub(crate) fn group(self, key: &Datum<'_>) -> Path {
        match key {
            Datum::LongBucket(from, _) => self.bytes(&from.to_be_bytes()),
            Datum::DoubleBucket(from, _) => self.bytes(&from.to_be_bytes()),
            Datum::TextBucket(from, _) => self.bytes(from.as_bytes()),
            Datum::RawBucket(from, _) => self.bytes(from),
            key => self.bytes(&key.to_raw()),
        }
    }

    fn bytes(self, bytes: &[u8]) -> Path {
        Path(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }
}
