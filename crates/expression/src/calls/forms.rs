//! Compilation of functions that take names of dimensions, functions of cells, or other words.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_tensor::{CellType, DimensionKind, TensorDimension, TensorType};

use super::CompiledCall;
use crate::compile::{CompileNames, ExpressionCompiler};
use crate::functions::FunctionForm;
use crate::operators::{BinaryNumberOp, ReduceAggregator};
use crate::program::{CellFunction, NodeId, ProgramOp};
use crate::syntax::{ExpressionNode, ParsedExpression};
use crate::tensors::{TensorConcat, TensorRename};
use crate::value::TensorValue;
use crate::{Error, types};

impl ExpressionCompiler<'_> {
    /// Compiles a call of a function whose arguments are not all values.
    pub(super) fn form(&mut self, call: &CompiledCall<'_, '_>, form: FunctionForm) -> Result<NodeId, Error> {
        match form {
            FunctionForm::Map => self.form_map(call),
            FunctionForm::Join => self.form_join(call),
            FunctionForm::Merge => self.form_merge(call),
            FunctionForm::Reduce => self.form_reduce(call),
            FunctionForm::Rename => self.form_rename(call),
            FunctionForm::Concat => self.form_concat(call),
            FunctionForm::CellCast => self.form_cell_cast(call),
            FunctionForm::CellOrder => self.form_cell_order(call),
            FunctionForm::UnpackBits => self.form_unpack_bits(call),
            FunctionForm::MapSubspaces => self.form_map_subspaces(call),
            FunctionForm::FilterSubspaces => self.form_filter_subspaces(call),
            FunctionForm::Expand => self.form_expand(call),
            FunctionForm::Range => self.form_generated(call, "i"),
            FunctionForm::Diag => self.form_generated(call, "i == j"),
        }
    }

    fn form_map(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let of = self.value(call, 0)?;
        let (names, body) = call.lambda(1, 1)?;
        let function = self.cell_function(names, body, call, 1)?;
        let result = types::map(&self.tensor_type(of, call.level)).map_err(|fault| call.error(fault))?;
        Ok(self.build(call.level).add(ProgramOp::Map(function, of), result))
    }

    fn form_join(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let (a, b) = (self.value(call, 0)?, self.value(call, 1)?);
        let (names, body) = call.lambda(2, 2)?;
        let function = self.cell_function(names, body, call, 2)?;
        self.join(function, a, b, call.level).map_err(|fault| call.error(fault))
    }

    fn form_merge(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let (a, b) = (self.value(call, 0)?, self.value(call, 1)?);
        let (names, body) = call.lambda(2, 2)?;
        let function = self.cell_function(names, body, call, 2)?;
        let result = types::merge(&self.tensor_type(a, call.level), &self.tensor_type(b, call.level))
            .map_err(|fault| call.error(fault))?;
        Ok(self.build(call.level).add(ProgramOp::Merge(function, a, b), result))
    }

    fn form_reduce(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let of = self.value(call, 0)?;
        let name = call.name(&call.arguments[1])?;
        let aggregator = ReduceAggregator::of_name(&name).ok_or_else(|| {
            let known = ReduceAggregator::NAMES.map(|(name, _)| name).join(", ");
            call.error(format!("'{name}' is not an aggregator; there are {known}"))
        })?;
        let names = call.all_names(2)?;
        self.reduce(aggregator, of, &names, call.level).map_err(|fault| call.error(fault))
    }

    fn form_rename(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let of = self.value(call, 0)?;
        let (from, to) = (call.names(&call.arguments[1])?, call.names(&call.arguments[2])?);
        let before = self.tensor_type(of, call.level);
        let result = types::rename(&before, &from, &to).map_err(|fault| call.error(fault))?;
        let plan = Arc::new(TensorRename::new(&before, &from, &to, &result));
        Ok(self.build(call.level).add(ProgramOp::Rename(plan, of), result))
    }

    fn form_concat(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let (a, b) = (self.value(call, 0)?, self.value(call, 1)?);
        let along = call.name(&call.arguments[2])?;
        let (left, right) = (self.tensor_type(a, call.level), self.tensor_type(b, call.level));
        let result = types::concat(&left, &right, &along).map_err(|fault| call.error(fault))?;
        let plan = Arc::new(TensorConcat::new(&left, &right, &along, &result));
        Ok(self.build(call.level).add(ProgramOp::Concat(plan, a, b), result))
    }

    fn form_cell_cast(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let of = self.value(call, 0)?;
        let cell = self.cell_name(call, 1)?;
        let result =
            types::cast(&self.tensor_type(of, call.level), cell).map_err(|fault| call.error(fault))?;
        Ok(self.build(call.level).add(ProgramOp::Cast(of), result))
    }

    fn form_cell_order(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let of = self.value(call, 0)?;
        let largest_first = match call.name(&call.arguments[1])?.as_str() {
            "max" => true,
            "min" => false,
            other => return Err(call.error(format!("the order is max or min, found '{other}'"))),
        };
        let result = types::map(&self.tensor_type(of, call.level)).map_err(|fault| call.error(fault))?;
        Ok(self.build(call.level).add(ProgramOp::CellOrder { largest_first, of }, result))
    }

    fn form_unpack_bits(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let of = self.value(call, 0)?;
        let cell = if call.arguments.len() > 1 { self.cell_name(call, 1)? } else { CellType::Float };
        let endian = if call.arguments.len() > 2 { call.name(&call.arguments[2])? } else { "big".to_owned() };
        let lowest_first = match endian.as_str() {
            "big" => false,
            "little" => true,
            other => {
                return Err(call.error(format!("the bit order is big or little, found '{other}'")));
            }
        };
        let result =
            types::unpack_bits(&self.tensor_type(of, call.level), cell).map_err(|fault| call.error(fault))?;
        Ok(self.build(call.level).add(ProgramOp::UnpackBits { lowest_first, of }, result))
    }

    fn form_map_subspaces(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let of = self.value(call, 0)?;
        let (names, body) = call.lambda(1, 1)?;
        let outer = self.tensor_type(of, call.level);
        let subspace = types::subspace(&outer).map_err(|fault| call.error(fault))?;
        let function = self.lambda(names, &[subspace], body, call.env)?;
        let result =
            types::map_subspaces(&outer, function.tensor_type()).map_err(|fault| call.error(fault))?;
        Ok(self.build(call.level).add(ProgramOp::MapSubspaces(Arc::new(function), of), result))
    }

    fn form_filter_subspaces(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let of = self.value(call, 0)?;
        let (names, body) = call.lambda(1, 1)?;
        let outer = self.tensor_type(of, call.level);
        if outer.mapped().next().is_none() {
            return Err(call.error(format!("expected a tensor with a mapped dimension, found {outer}")));
        }
        let subspace = types::subspace(&outer).map_err(|fault| call.error(fault))?;
        let function = self.lambda(names, &[subspace], body, call.env)?;
        Ok(self.build(call.level).add(ProgramOp::FilterSubspaces(Arc::new(function), of), outer))
    }

    fn form_expand(&mut self, call: &CompiledCall<'_, '_>) -> Result<NodeId, Error> {
        let of = self.value(call, 0)?;
        let name = call.name(&call.arguments[1])?;
        // Of the narrowest type, so that it does not widen the cells.
        let one = types::of(CellType::Int8, vec![TensorDimension { name, kind: DimensionKind::Indexed(1) }]);
        let one = self.build(call.level).constant(TensorValue {
            tensor_type: one.map_err(|fault| call.error(fault))?,
            labels: Vec::new(),
            cells: vec![1.0],
        });
        self.binary(BinaryNumberOp::Mul, of, one, call.level).map_err(|fault| call.error(fault))
    }

    /// A tensor of the sizes in the arguments, with the cells of an expression over their indexes.
    fn form_generated(&mut self, call: &CompiledCall<'_, '_>, cells: &str) -> Result<NodeId, Error> {
        let mut dimensions = Vec::new();
        for (i, name) in ["i", "j"].into_iter().take(call.arguments.len()).enumerate() {
            let size = self.value(call, i)?;
            let size = self.build(call.level).known_number(size).filter(|size| *size >= 1.0 && *size <= 1e9);
            let size = size.ok_or_else(|| call.error("a size must be a constant number of at least 1"))?;
            dimensions
                .push(TensorDimension { name: name.into(), kind: DimensionKind::Indexed(size as usize) });
        }
        let tensor_type = types::of(CellType::Double, dimensions).map_err(|fault| call.error(fault))?;
        let body = ParsedExpression::parse(cells)?;
        let env = CompileNames::for_expansion(&body, call.level, Vec::new(), HashMap::new());
        self.generate(&tensor_type, &body.root, call.at, &env, call.level)
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
}
