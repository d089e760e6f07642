//! Decision trees of gradient boosting models.
//!
//! All trees of a model lie in one array of splits, each with the indices of its two successors, so a walk
//! from root to leaf is a loop over small, neighbouring records. A batch is evaluated tree by tree, which
//! keeps a tree in the cache.

use crate::operators::BatchNumbers;
use crate::{Error, ExpressionFault, ParsedExpression};

/// A decision-tree model: the sum or the average of one leaf of each tree.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionForest {
    inputs: Vec<ParsedExpression>,
    roots: Vec<WalkTarget>,
    splits: Vec<ForestNode>,
    /// Categories of all splits, sorted within each split.
    categories: Vec<f64>,
    average: bool,
    sigmoid: Option<f64>,
}

/// Successor of a split.
#[derive(Debug, Clone, Copy, PartialEq)]
enum WalkTarget {
    Split(u32),
    Leaf(f64),
}

#[derive(Debug, Clone, PartialEq)]
struct ForestNode {
    input: u32,
    test: SplitTest,
    missing: MissingDirection,
    /// Successors if the test holds, and if it does not.
    next: [WalkTarget; 2],
}

#[derive(Debug, Clone, PartialEq)]
enum SplitTest {
    Below(f64),
    AtMost(f64),
    /// Membership in this range of [`DecisionForest::categories`].
    OneOf(u32, u32),
}

/// Test of a split.
#[derive(Debug, Clone, PartialEq)]
pub enum SplitRule {
    /// The feature is less than this value.
    Below(f64),
    /// The feature is at most this value.
    AtMost(f64),
    /// The feature is one of these values.
    OneOf(Vec<f64>),
}

/// Outcome of a split for a feature without a value (NaN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissingDirection {
    /// The test holds.
    Holds,
    /// The test does not hold.
    Fails,
    /// The feature counts as zero.
    IsZero,
}

impl DecisionForest {
    /// The features of the model; a [`SplitRule`] refers to one by its index.
    pub fn inputs(&self) -> &[ParsedExpression] {
        &self.inputs
    }

    /// Fills `out` with the model's value for each document. `rows` is reusable memory.
    pub(crate) fn evaluate(&self, inputs: &[BatchNumbers<'_>], rows: &mut Vec<f64>, out: &mut [f64]) {
        let width = inputs.len().max(1);
        rows.clear();
        rows.resize(out.len() * width, 0.0);
        for (at, row) in rows.chunks_exact_mut(width).enumerate() {
            row.iter_mut().zip(inputs).for_each(|(cell, input)| *cell = input.get(at));
        }
        out.fill(0.0);
        for root in &self.roots {
            for (out, row) in out.iter_mut().zip(rows.chunks_exact(width)) {
                *out += self.leaf(*root, row);
            }
        }
        if self.average {
            let count = (self.roots.len() as f64).max(1.0);
            out.iter_mut().for_each(|out| *out /= count);
        }
        if let Some(steepness) = self.sigmoid {
            out.iter_mut().for_each(|out| *out = 1.0 / (1.0 + libm::exp(-steepness * *out)));
        }
    }

    fn leaf(&self, mut next: WalkTarget, row: &[f64]) -> f64 {
        loop {
            let at = match next {
                WalkTarget::Leaf(value) => return value,
                WalkTarget::Split(at) => at,
            };
            let node = &self.splits[at as usize];
            let holds = self.holds(node, row[node.input as usize]);
            next = node.next[usize::from(!holds)];
        }
    }

    fn holds(&self, node: &ForestNode, mut feature: f64) -> bool {
        if feature.is_nan() {
            match node.missing {
                MissingDirection::Holds => return true,
                MissingDirection::Fails => return false,
                MissingDirection::IsZero => feature = 0.0,
            }
        }
        match node.test {
            SplitTest::Below(bound) => feature < bound,
            SplitTest::AtMost(bound) => feature <= bound,
            SplitTest::OneOf(from, to) => {
                let categories = &self.categories[from as usize..to as usize];
                categories.binary_search_by(|category| category.total_cmp(&feature)).is_ok()
            }
        }
    }
}

/// Builder of a [`DecisionForest`] from the leaves to the roots. A split is added after its successors, so
/// that there are no cycles.
#[derive(Debug)]
pub struct ForestBuilder(DecisionForest);

/// A tree, or part of a tree, added to a [`ForestBuilder`].
#[derive(Debug, Clone, Copy)]
pub struct Subtree(WalkTarget);

impl ForestBuilder {
    /// Creates a builder for trees over these features, each an expression.
    ///
    /// # Errors
    /// One of the features is not a valid expression.
    pub fn new<'n>(inputs: impl IntoIterator<Item = &'n str>) -> Result<Self, Error> {
        let inputs = inputs.into_iter().map(ParsedExpression::parse).collect::<Result<_, _>>()?;
        Ok(ForestBuilder(DecisionForest {
            inputs,
            roots: Vec::new(),
            splits: Vec::new(),
            categories: Vec::new(),
            average: false,
            sigmoid: None,
        }))
    }

    /// Adds a leaf.
    pub fn leaf(&mut self, value: f64) -> Subtree {
        Subtree(WalkTarget::Leaf(value))
    }

    /// Adds a split on the feature with the index `input`.
    ///
    /// # Errors
    /// The feature does not exist, or there are too many splits to number.
    pub fn split(
        &mut self,
        input: usize,
        split: SplitRule,
        missing: MissingDirection,
        holds: Subtree,
        fails: Subtree,
    ) -> Result<Subtree, ExpressionFault> {
        let forest = &mut self.0;
        if input >= forest.inputs.len() {
            return Err(ExpressionFault::new(format!(
                "a split is by feature {input}, but there are {}",
                forest.inputs.len()
            )));
        }
        let test = match split {
            SplitRule::Below(bound) => SplitTest::Below(bound),
            SplitRule::AtMost(bound) => SplitTest::AtMost(bound),
            SplitRule::OneOf(mut categories) => {
                categories.sort_by(f64::total_cmp);
                let from = forest.categories.len();
                forest.categories.extend(categories);
                SplitTest::OneOf(count(from)?, count(forest.categories.len())?)
            }
        };
        let place = WalkTarget::Split(count(forest.splits.len())?);
        forest.splits.push(ForestNode { input: count(input)?, test, missing, next: [holds.0, fails.0] });
        Ok(Subtree(place))
    }

    /// Completes a tree.
    pub fn tree(&mut self, root: Subtree) {
        self.0.roots.push(root.0);
    }

    /// Makes the value the average of the trees instead of their sum.
    pub fn average(&mut self) {
        self.0.average = true;
    }

    /// Makes the value `1 / (1 + exp(-steepness * sum))`.
    pub fn sigmoid(&mut self, steepness: f64) {
        self.0.sigmoid = Some(steepness);
    }

    /// Returns the model.
    pub fn finish(self) -> DecisionForest {
        self.0
    }
}

fn count(count: usize) -> Result<u32, ExpressionFault> {
    u32::try_from(count).map_err(|_| ExpressionFault::new("the model has more splits than can be counted"))
}
