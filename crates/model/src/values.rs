//! Conversion of tensors to ONNX Runtime's values, and back.

use millrace_tensor::{CellType, DimensionKind, TensorCells, TensorDimension, TensorType};
use ort::value::{DynValue, PrimitiveTensorElementType, Tensor as Value};

use crate::CellElement;

/// Cells as one value of this shape.
pub(crate) fn value(element: CellElement, shape: Vec<usize>, cells: &[f64]) -> ort::Result<DynValue> {
    fn converted<T>(cells: &[f64], of: impl Fn(f64) -> T) -> Vec<T> {
        cells.iter().map(|cell| of(*cell)).collect()
    }
    Ok(match element {
        CellElement::Float => Value::from_array((shape, converted(cells, |cell| cell as f32)))?.into_dyn(),
        CellElement::Double => Value::from_array((shape, converted(cells, |cell| cell)))?.into_dyn(),
        CellElement::Int64 => Value::from_array((shape, converted(cells, |cell| cell as i64)))?.into_dyn(),
        CellElement::Int32 => Value::from_array((shape, converted(cells, |cell| cell as i32)))?.into_dyn(),
        CellElement::Int8 => Value::from_array((shape, converted(cells, |cell| cell as i8)))?.into_dyn(),
        CellElement::Uint8 => Value::from_array((shape, converted(cells, |cell| cell as u8)))?.into_dyn(),
        CellElement::Bool => Value::from_array((shape, converted(cells, |cell| cell != 0.0)))?.into_dyn(),
        CellElement::Other(name) => {
            return Err(ort::Error::new(format!("no tensors with {name} cells")));
        }
    })
}

/// Shape and cells of a value.
pub(crate) fn cells(value: &DynValue, element: CellElement) -> ort::Result<(Vec<usize>, TensorCells)> {
    fn read<T: PrimitiveTensorElementType + Copy, U>(
        value: &DynValue,
        of: impl Fn(T) -> U,
    ) -> ort::Result<(Vec<usize>, Vec<U>)> {
        let (shape, cells) = value.try_extract_tensor::<T>()?;
        let shape = shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
        Ok((shape, cells.iter().map(|&cell| of(cell)).collect()))
    }
    let (shape, cells) = match element {
        CellElement::Float => {
            let (shape, cells) = read(value, |cell: f32| cell)?;
            return Ok((shape, TensorCells::Float(cells)));
        }
        CellElement::Int8 => {
            let (shape, cells) = read(value, |cell: i8| cell)?;
            return Ok((shape, TensorCells::Int8(cells)));
        }
        CellElement::Double => read(value, |cell: f64| cell)?,
        CellElement::Int64 => read(value, |cell: i64| cell as f64)?,
        CellElement::Int32 => read(value, |cell: i32| f64::from(cell))?,
        CellElement::Uint8 => read(value, |cell: u8| f64::from(cell))?,
        CellElement::Bool => read(value, |cell: bool| f64::from(u8::from(cell)))?,
        CellElement::Other(name) => {
            return Err(ort::Error::new(format!("no tensors with {name} cells")));
        }
    };
    Ok((shape, TensorCells::Double(cells)))
}

/// Type of a tensor with the dimensions `d0`, `d1`, … of these sizes.
pub(crate) fn tensor_type(
    element: CellElement,
    shape: &[usize],
) -> Result<TensorType, millrace_tensor::Error> {
    let cell = match element {
        CellElement::Float => CellType::Float,
        CellElement::Int8 => CellType::Int8,
        _ => CellType::Double,
    };
    let dimension = |(at, size): (usize, &usize)| TensorDimension {
        name: format!("d{at}"),
        kind: DimensionKind::Indexed(*size),
    };
    let dimensions = shape.iter().enumerate().map(dimension).collect();
    TensorType::new(cell, dimensions)
}
