//! Slices of tensors: `t{x:a,y:1}`, `t[1]`.

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
                let (first, quoted) = self.label()?;
                match first {
                    SliceLabel::Fixed(dimension) if !quoted && self.cursor.take(":") => {
                        address.push((Some(dimension), self.label()?.0));
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

    /// Parses a label: a word or a quoted string, or an expression for its value. The flag is true for a
    /// quoted string.
    fn label(&mut self) -> Result<(SliceLabel, bool), Error> {
        self.cursor.skip_blanks();
        let begin = self.cursor.offset();
        let fixed = match self.cursor.peek() {
            Some('"' | '\'') => Some((self.quoted()?, true)),
            Some('-') => {
                self.cursor.skip(1);
                self.word().map(|word| (format!("-{word}"), false))
            }
            _ => self.word().map(|word| (word.to_owned(), false)),
        };
        self.cursor.skip_blanks();
        match fixed {
            Some((label, quoted)) if self.cursor.rest().starts_with([',', '}', ':']) => {
                Ok((SliceLabel::Fixed(label), quoted))
            }
            // The word begins an expression.
            _ => {
                self.cursor.go_to(begin);
                self.expression().map(|computed| (SliceLabel::Computed(computed), false))
            }
        }
    }
}
