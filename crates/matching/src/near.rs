//! Nearness of words, by the positions of each.

use std::ops::Range;

use millrace_column::{ELEMENT_BOUNDARY, TokenIds};

/// Number of words up to which the next position of each is looked up for each position. With more, the
/// positions of all are gone through together.
const ONE_BY_ONE: usize = 8;

/// Conditions of `near` on the positions of its leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NearConstraint {
    pub(crate) distance: u32,
    pub(crate) exclusion_distance: u32,
    pub(crate) ordered: bool,
    /// Number of positions between adjacent elements; `None` if words of two elements are never near.
    pub(crate) element_gap: Option<u32>,
}

impl NearConstraint {
    /// True if a document has all of `positions` near each other, and none of `excluded` near them. The words
    /// must be in one element or, with a gap, in two adjacent ones.
    pub(crate) fn holds(self, positions: &[&[u32]], excluded: &[&[u32]], document: TokenIds<'_>) -> bool {
        self.spans(positions, excluded, document).next().is_some()
    }

    /// First and last position of each shortest match.
    pub(crate) fn spans<'p>(
        self,
        positions: &'p [&'p [u32]],
        excluded: &'p [&'p [u32]],
        document: TokenIds<'p>,
    ) -> impl Iterator<Item = (u32, u32)> + 'p {
        let mut boundaries = KnownBoundaries::new(document);
        let distance = move |first, last| boundaries.distance(first, last, self.element_gap);
        self.spans_by(positions, excluded, distance)
    }

    /// [`NearConstraint::holds`] for positions of one element, which has no boundary inside.
    pub(crate) fn holds_in_element(self, positions: &[&[u32]], excluded: &[&[u32]]) -> bool {
        self.spans_by(positions, excluded, |first, last| Some(last - first)).next().is_some()
    }

    /// [`NearConstraint::spans`] with the distance of two positions, if they have one.
    pub(crate) fn spans_by<'p>(
        self,
        positions: &'p [&'p [u32]],
        excluded: &'p [&'p [u32]],
        mut length_between: impl FnMut(u32, u32) -> Option<u32> + 'p,
    ) -> impl Iterator<Item = (u32, u32)> + 'p {
        let is_one_by_one = positions.len() <= ONE_BY_ONE;
        let firsts = if self.ordered { &positions[..positions.len().min(1)] } else { positions };
        let firsts = if is_one_by_one { firsts } else { &[] };
        let together = match (is_one_by_one, self.ordered) {
            (true, _) => Vec::new(),
            (false, true) => sequences(positions),
            (false, false) => windows(positions),
        };
        let one_by_one = firsts.iter().flat_map(|positions| positions.iter());
        let spans = one_by_one.filter_map(move |first| Some((*first, self.last(*first, positions)?)));
        spans.chain(together).filter(move |(first, last)| {
            self.reaches(*first, *last)
                && length_between(*first, *last).is_some_and(|length| length <= self.distance)
                && !excluded.iter().any(|found| self.excludes(found, (*first, *last), &mut length_between))
        })
    }

    /// True if one of the positions of an excluded word is within a match, or near enough to it: in the same
    /// element or, with a gap, in an adjacent one.
    fn excludes(
        self,
        found: &[u32],
        (first, last): (u32, u32),
        length_between: &mut impl FnMut(u32, u32) -> Option<u32>,
    ) -> bool {
        let (before, rest) = found.split_at(found.partition_point(|position| *position < first));
        let after = &rest[rest.partition_point(|position| *position <= last)..];
        let mut is_close = |from: u32, to: u32| {
            // The boundary between two elements has a position of its own.
            to - from <= self.exclusion_distance.saturating_add(1)
                && length_between(from, to).is_some_and(|length| length <= self.exclusion_distance)
        };
        rest.len() > after.len()
            || before.last().is_some_and(|position| is_close(*position, first))
            || after.first().is_some_and(|position| is_close(last, *position))
    }

    /// Last position of the shortest match that starts at `first`, if it may be near enough.
    fn last(self, first: u32, positions: &[&[u32]]) -> Option<u32> {
        let mut last = first;
        for (index, positions) in positions.iter().enumerate() {
            let from = match (self.ordered, index) {
                (true, 0) | (false, _) => first,
                (true, _) => last + 1,
            };
            let next = *positions.get(positions.partition_point(|position| *position < from))?;
            last = last.max(next);
        }
        self.reaches(first, last).then_some(last)
    }

    /// False if two positions are too far apart, whatever is between them.
    const fn reaches(self, first: u32, last: u32) -> bool {
        // The boundary between two elements has a position of its own.
        last - first <= self.distance.saturating_add(1)
    }
}

/// Boundaries between elements in a part of a document's tokens, so that no token is looked at again for each
/// of the spans that have it.
struct KnownBoundaries<'t> {
    document: TokenIds<'t>,
    /// The part that was looked at.
    part: Range<u32>,
    /// The boundaries in it, ascending.
    positions: Vec<u32>,
    /// Number of tokens that were looked at, in this part and in others before it.
    looked_at: usize,
}

impl<'t> KnownBoundaries<'t> {
    const fn new(document: TokenIds<'t>) -> Self {
        KnownBoundaries { document, part: 0..0, positions: Vec::new(), looked_at: 0 }
    }

    /// The distance of two positions, as [`TokenIds::distance`] has it.
    fn distance(&mut self, first: u32, last: u32, gap: Option<u32>) -> Option<u32> {
        if first < self.part.start || self.part.end < first {
            self.positions.clear();
            if self.looked_at < self.document.len() {
                self.part = first..first;
            } else {
                // Matches, and what is excluded far from them, are asked about in turn: the whole document is
                // looked at once more, and then known.
                self.part = 0..0;
                self.look_until(self.document.len() as u32);
            }
        }
        self.look_until(last);
        let before = |end: u32| self.positions.partition_point(|position| *position < end);
        TokenIds::distance_over(first, last, before(last) - before(first), gap)
    }

    /// Looks at the tokens after the part, up to `end`.
    fn look_until(&mut self, end: u32) {
        let from = self.part.end;
        if from < end {
            let more = self.document.slice(from as usize..end as usize);
            let boundaries = (from..).zip(more.iter()).filter(|(_, id)| *id == ELEMENT_BOUNDARY);
            self.positions.extend(boundaries.map(|(position, _)| position));
            self.looked_at += more.len();
            self.part.end = end;
        }
    }
}

/// For each position, the first one and the last of the shortest part of the text from it on that has a
/// position of each word.
fn windows(positions: &[&[u32]]) -> Vec<(u32, u32)> {
    let of_word = |(word, positions): (usize, &&[u32])| -> Vec<(u32, usize)> {
        positions.iter().map(|position| (*position, word)).collect()
    };
    let mut all: Vec<(u32, usize)> = positions.iter().enumerate().flat_map(of_word).collect();
    all.sort_unstable();
    let (mut counts, mut missing, mut next) = (vec![0usize; positions.len()], positions.len(), 0);
    let mut found = Vec::new();
    for here in all.chunk_by(|one, other| one.0 == other.0) {
        while missing > 0 {
            let Some((_, word)) = all.get(next) else { return found };
            missing -= usize::from(counts[*word] == 0);
            counts[*word] += 1;
            next += 1;
        }
        found.push((here[0].0, all[next - 1].0));
        for (_, word) in here {
            counts[*word] -= 1;
            missing += usize::from(counts[*word] == 0);
        }
    }
    found
}

/// For each position of the first word, itself and the end of the nearest sequence of the words from it on.
fn sequences(positions: &[&[u32]]) -> Vec<(u32, u32)> {
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else { return Vec::new() };
    // Ends of the sequences from each position of a word on, from the last word to the first.
    let mut ends: Vec<Option<u32>> = last.iter().copied().map(Some).collect();
    for pair in positions.windows(2).rev() {
        let mut next = 0;
        let end_from = |position: &u32| {
            next += pair[1][next..].iter().take_while(|other| *other <= position).count();
            ends.get(next).copied().flatten()
        };
        ends = pair[0].iter().map(end_from).collect();
    }
    first.iter().zip(ends).filter_map(|(first, end)| Some((*first, end?))).collect()
}

#[cfg(test)]
mod tests {
    use millrace_column::{TokensBuilder, TokensColumn};
    use proptest::prelude::*;

    use super::*;

    /// Words of a document, `|` between elements.
    fn tokens(text: &str) -> TokensColumn {
        let mut builder = TokensBuilder::new();
        for word in text.split_whitespace() {
            if word == "|" { builder.boundary() } else { builder.word(word.as_bytes()) }
        }
        builder.end_document();
        builder.finish()
    }

    /// Places of a word in a document, in which boundaries count.
    fn positions(text: &str, word: &str) -> Vec<u32> {
        (0..)
            .zip(text.split_whitespace())
            .filter(|(_, other)| *other == word)
            .map(|(position, _)| position)
            .collect()
    }

    proptest! {
        #[test]
        fn places_gone_through_together_have_the_spans_of_each(
            words in proptest::collection::vec(proptest::collection::btree_set(0u32..30, 0..12), 1..5),
            distance in 0u32..20,
        ) {
            let words: Vec<Vec<u32>> = words.into_iter().map(Vec::from_iter).collect();
            let positions: Vec<&[u32]> = words.iter().map(Vec::as_slice).collect();
            for ordered in [false, true] {
                let near = NearConstraint { distance, exclusion_distance: 0, ordered, element_gap: None };
                let is_near = |(first, last): &(u32, u32)| last - first <= distance;
                let together = if ordered { sequences(&positions) } else { windows(&positions) };
                let together: Vec<(u32, u32)> = together.into_iter().filter(is_near).collect();
                let mut each: Vec<(u32, u32)> =
                    near.spans_by(&positions, &[], |first, last| Some(last - first)).collect();
                each.sort_unstable();
                each.dedup();
                prop_assert_eq!(together, each);
            }
        }
    }

    proptest! {
        #[test]
        fn boundaries_that_are_known_tell_the_distance_of_a_look_at_all_tokens(
            elements in proptest::collection::vec(0usize..4, 0..12),
            spans in proptest::collection::vec(any::<[prop::sample::Index; 2]>(), 0..20),
            gap in proptest::option::of(0u32..3),
        ) {
            let text: String = elements.iter().map(|words| "a ".repeat(*words) + "| ").collect();
            let column = tokens(&format!("a {text} a"));
            let document = column.document(0);
            let mut boundaries = KnownBoundaries::new(document);
            for ends in spans {
                let [one, other] = ends.map(|end| end.index(document.len()) as u32);
                let (first, last) = (one.min(other), one.max(other));
                let expected = document.distance(first, last, gap);
                prop_assert_eq!(boundaries.distance(first, last, gap), expected, "{} to {}", first, last);
            }
        }
    }

    #[test]
    fn near_stays_in_one_element_and_away_from_what_is_excluded() {
        #[track_caller]
        fn check(
            text: &str,
            words: &[&str],
            excluded: &[&str],
            distance: u32,
            ordered: bool,
            expected: bool,
        ) {
            let tokens = tokens(text);
            let found = |words: &[&str]| words.iter().map(|word| positions(text, word)).collect::<Vec<_>>();
            let (near, not) = (found(words), found(excluded));
            let near: Vec<&[u32]> = near.iter().map(Vec::as_slice).collect();
            let not: Vec<&[u32]> = not.iter().map(Vec::as_slice).collect();
            let nearness = NearConstraint { distance, exclusion_distance: 1, ordered, element_gap: None };
            assert_eq!(nearness.holds(&near, &not, tokens.document(0)), expected, "{text}");
        }
        check("a x b", &["a", "b"], &[], 2, false, true);
        check("a x b", &["a", "b"], &[], 1, false, false);
        check("a x b", &["b", "a"], &[], 2, false, true);
        check("a x b", &["b", "a"], &[], 2, true, false);
        check("a x b a", &["b", "a"], &[], 2, true, true);
        check("a | b", &["a", "b"], &[], 2, false, false);
        check("a | b a", &["a", "b"], &[], 2, false, true);
        check("a b z", &["a", "b"], &["z"], 2, false, false);
        check("a b x z", &["a", "b"], &["z"], 2, false, true);
        check("a b z x a b", &["a", "b"], &["z"], 2, false, true);
        // What is excluded is not near in another element.
        check("a b | z", &["a", "b"], &["z"], 2, false, true);
        check("z | a b", &["a", "b"], &["z"], 2, false, true);
    }

    proptest! {
        #[test]
        fn boundaries_are_known_for_parts_in_any_order(
            words in proptest::collection::vec(proptest::sample::select(&["a", "|"][..]), 1..60),
            parts in proptest::collection::vec((0..60usize, 0..60usize), 1..200),
            gap in proptest::option::of(0..3u32),
        ) {
            let tokens = tokens(&words.join(" "));
            let document = tokens.document(0);
            prop_assert_eq!(document.len(), words.len());
            let mut boundaries = KnownBoundaries::new(document);
            for (one, other) in parts {
                let (one, other) = ((one % words.len()) as u32, (other % words.len()) as u32);
                let (from, to) = (one.min(other), one.max(other));
                prop_assert_eq!(boundaries.distance(from, to, gap), document.distance(from, to, gap));
            }
            prop_assert!(boundaries.looked_at <= 3 * document.len(), "{} tokens", boundaries.looked_at);
        }
    }

    #[test]
    fn a_gap_makes_what_is_excluded_near_in_neighbouring_elements() {
        #[track_caller]
        fn check(text: &str, gap: Option<u32>, exclusion_distance: u32, expected: bool) {
            let tokens = tokens(text);
            let (a, b, z) = (positions(text, "a"), positions(text, "b"), positions(text, "z"));
            let nearness =
                NearConstraint { distance: 1, exclusion_distance, ordered: false, element_gap: gap };
            assert_eq!(nearness.holds(&[&a, &b], &[&z], tokens.document(0)), expected, "{text}");
        }
        check("a b | z", None, 20, true);
        check("a b | z", Some(1), 1, true);
        check("a b | z", Some(1), 2, false);
        check("z | a b", Some(1), 2, false);
        check("z x | a b", Some(1), 2, true);
        check("z x | a b", Some(0), 2, false);
        check("a b | x | z", Some(0), 9, true);
        check("a z b", Some(0), 0, false);
        check("z b a z", None, 0, true);
        check("z b a x", None, 1, false);
    }

    #[test]
    fn spans_are_the_shortest_matches() {
        #[track_caller]
        fn check(text: &str, distance: u32, ordered: bool, expected: &[(u32, u32)]) {
            let tokens = tokens(text);
            let (a, b) = (positions(text, "a"), positions(text, "b"));
            let nearness = NearConstraint { distance, exclusion_distance: 1, ordered, element_gap: None };
            let found: Vec<_> = nearness.spans(&[&a, &b], &[], tokens.document(0)).collect();
            assert_eq!(found, expected, "{text}");
        }
        check("a a a b b b", 1, false, &[(2, 3)]);
        check("a b c a b c", 1, false, &[(0, 1), (3, 4)]);
        check("a a b", 2, false, &[(0, 2), (1, 2)]);
        check("b a b", 1, true, &[(1, 2)]);
        check("b a b", 1, false, &[(1, 2), (0, 1)]);
        check("a | b", 3, false, &[]);
    }

    #[test]
    fn a_gap_makes_neighbouring_elements_near() {
        #[track_caller]
        fn check(text: &str, gap: Option<u32>, distance: u32, ordered: bool, expected: bool) {
            let tokens = tokens(text);
            let (a, b) = (positions(text, "a"), positions(text, "b"));
            let nearness = NearConstraint { distance, exclusion_distance: 1, ordered, element_gap: gap };
            assert_eq!(nearness.holds(&[&a, &b], &[], tokens.document(0)), expected, "{text}");
        }
        // The words are three positions apart if elements follow each other without a gap.
        check("a c | x b x a x x x x x x b", None, 6, true, false);
        check("a c | x b x a x x x x x x b", Some(0), 3, true, true);
        check("a c | x b x a x x x x x x b", Some(0), 2, true, false);
        check("a c | x b x a x x x x x x b", Some(4), 6, true, false);
        check("b | a", Some(1), 2, false, true);
        check("b | a", Some(1), 2, true, false);
        check("a | x | b", Some(0), 9, false, false);
    }
}
