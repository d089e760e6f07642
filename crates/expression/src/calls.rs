//! Compilation of tensors and of calls of built-in functions.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_tensor::{CellType, DimensionKind, TensorDimension, TensorType};

use crate::compile::{CompileNames, ExpressionCompiler};
use crate::functions::{BuiltinFunction, FunctionCode, FunctionForm};
use crate::operators::ReduceAggregator;
use crate::program::{CellFunction, NodeId, PinSource, ProgramOp};
use crate::slice::only_dimension;
use crate::syntax::{
    ExpressionKind, ExpressionNode, FunctionArgument, LiteralCell, ParsedExpression, SliceLabel,
};
use crate::tensors::{TensorConcat, TensorJoin, TensorReduce, TensorRename, peek_cells, step};
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

    fn form(&mut self, call: &CompiledCall<'_, '_>, form: FunctionForm) -> Result<NodeId, Error> {
        let (level, arguments) = (call.level, call.arguments);
        let fail = |fault: ExpressionFault| call.error(fault);
        match form {
            FunctionForm::Map => {
                let of = self.value(call, 0)?;
                let (names, body) = call.lambda(1, 1)?;
                let function = self.cell_function(names, body, call, 1)?;
                let result = types::map(&self.tensor_type(of, level)).map_err(fail)?;
                Ok(self.build(level).add(ProgramOp::Map(function, of), result))
            }
            FunctionForm::Join => {
                let (a, b) = (self.value(call, 0)?, self.value(call, 1)?);
                let (names, body) = call.lambda(2, 2)?;
                let function = self.cell_function(names, body, call, 2)?;
                self.join(function, a, b, level).map_err(fail)
            }
            FunctionForm::Merge => {
                let (a, b) = (self.value(call, 0)?, self.value(call, 1)?);
                let (names, body) = call.lambda(2, 2)?;
                let function = self.cell_function(names, body, call, 2)?;
                let result =
                    types::merge(&self.tensor_type(a, level), &self.tensor_type(b, level)).map_err(fail)?;
                Ok(self.build(level).add(ProgramOp::Merge(function, a, b), result))
            }
            FunctionForm::Reduce => {
                let of = self.value(call, 0)?;
                let name = call.name(&arguments[1])?;
                let aggregator = ReduceAggregator::of_name(&name).ok_or_else(|| {
                    let known = ReduceAggregator::NAMES.map(|(name, _)| name).join(", ");
                    call.error(format!("'{name}' is not an aggregator; there are {known}"))
                })?;
                let names = call.all_names(2)?;
                self.reduce(aggregator, of, &names, level).map_err(fail)
            }
            FunctionForm::Rename => {
                let of = self.value(call, 0)?;
                let (from, to) = (call.names(&arguments[1])?, call.names(&arguments[2])?);
                let before = self.tensor_type(of, level);
                let result = types::rename(&before, &from, &to).map_err(fail)?;
                let plan = Arc::new(TensorRename::new(&before, &from, &to, &result));
                Ok(self.build(level).add(ProgramOp::Rename(plan, of), result))
            }
            FunctionForm::Concat => {
                let (a, b) = (self.value(call, 0)?, self.value(call, 1)?);
                let along = call.name(&arguments[2])?;
                let (left, right) = (self.tensor_type(a, level), self.tensor_type(b, level));
                let result = types::concat(&left, &right, &along).map_err(fail)?;
                let plan = Arc::new(TensorConcat::new(&left, &right, &along, &result));
                Ok(self.build(level).add(ProgramOp::Concat(plan, a, b), result))
            }
            FunctionForm::CellCast => {
                let of = self.value(call, 0)?;
                let cell = self.cell_name(call, 1)?;
                let result = types::cast(&self.tensor_type(of, level), cell).map_err(fail)?;
                Ok(self.build(level).add(ProgramOp::Cast(of), result))
            }
            FunctionForm::CellOrder => {
                let of = self.value(call, 0)?;
                let largest_first = match call.name(&arguments[1])?.as_str() {
                    "max" => true,
                    "min" => false,
                    other => return Err(call.error(format!("the order is max or min, found '{other}'"))),
                };
                let result = types::map(&self.tensor_type(of, level)).map_err(fail)?;
                Ok(self.build(level).add(ProgramOp::CellOrder { largest_first, of }, result))
            }
            FunctionForm::UnpackBits => {
                let of = self.value(call, 0)?;
                let cell = if arguments.len() > 1 { self.cell_name(call, 1)? } else { CellType::Float };
                let endian = if arguments.len() > 2 { call.name(&arguments[2])? } else { "big".to_owned() };
                let lowest_first = match endian.as_str() {
                    "big" => false,
                    "little" => true,
                    other => {
                        return Err(call.error(format!("the bit order is big or little, found '{other}'")));
                    }
                };
                let result = types::unpack_bits(&self.tensor_type(of, level), cell).map_err(fail)?;
                Ok(self.build(level).add(ProgramOp::UnpackBits { lowest_first, of }, result))
            }
            FunctionForm::MapSubspaces => {
                let of = self.value(call, 0)?;
                let (names, body) = call.lambda(1, 1)?;
                let outer = self.tensor_type(of, level);
                let subspace = types::subspace(&outer).map_err(fail)?;
                let function = self.lambda(names, &[subspace], body, call.env)?;
                let result = types::map_subspaces(&outer, function.tensor_type()).map_err(fail)?;
                Ok(self.build(level).add(ProgramOp::MapSubspaces(Arc::new(function), of), result))
            }
            FunctionForm::FilterSubspaces => {
                let of = self.value(call, 0)?;
                let (names, body) = call.lambda(1, 1)?;
                let outer = self.tensor_type(of, level);
                if outer.mapped().next().is_none() {
                    return Err(
                        call.error(format!("expected a tensor with a mapped dimension, found {outer}"))
                    );
                }
                let subspace = types::subspace(&outer).map_err(fail)?;
                let function = self.lambda(names, &[subspace], body, call.env)?;
                Ok(self.build(level).add(ProgramOp::FilterSubspaces(Arc::new(function), of), outer))
            }
            FunctionForm::Expand => {
                let of = self.value(call, 0)?;
                let name = call.name(&arguments[1])?;
                // Of the narrowest type, so that it does not widen the cells.
                let one = types::of(
                    CellType::Int8,
                    vec![TensorDimension { name, kind: DimensionKind::Indexed(1) }],
                );
                let one = self.build(level).constant(crate::value::TensorValue {
                    tensor_type: one.map_err(fail)?,
                    labels: Vec::new(),
                    cells: vec![1.0],
                });
                self.binary(crate::operators::BinaryNumberOp::Mul, of, one, level).map_err(fail)
            }
            FunctionForm::Range | FunctionForm::Diag => {
                let mut dimensions = Vec::new();
                for (i, name) in ["i", "j"].into_iter().take(arguments.len()).enumerate() {
                    let size = self.value(call, i)?;
                    let size =
                        self.build(level).known_number(size).filter(|size| *size >= 1.0 && *size <= 1e9);
                    let size =
                        size.ok_or_else(|| call.error("a size must be a constant number of at least 1"))?;
                    dimensions.push(TensorDimension {
                        name: name.into(),
                        kind: DimensionKind::Indexed(size as usize),
                    });
                }
                let tensor_type = types::of(CellType::Double, dimensions).map_err(fail)?;
                let body = ParsedExpression::parse(if form == FunctionForm::Range { "i" } else { "i == j" })?;
                let env = CompileNames::for_expansion(&body, level, Vec::new(), HashMap::new());
                self.generate(&tensor_type, &body.root, call.at, &env, level)
            }
        }
    }

    fn cell_name(&self, call: &CompiledCall<'_, '_>, at: usize) -> Result<CellType, Error> {
        let name = call.name(&call.arguments[at])?;
        types::cell(&name).ok_or_else(|| {
            call.error(format!("a cell type is double, float, bfloat16 or int8, found '{name}'"))
        })
    }

    fn cell_function(
        &mut self,
        names: &[String],
        body: &ExpressionNode,
        call: &CompiledCall<'_, '_>,
        cells: usize,
    ) -> Result<CellFunction, Error> {
        let program = self.lambda(names, &vec![TensorType::scalar(); cells], body, call.env)?;
        if program.tensor_type().is_scalar() {
            return Ok(CellFunction::of(program));
        }
        Err(call.error(format!("the function of a cell must give a number, found {}", program.tensor_type())))
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
            nodes[subspace * size + cell.place] = value;
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
            let place = || tensor_type.mapped().position(|d| d.name == dimension.name).unwrap_or_default();
            let pin = match (dimension.kind, label) {
                (DimensionKind::Mapped, SliceLabel::Fixed(label) | SliceLabel::Quoted(label)) => {
                    PinSource::Label(place(), label.as_str().into())
                }
                (DimensionKind::Mapped, SliceLabel::Computed(expr)) => {
                    PinSource::ComputedLabel(place(), self.index(expr, env, level)?)
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
