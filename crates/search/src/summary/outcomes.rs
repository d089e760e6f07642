//! Comparisons of words with the words of a query, remembered: texts repeat their words, and to fold, stem
//! and compare a word costs much more than to find it here.

use std::cell::{RefCell, RefMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millrace_matching::PositionSet;
use millrace_tensor::ShortText;

/// Result of the comparison of a word with all query words.
#[derive(Clone)]
pub(super) enum WordOutcome {
    /// The word has no token.
    NoToken,
    /// No match.
    Unmatched,
    /// Match of some query words.
    Matched(Arc<MatchedWord>),
}

/// Query words that a word of a text matches.
pub(super) struct MatchedWord {
    /// Their positions among the words of all terms.
    pub roles: PositionSet,
    /// The bytes of the word that match.
    pub part: Range<usize>,
}

/// Outcomes for the words of the texts of one field in one query.
pub(super) struct WordOutcomes {
    /// Number that no other has, so that they can share memory.
    number: u64,
    matched: RefCell<Vec<Arc<MatchedWord>>>,
}

impl Default for WordOutcomes {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        WordOutcomes { number: NEXT.fetch_add(1, Ordering::Relaxed), matched: RefCell::default() }
    }
}

/// Number of words that a thread remembers; at 32 bytes each, 512 KB. Some hundred mails have half as many.
const WORDS: usize = 1 << 14;

thread_local! {
    /// Words with their outcomes, at the index given by their hash; a later word replaces an earlier one.
    static RECENT_WORDS: RefCell<Vec<RememberedWord>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone, Copy, Default)]
struct RememberedWord {
    word: ShortText,
    /// The outcomes that it belongs to; 0 for an empty slot.
    number: u64,
    /// 0 for no token, 1 for no match, from 2 on an index of those that match.
    outcome: u16,
}

/// Outcomes while a text is passed over.
pub(super) struct OutcomesOfText<'a> {
    number: u64,
    matched: RefMut<'a, Vec<Arc<MatchedWord>>>,
    words: Vec<RememberedWord>,
}

impl WordOutcomes {
    /// Those that this thread remembers.
    pub fn remembered(&self) -> OutcomesOfText<'_> {
        let mut words = RECENT_WORDS.take();
        if words.is_empty() {
            words.resize(WORDS, RememberedWord::default());
        }
        OutcomesOfText { number: self.number, matched: self.matched.borrow_mut(), words }
    }
}

impl Drop for OutcomesOfText<'_> {
    fn drop(&mut self) {
        RECENT_WORDS.set(std::mem::take(&mut self.words));
    }
}

impl OutcomesOfText<'_> {
    /// The outcome for a word. Long words, which are rare, are not remembered.
    pub fn get(&mut self, word: &str, compare: impl FnOnce() -> WordOutcome) -> WordOutcome {
        let Some(word) = ShortText::new(word.as_bytes()) else { return compare() };
        let slot = &mut self.words[(word.mixed() >> (64 - WORDS.trailing_zeros())) as usize];
        if slot.number == self.number && slot.word == word {
            return match slot.outcome {
                0 => WordOutcome::NoToken,
                1 => WordOutcome::Unmatched,
                index => WordOutcome::Matched(Arc::clone(&self.matched[usize::from(index) - 2])),
            };
        }
        let outcome = compare();
        let number = match &outcome {
            WordOutcome::NoToken => Some(0),
            WordOutcome::Unmatched => Some(1),
            WordOutcome::Matched(matched) => {
                let index = u16::try_from(self.matched.len() + 2).ok();
                self.matched.extend(index.map(|_| Arc::clone(matched)));
                index
            }
        };
        if let Some(number) = number {
            *slot = RememberedWord { word, number: self.number, outcome: number };
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_query_has_its_own_outcomes() {
        let matched = |role: usize| {
            WordOutcome::Matched(Arc::new(MatchedWord { roles: PositionSet::of(role), part: 0..1 }))
        };
        let shown = |outcome: &WordOutcome| match outcome {
            WordOutcome::NoToken => "no token".to_owned(),
            WordOutcome::Unmatched => "unmatched".to_owned(),
            WordOutcome::Matched(matched) => format!("{:?}", matched.roles),
        };
        let queries = [WordOutcomes::default(), WordOutcomes::default()];
        let long = "a word of more than twenty bytes";
        for round in 0..3 {
            for (number, query) in queries.iter().enumerate() {
                let mut words = query.remembered();
                let words_of_round = (0..5000).map(|word| format!("w{word}"));
                for (index, word) in words_of_round.chain([String::new(), long.to_owned()]).enumerate() {
                    let expected = match (index + number) % 3 {
                        0 => WordOutcome::NoToken,
                        1 => WordOutcome::Unmatched,
                        _ => matched(index % 40 + number),
                    };
                    let outcome = words.get(&word, || expected.clone());
                    assert_eq!(shown(&outcome), shown(&expected), "{word} of {number} in round {round}");
                }
            }
        }
        let is_compared = |word: &str| {
            let mut compared = false;
            queries[1].remembered().get(word, || {
                compared = true;
                WordOutcome::NoToken
            });
            compared
        };
        assert_eq!(
            [is_compared("once"), is_compared("once"), is_compared(long), is_compared(long)],
            [true, false, true, true]
        );
    }
}
