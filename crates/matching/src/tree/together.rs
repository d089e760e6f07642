//! Leaves that are searched together: many words of one field, values of one path, and many ranges of one
//! field of whole numbers.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use millrace_column::{CellKind, Column, ColumnKey, FixedColumn};
use millrace_plan::{LeafId, PlanNode};

use super::element_leaves::ElementLeaves;
use super::element_words::ElementWords;
use super::{ChunkPass, EvaluatedLeaf, ReadyPlan, take};
use crate::Error;
use crate::bits::DocumentBits;
use crate::leaf::ReadyLeaf;
use crate::many::{MANY_WORDS, find_any, find_each};
use crate::outcome::LeafOutcome;
use crate::pattern::WordMatcher;
use crate::words::ChunkPositions;

/// Minimum number of ranges for which one pass that looks a number up among all bounds is faster than a pass
/// with vector instructions for each range.
const MANY_RANGES: usize = 16;

/// Maximum number of ranges in which a number may lie.
const OVERLAPS_MAX: usize = 8;

/// Groups the leaves of one word each by their field, and keeps the large groups. Leaves of which only the
/// documents count are not among them: those of a disjunction are one search ([`ChunkPass::any_word`]).
pub(super) fn words_together(ready: &ReadyPlan<'_>) -> Vec<Vec<LeafId>> {
    let mut groups: HashMap<&ColumnKey, Vec<LeafId>> = HashMap::new();
    if ready.paths.is_fast() {
        for (number, leaf) in ready.leaves.iter().enumerate() {
            if leaf.single_word().is_some() && !leaf.finds_documents {
                groups.entry(&leaf.field.key).or_default().push(LeafId(number));
            }
        }
    }
    groups.into_values().filter(|leaves| leaves.len() >= MANY_WORDS).collect()
}

/// Appends the children of a disjunction. Those of disjunctions among them (a word in any of several fields
/// is one) come in their place.
pub(super) fn alternatives<'n>(children: &'n [PlanNode], all: &mut Vec<&'n PlanNode>) {
    for child in children {
        match child {
            PlanNode::Or(children) => alternatives(children, all),
            child => all.push(child),
        }
    }
}

/// Groups the leaves of one range each by their field, and keeps the large groups whose ranges overlap
/// little.
pub(super) fn ranges_together(ready: &ReadyPlan<'_>) -> Vec<RangeLeaves> {
    let mut groups: HashMap<&ColumnKey, Vec<(LeafId, i64, i64)>> = HashMap::new();
    if ready.paths.is_fast() {
        for (leaf, of) in ready.leaves.iter().enumerate() {
            if let Some((low, high)) = of.whole_range() {
                groups.entry(&of.field.key).or_default().push((LeafId(leaf), low, high));
            }
        }
    }
    let large = groups.into_values().filter(|ranges| ranges.len() >= MANY_RANGES);
    large.filter_map(|ranges| RangeLeaves::new(&ranges)).collect()
}

/// Leaves with ranges of one field. Their bounds divide the whole numbers into parts, each of which is inside
/// or outside of a range as a whole.
pub(super) struct RangeLeaves {
    pub(super) leaves: Vec<LeafId>,
    /// The first number of each part but the lowest.
    bounds: Vec<i64>,
    /// For each part, the indices of the leaves with ranges that have it.
    inside: Vec<Vec<u32>>,
}

impl RangeLeaves {
    /// `None` if a number lies in too many of the ranges.
    fn new(ranges: &[(LeafId, i64, i64)]) -> Option<Self> {
        let ends = ranges.iter().flat_map(|(_, low, high)| [Some(*low), high.checked_add(1)]);
        let mut bounds: Vec<i64> = ends.flatten().collect();
        bounds.sort_unstable();
        bounds.dedup();
        let mut inside = vec![Vec::new(); bounds.len() + 1];
        for (index, (_, low, high)) in ranges.iter().enumerate().filter(|(_, (_, low, high))| low <= high) {
            let part = |number: &i64| bounds.partition_point(|bound| bound <= number);
            for leaves in &mut inside[part(low)..=part(high)] {
                if leaves.len() == OVERLAPS_MAX {
                    return None;
                }
                leaves.push(index as u32);
            }
        }
        Some(RangeLeaves { leaves: ranges.iter().map(|(leaf, ..)| *leaf).collect(), bounds, inside })
    }

    /// For each leaf, the documents of `within` with a number in its range; `None` for a column of other
    /// cells.
    fn find(&self, column: &FixedColumn, within: &DocumentBits) -> Option<Vec<DocumentBits>> {
        let documents = DocumentBits::from_words(column.presence().words()).and(within);
        match column.cell() {
            _ if column.width() != 1 => None,
            CellKind::I8 => Some(self.find_among(column.cells::<i8>(), &documents)),
            CellKind::I32 => Some(self.find_among(column.cells::<i32>(), &documents)),
            CellKind::I64 => Some(self.find_among(column.cells::<i64>(), &documents)),
            CellKind::Bool | CellKind::U64 | CellKind::BF16 | CellKind::F32 | CellKind::F64 => None,
        }
    }

    fn find_among<T: Copy + Into<i64>>(&self, numbers: &[T], documents: &DocumentBits) -> Vec<DocumentBits> {
        let mut found = vec![DocumentBits::NONE; self.leaves.len()];
        for document in documents.iter() {
            let number: i64 = numbers[document].into();
            let part = self.bounds.partition_point(|bound| *bound <= number);
            self.inside[part].iter().for_each(|leaf| found[*leaf as usize].set(document));
        }
        found
    }
}

impl ChunkPass<'_, '_> {
    /// Evaluates leaves of one word each, all of one field, in the documents `within`: those of the leaves
    /// that were evaluated in none of these.
    pub(super) fn seek_words(&mut self, leaves: &[LeafId], within: &DocumentBits) -> Result<(), Error> {
        let is_new = |leaf: &LeafId| {
            self.found[leaf.0].as_ref().is_none_or(|known| known.within.and(within).is_empty())
        };
        let leaves: Vec<LeafId> = leaves.iter().copied().filter(is_new).collect();
        let Some(first) = leaves.first() else { return Ok(()) };
        let matchers: Vec<&WordMatcher> =
            leaves.iter().filter_map(|leaf| self.ready.leaves[leaf.0].single_word()).collect();
        let found = match self.column(*first, within)? {
            Some(Column::Tokens(tokens)) => {
                let (plan, taken) = (self.ready.plan, &mut self.taken);
                let located = self.ready.reads_positions;
                find_each(&matchers, &tokens, within, located, &mut |bytes| take(plan, taken, bytes))?
            }
            _ => matchers.iter().map(|_| LeafOutcome::Positions(ChunkPositions::default())).collect(),
        };
        assert_eq!(found.len(), leaves.len(), "leaves that are searched together have one word each");
        for (leaf, found) in leaves.iter().zip(found) {
            self.add_found(*leaf, *within, found);
        }
        Ok(())
    }

    /// Evaluates those parts of a disjunction that read the same values, where there are several, in the
    /// documents `within`: the values are read once.
    pub(super) fn seek_values(&mut self, children: &[&PlanNode], within: &DocumentBits) -> Result<(), Error> {
        let ready = self.ready;
        let mut groups: HashMap<(&ColumnKey, &[Arc<str>]), Vec<LeafId>> = HashMap::new();
        for child in children {
            let PlanNode::Leaf(id) = child else { continue };
            let leaf = &ready.leaves[id.0];
            let is_asked = ready.values.iter().any(|values| values.has(*id));
            if self.found[id.0].is_none() && leaf.tests_encoded() && !is_asked {
                groups.entry((&leaf.field.key, leaf.field.path.as_slice())).or_default().push(*id);
            }
        }
        for ids in groups.into_values().filter(|ids| ids.len() > 1) {
            let leaves: Vec<&ReadyLeaf> = ids.iter().map(|id| &ready.leaves[id.0]).collect();
            let Some(column) = self.column(ids[0], within)? else { continue };
            // Without their wire form each leaf reads them by itself.
            for (id, found) in
                ids.iter().zip(ReadyLeaf::find_each(&leaves, &column, within).into_iter().flatten())
            {
                take(ready.plan, &mut self.taken, found.memory_bytes())?;
                self.found[id.0] = Some(EvaluatedLeaf { within: *within, found });
            }
        }
        Ok(())
    }

    /// Takes conditions on one element out of the parts of a disjunction, where several on the elements of
    /// one field are found by their values, and returns their disjunctions: one of them holds in an element
    /// wherever there is an element in which any of them does.
    pub(super) fn joined_elements(&self, parts: &mut Vec<&PlanNode>) -> Vec<PlanNode> {
        if !self.ready.paths.is_fast() {
            return Vec::new();
        }
        let mut groups: HashMap<(&str, &[u32]), Vec<usize>> = HashMap::new();
        for (number, part) in parts.iter().enumerate() {
            if let PlanNode::SameElement { field, child, elements } = part
                && self.tests_values_of_elements(field, child, elements)
            {
                groups.entry((&**field, elements.as_slice())).or_default().push(number);
            }
        }
        let several = groups.into_values().filter(|numbers| numbers.len() > 1);
        let (mut joined, mut taken) = (Vec::new(), HashSet::new());
        for numbers in several {
            let children = numbers.iter().filter_map(|number| match parts[*number] {
                PlanNode::SameElement { child, .. } => Some((**child).clone()),
                _ => None,
            });
            let child = Box::new(PlanNode::Or(children.collect()));
            if let PlanNode::SameElement { field, elements, .. } = parts[numbers[0]] {
                let (field, elements) = (Arc::clone(field), elements.clone());
                joined.push(PlanNode::SameElement { field, child, elements });
            }
            taken.extend(numbers);
        }
        let mut number = 0;
        parts.retain(|_| {
            number += 1;
            !taken.contains(&(number - 1))
        });
        joined
    }

    /// True if a condition on an element is found by tests of single values, and not by positions of words.
    fn tests_values_of_elements(&self, field: &str, child: &PlanNode, only: &[u32]) -> bool {
        ElementLeaves::new(self.ready, field, child, only).is_some()
            && ElementWords::new(self.ready, child).is_none()
    }

    /// Documents among `within` with any of these words of one field.
    pub(super) fn any_word(
        &mut self,
        key: &ColumnKey,
        matchers: &[&WordMatcher],
        within: &DocumentBits,
    ) -> Result<DocumentBits, Error> {
        if within.is_empty() {
            return Ok(DocumentBits::NONE);
        }
        Ok(match self.window.column(key, self.chunk)? {
            Some(Column::Tokens(tokens)) => find_any(matchers, &tokens, within),
            _ => DocumentBits::NONE,
        })
    }

    /// Evaluates leaves with ranges of one field in the documents `within`. Returns false, without an effect,
    /// if the column's numbers are not whole.
    pub(super) fn seek_ranges(&mut self, ranges: &RangeLeaves, within: &DocumentBits) -> Result<bool, Error> {
        let Some(Column::Fixed(column)) = self.column(ranges.leaves[0], within)? else { return Ok(false) };
        let Some(found) = ranges.find(&column, within) else { return Ok(false) };
        take(self.ready.plan, &mut self.taken, size_of_val(&*found))?;
        for (leaf, bits) in ranges.leaves.iter().zip(found) {
            self.found[leaf.0] = Some(EvaluatedLeaf { within: *within, found: LeafOutcome::Bits(bits) });
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use millrace_column::FixedBuilder;
    use proptest::prelude::*;

    use super::*;

    fn bound() -> impl Strategy<Value = i64> {
        prop_oneof![
            8 => -20..20_i64,
            1 => prop::sample::select(vec![i64::MIN, i64::MAX, i64::from(i32::MIN), i64::from(i32::MAX)]),
        ]
    }

    proptest! {
        #[test]
        fn ranges_together_have_the_documents_of_each(
            ranges in prop::collection::vec((bound(), bound()), 1..12),
            numbers in prop::collection::vec(prop::option::of(-22..22_i32), 1..100),
        ) {
            let leaves: Vec<(LeafId, i64, i64)> =
                ranges.iter().enumerate().map(|(leaf, (low, high))| (LeafId(leaf), *low, *high)).collect();
            let mut column = FixedBuilder::new(CellKind::I32, 1);
            for number in &numbers {
                match number {
                    Some(number) => column.push(&number.to_le_bytes()),
                    None => column.push_absent(),
                }
            }
            let within = DocumentBits::first(numbers.len() / 2);
            let found = |low: i64, high: i64| -> Vec<usize> {
                let is_in = |at: &usize| numbers[*at].is_some_and(|it| (low..=high).contains(&i64::from(it)));
                (0..numbers.len() / 2).filter(is_in).collect()
            };
            match RangeLeaves::new(&leaves) {
                Some(together) => {
                    let bits = together.find(&column.finish(), &within).expect("the cells are whole numbers");
                    for ((low, high), bits) in ranges.iter().zip(bits) {
                        prop_assert_eq!(bits.iter().collect::<Vec<_>>(), found(*low, *high));
                    }
                }
                None => {
                    let overlaps = |at: i64| {
                        ranges.iter().filter(|(low, high)| (*low..=*high).contains(&at)).count()
                    };
                    let most = ranges.iter().map(|(low, _)| overlaps(*low)).max();
                    prop_assert!(most > Some(OVERLAPS_MAX));
                }
            }
        }
    }
}
