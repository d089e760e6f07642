//! Terms that are highlighted only near each other.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;

/// Terms that are highlighted only near each other.
pub(super) struct HighlightNearness {
    /// Numbers of the terms, in the order of the condition.
    terms: Vec<usize>,
    /// Maximum distance of the last term from the first one in the text, in tokens.
    distance: usize,
    /// True if the terms must be in the order of the condition.
    ordered: bool,
}

impl HighlightNearness {
    /// Terms within a distance of each other, in order or not.
    pub fn new(terms: Vec<usize>, distance: usize, ordered: bool) -> Self {
        HighlightNearness { terms, distance, ordered }
    }

    /// Numbers of the terms.
    pub fn terms(&self) -> impl Iterator<Item = usize> + '_ {
        self.terms.iter().copied()
    }

    /// Keeps the occurrences of the terms that are near those of all others. Occurrences, by the number of
    /// the term, are ascending. Each is looked at a few times, however many terms there are.
    pub fn keep_near(&self, occurrences: &mut HashMap<usize, Vec<usize>>) {
        if self.ordered { self.keep_in_order(occurrences) } else { self.keep_in_windows(occurrences) }
    }

    /// Keeps occurrences in any window in which all terms occur.
    fn keep_in_windows(&self, occurrences: &mut HashMap<usize, Vec<usize>>) {
        let terms: BTreeSet<usize> = self.terms().collect();
        let mut all: Vec<(usize, usize)> = Vec::new();
        for term in &terms {
            all.extend(occurrences.get(term).into_iter().flatten().map(|at| (*at, *term)));
        }
        all.sort_unstable();
        let mut windows: Vec<RangeInclusive<usize>> = Vec::new();
        // Occurrences of each term in the window, of which the last is the one before `next`.
        let mut counts: HashMap<usize, usize> = HashMap::new();
        let mut next = 0;
        for (start, first) in &all {
            let end = start.saturating_add(self.distance);
            while let Some((_, term)) = all.get(next).filter(|(at, _)| *at <= end) {
                *counts.entry(*term).or_default() += 1;
                next += 1;
            }
            if counts.len() == terms.len() {
                match windows.last_mut() {
                    Some(last) if start <= last.end() => *last = *last.start()..=end,
                    _ => windows.push(*start..=end),
                }
            }
            if let Entry::Occupied(mut count) = counts.entry(*first) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        for term in &terms {
            let Some(positions) = occurrences.get_mut(term) else { continue };
            positions.retain(|at| {
                let window = windows.partition_point(|window| window.end() < at);
                windows.get(window).is_some_and(|window| window.contains(at))
            });
        }
    }

    /// Keeps the nearest sequence of the terms after each occurrence of the first one.
    fn keep_in_order(&self, occurrences: &mut HashMap<usize, Vec<usize>>) {
        let positions = self.terms().map(|term| occurrences.get(&term).cloned().unwrap_or_default());
        let positions: Vec<Vec<usize>> = positions.collect();
        let (Some(first), Some(last)) = (positions.first(), positions.last()) else { return };
        // For each occurrence of a term, the index of the first one of the next term after it.
        let mut following: Vec<Vec<usize>> = Vec::with_capacity(positions.len());
        for pair in positions.windows(2) {
            let mut next = 0;
            let after = pair[0].iter().map(|at| {
                while pair[1].get(next).is_some_and(|other| other <= at) {
                    next += 1;
                }
                next
            });
            following.push(after.collect());
        }
        // For each occurrence of a term, from the last term to the first, the end of the sequence from it on.
        let mut ends: Vec<Option<usize>> = last.iter().copied().map(Some).collect();
        for after in following.iter().rev() {
            ends = after.iter().map(|next| ends.get(*next).copied().flatten()).collect();
        }
        let is_near = |(start, end): (&usize, &Option<usize>)| {
            end.is_some_and(|end| end <= start.saturating_add(self.distance))
        };
        let mut kept: Vec<bool> = first.iter().zip(&ends).map(is_near).collect();
        for (number, term) in self.terms().enumerate() {
            let of_term = positions[number].iter().zip(&kept).filter(|(_, is_kept)| **is_kept);
            occurrences.insert(term, of_term.map(|(at, _)| *at).collect());
            let Some(after) = following.get(number) else { continue };
            let mut reached = vec![false; positions[number + 1].len()];
            after.iter().zip(&kept).filter(|(_, kept)| **kept).for_each(|(next, _)| reached[*next] = true);
            kept = reached;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Occurrences of terms that are kept, by the rules in their plainest form.
    fn plainly(terms: &[Vec<usize>], distance: usize, ordered: bool) -> Vec<Vec<usize>> {
        let next = |term: &[usize], from: usize| term.iter().copied().find(|at| *at >= from);
        let mut kept: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); terms.len()];
        let starts: BTreeSet<usize> = match ordered {
            true => terms[0].iter().copied().collect(),
            false => terms.iter().flatten().copied().collect(),
        };
        for start in starts {
            let end = start + distance;
            let mut from = start;
            let sequence: Vec<usize> = terms
                .iter()
                .map_while(|term| {
                    let at = next(term, from).filter(|at| *at <= end)?;
                    from = if ordered { at + 1 } else { start };
                    Some(at)
                })
                .collect();
            if sequence.len() < terms.len() {
                continue;
            }
            for (number, at) in sequence.into_iter().enumerate() {
                match ordered {
                    true => _ = kept[number].insert(at),
                    false => {
                        kept[number].extend(terms[number].iter().filter(|at| (start..=end).contains(*at)))
                    }
                }
            }
        }
        kept.into_iter().map(|positions| positions.into_iter().collect()).collect()
    }

    #[test]
    fn what_is_kept_is_what_the_plain_rules_keep() {
        // Each way in which three terms can be at four positions, as bits.
        for bits in 0..(1 << 12) {
            let term = |number: usize| (0..4).filter(move |at| (bits >> (4 * number + at)) & 1 == 1);
            let terms: Vec<Vec<usize>> = (0..3).map(|number| term(number).collect()).collect();
            for (distance, ordered) in [(1, false), (2, false), (3, false), (2, true), (3, true), (9, true)] {
                let mut occurrences: HashMap<usize, Vec<usize>> = terms
                    .iter()
                    .cloned()
                    .enumerate()
                    .filter(|(_, positions)| !positions.is_empty())
                    .collect();
                HighlightNearness::new(vec![0, 1, 2], distance, ordered).keep_near(&mut occurrences);
                let kept: Vec<Vec<usize>> =
                    (0..3).map(|term| occurrences.remove(&term).unwrap_or_default()).collect();
                let expected = plainly(&terms, distance, ordered);
                assert_eq!(kept, expected, "{terms:?} within {distance}, ordered: {ordered}");
            }
        }
    }
}
