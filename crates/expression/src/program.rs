use std::sync::Arc;

use millrace_tensor::TensorType;

use crate::batch::SubspaceShape;
use crate::dense::DensePattern;
use crate::interaction::VectorInteraction;
use crate::operators::{BatchNumbers, BinaryNumberOp, UnaryNumberOp};
use crate::run::ReducedJoin;
use crate::tensors::{TensorConcat, TensorJoin, TensorReduce, TensorRename};
use crate::value::TensorValue;
use crate::{DecisionForest, FeatureName, TokenSequence};

/// Index of a node in its program.
pub(crate) type NodeId = usize;

/// A compiled expression: a list of operations, each on the results of earlier ones; the last one is the
/// result.
///
/// It is compiled once and evaluated many times, over a batch of documents at a time
/// ([`ExpressionProgram::evaluate`]).
#[derive(Debug, Clone)]
pub struct ExpressionProgram {
    pub(crate) nodes: Vec<ProgramNode>,
    pub(crate) inputs: Vec<(FeatureName, TensorType)>,
    /// For each node, the nodes it uses.
    pub(crate) arguments: Vec<Vec<NodeId>>,
    /// For each node, the nodes whose results are not used after it.
    pub(crate) done: Vec<Vec<NodeId>>,
    pub(crate) shapes: Vec<SubspaceShape>,
    /// True for each input that only operations read which take its stored form.
    pub(crate) is_raw: Vec<bool>,
    /// True for each node that a reduced join reads.
    pub(crate) is_joined: Vec<bool>,
    /// Cells of the largest dense subspace among tensors that are laid out flat; 0 if there are none.
    pub(crate) flat_cells: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct ProgramNode {
    pub op: ProgramOp,
    pub tensor_type: TensorType,
}

impl ExpressionProgram {
    pub(crate) fn new(nodes: Vec<ProgramNode>, inputs: Vec<(FeatureName, TensorType)>) -> Self {
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
        let shapes: Vec<SubspaceShape> =
            nodes.iter().map(|node| SubspaceShape::of(&node.tensor_type)).collect();
        let mut is_raw: Vec<bool> = nodes
            .iter()
            .map(|node| matches!(node.op, ProgramOp::Input(_)) && !node.tensor_type.is_scalar())
            .collect();
        for (node, arguments) in nodes.iter().zip(&arguments) {
            let reads_stored = |argument: NodeId| match &node.op {
                ProgramOp::Dense(..) | ProgramOp::ReducedJoin(..) | ProgramOp::Interaction(..) => true,
                ProgramOp::Peek(of, ..) => *of == argument && shapes[argument].mapped == 0,
                _ => false,
            };
            arguments.iter().filter(|id| !reads_stored(**id)).for_each(|id| is_raw[*id] = false);
        }
        let mut is_joined = vec![false; nodes.len()];
        for (node, arguments) in nodes.iter().zip(&arguments) {
            if let ProgramOp::ReducedJoin(..) = node.op {
                arguments.iter().for_each(|id| is_joined[*id] = true);
            }
        }
        // Those of a reduced join are laid out, unless their cells are looked up one by one.
        let one_label = SubspaceShape { mapped: 1, size: 1 };
        let is_flat = |id: usize| !is_raw[id] || is_joined[id] && shapes[id] != one_label;
        let flat =
            nodes.iter().enumerate().filter(|(id, node)| is_flat(*id) && !node.tensor_type.is_scalar());
        let flat_cells = flat.map(|(_, node)| node.tensor_type.dense_size()).max().unwrap_or(0);
        ExpressionProgram { nodes, inputs, arguments, done, shapes, is_raw, is_joined, flat_cells }
    }

    /// Features that the program uses, with the types they were compiled for. [`ExpressionProgram::evaluate`]
    /// takes them in this order.
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
            Some(ProgramOp::Number(number)) => Some(*number),
            _ => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum ProgramOp {
    Number(f64),
    Constant(Arc<TensorValue>),
    Input(usize),
    /// Operation on a number.
    Unary(UnaryNumberOp, NodeId),
    /// Operation on two numbers.
    Binary(BinaryNumberOp, NodeId, NodeId),
    /// The second if the first, a number, is true; otherwise the third.
    Choose(NodeId, NodeId, NodeId),
    Map(CellFunction, NodeId),
    Join(CellFunction, Arc<TensorJoin>, NodeId, NodeId),
    Merge(CellFunction, NodeId, NodeId),
    Reduce(Arc<TensorReduce>, NodeId),
    Rename(Arc<TensorRename>, NodeId),
    Concat(Arc<TensorConcat>, NodeId, NodeId),
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
    /// As many of the largest cells as a number says, of a tensor with one cell in each dense subspace.
    Top(NodeId, NodeId),
    /// A tensor literal: labels of its subspaces, and all cells.
    Create(Arc<Vec<Arc<str>>>, Vec<NodeId>),
    /// One run of the program over all cells. Its inputs are the indices in each dimension, then the captured
    /// nodes.
    Generate(Arc<ExpressionProgram>, Arc<Vec<Vec<f64>>>, Vec<NodeId>),
    MapSubspaces(Arc<ExpressionProgram>, NodeId),
    FilterSubspaces(Arc<ExpressionProgram>, NodeId),
    /// A pattern with a dedicated kernel.
    Dense(DensePattern, NodeId, NodeId),
    /// A reduction of a join, as one operation.
    ReducedJoin(Arc<ReducedJoin>, NodeId, NodeId),
    /// Functions of pairs of the vectors of one or two tensors, and of numbers.
    Interaction(Arc<VectorInteraction>, Vec<NodeId>, Vec<NodeId>),
    /// The cells of each subspace in another order, for a kernel. The type is that before.
    Reorder(Arc<Vec<u32>>, NodeId),
    /// Weighted sum of these numbers.
    Linear(Vec<f64>, Vec<NodeId>),
    /// Decision trees over these numbers.
    Forest(Arc<DecisionForest>, Vec<NodeId>),
    TokenSequence(Arc<TokenSequence>, Vec<NodeId>),
}

/// A dimension of an address; see [`crate::tensors::PinnedDimension`].
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
    Unary(UnaryNumberOp),
    Binary(BinaryNumberOp),
    SquaredDifference,
    Program(Arc<ExpressionProgram>),
}

impl CellFunction {
    /// The short form of a program, if it has one.
    pub fn of(program: ExpressionProgram) -> Self {
        let square = |id: NodeId| match program.nodes[id].op {
            ProgramOp::Unary(UnaryNumberOp::Square, of) => Some(of),
            ProgramOp::Binary(BinaryNumberOp::Mul, x, y) if x == y => Some(x),
            _ => None,
        };
        let input = |id: NodeId| match program.nodes[id].op {
            ProgramOp::Input(input) => Some(input),
            _ => None,
        };
        let last = program.nodes.len() - 1;
        match program.nodes[last].op {
            ProgramOp::Unary(unary, x) if input(x) == Some(0) => return CellFunction::Unary(unary),
            ProgramOp::Binary(binary, x, y) if input(x) == Some(0) && input(y) == Some(1) => {
                return CellFunction::Binary(binary);
            }
            _ => {}
        }
        if let Some(of) = square(last) {
            match program.nodes[of].op {
                ProgramOp::Input(0) => return CellFunction::Unary(UnaryNumberOp::Square),
                ProgramOp::Binary(BinaryNumberOp::Sub, x, y)
                    if input(x).is_some() && input(y).is_some() && x != y =>
                {
                    return CellFunction::SquaredDifference;
                }
                _ => {}
            }
        }
        CellFunction::Program(Arc::new(program))
    }

    /// Fills `out` with the function of each pair of cells.
    pub fn apply(
        &self,
        x: BatchNumbers<'_>,
        y: BatchNumbers<'_>,
        out: &mut [f64],
        scratch: &mut crate::EvaluationScratch,
    ) {
        match self {
            CellFunction::Unary(unary) => {
                (0..out.len()).for_each(|i| out[i] = x.get(i));
                unary.apply_to(out);
            }
            CellFunction::Binary(binary) => binary.apply_to(x, y, out),
            CellFunction::SquaredDifference => {
                BinaryNumberOp::Sub.apply_to(x, y, out);
                UnaryNumberOp::Square.apply_to(out);
            }
            CellFunction::Program(program) => program.run_over_cells(&[x, y], out, scratch),
        }
    }
}

impl ProgramOp {
    /// Nodes that the operation uses, in order.
    pub fn arguments(&self) -> Vec<NodeId> {
        let mut arguments = Vec::new();
        self.clone().visit_arguments(&mut |argument| arguments.push(*argument));
        arguments
    }

    /// Visits the nodes that the operation uses, in order.
    pub fn visit_arguments(&mut self, visit: &mut dyn FnMut(&mut NodeId)) {
        match self {
            ProgramOp::Number(_) | ProgramOp::Constant(_) | ProgramOp::Input(_) => {}
            ProgramOp::Unary(_, a)
            | ProgramOp::Map(_, a)
            | ProgramOp::Reduce(_, a)
            | ProgramOp::Rename(_, a)
            | ProgramOp::Cast(a)
            | ProgramOp::CellOrder { of: a, .. }
            | ProgramOp::UnpackBits { of: a, .. }
            | ProgramOp::Reorder(_, a)
            | ProgramOp::MapSubspaces(_, a)
            | ProgramOp::FilterSubspaces(_, a) => visit(a),
            ProgramOp::Binary(_, a, b)
            | ProgramOp::Join(_, _, a, b)
            | ProgramOp::Merge(_, a, b)
            | ProgramOp::Concat(_, a, b)
            | ProgramOp::Top(a, b)
            | ProgramOp::Dense(_, a, b)
            | ProgramOp::ReducedJoin(_, a, b) => {
                visit(a);
                visit(b);
            }
            ProgramOp::Choose(a, b, c) => {
                visit(a);
                visit(b);
                visit(c);
            }
            ProgramOp::Peek(a, pins, _) => {
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
            ProgramOp::Create(_, cells) => cells.iter_mut().for_each(visit),
            ProgramOp::Interaction(_, sides, numbers) => sides.iter_mut().chain(numbers).for_each(visit),
            ProgramOp::Generate(_, _, inputs)
            | ProgramOp::Forest(_, inputs)
            | ProgramOp::TokenSequence(_, inputs)
            | ProgramOp::Linear(_, inputs) => {
                inputs.iter_mut().for_each(visit);
            }
        }
    }
}
