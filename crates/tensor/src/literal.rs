//! Literal form of tensors in queries and constants.

use std::fmt;

use crate::address::TensorAddress;
use crate::size::TensorSize;
use crate::{
    CellType, DimensionKind, Error, Tensor, TensorBuilder, TensorCells, TensorDimension, TensorType,
    WrittenOrder,
};

impl Tensor {
    /// Parses the literal form: `tensor(x[2]):[1,2]`, `{ {x:a}:1, {x:b}:2 }`, `{a:1,b:2}`, `{a:[1,2]}`,
    /// `[[1,2],[3,4]]`, hexadecimal digits for dense cells, or a number.
    ///
    /// - With `declared` the value has that type; a type in the text must have the same dimensions.
    /// - Without any type only the form with full addresses is valid; its dimensions are mapped and its cells
    ///   `double`.
    ///
    /// # Errors
    /// [`Error::Value`] with the position of the first invalid character.
    pub fn parse(text: &str, declared: Option<&TensorType>) -> Result<Tensor, Error> {
        let (spec, body) = split_type(text);
        let written = spec.map(TensorType::parse).transpose()?;
        let tensor_type = match (declared, &written) {
            (Some(declared), Some(written)) if declared.dimensions() != written.dimensions() => {
                return Err(Error::Value {
                    tensor_type: declared.to_string(),
                    reason: format!("the text is a {written}"),
                });
            }
            (Some(declared), _) => Some(declared),
            (None, written) => written.as_ref(),
        };
        let mut parser = LiteralParser { text, at: text.len() - body.len(), tensor_type };
        let tensor = match tensor_type {
            Some(tensor_type) => {
                let order = match spec {
                    Some(spec) => WrittenOrder::parse(spec, tensor_type),
                    None => WrittenOrder::of_type(tensor_type),
                };
                parser.typed(tensor_type, &order)
            }
            None => parser.untyped(),
        }?;
        parser.skip_space();
        if parser.at < text.len() { Err(parser.fail("text after the value")) } else { Ok(tensor) }
    }
}

/// Splits a literal into the optional type and the value; the separating colon is the first after the type's
/// closing parenthesis.
fn split_type(text: &str) -> (Option<&str>, &str) {
    let trimmed = text.trim_start();
    if !trimmed.starts_with("tensor") {
        return (None, text);
    }
    match trimmed.find(')').and_then(|end| trimmed[end + 1..].find(':').map(|colon| end + 1 + colon)) {
        Some(colon) => (Some(&trimmed[..colon]), &trimmed[colon + 1..]),
        None => (None, text),
    }
}

struct LiteralParser<'t> {
    text: &'t str,
    at: usize,
    tensor_type: Option<&'t TensorType>,
}

impl<'t> LiteralParser<'t> {
    fn typed(&mut self, tensor_type: &'t TensorType, order: &WrittenOrder) -> Result<Tensor, Error> {
        let mut builder = TensorBuilder::new(tensor_type);
        let mapped = tensor_type.mapped().count();
        if self.peek() == Some('{') {
            self.at += 1;
            if self.peek() == Some('{') {
                self.addressed_cells(|parser, pairs, value| {
                    let pairs = pairs.iter().map(|(name, label)| (name.as_str(), label.as_str()));
                    let cell =
                        TensorAddress::resolve(tensor_type, pairs).and_then(|at| at.into_cell(tensor_type));
                    let (labels, index) = cell.map_err(|error| parser.fail_with(error))?;
                    builder.cell(labels, index, value)
                })?;
            } else if mapped > 0 {
                self.labelled(order, &mut builder, &mut Vec::new(), tensor_type)?;
            } else if tensor_type.is_scalar() && self.peek() != Some('}') {
                let value = self.number()?;
                builder.cell(Vec::new(), 0, value).map_err(|error| self.fail_with(error))?;
                self.expect('}')?;
            } else {
                self.expect('}')?;
            }
            return Ok(builder.finish());
        }
        if mapped > 0 {
            return Err(self.fail("expected '{'"));
        }
        let block = self.block(tensor_type, order)?;
        builder.block(Vec::new(), &block).map_err(|error| self.fail_with(error))?;
        Ok(builder.finish())
    }

    fn untyped(&mut self) -> Result<Tensor, Error> {
        match self.peek() {
            Some('[') => Err(self.fail("a list of cells needs a type, as in tensor(x[2]):[1,2]")),
            Some('{') => {
                self.at += 1;
                self.addresses_without_type()
            }
            _ => Ok(Tensor::scalar(self.number()?)),
        }
    }

    fn addresses_without_type(&mut self) -> Result<Tensor, Error> {
        let mut cells: Vec<(Vec<(String, String)>, f64)> = Vec::new();
        let (mut size, scalar) = (TensorSize::default(), TensorType::scalar());
        match self.peek() {
            Some('{') => self.addressed_cells(|_, pairs, value| {
                size.add(
                    &scalar,
                    pairs.iter().flat_map(|(name, label)| [name.as_str(), label.as_str()]),
                    1,
                    0,
                )?;
                cells.push((pairs, value));
                Ok(())
            })?,
            Some('}') => self.at += 1,
            _ => return Err(self.fail("labels alone need a type, as in tensor(x{}):{a:1}")),
        }
        let first = cells.first().map(|(pairs, _)| pairs.as_slice()).unwrap_or_default();
        let dimensions = first
            .iter()
            .map(|(name, _)| TensorDimension { name: name.clone(), kind: DimensionKind::Mapped })
            .collect();
        let tensor_type = TensorType::new(CellType::Double, dimensions)?;
        let mut builder = TensorBuilder::new(&tensor_type);
        for (pairs, value) in &cells {
            let pairs = pairs.iter().map(|(name, label)| (name.as_str(), label.as_str()));
            let cell = TensorAddress::resolve(&tensor_type, pairs).and_then(|at| at.into_cell(&tensor_type));
            let (labels, index) = cell.map_err(|error| self.fail_with(error))?;
            builder.cell(labels, index, *value)?;
        }
        Ok(builder.finish())
    }

    /// Parses `{x:a,y:b}:1, …}`, after the outer brace.
    fn addressed_cells(
        &mut self,
        mut cell: impl FnMut(&Self, Vec<(String, String)>, f64) -> Result<(), Error>,
    ) -> Result<(), Error> {
        loop {
            self.expect('{')?;
            let mut pairs = Vec::new();
            while self.peek() != Some('}') {
                let name = self.label()?;
                self.expect(':')?;
                pairs.push((name, self.label()?));
                if self.peek() != Some('}') {
                    self.expect(',')?;
                }
            }
            self.expect('}')?;
            self.expect(':')?;
            let value = self.number()?;
            cell(self, pairs, value)?;
            if self.peek() == Some('}') {
                return self.expect('}');
            }
            self.expect(',')?;
        }
    }

    /// Parses `a:1, b:[1,2], …}`, or with several mapped dimensions `a:{b:…}`; after the outer brace.
    fn labelled(
        &mut self,
        order: &WrittenOrder,
        builder: &mut TensorBuilder<'t>,
        labels: &mut Vec<String>,
        tensor_type: &'t TensorType,
    ) -> Result<(), Error> {
        while self.peek() != Some('}') {
            labels.push(self.label()?);
            self.expect(':')?;
            if labels.len() < tensor_type.mapped().count() {
                self.expect('{')?;
                self.labelled(order, builder, labels, tensor_type)?;
            } else {
                let block = self.block(tensor_type, order)?;
                builder.block(order.labels(labels), &block).map_err(|error| self.fail_with(error))?;
            }
            labels.pop();
            if self.peek() != Some('}') {
                self.expect(',')?;
            }
        }
        self.expect('}')
    }

    /// Parses the cells of one subspace.
    fn block(&mut self, tensor_type: &TensorType, order: &WrittenOrder) -> Result<TensorCells, Error> {
        let sizes = order.written_sizes();
        let mut cells =
            TensorCells::with_capacity(tensor_type.cell(), tensor_type.dense_size().min(self.text.len()));
        if sizes.is_empty() {
            self.cell(&mut cells)?;
        } else if self.peek() == Some('[') {
            self.list(&sizes, &mut cells)?;
        } else {
            let digits = self.word();
            let Some(read) = TensorCells::from_hex(tensor_type.cell(), tensor_type.dense_size(), digits)
            else {
                return Err(self.fail("expected '[' or hexadecimal digits"));
            };
            cells = read;
        }
        Ok(if order.keeps_cells() { cells } else { in_type_order(&cells, order) })
    }

    /// Parses `[…]` over the outermost of `sizes`: nested lists, or all cells flat.
    fn list(&mut self, sizes: &[usize], cells: &mut TensorCells) -> Result<(), Error> {
        self.expect('[')?;
        let before = cells.len();
        while self.peek() != Some(']') {
            if self.peek() != Some('[') {
                self.cell(cells)?;
            } else if sizes.len() > 1 {
                self.list(&sizes[1..], cells)?;
            } else {
                return Err(self.fail("lists are nested deeper than the type"));
            }
            if self.peek() != Some(']') {
                self.expect(',')?;
            }
        }
        self.expect(']')?;
        let (expected, got) = (sizes.iter().product::<usize>(), cells.len() - before);
        if expected == got { Ok(()) } else { Err(self.fail(format!("expected {expected} cells, got {got}"))) }
    }

    fn cell(&mut self, cells: &mut TensorCells) -> Result<(), Error> {
        let value = self.number()?;
        if cells.try_push(value) {
            Ok(())
        } else {
            Err(self.fail(format!("{value} is out of the range of a {} cell", cells.cell_type().name())))
        }
    }

    fn number(&mut self) -> Result<f64, Error> {
        let word = self.word();
        word.parse().map_err(|_| self.fail(format!("expected a number, got '{word}'")))
    }

    /// Reads the text up to a separator.
    fn word(&mut self) -> &'t str {
        self.skip_space();
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, ',' | ':' | '{' | '}' | '[' | ']'))
            .unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Parses a dimension name or a label, optionally quoted; a quote or backslash inside is written `\'`,
    /// `\"`, `\\`.
    fn label(&mut self) -> Result<String, Error> {
        let Some(quote @ ('\'' | '"')) = self.peek() else {
            let word = self.word();
            return if word.is_empty() { Err(self.fail("expected a label")) } else { Ok(word.to_owned()) };
        };
        let mut label = String::new();
        let mut escaped = false;
        for (at, c) in self.text[self.at..].char_indices().skip(1) {
            match c {
                _ if escaped => {
                    label.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                _ if c == quote => {
                    self.at += at + 1;
                    return Ok(label);
                }
                _ => label.push(c),
            }
        }
        Err(self.fail(format!("{quote} is not closed")))
    }

    fn expect(&mut self, wanted: char) -> Result<(), Error> {
        if self.peek() == Some(wanted) {
            self.at += wanted.len_utf8();
            Ok(())
        } else {
            Err(self.fail(format!("expected '{wanted}'")))
        }
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.text[self.at..].chars().next()
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn fail_with(&self, error: Error) -> Error {
        match error {
            Error::Value { reason, .. } => self.fail(reason),
            other => other,
        }
    }

    fn fail(&self, reason: impl fmt::Display) -> Error {
        Error::Value {
            tensor_type: self.tensor_type.map_or_else(|| "tensor".to_owned(), TensorType::to_string),
            reason: format!(
                "{reason} (at character {}){}",
                self.text[..self.at].chars().count() + 1,
                self.tensor_type.map_or_else(String::new, |known| format!("; write {}", example(known)))
            ),
        }
    }
}

/// Brings the cells of one subspace from the written order into that of the type.
fn in_type_order(written: &TensorCells, order: &WrittenOrder) -> TensorCells {
    let mut order_of_cells: Vec<(usize, usize)> = (0..written.len()).map(|at| (order.cell(at), at)).collect();
    order_of_cells.sort_unstable();
    let mut cells = TensorCells::with_capacity(written.cell_type(), written.len());
    for (_, at) in order_of_cells {
        // It was a cell of this type before.
        let _ = cells.try_push(written.get(at));
    }
    cells
}

/// Example of a literal of the type, as the end of a sentence.
fn example(tensor_type: &TensorType) -> String {
    const WRITTEN_OUT: usize = 4;
    let size = tensor_type.dense_size();
    let dense = match tensor_type.indexed().count() {
        0 => "1.5".to_owned(),
        _ if size <= WRITTEN_OUT => {
            format!("[{}]", ["0.1", "0.2", "0.3", "0.4"].into_iter().take(size).collect::<Vec<_>>().join(","))
        }
        _ => "[0.1,0.2,…]".to_owned(),
    };
    // Labels are arbitrary, so any word is an example.
    let labels = tensor_type.mapped().zip('a'..).map(|(_, label)| label);
    let (opened, closed): (String, String) = labels.map(|label| (format!("{{{label}:"), '}')).unzip();
    let cells = if size > WRITTEN_OUT { format!(" with all {size} numbers") } else { String::new() };
    format!("for example {opened}{dense}{closed}{cells}")
}
