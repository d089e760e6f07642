//! Shapes of Arrow's tensors: columns with the extension type `arrow.fixed_shape_tensor`.
//!
//! Their numbers lie in one flat list, so its size alone does not tell that its cells are in another order
//! than those of the field.

use arrow_schema::{DataType as ArrowType, Field};
use millrace_document::DataType;
use millrace_tensor::TensorType;
use serde_json::Value;

use crate::column::entry_members;

const EXTENSION: &str = "arrow.fixed_shape_tensor";

/// Shape of the tensors in a column, by the metadata of its extension type.
struct FixedShape {
    /// Sizes of the dimensions, in the order of the numbers.
    sizes: Vec<usize>,
    /// Names of the dimensions, if they have some.
    names: Vec<String>,
    /// True if the dimensions are meant in another order than that of the numbers.
    is_permuted: bool,
}

/// Returns the reason why tensors in a column, or in a part of it, have another shape than the field, and the
/// cure; `None` if there are none such.
pub(crate) fn shape_fault(column: &Field, data_type: &DataType) -> Option<String> {
    if let Some(shape) = FixedShape::of(column) {
        let tensor_type = match data_type {
            DataType::Tensor(tensor_type) => Some(tensor_type),
            _ => None,
        };
        return shape.fault(tensor_type, data_type);
    }
    match (column.data_type(), data_type) {
        (
            ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _),
            DataType::Array(element),
        ) => shape_fault(item, element),
        (ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _), _) => {
            shape_fault(item, data_type)
        }
        (ArrowType::Map(entries, _), DataType::Map(_, value)) => {
            shape_fault(entry_members(entries)?[1], value)
        }
        (ArrowType::Map(entries, _), _) => shape_fault(entries, data_type),
        (ArrowType::Struct(members), DataType::Struct(struct_type)) => members
            .iter()
            .find_map(|member| shape_fault(member, &struct_type.field(member.name())?.data_type)),
        (ArrowType::Struct(members), _) => members.iter().find_map(|member| shape_fault(member, data_type)),
        _ => None,
    }
}

impl FixedShape {
    fn of(column: &Field) -> Option<Self> {
        if column.extension_type_name() != Some(EXTENSION) {
            return None;
        }
        let metadata: Value = serde_json::from_str(column.extension_type_metadata()?).ok()?;
        let numbers = |name: &str| -> Vec<usize> {
            let list = metadata[name].as_array().into_iter().flatten();
            list.filter_map(|number| usize::try_from(number.as_u64()?).ok()).collect()
        };
        let names = metadata["dim_names"].as_array().into_iter().flatten();
        Some(FixedShape {
            sizes: numbers("shape"),
            names: names.filter_map(Value::as_str).map(str::to_owned).collect(),
            is_permuted: !numbers("permutation").is_sorted(),
        })
    }

    fn fault(&self, tensor_type: Option<&TensorType>, data_type: &DataType) -> Option<String> {
        let dimensions: Vec<(&str, usize)> = tensor_type.into_iter().flat_map(|of| of.indexed()).collect();
        // A list of one dimension says no more than its size, which is compared elsewhere.
        let is_other = match &self.sizes[..] {
            [] | [_] => false,
            sizes => !dimensions.iter().map(|(_, size)| size).eq(sizes),
        };
        let is_known = |name: &String| dimensions.iter().any(|(dimension, _)| dimension == name);
        let is_named_otherwise = self.names.iter().all(is_known)
            && !dimensions.iter().zip(&self.names).all(|((of, _), name)| of == name);
        if is_other {
            return Some(format!(
                "has tensors of the shape {:?}, and the field is {data_type}; reshape them, or store their numbers as \
                 a list",
                self.sizes
            ));
        }
        (self.is_permuted || is_named_otherwise).then(|| {
            format!(
                "has tensors whose numbers are in another order of dimensions than those of {data_type}; transpose \
                 them, and make them contiguous, as by numpy.ascontiguousarray"
            )
        })
    }
}
