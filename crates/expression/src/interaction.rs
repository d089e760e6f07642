//! Late interaction: a number for each pair of a vector of one tensor and a vector of another, and functions
//! of these numbers, as one operation.
//!
//! The two tensors have one common dimension, which the sums are over. So each vector of one is paired with
//! each of the other, and no label is compared: a number belongs to a vector of one side, or to a pair.

use millrace_tensor::{CellType, DimensionKind, TensorType};

use crate::dense::PairSum;
use crate::operators::ReduceAggregator;
use crate::program::{CellFunction, NodeId};
use crate::tensors::source_cells;

/// Maximum number of terms. A term that an expression uses several times is computed as often.
const TERMS_MAX: usize = 32;

/// An interaction as an operation.
#[derive(Debug, Clone)]
pub(crate) struct Interaction {
    /// One or two tensors.
    pub sides: Vec<InteractionSide>,
    /// The result.
    pub term: PairTerm,
    /// For each mapped dimension of the result, its side, and its index among the mapped ones there.
    pub labels: Vec<(usize, usize)>,
    /// For each dense cell of the result, the number of its vector in a dense subspace of each side.
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

/// A number, one for each vector of a side, or one for each pair of vectors.
#[derive(Debug, Clone)]
pub(crate) struct PairTerm {
    pub kind: PairTermKind,
    /// True for the sides for whose vectors there are numbers; false for a side that is one vector.
    pub axes: [bool; 2],
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
    /// The numbers along the axes that the term lacks, combined.
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
}

impl PairTerm {
    /// The sums that are reduced to the largest for each vector of one side, and this side.
    pub fn largest_sums(&self) -> Option<(PairSum, usize)> {
        let PairTermKind::Reduce(ReduceAggregator::Max, of) = &self.kind else { return None };
        match (&of.kind, of.axes, self.axes) {
            (PairTermKind::Sums(sum), [true, true], [true, false]) => Some((*sum, 0)),
            (PairTermKind::Sums(sum), [true, true], [false, true]) => Some((*sum, 1)),
            _ => None,
        }
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
        let mut axes = [false; 2];
        sides.into_iter().zip(self.axes).for_each(|(side, is_there)| axes[side] |= is_there);
        PairTerm { kind, axes, cell: self.cell }
    }
}

impl InteractionPart {
    /// The sums of the vectors of two tensors, or of the squares of one with itself.
    pub fn sums(sides: Vec<(NodeId, InteractionSide)>, sum: PairSum, cell: CellType) -> Self {
        let kind = if sides.len() == 2 { PairTermKind::Sums(sum) } else { PairTermKind::Squares(0) };
        let mut axes = [false; 2];
        axes.iter_mut().zip(&sides).for_each(|(axis, (_, side))| *axis = !side.vectors.is_scalar());
        InteractionPart { sides, numbers: Vec::new(), term: PairTerm { kind, axes, cell } }
    }

    /// A number of the document.
    pub fn number(node: NodeId) -> Self {
        let term = PairTerm { kind: PairTermKind::Number(0), axes: [false; 2], cell: CellType::Double };
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
        let axes = [0, 1].map(|side| self.term.axes[side] || other_term.axes[side]);
        let kind = PairTermKind::Join(function, Box::new(self.term), Box::new(other_term));
        InteractionPart { term: PairTerm { kind, axes, cell: result.cell() }, ..self }.fitting(result)
    }

    /// The numbers combined along the dimensions that the result lacks.
    pub fn reduce(self, aggregator: ReduceAggregator, result: &TensorType) -> Option<Self> {
        let mut axes = self.term.axes;
        for (axis, (_, side)) in axes.iter_mut().zip(&self.sides) {
            let is_kept = side
                .vectors
                .dimensions()
                .iter()
                .any(|dimension| result.dimensions().iter().any(|kept| kept.name == dimension.name));
            *axis = *axis && is_kept;
        }
        let kind = PairTermKind::Reduce(aggregator, Box::new(self.term));
        InteractionPart { term: PairTerm { kind, axes, cell: result.cell() }, ..self }.fitting(result)
    }

    /// The part, unless it has too many terms, or other dimensions than the result.
    pub fn fitting(self, result: &TensorType) -> Option<Self> {
        let of_axes = self.sides.iter().zip(self.term.axes).filter(|(_, is_there)| *is_there);
        let mut names: Vec<&str> = of_axes
            .flat_map(|((_, side), _)| side.vectors.dimensions())
            .map(|dimension| dimension.name.as_str())
            .collect();
        names.sort_unstable();
        let is_result = names.into_iter().eq(result.dimensions().iter().map(|it| it.name.as_str()));
        (is_result && self.term.count() <= TERMS_MAX).then_some(self)
    }

    /// The operation, with the nodes of its sides and numbers.
    pub fn finish(self, result: &TensorType) -> (Interaction, Vec<NodeId>, Vec<NodeId>) {
        let (nodes, sides): (Vec<NodeId>, Vec<InteractionSide>) = self.sides.into_iter().unzip();
        let label = |name: &str| {
            sides.iter().enumerate().find_map(|(at, side)| {
                side.vectors.mapped().position(|dimension| dimension.name == name).map(|index| (at, index))
            })
        };
        let mapped = result.dimensions().iter().filter(|it| it.kind == DimensionKind::Mapped);
        let labels = mapped.filter_map(|dimension| label(&dimension.name)).collect();
        let cells_of = |side: usize| match sides.get(side) {
            Some(side) => source_cells(result, &side.vectors),
            None => vec![0; result.dense_size()],
        };
        let cells = cells_of(0).into_iter().zip(cells_of(1)).map(|(a, b)| [a as usize, b as usize]).collect();
        (Interaction { sides, term: self.term, labels, cells }, nodes, self.numbers)
    }
}

impl Interaction {
    /// The part that an operation is, with its nodes.
    pub fn part(&self, sides: &[NodeId], numbers: &[NodeId]) -> InteractionPart {
        InteractionPart {
            sides: sides.iter().copied().zip(self.sides.iter().cloned()).collect(),
            numbers: numbers.to_vec(),
            term: self.term.clone(),
        }
    }
}
