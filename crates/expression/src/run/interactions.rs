//! Late interaction, some documents at a time: the numbers of all their pairs lie in one list, over which the
//! functions run.

use std::ops::Range;

use super::BatchRun;
use super::patterns::NodeCells;
use crate::batch::{BatchSpace, TensorBatch};
use crate::dense::{CellsRef, PairSum};
use crate::evaluate::EvaluationScratch;
use crate::interaction::{Interaction, InteractionSide, PairTerm, PairTermKind};
use crate::operators::{BatchNumbers, ReduceAggregator};
use crate::program::{CellFunction, NodeId};
use crate::tensors::CELLS;
use crate::value::round;

/// Number of pairs of vectors after which no more documents are added: their numbers stay in the cache.
const PAIRS_AT_ONCE: usize = 1 << 13;

impl BatchRun<'_> {
    /// The results of an interaction.
    pub fn interact(
        &self,
        id: NodeId,
        (plan, sides, numbers): (&Interaction, &[NodeId], &[NodeId]),
        documents: usize,
        cells: Vec<f64>,
        space: &mut BatchSpace,
        nested: &mut EvaluationScratch,
    ) -> TensorBatch {
        let shape = self.program.shapes[id];
        let mut out = TensorBatch::new(shape, cells);
        let mut run = InteractionRun {
            run: self,
            plan,
            numbers,
            sides: sides.iter().map(|side| self.cells_of_node(*side)).collect(),
            documents: 0..0,
            counts: Vec::new(),
            rows: Vec::new(),
            sums: Vec::new(),
            nested,
        };
        let mut labels: [Vec<u32>; 2] = Default::default();
        while run.next(documents) {
            let PairNumbers { cells, extents } = run.evaluate(&plan.term);
            let mut rest = &cells[..];
            for (document, extent) in run.documents.clone().zip(extents) {
                let (cells, others) = rest.split_at(extent[0] * extent[1]);
                rest = others;
                if shape.mapped == 0 {
                    out.cells.extend(plan.cells.iter().map(|[left, right]| cells[left * extent[1] + right]));
                    continue;
                }
                for (side, labels) in sides.iter().zip(&mut labels) {
                    labels.clear();
                    self.write_labels(*side, document, space, labels);
                }
                plan.write(extent, cells, &labels, &mut out);
                out.end_tensor(shape);
            }
        }
        out
    }
}

impl Interaction {
    /// Appends the cells of a document's tensor, with their labels, from those of the sides.
    fn write(&self, extent: [usize; 2], cells: &[f64], labels: &[Vec<u32>; 2], out: &mut TensorBatch) {
        // Number of labels of a subspace, of subspaces, and of vectors of a subspace.
        let of_side = |at: usize| match self.sides.get(at) {
            Some(side) if self.term.axes[at] => {
                let vectors = side.vectors.dense_size();
                (side.vectors.mapped().count(), extent[at] / vectors, vectors)
            }
            _ => (0, 1, 1),
        };
        let ([of_left, of_right], width) = ([of_side(0), of_side(1)], extent[1]);
        for left in 0..of_left.1 {
            for right in 0..of_right.1 {
                out.labels.extend(self.labels.iter().map(|(side, index)| match side {
                    0 => labels[0][left * of_left.0 + index],
                    _ => labels[1][right * of_right.0 + index],
                }));
                let vectors = self.cells.iter().map(|[a, b]| (left * of_left.2 + a, right * of_right.2 + b));
                out.cells.extend(vectors.map(|(left, right)| cells[left * width + right]));
            }
        }
    }
}

/// Numbers of some documents, one after another: for each vector of the first side the numbers of those of
/// the second.
struct PairNumbers {
    cells: Vec<f64>,
    /// For each document the number of vectors of each side; 1 for a side whose vectors have no numbers.
    extents: Vec<[usize; 2]>,
}

/// The evaluation of an interaction.
struct InteractionRun<'r, 'a> {
    run: &'r BatchRun<'a>,
    plan: &'r Interaction,
    numbers: &'r [NodeId],
    sides: Vec<NodeCells<'r, 'a>>,
    /// The documents that are evaluated.
    documents: Range<usize>,
    /// Number of vectors of each side of these documents.
    counts: Vec<[usize; 2]>,
    /// Reusable numbers of rows, and their sums.
    rows: Vec<u16>,
    sums: Vec<f64>,
    nested: &'r mut EvaluationScratch,
}

/// Number of vectors that the cells of a document's tensor are. A document without a value has zeros.
fn vectors(side: &InteractionSide, cells: CellsRef<'_>) -> usize {
    if side.is_mapped() { cells.len() / side.width } else { side.vectors.dense_size() }
}

impl InteractionRun<'_, '_> {
    /// Goes on to the next documents; returns false after the last one.
    fn next(&mut self, documents: usize) -> bool {
        self.documents = self.documents.end..self.documents.end;
        self.counts.clear();
        let mut pairs = 0;
        while pairs < PAIRS_AT_ONCE && self.documents.end < documents {
            let mut counts = [1; 2];
            for ((count, side), cells) in counts.iter_mut().zip(&self.plan.sides).zip(&mut self.sides) {
                *count = vectors(side, cells.get(self.documents.end));
            }
            pairs += (counts[0] * counts[1]).max(1);
            self.counts.push(counts);
            self.documents.end += 1;
        }
        !self.documents.is_empty()
    }

    /// The numbers of a term.
    fn evaluate(&mut self, term: &PairTerm) -> PairNumbers {
        let mut numbers = match &term.kind {
            PairTermKind::Sums(sum) => self.sums(*sum),
            PairTermKind::Squares(side) => self.squares(*side),
            PairTermKind::Number(number) => {
                let of_node = self.run.numbers(self.numbers[*number]);
                let cells = self.documents.clone().map(|document| of_node.get(document)).collect();
                PairNumbers { cells, extents: vec![[1; 2]; self.documents.len()] }
            }
            PairTermKind::Map(function, of) => {
                let of = self.evaluate(of);
                let mut cells = vec![0.0; of.cells.len()];
                let each = BatchNumbers::Each(&of.cells);
                function.apply(each, BatchNumbers::Same(0.0), &mut cells, self.nested);
                PairNumbers { cells, extents: of.extents }
            }
            PairTermKind::Join(function, x, y) => {
                let axes = [x.axes, y.axes];
                let of = [self.evaluate(x), self.evaluate(y)];
                self.joined(function, axes, of)
            }
            PairTermKind::Reduce(aggregator, of) => {
                let numbers = self.evaluate(of);
                self.reduced(*aggregator, term.axes, of.axes, &numbers)
            }
        };
        round(term.cell, &mut numbers.cells);
        numbers
    }

    /// The sums of each vector of the first side with each of the second.
    fn sums(&mut self, sum: PairSum) -> PairNumbers {
        let InteractionRun { plan, sides, documents, counts, rows, sums, .. } = self;
        let [first, second] = &mut sides[..] else { unreachable!("sums are of two sides") };
        let width = plan.sides[0].width;
        let (mut cells, mut extents) = (Vec::new(), Vec::with_capacity(counts.len()));
        for (document, [lefts, rights]) in documents.clone().zip(counts.iter().copied()) {
            if lefts.saturating_mul(rights) > CELLS && plan.sides.iter().any(InteractionSide::is_mapped) {
                // A result that is too large is empty, as that of any join.
                let is_second = plan.sides[1].is_mapped();
                extents.push(if is_second { [lefts, 0] } else { [0, rights] });
                continue;
            }
            let (left, right) = (first.get(document), second.get(document));
            if lefts <= rights {
                for vector in 0..lefts {
                    sum.apply_to_all(left.row(vector, width), right, width, rows, sums);
                    sums.resize(rights, 0.0);
                    cells.extend_from_slice(sums);
                }
            } else {
                let begin = cells.len();
                cells.resize(begin + lefts * rights, 0.0);
                for vector in 0..rights {
                    sum.apply_to_all(right.row(vector, width), left, width, rows, sums);
                    let of_vector = cells[begin..].iter_mut().skip(vector).step_by(rights);
                    of_vector.zip(&*sums).for_each(|(cell, sum)| *cell = *sum);
                }
            }
            extents.push([lefts, rights]);
        }
        PairNumbers { cells, extents }
    }

    /// The sums of the squares of the cells of each vector of a side.
    fn squares(&mut self, side: usize) -> PairNumbers {
        let width = self.plan.sides[side].width;
        let (mut cells, mut extents) = (Vec::new(), Vec::with_capacity(self.counts.len()));
        for (document, counts) in self.documents.clone().zip(&self.counts) {
            let of_document = self.sides[side].get(document);
            cells.extend((0..counts[side]).map(|vector| {
                let vector = of_document.row(vector, width);
                PairSum::Product.apply(vector, vector)
            }));
            let mut extent = [1; 2];
            extent[side] = counts[side];
            extents.push(extent);
        }
        PairNumbers { cells, extents }
    }

    /// The function of the numbers of two terms, which have these axes.
    fn joined(
        &mut self,
        function: &CellFunction,
        axes: [[bool; 2]; 2],
        [x, y]: [PairNumbers; 2],
    ) -> PairNumbers {
        let extents: Vec<[usize; 2]> = x
            .extents
            .iter()
            .zip(&y.extents)
            .map(|(x, y)| {
                [0, 1].map(|side| match (axes[0][side], axes[1][side]) {
                    // One of them may be empty, otherwise they are equal.
                    (true, true) => x[side].min(y[side]),
                    (true, false) => x[side],
                    (false, _) => y[side],
                })
            })
            .collect();
        let (x, y) = (x.spread(axes[0], &extents), y.spread(axes[1], &extents));
        let mut cells = vec![0.0; x.len()];
        function.apply(BatchNumbers::Each(&x), BatchNumbers::Each(&y), &mut cells, self.nested);
        PairNumbers { cells, extents }
    }

    /// The numbers of a term with other axes combined to those of one with these axes.
    fn reduced(
        &self,
        aggregator: ReduceAggregator,
        axes: [bool; 2],
        of_axes: [bool; 2],
        of: &PairNumbers,
    ) -> PairNumbers {
        let (mut cells, mut extents) = (Vec::new(), Vec::with_capacity(of.extents.len()));
        let mut combined = Vec::new();
        let mut rest = &of.cells[..];
        // A tensor with labels that is made of no cells has none, and one without has zeros.
        let is_mapped = |side: usize| self.plan.sides.get(side).is_some_and(InteractionSide::is_mapped);
        for [lefts, rights] in of.extents.iter().copied() {
            let (here, others) = rest.split_at(lefts * rights);
            rest = others;
            extents.push(match axes {
                [false, false] => {
                    cells.push(aggregator.apply_to_slice(here, &mut combined));
                    [1; 2]
                }
                [true, true] => {
                    cells.extend_from_slice(here);
                    [lefts, rights]
                }
                [true, false] if rights == 0 && of_axes[1] && is_mapped(0) => [0, 1],
                [true, false] => {
                    let of_vector = |left: usize| &here[left * rights..(left + 1) * rights];
                    let all = 0..lefts;
                    cells.extend(all.map(|left| aggregator.apply_to_slice(of_vector(left), &mut combined)));
                    [lefts, 1]
                }
                [false, true] if lefts == 0 && of_axes[0] && is_mapped(1) => [1, 0],
                [false, true] => {
                    for right in 0..rights {
                        combined.clear();
                        combined.extend(here.iter().skip(right).step_by(rights));
                        cells.push(aggregator.apply(&mut combined));
                    }
                    [1, rights]
                }
            });
        }
        PairNumbers { cells, extents }
    }
}

impl PairNumbers {
    /// The numbers of a term with these axes for each pair of these extents.
    fn spread(self, axes: [bool; 2], extents: &[[usize; 2]]) -> Vec<f64> {
        if self.extents == extents {
            return self.cells;
        }
        let mut out = Vec::new();
        let mut rest = &self.cells[..];
        for (own, [lefts, rights]) in self.extents.iter().zip(extents) {
            let (here, others) = rest.split_at(own[0] * own[1]);
            rest = others;
            if lefts * rights == 0 {
                continue;
            }
            for left in 0..*lefts {
                let row = if axes[0] { &here[left * own[1]..(left + 1) * own[1]] } else { here };
                match axes[1] {
                    true => out.extend_from_slice(&row[..*rights]),
                    false => out.resize(out.len() + rights, row[0]),
                }
            }
        }
        out
    }
}
