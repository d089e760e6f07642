//! Compilation of tensors and of calls of built-in functions.

mod forms;

use std::collections::HashMap;
use std::sync::Arc;

use millrace_tensor::{DimensionKind, TensorType};

use crate::compile::{CompileNames, ExpressionCompiler};
use crate::functions::{BuiltinFunction, FunctionCode};
use crate::operators::ReduceAggregator;
use crate::program::{CellFunction, NodeId, PinSource, ProgramOp};
use crate::slice::only_dimension;
use crate::syntax::{
    ExpressionKind, ExpressionNode, FunctionArgument, LiteralCell, ParsedExpression, SliceLabel,
};
use crate::tensors::{TensorJoin, TensorReduce, peek_cells, step};
use crate::{Error, ExpressionFault, types};

/// A call under compilation.
struct CompiledCall<'c, 'e> {
    function: &'static BuiltinFunction,
    arguments: &'c [FunctionArgument],
    at: usize,
    env: &'c CompileNames<'e>,
    level: usize,
}

impl CompiledCall<'_, '_> {
    fn error(&self, reason: impl Into<String>) -> Error {
        self.env.error(self.at, format!("{}: {}", self.function.usage, reason.into()))
    }

    fn names(&self, argument: &FunctionArgument) -> Result<Vec<String>, Error> {
        match argument {
            FunctionArgument::Names(names) => {
                Ok(names.iter().flat_map(|name| self.env.names_of(name)).collect())
            }
            FunctionArgument::Value(ExpressionNode { kind: ExpressionKind::Name(name), .. })
                if name.arguments.is_empty() && name.output.is_none() =>
            {
                Ok(self.env.names_of(&name.name))
            }
            FunctionArgument::Value(ExpressionNode { at, .. }) => {
                Err(self.env.error(*at, "expected the name of a dimension"))
            }
            FunctionArgument::Lambda(..) => {
                Err(self.error("expected the name of a dimension, found a function"))
            }
        }
    }

    fn name(&self, argument: &FunctionArgument) -> Result<String, Error> {
        match self.names(argument)?.as_slice() {
            [name] => Ok(name.clone()),
            _ => Err(self.error("expected one name")),
        }
    }

    /// All names among the arguments from `from`.
    fn all_names(&self, from: usize) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for argument in self.arguments.iter().skip(from) {
            names.extend(self.names(argument)?);
        }
        Ok(names)
    }

    fn lambda(&self, at: usize, parameters: usize) -> Result<(&[String], &ExpressionNode), Error> {
        match &self.arguments[at] {
            FunctionArgument::Lambda(names, body) if names.len() == parameters => Ok((names, body)),
            _ => Err(self.error(format!("expected a function of {parameters} cells as argument {}", at + 1))),
        }
    }
}

impl ExpressionCompiler<'_> {
    pub(crate) fn call(
        &mut self,
        function: &'static BuiltinFunction,
        arguments: &[FunctionArgument],
        at: usize,
        env: &CompileNames<'_>,
        level: usize,
    ) -> Result<NodeId, Error> {
        let call = CompiledCall { function, arguments, at, env, level };
        let node = match &function.code {
            FunctionCode::Unary(unary) => {
                let x = self.value(&call, 0)?;
                self.unary(*unary, x, level)
            }
            FunctionCode::Binary(binary) => {
                let (x, y) = (self.value(&call, 0)?, self.value(&call, 1)?);
                self.binary(*binary, x, y, level)
            }
            FunctionCode::BinaryOrReduce(binary, aggregator) => {
                let x = self.value(&call, 0)?;
                let of = self.tensor_type(x, level);
                let names = call.all_names(1).ok().filter(|names| {
                    !of.is_scalar() && names.iter().all(|name| types::dimension(&of, name).is_some())
                });
                match names {
                    Some(names) => self.reduce(*aggregator, x, &names, level),
                    None if arguments.len() == 2 => {
                        let y = self.value(&call, 1)?;
                        self.binary(*binary, x, y, level)
                    }
                    None if arguments.len() == 1 => self.reduce(*aggregator, x, &[], level),
                    None => Err(ExpressionFault::new(format!("{of} lacks one of the dimensions"))),
                }
            }
            FunctionCode::Reduce(aggregator) => {
                let (of, names) = (self.value(&call, 0)?, call.all_names(1)?);
                self.reduce(*aggregator, of, &names, level)
            }
            FunctionCode::Expansion(parameters, body) => return self.expansion(&call, parameters, body),
            FunctionCode::Form(form) => return self.form(&call, *form),
        };
        node.map_err(|reason| call.error(reason))
    }

    fn value(&mut self, call: &CompiledCall<'_, '_>, at: usize) -> Result<NodeId, Error> {
        match call.arguments.get(at) {
            Some(FunctionArgument::Value(expr)) => self.expr(expr, call.env, call.level),
            // `(x)` and similar forms are a value in parentheses; several names are not.
            _ => Err(call.error(format!("expected a value as argument {}", at + 1))),
        }
    }

    fn expansion(
        &mut self,
        call: &CompiledCall<'_, '_>,
        parameters: &[&str],
        body: &str,
    ) -> Result<NodeId, Error> {
        let mut nodes = Vec::new();
        for (i, parameter) in parameters.iter().enumerate() {
            nodes.push(((*parameter).to_owned(), self.value(call, i)?));
        }
        let names = HashMap::from([("dims".to_owned(), call.all_names(parameters.len())?)]);
        // The bodies are part of the function table; a test compiles each of them.
        let body = ParsedExpression::parse(body)?;
        let env = CompileNames::for_expansion(&body, call.level, nodes, names);
        self.expr(&body.root, &env, call.level).map_err(|error| call.error(error.reason()))
    }

    pub(crate) fn join(
        &mut self,
        function: CellFunction,
        a: NodeId,
        b: NodeId,
        level: usize,
    ) -> Result<NodeId, ExpressionFault> {
        let (left, right) = (self.tensor_type(a, level), self.tensor_type(b, level));
        let result = types::join(&left, &right)?;
        let plan = Arc::new(TensorJoin::new(&left, &right, &result));
        Ok(self.build(level).add(ProgramOp::Join(function, plan, a, b), result))
    }

    fn reduce(
        &mut self,
        aggregator: ReduceAggregator,
        of: NodeId,
        over: &[String],
        level: usize,
    ) -> Result<NodeId, ExpressionFault> {
        let before = self.tensor_type(of, level);
        let result = types::reduce(&before, over)?;
        let plan = Arc::new(TensorReduce::new(aggregator, &before, &result));
        Ok(self.build(level).add(ProgramOp::Reduce(plan, of), result))
    }

    pub(crate) fn generate(
        &mut self,
        tensor_type: &TensorType,
        body: &ExpressionNode,
        at: usize,
        env: &CompileNames<'_>,
        level: usize,
    ) -> Result<NodeId, Error> {
        types::dense_cells(tensor_type).map_err(|reason| env.error(at, reason))?;
        let names: Vec<String> = tensor_type.indexed().map(|(name, _)| name.to_owned()).collect();
        let (program, captured) =
            self.program(&names, &vec![TensorType::scalar(); names.len()], body, env, true)?;
        if !program.tensor_type().is_scalar() {
            let reason =
                format!("the cells of a generated tensor are numbers, found {}", program.tensor_type());
            return Err(env.error(body.at, reason));
        }
        let indices = tensor_type
            .indexed()
            .map(|(name, size)| {
                let step = step(tensor_type, name);
                (0..tensor_type.dense_size()).map(|cell| (cell / step % size) as f64).collect()
            })
            .collect();
        let op = ProgramOp::Generate(Arc::new(program), Arc::new(indices), captured);
        Ok(self.build(level).add(op, tensor_type.clone()))
    }

    pub(crate) fn literal(
        &mut self,
        tensor_type: &TensorType,
        cells: &[LiteralCell],
        at: usize,
        env: &CompileNames<'_>,
        level: usize,
    ) -> Result<NodeId, Error> {
        let size = types::dense_cells(tensor_type).map_err(|reason| env.error(at, reason))?;
        let zero = self.build(level).number(0.0);
        let mut subspaces: HashMap<&[String], usize> = HashMap::new();
        let (mut labels, mut nodes): (Vec<Arc<str>>, _) = (Vec::new(), Vec::new());
        if tensor_type.mapped().next().is_none() {
            subspaces.insert(&[], 0);
            nodes.resize(size, zero);
        }
        for cell in cells {
            let next = nodes.len() / size;
            let subspace = *subspaces.entry(&cell.labels).or_insert(next);
            if subspace == next {
                labels.extend(cell.labels.iter().map(|label| Arc::from(label.as_str())));
                nodes.resize(nodes.len() + size, zero);
            }
            let value = self.expr(&cell.value, env, level)?;
            let value_type = self.tensor_type(value, level);
            if !value_type.is_scalar() {
                let reason = format!("the cells of a tensor are numbers, found {value_type}");
                return Err(env.error(cell.value.at, reason));
            }
            nodes[subspace * size + cell.index] = value;
        }
        Ok(self.build(level).add(ProgramOp::Create(Arc::new(labels), nodes), tensor_type.clone()))
    }

    pub(crate) fn slice(
        &mut self,
        of: &ExpressionNode,
        address: &[(Option<String>, SliceLabel)],
        at: usize,
        env: &CompileNames<'_>,
        level: usize,
    ) -> Result<NodeId, Error> {
        let tensor = self.expr(of, env, level)?;
        let tensor_type = self.tensor_type(tensor, level);
        let (mut pins, mut addressed) = (Vec::new(), Vec::new());
        for (name, label) in address {
            let dimension = match name {
                Some(name) => types::dimension(&tensor_type, name),
                None => only_dimension(&tensor_type, (address.len() == 1).then_some(label)),
            };
            let Some(dimension) = dimension else {
                let reason = match name {
                    Some(name) => format!("{tensor_type} has no dimension '{name}'"),
                    None => {
                        format!("{tensor_type} has several dimensions or none: name the one, as in t{{x:0}}")
                    }
                };
                return Err(env.error(at, reason));
            };
            let position = || tensor_type.mapped().position(|d| d.name == dimension.name).unwrap_or_default();
            let pin = match (dimension.kind, label) {
                (DimensionKind::Mapped, SliceLabel::Fixed(label) | SliceLabel::Quoted(label)) => {
                    PinSource::Label(position(), label.as_str().into())
                }
                (DimensionKind::Mapped, SliceLabel::Computed(expr)) => {
                    PinSource::ComputedLabel(position(), self.index(expr, env, level)?)
                }
                (DimensionKind::Indexed(size), label) => {
                    let step = step(&tensor_type, &dimension.name);
                    match label {
                        SliceLabel::Fixed(label) | SliceLabel::Quoted(label) => {
                            let index = label
                                .parse()
                                .ok()
                                .filter(|index: &f64| *index >= 0.0 && *index < size as f64);
                            let index = index.ok_or_else(|| {
                                env.error(at, format!("{}[{size}] has no index '{label}'", dimension.name))
                            })?;
                            PinSource::Index { step, size, index: index.floor() }
                        }
                        SliceLabel::Computed(expr) => {
                            PinSource::ComputedIndex { step, size, index: self.index(expr, env, level)? }
                        }
                    }
                }
            };
            pins.push(pin);
            addressed.push(dimension.name.clone());
        }
        let result = types::peek(&tensor_type, &addressed).map_err(|reason| env.error(at, reason))?;
        let cells = Arc::new(peek_cells(&tensor_type, &result));
        Ok(self.build(level).add(ProgramOp::Peek(tensor, pins, cells), result))
    }

    /// A number used as a label.
    fn index(
        &mut self,
        expr: &ExpressionNode,
        env: &CompileNames<'_>,
        level: usize,
    ) -> Result<NodeId, Error> {
        let id = self.expr(expr, env, level)?;
        let tensor_type = self.tensor_type(id, level);
        if tensor_type.is_scalar() {
            return Ok(id);
        }
        Err(env.error(expr.at, format!("a label must be a number, found {tensor_type}")))
    }
}
