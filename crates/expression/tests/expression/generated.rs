//! Every expression of `values.txt` over generated tensors, compared with a slow evaluator that shares no
//! code with the engine.

use std::collections::BTreeMap;

use millrace_expression::{
    EvaluationScratch, ExpressionFault, ExpressionProgram, ExpressionScope, FeatureKind, FeatureName,
    FunctionBody, InputBatch, ParsedExpression, StoredLabel, StoredTensor, StoredTensors, TensorRows,
    string_hash,
};
use millrace_tensor::{Tensor, TensorCells, TensorType};

use crate::slow;
use crate::slow::tensor::{SlowTensor, of_tensor};

/// Number of worlds per expression.
const WORLDS: u64 = 12;

/// Number of documents of a batch: more than are evaluated at once.
const DOCUMENTS: usize = 6_000;

/// Features of the expressions.
const FEATURES: [(&str, &str); 19] = [
    ("query(two)", "tensor()"),
    ("query(nan)", "tensor()"),
    ("attribute(price)", "tensor()"),
    ("attribute(name)", "tensor()"),
    ("query(v)", "tensor<float>(x[3])"),
    ("attribute(v)", "tensor<float>(x[3])"),
    ("attribute(b)", "tensor<int8>(x[2])"),
    ("attribute(m)", "tensor(k{})"),
    ("attribute(mx)", "tensor<float>(k{},x[3])"),
    ("query(mat)", "tensor(x[3],y[2])"),
    ("query(m)", "tensor<float>(k{})"),
    ("query(qx)", "tensor<float>(q{},x[3])"),
    ("attribute(tx)", "tensor<bfloat16>(t{},x[3])"),
    ("attribute(bx)", "tensor<int8>(t{},x[3])"),
    ("attribute(dx)", "tensor(t{},x[3])"),
    ("attribute(mxy)", "tensor<float>(k{},x[3],y[2])"),
    ("attribute(ptx)", "tensor<float>(p{},t{},x[3])"),
    ("query(pt)", "tensor<float>(p{},t{})"),
    ("attribute(pt)", "tensor(p{},t{})"),
];

const FUNCTIONS: [(&str, &[&str], &str); 5] = [
    ("one", &["x"], "x + 1"),
    ("half", &["x"], "x / 2"),
    ("both", &["a", "b"], "a * b + one(0)"),
    ("named", &["field"], "attribute(field)"),
    ("plain", &[], "1 + query(two)"),
];

/// Values for all features.
struct GeneratedFeatures {
    features: BTreeMap<String, Tensor>,
    functions: Vec<(&'static str, Vec<String>, ParsedExpression)>,
}

/// Reproducible pseudo-random numbers (SplitMix64).
struct GeneratorRandom(u64);

impl GeneratorRandom {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) % end
    }

    /// A tensor of this type: small numbers, including halves, and labels from a set of four, in one or two
    /// dimensions.
    fn tensor(&mut self, tensor_type: &TensorType) -> Tensor {
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let mapped = tensor_type.mapped().count();
        let labels: Vec<String> = match mapped {
            0 => Vec::new(),
            1 => names.into_iter().filter(|_| self.below(2) == 0).collect(),
            _ => {
                let pairs = names.iter().flat_map(|first| names.iter().map(move |second| [first, second]));
                pairs.filter(|_| self.below(3) == 0).flatten().cloned().collect()
            }
        };
        let subspaces = labels.len().checked_div(mapped).unwrap_or(1);
        let mut cells = TensorCells::with_capacity(tensor_type.cell(), subspaces * tensor_type.dense_size());
        for _ in 0..subspaces * tensor_type.dense_size() {
            cells.push(self.below(17) as f64 / 2.0 - 3.0);
        }
        Tensor::new(tensor_type.clone(), labels, cells).expect("labels and cells are of the same count")
    }
}

impl GeneratedFeatures {
    fn new(seed: u64) -> Self {
        let mut random = GeneratorRandom(seed);
        let features = FEATURES.iter().map(|(name, tensor_type)| {
            let tensor_type = TensorType::parse(tensor_type).expect("the types here are right");
            let value = match *name {
                "query(nan)" => Tensor::scalar(f64::NAN),
                "attribute(name)" => Tensor::scalar(string_hash(["blue", "red"][random.below(2) as usize])),
                _ => random.tensor(&tensor_type),
            };
            ((*name).to_owned(), value)
        });
        let functions = FUNCTIONS.map(|(name, parameters, body)| {
            let parameters = parameters.iter().map(|parameter| (*parameter).to_owned()).collect();
            (name, parameters, ParsedExpression::parse(body).expect("the functions here are right"))
        });
        GeneratedFeatures { features: features.collect(), functions: functions.into() }
    }

    /// Another world with the same query.
    fn with_query_of(mut self, other: &GeneratedFeatures) -> Self {
        let of_query = other.features.iter().filter(|(name, _)| name.starts_with("query("));
        self.features.extend(of_query.map(|(name, value)| (name.clone(), value.clone())));
        self
    }

    /// Results of the engine for an expression: as one document, and as the last of three.
    fn evaluate(&self, text: &str) -> Result<[Tensor; 2], String> {
        let expression = ParsedExpression::parse(text).map_err(|error| error.to_string())?;
        let program = ExpressionProgram::compile(&expression, self).map_err(|error| error.to_string())?;
        let values: Vec<&Tensor> =
            program.inputs().iter().map(|(name, _)| &self.features[&name.to_string()]).collect();
        let same: Vec<InputBatch<'_>> = values.iter().map(|value| InputBatch::tensor(value)).collect();
        let many: Vec<Vec<Tensor>> = values.iter().map(|value| vec![(*value).clone(); 3]).collect();
        let numbers: Vec<Vec<f64>> = values.iter().map(|value| vec![value.cells().get(0); 3]).collect();
        let each: Vec<InputBatch<'_>> = many
            .iter()
            .zip(&numbers)
            .map(|(tensors, numbers)| match tensors[0].tensor_type().is_scalar() {
                true => InputBatch::numbers(numbers),
                false => InputBatch::tensors(tensors),
            })
            .collect();
        let (mut one, mut three) = (EvaluationScratch::default(), EvaluationScratch::default());
        Ok([program.evaluate(&mut one, 1, &same).tensor(0), program.evaluate(&mut three, 3, &each).tensor(2)])
    }
}

/// Values of an input for documents of several worlds, in turns.
enum DocumentValues {
    Same(Tensor),
    Numbers(Vec<f64>),
    Rows(TensorCells, Vec<u16>),
    Stored(Vec<u8>, Vec<StoredTensor>, Vec<StoredLabel>),
    Tensors(Vec<Tensor>),
}

impl DocumentValues {
    fn new(name: &str, worlds: &[GeneratedFeatures], stored: bool) -> Self {
        let values: Vec<&Tensor> = worlds.iter().map(|world| &world.features[name]).collect();
        let each = (0..DOCUMENTS).map(|document| document % worlds.len());
        let tensor_type = values[0].tensor_type();
        if name.starts_with("query(") {
            DocumentValues::Same(values[0].clone())
        } else if tensor_type.is_scalar() {
            DocumentValues::Numbers(each.map(|world| values[world].cells().get(0)).collect())
        } else if !stored {
            DocumentValues::Tensors(each.map(|world| values[world].clone()).collect())
        } else if tensor_type.is_dense() {
            let mut cells = TensorCells::with_capacity(tensor_type.cell(), 0);
            values.iter().for_each(|value| cells.extend_from(value.cells(), 0..value.cells().len()));
            DocumentValues::Rows(cells, each.map(|world| world as u16).collect())
        } else {
            Self::stored(&values)
        }
    }

    /// Tensors in bytes, at odd offsets.
    fn stored(values: &[&Tensor]) -> Self {
        let (mut bytes, mut tensors, mut labels) = (vec![7u8], Vec::new(), Vec::new());
        for value in values {
            let first_label = labels.len() as u32;
            for label in value.all_labels() {
                labels.push(StoredLabel { at: bytes.len() as u32, length: label.len() as u32 });
                bytes.extend(label.as_bytes());
            }
            let cells_at = bytes.len() as u32;
            bytes.extend(value.cells().as_bytes());
            tensors.push(StoredTensor { cells_at, subspaces: value.subspaces() as u32, first_label });
        }
        let tensors = tensors.iter().copied().cycle().take(DOCUMENTS).collect();
        DocumentValues::Stored(bytes, tensors, labels)
    }

    fn operand(&self) -> InputBatch<'_> {
        match self {
            DocumentValues::Same(tensor) => InputBatch::tensor(tensor),
            DocumentValues::Numbers(numbers) => InputBatch::numbers(numbers),
            DocumentValues::Tensors(tensors) => InputBatch::tensors(tensors),
            DocumentValues::Stored(bytes, tensors, labels) => {
                InputBatch::stored(StoredTensors { label_bytes: bytes, cell_bytes: bytes, tensors, labels })
            }
            DocumentValues::Rows(cells, rows) => {
                let cells = match cells {
                    TensorCells::Double(cells) => TensorRows::Double(cells),
                    TensorCells::Float(cells) => TensorRows::Float(cells),
                    TensorCells::BFloat16(cells) => TensorRows::BFloat16(cells),
                    TensorCells::Int8(cells) => TensorRows::Int8(cells),
                };
                InputBatch::rows(cells, rows)
            }
        }
    }
}

/// Results of the engine for the documents of a batch, of worlds in turns: the world and its result, for some
/// documents.
fn evaluate_all(
    worlds: &[GeneratedFeatures],
    text: &str,
    stored: bool,
) -> Result<Vec<(usize, Tensor)>, String> {
    let expression = ParsedExpression::parse(text).map_err(|error| error.to_string())?;
    let program = ExpressionProgram::compile(&expression, &worlds[0]).map_err(|error| error.to_string())?;
    let inputs = program.inputs().iter();
    let values: Vec<DocumentValues> =
        inputs.map(|(name, _)| DocumentValues::new(&name.to_string(), worlds, stored)).collect();
    let operands: Vec<InputBatch<'_>> = values.iter().map(DocumentValues::operand).collect();
    let mut scratch = EvaluationScratch::default();
    let mut results = Vec::new();
    // The later runs are in the memory of the first.
    for documents in [DOCUMENTS, DOCUMENTS - 1, 1] {
        let output = program.evaluate(&mut scratch, documents, &operands);
        let some = (0..documents).filter(|document| {
            *document < worlds.len() || document % 499 == 0 || *document + worlds.len() >= documents
        });
        results.extend(some.map(|document| (document % worlds.len(), output.tensor(document))));
    }
    Ok(results)
}

impl ExpressionScope for GeneratedFeatures {
    fn feature(&self, name: &FeatureName) -> Result<FeatureKind, ExpressionFault> {
        match self.features.get(&name.to_string()) {
            Some(value) => Ok(FeatureKind::Input(value.tensor_type().clone())),
            None => Err(ExpressionFault::new(format!("unknown feature {name}"))),
        }
    }

    fn function(&self, name: &str) -> Option<FunctionBody<'_>> {
        let (_, parameters, body) = self.functions.iter().find(|(known, ..)| *known == name)?;
        Some(FunctionBody { parameters, body })
    }
}

impl slow::SlowNames for GeneratedFeatures {
    fn feature(&self, text: &str) -> Option<SlowTensor> {
        self.features.get(text).map(of_tensor)
    }

    fn function(&self, name: &str) -> Option<(Vec<String>, String)> {
        let (_, parameters, body) = FUNCTIONS.iter().find(|(known, ..)| *known == name)?;
        Some((parameters.iter().map(|parameter| (*parameter).to_owned()).collect(), (*body).to_owned()))
    }

    fn literal(&self, text: &str) -> Option<SlowTensor> {
        Tensor::parse(text, None).ok().map(|tensor| of_tensor(&tensor))
    }
}

fn is_close(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-4 * a.abs().max(1.0)
}

/// Difference of the two, if any.
fn compare(found: &Tensor, expected: &SlowTensor) -> Option<String> {
    let found = of_tensor(found);
    let same = found.dimensions == expected.dimensions
        && found.cells.len() == expected.cells.len()
        && found
            .cells
            .iter()
            .zip(&expected.cells)
            .all(|((at, x), (other, y))| at == other && is_close(*x, *y));
    (!same).then(|| format!("found {:?}, not {:?}", found.cells, expected.cells))
}

#[test]
fn every_expression_of_the_table_equals_its_reference() {
    let lines =
        include_str!("../values.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines = lines.filter_map(|line| line.split_once("=> "));
    let expressions: Vec<&str> =
        lines.filter(|(_, value)| !value.starts_with("error")).map(|(text, _)| text.trim()).collect();
    let (mut wrong, mut unknown) = (Vec::new(), Vec::new());
    for text in &expressions {
        for seed in 0..WORLDS {
            let world = GeneratedFeatures::new(seed);
            let expected = match slow::evaluate(text, &world) {
                Ok(expected) => expected,
                Err(slow::UnknownConstruct(what)) => {
                    unknown.push(format!("{text}: {what}"));
                    break;
                }
            };
            match world.evaluate(text) {
                Ok(found) => wrong.extend(
                    found
                        .iter()
                        .find_map(|found| compare(found, &expected))
                        .map(|how| format!("{text}: {how}")),
                ),
                Err(error) => wrong.push(format!("{text}: {error}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    // Literals that contain expressions.
    assert!(
        unknown.len() <= 6,
        "{} are not known to the slow evaluator:\n{}",
        unknown.len(),
        unknown.join("\n")
    );
    assert!(expressions.len() >= 300, "the table has {} expressions", expressions.len());
}

/// Batches of documents with different values, in all forms that inputs have.
#[test]
fn every_expression_of_the_table_equals_its_reference_in_batches() {
    let lines =
        include_str!("../values.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines = lines.filter_map(|line| line.split_once("=> "));
    let more = MORE_EXPRESSIONS.iter().copied();
    let expressions = lines.filter(|(_, value)| !value.starts_with("error")).map(|(text, _)| text.trim());
    let of_documents = expressions.chain(more).filter(|text| text.contains("attribute("));
    let compared = compare_in_batches(of_documents, 100);
    assert!(compared >= 90, "{compared} expressions use values of documents");
}

/// Each aggregator over the vectors of the documents below each over those of the query, and functions of the
/// sums between them.
#[test]
fn late_interaction_equals_its_reference_for_all_aggregators() {
    let aggregators = ["avg", "count", "max", "median", "min", "prod", "sum"];
    let mut texts: Vec<String> = INTERACTIONS.iter().map(|text| (*text).to_owned()).collect();
    for (at, inner) in aggregators.iter().enumerate() {
        let product = "sum(query(qx) * attribute(tx), x)";
        for outer in [at, at + 3, at + 5].map(|at| aggregators[at % aggregators.len()]) {
            texts.push(format!("reduce(reduce({product}, {inner}, t), {outer}, q)"));
        }
        texts.push(format!("reduce(reduce({product}, {inner}, q), sum, t)"));
        texts.push(format!("reduce({product}, {inner})"));
        texts.push(format!("reduce({product}, {inner}, t)"));
        for field in ["tx", "bx", "dx"] {
            texts.push(format!("reduce(euclidean_distance(query(qx), attribute({field}), x), {inner}, t)"));
            texts.push(format!("sum(reduce(sum(hamming(query(qx), attribute({field})), x), {inner}, t), q)"));
        }
        texts.push(format!("sum(reduce(cosine_similarity(query(qx), attribute(dx), x), {inner}, t), q)"));
        texts.push(format!("reduce(cosine_similarity(query(v), attribute(tx), x), {inner})"));
    }
    // A query with four vectors.
    let compared = compare_in_batches(texts.iter().map(String::as_str), 105);
    assert_eq!(compared, texts.len());
}

/// Compares the results for documents of some worlds, all with the query of one of these; returns the number
/// of expressions.
fn compare_in_batches<'t>(texts: impl Iterator<Item = &'t str>, query: u64) -> usize {
    let of_query = GeneratedFeatures::new(query);
    let worlds: Vec<GeneratedFeatures> =
        (0..WORLDS).map(|seed| GeneratedFeatures::new(100 + seed).with_query_of(&of_query)).collect();
    let (mut wrong, mut unknown, mut compared) = (Vec::new(), Vec::new(), 0);
    for text in texts {
        let expected: Result<Vec<SlowTensor>, _> =
            worlds.iter().map(|world| slow::evaluate(text, world)).collect();
        let Ok(expected) = expected else {
            unknown.push(text);
            continue;
        };
        compared += 1;
        for stored in [false, true] {
            match evaluate_all(&worlds, text, stored) {
                Ok(found) => wrong.extend(
                    found
                        .iter()
                        .find_map(|(world, found)| compare(found, &expected[*world]))
                        .map(|how| format!("{text}, stored {stored}: {how}")),
                ),
                Err(error) => wrong.push(format!("{text}: {error}")),
            }
        }
    }
    assert!(unknown.is_empty(), "not known to the slow evaluator: {unknown:?}");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    compared
}

#[test]
fn only_documents_past_the_end_of_a_column_have_zeros() {
    let world = GeneratedFeatures::new(1);
    let (cells, rows) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0, 1, 2]);
    for (text, expected) in [
        ("sum(attribute(v) + 1)", [9.0, 18.0, 3.0]),
        ("sum(attribute(v) * attribute(v))", [14.0, 77.0, 0.0]),
        ("attribute(v){x:1}", [2.0, 5.0, 0.0]),
    ] {
        let expression = ParsedExpression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let program =
            ExpressionProgram::compile(&expression, &world).unwrap_or_else(|error| panic!("{text}: {error}"));
        let operands = [InputBatch::rows(TensorRows::Float(&cells), &rows)];
        let mut scratch = EvaluationScratch::default();
        let output = program.evaluate(&mut scratch, rows.len(), &operands);
        let found = [0, 1, 2].map(|document| output.number(document));
        assert_eq!(found, expected, "{text}");
    }
}

/// Expressions over tensors of documents, beside those of the table.
const MORE_EXPRESSIONS: [&str; 60] = [
    "reduce(hamming(attribute(b), tensor<int8>(x[2]):[1,2]), sum) + sum(sum(query(mat) * attribute(v), x))",
    "sum(tensor(x[3])(sum(attribute(v) * tensor(z[40])(z) * x)))",
    "reduce(sum(query(v) * attribute(mx), x), max, k)",
    "reduce(sum(query(v) * attribute(mx), x), min, k)",
    "reduce(sum(query(v) * attribute(mx), x), avg)",
    "reduce(sum(query(v) * attribute(mx), x), median)",
    "reduce(sum(query(v) * attribute(mx), x), count)",
    "sum(query(v) * attribute(mx), x)",
    "sum(attribute(v) * attribute(mx), x) + attribute(m)",
    "sum(query(mat) * attribute(v), x)",
    "sum(sum(query(mat) * attribute(v), x))",
    "reduce(sum(query(mat) * attribute(v), x), max)",
    "reduce(sum(map(query(mat) - attribute(v), f(d)(d * d)), x), min, y)",
    "sum(attribute(m) * attribute(mx))",
    "attribute(m) * attribute(mx)",
    "merge(attribute(m), attribute(m) * 2, f(a, b)(a - b))",
    "tensor(x[3])(attribute(v){x:(x)} + attribute(price))",
    "tensor(x[3])(sum(attribute(m)) * x)",
    "tensor(x[2], y[3])(query(v){x:(y)} * attribute(price) + x)",
    "sum(l2_normalize(attribute(v), x) * query(v))",
    "reduce(argmax(attribute(v)), count)",
    "sum(query(v) * unpack_bits(attribute(b)){x:3})",
    "map_subspaces(attribute(mx), f(t)(reduce(t, max)))",
    "filter_subspaces(attribute(mx), f(t)(reduce(t, sum) > 0))",
    "attribute(v){x:2} + attribute(v){x:(attribute(price))}",
    "attribute(v){x:1} + sum(attribute(v))",
    "query(mat){x:1} * attribute(v){x:0}",
    "query(mat){x:1,y:(attribute(price))}",
    "query(mat){x:1,y:(attribute(price))} + sum(attribute(mx))",
    "attribute(v){x:1} * attribute(v){x:(attribute(price))} + sum(attribute(mx))",
    "sum(query(v) * attribute(v){x:2}) + sum(attribute(mx))",
    "sum(query(m) * attribute(m)) + sum(attribute(mx))",
    "sum(query(m) * attribute(m))",
    "sum(attribute(m) * query(m), k) + attribute(price)",
    "reduce(attribute(m) - query(m), max)",
    "reduce(join(query(m), attribute(m), f(a, b)(a * 2 - b)), avg)",
    "reduce(attribute(m) * attribute(m), median)",
    "sum(map(attribute(m), f(x)(x * 2)) * query(m))",
    "sum(map(query(m), f(x)(x * 2)) * attribute(m))",
    "sum(query(m) * attribute(m)) + sum(attribute(m))",
    "sum(map(query(m) - attribute(m), f(x)(x * x)))",
    "tensor(a[2], x[3])(attribute(v){x:(x)})",
    "tensor(a[4])(attribute(v){x:(a)})",
    "tensor(a[2], b[3])(query(mat){x:(b),y:(a)}) * attribute(price)",
    "tensor(a[2])(attribute(v){x:1})",
    "tensor(a[2], b[2])(attribute(v){x:(a + b)})",
    "top(2, attribute(m))",
    "sum(top(1.5, attribute(m)))",
    "top(attribute(price), attribute(m))",
    "reduce(top(3, attribute(m) * query(m)), count)",
    "top(attribute(price), query(m))",
    "top(query(nan), attribute(m))",
    "sum(query(pt) * attribute(pt))",
    "reduce(attribute(pt) - query(pt), max)",
    "sum(query(pt) * attribute(ptx))",
    "reduce(attribute(ptx) * query(pt), median)",
    "sum(query(m) * attribute(mx))",
    "reduce(join(query(m), attribute(mx), f(a, b)(a - 2 * b)), min)",
    "sum(query(qx) * attribute(pt) * attribute(tx))",
    "reduce(attribute(pt) * attribute(tx), avg)",
];

/// Expressions over the vectors of a query and of documents.
const INTERACTIONS: [&str; 29] = [
    "sum(query(qx) * attribute(tx), x)",
    "sum(attribute(tx) * query(qx), x)",
    "sum(sum(query(qx) * attribute(tx), x), t)",
    "sum(query(qx) * attribute(tx))",
    "sum(query(qx) * attribute(tx), x, q)",
    "sum(query(v) * attribute(mx))",
    "sum(query(qx) * attribute(tx), x) * attribute(price)",
    "reduce(1 / (2 + euclidean_distance(query(qx), attribute(tx), x)), max, t)",
    "sum(reduce(1 - sum(query(qx) * attribute(dx), x), min, t), q)",
    "sum(reduce(sqrt(sum(map(query(qx) - attribute(bx), f(d)(d * d)), x)), avg, t), q)",
    "sum(reduce(sum(query(qx) * attribute(tx), x), max, t) * reduce(query(qx), avg, x), q)",
    "reduce(softmax(sum(query(v) * attribute(tx), x), t), max, t)",
    "sum(softmax(sum(query(qx) * attribute(dx), x), t) * sum(query(qx) * attribute(dx), x))",
    "sum(attribute(tx) * attribute(tx), x)",
    "sum(map(attribute(bx), f(x)(x * x)))",
    "sum(l2_normalize(attribute(tx), x) * query(v))",
    "cosine_similarity(query(qx), attribute(tx), x)",
    "sum(query(mat) * attribute(tx), x)",
    "reduce(reduce(sum(query(mat) * attribute(tx), x), max, t), sum, y)",
    "reduce(reduce(sum(query(mat) * attribute(tx), x), min, y), avg, t)",
    "sum(query(mat) * attribute(mxy), x, y)",
    "sum(reduce(sum(query(qx) * attribute(mxy), x), max, k, y), q)",
    "reduce(reduce(sum(query(qx) * attribute(mxy), x), max, k), avg, y)",
    "reduce(sum(reduce(sum(query(qx) * attribute(ptx), x), max, t), q), max, p)",
    "sum(reduce(reduce(sum(attribute(ptx) * query(qx), x), avg, p), max, t), q)",
    "reduce(sum(query(qx) * attribute(ptx), x), median, t)",
    "reduce(sum(query(v) * attribute(ptx), x), max, t)",
    "reduce(sum(reduce(sum(query(qx) * attribute(ptx), x), max, p), q), avg, t) * 2",
    "reduce(reduce(euclidean_distance(query(mat), attribute(ptx), x), min, t), avg, p)",
];
