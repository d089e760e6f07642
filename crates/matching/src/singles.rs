//! Single values at the end of a path, in many documents of a chunk.

use millrace_column::{
    BytesColumn, Column, ExecutionPaths, ValueLayout, encoded_values, layout, text_values,
};
use millrace_document::{DataType, EncodedLeafReader, EncodedLeafValues, LeafColumn, ValueRef};

use crate::leaf::stored_value;
use crate::nested::single_values_at;

/// Reader of the single values at the end of a path in the documents of a chunk, in one pass over their
/// bytes.
///
/// A path is that of [`values_at`](crate::values_at).
#[derive(Debug)]
pub struct SingleValueReader {
    data_type: DataType,
    path: Vec<String>,
    /// `None` if values of the type are not encoded, or have tensors inside.
    leaves: Option<EncodedLeafReader>,
    /// True if each value is a text as a whole.
    is_text: bool,
}

/// A single value of a document.
#[derive(Debug, Clone, Copy)]
pub struct SingleValue<'v> {
    /// Index of the document among those that are read.
    pub row: usize,
    /// Index of the value in the document.
    pub index: usize,
    /// `None` for a value of another kind, as a tensor.
    pub value: Option<SingleValueRef<'v>>,
    /// Weight in a weighted set, otherwise 1.
    pub weight: i32,
}

/// A single value of a document for which something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundSingleValue<T> {
    /// Index of the document among those that are read.
    pub row: usize,
    /// Index of the value in the document.
    pub index: usize,
    /// Result of the lookup of the value.
    pub found: T,
    /// Weight in a weighted set, otherwise 1.
    pub weight: i32,
}

/// A value without parts, borrowed from its column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SingleValueRef<'v> {
    /// A truth value.
    Bool(bool),
    /// A whole number of any width.
    Integer(i64),
    /// A number with a fraction, of any precision.
    Float(f64),
    /// Bytes of a text, not checked to be UTF-8.
    Text(&'v [u8]),
    /// Raw bytes.
    Raw(&'v [u8]),
    /// A position, in millionths of a degree.
    Position {
        /// From the equator to the north.
        latitude: i32,
        /// From Greenwich to the east.
        longitude: i32,
    },
}

impl<'v> SingleValueRef<'v> {
    /// A value without parts; `None` for any other.
    pub fn new(value: ValueRef<'v>) -> Option<Self> {
        Some(match value {
            ValueRef::Bool(value) => SingleValueRef::Bool(value),
            ValueRef::Byte(number) => SingleValueRef::Integer(number.into()),
            ValueRef::Int(number) => SingleValueRef::Integer(number.into()),
            ValueRef::Long(number) => SingleValueRef::Integer(number),
            ValueRef::Float(number) => SingleValueRef::Float(number.into()),
            ValueRef::Double(number) => SingleValueRef::Float(number),
            ValueRef::String(text) => SingleValueRef::Text(text.as_bytes()),
            ValueRef::Raw(bytes) => SingleValueRef::Raw(bytes),
            ValueRef::Position { latitude, longitude } => SingleValueRef::Position { latitude, longitude },
            _ => return None,
        })
    }
}

impl SingleValueReader {
    /// A reader of values of this type.
    pub fn new(data_type: &DataType, path: &[impl AsRef<str>]) -> Self {
        let layout = layout(data_type);
        SingleValueReader {
            data_type: data_type.clone(),
            path: path.iter().map(|name| name.as_ref().to_owned()).collect(),
            leaves: match layout {
                ValueLayout::Encoded => EncodedLeafReader::new(data_type, path),
                _ => None,
            },
            is_text: *data_type == DataType::String && path.is_empty(),
        }
    }

    /// The path.
    pub fn path(&self) -> &[String] {
        &self.path
    }

    /// The values of these documents of the column of values, for [`SingleValueReader::for_each_of`]. `None`
    /// if the column does not have them in their wire form, and on the plain paths.
    pub fn read<'c>(
        &self,
        column: &'c Column,
        documents: &[u16],
        paths: ExecutionPaths,
    ) -> Option<LeafColumn<'c>> {
        let (reader, bytes) = self.leaves.as_ref().filter(|_| paths.is_fast()).zip(encoded_values(column))?;
        Some(reader.column(bytes.get_each(documents)))
    }

    /// Calls `each` with the values of these documents of the column of values, document by document.
    pub fn for_each(
        &self,
        column: &Column,
        documents: &[u16],
        paths: ExecutionPaths,
        each: impl FnMut(SingleValue<'_>),
    ) {
        let read = self.read(column, documents, paths);
        self.for_each_of(read.as_ref(), column, documents, paths, each);
    }

    /// Calls `each` as [`SingleValueReader::for_each`] does, with what [`SingleValueReader::read`] gave for
    /// the same documents: several passes need one reading.
    pub fn for_each_of(
        &self,
        read: Option<&LeafColumn<'_>>,
        column: &Column,
        documents: &[u16],
        paths: ExecutionPaths,
        mut each: impl FnMut(SingleValue<'_>),
    ) {
        if let Some(texts) = text_values(column).filter(|_| self.is_text && paths.is_fast()) {
            return each_text(texts, documents, each);
        }
        let Some(leaves) = read else {
            (0..documents.len()).for_each(|row| self.one(column, documents, row, paths, &mut each));
            return;
        };
        let general =
            |row, each: &mut dyn FnMut(SingleValue<'_>)| self.one(column, documents, row, paths, each);
        match leaves.values() {
            EncodedLeafValues::Bools(values) => {
                each_leaf(leaves, &general, each, |at| SingleValueRef::Bool(values[at]));
            }
            EncodedLeafValues::Integers(values) => {
                each_leaf(leaves, &general, each, |at| SingleValueRef::Integer(values[at]));
            }
            EncodedLeafValues::Floats(values) => {
                each_leaf(leaves, &general, each, |at| SingleValueRef::Float(values[at]));
            }
            EncodedLeafValues::Texts(values) => {
                each_leaf(leaves, &general, each, |at| SingleValueRef::Text(values[at]));
            }
            EncodedLeafValues::Raws(values) => {
                each_leaf(leaves, &general, each, |at| SingleValueRef::Raw(values[at]));
            }
            EncodedLeafValues::Positions(values) => {
                each_leaf(leaves, &general, each, |at| {
                    let [latitude, longitude] = values[at];
                    SingleValueRef::Position { latitude, longitude }
                });
            }
        }
    }

    /// Calls `each` with the values for which `find` finds something, those of a document in their order.
    /// `read` is what [`SingleValueReader::read`] gave for the same documents.
    ///
    /// All values are looked at before the first call, in a loop for their kind: that costs less than a look
    /// at each in its document.
    pub fn for_each_found<T>(
        &self,
        read: Option<&LeafColumn<'_>>,
        column: &Column,
        documents: &[u16],
        paths: ExecutionPaths,
        find: impl Fn(SingleValueRef<'_>) -> Option<T>,
        mut each: impl FnMut(FoundSingleValue<T>),
    ) {
        let mut general = |SingleValue { row, index, value, weight }: SingleValue<'_>| {
            if let Some(found) = value.and_then(&find) {
                each(FoundSingleValue { row, index, found, weight });
            }
        };
        let Some(leaves) = read else {
            return self.for_each_of(None, column, documents, paths, general);
        };
        leaves.irregular().iter().for_each(|row| self.one(column, documents, *row, paths, &mut general));
        let mut row = 0;
        for (at, found) in found_among(leaves, &find) {
            while leaves.of_row(row).end <= at {
                row += 1;
            }
            let index = at - leaves.of_row(row).start;
            each(FoundSingleValue { row, index, found, weight: leaves.weight(at) });
        }
    }

    /// Calls `each` with the value at an index of each document that has as many. `read` is as in
    /// [`SingleValueReader::for_each_found`].
    pub fn for_each_at(
        &self,
        read: Option<&LeafColumn<'_>>,
        column: &Column,
        documents: &[u16],
        paths: ExecutionPaths,
        index: usize,
        mut each: impl FnMut(SingleValue<'_>),
    ) {
        let mut general = |value: SingleValue<'_>| {
            if value.index == index {
                each(value);
            }
        };
        let Some(leaves) = read else {
            return self.for_each_of(None, column, documents, paths, general);
        };
        leaves.irregular().iter().for_each(|row| self.one(column, documents, *row, paths, &mut general));
        for row in 0..leaves.rows() {
            if let Some(at) = leaves.of_row(row).nth(index) {
                each(SingleValue {
                    row,
                    index,
                    value: Some(value_at(leaves, at)),
                    weight: leaves.weight(at),
                });
            }
        }
    }

    /// Calls `each` with documents and the number of their values, maybe in several parts. `read` is as in
    /// [`SingleValueReader::for_each_found`].
    pub fn for_each_count(
        &self,
        read: Option<&LeafColumn<'_>>,
        column: &Column,
        documents: &[u16],
        paths: ExecutionPaths,
        mut each: impl FnMut(usize, usize),
    ) {
        let mut general = |value: SingleValue<'_>| each(value.row, 1);
        let Some(leaves) = read else {
            return self.for_each_of(None, column, documents, paths, general);
        };
        leaves.irregular().iter().for_each(|row| self.one(column, documents, *row, paths, &mut general));
        (0..leaves.rows()).for_each(|row| each(row, leaves.of_row(row).len()));
    }

    /// Calls `each` with the values of one document.
    fn one(
        &self,
        column: &Column,
        documents: &[u16],
        row: usize,
        paths: ExecutionPaths,
        each: &mut dyn FnMut(SingleValue<'_>),
    ) {
        let stored = stored_value(column, &self.data_type, usize::from(documents[row]), paths);
        let mut index = 0;
        if let Some(stored) = stored {
            single_values_at(&stored, &self.path, &mut |value, weight| {
                each(SingleValue { row, index, value: value.and_then(SingleValueRef::new), weight });
                index += 1;
            });
        }
    }
}

/// The indices of the values for which `find` finds something, ascending.
fn found_among<T>(
    leaves: &LeafColumn<'_>,
    find: &impl Fn(SingleValueRef<'_>) -> Option<T>,
) -> Vec<(usize, T)> {
    match leaves.values() {
        EncodedLeafValues::Bools(values) => found_in(values, |value| find(SingleValueRef::Bool(*value))),
        EncodedLeafValues::Integers(values) => {
            found_in(values, |number| find(SingleValueRef::Integer(*number)))
        }
        EncodedLeafValues::Floats(values) => found_in(values, |number| find(SingleValueRef::Float(*number))),
        EncodedLeafValues::Texts(values) => found_in(values, |text| find(SingleValueRef::Text(text))),
        EncodedLeafValues::Raws(values) => found_in(values, |bytes| find(SingleValueRef::Raw(bytes))),
        EncodedLeafValues::Positions(values) => found_in(values, |[latitude, longitude]| {
            find(SingleValueRef::Position { latitude: *latitude, longitude: *longitude })
        }),
    }
}

fn found_in<V, T>(values: &[V], find: impl Fn(&V) -> Option<T>) -> Vec<(usize, T)> {
    values.iter().enumerate().filter_map(|(at, value)| Some((at, find(value)?))).collect()
}

/// The value with an index among those of all rows.
fn value_at<'v>(leaves: &LeafColumn<'v>, at: usize) -> SingleValueRef<'v> {
    match leaves.values() {
        EncodedLeafValues::Bools(values) => SingleValueRef::Bool(values[at]),
        EncodedLeafValues::Integers(values) => SingleValueRef::Integer(values[at]),
        EncodedLeafValues::Floats(values) => SingleValueRef::Float(values[at]),
        EncodedLeafValues::Texts(values) => SingleValueRef::Text(values[at]),
        EncodedLeafValues::Raws(values) => SingleValueRef::Raw(values[at]),
        EncodedLeafValues::Positions(values) => {
            let [latitude, longitude] = values[at];
            SingleValueRef::Position { latitude, longitude }
        }
    }
}

/// Calls `each` with the texts of these documents.
fn each_text(texts: &BytesColumn, documents: &[u16], mut each: impl FnMut(SingleValue<'_>)) {
    for (row, document) in documents.iter().enumerate() {
        if let Some(text) = texts.get(usize::from(*document)) {
            each(SingleValue { row, index: 0, value: Some(SingleValueRef::Text(text)), weight: 1 });
        }
    }
}

/// Reader of the values of one row, of any form.
type GeneralReader<'r> = &'r dyn Fn(usize, &mut dyn FnMut(SingleValue<'_>));

/// Calls `each` with the values of all rows, and `general` for rows that are irregular.
fn each_leaf<'v>(
    leaves: &LeafColumn<'v>,
    general: GeneralReader<'_>,
    mut each: impl FnMut(SingleValue<'_>),
    value: impl Fn(usize) -> SingleValueRef<'v>,
) {
    let mut irregular = leaves.irregular().iter().peekable();
    for row in 0..leaves.rows() {
        if irregular.next_if(|other| **other == row).is_some() {
            general(row, &mut each);
            continue;
        }
        for (index, at) in leaves.of_row(row).enumerate() {
            each(SingleValue { row, index, value: Some(value(at)), weight: leaves.weight(at) });
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_column::ValueBuilder;
    use millrace_document::{DocumentField, DocumentValue, StructType};

    use super::*;

    fn text(text: &str) -> DocumentValue {
        DocumentValue::String(text.to_owned())
    }

    fn person(name: &str, age: Option<i32>) -> DocumentValue {
        let age = age.map(|age| ("age".into(), DocumentValue::Int(age)));
        DocumentValue::Struct([("name".into(), text(name))].into_iter().chain(age).collect())
    }

    /// Reads rows in one pass, and one by one, as `row.index:value*weight`.
    fn read(data_type: &DataType, path: &[&str], rows: &[Option<DocumentValue>]) -> String {
        let mut builder = ValueBuilder::new(data_type);
        rows.iter().for_each(|row| builder.push(row.as_ref()));
        let column = builder.finish();
        // Not all documents match.
        let documents: Vec<u16> = (0..rows.len() as u16).filter(|document| document % 4 != 3).collect();
        let reader = SingleValueReader::new(data_type, path);
        let read = |paths| {
            let mut read = Vec::new();
            reader.for_each(&column, &documents, paths, |SingleValue { row, index, value, weight }| {
                let value = match value {
                    None => "none".to_owned(),
                    Some(SingleValueRef::Integer(number)) => number.to_string(),
                    Some(SingleValueRef::Float(number)) => number.to_string(),
                    Some(SingleValueRef::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                    Some(value) => format!("{value:?}"),
                };
                let weight = if weight == 1 { String::new() } else { format!("*{weight}") };
                read.push(format!("{row}.{index}:{value}{weight}"));
            });
            read.join(" ")
        };
        let fast = read(ExecutionPaths::Fast);
        assert_eq!(fast, read(ExecutionPaths::Plain), "{data_type}");
        let once = reader.read(&column, &documents, ExecutionPaths::Fast);
        let mut passes = [0; 3];
        for (pass, count) in passes.iter_mut().enumerate() {
            let each = |_: SingleValue<'_>| *count += 1;
            match pass {
                0 => reader.for_each(&column, &documents, ExecutionPaths::Fast, each),
                _ => {
                    reader.for_each_of(once.as_ref(), &column, &documents, ExecutionPaths::Fast, each);
                }
            }
        }
        assert_eq!(passes, [passes[0]; 3], "{data_type}");
        for paths in [ExecutionPaths::Fast, ExecutionPaths::Plain] {
            assert_parts_are_those_of_a_pass(&reader, &column, &documents, paths);
        }
        fast
    }

    fn assert_parts_are_those_of_a_pass(
        reader: &SingleValueReader,
        column: &Column,
        documents: &[u16],
        paths: ExecutionPaths,
    ) {
        let as_found = |it: SingleValue<'_>| FoundSingleValue {
            row: it.row,
            index: it.index,
            found: format!("{:?}", it.value),
            weight: it.weight,
        };
        let mut all = Vec::new();
        reader.for_each(column, documents, paths, |it| all.push(as_found(it)));
        let read = reader.read(column, documents, paths);
        let read = read.as_ref();
        let name = |value: SingleValueRef<'_>| {
            let name = format!("{:?}", Some(value));
            // Some are found, and others not.
            (name.len() % 3 > 0).then_some(name)
        };
        let mut found = Vec::new();
        reader.for_each_found(read, column, documents, paths, name, |it| found.push(it));
        found.sort();
        let expected: Vec<_> =
            all.iter().filter(|it| it.found != "None" && it.found.len() % 3 > 0).cloned().collect();
        assert_eq!(found, expected, "{paths:?}");
        let mut counts = vec![0; documents.len()];
        reader.for_each_count(read, column, documents, paths, |row, count| counts[row] += count);
        for (row, count) in counts.into_iter().enumerate() {
            assert_eq!(count, all.iter().filter(|it| it.row == row).count(), "{paths:?} {row}");
        }
        for index in 0..3 {
            let mut at = Vec::new();
            reader.for_each_at(read, column, documents, paths, index, |it| at.push(as_found(it)));
            at.sort();
            let expected: Vec<_> = all.iter().filter(|it| it.index == index).cloned().collect();
            assert_eq!(at, expected, "{paths:?} {index}");
        }
    }

    #[test]
    fn values_are_read_document_by_document() {
        let array = |of| DataType::Array(Box::new(of));
        let ints =
            |numbers: &[i32]| DocumentValue::Array(numbers.iter().map(|n| DocumentValue::Int(*n)).collect());
        let rows = [Some(ints(&[3, -1])), None, Some(ints(&[])), Some(ints(&[9])), Some(ints(&[7]))];
        assert_eq!(read(&array(DataType::Int), &[], &rows), "0.0:3 0.1:-1 3.0:7");
        // A value of another type, as of an earlier schema, is absent.
        let other = DocumentValue::Array(vec![text("x")]);
        assert_eq!(read(&array(DataType::Int), &[], &[Some(other), Some(ints(&[2]))]), "1.0:2");
        let set = DataType::WeightedSet {
            element: Box::new(DataType::String),
            create_if_nonexistent: false,
            remove_if_zero: false,
        };
        let weighted = DocumentValue::WeightedSet(vec![(text("a"), 5), (text("é"), -2)]);
        assert_eq!(read(&set, &[], &[None, Some(weighted)]), "1.0:a*5 1.1:é*-2");
        let member = |name: &str, data_type| DocumentField { name: name.into(), data_type };
        let fields = vec![member("name", DataType::String), member("age", DataType::Int)];
        let people =
            array(DataType::Struct(std::sync::Arc::new(StructType { name: "p".to_owned(), fields })));
        let rows = [
            Some(DocumentValue::Array(vec![person("ann", Some(4)), person("bob", None)])),
            Some(DocumentValue::Array(vec![person("cid", None)])),
            Some(DocumentValue::Array(vec![person("dee", Some(9))])),
        ];
        assert_eq!(read(&people, &["name"], &rows), "0.0:ann 0.1:bob 1.0:cid 2.0:dee");
        assert_eq!(read(&people, &["age"], &rows), "0.0:4 2.0:9");
        let map = DataType::Map(Box::new(DataType::String), Box::new(DataType::Double));
        let entries = DocumentValue::Map(vec![(text("k"), DocumentValue::Double(0.5))]);
        assert_eq!(read(&map, &["value"], &[Some(entries.clone())]), "0.0:0.5");
        assert_eq!(read(&map, &[], &[Some(entries)]), "0.0:k");
        assert_eq!(read(&DataType::String, &[], &[Some(text("one")), None, Some(text(""))]), "0.0:one 2.0:");
        let spot = DocumentValue::Position { latitude: 1, longitude: -2 };
        let read_spot = read(&DataType::Position, &[], &[Some(spot)]);
        assert_eq!(read_spot, "0.0:Position { latitude: 1, longitude: -2 }");
    }
}
