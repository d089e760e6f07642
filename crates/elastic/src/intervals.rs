//! `intervals` queries: words of a text by their order and their distance.
//!
//! A source finds stretches of words, each as short as it can be: none of them contains another. So both
//! their beginnings and their ends grow in a list of them, which makes a search for a neighbour one of few
//! steps.

mod parsing;

use serde_json::Value;

use crate::Error;
use crate::analyzers::IndexAnalyzers;
use crate::evaluation::{FieldValueKind, SearchedDocument, kind_of};
use crate::fields::each_at;
use crate::mapping::type_of;
use crate::patterns::wildcard;
use crate::query::text_of;
use crate::query_terms::{FuzzyTerms, TermPattern};
use crate::text_division::TextDivision;

/// Sources that are combined.
const SOURCES_MAX: usize = 1_024;

/// Positions between two values of a field.
const VALUE_GAP: usize = 100;

/// Order in which the parts of a combination come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntervalOrder {
    Ordered,
    /// In any order, possibly overlapping.
    Unordered,
    UnorderedApart,
}

/// Relation of a stretch to others, by which it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntervalRelation {
    Containing,
    ContainedBy,
    Overlapping,
    Before,
    After,
}

/// A source of stretches of words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum IntervalSource {
    /// Words of a text.
    Words {
        text: String,
        /// Name of the analyzer, in the place of that of the field.
        analyzer: Option<String>,
        order: IntervalOrder,
        gaps_max: Option<usize>,
    },
    Prefix(String),
    Wildcard(String),
    Regexp(TermPattern),
    Fuzzy(String, FuzzyTerms),
    All {
        sources: Vec<IntervalSource>,
        order: IntervalOrder,
        gaps_max: Option<usize>,
    },
    Any(Vec<IntervalSource>),
    /// Stretches of a source that have a relation to one of another, or none that has it.
    Filtered {
        source: Box<IntervalSource>,
        relation: IntervalRelation,
        is_negated: bool,
        by: Box<IntervalSource>,
    },
}

/// A stretch of words, by their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WordInterval {
    start: usize,
    end: usize,
    /// Words that count in a stretch which has this one as a part.
    words: usize,
    /// Words in it that are in none of its parts; parts that overlap count below zero.
    gaps: i64,
}

impl WordInterval {
    fn at(position: usize) -> Self {
        WordInterval { start: position, end: position, words: 1, gaps: 0 }
    }

    /// Stretch of parts with a number of words together.
    fn of(start: usize, end: usize, words: usize) -> Self {
        let length = end - start + 1;
        WordInterval { start, end, words: length, gaps: length as i64 - words as i64 }
    }

    /// True if the stretch has a relation to one of a list.
    fn has(self, relation: IntervalRelation, others: &[WordInterval]) -> bool {
        let from = |at: usize| others.get(at);
        match relation {
            // Of those that begin within, the first ends first.
            IntervalRelation::Containing => from(others.partition_point(|other| other.start < self.start))
                .is_some_and(|other| other.end <= self.end),
            // Of those that begin before, the last ends last.
            IntervalRelation::ContainedBy => {
                let before = others.partition_point(|other| other.start <= self.start);
                before.checked_sub(1).and_then(from).is_some_and(|other| other.end >= self.end)
            }
            IntervalRelation::Overlapping => from(others.partition_point(|other| other.end < self.start))
                .is_some_and(|other| other.start <= self.end),
            IntervalRelation::Before => others.last().is_some_and(|other| other.start > self.end),
            IntervalRelation::After => others.first().is_some_and(|other| other.end < self.start),
        }
    }
}

/// Stretches that contain no other one, in their order.
fn minimal(mut all: Vec<WordInterval>) -> Vec<WordInterval> {
    all.sort_by(|one, other| one.start.cmp(&other.start).then(other.end.cmp(&one.end)));
    let mut least_end = usize::MAX;
    let mut kept: Vec<WordInterval> = Vec::with_capacity(all.len());
    for interval in all.into_iter().rev() {
        if interval.end < least_end {
            least_end = interval.end;
            kept.push(interval);
        }
    }
    kept.reverse();
    kept
}

/// Shortest stretches with one of each list, each after the one before.
fn ordered(lists: &[Vec<WordInterval>]) -> Vec<WordInterval> {
    let Some((firsts, rest)) = lists.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    let mut places = vec![0; rest.len()];
    'firsts: for first in firsts {
        let (mut end, mut words) = (first.end, first.words);
        // The ends grow with the first, so that no list is gone through twice.
        for (list, place) in rest.iter().zip(&mut places) {
            while list.get(*place).is_some_and(|next| next.start <= end) {
                *place += 1;
            }
            let Some(next) = list.get(*place) else { break 'firsts };
            end = next.end;
            words += next.words;
        }
        found.push(WordInterval::of(first.start, end, words));
    }
    minimal(found)
}

/// Shortest stretches with one of each list, in any order; they may overlap.
fn unordered(lists: &[Vec<WordInterval>]) -> Vec<WordInterval> {
    let mut found = Vec::new();
    let mut places = vec![0; lists.len()];
    loop {
        let current: Option<Vec<WordInterval>> =
            lists.iter().zip(&places).map(|(list, place)| list.get(*place).copied()).collect();
        let Some(current) = current.filter(|current| !current.is_empty()) else { return minimal(found) };
        let first = (0..current.len()).min_by_key(|at| current[*at].start).unwrap_or_default();
        let end = current.iter().map(|interval| interval.end).max().unwrap_or_default();
        let words = current.iter().map(|interval| interval.words).sum();
        found.push(WordInterval::of(current[first].start, end, words));
        places[first] += 1;
    }
}

/// Words of a field of a document, by their positions.
struct PlacedWords<'a> {
    words: Vec<(usize, String)>,
    division: TextDivision,
    of_search: TextDivision,
    analyzers: &'a IndexAnalyzers,
}

impl PlacedWords<'_> {
    /// Places of the words that pass a test.
    fn places(&self, test: impl Fn(&String) -> bool) -> Vec<WordInterval> {
        let fitting = self.words.iter().filter(|(_, word)| test(word));
        let mut found: Vec<WordInterval> = fitting.map(|(position, _)| WordInterval::at(*position)).collect();
        // Several words may be at one position.
        found.dedup();
        found
    }
}

impl IntervalSource {
    /// Checks that an index has all analyzers that the source names.
    ///
    /// # Errors
    /// It has no analyzer of a name.
    pub(crate) fn check_analyzers(&self, analyzers: &IndexAnalyzers) -> Result<(), Error> {
        match self {
            IntervalSource::Words { analyzer: Some(name), .. } => analyzers.of_request(name).map(drop),
            IntervalSource::All { sources, .. } | IntervalSource::Any(sources) => {
                sources.iter().try_for_each(|source| source.check_analyzers(analyzers))
            }
            IntervalSource::Filtered { source, by, .. } => {
                source.check_analyzers(analyzers)?;
                by.check_analyzers(analyzers)
            }
            _ => Ok(()),
        }
    }

    /// Stretches of the words of a field.
    ///
    /// # Errors
    /// A text has more words than are combined.
    fn find(&self, field: &PlacedWords<'_>) -> Result<Vec<WordInterval>, Error> {
        match self {
            IntervalSource::Words { text, analyzer, order, gaps_max } => {
                let named = analyzer.as_deref().and_then(|name| field.analyzers.named(name));
                let words = named.as_ref().unwrap_or(&field.of_search).words(text);
                check_number(words.count())?;
                // Where an analyzer has left a word out, any may be.
                let positions = (0..words.len()).map(|at| words.at(at)).filter(|words| !words.is_empty());
                let positions: Vec<&[String]> = positions.collect();
                let lists: Vec<Vec<WordInterval>> =
                    positions.iter().map(|wanted| field.places(|word| wanted.contains(word))).collect();
                Ok(combined(&positions, lists, *order, *gaps_max))
            }
            IntervalSource::Prefix(prefix) => {
                let prefix = field.division.compared(prefix);
                Ok(field.places(|word| word.starts_with(&prefix)))
            }
            IntervalSource::Wildcard(pattern) => {
                let pattern = field.division.compared(pattern);
                Ok(field.places(|word| wildcard(&pattern, word)))
            }
            IntervalSource::Regexp(pattern) => Ok(field.places(|word| pattern.matches(word))),
            IntervalSource::Fuzzy(wanted, fuzziness) => {
                let wanted = field.division.compared(wanted);
                Ok(field.places(|word| fuzziness.has(word, &wanted)))
            }
            IntervalSource::All { sources, order, gaps_max } => {
                let lists: Vec<Vec<WordInterval>> =
                    sources.iter().map(|source| source.find(field)).collect::<Result<_, _>>()?;
                Ok(combined(sources, lists, *order, *gaps_max))
            }
            IntervalSource::Any(sources) => {
                let mut all = Vec::new();
                for source in sources {
                    all.extend(source.find(field)?);
                }
                Ok(minimal(all))
            }
            IntervalSource::Filtered { source, relation, is_negated, by } => {
                let (mut found, others) = (source.find(field)?, by.find(field)?);
                found.retain(|interval| interval.has(*relation, &others) != *is_negated);
                Ok(found)
            }
        }
    }
}

/// Checks the number of sources that are combined.
fn check_number(count: usize) -> Result<(), Error> {
    match count > SOURCES_MAX {
        true => Err(Error::IllegalArgument(format!(
            "[intervals] combines {count} words or sources, and may combine {SOURCES_MAX}"
        ))),
        false => Ok(()),
    }
}

/// Lists of sources in any order; one that is named several times has to be found as often.
fn distinct<S: PartialEq>(sources: &[S], lists: Vec<Vec<WordInterval>>) -> Vec<Vec<WordInterval>> {
    let mut all = Vec::new();
    for (at, (source, list)) in sources.iter().zip(lists).enumerate() {
        if sources[..at].contains(source) {
            continue;
        }
        let count = sources.iter().filter(|other| *other == source).count();
        let run = |run: &[WordInterval]| {
            let words = run.iter().map(|interval| interval.words).sum();
            WordInterval { words, ..WordInterval::of(run[0].start, run[run.len() - 1].end, words) }
        };
        all.push(if count == 1 { list } else { list.windows(count).map(run).collect() });
    }
    all
}

/// Stretches with one of each list that have few words between.
fn combined<S: PartialEq>(
    sources: &[S],
    mut lists: Vec<Vec<WordInterval>>,
    order: IntervalOrder,
    gaps_max: Option<usize>,
) -> Vec<WordInterval> {
    let few = |mut found: Vec<WordInterval>| {
        found.retain(|interval| gaps_max.is_none_or(|limit| interval.gaps <= limit as i64));
        found
    };
    if lists.len() == 1 {
        return lists.remove(0);
    }
    match order {
        IntervalOrder::Ordered => few(ordered(&lists)),
        IntervalOrder::Unordered => few(unordered(&distinct(sources, lists))),
        IntervalOrder::UnorderedApart => {
            let both = |one: Vec<WordInterval>, other: Vec<WordInterval>| {
                let mut pair = [one, other];
                let mut found = ordered(&pair);
                pair.reverse();
                found.extend(ordered(&pair));
                few(minimal(found))
            };
            lists.into_iter().reduce(both).unwrap_or_default()
        }
    }
}

impl SearchedDocument<'_> {
    /// Score of a field by the stretches of its words that a source finds: more and shorter ones count more.
    ///
    /// # Errors
    /// The field is no text, or the query combines too much.
    pub(crate) fn score_intervals(&self, field: &str, source: &IntervalSource) -> Result<Option<f64>, Error> {
        let Some((definition, source_path)) = self.field(field) else { return Ok(None) };
        if kind_of(type_of(&definition)) != FieldValueKind::Text {
            return Err(Error::IllegalArgument(format!(
                "Can only use interval queries on text fields - not on [{field}] which is of type [{}]",
                type_of(&definition)
            )));
        }
        let analyzers = self.analyzers;
        let (division, of_search) = (analyzers.of_field(&definition), analyzers.of_search(&definition));
        let (mut words, mut position) = (Vec::new(), 0);
        each_at(self.source, &source_path, &mut |value: &Value| {
            if words.len() >= division.words_max() {
                return;
            }
            let own = division.words(&text_of(value));
            words.extend(own.placed().map(|(at, word)| (position + at, word.clone())));
            position += own.len() + VALUE_GAP;
        });
        let found = source.find(&PlacedWords { words, division, of_search, analyzers })?;
        let weight: f64 = found.iter().map(|interval| 1.0 / (1.0 + interval.gaps.max(0) as f64)).sum();
        Ok((!found.is_empty()).then(|| weight / (weight + 1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(intervals: &[(usize, usize)]) -> Vec<WordInterval> {
        let one = |(start, end): &(usize, usize)| WordInterval::of(*start, *end, end - start + 1);
        intervals.iter().map(one).collect()
    }

    fn ends(intervals: &[WordInterval]) -> Vec<(usize, usize)> {
        intervals.iter().map(|interval| (interval.start, interval.end)).collect()
    }

    /// All stretches with one of each list, and then the minimal ones.
    fn slow(lists: &[Vec<WordInterval>], is_ordered: bool) -> Vec<(usize, usize)> {
        let mut all: Vec<Vec<WordInterval>> = vec![Vec::new()];
        for list in lists {
            let with = |before: &Vec<WordInterval>| {
                let before = before.clone();
                list.iter().map(move |next| [before.as_slice(), &[*next]].concat())
            };
            all = all.iter().flat_map(with).collect();
        }
        let fits = |parts: &&Vec<WordInterval>| {
            !is_ordered || parts.windows(2).all(|pair| pair[0].end < pair[1].start)
        };
        let whole = |parts: &Vec<WordInterval>| {
            let start = parts.iter().map(|part| part.start).min().expect("there are parts");
            (start, parts.iter().map(|part| part.end).max().expect("there are parts"))
        };
        let mut found: Vec<(usize, usize)> = all.iter().filter(fits).map(whole).collect();
        found.sort_unstable();
        found.dedup();
        let every = found.clone();
        let contains = |one: &(usize, usize), other: &(usize, usize)| {
            one != other && one.0 <= other.0 && other.1 <= one.1
        };
        found.retain(|one| every.iter().all(|other| !contains(one, other)));
        found
    }

    #[test]
    fn stretches_are_those_that_all_combinations_have() {
        let choices = [
            list(&[(0, 0), (4, 4), (7, 7)]),
            list(&[(1, 2), (3, 5), (8, 9)]),
            list(&[(2, 2), (6, 6)]),
            list(&[(5, 5)]),
            list(&[]),
        ];
        for one in &choices {
            for other in &choices {
                for third in &choices {
                    for lists in
                        [vec![one.clone(), other.clone()], vec![one.clone(), other.clone(), third.clone()]]
                    {
                        assert_eq!(ends(&ordered(&lists)), slow(&lists, true), "{lists:?}");
                        assert_eq!(ends(&unordered(&lists)), slow(&lists, false), "{lists:?}");
                    }
                }
            }
        }
        assert_eq!(ends(&minimal(list(&[(3, 4), (0, 9), (3, 8), (1, 2), (1, 2)]))), [(1, 2), (3, 4)]);
    }

    #[test]
    fn relations_are_those_to_any_other() {
        let relations = [
            IntervalRelation::Containing,
            IntervalRelation::ContainedBy,
            IntervalRelation::Overlapping,
            IntervalRelation::Before,
            IntervalRelation::After,
        ];
        let others = list(&[(1, 2), (4, 7), (6, 8)]);
        for (start, end) in (0..10).flat_map(|start| (start..10).map(move |end| (start, end))) {
            let interval = WordInterval::of(start, end, 1);
            for relation in relations {
                let expected = others.iter().any(|other| match relation {
                    IntervalRelation::Containing => start <= other.start && other.end <= end,
                    IntervalRelation::ContainedBy => other.start <= start && end <= other.end,
                    IntervalRelation::Overlapping => other.start <= end && start <= other.end,
                    IntervalRelation::Before => end < other.start,
                    IntervalRelation::After => other.end < start,
                });
                assert_eq!(interval.has(relation, &others), expected, "{start} {end} {relation:?}");
            }
        }
    }
}
