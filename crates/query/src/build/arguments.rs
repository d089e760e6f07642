//! Arguments of operators: text, numbers, lists, weighted tokens; `@name` is replaced by its parameter.

use super::{BuildResult, ItemBuilder, weights};
use crate::syntax::{SyntaxFault, SyntaxForm, SyntaxNode};
use crate::{QueryNumber, TermText};

impl ItemBuilder<'_> {
    /// Value of the parameter `@name`, which counts as copied.
    pub(super) fn parameter(&self, at: usize, name: &str) -> BuildResult<&str> {
        let text = self.context.parameters.get(name).ok_or_else(|| {
            SyntaxFault::new(at, format!("the request has no parameter '{name}'; add {name}=… beside yql"))
        })?;
        self.context.copies.take(at, text.len())?;
        Ok(text)
    }

    pub(super) fn text(&self, node: &SyntaxNode) -> BuildResult<TermText> {
        let text = match &node.form {
            SyntaxForm::String(text) => text.clone(),
            SyntaxForm::Name(name) => name.clone(),
            SyntaxForm::Number(number) => number.to_string(),
            SyntaxForm::Bool(value) => value.to_string(),
            SyntaxForm::Parameter(name) => self.parameter(node.at, name)?.to_owned(),
            _ => {
                return Err(SyntaxFault::new(
                    node.at,
                    format!("expected text, found {}; for example: \"word\"", node.describe()),
                ));
            }
        };
        let origin = node.annotations.iter().find(|(key, _)| key.eq_ignore_ascii_case("origin"));
        Ok(TermText { text, origin: origin.and_then(|(_, origin)| span(origin)), together: false })
    }

    pub(super) fn number(&self, node: &SyntaxNode) -> BuildResult<QueryNumber> {
        let text = match &node.form {
            SyntaxForm::Number(number) => return Ok(*number),
            SyntaxForm::Negative(number) => return Ok(self.number(number)?.negated()),
            SyntaxForm::String(text) => text,
            SyntaxForm::Parameter(name) => self.parameter(node.at, name)?,
            _ => {
                return Err(SyntaxFault::new(
                    node.at,
                    format!("expected a number, found {}", node.describe()),
                ));
            }
        };
        parse_number(text).ok_or_else(|| {
            SyntaxFault::new(node.at, format!("expected a number, found {text:?} in {}", node.describe()))
        })
    }

    /// Values of `in (…)`.
    pub(super) fn values(&self, nodes: &[SyntaxNode]) -> BuildResult<Vec<String>> {
        let mut values = Vec::with_capacity(nodes.len());
        for node in nodes {
            match &node.form {
                SyntaxForm::Parameter(name) => {
                    let text = self.parameter(node.at, name)?;
                    let more = weights::list(text).map_err(|reason| {
                        SyntaxFault::new(node.at, format!("parameter '{name}': {reason}"))
                    })?;
                    values.extend(more);
                }
                SyntaxForm::List(items) => values.extend(self.values(items)?),
                _ => values.push(self.text(node)?.text),
            }
        }
        Ok(values)
    }

    /// Weighted tokens, from a map, a list of pairs, or a parameter with either.
    pub(super) fn weighted(&self, node: &SyntaxNode, example: &str) -> BuildResult<Vec<(String, f64)>> {
        let wrong = |node: &SyntaxNode| {
            SyntaxFault::new(
                node.at,
                format!("expected tokens with weights, found {}; for example: {example}", node.describe()),
            )
        };
        match &node.form {
            SyntaxForm::Map(entries) => {
                let entry =
                    |(key, value): &(String, SyntaxNode)| Ok((key.clone(), self.number(value)?.as_f64()));
                entries.iter().map(entry).collect()
            }
            SyntaxForm::List(items) => {
                let pair = |item: &SyntaxNode| match &item.form {
                    SyntaxForm::List(pair) if pair.len() == 2 => {
                        Ok((self.text(&pair[0])?.text, self.number(&pair[1])?.as_f64()))
                    }
                    _ => Err(wrong(item)),
                };
                items.iter().map(pair).collect()
            }
            SyntaxForm::Parameter(name) => weights::pairs(self.parameter(node.at, name)?).map_err(|reason| {
                SyntaxFault::new(
                    node.at,
                    format!("parameter '{name}': {reason}; for example: {{token: 3, \"other token\": 1}}"),
                )
            }),
            _ => Err(wrong(node)),
        }
    }
}

/// Parses a YQL number, which may end in `L`.
pub(crate) fn parse_number(text: &str) -> Option<QueryNumber> {
    let text = text.trim();
    let whole = text.strip_suffix(['L', 'l']).unwrap_or(text);
    if let Ok(number) = whole.parse() {
        return Some(QueryNumber::Integer(number));
    }
    text.parse().ok().filter(|number: &f64| !number.is_nan()).map(QueryNumber::Float)
}

/// Range in `origin: {original: "abc", offset: 1, length: 2}`.
fn span(node: &SyntaxNode) -> Option<(u32, u32)> {
    let SyntaxForm::Map(entries) = &node.form else { return None };
    let number = |name: &str| match entries.iter().find(|(key, _)| key == name)?.1.form {
        SyntaxForm::Number(QueryNumber::Integer(number)) => u32::try_from(number).ok(),
        _ => None,
    };
    Some((number("offset")?, number("length")?))
}
