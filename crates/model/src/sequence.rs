/// Tokens of one text, as input of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TokenizedText {
    /// Token ids, including special tokens.
    pub ids: Vec<i64>,
    /// Token types, one per token; empty for all zero.
    pub types: Vec<i64>,
    /// Number of trailing padding tokens that belong to the text: they have states, but no token attends to
    /// them.
    pub unattended: usize,
}

impl TokenizedText {
    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// Output of a model for one sequence: one row per token, or a single row if the model itself pools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SequenceStates {
    /// Number of cells per row.
    pub width: usize,
    /// Rows, concatenated.
    pub values: Vec<f32>,
}

impl SequenceStates {
    /// Rows, in token order.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.width.max(1))
    }
}
