//! Conversion of text typed by a user to items, and then to nodes.

use millrace_linguistics::{Analyzer, Language, segments};
use millrace_query::{Annotations, Composite, Item, Match, Syntax, TermText, UserText, simple};
use millrace_schema::{MatchMode, Schema};

use super::{Place, Tree};
use crate::target::{self, plain_matching};
use crate::{Error, Node};

/// The item with typed text parsed as schemas interpret it ([`Item::Typed`]): for rules, and for displaying
/// the parsed query.
///
/// Of several schemas, a name before a colon is interpreted by the first one that has such a field.
pub fn parsed(item: &Item, schemas: &[&Schema]) -> Item {
    let all = |items: &[Item]| items.iter().map(|item| parsed(item, schemas)).collect();
    match item {
        Item::Text(text) if text.grammar.syntax != Syntax::None => {
            let ends = |name: &str| schemas.iter().find_map(|schema| target::term_end(schema, name));
            simple::parse(text, &ends).map_or_else(|| item.clone(), |parsed| Item::Typed(Box::new(parsed)))
        }
        Item::And(items) => Item::And(all(items)),
        Item::Or(items) => Item::Or(all(items)),
        Item::Rank(items) => Item::Rank(all(items)),
        Item::Not { positive, negatives } => {
            Item::Not { positive: Box::new(parsed(positive, schemas)), negatives: all(negatives) }
        }
        other => other.clone(),
    }
}

impl Tree<'_> {
    /// The node of user text; `None` if it has no word and may be empty.
    pub(super) fn user_text(&mut self, text: &UserText, place: Place<'_>) -> Result<Option<Node>, Error> {
        let item = match text.grammar.syntax {
            Syntax::None => self.words_of(text, place)?,
            Syntax::Simple | Syntax::Web | Syntax::Advanced => {
                let schema = self.schema;
                simple::parse(text, &|name| target::term_end(schema, name))
            }
        };
        match item {
            Some(item) => self.typed(&item, place),
            None if text.allow_empty => Ok(None),
            None => Err(Error::Empty(text.text.clone())),
        }
    }

    /// The node of typed text. It is an error if none of it can match.
    pub(super) fn typed(&mut self, item: &Item, place: Place<'_>) -> Result<Option<Node>, Error> {
        let before = self.leaves.len();
        self.unknown.take();
        let node = self.node(item, Place { typed: true, ..place })?;
        match self.unknown.take() {
            Some(error) if self.leaves.len() == before => Err(error),
            _ => Ok(node),
        }
    }

    /// All words of the text, combined as its grammar specifies.
    fn words_of(&self, text: &UserText, place: Place<'_>) -> Result<Option<Item>, Error> {
        let targets = self.targets(&text.field, place)?;
        let matching = match targets.iter().find(|target| target.is_text()) {
            Some(target) => target.matching().clone(),
            None => plain_matching(),
        };
        let language = text.annotations.language.as_deref().or(self.query.language.as_deref());
        let analyzer = Analyzer::new(&matching, language.map_or(Language::Unknown, Language::from_tag));
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
        let terms = || -> Vec<Item> {
            let term = |word: &String| Item::Term {
                field: field(),
                text: word.as_str().into(),
                matching: Match::Word,
                annotations: annotations(),
            };
            words.iter().map(term).collect()
        };
        Ok(Some(match text.grammar.composite {
            Composite::And => Item::And(terms()),
            Composite::Or => Item::Or(terms()),
            Composite::WeakAnd => Item::WeakAnd {
                children: terms(),
                target_hits: text.target_hits,
                annotations: Annotations::default(),
            },
            Composite::Phrase => Item::Phrase {
                field: field(),
                words: words.iter().map(|word| TermText::from(word.as_str()).into()).collect(),
                annotations: annotations(),
            },
            Composite::Near | Composite::OrderedNear => Item::Near {
                field: field(),
                words: terms(),
                excluded: Vec::new(),
                distance: text.distance,
                exclusion_distance: text.distance.div_ceil(2),
                ordered: text.grammar.composite == Composite::OrderedNear,
                annotations: annotations(),
            },
        }))
    }
}
