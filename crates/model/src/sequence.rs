/// The tokens of one text, as a model takes them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sequence {
    /// Token ids, with the special ones around them.
    pub ids: Vec<i64>,
    /// Token types, as many; empty for all zero.
    pub types: Vec<i64>,
    /// So many of the last tokens are padding that belongs to the text: they have states, but no token attends to them.
    pub unattended: usize,
}

impl Sequence {
    /// How many tokens it has.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// What a model made of one sequence: a row per token, or one row where the model itself pools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct States {
    /// Cells of a row.
    pub width: usize,
    /// The rows, one after another.
    pub values: Vec<f32>,
}

impl States {
    /// The rows, in the order of the tokens.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.width.max(1))
    }
}
