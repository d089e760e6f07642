//! Conversion of text typed by a user to items, and then to nodes.

use millrace_linguistics::{FieldAnalyzer, SpecialTokens, TextLanguage, segments};
use millrace_query::{
    ItemAnnotations, Query, QueryItem, TermMatch, TermText, TextSyntax, UserText, WordComposite, simple,
    simple::SpecialTokenRules,
};
use millrace_schema::{FieldMatching, MatchMode, Schema};

use super::{ItemScope, TreeBuilder};
use crate::target::{self, PredicateTarget};
use crate::{Error, PlanNode};

/// Field of the document type.
const TYPE_FIELD: &str = "sddocname";

/// The root of a query with typed text parsed as schemas interpret it ([`QueryItem::Typed`]): for rules, and
/// for displaying the parsed query.
///
/// Of several schemas, a name before a colon is interpreted by the first one that has such a field.
pub fn parsed(query: &Query, schemas: &[&Schema], tokens: &SpecialTokens) -> QueryItem {
    parsed_item(&query.root, schemas, tokens, query.language.as_deref())
}

fn parsed_item(
    item: &QueryItem,
    schemas: &[&Schema],
    tokens: &SpecialTokens,
    language: Option<&str>,
) -> QueryItem {
    let parsed = |item: &QueryItem| parsed_item(item, schemas, tokens, language);
    let all = |items: &[QueryItem]| items.iter().map(&parsed).collect();
    match item {
        QueryItem::Text(text) if text.grammar.syntax != TextSyntax::None => {
            let ends = |name: &str| schemas.iter().find_map(|schema| target::term_end(schema, name));
            let language = text.annotations.language.as_deref().or(language);
            with_special_tokens(tokens, language, |special| simple::parse(text, &ends, special))
                .map_or_else(|| item.clone(), |parsed| QueryItem::Typed(Box::new(parsed)))
        }
        QueryItem::And(items) => QueryItem::And(all(items)),
        QueryItem::Or(items) => QueryItem::Or(all(items)),
        QueryItem::Rank(items) => QueryItem::Rank(all(items)),
        QueryItem::Labeled { item, label, score } => {
            QueryItem::Labeled { item: Box::new(parsed(item)), label: label.clone(), score: *score }
        }
        QueryItem::Not { positive, negatives } => {
            QueryItem::Not { positive: Box::new(parsed(positive)), negatives: all(negatives) }
        }
        other => other.clone(),
    }
}

/// Calls `parse` with the rules of special tokens for text in a language.
pub(super) fn with_special_tokens<T>(
    tokens: &SpecialTokens,
    language: Option<&str>,
    parse: impl FnOnce(SpecialTokenRules<'_>) -> T,
) -> T {
    let inside_words = SpecialTokens::are_inside_words(language);
    let at_start = |text: &str| {
        let found = tokens.at_start(text, inside_words)?;
        Some((found.length, found.word.to_owned()))
    };
    parse(SpecialTokenRules { at_start: &at_start, inside_words })
}

/// Typed text whose document types are a condition on all of it, not alternatives to its words; `None` if it
/// has none among alternatives. Where alternatives are types only, they stay.
fn restricted(item: &QueryItem) -> Option<QueryItem> {
    let (QueryItem::Or(children) | QueryItem::WeakAnd { children, .. }) = item else { return None };
    let is_type = |item: &&QueryItem| matches!(item, QueryItem::Term { field, .. } if field == TYPE_FIELD);
    let (types, words): (Vec<&QueryItem>, Vec<&QueryItem>) = children.iter().partition(is_type);
    if types.is_empty() || words.is_empty() {
        return None;
    }
    let words: Vec<QueryItem> = words.into_iter().cloned().collect();
    let rest = match item {
        QueryItem::WeakAnd { target_hits, annotations, .. } => QueryItem::WeakAnd {
            children: words,
            target_hits: *target_hits,
            annotations: annotations.clone(),
        },
        _ => QueryItem::Or(words),
    };
    Some(QueryItem::And(types.into_iter().cloned().chain([rest]).collect()))
}

impl TreeBuilder<'_> {
    /// The node of user text; `None` if it has no word and may be empty.
    pub(super) fn user_text(
        &mut self,
        text: &UserText,
        scope: ItemScope<'_>,
    ) -> Result<Option<PlanNode>, Error> {
        let item = match text.grammar.syntax {
            TextSyntax::None => self.words_of(text, scope)?,
            TextSyntax::Simple | TextSyntax::Web | TextSyntax::Advanced => {
                let (schema, known_elsewhere) = (self.schema, self.context.known_elsewhere);
                // A field of another schema of the query is a field, so that all schemas read the same query:
                // its terms match nothing here.
                let ends = |name: &str| target::term_end(schema, name).or_else(|| known_elsewhere(name));
                let language = text.annotations.language.as_deref().or(self.query.language.as_deref());
                with_special_tokens(self.context.special_tokens, language, |special| {
                    simple::parse(text, &ends, special)
                })
            }
        };
        match item {
            Some(item) => self.typed(&item, scope, text.grammar.syntax != TextSyntax::Advanced),
            None if text.allow_empty => Ok(None),
            None => Err(Error::Empty(text.text.clone())),
        }
    }

    /// The node of typed text. It is an error if none of it can match. With `folds`, words that punctuation
    /// joins are conditions of the weak conjunction around them.
    pub(super) fn typed(
        &mut self,
        item: &QueryItem,
        scope: ItemScope<'_>,
        folds: bool,
    ) -> Result<Option<PlanNode>, Error> {
        let before = self.leaves.len();
        self.unknown.take();
        let restricted = restricted(item);
        let scope = ItemScope { typed: true, ..scope };
        let item = self.split_at_punctuation(restricted.as_ref().unwrap_or(item), scope, folds);
        let node = self.node(&item, scope)?;
        match self.unknown.take() {
            Some(error) if self.leaves.len() == before => Err(error),
            _ => Ok(node),
        }
    }

    /// Typed text whose terms are split at punctuation, unless they are in quotes or their field has
    /// `query-command: phrase-segmenting`: all of them must match, anywhere in the field.
    fn split_at_punctuation(&self, item: &QueryItem, scope: ItemScope<'_>, folds: bool) -> QueryItem {
        // What punctuation joins is among the conditions of a conjunction, or a weak one.
        let folded = |items: &[QueryItem]| -> Vec<QueryItem> {
            let parts =
                items.iter().map(|item| match (item, self.split_at_punctuation(item, scope, folds)) {
                    (QueryItem::Term { .. }, QueryItem::And(words)) => words,
                    (_, other) => vec![other],
                });
            parts.flatten().collect()
        };
        let each = |items: &[QueryItem]| -> Vec<QueryItem> {
            items.iter().map(|item| self.split_at_punctuation(item, scope, folds)).collect()
        };
        match item {
            QueryItem::Term { .. } => self.split_words(item, scope).unwrap_or_else(|| item.clone()),
            QueryItem::And(items) => QueryItem::And(folded(items)),
            QueryItem::WeakAnd { children, target_hits, annotations } => QueryItem::WeakAnd {
                children: if folds { folded(children) } else { each(children) },
                target_hits: *target_hits,
                annotations: annotations.clone(),
            },
            QueryItem::Or(items) => QueryItem::Or(each(items)),
            QueryItem::Rank(items) => QueryItem::Rank(each(items)),
            QueryItem::Not { positive, negatives } => QueryItem::Not {
                positive: Box::new(self.split_at_punctuation(positive, scope, folds)),
                negatives: each(negatives),
            },
            other => other.clone(),
        }
    }

    /// The words of a typed term, each connected to the one before it, beside the whole for fields that are
    /// not split into words; `None` if it has only one word, or stays in one piece.
    fn split_words(&self, item: &QueryItem, scope: ItemScope<'_>) -> Option<QueryItem> {
        let QueryItem::Term { field, text, matching: TermMatch::Word, annotations } = item else {
            return None;
        };
        let is_number = || text.text.parse::<f64>().is_ok();
        let has_punctuation = text.text.contains(|letter: char| !letter.is_alphanumeric());
        let is_one = text.together || field == TYPE_FIELD || !has_punctuation || is_number();
        if is_one || segments(&text.text).is_some() {
            return None;
        }
        let targets = self.targets(field, scope).ok()?;
        let is_split =
            |target: &&PredicateTarget<'_>| target.is_text() && target.matching().mode == MatchMode::Text;
        let matching = targets.iter().find(is_split)?.matching().of_queries();
        if target::joins_words(self.schema, field, &targets) {
            return None;
        }
        let language = annotations.language.as_deref().or(self.query.language.as_deref());
        let language = language.map_or(TextLanguage::Unknown, TextLanguage::from_tag);
        let mut words = Vec::new();
        FieldAnalyzer::new(&matching, language).tokens(&text.text, |token| {
            let mut annotations = annotations.clone();
            if let Ok(number @ 1..) = i32::try_from(words.len()) {
                annotations.id = Some(-number);
            }
            words.push(QueryItem::Term {
                field: field.clone(),
                text: TermText::from(&text.text[token.range]),
                matching: TermMatch::Word,
                annotations,
            });
        });
        let last = words.len().checked_sub(1).filter(|last| *last > 0)?;
        for (word, next) in words[..last].iter_mut().zip(1..) {
            if let QueryItem::Term { annotations, .. } = word {
                annotations.connectivity = Some((-next, 1.0));
            }
        }
        let words = QueryItem::And(words);
        if targets.iter().all(|target| is_split(&target) || !target::holds_text(target.value_type)) {
            return Some(words);
        }
        let whole = QueryItem::Term {
            field: field.clone(),
            text: TermText { together: true, ..text.clone() },
            matching: TermMatch::Word,
            annotations: annotations.clone(),
        };
        Some(QueryItem::Or(vec![words, whole]))
    }

    /// All words of the text, combined as its grammar specifies.
    fn words_of(&self, text: &UserText, scope: ItemScope<'_>) -> Result<Option<QueryItem>, Error> {
        let targets = self.targets(&text.field, scope)?;
        let matching = match targets.iter().find(|target| target.is_text()) {
            Some(target) => target.matching().of_queries(),
            None => FieldMatching::new(MatchMode::Text),
        };
        let language = text.annotations.language.as_deref().or(self.query.language.as_deref());
        let analyzer =
            FieldAnalyzer::new(&matching, language.map_or(TextLanguage::Unknown, TextLanguage::from_tag));
        let mut words: Vec<String> = Vec::new();
        // Words in their typed form: each field converts them by its own settings.
        match segments(&text.text).filter(|_| matching.mode == MatchMode::Text) {
            Some(ranges) => words.extend(ranges.into_iter().map(|range| text.text[range].to_owned())),
            None => analyzer.tokens(&text.text, |token| words.push(text.text[token.range].to_owned())),
        }
        if words.is_empty() {
            return Ok(None);
        }
        let field = || text.field.clone();
        let annotations = || text.annotations.clone();
        let terms = || -> Vec<QueryItem> {
            let term = |word: &String| QueryItem::Term {
                field: field(),
                text: word.as_str().into(),
                matching: TermMatch::Word,
                annotations: annotations(),
            };
            words.iter().map(term).collect()
        };
        Ok(Some(match text.grammar.composite {
            WordComposite::And => QueryItem::And(terms()),
            WordComposite::Or => QueryItem::Or(terms()),
            WordComposite::WeakAnd => QueryItem::WeakAnd {
                children: terms(),
                target_hits: text.target_hits,
                annotations: ItemAnnotations::default(),
            },
            WordComposite::Phrase => QueryItem::Phrase {
                field: field(),
                words: words.iter().map(|word| TermText::from(word.as_str()).into()).collect(),
                annotations: annotations(),
            },
            WordComposite::Near | WordComposite::OrderedNear => QueryItem::Near {
                field: field(),
                words: terms(),
                excluded: Vec::new(),
                distance: text.distance,
                exclusion_distance: text.distance.div_ceil(2),
                ordered: text.grammar.composite == WordComposite::OrderedNear,
                annotations: annotations(),
            },
        }))
    }
}
