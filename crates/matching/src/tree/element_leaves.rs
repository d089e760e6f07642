//! Conditions on the elements of a collection, found by bit masks over the elements of many documents.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use millrace_column::Column;
use millrace_document::LeafColumn;
use millrace_plan::{LeafId, PlanNode};

use super::element_words::{collect, needs_leaf};
use super::equal_values::MANY_VALUES;
use super::{ReadyPlan, is_among};
use crate::bits::DocumentBits;
use crate::leaf::ReadyLeaf;
use crate::matched::MatchedValues;

/// Number of parts of a disjunction up to which the bytes of a chunk are searched for each: those that have
/// any of more parts are too many of the documents.
const SEARCHED_PARTS: usize = 4;

/// With at least one in this number of rows left, all are read at once for the leaves of a disjunction.
const FEW_ROWS: usize = 4;

/// A condition on an element of a collection, whose leaves are tests of single values inside the element.
///
/// The elements of all documents are numbered one after the other. Each leaf notes the elements in which it
/// holds, as bits; then the condition is a few operations on words of bits. In a conjunction, a leaf reads
/// only the documents that the leaves before it have left. Leaves that are read in all documents share the
/// values of their path, and those that ask for one value each are looked up together.
pub(super) struct ElementLeaves<'r, 'n> {
    ready: &'r ReadyPlan<'r>,
    child: &'n PlanNode,
    /// Indices of the elements that may match; empty for all.
    only: &'n [u32],
    /// Leaves of the condition that are read in all documents, in order; at least one.
    heads: Vec<LeafId>,
}

/// Documents in which a condition on elements holds.
pub(super) struct ElementMatches {
    pub(super) documents: DocumentBits,
    /// Documents that have to be read in the general way.
    pub(super) irregular: DocumentBits,
}

/// Values at the end of a path in all rows, for the leaves that test them.
type PathValues<'p> = (&'p [Arc<str>], Rc<LeafColumn<'p>>);

impl<'r, 'n> ElementLeaves<'r, 'n> {
    /// The condition `child` on the elements of `field`, or `None` if it needs more than tests of single
    /// values of this field, or if an element without any match can satisfy it.
    pub(super) fn new(
        ready: &'r ReadyPlan<'r>,
        field: &str,
        child: &'n PlanNode,
        only: &'n [u32],
    ) -> Option<Self> {
        let (mut leaves, mut near) = (Vec::new(), Vec::new());
        (collect(child, &mut leaves, &mut near) && near.is_empty() && needs_leaf(child)).then_some(())?;
        let is_test = |leaf: &LeafId| {
            let of = &ready.plan.leaves[leaf.0].field;
            of.split('.').next() == Some(field) && ready.leaves[leaf.0].tests_elements()
        };
        leaves.iter().all(is_test).then_some(())?;
        let mut heads = Vec::new();
        add_heads(child, &mut heads);
        heads.sort_unstable();
        heads.dedup();
        (!heads.is_empty()).then_some(ElementLeaves { ready, child, only, heads })
    }

    /// The documents among `within` in which the condition holds; `None` if the column's values are not in
    /// their wire form.
    pub(super) fn find(&self, column: &Column, within: &DocumentBits) -> Option<ElementMatches> {
        let rows = self.narrow(self.child, column, *within).rows();
        let first = self.ready.leaves[self.heads[0].0].leaf_column(column, &rows)?;
        let elements: Vec<Range<usize>> = (0..rows.len()).map(|row| first.elements(row)).collect();
        let path = &*self.ready.leaves[self.heads[0].0].field.path;
        let mut pass = ElementPass {
            of: self,
            column,
            rows: &rows,
            words: elements.last().map_or(0, |last| last.end.div_ceil(64)),
            elements: &elements,
            known: BTreeMap::new(),
            values: RefCell::new(vec![(path, Rc::new(first))]),
        };
        pass.read_heads()?;
        let found = pass.node(self.child, &(0..rows.len()).collect::<Vec<_>>())?;
        let (mut documents, mut irregular) = (DocumentBits::NONE, DocumentBits::NONE);
        pass.rows_with(&found, 0..rows.len(), |row, element| {
            if is_among(self.only, element) {
                documents.set(usize::from(rows[row]));
            }
        });
        for (_, values) in pass.values.borrow().iter() {
            values.irregular().iter().for_each(|row| irregular.set(usize::from(rows[*row])));
        }
        Some(ElementMatches { documents: documents.without(&irregular), irregular })
    }

    /// The documents of `within` with an element in which the condition `node` can hold.
    fn narrow(&self, node: &PlanNode, column: &Column, within: DocumentBits) -> DocumentBits {
        match node {
            PlanNode::Leaf(leaf) => self.ready.leaves[leaf.0].narrow(column, &within),
            PlanNode::And(children) => {
                children.iter().fold(within, |within, child| self.narrow(child, column, within))
            }
            PlanNode::Or(children) if children.len() > SEARCHED_PARTS => within,
            PlanNode::Or(children) => {
                let narrow = |child| self.narrow(child, column, within);
                children.iter().map(narrow).fold(DocumentBits::NONE, |any, one| any.or(&one))
            }
            PlanNode::AndNot(first, _) | PlanNode::Rank(first, _) => self.narrow(first, column, within),
            PlanNode::False => DocumentBits::NONE,
            PlanNode::True | PlanNode::Near { .. } | PlanNode::SameElement { .. } => within,
        }
    }
}

/// Collects the leaves of a condition that are read in all documents: in a conjunction, the first.
fn add_heads(node: &PlanNode, heads: &mut Vec<LeafId>) {
    match node {
        PlanNode::Leaf(leaf) => heads.push(*leaf),
        PlanNode::Or(children) => children.iter().for_each(|child| add_heads(child, heads)),
        PlanNode::And(children) => {
            // A part without a leaf leaves all documents to the next one.
            let before = heads.len();
            for child in children {
                add_heads(child, heads);
                if heads.len() > before {
                    break;
                }
            }
        }
        PlanNode::AndNot(first, _) | PlanNode::Rank(first, _) => add_heads(first, heads),
        PlanNode::True | PlanNode::False | PlanNode::Near { .. } | PlanNode::SameElement { .. } => {}
    }
}

/// Evaluation of a condition in some rows of a chunk.
struct ElementPass<'p, 'r, 'n> {
    of: &'p ElementLeaves<'r, 'n>,
    column: &'p Column,
    rows: &'p [u16],
    /// Numbers of each row's elements.
    elements: &'p [Range<usize>],
    /// Number of words of bits for all elements.
    words: usize,
    /// Elements in which leaves hold that were read in all rows.
    known: BTreeMap<LeafId, Vec<u64>>,
    /// Values of all rows that were read, by their paths.
    values: RefCell<Vec<PathValues<'p>>>,
}

impl<'p> ElementPass<'p, '_, '_> {
    /// Reads the leaves that are read in all rows: each value once, and those that are asked for by many
    /// leaves are looked up together. `None` if the column's values are not in their wire form.
    fn read_heads(&mut self) -> Option<()> {
        let (of, mut known): (_, BTreeMap<LeafId, Vec<u64>>) = (self.of, BTreeMap::new());
        for asked in &of.ready.values {
            let heads = of.heads.iter().filter(|head| asked.has(**head)).count();
            if heads < MANY_VALUES {
                continue;
            }
            let Some(first) = of.heads.iter().find(|head| asked.has(**head)) else { continue };
            let values = self.values_of(*first)?;
            let Some(matched) = asked.matched(values.values()) else { continue };
            for head in of.heads.iter().filter(|head| asked.has(**head)) {
                known.insert(*head, vec![0; self.words]);
            }
            matched.each_row(&values, &mut |row, matched| {
                for value in matched {
                    let Some(element) = self.element(&values, row, row, value.index) else { continue };
                    for leaf in asked.asking(value) {
                        known.get_mut(&leaf).into_iter().for_each(|bits| set(bits, element));
                    }
                }
            });
        }
        for head in &of.heads {
            if !known.contains_key(head) {
                known.insert(*head, self.leaf_in_all(*head)?);
            }
        }
        self.known = known;
        Some(())
    }

    /// The values at the end of a leaf's path in all rows, which are read once for all leaves.
    fn values_of(&self, leaf: LeafId) -> Option<Rc<LeafColumn<'p>>> {
        let leaf: &'p ReadyLeaf = &self.of.ready.leaves[leaf.0];
        let path = leaf.field.path.as_slice();
        if let Some((_, values)) = self.values.borrow().iter().find(|(known, _)| *known == path) {
            return Some(Rc::clone(values));
        }
        let values = Rc::new(leaf.leaf_column(self.column, self.rows)?);
        self.values.borrow_mut().push((path, Rc::clone(&values)));
        Some(values)
    }

    /// The number of the element that a value is in: by its row among those of `values`, and among all rows.
    /// `None` in a row that has to be read in the general way.
    fn element(&self, values: &LeafColumn<'_>, row: usize, of_all: usize, value: usize) -> Option<usize> {
        let (here, all) = (values.elements(row), &self.elements[of_all]);
        (here.len() == all.len()).then(|| values.element(value) - here.start + all.start)
    }

    /// Bits of the elements with values that match; `left` has the rows of the values.
    fn bits_of(
        &self,
        values: &LeafColumn<'_>,
        matched: &MatchedValues,
        left: impl Iterator<Item = usize>,
    ) -> Vec<u64> {
        let (left, mut bits): (Vec<usize>, _) = (left.collect(), vec![0; self.words]);
        matched.each_row(values, &mut |row, matched| {
            for value in matched {
                let element = self.element(values, row, left[row], value.index);
                element.into_iter().for_each(|element| set(&mut bits, element));
            }
        });
        bits
    }

    /// Bits of the elements of the rows `left` in which a part of the condition holds; those of other rows
    /// have no meaning. `None` if the column's values are not in their wire form.
    fn node(&self, node: &PlanNode, left: &[usize]) -> Option<Vec<u64>> {
        let combine = |into: &mut Vec<u64>, node: &PlanNode, left: &[usize], by: fn(u64, u64) -> u64| {
            let bits = self.node(node, left)?;
            into.iter_mut().zip(bits).for_each(|(into, bits)| *into = by(*into, bits));
            Some(())
        };
        Some(match node {
            PlanNode::True => vec![u64::MAX; self.words],
            PlanNode::False => vec![0; self.words],
            PlanNode::And(children) => {
                let mut all = vec![u64::MAX; self.words];
                let mut left = Cow::Borrowed(left);
                for (index, child) in children.iter().enumerate() {
                    combine(&mut all, child, &left, |all, one| all & one)?;
                    if index + 1 < children.len() {
                        left = Cow::Owned(self.some_left(&all, &left));
                    }
                }
                all
            }
            PlanNode::Or(children) => {
                let mut any = vec![0; self.words];
                children.iter().try_for_each(|child| combine(&mut any, child, left, |any, one| any | one))?;
                any
            }
            PlanNode::AndNot(positive, negatives) => {
                let mut bits = self.node(positive, left)?;
                let left = self.some_left(&bits, left);
                negatives
                    .iter()
                    .try_for_each(|child| combine(&mut bits, child, &left, |all, not| all & !not))?;
                bits
            }
            PlanNode::Rank(first, _) => self.node(first, left)?,
            PlanNode::Leaf(leaf) => match self.known.get(leaf) {
                Some(bits) => bits.clone(),
                None => self.leaf(*leaf, left)?,
            },
            PlanNode::Near { .. } | PlanNode::SameElement { .. } => {
                unreachable!("conditions with these are not made")
            }
        })
    }

    /// Bits of the elements of all rows in which a leaf holds.
    fn leaf_in_all(&self, leaf: LeafId) -> Option<Vec<u64>> {
        let values = self.values_of(leaf)?;
        let matched = self.of.ready.leaves[leaf.0].matched(values.values())?;
        Some(self.bits_of(&values, &matched, 0..self.rows.len()))
    }

    /// Bits of the elements of the rows `left` in which a leaf holds.
    fn leaf(&self, leaf: LeafId, left: &[usize]) -> Option<Vec<u64>> {
        let of = &self.of.ready.leaves[leaf.0];
        // In a disjunction other leaves may read the same values.
        if self.of.heads.len() > 1 && left.len() * FEW_ROWS >= self.rows.len() {
            return self.leaf_in_all(leaf);
        }
        let rows: Vec<u16> = left.iter().map(|row| self.rows[*row]).collect();
        let values = of.leaf_column(self.column, &rows)?;
        Some(self.bits_of(&values, &of.matched(values.values())?, left.iter().copied()))
    }

    /// The rows of `left` with at least one of the elements.
    fn some_left(&self, bits: &[u64], left: &[usize]) -> Vec<usize> {
        let mut with = Vec::new();
        self.rows_with(bits, left.iter().copied(), |row, _| {
            if with.last() != Some(&row) {
                with.push(row);
            }
        });
        with
    }

    /// Calls `each` with each of the rows' elements whose bits are set: the row, and the index of the element
    /// in it.
    fn rows_with(&self, bits: &[u64], rows: impl Iterator<Item = usize>, mut each: impl FnMut(usize, usize)) {
        for row in rows {
            let Range { start, end } = self.elements[row].clone();
            let mut at = start;
            while at < end {
                let rest = bits[at / 64] >> (at % 64);
                match rest {
                    0 => at = (at / 64 + 1) * 64,
                    rest => {
                        at += rest.trailing_zeros() as usize;
                        if at < end {
                            each(row, at - start);
                        }
                        at += 1;
                    }
                }
            }
        }
    }
}

fn set(bits: &mut [u64], index: usize) {
    bits[index / 64] |= 1 << (index % 64);
}
