//! Values at the end of a path, in the wire form of many values of one type.

mod pass;

use std::ops::Range;

use crate::{DataType, wire};
use pass::{
    BoolLeaf, ByteLeaf, DoubleLeaf, EncodedLeafKind, FloatLeaf, IntLeaf, LeafPass, LongLeaf, MemberHead,
    PositionLeaf, RawLeaf, TextLeaf,
};

/// Reader of the single values at the end of a path inside values of one data type, in their wire form.
///
/// A path consists of members of structs, and of `key` and `value` of maps. Arrays and sets are traversed
/// without a name; a map without a further name is represented by its keys.
///
/// Types are compared tag by tag in the same pass that finds the values.
#[derive(Debug)]
pub struct EncodedLeafReader {
    root: LeafShape,
    /// Tag of the values at the end of the path; `None` if it leads nowhere.
    tag: Option<u8>,
}

/// Expected form of a value.
#[derive(Debug)]
enum LeafShape {
    Single { tag: u8, is_wanted: bool },
    Array(Box<LeafShape>),
    WeightedSet(Box<LeafShape>),
    Map(Box<LeafShape>, Box<LeafShape>),
    Struct(Vec<MemberShape>),
}

/// Expected form of a member of a struct.
#[derive(Debug)]
struct MemberShape {
    head: MemberHead,
    shape: LeafShape,
}

/// Values at the end of a path in many rows, one after the other.
///
/// The elements of the rows' outermost collections are numbered in the same way. A row without a collection
/// has one element; one without a value has none.
#[derive(Debug)]
pub struct LeafColumn<'a> {
    values: EncodedLeafValues<'a>,
    /// Number of values up to the end of each row.
    ends: Vec<u32>,
    /// Weight of each value; empty if the path does not end in a weighted set.
    weights: Vec<i32>,
    /// `None` if every element has exactly one value.
    elements: Option<LeafElements>,
    irregular: Vec<usize>,
}

/// Elements of the rows of a [`LeafColumn`].
#[derive(Debug, Default)]
struct LeafElements {
    /// Number of the element that each value is in; ascending.
    of_values: Vec<u32>,
    /// Number of elements up to the end of each row.
    ends: Vec<u32>,
}

/// Values of a [`LeafColumn`], all of one kind.
#[derive(Debug)]
pub enum EncodedLeafValues<'a> {
    /// Truth values.
    Bools(Vec<bool>),
    /// Whole numbers of any width.
    Integers(Vec<i64>),
    /// Numbers with a fraction, of any precision.
    Floats(Vec<f64>),
    /// Bytes of texts, not checked to be UTF-8.
    Texts(Vec<&'a [u8]>),
    /// Raw bytes.
    Raws(Vec<&'a [u8]>),
    /// Latitudes and longitudes, in millionths of a degree.
    Positions(Vec<[i32; 2]>),
}

impl<'a> LeafColumn<'a> {
    /// The values of all rows.
    pub fn values(&self) -> &EncodedLeafValues<'a> {
        &self.values
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    /// Indices of a row's values.
    #[inline]
    pub fn of_row(&self, row: usize) -> Range<usize> {
        range(&self.ends, row)
    }

    /// Numbers of the elements of a row's outermost collection.
    #[inline]
    pub fn elements(&self, row: usize) -> Range<usize> {
        range(self.elements.as_ref().map_or(&self.ends, |elements| &elements.ends), row)
    }

    /// Number of the element that the value at `index` is in.
    #[inline]
    pub fn element(&self, index: usize) -> usize {
        self.elements.as_ref().map_or(index, |elements| elements.of_values[index] as usize)
    }

    /// For each element of a row's outermost collection, the index of its first value, if it has one.
    #[inline]
    pub fn by_element(&self, row: usize) -> impl Iterator<Item = Option<usize>> {
        let values = self.of_row(row);
        let mut next = values.start;
        self.elements(row).map(move |element| {
            while next < values.end && self.element(next) < element {
                next += 1;
            }
            (next < values.end && self.element(next) == element).then_some(next)
        })
    }

    /// Index of the first value in the element at `index` of a row's outermost collection, if there is one.
    pub fn of_element(&self, row: usize, index: usize) -> Option<usize> {
        let (elements, values) = (self.elements(row), self.of_row(row));
        let element = elements.start.checked_add(index).filter(|element| elements.contains(element))?;
        let Some(known) = &self.elements else { return Some(element) };
        let of_values = &known.of_values[values.clone()];
        let first = values.start + of_values.partition_point(|other| (*other as usize) < element);
        (first < values.end && self.element(first) == element).then_some(first)
    }

    /// True if every element has exactly one value: then [`LeafColumn::element`] is the value's index.
    pub fn is_flat(&self) -> bool {
        self.elements.is_none()
    }

    /// Weight of the value at `index`: that in its weighted set, else 1.
    #[inline]
    pub fn weight(&self, index: usize) -> i32 {
        self.weights.get(index).copied().unwrap_or(1)
    }

    /// Rows whose value is not of the type, or has parts that the type does not show; ascending. They have no
    /// values and no elements here: a general reader is needed for them.
    pub fn irregular(&self) -> &[usize] {
        &self.irregular
    }
}

/// Part of a row in a list of all rows' parts.
#[inline]
fn range(ends: &[u32], row: usize) -> Range<usize> {
    let start = row.checked_sub(1).map_or(0, |before| ends[before] as usize);
    start..ends[row] as usize
}

impl EncodedLeafReader {
    /// A reader of values of this type. `None` if the path ends at a struct, or the type contains tensors:
    /// these need other ways.
    pub fn new(data_type: &DataType, path: &[impl AsRef<str>]) -> Option<Self> {
        let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
        let root = LeafShape::new(data_type, Some(&path))?;
        let tag = root.wanted_tag();
        Some(EncodedLeafReader { root, tag })
    }

    /// Reads the values at the end of the path in some rows, in order. A row is the bytes that begin with its
    /// encoded value, or `None` if it has no value.
    ///
    /// Cost: one pass over the bytes, and 8 to 16 bytes of memory for each value.
    pub fn column<'a>(&self, rows: impl Iterator<Item = Option<&'a [u8]>>) -> LeafColumn<'a> {
        match self.tag {
            Some(wire::BOOL) => self.pass::<BoolLeaf>(rows),
            Some(wire::BYTE) => self.pass::<ByteLeaf>(rows),
            Some(wire::INT) => self.pass::<IntLeaf>(rows),
            Some(wire::LONG) => self.pass::<LongLeaf>(rows),
            Some(wire::FLOAT) => self.pass::<FloatLeaf>(rows),
            Some(wire::DOUBLE) => self.pass::<DoubleLeaf>(rows),
            Some(wire::RAW) => self.pass::<RawLeaf>(rows),
            Some(wire::POSITION) => self.pass::<PositionLeaf>(rows),
            _ => self.pass::<TextLeaf>(rows),
        }
    }

    fn pass<'a, K: EncodedLeafKind<'a>>(
        &self,
        rows: impl Iterator<Item = Option<&'a [u8]>>,
    ) -> LeafColumn<'a> {
        let mut pass = LeafPass::<K>::new(&self.root, rows.size_hint().0);
        let mut irregular = Vec::new();
        for (index, row) in rows.enumerate() {
            if !pass.row(&self.root, row) {
                irregular.push(index);
            }
        }
        pass.finish(irregular)
    }
}

impl LeafShape {
    /// The form of values of a type. `path` leads from them to the wanted ones; `None` if none are wanted.
    fn new(data_type: &DataType, path: Option<&[&str]>) -> Option<Self> {
        let single = |tag| LeafShape::Single { tag, is_wanted: path.is_some_and(<[&str]>::is_empty) };
        Some(match data_type {
            DataType::Bool => single(wire::BOOL),
            DataType::Byte => single(wire::BYTE),
            DataType::Int => single(wire::INT),
            DataType::Long => single(wire::LONG),
            DataType::Float16 | DataType::Float => single(wire::FLOAT),
            DataType::Double => single(wire::DOUBLE),
            DataType::String | DataType::Uri | DataType::Predicate | DataType::Reference(_) => {
                single(wire::STRING)
            }
            DataType::Raw => single(wire::RAW),
            DataType::Position => single(wire::POSITION),
            DataType::Array(of) => LeafShape::Array(Box::new(LeafShape::new(of, path)?)),
            DataType::WeightedSet { element, .. } => {
                LeafShape::WeightedSet(Box::new(LeafShape::new(element, path)?))
            }
            DataType::Map(key, value) => {
                let (of_key, of_value) = match path.map(<[&str]>::split_first) {
                    None => (None, None),
                    Some(None) => (path, None),
                    Some(Some((&"key", rest))) => (Some(rest), None),
                    Some(Some((&"value", rest))) => (None, Some(rest)),
                    Some(Some(_)) => (None, None),
                };
                let key = LeafShape::new(key, of_key)?;
                LeafShape::Map(Box::new(key), Box::new(LeafShape::new(value, of_value)?))
            }
            DataType::Struct(of) => {
                let named = match path.map(<[&str]>::split_first) {
                    None => None,
                    // The struct as a whole is wanted.
                    Some(None) => return None,
                    Some(named) => named,
                };
                let member = |name: &str| named.filter(|(wanted, _)| **wanted == name).map(|(_, rest)| rest);
                let members = of.fields.iter().map(|field| {
                    let shape = LeafShape::new(&field.data_type, member(&field.name))?;
                    Some(MemberShape { head: MemberHead::new(&field.name), shape })
                });
                LeafShape::Struct(members.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    /// Tag of the values at the end of the path. All of them are of one type.
    fn wanted_tag(&self) -> Option<u8> {
        match self {
            LeafShape::Single { tag, is_wanted } => is_wanted.then_some(*tag),
            LeafShape::Array(of) | LeafShape::WeightedSet(of) => of.wanted_tag(),
            LeafShape::Map(key, value) => key.wanted_tag().or_else(|| value.wanted_tag()),
            LeafShape::Struct(members) => members.iter().find_map(|member| member.shape.wanted_tag()),
        }
    }

    fn is_wanted(&self) -> bool {
        matches!(self, LeafShape::Single { is_wanted: true, .. })
    }
}
