//! Arguments of operators: text, numbers, lists, weighted tokens; `@name` is replaced by its parameter.

use super::{Builder, Built, weights};
use crate::syntax::{Fault, Form, Node};
use crate::{Number, TermText};

impl Builder<'_> {
    /// Value of the parameter `@name`.
    pub(super) fn parameter(&self, at: usize, name: &str) -> Built<&str> {
        self.context.parameters.get(name).map(String::as_str).ok_or_else(|| {
            Fault::new(at, format!("the request has no parameter '{name}'; add {name}=… beside yql"))
        })
    }

    pub(super) fn text(&self, node: &Node) -> Built<TermText> {
        let text = match &node.form {
            Form::String(text) => text.clone(),
            Form::Name(name) => name.clone(),
            Form::Number(number) => number.to_string(),
            Form::Bool(value) => value.to_string(),
            Form::Parameter(name) => self.parameter(node.at, name)?.to_owned(),
            _ => {
                return Err(Fault::new(
                    node.at,
                    format!("expected text, found {}; for example: \"word\"", node.describe()),
                ));
            }
        };
        let origin = node.annotations.iter().find(|(key, _)| key.eq_ignore_ascii_case("origin"));
        Ok(TermText { text, origin: origin.and_then(|(_, origin)| span(origin)) })
    }

    pub(super) fn number(&self, node: &Node) -> Built<Number> {
        let text = match &node.form {
            Form::Number(number) => return Ok(*number),
            Form::String(text) => text,
            Form::Parameter(name) => self.parameter(node.at, name)?,
            _ => return Err(Fault::new(node.at, format!("expected a number, found {}", node.describe()))),
        };
        parse_number(text).ok_or_else(|| {
            Fault::new(node.at, format!("expected a number, found {text:?} in {}", node.describe()))
        })
    }

    /// Values of `in (…)`.
    pub(super) fn values(&self, nodes: &[Node]) -> Built<Vec<String>> {
        let mut values = Vec::with_capacity(nodes.len());
        for node in nodes {
            match &node.form {
                Form::Parameter(name) => {
                    let text = self.parameter(node.at, name)?;
                    let more = weights::list(text)
                        .map_err(|reason| Fault::new(node.at, format!("parameter '{name}': {reason}")))?;
                    values.extend(more);
                }
                Form::List(items) => values.extend(self.values(items)?),
                _ => values.push(self.text(node)?.text),
            }
        }
        Ok(values)
    }

    /// Weighted tokens, from a map, a list of pairs, or a parameter with either.
    pub(super) fn weighted(&self, node: &Node, example: &str) -> Built<Vec<(String, f64)>> {
        let wrong = |node: &Node| {
            Fault::new(
                node.at,
                format!("expected tokens with weights, found {}; for example: {example}", node.describe()),
            )
        };
        match &node.form {
            Form::Map(entries) => {
                let entry = |(key, value): &(String, Node)| Ok((key.clone(), self.number(value)?.as_f64()));
                entries.iter().map(entry).collect()
            }
            Form::List(items) => {
                let pair = |item: &Node| match &item.form {
                    Form::List(pair) if pair.len() == 2 => {
                        Ok((self.text(&pair[0])?.text, self.number(&pair[1])?.as_f64()))
                    }
                    _ => Err(wrong(item)),
                };
                items.iter().map(pair).collect()
            }
            Form::Parameter(name) => weights::pairs(self.parameter(node.at, name)?).map_err(|reason| {
                Fault::new(
                    node.at,
                    format!("parameter '{name}': {reason}; for example: {{token: 3, \"other token\": 1}}"),
                )
            }),
            _ => Err(wrong(node)),
        }
    }
}

/// Parses a YQL number, which may end in `L`.
pub(crate) fn parse_number(text: &str) -> Option<Number> {
    let text = text.trim();
    let whole = text.strip_suffix(['L', 'l']).unwrap_or(text);
    if let Ok(number) = whole.parse() {
        return Some(Number::Integer(number));
    }
    text.parse().ok().filter(|number: &f64| !number.is_nan()).map(Number::Float)
}

/// Range in `origin: {original: "abc", offset: 1, length: 2}`.
fn span(node: &Node) -> Option<(u32, u32)> {
    let Form::Map(entries) = &node.form else { return None };
    let number = |name: &str| match entries.iter().find(|(key, _)| key == name)?.1.form {
        Form::Number(Number::Integer(number)) => u32::try_from(number).ok(),
        _ => None,
    };
    Some((number("offset")?, number("length")?))
}
