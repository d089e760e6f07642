//! Values that the schema of today shows, and those that it hides: a field may have been removed, or have
//! another type than when its value was written. Hidden values stay in the document; they show again when the
//! schema declares their type again.

use millrace_tensor::{DimensionKind, Tensor, TensorDimension, TensorType};

use crate::{DataType, Document, DocumentValue, ValueRef};

/// The dimension of a dense tensor whose dimensions were not recorded when it was stored. It is of every
/// dense type with the same cells and the same number of them.
const UNRECORDED_DIMENSION: &str = "unrecorded_dimensions";

/// Returns the type of dense tensors of `cells` cells with unknown dimensions; `None` if no type has this
/// many.
pub fn unrecorded_type(cell: millrace_tensor::CellType, cells: usize) -> Option<TensorType> {
    let kind = DimensionKind::Indexed(cells);
    TensorType::new(cell, vec![TensorDimension { name: UNRECORDED_DIMENSION.to_owned(), kind }]).ok()
}

impl DataType {
    /// Returns true if a stored value has this type. The members of a struct do not matter: each is shown or
    /// hidden by itself.
    pub fn shows(&self, value: &DocumentValue) -> bool {
        match (self, value) {
            (DataType::Bool, DocumentValue::Bool(_))
            | (DataType::Byte, DocumentValue::Byte(_))
            | (DataType::Int, DocumentValue::Int(_))
            | (DataType::Long, DocumentValue::Long(_))
            | (DataType::Float16 | DataType::Float, DocumentValue::Float(_))
            | (DataType::Double, DocumentValue::Double(_))
            | (
                DataType::String | DataType::Uri | DataType::Predicate | DataType::Reference(_),
                DocumentValue::String(_),
            )
            | (DataType::Raw, DocumentValue::Raw(_))
            | (DataType::Position, DocumentValue::Position { .. })
            | (DataType::Struct(_), DocumentValue::Struct(_)) => true,
            (DataType::Tensor(of), DocumentValue::Tensor(tensor)) => is_of_type(tensor, of),
            (DataType::Array(of), DocumentValue::Array(elements)) => {
                elements.iter().all(|value| of.shows(value))
            }
            (DataType::WeightedSet { element: of, .. }, DocumentValue::WeightedSet(elements)) => {
                elements.iter().all(|(value, _)| of.shows(value))
            }
            (DataType::Map(of_key, of), DocumentValue::Map(entries)) => {
                entries.iter().all(|(key, value)| of_key.shows(key) && of.shows(value))
            }
            _ => false,
        }
    }

    /// Returns true if this type hides nothing of a value, and no member of a struct either.
    pub fn shows_all(&self, value: &DocumentValue) -> bool {
        match (self, value) {
            (DataType::Struct(of), DocumentValue::Struct(members)) => members
                .iter()
                .all(|(name, value)| of.field(name).is_some_and(|field| field.data_type.shows_all(value))),
            (DataType::Array(of), DocumentValue::Array(elements)) => {
                elements.iter().all(|value| of.shows_all(value))
            }
            (DataType::Map(of_key, of), DocumentValue::Map(entries)) => {
                entries.iter().all(|(key, value)| of_key.shows_all(key) && of.shows_all(value))
            }
            _ => self.shows(value),
        }
    }

    /// Like [`DataType::shows_all`], for a value in its wire form; allocates nothing. False for malformed
    /// values, and for tensors, whose types have to be parsed.
    pub fn shows_in_place(&self, value: ValueRef<'_>) -> bool {
        match (self, value) {
            (DataType::Bool, ValueRef::Bool(_))
            | (DataType::Byte, ValueRef::Byte(_))
            | (DataType::Int, ValueRef::Int(_))
            | (DataType::Long, ValueRef::Long(_))
            | (DataType::Float16 | DataType::Float, ValueRef::Float(_))
            | (DataType::Double, ValueRef::Double(_))
            | (
                DataType::String | DataType::Uri | DataType::Predicate | DataType::Reference(_),
                ValueRef::String(_),
            )
            | (DataType::Raw, ValueRef::Raw(_))
            | (DataType::Position, ValueRef::Position { .. }) => true,
            // Iteration ends early at malformed bytes, so the shown elements are counted.
            (DataType::Struct(of), ValueRef::Struct(members)) => {
                let shown = |(name, value): (&str, ValueRef<'_>)| {
                    of.field(name).is_some_and(|field| field.data_type.shows_in_place(value))
                };
                members.members().take_while(|member| shown(*member)).count() == members.len()
            }
            (DataType::Array(of), ValueRef::Array(elements)) => {
                elements.values().take_while(|value| of.shows_in_place(*value)).count() == elements.len()
            }
            (DataType::WeightedSet { element: of, .. }, ValueRef::WeightedSet(elements)) => {
                let shown = elements.weighted().take_while(|(value, _)| of.shows_in_place(*value));
                shown.count() == elements.len()
            }
            (DataType::Map(of_key, of), ValueRef::Map(entries)) => {
                let shown = entries
                    .entries()
                    .take_while(|(key, value)| of_key.shows_in_place(*key) && of.shows_in_place(*value));
                shown.count() == entries.len()
            }
            _ => false,
        }
    }

    /// Removes the parts of a value that this type hides: members of structs that are undeclared, or have
    /// another type than declared. A value that is hidden as a whole is left unchanged.
    pub fn show_only(&self, value: &mut DocumentValue) -> ValueVisibility {
        if !self.shows(value) {
            return ValueVisibility::Hidden;
        }
        let mut hides = false;
        let mut inner = |of: &DataType, value: &mut DocumentValue| {
            let visibility = of.show_only(value);
            hides |= visibility == ValueVisibility::InPart;
            visibility
        };
        match (self, value) {
            (DataType::Struct(of), DocumentValue::Struct(members)) => {
                let before = members.len();
                members.retain_mut(|(name, value)| {
                    of.field(name)
                        .is_some_and(|field| inner(&field.data_type, value) != ValueVisibility::Hidden)
                });
                hides |= members.len() < before;
            }
            (DataType::Tensor(of), DocumentValue::Tensor(tensor)) if tensor.tensor_type() != of => {
                let known = Tensor::new(of.clone(), Vec::new(), tensor.cells().clone());
                *tensor = known.expect("a dense type with as many cells takes them");
            }
            (DataType::Array(of), DocumentValue::Array(elements)) => {
                for value in elements {
                    inner(of, value);
                }
            }
            (DataType::WeightedSet { element: of, .. }, DocumentValue::WeightedSet(elements)) => {
                for (value, _) in elements {
                    inner(of, value);
                }
            }
            (DataType::Map(of_key, of), DocumentValue::Map(entries)) => {
                for (key, value) in entries {
                    inner(of_key, key);
                    inner(of, value);
                }
            }
            _ => {}
        }
        if hides { ValueVisibility::InPart } else { ValueVisibility::Whole }
    }
}

/// Visible part of a value under a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueVisibility {
    /// All of it.
    Whole,
    /// All but some members of structs.
    InPart,
    /// Nothing.
    Hidden,
}

/// Returns true if a tensor has a type, or is a dense one whose dimensions were not recorded and that has the
/// cells of the type.
pub fn is_of_type(tensor: &Tensor, of: &TensorType) -> bool {
    let own = tensor.tensor_type();
    own == of
        || (own.dimensions().iter().all(|dimension| dimension.name == UNRECORDED_DIMENSION)
            && own.is_dense()
            && of.is_dense()
            && own.cell() == of.cell()
            && own.dense_size() == of.dense_size())
}

impl Document {
    /// Returns true if the types of the fields hide anything of it; `of` returns the type of a field, and
    /// `None` if it is undeclared.
    pub fn hides<'a>(&self, of: impl Fn(&str) -> Option<&'a DataType>) -> bool {
        !self.fields.iter().all(|(name, value)| of(name).is_some_and(|data_type| data_type.shows_all(value)))
    }

    /// Removes the parts that the types of the fields hide, as [`Document::hides`] does. Returns true if
    /// there were any.
    pub fn show_only<'a>(&mut self, of: impl Fn(&str) -> Option<&'a DataType>) -> bool {
        let mut hides = false;
        self.fields.retain_mut(|(name, value)| {
            let visibility = of(name).map_or(ValueVisibility::Hidden, |data_type| data_type.show_only(value));
            hides |= visibility != ValueVisibility::Whole;
            match visibility {
                ValueVisibility::Whole => true,
                // A struct without any visible member is not a value, as in a document that is fed.
                ValueVisibility::InPart => !value.is_empty(),
                ValueVisibility::Hidden => false,
            }
        });
        hides
    }

    /// Puts the hidden values of `stored` back: `self` was made from `shown`, which is `stored` without them.
    /// A field that was changed stays as it is.
    pub fn keep_hidden(&mut self, shown: &Document, stored: Document) {
        for (field, value) in stored.fields {
            if self.get(&field) == shown.get(&field) {
                self.set(&field, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{DocumentField, DocumentId, StructType};

    fn text(value: &str) -> DocumentValue {
        DocumentValue::String(value.to_owned())
    }

    fn person(fields: &[(&str, DataType)]) -> DataType {
        let fields = fields
            .iter()
            .map(|(name, data_type)| DocumentField { name: Arc::from(*name), data_type: data_type.clone() });
        DataType::Struct(Arc::new(StructType { name: "person".to_owned(), fields: fields.collect() }))
    }

    /// Returns the visible part of a value under a type; `None` if all of it is hidden.
    fn shown(data_type: &DataType, mut value: DocumentValue) -> Option<DocumentValue> {
        (data_type.show_only(&mut value) != ValueVisibility::Hidden).then_some(value)
    }

    #[test]
    fn values_show_where_they_are_of_the_type() {
        let array = |of: DataType| DataType::Array(Box::new(of));
        let tensor = |spec: &str| TensorType::parse(spec).expect("a type of the test");
        let zeros =
            |spec: &str| DocumentValue::Tensor(millrace_tensor::TensorBuilder::new(&tensor(spec)).finish());
        let cases = [
            (DataType::Int, DocumentValue::Int(1), true),
            (DataType::Long, DocumentValue::Int(1), false),
            (DataType::Float16, DocumentValue::Float(1.0), true),
            (DataType::Uri, text("a"), true),
            (DataType::Raw, text("a"), false),
            (array(DataType::Int), DocumentValue::Array(vec![DocumentValue::Int(1)]), true),
            (array(DataType::Long), DocumentValue::Array(vec![DocumentValue::Int(1)]), false),
            (array(DataType::Long), DocumentValue::WeightedSet(vec![(DocumentValue::Long(1), 1)]), false),
            (DataType::Tensor(tensor("tensor(x[2])")), zeros("tensor(x[2])"), true),
            (DataType::Tensor(tensor("tensor(y[2])")), zeros("tensor(x[2])"), false),
            (DataType::Tensor(tensor("tensor<float>(x[2])")), zeros("tensor(x[2])"), false),
            (DataType::Tensor(tensor("tensor(x[3])")), zeros("tensor(x[2])"), false),
        ];
        for (data_type, value, expected) in cases {
            let found = shown(&data_type, value.clone());
            assert_eq!(found, expected.then_some(value), "{data_type}");
        }
        let unrecorded = unrecorded_type(millrace_tensor::CellType::Double, 6).expect("a type");
        let stored = DocumentValue::Tensor(millrace_tensor::TensorBuilder::new(&unrecorded).finish());
        let known = DataType::Tensor(tensor("tensor(x[2],y[3])"));
        assert_eq!(shown(&known, stored.clone()), Some(zeros("tensor(x[2],y[3])")));
        assert_eq!(shown(&DataType::Tensor(tensor("tensor(x[7])")), stored), None);
    }

    #[test]
    fn members_of_structs_show_one_by_one_and_stay() {
        let stored = DocumentValue::Struct(vec![
            ("name".into(), text("ann")),
            ("age".into(), DocumentValue::Int(7)),
            ("gone".into(), DocumentValue::Bool(true)),
        ]);
        let now = person(&[("name", DataType::String), ("age", DataType::Long)]);
        let left = DocumentValue::Struct(vec![("name".into(), text("ann"))]);
        assert_eq!(shown(&now, stored.clone()), Some(left.clone()));

        let id = DocumentId::parse("id:n:mail::1").expect("an id");
        let fields =
            vec![("owner".into(), stored.clone()), ("old".into(), text("x")), ("title".into(), text("a"))];
        let stored_document = Document { id, fields };
        let types = [DocumentField { name: "owner".into(), data_type: now }];
        let mut shown = stored_document.clone();
        assert!(shown.show_only(|name| match name {
            "title" => Some(&DataType::String),
            _ => types.iter().find(|field| *field.name == *name).map(|field| &field.data_type),
        }));
        assert_eq!(shown.fields, vec![("owner".into(), left), ("title".into(), text("a"))]);
        let mut changed = shown.clone();
        changed.set(&"title".into(), text("b"));
        changed.keep_hidden(&shown, stored_document);
        assert_eq!(changed.get("owner"), Some(&stored));
        assert_eq!(changed.get("old"), Some(&text("x")));
        assert_eq!(changed.get("title"), Some(&text("b")));
    }
}
