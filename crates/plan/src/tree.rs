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

use millrace_query::{Annotations, Item, Match, Query};
use millrace_schema::Schema;

use crate::inputs::Inputs;
use crate::target::{self, Target};
use crate::words::{Languages, Words};
use crate::{Context, Error, Leaf, LeafId, Node, Predicate, Term, TermId, WordPattern};

/// Maximum number of leaves of a plan: each takes memory for every matched document.
const MAX_LEAVES: usize = 4096;

/// The most regular expressions of a plan: each takes up to a megabyte as it is, and more while it runs.
const REGEXES_MAX: usize = 64;

/// Builder of a plan's tree.
pub(crate) struct Tree<'a> {
    schema: &'a Schema,
    query: &'a Query,
    context: &'a Context<'a>,
    inputs: &'a Inputs,
    profile: &'a str,
    pub leaves: Vec<Leaf>,
    pub terms: Vec<Term>,
    /// Fields whose ranges were merged into one.
    pub joined_ranges: Vec<String>,
    /// Error for the first unknown field in typed text.
    unknown: RefCell<Option<Error>>,
}

/// Context of an item.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The field whose elements are examined one by one.
    element: Option<&'a str>,
    /// True for text typed by a user: conditions that do not fit a field match nothing there, instead of
    /// being an error.
    typed: bool,
}

impl<'a> Tree<'a> {
    pub fn new(
        schema: &'a Schema,
        query: &'a Query,
        context: &'a Context<'a>,
        inputs: &'a Inputs,
        profile: &'a str,
    ) -> Self {
        let unknown = RefCell::new(None);
        Tree {
            schema,
            query,
            context,
            inputs,
            profile,
            leaves: Vec::new(),
            terms: Vec::new(),
            joined_ranges: Vec::new(),
            unknown,
        }
    }

    /// Languages of query and documents.
    fn languages(&self) -> Languages<'a> {
        Languages { query: self.query.language.as_deref(), of_documents: self.schema.sets_languages() }
    }

    /// Builds the root of the query's items.
    pub fn root(&mut self) -> Result<Node, Error> {
        let place = Place { element: None, typed: false };
        match &self.query.recall {
            None => self.needed(&self.query.root, place),
            Some(recall) => {
                let annotations = Annotations { ranked: false, filter: true, ..Annotations::default() };
                let schema = self.schema;
                let item = millrace_query::simple::filtered(
                    self.query.root.clone(),
                    recall,
                    &annotations,
                    &|name| target::term_end(schema, name),
                );
                self.needed(&item, place)
            }
        }
    }

    /// The node of a required item.
    fn needed(&mut self, item: &Item, place: Place<'_>) -> Result<Node, Error> {
        Ok(self.node(item, place)?.unwrap_or(Node::False))
    }

    /// The node of an item; `None` if it has nothing to search for and may be omitted.
    fn node(&mut self, item: &Item, place: Place<'_>) -> Result<Option<Node>, Error> {
        Ok(Some(match item {
            Item::True => Node::True,
            Item::False => Node::False,
            Item::And(children) => {
                let joined = self.join_ranges(children, place);
                return Ok(self.nodes(joined.as_deref().unwrap_or(children), place)?.map(and));
            }
            Item::Or(children) | Item::WeakAnd { children, .. } => {
                return Ok(self.nodes(children, place)?.map(or));
            }
            Item::Not { positive, negatives } => {
                let positive = self.node(positive, place)?.unwrap_or(Node::True);
                match self.nodes(negatives, place)? {
                    None => positive,
                    Some(negatives) => Node::AndNot(Box::new(positive), negatives),
                }
            }
            Item::Rank(children) => {
                let mut nodes = self.nodes(children, place)?.unwrap_or_default().into_iter();
                let Some(first) = nodes.next() else { return Ok(None) };
                let others: Vec<Node> = nodes.collect();
                if others.is_empty() { first } else { Node::Rank(Box::new(first), others) }
            }
            Item::Text(text) => return self.user_text(text, place),
            Item::Typed(inner) => return self.typed(inner, place),
            Item::Term { field, .. }
            | Item::Phrase { field, .. }
            | Item::Equiv { field, .. }
            | Item::Alternatives { field, .. } => self.term(item, field, place)?,
            Item::Near { .. } => self.near(item, place)?,
            Item::SameElement { field, children, elements, .. } => {
                self.same_element(field, children, elements, place)?
            }
            Item::Range { field, low, high, annotations, .. } => {
                self.range(field, (*low, *high), annotations, place)?
            }
            Item::In { field, values, annotations } => self.set(field, place, annotations, values)?,
            Item::Weighted { operator, field, tokens, annotations } => {
                self.weighted(*operator, field, tokens, annotations, place)?
            }
            Item::NearestNeighbor(nearest) => self.nearest(nearest)?,
            Item::GeoLocation { field, latitude, longitude, radius_km, annotations } => {
                self.geo_circle(field, [*latitude, *longitude], *radius_km, annotations)?
            }
            Item::GeoBoundingBox { field, corners, annotations } => {
                self.geo_box(field, *corners, annotations)?
            }
            Item::Predicate { field, .. } => {
                return Err(wrong(
                    field,
                    "predicate fields cannot be searched by streaming; store the conditions as fields",
                ));
            }
        }))
    }

    /// The nodes of the items that have something to search for; `None` if there are none.
    fn nodes(&mut self, items: &[Item], place: Place<'_>) -> Result<Option<Vec<Node>>, Error> {
        let mut nodes = Vec::with_capacity(items.len());
        for item in items {
            nodes.extend(self.node(item, place)?);
        }
        Ok((!nodes.is_empty()).then_some(nodes))
    }

    /// Fields denoted by a name in its context; empty if only other schemas have it.
    fn targets(&self, field: &str, place: Place<'_>) -> Result<Vec<Target<'a>>, Error> {
        let path = match place.element {
            None => field.to_owned(),
            Some(parent) if field.is_empty() => parent.to_owned(),
            Some(parent) => format!("{parent}.{field}"),
        };
        match target::resolve(self.schema, &path) {
            Err(Error::UnknownField { .. }) if (self.context.known_elsewhere)(field) => Ok(Vec::new()),
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
        place: Place<'_>,
        annotations: &Annotations,
        text: &str,
        predicates: impl Fn(&Target<'_>) -> Result<P, Error>,
    ) -> Result<Node, Error> {
        let targets = self.targets(field, place)?;
        self.each_of(&targets, place, annotations, text, predicates)
    }

    /// Like [`Tree::each`], over these fields.
    fn each_of<P: IntoIterator<Item = Predicate>>(
        &mut self,
        targets: &[Target<'_>],
        place: Place<'_>,
        annotations: &Annotations,
        text: &str,
        predicates: impl Fn(&Target<'_>) -> Result<P, Error>,
    ) -> Result<Node, Error> {
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

    fn new_term(&mut self, text: &str, annotations: &Annotations) -> Option<TermId> {
        if !annotations.ranked {
            return None;
        }
        self.terms.push(Term { text: text.to_owned(), annotations: annotations.clone(), leaves: Vec::new() });
        Some(TermId(self.terms.len() - 1))
    }

    fn leaf(
        &mut self,
        target: &Target<'_>,
        predicate: Predicate,
        term: Option<TermId>,
    ) -> Result<LeafId, Error> {
        if self.leaves.len() == MAX_LEAVES {
            return Err(Error::TooLarge { limit: MAX_LEAVES });
        }
        let is_regex = |predicate: &Predicate| {
            matches!(predicate, Predicate::Value { pattern: WordPattern::Regex(_), .. })
        };
        if is_regex(&predicate)
            && self.leaves.iter().filter(|leaf| is_regex(&leaf.predicate)).count() == REGEXES_MAX
        {
            return Err(Error::TooManyExpressions { limit: REGEXES_MAX });
        }
        let id = LeafId(self.leaves.len());
        self.leaves.push(Leaf { field: Arc::clone(&target.path), predicate, term, dot_product_above: None });
        if let Some(TermId(term)) = term {
            self.terms[term].leaves.push(id);
        }
        Ok(id)
    }

    /// The node of a leaf; for map entries, restricted to their keys.
    fn leaf_node(
        &mut self,
        target: &Target<'_>,
        predicate: Predicate,
        term: Option<TermId>,
    ) -> Result<Node, Error> {
        let mut node = Node::Leaf(self.leaf(target, predicate, term)?);
        for entry in target.keys.iter().rev() {
            let place = Place { element: None, typed: false };
            let mut keys = self.targets(&format!("{}.key", entry.map), place)?;
            let Some(key_target) = keys.pop() else { return Ok(Node::False) };
            let annotations = Annotations { ranked: false, ..Annotations::default() };
            let predicate =
                Words::new(&key_target, &annotations, Languages::default()).term(&entry.key, &Match::Word)?;
            let Some(predicate) = predicate else { return Ok(Node::False) };
            let key = Node::Leaf(self.leaf(&key_target, predicate, None)?);
            node = Node::SameElement {
                field: Arc::clone(&entry.map),
                child: Box::new(Node::And(vec![key, node])),
                elements: Vec::new(),
            };
        }
        Ok(node)
    }

    fn same_element(
        &mut self,
        field: &str,
        children: &[Item],
        elements: &[u32],
        place: Place<'_>,
    ) -> Result<Node, Error> {
        if place.element.is_some() {
            return Err(wrong(
                field,
                "sameElement cannot stand inside another; name the path, as in person.name contains \"x\"",
            ));
        }
        let name = match self.schema.fields.get(field) {
            Some(field) => Arc::clone(&field.name),
            // An alias, or an error.
            None => match self.targets(field, place)?.first() {
                Some(target) => Arc::clone(&target.path),
                None => return Ok(Node::False),
            },
        };
        let inside = Place { element: Some(&name), ..place };
        let Some(nodes) = self.nodes(children, inside)? else { return Ok(Node::False) };
        Ok(Node::SameElement {
            field: Arc::clone(&name),
            child: Box::new(and(nodes)),
            elements: elements.to_vec(),
        })
    }
}

/// Conjunction; nodes that always match are dropped.
fn and(mut nodes: Vec<Node>) -> Node {
    nodes.retain(|node| *node != Node::True);
    match nodes.len() {
        0 => Node::True,
        1 => nodes.remove(0),
        _ => Node::And(nodes),
    }
}

/// Disjunction; nodes that never match are dropped.
fn or(mut nodes: Vec<Node>) -> Node {
    nodes.retain(|node| *node != Node::False);
    match nodes.len() {
        0 => Node::False,
        1 => nodes.remove(0),
        _ => Node::Or(nodes),
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
