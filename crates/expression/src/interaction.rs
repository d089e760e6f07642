//! Late interaction: a number for each pair of a vector of one tensor and a vector of another, and functions
//! of these numbers, as one operation.
//!
//! The two tensors have one common dimension, which the sums are over. So each vector of one is paired with
//! each of the other, and no label of one is compared with those of the other. A number belongs to a vector
//! of one side, to a group of these with equal labels in some dimensions, or to a pair.

use millrace_tensor::{CellType, DimensionKind, TensorDimension, TensorType};

use crate::dense::PairSum;
use crate::operators::ReduceAggregator;
use crate::program::{CellFunction, NodeId};
use crate::tensors::source_cells;
use crate::types;

/// Maximum number of terms. A term that an expression uses several times is computed as often.
const TERMS_MAX: usize = 32;

/// An interaction as an operation.
#[derive(Debug, Clone)]
pub(crate) struct VectorInteraction {
    /// One or two tensors.
    pub sides: Vec<InteractionSide>,
    /// The result.
    pub term: PairTerm,
    /// For each mapped dimension of the result, its side, and its index among the mapped ones there.
    pub labels: Vec<(usize, usize)>,
    /// For each dense cell of the result, its number in a dense subspace of each side.
    pub cells: Vec<[usize; 2]>,
}

/// A tensor as a list of vectors.
#[derive(Debug, Clone)]
pub(crate) struct InteractionSide {
    /// Type of a tensor with a cell for each vector.
    pub vectors: TensorType,
    /// Number of cells of a vector.
    pub width: usize,
}

/// The dimensions of a side that a term has.
#[derive(Debug)]
pub(crate) struct KeptDimensions {
    /// Their indices among the mapped ones of the side.
    pub labels: Vec<usize>,
    /// For each vector of a dense subspace of the side, its number in one with these dimensions.
    pub cells: Vec<u32>,
    /// Number of cells of a dense subspace with these dimensions.
    pub size: usize,
}

/// Numbers of vectors of one side, or of pairs.
#[derive(Debug, Clone)]
pub(crate) struct PairTerm {
    pub kind: PairTermKind,
    /// For each side the dimensions by which there are numbers, a bit for each; 0 for a side that is one
    /// vector.
    pub axes: [u64; 2],
    /// Type that the numbers are rounded to.
    pub cell: CellType,
}

#[derive(Debug, Clone)]
pub(crate) enum PairTermKind {
    /// Sum of a vector of the first side and one of the second.
    Sums(PairSum),
    /// Sum of the squares of a vector's cells.
    Squares(usize),
    /// A number of the document, by its index among the numbers of the operation.
    Number(usize),
    Map(CellFunction, Box<PairTerm>),
    Join(CellFunction, Box<PairTerm>, Box<PairTerm>),
    /// The numbers along the dimensions that the term lacks, combined.
    Reduce(ReduceAggregator, Box<PairTerm>),
}

/// A term under construction, with the nodes it is computed from.
#[derive(Debug, Clone)]
pub(crate) struct InteractionPart {
    /// Nodes of the sides.
    pub sides: Vec<(NodeId, InteractionSide)>,
    /// Nodes of the numbers.
    pub numbers: Vec<NodeId>,
    pub term: PairTerm,
}

impl InteractionSide {
    /// True if the number of vectors depends on the document.
    pub fn is_mapped(&self) -> bool {
        self.vectors.mapped().next().is_some()
    }

    /// All dimensions.
    pub fn axis(&self) -> u64 {
        (1 << self.vectors.dimensions().len()) - 1
    }

    /// The dimensions of an axis.
    fn dimensions(&self, axis: u64) -> impl Iterator<Item = &TensorDimension> {
        let all = self.vectors.dimensions().iter().enumerate();
        all.filter(move |(at, _)| axis >> at & 1 == 1).map(|(_, dimension)| dimension)
    }

    /// True if some of the dimensions of an axis are mapped.
    pub fn has_labels(&self, axis: u64) -> bool {
        self.dimensions(axis).any(|dimension| dimension.kind == DimensionKind::Mapped)
    }

    /// Type with the dimensions of an axis.
    fn part(&self, axis: u64) -> TensorType {
        types::of(self.vectors.cell(), self.dimensions(axis).cloned().collect())
            .expect("some of the dimensions of a type are those of a smaller one")
    }

    /// The dimensions of an axis, to group vectors by.
    pub fn kept(&self, axis: u64) -> KeptDimensions {
        let part = self.part(axis);
        let is_kept = |name: &str| types::dimension(&part, name).is_some();
        let mapped = self.vectors.mapped().enumerate();
        KeptDimensions {
            labels: mapped.filter(|(_, dimension)| is_kept(&dimension.name)).map(|(at, _)| at).collect(),
            cells: source_cells(&self.vectors, &part),
            size: part.dense_size(),
        }
    }
}

impl PairTerm {
    /// The sums that are reduced to the largest for each vector of one side, and this side.
    pub fn largest_sums(&self) -> Option<(PairSum, usize)> {
        let PairTermKind::Reduce(ReduceAggregator::Max, of) = &self.kind else { return None };
        let PairTermKind::Sums(sum) = of.kind else { return None };
        let kept = [0, 1].into_iter().find(|side| self.axes[*side] == of.axes[*side])?;
        let is_one_side = of.axes[kept] != 0 && of.axes[1 - kept] != 0 && self.axes[1 - kept] == 0;
        is_one_side.then_some((sum, kept))
    }

    /// Number of terms.
    fn count(&self) -> usize {
        1 + match &self.kind {
            PairTermKind::Sums(_) | PairTermKind::Squares(_) | PairTermKind::Number(_) => 0,
            PairTermKind::Map(_, of) | PairTermKind::Reduce(_, of) => of.count(),
            PairTermKind::Join(_, x, y) => x.count() + y.count(),
        }
    }

    /// The term with other numbers of its sides, and its numbers behind `numbers` others.
    fn renumbered(&self, sides: [usize; 2], numbers: usize) -> Self {
        let renumber = |of: &PairTerm| Box::new(of.renumbered(sides, numbers));
        let kind = match &self.kind {
            PairTermKind::Sums(sum) => PairTermKind::Sums(*sum),
            PairTermKind::Squares(side) => PairTermKind::Squares(sides[*side]),
            PairTermKind::Number(number) => PairTermKind::Number(numbers + number),
            PairTermKind::Map(function, of) => PairTermKind::Map(function.clone(), renumber(of)),
            PairTermKind::Join(function, x, y) => {
                PairTermKind::Join(function.clone(), renumber(x), renumber(y))
            }
            PairTermKind::Reduce(aggregator, of) => PairTermKind::Reduce(*aggregator, renumber(of)),
        };
        let mut axes = [0; 2];
        sides.into_iter().zip(self.axes).for_each(|(side, axis)| axes[side] |= axis);
        PairTerm { kind, axes, cell: self.cell }
    }
}

impl InteractionPart {
    /// The sums of the vectors of two tensors, or of the squares of one with itself.
    pub fn sums(sides: Vec<(NodeId, InteractionSide)>, sum: PairSum, cell: CellType) -> Self {
        let kind = if sides.len() == 2 { PairTermKind::Sums(sum) } else { PairTermKind::Squares(0) };
        let mut axes = [0; 2];
        axes.iter_mut().zip(&sides).for_each(|(axis, (_, side))| *axis = side.axis());
        InteractionPart { sides, numbers: Vec::new(), term: PairTerm { kind, axes, cell } }
    }

    /// A number of the document.
    pub fn number(node: NodeId) -> Self {
        let term = PairTerm { kind: PairTermKind::Number(0), axes: [0; 2], cell: CellType::Double };
        InteractionPart { sides: Vec::new(), numbers: vec![node], term }
    }

    /// The function of each number.
    pub fn map(self, function: CellFunction, result: &TensorType) -> Option<Self> {
        let axes = self.term.axes;
        let kind = PairTermKind::Map(function, Box::new(self.term));
        InteractionPart { term: PairTerm { kind, axes, cell: result.cell() }, ..self }.fitting(result)
    }

    /// The function of the numbers of both, which have at most two sides together.
    pub fn join(mut self, other: Self, function: CellFunction, result: &TensorType) -> Option<Self> {
        let mut places = [0, 1];
        for (place, (node, side)) in places.iter_mut().zip(other.sides) {
            *place = match self.sides.iter().position(|(known, _)| *known == node) {
                Some(known) if self.sides[known].1.width != side.width => return None,
                Some(known) => known,
                None => {
                    self.sides.push((node, side));
                    self.sides.len() - 1
                }
            };
        }
        let has_common = |a: &TensorType, b: &TensorType| {
            a.dimensions().iter().any(|dimension| b.dimensions().iter().any(|it| it.name == dimension.name))
        };
        match &self.sides[..] {
            [(_, a), (_, b)] if has_common(&a.vectors, &b.vectors) => return None,
            [_] | [_, _] => {}
            _ => return None,
        }
        let other_term = other.term.renumbered(places, self.numbers.len());
        self.numbers.extend(other.numbers);
        let mut axes = self.term.axes;
        for (axis, other) in axes.iter_mut().zip(other_term.axes) {
            // Numbers of vectors are not joined with those of groups of these.
            match (*axis, other) {
                (0, _) => *axis = other,
                (_, 0) => {}
                (own, other) if own == other => {}
                _ => return None,
            }
        }
        let kind = PairTermKind::Join(function, Box::new(self.term), Box::new(other_term));
        InteractionPart { term: PairTerm { kind, axes, cell: result.cell() }, ..self }.fitting(result)
    }

    /// The numbers combined along the dimensions that the result lacks.
    pub fn reduce(self, aggregator: ReduceAggregator, result: &TensorType) -> Option<Self> {
        let mut axes = self.term.axes;
        for (axis, (_, side)) in axes.iter_mut().zip(&self.sides) {
            for (at, dimension) in side.vectors.dimensions().iter().enumerate() {
                if types::dimension(result, &dimension.name).is_none() {
                    *axis &= !(1 << at);
                }
            }
        }
        let kind = PairTermKind::Reduce(aggregator, Box::new(self.term));
        InteractionPart { term: PairTerm { kind, axes, cell: result.cell() }, ..self }.fitting(result)
    }

    /// The part, unless it has too many terms, or other dimensions than the result.
    pub fn fitting(self, result: &TensorType) -> Option<Self> {
        let of_axes = self.sides.iter().zip(self.term.axes);
        let mut names: Vec<&str> = of_axes
            .flat_map(|((_, side), axis)| side.dimensions(axis))
            .map(|dimension| dimension.name.as_str())
            .collect();
        names.sort_unstable();
        let is_result = names.into_iter().eq(result.dimensions().iter().map(|it| it.name.as_str()));
        (is_result && self.term.count() <= TERMS_MAX).then_some(self)
    }

    /// The operation, with the nodes of its sides and numbers.
    pub fn finish(self, result: &TensorType) -> (VectorInteraction, Vec<NodeId>, Vec<NodeId>) {
        let (nodes, sides): (Vec<NodeId>, Vec<InteractionSide>) = self.sides.into_iter().unzip();
        let label = |name: &str| {
            sides.iter().enumerate().find_map(|(at, side)| {
                side.vectors.mapped().position(|dimension| dimension.name == name).map(|index| (at, index))
            })
        };
        let mapped = result.dimensions().iter().filter(|it| it.kind == DimensionKind::Mapped);
        let labels = mapped.filter_map(|dimension| label(&dimension.name)).collect();
        let cells_of = |side: usize| match sides.get(side) {
            Some(of_side) => source_cells(result, &of_side.part(self.term.axes[side])),
            None => vec![0; result.dense_size()],
        };
        let cells = cells_of(0).into_iter().zip(cells_of(1)).map(|(a, b)| [a as usize, b as usize]).collect();
        (VectorInteraction { sides, term: self.term, labels, cells }, nodes, self.numbers)
    }
}

impl VectorInteraction {
    /// The part that an operation is, with its nodes.
    pub fn part(&self, sides: &[NodeId], numbers: &[NodeId]) -> InteractionPart {
        InteractionPart {
            sides: sides.iter().copied().zip(self.sides.iter().cloned()).collect(),
            numbers: numbers.to_vec(),
            term: self.term.clone(),
        }
    }
}
