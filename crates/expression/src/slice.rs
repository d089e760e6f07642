//! Slices of tensors: `t{x:a,y:1}`, `t[1]`.

use millrace_tensor::{DimensionKind, TensorDimension, TensorType};

use crate::Error;
use crate::parser::ExpressionParser;
use crate::syntax::{ExpressionKind, ExpressionNode, SliceLabel};

impl ExpressionParser<'_> {
    /// Parses the address of a slice after its tensor: `{x:a,y:1}`, `{a}` or `[1]`.
    pub(crate) fn slice(&mut self, tensor: ExpressionNode) -> Result<ExpressionNode, Error> {
        let at = tensor.at;
        let mut address = Vec::new();
        if self.cursor.take("[") {
            let index = self.expression()?;
            self.expect("]")?;
            let label = match index.kind {
                ExpressionKind::Number(number) => SliceLabel::Fixed(number.to_string()),
                _ => SliceLabel::Computed(index),
            };
            address.push((None, label));
        } else {
            self.expect("{")?;
            loop {
                match self.label()? {
                    SliceLabel::Fixed(dimension) if self.cursor.take(":") => {
                        address.push((Some(dimension), self.label()?));
                    }
                    label => address.push((None, label)),
                }
                if self.cursor.take("}") {
                    break;
                }
                if !self.cursor.take(",") {
                    return Err(self.expected("',' or '}'"));
                }
            }
        }
        Ok(ExpressionNode { at, kind: ExpressionKind::Slice(Box::new(tensor), address) })
    }

    /// Parses a label: a word or a quoted string, or an expression for its value.
    fn label(&mut self) -> Result<SliceLabel, Error> {
        self.cursor.skip_blanks();
        let begin = self.cursor.offset();
        let fixed = match self.cursor.peek() {
            Some('"' | '\'') => Some(SliceLabel::Quoted(self.quoted()?)),
            Some('-') => {
                self.cursor.skip(1);
                self.word().map(|word| SliceLabel::Fixed(format!("-{word}")))
            }
            _ => self.word().map(|word| SliceLabel::Fixed(word.to_owned())),
        };
        self.cursor.skip_blanks();
        match fixed {
            Some(label) if self.cursor.rest().starts_with([',', '}', ':']) => Ok(label),
            // The word begins an expression.
            _ => {
                self.cursor.go_to(begin);
                self.expression().map(SliceLabel::Computed)
            }
        }
    }
}

/// The dimension that a label without a name is of: the only one, or for the `only` label of a slice the only
/// one of its kind: indexed for numbers, mapped for words, as in Vespa.
pub(crate) fn only_dimension<'t>(
    tensor_type: &'t TensorType,
    only: Option<&SliceLabel>,
) -> Option<&'t TensorDimension> {
    let all = tensor_type.dimensions();
    let is_word = |label: &str| {
        label.parse::<f64>().is_err() || !label.starts_with(|c: char| c == '-' || c.is_ascii_digit())
    };
    let is_mapped = only.map(|label| match label {
        SliceLabel::Quoted(_) => true,
        SliceLabel::Fixed(label) => is_word(label),
        SliceLabel::Computed(_) => false,
    });
    let mut found = all
        .iter()
        .filter(|dimension| all.len() == 1 || is_mapped == Some(dimension.kind == DimensionKind::Mapped));
    found.next().filter(|_| found.next().is_none())
}
