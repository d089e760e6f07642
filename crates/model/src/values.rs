//! Conversion of tensors to ONNX Runtime's values, and back.

use millrace_tensor::{CellType, Cells, Dimension, DimensionKind, Tensor, TensorType};
use ort::value::{DynValue, PrimitiveTensorElementType, Tensor as Value};

use crate::Element;

/// Cells of rows, concatenated, as one value of this shape.
pub(crate) fn value<'t>(
    element: Element,
    shape: Vec<usize>,
    rows: impl Iterator<Item = &'t Tensor> + Clone,
) -> ort::Result<DynValue> {
    /// Cells of all rows, converted.
    fn cells<'t, T>(rows: impl Iterator<Item = &'t Tensor>, of: impl Fn(f64) -> T) -> Vec<T> {
        let mut all = Vec::new();
        for row in rows {
            all.extend(row.cells().iter().map(&of));
        }
        all
    }
    Ok(match element {
        Element::Float => Value::from_array((shape, cells(rows, |cell| cell as f32)))?.into_dyn(),
        Element::Double => Value::from_array((shape, cells(rows, |cell| cell)))?.into_dyn(),
        Element::Int64 => Value::from_array((shape, cells(rows, |cell| cell as i64)))?.into_dyn(),
        Element::Int32 => Value::from_array((shape, cells(rows, |cell| cell as i32)))?.into_dyn(),
        Element::Int8 => Value::from_array((shape, cells(rows, |cell| cell as i8)))?.into_dyn(),
        Element::Uint8 => Value::from_array((shape, cells(rows, |cell| cell as u8)))?.into_dyn(),
        Element::Bool => Value::from_array((shape, cells(rows, |cell| cell != 0.0)))?.into_dyn(),
        Element::Other(name) => {
            return Err(ort::Error::new(format!("there are no tensors with {name} cells")));
        }
    })
}

/// Shape and cells of a value.
pub(crate) fn cells(value: &DynValue, element: Element) -> ort::Result<(Vec<usize>, Cells)> {
    fn read<T: PrimitiveTensorElementType + Copy, U>(
        value: &DynValue,
        of: impl Fn(T) -> U,
    ) -> ort::Result<(Vec<usize>, Vec<U>)> {
        let (shape, cells) = value.try_extract_tensor::<T>()?;
        let shape = shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
        Ok((shape, cells.iter().map(|&cell| of(cell)).collect()))
    }
    let (shape, cells) = match element {
        Element::Float => {
            let (shape, cells) = read(value, |cell: f32| cell)?;
            return Ok((shape, Cells::Float(cells)));
        }
        Element::Int8 => {
            let (shape, cells) = read(value, |cell: i8| cell)?;
            return Ok((shape, Cells::Int8(cells)));
        }
        Element::Double => read(value, |cell: f64| cell)?,
        Element::Int64 => read(value, |cell: i64| cell as f64)?,
        Element::Int32 => read(value, |cell: i32| f64::from(cell))?,
        Element::Uint8 => read(value, |cell: u8| f64::from(cell))?,
        Element::Bool => read(value, |cell: bool| f64::from(u8::from(cell)))?,
        Element::Other(name) => {
            return Err(ort::Error::new(format!("there are no tensors with {name} cells")));
        }
    };
    Ok((shape, Cells::Double(cells)))
}

/// Type of a tensor with the dimensions `d0`, `d1`, … of these sizes.
pub(crate) fn tensor_type(element: Element, shape: &[usize]) -> Result<TensorType, String> {
    let cell = match element {
        Element::Float => CellType::Float,
        Element::Int8 => CellType::Int8,
        _ => CellType::Double,
    };
    let dimension = |(at, size): (usize, &usize)| Dimension {
        name: format!("d{at}"),
        kind: DimensionKind::Indexed(*size),
    };
    let dimensions = shape.iter().enumerate().map(dimension).collect();
    TensorType::new(cell, dimensions).map_err(|error| error.to_string())
}
