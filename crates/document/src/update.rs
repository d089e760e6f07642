//! Partial updates: changes to parts of a document.
//!
//! An update follows each [`UpdatePath`] to its value. Assignments, additions and arithmetic create the map
//! keys, the elements of weighted sets and the struct members along their path; arithmetic starts from 0.
//! Elements of arrays are never created, nor is anything where a path leads to every element. Other
//! operations on something that does not exist have no effect.

mod entries;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use millrace_tensor::{Tensor, TensorBuilder, TensorModify, TensorRemove};

use crate::scalar;
use crate::wire::encode_value;
use crate::{DataType, Document, DocumentId, DocumentType, DocumentValue, Error, UpdatePath, UpdatePathStep};

/// Changes to the fields of one document, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentUpdate {
    /// Id of the document.
    pub id: DocumentId,
    /// Changes in order.
    pub fields: Vec<FieldUpdate>,
}

/// A change at the end of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldUpdate {
    /// Path to the value.
    pub path: UpdatePath,
    /// Change of the value.
    pub change: ValueChange,
}

/// Effect of an update on the value at its path.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueChange {
    /// Sets the value.
    Assign(DocumentValue),
    /// Sets the value if there is one: `match` on an element of a weighted set without
    /// `create-if-nonexistent`.
    Replace(DocumentValue),
    /// Removes the value, or the entry of a map or weighted set.
    Clear,
    /// Appends elements to an array.
    AddElements(Vec<DocumentValue>),
    /// Adds elements with weights to a weighted set; the weight of an existing element is replaced. A weight
    /// of 0 removes the element if the type says so.
    AddWeights(Vec<(DocumentValue, i32)>),
    /// Removes all elements of an array, or elements of a weighted set or keys of a map, that equal one of
    /// these.
    RemoveElements(Vec<DocumentValue>),
    /// Computes with the number, or with the one that stands for a missing one.
    Arithmetic(ArithmeticOperator, f64, MissingNumber),
    /// Adds subspaces to a tensor.
    AddCells(Tensor),
    /// Changes cells of a tensor.
    ModifyCells(TensorModify),
    /// Removes subspaces of a tensor.
    RemoveCells(TensorRemove),
}

/// Effect of [`ValueChange::Arithmetic`] where no number exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingNumber {
    /// The calculation starts from 0.
    Zero,
    /// Nothing is changed: `match` on an element of a weighted set without `create-if-nonexistent`.
    Skip,
}

/// Operation of [`ValueChange::Arithmetic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArithmeticOperator {
    /// `increment`.
    Add,
    /// `decrement`.
    Subtract,
    /// `multiply`.
    Multiply,
    /// `divide`.
    Divide,
}

impl DocumentUpdate {
    /// Applies the update. `document` is the existing document; `None` starts from an empty one.
    ///
    /// # Errors
    /// [`Error::Update`] if the change does not fit the value: a result out of the type's range, a division
    /// by zero, or a path that does not fit the document type (which may have changed since the update was
    /// parsed).
    pub fn apply(&self, document: Option<Document>, document_type: &DocumentType) -> Result<Document, Error> {
        let mut document = document.unwrap_or_else(|| Document { id: self.id.clone(), fields: Vec::new() });
        let ordered = entries::by_field(&self.fields);
        let mut left = &ordered[..];
        while !left.is_empty() {
            let (together, later) = left.split_at(entries::changes_of_entries(left).max(1));
            if together.len() == 1 || !entries::change_entries(together, &mut document, document_type)? {
                together.iter().try_for_each(|update| update.apply(&mut document, document_type))?;
            }
            left = later;
        }
        Ok(document)
    }
}

impl FieldUpdate {
    fn apply(&self, document: &mut Document, document_type: &DocumentType) -> Result<(), Error> {
        let fail = |reason: String| Error::Update { field: self.path.to_string(), reason };
        let field = document_type
            .field(&self.path.field)
            .ok_or_else(|| fail(format!("document type '{}' has no such field", document_type.name())))?;
        let at = document.fields.iter().position(|(name, _)| *name == field.name);
        let mut value = at.map(|at| document.fields.swap_remove(at).1);
        self.change
            .apply(&mut value, &self.path.steps, &field.data_type)
            .map_err(|error| fail(error.to_string()))?;
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            document.fields.push((Arc::clone(&field.name), value));
            if let Some(at) = at {
                let last = document.fields.len() - 1;
                document.fields.swap(at, last);
            }
        }
        Ok(())
    }
}

impl ValueChange {
    /// True if missing parts of the path are created.
    fn creates(&self) -> bool {
        match self {
            ValueChange::Assign(_)
            | ValueChange::Arithmetic(_, _, MissingNumber::Zero)
            | ValueChange::AddCells(_) => true,
            ValueChange::AddElements(new) => !new.is_empty(),
            ValueChange::AddWeights(new) => !new.is_empty(),
            ValueChange::ModifyCells(modify) => modify.create,
            ValueChange::Replace(_)
            | ValueChange::Clear
            | ValueChange::RemoveElements(_)
            | ValueChange::Arithmetic(_, _, MissingNumber::Skip)
            | ValueChange::RemoveCells(_) => false,
        }
    }

    /// A value that the type hides, since it was written under another schema, counts as none; it stays where
    /// the change sets nothing in its place.
    fn apply(
        &self,
        value: &mut Option<DocumentValue>,
        steps: &[UpdatePathStep],
        data_type: &DataType,
    ) -> Result<(), Error> {
        let hidden = value.take_if(|value| !data_type.shows(value));
        if hidden.is_some() && matches!(self, ValueChange::Arithmetic(..)) {
            *value = hidden;
            return Ok(());
        }
        match steps.split_first() {
            None => self.apply_here(value, data_type)?,
            Some((step, rest)) => self.apply_inside(value, step, rest, data_type)?,
        }
        let clears = steps.is_empty() && matches!(self, ValueChange::Assign(_) | ValueChange::Clear);
        if value.is_none() && !clears {
            *value = hidden;
        }
        Ok(())
    }

    fn apply_inside(
        &self,
        value: &mut Option<DocumentValue>,
        step: &UpdatePathStep,
        rest: &[UpdatePathStep],
        data_type: &DataType,
    ) -> Result<(), Error> {
        match (step, data_type) {
            (UpdatePathStep::Index(index), DataType::Array(element)) => {
                let Some(DocumentValue::Array(elements)) = value else { return Ok(()) };
                let Some(slot) = elements.get_mut(*index) else { return Ok(()) };
                let mut inner = Some(taken(slot));
                self.apply(&mut inner, rest, element)?;
                match inner {
                    Some(inner) => *slot = inner,
                    None => {
                        elements.remove(*index);
                    }
                }
                Ok(())
            }
            (UpdatePathStep::Member(name), DataType::Struct(struct_type)) => {
                let member = struct_type.field(name).ok_or_else(|| {
                    Error::value(format!("struct {} has no field '{name}'", struct_type.name))
                })?;
                if value.is_none() && !self.creates() {
                    return Ok(());
                }
                let DocumentValue::Struct(members) =
                    value.get_or_insert_with(|| DocumentValue::Struct(Vec::new()))
                else {
                    return Err(mismatch(data_type));
                };
                let at = members.iter().position(|(name, _)| *name == member.name);
                self.apply_to_entry(members, &member.name, at, rest, &member.data_type)
            }
            (UpdatePathStep::Key(key), DataType::Map(_, of)) => {
                if value.is_none() && !self.creates() {
                    return Ok(());
                }
                let DocumentValue::Map(entries) = value.get_or_insert_with(|| DocumentValue::Map(Vec::new()))
                else {
                    return Err(mismatch(data_type));
                };
                let at = entries.iter().position(|(there, _)| is_same(there, key));
                self.apply_to_entry(entries, key, at, rest, of)
            }
            (UpdatePathStep::Key(key), DataType::WeightedSet { remove_if_zero, .. }) => {
                if value.is_none() && !self.creates() {
                    return Ok(());
                }
                let DocumentValue::WeightedSet(elements) =
                    value.get_or_insert_with(|| DocumentValue::WeightedSet(Vec::new()))
                else {
                    return Err(mismatch(data_type));
                };
                let at = elements.iter().position(|(element, _)| is_same(element, key));
                let mut weight = at.map(|at| DocumentValue::Int(elements[at].1));
                self.apply(&mut weight, rest, &DataType::Int)?;
                match (at, weight) {
                    (Some(at), Some(DocumentValue::Int(0))) if *remove_if_zero => {
                        elements.remove(at);
                    }
                    (Some(at), Some(DocumentValue::Int(weight))) => elements[at].1 = weight,
                    (None, Some(DocumentValue::Int(0))) if *remove_if_zero => {}
                    (None, Some(DocumentValue::Int(weight))) => elements.push((key.clone(), weight)),
                    (Some(at), None) => {
                        elements.remove(at);
                    }
                    _ => {}
                }
                Ok(())
            }
            (UpdatePathStep::Each, _) => self.apply_to_each(value, rest, data_type),
            _ => Err(Error::value(format!("the path does not lead into {data_type}"))),
        }
    }

    /// Applies the rest of the path to every element; those of which nothing is left are removed.
    fn apply_to_each(
        &self,
        value: &mut Option<DocumentValue>,
        rest: &[UpdatePathStep],
        data_type: &DataType,
    ) -> Result<(), Error> {
        let changed = |element: DocumentValue, of: &DataType| -> Result<Option<DocumentValue>, Error> {
            let mut element = Some(element);
            self.apply(&mut element, rest, of)?;
            Ok(element)
        };
        match (value, data_type) {
            (None, _) => {}
            (Some(DocumentValue::Array(elements)), DataType::Array(of)) => {
                let new = std::mem::take(elements).into_iter().map(|element| changed(element, of));
                *elements = new.filter_map(Result::transpose).collect::<Result<_, _>>()?;
            }
            (Some(DocumentValue::Map(entries)), DataType::Map(_, of)) => {
                let new = std::mem::take(entries)
                    .into_iter()
                    .map(|(key, inner)| Ok(changed(inner, of)?.map(|inner| (key, inner))));
                *entries = new.filter_map(Result::transpose).collect::<Result<_, Error>>()?;
            }
            (Some(DocumentValue::WeightedSet(elements)), DataType::WeightedSet { remove_if_zero, .. }) => {
                let new = std::mem::take(elements).into_iter().map(|(element, weight)| {
                    Ok(match changed(DocumentValue::Int(weight), &DataType::Int)? {
                        Some(DocumentValue::Int(weight)) if weight != 0 || !remove_if_zero => {
                            Some((element, weight))
                        }
                        _ => None,
                    })
                });
                *elements = new.filter_map(Result::transpose).collect::<Result<_, Error>>()?;
            }
            (Some(_), _) => return Err(mismatch(data_type)),
        }
        Ok(())
    }

    /// Applies the rest of the path to the entry of a key, which is at a place or missing, and is added or
    /// removed as the change requires.
    fn apply_to_entry<K: Clone>(
        &self,
        entries: &mut Vec<(K, DocumentValue)>,
        key: &K,
        at: Option<usize>,
        rest: &[UpdatePathStep],
        data_type: &DataType,
    ) -> Result<(), Error> {
        let mut inner = at.map(|at| taken(&mut entries[at].1));
        self.apply(&mut inner, rest, data_type)?;
        match (at, inner) {
            (Some(at), Some(inner)) => entries[at].1 = inner,
            (Some(at), None) => {
                entries.remove(at);
            }
            (None, Some(inner)) => entries.push((key.clone(), inner)),
            (None, None) => {}
        }
        Ok(())
    }

    fn apply_here(&self, value: &mut Option<DocumentValue>, data_type: &DataType) -> Result<(), Error> {
        match self {
            ValueChange::Assign(new) => *value = Some(new.clone()),
            ValueChange::Replace(new) => {
                if let Some(there) = value {
                    *there = new.clone();
                }
            }
            ValueChange::Clear => *value = None,
            ValueChange::AddElements(new) => {
                match value.get_or_insert_with(|| DocumentValue::Array(Vec::new())) {
                    DocumentValue::Array(elements) => elements.extend_from_slice(new),
                    _ => return Err(mismatch(data_type)),
                }
            }
            ValueChange::AddWeights(new) => {
                let removes_zero = matches!(data_type, DataType::WeightedSet { remove_if_zero: true, .. });
                match value.get_or_insert_with(|| DocumentValue::WeightedSet(Vec::new())) {
                    DocumentValue::WeightedSet(elements) => add_weights(elements, new, removes_zero),
                    _ => return Err(mismatch(data_type)),
                }
            }
            ValueChange::RemoveElements(gone) => {
                if let Some(there) = value {
                    remove_elements(there, gone, data_type)?;
                }
            }
            ValueChange::Arithmetic(operator, operand, missing) => {
                if value.is_none() && *missing == MissingNumber::Zero {
                    *value = scalar::integer(0, data_type).or_else(|| scalar::float(0.0, data_type));
                }
                if let Some(number) = value {
                    *number = operator.apply(number, *operand, data_type)?;
                }
            }
            ValueChange::AddCells(cells) => {
                let new = match value {
                    None => cells.clone(),
                    Some(DocumentValue::Tensor(tensor)) => {
                        tensor.with_subspaces(cells).map_err(|error| Error::value(error.to_string()))?
                    }
                    Some(_) => return Err(mismatch(data_type)),
                };
                *value = Some(DocumentValue::Tensor(new));
            }
            ValueChange::ModifyCells(modify) => {
                if let Some(tensor) = modified(value.as_ref(), modify, data_type)? {
                    *value = Some(DocumentValue::Tensor(tensor));
                }
            }
            ValueChange::RemoveCells(remove) => match value {
                None => {}
                Some(DocumentValue::Tensor(tensor)) => {
                    *tensor =
                        tensor.without_subspaces(remove).map_err(|error| Error::value(error.to_string()))?;
                }
                Some(_) => return Err(mismatch(data_type)),
            },
        }
        Ok(())
    }
}

impl ArithmeticOperator {
    fn apply(
        self,
        number: &DocumentValue,
        operand: f64,
        data_type: &DataType,
    ) -> Result<DocumentValue, Error> {
        let out_of_range = |result: String| {
            Error::value(format!(
                "the result {result} is out of the range of {data_type}; assign a value instead"
            ))
        };
        if self == ArithmeticOperator::Divide && operand == 0.0 {
            return Err(Error::value("division by zero"));
        }
        let whole = match number {
            DocumentValue::Byte(number) => Some(i64::from(*number)),
            DocumentValue::Int(number) => Some(i64::from(*number)),
            DocumentValue::Long(number) => Some(*number),
            _ => None,
        };
        if let Some(number) = whole {
            let result = if operand.fract() == 0.0 && operand.abs() < 9e18 {
                let (number, operand) = (i128::from(number), operand as i128);
                let result = match self {
                    ArithmeticOperator::Add => number + operand,
                    ArithmeticOperator::Subtract => number - operand,
                    ArithmeticOperator::Multiply => number * operand,
                    ArithmeticOperator::Divide => number / operand,
                };
                i64::try_from(result).map_err(|_| out_of_range(result.to_string()))?
            } else {
                let result = self.calculate(number as f64, operand).trunc();
                // The bounds are the nearest doubles inside the range of i64.
                if !(-9.223_372_036_854_775e18..=9.223_372_036_854_775e18).contains(&result) {
                    return Err(out_of_range(result.to_string()));
                }
                result as i64
            };
            return scalar::integer(result, data_type).ok_or_else(|| out_of_range(result.to_string()));
        }
        let number = match number {
            DocumentValue::Float(number) => f64::from(*number),
            DocumentValue::Double(number) => *number,
            _ => return Err(Error::value(format!("{data_type} is not a number; use assign"))),
        };
        let result = self.calculate(number, operand);
        scalar::float(result, data_type).ok_or_else(|| out_of_range(result.to_string()))
    }

    fn calculate(self, number: f64, operand: f64) -> f64 {
        match self {
            ArithmeticOperator::Add => number + operand,
            ArithmeticOperator::Subtract => number - operand,
            ArithmeticOperator::Multiply => number * operand,
            ArithmeticOperator::Divide => number / operand,
        }
    }
}

/// Number of elements in an update that are compared with each of the value, instead of being looked up by
/// their bytes.
const LINEAR_SEARCH_MAX: usize = 16;

/// True for elements and keys with the same bytes, by which many are looked up: zero has two signs, and what
/// is not a number equals itself.
fn is_same(one: &DocumentValue, other: &DocumentValue) -> bool {
    match (one, other) {
        (DocumentValue::Float(one), DocumentValue::Float(other)) => one.to_bits() == other.to_bits(),
        (DocumentValue::Double(one), DocumentValue::Double(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

/// Adds elements of a weighted set, or replaces their weights.
fn add_weights(elements: &mut Vec<(DocumentValue, i32)>, new: &[(DocumentValue, i32)], removes_zero: bool) {
    if new.len() > LINEAR_SEARCH_MAX {
        return add_many_weights(elements, new, removes_zero);
    }
    for (element, weight) in new {
        let removes = removes_zero && *weight == 0;
        match elements.iter().position(|(there, _)| is_same(there, element)) {
            Some(at) if removes => drop(elements.remove(at)),
            Some(at) => elements[at].1 = *weight,
            None if removes => {}
            None => elements.push((element.clone(), *weight)),
        }
    }
}

fn add_many_weights(
    elements: &mut Vec<(DocumentValue, i32)>,
    new: &[(DocumentValue, i32)],
    removes_zero: bool,
) {
    let place = |(at, (element, _)): (usize, &(DocumentValue, i32))| (encode_value(element), at);
    let mut places: HashMap<Vec<u8>, usize> = elements.iter().enumerate().map(place).collect();
    let mut kept: Vec<Option<(DocumentValue, i32)>> =
        std::mem::take(elements).into_iter().map(Some).collect();
    for (element, weight) in new {
        let key = encode_value(element);
        let removes = removes_zero && *weight == 0;
        match places.get(&key).copied() {
            Some(at) if removes => {
                kept[at] = None;
                places.remove(&key);
            }
            Some(at) => kept[at] = Some((element.clone(), *weight)),
            None if removes => {}
            None => {
                places.insert(key, kept.len());
                kept.push(Some((element.clone(), *weight)));
            }
        }
    }
    *elements = kept.into_iter().flatten().collect();
}

/// Removes elements of a collection, or keys of a map.
fn remove_elements(
    value: &mut DocumentValue,
    gone: &[DocumentValue],
    data_type: &DataType,
) -> Result<(), Error> {
    let many: Option<HashSet<Vec<u8>>> =
        (gone.len() > LINEAR_SEARCH_MAX).then(|| gone.iter().map(encode_value).collect());
    let stays = |element: &DocumentValue| match &many {
        Some(many) => !many.contains(&encode_value(element)),
        None => !gone.iter().any(|other| is_same(other, element)),
    };
    match value {
        DocumentValue::Array(elements) => elements.retain(stays),
        DocumentValue::WeightedSet(elements) => elements.retain(|(element, _)| stays(element)),
        DocumentValue::Map(entries) => entries.retain(|(key, _)| stays(key)),
        _ => return Err(mismatch(data_type)),
    }
    Ok(())
}

/// Takes a value out of its place, so that a part of it changes without a copy of the whole. It is put back,
/// or its place removed; a document whose change fails is given up.
fn taken(place: &mut DocumentValue) -> DocumentValue {
    std::mem::replace(place, DocumentValue::Bool(false))
}

/// A tensor with other cells; `None` if there is none, and none is to be created.
fn modified(
    value: Option<&DocumentValue>,
    modify: &TensorModify,
    data_type: &DataType,
) -> Result<Option<Tensor>, Error> {
    let DataType::Tensor(tensor_type) = data_type else { return Err(mismatch(data_type)) };
    let new = match value {
        None if !modify.create => return Ok(None),
        None => TensorBuilder::new(tensor_type).finish().modified(modify),
        Some(DocumentValue::Tensor(tensor)) => tensor.modified(modify),
        Some(_) => return Err(mismatch(data_type)),
    };
    new.map(Some).map_err(|error| Error::value(error.to_string()))
}

fn mismatch(data_type: &DataType) -> Error {
    Error::value(format!(
        "the stored value is not of type {data_type}: the schema has changed; assign a new value"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_elements_change_as_one_after_another_does() {
        let element = |number: i32| (DocumentValue::String(format!("e{number}")), number);
        let start: Vec<(DocumentValue, i32)> = (0..50).map(element).collect();
        // Elements that are there and others, some twice, some with the weight 0.
        let new: Vec<(DocumentValue, i32)> =
            (0..90).map(|number| (element(number * 7 % 80).0, number % 5)).collect();
        for removes_zero in [false, true] {
            let (mut together, mut each) = (start.clone(), start.clone());
            add_weights(&mut together, &new, removes_zero);
            new.iter().for_each(|one| add_weights(&mut each, std::slice::from_ref(one), removes_zero));
            assert_eq!(together, each, "zero removes: {removes_zero}");
        }
        let gone: Vec<DocumentValue> = new.into_iter().map(|(element, _)| element).take(30).collect();
        let set_type = DataType::Array(Box::new(DataType::String));
        let array = || DocumentValue::Array(start.iter().map(|(element, _)| element.clone()).collect());
        let (mut together, mut each) = (array(), array());
        remove_elements(&mut together, &gone, &set_type).expect("it is an array");
        for one in &gone {
            remove_elements(&mut each, std::slice::from_ref(one), &set_type).expect("it is an array");
        }
        assert_eq!(together, each);
    }

    #[test]
    fn few_elements_are_distinguished_like_many() {
        let few = [(0.0, 1), (-0.0, 2), (f64::NAN, 3), (f64::NAN, 4)]
            .map(|(number, weight)| (DocumentValue::Double(number), weight));
        let many: Vec<_> = few.iter().cycle().take(LINEAR_SEARCH_MAX + few.len()).cloned().collect();
        let weights = |added: &[(DocumentValue, i32)]| {
            let mut set = Vec::new();
            add_weights(&mut set, added, false);
            let weights: Vec<i32> = set.iter().map(|(_, weight)| *weight).collect();
            let mut left = DocumentValue::WeightedSet(set);
            let gone: Vec<DocumentValue> = added.iter().map(|(element, _)| element.clone()).collect();
            remove_elements(&mut left, &gone, &DataType::Double).expect("it is a set");
            (weights, left.is_empty())
        };
        assert_eq!(weights(&few), (vec![1, 2, 4], true));
        assert_eq!(weights(&many), weights(&few));
    }

    #[test]
    fn very_many_elements_are_changed() {
        let elements: Vec<(DocumentValue, i32)> =
            (0..200_000).map(|number| (DocumentValue::Long(number), 1)).collect();
        let mut set = elements.clone();
        add_weights(&mut set, &elements, true);
        assert_eq!(set, elements);
        let gone: Vec<DocumentValue> = elements.into_iter().map(|(element, _)| element).collect();
        let mut value = DocumentValue::WeightedSet(set);
        remove_elements(&mut value, &gone, &DataType::Long).expect("it is a set");
        assert!(value.is_empty());
    }
}
