//! Continuations: opaque text for clients that selects the first entry of a list.
//!
//! A list is identified by its path and its tag. The path consists of the number of the request, 0, the index
//! of a list in the root, the index of a group in that list, the index of a list in that group, and so on.
//! The tag is the list's number in the text of the request: the root is 1, and each level of groups and each
//! output counts one more, from front to back.
//!
//! In the text, a number is a letter that gives the number of letters that follow, then its bits in groups of
//! four, as the letters A to P. Numbers are doubled, because the lowest bit holds the sign. Each list is
//! written as the length of the path, the path, the tag, the offset, and a flag: 1 if the text leads to
//! another page, 0 if it denotes the current page.

use std::collections::BTreeMap;

use crate::Error;

/// Identity of a list in the result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListKey {
    pub(crate) path: Vec<u32>,
    pub(crate) tag: u32,
}

/// First entry of each list that does not begin with entry 0, in list order.
pub(crate) type Offsets = BTreeMap<ListKey, usize>;

/// Maximum length of a decoded path: more than any request can nest.
const PATH_MAX: usize = 256;

/// Decodes continuations in the order given; a later one overrides an earlier one for the same list.
pub(crate) fn decode_all(continuations: &[String]) -> Result<Offsets, Error> {
    let mut offsets = Offsets::new();
    for text in continuations {
        let mut letters = text.bytes();
        while letters.len() > 0 {
            let (key, offset) = list(&mut letters).ok_or_else(|| {
                Error::invalid(format!(
                    "'{text}' is not a continuation; pass on what a result gave as \"this\", \"next\" or \"prev\""
                ))
            })?;
            offsets.insert(key, offset);
        }
    }
    Ok(offsets)
}

/// Encodes the continuation that leads to another page of a list.
pub(crate) fn to_page(list: &ListKey, offset: usize) -> String {
    let mut text = String::new();
    write_list(&mut text, list, offset, 1);
    text
}

/// Encodes the continuation of the current page.
pub(crate) fn to_current_page(offsets: &Offsets) -> String {
    let mut text = String::new();
    offsets.iter().for_each(|(list, offset)| write_list(&mut text, list, *offset, 0));
    text
}

fn write_list(text: &mut String, list: &ListKey, offset: usize, flags: u32) {
    let numbers = [list.path.len() as u32].into_iter().chain(list.path.iter().copied()).chain([
        list.tag,
        u32::try_from(offset).unwrap_or(u32::MAX >> 1),
        flags,
    ]);
    let letter = |nibble: u32| char::from(b'A' + (nibble & 15) as u8);
    for number in numbers {
        let bits = u64::from(number) << 1;
        let nibbles = (64 - bits.leading_zeros()).div_ceil(4);
        text.push(letter(nibbles));
        text.extend((0..nibbles).rev().map(|nibble| letter((bits >> (4 * nibble)) as u32)));
    }
}

fn list(letters: &mut std::str::Bytes<'_>) -> Option<(ListKey, usize)> {
    let len = number(letters)? as usize;
    if len > PATH_MAX {
        return None;
    }
    let path = (0..len).map(|_| number(letters)).collect::<Option<_>>()?;
    let tag = number(letters)?;
    let offset = number(letters)? as usize;
    number(letters)?;
    Some((ListKey { path, tag }, offset))
}

/// A non-negative number.
fn number(letters: &mut std::str::Bytes<'_>) -> Option<u32> {
    let mut nibble = || letters.next()?.checked_sub(b'A').filter(|nibble| *nibble < 16);
    let mut bits = 0u64;
    let count = nibble().filter(|count| *count <= 8)?;
    for _ in 0..count {
        bits = bits << 4 | u64::from(nibble()?);
    }
    (bits & 1 == 0).then_some((bits >> 1) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_and_read() {
        let check = |path: &[u32], tag: u32, offset: usize, text: &str| {
            let key = ListKey { path: path.to_vec(), tag };
            assert_eq!(to_page(&key, offset), text);
            let read = decode_all(&[text.to_owned()]).expect("what was written is read");
            assert_eq!(read, Offsets::from([(key, offset)]));
        };
        check(&[0, 0, 0], 2, 2, "BGAAABEBEBC");
        check(&[0, 0, 0, 1, 0, 0, 0], 4, 2, "BOAAABCAAABIBEBC");
        check(&[3, 0, 70_000], 100, 1 << 30, "BGBGAFCCCOACMIIIAAAAAAABC");
    }

    #[test]
    fn what_is_no_continuation_is_refused() {
        for text in ["x", "BG", "BGAAABEBE", "PAAAAAAAAAAAAAAA", "BDA", "BGAAABEBEBC!", "IPPPPPPPO"] {
            assert!(decode_all(&[text.to_owned()]).is_err(), "{text}");
        }
    }
}
