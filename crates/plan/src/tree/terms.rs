//! Terms, phrases, equivalents, and words near each other.

use std::ops::Range;

use millrace_linguistics::segments;
use millrace_query::{Annotations, Item, Match, TermText};
use millrace_schema::MatchMode;

use super::{Place, Tree, or, single, wrong};
use crate::target::Target;
use crate::words::{Languages, Words};
use crate::{Error, LeafId, Node, Predicate, TermId, WordPattern};

impl Tree<'_> {
    /// A term over all fields denoted by its name.
    pub(super) fn term(&mut self, item: &Item, field: &str, place: Place<'_>) -> Result<Node, Error> {
        if field == "sddocname" && place.element.is_none() {
            return Ok(self.document_type(item));
        }
        let annotations = annotations(item);
        let targets = self.targets(field, place)?;
        if place.typed && targets.iter().all(|target| target.matching().mode == MatchMode::Text) {
            let words = segmented(item);
            if words.len() > 1 {
                let nodes =
                    words.iter().map(|word| self.term(word, field, place)).collect::<Result<_, _>>()?;
                return Ok(Node::And(nodes));
            }
        }
        let languages = self.languages();
        self.each_of(&targets, place, annotations, &text(item), |target| predicates(item, target, languages))
    }

    /// Words near each other, within each field denoted by the name.
    pub(super) fn near(&mut self, item: &Item, place: Place<'_>) -> Result<Node, Error> {
        let Item::Near { field, words, excluded, distance, exclusion_distance, ordered, .. } = item else {
            return Ok(Node::False);
        };
        let targets = self.targets(field, place)?;
        let is_one = targets.len() == 1;
        let terms: Vec<Option<TermId>> =
            words.iter().map(|word| self.new_term(&text(word), annotations(word))).collect();
        let mut nodes = Vec::new();
        for target in &targets {
            if !target.is_text() {
                let reason =
                    "near and onear need a field whose text is split into words; write: indexing: index";
                if is_one && !place.typed {
                    return Err(wrong(&target.path, reason));
                }
                continue;
            }
            let mut leaves = Vec::with_capacity(words.len());
            for (word, term) in words.iter().zip(&terms) {
                leaves.extend(self.leaf_of(word, target, *term)?);
            }
            let mut outside = Vec::with_capacity(excluded.len());
            for word in excluded {
                outside.extend(self.leaf_of(word, target, None)?);
            }
            match leaves.as_slice() {
                // A missing word is near nothing.
                found if found.len() < words.len() => {}
                [only] if outside.is_empty() => nodes.push(Node::Leaf(*only)),
                _ => nodes.push(Node::Near {
                    leaves,
                    excluded: outside,
                    distance: *distance,
                    exclusion_distance: *exclusion_distance,
                    ordered: *ordered,
                }),
            }
        }
        Ok(or(nodes))
    }

    /// The leaf of a word in a proximity condition; `None` if nothing can match it.
    fn leaf_of(
        &mut self,
        item: &Item,
        target: &Target<'_>,
        term: Option<TermId>,
    ) -> Result<Option<LeafId>, Error> {
        let mut predicates = predicates(item, target, self.languages())?;
        if predicates.len() > 1 {
            return Err(wrong(
                &target.path,
                "near and onear can have equivalents of single words, not of phrases",
            ));
        }
        predicates.pop().map(|predicate| self.leaf(target, predicate, term)).transpose()
    }

    /// `sddocname`: constant condition on the document type.
    fn document_type(&self, item: &Item) -> Node {
        if *self.schema.name == text(item) { Node::True } else { Node::False }
    }
}

/// Predicates of a term in one field, any of which may hold.
fn predicates(item: &Item, target: &Target<'_>, languages: Languages<'_>) -> Result<Vec<Predicate>, Error> {
    let words = Words::new(target, annotations(item), languages);
    let found = match item {
        Item::Term { text, matching, .. } => Vec::from_iter(words.term(&text.text, matching)?),
        Item::Phrase { words: parts, .. } => Vec::from_iter(words.phrase(parts)?),
        Item::Alternatives { words: alternatives, .. } => {
            let mut all = Vec::new();
            for (word, _) in alternatives {
                all.extend(words.term(word, &Match::Word)?);
            }
            all
        }
        Item::Equiv { words: equivalents, .. } => {
            let mut all = Vec::new();
            for equivalent in equivalents {
                all.extend(predicates(equivalent, target, languages)?);
            }
            all
        }
        _ => return Err(wrong(&target.path, "expected a word, a phrase or equivalents")),
    };
    Ok(together(found))
}

/// Typed text in a script without spaces, as terms of single words; empty for other text.
fn segmented(item: &Item) -> Vec<Item> {
    let Item::Term { field, text, matching: Match::Word, annotations } = item else { return Vec::new() };
    let term = |range: Range<usize>| Item::Term {
        field: field.clone(),
        text: TermText::from(&text.text[range]),
        matching: Match::Word,
        annotations: annotations.clone(),
    };
    segments(&text.text).unwrap_or_default().into_iter().map(term).collect()
}

/// Combines predicates of single words into one predicate of any of them.
fn together(predicates: Vec<Predicate>) -> Vec<Predicate> {
    if predicates.len() < 2 {
        return predicates;
    }
    let (words, mut others): (Vec<_>, Vec<_>) =
        predicates.into_iter().partition(|predicate| single(predicate).is_some());
    let mut words: Vec<String> = words.iter().filter_map(single).map(str::to_owned).collect();
    words.sort();
    words.dedup();
    if !words.is_empty() {
        others.insert(0, Predicate::Words(vec![WordPattern::Any(words)]));
    }
    others
}

static PLAIN: std::sync::LazyLock<Annotations> = std::sync::LazyLock::new(Annotations::default);

fn annotations(item: &Item) -> &Annotations {
    match item {
        Item::Term { annotations, .. }
        | Item::Phrase { annotations, .. }
        | Item::Equiv { annotations, .. }
        | Item::Alternatives { annotations, .. } => annotations,
        _ => &PLAIN,
    }
}

/// Text of a term as in the query.
fn text(item: &Item) -> String {
    match item {
        Item::Term { text, .. } => text.text.clone(),
        Item::Phrase { words, .. } => {
            words.iter().map(|word| word.text.text.as_str()).collect::<Vec<_>>().join(" ")
        }
        Item::Equiv { words, .. } => words.iter().map(text).collect::<Vec<_>>().join(" "),
        Item::Alternatives { words, .. } => {
            words.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}
