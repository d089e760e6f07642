//! The string segment match: the best way to find the query's terms in a field, in segments.
//!
//! A segment starts at a term of the query and is followed through the field. The next term is searched to
//! the right, less than `limit` positions away, then equally far to the left; a term found only farther away
//! starts the next segment. As in Vespa, a term that the field lacks is a gap in the query, and ends a
//! segment that has come to a position of `limit - 1` or more; a term does not match where the one before it
//! did, but after such a gap it may. A segment may start at any occurrence of its first term. Of the
//! segmentations that end before the same query term, only the best is kept, so nothing is followed twice,
//! and the result is complete at the end of the query.

use std::rc::Rc;

/// Proximity values and search limits.
pub(super) struct Settings {
    /// Distance of two terms from which on they are in different segments, in positions.
    pub limit: u32,
    /// Value of each distance, from `limit` backward to `limit` forward. The middle entry is that of adjacent
    /// terms in order.
    pub proximity: Vec<f64>,
    /// Number of alternative starts to try for a segment, beside the first.
    pub alternatives: u32,
}

/// A term of the query, as the segmentation of a field sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SegmentTerm<'s> {
    /// Positions in the field, ascending.
    pub positions: &'s [u32],
    /// Connectedness with the term before.
    pub connectedness: f64,
    pub weight: f64,
    pub significance: f64,
}

impl SegmentTerm<'_> {
    /// A term that the field lacks, or several in sequence: they are one gap in the query.
    pub const ABSENT: SegmentTerm<'static> =
        SegmentTerm { positions: &[], connectedness: CONNECTEDNESS, weight: 0.0, significance: 0.0 };
}

/// Totals of a segmentation up to the current term.
#[derive(Debug)]
pub(super) struct FieldSegmentation {
    /// Number of matched terms, at most that of the field's words.
    pub matches: u32,
    /// Sums over the matched terms.
    pub weight: f64,
    pub significance: f64,
    /// Number of pairs of consecutive terms within a segment.
    pub pairs: u32,
    pub out_of_order: u32,
    pub gaps: u32,
    pub gap_length: u32,
    pub longest_sequence: u32,
    /// The first and the last position of any segment.
    pub first: u32,
    pub last: u32,
    /// Sum of the proximity of pairs, plain and weighted by connectedness.
    pub proximity: f64,
    pub weighted_proximity: f64,
    pub segments: u32,
    /// Starts of the segments, last segment first.
    starts: Option<Rc<SegmentStart>>,
}

#[derive(Debug)]
struct SegmentStart {
    at: u32,
    before: Option<Rc<SegmentStart>>,
}

/// Default connectedness of terms.
pub(super) const CONNECTEDNESS: f64 = 0.1;

/// Terms that segments of a field are followed through, after which no more alternatives are tried. A query
/// needs more than a hundred terms to have as many in the default number of alternatives.
const STEPS_MAX: usize = 1 << 20;

impl FieldSegmentation {
    /// Finds the best segmentation of a field with this number of words; `None` if no term occurs.
    pub fn best(settings: &Settings, terms: &[SegmentTerm<'_>], words: u32) -> Option<Self> {
        SegmentSearch { settings, terms, words }.run()
    }

    /// Proximity of the terms within segments, weighted by their connectedness.
    pub fn absolute_proximity(&self) -> f64 {
        if self.pairs > 0 { self.weighted_proximity / f64::from(self.pairs) } else { CONNECTEDNESS }
    }

    /// Quality of a partial segmentation, used to compare two that end at the same term.
    fn score(&self) -> f64 {
        self.absolute_proximity() / f64::from(self.segments * self.segments).max(1.0)
    }

    /// Sum over adjacent segments of the field: the distance between their starts, both ends included.
    pub fn segment_distance(&self) -> u32 {
        let mut starts = std::iter::successors(self.starts.as_deref(), |start| start.before.as_deref());
        let Some(first) = starts.next().map(|start| start.at) else { return 0 };
        let (low, high) =
            starts.fold((first, first), |(low, high), start| (low.min(start.at), high.max(start.at)));
        high - low + self.segments - 1
    }
}

struct SegmentSearch<'s> {
    settings: &'s Settings,
    terms: &'s [SegmentTerm<'s>],
    words: u32,
}

/// The best partial segmentation up to a query term at which a segment may start.
struct StartPoint {
    so_far: FieldSegmentation,
    /// End of the segment before it; `None` for the first one.
    previous: Option<u32>,
}

/// Occurrence of a query term that follows a segment.
enum SegmentContinuation {
    /// The term is at this position, within the segment.
    Near(u32),
    /// The term is too far away.
    Far,
    /// The field lacks the term, or has it only where the term before it matched.
    Absent,
}

impl SegmentSearch<'_> {
    fn run(&self) -> Option<FieldSegmentation> {
        let mut points: Vec<Option<StartPoint>> = (0..self.terms.len()).map(|_| None).collect();
        *points.first_mut()? = Some(StartPoint { so_far: FieldSegmentation::empty(), previous: None });
        // The best up to the end of the query, and the last one after which the field has no more terms.
        let (mut best, mut ended): (Option<FieldSegmentation>, Option<FieldSegmentation>) = (None, None);
        let (mut alternatives, mut steps) = (0, 0);
        // A segment leads to a later term, so a start point is final once the points before it are done.
        for place in 0..points.len() {
            let Some(point) = points[place].take() else { continue };
            let Some(term) = self.present(place) else {
                ended = Some(point.so_far);
                continue;
            };
            let is_over = |alternatives: u32, steps: usize| {
                alternatives == self.settings.alternatives || steps > STEPS_MAX
            };
            let starts = self.starts(term, point.previous, is_over(alternatives, steps));
            for (number, at) in starts.into_iter().enumerate() {
                if number > 0 {
                    if is_over(alternatives, steps) {
                        break;
                    }
                    alternatives += 1;
                }
                let (mut found, end, next) = self.follow(&point.so_far, term, at);
                steps += next.unwrap_or(points.len()) - term;
                let known = match next {
                    None => best.as_ref(),
                    Some(next) => points[next].as_ref().map(|point| &point.so_far),
                };
                if known.is_some_and(|known| known.score() >= found.score()) {
                    continue;
                }
                found.starts = Some(Rc::new(SegmentStart { at, before: point.so_far.starts.clone() }));
                match next {
                    None => best = Some(found),
                    Some(next) => points[next] = Some(StartPoint { so_far: found, previous: Some(end) }),
                }
            }
        }
        best.or(ended).filter(|found| found.segments > 0)
    }

    /// The first term from `from` on that occurs in the field.
    fn present(&self, from: usize) -> Option<usize> {
        (from..self.terms.len()).find(|term| !self.terms[*term].positions.is_empty())
    }

    /// Follows a segment from an occurrence of a term. Returns the totals without the starts of segments, the
    /// end position, and the place of the query from which on the next segment starts.
    fn follow(
        &self,
        so_far: &FieldSegmentation,
        term: usize,
        begin: u32,
    ) -> (FieldSegmentation, u32, Option<usize>) {
        let mut segmentation = FieldSegmentation { segments: so_far.segments + 1, starts: None, ..*so_far };
        segmentation.add_match(&self.terms[term], begin, self.words);
        let (mut at, mut last, mut sequence, mut after_gap) = (begin, term, 1, false);
        for (place, next) in self.terms.iter().enumerate().skip(term + 1) {
            match self.continuation(next, at, after_gap) {
                SegmentContinuation::Near(to) => {
                    let in_sequence = to == at + 1 && place == last + 1;
                    segmentation.step(self.settings, at, to, in_sequence, next.connectedness);
                    segmentation.add_match(next, to, self.words);
                    sequence = if in_sequence { sequence + 1 } else { 1 };
                    segmentation.longest_sequence = segmentation.longest_sequence.max(sequence);
                    (at, last, after_gap) = (to, place, false);
                }
                SegmentContinuation::Absent if at + 1 < self.settings.limit => after_gap = true,
                SegmentContinuation::Absent | SegmentContinuation::Far => {
                    return (segmentation, at, Some(place));
                }
            }
        }
        (segmentation, at, None)
    }

    /// The occurrence of a term nearest to the end of a segment, where it may match only after a gap.
    fn continuation(&self, term: &SegmentTerm<'_>, at: u32, after_gap: bool) -> SegmentContinuation {
        let (limit, positions) = (self.settings.limit, term.positions);
        let (others, right) = positions.split_at(positions.partition_point(|position| *position <= at));
        let left = &others[..others.partition_point(|position| *position < at)];
        if after_gap && left.len() < others.len() {
            return SegmentContinuation::Near(at);
        }
        let near_right = right.first().filter(|right| **right - at < limit);
        match near_right.or_else(|| left.last().filter(|left| at - **left < limit)) {
            Some(near) => SegmentContinuation::Near(*near),
            None if right.is_empty() && left.is_empty() => SegmentContinuation::Absent,
            None => SegmentContinuation::Far,
        }
    }

    /// The occurrences of a term at which a segment may start, best candidate first, or only this one. After
    /// another segment near ones precede far ones; those to the right precede those to the left.
    fn starts(&self, term: usize, previous: Option<u32>, only_best: bool) -> Vec<u32> {
        let positions = self.terms[term].positions;
        let limit = self.settings.limit;
        let order = |position: &u32| match previous {
            None => (false, false, *position),
            Some(previous) if *position < previous => {
                let distance = previous - *position;
                (distance > limit, true, distance)
            }
            Some(previous) => {
                let distance = *position - previous;
                (distance >= limit, false, distance)
            }
        };
        if only_best {
            return positions.iter().copied().min_by_key(order).into_iter().collect();
        }
        let mut starts = positions.to_vec();
        starts.sort_by_key(order);
        starts
    }
}

impl FieldSegmentation {
    fn empty() -> Self {
        FieldSegmentation {
            matches: 0,
            weight: 0.0,
            significance: 0.0,
            pairs: 0,
            out_of_order: 0,
            gaps: 0,
            gap_length: 0,
            longest_sequence: 1,
            first: u32::MAX,
            last: 0,
            proximity: 0.0,
            weighted_proximity: 0.0,
            segments: 0,
            starts: None,
        }
    }

    /// Adds a term that matches at a position of a field with this number of words.
    fn add_match(&mut self, term: &SegmentTerm<'_>, at: u32, words: u32) {
        self.first = self.first.min(at);
        self.last = self.last.max(at);
        if self.matches < words {
            self.matches += 1;
            self.weight += term.weight;
            self.significance += term.significance;
        }
    }

    /// Adds the step from one term of a segment to the next.
    fn step(&mut self, settings: &Settings, from: u32, to: u32, in_sequence: bool, connectedness: f64) {
        self.pairs += 1;
        let forward = to > from;
        // Adjacent terms have the distance 0 forward and 1 backward.
        let distance = if forward { to - from - 1 } else { from - to };
        self.out_of_order += u32::from(!forward);
        self.gaps += u32::from(!in_sequence);
        self.gap_length += distance;
        let zero = settings.proximity.len() / 2;
        let place = match forward {
            true => zero + distance as usize,
            false => zero.saturating_sub(distance as usize),
        };
        let proximity = settings.proximity.get(place).copied().unwrap_or(0.0);
        self.proximity += proximity;
        let exponent = connectedness / CONNECTEDNESS;
        // Most terms have the default connectedness, and a power takes as long as all the rest.
        let power = if exponent == 1.0 { proximity } else { proximity.powf(exponent) };
        self.weighted_proximity += power * connectedness.max(CONNECTEDNESS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the best segmentation of a field for a query, both given as words. The expected values are
    /// matches, segments, the longest sequence, gaps, and the sum of the pairs' proximity.
    #[track_caller]
    fn check(query: &str, field: &str, alternatives: u32, expected: (u32, u32, u32, u32, f64)) {
        let words: Vec<&str> = field.split(' ').collect();
        let positions: Vec<Vec<u32>> = query
            .split(' ')
            .map(|term| (0..words.len()).filter(|at| words[*at] == term).map(|at| at as u32).collect())
            .collect();
        let terms: Vec<SegmentTerm<'_>> = positions
            .iter()
            .map(|found| SegmentTerm {
                positions: found,
                connectedness: CONNECTEDNESS,
                weight: 100.0,
                significance: 0.5,
            })
            .collect();
        let settings = Settings { limit: 10, proximity: (0..21).map(proximity).collect(), alternatives };
        let found = FieldSegmentation::best(&settings, &terms, words.len() as u32).expect("some word occurs");
        let FieldSegmentation { matches, segments, longest_sequence, gaps, proximity, .. } = found;
        assert_eq!(
            (matches, segments, longest_sequence, gaps),
            (expected.0, expected.1, expected.2, expected.3),
            "{query} in {field}"
        );
        assert!((proximity - expected.4).abs() < 1e-6, "{query} in {field}: {proximity}");
    }

    fn proximity(place: usize) -> f64 {
        if place >= 10 {
            0.5f64.powf((place - 10) as f64 / 2.0)
        } else {
            0.5f64.powf((9 - place) as f64 / 2.0) / 3.0
        }
    }

    #[test]
    fn terms_are_followed_to_the_right_then_to_the_left() {
        check("a", "a", 10_000, (1, 1, 1, 0, 0.0));
        check("a b", "a b", 10_000, (2, 1, 2, 0, 1.0));
        check("a b", "a x b", 10_000, (2, 1, 1, 1, 0.5f64.sqrt()));
        check("a b", "b a", 10_000, (2, 1, 1, 1, 1.0 / 3.0));
        check("a x b", "a x x x x x x x x x x x b", 10_000, (3, 2, 2, 0, 1.0));
        // Terms that are ten positions apart are in different segments.
        check("a b", "a x x x x x x x x b", 10_000, (2, 1, 1, 1, 0.0625));
        check("a b", "a x x x x x x x x x b", 10_000, (2, 2, 1, 0, 0.0));
        check("b a", "a x x x x x x x x b", 10_000, (2, 1, 1, 1, 0.0625 / 3.0));
        check("b a", "a x x x x x x x x x b", 10_000, (2, 2, 1, 0, 0.0));
    }

    #[test]
    fn a_position_matches_again_only_after_a_gap_in_the_query() {
        check("a a", "a", 10_000, (1, 1, 1, 0, 0.0));
        check("a a a", "a b", 10_000, (2, 1, 1, 1, 1.0));
        check("a b b b", "a b", 10_000, (2, 1, 2, 1, 2.0));
        check("a y a", "a", 10_000, (1, 1, 1, 1, 1.0));
    }

    #[test]
    fn a_gap_in_the_query_ends_segments_from_a_limit_on() {
        check("a y b", "a b", 10_000, (2, 1, 1, 1, 1.0));
        check("a y b", "x x x x x x x x a b", 10_000, (2, 1, 1, 1, 1.0));
        check("a y b", "x x x x x x x x x a b", 10_000, (2, 2, 1, 0, 0.0));
        check("a y", "x x x x x x x x x x x x a", 10_000, (1, 1, 1, 0, 0.0));
    }

    #[test]
    fn the_nearest_words_make_the_best_segment() {
        let field = "a x x b x x x x x x x x x x x a x b x x x x x x x x x x x a b x x x x x x x x x x x c d";
        check("a b c d", field, 0, (4, 2, 2, 1, 1.5));
        check("a b c d", field, 1, (4, 2, 2, 1, 1.0 + 0.5f64.sqrt()));
        check("a b c d", field, 2, (4, 2, 2, 0, 2.0));
        // A word to the right of the segment before, though one to the left is nearer.
        let field = format!("b {0}a {0}x b c", "x ".repeat(11));
        check("a b c", &field, 0, (3, 2, 2, 0, 1.0));
        check("a b c", &field, 1, (3, 2, 2, 0, 1.0));
    }

    #[test]
    fn terms_in_sequence_that_the_field_lacks_are_as_one() {
        for absent in ["y", "y y", "y y y y"] {
            check(&format!("a {absent} b"), "a b", 10_000, (2, 1, 1, 1, 1.0));
            check(&format!("{absent} a b"), "a b", 10_000, (2, 1, 2, 0, 1.0));
            check(&format!("a b {absent}"), "a b", 10_000, (2, 1, 2, 0, 1.0));
            check(&format!("a {absent} b"), "x x x x x x x x x a b", 10_000, (2, 2, 1, 0, 0.0));
            check(&format!("a {absent}"), "x x x x x x x x x x x x a", 10_000, (1, 1, 1, 0, 0.0));
        }
    }

    #[test]
    fn few_segments_are_better_than_many() {
        check("a b c", "a x x x x x x x x x x x b c a b c", 10_000, (3, 1, 3, 0, 2.0));
    }
}
