//! Editable query tree: groups of nodes, and terms that conditions can match.

use std::collections::BTreeSet;

use millrace_linguistics::FieldAnalyzer;
use millrace_query::{ItemAnnotations, PhraseWord, QueryItem, TermMatch, TermText};

use crate::base::words_of;
use crate::syntax::TermType;

/// Field of terms without a label.
pub(crate) const DEFAULT_FIELD: &str = "default";

/// Hits that `~` asks for: as many as `weakAnd` without an annotation.
const WEAK_AND_HITS: u32 = 100;

#[derive(Debug, Clone)]
pub(crate) enum RuleNode {
    Term(RuleTerm),
    Group(RuleGroup),
    /// A part of the query that rules do not examine.
    Other(QueryItem),
}

/// A term that conditions can match.
#[derive(Debug, Clone)]
pub(crate) struct RuleTerm {
    /// Unique number in the tree; a copy gets its own.
    pub(crate) id: usize,
    pub(crate) item: QueryItem,
    /// Words compared with conditions.
    pub(crate) words: Vec<String>,
    /// Number of the rule that produced it.
    pub(crate) by: Option<usize>,
    /// Group of its words, if it was typed as several that punctuation joins.
    pub(crate) segment: Option<Box<RuleNode>>,
}

#[derive(Debug, Clone)]
pub(crate) struct RuleGroup {
    pub(crate) kind: RuleGroupKind,
    pub(crate) children: Vec<RuleNode>,
}

#[derive(Debug, Clone)]
pub(crate) enum RuleGroupKind {
    And,
    Or,
    WeakAnd {
        target_hits: u32,
        annotations: ItemAnnotations,
    },
    /// The first child, a group, determines the match.
    Rank,
    /// The first child, a group, must match; the others must not.
    Not,
    Phrase {
        field: String,
        annotations: ItemAnnotations,
    },
    Equiv {
        annotations: ItemAnnotations,
    },
    /// Text typed by a user: one child, a group.
    Typed,
    /// Words that punctuation joins. Once a rule changes them, they are a group of words like others.
    Segment,
}

/// Builder of a tree; numbers its terms.
pub(crate) struct RuleTreeBuilder {
    analyzer: FieldAnalyzer,
    next: usize,
    /// True within text that was typed.
    is_typed: bool,
}

impl RuleTreeBuilder {
    pub(crate) fn new(analyzer: FieldAnalyzer) -> Self {
        RuleTreeBuilder { analyzer, next: 0, is_typed: false }
    }

    /// Tree of an item; its root is a group.
    pub(crate) fn tree(&mut self, item: &QueryItem) -> RuleNode {
        let node = self.node(item);
        grouped(node)
    }

    fn node(&mut self, item: &QueryItem) -> RuleNode {
        let kind = match item {
            QueryItem::And(_) => RuleGroupKind::And,
            QueryItem::Or(_) => RuleGroupKind::Or,
            QueryItem::Rank(_) => RuleGroupKind::Rank,
            QueryItem::WeakAnd { target_hits, annotations, .. } => {
                RuleGroupKind::WeakAnd { target_hits: *target_hits, annotations: annotations.clone() }
            }
            QueryItem::Not { positive, negatives } => {
                let mut children = vec![self.tree(positive)];
                children.extend(negatives.iter().map(|negative| self.node(negative)));
                return group(RuleGroupKind::Not, children);
            }
            QueryItem::Phrase { field, words, annotations } if is_plain(words) && !annotations.filter => {
                let word = |word: &PhraseWord| QueryItem::Term {
                    field: field.clone(),
                    text: word.text.clone(),
                    matching: TermMatch::Word,
                    annotations: ItemAnnotations::default(),
                };
                let children = words.iter().map(word).map(|item| self.term(item, None)).collect();
                return group(
                    RuleGroupKind::Phrase { field: field.clone(), annotations: annotations.clone() },
                    children,
                );
            }
            QueryItem::Equiv { annotations, .. } => RuleGroupKind::Equiv { annotations: annotations.clone() },
            QueryItem::Typed(inner) => {
                let outer = std::mem::replace(&mut self.is_typed, true);
                let inner = self.tree(inner);
                self.is_typed = outer;
                return group(RuleGroupKind::Typed, vec![inner]);
            }
            QueryItem::Term { matching: TermMatch::Word, annotations, .. } if !annotations.filter => {
                return self.term(item.clone(), None);
            }
            other => return RuleNode::Other(other.clone()),
        };
        let children = match item {
            QueryItem::And(items) | QueryItem::Or(items) | QueryItem::Rank(items) => items,
            QueryItem::WeakAnd { children, .. } | QueryItem::Equiv { words: children, .. } => children,
            _ => return RuleNode::Other(item.clone()),
        };
        let mut children: Vec<RuleNode> = children.iter().map(|child| self.node(child)).collect();
        if matches!(kind, RuleGroupKind::Rank) && !children.is_empty() {
            let first = children.remove(0);
            children.insert(0, grouped(first));
        }
        group(kind, children)
    }

    /// A new term.
    pub(crate) fn term(&mut self, item: QueryItem, by: Option<usize>) -> RuleNode {
        self.next += 1;
        let words = match &item {
            QueryItem::Term { text, .. } => words_of(&self.analyzer, &text.text),
            _ => Vec::new(),
        };
        let id = self.next;
        let segment = if self.is_typed && words.len() > 1 { self.segment(&item) } else { None };
        RuleNode::Term(RuleTerm { id, item, words, by, segment })
    }

    /// Group of the words of a typed term; `None` if it stays in one piece: text in quotes, special tokens
    /// and numbers.
    fn segment(&mut self, item: &QueryItem) -> Option<Box<RuleNode>> {
        let QueryItem::Term { field, text, matching: TermMatch::Word, annotations } = item else {
            return None;
        };
        if text.together || text.text.parse::<f64>().is_ok() {
            return None;
        }
        let mut words = Vec::new();
        self.analyzer.tokens(&text.text, |token| {
            words.push(QueryItem::Term {
                field: field.clone(),
                text: TermText::from(&text.text[token.range]),
                matching: TermMatch::Word,
                annotations: annotations.clone(),
            });
        });
        let outer = std::mem::replace(&mut self.is_typed, false);
        let words = words.into_iter().map(|word| self.term(word, None)).collect();
        self.is_typed = outer;
        Some(Box::new(group(RuleGroupKind::Segment, words)))
    }
}

pub(crate) fn group(kind: RuleGroupKind, children: Vec<RuleNode>) -> RuleNode {
    RuleNode::Group(RuleGroup { kind, children })
}

/// Wraps a node that is not a group into one.
fn grouped(node: RuleNode) -> RuleNode {
    match node {
        RuleNode::Group(_) => node,
        other => group(RuleGroupKind::And, vec![other]),
    }
}

impl RuleTerm {
    pub(crate) fn field(&self) -> &str {
        match &self.item {
            QueryItem::Term { field, .. } => field,
            _ => "",
        }
    }

    pub(crate) fn text(&self) -> &str {
        match &self.item {
            QueryItem::Term { text, .. } => &text.text,
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

impl RuleNode {
    /// Converts to an item; `None` if nothing is left of it.
    pub(crate) fn item(&self) -> Option<QueryItem> {
        match self {
            RuleNode::Term(term) => Some(term.item.clone()),
            RuleNode::Other(item) => Some(item.clone()),
            RuleNode::Group(group) => group.item(),
        }
    }

    /// Number of its terms and of other leaves.
    pub(crate) fn size(&self) -> usize {
        match self {
            RuleNode::Group(group) => group.children.iter().map(RuleNode::size).sum(),
            _ => 1,
        }
    }

    /// True if this rule produced all of its terms.
    pub(crate) fn is_by(&self, rule: usize) -> bool {
        match self {
            RuleNode::Term(term) => term.by == Some(rule),
            RuleNode::Group(group) => group.children.iter().all(|child| child.is_by(rule)),
            RuleNode::Other(_) => false,
        }
    }

    /// Number of its first term.
    pub(crate) fn first_id(&self) -> Option<usize> {
        match self {
            RuleNode::Term(term) => Some(term.id),
            RuleNode::Group(group) => group.children.iter().find_map(RuleNode::first_id),
            RuleNode::Other(_) => None,
        }
    }

    /// Paths of all groups whose children conditions can match, outer ones first.
    pub(crate) fn group_paths(&self) -> Vec<Vec<usize>> {
        fn collect(node: &RuleNode, path: &mut Vec<usize>, paths: &mut Vec<Vec<usize>>) {
            let RuleNode::Group(group) = node else { return };
            if !matches!(group.kind, RuleGroupKind::Typed) {
                paths.push(path.clone());
            }
            for (at, child) in group.children.iter().enumerate() {
                path.push(at);
                collect(child, path, paths);
                path.pop();
            }
        }
        let mut paths = Vec::new();
        collect(self, &mut Vec::new(), &mut paths);
        paths
    }

    /// The node at a path.
    pub(crate) fn at(&self, path: &[usize]) -> Option<&RuleNode> {
        match (path.split_first(), self) {
            (None, node) => Some(node),
            (Some((first, rest)), RuleNode::Group(group)) => group.children.get(*first)?.at(rest),
            _ => None,
        }
    }

    /// Mutable access to the node at a path.
    pub(crate) fn at_mut(&mut self, path: &[usize]) -> Option<&mut RuleNode> {
        match (path.split_first(), self) {
            (None, node) => Some(node),
            (Some((first, rest)), RuleNode::Group(group)) => group.children.get_mut(*first)?.at_mut(rest),
            _ => None,
        }
    }

    /// Combines both nodes in the way of a term type.
    pub(crate) fn combined(self, term_type: TermType, other: RuleNode) -> RuleNode {
        let is_empty = matches!(&self, RuleNode::Group(group) if group.children.is_empty());
        if is_empty && term_type != TermType::Not {
            return group(RuleGroupKind::And, vec![other]);
        }
        match self {
            RuleNode::Group(RuleGroup { kind, mut children }) if kind.combines_as(term_type) => {
                children.push(other);
                group(kind, children)
            }
            node => {
                let kind = match term_type {
                    TermType::And | TermType::Context => RuleGroupKind::And,
                    TermType::Or => RuleGroupKind::Or,
                    TermType::Rank => RuleGroupKind::Rank,
                    TermType::Not => RuleGroupKind::Not,
                    TermType::Equiv => RuleGroupKind::Equiv { annotations: ItemAnnotations::default() },
                    TermType::WeakAnd => RuleGroupKind::WeakAnd {
                        target_hits: WEAK_AND_HITS,
                        annotations: ItemAnnotations::default(),
                    },
                };
                group(kind, vec![node, other])
            }
        }
    }
}

impl RuleGroupKind {
    /// True if it combines its children in the way of a term type.
    pub(crate) fn combines_as(&self, term_type: TermType) -> bool {
        match term_type {
            TermType::And => matches!(self, RuleGroupKind::And),
            TermType::Or => matches!(self, RuleGroupKind::Or),
            TermType::Rank => matches!(self, RuleGroupKind::Rank),
            TermType::Not => matches!(self, RuleGroupKind::Not),
            TermType::Equiv => matches!(self, RuleGroupKind::Equiv { .. }),
            TermType::WeakAnd => matches!(self, RuleGroupKind::WeakAnd { .. }),
            TermType::Context => true,
        }
    }
}

impl RuleGroup {
    fn item(&self) -> Option<QueryItem> {
        let several = |mut items: Vec<QueryItem>, many: fn(Vec<QueryItem>) -> QueryItem| match items.len() {
            0 => None,
            1 => Some(items.remove(0)),
            _ => Some(many(items)),
        };
        let all = |nodes: &[RuleNode]| nodes.iter().filter_map(RuleNode::item).collect::<Vec<_>>();
        match &self.kind {
            RuleGroupKind::And | RuleGroupKind::Segment => several(all(&self.children), QueryItem::And),
            RuleGroupKind::Or => several(all(&self.children), QueryItem::Or),
            RuleGroupKind::WeakAnd { target_hits, annotations } => {
                let children = all(&self.children);
                (!children.is_empty()).then(|| QueryItem::WeakAnd {
                    children,
                    target_hits: *target_hits,
                    annotations: annotations.clone(),
                })
            }
            RuleGroupKind::Rank | RuleGroupKind::Not => {
                let (first, rest) = self.children.split_first()?;
                let (first, mut rest) = (first.item(), all(rest));
                match (first, matches!(self.kind, RuleGroupKind::Rank)) {
                    (Some(first), _) if rest.is_empty() => Some(first),
                    (Some(first), true) => {
                        rest.insert(0, first);
                        Some(QueryItem::Rank(rest))
                    }
                    (Some(first), false) => {
                        Some(QueryItem::Not { positive: Box::new(first), negatives: rest })
                    }
                    // Children that were only for ranking must match if no other child is left.
                    (None, true) => several(rest, QueryItem::Or),
                    (None, false) => None,
                }
            }
            RuleGroupKind::Phrase { field, annotations } => phrase(field, annotations, &self.children),
            RuleGroupKind::Equiv { annotations } => equivalents(annotations, all(&self.children)),
            RuleGroupKind::Typed => Some(QueryItem::Typed(Box::new(self.children.first()?.item()?))),
        }
    }
}

fn phrase(field: &str, annotations: &ItemAnnotations, children: &[RuleNode]) -> Option<QueryItem> {
    let words = children.iter().filter_map(|child| match child.item()? {
        QueryItem::Term { text, .. } => Some(text),
        _ => None,
    });
    let mut words: Vec<_> = words.collect();
    let (field, annotations) = (field.to_owned(), annotations.clone());
    match words.len() {
        0 => None,
        1 => Some(QueryItem::Term { field, text: words.remove(0), matching: TermMatch::Word, annotations }),
        _ => {
            let words = words.into_iter().map(PhraseWord::from).collect();
            Some(QueryItem::Phrase { field, words, annotations })
        }
    }
}

/// True if all of them match by their field's defaults.
fn is_plain(words: &[PhraseWord]) -> bool {
    words.iter().all(|word| word.matching == TermMatch::Word)
}

/// Equivalents have one field, and are there once; terms of several fields are alternatives.
fn equivalents(annotations: &ItemAnnotations, mut items: Vec<QueryItem>) -> Option<QueryItem> {
    let mut known = BTreeSet::new();
    items.retain(|item| known.insert(item.to_string()));
    fn field(item: &QueryItem) -> Option<&str> {
        match item {
            QueryItem::Term { field, .. } | QueryItem::Phrase { field, .. } => Some(field),
            _ => None,
        }
    }
    match items.len() {
        0 => None,
        1 => Some(items.remove(0)),
        _ => match field(&items[0]).map(str::to_owned) {
            Some(first) if items.iter().all(|item| field(item) == Some(&first)) => {
                Some(QueryItem::Equiv { field: first, words: items, annotations: annotations.clone() })
            }
            _ => Some(QueryItem::Or(items)),
        },
    }
}
