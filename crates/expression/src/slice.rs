//! Slices of tensors: `t{x:a,y:1}`, `t[1]`.

use crate::Error;
use crate::parser::ExpressionParser;
use crate::syntax::{ExpressionKind, ExpressionNode, SliceLabel};

impl ExpressionParser<'_> {
    /// Parses the address of a slice after its tensor: `{x:a,y:1}`, `{a}` or `[1]`.
    pub(crate) fn slice(&mut self, tensor: ExpressionNode) -> Result<ExpressionNode, Error> {
        let at = tensor.at;
        let mut address = Vec::new();
        if self.take("[") {
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
                    SliceLabel::Fixed(dimension) if !quoted && self.take(":") => {
                        address.push((Some(dimension), self.label()?.0));
                    }
                    label => address.push((None, label)),
                }
                if self.take("}") {
                    break;
                }
                if !self.take(",") {
                    return Err(self.expected("',' or '}'"));
                }
            }
        }
        Ok(ExpressionNode { at, kind: ExpressionKind::Slice(Box::new(tensor), address) })
    }

    /// Parses a label: a word or a quoted string, or an expression for its value. The flag is true for a
    /// quoted string.
    fn label(&mut self) -> Result<(SliceLabel, bool), Error> {
        self.space();
        let begin = self.at;
        let fixed = match self.rest().chars().next() {
            Some('"' | '\'') => Some((self.quoted()?, true)),
            Some('-') => {
                self.at += 1;
                self.word().map(|word| (format!("-{word}"), false))
            }
            _ => self.word().map(|word| (word.to_owned(), false)),
        };
        self.space();
        match fixed {
            Some((label, quoted)) if self.rest().starts_with([',', '}', ':']) => {
                Ok((SliceLabel::Fixed(label), quoted))
            }
            // The word begins an expression.
            _ => {
                self.at = begin;
                self.expression().map(|computed| (SliceLabel::Computed(computed), false))
            }
        }
    }
}
