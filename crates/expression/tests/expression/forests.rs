//! Decision trees over generated models, compared with a walk from root to leaf.

use std::sync::Arc;

use millrace_expression::{
    DecisionForest, EvaluationScratch, ExpressionFault, ExpressionProgram, ExpressionScope, FeatureKind,
    FeatureName, ForestBuilder, FunctionBody, InputBatch, MissingDirection, ParsedExpression, SplitRule,
    Subtree,
};
use millrace_tensor::TensorType;
use proptest::prelude::*;

/// Numbers at which comparisons go wrong first.
const NUMBERS: [f64; 10] =
    [f64::NAN, f64::NEG_INFINITY, f64::MIN, -1.0, -0.0, 0.0, f64::MIN_POSITIVE, 1.0, f64::MAX, f64::INFINITY];
const FEATURES: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum SlowTree {
    Leaf(f64),
    Split { feature: usize, rule: SplitRule, missing: MissingDirection, next: Box<[SlowTree; 2]> },
}

impl SlowTree {
    fn value(&self, row: &[f64]) -> f64 {
        let (feature, rule, missing, next) = match self {
            SlowTree::Leaf(value) => return *value,
            SlowTree::Split { feature, rule, missing, next } => (row[*feature], rule, missing, next),
        };
        let holds = |feature: f64| match rule {
            SplitRule::Below(bound) => feature < *bound,
            SplitRule::AtMost(bound) => feature <= *bound,
            SplitRule::OneOf(set) => set.iter().any(|category| category.total_cmp(&feature).is_eq()),
        };
        let holds = match missing {
            MissingDirection::Holds if feature.is_nan() => true,
            MissingDirection::Fails if feature.is_nan() => false,
            MissingDirection::IsZero if feature.is_nan() => holds(0.0),
            _ => holds(feature),
        };
        next[usize::from(!holds)].value(row)
    }

    fn build(&self, builder: &mut ForestBuilder) -> Subtree {
        match self {
            SlowTree::Leaf(value) => builder.leaf(*value),
            SlowTree::Split { feature, rule, missing, next } => {
                let [holds, fails] = [&next[0], &next[1]].map(|next| next.build(builder));
                builder.split(*feature, rule.clone(), *missing, holds, fails).expect("the feature is there")
            }
        }
    }
}

fn trees() -> impl Strategy<Value = Vec<SlowTree>> {
    let number = || prop::sample::select(&NUMBERS[..]);
    let rule = prop_oneof![
        4 => number().prop_map(SplitRule::Below),
        4 => number().prop_map(SplitRule::AtMost),
        1 => prop::collection::vec(number(), 0..4).prop_map(SplitRule::OneOf),
    ];
    let missing = prop::sample::select(
        &[MissingDirection::Holds, MissingDirection::Fails, MissingDirection::IsZero][..],
    );
    // Sums of small whole numbers are exact in any order.
    let leaf = (-100_i32..100).prop_map(|value| SlowTree::Leaf(f64::from(value)));
    let tree = leaf.prop_recursive(7, 60, 2, move |inner| {
        (0..FEATURES.len(), rule.clone(), missing.clone(), inner.clone(), inner).prop_map(
            |(feature, rule, missing, holds, fails)| SlowTree::Split {
                feature,
                rule,
                missing,
                next: Box::new([holds, fails]),
            },
        )
    });
    prop::collection::vec(tree, 0..30)
}

/// Rows of more documents than walk in step, and of a number that is not a multiple of it.
fn rows() -> impl Strategy<Value = Vec<[f64; 3]>> {
    let number = || prop::sample::select(&NUMBERS[..]);
    prop::collection::vec([number(), number(), number()], 1..150)
}

struct LoneModel(Arc<DecisionForest>);

impl ExpressionScope for LoneModel {
    fn feature(&self, name: &FeatureName) -> Result<FeatureKind, ExpressionFault> {
        Ok(match name.name.as_str() {
            "model" => FeatureKind::Forest(Arc::clone(&self.0)),
            _ => FeatureKind::Input(TensorType::scalar()),
        })
    }

    fn function(&self, _: &str) -> Option<FunctionBody<'_>> {
        None
    }
}

fn values(trees: &[SlowTree], rows: &[[f64; 3]]) -> Vec<f64> {
    let mut builder = ForestBuilder::new(FEATURES).expect("names are expressions");
    for tree in trees {
        let root = tree.build(&mut builder);
        builder.tree(root);
    }
    let model = ParsedExpression::parse("model").expect("a name is an expression");
    let program = ExpressionProgram::compile(&model, &LoneModel(Arc::new(builder.finish())))
        .expect("all features are numbers");
    let columns: Vec<Vec<f64>> = program
        .inputs()
        .iter()
        .map(|(name, _)| FEATURES.iter().position(|feature| *feature == name.name).expect("it is a feature"))
        .map(|feature| rows.iter().map(|row| row[feature]).collect())
        .collect();
    let inputs: Vec<InputBatch<'_>> = columns.iter().map(|column| InputBatch::numbers(column)).collect();
    let mut out = vec![0.0; rows.len()];
    program.evaluate(&mut EvaluationScratch::default(), rows.len(), &inputs).write(&mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn documents_in_step_reach_the_leaves_of_a_walk(trees in trees(), rows in rows()) {
        let expected: Vec<f64> =
            rows.iter().map(|row| trees.iter().map(|tree| tree.value(row)).sum()).collect();
        prop_assert_eq!(values(&trees, &rows), expected);
    }
}

#[test]
fn complete_trees_of_any_depth_are_walked_to_their_leaves() {
    fn complete(depth: usize, path: u32) -> SlowTree {
        if depth == 0 {
            return SlowTree::Leaf(f64::from(path));
        }
        let next = [0, 1].map(|fails| complete(depth - 1, path * 2 + fails));
        let rule = SplitRule::Below(f64::from(path % 7));
        SlowTree::Split { feature: depth % 3, rule, missing: MissingDirection::Fails, next: Box::new(next) }
    }
    // Up to 64 leaves are evaluated at once; the last trees have more.
    let trees: Vec<SlowTree> = (0..=8).map(|depth| complete(depth, 1)).collect();
    let rows: Vec<[f64; 3]> =
        (0..200).map(|row| [row % 8, row / 8 % 8, row * 5 % 9].map(f64::from)).collect();
    let expected: Vec<f64> = rows.iter().map(|row| trees.iter().map(|tree| tree.value(row)).sum()).collect();
    assert_eq!(values(&trees, &rows), expected);
}

#[test]
fn a_chain_of_splits_is_walked_to_its_end() {
    let mut tree = SlowTree::Leaf(1.0);
    for depth in 0..90 {
        tree = SlowTree::Split {
            feature: depth % 3,
            rule: SplitRule::AtMost(0.5),
            missing: MissingDirection::Fails,
            next: Box::new([tree, SlowTree::Leaf(-f64::from(depth as u32))]),
        };
    }
    let rows = [[0.0, 0.0, 0.0], [0.0, 0.0, 9.0], [9.0, 9.0, 9.0], [0.5, f64::NAN, 0.5]];
    assert_eq!(values(&[tree], &rows), [1.0, -89.0, -89.0, -88.0]);
}
