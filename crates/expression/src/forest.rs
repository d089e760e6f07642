//! Decision trees: what models of gradient boosting are made of.
//!
//! All trees of a model lie in one array of splits, each with the places of its two successors, so a walk from root to leaf is a
//! loop over small, neighbouring records. A batch goes through one tree after another, which keeps a tree in the cache.

use crate::operators::Numbers;
use crate::{Error, Expression};

/// A model of decision trees: the sum, or the average, of one leaf of each tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Forest {
    inputs: Vec<Expression>,
    roots: Vec<Next>,
    splits: Vec<Node>,
    /// Of all splits by category, sorted within each.
    categories: Vec<f64>,
    average: bool,
    sigmoid: Option<f64>,
}

/// Where a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Next {
    Split(u32),
    Leaf(f64),
}

#[derive(Debug, Clone, PartialEq)]
struct Node {
    input: u32,
    test: Test,
    missing: Missing,
    /// Where the test holds, and where not.
    next: [Next; 2],
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Below(f64),
    AtMost(f64),
    /// One of these of [`Forest::categories`].
    OneOf(u32, u32),
}

/// How a split decides.
#[derive(Debug, Clone, PartialEq)]
pub enum Split {
    /// Whether the feature is below this.
    Below(f64),
    /// Whether the feature is at most this.
    AtMost(f64),
    /// Whether the feature is one of these.
    OneOf(Vec<f64>),
}

/// What a split makes of a feature without a value (NaN).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The test holds.
    Holds,
    /// The test does not hold.
    Fails,
    /// It counts as zero.
    IsZero,
}

impl Forest {
    /// The features that it looks at; [`Split`]s name them by their place.
    pub fn inputs(&self) -> &[Expression] {
        &self.inputs
    }

    /// Fills `out` with the model's value for each document. `rows` is memory to work in.
    pub(crate) fn evaluate(&self, inputs: &[Numbers<'_>], rows: &mut Vec<f64>, out: &mut [f64]) {
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

    fn leaf(&self, mut next: Next, row: &[f64]) -> f64 {
        loop {
            let at = match next {
                Next::Leaf(value) => return value,
                Next::Split(at) => at,
            };
            let node = &self.splits[at as usize];
            let holds = self.holds(node, row[node.input as usize]);
            next = node.next[usize::from(!holds)];
        }
    }

    fn holds(&self, node: &Node, mut feature: f64) -> bool {
        if feature.is_nan() {
            match node.missing {
                Missing::Holds => return true,
                Missing::Fails => return false,
                Missing::IsZero => feature = 0.0,
            }
        }
        match node.test {
            Test::Below(bound) => feature < bound,
            Test::AtMost(bound) => feature <= bound,
            Test::OneOf(from, to) => {
                let categories = &self.categories[from as usize..to as usize];
                categories.binary_search_by(|category| category.total_cmp(&feature)).is_ok()
            }
        }
    }
}

/// Builds a [`Forest`] from leaves to roots: a split is added after what it leads to, so that there are no circles.
#[derive(Debug)]
pub struct ForestBuilder(Forest);

/// A tree, or a part of one, that was added to a [`ForestBuilder`].
#[derive(Debug, Clone, Copy)]
pub struct Subtree(Next);

impl ForestBuilder {
    /// For trees over these features, each an expression.
    ///
    /// # Errors
    /// One of them is none.
    pub fn new<'n>(inputs: impl IntoIterator<Item = &'n str>) -> Result<Self, Error> {
        let inputs = inputs.into_iter().map(Expression::parse).collect::<Result<_, _>>()?;
        Ok(ForestBuilder(Forest {
            inputs,
            roots: Vec::new(),
            splits: Vec::new(),
            categories: Vec::new(),
            average: false,
            sigmoid: None,
        }))
    }

    /// A leaf.
    pub fn leaf(&mut self, value: f64) -> Subtree {
        Subtree(Next::Leaf(value))
    }

    /// A split by the feature in place `input`.
    ///
    /// # Errors
    /// There is no such feature, or there are more splits than can be counted.
    pub fn split(
        &mut self,
        input: usize,
        split: Split,
        missing: Missing,
        holds: Subtree,
        fails: Subtree,
    ) -> Result<Subtree, String> {
        let forest = &mut self.0;
        if input >= forest.inputs.len() {
            return Err(format!("a split is by feature {input}, but there are {}", forest.inputs.len()));
        }
        let test = match split {
            Split::Below(bound) => Test::Below(bound),
            Split::AtMost(bound) => Test::AtMost(bound),
            Split::OneOf(mut categories) => {
                categories.sort_by(f64::total_cmp);
                let from = forest.categories.len();
                forest.categories.extend(categories);
                Test::OneOf(count(from)?, count(forest.categories.len())?)
            }
        };
        let place = Next::Split(count(forest.splits.len())?);
        forest.splits.push(Node { input: count(input)?, test, missing, next: [holds.0, fails.0] });
        Ok(Subtree(place))
    }

    /// Ends a tree.
    pub fn tree(&mut self, root: Subtree) {
        self.0.roots.push(root.0);
    }

    /// The value is the average of the trees, not their sum.
    pub fn average(&mut self) {
        self.0.average = true;
    }

    /// The value is `1 / (1 + exp(-steepness * sum))`.
    pub fn sigmoid(&mut self, steepness: f64) {
        self.0.sigmoid = Some(steepness);
    }

    /// The model.
    pub fn finish(self) -> Forest {
        self.0
    }
}

fn count(count: usize) -> Result<u32, String> {
    u32::try_from(count).map_err(|_| "the model has more splits than can be counted".to_owned())
}
