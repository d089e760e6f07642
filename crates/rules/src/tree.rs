//! Editable query tree: groups of nodes, and terms that conditions can match.

use millrace_linguistics::Analyzer;
use millrace_query::{Annotations, Item, Match, PhraseWord};

use crate::base::words_of;
use crate::syntax::TermType;

/// Field of terms without a label.
pub(crate) const DEFAULT_FIELD: &str = "default";

#[derive(Debug, Clone)]
pub(crate) enum Node {
    Term(Term),
    Group(Group),
    /// A part of the query that rules do not examine.
    Other(Item),
}

/// A term that conditions can match.
#[derive(Debug, Clone)]
pub(crate) struct Term {
    /// Unique number in the tree; a copy gets its own.
    pub(crate) id: usize,
    pub(crate) item: Item,
    /// Words compared with conditions.
    pub(crate) words: Vec<String>,
    /// Number of the rule that produced it.
    pub(crate) by: Option<usize>,
}

#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) kind: Kind,
    pub(crate) children: Vec<Node>,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    And,
    Or,
    WeakAnd {
        target_hits: u32,
        annotations: Annotations,
    },
    /// The first child, a group, determines the match.
    Rank,
    /// The first child, a group, must match; the others must not.
    Not,
    Phrase {
        field: String,
        annotations: Annotations,
    },
    Equiv {
        annotations: Annotations,
    },
    /// Text typed by a user: one child, a group.
    Typed,
}

/// Builder of a tree; numbers its terms.
pub(crate) struct Builder {
    analyzer: Analyzer,
    next: usize,
}

impl Builder {
    pub(crate) fn new(analyzer: Analyzer) -> Self {
        Builder { analyzer, next: 0 }
    }

    /// Tree of an item; its root is a group.
    pub(crate) fn tree(&mut self, item: &Item) -> Node {
        let node = self.node(item);
        grouped(node)
    }

    fn node(&mut self, item: &Item) -> Node {
        let kind = match item {
            Item::And(_) => Kind::And,
            Item::Or(_) => Kind::Or,
            Item::Rank(_) => Kind::Rank,
            Item::WeakAnd { target_hits, annotations, .. } => {
                Kind::WeakAnd { target_hits: *target_hits, annotations: annotations.clone() }
            }
            Item::Not { positive, negatives } => {
                let mut children = vec![self.tree(positive)];
                children.extend(negatives.iter().map(|negative| self.node(negative)));
                return group(Kind::Not, children);
            }
            Item::Phrase { field, words, annotations } if is_plain(words) && !annotations.filter => {
                let word = |word: &PhraseWord| Item::Term {
                    field: field.clone(),
                    text: word.text.clone(),
                    matching: Match::Word,
                    annotations: Annotations::default(),
                };
                let children = words.iter().map(word).map(|item| self.term(item, None)).collect();
                return group(
                    Kind::Phrase { field: field.clone(), annotations: annotations.clone() },
                    children,
                );
            }
            Item::Equiv { annotations, .. } => Kind::Equiv { annotations: annotations.clone() },
            Item::Typed(inner) => {
                let inner = self.tree(inner);
                return group(Kind::Typed, vec![inner]);
            }
            Item::Term { matching: Match::Word, annotations, .. } if !annotations.filter => {
                return self.term(item.clone(), None);
            }
            other => return Node::Other(other.clone()),
        };
        let children = match item {
            Item::And(items) | Item::Or(items) | Item::Rank(items) => items,
            Item::WeakAnd { children, .. } | Item::Equiv { words: children, .. } => children,
            _ => return Node::Other(item.clone()),
        };
        let mut children: Vec<Node> = children.iter().map(|child| self.node(child)).collect();
        if matches!(kind, Kind::Rank) && !children.is_empty() {
            let first = children.remove(0);
            children.insert(0, grouped(first));
        }
        group(kind, children)
    }

    /// A new term.
    pub(crate) fn term(&mut self, item: Item, by: Option<usize>) -> Node {
        self.next += 1;
        let words = match &item {
            Item::Term { text, .. } => words_of(&self.analyzer, &text.text),
            _ => Vec::new(),
        };
        Node::Term(Term { id: self.next, item, words, by })
    }
}

pub(crate) fn group(kind: Kind, children: Vec<Node>) -> Node {
    Node::Group(Group { kind, children })
}

/// Wraps a node that is not a group into one.
fn grouped(node: Node) -> Node {
    match node {
        Node::Group(_) => node,
        other => group(Kind::And, vec![other]),
    }
}

impl Term {
    pub(crate) fn field(&self) -> &str {
        match &self.item {
            Item::Term { field, .. } => field,
            _ => "",
        }
    }

    pub(crate) fn text(&self) -> &str {
        match &self.item {
            Item::Term { text, .. } => &text.text,
            _ => "",
        }
    }

    /// True if it is in the field given by a label, or without a label in the default field.
    pub(crate) fn has_label(&self, label: Option<&str>) -> bool {
        let field = self.field();
        match label {
            Some(label) => field == label,
            None => field.is_empty() || field == DEFAULT_FIELD,
        }
    }
}

impl Node {
    /// Converts to an item; `None` if nothing is left of it.
    pub(crate) fn item(&self) -> Option<Item> {
        match self {
            Node::Term(term) => Some(term.item.clone()),
            Node::Other(item) => Some(item.clone()),
            Node::Group(group) => group.item(),
        }
    }

    /// Number of its terms and of other leaves.
    pub(crate) fn size(&self) -> usize {
        match self {
            Node::Group(group) => group.children.iter().map(Node::size).sum(),
            _ => 1,
        }
    }

    /// True if this rule produced all of its terms.
    pub(crate) fn is_by(&self, rule: usize) -> bool {
        match self {
            Node::Term(term) => term.by == Some(rule),
            Node::Group(group) => group.children.iter().all(|child| child.is_by(rule)),
            Node::Other(_) => false,
        }
    }

    /// Number of its first term.
    pub(crate) fn first_id(&self) -> Option<usize> {
        match self {
            Node::Term(term) => Some(term.id),
            Node::Group(group) => group.children.iter().find_map(Node::first_id),
            Node::Other(_) => None,
        }
    }

    /// Paths of all groups whose children conditions can match, outer ones first.
    pub(crate) fn places(&self) -> Vec<Vec<usize>> {
        fn collect(node: &Node, way: &mut Vec<usize>, places: &mut Vec<Vec<usize>>) {
            let Node::Group(group) = node else { return };
            if !matches!(group.kind, Kind::Typed) {
                places.push(way.clone());
            }
            for (at, child) in group.children.iter().enumerate() {
                way.push(at);
                collect(child, way, places);
                way.pop();
            }
        }
        let mut places = Vec::new();
        collect(self, &mut Vec::new(), &mut places);
        places
    }

    /// The node at a path.
    pub(crate) fn at(&self, place: &[usize]) -> Option<&Node> {
        match (place.split_first(), self) {
            (None, node) => Some(node),
            (Some((first, rest)), Node::Group(group)) => group.children.get(*first)?.at(rest),
            _ => None,
        }
    }

    /// Mutable access to the node at a path.
    pub(crate) fn at_mut(&mut self, place: &[usize]) -> Option<&mut Node> {
        match (place.split_first(), self) {
            (None, node) => Some(node),
            (Some((first, rest)), Node::Group(group)) => group.children.get_mut(*first)?.at_mut(rest),
            _ => None,
        }
    }

    /// Combines both nodes in the way of a term type.
    pub(crate) fn combined(self, term_type: TermType, other: Node) -> Node {
        let is_empty = matches!(&self, Node::Group(group) if group.children.is_empty());
        if is_empty && term_type != TermType::Not {
            return group(Kind::And, vec![other]);
        }
        match self {
            Node::Group(Group { kind, mut children }) if kind.joins(term_type) => {
                children.push(other);
                group(kind, children)
            }
            node => {
                let kind = match term_type {
                    TermType::And | TermType::Context => Kind::And,
                    TermType::Or => Kind::Or,
                    TermType::Rank => Kind::Rank,
                    TermType::Not => Kind::Not,
                    TermType::Equiv => Kind::Equiv { annotations: Annotations::default() },
                };
                group(kind, vec![node, other])
            }
        }
    }
}

impl Kind {
    /// True if it combines its children in the way of a term type.
    pub(crate) fn joins(&self, term_type: TermType) -> bool {
        match term_type {
            TermType::And => matches!(self, Kind::And),
            TermType::Or => matches!(self, Kind::Or),
            TermType::Rank => matches!(self, Kind::Rank),
            TermType::Not => matches!(self, Kind::Not),
            TermType::Equiv => matches!(self, Kind::Equiv { .. }),
            TermType::Context => true,
        }
    }
}

impl Group {
    fn item(&self) -> Option<Item> {
        let several = |mut items: Vec<Item>, many: fn(Vec<Item>) -> Item| match items.len() {
            0 => None,
            1 => Some(items.remove(0)),
            _ => Some(many(items)),
        };
        let all = |nodes: &[Node]| nodes.iter().filter_map(Node::item).collect::<Vec<_>>();
        match &self.kind {
            Kind::And => several(all(&self.children), Item::And),
            Kind::Or => several(all(&self.children), Item::Or),
            Kind::WeakAnd { target_hits, annotations } => {
                let children = all(&self.children);
                (!children.is_empty()).then(|| Item::WeakAnd {
                    children,
                    target_hits: *target_hits,
                    annotations: annotations.clone(),
                })
            }
            Kind::Rank | Kind::Not => {
                let (first, rest) = self.children.split_first()?;
                let (first, mut rest) = (first.item(), all(rest));
                match (first, matches!(self.kind, Kind::Rank)) {
                    (Some(first), _) if rest.is_empty() => Some(first),
                    (Some(first), true) => {
                        rest.insert(0, first);
                        Some(Item::Rank(rest))
                    }
                    (Some(first), false) => Some(Item::Not { positive: Box::new(first), negatives: rest }),
                    // Children that were only for ranking must match if no other child is left.
                    (None, true) => several(rest, Item::Or),
                    (None, false) => None,
                }
            }
            Kind::Phrase { field, annotations } => phrase(field, annotations, &self.children),
            Kind::Equiv { annotations } => equivalents(annotations, all(&self.children)),
            Kind::Typed => Some(Item::Typed(Box::new(self.children.first()?.item()?))),
        }
    }
}

fn phrase(field: &str, annotations: &Annotations, children: &[Node]) -> Option<Item> {
    let words = children.iter().filter_map(|child| match child.item()? {
        Item::Term { text, .. } => Some(text),
        _ => None,
    });
    let mut words: Vec<_> = words.collect();
    let (field, annotations) = (field.to_owned(), annotations.clone());
    match words.len() {
        0 => None,
        1 => Some(Item::Term { field, text: words.remove(0), matching: Match::Word, annotations }),
        _ => {
            let words = words.into_iter().map(PhraseWord::from).collect();
            Some(Item::Phrase { field, words, annotations })
        }
    }
}

/// True if all of them match by their field's defaults.
fn is_plain(words: &[PhraseWord]) -> bool {
    words.iter().all(|word| word.matching == Match::Word)
}

/// Equivalents have one field; terms of several fields are alternatives.
fn equivalents(annotations: &Annotations, mut items: Vec<Item>) -> Option<Item> {
    fn field(item: &Item) -> Option<&str> {
        match item {
            Item::Term { field, .. } | Item::Phrase { field, .. } => Some(field),
            _ => None,
        }
    }
    match items.len() {
        0 => None,
        1 => Some(items.remove(0)),
        _ => match field(&items[0]).map(str::to_owned) {
            Some(first) if items.iter().all(|item| field(item) == Some(&first)) => {
                Some(Item::Equiv { field: first, words: items, annotations: annotations.clone() })
            }
            _ => Some(Item::Or(items)),
        },
    }
}
