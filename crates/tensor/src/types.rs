use std::fmt;

use crate::{Error, TENSOR_BYTES_MAX};

/// Maximum number of dimensions of a type; it limits recursion over them.
const MAX_DIMENSIONS: usize = 64;

/// Storage type of a tensor's cells. Arithmetic uses `f32` or `f64`, independent of the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CellType {
    /// 64-bit float; the default.
    Double,
    /// 32-bit float.
    Float,
    /// The upper 16 bits of a 32-bit float.
    BFloat16,
    /// A signed byte.
    Int8,
}

impl CellType {
    /// Size of one cell in bytes.
    pub const fn size(self) -> usize {
        match self {
            CellType::Double => 8,
            CellType::Float => 4,
            CellType::BFloat16 => 2,
            CellType::Int8 => 1,
        }
    }

    /// The name in a type specification.
    pub const fn name(self) -> &'static str {
        match self {
            CellType::Double => "double",
            CellType::Float => "float",
            CellType::BFloat16 => "bfloat16",
            CellType::Int8 => "int8",
        }
    }
}

/// Addressing of a dimension: by label or by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DimensionKind {
    /// Addressed by labels: `name{}`.
    Mapped,
    /// Addressed by `0..size`: `name[size]`.
    Indexed(usize),
}

/// One dimension of a tensor type.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorDimension {
    /// The name; unique in a type.
    pub name: String,
    /// Mapped, or indexed with a size.
    pub kind: DimensionKind,
}

/// A cell type and dimensions sorted by name. Without dimensions it is a scalar.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorType {
    cell: CellType,
    dimensions: Vec<TensorDimension>,
}

impl TensorType {
    /// Creates a type with these dimensions, which it sorts.
    ///
    /// # Errors
    /// Two dimensions of one name, an indexed dimension of size 0, a dense subspace of more than
    /// [`TENSOR_BYTES_MAX`] bytes, or more than 64 dimensions.
    pub fn new(cell: CellType, mut dimensions: Vec<TensorDimension>) -> Result<Self, Error> {
        dimensions.sort_by(|a, b| a.name.cmp(&b.name));
        let this = TensorType { cell, dimensions };
        let reason = if this.dimensions.windows(2).any(|pair| pair[0].name == pair[1].name) {
            "two dimensions have the same name"
        } else if this.dimensions.iter().any(|d| d.kind == DimensionKind::Indexed(0)) {
            "an indexed dimension needs a size of at least 1"
        } else if this.dimensions.len() > MAX_DIMENSIONS {
            "it has more than 64 dimensions"
        } else if this
            .indexed()
            .try_fold(cell.size(), |bytes, (_, size)| bytes.checked_mul(size))
            .is_none_or(|bytes| bytes > TENSOR_BYTES_MAX)
        {
            "its indexed dimensions have more cells than the 64 MB that a value can take"
        } else {
            return Ok(this);
        };
        Err(Error::Type { spec: this.to_string(), reason: reason.to_owned() })
    }

    /// The type of a plain number.
    pub const fn scalar() -> Self {
        TensorType { cell: CellType::Double, dimensions: Vec::new() }
    }

    /// Parses `tensor<float>(x[3],tag{})`; the cell type is optional (`double`).
    ///
    /// # Errors
    /// [`Error::Type`], which quotes the text.
    pub fn parse(spec: &str) -> Result<Self, Error> {
        let fail = |reason: &str| Error::Type { spec: spec.to_owned(), reason: reason.to_owned() };
        let rest = spec
            .trim()
            .strip_prefix("tensor")
            .ok_or_else(|| fail("it does not begin with 'tensor'"))?
            .trim_start();
        let (cell, rest) = match rest.strip_prefix('<') {
            None => (CellType::Double, rest),
            Some(rest) => {
                let (name, rest) = rest.split_once('>').ok_or_else(|| fail("'<' is not closed"))?;
                let cell = [CellType::Double, CellType::Float, CellType::BFloat16, CellType::Int8]
                    .into_iter()
                    .find(|cell| cell.name() == name.trim())
                    .ok_or_else(|| fail("the cell type is one of double, float, bfloat16, int8"))?;
                (cell, rest.trim_start())
            }
        };
        let inner = rest
            .strip_prefix('(')
            .and_then(|rest| rest.trim_end().strip_suffix(')'))
            .ok_or_else(|| fail("the dimensions stand in parentheses"))?;
        let mut dimensions = Vec::new();
        for part in inner.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let at = part.find(['{', '[']).ok_or_else(|| fail("a dimension is name{} or name[size]"))?;
            let (name, kind) = (part[..at].trim(), part[at..].trim());
            if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                return Err(fail("a dimension's name is letters, digits and '_'"));
            }
            let kind = if kind
                .strip_prefix('{')
                .and_then(|k| k.strip_suffix('}'))
                .is_some_and(|k| k.trim().is_empty())
            {
                DimensionKind::Mapped
            } else {
                kind.strip_prefix('[')
                    .and_then(|k| k.strip_suffix(']'))
                    .and_then(|size| size.trim().parse().ok())
                    .map(DimensionKind::Indexed)
                    .ok_or_else(|| fail("an indexed dimension needs a size, as in x[3]"))?
            };
            dimensions.push(TensorDimension { name: name.to_owned(), kind });
        }
        Self::new(cell, dimensions)
    }

    /// Storage type of the cells.
    pub const fn cell(&self) -> CellType {
        self.cell
    }

    /// All dimensions, sorted by name.
    pub fn dimensions(&self) -> &[TensorDimension] {
        &self.dimensions
    }

    /// The mapped dimensions, in order.
    pub fn mapped(&self) -> impl Iterator<Item = &TensorDimension> {
        self.dimensions.iter().filter(|d| d.kind == DimensionKind::Mapped)
    }

    /// The indexed dimensions with their sizes, in order.
    pub fn indexed(&self) -> impl Iterator<Item = (&str, usize)> {
        self.dimensions.iter().filter_map(|d| match d.kind {
            DimensionKind::Indexed(size) => Some((d.name.as_str(), size)),
            DimensionKind::Mapped => None,
        })
    }

    /// Number of cells of one dense subspace: the product of the indexed sizes, 1 without indexed dimensions.
    pub fn dense_size(&self) -> usize {
        self.indexed().map(|(_, size)| size).product()
    }

    /// True if there are no dimensions: a plain number.
    pub fn is_scalar(&self) -> bool {
        self.dimensions.is_empty()
    }

    /// True if there is at least one dimension, and no mapped one: every value has the same number of cells.
    pub fn is_dense(&self) -> bool {
        !self.is_scalar() && self.mapped().next().is_none()
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor")?;
        if self.cell != CellType::Double {
            write!(f, "<{}>", self.cell.name())?;
        }
        f.write_str("(")?;
        for (i, dimension) in self.dimensions.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match dimension.kind {
                DimensionKind::Mapped => write!(f, "{}{{}}", dimension.name)?,
                DimensionKind::Indexed(size) => write!(f, "{}[{size}]", dimension.name)?,
            }
        }
        f.write_str(")")
    }
}

/// Order in which the dimensions of a type are written, in which nested literals name their labels and cells.
/// The type itself has them by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenOrder {
    /// For each mapped dimension as written, its number among those of the type.
    mapped: Vec<usize>,
    /// For each indexed dimension as written, its number among those of the type.
    indexed: Vec<usize>,
    /// Sizes of the indexed dimensions of the type.
    sizes: Vec<usize>,
}

impl WrittenOrder {
    /// The order of the type itself.
    pub fn of_type(tensor_type: &TensorType) -> Self {
        let sizes: Vec<usize> = tensor_type.indexed().map(|(_, size)| size).collect();
        WrittenOrder {
            mapped: (0..tensor_type.mapped().count()).collect(),
            indexed: (0..sizes.len()).collect(),
            sizes,
        }
    }

    /// The order in the text from which a type was parsed.
    pub fn parse(spec: &str, tensor_type: &TensorType) -> Self {
        let inner = spec.split_once('(').map_or("", |(_, inner)| inner);
        let written: Vec<&str> = inner
            .split(',')
            .map(|part| part.split(['{', '[', ')']).next().unwrap_or_default().trim())
            .collect();
        let order = |of_type: Vec<&str>| {
            let position = |name: &&str| of_type.iter().position(|known| known == name);
            written.iter().filter_map(position).collect()
        };
        WrittenOrder {
            mapped: order(tensor_type.mapped().map(|dimension| dimension.name.as_str()).collect()),
            indexed: order(tensor_type.indexed().map(|(name, _)| name).collect()),
            ..WrittenOrder::of_type(tensor_type)
        }
    }

    /// Puts labels that are in the written order into the order of the type.
    pub fn labels(&self, written: &[String]) -> Vec<String> {
        let mut labels = written.to_vec();
        for (label, dimension) in written.iter().zip(&self.mapped) {
            labels[*dimension].clone_from(label);
        }
        labels
    }

    /// Sizes of the indexed dimensions as written.
    pub fn written_sizes(&self) -> Vec<usize> {
        self.indexed.iter().map(|dimension| self.sizes[*dimension]).collect()
    }

    /// Index in a subspace of the cell that has this index where the last written dimension varies fastest.
    pub fn cell(&self, mut written: usize) -> usize {
        if self.keeps_cells() {
            return written;
        }
        let mut indexes = vec![0; self.sizes.len()];
        for dimension in self.indexed.iter().rev() {
            indexes[*dimension] = written % self.sizes[*dimension];
            written /= self.sizes[*dimension];
        }
        indexes.iter().zip(&self.sizes).fold(0, |cell, (index, size)| cell * size + index)
    }

    /// True if the cells of a subspace have the same order as in the type.
    pub fn keeps_cells(&self) -> bool {
        self.indexed.is_sorted()
    }
}
