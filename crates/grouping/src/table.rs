use std::borrow::Cow;
use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use millrace_tensor::ShortText;
use serde::{Deserialize, Serialize, Serializer};

use crate::datum::ExpressionDatum;

/// Groups of one list across all enclosing groups, numbered in order of appearance. A group is found by its
/// enclosing group and its key.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "NumberedGroups")]
pub(crate) struct GroupTable {
    /// Groups with long keys, each with the hash of its key: it is computed once, and long keys are compared
    /// only where it is the same.
    numbers: HashTable<(u64, u32)>,
    /// Groups whose key is a whole number: by far the most common, and small enough to store in the table
    /// itself.
    whole: HashMap<(u32, i64), u32>,
    /// Groups whose key is any other number, by its bits as [`bits`] gives them.
    fractional: HashMap<(u32, u64), u32>,
    /// Groups whose key is a bucket of numbers, a truth value or null, by kind and bits.
    plain: HashMap<PlainKey, u32>,
    /// Groups with a short text as key, for the same reason.
    short_texts: HashMap<(u32, ShortText), u32>,
    /// Groups with few bytes as key.
    short_raws: HashMap<(u32, ShortText), u32>,
    hasher: DefaultHashBuilder,
    /// For each group, the number of the enclosing group.
    pub(crate) parents: Vec<u32>,
    /// For each group, its key.
    pub(crate) keys: Vec<ExpressionDatum<'static>>,
    /// Memory of the contents of the keys, in bytes.
    contents: usize,
}

/// The enclosing group, a kind, and the bits of a key of that kind.
type PlainKey = (u32, u8, [u64; 2]);

/// A table without its lookup maps.
#[derive(Deserialize)]
struct NumberedGroups(Vec<(u32, ExpressionDatum<'static>)>);

impl Serialize for GroupTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.parents.iter().zip(&self.keys))
    }
}

impl TryFrom<NumberedGroups> for GroupTable {
    type Error = &'static str;

    fn try_from(groups: NumberedGroups) -> Result<Self, Self::Error> {
        let mut table = GroupTable::default();
        for (number, (parent, key)) in groups.0.iter().enumerate() {
            if table.number(*parent, key) as usize != number {
                return Err("a group comes twice");
            }
        }
        Ok(table)
    }
}

impl GroupTable {
    /// Number of a group; created on first use.
    pub(crate) fn number(&mut self, parent: u32, key: &ExpressionDatum<'_>) -> u32 {
        match key {
            ExpressionDatum::Long(value) => self.long(parent, *value),
            ExpressionDatum::Double(value) => self.double(parent, *value),
            ExpressionDatum::Text(text) => self.text_bytes(parent, text.as_bytes()),
            ExpressionDatum::Raw(bytes) => self.raw(parent, bytes),
            ExpressionDatum::Null => self.plain((parent, 0, [0; 2]), key),
            ExpressionDatum::Bool(value) => self.plain((parent, 1, [u64::from(*value), 0]), key),
            ExpressionDatum::LongBucket(from, to) => {
                self.plain((parent, 2, [from.cast_unsigned(), to.cast_unsigned()]), key)
            }
            ExpressionDatum::DoubleBucket(from, to) => self.plain((parent, 3, [bits(*from), bits(*to)]), key),
            key => {
                let hash = hash_of(&self.hasher, parent, key);
                self.find(hash, parent, |known| same(known, key), || key.clone().into_owned())
            }
        }
    }

    /// Like [`GroupTable::number`], for a whole number.
    pub(crate) fn long(&mut self, parent: u32, value: i64) -> u32 {
        let GroupTable { whole, parents, keys, .. } = self;
        *whole.entry((parent, value)).or_insert_with(|| {
            parents.push(parent);
            keys.push(ExpressionDatum::Long(value));
            (keys.len() - 1) as u32
        })
    }

    /// Like [`GroupTable::number`], for a number with a fraction.
    pub(crate) fn double(&mut self, parent: u32, value: f64) -> u32 {
        let GroupTable { fractional, parents, keys, .. } = self;
        *fractional.entry((parent, bits(value))).or_insert_with(|| {
            parents.push(parent);
            keys.push(ExpressionDatum::Double(value));
            (keys.len() - 1) as u32
        })
    }

    fn plain(&mut self, entry_key: PlainKey, key: &ExpressionDatum<'_>) -> u32 {
        let GroupTable { plain, parents, keys, .. } = self;
        *plain.entry(entry_key).or_insert_with(|| {
            parents.push(entry_key.0);
            keys.push(key.clone().into_owned());
            (keys.len() - 1) as u32
        })
    }

    /// Like [`GroupTable::number`], for the bytes of a text in its column.
    pub(crate) fn text_bytes(&mut self, parent: u32, text: &[u8]) -> u32 {
        let Some(short) = ShortText::new(text) else { return self.long_text(parent, text) };
        let GroupTable { short_texts, parents, keys, contents, .. } = self;
        *short_texts.entry((parent, short)).or_insert_with(|| {
            parents.push(parent);
            keys.push(ExpressionDatum::text(String::from_utf8_lossy(text).into_owned()));
            *contents += text.len();
            (keys.len() - 1) as u32
        })
    }

    fn raw(&mut self, parent: u32, bytes: &[u8]) -> u32 {
        let key = || ExpressionDatum::Raw(Cow::Owned(bytes.to_vec()));
        let Some(short) = ShortText::new(bytes) else {
            let wanted = ExpressionDatum::Raw(Cow::Borrowed(bytes));
            let hash = hash_of(&self.hasher, parent, &wanted);
            return self.find(hash, parent, |known| same(known, &wanted), key);
        };
        let GroupTable { short_raws, parents, keys, contents, .. } = self;
        *short_raws.entry((parent, short)).or_insert_with(|| {
            parents.push(parent);
            keys.push(key());
            *contents += bytes.len();
            (keys.len() - 1) as u32
        })
    }

    fn long_text(&mut self, parent: u32, text: &[u8]) -> u32 {
        let hash = self.hasher.hash_one((parent, text));
        self.find(
            hash,
            parent,
            |known| matches!(known, ExpressionDatum::Text(known) if known.as_bytes() == text),
            || ExpressionDatum::text(String::from_utf8_lossy(text).into_owned()),
        )
    }

    fn find(
        &mut self,
        hash: u64,
        parent: u32,
        is: impl Fn(&ExpressionDatum<'static>) -> bool,
        key: impl FnOnce() -> ExpressionDatum<'static>,
    ) -> u32 {
        let GroupTable { numbers, parents, keys, contents, .. } = self;
        let entry = numbers.entry(
            hash,
            |&(of, number)| of == hash && parents[number as usize] == parent && is(&keys[number as usize]),
            |&(of, _)| of,
        );
        match entry {
            Entry::Occupied(entry) => entry.get().1,
            Entry::Vacant(entry) => {
                let number = keys.len() as u32;
                entry.insert((hash, number));
                parents.push(parent);
                let key = key();
                *contents += key.content_bytes();
                keys.push(key);
                number
            }
        }
    }

    /// Memory that it takes, in bytes, approximately.
    pub(crate) fn memory_bytes(&self) -> usize {
        let of_group = size_of::<(u32, ExpressionDatum<'static>)>() + size_of::<((u32, ShortText), u32)>();
        self.keys.len() * of_group + self.contents
    }

    /// Number of groups.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}

/// Hash of a key that is bytes, or a bucket of texts or of bytes.
fn hash_of(hasher: &DefaultHashBuilder, parent: u32, key: &ExpressionDatum<'_>) -> u64 {
    let mut state = hasher.build_hasher();
    parent.hash(&mut state);
    match key {
        ExpressionDatum::Raw(bytes) => bytes.hash(&mut state),
        ExpressionDatum::TextBucket(from, to) => (from, to).hash(&mut state),
        ExpressionDatum::RawBucket(from, to) => (from, to).hash(&mut state),
        ExpressionDatum::Null
        | ExpressionDatum::Bool(_)
        | ExpressionDatum::List(_)
        | ExpressionDatum::Long(_)
        | ExpressionDatum::Double(_)
        | ExpressionDatum::LongBucket(..)
        | ExpressionDatum::DoubleBucket(..)
        | ExpressionDatum::Text(_) => {}
    }
    state.finish()
}

/// Groups by the group that encloses them, one after another.
#[derive(Debug, Default)]
pub(crate) struct EnclosedGroups {
    /// For each enclosing group, the end of its groups.
    ends: Vec<u32>,
    groups: Vec<u32>,
}

impl EnclosedGroups {
    /// The groups with these enclosing groups, of which there are `count`.
    pub(crate) fn new(parents: &[u32], count: usize) -> Self {
        let mut ends = vec![0; count];
        parents.iter().for_each(|parent| ends[*parent as usize] += 1);
        let mut next = 0;
        for end in &mut ends {
            next += std::mem::replace(end, next);
        }
        // Until all groups have come, the end is that of those so far.
        let mut groups = vec![0; parents.len()];
        for (group, parent) in (0..).zip(parents) {
            let end = &mut ends[*parent as usize];
            groups[*end as usize] = group;
            *end += 1;
        }
        EnclosedGroups { ends, groups }
    }

    /// The groups in a group, in the order of their numbers.
    pub(crate) fn of(&self, parent: usize) -> &[u32] {
        let start = parent.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.groups[start as usize..self.ends[parent] as usize]
    }
}

/// Equality of keys that are bytes, or buckets of texts or of bytes.
fn same(a: &ExpressionDatum<'_>, b: &ExpressionDatum<'_>) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b) && a.order(b).is_eq()
}

/// The bits by which numbers are keys: all NaNs are equal, and so are both zeros.
fn bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_by_their_enclosing_group_in_order() {
        let members = EnclosedGroups::new(&[2, 0, 2, 3, 0], 5);
        let of = |parent| members.of(parent).to_vec();
        assert_eq!([of(0), of(1), of(2), of(3), of(4)], [vec![1, 4], vec![], vec![0, 2], vec![3], vec![]]);
    }

    #[test]
    fn long_keys_are_found_again_in_each_enclosing_group() {
        let text = |number: u32| format!("a text that is longer than short ones: {number}").into_bytes();
        let mut table = GroupTable::default();
        // So many that the table grows several times.
        let numbers = |table: &mut GroupTable| -> Vec<u32> {
            (0..2000)
                .map(|number| match number % 2 {
                    0 => table.text_bytes(number % 3, &text(number / 2)),
                    _ => table.number(number % 3, &ExpressionDatum::Raw(text(number / 2).into())),
                })
                .collect()
        };
        assert_eq!(numbers(&mut table), Vec::from_iter(0..2000));
        assert_eq!(numbers(&mut table), Vec::from_iter(0..2000));
        assert_eq!(table.text_bytes(7, &text(0)), 2000, "another enclosing group");
    }
}
