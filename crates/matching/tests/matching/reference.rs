//! Matching compared with a slow and simple implementation that examines one document after another, over
//! random trees and documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_document::{DataType, DocumentField, DocumentValue, StructType};
use millrace_fixtures::{Fields, field, plan, schema, view, words};
use millrace_matching::{LeafMatches, RankingDemands, match_plan};
use millrace_plan::{LeafId, NumberRange, Plan, PlanNode, Predicate, WordPattern};
use millrace_schema::{DistanceMetric, Schema};
use millrace_tensor::{Tensor, TensorCells, TensorType};
use proptest::prelude::*;

use crate::plain::fits;

const WORDS: [&str; 6] = ["ab", "abc", "b", "bca", "cab", "c"];

fn test_schema() -> Arc<Schema> {
    let person = StructType {
        name: "person".into(),
        fields: vec![
            DocumentField { name: "name".into(), data_type: DataType::String },
            DocumentField { name: "age".into(), data_type: DataType::Int },
        ],
    };
    let set = DataType::WeightedSet {
        element: Box::new(DataType::String),
        create_if_nonexistent: false,
        remove_if_zero: false,
    };
    let fields = vec![
        field("title", DataType::String, true),
        field("notes", DataType::Array(Box::new(DataType::String)), true),
        field("folder", DataType::String, false),
        field("date", DataType::Long, false),
        field("price", DataType::Double, false),
        field("labels", set, false),
        field("people", DataType::Array(Box::new(DataType::Struct(Arc::new(person)))), false),
        field("near", DataType::Tensor(vector_type()), false),
        field("parts", DataType::Tensor(TensorType::parse("tensor<bfloat16>(p{},x[3])").unwrap()), false),
    ];
    Arc::new(schema("test", fields))
}

fn vector_type() -> TensorType {
    TensorType::parse("tensor<float>(x[3])").unwrap()
}

fn vector(cells: [i8; 3]) -> Tensor {
    Tensor::new(vector_type(), Vec::new(), TensorCells::Float(cells.map(f32::from).to_vec())).unwrap()
}

fn parts(vectors: &[[i8; 3]]) -> Tensor {
    let mut cells = TensorCells::with_capacity(millrace_tensor::CellType::BFloat16, vectors.len() * 3);
    vectors.iter().flatten().for_each(|cell| cells.push(f64::from(*cell)));
    let labels = (0..vectors.len()).map(|label| label.to_string()).collect();
    Tensor::new(TensorType::parse("tensor<bfloat16>(p{},x[3])").unwrap(), labels, cells).unwrap()
}

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(&WORDS[..]), 0..8).prop_map(|words| words.join(" "))
}

fn document() -> impl Strategy<Value = (Fields, bool)> {
    let person = (proptest::sample::select(&WORDS[..]), 0i32..4).prop_map(|(name, age)| {
        DocumentValue::Struct(vec![
            ("name".into(), DocumentValue::String(name.to_uppercase())),
            ("age".into(), DocumentValue::Int(age)),
        ])
    });
    let set = proptest::collection::btree_map(proptest::sample::select(&WORDS[..]), -3i32..9, 0..3).prop_map(
        |set| {
            set.into_iter().map(|(word, weight)| (DocumentValue::String(word.to_owned()), weight)).collect()
        },
    );
    let cell = || -3i8..4;
    let vector3 = move || [cell(), cell(), cell()];
    (
        proptest::option::of(text().prop_map(DocumentValue::String)),
        proptest::option::of(
            proptest::collection::vec(text().prop_map(DocumentValue::String), 0..3)
                .prop_map(DocumentValue::Array),
        ),
        proptest::option::of(
            proptest::sample::select(&WORDS[..]).prop_map(|w| DocumentValue::String(w.to_uppercase())),
        ),
        proptest::option::of((0i64..6).prop_map(DocumentValue::Long)),
        proptest::option::of((0i8..6).prop_map(|n| DocumentValue::Double(f64::from(n) / 2.0))),
        proptest::option::of(set.prop_map(DocumentValue::WeightedSet)),
        proptest::option::of(proptest::collection::vec(person, 0..3).prop_map(DocumentValue::Array)),
        proptest::option::of(vector3().prop_map(|cells| DocumentValue::Tensor(vector(cells)))),
        proptest::option::of(
            proptest::collection::vec(vector3(), 0..3)
                .prop_map(|vectors| DocumentValue::Tensor(parts(&vectors))),
        ),
        proptest::bool::weighted(0.9),
    )
        .prop_map(|(title, notes, folder, date, price, labels, people, near, parts, live)| {
            let fields = [
                ("title", title),
                ("notes", notes),
                ("folder", folder),
                ("date", date),
                ("price", price),
                ("labels", labels),
                ("people", people),
                ("near", near),
                ("parts", parts),
            ];
            (fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(), live)
        })
}

fn pattern() -> impl Strategy<Value = WordPattern> {
    let word = || proptest::sample::select(&WORDS[..]).prop_map(str::to_owned);
    prop_oneof![
        4 => word().prop_map(WordPattern::Exact),
        1 => proptest::collection::vec(word(), 1..3).prop_map(WordPattern::Any),
        1 => word().prop_map(WordPattern::Written),
        1 => (word(), proptest::collection::vec(word(), 1..3))
            .prop_map(|(written, stems)| WordPattern::Word { written, stems }),
        1 => "[abc]{1,2}".prop_map(WordPattern::Prefix),
        1 => "[abc]{1,2}".prop_map(WordPattern::Suffix),
        1 => "[abc]{1,2}".prop_map(WordPattern::Substring),
        1 => "[abc][bc.]\\$?".prop_map(WordPattern::Regex),
        1 => (word(), 0u32..3, 0u32..2, any::<bool>()).prop_map(|(word, max_edits, prefix_length, prefix)| {
            WordPattern::Fuzzy { word, max_edits, prefix_length, prefix }
        }),
    ]
}

fn weighted() -> impl Strategy<Value = Vec<(String, i32)>> {
    proptest::collection::btree_map(proptest::sample::select(&WORDS[..]), 1i32..9, 0..4)
        .prop_map(|set| set.into_iter().map(|(word, weight)| (word.to_owned(), weight)).collect())
}

/// Leaves 0 to 3 are words of one field, for `near`; 4 and 5 are members of `people`, for `sameElement`; 6
/// and 7 are nearest neighbours.
fn leaves() -> impl Strategy<Value = Vec<(&'static str, Predicate)>> {
    let title =
        || proptest::collection::vec(pattern(), 1..3).prop_map(|words| ("title", Predicate::Words(words)));
    let value =
        |field| pattern().prop_map(move |pattern| (field, Predicate::Value { pattern, cased: false }));
    let nearest = |field| {
        (
            [-3i8..4, -3i8..4, -3i8..4],
            0u32..6,
            proptest::option::of(0i8..5),
            proptest::sample::select(&METRICS[..]),
        )
            .prop_map(move |(target, target_hits, threshold, metric)| {
                let target = Arc::new(vector(target));
                (
                    field,
                    Predicate::Nearest { target, metric, target_hits, threshold: threshold.map(f64::from) },
                )
            })
    };
    let others = prop_oneof![
        title(),
        proptest::collection::vec(pattern(), 1..3).prop_map(|words| ("notes", Predicate::Words(words))),
        value("folder"),
        value("labels"),
        weighted().prop_map(|values| ("folder", Predicate::ValueIn { values, cased: false })),
        weighted().prop_map(|values| ("labels", Predicate::ValueIn { values, cased: false })),
        weighted().prop_map(|words| ("notes", Predicate::WordIn(words))),
        (0i64..6, 0i64..6)
            .prop_map(|(low, high)| ("date", Predicate::Number(NumberRange::Integer { low, high }))),
        proptest::collection::vec((0i64..6, 1i32..9), 0..3)
            .prop_map(|numbers| ("date", Predicate::NumberIn(numbers))),
        (0i8..6, any::<bool>(), 0i8..6, any::<bool>()).prop_map(
            |(low, low_inclusive, high, high_inclusive)| {
                let (low, high) = (f64::from(low) / 2.0, f64::from(high) / 2.0);
                ("price", Predicate::Number(NumberRange::Float { low, low_inclusive, high, high_inclusive }))
            }
        ),
        Just(("parts", Predicate::Present)),
        (0i64..4)
            .prop_map(|age| ("people.age", Predicate::Number(NumberRange::Integer { low: age, high: age }))),
    ];
    (
        (proptest::collection::vec(title(), 4), any::<bool>()),
        value("people.name"),
        (0i64..4)
            .prop_map(|age| ("people.age", Predicate::Number(NumberRange::Integer { low: age, high: 3 }))),
        nearest("near"),
        nearest("parts"),
        proptest::collection::vec(others, 6),
    )
        .prop_map(|((mut leaves, of_notes), name, age, near, parts, others)| {
            if of_notes {
                leaves.iter_mut().for_each(|(field, _)| *field = "notes");
            }
            leaves.extend([name, age, near, parts]);
            leaves.extend(others);
            leaves
        })
}

const METRICS: [DistanceMetric; 4] = [
    DistanceMetric::Euclidean,
    DistanceMetric::Angular,
    DistanceMetric::DotProduct,
    DistanceMetric::PrenormalizedAngular,
];

fn tree() -> impl Strategy<Value = PlanNode> {
    let title = || proptest::collection::vec((0usize..4).prop_map(LeafId), 0..3);
    let person = prop_oneof![
        Just(PlanNode::And(vec![PlanNode::Leaf(LeafId(4)), PlanNode::Leaf(LeafId(5))])),
        Just(PlanNode::AndNot(Box::new(PlanNode::Leaf(LeafId(4))), vec![PlanNode::Leaf(LeafId(5))])),
    ];
    let leaf = prop_oneof![
        1 => Just(PlanNode::True),
        1 => Just(PlanNode::False),
        8 => (0usize..14).prop_map(|leaf| PlanNode::Leaf(LeafId(leaf))),
        2 => (proptest::collection::vec((0usize..4).prop_map(LeafId), 1..4), title(), 0u32..5, 0u32..3, any::<bool>()).prop_map(
            |(leaves, excluded, distance, exclusion_distance, ordered)| PlanNode::Near {
                leaves, excluded, distance, exclusion_distance, ordered,
            }
        ),
        1 => (person, proptest::collection::vec(0u32..3, 0..2)).prop_map(|(child, elements)| PlanNode::SameElement {
            field: "people".into(),
            child: Box::new(child),
            elements,
        }),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let some = proptest::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            some.clone().prop_map(PlanNode::And),
            some.clone().prop_map(PlanNode::Or),
            (inner.clone(), some.clone()).prop_map(|(first, rest)| PlanNode::AndNot(Box::new(first), rest)),
            (inner, some).prop_map(|(first, rest)| PlanNode::Rank(Box::new(first), rest)),
        ]
    })
}

/// One document, and the simple implementation of matching it.
struct ReferenceMatcher<'a> {
    plan: &'a Plan,
    document: &'a Fields,
}

impl ReferenceMatcher<'_> {
    /// Tokens with `None` between elements.
    fn tokens(&self, name: &str) -> Vec<Option<String>> {
        let Some(value) = self.document.get(name) else { return Vec::new() };
        let elements = words(&self.plan.schema.fields[name], value);
        let elements: Vec<Vec<Option<String>>> =
            elements.into_iter().map(|element| element.into_iter().map(Some).collect()).collect();
        elements.join(&None)
    }

    fn positions(&self, leaf: LeafId) -> Vec<u32> {
        let leaf = &self.plan.leaves[leaf.0];
        let Predicate::Words(patterns) = &leaf.predicate else { return Vec::new() };
        let tokens = self.tokens(&leaf.field);
        let here = |window: &[Option<String>]| {
            window.iter().zip(patterns).all(|(token, p)| token.as_ref().is_some_and(|token| fits(p, token)))
        };
        let places = tokens.windows(patterns.len()).enumerate().filter(|(_, window)| here(window));
        places.map(|(place, _)| place as u32).collect()
    }

    fn weight(&self, leaf: LeafId, value: &DocumentValue, weight: i32) -> Option<i32> {
        let lower = |text: &str| text.to_lowercase();
        match (&self.plan.leaves[leaf.0].predicate, value) {
            (Predicate::Present, _) => Some(1),
            (predicate, DocumentValue::Array(values)) => {
                let _ = predicate;
                values.iter().filter_map(|value| self.weight(leaf, value, 1)).max()
            }
            (_, DocumentValue::WeightedSet(values)) => {
                values.iter().filter_map(|(value, weight)| self.weight(leaf, value, *weight)).max()
            }
            (_, DocumentValue::Struct(members)) => {
                let member = self.plan.leaves[leaf.0].field.split_once('.')?.1;
                self.weight(leaf, &members.iter().find(|(name, _)| &**name == member)?.1, weight)
            }
            (Predicate::Value { pattern, .. }, DocumentValue::String(text)) => {
                fits(pattern, &lower(text)).then_some(weight)
            }
            (Predicate::ValueIn { values, .. }, DocumentValue::String(text)) => {
                values.iter().find(|(listed, _)| *listed == lower(text)).map(|(_, weight)| *weight)
            }
            (Predicate::Number(NumberRange::Integer { low, high }), DocumentValue::Long(number)) => {
                (low..=high).contains(&number).then_some(weight)
            }
            (Predicate::Number(NumberRange::Integer { low, high }), DocumentValue::Int(number)) => {
                (*low..=*high).contains(&i64::from(*number)).then_some(weight)
            }
            (
                Predicate::Number(NumberRange::Float { low, low_inclusive, high, high_inclusive }),
                DocumentValue::Double(n),
            ) => {
                let above = if *low_inclusive { n >= low } else { n > low };
                let below = if *high_inclusive { n <= high } else { n < high };
                (above && below).then_some(weight)
            }
            (Predicate::NumberIn(numbers), DocumentValue::Long(number)) => {
                numbers.iter().filter(|(listed, _)| listed == number).map(|(_, weight)| *weight).min()
            }
            _ => None,
        }
    }

    fn leaf_weight(&self, leaf: LeafId) -> Option<i32> {
        let name = self.plan.leaves[leaf.0].field.split('.').next()?;
        if let Predicate::WordIn(listed) = &self.plan.leaves[leaf.0].predicate {
            let tokens = self.tokens(name);
            let weight =
                |(word, weight): &(String, i32)| tokens.contains(&Some(word.clone())).then_some(*weight);
            return listed.iter().filter_map(weight).max();
        }
        self.weight(leaf, self.document.get(name)?, 1)
    }

    /// Weight that ranking should see.
    fn shown_weight(&self, leaf: LeafId) -> Option<i32> {
        self.leaf_weight(leaf).filter(|_| self.is_active(leaf))
    }

    fn distance(&self, leaf: LeafId) -> f64 {
        let Predicate::Nearest { target, metric, .. } = &self.plan.leaves[leaf.0].predicate else {
            return f64::INFINITY;
        };
        let Some(DocumentValue::Tensor(tensor)) = self.document.get(&*self.plan.leaves[leaf.0].field) else {
            return f64::INFINITY;
        };
        let (query, cells): (Vec<f64>, Vec<f64>) =
            (target.cells().iter().collect(), tensor.cells().iter().collect());
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let distance = |cells: &[f64]| match metric {
            DistanceMetric::Euclidean => {
                query.iter().zip(cells).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
            }
            DistanceMetric::DotProduct => -product(&query, cells),
            DistanceMetric::Angular => {
                let lengths = (product(&query, &query) * product(cells, cells)).sqrt();
                if lengths == 0.0 {
                    std::f64::consts::FRAC_PI_2
                } else {
                    (product(&query, cells) / lengths).clamp(-1.0, 1.0).acos()
                }
            }
            _ => 1.0 - product(&query, cells),
        };
        cells.chunks(3).map(distance).fold(f64::INFINITY, f64::min)
    }

    /// First and last position of the matches of a nearness node: for each start the shortest match.
    fn spans(&self, node: &PlanNode) -> Vec<(u32, u32)> {
        let PlanNode::Near { leaves, excluded, distance, exclusion_distance, ordered } = node else {
            return Vec::new();
        };
        let excluded: Vec<u32> = excluded.iter().flat_map(|leaf| self.positions(*leaf)).collect();
        let tokens = self.tokens(&self.plan.leaves[leaves[0].0].field);
        let choices = leaves.iter().fold(vec![Vec::new()], |choices: Vec<Vec<u32>>, leaf| {
            let positions = self.positions(*leaf);
            let extended = choices.iter().flat_map(|choice| {
                positions.iter().map(|position| [choice.as_slice(), &[*position]].concat())
            });
            extended.collect()
        });
        let mut shortest: BTreeMap<u32, u32> = BTreeMap::new();
        for choice in &choices {
            if *ordered && !choice.windows(2).all(|pair| pair[0] < pair[1]) {
                continue;
            }
            if let (Some(first), Some(last)) = (choice.iter().min(), choice.iter().max()) {
                shortest.entry(*first).and_modify(|known| *known = (*known).min(*last)).or_insert(*last);
            }
        }
        let near = shortest.into_iter().filter(|(first, last)| {
            let within = |from: u32, to: u32, most: u32| {
                to - from <= most && tokens[from as usize..=to as usize].iter().all(Option::is_some)
            };
            let is_near = |place: &u32| match place {
                place if place < first => within(*place, *first, *exclusion_distance),
                place if place > last => within(*last, *place, *exclusion_distance),
                _ => true,
            };
            within(*first, *last, *distance) && !excluded.iter().any(is_near)
        });
        near.collect()
    }

    /// Positions that ranking should see. A word that occurs only in a nearness node has those in its spans.
    fn shown(&self, leaf: LeafId) -> Vec<u32> {
        let mut near = Vec::new();
        let uses = uses(&self.plan.root, leaf, true, &mut near);
        let mut positions = self.positions(leaf);
        if let ([node], 1) = (near.as_slice(), uses) {
            let spans = self.spans(node);
            positions.retain(|place| spans.iter().any(|(first, last)| (first..=last).contains(&place)));
        }
        positions.retain(|_| self.is_active(leaf));
        positions
    }

    /// True if a leaf takes part in the match of the document, which matches.
    fn is_active(&self, leaf: LeafId) -> bool {
        uses(&self.plan.root, leaf, true, &mut Vec::new()) == 0 || self.is_active_in(&self.plan.root, leaf)
    }

    /// True if a leaf takes part in a tree that holds.
    fn is_active_in(&self, node: &PlanNode, leaf: LeafId) -> bool {
        let holds = |node: &PlanNode| {
            matches!(node, PlanNode::Leaf(_)) || self.node(node, false, &|_, negated| !negated)
        };
        let any = |nodes: &[PlanNode]| nodes.iter().any(|node| holds(node) && self.is_active_in(node, leaf));
        match node {
            PlanNode::True | PlanNode::False => false,
            PlanNode::Leaf(found) => *found == leaf,
            PlanNode::And(children) => children.iter().any(|child| self.is_active_in(child, leaf)),
            PlanNode::Or(children) => any(children),
            PlanNode::AndNot(first, _) => self.is_active_in(first, leaf),
            PlanNode::Rank(first, rest) => self.is_active_in(first, leaf) || any(rest),
            PlanNode::Near { leaves, .. } => leaves.contains(&leaf),
            PlanNode::SameElement { child, .. } => self.is_active_in(child, leaf),
        }
    }

    /// True if a node matches. `nearest` gives the result of nearest-neighbour leaves; its second argument is
    /// true if that is negated.
    fn node(&self, node: &PlanNode, negated: bool, nearest: &dyn Fn(LeafId, bool) -> bool) -> bool {
        match node {
            PlanNode::True => true,
            PlanNode::False => false,
            PlanNode::And(children) => children.iter().all(|child| self.node(child, negated, nearest)),
            PlanNode::Or(children) => children.iter().any(|child| self.node(child, negated, nearest)),
            PlanNode::AndNot(first, rest) => {
                self.node(first, negated, nearest)
                    && !rest.iter().any(|child| self.node(child, !negated, nearest))
            }
            PlanNode::Rank(first, _) => self.node(first, negated, nearest),
            PlanNode::Leaf(leaf) => match &self.plan.leaves[leaf.0].predicate {
                Predicate::Nearest { .. } => nearest(*leaf, negated),
                Predicate::Words(_) => !self.positions(*leaf).is_empty(),
                _ => self.leaf_weight(*leaf).is_some(),
            },
            PlanNode::Near { .. } => !self.spans(node).is_empty(),
            PlanNode::SameElement { child, elements, .. } => {
                let Some(DocumentValue::Array(people)) = self.document.get("people") else { return false };
                people.iter().enumerate().any(|(index, person)| {
                    let holds = |leaf: LeafId| self.weight(leaf, person, 1).is_some();
                    let allowed = elements.is_empty() || elements.contains(&(index as u32));
                    allowed
                        && match &**child {
                            PlanNode::And(_) => holds(LeafId(4)) && holds(LeafId(5)),
                            _ => holds(LeafId(4)) && !holds(LeafId(5)),
                        }
                })
            }
        }
    }
}

/// Number of uses of a leaf in a tree. The nearness nodes that search for it without excluding it are added
/// to `near`.
fn uses<'n>(node: &'n PlanNode, leaf: LeafId, wanted: bool, near: &mut Vec<&'n PlanNode>) -> usize {
    match node {
        PlanNode::True | PlanNode::False => 0,
        PlanNode::Leaf(found) => usize::from(*found == leaf),
        PlanNode::And(children) | PlanNode::Or(children) => {
            children.iter().map(|child| uses(child, leaf, wanted, near)).sum()
        }
        PlanNode::AndNot(first, rest) => {
            let rest: usize = rest.iter().map(|child| uses(child, leaf, false, near)).sum();
            uses(first, leaf, wanted, near) + rest
        }
        PlanNode::Rank(first, rest) => {
            let rest: usize = rest.iter().map(|child| uses(child, leaf, wanted, near)).sum();
            uses(first, leaf, wanted, near) + rest
        }
        PlanNode::Near { leaves, excluded, .. } => {
            if wanted && leaves.contains(&leaf) {
                near.push(node);
            }
            leaves.iter().chain(excluded).filter(|found| **found == leaf).count()
        }
        PlanNode::SameElement { child, .. } => uses(child, leaf, wanted, near),
    }
}

/// For each leaf, the distance of the last document among the nearest.
fn cutoffs(plan: &Plan, documents: &[(Fields, bool)]) -> BTreeMap<LeafId, f64> {
    let candidates: Vec<ReferenceMatcher<'_>> = documents
        .iter()
        .filter(|(_, live)| *live)
        .map(|(document, _)| ReferenceMatcher { plan, document })
        .filter(|reference| reference.node(&plan.root, false, &|_, negated| !negated))
        .collect();
    let cutoff = |leaf: LeafId| {
        let Predicate::Nearest { target_hits, threshold, .. } = &plan.leaves[leaf.0].predicate else {
            return None;
        };
        let mut distances: Vec<f64> = candidates.iter().map(|reference| reference.distance(leaf)).collect();
        distances.retain(|distance| *distance < f64::INFINITY && *distance <= threshold.unwrap_or(f64::MAX));
        distances.sort_by(f64::total_cmp);
        distances.truncate(*target_hits as usize);
        Some((leaf, distances.last().copied().unwrap_or(f64::NEG_INFINITY)))
    };
    (0..plan.leaves.len()).filter_map(|leaf| cutoff(LeafId(leaf))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn matching_finds_what_its_reference_does(
        documents in proptest::collection::vec(document(), 0..40),
        leaves in leaves(),
        root in tree(),
        chunk in 1usize..20,
    ) {
        let schema = test_schema();
        let plan = plan(&schema, root, leaves);
        let view = view(&schema, &documents, chunk);
        let demands = RankingDemands { leaves: true, counts: true, positions: true, statistics: true };
        let matches = match_plan(&plan, &view, demands, &|| false).unwrap();

        let cutoffs = cutoffs(&plan, &documents);
        let nearest = |reference: &ReferenceMatcher<'_>, leaf: LeafId| reference.distance(leaf) <= cutoffs[&leaf];
        let mut expected = Vec::new();
        for (place, (document, live)) in documents.iter().enumerate() {
            let reference = ReferenceMatcher { plan: &plan, document };
            if *live && reference.node(&plan.root, false, &|leaf, _| nearest(&reference, leaf)) {
                expected.push(place);
            }
        }
        // Words of which no statistics are asked for are searched only in the documents that are left.
        let unstated = RankingDemands { statistics: false, ..demands };
        let without = match_plan(&plan, &view, unstated, &|| false).unwrap();
        prop_assert_eq!(format!("{:?}", without.chunks), format!("{:?}", matches.chunks), "{:#?}", plan.root);
        for demands in [demands, RankingDemands::default()] {
            let matches = match_plan(&plan, &view, demands, &|| false).unwrap();
            let found = matches.chunks.iter().flat_map(|of_chunk| {
                of_chunk.documents.iter().map(|document| of_chunk.chunk * chunk + usize::from(*document))
            });
            prop_assert_eq!(found.collect::<Vec<_>>(), expected.clone(), "{:#?}", plan.root);
        }

        for of_chunk in &matches.chunks {
            for (number, leaf) in of_chunk.leaves.iter().enumerate() {
                let references = of_chunk.documents.iter().map(|document| {
                    ReferenceMatcher { plan: &plan, document: &documents[of_chunk.chunk * chunk + usize::from(*document)].0 }
                });
                let leaf_id = LeafId(number);
                match leaf {
                    LeafMatches::None => {
                        for reference in references {
                            prop_assert!(reference.shown(leaf_id).is_empty());
                            prop_assert!(reference.shown_weight(leaf_id).is_none());
                            prop_assert_eq!(reference.distance(leaf_id), f64::INFINITY);
                        }
                    }
                    LeafMatches::Matched(matched) => {
                        let expected: Vec<bool> = references.map(|reference| reference.shown_weight(leaf_id).is_some()).collect();
                        prop_assert_eq!(matched, &expected);
                    }
                    LeafMatches::Weights(weights) => {
                        let expected: Vec<Option<i64>> = references.map(|reference| reference.shown_weight(leaf_id).map(i64::from)).collect();
                        prop_assert_eq!(weights, &expected, "{:?}", &plan.leaves[number]);
                    }
                    LeafMatches::Distances(distances) => {
                        let expected: Vec<f64> = references.map(|reference| reference.distance(leaf_id)).collect();
                        prop_assert_eq!(distances, &expected);
                    }
                    LeafMatches::Words(occurrences) => {
                        let expected: Vec<Vec<u32>> = references.map(|reference| reference.shown(leaf_id)).collect();
                        let counts: Vec<u32> = expected.iter().map(|places| places.len() as u32).collect();
                        prop_assert_eq!(&occurrences.counts, &counts);
                        prop_assert_eq!(&occurrences.positions, &expected.concat());
                    }
                }
            }
        }

        let live: Vec<ReferenceMatcher<'_>> =
            documents.iter().filter(|(_, live)| *live).map(|(document, _)| ReferenceMatcher { plan: &plan, document }).collect();
        prop_assert_eq!(matches.documents, live.len() as u64);
        for (number, frequency) in matches.statistics.document_frequency.iter().enumerate() {
            let references = live.iter().filter(|reference| match plan.leaves[number].predicate {
                Predicate::Words(_) => !reference.positions(LeafId(number)).is_empty(),
                Predicate::WordIn(_) => reference.leaf_weight(LeafId(number)).is_some(),
                _ => false,
            });
            prop_assert_eq!(*frequency, references.count() as u64);
        }
        let words: Vec<&str> = plan
            .leaves
            .iter()
            .filter(|leaf| matches!(leaf.predicate, Predicate::Words(_) | Predicate::WordIn(_)))
            .map(|leaf| &*leaf.field)
            .collect();
        for field in words {
            let statistics = matches.statistics.fields.get(field).copied().unwrap_or_default();
            let lengths = live.iter().map(|reference| reference.tokens(field).len() as u64);
            prop_assert_eq!(statistics.tokens, lengths.clone().sum::<u64>());
            prop_assert_eq!(statistics.documents, lengths.filter(|length| *length > 0).count() as u64);
        }
    }
}
