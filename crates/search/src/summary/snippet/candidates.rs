//! Candidates: places of a text where conditions of the query match together.
//!
//! The algorithm is that of Vespa's summaries, so that the same passages are shown. Each occurrence of a word
//! begins a candidate of the condition that the word belongs to, and joins those that lack it and began
//! nearby. A candidate that has all of its condition is an element of one of the condition around it, and
//! those of the outermost condition are the matches of the text. What is left incomplete when its window has
//! passed counts as well, unless its condition is a nearness.
//!
//! Phrases are not followed word by word, since each of their words would begin candidates wherever a text
//! repeats it: the pass over the text knows where they are.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::super::highlight::HighlightStyle;
use super::WordOccurrence;

/// Occurrences of words after which the rest of a text is not looked at, so that the cost of a text is
/// bounded.
const MAX_OCCURRENCES: usize = 20_000;

/// Steps for each occurrence, on average, after which the rest of a text is not looked at either. Only
/// conditions with a word many times, or with hundreds of words, on texts that repeat them, need as many.
const STEPS_PER_OCCURRENCE: usize = 256;

/// Windows within which an incomplete candidate may still become complete.
const FALLBACK_WINDOWS: usize = 10;

/// The conditions on one text, as far as they have words that are highlighted.
#[derive(Debug, Default)]
pub(crate) struct SnippetQuery {
    /// Conditions; each comes after those inside it, and the last one is the outermost.
    conditions: Vec<SnippetCondition>,
    /// Terms, in the order of their numbers.
    terms: Vec<Option<SnippetTerm>>,
}

/// A condition over terms and other conditions.
#[derive(Debug, Clone, Copy)]
struct SnippetCondition {
    /// The condition around it, and the place there.
    around: Option<ConditionSlot>,
    /// Number of its places.
    places: usize,
    nearness: Option<SnippetNearness>,
}

/// The rules of nearness.
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

/// A word or a phrase of the query.
#[derive(Debug, Clone, Copy)]
struct SnippetTerm {
    slot: ConditionSlot,
    weight: i64,
    words: usize,
}

/// Part of a query, before it becomes one of the conditions of a [`SnippetQuery`].
#[derive(Debug, Clone)]
pub(crate) enum SnippetPart {
    /// A word or a phrase, by each of its numbers.
    Term {
        /// Its numbers: one for each field that it is looked for in.
        numbers: Vec<usize>,
        /// The weights of its words together.
        weight: i64,
        /// Number of its words.
        words: usize,
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

    /// Renumbers the terms of the part from `first` on.
    pub(crate) fn renumbered(self, first: usize) -> Self {
        match self {
            SnippetPart::Term { numbers, weight, words } => {
                let numbers = numbers.into_iter().map(|number| number + first).collect();
                SnippetPart::Term { numbers, weight, words }
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
            (SnippetPart::Term { words, .. }, SnippetPart::Term { words: of_other, .. }) => words == of_other,
            (SnippetPart::Parts(parts, nearness), SnippetPart::Parts(others, of_other)) => {
                nearness == of_other
                    && parts.len() == others.len()
                    && parts.iter().zip(others).all(|(part, other)| part.is_like(other))
            }
            _ => false,
        }
    }

    /// Takes the terms of a part like this one for the same terms.
    pub(crate) fn join(&mut self, other: SnippetPart) {
        match (self, other) {
            (SnippetPart::Term { numbers, .. }, SnippetPart::Term { numbers: others, .. }) => {
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
            Some(term) => _ = query.add(vec![term], None),
        }
        query
    }

    /// Adds a condition, after those inside it, and returns its index.
    fn add(&mut self, parts: Vec<SnippetPart>, nearness: Option<SnippetNearness>) -> usize {
        let places = parts.len();
        let (mut terms, mut inner) = (Vec::new(), Vec::new());
        for (place, part) in parts.into_iter().enumerate() {
            match part {
                SnippetPart::Term { numbers, weight, words } => {
                    terms.extend(numbers.into_iter().map(|number| (number, weight, words, place)));
                }
                SnippetPart::Parts(parts, nearness) => inner.push((self.add(parts, nearness), place)),
            }
        }
        let condition = self.conditions.len();
        self.conditions.push(SnippetCondition { around: None, places, nearness });
        for (index, place) in inner {
            self.conditions[index].around = Some(ConditionSlot { condition, place });
        }
        for (number, weight, words, place) in terms {
            let term = SnippetTerm { slot: ConditionSlot { condition, place }, weight, words };
            if self.terms.len() <= number {
                self.terms.resize(number + 1, None);
            }
            self.terms[number] = Some(term);
        }
        condition
    }

    /// The matches of a text with these occurrences, best first: more and heavier words first, then those
    /// that stand closer together, then the first.
    pub(super) fn matches(
        &self,
        occurrences: &[WordOccurrence],
        style: &HighlightStyle,
    ) -> Vec<SnippetMatch> {
        let looked_at = occurrences.len().min(MAX_OCCURRENCES);
        let mut search = CandidateSearch {
            query: self,
            style,
            occurrences,
            waiting: BTreeMap::new(),
            to_complete: style.max_matches,
            steps_left: looked_at * STEPS_PER_OCCURRENCE,
            matches: Vec::new(),
        };
        for at in 0..looked_at {
            search.add(at);
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
    elements: Vec<Rc<CandidateElement>>,
    places: usize,
    weight: i64,
}

impl SnippetMatch {
    /// The words in it, in order, from the occurrences of which it was made.
    pub(super) fn words(&self, occurrences: &[WordOccurrence]) -> Vec<Range<usize>> {
        let mut indices = Vec::new();
        self.elements.iter().for_each(|element| element.collect_into(&mut indices));
        indices.sort_unstable();
        indices.dedup();
        indices.into_iter().map(|index: usize| occurrences[index].range.clone()).collect()
    }
}

/// A condition as far as it was found.
#[derive(Debug, Clone)]
struct SnippetCandidate {
    /// Elements by their place.
    elements: BTreeMap<usize, Rc<CandidateElement>>,
    /// Number of the elements that are not complete.
    incomplete: usize,
    bytes: Range<usize>,
    tokens: Range<usize>,
    weight: i64,
    /// For ordered conditions: not 0 once an element was taken or left out for its order.
    order: i32,
}

/// A term, or an inner condition, in a candidate.
#[derive(Debug)]
struct CandidateElement {
    bytes: Range<usize>,
    tokens: Range<usize>,
    weight: i64,
    complete: bool,
    /// Occurrences of the words of a term.
    occurrences: Range<usize>,
    /// Elements of an inner condition.
    inner: Vec<Rc<CandidateElement>>,
}

impl CandidateElement {
    /// Adds the indices of all occurrences in it.
    fn collect_into(&self, indices: &mut Vec<usize>) {
        indices.extend(self.occurrences.clone());
        self.inner.iter().for_each(|element| element.collect_into(indices));
    }
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
    occurrences: &'q [WordOccurrence],
    /// Incomplete candidates of the conditions that have some, in the order in which they began.
    waiting: BTreeMap<usize, Vec<SnippetCandidate>>,
    /// Complete candidates to find before incomplete ones are given up.
    to_complete: usize,
    steps_left: usize,
    matches: Vec<SnippetMatch>,
}

impl CandidateSearch<'_> {
    /// Adds the terms that end with an occurrence, unless the steps are used up.
    fn add(&mut self, at: usize) {
        let (query, occurrences) = (self.query, self.occurrences);
        let occurrence = &occurrences[at];
        if self.to_complete == 0 {
            self.give_up_before(occurrence.range.start);
        }
        for number in &occurrence.terms {
            let Some(term) = query.terms.get(*number).copied().flatten() else { continue };
            let Some(first) = (at + 1).checked_sub(term.words).filter(|_| self.steps_left > 0) else {
                continue;
            };
            let element = Rc::new(CandidateElement {
                bytes: occurrences[first].range.start..occurrence.range.end,
                tokens: occurrences[first].token..occurrence.token + 1,
                weight: term.weight,
                complete: true,
                occurrences: first..at + 1,
                inner: Vec::new(),
            });
            if term.words > 1 {
                // It is complete in itself.
                self.to_complete = self.to_complete.saturating_sub(1);
                self.begin(term.slot.condition);
            } else if self.waiting.get(&term.slot.condition).map_or(0, Vec::len) < self.style.max_candidates {
                self.begin(term.slot.condition);
            }
            self.offer(term.slot, &element);
        }
    }

    /// Gives up candidates that began a window before this byte.
    fn give_up_before(&mut self, start: usize) {
        let window = self.style.window;
        let mut from = 0;
        while let Some((&condition, waiting)) = self.waiting.range_mut(from..).next() {
            from = condition + 1;
            let is_old =
                |candidate: &&SnippetCandidate| start.saturating_sub(candidate.bytes.start) >= window;
            let old = waiting.iter().take_while(is_old).count();
            let old: Vec<SnippetCandidate> = waiting.drain(..old).collect();
            if waiting.is_empty() {
                self.waiting.remove(&condition);
            }
            old.into_iter().for_each(|candidate| self.give_up(condition, candidate));
        }
    }

    fn begin(&mut self, condition: usize) {
        self.waiting.entry(condition).or_default().push(SnippetCandidate {
            elements: BTreeMap::new(),
            incomplete: 0,
            bytes: 0..0,
            tokens: 0..0,
            weight: 0,
            order: 0,
        });
    }

    /// Offers an element to the candidates of its condition, the newest first: to this one at least.
    fn offer(&mut self, slot: ConditionSlot, element: &Rc<CandidateElement>) {
        let condition = self.query.conditions[slot.condition];
        let mut at = self.waiting.get(&slot.condition).map_or(0, Vec::len);
        while at > 0 {
            at -= 1;
            let Some(waiting) = self.waiting.get_mut(&slot.condition) else { return };
            let candidate = &mut waiting[at];
            if let CandidateStep::Exists = candidate.offer(slot.place, element, condition) {
                return;
            }
            let age = element.bytes.start.saturating_sub(candidate.bytes.start);
            let is_expired = age >= self.style.window.saturating_mul(FALLBACK_WINDOWS);
            if is_expired || candidate.is_complete(condition) {
                // Those after it move.
                self.steps_left = self.steps_left.saturating_sub((waiting.len() - at) / 64);
                let candidate = waiting.remove(at);
                if !is_expired && candidate.keeps(condition) {
                    self.to_complete = self.to_complete.saturating_sub(1);
                    self.found(slot.condition, candidate);
                }
            }
            if self.steps_left == 0 {
                return;
            }
            self.steps_left -= 1;
        }
    }

    /// Takes an incomplete candidate for what it is, unless its condition needs all of it.
    fn give_up(&mut self, condition: usize, candidate: SnippetCandidate) {
        if self.query.conditions[condition].nearness.is_none() {
            self.found(condition, candidate);
        }
    }

    fn found(&mut self, number: usize, candidate: SnippetCandidate) {
        let condition = self.query.conditions[number];
        let complete = candidate.is_complete(condition);
        let SnippetCandidate { elements, bytes, tokens, weight, .. } = candidate;
        let elements: Vec<Rc<CandidateElement>> = elements.into_values().collect();
        match condition.around {
            None => {
                let places = condition.places;
                // Of a phrase alone the words count.
                let found = match elements.as_slice() {
                    [only] if places == 1 => only.occurrences.len(),
                    all => all.len(),
                };
                self.matches.push(SnippetMatch { bytes, tokens, found, elements, places, weight });
            }
            Some(slot) => {
                let occurrences = 0..0;
                self.begin(slot.condition);
                let element =
                    CandidateElement { bytes, tokens, weight, complete, occurrences, inner: elements };
                self.offer(slot, &Rc::new(element));
            }
        }
    }

    /// Gives up what is left at the end of the text.
    fn finish(&mut self) {
        while let Some((condition, rest)) = self.waiting.pop_first() {
            rest.into_iter().for_each(|candidate| self.give_up(condition, candidate));
        }
    }
}

impl SnippetCandidate {
    fn offer(
        &mut self,
        place: usize,
        element: &Rc<CandidateElement>,
        condition: SnippetCondition,
    ) -> CandidateStep {
        if self.elements.contains_key(&place) {
            return if self.order == 0 { CandidateStep::Exists } else { CandidateStep::Overlaps };
        }
        if condition.nearness.is_some_and(|nearness| nearness.ordered) {
            if element.bytes.start < self.bytes.end {
                self.order += 1;
                return CandidateStep::Overlaps;
            }
            self.order -= 1;
        }
        if self.elements.is_empty() || element.bytes.start < self.bytes.start {
            self.bytes.start = element.bytes.start;
            self.tokens.start = element.tokens.start;
        }
        if element.bytes.end > self.bytes.end {
            self.bytes.end = element.bytes.end;
            self.tokens.end = element.tokens.end;
        }
        self.weight += element.weight;
        self.incomplete += usize::from(!element.complete);
        self.elements.insert(place, Rc::clone(element));
        CandidateStep::Taken
    }

    fn is_complete(&self, condition: SnippetCondition) -> bool {
        self.elements.len() == condition.places && self.incomplete == 0
    }

    /// True if its elements are as near each other as its condition says.
    fn keeps(&self, condition: SnippetCondition) -> bool {
        let Some(nearness) = condition.nearness else { return true };
        let starts = self.elements.values().map(|element| element.tokens.start);
        let ascends = starts.clone().zip(starts.skip(1)).all(|(first, second)| first < second);
        let lengths = self.elements.values().map(|element| element.tokens.len());
        let between = self.tokens.len().saturating_sub(lengths.sum());
        (ascends || !nearness.ordered)
            && between <= nearness.gap.saturating_mul(self.elements.len().saturating_sub(1))
    }
}
