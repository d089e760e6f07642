use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::skip::SkippedValue;
use crate::address::TensorAddress;
use crate::{Tensor, TensorBuilder, TensorCells, TensorType};

/// Reader of a tensor of a type from any of its JSON forms:
///
/// - dense: `[1, 2]`, nested or flat, or hexadecimal digits of any type of cells; either may be the value of
///   `values`;
/// - one mapped dimension: `{"a": 1}`, with a block instead of the number if other dimensions are indexed;
///   either may be the value of `cells` or `blocks`;
/// - any: a list of `{"address": {"x": "a"}, "value": 1}`, which may be the value of `cells`;
/// - mixed: a list of `{"address": {"x": "a"}, "values": [1, 2]}`, which may be the value of `blocks`.
///
/// A `type` beside the content is skipped. Numbers that the cell type cannot represent are errors.
#[derive(Debug, Clone, Copy)]
pub struct TensorSeed<'t>(pub &'t TensorType);

impl<'de> DeserializeSeed<'de> for TensorSeed<'_> {
    type Value = Tensor;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tensor, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TensorSeed<'_> {
    type Value = Tensor;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        expect_tensor(f, self.0)
    }

    fn visit_str<E: serde::de::Error>(self, digits: &str) -> Result<Tensor, E> {
        let cells = hex_cells(digits, self.0)?;
        Tensor::new(self.0.clone(), Vec::new(), cells).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Tensor, A::Error> {
        match (NumberListSeed { tensor_type: self.0 }).visit_seq(seq)? {
            ListContent::Cells(cells) => {
                // A list without cells is the empty tensor if a dimension is mapped.
                Tensor::new(self.0.clone(), Vec::new(), cells).map_err(A::Error::custom)
            }
            ListContent::Tensor(tensor) => Ok(tensor),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tensor, A::Error> {
        let mut builder = TensorBuilder::new(self.0);
        let mut whole = None;
        while let Some(key) = map.next_key_seed(LabelSeed)? {
            if let Some(tensor) = map.next_value_seed(ObjectEntry { builder: &mut builder, key })? {
                whole = Some(tensor);
            }
        }
        Ok(whole.unwrap_or_else(|| builder.finish()))
    }
}

fn expect_tensor(f: &mut fmt::Formatter<'_>, tensor_type: &TensorType) -> fmt::Result {
    let example = match (tensor_type.mapped().count(), tensor_type.indexed().count()) {
        (0, _) => r#"[1.0, 2.0]"#,
        (1, 0) => r#"{"a": 1.0}"#,
        (1, _) => r#"{"a": [1.0, 2.0]}"#,
        (_, 0) => r#"[{"address": {"x": "a", "y": "b"}, "value": 1.0}]"#,
        _ => r#"{"blocks": [{"address": {"x": "a", "y": "b"}, "values": [1.0, 2.0]}]}"#,
    };
    write!(f, "{tensor_type}, for example {example}")
}

/// Reads the cells of one subspace from hexadecimal digits.
fn hex_cells<E: serde::de::Error>(digits: &str, tensor_type: &TensorType) -> Result<TensorCells, E> {
    TensorCells::from_hex(tensor_type.cell(), tensor_type.dense_size(), digits).ok_or_else(|| {
        let (cell, count) = (tensor_type.cell(), tensor_type.dense_size());
        let expected =
            format!("{} hexadecimal digits a {} cell, {count} cells", cell.size() * 2, cell.name());
        E::invalid_value(serde::de::Unexpected::Str(digits), &expected.as_str())
    })
}

/// Content of a list: plain numbers in order, or addressed cells.
enum ListContent {
    Cells(TensorCells),
    Tensor(Tensor),
}

/// Reader of a list of numbers, flat or nested like the indexed dimensions, or of addressed cells.
struct NumberListSeed<'t> {
    tensor_type: &'t TensorType,
}

impl<'de> Visitor<'de> for NumberListSeed<'_> {
    type Value = ListContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        expect_tensor(f, self.tensor_type)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<ListContent, A::Error> {
        let mut list = NumberList::new(self.tensor_type);
        while seq.next_element_seed(ListElement { list: &mut list, depth: 0 })?.is_some() {}
        match list.builder {
            None => Ok(ListContent::Cells(list.cells)),
            Some(_) if !list.cells.is_empty() => {
                Err(A::Error::custom("numbers and addressed cells are mixed in a list"))
            }
            Some(builder) => Ok(ListContent::Tensor(builder.finish())),
        }
    }
}

/// Content of a list so far.
struct NumberList<'t> {
    tensor_type: &'t TensorType,
    /// Number of cells of one dense subspace, cached because every number needs it.
    dense: usize,
    cells: TensorCells,
    /// Builder for addressed cells, created with the first one.
    builder: Option<TensorBuilder<'t>>,
}

impl<'t> NumberList<'t> {
    fn new(tensor_type: &'t TensorType) -> Self {
        let dense = tensor_type.dense_size();
        let cells = TensorCells::with_capacity(tensor_type.cell(), dense.min(1 << 16));
        NumberList { tensor_type, dense, cells, builder: None }
    }
}

/// One element of a list of numbers: a number, a nested list, or (outermost) an addressed cell.
struct ListElement<'l, 't> {
    list: &'l mut NumberList<'t>,
    depth: usize,
}

impl ListElement<'_, '_> {
    fn push<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        if self.list.cells.len() == self.list.dense {
            return Err(E::custom(format!(
                "more than the {} cells of {}",
                self.list.dense, self.list.tensor_type
            )));
        }
        if self.list.cells.try_push(value) { Ok(()) } else { Err(out_of_range(value, self.list.tensor_type)) }
    }
}

fn out_of_range<E: serde::de::Error>(value: f64, tensor_type: &TensorType) -> E {
    E::custom(format!("{value} is out of the range of a {} cell", tensor_type.cell().name()))
}

impl<'de> DeserializeSeed<'de> for ListElement<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ListElement<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number as a tensor cell, for example 1.5")
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.push(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.push(value as f64)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.push(value as f64)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        let value = special_number(text)
            .or_else(|| text.trim().parse().ok())
            .ok_or_else(|| E::invalid_type(serde::de::Unexpected::Str(text), &self))?;
        self.push(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let ListElement { list, depth } = self;
        let depth = depth + 1;
        let sizes: Vec<usize> = list.tensor_type.indexed().map(|(_, size)| size).collect();
        if depth >= sizes.len() {
            return Err(A::Error::custom(format!("lists are nested deeper than {}", list.tensor_type)));
        }
        let before = list.cells.len();
        while seq.next_element_seed(ListElement { list: &mut *list, depth })?.is_some() {}
        let (expected, got) = (sizes[depth..].iter().product::<usize>(), list.cells.len() - before);
        if expected == got {
            Ok(())
        } else {
            let reason =
                format!("expected {expected} cells in a nested list of {}, got {got}", list.tensor_type);
            Err(A::Error::custom(reason))
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<(), A::Error> {
        if self.depth > 0 {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self));
        }
        let tensor_type = self.list.tensor_type;
        let found = AddressedCell { tensor_type }.visit_map(map)?;
        let address = found.address(tensor_type).map_err(A::Error::custom)?;
        let builder = self.list.builder.get_or_insert_with(|| TensorBuilder::new(tensor_type));
        if let Some(block) = found.values {
            let added = address.into_block(tensor_type).and_then(|labels| builder.block(labels, &block));
            return added.map_err(A::Error::custom);
        }
        let value = found.value.ok_or_else(|| A::Error::missing_field("value"))?;
        check_range(value, tensor_type)?;
        let added =
            address.into_cell(tensor_type).and_then(|(labels, index)| builder.cell(labels, index, value));
        added.map_err(A::Error::custom)
    }
}

pub(super) fn check_range<E: serde::de::Error>(value: f64, tensor_type: &TensorType) -> Result<(), E> {
    if TensorCells::with_capacity(tensor_type.cell(), 1).try_push(value) {
        Ok(())
    } else {
        Err(out_of_range(value, tensor_type))
    }
}

/// Parses `NaN` and the infinities, which JSON numbers cannot represent.
fn special_number(text: &str) -> Option<f64> {
    // Only names without digits: the digits of a block may also spell a number that is too large.
    let name = !text.bytes().any(|byte| byte.is_ascii_digit());
    if name { text.parse().ok() } else { None }
}

/// The number that a text spells, where it stands for one cell. The text of a block with several cells is
/// hexadecimal digits.
fn cell_number(text: &str, tensor_type: &TensorType) -> Option<f64> {
    let spelled = || text.trim().parse().ok().filter(|_| tensor_type.indexed().next().is_none());
    special_number(text).or_else(spelled)
}

/// Reader of one number, which may be spelled by a text.
pub(super) struct CellNumber;

impl<'de> DeserializeSeed<'de> for CellNumber {
    type Value = f64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<f64, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for CellNumber {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of a cell; blocks have 'values'")
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<f64, E> {
        text.trim().parse().map_err(|_| E::invalid_type(serde::de::Unexpected::Str(text), &self))
    }
}

/// One member of the object form: `type`, `values`, `cells`, `blocks`, or a label.
struct ObjectEntry<'b, 't> {
    builder: &'b mut TensorBuilder<'t>,
    key: String,
}

impl ObjectEntry<'_, '_> {
    fn cell<E: serde::de::Error>(self, value: f64) -> Result<Option<Tensor>, E> {
        let tensor_type = self.builder.tensor_type();
        if tensor_type.indexed().next().is_some() {
            return Err(E::invalid_type(serde::de::Unexpected::Float(value), &self));
        }
        check_range(value, tensor_type)?;
        // A tensor without dimensions may have its number alone.
        let labels =
            if tensor_type.is_scalar() && self.key == "values" { Vec::new() } else { vec![self.key] };
        self.builder.cell(labels, 0, value).map_err(E::custom)?;
        Ok(None)
    }

    /// Reads `{"0": 1.0, "1": 2.0}`, the cells of a dense tensor with one dimension.
    fn indexed_cells<'de, A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Tensor>, A::Error> {
        let tensor_type = self.builder.tensor_type();
        let mut dimensions = tensor_type.indexed();
        let (Some(_), None) = (dimensions.next(), dimensions.next()) else {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self));
        };
        while let Some(key) = map.next_key_seed(LabelSeed)? {
            let index = key.parse().ok().filter(|&index: &usize| index < tensor_type.dense_size());
            let Some(index) = index else {
                return Err(A::Error::custom(format!("'{key}' is not an index of {tensor_type}")));
            };
            let value = map.next_value_seed(CellNumber)?;
            check_range(value, tensor_type)?;
            self.builder.cell(Vec::new(), index, value).map_err(A::Error::custom)?;
        }
        Ok(None)
    }

    fn is_dense(&self) -> bool {
        self.builder.tensor_type().mapped().next().is_none()
    }
}

impl<'de> DeserializeSeed<'de> for ObjectEntry<'_, '_> {
    type Value = Option<Tensor>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Tensor>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ObjectEntry<'_, '_> {
    type Value = Option<Tensor>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        expect_tensor(f, self.builder.tensor_type())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Option<Tensor>, E> {
        self.cell(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Option<Tensor>, E> {
        self.cell(value as f64)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Option<Tensor>, E> {
        self.cell(value as f64)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Option<Tensor>, E> {
        let tensor_type = self.builder.tensor_type();
        if self.key == "type" {
            return Ok(None);
        }
        if self.key == "values" && self.is_dense() {
            return TensorSeed(tensor_type).visit_str(text).map(Some);
        }
        match cell_number(text, tensor_type) {
            Some(value) if tensor_type.indexed().next().is_none() => self.cell(value),
            _ => {
                let cells = hex_cells(text, tensor_type)?;
                self.builder.block(vec![self.key], &cells).map_err(E::custom)?;
                Ok(None)
            }
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<Tensor>, A::Error> {
        let tensor_type = self.builder.tensor_type();
        // A dense tensor has no labels: its list is read under any name.
        if self.is_dense() {
            return TensorSeed(tensor_type).visit_seq(seq).map(Some);
        }
        if self.key == "cells" {
            return match (NumberListSeed { tensor_type }).visit_seq(seq)? {
                ListContent::Tensor(tensor) => Ok(Some(tensor)),
                // Numbers alone are the block of a label with this name.
                ListContent::Cells(cells) if !cells.is_empty() && tensor_type.indexed().next().is_some() => {
                    self.builder.block(vec![self.key], &cells).map_err(A::Error::custom)?;
                    Ok(None)
                }
                ListContent::Cells(cells) => {
                    let empty = Tensor::new(tensor_type.clone(), Vec::new(), cells);
                    empty.map(Some).map_err(A::Error::custom)
                }
            };
        }
        if self.key == "blocks" {
            while let Some(block) = seq.next_element_seed(AddressedCell { tensor_type })? {
                let labels = block.address(tensor_type).and_then(|at| at.into_block(tensor_type));
                let values = block.values.ok_or_else(|| A::Error::missing_field("values"))?;
                labels.and_then(|labels| self.builder.block(labels, &values)).map_err(A::Error::custom)?;
            }
            return Ok(None);
        }
        // A label of a sparse tensor has a number. A list is what a tensor of another type has.
        if tensor_type.indexed().next().is_none() {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self));
        }
        match (NumberListSeed { tensor_type }).visit_seq(seq)? {
            ListContent::Cells(cells) => {
                self.builder.block(vec![self.key], &cells).map_err(A::Error::custom)?
            }
            ListContent::Tensor(_) => return Err(A::Error::custom("addressed cells stand in a block")),
        }
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Tensor>, A::Error> {
        if self.key != "cells" && self.key != "blocks" {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self));
        }
        if self.is_dense() {
            return self.indexed_cells(map);
        }
        // One level down every key is a label, even "cells"; lists and digits there are blocks.
        while let Some(key) = map.next_key_seed(LabelSeed)? {
            let block = map.next_value_seed(BlockSeed { tensor_type: self.builder.tensor_type() })?;
            self.builder.block(vec![key], &block).map_err(A::Error::custom)?;
        }
        Ok(None)
    }
}

/// Cells of one subspace: a number if it has one cell, a list, or hexadecimal digits.
pub(super) struct BlockSeed<'t> {
    pub(super) tensor_type: &'t TensorType,
}

impl BlockSeed<'_> {
    fn number<E: serde::de::Error>(self, value: f64) -> Result<TensorCells, E> {
        let mut cells = TensorCells::with_capacity(self.tensor_type.cell(), 1);
        if cells.try_push(value) { Ok(cells) } else { Err(out_of_range(value, self.tensor_type)) }
    }
}

impl<'de> DeserializeSeed<'de> for BlockSeed<'_> {
    type Value = TensorCells;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TensorCells, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for BlockSeed<'_> {
    type Value = TensorCells;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} cells of a block of {}", self.tensor_type.dense_size(), self.tensor_type)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<TensorCells, E> {
        self.number(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<TensorCells, E> {
        self.number(value as f64)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<TensorCells, E> {
        self.number(value as f64)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<TensorCells, E> {
        if let Some(value) = cell_number(text, self.tensor_type) {
            return self.number(value);
        }
        hex_cells(text, self.tensor_type)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<TensorCells, A::Error> {
        match (NumberListSeed { tensor_type: self.tensor_type }).visit_seq(seq)? {
            ListContent::Cells(cells) => Ok(cells),
            ListContent::Tensor(_) => Err(A::Error::custom("addressed cells stand in a block")),
        }
    }
}

/// A cell or block with its address, as `{"address": {…}, "value": 1}` or `{"address": {…}, "values": […]}`.
pub(super) struct AddressedCell<'t> {
    pub(super) tensor_type: &'t TensorType,
}

/// Content of an [`AddressedCell`] object.
pub(super) struct AddressedCells {
    pairs: Vec<(String, String)>,
    pub(super) value: Option<f64>,
    pub(super) values: Option<TensorCells>,
}

impl AddressedCells {
    pub(super) fn address(&self, tensor_type: &TensorType) -> Result<TensorAddress, crate::Error> {
        TensorAddress::resolve(
            tensor_type,
            self.pairs.iter().map(|(name, label)| (name.as_str(), label.as_str())),
        )
    }
}

impl<'de> DeserializeSeed<'de> for AddressedCell<'_> {
    type Value = AddressedCells;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<AddressedCells, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AddressedCell<'_> {
    type Value = AddressedCells;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a tensor cell, for example {"address": {"x": "a"}, "value": 1.0}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AddressedCells, A::Error> {
        let mut found = AddressedCells { pairs: Vec::new(), value: None, values: None };
        while let Some(key) = map.next_key_seed(LabelSeed)? {
            match key.as_str() {
                "address" => found.pairs = map.next_value_seed(AddressPairs)?,
                "value" => found.value = Some(map.next_value_seed(CellNumber)?),
                "values" => {
                    found.values = Some(map.next_value_seed(BlockSeed { tensor_type: self.tensor_type })?);
                }
                _ => {
                    map.next_value::<SkippedValue>()?;
                }
            }
        }
        Ok(found)
    }
}

/// An address: dimension names with labels, which may be written as numbers.
pub(super) struct AddressPairs;

impl<'de> DeserializeSeed<'de> for AddressPairs {
    type Value = Vec<(String, String)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AddressPairs {
    type Value = Vec<(String, String)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a tensor address, for example {"x": "a", "y": "0"}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(name) = map.next_key_seed(LabelSeed)? {
            pairs.push((name, map.next_value_seed(LabelSeed)?));
        }
        Ok(pairs)
    }
}

/// A label or key: text, or a whole number.
pub(super) struct LabelSeed;

impl<'de> DeserializeSeed<'de> for LabelSeed {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for LabelSeed {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a label: text or a whole number")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }
}
