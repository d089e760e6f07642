//! Conditions on one element of an array of text, decided by the positions of words.
//!
//! The tokens of an array have a boundary between elements. The elements that contain a word follow from the
//! positions of the word and of the boundaries, so no element is split into words again. Words near each
//! other in an element are so by their positions there.

use millrace_column::{Column, ELEMENT_BOUNDARY, TokenIds};
use millrace_plan::{LeafId, PlanNode};

use super::{ChunkPass, ReadyPlan, is_among};
use crate::Error;
use crate::bits::DocumentBits;
use crate::leaf::LeafKind;

/// Number of words up to which boundaries between elements are counted for each of them, up to its last
/// position. Of more words, the boundaries of a document are looked for once.
const FEW_WORDS: usize = 8;

/// A condition whose leaves are all words of the same array of text.
pub(super) struct ElementWords<'n> {
    child: &'n PlanNode,
    /// In order, each once.
    leaves: Vec<LeafId>,
}

/// Occurrences of a leaf in a document.
struct WordsInElements<'p> {
    leaf: LeafId,
    /// Positions in the document, ascending.
    positions: &'p [u32],
    /// The element that each of them lies in.
    elements: Vec<usize>,
}

impl<'p> WordsInElements<'p> {
    /// Positions in an element.
    fn within(&self, element: usize) -> &'p [u32] {
        let from = self.elements.partition_point(|other| *other < element);
        let count = self.elements[from..].partition_point(|other| *other == element);
        &self.positions[from..from + count]
    }
}

impl<'n> ElementWords<'n> {
    /// The condition `child`, or `None` if it needs more than the positions of words: other predicates or
    /// nested elements. Also `None` if an element without any of the words can match.
    pub(super) fn new(ready: &ReadyPlan<'_>, child: &'n PlanNode) -> Option<Self> {
        let (mut leaves, mut near) = (Vec::new(), Vec::new());
        (collect(child, &mut leaves, &mut near) && needs_leaf(child)).then_some(())?;
        leaves.extend(near.into_iter().flatten().copied());
        leaves.sort_unstable();
        leaves.dedup();
        let first = &ready.leaves[leaves.first()?.0].field.key;
        let is_word = |leaf: &LeafId| {
            let leaf = &ready.leaves[leaf.0];
            matches!(leaf.kind, LeafKind::Words(_)) && leaf.field.key == *first && leaf.field.path.is_empty()
        };
        leaves.iter().all(is_word).then_some(ElementWords { child, leaves })
    }
}

/// Collects the leaves of a tree, and of its conditions of nearness the lists of theirs; false if it has
/// other nodes than these and boolean ones.
pub(super) fn collect<'n>(
    node: &'n PlanNode,
    leaves: &mut Vec<LeafId>,
    near: &mut Vec<&'n [LeafId]>,
) -> bool {
    let mut all = |nodes: &'n [PlanNode]| nodes.iter().all(|node| collect(node, leaves, near));
    match node {
        PlanNode::True | PlanNode::False => true,
        PlanNode::And(children) | PlanNode::Or(children) => all(children),
        PlanNode::AndNot(positive, negatives) => all(std::slice::from_ref(positive)) && all(negatives),
        PlanNode::Rank(first, _) => collect(first, leaves, near),
        PlanNode::Leaf(leaf) => {
            leaves.push(*leaf);
            true
        }
        PlanNode::Near { leaves: wanted, excluded, .. } => {
            near.extend([wanted.as_slice(), excluded.as_slice()]);
            true
        }
        PlanNode::SameElement { .. } => false,
    }
}

/// True if the tree holds only in elements in which at least one of its leaves does.
pub(super) fn needs_leaf(node: &PlanNode) -> bool {
    match node {
        PlanNode::False | PlanNode::Leaf(_) => true,
        PlanNode::Near { leaves, .. } => !leaves.is_empty(),
        PlanNode::And(children) => children.iter().any(needs_leaf),
        PlanNode::Or(children) => children.iter().all(needs_leaf),
        PlanNode::AndNot(first, _) | PlanNode::Rank(first, _) => needs_leaf(first),
        PlanNode::True | PlanNode::SameElement { .. } => false,
    }
}

impl ChunkPass<'_, '_> {
    /// Documents among `within` that have the words which a condition on an element needs, in any elements.
    fn with_words(&mut self, node: &PlanNode, within: &DocumentBits) -> Result<DocumentBits, Error> {
        if within.is_empty() {
            return Ok(DocumentBits::NONE);
        }
        match node {
            PlanNode::True | PlanNode::SameElement { .. } => Ok(*within),
            PlanNode::False => Ok(DocumentBits::NONE),
            PlanNode::Leaf(leaf) => self.look(*leaf, within),
            PlanNode::Near { leaves, .. } => {
                leaves.iter().try_fold(*within, |left, leaf| self.look(*leaf, &left))
            }
            PlanNode::And(children) => {
                children.iter().try_fold(*within, |left, child| self.with_words(child, &left))
            }
            PlanNode::Or(children) => children
                .iter()
                .try_fold(DocumentBits::NONE, |any, child| Ok(any.or(&self.with_words(child, within)?))),
            PlanNode::AndNot(first, _) | PlanNode::Rank(first, _) => self.with_words(first, within),
        }
    }

    /// Documents among `within` with an element in which the condition holds.
    pub(super) fn words_of_elements(
        &mut self,
        words: &ElementWords<'_>,
        only: &[u32],
        within: &DocumentBits,
    ) -> Result<DocumentBits, Error> {
        let ready = self.ready;
        let candidates = self.with_words(words.child, within)?;
        if candidates.is_empty() {
            return Ok(DocumentBits::NONE);
        }
        for leaf in &words.leaves {
            self.seek(*leaf, &candidates)?;
        }
        let key = &ready.leaves[words.leaves[0].0].field.key;
        let Some(Column::Tokens(tokens)) = self.window.column(key, self.chunk)? else {
            return Ok(DocumentBits::NONE);
        };
        let mut bits = DocumentBits::NONE;
        let of_leaf = |leaf: &LeafId| WordsInElements { leaf: *leaf, positions: &[], elements: Vec::new() };
        let mut found: Vec<WordsInElements<'_>> = words.leaves.iter().map(of_leaf).collect();
        // Boundaries between elements, if they are looked for once, and elements with any of the words.
        let (mut boundaries, mut with_any): (Vec<u32>, Vec<usize>) = Default::default();
        let has_many_words = words.leaves.len() > FEW_WORDS;
        for document in candidates.iter() {
            let tokens = tokens.document(document);
            boundaries.clear();
            if has_many_words {
                let ids = (0..).zip(tokens.iter());
                boundaries
                    .extend(ids.filter(|(_, id)| *id == ELEMENT_BOUNDARY).map(|(position, _)| position));
            }
            with_any.clear();
            for WordsInElements { leaf, positions, elements } in &mut found {
                let here = self.positions(*leaf).map_or(&[][..], |positions| positions.of(document));
                *positions = here;
                elements.clear();
                match has_many_words {
                    true => elements.extend(elements_of(here, &boundaries)),
                    false => elements.extend(counted_elements_of(here, tokens)),
                }
                with_any.extend_from_slice(elements);
            }
            with_any.sort_unstable();
            with_any.dedup();
            let is_match =
                |element: &usize| is_among(only, *element) && holds(ready, words.child, &found, *element);
            if with_any.iter().any(is_match) {
                bits.set(document);
            }
        }
        Ok(bits)
    }
}

/// The element that each of the positions lies in; both they and the boundaries between elements ascend.
fn elements_of<'t>(positions: &'t [u32], boundaries: &'t [u32]) -> impl Iterator<Item = usize> + 't {
    let mut element = 0;
    positions.iter().map(move |position| {
        element += boundaries[element..].iter().take_while(|boundary| *boundary < position).count();
        element
    })
}

/// The element that each of the ascending positions lies in, by the boundaries among the tokens before it.
fn counted_elements_of<'t>(positions: &'t [u32], tokens: TokenIds<'t>) -> impl Iterator<Item = usize> + 't {
    let (mut element, mut from) = (0, 0);
    positions.iter().map(move |position| {
        let between = tokens.slice(from as usize..*position as usize);
        element += between.iter().filter(|id| *id == ELEMENT_BOUNDARY).count();
        from = *position;
        element
    })
}

/// True if the tree holds in an element, given the occurrences of each leaf, by the leaves in order.
fn holds(ready: &ReadyPlan<'_>, node: &PlanNode, found: &[WordsInElements<'_>], element: usize) -> bool {
    let inside = |node: &PlanNode| holds(ready, node, found, element);
    let of_leaf =
        |leaf: &LeafId| found.binary_search_by_key(leaf, |known| known.leaf).ok().map(|at| &found[at]);
    match node {
        PlanNode::True => true,
        PlanNode::False | PlanNode::SameElement { .. } => false,
        PlanNode::And(children) => children.iter().all(inside),
        PlanNode::Or(children) => children.iter().any(inside),
        PlanNode::AndNot(positive, negatives) => inside(positive) && !negatives.iter().any(inside),
        PlanNode::Rank(first, _) => inside(first),
        PlanNode::Leaf(leaf) => {
            of_leaf(leaf).is_some_and(|known| known.elements.binary_search(&element).is_ok())
        }
        PlanNode::Near { leaves, excluded, .. } => {
            let within = |leaf: &LeafId| of_leaf(leaf).map_or(&[][..], |known| known.within(element));
            let wanted: Vec<&[u32]> = leaves.iter().map(within).collect();
            if wanted.iter().any(|positions| positions.is_empty()) {
                return false;
            }
            let excluded: Vec<&[u32]> = excluded.iter().map(within).collect();
            ready.nearness(node).is_some_and(|near| near.holds_in_element(&wanted, &excluded))
        }
    }
}
