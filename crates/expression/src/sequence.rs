//! Token sequences for transformers, assembled from several inputs.

use millrace_tensor::{CellType, DimensionKind, TensorDimension, TensorType};

use crate::ExpressionFault;
use crate::value::TensorValue;

/// A start token, then the tokens of each input followed by a separator, then zeros: a tensor
/// `d0[1],d1[length]`.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenSequence {
    /// Data per token.
    pub part: SequencePart,
    /// Token at the start.
    pub start: f64,
    /// Token after each input.
    pub separator: f64,
    /// Number of cells of the result; excess tokens are cut off.
    pub length: usize,
    /// Expressions of the inputs: each a dense tensor with one dimension, padded with zeros.
    pub inputs: Vec<String>,
}

/// Data per token of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequencePart {
    /// The token.
    Ids,
    /// 0 for the start, the tokens of the first input and its separator; 1 for those of the other inputs.
    Types,
    /// 1 for each token, to distinguish it from the padding.
    Mask,
}

impl TokenSequence {
    /// Maximum length.
    pub const LENGTH_MAX: usize = 1 << 16;

    /// Type of the result.
    pub(crate) fn tensor_type(&self) -> Result<TensorType, ExpressionFault> {
        let dimension =
            |name: &str, size| TensorDimension { name: name.to_owned(), kind: DimensionKind::Indexed(size) };
        TensorType::new(CellType::Double, vec![dimension("d0", 1), dimension("d1", self.length)])
            .map_err(|error| ExpressionFault::new(error.to_string()))
    }

    /// The sequence built from the cells of these inputs.
    pub(crate) fn value<'v>(
        &self,
        tensor_type: &TensorType,
        inputs: impl Iterator<Item = &'v [f64]>,
    ) -> TensorValue {
        let mut cells = Vec::with_capacity(self.length);
        let token = |token: f64, input: usize| match self.part {
            SequencePart::Ids => token,
            SequencePart::Types => f64::from(u8::from(input > 0)),
            SequencePart::Mask => 1.0,
        };
        cells.push(token(self.start, 0));
        for (number, input) in inputs.enumerate() {
            let tokens = input.iter().filter(|cell| **cell != 0.0).count();
            cells.extend(input[..tokens].iter().map(|cell| token(*cell, number)));
            cells.push(token(self.separator, number));
        }
        cells.resize(self.length, 0.0);
        TensorValue { tensor_type: tensor_type.clone(), labels: Vec::new(), cells }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_put_together_and_filled_up() {
        let check = |part, length, inputs: &[&[f64]], expected: &[f64]| {
            let inputs_of = inputs.iter().map(|_| String::new()).collect();
            let sequence = TokenSequence { part, start: 101.0, separator: 102.0, length, inputs: inputs_of };
            let value = sequence.value(&sequence.tensor_type().expect("a type"), inputs.iter().copied());
            assert_eq!(value.cells, expected, "{part:?} {length} {inputs:?}");
        };
        let two: &[&[f64]] = &[&[7.0, 8.0, 0.0], &[9.0, 0.0, 0.0]];
        check(SequencePart::Ids, 8, two, &[101.0, 7.0, 8.0, 102.0, 9.0, 102.0, 0.0, 0.0]);
        check(SequencePart::Types, 8, two, &[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
        check(SequencePart::Mask, 8, two, &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
        check(SequencePart::Ids, 3, two, &[101.0, 7.0, 8.0]);
        check(SequencePart::Ids, 3, &[&[]], &[101.0, 102.0, 0.0]);
    }
}
