//! Late interaction, some documents at a time: the numbers of all their pairs lie in one list, over which the
//! functions run.

use std::ops::Range;

use super::BatchRun;
use super::patterns::NodeCells;
use crate::batch::{BatchSpace, TensorBatch};
use crate::dense::PairSum;
use crate::evaluate::EvaluationScratch;
use crate::interaction::{InteractionSide, KeptDimensions, PairTerm, PairTermKind, VectorInteraction};
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
        (plan, sides, numbers): (&VectorInteraction, &[NodeId], &[NodeId]),
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
            nodes: sides,
            numbers,
            sides: sides.iter().map(|side| self.cells_of_node(*side)).collect(),
            documents: 0..0,
            counts: Vec::new(),
            rows: Vec::new(),
            sums: Vec::new(),
            space,
            nested,
        };
        let kept: Vec<KeptDimensions> =
            plan.sides.iter().zip(plan.term.axes).map(|(side, axis)| side.kept(axis)).collect();
        let mut groups: [VectorGroups; 2] = Default::default();
        while run.next(documents) {
            let PairNumbers { cells, extents } = run.evaluate(&plan.term);
            let mut rest = &cells[..];
            for (document, extent) in run.documents.clone().zip(extents) {
                let (cells, others) = rest.split_at(extent[0] * extent[1]);
                rest = others;
                if shape.mapped > 0 {
                    for (side, (kept, groups)) in kept.iter().zip(&mut groups).enumerate() {
                        if plan.term.axes[side] != 0 {
                            run.group(side, kept, document, groups);
                        }
                    }
                    plan.write(extent, cells, &kept, &groups, &mut out);
                } else {
                    out.cells.extend(plan.cells.iter().map(|[left, right]| cells[left * extent[1] + right]));
                }
                out.end_tensor(shape);
            }
        }
        out
    }
}

impl VectorInteraction {
    /// Appends the cells of a document's tensor, with the labels of the groups of vectors of the sides.
    fn write(
        &self,
        extent: [usize; 2],
        cells: &[f64],
        kept: &[KeptDimensions],
        groups: &[VectorGroups; 2],
        out: &mut TensorBatch,
    ) {
        let size = |side: usize| kept.get(side).map_or(1, |kept| kept.size);
        let (sizes, width) = ([size(0), size(1)], extent[1]);
        for left in 0..extent[0] / sizes[0] {
            for right in 0..width / sizes[1] {
                let firsts = [left * sizes[0], right * sizes[1]];
                out.labels.extend(
                    self.labels.iter().map(|(side, index)| groups[*side].label(firsts[*side], *index)),
                );
                let places = self.cells.iter().map(|[left, right]| (firsts[0] + left, firsts[1] + right));
                out.cells.extend(places.map(|(left, right)| cells[left * width + right]));
            }
        }
    }
}

/// Groups of the vectors of a side of a document by some dimensions, in the order of their first vectors.
#[derive(Default)]
struct VectorGroups {
    /// Group of each vector.
    of_vector: Vec<usize>,
    /// First vector of each group.
    first: Vec<usize>,
    /// Labels of the dense subspaces of the side, `mapped` of each, which is `size` vectors.
    labels: Vec<u32>,
    mapped: usize,
    size: usize,
}

impl VectorGroups {
    /// The label of a group in a mapped dimension of the side.
    fn label(&self, group: usize, index: usize) -> u32 {
        self.labels[self.first[group] / self.size * self.mapped + index]
    }
}

/// Groups of numbers of one side, which are combined.
struct CombinedGroups {
    /// Indices of the numbers, group by group.
    members: Vec<usize>,
    /// For each group the end of its members.
    ends: Vec<usize>,
}

impl CombinedGroups {
    fn each(&self) -> impl Iterator<Item = &[usize]> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let members = &self.members[begin..*end];
            begin = *end;
            members
        })
    }
}

/// Numbers of some documents, one after another: for each vector, or group, of the first side the numbers of
/// those of the second.
struct PairNumbers {
    cells: Vec<f64>,
    /// For each document the number of vectors, or groups, of each side; 1 for a side without numbers.
    extents: Vec<[usize; 2]>,
}

/// The evaluation of an interaction.
struct InteractionRun<'r, 'a> {
    run: &'r BatchRun<'a>,
    plan: &'r VectorInteraction,
    /// Nodes of the sides, and of the numbers.
    nodes: &'r [NodeId],
    numbers: &'r [NodeId],
    sides: Vec<NodeCells<'r, 'a>>,
    /// The documents that are evaluated.
    documents: Range<usize>,
    /// Number of vectors of each side of these documents.
    counts: Vec<[usize; 2]>,
    /// Reusable numbers of rows, and their sums.
    rows: Vec<u16>,
    sums: Vec<f64>,
    space: &'r mut BatchSpace,
    nested: &'r mut EvaluationScratch,
}

/// Number of vectors that the cells of a document's tensor are. A document without a value has zeros.
fn vectors(side: &InteractionSide, cells: &NodeCells<'_, '_>, document: usize) -> usize {
    if side.is_mapped() { cells.count(document) / side.width } else { side.vectors.dense_size() }
}

impl InteractionRun<'_, '_> {
    /// Goes on to the next documents; returns false after the last one.
    fn next(&mut self, documents: usize) -> bool {
        self.documents = self.documents.end..self.documents.end;
        self.counts.clear();
        let mut pairs = 0;
        while pairs < PAIRS_AT_ONCE && self.documents.end < documents {
            let mut counts = [1; 2];
            for ((count, side), cells) in counts.iter_mut().zip(&self.plan.sides).zip(&self.sides) {
                *count = vectors(side, cells, self.documents.end);
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
        axes: [[u64; 2]; 2],
        [x, y]: [PairNumbers; 2],
    ) -> PairNumbers {
        let extents: Vec<[usize; 2]> = x
            .extents
            .iter()
            .zip(&y.extents)
            .map(|(x, y)| {
                [0, 1].map(|side| match (axes[0][side], axes[1][side]) {
                    // One of them may be empty, otherwise they are equal.
                    (0, _) => y[side],
                    (_, 0) => x[side],
                    _ => x[side].min(y[side]),
                })
            })
            .collect();
        let (x, y) = (x.spread(axes[0], &extents), y.spread(axes[1], &extents));
        let mut cells = vec![0.0; x.len()];
        function.apply(BatchNumbers::Each(&x), BatchNumbers::Each(&y), &mut cells, self.nested);
        PairNumbers { cells, extents }
    }

    /// The numbers of a term, combined along the dimensions that the axes of the result lack.
    fn reduced(
        &mut self,
        aggregator: ReduceAggregator,
        axes: [u64; 2],
        of_axes: [u64; 2],
        of: &PairNumbers,
    ) -> PairNumbers {
        let (mut cells, mut extents) = (Vec::new(), Vec::with_capacity(of.extents.len()));
        let mut combined = Vec::new();
        // A side that is not there is one number.
        let mut groups = [0, 1].map(|_| CombinedGroups { members: vec![0], ends: vec![1] });
        let mut rest = &of.cells[..];
        for (document, extent) in self.documents.clone().zip(of.extents.iter().copied()) {
            let (here, others) = rest.split_at(extent[0] * extent[1]);
            rest = others;
            let mut into = [1; 2];
            for side in 0..self.plan.sides.len() {
                let axes = [of_axes[side], axes[side]];
                self.combine(side, axes, document, extent[side], &mut groups[side]);
                into[side] = groups[side].ends.len();
                // A tensor with labels that is made of no cells has none, and one without has zeros.
                if here.is_empty() && self.plan.sides[side].has_labels(axes[1]) {
                    into[side] = 0;
                }
            }
            extents.push(into);
            if into[0] * into[1] == 0 {
                continue;
            }
            for lefts in groups[0].each() {
                for rights in groups[1].each() {
                    cells.push(match lefts {
                        // Adjacent numbers.
                        [left] if rights.len() == extent[1] && axes[1] == 0 => {
                            let numbers = &here[left * extent[1]..(left + 1) * extent[1]];
                            aggregator.apply_to_slice(numbers, &mut combined)
                        }
                        _ => {
                            combined.clear();
                            for left in lefts {
                                let numbers = &here[left * extent[1]..(left + 1) * extent[1]];
                                combined.extend(rights.iter().map(|right| numbers[*right]));
                            }
                            aggregator.apply(&mut combined)
                        }
                    });
                }
            }
        }
        PairNumbers { cells, extents }
    }

    /// Finds the groups of `count` numbers of a side by which an axis becomes another.
    fn combine(
        &mut self,
        side: usize,
        [from, to]: [u64; 2],
        document: usize,
        count: usize,
        out: &mut CombinedGroups,
    ) {
        let CombinedGroups { members, ends } = out;
        members.clear();
        members.extend(0..count);
        ends.clear();
        let plan = self.plan;
        let of_side = &plan.sides[side];
        if from == to {
            ends.extend(1..=count);
        } else if to == 0 {
            ends.push(count);
        } else if count == 0 {
            // Without labels there is a group for each cell, also of no numbers.
            ends.resize(if of_side.has_labels(to) { 0 } else { of_side.kept(to).size }, 0);
        } else {
            let (mut before, mut after) = (VectorGroups::default(), VectorGroups::default());
            self.group(side, &of_side.kept(from), document, &mut before);
            self.group(side, &of_side.kept(to), document, &mut after);
            let group = |number: usize| after.of_vector[before.first[number]];
            members.sort_by_key(|number| group(*number));
            let group_ends = members.chunk_by(|a, b| group(*a) == group(*b)).map(<[usize]>::len);
            ends.extend(group_ends.scan(0, |end, length| {
                *end += length;
                Some(*end)
            }));
        }
    }

    /// Groups the vectors of a side of a document by some dimensions.
    fn group(&mut self, side: usize, kept: &KeptDimensions, document: usize, out: &mut VectorGroups) {
        let plan = self.plan;
        let vectors = &plan.sides[side].vectors;
        let count = self.counts[document - self.documents.start][side];
        let VectorGroups { of_vector, first, labels, mapped, size } = out;
        labels.clear();
        self.run.write_labels(self.nodes[side], document, self.space, labels);
        (*mapped, *size) = (vectors.mapped().count(), vectors.dense_size());
        of_vector.clear();
        first.clear();
        if kept.labels.len() == *mapped && kept.size == *size {
            of_vector.extend(0..count);
            first.extend(0..count);
            return;
        }
        let index = &mut self.space.index;
        index.clear();
        let mut address: Vec<u32> = Vec::new();
        for vector in 0..count {
            let own = &labels[vector / *size * *mapped..];
            address.clear();
            address.extend(kept.labels.iter().map(|at| own[*at]));
            if kept.size > 1 || address.is_empty() {
                address.push(kept.cells[vector % *size]);
            }
            let group = match index.first(&address, 0..address.len()) {
                Some(entry) => index.entry(entry).0,
                None => {
                    index.insert(&address, 0..address.len(), first.len());
                    first.push(vector);
                    first.len() - 1
                }
            };
            of_vector.push(group);
        }
    }
}

impl PairNumbers {
    /// The numbers of a term with these axes for each pair of these extents.
    fn spread(self, axes: [u64; 2], extents: &[[usize; 2]]) -> Vec<f64> {
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
                let row = if axes[0] == 0 { here } else { &here[left * own[1]..(left + 1) * own[1]] };
                if axes[1] == 0 {
                    out.resize(out.len() + rights, row[0]);
                } else {
                    out.extend_from_slice(&row[..*rights]);
                }
            }
        }
        out
    }
}
