//! Restriction of the word positions that ranking sees inside `near`, `onear` and `sameElement` to those
//! matched by the operator.
//!
//! For nearness these are the positions in its spans; for conditions on one element, the positions in the
//! elements where they hold. A document that matches for other reasons has none.

use millrace_column::{Column, ColumnKey, ColumnValue, ELEMENT_BOUNDARY, TokenIds};
use millrace_document::ValueRef;
use millrace_plan::{LeafId, PlanNode};

use super::{ChunkPass, ReadyPlan, holds, is_among, path_of};
use crate::Error;
use crate::bits::DocumentBits;
use crate::leaf::{LeafKind, stored_value};
use crate::nested::{NestedValue, ValueElement, elements};
use crate::outcome::LeafOutcome;
use crate::words::ChunkPositions;

/// An operator that restricts the word positions for ranking.
pub(crate) struct NarrowingOperator<'p> {
    node: &'p PlanNode,
    /// Leaves of the words, without excluded ones.
    leaves: Vec<LeafId>,
}

/// Restricting operators of a tree; each has at least one leaf.
pub(crate) fn narrowings<'p>(ready: &ReadyPlan<'p>) -> Vec<NarrowingOperator<'p>> {
    let mut found = Vec::new();
    collect(&ready.plan.root, &mut found);
    let uses = uses_of(&ready.plan.root, ready.leaves.len());
    for narrowing in &mut found {
        // A word that also occurs outside the operator keeps its positions.
        let is_own = |leaf: &LeafId| uses[leaf.0] == 1;
        let is_words =
            |leaf: &LeafId| matches!(ready.leaves[leaf.0].kind, LeafKind::Words(_) | LeafKind::ValueWords);
        narrowing.leaves.retain(|leaf| is_own(leaf) && is_words(leaf));
    }
    found.retain(|narrowing| !narrowing.leaves.is_empty());
    found
}

fn collect<'p>(node: &'p PlanNode, found: &mut Vec<NarrowingOperator<'p>>) {
    match node {
        PlanNode::True | PlanNode::False | PlanNode::Leaf(_) => {}
        PlanNode::And(children) | PlanNode::Or(children) => {
            children.iter().for_each(|child| collect(child, found))
        }
        PlanNode::AndNot(positive, _) => collect(positive, found),
        PlanNode::Rank(first, others) => {
            collect(first, found);
            others.iter().for_each(|child| collect(child, found));
        }
        PlanNode::Near { leaves, .. } => found.push(NarrowingOperator { node, leaves: leaves.clone() }),
        PlanNode::SameElement { child, .. } => {
            // Nearness inside one element is decided element by element.
            found.push(NarrowingOperator { node, leaves: leaves_of(child) });
        }
    }
}

/// Collects the leaves that can match.
fn words_of(node: &PlanNode, leaves: &mut Vec<LeafId>) {
    match node {
        PlanNode::True | PlanNode::False => {}
        PlanNode::Leaf(leaf) => leaves.push(*leaf),
        PlanNode::And(children) | PlanNode::Or(children) => {
            children.iter().for_each(|child| words_of(child, leaves));
        }
        PlanNode::AndNot(positive, _) => words_of(positive, leaves),
        PlanNode::Rank(first, others) => {
            words_of(first, leaves);
            others.iter().for_each(|child| words_of(child, leaves));
        }
        PlanNode::Near { leaves: near, .. } => leaves.extend(near),
        PlanNode::SameElement { child, .. } => words_of(child, leaves),
    }
}

/// The leaves of a tree that can match.
pub(super) fn leaves_of(node: &PlanNode) -> Vec<LeafId> {
    let mut leaves = Vec::new();
    words_of(node, &mut leaves);
    leaves
}

/// True if a tree has an operator that compares the positions of words.
pub(super) fn compares_positions(node: &PlanNode) -> bool {
    match node {
        PlanNode::True | PlanNode::False | PlanNode::Leaf(_) => false,
        PlanNode::And(children) | PlanNode::Or(children) => children.iter().any(compares_positions),
        PlanNode::AndNot(first, others) | PlanNode::Rank(first, others) => {
            compares_positions(first) || others.iter().any(compares_positions)
        }
        PlanNode::Near { .. } | PlanNode::SameElement { .. } => true,
    }
}

/// Number of uses of each of `leaves` leaves in a tree.
pub(super) fn uses_of(node: &PlanNode, leaves: usize) -> Vec<u32> {
    let mut uses = vec![0; leaves];
    count(node, &mut uses);
    uses
}

/// Counts the uses of each leaf in a tree.
fn count(node: &PlanNode, uses: &mut [u32]) {
    match node {
        PlanNode::True | PlanNode::False => {}
        PlanNode::Leaf(leaf) => uses[leaf.0] += 1,
        PlanNode::And(children) | PlanNode::Or(children) => {
            children.iter().for_each(|child| count(child, uses))
        }
        PlanNode::AndNot(first, others) | PlanNode::Rank(first, others) => {
            count(first, uses);
            others.iter().for_each(|child| count(child, uses));
        }
        PlanNode::Near { leaves, excluded, .. } => {
            leaves.iter().chain(excluded).for_each(|leaf| uses[leaf.0] += 1);
        }
        PlanNode::SameElement { child, .. } => count(child, uses),
    }
}

impl ChunkPass<'_, '_> {
    /// Restricts the words inside operators to the positions matched by them; `documents` are those that
    /// match the query.
    pub(crate) fn narrow(&mut self, documents: &[u16], matched: &DocumentBits) -> Result<(), Error> {
        let ready = self.ready;
        for NarrowingOperator { node, leaves } in &ready.narrowings {
            let positions = match node {
                PlanNode::Near { leaves: all, excluded, .. } => {
                    self.in_spans(node, leaves, all, excluded, documents, matched)?
                }
                PlanNode::SameElement { field, .. } => {
                    self.in_elements(node, field, leaves, documents, matched)?
                }
                _ => continue,
            };
            for (leaf, positions) in leaves.iter().zip(positions) {
                if let Some(evaluated) = &mut self.found[leaf.0] {
                    evaluated.found = LeafOutcome::Positions(positions);
                }
            }
        }
        Ok(())
    }

    /// For each of `leaves`, its positions in the matching spans of a nearness node with the leaves `all` and
    /// `excluded`.
    fn in_spans(
        &mut self,
        node: &PlanNode,
        leaves: &[LeafId],
        all: &[LeafId],
        excluded: &[LeafId],
        documents: &[u16],
        matched: &DocumentBits,
    ) -> Result<Vec<ChunkPositions>, Error> {
        let mut kept: Vec<ChunkPositions> = leaves.iter().map(|_| ChunkPositions::default()).collect();
        for leaf in all.iter().chain(excluded) {
            self.seek(*leaf, matched)?;
        }
        let Some(near) = self.ready.nearness(node) else { return Ok(kept) };
        let key = ColumnKey::tokens(&self.ready.leaves[leaves[0].0].field.key.field);
        let Some(Column::Tokens(tokens)) = self.window.column(&key, self.chunk)? else { return Ok(kept) };
        for document in documents.iter().map(|document| usize::from(*document)) {
            let of =
                |leaf: &LeafId| self.positions(*leaf).map_or(&[][..], |positions| positions.of(document));
            let here: Vec<&[u32]> = all.iter().map(of).collect();
            let not: Vec<&[u32]> = excluded.iter().map(of).collect();
            let mut spans: Vec<(u32, u32)> = near.spans(&here, &not, tokens.document(document)).collect();
            spans.sort_unstable();
            // Parts of the text that spans cover, apart from each other.
            spans.dedup_by(|next, kept| {
                let meets = next.0 <= kept.1;
                if meets {
                    kept.1 = kept.1.max(next.1);
                }
                meets
            });
            let inside = |position: &&u32| {
                let next = spans.get(spans.partition_point(|(_, last)| last < *position));
                next.is_some_and(|(first, _)| first <= *position)
            };
            for (leaf, kept) in leaves.iter().zip(&mut kept) {
                kept.push(document, of(leaf).iter().filter(inside).copied());
            }
        }
        Ok(kept)
    }

    /// For each of `leaves`, its positions in the elements that match `node`, a condition on one element of
    /// `field`.
    fn in_elements(
        &mut self,
        node: &PlanNode,
        field: &str,
        leaves: &[LeafId],
        documents: &[u16],
        matched: &DocumentBits,
    ) -> Result<Vec<ChunkPositions>, Error> {
        let ready = self.ready;
        let mut kept: Vec<ChunkPositions> = leaves.iter().map(|_| ChunkPositions::default()).collect();
        let name = field.split('.').next().unwrap_or(field);
        let Some(data_type) = ready.plan.schema.fields.get(name).map(|field| &field.data_type) else {
            return Ok(kept);
        };
        let Some(column) = self.window.column(&ColumnKey::value(name), self.chunk)? else { return Ok(kept) };
        let mut tokens = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            self.seek(*leaf, matched)?;
            tokens.push(self.window.column(&ready.leaves[leaf.0].field.key, self.chunk)?);
        }
        let numbered: Vec<(usize, LeafId)> = leaves.iter().copied().enumerate().collect();
        let Some(condition) = ElementCondition::new(ready, node, &numbered) else { return Ok(kept) };
        for document in documents.iter().map(|document| usize::from(*document)) {
            let mut wanted: Vec<Vec<bool>> = vec![Vec::new(); leaves.len()];
            match stored_value(&column, data_type, document, ready.paths) {
                Some(ColumnValue::InPlace(value)) => {
                    condition.flag_values(ready, ValueElement::Value(value, 1), 0, true, &mut wanted);
                }
                Some(ColumnValue::Decoded(value)) => {
                    condition.flag_values(ready, ValueElement::Value(&value, 1), 0, true, &mut wanted);
                }
                None => continue,
            }
            for ((at, leaf), wanted) in numbered.iter().zip(&wanted) {
                let positions = self.positions(*leaf).map_or(&[][..], |positions| positions.of(document));
                match &tokens[*at] {
                    Some(Column::Tokens(tokens)) => {
                        kept[*at].push(document, within(positions, wanted, tokens.document(document)));
                    }
                    // Numbers: each is followed by a boundary.
                    _ => {
                        let is_wanted = |position: &u32| wanted.get(*position as usize / 2) == Some(&true);
                        kept[*at].push(document, positions.iter().copied().filter(is_wanted));
                    }
                }
            }
        }
        Ok(kept)
    }
}

/// A condition on one element of a collection, with its leaves.
struct ElementCondition<'n> {
    child: &'n PlanNode,
    /// Indices of the elements that may match; empty for all.
    only: &'n [u32],
    /// Path from the field to the collection.
    path: Vec<&'n str>,
    /// Leaves directly inside.
    leaves: Vec<LeafValues<'n>>,
    /// Nested conditions.
    inner: Vec<ElementCondition<'n>>,
}

/// Values of a leaf in an element: texts, or values that are words.
struct LeafValues<'n> {
    /// Number of the leaf.
    at: usize,
    /// Path from the element to the values.
    path: Vec<&'n str>,
    are_values: bool,
}

impl<'n> ElementCondition<'n> {
    /// Creates the condition of a [`PlanNode::SameElement`] that contains these numbered leaves.
    fn new(ready: &'n ReadyPlan<'_>, node: &'n PlanNode, leaves: &[(usize, LeafId)]) -> Option<Self> {
        let PlanNode::SameElement { field, child, elements: only } = node else { return None };
        let path = path_of(field);
        let mut within: Vec<(&PlanNode, Vec<(usize, LeafId)>)> = Vec::new();
        let mut own = Vec::new();
        for &(at, leaf) in leaves {
            let Some(inner) = condition_on(child, leaf) else {
                let leaf = &ready.leaves[leaf.0];
                let path = leaf.field.path.iter().skip(path.len()).map(|part| &**part).collect();
                own.push(LeafValues { at, path, are_values: matches!(leaf.kind, LeafKind::ValueWords) });
                continue;
            };
            match within.iter_mut().find(|(known, _)| std::ptr::eq(*known, inner)) {
                Some((_, leaves)) => leaves.push((at, leaf)),
                None => within.push((inner, vec![(at, leaf)])),
            }
        }
        let inner = within.iter().filter_map(|(node, leaves)| ElementCondition::new(ready, node, leaves));
        Some(ElementCondition { child, only, path, leaves: own, inner: inner.collect() })
    }

    /// Appends for each value of each leaf, in document order, if the elements around it match. The first
    /// `depth` steps of the path lead to `from`, whose enclosing elements match if `outer` is true.
    fn flag_values(
        &self,
        ready: &ReadyPlan<'_>,
        from: ValueElement<impl NestedValue>,
        depth: usize,
        outer: bool,
        flags: &mut [Vec<bool>],
    ) {
        from.wholes(self.path.get(depth..).unwrap_or_default(), &mut |collection| {
            elements(collection, &mut |index, element| {
                let depth = self.path.len();
                let matches = outer && is_among(self.only, index) && holds(ready, self.child, element, depth);
                for LeafValues { at, path, are_values } in &self.leaves {
                    element.at(path, &mut |value, _| {
                        if *are_values || matches!(value.single(), Some(ValueRef::String(_))) {
                            flags[*at].push(matches);
                        }
                    });
                }
                self.inner.iter().for_each(|inner| inner.flag_values(ready, element, depth, matches, flags));
            });
        });
    }
}

/// The condition on one element, inside a tree, that contains a leaf.
fn condition_on(tree: &PlanNode, leaf: LeafId) -> Option<&PlanNode> {
    match tree {
        PlanNode::True | PlanNode::False | PlanNode::Leaf(_) | PlanNode::Near { .. } => None,
        PlanNode::And(children) | PlanNode::Or(children) => {
            children.iter().find_map(|child| condition_on(child, leaf))
        }
        PlanNode::AndNot(first, _) => condition_on(first, leaf),
        PlanNode::Rank(first, others) => {
            std::iter::once(&**first).chain(others).find_map(|child| condition_on(child, leaf))
        }
        PlanNode::SameElement { child, .. } => leaves_of(child).contains(&leaf).then_some(tree),
    }
}

/// Positions, ascending, in the wanted texts; two texts of a document are separated by a boundary.
fn within<'t>(
    positions: &'t [u32],
    wanted: &'t [bool],
    document: TokenIds<'t>,
) -> impl Iterator<Item = u32> + 't {
    let (mut text, mut from) = (0, 0);
    positions.iter().copied().filter(move |position| {
        let between = document.slice(from as usize..*position as usize);
        text += between.iter().filter(|id| *id == ELEMENT_BOUNDARY).count();
        from = *position;
        wanted.get(text).copied().unwrap_or_default()
    })
}
