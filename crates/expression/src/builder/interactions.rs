//! Matching of late interaction.

use std::sync::Arc;

use millrace_tensor::{DimensionKind, TensorDimension, TensorType};

use super::{ProgramBuilder, cells_along};
use crate::dense::{DensePattern, PairSum, SumShape};
use crate::interaction::{InteractionPart, InteractionSide};
use crate::operators::{ReduceAggregator, UnaryNumberOp};
use crate::program::{CellFunction, NodeId, ProgramOp};
use crate::types;

impl ProgramBuilder {
    /// Matches `reduce(join(a, b, f), sum, x)` where `x` is the only common dimension, and functions and
    /// reductions of what it gives.
    pub(super) fn interaction(&mut self, op: &ProgramOp, result: &TensorType) -> Option<ProgramOp> {
        let part = match op {
            ProgramOp::Reduce(plan, of) => match self.interaction_part(*of) {
                Some(part) => part.reduce(plan.aggregator(), result)?,
                None if plan.aggregator() == ReduceAggregator::Sum => self.pair_sums(*of, result)?,
                None => return None,
            },
            ProgramOp::Map(function, of) => self.interaction_part(*of)?.map(function.clone(), result)?,
            ProgramOp::Join(function, _, x, y) => {
                // A number is computed once, by its own node.
                let part = |id: NodeId| match self.tensor_type(id).is_scalar() {
                    true => Some(InteractionPart::number(id)),
                    false => self.interaction_part(id),
                };
                let (left, right) = (part(*x)?, part(*y)?);
                left.join(right, function.clone(), result)?
            }
            _ => return None,
        };
        let (interaction, sides, numbers) = part.finish(result);
        Some(ProgramOp::Interaction(Arc::new(interaction), sides, numbers))
    }

    /// Matches `sum(reduce(sums, max, t), q)` where the sums are those of an interaction.
    pub(super) fn max_sim(&self, of: NodeId, result: &TensorType) -> Option<ProgramOp> {
        let ProgramOp::Interaction(plan, sides, _) = &self.nodes[of].op else { return None };
        let (sum, kept) = plan.term.largest_sums().filter(|_| result.is_scalar())?;
        let dense = DensePattern { sum, shape: SumShape::MaxSim, width: plan.sides[kept].width };
        Some(ProgramOp::Dense(dense, sides[kept], sides[1 - kept]))
    }

    /// The interaction that a node is, if it is one.
    fn interaction_part(&self, id: NodeId) -> Option<InteractionPart> {
        match &self.nodes[id].op {
            ProgramOp::Interaction(plan, sides, numbers) => Some(plan.part(sides, numbers)),
            // Rows of dense tensors are read together, which is faster.
            ProgramOp::Dense(rows, a, b)
                if rows.shape == SumShape::Rows && !self.tensor_type(*b).is_dense() =>
            {
                let of_sums = self.tensor_type(id);
                let side =
                    |vectors: &TensorType| InteractionSide { vectors: vectors.clone(), width: rows.width };
                let sides = vec![(*a, side(&TensorType::scalar())), (*b, side(of_sums))];
                Some(InteractionPart::sums(sides, rows.sum, of_sums.cell()))
            }
            _ => None,
        }
    }

    /// The sums over pairs of vectors that are along a common dimension, or over the squares of the cells of
    /// vectors.
    fn pair_sums(&mut self, joined: NodeId, result: &TensorType) -> Option<InteractionPart> {
        let (sum, a, b) = match &self.nodes[joined].op {
            ProgramOp::Map(CellFunction::Unary(UnaryNumberOp::Square), of) => (PairSum::Product, *of, *of),
            _ => self.pairs(joined)?,
        };
        let (a_type, b_type) = (self.tensor_type(a), self.tensor_type(b));
        let is_summed = |dimension: &&TensorDimension| !result.dimensions().contains(*dimension);
        let mut summed_of_both = a_type.dimensions().iter().filter(|it| b_type.dimensions().contains(*it));
        let along = if a == b {
            // Cells of dense tensors lie together: nothing is gained.
            let of_vectors = sum == PairSum::Product && !a_type.is_dense();
            let mut indexed = summed_of_both.filter(is_summed).filter(|it| it.kind != DimensionKind::Mapped);
            indexed.next().filter(|_| of_vectors && indexed.next().is_none())?.clone()
        } else {
            let only = summed_of_both.next().filter(is_summed)?;
            if summed_of_both.next().is_some() {
                return None;
            }
            only.clone()
        };
        let DimensionKind::Indexed(width) = along.kind else { return None };
        let mut sides = Vec::new();
        let nodes = if a == b { vec![a] } else { vec![a, b] };
        for node in nodes {
            let of = self.tensor_type(node).clone();
            let others = of.dimensions().iter().filter(|it| **it != along).cloned().collect();
            let vectors = types::of(of.cell(), others).ok()?;
            let is_innermost = of.indexed().last().is_some_and(|(name, _)| name == along.name);
            let node = match is_innermost {
                true => node,
                false => {
                    let order = cells_along(&of, &along.name, width);
                    self.add(ProgramOp::Reorder(Arc::new(order), node), of)
                }
            };
            sides.push((node, InteractionSide { vectors, width }));
        }
        let dimensions: usize = sides.iter().map(|(_, side)| side.vectors.dimensions().len()).sum();
        let sums = InteractionPart::sums(sides, sum, self.tensor_type(joined).cell());
        if dimensions == result.dimensions().len() {
            sums.fitting(result)
        } else {
            sums.reduce(ReduceAggregator::Sum, result)
        }
    }
}
