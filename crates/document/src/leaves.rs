//! Values at the end of a path, in the wire form of many values of one type.

use std::sync::Arc;

use crate::wire::{self, WireReader};
use crate::{DataType, Error, ValueRef};

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
    /// The value: a truth value, a number, a text, raw bytes or a position.
    pub value: ValueRef<'a>,
    /// Its weight, if it is an element of a weighted set; else 1.
    pub weight: i32,
    /// Index of the element of the outermost collection that it is in; 0 if there is none.
    pub element: usize,
}

impl EncodedLeafReader {
    /// A reader of values of this type. `None` if the path ends at a struct, or the type contains tensors: these
    /// need other ways.
    pub fn new(data_type: &DataType, path: &[impl AsRef<str>]) -> Option<Self> {
        let path: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
        Some(EncodedLeafReader { root: LeafShape::new(data_type, Some(&path))? })
    }

    /// Calls `each` with the values at the end of the path, in order, for the value that `bytes` begin with.
    ///
    /// Returns false if the value is not of the type, or has parts that the type does not show; then `each`
    /// may have been called for some of its values. Texts that are not at the end of the path are not checked
    /// to be UTF-8.
    pub fn read<'a>(&self, bytes: &'a [u8], each: &mut impl FnMut(EncodedLeaf<'a>)) -> bool {
        let mut reader = WireReader::new(bytes);
        self.root.read(&mut reader, LeafPosition { weight: 1, element: None }, each).is_ok()
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

const OTHER: Error = Error::Row("the value is of another type");

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

    fn skip(&self, reader: &mut WireReader<'_>) -> Result<(), Error> {
        self.read(reader, LeafPosition { weight: 1, element: None }, &mut |_| {})
    }

    fn read<'a>(
        &self,
        reader: &mut WireReader<'a>,
        at: LeafPosition,
        each: &mut impl FnMut(EncodedLeaf<'a>),
    ) -> Result<(), Error> {
        let [tag] = reader.array()?;
        match self {
            LeafShape::Single { tag: expected, is_wanted } => {
                if tag != *expected {
                    return Err(OTHER);
                }
                if *is_wanted {
                    let value = reader.single(tag)?;
                    each(EncodedLeaf { value, weight: at.weight, element: at.element.unwrap_or(0) });
                    return Ok(());
                }
                reader.skip_single(tag)
            }
            LeafShape::Array(of) if tag == wire::ARRAY => {
                let count = reader.count()?;
                (0..count).try_for_each(|index| of.read(reader, at.element(index, 1), each))
            }
            LeafShape::WeightedSet(of) if tag == wire::WEIGHTED_SET => {
                for index in 0..reader.count()? {
                    // The weight follows its value.
                    let mut ahead = *reader;
                    of.skip(&mut ahead)?;
                    let weight = i32::from_le_bytes(ahead.array()?);
                    of.read(reader, at.element(index, weight), each)?;
                    *reader = ahead;
                }
                Ok(())
            }
            LeafShape::Map(key, value) if tag == wire::MAP => {
                for index in 0..reader.count()? {
                    key.read(reader, at.element(index, 1), each)?;
                    value.read(reader, at.element(index, 1), each)?;
                }
                Ok(())
            }
            LeafShape::Struct(members) if tag == wire::STRUCT => {
                // Members are mostly in the order of their declaration.
                let mut next = 0;
                for _ in 0..reader.count()? {
                    let name = reader.sized()?;
                    let is_it = |(known, _): &(Arc<str>, LeafShape)| known.as_bytes() == name;
                    let after = members.get(next..).unwrap_or_default().iter().position(is_it);
                    let found = after.map(|after| next + after).or_else(|| members.iter().position(is_it));
                    let found = found.ok_or(OTHER)?;
                    next = found + 1;
                    members[found].1.read(reader, LeafPosition { weight: 1, ..at }, each)?;
                }
                Ok(())
            }
            _ => Err(OTHER),
        }
    }
}

impl<'a> WireReader<'a> {
    /// Reads a single value after its tag.
    fn single(&mut self, tag: u8) -> Result<ValueRef<'a>, Error> {
        Ok(match tag {
            wire::BOOL => ValueRef::Bool(self.array::<1>()? != [0]),
            wire::BYTE => ValueRef::Byte(i8::from_le_bytes(self.array()?)),
            wire::INT => ValueRef::Int(i32::from_le_bytes(self.array()?)),
            wire::LONG => ValueRef::Long(i64::from_le_bytes(self.array()?)),
            wire::FLOAT => ValueRef::Float(f32::from_le_bytes(self.array()?)),
            wire::DOUBLE => ValueRef::Double(f64::from_le_bytes(self.array()?)),
            wire::STRING => ValueRef::String(self.text()?),
            wire::RAW => ValueRef::Raw(self.sized()?),
            wire::POSITION => ValueRef::Position {
                latitude: i32::from_le_bytes(self.array()?),
                longitude: i32::from_le_bytes(self.array()?),
            },
            _ => return Err(OTHER),
        })
    }

    /// Skips a single value after its tag.
    fn skip_single(&mut self, tag: u8) -> Result<(), Error> {
        match tag {
            wire::BOOL | wire::BYTE => self.array::<1>().map(drop),
            wire::INT | wire::FLOAT => self.array::<4>().map(drop),
            wire::LONG | wire::DOUBLE | wire::POSITION => self.array::<8>().map(drop),
            wire::STRING | wire::RAW => self.sized().map(drop),
            _ => Err(OTHER),
        }
    }
}
