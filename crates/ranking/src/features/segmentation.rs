//! The string segment match: the best way to find the query's terms in a field, in segments.
//!
//! A segment starts at a term of the query and is followed through the field. The next term is searched to
//! the right, at most `limit` positions away, then equally far to the left; a term found only farther away
//! starts the next segment. Terms that the field lacks are skipped. A segment may start at any occurrence of
//! its first term. Of the segmentations that end before the same query term, only the best is kept, so
//! nothing is followed twice, and the result is complete at the end of the query.

use std::rc::Rc;

/// Proximity values and search limits.
pub(super) struct Settings {
    /// Maximum gap inside a segment, in positions.
    pub limit: u32,
    /// Value of each distance, from `limit` backward to `limit` forward. The middle entry is that of adjacent
    /// terms in order.
    pub proximity: Vec<f64>,
    /// Number of alternative starts to try for a segment, beside the first.
    pub alternatives: u32,
}

/// Totals of a segmentation up to the current term.
#[derive(Debug)]
pub(super) struct FieldSegmentation {
    pub matches: u32,
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
    /// Finds the best segmentation; `None` if no term occurs. `positions` holds the positions of each query
    /// term, ascending; `connectedness` that of each term with the previous one.
    pub fn best(settings: &Settings, positions: &[&[u32]], connectedness: &[f64]) -> Option<Self> {
        SegmentSearch { settings, positions, connectedness }.run()
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
    positions: &'s [&'s [u32]],
    connectedness: &'s [f64],
}

/// The best partial segmentation up to a query term at which a segment may start.
struct StartPoint {
    so_far: FieldSegmentation,
    /// End of the segment before it; `None` for the first one.
    previous: Option<u32>,
}

impl SegmentSearch<'_> {
    fn run(&self) -> Option<FieldSegmentation> {
        let first = self.present(0)?;
        let mut points: Vec<Option<StartPoint>> = (0..self.positions.len()).map(|_| None).collect();
        points[first] = Some(StartPoint { so_far: FieldSegmentation::empty(), previous: None });
        let mut best: Option<FieldSegmentation> = None;
        let (mut alternatives, mut steps) = (0, 0);
        // A segment leads to a later term, so a start point is final once the points before it are done.
        for term in first..points.len() {
            let Some(point) = points[term].take() else { continue };
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
        best
    }

    /// The first term from `from` on that occurs in the field.
    fn present(&self, from: usize) -> Option<usize> {
        (from..self.positions.len()).find(|term| !self.positions[*term].is_empty())
    }

    /// Follows a segment from an occurrence of a term. Returns the totals without the starts of segments, the
    /// end position, and the term at which the next segment starts.
    fn follow(
        &self,
        so_far: &FieldSegmentation,
        term: usize,
        begin: u32,
    ) -> (FieldSegmentation, u32, Option<usize>) {
        let mut segmentation = FieldSegmentation { segments: so_far.segments + 1, starts: None, ..*so_far };
        segmentation.add_match(begin);
        let (mut at, mut sequence, mut next) = (begin, 1, self.present(term + 1));
        while let Some(term) = next {
            let Some(to) = self.near(term, at) else { break };
            segmentation.step(self.settings, at, to, self.connectedness[term]);
            sequence = if to == at + 1 { sequence + 1 } else { 1 };
            segmentation.longest_sequence = segmentation.longest_sequence.max(sequence);
            at = to;
            next = self.present(term + 1);
        }
        (segmentation, at, next)
    }

    /// The occurrence of a term that continues a segment.
    fn near(&self, term: usize, at: u32) -> Option<u32> {
        let (limit, positions) = (self.settings.limit, self.positions[term]);
        let (others, right) = positions.split_at(positions.partition_point(|position| *position <= at));
        if let Some(right) = right.first().filter(|right| **right - at <= limit) {
            return Some(*right);
        }
        let left = &others[..others.partition_point(|position| *position < at)];
        match left.last().filter(|left| at - **left <= limit) {
            Some(left) => Some(*left),
            // Two query terms may have the same position.
            None => (left.len() < others.len()).then_some(at),
        }
    }

    /// The occurrences of a term at which a segment may start, best candidate first, or only this one. After
    /// another segment near ones precede far ones; those to the right precede those to the left.
    fn starts(&self, term: usize, previous: Option<u32>, only_best: bool) -> Vec<u32> {
        let positions = self.positions[term];
        let order = |position: &u32| {
            let distance = previous.map_or(*position, |previous| position.abs_diff(previous));
            let is_left = previous.is_some_and(|previous| *position <= previous);
            (previous.is_some() && distance > self.settings.limit, is_left, distance)
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

    fn add_match(&mut self, at: u32) {
        self.matches += 1;
        self.first = self.first.min(at);
        self.last = self.last.max(at);
    }

    /// Adds the step from one term of a segment to the next.
    fn step(&mut self, settings: &Settings, from: u32, to: u32, connectedness: f64) {
        self.add_match(to);
        self.pairs += 1;
        let forward = to > from;
        // Adjacent terms have the distance 0 forward and 1 backward.
        let distance = if forward { to - from - 1 } else { from - to };
        self.out_of_order += u32::from(to < from);
        self.gaps += u32::from(to != from + 1);
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
    /// matches, segments, pairs, gaps, and the sum of the pairs' proximity.
    #[track_caller]
    fn check(query: &str, field: &str, alternatives: u32, expected: (u32, u32, u32, u32, f64)) {
        let words: Vec<&str> = field.split(' ').collect();
        let positions: Vec<Vec<u32>> = query
            .split(' ')
            .map(|term| (0..words.len()).filter(|at| words[*at] == term).map(|at| at as u32).collect())
            .collect();
        let lists: Vec<&[u32]> = positions.iter().map(Vec::as_slice).collect();
        let settings = Settings { limit: 10, proximity: (0..21).map(proximity).collect(), alternatives };
        let connectedness = vec![CONNECTEDNESS; lists.len()];
        let found = FieldSegmentation::best(&settings, &lists, &connectedness).expect("some word occurs");
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
        check("a a", "a", 10_000, (2, 1, 1, 1, 1.0));
        check("a y b", "a b", 10_000, (2, 1, 2, 0, 1.0));
        check("a b", "a x x x x x x x x x x x b", 10_000, (2, 2, 1, 0, 0.0));
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
    fn few_segments_are_better_than_many() {
        check("a b c", "a x x x x x x x x x x x b c a b c", 10_000, (3, 1, 3, 0, 2.0));
    }
}
