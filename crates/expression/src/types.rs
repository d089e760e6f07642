//! Types of results. Error texts name both types.

use millrace_tensor::{CellType, DimensionKind, TensorDimension, TensorType};

use crate::ExpressionFault;

/// Maximum number of cells of a dense subspace.
const DENSE_CELLS: usize = 1 << 24;

/// Number of cells of one dense subspace, if within the limit.
pub(crate) fn dense_cells(tensor_type: &TensorType) -> Result<usize, ExpressionFault> {
    tensor_type
        .indexed()
        .try_fold(1usize, |cells, (_, size)| cells.checked_mul(size).filter(|cells| *cells <= DENSE_CELLS))
        .ok_or_else(|| {
            ExpressionFault::new(format!(
                "{tensor_type} has more than {DENSE_CELLS} cells in a dense subspace"
            ))
        })
}

/// The type with these dimensions; a plain number without dimensions.
pub(crate) fn of(cell: CellType, dimensions: Vec<TensorDimension>) -> Result<TensorType, ExpressionFault> {
    if dimensions.is_empty() {
        return Ok(TensorType::scalar());
    }
    let tensor_type =
        TensorType::new(cell, dimensions).map_err(|error| ExpressionFault::new(error.to_string()))?;
    dense_cells(&tensor_type)?;
    Ok(tensor_type)
}

/// Cell type of a calculation's result: narrow types become `float`.
fn decayed(cell: CellType) -> CellType {
    match cell {
        CellType::BFloat16 | CellType::Int8 => CellType::Float,
        other => other,
    }
}

/// Cell type that holds the cells of both. A plain number adopts the other's type.
fn unified(a: &TensorType, b: &TensorType) -> CellType {
    match (a.cell(), b.cell()) {
        (_, cell) if a.is_scalar() => cell,
        (cell, _) if b.is_scalar() => cell,
        (a, b) if a == b => a,
        (CellType::Double, _) | (_, CellType::Double) => CellType::Double,
        _ => CellType::Float,
    }
}

fn both_dimensions(a: &TensorType, b: &TensorType) -> Result<Vec<TensorDimension>, ExpressionFault> {
    let mut dimensions = a.dimensions().to_vec();
    for dimension in b.dimensions() {
        match a.dimensions().iter().find(|known| known.name == dimension.name) {
            None => dimensions.push(dimension.clone()),
            Some(known) if known.kind == dimension.kind => {}
            Some(_) => {
                return Err(ExpressionFault::new(format!(
                    "{a} and {b} do not go together: dimension '{}' differs",
                    dimension.name
                )));
            }
        }
    }
    Ok(dimensions)
}

pub(crate) fn map(a: &TensorType) -> Result<TensorType, ExpressionFault> {
    of(decayed(a.cell()), a.dimensions().to_vec())
}

pub(crate) fn join(a: &TensorType, b: &TensorType) -> Result<TensorType, ExpressionFault> {
    of(decayed(unified(a, b)), both_dimensions(a, b)?)
}

pub(crate) fn merge(a: &TensorType, b: &TensorType) -> Result<TensorType, ExpressionFault> {
    if a.dimensions() != b.dimensions() {
        return Err(ExpressionFault::new(format!(
            "merge needs two tensors of the same dimensions, found {a} and {b}"
        )));
    }
    join(a, b)
}

pub(crate) fn reduce(a: &TensorType, over: &[String]) -> Result<TensorType, ExpressionFault> {
    if let Some(unknown) = over.iter().find(|name| dimension(a, name).is_none()) {
        return Err(ExpressionFault::new(format!("{a} has no dimension '{unknown}' to reduce")));
    }
    let kept = |d: &&TensorDimension| !over.is_empty() && !over.contains(&d.name);
    of(decayed(a.cell()), a.dimensions().iter().filter(kept).cloned().collect())
}

pub(crate) fn rename(a: &TensorType, from: &[String], to: &[String]) -> Result<TensorType, ExpressionFault> {
    if from.len() != to.len() {
        return Err(ExpressionFault::new(format!(
            "rename needs as many new names as old ones, found {} and {}",
            to.len(),
            from.len()
        )));
    }
    if let Some(unknown) = from.iter().find(|name| dimension(a, name).is_none()) {
        return Err(ExpressionFault::new(format!("{a} has no dimension '{unknown}' to rename")));
    }
    let renamed =
        |d: &TensorDimension| TensorDimension { name: renamed(&d.name, from, to).to_owned(), kind: d.kind };
    of(a.cell(), a.dimensions().iter().map(renamed).collect())
}

/// Name of a dimension after a rename.
pub(crate) fn renamed<'n>(name: &'n str, from: &[String], to: &'n [String]) -> &'n str {
    from.iter().position(|old| old == name).map_or(name, |i| &to[i])
}

pub(crate) fn concat(a: &TensorType, b: &TensorType, along: &str) -> Result<TensorType, ExpressionFault> {
    let size = |t: &TensorType| match dimension(t, along).map(|d| d.kind) {
        None => Ok(1),
        Some(DimensionKind::Indexed(size)) => Ok(size),
        Some(DimensionKind::Mapped) => Err(ExpressionFault::new(format!(
            "concat needs an indexed dimension, but '{along}' of {t} is mapped"
        ))),
    };
    let total = size(a)? + size(b)?;
    let without = |t: &TensorType| {
        let rest = t.dimensions().iter().filter(|d| d.name != along).cloned().collect();
        TensorType::new(t.cell(), rest).map_err(|error| ExpressionFault::new(error.to_string()))
    };
    let mut dimensions = both_dimensions(&without(a)?, &without(b)?)?;
    dimensions.push(TensorDimension { name: along.to_owned(), kind: DimensionKind::Indexed(total) });
    of(unified(a, b), dimensions)
}

/// The type without the addressed dimensions.
pub(crate) fn peek(a: &TensorType, addressed: &[String]) -> Result<TensorType, ExpressionFault> {
    of(a.cell(), a.dimensions().iter().filter(|d| !addressed.contains(&d.name)).cloned().collect())
}

pub(crate) fn cast(a: &TensorType, cell: CellType) -> Result<TensorType, ExpressionFault> {
    of(cell, a.dimensions().to_vec())
}

/// The type of one dense subspace.
pub(crate) fn subspace(a: &TensorType) -> Result<TensorType, ExpressionFault> {
    let indexed = |d: &&TensorDimension| d.kind != DimensionKind::Mapped;
    of(a.cell(), a.dimensions().iter().filter(indexed).cloned().collect())
}

/// Type with the mapped dimensions of one type and all dimensions of another.
pub(crate) fn map_subspaces(outer: &TensorType, inner: &TensorType) -> Result<TensorType, ExpressionFault> {
    if inner.mapped().next().is_some() {
        return Err(ExpressionFault::new(format!(
            "the function of a dense subspace must give a number or a dense tensor, found {inner}"
        )));
    }
    let mut dimensions: Vec<TensorDimension> = outer.mapped().cloned().collect();
    dimensions.extend(inner.dimensions().iter().cloned());
    let cell = if inner.is_scalar() { decayed(outer.cell()) } else { inner.cell() };
    of(cell, dimensions)
}

pub(crate) fn unpack_bits(a: &TensorType, cell: CellType) -> Result<TensorType, ExpressionFault> {
    let innermost = a.indexed().last().map(|(name, _)| name.to_owned());
    let (CellType::Int8, Some(innermost)) = (a.cell(), innermost) else {
        return Err(ExpressionFault::new(format!(
            "unpack_bits needs int8 cells and an indexed dimension, found {a}"
        )));
    };
    let wider = |d: &TensorDimension| match d.kind {
        DimensionKind::Indexed(size) if d.name == innermost => {
            TensorDimension { name: d.name.clone(), kind: DimensionKind::Indexed(size.saturating_mul(8)) }
        }
        _ => d.clone(),
    };
    of(cell, a.dimensions().iter().map(wider).collect())
}

/// The dimension with this name.
pub(crate) fn dimension<'t>(a: &'t TensorType, name: &str) -> Option<&'t TensorDimension> {
    a.dimensions().iter().find(|dimension| dimension.name == name)
}

/// The cell type with this name.
pub(crate) fn cell(name: &str) -> Option<CellType> {
    [CellType::Double, CellType::Float, CellType::BFloat16, CellType::Int8]
        .into_iter()
        .find(|cell| cell.name() == name)
}
