//! Documents with any of many weighted words, and their weights: `in`, `weightedSet`, `dotProduct` and `wand`
//! over text. Each token is looked up in one table, and nothing is kept of a document but its weight.

use millrace_column::{ExecutionPaths, TokenIds, TokensColumn};

use crate::bits::DocumentBits;
use crate::value::{ValueWeights, WeightSource};

/// Weighted words among the token numbers of a chunk.
pub(crate) struct ListedWords {
    /// For each token number the rank of its weight, counted from 1; 0 for a word without a weight.
    ranks: Vec<u32>,
    /// Distinct weights, ascending, so that the greatest rank is that of the greatest weight.
    weights: Vec<i32>,
}

impl ListedWords {
    /// Looks up stems with their weights. Of the weights of a word that has two of the stems, the greater
    /// counts.
    pub(crate) fn new(listed: &[(String, i32)], tokens: &TokensColumn, paths: ExecutionPaths) -> Self {
        let mut found: Vec<(u32, i32)> = Vec::with_capacity(listed.len());
        match paths {
            ExecutionPaths::Fast => {
                for (stem, weight) in listed {
                    tokens.stemmed(stem.as_bytes(), |number| found.push((number, *weight)));
                }
            }
            ExecutionPaths::Plain => {
                for (stem, weight) in listed {
                    let numbers = tokens.stemmed_plainly(stem.as_bytes());
                    found.extend(numbers.into_iter().map(|number| (number, *weight)));
                }
            }
        }
        let mut weights: Vec<i32> = found.iter().map(|(_, weight)| *weight).collect();
        weights.sort_unstable();
        weights.dedup();
        let mut ranks = if found.is_empty() { Vec::new() } else { vec![0; tokens.words() + 1] };
        for (number, weight) in found {
            let rank = weights.partition_point(|other| *other < weight) as u32 + 1;
            let known: &mut u32 = &mut ranks[number as usize];
            *known = (*known).max(rank);
        }
        ListedWords { ranks, weights }
    }

    /// The documents of `within` that match, with their weights: the greatest of their words, or the sum of
    /// the different ones where it has to be above a number.
    pub(crate) fn weights(
        &self,
        tokens: &TokensColumn,
        within: &DocumentBits,
        dot_product_above: Option<f64>,
    ) -> Vec<(u16, i64)> {
        if self.weights.is_empty() {
            return Vec::new();
        }
        let mut seen = vec![0u32; if dot_product_above.is_some() { self.ranks.len() } else { 0 }];
        let weight = |document: usize| {
            let weighing = match (tokens.document(document), dot_product_above) {
                (TokenIds::Narrow(ids), None) => self.greatest(ids),
                (TokenIds::Wide(ids), None) => self.greatest(ids),
                (TokenIds::Narrow(ids), Some(_)) => self.sum(ids, document, &mut seen),
                (TokenIds::Wide(ids), Some(_)) => self.sum(ids, document, &mut seen),
            };
            Some((document as u16, weighing.weight(dot_product_above)?))
        };
        within.iter().filter_map(weight).collect()
    }

    /// The greatest weight of the words. Four are looked up at a time, so that none waits for the one before.
    fn greatest<T: Copy + Into<u32>>(&self, ids: &[T]) -> ValueWeights {
        let rank = |id: &T| {
            let number: u32 = (*id).into();
            self.ranks[number as usize]
        };
        let (blocks, rest) = ids.as_chunks::<4>();
        let mut greatest = [0; 4];
        for block in blocks {
            greatest.iter_mut().zip(block).for_each(|(greatest, id)| *greatest = rank(id).max(*greatest));
        }
        let greatest = rest.iter().map(rank).chain(greatest).max().unwrap_or(0);
        let mut weighing = ValueWeights::default();
        self.add(greatest, &mut weighing);
        weighing
    }

    /// The weights of the different words of a document. `seen` has for each number the last document that
    /// has the word, counted from 1.
    fn sum<T: Copy + Into<u32>>(&self, ids: &[T], document: usize, seen: &mut [u32]) -> ValueWeights {
        let (mut weighing, here) = (ValueWeights::default(), document as u32 + 1);
        for id in ids {
            let number: u32 = (*id).into();
            let rank = self.ranks[number as usize];
            if rank > 0 && std::mem::replace(&mut seen[number as usize], here) != here {
                self.add(rank, &mut weighing);
            }
        }
        weighing
    }

    /// Adds the weight at a rank, if there is one.
    fn add(&self, rank: u32, weighing: &mut ValueWeights) {
        if let Some(index) = rank.checked_sub(1) {
            weighing.add(self.weights[index as usize], 1, WeightSource::Listed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use millrace_column::TokensBuilder;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn documents_have_the_weights_that_each_word_gives(
            documents in proptest::collection::vec(proptest::collection::vec(("[abc]{1,2}", any::<bool>()), 0..12), 1..20),
            listed in proptest::collection::btree_map("[abcd]{1,2}", -3i32..4, 0..9),
            more_words in prop_oneof![20 => Just(0u32), 1 => Just(70_000)],
            dead in 0usize..20,
            above in proptest::option::of(-4.0..5.0f64),
        ) {
            let stem = |word: &str, has_stem: bool| if has_stem { word[..1].to_owned() } else { word.to_owned() };
            let mut builder = TokensBuilder::new();
            for document in &documents {
                for (word, has_stem) in document {
                    builder.stemmed(word.as_bytes(), stem(word, *has_stem).as_bytes());
                }
                builder.end_document();
            }
            // With so many words their numbers are wide.
            (0..more_words).for_each(|word| builder.word(format!("{word}").as_bytes()));
            builder.end_document();
            let tokens = builder.finish();
            let mut within = DocumentBits::first(documents.len());
            if dead < documents.len() {
                let mut one = DocumentBits::NONE;
                one.set(dead);
                within = within.without(&one);
            }
            let mut expected = Vec::new();
            for (row, document) in documents.iter().enumerate().filter(|(row, _)| *row != dead) {
                let words: BTreeMap<(&str, String), i32> = document
                    .iter()
                    .map(|(word, has_stem)| (word.as_str(), stem(word, *has_stem)))
                    .filter_map(|word| Some((word.clone(), *listed.get(&word.1)?)))
                    .collect();
                let sum: i64 = words.values().map(|weight| i64::from(*weight)).sum();
                let weight = match above {
                    None => words.values().max().map(|weight| i64::from(*weight)),
                    Some(above) => (!words.is_empty() && sum as f64 > above).then_some(sum),
                };
                expected.extend(weight.map(|weight| (row as u16, weight)));
            }
            let listed: Vec<(String, i32)> = listed.into_iter().collect();
            for paths in [ExecutionPaths::Fast, ExecutionPaths::Plain] {
                let words = ListedWords::new(&listed, &tokens, paths);
                prop_assert_eq!(&words.weights(&tokens, &within, above), &expected);
            }
        }
    }
}
