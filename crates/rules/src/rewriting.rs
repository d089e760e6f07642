//! Application of a base's rules to a query, one after another.
//!
//! A rule is applied wherever its condition matches until there are no matches left; then the next rule is
//! applied. The output of a rule does not trigger the same rule, and an adding rule is applied once for each
//! term at which a match starts, so every rule terminates. In addition, the number of applications, the size
//! of the query and the number of steps are bounded.

use std::collections::{BTreeMap, BTreeSet};

use millrace_query::{BriefItem, ItemAnnotations, QueryItem, QueryNumber, RangeBound, TermMatch};

use crate::base::RuleBase;
use crate::matching::{ConditionMatch, ConditionMatcher};
use crate::parser::number;
use crate::syntax::{
    ProducedBound, ProducedTerm, ProductionRule, RuleCondition, RuleKind, RuleProduction, TermType,
};
use crate::tree::{DEFAULT_FIELD, RuleGroup, RuleGroupKind, RuleNode, RuleTerm, RuleTreeBuilder, group};

/// Maximum number of conditions tried per query.
const STEPS_MAX: usize = 1_000_000;
/// Maximum number of terms of a rewritten query.
const TERMS_MAX: usize = 10_000;
/// Number of applications of a rule allowed in every query, and per term of it.
const TIMES_MIN: usize = 15;
const TIMES_PER_TERM: usize = 3;

/// Result of applying a rule base to a query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRewriting {
    /// The query tree; [`QueryItem::False`] if the rules leave nothing of it.
    pub root: QueryItem,
    /// Parameters set by rules.
    pub set: BTreeMap<String, String>,
    /// Applied steps in order; at least one.
    pub steps: Vec<RewriteStep>,
}

/// An applied rule, or the reason for stopping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RewriteStep {
    /// A rule was applied.
    Applied {
        /// File, line and column of the rule in the package.
        position: String,
        /// Short form of the query after it, if requested.
        query: Option<String>,
    },
    /// A limit was reached: the remaining rules are not applied.
    Stopped {
        /// The limit.
        reason: String,
    },
}

impl RuleBase {
    /// Rewrites a query tree whose typed text was already parsed ([`QueryItem::Typed`]), with the request's
    /// parameters. Returns `None` if no rule matches.
    ///
    /// With `explains`, each step contains the query after it.
    ///
    /// Cost: tries at most one million conditions; the result has at most about ten thousand terms.
    pub fn rewrite(
        &self,
        root: &QueryItem,
        parameters: &BTreeMap<String, String>,
        explains: bool,
    ) -> Option<QueryRewriting> {
        let mut builder = RuleTreeBuilder::new(self.analyzer());
        let root = builder.tree(root);
        let mut rewriter = RuleRewriter {
            base: self,
            builder,
            root,
            parameters: parameters.clone(),
            set: BTreeMap::new(),
            left: STEPS_MAX,
            explains,
            steps: Vec::new(),
        };
        for (number, rule) in self.rules.iter().enumerate() {
            if let Err(stop) = rewriter.carry_out(number, rule) {
                rewriter.steps.push(RewriteStep::Stopped { reason: stop.to_string() });
                break;
            }
        }
        let RuleRewriter { root, set, steps, .. } = rewriter;
        (!steps.is_empty()).then(|| QueryRewriting {
            root: root.item().unwrap_or(QueryItem::False),
            set,
            steps,
        })
    }
}

struct RuleRewriter<'b> {
    base: &'b RuleBase,
    builder: RuleTreeBuilder,
    root: RuleNode,
    parameters: BTreeMap<String, String>,
    set: BTreeMap<String, String>,
    /// Number of conditions that may still be tried.
    left: usize,
    explains: bool,
    steps: Vec<RewriteStep>,
}

/// A produced node, and the way it is added to the query.
type Piece = (TermType, RuleNode);

/// Reason for which the rules that follow are not applied.
#[derive(Debug, thiserror::Error)]
enum RewriteStop {
    #[error("more than {STEPS_MAX} conditions were tried")]
    Steps,
    #[error("the query has more than {TERMS_MAX} terms")]
    Terms,
}

impl RuleRewriter<'_> {
    /// Applies a rule as often as it matches.
    fn carry_out(&mut self, number: usize, rule: &ProductionRule) -> Result<(), RewriteStop> {
        let times_max = (self.root.size() * TIMES_PER_TERM).max(TIMES_MIN);
        let mut begun = BTreeSet::new();
        let mut without_terms = false;
        for _ in 0..times_max {
            let Some((path, mut found)) = self.find(number, rule, &begun, without_terms) else {
                return match self.left {
                    0 => Err(RewriteStop::Steps),
                    _ => Ok(()),
                };
            };
            // A rule that removes leaves one term of the query.
            if rule.removes() && found.taken.len() >= self.root.size() {
                if found.taken.len() < 2 {
                    return Ok(());
                }
                found.taken.remove(0);
            }
            match found.taken.first() {
                None => without_terms = true,
                Some(first) => {
                    begun.extend(self.children(&path).get(*first).and_then(RuleNode::first_id));
                }
            }
            self.produce(number, rule, &path, &found);
            let query = || BriefItem(&self.root.item().unwrap_or(QueryItem::False)).to_string();
            let query = self.explains.then(query);
            self.steps.push(RewriteStep::Applied { position: rule.position.to_string(), query });
            if self.root.size() > TERMS_MAX {
                return Err(RewriteStop::Terms);
            }
            // An ellipsis matches what the rule made of it.
            if rule.condition.has_ellipsis() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The next match of a rule, with the path of its group. Words that punctuation joined become a group
    /// where the match is among them.
    fn find(
        &mut self,
        number: usize,
        rule: &ProductionRule,
        begun: &BTreeSet<usize>,
        without_terms: bool,
    ) -> Option<(Vec<usize>, ConditionMatch)> {
        for path in self.root.group_paths() {
            let node = self.root.at(&path)?;
            let RuleNode::Group(RuleGroup { kind, children }) = node else { continue };
            let wanted =
                |found: &ConditionMatch, children: &[RuleNode]| match (found.taken.first(), rule.kind) {
                    (None, _) => !without_terms,
                    (Some(_), RuleKind::Replacing) => {
                        found.taken.iter().any(|at| !children[*at].is_by(number))
                    }
                    (Some(first), RuleKind::Adding) => {
                        let first = &children[*first];
                        !first.is_by(number) && first.first_id().is_some_and(|id| !begun.contains(&id))
                    }
                };
            let mut matcher = ConditionMatcher::new(self.base, &self.parameters, node, &mut self.left)?;
            if let Some(found) = matcher.find(&rule.condition, &|found| wanted(found, children)) {
                return Some((path, found));
            }
            // These consist of single words.
            if matches!(kind, RuleGroupKind::Phrase { .. } | RuleGroupKind::Equiv { .. }) {
                continue;
            }
            for (at, child) in children.iter().enumerate() {
                let RuleNode::Term(RuleTerm { segment: Some(segment), .. }) = child else { continue };
                let RuleNode::Group(words) = &**segment else { continue };
                // A rule that holds without words holds around them, too.
                let wanted =
                    |found: &ConditionMatch| !found.taken.is_empty() && wanted(found, &words.children);
                let mut matcher =
                    ConditionMatcher::new(self.base, &self.parameters, segment, &mut self.left)?;
                if let Some(found) = matcher.find(&rule.condition, &wanted) {
                    let words = words.children.clone();
                    let mut path = path;
                    path.push(at);
                    *self.root.at_mut(&path)? = group(RuleGroupKind::And, words);
                    return Some((path, found));
                }
            }
        }
        None
    }

    fn children(&self, path: &[usize]) -> &[RuleNode] {
        match self.root.at(path) {
            Some(RuleNode::Group(group)) => &group.children,
            _ => &[],
        }
    }

    /// Creates the nodes of a rule's productions, and adds them to the group at a path.
    fn produce(&mut self, number: usize, rule: &ProductionRule, path: &[usize], found: &ConditionMatch) {
        let children = self.children(path).to_vec();
        let (mut pieces, mut alternatives) = (Vec::new(), Vec::new());
        for production in &rule.productions {
            self.make(number, production, found, &children, &mut pieces, &mut alternatives);
        }
        let Some(node) = self.root.at_mut(path) else { return };
        let RuleNode::Group(group) = std::mem::replace(node, group(RuleGroupKind::And, Vec::new())) else {
            return;
        };
        let EditedGroup { group, beside, around } =
            insert_output(group, rule.kind, &found.taken, pieces, alternatives);
        *node = RuleNode::Group(group);
        if !beside.is_empty() {
            self.put_beside(path, beside);
        }
        for (term_type, piece) in around {
            self.put_around(path, term_type, piece);
        }
    }

    /// Puts nodes beside the group at a path: into the enclosing group, if that combines its children as
    /// words of a query are, else with the group into one of their own.
    fn put_beside(&mut self, path: &[usize], nodes: Vec<RuleNode>) {
        if let Some((last, outer)) = path.split_last()
            && let Some(RuleNode::Group(outer)) = self.root.at_mut(outer)
            && matches!(outer.kind, RuleGroupKind::And | RuleGroupKind::WeakAnd { .. })
        {
            drop(outer.children.splice(last + 1..last + 1, nodes));
            return;
        }
        let Some(node) = self.root.at_mut(path) else { return };
        let mut together = vec![std::mem::replace(node, group(RuleGroupKind::And, Vec::new()))];
        together.extend(nodes);
        *node = group(RuleGroupKind::And, together);
    }

    /// Combines a piece with the group at a path; in the enclosing group if that already combines its
    /// children the same way.
    fn put_around(&mut self, path: &[usize], term_type: TermType, piece: RuleNode) {
        if let Some((last, outer)) = path.split_last()
            && let Some(RuleNode::Group(outer)) = self.root.at_mut(outer)
            && outer.kind.combines_as(term_type)
            && (*last == 0 || matches!(term_type, TermType::And | TermType::Or | TermType::WeakAnd))
        {
            outer.children.push(piece);
            return;
        }
        let Some(node) = self.root.at_mut(path) else { return };
        let whole = std::mem::replace(node, group(RuleGroupKind::And, Vec::new()));
        *node = whole.combined(term_type, piece);
    }

    fn make(
        &mut self,
        number: usize,
        production: &RuleProduction,
        found: &ConditionMatch,
        children: &[RuleNode],
        pieces: &mut Vec<Piece>,
        alternatives: &mut Vec<RuleNode>,
    ) {
        let RuleProduction { term_type, label, term, weight } = production;
        match term {
            ProducedTerm::Parameter { name, value } => {
                self.parameters.insert(name.clone(), value.clone());
                self.set.insert(name.clone(), value.clone());
            }
            ProducedTerm::Beyond(bound, limit) => {
                let field = label.as_deref().unwrap_or(DEFAULT_FIELD);
                let annotations = weighted(ItemAnnotations::default(), *weight);
                let node = self.builder.term(open_range(field, *bound, *limit, annotations), Some(number));
                pieces.push((*term_type, node));
            }
            ProducedTerm::Term(text) => {
                let node = self.word(number, label.as_deref(), text, *weight);
                pieces.push((*term_type, node));
            }
            ProducedTerm::Phrase(words) => {
                let node = self.phrase(number, label.as_deref(), words, *weight);
                match term_type {
                    TermType::Or => alternatives.push(node),
                    other => pieces.push((*other, node)),
                }
            }
            ProducedTerm::Reference { name, all, bound, .. } => {
                for referred in found.referred.iter().filter(|referred| referred.name == *name) {
                    let condition = if *all { Some(name) } else { referred.all.as_ref() };
                    if let Some(condition) = condition.and_then(|name| self.base.conditions.get(name)) {
                        for words in terms_of(condition) {
                            let node = match &words[..] {
                                [word] => self.word(number, label.as_deref(), word, *weight),
                                words => self.phrase(number, label.as_deref(), words, *weight),
                            };
                            pieces.push((*term_type, node));
                        }
                        continue;
                    }
                    let taken = referred.taken.iter().map(|at| &children[*at]);
                    let copies: Vec<RuleNode> = taken
                        .map(|node| self.copy(number, node, label.as_deref(), *bound, *weight))
                        .collect();
                    if !copies.is_empty() {
                        pieces.push((*term_type, combine_terms(copies, *weight)));
                    }
                }
            }
        }
    }

    fn word(&mut self, rule: usize, label: Option<&str>, text: &str, weight: Option<i32>) -> RuleNode {
        let item = QueryItem::Term {
            field: label.unwrap_or(DEFAULT_FIELD).to_owned(),
            text: text.into(),
            matching: TermMatch::Word,
            annotations: weighted(ItemAnnotations::default(), weight),
        };
        self.builder.term(item, Some(rule))
    }

    fn phrase(
        &mut self,
        rule: usize,
        label: Option<&str>,
        words: &[String],
        weight: Option<i32>,
    ) -> RuleNode {
        let children = words.iter().map(|word| self.word(rule, label, word, None)).collect();
        let field = label.unwrap_or(DEFAULT_FIELD).to_owned();
        group(
            RuleGroupKind::Phrase { field, annotations: weighted(ItemAnnotations::default(), weight) },
            children,
        )
    }

    /// Copies a matched term. With a bound, a number becomes the range beyond it.
    fn copy(
        &mut self,
        rule: usize,
        node: &RuleNode,
        label: Option<&str>,
        bound: Option<ProducedBound>,
        weight: Option<i32>,
    ) -> RuleNode {
        let RuleNode::Term(term) = node else { return node.clone() };
        if let Some((bound, limit)) = bound.zip(number(term.text())) {
            let annotations = weighted(ItemAnnotations::default(), weight);
            let item = open_range(label.unwrap_or(term.field()), bound, limit, annotations);
            return self.builder.term(item, Some(rule));
        }
        let mut item = term.item.clone();
        if let QueryItem::Term { field, annotations, .. } = &mut item {
            if let Some(label) = label {
                label.clone_into(field);
            }
            *annotations = weighted(std::mem::take(annotations), weight);
        }
        self.builder.term(item, Some(rule))
    }
}

/// The range of all numbers beyond one.
fn open_range(
    field: &str,
    bound: ProducedBound,
    limit: QueryNumber,
    annotations: ItemAnnotations,
) -> QueryItem {
    let (low, high) = match bound {
        ProducedBound::Below => (RangeBound::Open, RangeBound::Exclusive(limit)),
        ProducedBound::Above => (RangeBound::Exclusive(limit), RangeBound::Open),
    };
    QueryItem::Range { field: field.to_owned(), low, high, hit_limit: None, annotations }
}

fn weighted(annotations: ItemAnnotations, weight: Option<i32>) -> ItemAnnotations {
    ItemAnnotations { weight: weight.unwrap_or(annotations.weight), ..annotations }
}

/// Combines terms that were matched together into one: a phrase if they have the same field.
fn combine_terms(mut nodes: Vec<RuleNode>, weight: Option<i32>) -> RuleNode {
    if nodes.len() == 1 {
        return nodes.remove(0);
    }
    let field = match &nodes[..] {
        [RuleNode::Term(first), ..] => first.field().to_owned(),
        _ => String::new(),
    };
    match nodes.iter().all(|node| matches!(node, RuleNode::Term(term) if term.field() == field)) {
        true => {
            let annotations = weighted(ItemAnnotations::default(), weight);
            group(RuleGroupKind::Phrase { field, annotations }, nodes)
        }
        false => group(RuleGroupKind::And, nodes),
    }
}

/// Terms listed by a condition, each as its words.
fn terms_of(condition: &RuleCondition) -> Vec<Vec<String>> {
    match condition {
        RuleCondition::Term(term) => vec![vec![term.clone()]],
        RuleCondition::Phrase(words) => vec![words.clone()],
        RuleCondition::Choice(conditions) => conditions.iter().flat_map(terms_of).collect(),
        RuleCondition::Sequence(conditions) => vec![conditions.iter().flat_map(terms_of).flatten().collect()],
        RuleCondition::Named { condition, .. } | RuleCondition::Labelled(_, condition) => terms_of(condition),
        RuleCondition::Included(condition) => terms_of(condition),
        _ => Vec::new(),
    }
}

/// A group with the output of a rule inserted.
struct EditedGroup {
    group: RuleGroup,
    /// Nodes that a phrase cannot contain.
    beside: Vec<RuleNode>,
    /// Pieces to put around it.
    around: Vec<Piece>,
}

/// Inserts the output of a rule into a group.
///
/// Alternatives are phrases. An adding rule puts them beside what it matched, as in Vespa, where a single
/// term is an alternative of all that stands beside it.
fn insert_output(
    RuleGroup { kind, mut children }: RuleGroup,
    rule: RuleKind,
    taken: &[usize],
    pieces: Vec<Piece>,
    mut alternatives: Vec<RuleNode>,
) -> EditedGroup {
    let (mut here, mut equivalents, mut around) = (Vec::new(), Vec::new(), Vec::new());
    for (term_type, node) in pieces {
        match term_type {
            TermType::Context => here.push(node),
            TermType::Equiv => equivalents.push(node),
            other => around.push((other, node)),
        }
    }
    if matches!(kind, RuleGroupKind::Equiv { .. }) {
        here.append(&mut equivalents);
    }
    let is_beside = rule == RuleKind::Adding && !taken.is_empty() && equivalents.is_empty();
    if !is_beside || !matches!(kind, RuleGroupKind::And | RuleGroupKind::WeakAnd { .. }) {
        around.extend(alternatives.drain(..).map(|node| (TermType::Or, node)));
    }
    let equiv = |nodes| group(RuleGroupKind::Equiv { annotations: ItemAnnotations::default() }, nodes);
    let first = taken.first().copied().unwrap_or(children.len());
    let moves = rule == RuleKind::Replacing || !equivalents.is_empty() || !alternatives.is_empty();
    let mut at = if moves { first } else { taken.last().map_or(children.len(), |last| last + 1) };
    let mut removed = Vec::new();
    if moves {
        for index in taken.iter().rev() {
            removed.insert(0, children.remove(*index));
        }
    }
    if !equivalents.is_empty() {
        if rule == RuleKind::Adding && !removed.is_empty() {
            equivalents.insert(0, combine_terms(std::mem::take(&mut removed), None));
        }
        here.insert(0, equiv(equivalents));
    }
    if !alternatives.is_empty() {
        alternatives.insert(0, group(RuleGroupKind::And, removed));
        here.insert(0, group(RuleGroupKind::Or, alternatives));
    }
    // A phrase takes up the words of another one in its field.
    if let RuleGroupKind::Phrase { field, .. } = &kind {
        let words = here.into_iter().flat_map(|node| match node {
            RuleNode::Group(RuleGroup {
                kind: RuleGroupKind::Phrase { field: other, annotations },
                children,
            }) if other == *field && annotations.weight == 100 => children,
            node => vec![node],
        });
        here = words.collect();
    }
    // A phrase consists only of words of its own field.
    let fits = |node: &RuleNode| match &kind {
        RuleGroupKind::Phrase { field, .. } => {
            matches!(node, RuleNode::Term(term) if term.field() == field && is_plain(&term.item))
        }
        _ => true,
    };
    let beside = if here.iter().all(fits) { Vec::new() } else { std::mem::take(&mut here) };
    for node in here {
        children.insert(at, node);
        at += 1;
    }
    EditedGroup { group: RuleGroup { kind, children }, beside, around }
}

fn is_plain(item: &QueryItem) -> bool {
    matches!(item, QueryItem::Term { annotations, .. } if annotations.weight == 100)
}
