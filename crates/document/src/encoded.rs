//! Values read in place from their wire form.
//!
//! [`ValueRef`] borrows from the bytes of [`wire::encode_value`](crate::wire::encode_value): reading a value,
//! or iterating over a collection, allocates nothing. Scans over columns of arrays, maps, structs and sparse
//! tensors use it instead of [`wire::decode_value`](crate::wire::decode_value), which builds a
//! [`DocumentValue`](crate::DocumentValue).
//!
//! Bytes come from columns and rows under checksums. Iteration over malformed bytes ends early; it never
//! panics.

use std::ops::Range;

use millrace_tensor::TensorType;

use crate::Error;
use crate::wire::{self, WireReader};

/// A value that borrows from its wire form or from a column.
#[derive(Debug, Clone, Copy)]
pub enum ValueRef<'a> {
    /// `bool`
    Bool(bool),
    /// `byte`
    Byte(i8),
    /// `int`
    Int(i32),
    /// `long`
    Long(i64),
    /// `float`
    Float(f32),
    /// `double`
    Double(f64),
    /// `string`, and types that are text
    String(&'a str),
    /// `raw`
    Raw(&'a [u8]),
    /// `position`, in millionths of a degree
    Position {
        /// Degrees north, times a million.
        latitude: i32,
        /// Degrees east, times a million.
        longitude: i32,
    },
    /// A tensor with its type and labels.
    Tensor(EncodedTensor<'a>),
    /// Cells of a dense tensor, little-endian; the schema has the type.
    DenseCells(&'a [u8]),
    /// `array<…>`
    Array(EncodedArray<'a>),
    /// `weightedset<…>`
    WeightedSet(EncodedWeightedSet<'a>),
    /// `map<…>`
    Map(EncodedMap<'a>),
    /// A struct.
    Struct(EncodedStruct<'a>),
}

/// The elements of a collection, one after another.
#[derive(Debug, Clone, Copy)]
struct EncodedElements<'a> {
    count: usize,
    reader: WireReader<'a>,
}

/// An array in its wire form.
#[derive(Debug, Clone, Copy)]
pub struct EncodedArray<'a>(EncodedElements<'a>);

/// A weighted set in its wire form.
#[derive(Debug, Clone, Copy)]
pub struct EncodedWeightedSet<'a>(EncodedElements<'a>);

/// A map in its wire form.
#[derive(Debug, Clone, Copy)]
pub struct EncodedMap<'a>(EncodedElements<'a>);

/// A struct in its wire form.
#[derive(Debug, Clone, Copy)]
pub struct EncodedStruct<'a>(EncodedElements<'a>);

/// A tensor in its wire form.
#[derive(Debug, Clone, Copy)]
pub struct EncodedTensor<'a> {
    tensor_type: &'a str,
    subspaces: usize,
    /// Labels of each subspace: as many as the type has mapped dimensions.
    labels_per_subspace: usize,
    /// Labels of all subspaces, then the cells.
    content: WireReader<'a>,
}

impl<'a> ValueRef<'a> {
    /// Reads the value that `bytes` begin with. Elements of collections are read when they are iterated over.
    ///
    /// # Errors
    /// [`Error::Row`] if the bytes do not begin with a value.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        WireReader::new(bytes).value_ref(0, false)
    }

    /// Reads the value with a name out of named values ([`wire::encode_named`]); others are passed over.
    ///
    /// # Errors
    /// [`Error::Row`] if the bytes up to the value are not named values.
    pub fn named(bytes: &'a [u8], name: &str) -> Result<Option<Self>, Error> {
        let mut reader = WireReader::new(bytes);
        for _ in 0..reader.count()? {
            let is_wanted = reader.text()? == name;
            let value = reader.value_ref(0, !is_wanted)?;
            if is_wanted {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }
}

impl<'a> WireReader<'a> {
    /// Reads the next value. With `advance`, the reader is behind it afterwards; without, it may be at the
    /// elements of a collection, which saves a pass over them.
    fn value_ref(&mut self, depth: usize, advance: bool) -> Result<ValueRef<'a>, Error> {
        if depth > wire::DEPTH {
            return Err(Error::Row("values lie too deep"));
        }
        let [tag] = self.array()?;
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
            wire::TENSOR => ValueRef::Tensor(self.tensor_ref(advance)?),
            wire::ARRAY => ValueRef::Array(EncodedArray(self.elements(depth, advance, Self::skip_value)?)),
            wire::WEIGHTED_SET => {
                let skip = |reader: &mut Self, depth| {
                    reader.skip_value(depth)?;
                    reader.array::<4>().map(drop)
                };
                ValueRef::WeightedSet(EncodedWeightedSet(self.elements(depth, advance, skip)?))
            }
            wire::MAP => {
                let skip = |reader: &mut Self, depth| {
                    reader.skip_value(depth)?;
                    reader.skip_value(depth)
                };
                ValueRef::Map(EncodedMap(self.elements(depth, advance, skip)?))
            }
            wire::STRUCT => {
                let skip = |reader: &mut Self, depth| {
                    reader.sized()?;
                    reader.skip_value(depth)
                };
                ValueRef::Struct(EncodedStruct(self.elements(depth, advance, skip)?))
            }
            _ => return Err(Error::Row("unknown tag")),
        })
    }

    /// Passes over the next value. It is not checked that texts are UTF-8.
    pub(crate) fn skip_value(&mut self, depth: usize) -> Result<(), Error> {
        if depth > wire::DEPTH {
            return Err(Error::Row("values lie too deep"));
        }
        let mut after = *self;
        let [tag] = after.array()?;
        match tag {
            wire::BOOL | wire::BYTE => after.array::<1>().map(drop)?,
            wire::INT | wire::FLOAT => after.array::<4>().map(drop)?,
            wire::LONG | wire::DOUBLE | wire::POSITION => after.array::<8>().map(drop)?,
            wire::STRING | wire::RAW => after.sized().map(drop)?,
            _ => return self.value_ref(depth, true).map(drop),
        }
        *self = after;
        Ok(())
    }

    fn elements(
        &mut self,
        depth: usize,
        advance: bool,
        skip: impl Fn(&mut Self, usize) -> Result<(), Error>,
    ) -> Result<EncodedElements<'a>, Error> {
        let count = self.count()?;
        let elements = EncodedElements { count, reader: *self };
        if advance {
            (0..count).try_for_each(|_| skip(self, depth + 1))?;
        }
        Ok(elements)
    }

    fn tensor_ref(&mut self, advance: bool) -> Result<EncodedTensor<'a>, Error> {
        let tensor_type = self.text()?;
        let labels_per_subspace = tensor_type.as_bytes().windows(2).filter(|pair| **pair == *b"{}").count();
        let tensor =
            EncodedTensor { tensor_type, subspaces: self.count()?, labels_per_subspace, content: *self };
        if advance {
            tensor.skip_labels(self)?;
            self.sized()?;
        }
        Ok(tensor)
    }
}

impl<'a> EncodedElements<'a> {
    /// Reads `count` elements; ends early where the bytes are malformed.
    fn read<T>(
        self,
        mut next: impl FnMut(&mut WireReader<'a>) -> Result<T, Error>,
    ) -> impl Iterator<Item = T> {
        let mut reader = self.reader;
        (0..self.count).map_while(move |_| next(&mut reader).ok())
    }
}

impl<'a> EncodedArray<'a> {
    /// Number of elements.
    pub fn len(self) -> usize {
        self.0.count
    }

    /// True if there are no elements.
    pub fn is_empty(self) -> bool {
        self.0.count == 0
    }

    /// The elements in order.
    pub fn values(self) -> impl Iterator<Item = ValueRef<'a>> {
        self.0.read(|reader| reader.value_ref(1, true))
    }
}

impl<'a> EncodedWeightedSet<'a> {
    /// Number of elements.
    pub fn len(self) -> usize {
        self.0.count
    }

    /// True if there are no elements.
    pub fn is_empty(self) -> bool {
        self.0.count == 0
    }

    /// The elements with their weights.
    pub fn weighted(self) -> impl Iterator<Item = (ValueRef<'a>, i32)> {
        self.0.read(|reader| Ok((reader.value_ref(1, true)?, i32::from_le_bytes(reader.array()?))))
    }
}

impl<'a> EncodedMap<'a> {
    /// Number of entries.
    pub fn len(self) -> usize {
        self.0.count
    }

    /// True if there are no entries.
    pub fn is_empty(self) -> bool {
        self.0.count == 0
    }

    /// The entries as key and value.
    pub fn entries(self) -> impl Iterator<Item = (ValueRef<'a>, ValueRef<'a>)> {
        self.0.read(|reader| Ok((reader.value_ref(1, true)?, reader.value_ref(1, true)?)))
    }
}

impl<'a> EncodedStruct<'a> {
    /// Number of fields that have values.
    pub fn len(self) -> usize {
        self.0.count
    }

    /// True if no field has a value.
    pub fn is_empty(self) -> bool {
        self.0.count == 0
    }

    /// The fields that have values, as name and value.
    pub fn members(self) -> impl Iterator<Item = (&'a str, ValueRef<'a>)> {
        self.0.read(|reader| Ok((reader.text()?, reader.value_ref(1, true)?)))
    }

    /// The value of a field.
    pub fn member(self, name: &str) -> Option<ValueRef<'a>> {
        self.members().find(|(member, _)| *member == name).map(|(_, value)| value)
    }
}

impl<'a> EncodedTensor<'a> {
    /// The type as it was written, in its canonical form.
    pub fn type_text(self) -> &'a str {
        self.tensor_type
    }

    /// Number of dense subspaces; 0 for a tensor without mapped dimensions.
    pub fn subspaces(self) -> usize {
        self.subspaces
    }

    fn skip_labels(self, reader: &mut WireReader<'a>) -> Result<(), Error> {
        let labels = self.subspaces.checked_mul(self.labels_per_subspace);
        let labels = labels.filter(|labels| *labels <= reader.left());
        let labels = labels.ok_or(Error::Row("a count is larger than what follows"))?;
        (0..labels).try_for_each(|_| reader.sized().map(drop))
    }

    /// Labels of all subspaces, subspace by subspace, in the order of the type's mapped dimensions.
    pub fn labels(self) -> impl Iterator<Item = &'a str> {
        let mut reader = self.content;
        let labels = self.subspaces.saturating_mul(self.labels_per_subspace);
        (0..labels).map_while(move |_| reader.text().ok())
    }

    /// Cells of all subspaces, little-endian, in the cell type of the tensor; not aligned.
    ///
    /// # Errors
    /// [`Error::Row`] if the bytes end too early.
    pub fn cells(self) -> Result<&'a [u8], Error> {
        let mut reader = self.content;
        self.skip_labels(&mut reader)?;
        reader.sized()
    }
}

/// The wire form of tensors of one type, for reading many of them: the type is compared as bytes, and parsed
/// once.
#[derive(Debug, Clone)]
pub struct EncodedTensorType {
    /// The bytes before the number of subspaces.
    head: Vec<u8>,
    text: String,
    labels_per_subspace: usize,
    /// Bytes of the cells of a subspace.
    subspace_bytes: usize,
}

impl EncodedTensorType {
    /// The wire form of tensors of this type.
    pub fn new(tensor_type: &TensorType) -> Self {
        let text = tensor_type.to_string();
        let mut head = vec![wire::TENSOR];
        wire::write_bytes(&mut head, text.as_bytes());
        EncodedTensorType {
            head,
            text,
            labels_per_subspace: tensor_type.mapped().count(),
            subspace_bytes: tensor_type.dense_size() * tensor_type.cell().size(),
        }
    }

    /// Number of labels of each dense subspace: the mapped dimensions.
    pub fn labels_per_subspace(&self) -> usize {
        self.labels_per_subspace
    }

    /// Reads the tensor that `bytes` begin with; `None` if they do not begin with a tensor of this type.
    pub fn read<'a>(&'a self, bytes: &'a [u8]) -> Option<EncodedTensor<'a>> {
        let mut content = WireReader::new(bytes.strip_prefix(self.head.as_slice())?);
        let subspaces = content.count().ok()?;
        let labels_per_subspace = self.labels_per_subspace;
        Some(EncodedTensor { tensor_type: &self.text, subspaces, labels_per_subspace, content })
    }

    /// Positions of the labels and of the cells of the tensor that `bytes` begin with: calls `label` for each
    /// label, and returns the range of the cells. `None` if they do not begin with a tensor of this type;
    /// then some labels may have been visited.
    pub fn locate(&self, bytes: &[u8], mut label: impl FnMut(Range<usize>)) -> Option<Range<usize>> {
        let EncodedTensor { subspaces, content, .. } = self.read(bytes)?;
        let mut at = bytes.len() - content.left();
        let mut next = || {
            // Nearly all lengths are one byte. A reader has errors for what can be wrong, which cost more.
            let range = match *bytes.get(at)? {
                length @ ..0x80 => at + 1..at + 1 + usize::from(length),
                _ => {
                    let mut reader = WireReader::new(&bytes[at..]);
                    let length = reader.sized().ok()?.len();
                    let end = bytes.len() - reader.left();
                    end - length..end
                }
            };
            at = range.end;
            (at <= bytes.len()).then_some(range)
        };
        for _ in 0..subspaces.checked_mul(self.labels_per_subspace)? {
            label(next()?);
        }
        let cells = next()?;
        (cells.len() == subspaces.checked_mul(self.subspace_bytes)?).then_some(cells)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::{DocumentValue, wire};

    /// Returns the value of a reference, built by walking it.
    fn owned(value: ValueRef<'_>) -> DocumentValue {
        match value {
            ValueRef::Bool(value) => DocumentValue::Bool(value),
            ValueRef::Byte(value) => DocumentValue::Byte(value),
            ValueRef::Int(value) => DocumentValue::Int(value),
            ValueRef::Long(value) => DocumentValue::Long(value),
            ValueRef::Float(value) => DocumentValue::Float(value),
            ValueRef::Double(value) => DocumentValue::Double(value),
            ValueRef::String(text) => DocumentValue::String(text.to_owned()),
            ValueRef::Raw(bytes) => DocumentValue::Raw(bytes.to_vec()),
            ValueRef::Position { latitude, longitude } => DocumentValue::Position { latitude, longitude },
            ValueRef::Tensor(tensor) => {
                let tensor_type = millrace_tensor::TensorType::parse(tensor.type_text()).expect("a type");
                let bytes = tensor.cells().expect("cells");
                let cells = millrace_tensor::TensorCells::from_bytes(tensor_type.cell(), bytes);
                let labels = tensor.labels().map(str::to_owned).collect();
                DocumentValue::Tensor(
                    millrace_tensor::Tensor::new(tensor_type, labels, cells).expect("a tensor"),
                )
            }
            ValueRef::DenseCells(_) => panic!("only columns have cells without a type"),
            ValueRef::Array(array) => DocumentValue::Array(array.values().map(owned).collect()),
            ValueRef::WeightedSet(set) => DocumentValue::WeightedSet(
                set.weighted().map(|(value, weight)| (owned(value), weight)).collect(),
            ),
            ValueRef::Map(map) => {
                DocumentValue::Map(map.entries().map(|(key, value)| (owned(key), owned(value))).collect())
            }
            ValueRef::Struct(members) => DocumentValue::Struct(
                members.members().map(|(name, value)| (name.into(), owned(value))).collect(),
            ),
        }
    }

    fn tensor(text: &str) -> DocumentValue {
        DocumentValue::Tensor(millrace_tensor::Tensor::parse(text, None).expect("a tensor"))
    }

    fn values() -> impl Strategy<Value = DocumentValue> {
        let tensors = prop_oneof![
            Just(tensor("tensor<bfloat16>(c{},x[2]):{a:[1,2],b:[3,4]}")),
            Just(tensor("tensor<int8>(a{},b{}):{{a:x,b:y}:3}")),
            Just(tensor("tensor<float>(x[3]):[1,2,3]")),
            Just(tensor("tensor(k{}):{}")),
            Just(tensor(&format!("tensor(k{{}}):{{a:1,{}:2}}", "l".repeat(200)))),
        ];
        let leaf = prop_oneof![
            any::<bool>().prop_map(DocumentValue::Bool),
            any::<i8>().prop_map(DocumentValue::Byte),
            any::<i32>().prop_map(DocumentValue::Int),
            any::<i64>().prop_map(DocumentValue::Long),
            (-9i16..9).prop_map(|number| DocumentValue::Double(f64::from(number) / 2.0)),
            (-9i16..9).prop_map(|number| DocumentValue::Float(f32::from(number) / 2.0)),
            "[a-zä ]{0,12}".prop_map(DocumentValue::String),
            prop::collection::vec(any::<u8>(), 0..9).prop_map(DocumentValue::Raw),
            (any::<i32>(), any::<i32>())
                .prop_map(|(latitude, longitude)| DocumentValue::Position { latitude, longitude }),
            tensors,
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let array = prop::collection::vec(inner.clone(), 0..4).prop_map(DocumentValue::Array);
            let set = prop::collection::vec((inner.clone(), any::<i32>()), 0..4)
                .prop_map(DocumentValue::WeightedSet);
            let map =
                prop::collection::vec((inner.clone(), inner.clone()), 0..4).prop_map(DocumentValue::Map);
            let members = prop::collection::vec(("[a-z]{1,4}", inner), 0..4);
            let members = members.prop_map(|members| {
                DocumentValue::Struct(members.into_iter().map(|(name, value)| (name.into(), value)).collect())
            });
            prop_oneof![array, set, map, members]
        })
    }

    proptest! {
        #[test]
        fn a_value_is_found_by_its_name(values in prop::collection::vec(values(), 0..4)) {
            let names = ["a", "bc", "", "d"];
            let fields: Vec<_> = names.iter().map(|name| Arc::from(*name)).zip(values).collect();
            let bytes = wire::encode_named(&fields);
            for name in names.into_iter().chain(["b"]) {
                let found = ValueRef::named(&bytes, name).expect("they are named values").map(owned);
                let expected = fields.iter().find(|(known, _)| **known == *name).map(|(_, value)| value);
                prop_assert_eq!(found.as_ref(), expected);
            }
            if !fields.is_empty() {
                prop_assert!(ValueRef::named(&bytes[..bytes.len() - 1], "b").is_err());
            }
        }

        #[test]
        fn a_reference_is_the_value_that_was_encoded(value in values()) {
            let bytes = wire::encode_value(&value);
            prop_assert_eq!(&owned(ValueRef::parse(&bytes).expect("a value")), &value);
            if let DocumentValue::Tensor(tensor) = &value {
                let known = EncodedTensorType::new(tensor.tensor_type());
                let read = owned(ValueRef::Tensor(known.read(&bytes).expect("a tensor of its type")));
                prop_assert_eq!(&read, &value);
                let other = EncodedTensorType::new(&TensorType::parse("tensor<float>(other{})").expect("a type"));
                prop_assert!(other.read(&bytes).is_none());
                if tensor.tensor_type().mapped().next().is_some() {
                    let mut labels = Vec::new();
                    let cells = known.locate(&bytes, |at| labels.push(&bytes[at])).expect("a tensor of its type");
                    prop_assert_eq!(&bytes[cells], tensor.cells().as_bytes());
                    let expected: Vec<&[u8]> = tensor.all_labels().iter().map(|label| label.as_bytes()).collect();
                    prop_assert_eq!(labels, expected);
                }
            }
        }

        #[test]
        fn malformed_bytes_never_panic(value in values(), cut in any::<prop::sample::Index>(), flip in any::<u8>()) {
            let mut bytes = wire::encode_value(&value);
            let at = cut.index(bytes.len());
            bytes[at] ^= flip;
            walk(&bytes);
            walk(&bytes[..at]);
        }
    }

    /// Walks all of a value that may be malformed.
    fn walk(bytes: &[u8]) {
        fn visit(value: ValueRef<'_>) {
            match value {
                ValueRef::Array(array) => array.values().for_each(visit),
                ValueRef::WeightedSet(set) => set.weighted().for_each(|(value, _)| visit(value)),
                ValueRef::Map(map) => {
                    map.entries().for_each(|(key, value)| [key, value].into_iter().for_each(visit))
                }
                ValueRef::Struct(members) => members.members().for_each(|(_, value)| visit(value)),
                ValueRef::Tensor(tensor) => {
                    let _ = (tensor.labels().count(), tensor.cells());
                }
                _ => {}
            }
        }
        if let Ok(value) = ValueRef::parse(bytes) {
            visit(value);
        }
    }
}
