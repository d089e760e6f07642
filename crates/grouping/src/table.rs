use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};
use serde::{Deserialize, Serialize, Serializer};

use crate::datum::Datum;

/// The groups of one list in all groups around it, numbered as they come, found by the group around them and their key.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "Groups")]
pub(crate) struct Table {
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
    /// For each group, the number of the group around it.
    pub(crate) parents: Vec<u32>,
    /// For each group, what its documents share.
    pub(crate) keys: Vec<Datum<'static>>,
}

/// A table without what finds its groups.
#[derive(Deserialize)]
struct Groups(Vec<(u32, Datum<'static>)>);

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.parents.iter().zip(&self.keys))
    }
}

impl TryFrom<Groups> for Table {
    type Error = &'static str;

    fn try_from(groups: Groups) -> Result<Self, Self::Error> {
        let mut table = Table::default();
        for (number, (parent, key)) in groups.0.iter().enumerate() {
            if table.number(*parent, key) as usize != number {
                return Err("a group comes twice");
            }
        }
        Ok(table)
    }
}

impl Table {
    /// The number of a group, new or known.
    pub(crate) fn number(&mut self, parent: u32, key: &Datum<'_>) -> u32 {
        match key {
            Datum::Long(value) => self.long(parent, *value),
            Datum::Text(text) => self.text(parent, text),
            key => {
                let hash = hash_of(&self.hasher, parent, key);
                self.find(hash, parent, |known| same(known, key), || key.clone().into_owned())
            }
        }
    }

    /// As [`Table::number`], for a whole number.
    pub(crate) fn long(&mut self, parent: u32, value: i64) -> u32 {
        let hash = self.hasher.hash_one((parent, value));
        self.find(
            hash,
            parent,
            |known| matches!(known, Datum::Long(known) if *known == value),
            || Datum::Long(value),
        )
    }

    /// As [`Table::number`], for a text.
    pub(crate) fn text(&mut self, parent: u32, text: &str) -> u32 {
        let hash = self.hasher.hash_one((parent, text));
        self.find(
            hash,
            parent,
            |known| matches!(known, Datum::Text(known) if known == text),
            || Datum::text(text.to_owned()),
        )
    }

    fn find(
        &mut self,
        hash: u64,
        parent: u32,
        is: impl Fn(&Datum<'static>) -> bool,
        key: impl FnOnce() -> Datum<'static>,
    ) -> u32 {
        let Table { numbers, hasher, parents, keys } = self;
        let entry = numbers.entry(
            hash,
            |&number| parents[number as usize] == parent && is(&keys[number as usize]),
            |&number| hash_of(hasher, parents[number as usize], &keys[number as usize]),
        );
        match entry {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let number = keys.len() as u32;
                entry.insert(number);
                parents.push(parent);
                keys.push(key());
                number
            }
        }
    }

    /// How many groups there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}

fn hash_of(hasher: &DefaultHashBuilder, parent: u32, key: &Datum<'_>) -> u64 {
    match key {
        Datum::Long(value) => hasher.hash_one((parent, *value)),
        Datum::Text(text) => hasher.hash_one((parent, &**text)),
        key => {
            let mut state = hasher.build_hasher();
            parent.hash(&mut state);
            match key {
                Datum::Bool(value) => value.hash(&mut state),
                Datum::Double(value) => bits(*value).hash(&mut state),
                Datum::Raw(bytes) => bytes.hash(&mut state),
                Datum::LongBucket(from, to) => (from, to).hash(&mut state),
                Datum::DoubleBucket(from, to) => (bits(*from), bits(*to)).hash(&mut state),
                Datum::TextBucket(from, to) => (from, to).hash(&mut state),
                Datum::RawBucket(from, to) => (from, to).hash(&mut state),
                Datum::Null | Datum::List(_) | Datum::Long(_) | Datum::Text(_) => {}
            }
            state.finish()
        }
    }
}

/// Whether two keys are one. All NaNs are, and both zeros.
fn same(a: &Datum<'_>, b: &Datum<'_>) -> bool {
    match (a, b) {
        (Datum::Null, Datum::Null) => true,
        (Datum::Double(a), Datum::Double(b)) => bits(*a) == bits(*b),
        (Datum::DoubleBucket(a, x), Datum::DoubleBucket(b, y)) => {
            (bits(*a), bits(*x)) == (bits(*b), bits(*y))
        }
        _ => std::mem::discriminant(a) == std::mem::discriminant(b) && a.order(b).is_eq(),
    }
}

fn bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}
