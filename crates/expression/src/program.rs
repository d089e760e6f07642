use std::sync::Arc;

use millrace_tensor::TensorType;

use crate::dense::Dense;
use crate::operators::{Binary, Numbers, Unary};
use crate::tensors::{Concat, Join, Reduce, Rename};
use crate::value::Value;
use crate::{FeatureName, Forest, TokenSequence};

/// Index of a node in its program.
pub(crate) type NodeId = usize;

/// A compiled expression: a list of operations, each on the results of earlier ones; the last one is the
/// result.
///
/// It is compiled once and evaluated many times, over a batch of documents at a time ([`Program::evaluate`]).
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) nodes: Vec<Node>,
    pub(crate) inputs: Vec<(FeatureName, TensorType)>,
    /// For each node, the nodes it uses.
    pub(crate) arguments: Vec<Vec<NodeId>>,
    /// For each node, the nodes whose results are not used after it.
    pub(crate) done: Vec<Vec<NodeId>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub op: Op,
    pub tensor_type: TensorType,
}

impl Program {
    pub(crate) fn new(nodes: Vec<Node>, inputs: Vec<(FeatureName, TensorType)>) -> Self {
        let arguments: Vec<Vec<NodeId>> = nodes.iter().map(|node| node.op.arguments()).collect();
        let mut last_use = vec![None; nodes.len()];
        for (id, arguments) in arguments.iter().enumerate() {
            arguments.iter().for_each(|argument| last_use[*argument] = Some(id));
        }
        let mut done = vec![Vec::new(); nodes.len()];
        for (id, last) in last_use.into_iter().enumerate() {
            if let Some(last) = last {
                done[last].push(id);
            }
        }
        Program { nodes, inputs, arguments, done }
    }

    /// Features that the program uses, with the types they were compiled for. [`Program::evaluate`] takes
    /// them in this order.
    pub fn inputs(&self) -> &[(FeatureName, TensorType)] {
        &self.inputs
    }

    /// Type of the result.
    pub fn tensor_type(&self) -> &TensorType {
        &self.nodes[self.nodes.len() - 1].tensor_type
    }

    /// The result, if it does not depend on the inputs.
    pub fn constant(&self) -> Option<f64> {
        match self.nodes.last().map(|node| &node.op) {
            Some(Op::Number(number)) => Some(*number),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Number(f64),
    Constant(Arc<Value>),
    Input(usize),
    /// Operation on a number.
    Unary(Unary, NodeId),
    /// Operation on two numbers.
    Binary(Binary, NodeId, NodeId),
    /// The second if the first, a number, is true; otherwise the third.
    Choose(NodeId, NodeId, NodeId),
    Map(CellFunction, NodeId),
    Join(CellFunction, Arc<Join>, NodeId, NodeId),
    Merge(CellFunction, NodeId, NodeId),
    Reduce(Arc<Reduce>, NodeId),
    Rename(Arc<Rename>, NodeId),
    Concat(Arc<Concat>, NodeId, NodeId),
    /// The pins, and the indices of the remaining cells.
    Peek(NodeId, Vec<PinSource>, Arc<Vec<u32>>),
    Cast(NodeId),
    CellOrder {
        largest_first: bool,
        of: NodeId,
    },
    UnpackBits {
        lowest_first: bool,
        of: NodeId,
    },
    /// A tensor literal: labels of its subspaces, and all cells.
    Create(Arc<Vec<Arc<str>>>, Vec<NodeId>),
    /// One run of the program over all cells. Its inputs are the indices in each dimension, then the captured
    /// nodes.
    Generate(Arc<Program>, Arc<Vec<Vec<f64>>>, Vec<NodeId>),
    MapSubspaces(Arc<Program>, NodeId),
    FilterSubspaces(Arc<Program>, NodeId),
    /// A pattern with a dedicated kernel.
    Dense(Dense, NodeId, NodeId),
    /// Weighted sum of these numbers.
    Linear(Vec<f64>, Vec<NodeId>),
    /// Decision trees over these numbers.
    Forest(Arc<Forest>, Vec<NodeId>),
    TokenSequence(Arc<TokenSequence>, Vec<NodeId>),
}

/// A dimension of an address; see [`crate::tensors::Pin`].
#[derive(Debug, Clone)]
pub(crate) enum PinSource {
    Label(usize, Arc<str>),
    ComputedLabel(usize, NodeId),
    Index { step: usize, size: usize, index: f64 },
    ComputedIndex { step: usize, size: usize, index: NodeId },
}

/// Function of a lambda on cells.
#[derive(Debug, Clone)]
pub(crate) enum CellFunction {
    Unary(Unary),
    Binary(Binary),
    SquaredDifference,
    Program(Arc<Program>),
}

impl CellFunction {
    /// The short form of a program, if it has one.
    pub fn of(program: Program) -> Self {
        let square = |id: NodeId| match program.nodes[id].op {
            Op::Unary(Unary::Square, of) => Some(of),
            Op::Binary(Binary::Mul, x, y) if x == y => Some(x),
            _ => None,
        };
        let input = |id: NodeId| match program.nodes[id].op {
            Op::Input(input) => Some(input),
            _ => None,
        };
        let last = program.nodes.len() - 1;
        match program.nodes[last].op {
            Op::Unary(unary, x) if input(x) == Some(0) => return CellFunction::Unary(unary),
            Op::Binary(binary, x, y) if input(x) == Some(0) && input(y) == Some(1) => {
                return CellFunction::Binary(binary);
            }
            _ => {}
        }
        if let Some(of) = square(last) {
            match program.nodes[of].op {
                Op::Input(0) => return CellFunction::Unary(Unary::Square),
                Op::Binary(Binary::Sub, x, y) if input(x).is_some() && input(y).is_some() && x != y => {
                    return CellFunction::SquaredDifference;
                }
                _ => {}
            }
        }
        CellFunction::Program(Arc::new(program))
    }

    /// Fills `out` with the function of each pair of cells.
    pub fn apply(&self, x: Numbers<'_>, y: Numbers<'_>, out: &mut [f64], scratch: &mut crate::Scratch) {
        match self {
            CellFunction::Unary(unary) => {
                (0..out.len()).for_each(|i| out[i] = x.get(i));
                unary.apply_to(out);
            }
            CellFunction::Binary(binary) => binary.apply_to(x, y, out),
            CellFunction::SquaredDifference => {
                Binary::Sub.apply_to(x, y, out);
                Unary::Square.apply_to(out);
            }
            CellFunction::Program(program) => program.run_over_cells(&[x, y], out, scratch),
        }
    }
}

impl Op {
    /// Nodes that the operation uses, in order.
    pub fn arguments(&self) -> Vec<NodeId> {
        let mut arguments = Vec::new();
        self.clone().visit_arguments(&mut |argument| arguments.push(*argument));
        arguments
    }

    /// Visits the nodes that the operation uses, in order.
    pub fn visit_arguments(&mut self, visit: &mut dyn FnMut(&mut NodeId)) {
        match self {
            Op::Number(_) | Op::Constant(_) | Op::Input(_) => {}
            Op::Unary(_, a)
            | Op::Map(_, a)
            | Op::Reduce(_, a)
            | Op::Rename(_, a)
            | Op::Cast(a)
            | Op::CellOrder { of: a, .. }
            | Op::UnpackBits { of: a, .. }
            | Op::MapSubspaces(_, a)
            | Op::FilterSubspaces(_, a) => visit(a),
            Op::Binary(_, a, b)
            | Op::Join(_, _, a, b)
            | Op::Merge(_, a, b)
            | Op::Concat(_, a, b)
            | Op::Dense(_, a, b) => {
                visit(a);
                visit(b);
            }
            Op::Choose(a, b, c) => {
                visit(a);
                visit(b);
                visit(c);
            }
            Op::Peek(a, pins, _) => {
                visit(a);
                for pin in pins {
                    match pin {
                        PinSource::ComputedLabel(_, id) | PinSource::ComputedIndex { index: id, .. } => {
                            visit(id)
                        }
                        PinSource::Label(..) | PinSource::Index { .. } => {}
                    }
                }
            }
            Op::Create(_, cells) => cells.iter_mut().for_each(visit),
            Op::Generate(_, _, inputs)
            | Op::Forest(_, inputs)
            | Op::TokenSequence(_, inputs)
            | Op::Linear(_, inputs) => {
                inputs.iter_mut().for_each(visit);
            }
        }
    }
}
