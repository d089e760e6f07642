//! Terms, phrases, equivalents, and words near each other.

use std::ops::Range;

use millrace_linguistics::{FieldAnalyzer, TextLanguage, segments};
use millrace_query::{ItemAnnotations, QueryItem, TermMatch, TermText, WordComposite};
use millrace_schema::{MatchMode, literal_name};

use super::{ItemScope, TreeBuilder, or, single, wrong};
use crate::target::PredicateTarget;
use crate::words::{PlanLanguages, WordPredicates};
use crate::{Error, LeafId, PlanNode, Predicate, TermId, WordPattern};

impl TreeBuilder<'_> {
    /// A term over all fields denoted by its name.
    pub(super) fn term(
        &mut self,
        item: &QueryItem,
        field: &str,
        scope: ItemScope<'_>,
    ) -> Result<PlanNode, Error> {
        if field == "sddocname" && scope.element.is_none() {
            return Ok(self.document_type(item));
        }
        let annotations = annotations(item);
        let targets = self.targets(field, scope)?;
        if scope.typed && targets.iter().all(|target| target.matching().mode == MatchMode::Text) {
            let words = segmented(item);
            if words.len() > 1 {
                let nodes =
                    words.iter().map(|word| self.term(word, field, scope)).collect::<Result<_, _>>()?;
                return Ok(PlanNode::And(nodes));
            }
        }
        if let Some(grams) = self.grams(item, &targets) {
            return self.needed(&grams, scope);
        }
        self.note_literals(item, field, &targets, scope);
        let languages = self.languages();
        let number = self.terms.len();
        let predicates = |target: &PredicateTarget<'_>| predicates(item, target, languages);
        let node = self.term_in_targets(&targets, scope, annotations, &text(item), predicates)?;
        if let (QueryItem::Alternatives { words, .. }, Some(term)) = (item, self.terms.get_mut(number)) {
            term.alternatives = words.iter().map(|(word, _)| word.clone()).collect();
        }
        Ok(node)
    }

    /// Words near each other, within each field denoted by the name.
    pub(super) fn near(&mut self, item: &QueryItem, scope: ItemScope<'_>) -> Result<PlanNode, Error> {
        let QueryItem::Near { field, words, excluded, distance, exclusion_distance, ordered, .. } = item
        else {
            return Ok(PlanNode::False);
        };
        let targets = self.targets(field, scope)?;
        for word in words {
            self.note_literals(word, field, &targets, scope);
        }
        let is_one = targets.len() == 1;
        let terms: Vec<Option<TermId>> =
            words.iter().map(|word| self.new_term(&text(word), annotations(word))).collect();
        let mut nodes = Vec::new();
        for target in &targets {
            if !target.is_text() {
                let reason =
                    "near and onear need a field whose text is split into words; write: indexing: index";
                if is_one && !scope.typed {
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
                [only] if outside.is_empty() => nodes.push(PlanNode::Leaf(*only)),
                _ => nodes.push(PlanNode::Near {
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

    /// The grams of a word in fields that are matched by n-grams, combined as the request says; `None` for
    /// other fields, for a single gram, and for a phrase, which one predicate can look for.
    fn grams(&self, item: &QueryItem, targets: &[PredicateTarget<'_>]) -> Option<QueryItem> {
        let composite = self.query.gram_match;
        let QueryItem::Term { field, text, matching: TermMatch::Word, annotations } = item else {
            return None;
        };
        let matching = targets.first()?.matching().of_queries();
        let is_same =
            |target: &PredicateTarget<'_>| target.is_text() && target.matching().mode == matching.mode;
        let MatchMode::Gram { size } = matching.mode else { return None };
        if composite == WordComposite::Phrase || !targets.iter().all(is_same) {
            return None;
        }
        let mut tokens: Vec<Range<usize>> = Vec::new();
        FieldAnalyzer::new(&matching, TextLanguage::Unknown)
            .tokens(&text.text, |token| tokens.push(token.range));
        // In scripts without spaces each letter is a word: a gram is as many of them as follow one another.
        let in_a_row = tokens.chunk_by(|word, next| word.end == next.start);
        let ranges = in_a_row.flat_map(|words| {
            let window = size.clamp(1, words.len());
            words.windows(window).map(move |gram| gram[0].start..gram[window - 1].end)
        });
        let gram = |range: Range<usize>| QueryItem::Term {
            field: field.clone(),
            text: TermText::from(&text.text[range]),
            matching: TermMatch::Word,
            annotations: annotations.clone(),
        };
        let grams: Vec<QueryItem> = ranges.map(gram).collect();
        (grams.len() > 1).then(|| composite.combine(field, grams))
    }

    /// Notes the words of a term that is searched in a field with `rank: literal`, but not in a fieldset.
    fn note_literals(
        &mut self,
        item: &QueryItem,
        field: &str,
        targets: &[PredicateTarget<'_>],
        scope: ItemScope<'_>,
    ) {
        let [target] = targets else { return };
        if target.field.has_literal && scope.element.is_none() && !self.schema.fieldsets.contains_key(field) {
            let literal = literal_name(&target.field.name);
            let mut words = Vec::new();
            written_words(item, &mut words);
            self.literals.extend(words.into_iter().map(|word| (literal.clone(), word)));
        }
    }

    /// The leaf of a word in a proximity condition; `None` if nothing can match it.
    fn leaf_of(
        &mut self,
        item: &QueryItem,
        target: &PredicateTarget<'_>,
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
    fn document_type(&self, item: &QueryItem) -> PlanNode {
        if *self.schema.name == text(item) { PlanNode::True } else { PlanNode::False }
    }
}

/// Predicates of a term in one field, any of which may hold.
fn predicates(
    item: &QueryItem,
    target: &PredicateTarget<'_>,
    languages: PlanLanguages<'_>,
) -> Result<Vec<Predicate>, Error> {
    let words = WordPredicates::new(target, annotations(item), languages);
    let found = match item {
        QueryItem::Term { text, matching, .. } => Vec::from_iter(words.term(&text.text, matching)?),
        QueryItem::Phrase { words: parts, .. } => Vec::from_iter(words.phrase(parts)?),
        QueryItem::Alternatives { words: alternatives, .. } => {
            let mut all = Vec::new();
            for (word, _) in alternatives {
                all.extend(words.term(word, &TermMatch::Word)?);
            }
            all
        }
        QueryItem::Equiv { words: equivalents, .. } => {
            let mut all = Vec::new();
            for equivalent in equivalents {
                all.extend(predicates(equivalent, target, languages)?);
            }
            all
        }
        _ => return Err(wrong(&target.path, "expected a word, a phrase or equivalents")),
    };
    Ok(combine_words(found))
}

/// Typed text in a script without spaces, as terms of single words; empty for other text.
fn segmented(item: &QueryItem) -> Vec<QueryItem> {
    let QueryItem::Term { field, text, matching: TermMatch::Word, annotations } = item else {
        return Vec::new();
    };
    let term = |range: Range<usize>| QueryItem::Term {
        field: field.clone(),
        text: TermText::from(&text.text[range]),
        matching: TermMatch::Word,
        annotations: annotations.clone(),
    };
    segments(&text.text).unwrap_or_default().into_iter().map(term).collect()
}

/// Collects the words of a term, in lower case.
fn written_words(item: &QueryItem, words: &mut Vec<String>) {
    match item {
        QueryItem::Term { text, .. } => words.push(text.text.to_lowercase()),
        QueryItem::Phrase { words: parts, .. } => {
            words.extend(parts.iter().map(|word| word.text.text.to_lowercase()));
        }
        QueryItem::Equiv { words: equivalents, .. } => {
            equivalents.iter().for_each(|word| written_words(word, words));
        }
        _ => {}
    }
}

/// Combines predicates of single words into one predicate of any of them.
fn combine_words(predicates: Vec<Predicate>) -> Vec<Predicate> {
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

static PLAIN: std::sync::LazyLock<ItemAnnotations> = std::sync::LazyLock::new(ItemAnnotations::default);

fn annotations(item: &QueryItem) -> &ItemAnnotations {
    match item {
        QueryItem::Term { annotations, .. }
        | QueryItem::Phrase { annotations, .. }
        | QueryItem::Equiv { annotations, .. }
        | QueryItem::Alternatives { annotations, .. } => annotations,
        _ => &PLAIN,
    }
}

/// Text of a term as in the query.
fn text(item: &QueryItem) -> String {
    match item {
        QueryItem::Term { text, .. } => text.text.clone(),
        QueryItem::Phrase { words, .. } => {
            words.iter().map(|word| word.text.text.as_str()).collect::<Vec<_>>().join(" ")
        }
        QueryItem::Equiv { words, .. } => words.iter().map(text).collect::<Vec<_>>().join(" "),
        QueryItem::Alternatives { words, .. } => {
            words.iter().map(|(word, _)| word.as_str()).collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}
