//! Decision trees of gradient boosting models.

mod kernels;
mod layout;
mod masks;

use std::ops::Range;

use self::layout::TreeLayout;
use self::masks::{LeafMaskBuilder, LeafMasks};
use crate::operators::BatchNumbers;
use crate::{Error, ExpressionFault, ParsedExpression};

/// A decision-tree model: the sum or the average of one leaf of each tree.
#[derive(Debug, Clone, PartialEq)]
pub struct DecisionForest {
    inputs: Vec<ParsedExpression>,
    /// All trees in the order in which their leaves are added.
    runs: Vec<TreeRun>,
    walked: TreeLayout,
    masked: LeafMasks,
    average: bool,
    sigmoid: Option<f64>,
}

/// Successive trees of one form, by their indices among the trees of this form.
#[derive(Debug, Clone, PartialEq)]
enum TreeRun {
    /// Walked from the root to a leaf.
    Walked(Range<usize>),
    /// Evaluated as masks over their leaves.
    Masked(Range<usize>),
}

/// Successor of a split.
#[derive(Debug, Clone, Copy, PartialEq)]
enum WalkTarget {
    Split(u32),
    Leaf(f64),
}

#[derive(Debug, Clone, PartialEq)]
struct ForestSplit {
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
    /// Membership in these categories, which are sorted.
    OneOf(Box<[f64]>),
}

impl ForestSplit {
    /// Bound below which the test holds, and the number that stands for a missing feature. `None` for a test
    /// that no comparison expresses.
    fn comparison(&self) -> Option<(f64, f64)> {
        let bound = match self.test {
            SplitTest::Below(bound) => bound,
            // The numbers that are at most a finite bound are those below the number after it.
            SplitTest::AtMost(bound) if bound < f64::INFINITY => bound.next_up(),
            SplitTest::AtMost(_) | SplitTest::OneOf(_) => return None,
        };
        let missing = match self.missing {
            MissingDirection::IsZero => 0.0,
            MissingDirection::Fails => f64::NAN,
            // It is below every bound but itself.
            MissingDirection::Holds if bound > f64::NEG_INFINITY => f64::NEG_INFINITY,
            MissingDirection::Holds => return None,
        };
        Some((bound, missing))
    }
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
        out.fill(0.0);
        let ranks = self.masked.ranks(inputs, out.len());
        self.walked.fill_rows(inputs, out.len(), rows);
        for run in &self.runs {
            match run {
                TreeRun::Walked(trees) => self.walked.add_leaves(trees.clone(), rows, out),
                TreeRun::Masked(trees) => self.masked.add_leaves(trees.clone(), &ranks, out),
            }
        }
        if self.average {
            let trees = self.runs.iter().map(|run| match run {
                TreeRun::Walked(trees) | TreeRun::Masked(trees) => trees.len(),
            });
            let count = (trees.sum::<usize>() as f64).max(1.0);
            out.iter_mut().for_each(|out| *out /= count);
        }
        if let Some(steepness) = self.sigmoid {
            out.iter_mut().for_each(|out| *out = 1.0 / (1.0 + libm::exp(-steepness * *out)));
        }
    }
}

/// Builder of a [`DecisionForest`] from the leaves to the roots. A split is added after its successors, so
/// that there are no cycles.
#[derive(Debug)]
pub struct ForestBuilder {
    forest: DecisionForest,
    masks: LeafMaskBuilder,
    /// All splits so far, by number.
    splits: Vec<ForestSplit>,
}

/// A tree, or part of a tree, added to a [`ForestBuilder`]. It is used once, in one tree.
#[derive(Debug)]
pub struct Subtree(WalkTarget);

impl ForestBuilder {
    /// Creates a builder for trees over these features, each an expression.
    ///
    /// # Errors
    /// One of the features is not a valid expression.
    pub fn new<'n>(inputs: impl IntoIterator<Item = &'n str>) -> Result<Self, Error> {
        let inputs = inputs.into_iter().map(ParsedExpression::parse).collect::<Result<_, _>>()?;
        let forest = DecisionForest {
            inputs,
            runs: Vec::new(),
            walked: TreeLayout::default(),
            masked: LeafMasks::default(),
            average: false,
            sigmoid: None,
        };
        Ok(ForestBuilder { forest, masks: LeafMaskBuilder::default(), splits: Vec::new() })
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
        let inputs = self.forest.inputs.len();
        if input >= inputs {
            return Err(ExpressionFault::new(format!(
                "a split is by feature {input}, but there are {inputs}"
            )));
        }
        let test = match split {
            SplitRule::Below(bound) => SplitTest::Below(bound),
            SplitRule::AtMost(bound) => SplitTest::AtMost(bound),
            SplitRule::OneOf(mut categories) => {
                categories.sort_by(f64::total_cmp);
                SplitTest::OneOf(categories.into_boxed_slice())
            }
        };
        let target = WalkTarget::Split(count(self.splits.len())?);
        self.splits.push(ForestSplit { input: count(input)?, test, missing, next: [holds.0, fails.0] });
        Ok(Subtree(target))
    }

    /// Completes a tree.
    pub fn tree(&mut self, root: Subtree) {
        let DecisionForest { runs, walked, .. } = &mut self.forest;
        if self.masks.add(root.0, &self.splits) {
            match runs.last_mut() {
                Some(TreeRun::Masked(trees)) => trees.end += 1,
                _ => runs.push(TreeRun::Masked(self.masks.trees() - 1..self.masks.trees())),
            }
        } else {
            walked.add(root.0, &self.splits);
            match runs.last_mut() {
                Some(TreeRun::Walked(trees)) => trees.end += 1,
                _ => runs.push(TreeRun::Walked(walked.trees() - 1..walked.trees())),
            }
        }
    }

    /// Makes the value the average of the trees instead of their sum.
    pub fn average(&mut self) {
        self.forest.average = true;
    }

    /// Makes the value `1 / (1 + exp(-steepness * sum))`.
    pub fn sigmoid(&mut self, steepness: f64) {
        self.forest.sigmoid = Some(steepness);
    }

    /// Returns the model.
    pub fn finish(self) -> DecisionForest {
        DecisionForest { masked: self.masks.finish(), ..self.forest }
    }
}

/// The number as one of 30 bits.
fn count(count: usize) -> Result<u32, ExpressionFault> {
    let number = u32::try_from(count).ok().filter(|number| *number < 1 << 30);
    number.ok_or_else(|| ExpressionFault::new("the model has more splits than can be counted"))
}
