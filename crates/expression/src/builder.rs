//! Construction of a program's nodes: folds constants, shares equal nodes, replaces patterns by their
//! kernels, and removes unused nodes.

mod interactions;

use std::collections::HashMap;
use std::sync::Arc;

use millrace_tensor::TensorType;

use crate::FeatureName;
use crate::dense::{DensePattern, PairSum, SumShape};
use crate::evaluate::EvaluationScratch;
use crate::linear;
use crate::operators::{BinaryNumberOp, ReduceAggregator, UnaryNumberOp};
use crate::program::{CellFunction, ExpressionProgram, NodeId, ProgramNode, ProgramOp};
use crate::run::ReducedJoin;
use crate::tensors::{TensorReduce, step};
use crate::value::TensorValue;

/// Maximum number of nodes of a program. Inlining nested functions can produce far more nodes than their text
/// suggests.
pub(crate) const NODES: usize = 200_000;

/// A program under construction.
#[derive(Debug, Default)]
pub(crate) struct ProgramBuilder {
    pub nodes: Vec<ProgramNode>,
    pub inputs: Vec<(FeatureName, TensorType)>,
    known: HashMap<OperationKey, NodeId>,
}

/// Identity of a node that is shared between equal uses.
#[derive(Debug, PartialEq, Eq, Hash)]
enum OperationKey {
    Number(u64),
    Input(usize),
    Unary(UnaryNumberOp, NodeId),
    Binary(BinaryNumberOp, NodeId, NodeId),
}

impl ProgramBuilder {
    /// The input with this name; created on first use.
    pub fn input(&mut self, name: FeatureName, tensor_type: &TensorType) -> NodeId {
        let known = self.inputs.iter().position(|(known, _)| *known == name);
        let at = known.unwrap_or_else(|| {
            self.inputs.push((name, tensor_type.clone()));
            self.inputs.len() - 1
        });
        self.add(ProgramOp::Input(at), tensor_type.clone())
    }

    pub fn number(&mut self, number: f64) -> NodeId {
        self.add(ProgramOp::Number(number), TensorType::scalar())
    }

    pub fn constant(&mut self, value: TensorValue) -> NodeId {
        if value.tensor_type.is_scalar() {
            return self.number(value.cells[0]);
        }
        let tensor_type = value.tensor_type.clone();
        self.add(ProgramOp::Constant(Arc::new(value)), tensor_type)
    }

    pub fn tensor_type(&self, id: NodeId) -> &TensorType {
        &self.nodes[id].tensor_type
    }

    /// The value of a node that is a constant number.
    pub fn known_number(&self, id: NodeId) -> Option<f64> {
        match self.nodes[id].op {
            ProgramOp::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Adds a node, after folding and pattern replacement.
    pub fn add(&mut self, op: ProgramOp, tensor_type: TensorType) -> NodeId {
        let key = match &op {
            ProgramOp::Number(number) => Some(OperationKey::Number(number.to_bits())),
            ProgramOp::Input(at) => Some(OperationKey::Input(*at)),
            ProgramOp::Unary(unary, a) => Some(OperationKey::Unary(*unary, *a)),
            ProgramOp::Binary(binary, a, b) => Some(OperationKey::Binary(*binary, *a, *b)),
            _ => None,
        };
        if let Some(known) = key.as_ref().and_then(|key| self.known.get(key)) {
            return *known;
        }
        let op = self.pattern(op, &tensor_type);
        if let Some(value) = self.folded(&op, &tensor_type) {
            return self.constant(value);
        }
        self.nodes.push(ProgramNode { op, tensor_type });
        let id = self.nodes.len() - 1;
        if let Some(key) = key {
            self.known.insert(key, id);
        }
        id
    }

    /// The value of an operation on constants.
    fn folded(&self, op: &ProgramOp, tensor_type: &TensorType) -> Option<TensorValue> {
        let arguments = op.arguments();
        let constant =
            |id: &NodeId| matches!(self.nodes[*id].op, ProgramOp::Number(_) | ProgramOp::Constant(_));
        if matches!(op, ProgramOp::Number(_) | ProgramOp::Constant(_) | ProgramOp::Input(_))
            || !arguments.iter().all(constant)
        {
            return None;
        }
        let mut nodes: Vec<ProgramNode> = arguments.iter().map(|id| self.nodes[*id].clone()).collect();
        let mut op = op.clone();
        let mut next = 0;
        op.visit_arguments(&mut |argument| {
            *argument = next;
            next += 1;
        });
        nodes.push(ProgramNode { op, tensor_type: tensor_type.clone() });
        let program = ExpressionProgram::new(nodes, Vec::new());
        let mut scratch = EvaluationScratch::default();
        Some(program.evaluate(&mut scratch, 1, &[]).value(0))
    }

    /// The operation itself, or an equivalent one with a dedicated kernel.
    fn pattern(&mut self, op: ProgramOp, tensor_type: &TensorType) -> ProgramOp {
        match &op {
            ProgramOp::Reduce(plan, of)
                if tensor_type.is_scalar()
                    && matches!(self.nodes[*of].op, ProgramOp::Dense(rows, ..) if rows.shape == SumShape::Rows) =>
            {
                let cell = self.tensor_type(*of).cell();
                match self.nodes[*of].op {
                    ProgramOp::Dense(rows, a, b) => {
                        let shape = SumShape::Reduced(plan.aggregator(), cell);
                        ProgramOp::Dense(DensePattern { shape, ..rows }, a, b)
                    }
                    _ => op,
                }
            }
            ProgramOp::Map(CellFunction::Unary(UnaryNumberOp::Square), of) => match &self.nodes[*of].op {
                ProgramOp::Join(CellFunction::Binary(BinaryNumberOp::Sub), plan, a, b) => {
                    ProgramOp::Join(CellFunction::SquaredDifference, Arc::clone(plan), *a, *b)
                }
                _ => self.interaction(&op, tensor_type).unwrap_or(op),
            },
            ProgramOp::Reduce(plan, of) if plan.aggregator() == ReduceAggregator::Sum => {
                let of = *of;
                self.sum_of_products(of, tensor_type)
                    .or_else(|| self.max_sim(of, tensor_type))
                    .or_else(|| self.rows_along(of, tensor_type))
                    .or_else(|| self.interaction(&op, tensor_type))
                    .or_else(|| self.reduced_join(plan, of, tensor_type))
                    .unwrap_or(op)
            }
            ProgramOp::Reduce(plan, of) => self
                .reduced_join(plan, *of, tensor_type)
                .or_else(|| self.interaction(&op, tensor_type))
                .unwrap_or(op),
            ProgramOp::Map(..) | ProgramOp::Join(..) => {
                self.top(&op).or_else(|| self.interaction(&op, tensor_type)).unwrap_or(op)
            }
            _ => op,
        }
    }

    /// Matches `t * filter_subspaces(cell_order(t, max) < n, f(s)(s))`, which is `top(n, t)`, of a tensor
    /// with one cell in each dense subspace.
    fn top(&self, op: &ProgramOp) -> Option<ProgramOp> {
        let ProgramOp::Join(CellFunction::Binary(BinaryNumberOp::Mul), _, of, kept) = op else { return None };
        let ProgramOp::FilterSubspaces(condition, ranked) = &self.nodes[*kept].op else { return None };
        let ProgramOp::Join(CellFunction::Binary(BinaryNumberOp::Less), _, ranks, count) =
            &self.nodes[*ranked].op
        else {
            return None;
        };
        let ProgramOp::CellOrder { largest_first: true, of: ordered } = &self.nodes[*ranks].op else {
            return None;
        };
        let is_its_cell = matches!(condition.nodes[..], [ProgramNode { op: ProgramOp::Input(0), .. }]);
        let has_cells = self.tensor_type(*of).dense_size() == 1 && self.tensor_type(*count).is_scalar();
        (is_its_cell && has_cells && ordered == of).then_some(ProgramOp::Top(*count, *of))
    }

    /// Matches `reduce(join(a, b, f), aggregator)`, whose result is a number, of two tensors with a common
    /// mapped dimension, of which at least one is an input.
    fn reduced_join(
        &self,
        reduce: &Arc<TensorReduce>,
        joined: NodeId,
        result: &TensorType,
    ) -> Option<ProgramOp> {
        let ProgramOp::Join(function, join, a, b) = &self.nodes[joined].op else { return None };
        let (a_type, b_type) = (self.tensor_type(*a), self.tensor_type(*b));
        let is_input = |id: &NodeId| matches!(self.nodes[*id].op, ProgramOp::Input(_));
        if !result.is_scalar() || join.common().is_empty() || ![a, b].into_iter().any(is_input) {
            return None;
        }
        let plan = ReducedJoin {
            function: function.clone(),
            join: Arc::clone(join),
            reduce: Arc::clone(reduce),
            joined: self.tensor_type(joined).clone(),
            has_one_label: a_type.dimensions().len() == 1 && a_type.dimensions() == b_type.dimensions(),
        };
        Some(ProgramOp::ReducedJoin(Arc::new(plan), *a, *b))
    }

    /// Matches `reduce(join(a, b, f), sum, x…)` where `x…` are all dimensions of one operand and all indexed
    /// dimensions of the other.
    fn sum_of_products(&self, joined: NodeId, result: &TensorType) -> Option<ProgramOp> {
        let (sum, a, b) = self.pairs(joined)?;
        let (a_type, b_type) = (self.tensor_type(a), self.tensor_type(b));
        if result.is_scalar() && a_type.is_dense() && a_type.dimensions() == b_type.dimensions() {
            let dense = DensePattern { sum, shape: SumShape::Vectors, width: a_type.dense_size() };
            return Some(ProgramOp::Dense(dense, a, b));
        }
        let rows = |vector: &TensorType, rows: &TensorType| {
            let only_vector = vector.is_dense() && vector.indexed().eq(rows.indexed());
            only_vector && result.mapped().eq(rows.mapped()) && result.indexed().next().is_none()
        };
        let (vector, rows) = match (rows(a_type, b_type), rows(b_type, a_type)) {
            (true, _) => (a, b),
            (false, true) => (b, a),
            (false, false) => return None,
        };
        let width = self.tensor_type(vector).dense_size();
        Some(ProgramOp::Dense(DensePattern { sum, shape: SumShape::Rows, width }, vector, rows))
    }

    /// Matches `reduce(join(a, b, f), sum, x)` where `x` is the only dimension of one operand, and any
    /// indexed dimension of the other.
    fn rows_along(&mut self, joined: NodeId, result: &TensorType) -> Option<ProgramOp> {
        let (sum, a, b) = self.pairs(joined)?;
        let of_vector = |t: &TensorType| match t.dimensions() {
            [dimension] if t.is_dense() => Some(dimension.clone()),
            _ => None,
        };
        let (vector, rows, along) = [(a, b), (b, a)].into_iter().find_map(|(vector, rows)| {
            let along = of_vector(self.tensor_type(vector))?;
            let kept = self.tensor_type(rows).dimensions().iter().filter(|d| **d != along);
            (self.tensor_type(rows).dimensions().contains(&along) && kept.eq(result.dimensions()))
                .then_some((vector, rows, along))
        })?;
        let rows_type = self.tensor_type(rows).clone();
        let width = self.tensor_type(vector).dense_size();
        let rows = if rows_type.indexed().last().is_some_and(|(name, _)| name == along.name) {
            rows
        } else {
            let order = cells_along(&rows_type, &along.name, width);
            self.add(ProgramOp::Reorder(Arc::new(order), rows), rows_type)
        };
        Some(ProgramOp::Dense(DensePattern { sum, shape: SumShape::Rows, width }, vector, rows))
    }

    /// The function of two cells that a join computes, if it has a kernel.
    fn pairs(&self, joined: NodeId) -> Option<(PairSum, NodeId, NodeId)> {
        match &self.nodes[joined].op {
            ProgramOp::Join(CellFunction::Binary(BinaryNumberOp::Mul), _, a, b) => {
                Some((PairSum::Product, *a, *b))
            }
            ProgramOp::Join(CellFunction::Binary(BinaryNumberOp::Hamming), _, a, b) => {
                Some((PairSum::Hamming, *a, *b))
            }
            ProgramOp::Join(CellFunction::SquaredDifference, _, a, b) => {
                Some((PairSum::SquaredDifference, *a, *b))
            }
            _ => None,
        }
    }

    /// Finishes the program with the result `result`. `all_inputs` keeps unused inputs.
    pub fn finish(mut self, result: NodeId, all_inputs: bool) -> ExpressionProgram {
        linear::fuse(&mut self.nodes, result);
        let mut used = vec![false; self.nodes.len()];
        used[result] = true;
        for id in (0..=result).rev() {
            if used[id] {
                self.nodes[id].op.arguments().into_iter().for_each(|argument| used[argument] = true);
            }
        }
        let (mut new_ids, mut nodes) = (vec![0; self.nodes.len()], Vec::new());
        let mut inputs = if all_inputs { self.inputs.clone() } else { Vec::new() };
        for (id, mut node) in self.nodes.into_iter().enumerate().take(result + 1) {
            if !used[id] {
                continue;
            }
            if let (ProgramOp::Input(at), false) = (&mut node.op, all_inputs) {
                inputs.push(self.inputs[*at].clone());
                *at = inputs.len() - 1;
            }
            node.op.visit_arguments(&mut |argument| *argument = new_ids[*argument]);
            new_ids[id] = nodes.len();
            nodes.push(node);
        }
        ExpressionProgram::new(nodes, inputs)
    }
}

/// The cells of a subspace in the order in which the dimension `along`, of this size, is the innermost.
fn cells_along(of: &TensorType, along: &str, size: usize) -> Vec<u32> {
    let step = step(of, along);
    let first = (0..of.dense_size()).filter(|cell| (cell / step).is_multiple_of(size));
    first.flat_map(|cell| (0..size).map(move |index| (cell + index * step) as u32)).collect()
}
