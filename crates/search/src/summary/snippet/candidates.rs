//! Candidates: places of a text where conditions of the query match together.
//!
//! The algorithm is that of Vespa's summaries, so that the same passages are shown. Each occurrence of a word
//! begins a candidate of the condition that the word belongs to, and joins those that lack it and began
//! nearby. A candidate that has all of its condition is an element of one of the condition around it, and
//! those of the outermost condition are the matches of the text. What is left incomplete when its window has
//! passed counts as well, unless its condition is a phrase or a nearness.

use std::ops::Range;

use super::super::highlight::HighlightStyle;
use super::WordOccurrence;

/// Occurrences of words after which the rest of a text is not looked at, so that the cost of a text is
/// bounded.
const MAX_OCCURRENCES: usize = 20_000;

/// Windows within which an incomplete candidate may still become complete.
const FALLBACK_WINDOWS: usize = 10;

/// The conditions on one text, as far as they have words that are highlighted.
#[derive(Debug, Default)]
pub(crate) struct SnippetQuery {
    /// Conditions; each comes after those inside it, and the last one is the outermost.
    conditions: Vec<SnippetCondition>,
    /// Words, in the order of their numbers.
    words: Vec<Option<SnippetWord>>,
}

/// A condition over words and other conditions.
#[derive(Debug, Clone, Default)]
struct SnippetCondition {
    /// The condition around it, and the place there.
    around: Option<ConditionSlot>,
    /// Number of its places.
    places: usize,
    nearness: Option<SnippetNearness>,
}

/// The rules of phrases and of nearness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnippetNearness {
    /// Maximum number of other words between two neighbours.
    pub(crate) gap: usize,
    /// True if the words must stand in the order of the condition.
    pub(crate) ordered: bool,
}

/// A place of a condition.
#[derive(Debug, Clone, Copy)]
struct ConditionSlot {
    condition: usize,
    place: usize,
}

/// A word of the query.
#[derive(Debug, Clone, Copy)]
struct SnippetWord {
    slot: ConditionSlot,
    weight: i64,
}

/// Part of a query, before it becomes one of the conditions of a [`SnippetQuery`].
#[derive(Debug, Clone)]
pub(crate) enum SnippetPart {
    /// A word, by each of its numbers.
    Word {
        /// Its numbers: one for each field that it is looked for in.
        numbers: Vec<usize>,
        /// Its weight.
        weight: i64,
    },
    /// Parts that belong together, near each other if the condition says so.
    Parts(Vec<SnippetPart>, Option<SnippetNearness>),
}

impl SnippetPart {
    /// The same conditions without those of a single part, and `None` without any word.
    pub(crate) fn of(mut parts: Vec<SnippetPart>, nearness: Option<SnippetNearness>) -> Option<Self> {
        match parts.len() {
            0 | 1 => parts.pop(),
            _ => Some(SnippetPart::Parts(parts, nearness)),
        }
    }

    /// The same part, with words numbered from `first` on.
    pub(crate) fn renumbered(self, first: usize) -> Self {
        match self {
            SnippetPart::Word { numbers, weight } => {
                let numbers = numbers.into_iter().map(|number| number + first).collect();
                SnippetPart::Word { numbers, weight }
            }
            SnippetPart::Parts(parts, nearness) => {
                let parts = parts.into_iter().map(|part| part.renumbered(first));
                SnippetPart::Parts(parts.collect(), nearness)
            }
        }
    }

    /// True if it has as many words in the same conditions.
    pub(crate) fn is_like(&self, other: &SnippetPart) -> bool {
        match (self, other) {
            (SnippetPart::Word { .. }, SnippetPart::Word { .. }) => true,
            (SnippetPart::Parts(parts, nearness), SnippetPart::Parts(others, of_other)) => {
                nearness == of_other
                    && parts.len() == others.len()
                    && parts.iter().zip(others).all(|(part, other)| part.is_like(other))
            }
            _ => false,
        }
    }

    /// Takes the words of a part like this one for the same words.
    pub(crate) fn join(&mut self, other: SnippetPart) {
        match (self, other) {
            (SnippetPart::Word { numbers, .. }, SnippetPart::Word { numbers: others, .. }) => {
                numbers.extend(others);
            }
            (SnippetPart::Parts(parts, _), SnippetPart::Parts(others, _)) => {
                parts.iter_mut().zip(others).for_each(|(part, other)| part.join(other));
            }
            _ => {}
        }
    }
}

impl SnippetQuery {
    /// The query of which this is the outermost part.
    pub(crate) fn new(root: Option<SnippetPart>) -> Self {
        let mut query = SnippetQuery::default();
        match root {
            None => {}
            Some(SnippetPart::Parts(parts, nearness)) => _ = query.add(parts, nearness),
            Some(word) => _ = query.add(vec![word], None),
        }
        query
    }

    /// Adds a condition, after those inside it, and returns its index.
    fn add(&mut self, parts: Vec<SnippetPart>, nearness: Option<SnippetNearness>) -> usize {
        let places = parts.len();
        let (mut words, mut inner) = (Vec::new(), Vec::new());
        for (place, part) in parts.into_iter().enumerate() {
            match part {
                SnippetPart::Word { numbers, weight } => {
                    words.extend(numbers.into_iter().map(|number| (number, weight, place)));
                }
                SnippetPart::Parts(parts, nearness) => inner.push((self.add(parts, nearness), place)),
            }
        }
        let condition = self.conditions.len();
        self.conditions.push(SnippetCondition { around: None, places, nearness });
        for (index, place) in inner {
            self.conditions[index].around = Some(ConditionSlot { condition, place });
        }
        for (number, weight, place) in words {
            let word = SnippetWord { slot: ConditionSlot { condition, place }, weight };
            if self.words.len() <= number {
                self.words.resize(number + 1, None);
            }
            self.words[number] = Some(word);
        }
        condition
    }

    /// The matches of a text with these occurrences, best first: more and heavier words first, then those
    /// that stand closer together, then the first.
    pub(super) fn matches(&self, words: &[WordOccurrence], style: &HighlightStyle) -> Vec<SnippetMatch> {
        let mut search = CandidateSearch {
            query: self,
            style,
            waiting: vec![Vec::new(); self.conditions.len()],
            to_complete: style.max_matches,
            matches: Vec::new(),
        };
        for occurrence in words.iter().take(MAX_OCCURRENCES) {
            search.add(occurrence);
        }
        search.finish();
        let mut matches = search.matches;
        let order = |found: &SnippetMatch| {
            (-found.weight, found.tokens.len() as isize - (found.places as isize - 1), found.bytes.start)
        };
        matches.sort_by_key(order);
        matches
    }
}

/// A match of the outermost condition in a text.
#[derive(Debug, Clone)]
pub(super) struct SnippetMatch {
    pub(super) bytes: Range<usize>,
    pub(super) tokens: Range<usize>,
    /// Elements that were found: words, or conditions.
    pub(super) found: usize,
    /// The words in it, each with its token, in order.
    pub(super) words: Vec<(usize, Range<usize>)>,
    places: usize,
    weight: i64,
}

/// A condition as far as it was found.
#[derive(Debug, Clone)]
struct SnippetCandidate {
    elements: Vec<Option<CandidateElement>>,
    found: usize,
    bytes: Range<usize>,
    tokens: Range<usize>,
    weight: i64,
    /// For ordered conditions: not 0 once an element was taken or left out for its order.
    order: i32,
}

/// A word, or an inner condition, in a candidate.
#[derive(Debug, Clone)]
struct CandidateElement {
    bytes: Range<usize>,
    tokens: Range<usize>,
    weight: i64,
    complete: bool,
    words: Vec<(usize, Range<usize>)>,
}

/// The effect of an element on a candidate.
enum CandidateStep {
    Taken,
    /// The candidate has one at this place already, and so do all that began before it.
    Exists,
    /// The candidate does not take it for its order.
    Overlaps,
}

struct CandidateSearch<'q> {
    query: &'q SnippetQuery,
    style: &'q HighlightStyle,
    /// Incomplete candidates of each condition, in the order in which they began.
    waiting: Vec<Vec<SnippetCandidate>>,
    /// Complete candidates to find before incomplete ones are given up.
    to_complete: usize,
    matches: Vec<SnippetMatch>,
}

impl CandidateSearch<'_> {
    fn add(&mut self, occurrence: &WordOccurrence) {
        if self.to_complete == 0 {
            for condition in 0..self.waiting.len() {
                let is_old = |candidate: &SnippetCandidate| {
                    occurrence.range.start.saturating_sub(candidate.bytes.start) >= self.style.window
                };
                let old = self.waiting[condition].iter().take_while(|candidate| is_old(candidate)).count();
                let old: Vec<SnippetCandidate> = self.waiting[condition].drain(..old).collect();
                old.into_iter().for_each(|candidate| self.give_up(condition, candidate));
            }
        }
        let tokens = occurrence.token..occurrence.token + 1;
        for number in &occurrence.words {
            let Some(word) = self.query.words.get(*number).copied().flatten() else { continue };
            let element = CandidateElement {
                bytes: occurrence.range.clone(),
                tokens: tokens.clone(),
                weight: word.weight,
                complete: true,
                words: vec![(occurrence.token, occurrence.range.clone())],
            };
            if self.waiting[word.slot.condition].len() < self.style.max_candidates {
                self.begin(word.slot.condition);
            }
            self.offer(word.slot, &element);
        }
    }

    fn begin(&mut self, condition: usize) {
        let elements = vec![None; self.query.conditions[condition].places];
        self.waiting[condition].push(SnippetCandidate {
            elements,
            found: 0,
            bytes: 0..0,
            tokens: 0..0,
            weight: 0,
            order: 0,
        });
    }

    /// Offers an element to the candidates of its condition, the newest first.
    fn offer(&mut self, slot: ConditionSlot, element: &CandidateElement) {
        let condition = &self.query.conditions[slot.condition];
        let mut at = self.waiting[slot.condition].len();
        while at > 0 {
            at -= 1;
            let candidate = &mut self.waiting[slot.condition][at];
            if let CandidateStep::Exists = candidate.offer(slot.place, element, condition) {
                return;
            }
            let age = element.bytes.start.saturating_sub(candidate.bytes.start);
            if age >= self.style.window.saturating_mul(FALLBACK_WINDOWS) {
                self.waiting[slot.condition].remove(at);
            } else if candidate.is_complete() {
                let candidate = self.waiting[slot.condition].remove(at);
                if candidate.keeps(condition) {
                    self.to_complete = self.to_complete.saturating_sub(1);
                    self.found(slot.condition, candidate);
                }
            }
        }
    }

    /// Takes an incomplete candidate for what it is, unless its condition needs all of it.
    fn give_up(&mut self, condition: usize, candidate: SnippetCandidate) {
        if self.query.conditions[condition].nearness.is_none() {
            self.found(condition, candidate);
        }
    }

    fn found(&mut self, condition: usize, candidate: SnippetCandidate) {
        let complete = candidate.is_complete();
        let places = candidate.elements.len();
        let words = candidate.elements.into_iter().flatten().flat_map(|element| element.words);
        let mut words: Vec<(usize, Range<usize>)> = words.collect();
        words.sort_by_key(|(token, _)| *token);
        words.dedup_by_key(|(token, _)| *token);
        let SnippetCandidate { found, bytes, tokens, weight, .. } = candidate;
        match self.query.conditions[condition].around {
            None => self.matches.push(SnippetMatch { bytes, tokens, found, words, places, weight }),
            Some(slot) => {
                self.begin(slot.condition);
                self.offer(slot, &CandidateElement { bytes, tokens, weight, complete, words });
            }
        }
    }

    /// Gives up what is left at the end of the text.
    fn finish(&mut self) {
        for condition in 0..self.waiting.len() {
            let rest = std::mem::take(&mut self.waiting[condition]);
            rest.into_iter().for_each(|candidate| self.give_up(condition, candidate));
        }
    }
}

impl SnippetCandidate {
    fn offer(
        &mut self,
        place: usize,
        element: &CandidateElement,
        condition: &SnippetCondition,
    ) -> CandidateStep {
        if self.elements[place].is_some() {
            return if self.order == 0 { CandidateStep::Exists } else { CandidateStep::Overlaps };
        }
        if condition.nearness.is_some_and(|nearness| nearness.ordered) {
            if element.bytes.start < self.bytes.end {
                self.order += 1;
                return CandidateStep::Overlaps;
            }
            self.order -= 1;
        }
        if self.found == 0 || element.bytes.start < self.bytes.start {
            self.bytes.start = element.bytes.start;
            self.tokens.start = element.tokens.start;
        }
        if element.bytes.end > self.bytes.end {
            self.bytes.end = element.bytes.end;
            self.tokens.end = element.tokens.end;
        }
        self.found += 1;
        self.weight += element.weight;
        self.elements[place] = Some(element.clone());
        CandidateStep::Taken
    }

    fn is_complete(&self) -> bool {
        self.elements.iter().all(|element| element.as_ref().is_some_and(|element| element.complete))
    }

    /// True if its elements are as near each other as its condition says.
    fn keeps(&self, condition: &SnippetCondition) -> bool {
        let Some(nearness) = condition.nearness else { return true };
        let elements: Vec<&CandidateElement> = self.elements.iter().flatten().collect();
        let ascends = elements.windows(2).all(|pair| pair[0].tokens.start < pair[1].tokens.start);
        let between =
            self.tokens.len().saturating_sub(elements.iter().map(|element| element.tokens.len()).sum());
        (ascends || !nearness.ordered)
            && between <= nearness.gap.saturating_mul(elements.len().saturating_sub(1))
    }
}
