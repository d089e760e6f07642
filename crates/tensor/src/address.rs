use crate::{DimensionKind, Error, TensorType};

/// Address of a cell, or of a block of cells: dimension names with labels, resolved against a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorAddress {
    /// One entry per mapped dimension, in the type's order; `None` if the address does not name it.
    pub labels: Vec<Option<String>>,
    /// Row-major index in the dense subspace; `None` unless every indexed dimension is named, 0 if there are
    /// none.
    pub index: Option<usize>,
}

impl TensorAddress {
    /// Resolves `(dimension, label)` pairs in any order.
    ///
    /// # Errors
    /// A dimension does not exist or is given twice, or an index is not a number below the dimension's size.
    pub fn resolve<'a>(
        tensor_type: &TensorType,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, Error> {
        let fail = |reason: String| Error::Value { tensor_type: tensor_type.to_string(), reason };
        let dimensions = tensor_type.dimensions();
        let mut given: Vec<Option<&str>> = vec![None; dimensions.len()];
        for (name, label) in pairs {
            let at = dimensions
                .iter()
                .position(|dimension| dimension.name == name)
                .ok_or_else(|| fail(format!("it has no dimension '{name}'")))?;
            if given[at].replace(label).is_some() {
                return Err(fail(format!("dimension '{name}' stands twice in an address")));
            }
        }
        let mut labels = Vec::new();
        let mut index = Some(0);
        for (dimension, label) in dimensions.iter().zip(given) {
            match dimension.kind {
                DimensionKind::Mapped => labels.push(label.map(str::to_owned)),
                DimensionKind::Indexed(size) => {
                    let position = match label {
                        None => None,
                        Some(label) => Some(label.parse().ok().filter(|p| *p < size).ok_or_else(|| {
                            fail(format!(
                                "index '{label}' is not within 0 to {} of dimension '{}'",
                                size.saturating_sub(1),
                                dimension.name
                            ))
                        })?),
                    };
                    index =
                        index.zip(position).map(|(index, position): (usize, usize)| index * size + position);
                }
            }
        }
        Ok(TensorAddress { labels, index })
    }

    /// Labels and index of one cell.
    ///
    /// # Errors
    /// A dimension is missing.
    pub fn into_cell(self, tensor_type: &TensorType) -> Result<(Vec<String>, usize), Error> {
        match self.index {
            Some(index) => Ok((self.into_block(tensor_type)?, index)),
            None => Err(Self::incomplete(tensor_type)),
        }
    }

    /// Labels of one dense subspace.
    ///
    /// # Errors
    /// A mapped dimension is missing.
    pub fn into_block(self, tensor_type: &TensorType) -> Result<Vec<String>, Error> {
        self.labels.into_iter().collect::<Option<_>>().ok_or_else(|| Self::incomplete(tensor_type))
    }

    fn incomplete(tensor_type: &TensorType) -> Error {
        Error::Value {
            tensor_type: tensor_type.to_string(),
            reason: "an address must name every dimension".to_owned(),
        }
    }
}
