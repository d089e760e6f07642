//! Conversion of query items to nodes, leaves and terms over a schema.

mod places;
mod ranges;
mod sets;
mod terms;
mod text;
mod vectors;

pub use text::parsed;

use std::cell::RefCell;
use std::sync::Arc;

use millrace_query::{ItemAnnotations, Query, QueryItem, TermMatch, TermText};
use millrace_schema::Schema;

use crate::inputs::QueryInputs;
use crate::target::{self, PredicateTarget};
use crate::words::{PlanLanguages, WordPredicates};
use crate::{
    Error, LeafId, PlanContext, PlanLeaf, PlanNode, PlanTerm, Predicate, QueryAttributes, TermId, WordPattern,
};

/// Maximum number of leaves of a plan: each takes memory for every matched document.
const MAX_LEAVES: usize = 4096;

/// Builder of a plan's tree.
pub(crate) struct TreeBuilder<'a> {
    schema: &'a Schema,
    query: &'a Query,
    context: &'a PlanContext<'a>,
    inputs: &'a QueryInputs,
    profile: &'a str,
    pub leaves: Vec<PlanLeaf>,
    pub terms: Vec<PlanTerm>,
    /// Fields whose ranges were merged into one.
    pub joined_ranges: Vec<String>,
    /// Error for the first unknown field in typed text.
    unknown: RefCell<Option<Error>>,
    /// Fields and words that are ranked as they are written, beside the terms so far.
    literals: Vec<(String, String)>,
}

/// Context of an item.
#[derive(Clone, Copy)]
struct ItemPosition<'a> {
    /// The field whose elements are examined one by one.
    element: Option<&'a str>,
    /// True for text typed by a user: conditions that do not fit a field match nothing there, instead of
    /// being an error.
    typed: bool,
}

impl<'a> TreeBuilder<'a> {
    pub fn new(
        schema: &'a Schema,
        query: &'a Query,
        context: &'a PlanContext<'a>,
        inputs: &'a QueryInputs,
        profile: &'a str,
    ) -> Self {
        let unknown = RefCell::new(None);
        TreeBuilder {
            schema,
            query,
            context,
            inputs,
            profile,
            leaves: Vec::new(),
            terms: Vec::new(),
            joined_ranges: Vec::new(),
            unknown,
            literals: Vec::new(),
        }
    }

    /// Languages of query and documents.
    fn languages(&self) -> PlanLanguages<'a> {
        PlanLanguages {
            query: self.query.language.as_deref(),
            of_documents: self.schema.sets_languages(),
            unstemmed: self.query.unstemmed,
        }
    }

    /// Builds the root of the query's items.
    pub fn root(&mut self) -> Result<PlanNode, Error> {
        let place = ItemPosition { element: None, typed: false };
        let root = match &self.query.recall {
            None => self.needed(&self.query.root, place)?,
            Some(recall) => {
                let annotations =
                    ItemAnnotations { ranked: false, filter: true, ..ItemAnnotations::default() };
                let schema = self.schema;
                let language = self.query.language.as_deref();
                let item = text::with_special_tokens(self.context.special_tokens, language, |special| {
                    let ends = |name: &str| target::term_end(schema, name);
                    let root = self.query.root.clone();
                    millrace_query::simple::filtered(root, recall, &annotations, &ends, special)
                });
                self.needed(&item, place)?
            }
        };
        self.with_literals(root, place)
    }

    /// The root, with the words of the query in the fields of `rank: literal`. They only count in ranking.
    fn with_literals(&mut self, root: PlanNode, place: ItemPosition<'_>) -> Result<PlanNode, Error> {
        let mut words = Vec::new();
        for (field, word) in std::mem::take(&mut self.literals) {
            let item = QueryItem::Term {
                field,
                text: TermText::from(word.as_str()),
                matching: TermMatch::Word,
                annotations: ItemAnnotations::default(),
            };
            words.extend(self.node(&item, place)?);
        }
        Ok(match root {
            root if words.is_empty() => root,
            PlanNode::Rank(first, others) => PlanNode::Rank(first, others.into_iter().chain(words).collect()),
            root => PlanNode::Rank(Box::new(root), words),
        })
    }

    /// The node of a required item.
    fn needed(&mut self, item: &QueryItem, place: ItemPosition<'_>) -> Result<PlanNode, Error> {
        Ok(self.node(item, place)?.unwrap_or(PlanNode::False))
    }

    /// The node of an item; `None` if it has nothing to search for and may be omitted.
    fn node(&mut self, item: &QueryItem, place: ItemPosition<'_>) -> Result<Option<PlanNode>, Error> {
        Ok(Some(match item {
            QueryItem::True => PlanNode::True,
            QueryItem::False => PlanNode::False,
            QueryItem::And(children) => {
                let joined = self.join_ranges(children, place);
                return Ok(self.nodes(joined.as_deref().unwrap_or(children), place)?.map(and));
            }
            QueryItem::Or(children) | QueryItem::WeakAnd { children, .. } => {
                return Ok(self.nodes(children, place)?.map(or));
            }
            QueryItem::Not { positive, negatives } => {
                let positive = self.node(positive, place)?.unwrap_or(PlanNode::True);
                let literals = self.literals.len();
                let negatives = self.nodes(negatives, place)?;
                self.literals.truncate(literals);
                match negatives {
                    None => positive,
                    Some(negatives) => PlanNode::AndNot(Box::new(positive), negatives),
                }
            }
            QueryItem::Rank(children) => {
                let mut nodes = self.nodes(children, place)?.unwrap_or_default().into_iter();
                let Some(first) = nodes.next() else { return Ok(None) };
                let others: Vec<PlanNode> = nodes.collect();
                if others.is_empty() { first } else { PlanNode::Rank(Box::new(first), others) }
            }
            QueryItem::Labeled { item, label, score } => {
                let Some(node) = self.node(item, place)? else { return Ok(None) };
                if place.element.is_some() {
                    return Err(wrong(label, "labeled(…) is put around sameElement(…), not inside"));
                }
                // Ranking sees the mark only where the conjunction takes part.
                let mark = Predicate::Labeled { label: label.clone(), score: *score };
                PlanNode::And(vec![node, PlanNode::Leaf(self.mark(mark)?)])
            }
            QueryItem::Text(text) => return self.user_text(text, place),
            QueryItem::Typed(inner) => return self.typed(inner, place, true),
            QueryItem::Term { field, .. }
            | QueryItem::Phrase { field, .. }
            | QueryItem::Equiv { field, .. }
            | QueryItem::Alternatives { field, .. } => self.term(item, field, place)?,
            QueryItem::Near { .. } => self.near(item, place)?,
            QueryItem::SameElement { .. } => self.same_element(item, place)?,
            QueryItem::Range { field, low, high, annotations, .. } => {
                self.range(field, (*low, *high), annotations, place)?
            }
            QueryItem::In { field, values, annotations } => self.set(field, place, annotations, values)?,
            QueryItem::Weighted { operator, field, tokens, annotations } => {
                self.weighted(*operator, field, tokens, annotations, place)?
            }
            QueryItem::NearestNeighbor(nearest) => self.nearest(nearest)?,
            QueryItem::GeoLocation { field, latitude, longitude, radius_km, annotations } => {
                self.geo_circle(field, [*latitude, *longitude], *radius_km, annotations)?
            }
            QueryItem::GeoBoundingBox { field, corners, annotations } => {
                self.geo_box(field, *corners, annotations)?
            }
            QueryItem::Predicate { field, attributes, ranges, annotations } => {
                let attributes = QueryAttributes::new(attributes.clone(), ranges.clone());
                self.conditions(field, &attributes, annotations)?
            }
        }))
    }

    /// The nodes of the items that have something to search for; `None` if there are none.
    fn nodes(
        &mut self,
        items: &[QueryItem],
        place: ItemPosition<'_>,
    ) -> Result<Option<Vec<PlanNode>>, Error> {
        let mut nodes = Vec::with_capacity(items.len());
        for item in items {
            nodes.extend(self.node(item, place)?);
        }
        Ok((!nodes.is_empty()).then_some(nodes))
    }

    /// Fields denoted by a name in its context; empty if only other schemas have it.
    fn targets(&self, field: &str, place: ItemPosition<'_>) -> Result<Vec<PredicateTarget<'a>>, Error> {
        let path = match place.element {
            None => field.to_owned(),
            Some(parent) if field.is_empty() => parent.to_owned(),
            Some(parent) => format!("{parent}.{field}"),
        };
        match target::resolve(self.schema, &path) {
            Err(Error::UnknownField { .. }) if (self.context.known_elsewhere)(field).is_some() => {
                Ok(Vec::new())
            }
            // Typed text matches nothing there. An error is reported only after all of the text is read, if
            // nothing in it can match.
            Err(error @ Error::UnknownField { .. }) if place.typed => {
                self.unknown.borrow_mut().get_or_insert(error);
                Ok(Vec::new())
            }
            targets => targets,
        }
    }

    /// A term over all fields denoted by a name, with the predicates that `predicates` returns for each; any
    /// of them may hold.
    fn each<P: IntoIterator<Item = Predicate>>(
        &mut self,
        field: &str,
        place: ItemPosition<'_>,
        annotations: &ItemAnnotations,
        text: &str,
        predicates: impl Fn(&PredicateTarget<'_>) -> Result<P, Error>,
    ) -> Result<PlanNode, Error> {
        let targets = self.targets(field, place)?;
        self.each_of(&targets, place, annotations, text, predicates)
    }

    /// Like [`TreeBuilder::each`], over these fields.
    fn each_of<P: IntoIterator<Item = Predicate>>(
        &mut self,
        targets: &[PredicateTarget<'_>],
        place: ItemPosition<'_>,
        annotations: &ItemAnnotations,
        text: &str,
        predicates: impl Fn(&PredicateTarget<'_>) -> Result<P, Error>,
    ) -> Result<PlanNode, Error> {
        let is_one = targets.len() == 1;
        let mut found = Vec::new();
        for target in targets {
            match predicates(target) {
                Ok(predicates) => found.extend(predicates.into_iter().map(|predicate| (target, predicate))),
                Err(error) if is_one && !place.typed => return Err(error),
                // One field of a fieldset, or typed text: it matches nothing there.
                Err(_) => {}
            }
        }
        let term = self.new_term(text, annotations);
        let mut nodes = Vec::with_capacity(found.len());
        for (target, predicate) in found {
            nodes.push(self.leaf_node(target, predicate, term)?);
        }
        Ok(or(nodes))
    }

    fn new_term(&mut self, text: &str, annotations: &ItemAnnotations) -> Option<TermId> {
        if !annotations.ranked {
            return None;
        }
        self.terms.push(PlanTerm {
            text: text.to_owned(),
            annotations: annotations.clone(),
            alternatives: Vec::new(),
            leaves: Vec::new(),
            elements_of: None,
        });
        Some(TermId(self.terms.len() - 1))
    }

    /// Removes a term without leaves; those after it move up.
    fn remove_term(&mut self, removed: TermId) {
        self.terms.remove(removed.0);
        for term in self.leaves.iter_mut().filter_map(|leaf| leaf.term.as_mut()) {
            assert!(term.0 != removed.0, "a term that is removed has no leaves");
            if term.0 > removed.0 {
                term.0 -= 1;
            }
        }
    }

    fn leaf(
        &mut self,
        target: &PredicateTarget<'_>,
        predicate: Predicate,
        term: Option<TermId>,
    ) -> Result<LeafId, Error> {
        let is_regex = |predicate: &Predicate| {
            matches!(predicate, Predicate::Value { pattern: WordPattern::Regex(_), .. })
        };
        if is_regex(&predicate)
            && self.leaves.iter().filter(|leaf| is_regex(&leaf.predicate)).count() >= self.context.regexes_max
        {
            return Err(Error::TooManyExpressions { limit: self.context.regexes_max });
        }
        let id = self.push(Arc::clone(&target.path), predicate, term)?;
        if let Some(TermId(term)) = term {
            self.terms[term].leaves.push(id);
        }
        Ok(id)
    }

    /// A leaf without a field and a term.
    fn mark(&mut self, predicate: Predicate) -> Result<LeafId, Error> {
        self.push("".into(), predicate, None)
    }

    fn push(&mut self, field: Arc<str>, predicate: Predicate, term: Option<TermId>) -> Result<LeafId, Error> {
        if self.leaves.len() == MAX_LEAVES {
            return Err(Error::TooLarge { limit: MAX_LEAVES });
        }
        self.leaves.push(PlanLeaf { field, predicate, term, dot_product_above: None });
        Ok(LeafId(self.leaves.len() - 1))
    }

    /// The node of a leaf; for map entries, restricted to their keys.
    fn leaf_node(
        &mut self,
        target: &PredicateTarget<'_>,
        predicate: Predicate,
        term: Option<TermId>,
    ) -> Result<PlanNode, Error> {
        let mut node = PlanNode::Leaf(self.leaf(target, predicate, term)?);
        for entry in target.keys.iter().rev() {
            let place = ItemPosition { element: None, typed: false };
            let mut keys = self.targets(&format!("{}.key", entry.map), place)?;
            let Some(key_target) = keys.pop() else { return Ok(PlanNode::False) };
            let annotations = ItemAnnotations { ranked: false, ..ItemAnnotations::default() };
            let predicate = WordPredicates::new(&key_target, &annotations, PlanLanguages::default())
                .term(&entry.key, &TermMatch::Word)?;
            let Some(predicate) = predicate else { return Ok(PlanNode::False) };
            let key = PlanNode::Leaf(self.leaf(&key_target, predicate, None)?);
            node = PlanNode::SameElement {
                field: Arc::clone(&entry.map),
                child: Box::new(PlanNode::And(vec![key, node])),
                elements: Vec::new(),
            };
        }
        Ok(node)
    }

    /// The node of a `sameElement`. It is a term of the field unless a condition is about the element as a
    /// whole, which then is that term; its conditions are the terms after it. So does Vespa's `QueryBuilder`.
    fn same_element(&mut self, item: &QueryItem, place: ItemPosition<'_>) -> Result<PlanNode, Error> {
        let QueryItem::SameElement { field, children, elements, annotations } = item else {
            return Ok(PlanNode::False);
        };
        if place.element.is_some() {
            return Err(wrong(
                field,
                "sameElement cannot stand inside another; name the path, as in person.name contains \"x\"",
            ));
        }
        let name = match self.schema.fields.get(field.as_str()) {
            Some(field) => Arc::clone(&field.name),
            // An alias, or an error.
            None => match self.targets(field, place)?.first() {
                Some(target) => Arc::clone(&target.path),
                None => return Ok(PlanNode::False),
            },
        };
        let inside = ItemPosition { element: Some(&name), ..place };
        let term = self.new_term("", annotations);
        let Some(nodes) = self.nodes(children, inside)? else { return Ok(PlanNode::False) };
        if let Some(term) = term {
            let mut leaves = Vec::new();
            nodes.iter().for_each(|node| required_leaves(node, &mut leaves));
            leaves.retain(|leaf| self.leaves[leaf.0].term.is_some());
            if leaves.iter().any(|leaf| self.leaves[leaf.0].field == name) {
                self.remove_term(term);
            } else {
                self.terms[term.0].leaves = leaves;
                self.terms[term.0].elements_of = Some(Arc::clone(&name));
            }
        }
        Ok(PlanNode::SameElement {
            field: Arc::clone(&name),
            child: Box::new(and(nodes)),
            elements: elements.to_vec(),
        })
    }
}

/// Collects the leaves of a node that count where it matches: those that are not excluded.
fn required_leaves(node: &PlanNode, leaves: &mut Vec<LeafId>) {
    match node {
        PlanNode::True | PlanNode::False => {}
        PlanNode::And(children) | PlanNode::Or(children) => {
            children.iter().for_each(|child| required_leaves(child, leaves));
        }
        PlanNode::AndNot(positive, _) => required_leaves(positive, leaves),
        PlanNode::Rank(first, others) => {
            std::iter::once(&**first).chain(others).for_each(|child| required_leaves(child, leaves));
        }
        PlanNode::Leaf(leaf) => leaves.push(*leaf),
        PlanNode::Near { leaves: near, .. } => leaves.extend(near),
        PlanNode::SameElement { child, .. } => required_leaves(child, leaves),
    }
}

/// Conjunction; nodes that always match are dropped.
fn and(mut nodes: Vec<PlanNode>) -> PlanNode {
    nodes.retain(|node| *node != PlanNode::True);
    match nodes.len() {
        0 => PlanNode::True,
        1 => nodes.remove(0),
        _ => PlanNode::And(nodes),
    }
}

/// Disjunction; nodes that never match are dropped.
fn or(mut nodes: Vec<PlanNode>) -> PlanNode {
    nodes.retain(|node| *node != PlanNode::False);
    match nodes.len() {
        0 => PlanNode::False,
        1 => nodes.remove(0),
        _ => PlanNode::Or(nodes),
    }
}

fn wrong(field: &str, reason: impl Into<String>) -> Error {
    Error::Field { field: field.to_owned(), reason: reason.into() }
}

/// The word of a predicate that consists of one exact word.
fn single(predicate: &Predicate) -> Option<&str> {
    match predicate {
        Predicate::Words(patterns) => match patterns.as_slice() {
            [WordPattern::Exact(word)] => Some(word),
            _ => None,
        },
        _ => None,
    }
}
