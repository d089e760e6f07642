//! Values at the end of a path, in the wire form of many values of one type.

use std::sync::Arc;

use crate::{DataType, ValueRef, wire};

/// Reader of the single values at the end of a path inside values of one data type, in their wire form.
///
/// A path consists of members of structs, and of `key` and `value` of maps. Arrays and sets are traversed
/// without a name; a map without a further name is represented by its keys.
///
/// Types are compared tag by tag in the same pass that finds the values, and nothing is allocated: for loops
/// over the documents of a column.
#[derive(Debug)]
pub struct EncodedLeafReader {
    root: LeafShape,
}

/// Expected form of a value.
#[derive(Debug)]
enum LeafShape {
    Single { tag: u8, is_wanted: bool },
    Array(Box<LeafShape>),
    WeightedSet(Box<LeafShape>),
    Map(Box<LeafShape>, Box<LeafShape>),
    Struct(Vec<(Arc<str>, LeafShape)>),
}

/// A value at the end of the path.
#[derive(Debug, Clone, Copy)]
pub struct EncodedLeaf<'a> {
    tag: u8,
    content: &'a [u8],
    /// Its weight, if it is an element of a weighted set; else 1.
    pub weight: i32,
    /// Index of the element of the outermost collection that it is in; 0 if there is none.
    pub element: usize,
}

impl<'a> EncodedLeaf<'a> {
    /// Bytes of a text.
    #[inline]
    pub fn text_bytes(&self) -> Option<&'a [u8]> {
        (self.tag == wire::STRING).then_some(self.content)
    }

    /// The value: a truth value, a number, a text, raw bytes or a position. `None` for a text that is not
    /// UTF-8.
    #[inline]
    pub fn value(&self) -> Option<ValueRef<'a>> {
        let four = || self.content.first_chunk().copied();
        let eight = || self.content.first_chunk().copied();
        Some(match self.tag {
            wire::BOOL => ValueRef::Bool(self.content != [0]),
            wire::BYTE => ValueRef::Byte(*self.content.first()? as i8),
            wire::INT => ValueRef::Int(i32::from_le_bytes(four()?)),
            wire::FLOAT => ValueRef::Float(f32::from_le_bytes(four()?)),
            wire::LONG => ValueRef::Long(i64::from_le_bytes(eight()?)),
            wire::DOUBLE => ValueRef::Double(f64::from_le_bytes(eight()?)),
            wire::STRING => ValueRef::String(std::str::from_utf8(self.content).ok()?),
            wire::RAW => ValueRef::Raw(self.content),
            wire::POSITION => {
                let (latitude, longitude) = self.content.split_first_chunk()?;
                ValueRef::Position {
                    latitude: i32::from_le_bytes(*latitude),
                    longitude: i32::from_le_bytes(*longitude.first_chunk()?),
                }
            }
            _ => return None,
        })
    }
}

impl EncodedLeafReader {
    /// A reader of values of this type. `None` if the path ends at a struct, or the type contains tensors:
    /// these need other ways.
    pub fn new(data_type: &DataType, path: &[impl AsRef<str>]) -> Option<Self> {
        let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
        Some(EncodedLeafReader { root: LeafShape::new(data_type, Some(&path))? })
    }

    /// Calls `each` with the values at the end of the path, in order, for the value that `bytes` begin with.
    ///
    /// Returns false if the value is not of the type, or has parts that the type does not show; then `each`
    /// may have been called for some of its values. Texts are not checked to be UTF-8.
    #[inline]
    pub fn read<'a>(&self, bytes: &'a [u8], each: &mut impl FnMut(EncodedLeaf<'a>)) -> bool {
        let mut cursor = LeafCursor(bytes);
        self.root.read(&mut cursor, LeafPosition { weight: 1, element: None }, each).is_some()
    }
}

/// Position of a value on the way to it.
#[derive(Clone, Copy)]
struct LeafPosition {
    weight: i32,
    element: Option<usize>,
}

impl LeafPosition {
    /// Position of an element with this index.
    fn element(self, index: usize, weight: i32) -> Self {
        LeafPosition { weight, element: self.element.or(Some(index)) }
    }
}

/// Bytes that are left. What does not fit gives `None`: a general reader says why.
#[derive(Clone, Copy)]
struct LeafCursor<'a>(&'a [u8]);

impl<'a> LeafCursor<'a> {
    #[inline(always)]
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    #[inline(always)]
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A count or a length, nearly always of one byte.
    #[inline(always)]
    fn number(&mut self) -> Option<usize> {
        match self.0.split_first() {
            Some((first, rest)) if first & 0x80 == 0 => {
                self.0 = rest;
                Some(usize::from(*first))
            }
            _ => self.long_number(),
        }
    }

    #[cold]
    fn long_number(&mut self) -> Option<usize> {
        let mut number = 0u64;
        for shift in (0..).step_by(7).take(9) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(number).ok();
            }
        }
        None
    }

    /// Content of a single value after its tag.
    #[inline(always)]
    fn content(&mut self, tag: u8) -> Option<&'a [u8]> {
        let length = match tag {
            wire::BOOL | wire::BYTE => 1,
            wire::INT | wire::FLOAT => 4,
            wire::LONG | wire::DOUBLE | wire::POSITION => 8,
            _ => self.number()?,
        };
        self.take(length)
    }

    #[inline(always)]
    fn weight(&mut self) -> Option<i32> {
        let (weight, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(i32::from_le_bytes(*weight))
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
                    Some((field.name.clone(), LeafShape::new(&field.data_type, member(&field.name))?))
                });
                LeafShape::Struct(members.collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }

    fn skip(&self, cursor: &mut LeafCursor<'_>) -> Option<()> {
        self.read(cursor, LeafPosition { weight: 1, element: None }, &mut |_| {})
    }

    fn read<'a>(
        &self,
        cursor: &mut LeafCursor<'a>,
        at: LeafPosition,
        each: &mut impl FnMut(EncodedLeaf<'a>),
    ) -> Option<()> {
        match self {
            LeafShape::Single { tag, is_wanted } => {
                let content = single(cursor, *tag)?;
                if *is_wanted {
                    let element = at.element.unwrap_or(0);
                    each(EncodedLeaf { tag: *tag, content, weight: at.weight, element });
                }
            }
            LeafShape::Array(of) => {
                let count = collection(cursor, wire::ARRAY)?;
                if let (LeafShape::Single { tag, is_wanted: true }, None) = (&**of, at.element) {
                    // The most frequent form.
                    for element in 0..count {
                        let content = single(cursor, *tag)?;
                        each(EncodedLeaf { tag: *tag, content, weight: 1, element });
                    }
                    return Some(());
                }
                for index in 0..count {
                    of.read(cursor, at.element(index, 1), each)?;
                }
            }
            LeafShape::WeightedSet(of) => {
                for index in 0..collection(cursor, wire::WEIGHTED_SET)? {
                    // The weight follows its value.
                    let mut ahead = *cursor;
                    of.skip(&mut ahead)?;
                    let weight = ahead.weight()?;
                    of.read(cursor, at.element(index, weight), each)?;
                    *cursor = ahead;
                }
            }
            LeafShape::Map(key, value) => {
                for index in 0..collection(cursor, wire::MAP)? {
                    key.read(cursor, at.element(index, 1), each)?;
                    value.read(cursor, at.element(index, 1), each)?;
                }
            }
            LeafShape::Struct(members) => {
                // Members are mostly in the order of their declaration.
                let mut next = 0;
                for _ in 0..collection(cursor, wire::STRUCT)? {
                    let length = cursor.number()?;
                    let name = cursor.take(length)?;
                    let is_it = |(known, _): &(Arc<str>, LeafShape)| known.as_bytes() == name;
                    let after = members.get(next..).unwrap_or_default().iter().position(is_it);
                    let found = after.map(|after| next + after).or_else(|| members.iter().position(is_it))?;
                    next = found + 1;
                    members[found].1.read(cursor, LeafPosition { weight: 1, ..at }, each)?;
                }
            }
        }
        Some(())
    }
}

/// Content of a single value with this tag.
#[inline(always)]
fn single<'a>(cursor: &mut LeafCursor<'a>, tag: u8) -> Option<&'a [u8]> {
    (cursor.byte()? == tag).then_some(())?;
    cursor.content(tag)
}

/// Number of elements of a collection with this tag.
#[inline(always)]
fn collection(cursor: &mut LeafCursor<'_>, tag: u8) -> Option<usize> {
    (cursor.byte()? == tag).then_some(())?;
    cursor.number()
}
