use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::read::{AddressPairs, AddressedCell, BlockSeed, CellNumber, LabelSeed, check_range};
use crate::address::TensorAddress;
use crate::size::TensorSize;
use crate::{CellOperation, Error, TensorModify, TensorRemove, TensorType};

/// Reads the object of a `modify` update: `operation` (replace, add, multiply), `create`, and the cells under
/// `cells`, `addresses` or `blocks`, in any order.
#[derive(Debug, Clone, Copy)]
pub struct ModifySeed<'t>(pub &'t TensorType);

impl<'de> DeserializeSeed<'de> for ModifySeed<'_> {
    type Value = TensorModify;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TensorModify, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ModifySeed<'_> {
    type Value = TensorModify;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a tensor modification, for example {"operation": "add", "cells": {"a": 1.0}}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TensorModify, A::Error> {
        let (mut operation, mut create, mut cells, mut has_cells) = (None, false, Vec::new(), false);
        let mut size = TensorSize::default();
        while let Some(key) = map.next_key_seed(LabelSeed)? {
            match key.as_str() {
                "operation" => {
                    let name = map.next_value_seed(LabelSeed)?;
                    operation = Some(match name.as_str() {
                        "replace" => CellOperation::Replace,
                        "add" => CellOperation::Add,
                        "multiply" => CellOperation::Multiply,
                        _ => return Err(A::Error::unknown_variant(&name, &["replace", "add", "multiply"])),
                    });
                }
                "create" => create = map.next_value()?,
                "cells" | "addresses" | "blocks" => {
                    map.next_value_seed(ModifyOperands {
                        tensor_type: self.0,
                        cells: &mut cells,
                        size: &mut size,
                    })?;
                    has_cells = true;
                }
                other => {
                    let known = &["operation", "create", "cells", "addresses", "blocks"];
                    return Err(A::Error::unknown_field(other, known));
                }
            }
        }
        let operation = operation.ok_or_else(|| A::Error::missing_field("operation"))?;
        if !has_cells {
            return Err(A::Error::missing_field("cells"));
        }
        Ok(TensorModify { operation, create, cells })
    }
}

/// The operands of a modification: addressed cells or blocks in a list, or by the label of the one mapped
/// dimension, or by the index of the only dimension.
struct ModifyOperands<'t, 'c> {
    tensor_type: &'t TensorType,
    cells: &'c mut Vec<(Vec<String>, usize, f64)>,
    /// Of the operands: each has labels of its own.
    size: &'c mut TensorSize,
}

impl ModifyOperands<'_, '_> {
    fn block(&mut self, labels: &[String], block: &crate::TensorCells) -> Result<(), Error> {
        if block.len() != self.tensor_type.dense_size() {
            let expected = self.tensor_type.dense_size();
            return Err(Error::Block { expected, found: block.len() });
        }
        for (index, value) in block.iter().enumerate() {
            self.push(labels.to_vec(), index, value)?;
        }
        Ok(())
    }

    fn push(&mut self, labels: Vec<String>, index: usize, value: f64) -> Result<(), Error> {
        let names = labels.iter().map(String::as_str);
        self.size.add(self.tensor_type, names, 1, 0)?;
        self.cells.push((labels, index, value));
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for ModifyOperands<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ModifyOperands<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"tensor cells, for example [{"address": {"x": "a"}, "value": 1.0}]"#)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let tensor_type = self.tensor_type;
        while let Some(found) = seq.next_element_seed(AddressedCell { tensor_type })? {
            let address = found.address(tensor_type).map_err(A::Error::custom)?;
            if let Some(block) = found.values {
                let labels = address.into_block(tensor_type).map_err(A::Error::custom)?;
                self.block(&labels, &block).map_err(A::Error::custom)?;
            } else {
                let (labels, index) = address.into_cell(tensor_type).map_err(A::Error::custom)?;
                let value = found.value.ok_or_else(|| A::Error::missing_field("value"))?;
                check_range(value, tensor_type)?;
                self.push(labels, index, value).map_err(A::Error::custom)?;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let tensor_type = self.tensor_type;
        if tensor_type.mapped().count() == 0 && tensor_type.indexed().count() == 1 {
            while let Some(key) = map.next_key_seed(LabelSeed)? {
                let index = key.parse().ok().filter(|&index: &usize| index < tensor_type.dense_size());
                let Some(index) = index else {
                    return Err(A::Error::custom(format!("'{key}' is not an index of {tensor_type}")));
                };
                let value = map.next_value_seed(CellNumber)?;
                check_range(value, tensor_type)?;
                self.push(Vec::new(), index, value).map_err(A::Error::custom)?;
            }
            return Ok(());
        }
        if tensor_type.mapped().count() != 1 {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self));
        }
        while let Some(label) = map.next_key_seed(LabelSeed)? {
            let block = map.next_value_seed(BlockSeed { tensor_type: self.tensor_type })?;
            self.block(&[label], &block).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// Reads the object of a `remove` update: `{"addresses": [{"x": "a"}]}`, where an address may omit mapped
/// dimensions.
#[derive(Debug, Clone, Copy)]
pub struct RemoveSeed<'t>(pub &'t TensorType);

impl<'de> DeserializeSeed<'de> for RemoveSeed<'_> {
    type Value = TensorRemove;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TensorRemove, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for RemoveSeed<'_> {
    type Value = TensorRemove;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"tensor addresses, for example {"addresses": [{"x": "a"}]}"#)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TensorRemove, A::Error> {
        let (mut patterns, mut has_addresses) = (Vec::new(), false);
        while let Some(key) = map.next_key_seed(LabelSeed)? {
            if key != "addresses" {
                return Err(A::Error::unknown_field(&key, &["addresses"]));
            }
            map.next_value_seed(RemovePatterns {
                tensor_type: self.0,
                patterns: &mut patterns,
                size: TensorSize::default(),
            })?;
            has_addresses = true;
        }
        if !has_addresses {
            return Err(A::Error::missing_field("addresses"));
        }
        Ok(TensorRemove { patterns })
    }
}

/// The list of addresses of a [`RemoveSeed`].
struct RemovePatterns<'t, 'p> {
    tensor_type: &'t TensorType,
    patterns: &'p mut Vec<Vec<Option<String>>>,
    size: TensorSize,
}

impl<'de> DeserializeSeed<'de> for RemovePatterns<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RemovePatterns<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"a list of tensor addresses, for example [{"x": "a"}]"#)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        while let Some(pairs) = seq.next_element_seed(AddressPairs)? {
            let pairs = pairs.iter().map(|(name, label)| (name.as_str(), label.as_str()));
            let labels = TensorAddress::resolve(self.tensor_type, pairs).map_err(A::Error::custom)?.labels;
            if labels.iter().all(Option::is_none) {
                return Err(A::Error::custom("an address to remove must name a mapped dimension"));
            }
            let named = labels.iter().flatten().map(String::as_str);
            self.size.add(self.tensor_type, named, 1, 0).map_err(A::Error::custom)?;
            self.patterns.push(labels);
        }
        Ok(())
    }
}
