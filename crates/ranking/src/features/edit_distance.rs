//! `termEditDistance(field)`: the edits that make the words of a field of the query's terms.

use std::collections::BTreeSet;

use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;
use millrace_plan::LeafId;

use super::comparison::output;
use super::lengths::ElementBoundaries;
use super::term::{TermPositions, leaves_by_term, positioned_terms_of};
use super::terms::FAR;
use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// Number of words of a field, and of terms of a query, that are compared. The number of steps is their
/// product, for each document.
const WORDS_MAX: usize = 2000;
const TERMS_MAX: usize = 100;

#[derive(Debug, Clone, Copy)]
enum EditOutput {
    Cost,
    Deletions,
    Insertions,
    Substitutions,
}

struct TermEditDistance {
    field: String,
    shape: ElementBoundaries,
    deletion: f64,
    insertion: f64,
    substitution: f64,
    output: EditOutput,
}

/// The cheapest edits up to a place.
#[derive(Debug, Clone, Copy, PartialEq)]
struct EditPath {
    cost: f64,
    deletions: f64,
    insertions: f64,
    substitutions: f64,
}

/// Sets up `termEditDistance(field)`.
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let field = setup.word_field(name, 0)?;
    let outputs = [
        ("out", EditOutput::Cost),
        ("del", EditOutput::Deletions),
        ("ins", EditOutput::Insertions),
        ("sub", EditOutput::Substitutions),
    ];
    let cost = |property| setup.properties.number("termEditDistance", &field.name, property, 1.0);
    Ok(Box::new(TermEditDistance {
        field: field.name.to_string(),
        shape: ElementBoundaries::of(field),
        deletion: cost("costDel")?,
        insertion: cost("costIns")?,
        substitution: cost("costSub")?,
        output: output(name, &outputs)?,
    }))
}

impl RankFeature for TermEditDistance {
    fn demands(&self) -> RankingDemands {
        RankingDemands { counts: true, positions: true, ..RankingDemands::LEAVES }
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        // Terms that search other fields count, and match nowhere.
        let mut terms: Vec<Vec<LeafId>> = request.plan.terms.iter().map(|_| Vec::new()).collect();
        for (term, leaves) in leaves_by_term(&positioned_terms_of(request, &self.field)) {
            if let Some(place) = terms.get_mut(term.0) {
                *place = leaves;
            }
        }
        terms.truncate(TERMS_MAX);
        let shape = self.shape.bind(&self.field, request);
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
            let out = values.numbers(chunk.len(), 0.0);
            let mut positions = TermPositions::of(chunk.matches, &terms);
            for (document, place) in chunk.documents() {
                let here = positions.next();
                let path = match here.iter().all(Vec::is_empty) {
                    // Nothing matches, and a field without a match has the length 1000000.
                    true => self.without_match(here.len() as f64, FAR),
                    false => {
                        let elements = shape.elements(chunk, place);
                        let length = elements.longest(here.iter().flatten().copied()) as usize;
                        // Words of different elements at the same place count as one.
                        let offsets: Vec<BTreeSet<usize>> = here
                            .iter()
                            .map(|positions| {
                                positions.iter().map(|at| elements.offset(*at) as usize).collect()
                            })
                            .collect();
                        self.cheapest(&offsets, length.min(WORDS_MAX))
                    }
                };
                out[document] = match self.output {
                    EditOutput::Cost => path.cost,
                    EditOutput::Deletions => path.deletions,
                    EditOutput::Insertions => path.insertions,
                    EditOutput::Substitutions => path.substitutions,
                };
            }
        }))
    }
}

impl TermEditDistance {
    /// Edits from terms to words of which none are equal.
    fn without_match(&self, terms: f64, words: f64) -> EditPath {
        let is_substituted = self.substitution < self.deletion + self.insertion;
        let substitutions = if is_substituted { terms.min(words) } else { 0.0 };
        let (deletions, insertions) = (terms - substitutions, words - substitutions);
        let cost =
            substitutions * self.substitution + deletions * self.deletion + insertions * self.insertion;
        EditPath { cost, deletions, insertions, substitutions }
    }

    /// The cheapest edits from terms, with the positions of each, to the first `length` words of the field.
    fn cheapest(&self, terms: &[BTreeSet<usize>], length: usize) -> EditPath {
        let only_inserted = |words: usize| EditPath {
            cost: words as f64 * self.insertion,
            deletions: 0.0,
            insertions: words as f64,
            substitutions: 0.0,
        };
        let mut before: Vec<EditPath> = (0..=length).map(only_inserted).collect();
        let mut row = before.clone();
        for positions in terms {
            let mut matches = positions.iter().copied().peekable();
            row[0] = self.deleted(before[0]);
            for word in 1..=length {
                row[word] = match matches.next_if_eq(&(word - 1)) {
                    Some(_) => before[word - 1],
                    None => {
                        let choices = [self.deleted(before[word]), self.inserted(row[word - 1])];
                        let substituted = self.substituted(before[word - 1]);
                        choices.into_iter().rev().fold(substituted, |best, choice| {
                            if choice.cost <= best.cost { choice } else { best }
                        })
                    }
                };
            }
            std::mem::swap(&mut before, &mut row);
        }
        before[length]
    }

    fn deleted(&self, path: EditPath) -> EditPath {
        EditPath { cost: path.cost + self.deletion, deletions: path.deletions + 1.0, ..path }
    }

    fn inserted(&self, path: EditPath) -> EditPath {
        EditPath { cost: path.cost + self.insertion, insertions: path.insertions + 1.0, ..path }
    }

    fn substituted(&self, path: EditPath) -> EditPath {
        EditPath { cost: path.cost + self.substitution, substitutions: path.substitutions + 1.0, ..path }
    }
}
