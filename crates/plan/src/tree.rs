//! Items of a query to nodes, leaves and terms over a schema.

mod ranges;
mod terms;
mod text;

pub use text::parsed;

use std::cell::RefCell;
use std::sync::Arc;

use millrace_document::DataType;
use millrace_query::{Annotations, Bound, Item, Match, NearestNeighbor, Query, WeightedOperator};
use millrace_schema::Schema;
use millrace_tensor::{DimensionKind, Tensor, TensorType};

use crate::inputs::Inputs;
use crate::target::{self, Target};
use crate::words::{Languages, Words};
use crate::{Context, Error, Leaf, LeafId, Node, Predicate, Term, TermId, WordPattern, number};

/// The most leaves of one plan: each takes memory for every matched document.
const MAX_LEAVES: usize = 4096;

/// Makes the tree of a plan.
pub(crate) struct Tree<'a> {
    schema: &'a Schema,
    query: &'a Query,
    context: &'a Context<'a>,
    inputs: &'a Inputs,
    profile: &'a str,
    pub leaves: Vec<Leaf>,
    pub terms: Vec<Term>,
    /// The fields of which several ranges became one.
    pub joined_ranges: Vec<String>,
    /// The first field that typed text is about and that is not there.
    unknown: RefCell<Option<Error>>,
}

/// Where an item stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The field whose elements are looked into one by one.
    element: Option<&'a str>,
    /// Written by a person: what cannot be about a field matches nothing there, instead of being an error.
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

    /// What is known of the languages of query and documents.
    fn languages(&self) -> Languages<'a> {
        Languages { query: self.query.language.as_deref(), of_documents: self.schema.sets_languages() }
    }

    /// The root of the query's items.
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

    /// The node of an item that cannot be left out.
    fn needed(&mut self, item: &Item, place: Place<'_>) -> Result<Node, Error> {
        Ok(self.node(item, place)?.unwrap_or(Node::False))
    }

    /// The node of an item; none where it has nothing to search for and may be left out.
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
            Item::Term { field, .. }
            | Item::Phrase { field, .. }
            | Item::Equiv { field, .. }
            | Item::Alternatives { field, .. } => self.term(item, field, place)?,
            Item::Near { .. } => self.near(item, place)?,
            Item::SameElement { field, children, elements, .. } => {
                self.same_element(field, children, elements, place)?
            }
            Item::Range { field, low, high, annotations, .. } => {
                let bounds = (*low, *high);
                let text = describe(bounds);
                let languages = self.languages();
                self.each(field, place, annotations, &text, |target| match bounds {
                    // A number is a word where there are only words.
                    (Bound::Inclusive(low), Bound::Inclusive(high))
                        if low == high && target::holds_text(target.value_type) =>
                    {
                        Words::new(target, annotations, languages).term(&text, &Match::Word)
                    }
                    _ => range(target, bounds),
                })?
            }
            Item::In { field, values, annotations } => self.set(field, place, annotations, values)?,
            Item::Weighted { operator, field, tokens, annotations } => {
                self.weighted(*operator, field, tokens, annotations, place)?
            }
            Item::NearestNeighbor(nearest) => self.nearest(nearest)?,
            Item::GeoLocation { field, latitude, longitude, radius_km, annotations } => {
                check_degrees(field, *latitude, *longitude)?;
                let predicate = Predicate::GeoCircle {
                    latitude: *latitude,
                    longitude: *longitude,
                    radius_km: (*radius_km >= 0.0).then_some(*radius_km),
                };
                self.place(field, annotations, predicate)?
            }
            Item::GeoBoundingBox { field, corners, annotations } => {
                let [south, west, north, east] = *corners;
                check_degrees(field, south, west)?;
                check_degrees(field, north, east)?;
                self.place(field, annotations, Predicate::GeoBox(*corners))?
            }
            Item::Predicate { field, .. } => {
                return Err(wrong(
                    field,
                    "predicate fields cannot be searched by streaming; store the conditions as fields",
                ));
            }
        }))
    }

    /// The nodes of those that have something to search for; none where there are none.
    fn nodes(&mut self, items: &[Item], place: Place<'_>) -> Result<Option<Vec<Node>>, Error> {
        let mut nodes = Vec::with_capacity(items.len());
        for item in items {
            nodes.extend(self.node(item, place)?);
        }
        Ok((!nodes.is_empty()).then_some(nodes))
    }

    /// The fields that a name means where it stands; none where only other schemas have it.
    fn targets(&self, field: &str, place: Place<'_>) -> Result<Vec<Target<'a>>, Error> {
        let path = match place.element {
            None => field.to_owned(),
            Some(parent) if field.is_empty() => parent.to_owned(),
            Some(parent) => format!("{parent}.{field}"),
        };
        match target::resolve(self.schema, &path) {
            Err(Error::UnknownField { .. }) if (self.context.known_elsewhere)(field) => Ok(Vec::new()),
            // What a person typed matches nothing there; whether it could match anything is seen once all of it is read.
            Err(error @ Error::UnknownField { .. }) if place.typed => {
                self.unknown.borrow_mut().get_or_insert(error);
                Ok(Vec::new())
            }
            targets => targets,
        }
    }

    /// A term over all fields that a name means, with one predicate in each.
    fn each(
        &mut self,
        field: &str,
        place: Place<'_>,
        annotations: &Annotations,
        text: &str,
        predicate: impl Fn(&Target<'_>) -> Result<Option<Predicate>, Error>,
    ) -> Result<Node, Error> {
        let targets = self.targets(field, place)?;
        let is_one = targets.len() == 1;
        let mut found = Vec::new();
        for target in &targets {
            match predicate(target) {
                Ok(predicate) => found.extend(predicate.map(|predicate| (target, predicate))),
                Err(error) if is_one && !place.typed => return Err(error),
                // One field of a fieldset, or what a person typed: it matches nothing there.
                Err(_) => {}
            }
        }
        let term = self.new_term(text, annotations);
        let mut nodes = Vec::with_capacity(found.len());
        for (target, predicate) in found {
            nodes.push(self.leaf_node(target, predicate, term, None)?);
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
        dot_product_above: Option<f64>,
    ) -> Result<LeafId, Error> {
        if self.leaves.len() == MAX_LEAVES {
            return Err(Error::TooLarge { limit: MAX_LEAVES });
        }
        let id = LeafId(self.leaves.len());
        self.leaves.push(Leaf { field: Arc::clone(&target.path), predicate, term, dot_product_above });
        if let Some(TermId(term)) = term {
            self.terms[term].leaves.push(id);
        }
        Ok(id)
    }

    /// A leaf as a node; for one entry of a map, bound to its key.
    fn leaf_node(
        &mut self,
        target: &Target<'_>,
        predicate: Predicate,
        term: Option<TermId>,
        dot_product_above: Option<f64>,
    ) -> Result<Node, Error> {
        let node = Node::Leaf(self.leaf(target, predicate, term, dot_product_above)?);
        let Some(key) = &target.key else { return Ok(node) };
        let place = Place { element: None, typed: false };
        let mut keys = self.targets(&format!("{}.key", target.field.name), place)?;
        let Some(key_target) = keys.pop() else { return Ok(Node::False) };
        let annotations = Annotations { ranked: false, ..Annotations::default() };
        let predicate =
            Words::new(&key_target, &annotations, Languages::default()).term(key, &Match::Word)?;
        let Some(predicate) = predicate else { return Ok(Node::False) };
        let key = Node::Leaf(self.leaf(&key_target, predicate, None, None)?);
        Ok(Node::SameElement {
            field: Arc::clone(&target.field.name),
            child: Box::new(Node::And(vec![key, node])),
            elements: Vec::new(),
        })
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
            // An alias, or a mistake.
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

    /// `in`: values that are words of a text field may be several words each.
    fn set(
        &mut self,
        field: &str,
        place: Place<'_>,
        annotations: &Annotations,
        values: &[String],
    ) -> Result<Node, Error> {
        let weighted: Vec<(String, i32)> = values.iter().map(|value| (value.clone(), 1)).collect();
        let languages = self.languages();
        self.each(field, place, annotations, "in", |target| any_of(target, annotations, languages, &weighted))
    }

    fn weighted(
        &mut self,
        operator: WeightedOperator,
        field: &str,
        tokens: &[(String, i32)],
        annotations: &Annotations,
        place: Place<'_>,
    ) -> Result<Node, Error> {
        let (name, above) = match operator {
            WeightedOperator::WeightedSet => ("weightedSet", None),
            WeightedOperator::DotProduct => ("dotProduct", Some(f64::NEG_INFINITY)),
            WeightedOperator::Wand { score_threshold, .. } => ("wand", Some(score_threshold)),
        };
        let languages = self.languages();
        let term = self.terms.len();
        let node = self
            .each(field, place, annotations, name, |target| any_of(target, annotations, languages, tokens))?;
        if let Some(term) = self.terms.get(term) {
            for LeafId(leaf) in term.leaves.clone() {
                self.leaves[leaf].dot_product_above = above;
            }
        }
        Ok(node)
    }

    fn nearest(&mut self, nearest: &NearestNeighbor) -> Result<Node, Error> {
        let place = Place { element: None, typed: false };
        let targets = self.targets(&nearest.field, place)?;
        let Some(target) = targets.first() else { return Ok(Node::False) };
        let DataType::Tensor(tensor_type) = &target.field.data_type else {
            let reason =
                format!("nearestNeighbor needs a tensor, and it is of type {}", target.field.data_type);
            return Err(wrong(&nearest.field, reason));
        };
        let Some(attribute) = &target.field.attribute else {
            return Err(wrong(
                &nearest.field,
                "nearestNeighbor needs an attribute; write: indexing: attribute",
            ));
        };
        if tensor_type.indexed().count() != 1 {
            let reason = format!(
                "nearestNeighbor needs one indexed dimension, as in tensor<float>(x[384]); it is {tensor_type}"
            );
            return Err(wrong(&nearest.field, reason));
        }
        let metric = attribute.distance_metric;
        let vector = self.inputs.tensor(&nearest.query_tensor, self.profile, &vector_type(tensor_type))?;
        check_vector(&nearest.query_tensor, &vector, tensor_type)?;
        let predicate = Predicate::Nearest {
            target: vector,
            metric,
            target_hits: nearest.target_hits,
            threshold: nearest.distance_threshold,
        };
        let term = self.new_term(&nearest.query_tensor, &nearest.annotations);
        self.leaf_node(target, predicate, term, None)
    }

    fn place(&mut self, field: &str, annotations: &Annotations, predicate: Predicate) -> Result<Node, Error> {
        let place = Place { element: None, typed: false };
        let only = || self.schema.fields.values().find(|field| holds_positions(&field.data_type));
        let field = match only() {
            Some(only) if field.is_empty() => &only.name,
            _ => field,
        };
        self.each(field, place, annotations, field, |target| match target.value_type {
            DataType::Position => Ok(Some(predicate.clone())),
            other => Err(wrong(
                &target.path,
                format!("it holds {other}; a place on earth needs the type position"),
            )),
        })
    }
}

fn holds_positions(data_type: &DataType) -> bool {
    match data_type {
        DataType::Position => true,
        DataType::Array(element) => holds_positions(element),
        _ => false,
    }
}

/// The predicate of values with weights in one field; none where nothing can match it.
fn any_of(
    target: &Target<'_>,
    annotations: &Annotations,
    languages: Languages<'_>,
    values: &[(String, i32)],
) -> Result<Option<Predicate>, Error> {
    let words = Words::new(target, annotations, languages);
    let predicate = match number::kind(target.value_type) {
        Some(number::Kind::Integer) => {
            let number =
                |(text, weight): &(String, i32)| match text.trim().trim_end_matches(['L', 'l']).parse() {
                    Ok(number) => Ok((number, *weight)),
                    Err(_) => Err(wrong(
                        &target.path,
                        format!("it holds {}, and {text:?} is no whole number", target.value_type),
                    )),
                };
            let mut numbers = values.iter().map(number).collect::<Result<Vec<(i64, i32)>, _>>()?;
            numbers.sort_unstable();
            numbers.dedup_by_key(|(number, _)| *number);
            Predicate::NumberIn(numbers)
        }
        Some(number::Kind::Float(_)) | None if !target::holds_text(target.value_type) => {
            let reason =
                format!("it holds {}; a set of values needs whole numbers or strings", target.value_type);
            return Err(wrong(&target.path, reason));
        }
        _ if target.is_text() => {
            let stems = |(text, weight): &(String, i32)| {
                let weight = *weight;
                words.stems(text).into_iter().flatten().map(move |stem| (stem, weight))
            };
            let mut words: Vec<(String, i32)> = values.iter().flat_map(stems).collect();
            words.sort();
            words.dedup_by(|later, first| later.0 == first.0);
            Predicate::WordIn(words)
        }
        _ => {
            let mut values: Vec<(String, i32)> =
                values.iter().map(|(text, weight)| (words.folded(text), *weight)).collect();
            values.sort();
            values.dedup_by(|later, first| later.0 == first.0);
            Predicate::ValueIn { values, cased: words.is_cased() }
        }
    };
    let is_empty = match &predicate {
        Predicate::NumberIn(numbers) => numbers.is_empty(),
        Predicate::WordIn(words) | Predicate::ValueIn { values: words, .. } => words.is_empty(),
        _ => false,
    };
    Ok((!is_empty).then_some(predicate))
}

fn range(target: &Target<'_>, (low, high): (Bound, Bound)) -> Result<Option<Predicate>, Error> {
    if low == Bound::Open && high == Bound::Open && number::kind(target.value_type).is_some() {
        return Ok(Some(Predicate::Present));
    }
    let kind = number::kind(target.value_type).ok_or_else(|| {
        let hint = match target.value_type {
            DataType::Bool => format!("; write: {} = true", target.path),
            other if target::holds_text(other) => {
                format!("; for text write: {} contains \"word\"", target.path)
            }
            _ => String::new(),
        };
        wrong(&target.path, format!("it holds {}, which is no number{hint}", target.value_type))
    })?;
    Ok(number::range(kind, low, high).map(Predicate::Number))
}

/// The type that the query's vector for a field of this type has.
fn vector_type(field_type: &TensorType) -> String {
    let dimension =
        field_type.indexed().map(|(name, size)| format!("{name}[{size}]")).next().unwrap_or_default();
    format!("tensor<float>({dimension})")
}

fn check_vector(name: &str, vector: &Tensor, field_type: &TensorType) -> Result<(), Error> {
    let given = vector.tensor_type();
    let mut wanted = field_type.dimensions().iter().filter(|d| matches!(d.kind, DimensionKind::Indexed(_)));
    if given.dimensions().len() == 1 && given.dimensions().first() == wanted.next() {
        return Ok(());
    }
    Err(Error::Input {
        name: name.to_owned(),
        reason: format!(
            "the field is a {field_type}, so its query vector is a {}, not a {given}",
            vector_type(field_type)
        ),
    })
}

fn check_degrees(field: &str, latitude: f64, longitude: f64) -> Result<(), Error> {
    if latitude.abs() <= 90.0 && longitude.abs() <= 180.0 {
        return Ok(());
    }
    Err(wrong(
        field,
        format!("{latitude} {longitude} is no place; latitudes are -90 to 90, longitudes -180 to 180"),
    ))
}

fn describe((low, high): (Bound, Bound)) -> String {
    let text = |bound: Bound| match bound {
        Bound::Open => String::new(),
        Bound::Inclusive(number) | Bound::Exclusive(number) => number.to_string(),
    };
    if low == high { text(low) } else { format!("[{};{}]", text(low), text(high)) }
}

/// All of them; those that match always are left out.
fn and(mut nodes: Vec<Node>) -> Node {
    nodes.retain(|node| *node != Node::True);
    match nodes.len() {
        0 => Node::True,
        1 => nodes.remove(0),
        _ => Node::And(nodes),
    }
}

/// Any of them; those that never match are left out.
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

/// The only word of a predicate of one exact word.
fn single(predicate: &Predicate) -> Option<&str> {
    match predicate {
        Predicate::Words(patterns) => match patterns.as_slice() {
            [WordPattern::Exact(word)] => Some(word),
            _ => None,
        },
        _ => None,
    }
}
