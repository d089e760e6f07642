//! Construction of a program's nodes: folds constants, shares equal nodes, replaces patterns by their
//! kernels, and removes unused nodes.

use std::collections::HashMap;
use std::sync::Arc;

use millrace_tensor::TensorType;

use crate::FeatureName;
use crate::dense::{Dense, Shape, Sum};
use crate::evaluate::Scratch;
use crate::linear;
use crate::operators::{Aggregator, Binary, Unary};
use crate::program::{CellFunction, Node, NodeId, Op, Program};
use crate::value::Value;

/// Maximum number of nodes of a program. Inlining nested functions can produce far more nodes than their text
/// suggests.
pub(crate) const NODES: usize = 200_000;

/// A program under construction.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub nodes: Vec<Node>,
    pub inputs: Vec<(FeatureName, TensorType)>,
    known: HashMap<Key, NodeId>,
}

/// Identity of a node that is shared between equal uses.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    Number(u64),
    Input(usize),
    Unary(Unary, NodeId),
    Binary(Binary, NodeId, NodeId),
}

impl Builder {
    /// The input with this name; created on first use.
    pub fn input(&mut self, name: FeatureName, tensor_type: &TensorType) -> NodeId {
        let known = self.inputs.iter().position(|(known, _)| *known == name);
        let at = known.unwrap_or_else(|| {
            self.inputs.push((name, tensor_type.clone()));
            self.inputs.len() - 1
        });
        self.add(Op::Input(at), tensor_type.clone())
    }

    pub fn number(&mut self, number: f64) -> NodeId {
        self.add(Op::Number(number), TensorType::scalar())
    }

    pub fn constant(&mut self, value: Value) -> NodeId {
        if value.tensor_type.is_scalar() {
            return self.number(value.cells[0]);
        }
        let tensor_type = value.tensor_type.clone();
        self.add(Op::Constant(Arc::new(value)), tensor_type)
    }

    pub fn tensor_type(&self, id: NodeId) -> &TensorType {
        &self.nodes[id].tensor_type
    }

    /// The value of a node that is a constant number.
    pub fn known_number(&self, id: NodeId) -> Option<f64> {
        match self.nodes[id].op {
            Op::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Adds a node, after folding and pattern replacement.
    pub fn add(&mut self, op: Op, tensor_type: TensorType) -> NodeId {
        let key = match &op {
            Op::Number(number) => Some(Key::Number(number.to_bits())),
            Op::Input(at) => Some(Key::Input(*at)),
            Op::Unary(unary, a) => Some(Key::Unary(*unary, *a)),
            Op::Binary(binary, a, b) => Some(Key::Binary(*binary, *a, *b)),
            _ => None,
        };
        if let Some(known) = key.as_ref().and_then(|key| self.known.get(key)) {
            return *known;
        }
        let op = self.pattern(op, &tensor_type);
        if let Some(value) = self.folded(&op, &tensor_type) {
            return self.constant(value);
        }
        self.nodes.push(Node { op, tensor_type });
        let id = self.nodes.len() - 1;
        if let Some(key) = key {
            self.known.insert(key, id);
        }
        id
    }

    /// The value of an operation on constants.
    fn folded(&self, op: &Op, tensor_type: &TensorType) -> Option<Value> {
        let arguments = op.arguments();
        let constant = |id: &NodeId| matches!(self.nodes[*id].op, Op::Number(_) | Op::Constant(_));
        if matches!(op, Op::Number(_) | Op::Constant(_) | Op::Input(_)) || !arguments.iter().all(constant) {
            return None;
        }
        let mut nodes: Vec<Node> = arguments.iter().map(|id| self.nodes[*id].clone()).collect();
        let mut op = op.clone();
        let mut next = 0;
        op.visit_arguments(&mut |argument| {
            *argument = next;
            next += 1;
        });
        nodes.push(Node { op, tensor_type: tensor_type.clone() });
        let program = Program::new(nodes, Vec::new());
        let mut scratch = Scratch::default();
        Some(program.evaluate(&mut scratch, 1, &[]).value(0).into_owned())
    }

    /// The operation itself, or an equivalent one with a dedicated kernel.
    fn pattern(&self, op: Op, tensor_type: &TensorType) -> Op {
        match &op {
            Op::Map(CellFunction::Unary(Unary::Square), of) => match &self.nodes[*of].op {
                Op::Join(CellFunction::Binary(Binary::Sub), plan, a, b) => {
                    Op::Join(CellFunction::SquaredDifference, Arc::clone(plan), *a, *b)
                }
                _ => op,
            },
            Op::Reduce(plan, of) if plan.aggregator() == Aggregator::Sum => self
                .sum_of_products(*of, tensor_type)
                .or_else(|| self.max_sim(*of, tensor_type))
                .unwrap_or(op),
            _ => op,
        }
    }

    /// Matches `reduce(join(a, b, f), sum, x)` where `x` is the only dimension of one operand and the only
    /// indexed dimension of the other.
    fn sum_of_products(&self, joined: NodeId, result: &TensorType) -> Option<Op> {
        let (sum, a, b) = self.pairs(joined)?;
        let (a_type, b_type) = (self.tensor_type(a), self.tensor_type(b));
        if result.is_scalar() && a_type.is_dense() && a_type.dimensions() == b_type.dimensions() {
            let dense = Dense { sum, shape: Shape::Vectors, width: a_type.dense_size() };
            return Some(Op::Dense(dense, a, b));
        }
        let rows = |vector: &TensorType, rows: &TensorType| {
            let only_vector = vector.is_dense() && vector.indexed().eq(rows.indexed());
            only_vector && result.mapped().eq(rows.mapped()) && result.indexed().next().is_none()
        };
        let dense = Dense { sum, shape: Shape::Rows, width: joined_width(a_type, b_type)? };
        if rows(a_type, b_type) {
            Some(Op::Dense(dense, a, b))
        } else if rows(b_type, a_type) {
            Some(Op::Dense(dense, b, a))
        } else {
            None
        }
    }

    /// Matches `sum(reduce(sum(query * document, x), max, t), q)` where `x` is the innermost indexed
    /// dimension of both.
    fn max_sim(&self, of: NodeId, result: &TensorType) -> Option<Op> {
        let reduced = |id: NodeId, aggregator| match &self.nodes[id].op {
            Op::Reduce(plan, of) if plan.aggregator() == aggregator => Some(*of),
            _ => None,
        };
        if !result.is_scalar() {
            return None;
        }
        let summed = reduced(of, Aggregator::Max)?;
        let joined = reduced(summed, Aggregator::Sum)?;
        let (sum, a, b) = self.pairs(joined)?;
        let (a_type, b_type) = (self.tensor_type(a), self.tensor_type(b));
        let width = joined_width(a_type, b_type)?;
        let innermost = a_type.indexed().last().map(|(name, _)| name)?;
        let others = |t: &TensorType| -> Vec<String> {
            t.dimensions().iter().map(|d| d.name.clone()).filter(|name| name != innermost).collect()
        };
        let kept: Vec<String> = self.tensor_type(of).dimensions().iter().map(|d| d.name.clone()).collect();
        let (a_others, b_others) = (others(a_type), others(b_type));
        let summed_all = self.tensor_type(summed).dimensions().len() == a_others.len() + b_others.len();
        if !summed_all || a_others.is_empty() || b_others.is_empty() {
            return None;
        }
        let dense = Dense { sum, shape: Shape::MaxSim, width };
        if kept == a_others {
            Some(Op::Dense(dense, a, b))
        } else if kept == b_others {
            Some(Op::Dense(dense, b, a))
        } else {
            None
        }
    }

    /// The function of two cells that a join computes, if it has a kernel.
    fn pairs(&self, joined: NodeId) -> Option<(Sum, NodeId, NodeId)> {
        match &self.nodes[joined].op {
            Op::Join(CellFunction::Binary(Binary::Mul), _, a, b) => Some((Sum::Product, *a, *b)),
            Op::Join(CellFunction::Binary(Binary::Hamming), _, a, b) => Some((Sum::Hamming, *a, *b)),
            Op::Join(CellFunction::SquaredDifference, _, a, b) => Some((Sum::SquaredDifference, *a, *b)),
            _ => None,
        }
    }

    /// Finishes the program with the result `result`. `all_inputs` keeps unused inputs.
    pub fn finish(mut self, result: NodeId, all_inputs: bool) -> Program {
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
            if let (Op::Input(at), false) = (&mut node.op, all_inputs) {
                inputs.push(self.inputs[*at].clone());
                *at = inputs.len() - 1;
            }
            node.op.visit_arguments(&mut |argument| *argument = new_ids[*argument]);
            new_ids[id] = nodes.len();
            nodes.push(node);
        }
        Program::new(nodes, inputs)
    }
}

/// Size of the innermost indexed dimension, if it is the same in both types.
fn joined_width(a: &TensorType, b: &TensorType) -> Option<usize> {
    let innermost = a.indexed().last()?;
    (b.indexed().last() == Some(innermost)).then_some(innermost.1)
}
