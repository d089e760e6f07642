//! Documents of a slice.

use crate::record::{read_bytes, read_number, write_bytes, write_number};

/// Documents that a copy may have, as a range of their keys; by default all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SliceRange {
    /// Lowest key of a document.
    pub low: Vec<u8>,
    /// Key above those of all documents; `None` for no limit.
    pub high: Option<Vec<u8>>,
}

impl SliceRange {
    /// True if the document with this key is one of them.
    pub fn contains(&self, document: &[u8]) -> bool {
        document >= &self.low[..] && !self.is_below(document)
    }

    /// True if all of them are below a document.
    pub(crate) fn is_below(&self, document: &[u8]) -> bool {
        self.high.as_ref().is_some_and(|high| document >= &high[..])
    }

    /// True if it has every document of another slice.
    pub fn includes(&self, other: &SliceRange) -> bool {
        let reaches = match (&self.high, &other.high) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(high), Some(other)) => other <= high,
        };
        self.low <= other.low && reaches
    }

    /// True if it has all documents.
    pub fn is_all(&self) -> bool {
        self.low.is_empty() && self.high.is_none()
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write_bytes(&self.low, out);
        write_number(u64::from(self.high.is_some()), out);
        if let Some(high) = &self.high {
            write_bytes(high, out);
        }
    }

    pub(crate) fn read(bytes: &mut &[u8]) -> Option<Self> {
        let low = read_bytes(bytes)?.to_vec();
        let high = match read_number(bytes)? {
            0 => None,
            1 => Some(read_bytes(bytes)?.to_vec()),
            _ => return None,
        };
        Some(SliceRange { low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::SliceRange;

    fn range(low: &str, high: Option<&str>) -> SliceRange {
        SliceRange { low: low.into(), high: high.map(Into::into) }
    }

    #[test]
    fn a_slice_includes_its_halves_and_no_other() {
        #[track_caller]
        fn check(one: &SliceRange, other: &SliceRange, expected: bool) {
            assert_eq!(one.includes(other), expected, "{one:?} {other:?}");
        }
        let (all, low, high) = (SliceRange::default(), range("", Some("m")), range("m", None));
        for half in [&low, &high] {
            check(&all, half, true);
            check(half, &all, false);
            check(half, half, true);
        }
        check(&low, &high, false);
        check(&high, &low, false);
        check(&low, &range("c", Some("n")), false);
        check(&low, &range("c", Some("m")), true);
        assert!(low.contains(b"lz") && !low.contains(b"m") && high.contains(b"m") && !high.contains(b"lz"));
        for slice in [all, low, high] {
            let mut bytes = Vec::new();
            slice.write(&mut bytes);
            assert_eq!(SliceRange::read(&mut &bytes[..]), Some(slice));
        }
    }
}
