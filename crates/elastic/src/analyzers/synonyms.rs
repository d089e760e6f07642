//! Synonyms: words that stand in the place of words, or of several words that follow each other.

use std::collections::HashMap;

use super::parts::AnalysisPart;
use super::steps::{AnalyzerSteps, StepWord};
use super::word_steps::beside;
use crate::Error;

/// Terms of a side of one rule, at most.
const SYNONYMS_MAX: usize = 100;

/// Words of a term, at most.
const TERM_WORDS_MAX: usize = 16;

/// Rules of synonyms, by the words that they are about.
#[derive(Debug, Default)]
pub(super) struct SynonymRules {
    words: HashMap<String, Vec<String>>,
    terms: HashMap<Vec<String>, TermSynonyms>,
    /// Number of words of the longest term that begins with a word.
    longest: HashMap<String, usize>,
}

/// Words that stand at each position of a term of several words.
#[derive(Debug, Default)]
struct TermSynonyms {
    others: Vec<String>,
    /// True if the words of the term stay.
    keeps: bool,
}

/// Adds words that are not there yet, as far as there is room.
fn add_new(known: &mut Vec<String>, others: &[String]) {
    for other in others {
        if known.len() < SYNONYMS_MAX && !known.contains(other) {
            known.push(other.clone());
        }
    }
}

impl SynonymRules {
    /// Reads the rules of a filter. Terms are divided as texts are up to this step.
    ///
    /// # Errors
    /// A rule has too many terms.
    pub(super) fn read(
        part: &AnalysisPart,
        steps: &AnalyzerSteps,
        notes: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let mut rules = SynonymRules::default();
        if !part.has("synonyms") || part.text("format").is_some_and(|format| format == "wordnet") {
            part.note("has its synonyms elsewhere or in another format, and is passed over", notes);
            return Ok(rules);
        }
        let (expands, mut has_longer) = (part.flag("expand", true), false);
        let terms_of = |side: &str| -> Vec<Vec<String>> {
            let terms = side.split(',').map(str::trim).filter(|term| !term.is_empty());
            let words = terms.map(|term| steps.words_of(term).into_iter().map(|word| word.text).collect());
            words.filter(|words: &Vec<String>| !words.is_empty()).collect()
        };
        for rule in part.texts("synonyms") {
            if rule.starts_with('#') {
                continue;
            }
            let (from, to) = match rule.split_once("=>") {
                Some((from, to)) => (terms_of(from), terms_of(to)),
                None => {
                    let all = terms_of(&rule);
                    let first = all.iter().take(if expands { all.len() } else { 1 });
                    (all.clone(), first.cloned().collect())
                }
            };
            if from.len().max(to.len()) > SYNONYMS_MAX {
                return Err(part.refusal(&format!("a rule has more than {SYNONYMS_MAX} synonyms")));
            }
            let others: Vec<String> = to.iter().filter(|term| term.len() == 1).flatten().cloned().collect();
            has_longer |= others.len() < to.len();
            for term in from {
                has_longer |= term.len() > TERM_WORDS_MAX;
                rules.add(term, &others, &to);
            }
        }
        rules.words.retain(|_, others| !others.is_empty());
        if has_longer {
            part.note("has terms of several words in the place of others, which are passed over", notes);
        }
        Ok(rules)
    }

    /// Adds words that stand in the place of a term, which is kept if it is one of those terms.
    fn add(&mut self, term: Vec<String>, others: &[String], all: &[Vec<String>]) {
        match term.as_slice() {
            [] => {}
            [word] => add_new(self.words.entry(word.clone()).or_default(), others),
            [first, ..] if term.len() <= TERM_WORDS_MAX && !others.is_empty() => {
                let longest = self.longest.entry(first.clone()).or_default();
                *longest = term.len().max(*longest);
                let keeps = all.contains(&term);
                let known = self.terms.entry(term).or_default();
                known.keeps |= keeps;
                add_new(&mut known.others, others);
            }
            _ => {}
        }
    }

    /// Bytes of the words, about.
    pub(super) fn bytes(&self) -> usize {
        let of = |words: &[String]| words.iter().map(|word| word.len() + size_of::<String>()).sum::<usize>();
        let of_words: usize = self.words.values().map(|others| of(others)).sum();
        of_words + self.terms.iter().map(|(term, synonyms)| of(term) + of(&synonyms.others)).sum::<usize>()
    }

    /// Words with their synonyms. Those of a term of several words stand at each of its positions, so that
    /// they are beside the words before it and after it.
    pub(super) fn apply(&self, words: Vec<StepWord>) -> Vec<StepWord> {
        let terms = self.terms_in(&words);
        beside(words, |word, beside| match (terms.get(&word.position), self.words.get(&word.text)) {
            (Some(synonyms), _) => {
                if synonyms.keeps {
                    beside.push(word.text.clone());
                }
                beside.extend(synonyms.others.iter().cloned());
            }
            (None, Some(others)) => beside.extend(others.iter().cloned()),
            (None, None) => beside.push(word.text.clone()),
        })
    }

    /// Synonyms of the terms of several words in a text, by all positions of the terms. Of several that begin
    /// with a word, the longest one counts.
    fn terms_in(&self, words: &[StepWord]) -> HashMap<usize, &TermSynonyms> {
        let mut found = HashMap::new();
        if self.terms.is_empty() {
            return found;
        }
        let mut firsts: Vec<&StepWord> = Vec::with_capacity(words.len());
        for word in words {
            if firsts.last().is_none_or(|last| last.position != word.position) {
                firsts.push(word);
            }
        }
        let mut at = 0;
        while let Some(first) = firsts.get(at) {
            let longest = self.longest.get(&first.text).copied().unwrap_or(0);
            let run = firsts[at..].iter().take(longest).enumerate();
            let run = run.take_while(|(offset, word)| word.position == first.position + offset);
            let run: Vec<String> = run.map(|(_, word)| word.text.clone()).collect();
            let term = (2..=run.len()).rev().find_map(|count| Some((count, self.terms.get(&run[..count])?)));
            match term {
                Some((count, synonyms)) => {
                    found.extend((0..count).map(|offset| (first.position + offset, synonyms)));
                    at += count;
                }
                None => at += 1,
            }
        }
        found
    }
}
