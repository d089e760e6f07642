//! Many changes of entries of one map or weighted set, in time that grows with their number alone.

use std::collections::HashMap;
use std::sync::Arc;

use super::{FieldUpdate, LINEAR_SEARCH_MAX};
use crate::wire::encode_value;
use crate::{DataType, Document, DocumentType, DocumentValue, Error, UpdatePathStep};

/// The changes, those of each field together in their order: fields do not depend on each other.
pub(super) fn by_field(updates: &[FieldUpdate]) -> Vec<&FieldUpdate> {
    let mut ordered: Vec<&FieldUpdate> = updates.iter().collect();
    if updates.len() > LINEAR_SEARCH_MAX {
        let mut firsts: HashMap<&str, usize> = HashMap::new();
        for (at, update) in updates.iter().enumerate() {
            firsts.entry(&update.path.field).or_insert(at);
        }
        ordered.sort_by_key(|update| firsts[&*update.path.field]);
    }
    ordered
}

/// Number of the first changes that are of entries of one field, and more than a few; otherwise 0.
pub(super) fn changes_of_entries(updates: &[&FieldUpdate]) -> usize {
    let Some(first) = updates.first() else { return 0 };
    let is_alike = |update: &&&FieldUpdate| {
        update.path.field == first.path.field
            && matches!(update.path.steps.first(), Some(UpdatePathStep::Key(_)))
    };
    match updates.iter().take_while(is_alike).count() {
        few if few <= LINEAR_SEARCH_MAX => 0,
        many => many,
    }
}

/// Makes changes of entries of one field, which are looked up by the bytes of their keys: the same as one
/// change after another. Returns false, and changes nothing, if the field has no entries, or a value that its
/// type hides.
///
/// # Errors
/// [`Error::Update`]: a change does not fit its entry.
pub(super) fn change_entries(
    updates: &[&FieldUpdate],
    document: &mut Document,
    document_type: &DocumentType,
) -> Result<bool, Error> {
    let field = updates.first().and_then(|update| document_type.field(&update.path.field));
    let Some(field) = field else { return Ok(false) };
    let weight = DataType::Int;
    let (of, removes_zero) = match &field.data_type {
        DataType::Map(_, of) => (&**of, false),
        DataType::WeightedSet { remove_if_zero, .. } => (&weight, *remove_if_zero),
        _ => return Ok(false),
    };
    let at = document.fields.iter().position(|(name, _)| *name == field.name);
    if at.is_some_and(|at| !field.data_type.shows(&document.fields[at].1)) {
        return Ok(false);
    }
    let mut entries: Vec<Option<(DocumentValue, DocumentValue)>> =
        match at.map(|at| document.fields.swap_remove(at).1) {
            Some(DocumentValue::Map(entries)) => entries.into_iter().map(Some).collect(),
            Some(DocumentValue::WeightedSet(elements)) => {
                let weighted = |(element, weight)| Some((element, DocumentValue::Int(weight)));
                elements.into_iter().map(weighted).collect()
            }
            // There is no other value that a map or a weighted set shows.
            Some(_) | None => Vec::new(),
        };
    let place = |(at, (key, _)): (usize, &(DocumentValue, DocumentValue))| (encode_value(key), at);
    let mut places: HashMap<Vec<u8>, usize> = entries.iter().flatten().enumerate().map(place).collect();
    for FieldUpdate { path, change } in updates {
        let Some((UpdatePathStep::Key(key), steps)) = path.steps.split_first() else {
            unreachable!("all are changes of entries")
        };
        if places.is_empty() && !change.creates() {
            continue;
        }
        let bytes = encode_value(key);
        let there = places.get(&bytes).copied();
        let mut inner = there.and_then(|at| entries[at].take()).map(|(_, inner)| inner);
        change
            .apply(&mut inner, steps, of)
            .map_err(|error| Error::Update { field: path.to_string(), reason: error.to_string() })?;
        let inner = inner.filter(|inner| !removes_zero || *inner != DocumentValue::Int(0));
        match (there, inner) {
            (Some(at), Some(inner)) => entries[at] = Some((key.clone(), inner)),
            (Some(_), None) => {
                places.remove(&bytes);
            }
            (None, Some(inner)) => {
                places.insert(bytes, entries.len());
                entries.push(Some((key.clone(), inner)));
            }
            (None, None) => {}
        }
    }
    let entries = entries.into_iter().flatten();
    let value = match &field.data_type {
        DataType::Map(..) => DocumentValue::Map(entries.collect()),
        _ => {
            let weights = entries.filter_map(|(element, weight)| match weight {
                DocumentValue::Int(weight) => Some((element, weight)),
                _ => None,
            });
            DocumentValue::WeightedSet(weights.collect())
        }
    };
    if !value.is_empty() {
        document.fields.push((Arc::clone(&field.name), value));
        if let Some(at) = at {
            let last = document.fields.len() - 1;
            document.fields.swap(at, last);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ArithmeticOperator, DocumentField, DocumentId, DocumentUpdate, MissingNumber, UpdatePath, ValueChange,
    };

    fn text(number: i32) -> DocumentValue {
        DocumentValue::String(format!("k{number}"))
    }

    /// Numbers, among them both zeros and what is not a number.
    fn double(number: i32) -> DocumentValue {
        DocumentValue::Double(match number {
            0 => 0.0,
            7 => -0.0,
            14 => f64::NAN,
            other => f64::from(other),
        })
    }

    /// Changes of 59 keys, some twice: set, computed, removed and set again.
    fn changes(name: &str, key: fn(i32) -> DocumentValue) -> Vec<FieldUpdate> {
        let change = |number: i32| match number % 4 {
            0 => ValueChange::Assign(DocumentValue::Int(number % 3)),
            1 => ValueChange::Arithmetic(ArithmeticOperator::Add, 2.0, MissingNumber::Zero),
            2 => ValueChange::Clear,
            _ => ValueChange::Arithmetic(ArithmeticOperator::Add, 1.0, MissingNumber::Skip),
        };
        let update = |number: i32| FieldUpdate {
            path: UpdatePath { field: name.into(), steps: vec![UpdatePathStep::Key(key(number * 7 % 59))] },
            change: change(number),
        };
        (0..90).map(update).collect()
    }

    #[test]
    fn many_entries_change_as_one_after_another_does() {
        let set = |remove_if_zero| DataType::WeightedSet {
            element: Box::new(DataType::String),
            create_if_nonexistent: false,
            remove_if_zero,
        };
        let map = |key: DataType| DataType::Map(Box::new(key), Box::new(DataType::Int));
        let id = DocumentId::parse("id:n:note::1").expect("an id");
        type KeyOfNumber = fn(i32) -> DocumentValue;
        let types: [(DataType, KeyOfNumber); 4] = [
            (map(DataType::String), text),
            (map(DataType::Double), double),
            (set(false), text),
            (set(true), text),
        ];
        for (data_type, key) in types {
            let field = |name: &str| DocumentField { name: name.into(), data_type: data_type.clone() };
            let other = DocumentField { name: "other".into(), data_type: DataType::Int };
            let document_type = DocumentType::new("note", vec![field("f"), field("g"), other]);
            for count in [0, 1, 40] {
                let keys = || (0..count).map(key);
                let value = match &data_type {
                    DataType::Map(..) => {
                        DocumentValue::Map(keys().map(|key| (key, DocumentValue::Int(1))).collect())
                    }
                    _ => DocumentValue::WeightedSet(keys().map(|key| (key, 1)).collect()),
                };
                let mut fields = vec![("other".into(), DocumentValue::Int(1))];
                if count > 0 {
                    fields.insert(0, ("f".into(), value.clone()));
                    fields.push(("g".into(), value));
                }
                let start = Document { id: id.clone(), fields };
                let alternating = changes("f", key).into_iter().zip(changes("g", key));
                let updates: Vec<FieldUpdate> = alternating.flat_map(|(one, other)| [one, other]).collect();
                let ordered = by_field(&updates);
                assert_eq!(changes_of_entries(&ordered), 90, "those of the other field come later");
                let update =
                    |fields: &[FieldUpdate]| DocumentUpdate { id: id.clone(), fields: fields.to_vec() };
                let together = update(&updates).apply(Some(start.clone()), &document_type);
                let each = updates.iter().try_fold(start, |document, one| {
                    update(std::slice::from_ref(one)).apply(Some(document), &document_type)
                });
                let shown = |document: Result<Document, Error>| {
                    let mut fields = document.expect("the changes fit").fields;
                    // A field that was empty for a while is the last one.
                    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
                    fields
                };
                // As text, in which what is not a number equals itself.
                let [together, each] = [together, each].map(|document| format!("{:?}", shown(document)));
                assert_eq!(together, each, "{data_type} with {count}");
            }
        }
    }
}
