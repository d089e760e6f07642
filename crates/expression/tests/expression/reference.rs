//! Tensor functions compared with a simple model: a tensor is a map from addresses to numbers, and every
//! function is a loop over it.

use std::collections::BTreeMap;

use millrace_expression::{
    EvaluationScratch, ExpressionFault, ExpressionProgram, ExpressionScope, FeatureKind, FeatureName,
    FunctionBody, InputBatch, ParsedExpression,
};
use millrace_tensor::{DimensionKind, Tensor, TensorCells, TensorType};
use proptest::prelude::*;

/// Dimension and label of each entry; the order of a `BTreeMap` makes equal addresses compare equal.
type Address = BTreeMap<String, String>;
type Plain = BTreeMap<Address, f64>;

fn plain(tensor: &Tensor) -> Plain {
    let tensor_type = tensor.tensor_type();
    let size = tensor_type.dense_size();
    (0..tensor.cells().len())
        .map(|cell| {
            let mut address = Address::new();
            let mut rest = cell % size;
            for (name, size) in tensor_type.indexed().collect::<Vec<_>>().into_iter().rev() {
                address.insert(name.to_owned(), (rest % size).to_string());
                rest /= size;
            }
            for (dimension, label) in tensor_type.mapped().zip(tensor.labels(cell / size)) {
                address.insert(dimension.name.clone(), label.clone());
            }
            (address, tensor.cells().get(cell))
        })
        .collect()
}

fn join(a: &Plain, b: &Plain, f: impl Fn(f64, f64) -> f64) -> Plain {
    let mut joined = Plain::new();
    for (left, x) in a {
        for (right, y) in b {
            if left.iter().all(|(name, label)| right.get(name).is_none_or(|other| other == label)) {
                joined.insert(left.clone().into_iter().chain(right.clone()).collect(), f(*x, *y));
            }
        }
    }
    joined
}

fn merge(a: &Plain, b: &Plain, f: impl Fn(f64, f64) -> f64) -> Plain {
    let mut merged = a.clone();
    for (address, y) in b {
        merged.entry(address.clone()).and_modify(|x| *x = f(*x, *y)).or_insert(*y);
    }
    merged
}

fn reduce(a: &Plain, over: &[&str], f: impl Fn(&[f64]) -> f64) -> Plain {
    let mut groups: BTreeMap<Address, Vec<f64>> = BTreeMap::new();
    for (address, x) in a {
        let kept = address.iter().filter(|(name, _)| !over.contains(&name.as_str()));
        groups.entry(kept.map(|(name, label)| (name.clone(), label.clone())).collect()).or_default().push(*x);
    }
    groups.into_iter().map(|(address, cells)| (address, f(&cells))).collect()
}

fn rename(a: &Plain, from: &str, to: &str) -> Plain {
    let name = |name: String| if name == from { to.to_owned() } else { name };
    let address =
        |address: &Address| address.clone().into_iter().map(|(n, label)| (name(n), label)).collect();
    a.iter().map(|(of, x)| (address(of), *x)).collect()
}

fn peek(a: &Plain, dimension: &str, label: &str) -> Plain {
    let matching = a.iter().filter(|(address, _)| address.get(dimension).is_some_and(|found| found == label));
    matching
        .map(|(address, x)| {
            let mut address = address.clone();
            address.remove(dimension);
            (address, *x)
        })
        .collect()
}

struct ReferenceInputs(Tensor, Tensor);

impl ReferenceInputs {
    fn of(&self, name: &FeatureName) -> &Tensor {
        if name.name == "a" { &self.0 } else { &self.1 }
    }
}

impl ExpressionScope for ReferenceInputs {
    fn feature(&self, name: &FeatureName) -> Result<FeatureKind, ExpressionFault> {
        Ok(FeatureKind::Input(self.of(name).tensor_type().clone()))
    }

    fn function(&self, _: &str) -> Option<FunctionBody<'_>> {
        None
    }
}

/// Checks that the expression of `a` and `b` has the cells of the model, both as one value and document by
/// document.
fn check(text: &str, a: &Tensor, b: &Tensor, expected: &Plain) -> Result<(), TestCaseError> {
    let inputs = ReferenceInputs(a.clone(), b.clone());
    let expression =
        ParsedExpression::parse(text).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
    let program = ExpressionProgram::compile(&expression, &inputs)
        .map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
    let values: Vec<&Tensor> = program.inputs().iter().map(|(name, _)| inputs.of(name)).collect();
    let same: Vec<InputBatch<'_>> = values.iter().map(|value| InputBatch::tensor(value)).collect();
    let each: Vec<InputBatch<'_>> =
        values.iter().map(|value| InputBatch::tensors(std::slice::from_ref(*value))).collect();
    for operands in [&same, &each] {
        let mut scratch = EvaluationScratch::default();
        let found = plain(&program.evaluate(&mut scratch, 1, operands).tensor(0));
        let close = found.len() == expected.len()
            && found.iter().zip(expected).all(|((at, x), (expected_at, y))| {
                at == expected_at && (x == y || (x - y).abs() <= 1e-4 * y.abs().max(1.0))
            });
        prop_assert!(close, "{text} of\n{a:?}\n{b:?}\nis {found:?}\nnot {expected:?}");
    }
    Ok(())
}

/// A tensor of this type: small whole numbers, up to three subspaces with few distinct labels.
fn tensor(spec: &'static str) -> impl Strategy<Value = Tensor> {
    let tensor_type = TensorType::parse(spec).expect("the types here are right");
    let mapped = tensor_type.mapped().count();
    let addresses = if mapped == 0 {
        Just([vec![]].into()).boxed()
    } else {
        proptest::collection::btree_set(proptest::collection::vec("[a-c]", mapped), 0..4).boxed()
    };
    (addresses, proptest::collection::vec(-9i8..9, 3 * tensor_type.dense_size())).prop_map(
        move |(addresses, numbers): (std::collections::BTreeSet<Vec<String>>, Vec<i8>)| {
            let count = addresses.len() * tensor_type.dense_size();
            let mut cells = TensorCells::with_capacity(tensor_type.cell(), count);
            numbers.iter().take(count).for_each(|number| cells.push(f64::from(*number)));
            Tensor::new(tensor_type.clone(), addresses.into_iter().flatten().collect(), cells)
                .expect("labels and cells are of the same count")
        },
    )
}

/// Pairs of tensors with compatible types, in all possible combinations.
fn pair() -> impl Strategy<Value = (Tensor, Tensor)> {
    prop_oneof![
        (tensor("tensor(x[3])"), tensor("tensor(x[3])")),
        (tensor("tensor<float>(x[3])"), tensor("tensor<bfloat16>(x[3])")),
        (tensor("tensor<int8>(x[3])"), tensor("tensor<int8>(m{},x[3])")),
        (tensor("tensor<float>(m{},x[3])"), tensor("tensor<float>(x[3])")),
        (tensor("tensor(m{},x[3])"), tensor("tensor<float>(n{},x[3])")),
        (tensor("tensor<float>(a[2],x[3])"), tensor("tensor<float>(m{},x[3])")),
        (tensor("tensor(x[3],y[2])"), tensor("tensor(a[2],x[3])")),
        (tensor("tensor(m{},n{})"), tensor("tensor<float>(n{},x[2])")),
        (tensor("tensor(m{},x[2],y[2])"), tensor("tensor(m{},y[2],z[2])")),
        (tensor("tensor(m{})"), tensor("tensor(x[2])")),
    ]
}

fn same_type() -> impl Strategy<Value = (Tensor, Tensor)> {
    prop_oneof![
        (tensor("tensor(x[3])"), tensor("tensor(x[3])")),
        (tensor("tensor(m{})"), tensor("tensor(m{})")),
        (tensor("tensor<float>(m{},n{},x[2])"), tensor("tensor<float>(m{},n{},x[2])")),
    ]
}

fn names(tensor: &Tensor) -> Vec<String> {
    tensor.tensor_type().dimensions().iter().map(|d| d.name.clone()).collect()
}

fn sum(cells: &[f64]) -> f64 {
    cells.iter().sum()
}

/// Reduction over all dimensions: a number even without cells.
fn all(a: &Plain, f: impl Fn(&[f64]) -> f64) -> Plain {
    let cells: Vec<f64> = a.values().copied().collect();
    Plain::from([(Address::new(), if cells.is_empty() { 0.0 } else { f(&cells) })])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn join_equals_its_reference((a, b) in pair()) {
        let (p, q) = (plain(&a), plain(&b));
        check("a * b", &a, &b, &join(&p, &q, |x, y| x * y))?;
        check("join(a, b, f(x,y)(x * 2 - y))", &a, &b, &join(&p, &q, |x, y| x * 2.0 - y))?;
        check("map(a, f(x)(x * x + 1))", &a, &b, &p.iter().map(|(at, x)| (at.clone(), x * x + 1.0)).collect())?;
    }

    #[test]
    fn merge_equals_its_reference((a, b) in same_type()) {
        check("merge(a, b, f(x,y)(x - y))", &a, &b, &merge(&plain(&a), &plain(&b), |x, y| x - y))?;
    }

    #[test]
    fn reduce_equals_its_reference((a, b) in pair()) {
        let p = plain(&a);
        check("sum(a)", &a, &b, &all(&p, sum))?;
        check("reduce(a, count)", &a, &b, &all(&p, |cells| cells.len() as f64))?;
        for name in names(&a) {
            if a.tensor_type().dimensions().len() == 1 || p.is_empty() {
                continue;
            }
            check(&format!("sum(a, {name})"), &a, &b, &reduce(&p, &[&name], sum))?;
            let max = |cells: &[f64]| cells.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            check(&format!("reduce(a, max, {name})"), &a, &b, &reduce(&p, &[&name], max))?;
            let avg = |cells: &[f64]| sum(cells) / cells.len() as f64;
            check(&format!("reduce(a, avg, {name})"), &a, &b, &reduce(&p, &[&name], avg))?;
        }
    }

    #[test]
    fn rename_and_peek_equal_their_references((a, b) in pair()) {
        let p = plain(&a);
        for dimension in a.tensor_type().dimensions() {
            let name = dimension.name.as_str();
            check(&format!("rename(a, {name}, zz)"), &a, &b, &rename(&p, name, "zz"))?;
            check(&format!("rename(a, {name}, aa)"), &a, &b, &rename(&p, name, "aa"))?;
            let label = if dimension.kind == DimensionKind::Mapped { "b" } else { "1" };
            let peeked = peek(&p, name, label);
            let nothing_mapped = a.tensor_type().mapped().all(|d| d.name == name);
            if !(nothing_mapped && peeked.is_empty()) {
                check(&format!("a{{{name}:{label}}}"), &a, &b, &peeked)?;
            }
        }
    }

    #[test]
    fn concat_equals_its_reference((a, b) in pair()) {
        let shifted = |p: &Plain, by: usize| -> Plain {
            let shift = |mut address: Address| {
                let index: usize = address.get("k").and_then(|label| label.parse().ok()).unwrap_or(0);
                address.insert("k".to_owned(), (index + by).to_string());
                address
            };
            p.iter().map(|(address, x)| (shift(address.clone()), *x)).collect()
        };
        let (p, q) = (plain(&a), plain(&b));
        // Each side is repeated over the dimensions of the other, then the two are concatenated.
        let mut expected = shifted(&join(&p, &q, |x, _| x), 0);
        expected.extend(shifted(&join(&p, &q, |_, y| y), 1));
        check("concat(a, b, k)", &a, &b, &expected)?;
    }

    #[test]
    fn patterns_with_kernels_equal_their_references((a, b) in pair()) {
        let (p, q) = (plain(&a), plain(&b));
        let product = join(&p, &q, |x, y| x * y);
        check("sum(a * b)", &a, &b, &all(&product, sum))?;
        let difference = join(&p, &q, |x, y| (x - y) * (x - y));
        check("sum(map(a - b, f(x)(x * x)))", &a, &b, &all(&difference, sum))?;
        let bits = join(&p, &q, |x, y| f64::from((x as i8 ^ y as i8).count_ones()));
        check("sum(hamming(a, b))", &a, &b, &all(&bits, sum))?;
        let common = names(&a).contains(&"x".to_owned()) && names(&b).contains(&"x".to_owned());
        let joined: std::collections::BTreeSet<String> = names(&a).into_iter().chain(names(&b)).collect();
        if common && joined.len() > 1 && !product.is_empty() {
            check("sum(a * b, x)", &a, &b, &reduce(&product, &["x"], sum))?;
        }
        if let ([a_other, _], [b_other, _]) = (names(&a).as_slice(), names(&b).as_slice())
            && common && a_other != b_other && names(&a)[1] == "x" && names(&b)[1] == "x"
        {
            let max = |cells: &[f64]| cells.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let best = reduce(&reduce(&product, &["x"], sum), &[b_other], max);
            let text = format!("sum(reduce(sum(a * b, x), max, {b_other}), {a_other})");
            check(&text, &a, &b, &all(&best, sum))?;
        }
    }
}
