//! Tensor literals and generators: `tensor(…)(…)` and `tensor(…):…`.

use millrace_tensor::{DimensionKind, TensorType, WrittenOrder};

use crate::Error;
use crate::parser::{self, ExpressionParser};
use crate::syntax::{ExpressionKind, ExpressionNode, LiteralCell};
use crate::types::dense_cells;

impl ExpressionParser<'_> {
    /// Parses the text after the word `tensor`: a type, and either a generator or cells.
    pub(crate) fn tensor(&mut self, at: usize) -> Result<ExpressionNode, Error> {
        let (tensor_type, order) = self.written_type()?;
        dense_cells(&tensor_type).map_err(|reason| self.error_at(at, reason))?;
        if self.cursor.take("(") {
            if let Some(mapped) = tensor_type.mapped().next() {
                let reason =
                    format!("a generated tensor has indexed dimensions only; '{}' is mapped", mapped.name);
                return Err(self.error_at(at, reason));
            }
            let body = self.expression()?;
            self.expect(")")?;
            return Ok(ExpressionNode { at, kind: ExpressionKind::Generate(tensor_type, Box::new(body)) });
        }
        self.expect(":")?;
        let mut literal = LiteralCells { tensor_type: &tensor_type, order: &order, cells: Vec::new() };
        self.cursor.skip_blanks();
        match self.cursor.peek() {
            Some('{') => literal.map(self, &mut Vec::new())?,
            Some('[') if tensor_type.mapped().next().is_none() => literal.dense(self, &[])?,
            _ if tensor_type.is_scalar() => literal.cell(self, &[], 0)?,
            _ => return Err(self.expected("the cells in '{' or '['")),
        }
        let cells = literal.cells;
        Ok(ExpressionNode { at, kind: ExpressionKind::Literal(tensor_type, cells) })
    }

    /// Parses `(x[2],y[3])` with an optional cell type before it, if that is next.
    pub(crate) fn dimensions(&mut self) -> Option<TensorType> {
        let before = self.cursor.offset();
        let rest = self.cursor.rest();
        let found =
            rest.find(']').filter(|end| rest[..*end].contains('[')).and_then(|_| self.tensor_type().ok());
        if found.is_none() {
            self.cursor.go_to(before);
        }
        found
    }

    /// A tensor whose cells are computed from their indexes.
    pub(crate) fn generated(
        &mut self,
        at: usize,
        generator: TypedGenerator,
        tensor_type: TensorType,
    ) -> Result<ExpressionNode, Error> {
        dense_cells(&tensor_type).map_err(|reason| self.error_at(at, reason))?;
        let names: Vec<&str> = tensor_type.indexed().map(|(name, _)| name).collect();
        if names.is_empty() || tensor_type.mapped().next().is_some() {
            return Err(self.error_at(at, format!("expected indexed dimensions, found {tensor_type}")));
        }
        let body = match generator {
            TypedGenerator::Range => names.join("+"),
            TypedGenerator::Diag if names.len() == 1 => "1".to_owned(),
            TypedGenerator::Diag => names
                .windows(2)
                .map(|pair| format!("({}=={})", pair[0], pair[1]))
                .collect::<Vec<_>>()
                .join("*"),
            TypedGenerator::Random => {
                let index = tensor_type
                    .indexed()
                    .fold("0".to_owned(), |index, (name, size)| format!("({index})*{size}+{name}"));
                format!("fmod(random*9176263*sqrt(2+{index}),1)")
            }
        };
        let body = parser::parse(&body)?.root;
        Ok(ExpressionNode { at, kind: ExpressionKind::Generate(tensor_type, Box::new(body)) })
    }
}

/// A function whose argument is the type of its result.
#[derive(Clone, Copy)]
pub(crate) enum TypedGenerator {
    /// The sum of the indexes.
    Range,
    /// 1 where all indexes are equal, and 0 elsewhere.
    Diag,
    /// Numbers from 0 to 1. The feature `random` is one number for each document: each cell has the fraction
    /// of another large multiple of it. Roots have few whole ratios, so that no cell tells of another.
    Random,
}

impl TypedGenerator {
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "range" => Some(TypedGenerator::Range),
            "diag" => Some(TypedGenerator::Diag),
            "random" => Some(TypedGenerator::Random),
            _ => None,
        }
    }
}

/// Collector for the cells of one literal.
struct LiteralCells<'t> {
    tensor_type: &'t TensorType,
    /// Order of the labels and cells in nested lists.
    order: &'t WrittenOrder,
    cells: Vec<LiteralCell>,
}

impl LiteralCells<'_> {
    fn cell(
        &mut self,
        parser: &mut ExpressionParser<'_>,
        labels: &[String],
        index: usize,
    ) -> Result<(), Error> {
        let value = parser.expression()?;
        self.cells.push(LiteralCell { labels: labels.to_vec(), index, value });
        Ok(())
    }

    /// Parses `{…}`: full addresses, or (nested) labels of the mapped dimensions in order.
    fn map(&mut self, parser: &mut ExpressionParser<'_>, outer: &mut Vec<String>) -> Result<(), Error> {
        parser.expect("{")?;
        let mapped = self.tensor_type.mapped().count();
        while !parser.cursor.take("}") {
            parser.cursor.skip_blanks();
            if outer.is_empty() && parser.cursor.rest().starts_with('{') {
                self.address(parser)?;
            } else {
                let at = parser.cursor.offset();
                let label = self.label(parser)?;
                parser.expect(":")?;
                if outer.len() == mapped {
                    // One indexed dimension, addressed like a mapped one: {0:1.5, 1:2}.
                    let index = self.index(&label).ok_or_else(|| {
                        parser.error_at(
                            at,
                            format!("{} has no mapped dimension for label '{label}'", self.tensor_type),
                        )
                    })?;
                    self.cell(parser, &outer.clone(), index)?;
                } else {
                    outer.push(label);
                    parser.cursor.skip_blanks();
                    if outer.len() < mapped {
                        self.map(parser, outer)?;
                    } else if parser.cursor.rest().starts_with('[') {
                        self.dense(parser, &self.order.labels(outer))?;
                    } else if self.tensor_type.dense_size() == 1 {
                        self.cell(parser, &self.order.labels(outer), 0)?;
                    } else {
                        return Err(parser.expected("the cells of the indexed dimensions in '['"));
                    }
                    outer.pop();
                }
            }
            if !parser.cursor.take(",") {
                parser.expect("}")?;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Index in the only dimension, if that is indexed and contains it.
    fn index(&self, label: &str) -> Option<usize> {
        let mut indexed = self.tensor_type.indexed();
        let (_, size) = indexed.next().filter(|_| self.tensor_type.dimensions().len() == 1)?;
        label.parse().ok().filter(|index| *index < size)
    }

    /// Parses `{x:a,y:1}:value`.
    fn address(&mut self, parser: &mut ExpressionParser<'_>) -> Result<(), Error> {
        let at = parser.cursor.offset();
        parser.expect("{")?;
        let mut given: Vec<(String, String)> = Vec::new();
        while !parser.cursor.take("}") {
            let dimension = self.label(parser)?;
            parser.expect(":")?;
            given.push((dimension, self.label(parser)?));
            if !parser.cursor.take(",") {
                parser.expect("}")?;
                break;
            }
        }
        parser.expect(":")?;
        let (mut labels, mut cell) = (Vec::new(), 0);
        for dimension in self.tensor_type.dimensions() {
            let Some((_, label)) = given.iter().find(|(name, _)| *name == dimension.name) else {
                return Err(parser.error_at(at, format!("the address lacks dimension '{}'", dimension.name)));
            };
            match dimension.kind {
                DimensionKind::Mapped => labels.push(label.clone()),
                DimensionKind::Indexed(size) => match label.parse::<usize>() {
                    Ok(index) if index < size => cell = cell * size + index,
                    _ => {
                        let reason = format!("{}[{size}] has no index '{label}'", dimension.name);
                        return Err(parser.error_at(at, reason));
                    }
                },
            }
        }
        if given.len() != self.tensor_type.dimensions().len() {
            return Err(parser.error_at(at, format!("the address does not fit {}", self.tensor_type)));
        }
        self.cell(parser, &labels, cell)
    }

    /// Parses `[…]`, nested like the indexed dimensions, or flat.
    fn dense(&mut self, parser: &mut ExpressionParser<'_>, labels: &[String]) -> Result<(), Error> {
        let at = parser.cursor.offset();
        let expected = self.tensor_type.dense_size();
        let nesting = self.tensor_type.indexed().count();
        let (mut depth, mut cell) = (0, 0);
        loop {
            if parser.cursor.take("[") {
                depth += 1;
                if depth > nesting {
                    return Err(parser.expected("a number: there are more '[' than indexed dimensions"));
                }
            } else {
                self.cell(parser, labels, self.order.cell(cell.min(expected - 1)))?;
                cell += 1;
                while depth > 0 && parser.cursor.take("]") {
                    depth -= 1;
                }
                if depth == 0 {
                    break;
                }
                parser.expect(",")?;
            }
        }
        if cell == expected {
            return Ok(());
        }
        Err(parser
            .error_at(at, format!("{} has {expected} cells in a subspace, found {cell}", self.tensor_type)))
    }

    fn label(&mut self, parser: &mut ExpressionParser<'_>) -> Result<String, Error> {
        parser.cursor.skip_blanks();
        if parser.cursor.rest().starts_with(['"', '\'']) {
            return parser.quoted();
        }
        let minus = if parser.cursor.take("-") { "-" } else { "" };
        parser.word().map(|word| format!("{minus}{word}")).ok_or_else(|| parser.expected("a label"))
    }
}
