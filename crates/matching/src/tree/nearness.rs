//! Documents with words near each other.

use std::cmp::Reverse;

use millrace_column::{Column, ColumnKey};
use millrace_plan::LeafId;

use super::ChunkPass;
use crate::Error;
use crate::bits::DocumentBits;
use crate::leaf::{LeafKind, ReadyLeaf};
use crate::near::NearConstraint;
use crate::pattern::WordMatcher;

impl ChunkPass<'_, '_> {
    /// Documents among `within` with all of `leaves` near each other, and none of `excluded` near these.
    pub(super) fn near(
        &mut self,
        leaves: &[LeafId],
        excluded: &[LeafId],
        near: NearConstraint,
        within: &DocumentBits,
    ) -> Result<DocumentBits, Error> {
        let (mut all, ordered) = (*within, self.rarest_first(leaves));
        if let [rarest, _, ..] = &*ordered
            && self.found(*rarest).is_none()
            && self.ready.paths.is_fast()
        {
            // Not with all others, of which many may be in most documents.
            self.seek_alone(*rarest, all)?;
        }
        for leaf in ordered {
            all = self.look(leaf, &all)?;
            if all.is_empty() {
                return Ok(DocumentBits::NONE);
            }
        }
        let Some(first) = leaves.first() else { return Ok(DocumentBits::NONE) };
        let key = ColumnKey::tokens(&self.ready.leaves[first.0].field.key.field);
        let Some(Column::Tokens(tokens)) = self.window.column(&key, self.chunk)? else {
            return Ok(DocumentBits::NONE);
        };
        for leaf in excluded {
            self.seek(*leaf, &all)?;
        }
        let positions =
            |leaves: &[LeafId]| leaves.iter().filter_map(|leaf| self.positions(*leaf)).collect::<Vec<_>>();
        let (positions, excluded) = (positions(leaves), positions(excluded));
        let (mut here, mut not, mut bits): (Vec<&[u32]>, Vec<&[u32]>, _) =
            (Vec::new(), Vec::new(), DocumentBits::NONE);
        for document in all.iter() {
            here.clear();
            here.extend(positions.iter().map(|positions| positions.of(document)));
            not.clear();
            not.extend(excluded.iter().map(|positions| positions.of(document)));
            if near.holds(&here, &not, tokens.document(document)) {
                bits.set(document);
            }
        }
        Ok(bits)
    }

    /// The leaves of a conjunction, that of the probably rarest words first: the others are searched only in
    /// the documents that it leaves.
    fn rarest_first(&self, leaves: &[LeafId]) -> Vec<LeafId> {
        let mut leaves = leaves.to_vec();
        if self.ready.paths.is_fast() {
            leaves.sort_by_key(|leaf| Reverse(rarity(&self.ready.leaves[leaf.0])));
        }
        leaves
    }
}

/// Estimated rarity of the matches of a leaf, if it is one of words: that of its rarest word.
fn rarity(leaf: &ReadyLeaf) -> usize {
    match &leaf.kind {
        LeafKind::Words(words) => words.iter().map(WordMatcher::rarity).max().unwrap_or_default(),
        _ => 0,
    }
}
